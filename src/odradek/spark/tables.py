"""A Delta table that takes each batch of an application exactly once.

    executors  write Parquet files nobody knows of
    driver     one Delta commit names them all, with Transaction(app id, batch id) inside

The table itself remembers how far an application is, in the same atomic step that adds the rows. So a batch
that comes again, after a crash at whatever point, is seen to be there and is not added twice:

    crash before the commit       the version is below the batch: the batch is written again; the first files
                                  are orphans
    crash after the commit        the version is the batch: nothing is added, the second files are orphans
    two drivers at the same time  both commits name the same application, so Delta lets one of them win, and
                                  the other looks again

Orphans are deleted where it is certain that no commit can name them any more: their names tell application and
batch, and a table at version n refuses every batch up to n. They are found among the files in work
(`odradek.spark.in_work`), so that a commit does not list what the table holds. What proves a batch outlives Delta's log
(`odradek.spark.batch_notes`).
"""

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, create_table_with_add_actions

from odradek.model.errors import ConfigurationError, OdradekError
from odradek.spark import batch_notes, delta_log, in_work
from odradek.spark import parts as parts_of_batch
from odradek.spark.cannot_write import NotShared
from odradek.spark.checkpoints import ENDS, QUERY_ID, ends_of_batch, says_otherwise
from odradek.spark.data_loss import LOST
from odradek.spark.ddl import type_text
from odradek.spark.evolution import FIXED, Change, Evolve, change_of, has_local_times, same, wider
from odradek.spark.fingerprint import EMPTY, Fingerprint
from odradek.spark.object_store import ConnectionBroken, answering, answers, is_of_store, storage_options
from odradek.spark.parquet import TableFile
from odradek.spark.partitioning import UNDIVIDED, Spec
from odradek.spark.parts import Part, merged
from odradek.spark.places import check_table, is_in_store
from odradek.spark.recast import Recast, Recasts
from odradek.spark.required import Path as RequiredPath
from odradek.spark.required import key_of, paths_of
from odradek.spark.storage import Storage, storage_of
from odradek.spark.table_files import Layout
from odradek.spark.table_rows import PlacedFile, file_paths, files_of, path_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Our key in a commit's metadata.
METADATA = "odradek"
# In a note: what the fingerprint of all rows has become more by, because some were written anew with wider types.
RECAST = "recast"
ATTEMPTS = 20
_ADVICE = (
    "restore the checkpoint that belongs to the table, or give the application another id "
    "(the rows would then be in the table twice)"
)
_FORGETS = "delta.setTransactionRetentionDuration"


class WrongCheckpoint(OdradekError):
    """The table is ahead of the checkpoint: its batches were written from another one."""


class WrongTable(OdradekError):
    """The table cannot hold the rows: other columns, or partitioned."""


class CommittedBatch(NamedTuple):
    """A batch as the commit that added it has noted it."""

    app_id: str
    batch_id: int
    parts: tuple[Part, ...]
    rows: Fingerprint | None = None  # where the rows are not the records of `parts` as they are
    upserts: bool = False  # of each key the last record was merged


def open_table(path: str) -> DeltaTable | None:
    """The table, or None if there is none yet; WrongTable where its protocol is newer than anybody here can read."""
    check_table(path, "--table")
    try:
        return opened(path)
    except TableNotFoundError:
        return None
    except DeltaError as error:
        if "Unsupported" not in str(error):
            raise
        raise WrongTable(
            f"{path} wants more of Delta than is read here ({error}); append to a table of its own"
        ) from None


@answering
def last_batch(table: DeltaTable, app_id: str) -> int | None:
    """Of an application; None where the table has none of it. A table that is told to forget who was quiet for so long
    (`delta.setTransactionRetentionDuration`) has what its batches noted."""
    found: int | None = table.transaction_version(app_id)
    if found is None and _FORGETS in table.metadata().configuration:
        found = max((note["batchId"] for note in notes(table, app_id)), default=None)
    return found


