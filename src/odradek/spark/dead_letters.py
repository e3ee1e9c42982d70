"""The dead letters of a table: a Delta table of their own below it, read back for people and programs."""

import base64
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from odradek.model.errors import OdradekError
from odradek.spark import tables
from odradek.spark.tables import path_of
from odradek.spark.writing import dead_letters_of


class NoTable(OdradekError):
    """There is no table to have dead letters."""


class DeadLetter(NamedTuple):
    topic: str
    partition: int
    offset: int
    error: str
    key: bytes | None
    value: bytes | None

    @property
    def value_text(self) -> str:
        return (self.value or b"").decode(errors="replace")

    def to_json(self) -> dict[str, Any]:
        """The bytes as they were, in base64: what is in here could not be read."""

        def as_text(data: bytes | None) -> str | None:
            return None if data is None else base64.b64encode(data).decode()

        return {**self._asdict(), "key": as_text(self.key), "value": as_text(self.value)}


def dead_letters(table: str) -> list[DeadLetter]:
    """In the order of topic, partition and offset."""
    if tables.open_table(table) is None:
        raise NoTable(f"there is no Delta table at {table}")
    letters = tables.open_table(dead_letters_of(table))
    return [] if letters is None else sorted(_read(letters.file_uris()), key=lambda x: x[:3])


def _read(uris: list[str]) -> Iterator[DeadLetter]:
    for uri in uris:
        for row in pq.read_table(path_of(uri), columns=list(DeadLetter._fields)).to_pylist():
            yield DeadLetter(**row)
