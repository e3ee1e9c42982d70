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
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from odradek.spark.parquet import OWN_DIRECTORY, application_prefix

ROLLED = 500
Note = dict[str, Any]


def keep(table: str, table_id: str, note: Note) -> None:
    """Any number of times; the last is what counts."""
    directory = _directory(table, note["appId"])
    directory.mkdir(parents=True, exist_ok=True)
    _replace(directory / f"{note['batchId']:010d}.json", [{**note, "tableId": table_id}])
    if note["batchId"] % ROLLED == ROLLED - 1:
        _roll(directory, note["batchId"])


def find(table: str, table_id: str, app_id: str, batch_id: int) -> Note | None:
    directory = _directory(table, app_id)
    rolled = [file for file in sorted(directory.glob("upto-*.jsonl")) if _upto(file) >= batch_id]
    for file in (directory / f"{batch_id:010d}.json", *rolled[:1]):
        for note in _read(file):
            if (note["batchId"], note["tableId"]) == (batch_id, table_id):
                return note
    return None


def every(table: str, table_id: str, app_id: str | None = None) -> Iterator[Note]:
    """Of one application or of all, each batch once."""
    whole = Path(table) / OWN_DIRECTORY / "batches"
    for directory in [_directory(table, app_id)] if app_id is not None else sorted(whole.glob("*")):
        found = {
            note["batchId"]: note
            for file in (*sorted(directory.glob("upto-*.jsonl")), *sorted(directory.glob("*.json")))
            for note in _read(file)
            if note["tableId"] == table_id
        }
        yield from (found[batch] for batch in sorted(found))


def _roll(directory: Path, batch_id: int) -> None:
    """Up to `batch_id`; a crash on the way leaves notes twice, never none."""
    single = [file for file in sorted(directory.glob("*.json")) if int(file.stem) <= batch_id]
    whole = directory / f"upto-{batch_id:010d}.jsonl"
    # Rolled up before, perhaps, by one who died while taking away the single ones.
    notes = {(note["tableId"], note["batchId"]): note for file in (whole, *single) for note in _read(file)}
    _replace(whole, list(notes.values()))
    for file in single:
        file.unlink(missing_ok=True)


def _replace(file: Path, notes: list[Note]) -> None:
    """Whole or not at all, also where two drivers of one application write it."""
    new = file.with_name(f"{file.name}.{uuid.uuid4().hex}")
    new.write_text("".join(json.dumps(note) + "\n" for note in notes), encoding="utf-8")
    os.replace(new, file)


def _read(file: Path) -> list[Note]:
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:  # never written, or rolled up meanwhile
        return []
    return [json.loads(line) for line in text.splitlines()]


def _upto(file: Path) -> int:
    return int(file.stem.removeprefix("upto-"))


def _directory(table: str, app_id: str) -> Path:
    return Path(table) / OWN_DIRECTORY / "batches" / application_prefix(app_id).rstrip("-")
