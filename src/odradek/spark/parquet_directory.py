"""A directory of Parquet files that takes each batch of an application exactly once, and shows none by halves.

    DIRECTORY/batch=APPLICATION-NUMBER/*.parquet    what readers see; `APPLICATION` is a hash of its name
    DIRECTORY/_odradek/staged/                      where tasks write
    DIRECTORY/_odradek/ready/                       where the driver puts a batch together

The step that decides is the renaming of a directory: all files of a batch are there, or none, and of two who try it one wins.
DuckDB, Polars and Spark read the directory as it is, with a column `batch` that the directories' names give them. A directory
has nothing above its files, so there is no append to others' tables, no schema that is checked, and a rename that is atomic is
needed: a file system, not an object store.
"""

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from odradek.spark import in_work
from odradek.spark import parts as parts_of_batch
from odradek.spark.cannot_write import NotShared
from odradek.spark.checkpoints import ENDS, QUERY_ID, ends_of_batch, says_otherwise
from odradek.spark.fingerprint import Fingerprint
from odradek.spark.parquet import OWN_DIRECTORY, TableFile, application_prefix
from odradek.spark.parts import Part, merged
from odradek.spark.storage import Directory, sync, sync_name
from odradek.spark.tables import WrongCheckpoint

NOTE = "_note.json"  # readers pass over names that begin so


def staged(path: str) -> str:
    return str(Path(path) / OWN_DIRECTORY / "staged")


def commit(
    path: str,
    *,
    app_id: str,
    batch_id: int,
    files: Sequence[TableFile],
    parts: Iterable[Part],
    rows: Fingerprint | None = None,
    is_named: bool = True,
    query_id: str = "",
    checkpoint: str = "",
) -> bool:
    """Shows the files, unless the batch is there already; True if they were not there before. What is not `is_named` comes
    once, and nothing has to be remembered of it."""
    last = _last(path, app_id)
    if last > batch_id:
        raise WrongCheckpoint(
            f"{path} already has batch {last} of application {app_id!r}, but this checkpoint is only at batch {batch_id}: "
            f"it is not the one the files were written from, or another driver goes on with it; restore the one that "
            f"belongs to them, or give the application another id (the rows would then be there twice)"
        )
    if last < batch_id:
        before = _note_of(path, app_id, last)
        if says_otherwise(before, QUERY_ID, query_id):
            raise WrongCheckpoint(
                f"{path} has batch {last} of application {app_id!r} from a query of another checkpoint, and two cannot share an id: "
                f"each would take batches of the other for its own; restore the checkpoint that belongs to the files, or give this "
                f"query another appId"
            )
        if says_otherwise(before, ENDS, ends_of_batch(checkpoint, last)):
            raise _other_batch(path, app_id, last)
    target = batch_directory(path, app_id, batch_id)
    ends = ends_of_batch(checkpoint, batch_id)
    now = merged(parts)
    found = parts_of_batch.to_json(now)
    if not target.exists() and files:
        note = {
            "appId": app_id,
            "batchId": batch_id,
            "parts": found,
            "records": sum(f.records for f in files),
        }
        if query_id:
            note[QUERY_ID] = query_id
        if ends:
            note[ENDS] = ends
        if rows is not None:
            note["rows"] = {"count": rows.count, "hash": rows.hex}
        is_new = _show(path, target, app_id, batch_id, files, note)
    else:
        is_new = False
    if target.exists() and not is_new:
        there = json.loads((target / NOTE).read_text(encoding="utf-8"))
        is_planned_alike = bool(ends) and there.get(ENDS) == ends
        is_same = there.get(QUERY_ID, query_id) == query_id and parts_of_batch.come_again(
            now, parts_of_batch.from_json(there["parts"]), may_have_lost=is_planned_alike
        )
        if not is_same or (not found and says_otherwise(there, ENDS, ends)):
            raise _other_batch(path, app_id, batch_id)
    if target.exists():
        sync(target.parent)  # of another driver's batch as well, which may have died right behind the rename
        if last < 0:
            sync_name(Path(path))
    if is_named:
        _remember(path, app_id, batch_id)
    _tidy(path, app_id, batch_id)
    return is_new


