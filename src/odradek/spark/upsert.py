"""A table that has the last value of each key, as a compacted topic has: `odradek spark tables --upsert-by key`.

Tasks write what changes, a row a record, with a mark where the record is a tombstone (a null value); the driver takes the
last change of each key and merges them in one commit of Delta, with the same Transaction(app id, batch id) as an append
(`odradek.spark.tables`): a batch that comes again is seen to be there. Changes stand below the table's own directory,

    TABLE/_odradek/changes/NAME

where no reader and no VACUUM looks, and are deleted once the batch is merged.

The last change is the one of the greatest offset; a key has its partition, where its order is. A later batch is later.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError

from odradek.model.errors import OdradekError
from odradek.spark import batch_notes, delta_log, tables
from odradek.spark.cannot_write import NotShared, told
from odradek.spark.data_loss import LOST
from odradek.spark.evolution import FIXED, Evolve
from odradek.spark.formats.decoded import KEY
from odradek.spark.object_store import ConnectionBroken, answering, answers, storage_options
from odradek.spark.parquet import OWN_DIRECTORY, FileWriter, TableFile, batch_of, file_name
from odradek.spark.parts import Part, merged
from odradek.spark.parts import to_json as parts_to_json
from odradek.spark.places import below
from odradek.spark.shape import KEPT_LETTERS, LETTERS, BadValue
from odradek.spark.storage import storage_of

# Of a change; never of a table, which can have no such name. (`__deleted` is a field of Debezium's.)
DELETED = "is deleted"
UPSERTS = "upserts"  # in a note: the batch was merged, not appended
_BOUNDED_COLUMNS = 32  # as many as Delta takes by itself
_NO_KEY = "no key, and the table has one row a key"


def changes_directory(table: str) -> str:
    return below(table, OWN_DIRECTORY, "changes")


class ChangeFiles:
    """The changes that a task has found: a file for each set of columns, of which there may be more and more."""

    def __init__(self, table: str, app_id: str, batch_id: int) -> None:
        self._directory = changes_directory(table)
        self._who = app_id, batch_id
        self._writer: FileWriter | None = None
        self._done: list[TableFile] = []

    def write(self, rows: pa.RecordBatch) -> None:
        if self._writer is not None and self._writer.schema != rows.schema:
            self._end(self._writer)
            self._writer = None
        with told(self._directory, self._who[1]):
            if self._writer is None:
                self._writer = FileWriter(self._directory, file_name(*self._who), rows.schema)
            self._writer.write(rows)

    def close(self) -> list[TableFile]:
        if self._writer is not None:
            self._end(self._writer)
        return self._done

    def discard(self) -> None:
        if self._writer is not None:
            self._writer.discard()
        with suppress(OdradekError):  # of a store that does not answer: the error before it is to be said
            storage_of(self._directory).delete(file.name for file in self._done)

    def _end(self, writer: FileWriter) -> None:
        with told(self._directory, self._who[1]):
            file = writer.close()
        if file is not None:
            self._done.append(file)


def with_keys(
    records: pa.RecordBatch, on_null: str, keys: pa.Array | None = None
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The records that have a key, and the dead letters of those that have none; BadValue where they stop the job. `keys`: as
    they are decoded, where they are."""
    is_keyless = (records.column("key") if keys is None else keys).is_null()
    keyless = records.filter(is_keyless)
    if not keyless.num_rows:
        return records, _no_letters()
    if on_null == "pause":
        one = keyless.slice(0, 1).select(["topic", "partition", "offset"]).to_pylist()[0]
        raise BadValue(
            f"{one['topic']}-{one['partition']}, offset {one['offset']}: {_NO_KEY}; the job stops here: run it with "
            f"--on-error key=dlq or key=skip, or without --upsert-by"
        )
    letters = _no_letters() if on_null == "skip" else _letters(keyless)
    return records.filter(pc.invert(is_keyless)), letters


def _letters(records: pa.RecordBatch) -> pa.RecordBatch:
    found = dict(zip(records.schema.names, records.columns, strict=True))
    count = records.num_rows
    found["stage"] = pa.repeat(pa.scalar(KEY), count)
    found["error"] = pa.repeat(pa.scalar(_NO_KEY), count)
    found["schemaId"] = pa.nulls(count, pa.int64())
    schema = KEPT_LETTERS if "headers" in found else LETTERS
    return pa.RecordBatch.from_arrays([found[name] for name in schema.names], schema=schema)