@answering
def opened(path: str) -> DeltaTable:
    """As it is now; TableNotFoundError where there is none."""
    return DeltaTable(path, storage_options=storage_options(path))


@answering
def commit(
    path: str,
    *,
    app_id: str,
    batch_id: int,
    files: Sequence[TableFile],
    parts: Iterable[Part],
    schema: pa.Schema,
    rows: Fingerprint | None = None,
    note: Mapping[str, Any] | None = None,
    evolve: Evolve = FIXED,
    spec: Spec = UNDIVIDED,
    query_id: str = "",
    checkpoint: str = "",
) -> bool:
    """Adds the files to the table in one step, unless the batch is in it already; True if it was added now.

    `schema` is that of the rows, `spec` how the files are divided. `note` is kept in the commit beside what proves the batch.
    What `evolve` allows to become of the table's columns becomes of them in that same step. `query_id` tells one checkpoint
    from another, where the rows do not, and the `checkpoint` tells a batch from one that was planned anew ("": nobody knows).
    """
    found = merged(parts)
    noted: dict[str, Any] = {
        **(note or {}),
        "appId": app_id,
        "batchId": batch_id,
        "parts": parts_of_batch.to_json(found),
        "records": sum(file.records for file in files),
        **noted_of_query(query_id, checkpoint, batch_id),
    }
    if rows is not None:
        noted["rows"] = {"count": rows.count, "hash": rows.hex}
    recasts = Recasts(path, app_id, batch_id)
    batch = _Batch(path, app_id, batch_id, tuple(files), spec.whole(schema), spec, recasts)
    last: Exception | None = None
    for _ in range(ATTEMPTS):
        # Looked at before the table: another driver takes them away once that has the batch.
        gone = _gone(batch)
        table = open_table(path)
        has_lost = LOST in noted
        if table is not None and has_batch(
            table, path, app_id, batch_id, found, query_id, checkpoint, has_lost=has_lost
        ):
            storage_of(path).sync_all()  # whoever has committed it may have died right behind that
            delete_orphans(path, app_id=app_id, batch_id=batch_id)
            # A commit of ours of which nobody heard, or which the library made twice, is told by its files.
            return last is not None and bool(files) and files[0].name in {one.name for one in files_of(table)}
        if gone is not None:
            raise NotShared(
                f"{gone} is not there, which a task has just written: executors and driver have to share the directory of the table, or "
                f"somebody has deleted it (VACUUM without its retention); nothing of batch {batch_id} is in the table"
            )
        before = -1 if table is None else table.version()
        try:
            with answers(path):  # here already: what a store refuses is not tried again
                named, noted = _add(table, batch, noted, evolve)
        except (DeltaError, ConnectionBroken) as error:
            is_for_another_look = isinstance(error, CommitFailedError | ConnectionBroken)
            if not (is_for_another_look or (table is None and open_table(path))):
                raise
            # Somebody else has committed, perhaps this very batch, or created the table; or nobody heard what became of it.
            last = error
            continue
        # Spark's checkpoint goes on behind this: a power cut must not leave it ahead of the table.
        delta_log.sync(path, before)
        batch_notes.keep(path, id_of(table or opened(path)), noted)
        delete_orphans(path, app_id=app_id, batch_id=batch_id, just_named=named)
        return True
    assert last is not None
    raise last


def noted_of_query(query_id: str, checkpoint: str, batch_id: int) -> dict[str, str]:
    """What the note of a batch tells of the query that it is of, as far as it is known."""
    told = {QUERY_ID: query_id, ENDS: ends_of_batch(checkpoint, batch_id)}
    return {key: value for key, value in told.items() if value}


class _Batch(NamedTuple):
    """What is to be added."""

    path: str
    app_id: str
    batch_id: int
    files: tuple[TableFile, ...]
    schema: pa.Schema
    spec: Spec
    recasts: Recasts


