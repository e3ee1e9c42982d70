"""Dead letters are fed again: what can be read now becomes rows, each letter once.

The rows and the note which letters they were are one commit of the table, so a letter is either still waiting or its row is
there, whenever the process dies. Two who do this at the same time write under one name, of which Delta lets one win; the
other looks again at what is left. A letter that still cannot be read stays a letter.

Without Spark: letters are few, and those that are many say that something else is wrong.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

from odradek.model.errors import ConfigurationError
from odradek.spark import tables
from odradek.spark.arrow_schema import rows_schema
from odradek.spark.dead_letters import (
    REPLAY_APP,
    REPLAYED,
    Identity,
    NoTable,
    NoteGone,
    ahead,
    batches,
    identities,
    kept_shape,
    not_ended,
    noted,
    replayed,
)
from odradek.spark.fingerprint import EMPTY, Fingerprint, of_rows
from odradek.spark.formats.declared import Format
from odradek.spark.parquet import TableFile
from odradek.spark.shape import BATCH, COLUMNS, Shape, ours_in
from odradek.spark.table_files import Layout, TableFiles
from odradek.spark.tables import WrongCheckpoint, WrongTable
from odradek.spark.upsert import UPSERTS

A_COMMIT = 10_000  # letters whose rows one commit adds: its note names each


class Replayed(NamedTuple):
    rows: int
    waiting: int  # letters that still cannot be read
    errors: tuple[str, ...]  # of those, each once


def replay(table: str, form: Format | None = None, given_up: Collection[str] = ()) -> Replayed:
    """Feeds all letters again that were not yet. `form` is how values are read now; None: as the job reads them. Letters of a batch that
    is not in the table wait for it, and those whose records are to be read again, unless their application is `given_up`: should it
    come again, its rows are there twice.

    Raises RegistryUnavailable's sentence as a BadValue: what a silent registry leaves unread is nobody's fault.
    """
    shape = shape_of(table, form)
    _check_given_up(table, given_up)
    rows = 0
    while True:
        try:
            done, waiting, errors = _turn(table, shape, given_up)
        except _SomebodyElse as another:
            rows += another.before
            shape = shape_of(table, form)  # whose job may have made its columns more, or wider
            continue
        return Replayed(rows + done, waiting, errors)


def shape_of(table: str, form: Format | None) -> Shape:
    opened = tables.open_table(table)
    if opened is None:
        raise NoTable(
            f"there is no Delta table at {table}; dead letters of a job that writes a topic are not fed again, because they would "
            f"come behind newer records: produce them again where that is right"
        )
    if any(note.get(UPSERTS, False) for note in tables.notes(opened)):
        raise ConfigurationError(
            f"{table} has the last record of each key: a letter would take the place of what came after it; produce the record "
            f"again instead"
        )
    there, columns = tables.row_schema(opened), _columns_of(opened)
    kept = kept_shape(table)
    if kept is None and form is None:
        raise ConfigurationError(f"{table} does not say how its values are read; name their --format")
    if form is not None:
        form.check()
    ours = ours_in(there)
    if kept is None:
        kept = Shape(columns, bool(ours))
        if ours and there.field("__key").type != pa.binary():
            raise ConfigurationError(
                f"{table} has keys that are decoded, and does not say how; run its job once"
            )
    # The columns are those of now: the table may have got more of them since.
    shape = kept._replace(on_error="dlq", has_batch=BATCH in ours).of_columns(columns)
    return (shape if form is None else shape._replace(format=form)).check()


def _columns_of(opened: DeltaTable) -> pa.Schema:
    """Those of values."""
    there = tables.row_schema(opened)
    ours = ours_in(there)
    return pa.schema([field for field in there if field.name not in ours])


class _SomebodyElse(Exception):
    """Has fed letters again meanwhile, or made the columns wider: what is left has to be looked at anew. `before`: rows that we had added by then."""

    before = 0


def _check_given_up(table: str, given_up: Collection[str]) -> None:
    if not given_up:
        return
    there = sorted({batch.app_id for batch in not_ended(table)} | ahead(table).keys())
    unknown = sorted(set(given_up).difference(there))
    if unknown:
        raise ConfigurationError(
            f"{table}: application {unknown[0]!r} has begun no batch that is not in the table; these have: {', '.join(there) or 'none'}"
        )


def _check_all_is_known(table: str) -> None:
    """NoteGone where that of a replay is not there, if only because it died before it kept one: its letters would be fed again."""
    opened = tables.open_table(table)
    last = None if opened is None else tables.last_batch(opened, REPLAY_APP)
    if opened is not None and last is not None:
        gone = set(range(last + 1)).difference(note["batchId"] for note in tables.notes(opened, REPLAY_APP))
        if gone:
            raise NoteGone(table, f"dead letters were replayed, and the note of commit {min(gone)} of that")


def _turn(table: str, shape: Shape, given_up: Collection[str]) -> tuple[int, int, tuple[str, ...]]:
    tables.remember_all(table, REPLAY_APP)
    _check_all_is_known(table)
    pack = _Pack(table, shape)
    rows = 0  # of packs that are committed
    # In this order: a batch that begins meanwhile has none of these letters, one that ends has noted which it could read.
    every = batches(table)
    # A batch that comes again would add those that it reads by then, too.
    begun = [batch for batch in not_ended(table) if batch.app_id not in given_up]
    again = {app_id: letters for app_id, letters in ahead(table).items() if app_id not in given_up}
    done = replayed(table)
    held = {
        one for letters in (*(batch.letters() for batch in begun), *again.values()) for one in letters
    } - done
    waiting = len(held)
    done |= held
    # First what there is to be done: who shows some shows this.
    errors = dict.fromkeys(
        f"batch {batch.batch_id} of {batch.app_id!r} is not in the table yet: start its job again, or give it up with --given-up"
        for batch in begun
    ) | dict.fromkeys(
        f"application {app_id!r} has read records that it is to read again, for its batch came again with less: start its job again, "
        f"or give it up with --given-up"
        for app_id, letters in again.items()
        if letters & held
    )
    try:
        for letters in every:
            who = identities(letters)
            each = {one: n for n, one in enumerate(who)}
            new = sorted(n for one, n in each.items() if one not in done)
            if not new:
                continue
            records = _records(letters.take(pa.array(new)))
            applied = shape.applied(records, cleaned=pack.cleaned)
            bad = set(identities(applied.letters))
            good = [who[n] for n in new if who[n] not in bad]
            done.update(who[n] for n in new)
            waiting += applied.refused
            errors |= dict.fromkeys(applied.letters.column("error").to_pylist())
            pack.add(applied.rows, good)
            if len(pack.letters) >= A_COMMIT:
                rows += pack.commit()
                pack = _Pack(table, shape)
        rows += pack.commit()
    except _SomebodyElse as another:
        pack.discard()
        another.before = rows
        raise
    except BaseException:
        pack.discard()
        raise
    return rows, waiting, tuple(errors)


def _records(letters: pa.RecordBatch) -> pa.RecordBatch:
    """As they were fetched."""
    schema = rows_schema(COLUMNS)
    return pa.RecordBatch.from_arrays([letters.column(name) for name in COLUMNS], schema=schema)


class _Pack:
    """The rows of one commit, in a file of their own."""

    def __init__(self, table: str, shape: Shape) -> None:
        self._table = table
        self._shape = shape
        opened = tables.open_table(table)
        assert opened is not None, "looked at before"
        version = tables.last_batch(opened, REPLAY_APP)
        self._batch_id = 0 if version is None else version + 1
        self._layout = Layout.of("", "", "")._replace(spec=tables.spec_of(opened))
        self._files = TableFiles(table, REPLAY_APP, self._batch_id, self._layout)
        self._written: list[TableFile] | None = None
        self._found: Fingerprint = EMPTY
        self.letters: set[Identity] = set()

    def cleaned(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return self._layout.spec.cleaned(rows)

    def add(self, rows: pa.RecordBatch, letters: Iterable[Identity]) -> None:
        rows = self.cleaned(rows)
        self._files.write(rows)
        self._found += of_rows(rows)
        self.letters.update(letters)

    def commit(self) -> int:
        """How many rows were added; _SomebodyElse where the table took none of them."""
        files = self._written = self._files.close()
        if not files:
            return 0
        try:
            is_ours = tables.commit(
                self._table,
                app_id=REPLAY_APP,
                batch_id=self._batch_id,
                files=files,
                spec=self._layout.spec,
                parts=(),
                schema=self._shape.schema,
                rows=self._found,
                note={REPLAYED: noted(self.letters), "letters": 0, "newestMs": -1, "files": len(files)},
            )
        except WrongCheckpoint:  # the table is ahead by more than one, and takes none of these files any more
            tables.delete_orphans(self._table, app_id=REPLAY_APP, batch_id=self._batch_id)
            is_ours = False
        except WrongTable:
            if not self._has_other_columns():
                raise
            is_ours = False
        if not is_ours:
            raise _SomebodyElse
        return len(self.letters)

    def _has_other_columns(self) -> bool:
        """The table, by now, than those that the rows were made for."""
        opened = tables.open_table(self._table)
        return (
            opened is not None and self._shape.of_columns(_columns_of(opened)).columns != self._shape.columns
        )

    def discard(self) -> None:
        if self._written is None:
            self._files.discard()
        else:  # a commit that raised may have landed; the table knows
            tables.abort(
                self._table,
                app_id=REPLAY_APP,
                batch_id=self._batch_id,
                files=self._written,
                was_tried=True,
            )
