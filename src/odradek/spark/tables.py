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
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlparse

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, create_table_with_add_actions

from odradek.model.errors import OdradekError
from odradek.spark import batch_notes, in_work
from odradek.spark import parts as parts_of_batch
from odradek.spark.fingerprint import Fingerprint
from odradek.spark.parquet import TableFile
from odradek.spark.parts import Part, merged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Our key in a commit's metadata.
METADATA = "odradek"
ATTEMPTS = 20


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
    """The table, or None if there is none yet."""
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        return None


def path_of(uri: str) -> str:
    """Of a table, or of a file of it, on this machine."""
    return unquote(urlparse(uri).path) if "://" in uri else uri


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
    adds_columns: bool = False,
) -> bool:
    """Adds the files to the table in one step, unless the batch is in it already; True if it was added now.

    `note` is kept in the commit beside what proves the batch. With `adds_columns` the table gets, before it, the columns
    that it lacks: rows that are there have null in them.
    """
    found = merged(parts)
    noted: dict[str, Any] = {
        **(note or {}),
        "appId": app_id,
        "batchId": batch_id,
        "parts": parts_of_batch.to_json(found),
        "records": sum(file.records for file in files),
    }
    if rows is not None:
        noted["rows"] = {"count": rows.count, "hash": rows.hex}
    for _ in range(ATTEMPTS):
        table = open_table(path)
        if table is not None and has_batch(table, path, app_id, batch_id, found):
            delete_orphans(path, app_id=app_id, batch_id=batch_id)
            return False
        try:
            if adds_columns and table is not None:
                _add_columns(table, schema)
            _add(path, table, app_id, batch_id, files, noted, schema)
        except DeltaError as error:
            if not (isinstance(error, CommitFailedError) or (table is None and open_table(path))):
                raise
            # Somebody else has committed, perhaps this very batch, or created the table: look again.
            last = error
            continue
        batch_notes.keep(path, id_of(table or DeltaTable(path)), noted)
        delete_orphans(path, app_id=app_id, batch_id=batch_id, just_named={file.name for file in files})
        return True
    raise last


def has_batch(table: DeltaTable, path: str, app_id: str, batch_id: int, parts: tuple[Part, ...]) -> bool:
    """Whether the table has it; WrongCheckpoint if what it has is another one."""
    done = table.transaction_version(app_id)
    if done is None or done < batch_id:
        return False
    _check_same_batch(table, app_id, batch_id, done, parts)
    _remember(table, path, app_id, batch_id)
    return True


def abort(path: str, *, app_id: str, batch_id: int, files: Sequence[TableFile]) -> bool:
    """Deletes the files of a batch that failed; True if they were deleted.

    Spark calls this after a `commit` that raised, even when the commit landed. The table knows better.
    """
    table = open_table(path)
    done = None if table is None else table.transaction_version(app_id)
    if done is not None and done >= batch_id:
        return False
    _delete(path, [file.name for file in files])
    return True


def arrow_schema(table: DeltaTable) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    return to_arrow_schema(StructType.fromJson(json.loads(table.schema().to_json())), timezone="UTC")


def committed_batches(table: DeltaTable, app_id: str | None = None) -> list[CommittedBatch]:
    """What applications have committed, by application and batch: all that was kept, and what Delta's log has beside it."""
    return [_committed(note) for note in notes(table, app_id)]


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
    return CommittedBatch(
        note["appId"],
        note["batchId"],
        parts_of_batch.from_json(note["parts"]),
        None if rows is None else Fingerprint.from_hex(rows["count"], rows["hash"]),
        note.get("upserts", False),
    )


def noted(path: str, app_id: str, batch_id: int) -> dict[str, Any] | None:
    """What the commit of a batch noted; None if the table does not have it."""
    table = open_table(path)
    return None if table is None else _noted(table, path, app_id, batch_id)


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


def _remember(table: DeltaTable, path: str, app_id: str, batch_id: int) -> None:
    """Keeps the note of a batch whose driver died before it could."""
    table_id = id_of(table)
    if batch_notes.find(path, table_id, app_id, batch_id) is None:
        note = _noted(table, path, app_id, batch_id)
        if note is not None:
            batch_notes.keep(path, table_id, note)