@answering
def has_batch(
    table: DeltaTable,
    path: str,
    app_id: str,
    batch_id: int,
    parts: tuple[Part, ...],
    query_id: str = "",
    checkpoint: str = "",
    *,
    has_lost: bool = False,
) -> bool:
    """Whether the table has it; WrongCheckpoint if what it has is another one. With `has_lost` records may be gone since it came first."""
    done = last_batch(table, app_id)
    if done is None:
        _check_nothing_lost(table, path, app_id, batch_id, -1)
        return False
    ends = ends_of_batch(checkpoint, done)
    if done >= batch_id:
        _check_same_batch(table, app_id, batch_id, done, parts, ends, has_lost=has_lost)
    if query_id or ends:
        # Of parts that are alike the offsets tell more.
        of_query = ends if done < batch_id or has_lost or not parts else ""
        _check_same_query(table, path, app_id, done, query_id, of_query)
    if done < batch_id:
        _check_nothing_lost(table, path, app_id, batch_id, done)
        return False
    _remember(table, path, app_id, batch_id)
    return True


def _check_nothing_lost(table: DeltaTable, path: str, app_id: str, batch_id: int, done: int) -> None:
    """What is kept of a batch is kept after its commit: a table without it has lost the commit. In a directory a link loses none."""
    if (
        is_in_store(path)
        and batch_id - 1 > done
        and batch_notes.find(path, id_of(table), app_id, batch_id - 1) is not None
    ):
        raise WrongTable(
            f"{path} had batch {batch_id - 1} of application {app_id!r} and is at batch {done}: commits are lost, as where a store "
            f"lets one take the place of another, or the table was put back; `odradek spark verify` says which rows; begin a new "
            f"table"
        )


def _check_same_query(table: DeltaTable, path: str, app_id: str, done: int, query_id: str, ends: str) -> None:
    note = _noted(table, path, app_id, done) or {}  # an older release noted neither
    if says_otherwise(note, QUERY_ID, query_id):
        raise WrongCheckpoint(
            f"{table.table_uri} has batch {done} of application {app_id!r} from a query of another checkpoint, and two cannot "
            f"share an id: each would take batches of the other for its own; give this one another id (appId, --app-id), or "
            f"restore the checkpoint that belongs to the table"
        )
    if says_otherwise(note, ENDS, ends):
        raise WrongCheckpoint(
            f"{table.table_uri} has batch {done} of application {app_id!r} with other rows: it ends elsewhere in what the query "
            f"reads, so the checkpoint was put back to before that batch, or is a copy; {_ADVICE}"
        )


@answering
def abort(
    path: str,
    *,
    app_id: str,
    batch_id: int,
    files: Sequence[TableFile],
    comes_again: bool = True,
    was_tried: bool = False,
) -> bool:
    """Deletes the files of a batch that failed; True if they were deleted.

    Spark calls this after a `commit` that raised, even when the commit landed. The table knows better. Of a batch that never
    `comes_again` nobody else finds what tasks have left that were killed, so it goes, too.

    In an object store a commit that `was_tried` may land at any time from now on: nobody knows when the store acts on a PUT
    whose answer did not come. Its files stay until the batch is in the table, with these files or others.
    """
    if was_tried and is_in_store(path):
        return False
    table = open_table(path)
    done = None if table is None else last_batch(table, app_id)
    if done is not None and done >= batch_id:
        return False
    left = [] if comes_again else [name for _, name in in_work.listed(path, app_id, batch_id)]
    _delete(path, [*(file.name for file in files), *left])
    return True


def arrow_schema(table: DeltaTable) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    return to_arrow_schema(StructType.fromJson(json.loads(table.schema().to_json())), timezone="UTC")


def committed_batches(table: DeltaTable, app_id: str | None = None) -> list[CommittedBatch]:
    """What applications have committed, by application and batch: all that was kept, and what Delta's log has beside it."""
    return [_committed(note) for note in notes(table, app_id)]


@answering
def notes(table: DeltaTable, app_id: str | None = None) -> list[dict[str, Any]]:
    """The commits' notes as they are, in the same order."""
    kept = batch_notes.every(path_of(table.table_uri), id_of(table), app_id)
    found = {(note["appId"], note["batchId"]): note for note in kept}
    for note in _in_log(table):
        if app_id in (None, note["appId"]):
            found.setdefault((note["appId"], note["batchId"]), note)
    return [found[batch] for batch in sorted(found)]


