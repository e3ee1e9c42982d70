"""Files written anew with wider types, for a commit that widens columns of a table (`odradek.spark.evolution`).

A file at a time, a piece at a time: what is held does not follow what the table holds. The new files bear the names of the
batch whose commit will name them, so that they are found as orphans where it never does.
"""

from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import CommitFailedError

from odradek.spark import in_work
from odradek.spark.evolution import same
from odradek.spark.fingerprint import EMPTY, Fingerprint, of_rows
from odradek.spark.parquet import FileWriter, TableFile, file_name
from odradek.spark.partitioning import directory_of
from odradek.spark.storage import storage_of
from odradek.spark.table_rows import PlacedFile, attached

_PIECE_ROWS = 65_536


class Recast(NamedTuple):
    """A file in place of another. Fingerprints are of their rows: a wider type may write the same value differently."""

    file: TableFile
    before: Fingerprint
    after: Fingerprint


class Recasts:
    """Those of one batch; what was written anew once is not written again when the commit has to be tried again."""

    def __init__(self, table: str, app_id: str, batch_id: int) -> None:
        self._table = table
        self._who = app_id, batch_id
        self._done: dict[str, Recast | None] = {}

    def of(self, file: PlacedFile, columns: pa.Schema, dividing: pa.Schema) -> Recast | None:
        """In place of `file`, with the types of `columns`; None where it has them. `dividing`: the columns that files do not have."""
        key = f"{file.name} {columns}"
        if key not in self._done:
            self._done[key] = self._written(file, columns, dividing)
        return self._done[key]

    def _written(self, file: PlacedFile, columns: pa.Schema, dividing: pa.Schema) -> Recast | None:
        try:
            source = storage_of(self._table).parquet(file.name)
        except FileNotFoundError:  # by OPTIMIZE and VACUUM, or by another driver that had committed the batch
            raise CommitFailedError(f"{self._table}/{file.name} was taken away meanwhile") from None
        with source:
            there = source.schema_arrow
            wanted = pa.schema([_as_wanted(field, columns) for field in there])
            if wanted == there or not source.metadata.num_rows:
                return None
            return self._copied(source, wanted, file, dividing)

    def _copied(
        self, source: pq.ParquetFile, wanted: pa.Schema, file: PlacedFile, dividing: pa.Schema
    ) -> Recast:
        name = directory_of(dict(file.partition)) + file_name(*self._who)
        note = partial(in_work.note, self._table, name)
        writer = FileWriter(self._table, name, wanted, before=note, partition=file.partition)
        before = after = EMPTY
        try:
            for rows in source.iter_batches(batch_size=_PIECE_ROWS):
                cast = rows.cast(wanted)
                before += of_rows(attached(rows, file, dividing))
                after += of_rows(attached(cast, file, dividing))
                writer.write(cast)
            done = writer.close()
        except BaseException:
            writer.discard()
            raise
        assert done is not None, "it has rows"
        return Recast(done, before, after)


def _as_wanted(field: pa.Field, schema: pa.Schema) -> pa.Field:
    if field.name not in schema.names or same(field.type, schema.field(field.name).type):
        return field
    return field.with_type(schema.field(field.name).type)
