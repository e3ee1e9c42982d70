"""What Apache Kafka 3.9.1's cleaner left of a partition, stage by stage, and what ours leaves of the same bytes."""

import json
from typing import Any, NamedTuple

import pytest

from odradek.log.compaction.rewriting import LastEntry
from odradek.log.indexes import AbortedTransaction, TransactionIndex
from odradek.records.batch import BatchHeader, check_crc, iter_batches
from odradek.records.reader import Record, decode_batch
from tests.log.compaction.passes import Cleaned, clean
from tests.support import GOLDEN

RECORDED = GOLDEN / "compaction"
DELETE_RETENTION_MS = 8000
# Producers that the log still knew at a stage, and the last offset of their data.
FIRST_KNOWN = {11: LastEntry(7, 0), 12: LastEntry(10, 0), 13: LastEntry(18, 0), 14: LastEntry(16, 0)}
LAST_KNOWN = {15: LastEntry(30, 0)}


class Stage(NamedTuple):
    """One cleaning: of which stage's files, what it left, where the dirty part began, where it ended."""

    before: str
    after: str
    first_dirty: int
    end_offset: int
    known: dict[int, LastEntry]


STAGES = [
    Stage("0-before", "1-cleaned", 0, 27, FIRST_KNOWN),
    Stage("2-past-horizon", "3-cleaned-again", 27, 29, {}),
    Stage("4-open-transaction", "5-aborted", 29, 32, LAST_KNOWN),
]


def cleanable(stage: str, end_offset: int) -> bytes:
    """The segments below `end_offset`, one behind the other."""
    logs = sorted((RECORDED / stage).glob("*.log"))
    return b"".join(log.read_bytes() for log in logs if int(log.stem) < end_offset)


def aborted(stage: str) -> list[AbortedTransaction]:
    files = sorted((RECORDED / stage).glob("*.txnindex"))
    return [one for file in files for one in TransactionIndex.from_bytes(file.read_bytes())]


def horizon_of(stage: str) -> int:
    """When the cleaning that made this stage set its horizons: the largest in its files."""
    found = [
        header.delete_horizon_ms
        for log in (RECORDED / stage).glob("*.log")
        for _, header in iter_batches(log.read_bytes())
        if header.delete_horizon_ms is not None
    ]
    return max(found)


def shown(data: bytes) -> list[tuple[BatchHeader, list[Record], bytes]]:
    """Each batch: header without size and CRC where there is a codec, whose encoder is not ours, and the bytes where not."""
    batches = []
    for position, header in iter_batches(data):
        assert check_crc(data, position, header)
        whole = data[position : position + header.size_bytes]
        if header.codec:
            batches.append((header._replace(size_bytes=0, crc=0), decode_batch(whole), b""))
        else:
            batches.append((header, decode_batch(whole), whole))
    return batches


def cleaned(stage: Stage) -> Cleaned:
    made_ms = horizon_of(stage.after) - DELETE_RETENTION_MS
    if stage.after == "3-cleaned-again":  # nothing new got a horizon: those that were there had passed
        made_ms = horizon_of(stage.before) + 1
    return clean(
        cleanable(stage.before, stage.end_offset),
        first_dirty=stage.first_dirty,
        now_ms=made_ms,
        delete_retention_ms=DELETE_RETENTION_MS,
        last_entries=stage.known,
        # The marker of the transaction that the last cleaning met stands in the active segment, with its entry.
        aborted=aborted(stage.before) + (aborted(stage.after) if stage.after == "5-aborted" else []),
    )


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.after)
@pytest.mark.behaviour("L7")
def test_what_is_left_is_what_apache_left_batch_by_batch(stage: Stage) -> None:
    ours = shown(cleaned(stage).data)
    theirs = shown(cleanable(stage.after, stage.end_offset))

    assert [header for header, _, _ in ours] == [header for header, _, _ in theirs]
    assert ours == theirs


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.after)
@pytest.mark.behaviour("L14")
def test_the_checkpoint_and_the_transaction_index_are_apaches(stage: Stage) -> None:
    done = cleaned(stage)

    assert done.end_offset == stage.end_offset == checkpoint_of(stage.after)
    kept = [one for one in aborted(stage.after) if one.last_offset < stage.end_offset]
    assert done.still_aborted == kept


def checkpoint_of(stage: str) -> int:
    lines: list[dict[str, Any]] = [
        json.loads(line) for line in (RECORDED / "stages.jsonl").read_text("utf-8").splitlines()
    ]
    (found,) = [line["cleaner_checkpoint"] for line in lines if line.get("stage") == stage]
    assert isinstance(found, int)
    return found


def test_the_recording_has_what_the_rules_need() -> None:
    """Else the comparison would say less than it seems to."""
    batches = [b for stage in STAGES for b in shown(cleanable(stage.after, stage.end_offset))]
    headers = [header for header, _, _ in batches]

    assert any(h.record_count == 0 and h.producer_id >= 0 for h in headers), "a batch kept for its producer"
    assert any(h.is_control and h.delete_horizon_ms is not None for h in headers), "a marker with a horizon"
    assert any(h.codec and h.record_count <= h.last_offset_delta for h in headers), (
        "compressed, and fewer records"
    )
    assert any(record.value is None for _, records, _ in batches for record in records), "a tombstone"
    assert any(record.value == b"" for _, records, _ in batches for record in records), (
        "a value without bytes"
    )