def _committed(note: Mapping[str, Any]) -> CommittedBatch:
    rows = note.get("rows")
    found = None if rows is None else Fingerprint.from_hex(rows["count"], rows["hash"])
    if found is not None and RECAST in note:
        found += Fingerprint.from_hex(0, note[RECAST])
    return CommittedBatch(
        note["appId"],
        note["batchId"],
        parts_of_batch.from_json(note["parts"]),
        found,
        note.get("upserts", False),
    )


@answering
def noted(path: str, app_id: str, batch_id: int) -> dict[str, Any] | None:
    """What the commit of a batch noted; None if the table does not have it."""
    table = open_table(path)
    return None if table is None else noted_in(table, app_id, batch_id)


@answering
def noted_in(table: DeltaTable, app_id: str, batch_id: int) -> dict[str, Any] | None:
    """As `noted`, of a table that is open."""
    return _noted(table, path_of(table.table_uri), app_id, batch_id)


def _noted(table: DeltaTable, path: str, app_id: str, batch_id: int) -> dict[str, Any] | None:
    kept = batch_notes.find(path, id_of(table), app_id, batch_id)
    if kept is not None:
        return kept
    batches = (note for note in _in_log(table) if (note["appId"], note["batchId"]) == (app_id, batch_id))
    return next(batches, None)


def id_of(table: DeltaTable) -> str:
    return str(table.metadata().id)


def _in_log(table: DeltaTable) -> Iterator[dict[str, Any]]:
    """Newest first, as far back as Delta's log reaches."""
    for entry in table.history():
        note = entry.get(METADATA)
        if isinstance(note, dict):
            yield note


@answering
def batches_in_log(table: DeltaTable) -> list[tuple[str, int]]:
    """Application and batch of each commit, oldest first, as far back as Delta's log reaches."""
    return [(note["appId"], note["batchId"]) for note in _in_log(table)][::-1]


def _remember(table: DeltaTable, path: str, app_id: str, batch_id: int) -> None:
    """Keeps the note of a batch whose driver died before it could."""
    table_id = id_of(table)
    if batch_notes.find(path, table_id, app_id, batch_id) is None:
        note = _noted(table, path, app_id, batch_id)
        if note is not None:
            batch_notes.keep(path, table_id, note)


@answering
def remember_all(path: str, app_id: str) -> None:
    """Keeps the notes of an application whose batches do not come again: its process died between commit and note."""
    table = open_table(path)
    if table is None:
        return
    table_id = id_of(table)
    for note in _in_log(table):
        if note["appId"] == app_id and batch_notes.find(path, table_id, app_id, note["batchId"]) is None:
            batch_notes.keep(path, table_id, note)


@answering
def delete_orphans(
    path: str, *, app_id: str, batch_id: int, just_named: Collection[str] | None = None
) -> list[str]:
    """Deletes what this application wrote for batches up to `batch_id`, which the table has, and never named.

    Safe at any time, also while another driver of the same application is still at work: whatever it writes
    for one of these batches, the table will not take it. With `just_named`, the files that were committed for this
    batch just now, the log is not read for them: nothing else can ever be named for it.
    """
    listed = list(in_work.listed(path, app_id, batch_id))
    named = set(just_named or ())
    if any(batch < batch_id or just_named is None for batch, _ in listed):
        named |= _ever_named(path)
    deleted = _delete(path, [name for _, name in listed if name not in named])
    in_work.forget(path, [name for _, name in listed if name in named])
    return deleted


def _delete(path: str, names: Sequence[str]) -> list[str]:
    storage_of(path).delete(names)
    in_work.forget(path, names)
    return list(names)


