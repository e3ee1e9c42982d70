"""A commit of ours to a Delta table on a file system, where it has to do what delta-rs does in commits of their own.

One version, one file: `_delta_log/VERSION.json`, which a hard link makes whole or not at all, and for one writer of all who try
it (delta-rs does the same there). Nothing is reconciled with what others have committed meanwhile: the caller looks again.
"""

import json
import os
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError

from odradek.spark.evolution import Change
from odradek.spark.parquet import OWN_DIRECTORY, TableFile, application_prefix
from odradek.spark.places import is_in_store
from odradek.spark.required import Path as RequiredPath
from odradek.spark.storage import storage_of, sync_name

Action = dict[str, Any]
_LOG = "_delta_log"


def add(file: TableFile, *, is_new: bool = True) -> Action:
    """`is_new`: with rows that the table did not have."""
    return {
        "add": {
            "path": quote(file.name, safe="/=-_.~"),
            "partitionValues": dict(file.partition),
            "size": file.size_bytes,
            "modificationTime": _now_ms(),
            "dataChange": is_new,
            "stats": file.stats,
        }
    }


def remove(name: str, size_bytes: int, partition: Mapping[str, str | None]) -> Action:
    """Of a file whose rows are in another one now."""
    return {
        "remove": {
            "path": quote(name, safe="/=-_.~"),
            "deletionTimestamp": _now_ms(),
            "dataChange": False,
            "extendedFileMetadata": True,  # with it these two are there (Delta's protocol, "Add File and Remove File")
            "partitionValues": dict(partition),
            "size": size_bytes,
        }
    }


def changed(table: DeltaTable, change: Change) -> Action:
    """The table's metadata with other columns; what is known of those that are there stays."""
    schema = json.loads(table.schema().to_json())
    widened = {field.name: field for field in change.widened}
    for field in schema["fields"]:
        if field["name"] in widened:
            field["type"] = _as_delta(widened[field["name"]])["type"]
    for path in change.relaxed:
        _let_be_null(schema, path)
    for new in change.added:
        schema["fields"].append(_as_delta(new.with_nullable(True)))
    known = table.metadata()
    return {
        "metaData": {
            "id": str(known.id),
            "name": known.name,
            "description": known.description,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema),
            "partitionColumns": known.partition_columns,
            "configuration": known.configuration,
            "createdTime": known.created_time,
        }
    }


def commit(
    path: str,
    table: DeltaTable,
    actions: Iterable[Action],
    *,
    app_id: str,
    batch_id: int,
    metadata: Mapping[str, Any],
) -> None:
    """The version after the one that `table` is at; CommitFailedError where somebody else has made it."""
    info = {
        "timestamp": _now_ms(),
        "operation": "WRITE",
        "operationParameters": {"mode": "Append"},
        "readVersion": table.version(),
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "engineInfo": "odradek",
        **metadata,
    }
    transaction = {"appId": app_id, "version": batch_id, "lastUpdated": _now_ms()}
    lines = [{"commitInfo": info}, *actions, {"txn": transaction}]
    directory = Path(path) / OWN_DIRECTORY / "commits"
    directory.mkdir(parents=True, exist_ok=True)
    _tidy(directory, app_id, batch_id)
    staged = directory / f"{application_prefix(app_id)}{batch_id:010d}-{uuid.uuid4().hex}.json"
    try:
        with open(staged, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(staged, Path(path) / _LOG / f"{table.version() + 1:020d}.json")
        except FileExistsError:
            raise CommitFailedError(
                f"{path}: version {table.version() + 1} was made by another writer"
            ) from None
    finally:
        staged.unlink(missing_ok=True)


def sync(path: str, after: int, *, with_files: bool = False) -> None:
    """From here on a power cut takes nothing of what was committed after this version (-1: after none).

    `with_files`: of the files that were added, either, where delta-rs has made them and nobody knew their names before.
    In an object store there is nothing to be done.
    """
    if is_in_store(path):
        return
    names = [f"{_LOG}/_last_checkpoint"]
    version = after + 1
    while (commit := Path(path, _LOG, f"{version:020d}.json")).exists():
        names += [f"{_LOG}/{commit.name}", f"{_LOG}/{version:020d}.checkpoint.parquet"]
        if with_files:
            actions = map(json.loads, commit.read_text(encoding="utf-8").splitlines())
            names += [unquote(action["add"]["path"]) for action in actions if "add" in action]
        version += 1
    storage_of(path).sync(names)
    if after < 0:
        sync_name(Path(path))


def _tidy(directory: Path, app_id: str, batch_id: int) -> None:
    """Takes away what drivers left that died before this batch was begun."""
    prefix = application_prefix(app_id)
    for file in directory.glob(f"{prefix}*"):
        if int(file.name[len(prefix) :].partition("-")[0]) < batch_id:
            file.unlink(missing_ok=True)


def _let_be_null(kind: Any, path: RequiredPath) -> None:
    """Changes a type as Delta writes it: what is at the path may be null."""
    name, *rest = path
    if kind["type"] == "struct":
        (field,) = (field for field in kind["fields"] if field["name"] == name)
        holder, key, inner = field, "nullable", field["type"]
    elif kind["type"] == "array":
        holder, key, inner = kind, "containsNull", kind["elementType"]
    else:
        holder, key, inner = kind, "valueContainsNull", kind["valueType"]
    if rest:
        _let_be_null(inner, tuple(rest))
    else:
        holder[key] = True


def _as_delta(field: pa.Field) -> dict[str, Any]:
    (found,) = json.loads(Schema.from_arrow(pa.schema([field])).to_json())["fields"]
    return dict(found)


def _now_ms() -> int:
    return int(time.time() * 1000)