def abort(path: str, names: Sequence[str]) -> None:
    """Deletes what tasks of a batch that failed have written; what was shown is elsewhere."""
    for name in names:
        (Path(staged(path)) / name).unlink(missing_ok=True)
    in_work.forget(staged(path), names)


def batch_directory(path: str, app_id: str, batch_id: int) -> Path:
    return Path(path) / f"batch={_short(app_id)}-{batch_id:010d}"


def _show(
    path: str, target: Path, app_id: str, batch_id: int, files: Sequence[TableFile], note: dict[str, Any]
) -> bool:
    ready = Path(path) / OWN_DIRECTORY / "ready" / f"{_short(app_id)}-{batch_id:010d}-{uuid.uuid4().hex}"
    try:
        ready.mkdir(parents=True)
        for file in files:
            (ready / file.name).parent.mkdir(parents=True, exist_ok=True)
            os.rename(Path(staged(path)) / file.name, ready / file.name)
        (ready / NOTE).write_text(json.dumps(note), encoding="utf-8")
        # The checkpoint goes on behind this batch: a power cut must not leave its directory with files that are empty.
        for directory, _, names in os.walk(ready, topdown=False):
            for name in names:
                sync(Path(directory, name))
            sync(Path(directory))
        os.rename(ready, target)
    except OSError as error:
        # Another driver of the same batch was faster, and takes away what is left of it at any of these steps.
        if target.exists():
            return False
        shutil.rmtree(ready, ignore_errors=True)
        if isinstance(error, FileNotFoundError):
            raise NotShared(
                f"{error.filename} is not there, which a task has just written: executors and driver have to share the directory, or "
                f"somebody has deleted it; nothing of batch {batch_id} is seen"
            ) from None
        raise
    return True


def _tidy(path: str, app_id: str, batch_id: int) -> None:
    """Takes away what is left of batches up to this one, which are there: nobody can show it any more."""
    left = [name for _, name in in_work.listed(staged(path), app_id, batch_id)]
    for name in left:
        (Path(staged(path)) / name).unlink(missing_ok=True)
    in_work.forget(staged(path), left)
    for directory in (Path(path) / OWN_DIRECTORY / "ready").glob(f"{_short(app_id)}-*"):
        if int(directory.name.split("-")[1]) <= batch_id:
            shutil.rmtree(directory, ignore_errors=True)  # two may be at it


def _last(path: str, app_id: str) -> int:
    try:
        return int(_last_file(path, app_id).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return -1


def _note_of(path: str, app_id: str, batch_id: int) -> dict[str, Any]:
    """What a batch noted; nothing where nobody knows: without rows it has no directory, and somebody may have deleted that."""
    try:
        note = (batch_directory(path, app_id, batch_id) / NOTE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    found: dict[str, Any] = json.loads(note)
    return found


def _other_batch(path: str, app_id: str, batch_id: int) -> WrongCheckpoint:
    return WrongCheckpoint(
        f"{path} has batch {batch_id} of application {app_id!r} with other records, or from another query: this checkpoint is not the "
        f"one the files were written from, or was put back to before that batch; restore the one that belongs to them, or give this "
        f"query another appId"
    )


def _remember(path: str, app_id: str, batch_id: int) -> None:
    """That a checkpoint is behind shows without looking through all batches."""
    file = _last_file(path, app_id)
    Directory(str(file.parent)).replace(file.name, str(batch_id).encode())


def _last_file(path: str, app_id: str) -> Path:
    return Path(path) / OWN_DIRECTORY / f"last-{_short(app_id)}"


def _short(app_id: str) -> str:
    return application_prefix(app_id).split("-")[1]