def _ever_named(path: str) -> set[str]:
    """Every file that the current version or one still in the log names: time travel may read it."""
    named = {placed.name for placed in files_of(opened(path))}
    storage = storage_of(path)
    for log in storage.listed("_delta_log"):
        # A checkpoint, or a commit that Delta has cleared away meanwhile.
        text = _text_of(storage, log) if log.endswith(".json") else ""
        for line in text.splitlines():
            action = json.loads(line)
            for kind in ("add", "remove"):
                if kind in action:
                    named.add(unquote(action[kind]["path"]))
    return named


def _text_of(storage: Storage, name: str) -> str:
    try:
        return storage.read(name).decode()
    except FileNotFoundError:
        return ""


def _add(
    table: DeltaTable | None, batch: _Batch, note: dict[str, Any], evolve: Evolve
) -> tuple[set[str], dict[str, Any]]:
    """The names of the files that the commit names, and what it notes."""
    if table is None:
        files, recast = _of_one_schema(batch, batch.schema)
        note = note | recast
        if not is_in_store(batch.path):
            Path(batch.path).mkdir(parents=True, exist_ok=True)
        _sync(batch, files)
        create_table_with_add_actions(
            batch.path,
            Schema.from_arrow(batch.spec.of_new(batch.schema)),
            _actions(files),
            partition_by=batch.spec.names,
            storage_options=storage_options(batch.path),
            # The first version or none: tried again, it would be the next one of a table that somebody else has created,
            # without a look at the transactions in it.
            commit_properties=_properties(batch, note, retries=0),
        )
        return {file.name for file in files}, note
    check_appendable(table)
    _check_divided(table, batch.spec)
    there = arrow_schema(table)
    change = _allowed_change(table, there, batch, evolve)
    after = _after(there, change)
    files, recast = _of_one_schema(batch, after) if evolve != FIXED else (batch.files, {})
    note = note | recast
    if not change:
        _sync(batch, files)
        table.create_write_transaction(
            _actions(files),
            mode="append",
            schema=table.schema(),
            partition_by=batch.spec.names,
            commit_properties=_properties(batch, note),
        )
        return {file.name for file in files}, note
    if is_in_store(batch.path):
        _add_columns(table, change)
    rewritten, total = _widened(table, batch, change, after)
    if total != EMPTY:
        note = note | {RECAST: _sum_of(note.get(RECAST), total)}
    note = note | {"schema": str(change)}
    actions = [delta_log.changed(table, change)]
    for placed, one in rewritten:
        actions += [
            delta_log.remove(placed.name, placed.size_bytes, dict(placed.partition)),
            delta_log.add(one.file, is_new=False),
        ]
    actions += [delta_log.add(file) for file in files]
    _sync(batch, (*files, *(one.file for _, one in rewritten)))
    delta_log.commit(
        batch.path,
        table,
        actions,
        app_id=batch.app_id,
        batch_id=batch.batch_id,
        metadata={METADATA: note},
    )
    return {file.name for file in files} | {one.file.name for _, one in rewritten}, note


def _gone(batch: _Batch) -> Path | None:
    """A file of the batch that is not where its task wrote it. What a store has answered for, it has."""
    files = () if is_in_store(batch.path) else (Path(batch.path, file.name) for file in batch.files)
    return next((file for file in files if not file.exists()), None)


def _sync(batch: _Batch, files: Iterable[TableFile]) -> None:
    """Before a commit names them: a power cut must not leave a batch in the table whose files are empty."""
    storage_of(batch.path).sync(file.name for file in files)


def _add_columns(table: DeltaTable, change: Change) -> NoReturn:
    """In a store columns have a commit of their own, just before that of the rows: of files and columns at once delta-rs makes
    none. Who has made it looks again, like anybody who meets another's commit."""
    try:
        table.alter.add_columns([Field.from_arrow(field.with_nullable(True)) for field in change.added])
    except DeltaError as error:
        if is_of_store(error):
            raise
        raise CommitFailedError(f"{table.table_uri} got columns from another writer ({error})") from None
    raise CommitFailedError(f"{table.table_uri} has {change} now; the rows come next")


def _actions(files: Iterable[TableFile]) -> list[Any]:
    now_ms = int(time.time() * 1000)
    return [
        AddAction(file.name, file.size_bytes, dict(file.partition), now_ms, True, file.stats)
        for file in files
    ]