def _no_letters() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], LETTERS)


def marked(rows: pa.RecordBatch, records: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that became of the records of one partition, with a mark on those of tombstones."""
    if "__offset" in rows.schema.names:
        tombstones = records.column("offset").filter(records.column("value").is_null())
        is_deleted = pc.is_in(rows.column("__offset"), value_set=tombstones)
    else:
        is_deleted = rows.column("value").is_null()
    return pa.RecordBatch.from_arrays([*rows.columns, is_deleted], schema=marked_schema(rows.schema))


def marked_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*schema, pa.field(DELETED, pa.bool_())])


@answering
def merge(
    path: str,
    *,
    app_id: str,
    batch_id: int,
    files: Sequence[TableFile],
    parts: Iterable[Part],
    schema: pa.Schema,
    note: Mapping[str, Any],
    evolve: Evolve = FIXED,
    query_id: str = "",
    checkpoint: str = "",
) -> bool:
    """Merges the changes in one commit, unless the batch is in the table already; True if it was merged now.

    `schema` is that of the table, with the columns that the batch adds where `evolve` allows it: MERGE adds them in the same
    commit. What the driver holds is the changes of one batch. `query_id` and `checkpoint` are those of `tables.commit`.
    """
    found = merged(parts)
    noted = {
        **note,
        "appId": app_id,
        "batchId": batch_id,
        "parts": parts_to_json(found),
        "records": sum(file.records for file in files),
        UPSERTS: True,
        **tables.noted_of_query(query_id, checkpoint, batch_id),
    }
    changes: pa.Table | None = None
    last: Exception | None = None
    for _ in range(tables.ATTEMPTS):
        table = tables.open_table(path)
        if table is None:
            try:
                _create(path, schema)
                delta_log.sync(path, -1)
            except ConnectionBroken as error:
                last = error  # it may be there: look
            continue
        has_lost = LOST in noted
        if tables.has_batch(table, path, app_id, batch_id, found, query_id, checkpoint, has_lost=has_lost):
            storage_of(path).sync_all()  # whoever has committed it may have died right behind that
            forget(path, app_id, batch_id)
            return False
        change = tables.change_for(table, schema, evolve)
        # Of this attempt alone: of one that was lost another writer may have added the columns.
        now = {**noted, "schema": str(change)} if change else noted
        properties = CommitProperties(
            custom_metadata={tables.METADATA: now}, app_transactions=[Transaction(app_id, batch_id)]
        )
        if changes is None:
            try:
                changes = last_changes(path, files, schema)
            except FileNotFoundError as error:
                if _version(path, app_id) >= batch_id:
                    continue  # another driver has merged the batch, and taken them away
                raise NotShared(
                    f"{path}: changes that a task has just written are not there ({error}): executors and driver have to share the "
                    f"directory of the table; nothing of batch {batch_id} is in the table"
                ) from None
        before = table.version()
        try:
            with answers(path):
                if any(_has_days(field.type) for field in change.added):
                    _bound(table, schema)
                _merge(table, changes, properties, bool(change))
                if _version(path, app_id) < batch_id:
                    # Nothing had to be changed, and Delta has left the commit out; the batch is to be known all the same.
                    table = tables.opened(path)
                    table.create_write_transaction(
                        [], mode="append", schema=table.schema(), commit_properties=properties
                    )
        except (CommitFailedError, ConnectionBroken) as error:
            last = error  # somebody else has committed, perhaps this very batch, or nobody heard what became of it: look again
            continue
        delta_log.sync(path, before, with_files=True)  # before Spark's checkpoint goes on
        batch_notes.keep(path, tables.id_of(table), now)
        forget(path, app_id, batch_id)
        return True
    assert last is not None
    raise last


def _create(path: str, schema: pa.Schema) -> None:
    """Once: tried again, the creation would be the next version of the table that another driver has created."""
    with suppress(CommitFailedError), answers(path):
        DeltaTable.create(
            path,
            Schema.from_arrow(schema),
            mode="ignore",
            configuration=_bounds(schema),
            storage_options=storage_options(path),
            commit_properties=CommitProperties(max_commit_retries=0),
        )


def _bounds(schema: pa.Schema) -> dict[str, str]:
    """MERGE notes the least and the greatest value that a file has of each column, and who opens the table makes Python's dates of
    them: with a day outside the years 1 to 9999 among them nobody could. So of days none are noted."""
    if not any(_has_days(field.type) for field in schema):
        return {}
    names = [f"`{field.name}`" for field in schema if _has_bounds(field.type) and "`" not in field.name]
    return {"delta.dataSkippingStatsColumns": ",".join(names[:_BOUNDED_COLUMNS])}


def _bound(table: DeltaTable, schema: pa.Schema) -> None:
    """Before a merge that adds a column of days to a table without. What somebody has chosen stays."""
    wanted = _bounds(schema)
    if table.metadata().configuration.keys().isdisjoint(wanted):
        table.alter.set_table_properties(wanted)


def _has_days(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_days(field.type) for field in kind)
    return bool(pa.types.is_date(kind))


def _has_bounds(kind: pa.DataType) -> bool:
    of_kinds = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_string,
        pa.types.is_timestamp,
    )
    return any(is_one(kind) for is_one in of_kinds)


def _version(path: str, app_id: str) -> int:
    version = tables.last_batch(tables.opened(path), app_id)
    return -1 if version is None else int(version)


def _merge(table: DeltaTable, changes: pa.Table, properties: CommitProperties, has_new_columns: bool) -> None:
    if not changes.num_rows:
        return
    key, deleted = _quoted(key_of(changes.schema)), f"s.{_quoted(DELETED)}"
    is_same = f"t.{key} = s.{key}"
    if pa.types.is_floating(changes.schema.field(key_of(changes.schema)).type):
        # To SQL 0.0 is -0.0, and one of them would take the place of both.
        is_same += f" AND CAST(t.{key} AS VARCHAR) = CAST(s.{key} AS VARCHAR)"
    # As `when_matched_update_all` and its like name them, but for a name with a backtick, which these quote by backticks.
    columns = {name: f"s.{name}" for name in map(_quoted, changes.schema.names) if name != _quoted(DELETED)}
    (
        table.merge(
            changes,
            is_same,
            source_alias="s",
            target_alias="t",
            merge_schema=has_new_columns,
            commit_properties=properties,
        )
        .when_matched_delete(deleted)
        .when_matched_update(columns)
        .when_not_matched_insert(columns, predicate=f"NOT {deleted}")
        .execute()
    )


def _quoted(name: str) -> str:
    """As SQL has names."""
    return '"{}"'.format(name.replace('"', '""'))


def key_of(schema: pa.Schema) -> str:
    return "__key" if "__key" in schema.names else "key"


def last_changes(path: str, files: Sequence[TableFile], schema: pa.Schema) -> pa.Table:
    """Of each key the change with the greatest offset; at the same one in several partitions and topics, of the last of them."""
    wanted = marked_schema(schema)
    pieces = [_with_columns(_changes_in(path, file), wanted) for file in files]
    whole = pa.concat_tables(pieces) if pieces else wanted.empty_table()
    prefix = "__" if "__key" in schema.names else ""
    whole = whole.sort_by([(f"{prefix}{name}", "ascending") for name in ("offset", "partition", "topic")])
    numbered = pa.table({"key": whole.column(key_of(schema)), "row": np.arange(whole.num_rows)})
    last = numbered.group_by("key").aggregate([("row", "max")]).column("row_max")
    return whole.take(last)


def _with_columns(changes: pa.Table, wanted: pa.Schema) -> pa.Table:
    """Null in those that were added after the file was begun, or by another task."""
    columns = [
        changes.column(field.name).cast(field.type)
        if field.name in changes.column_names
        else pa.nulls(changes.num_rows, field.type)
        for field in wanted
    ]
    return pa.table(columns, schema=wanted)


def _changes_in(path: str, file: TableFile) -> pa.Table:
    with answers(path), storage_of(changes_directory(path)).parquet(file.name) as source:
        return source.read()


def forget(path: str, app_id: str, batch_id: int) -> None:
    """Deletes the changes of batches up to this one: the table has them, and takes them no more."""
    storage = storage_of(changes_directory(path))
    batches = {name: batch_of(name, app_id) for name in storage.listed("")}
    storage.delete(name for name, batch in batches.items() if batch is not None and batch <= batch_id)


def discard(path: str, files: Iterable[TableFile]) -> None:
    """Of a batch that failed; of one that is merged nothing is left."""
    storage_of(changes_directory(path)).delete(file.name for file in files)
