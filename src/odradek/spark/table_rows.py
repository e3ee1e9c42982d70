"""The rows of a table as its files have them, with the columns that divide it, which Delta keeps beside a file and not in it."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlparse

import pyarrow as pa
from deltalake import DeltaTable

from odradek.spark.object_store import answering, answers
from odradek.spark.partitioning import texts_of
from odradek.spark.places import below, is_in_store
from odradek.spark.storage import storage_of

_PIECE_ROWS = 65_536


class PlacedFile(NamedTuple):
    """A file, and what the table says of all its rows."""

    name: str  # its path from the table on
    partition: tuple[tuple[str, str | None], ...] = ()  # as Delta writes it
    size_bytes: int = 0  # as the table says; 0 of a file that no table names yet


def path_of(uri: str) -> str:
    """Of a table, as its user names it: a directory of this machine, or where in a store it is."""
    if is_in_store(uri):
        return uri.rstrip("/")
    return unquote(urlparse(uri).path) if "://" in uri else uri


@answering
def files_of(table: DeltaTable) -> list[PlacedFile]:
    """Those of the version that is open, in the order of their names."""
    columns = table.metadata().partition_columns
    found = pa.table(table.get_add_actions(flatten=True))
    texts = [texts_of(found.column(f"partition.{name}").combine_chunks()).to_pylist() for name in columns]
    names = [unquote(path) for path in found.column("path").to_pylist()]
    sizes = found.column("size_bytes").to_pylist()
    return sorted(
        PlacedFile(name, tuple((column, texts[n][row]) for n, column in enumerate(columns)), size)
        for row, (name, size) in enumerate(zip(names, sizes, strict=True))
    )


def file_paths(table: DeltaTable) -> list[str]:
    """Of the files of a table in a directory, as they are found on the disk. (`DeltaTable.file_uris` has the directory as in an address, with
    %20 for a space, and the rest as on the disk.)"""
    return [below(path_of(table.table_uri), file.name) for file in files_of(table)]


def rows_of(
    table: DeltaTable, dividing: pa.Schema, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """All rows, or so many columns of them. `dividing` are the columns that divide the table and that rows have."""
    uri = path_of(table.table_uri)
    storage = storage_of(uri)
    for placed in files_of(table):
        with answers(uri), storage.parquet(placed.name) as file:
            own = file.schema_arrow.names
            read = None if columns is None else [name for name in columns if name in own]
            for rows in file.iter_batches(batch_size=_PIECE_ROWS, columns=read):
                whole = attached(rows, placed, dividing)
                yield whole if columns is None else whole.select(columns)


def attached(rows: pa.RecordBatch, file: PlacedFile, dividing: pa.Schema) -> pa.RecordBatch:
    """With a column for each of `dividing`, which has one value in all rows of a file."""
    values = dict(file.partition)
    for field in dividing:
        if field.name not in rows.schema.names:
            value = _value(values[field.name], field.type)
            rows = rows.append_column(field, pa.repeat(value, rows.num_rows))
    return rows


def _value(text: str | None, kind: pa.DataType) -> pa.Scalar:
    if text is None:
        return pa.scalar(None, kind)
    if pa.types.is_timestamp(kind):
        return pa.scalar(text).cast(pa.timestamp("us")).cast(kind)
    return pa.scalar(text).cast(kind)