def _properties(batch: _Batch, note: dict[str, Any], retries: int | None = None) -> CommitProperties:
    transaction = Transaction(batch.app_id, batch.batch_id, int(time.time() * 1000))
    return CommitProperties(
        custom_metadata={METADATA: note}, max_commit_retries=retries, app_transactions=[transaction]
    )


def _allowed_change(table: DeltaTable, there: pa.Schema, batch: _Batch, evolve: Evolve) -> Change:
    """What becomes of the table's columns; WrongTable where that is not allowed, or nothing can make the rows fit."""
    uri = table.table_uri
    columns = {field.name for field in there}
    change, unfit = change_of(there, batch.schema, _without_value(there, batch))
    divided = [
        batch.schema.field(field.name)
        for field in change.widened
        if not batch.spec.keeps(field.name, field.type)
    ]
    unfit += divided
    if not evolve.widens:  # not even rows of a narrower type, which would have to be written anew
        unfit += [
            field
            for field in batch.schema
            if field.name in columns and not same(there.field(field.name).type, field.type)
        ]
    if unfit:
        field = unfit[0]
        found = (
            f"as {type_text(there.field(field.name).type)}" if field.name in columns else "by another case"
        )
        advice = ""
        if field in divided:
            advice = "; the table is divided by it, so it stays a whole number"
        elif _may_widen(there, field):
            advice = "; --evolve widen (option evolve) makes one of both"
        raise WrongTable(
            f"{uri} has column {field.name} {found}; the rows have {type_text(field.type)}{advice}"
        )
    if change.added and not evolve.adds:
        field = change.added[0]
        raise WrongTable(
            f"{uri} has column {field.name} not at all; the rows have {type_text(field.type)}; --evolve add (option evolve) adds it"
        )
    local = next((field for field in change.added if has_local_times(field.type)), None)
    if local is not None and _LOCAL_TIMES not in (table.protocol().writer_features or ()):
        raise WrongTable(
            f"{uri} does not have the feature {_LOCAL_TIMES} of Delta, which TIMESTAMP_NTZ in column {local.name} of the rows needs; make "
            f"it a TIMESTAMP"
        )
    if change.relaxed and not evolve.relaxes:
        path = change.relaxed[0]
        raise WrongTable(
            f"{uri} has {'column' if len(path) == 1 else 'field'} {'.'.join(path)} as NOT NULL, and rows of batch "
            f"{batch.batch_id} have none; --evolve relax (option evolve) lets it be null"
        )
    return change


def _without_value(there: pa.Schema, batch: _Batch) -> set[RequiredPath]:
    """The columns, and the fields within them that are NOT NULL, of which some rows have none."""
    within = [path for path in paths_of(there) if len(path) > 1]
    found: set[RequiredPath] = set()
    for file in batch.files:
        nulls, divided = file.nulls, dict(file.partition)
        for field in there:
            if field.name in divided:
                is_without = divided[field.name] is None
            else:
                is_without = nulls.get(field.name, file.records) > 0
            if is_without:
                found.add((field.name,))
        found |= {path for path in within if nulls.get(key_of(path))}
    return found


def _may_widen(there: pa.Schema, field: pa.Field) -> bool:
    return field.name in there.names and wider(there.field(field.name).type, field.type) is not None


def _after(there: pa.Schema, change: Change) -> pa.Schema:
    """The columns of the table with the change."""
    widened = {field.name: field for field in change.widened}
    return pa.schema([*(widened.get(field.name, field) for field in there), *change.added])


def _of_one_schema(batch: _Batch, schema: pa.Schema) -> tuple[tuple[TableFile, ...], dict[str, Any]]:
    """The batch's files with the types of `schema`: tasks that did not see a wider value have written narrower ones."""
    total = EMPTY
    files = []
    dividing = dividing_of(schema, batch.spec)
    for file in batch.files:
        found = batch.recasts.of(PlacedFile(file.name, file.partition), schema, dividing)
        files.append(file if found is None else found.file)
        total += _difference(found)
    return tuple(files), {} if total == EMPTY else {RECAST: total.hex}