def remember_all(path: str, app_id: str) -> None:
    """Keeps the notes of an application whose batches do not come again: its process died between commit and note."""
    table = open_table(path)
    if table is None:
        return
    table_id = id_of(table)
    for note in _in_log(table):
        if note["appId"] == app_id and batch_notes.find(path, table_id, app_id, note["batchId"]) is None:
            batch_notes.keep(path, table_id, note)


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
    for name in names:
        (Path(path) / name).unlink(missing_ok=True)
    in_work.forget(path, names)
    return list(names)


def _ever_named(path: str) -> set[str]:
    """Every file that the current version or one still in the log names: time travel may read it."""
    named = {uri.rsplit("/", 1)[-1] for uri in DeltaTable(path).file_uris()}
    for log in sorted((Path(path) / "_delta_log").glob("*.json")):
        for line in log.read_text(encoding="utf-8").splitlines():
            action = json.loads(line)
            for kind in ("add", "remove"):
                if kind in action:
                    named.add(action[kind]["path"].rsplit("/", 1)[-1])
    return named


def _add(
    path: str,
    table: DeltaTable | None,
    app_id: str,
    batch_id: int,
    files: Sequence[TableFile],
    note: dict[str, Any],
    schema: pa.Schema,
) -> None:
    now_ms = int(time.time() * 1000)
    actions: list[Any] = [
        AddAction(file.name, file.size_bytes, {}, now_ms, True, file.stats) for file in files
    ]
    properties = CommitProperties(
        custom_metadata={METADATA: note}, app_transactions=[Transaction(app_id, batch_id, now_ms)]
    )
    delta_schema = Schema.from_arrow(schema)
    if table is None:
        Path(path).mkdir(parents=True, exist_ok=True)
        create_table_with_add_actions(path, delta_schema, actions, commit_properties=properties)
        return
    check_fits(table, schema)
    table.create_write_transaction(
        actions, mode="append", schema=table.schema(), commit_properties=properties
    )


def _add_columns(table: DeltaTable, schema: pa.Schema) -> None:
    there = {field.name for field in table.schema().fields}
    new = [field for field in Schema.from_arrow(schema).fields if field.name not in there]
    if new:
        table.alter.add_columns(new)
        table.update_incremental()


def check_fits(table: DeltaTable, schema: pa.Schema) -> None:
    if table.metadata().partition_columns:
        raise WrongTable(
            f"{table.table_uri} is partitioned by {', '.join(table.metadata().partition_columns)}; "
            f"only tables without partition columns can be appended to so far"
        )
    theirs = {field.name: field.type for field in table.schema().fields}
    for field in Schema.from_arrow(schema).fields:
        if theirs.get(field.name) != field.type:
            found = f"as {theirs[field.name]}" if field.name in theirs else "not at all"
            raise WrongTable(f"{table.table_uri} has column {field.name} {found}; the rows have {field.type}")


def _check_same_batch(
    table: DeltaTable, app_id: str, batch_id: int, done: int, parts: tuple[Part, ...]
) -> None:
    """A batch that is there already must be the one that comes again, not one of a lost checkpoint."""
    advice = (
        "restore the checkpoint that belongs to the table, or give the application another id "
        "(the rows would then be in the table twice)"
    )
    if done > batch_id:
        raise WrongCheckpoint(
            f"{table.table_uri} already has batch {done} of application {app_id!r}, but this checkpoint is "
            f"only at batch {batch_id}: it is not the one the table was written from; {advice}"
        )
    note = _noted(table, path_of(table.table_uri), app_id, batch_id)
    before = None if note is None else _committed(note)
    if before is not None and before.parts != parts:
        raise WrongCheckpoint(
            f"{table.table_uri} has batch {batch_id} of application {app_id!r} with other records: "
            f"{_told(before.parts)} there, {_told(parts)} now; {advice}"
        )


def _told(parts: tuple[Part, ...]) -> str:
    return ", ".join(f"{p.topic_partition}[{p.start}, {p.end})" for p in parts) or "none"


def read_table(spark: "SparkSession", path: str) -> "DataFrame":
    """The table's current version as a DataFrame, through its Parquet files: no jar is needed for that."""
    table = open_table(path)
    if table is None:
        raise WrongTable(f"there is no Delta table at {path}")
    # Features such as deletion vectors hide rows that are in the files.
    if table.protocol().min_reader_version > 1:
        raise WrongTable(
            f"{path} needs Delta reader version {table.protocol().min_reader_version}; its files can be read "
            f"as they are only up to version 1"
        )
    from pyspark.sql.types import StructType

    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    files = table.file_uris()
    return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)
