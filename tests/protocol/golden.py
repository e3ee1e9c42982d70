"""Golden vectors of the wire: bytes as Apache Kafka 3.9.1 writes them."""

from functools import cache
from typing import Any, NamedTuple

from odradek.protocol import messages
from odradek.protocol.api_keys import APIS
from odradek.protocol.schema import Message
from tests.support import golden_lines

# Keys whose newest versions are of 4.1: 3.9.1 writes none of them, and the clients of 4.1 are the oracle.
OF_4_1 = {0: 12, 26: 5, 28: 5, 68: 1, 69: 1}


class Vector(NamedTuple):
    key: int
    type: str
    version: int
    sample: str
    json: dict[str, Any]
    body: bytes

    @property
    def message(self) -> type[Message]:
        return message_class(self.key, self.type)

    @property
    def name(self) -> str:
        return f"{self.message.__name__}-v{self.version}-{self.sample}"


def message_class(key: int, kind: str) -> type[Message]:
    return messages.request_class(key) if kind == "request" else messages.response_class(key)


@cache
def all_vectors() -> list[Vector]:
    return [
        Vector(row["key"], row["type"], row["version"], row["sample"], row["json"], bytes.fromhex(row["hex"]))
        for row in golden_lines("wire.jsonl.gz")
    ]


def has_table(vector: Vector) -> bool:
    return vector.key in APIS and APIS[vector.key].first_version <= vector.version


@cache
def vectors() -> list[Vector]:
    """Those of a version we have a table for."""
    return [vector for vector in all_vectors() if has_table(vector)]


def message_classes() -> list[type[Message]]:
    return [message_class(key, kind) for key in APIS for kind in ("request", "response")]


def has_vectors(message: type[Message], version: int) -> bool:
    return version < OF_4_1.get(message.KEY, version + 1)


def message_versions() -> list[tuple[type[Message], int]]:
    return [(cls, v) for cls in message_classes() for v in range(cls.VERSIONS.first, cls.VERSIONS.last + 1)]