def _widened(
    table: DeltaTable, batch: _Batch, change: Change, after: pa.Schema
) -> tuple[list[tuple[PlacedFile, Recast]], Fingerprint]:
    """The table's files that have a narrower type, and those in place of them."""
    if not change.widened:
        return [], EMPTY
    if has_deleted_rows(table):
        raise WrongTable(
            f"{table.table_uri} has deletion vectors, so its files cannot be rewritten with wider types ({change}); "
            f"purge them first (in Spark: REORG TABLE ... APPLY (PURGE))"
        )
    columns, dividing = pa.schema(change.widened), dividing_of(after, batch.spec)
    found = [(placed, batch.recasts.of(placed, columns, dividing)) for placed in files_of(table)]
    rewritten = [(placed, one) for placed, one in found if one is not None]
    return rewritten, sum((_difference(one) for _, one in rewritten), EMPTY)


def _difference(recast: Recast | None) -> Fingerprint:
    """What is added to the fingerprint of all rows by writing some of them anew."""
    if recast is None:
        return EMPTY
    return Fingerprint(0, (recast.after.total - recast.before.total) % 2**128)


def _sum_of(one: str | None, other: Fingerprint) -> str:
    return (other if one is None else other + Fingerprint.from_hex(0, one)).hex


def dividing_of(schema: pa.Schema, spec: Spec) -> pa.Schema:
    """The columns that rows have and their files do not."""
    return pa.schema([schema.field(name) for name in spec.names if name not in spec.made])


def dividing_columns(table: DeltaTable) -> pa.Schema:
    return dividing_of(arrow_schema(table), spec_of(table))


def spec_of(table: DeltaTable) -> Spec:
    metadata = {field.name: field.metadata for field in table.schema().fields}
    return Spec.of_table(table.metadata().partition_columns, metadata)


def layout_of(path: str, partition_by: str, target_file_size: str, sort_by: str) -> Layout:
    """As asked for; a table that is there keeps how it is divided."""
    asked = Layout.of(partition_by, target_file_size, sort_by)
    table = open_table(path)
    if table is None:
        return asked
    spec = spec_of(table)
    if partition_by and asked.spec != spec:
        raise ConfigurationError(
            f"--partition-by {asked.spec}: {path} is partitioned by {spec if spec.by else 'nothing'}, which stays; leave it out to "
            f"append to it"
        )
    return asked._replace(spec=spec)


def row_schema(table: DeltaTable) -> pa.Schema:
    """The columns that rows bring: without those that are made to divide the table."""
    return spec_of(table).of_rows(arrow_schema(table))


