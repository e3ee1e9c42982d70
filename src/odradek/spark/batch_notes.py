"""What proves each batch of a table, kept for as long as the table lives.

A commit's own metadata stands in Delta's log, which drops what is older than `delta.logRetentionDuration` (30 days). So
what a commit noted is copied, right after it, to

    TABLE/_odradek/batches/PREFIX/BATCH.json            one batch
    TABLE/_odradek/batches/PREFIX/upto-BATCH.jsonl      `ROLLED` of them, a line each

The commit decides, the copy only remembers: a driver that dies between the two finds the note in Delta's log when the
batch comes again, and copies it then. A note names the table it is of, by the id in Delta's metadata: a table that was made
anew in the same directory has none of the old one's.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any

from odradek.spark.parquet import OWN_DIRECTORY, application_prefix
from odradek.spark.storage import Storage, storage_of

ROLLED = 500
_NOTES = f"{OWN_DIRECTORY}/batches"
Note = dict[str, Any]


def keep(table: str, table_id: str, note: Note) -> None:
    """Any number of times; the last is what counts."""
    storage, directory = storage_of(table), _directory(note["appId"])
    storage.replace(f"{directory}/{note['batchId']:010d}.json", _text([{**note, "tableId": table_id}]))
    if note["batchId"] % ROLLED == ROLLED - 1:
        _roll(storage, directory, note["batchId"])


def find(table: str, table_id: str, app_id: str, batch_id: int) -> Note | None:
    storage, directory = storage_of(table), _directory(app_id)
    found = _of(_read(storage, f"{directory}/{batch_id:010d}.json"), table_id, batch_id)
    if found is None:
        rolled = [file for file in _rolled(storage, directory) if _upto(file) >= batch_id]
        found = _of(_read(storage, rolled[0]), table_id, batch_id) if rolled else None
    return found


def every(table: str, table_id: str, app_id: str | None = None) -> Iterator[Note]:
    """Of one application or of all, each batch once."""
    storage = storage_of(table)
    files = storage.listed(_NOTES if app_id is None else _directory(app_id))
    for directory, of_one in groupby(files, key=lambda file: file.rsplit("/", 1)[0]):
        # In this order: who rolls some up meanwhile takes the single ones away behind that. A batch that is in both is the same,
        # but for what was written last, which is single.
        single = _by_batch(storage, [file for file in of_one if file.endswith(".json")])
        found = _by_batch(storage, _rolled(storage, directory)) | single
        yield from (found[batch] for batch in sorted(found) if batch[0] == table_id)


def _roll(storage: Storage, directory: str, batch_id: int) -> None:
    """Up to `batch_id`; a crash on the way leaves notes twice, never none."""
    listed = [file for file in storage.listed(directory) if file.endswith(".json")]
    single = [file for file in listed if int(PurePosixPath(file).stem) <= batch_id]
    whole = f"{directory}/upto-{batch_id:010d}.jsonl"
    kept = _by_batch(storage, single)
    # Behind the single ones: another driver of the batch may have rolled them up by now, or one who died while taking them away.
    storage.replace(whole, _text((_by_batch(storage, [whole]) | kept).values()))
    storage.delete(single)


def _by_batch(storage: Storage, files: Iterable[str]) -> dict[tuple[str, int], Note]:
    """Of what is there of the files, by table and batch; the last is what counts."""
    return {(note["tableId"], note["batchId"]): note for file in files for note in _read(storage, file)}


def _text(notes: Iterable[Note]) -> bytes:
    return "".join(json.dumps(note) + "\n" for note in notes).encode()


def _read(storage: Storage, file: str) -> list[Note]:
    try:
        text = storage.read(file).decode()
    except FileNotFoundError:  # never written, or rolled up meanwhile
        return []
    return [json.loads(line) for line in text.splitlines()]


def _of(notes: Iterable[Note], table_id: str, batch_id: int) -> Note | None:
    return next((note for note in notes if (note["batchId"], note["tableId"]) == (batch_id, table_id)), None)


def _rolled(storage: Storage, directory: str) -> list[str]:
    return [file for file in storage.listed(directory, "upto-") if file.endswith(".jsonl")]


def _upto(file: str) -> int:
    return int(PurePosixPath(file).stem.removeprefix("upto-"))


def _directory(app_id: str) -> str:
    return f"{_NOTES}/{application_prefix(app_id).rstrip('-')}"
