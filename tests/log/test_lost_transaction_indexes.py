"""A `.txnindex` that somebody removed, emptied or thinned: readers of committed records are told of every abort all the same."""

from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.log.indexes import TRANSACTION_ENTRY, AbortedTransaction
from odradek.log.partition_log import PartitionLog
from odradek.log.segment import TRANSACTION_INDEX_SUFFIX
from tests.log.logs import EVERYTHING, Disk, config, idempotent, marker, produce

ENTRY = TRANSACTION_ENTRY.size

DAMAGES: dict[str, Callable[[Path], object]] = {
    "removed": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "torn": lambda path: path.write_bytes(path.read_bytes()[:-3]),
    "without its last entry": lambda path: path.write_bytes(path.read_bytes()[:-ENTRY]),
    "without its first entry": lambda path: path.write_bytes(path.read_bytes()[ENTRY:]),
    "zeros": lambda path: path.write_bytes(bytes(len(path.read_bytes()))),
    "of another segment": lambda path: path.write_bytes(b"".join(_moved(path.read_bytes()))),
}


def _moved(data: bytes) -> list[bytes]:
    return [
        TRANSACTION_ENTRY.pack(version, producer, first + 10_000, last + 10_000, stable + 10_000)
        for version, producer, first, last, stable in TRANSACTION_ENTRY.iter_unpack(data)
    ]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path, config(segment_bytes=4_000))


def filled(disk: Disk) -> PartitionLog:
    """Segments with several aborts each; one transaction reaches over three of them."""
    log = disk.create()
    sequences = {7: 0, 8: 0, 9: 0}
    produce(log, idempotent(0, is_transactional=True, producer_id=6))
    for number in range(60):
        producer_id = 7 + number % 3
        for _ in range(1 + number % 2):
            produce(log, idempotent(sequences[producer_id], is_transactional=True, producer_id=producer_id))
            sequences[producer_id] += 1
        ends = marker(commit=number % 4 == 0, producer_id=producer_id)
        produce(log, ends, from_coordinator=True)
        if number == 40:
            produce(log, marker(commit=False, producer_id=6), from_coordinator=True)
    counts = [len(segment.transactions) for segment in log.segments]
    assert len(counts) > 3 and min(counts[:-1]) > 1 and counts[-1]
    return log


def told(log: PartitionLog) -> list[AbortedTransaction]:
    return log.aborted_transactions(0, EVERYTHING)


def indexes(disk: Disk) -> list[Path]:
    return sorted(disk.log_path.glob("*" + TRANSACTION_INDEX_SUFFIX))


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("is_open", [True, False], ids=["under a running broker", "before its start"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_abort_is_told(disk: Disk, damage: str, is_open: bool, is_clean: bool) -> None:
    log = filled(disk)
    alive = told(log)
    everything = {path.name: path.read_bytes() for path in indexes(disk)}
    end = log.log_end_offset
    if is_clean:
        log.close()
    else:
        log.flush()
    for at, path in enumerate(indexes(disk)):
        disk.file(path.name)
        again = disk.open(clean=is_clean, recovery_point=end).log if is_open else None
        DAMAGES[damage](path)
        again = disk.open(clean=is_clean, recovery_point=end).log if again is None else again

        assert told(again) == alive, f"index {at}"

        is_active = int(path.name[:20]) == again.segments.active.base_offset
        if not (is_open and is_active):  # what memory knows is written by nobody
            assert {path.name: path.read_bytes() for path in indexes(disk)} == everything
        path.write_bytes(everything[path.name])
        again.close()