@answering
def has_deleted_rows(table: DeltaTable) -> bool:
    """Whether files have rows that the table has not: deletion vectors name them."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return False
    return any(batch.num_rows for batch in pa.table(table.deletion_vectors()).to_batches())


# Of tables that are written by newer rules than these nobody knows what else would have to be kept.
_READER_VERSION, _WRITER_VERSION = 3, 7
_LOCAL_TIMES = "timestampNtz"
_FEATURES = {
    *(
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
        "identityColumns",
    ),
    *("columnMapping", _LOCAL_TIMES, "deletionVectors", "domainMetadata", "variantType", "v2Checkpoint"),
}


def check_appendable(table: DeltaTable) -> None:
    """WrongTable where files that tasks have written must not be added: what the table asks of rows, they do not know."""
    uri, protocol = table.table_uri, table.protocol()
    newer = [
        f"{kind} version {found}"
        for kind, found, known in (
            ("reader", protocol.min_reader_version, _READER_VERSION),
            ("writer", protocol.min_writer_version, _WRITER_VERSION),
        )
        if found > known
    ]
    newer += sorted({*(protocol.writer_features or ()), *(protocol.reader_features or ())} - _FEATURES)
    if newer:
        raise WrongTable(
            f"{uri} wants {', '.join(newer)} of Delta, which is newer than what is written here; "
            f"append to a table of its own"
        )
    for name, value in table.metadata().configuration.items():
        if name.startswith("delta.constraints."):
            raise WrongTable(
                f"{uri} has the constraint {name.removeprefix('delta.constraints.')} CHECK ({value}), against which the rows are "
                f"not held; drop it, or append to a table of its own"
            )
        if name == "delta.columnMapping.mode" and value != "none":
            raise WrongTable(
                f"{uri} has other names for its columns in its files (column mapping); append to a table of its own"
            )
    for field in json.loads(table.schema().to_json())["fields"]:
        asked = [
            key
            for key in field["metadata"]
            if key in ("delta.generationExpression", "delta.invariants") or key.startswith("delta.identity.")
        ]
        if asked:
            raise WrongTable(
                f"{uri} makes or checks column {field['name']} by itself ({asked[0]}), which is not done here; "
                f"append to a table of its own"
            )


def change_for(table: DeltaTable, schema: pa.Schema, evolve: Evolve) -> Change:
    """What becomes of the columns for rows that are merged, not appended; WrongTable where they cannot be."""
    check_appendable(table)
    _check_divided(table, UNDIVIDED)
    there = arrow_schema(table)
    batch = _Batch(path_of(table.table_uri), "", 0, (), schema, UNDIVIDED, Recasts("", "", 0))
    return _allowed_change(table, there, batch, evolve)


def _check_divided(table: DeltaTable, spec: Spec) -> None:
    columns = table.metadata().partition_columns
    if columns != spec.names:
        raise WrongTable(
            f"{table.table_uri} is partitioned by {', '.join(columns) or 'nothing'}, and these files by "
            f"{spec if spec.by else 'nothing'}: it was made meanwhile; run the same line again"
        )


def _check_same_batch(
    table: DeltaTable,
    app_id: str,
    batch_id: int,
    done: int,
    parts: tuple[Part, ...],
    ends: str,
    *,
    has_lost: bool,
) -> None:
    """A batch that is there already must be the one that comes again, not one of a lost checkpoint. `ends`: where that says that it ends."""
    if done > batch_id:
        raise WrongCheckpoint(
            f"{table.table_uri} already has batch {done} of application {app_id!r}, but this checkpoint is "
            f"only at batch {batch_id}: it is not the one the table was written from, or another driver goes on with it; {_ADVICE}"
        )
    note = _noted(table, path_of(table.table_uri), app_id, batch_id)
    before = None if note is None else _committed(note)
    if note is None or before is None:
        return
    is_planned_alike = bool(ends) and note.get(ENDS) == ends
    if not parts_of_batch.come_again(parts, before.parts, may_have_lost=has_lost or is_planned_alike):
        raise WrongCheckpoint(
            f"{table.table_uri} has batch {batch_id} of application {app_id!r} with other records: "
            f"{_told(before.parts)} there, {_told(parts)} now; {_ADVICE}"
        )


def _told(parts: tuple[Part, ...]) -> str:
    return ", ".join(f"{p.topic_partition}[{p.start}, {p.end})" for p in parts) or "none"


def read_table(spark: "SparkSession", path: str) -> "DataFrame":
    """The table's current version as a DataFrame, through its Parquet files: no jar is needed for that."""
    table = open_table(path)
    if table is None:
        raise WrongTable(f"there is no Delta table at {path}")
    if is_in_store(path):
        raise WrongTable(
            f"{path}: Spark has no access to object stores here; deltalake, DuckDB and Polars read the table"
        )
    # Features such as deletion vectors hide rows that are in the files.
    if table.protocol().min_reader_version > 1:
        raise WrongTable(
            f"{path} needs Delta reader version {table.protocol().min_reader_version}; its files can be read "
            f"as they are only up to version 1"
        )
    from pyspark.sql.types import StructType

    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    files = file_paths(table)
    if not files:
        return spark.createDataFrame([], schema)
    # Of a table that is divided Spark has the rest of the columns from the directories between the two.
    return spark.read.schema(schema).option("basePath", path_of(table.table_uri)).parquet(*files)
