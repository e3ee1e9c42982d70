"""What a task writes of a table: a file a partition, as large as is wanted, sorted within where it is asked for.

Of a table that is divided, rows are held until they are worth a piece of a file, and to be sorted, until they are a whole one:
up to `HELD_BYTES`, in all partitions together. Not more than `MOST_OPEN` files are open: of many partitions the one that
waited longest is closed, and another one begun when it comes again.
"""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from odradek.model.errors import ConfigurationError, OdradekError
from odradek.spark import in_work
from odradek.spark.cannot_write import CannotWrite, told
from odradek.spark.ddl import type_text
from odradek.spark.parquet import FileWriter, TableFile, file_name
from odradek.spark.partitioning import Spec, Values, directory_of
from odradek.spark.storage import storage_of

HELD_BYTES = 64 << 20
MOST_OPEN = 64
LEAST_FILE_BYTES = 64 << 10
_ROW_GROUP = 1 << 17
# What a column of a held piece takes beside its values: most of all, where a partition has a row or two.
_PIECE_BYTES = 700
_Place = tuple[str | None, ...]


class Layout(NamedTuple):
    """How the files of a table are cut. It travels with every task."""

    spec: Spec = Spec()
    target_bytes: int = 0  # of a file, as it is on disk; 0: as large as it comes
    sort_by: tuple[str, ...] = ()

    @classmethod
    def of(cls, partition_by: str, target_file_size: str, sort_by: str) -> "Layout":
        """As asked for. ConfigurationError where that cannot be read."""
        names = tuple(name.strip() for name in sort_by.split(",") if name.strip())
        return cls(Spec.of(partition_by), size_of(target_file_size), names)

    def check(self, columns: pa.Schema) -> "Layout":
        """ConfigurationError where rows of these columns cannot be cut so."""
        self.spec.check(columns)
        for name in self.sort_by:
            if name not in columns.names:
                raise ConfigurationError(
                    f"--sort-by {name}: there is no such column; there are {', '.join(columns.names)}"
                )
            if name in self.spec.names:
                raise ConfigurationError(f"--sort-by {name}: it is the same in all rows of a file already")
            if pa.types.is_nested(columns.field(name).type):
                raise ConfigurationError(
                    f"--sort-by {name}: {type_text(columns.field(name).type)} has no order"
                )
        return self


def size_of(text: str) -> int:
    """Bytes: `128MB`, `1 GiB`, `500000`. "" is 0."""
    if not text:
        return 0
    found = re.fullmatch(r"(\d+)\s*(?:([kKMG]?)(i?)B)?", text.strip())
    size = (
        int(found[1]) * (1024 if found[3] else 1000) ** " KMG".index((found[2] or " ").upper())
        if found
        else 0
    )
    if size < LEAST_FILE_BYTES:
        raise ConfigurationError(f"--target-file-size {text}: expected a size as in 128MB, 64KiB at least")
    return size


class TableFiles:
    """Written by one task for one batch; nobody's until a commit names them."""

    def __init__(self, table: str, app_id: str, batch_id: int, layout: Layout) -> None:
        self._table = table
        self._who = app_id, batch_id
        self._layout = layout
        self._open: dict[_Place, FileWriter] = {}  # the one that was written to last stands last
        self._held: dict[_Place, list[pa.RecordBatch]] = {}
        self._held_bytes: dict[_Place, int] = {}
        self._all_held_bytes = 0
        self._values: dict[_Place, Values] = {}
        self._done: list[TableFile] = []

    def write(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        with self._in_a_sentence():
            for values, part in self._layout.spec.divided(rows):
                place = tuple(values.values())
                self._values[place] = values
                if values or self._layout.sort_by:
                    self._hold(place, part)
                else:
                    self._write(place, part)

    def close(self) -> list[TableFile]:
        with self._in_a_sentence():
            for place in list(self._held):
                self._flush(place)
            for place in list(self._open):
                self._end(place)
        return self._done

    def discard(self) -> None:
        """After an error: what was written is nobody's."""
        for writer in self._open.values():
            writer.discard()
        with suppress(OdradekError):  # of a store that does not answer: the next commit finds them
            storage_of(self._table).delete(file.name for file in self._done)
        self._open, self._done = {}, []

    def _hold(self, place: _Place, rows: pa.RecordBatch) -> None:
        held = self._held.setdefault(place, [])
        if held and held[0].schema != rows.schema:
            self._flush(place)
            held = self._held.setdefault(place, [])
        held.append(rows)
        size = rows.nbytes + _PIECE_BYTES * rows.num_columns
        self._held_bytes[place] = self._held_bytes.get(place, 0) + size
        self._all_held_bytes += size
        if self._all_held_bytes > HELD_BYTES:  # by no more than what came now, and the largest has as much
            self._flush(max(self._held_bytes, key=self._held_bytes.__getitem__))

    def _flush(self, place: _Place) -> None:
        held = self._held.pop(place)
        self._all_held_bytes -= self._held_bytes.pop(place)
        whole = pa.Table.from_batches(held).combine_chunks()
        if self._layout.sort_by:
            # By numbers: of a name that begins with a dot Arrow takes the rest.
            keys = {str(n): whole.column(name) for n, name in enumerate(self._layout.sort_by)}
            whole = whole.take(pc.sort_indices(pa.table(keys), [(key, "ascending") for key in keys]))
        for rows in whole.to_batches(max_chunksize=_ROW_GROUP):
            self._write(place, rows)
        if self._layout.sort_by and place in self._open:
            self._end(place)

    def _write(self, place: _Place, rows: pa.RecordBatch) -> None:
        writer = self._open.pop(place, None)
        if writer is not None and writer.schema != rows.schema:
            self._open[place] = writer
            self._end(place)
            writer = None
        if writer is None:
            if len(self._open) >= MOST_OPEN:
                self._end(next(iter(self._open)))
            writer = self._begun(place, rows.schema)
        self._open[place] = writer
        writer.write(rows)
        if self._layout.target_bytes and writer.size_bytes >= self._layout.target_bytes:
            self._end(place)

    def _begun(self, place: _Place, schema: pa.Schema) -> FileWriter:
        values = self._values[place]
        name = directory_of(values) + file_name(*self._who)
        return FileWriter(
            self._table,
            name,
            schema,
            before=lambda: in_work.note(self._table, name),
            partition=tuple(values.items()),
            sort_by=self._layout.sort_by,
        )

    def _end(self, place: _Place) -> None:
        file = self._open[place].close()
        del self._open[place]
        if file is not None:
            self._done.append(file)

    @contextmanager
    def _in_a_sentence(self) -> Iterator[None]:
        with told(self._table, self._who[1]):
            try:
                yield
            except OSError as error:
                if error.errno != errno.ENAMETOOLONG:
                    raise
                raise CannotWrite(
                    f"{self._table}: a value of {self._layout.spec} is too long for the name of a directory; nothing of batch "
                    f"{self._who[1]} is in the table, and a new table can be divided by bucket(16, COLUMN)"
                ) from error
