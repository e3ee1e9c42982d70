"""Which aborted transactions a reader is told of: all that reach into what it is sent, and not all that follow in the log."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.log.files import OsDirectory
from odradek.log.indexes import AbortedTransaction, OffsetIndex, TransactionIndex
from odradek.log.partition_log import PartitionLog
from odradek.records.batch import iter_whole_batches
from tests.log.logs import EVERYTHING, NOW, Disk, config, idempotent, marker, produce

MANY = 400
FEW = 20


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path, config(index_interval_bytes=500))


def filled(disk: Disk) -> PartitionLog:
    """Transactions of three producers; two of three are aborted, and one of them is open for long."""
    log = disk.create()
    sequences = {8: 0, 9: 0}
    produce(log, idempotent(0, is_transactional=True, producer_id=7))
    for number in range(MANY):
        producer_id = 8 + number % 2
        for _ in range(2):
            produce(log, idempotent(sequences[producer_id], is_transactional=True, producer_id=producer_id))
            sequences[producer_id] += 1
        ends = marker(commit=number % 3 == 0, producer_id=producer_id)
        produce(log, ends, from_coordinator=True)
        if number == MANY // 2:
            produce(log, marker(commit=False, producer_id=7), from_coordinator=True)
    return log


def every_read(log: PartitionLog, all_of_them: list[AbortedTransaction]) -> int:
    """How many it was told of at most."""
    most = 0
    for offset in range(log.log_start_offset, log.log_end_offset, 37):
        for max_bytes in (1, 3_000, 20_000, 1 << 30):
            read = log.read(offset, max_bytes=max_bytes, upper_bound_offset=EVERYTHING, min_one_batch=True)
            told = log.aborted_in(read, offset)
            data = memoryview(b"".join(part.read() for part in read.slices))
            last = max(header.last_offset for _, header in iter_whole_batches(data))
            wanted = [one for one in all_of_them if one.last_offset >= offset and one.first_offset <= last]
            assert [one for one in told if one in wanted] == wanted
            assert all(one.last_offset >= offset for one in told)
            if max_bytes <= 3_000:
                most = max(most, len(told))
    return most


@pytest.mark.parametrize("segment_bytes", [1 << 20, 20_000], ids=["one segment", "several"])
def test_a_reader_is_told_of_the_aborts_in_what_it_is_sent(tmp_path: Path, segment_bytes: int) -> None:
    disk = Disk(tmp_path, config(index_interval_bytes=500, segment_bytes=segment_bytes))
    log = filled(disk)
    all_of_them = log.aborted_transactions(0, EVERYTHING)
    assert len(all_of_them) > MANY // 2
    assert every_read(log, all_of_them) < FEW
    log.close()
    assert every_read(disk.open(clean=True).log, all_of_them) < FEW


def test_an_index_that_lies_leaves_no_abort_out(disk: Disk) -> None:
    log = filled(disk)
    index = log.segments.active.offset_index
    assert index is not None
    lie = OffsetIndex()
    for at in range(100):
        lie.append(at + 1, (at + 1) * 7)
    log.segments.active.offset_index = lie
    read = log.read(0, max_bytes=500, upper_bound_offset=EVERYTHING)
    assert log.aborted_in(read, 0) == log.aborted_transactions(0, EVERYTHING)


class Counted(list[int]):
    looked_at = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        Counted.looked_at += len(found) if isinstance(at, slice) else 1
        return found

    def __iter__(self) -> Iterator[int]:
        return map(self.__getitem__, range(len(self)))


def test_aborts_before_the_reader_are_not_walked_over(disk: Disk) -> None:
    log = filled(disk)
    offset = log.log_end_offset - 3
    expected = log.aborted_transactions(offset, EVERYTHING)
    aborted: Any = log.segments.active.transactions
    for column in ("_producers", "_first", "_last", "_stable"):
        setattr(aborted, column, Counted(getattr(aborted, column)))
    assert log.aborted_transactions(offset, EVERYTHING) == expected
    assert Counted.looked_at < FEW


def test_a_transaction_that_begins_where_the_read_ends_is_none_of_it(disk: Disk) -> None:
    log = filled(disk)
    begun = next(one.first_offset for one in log.aborted_transactions(0, EVERYTHING) if one.producer_id != 7)
    beginnings = [
        [one.first_offset for one in log.aborted_transactions(0, upper_bound)]
        for upper_bound in (begun, begun + 1)
    ]
    assert begun not in beginnings[0] and begun in beginnings[1]


def test_nothing_read_is_nothing_aborted(disk: Disk) -> None:
    log = filled(disk)
    read = log.read(log.log_end_offset, max_bytes=10, upper_bound_offset=EVERYTHING)
    assert log.aborted_in(read, log.log_end_offset) == []


def test_an_abort_that_is_written_while_a_thread_reads_the_index_is_told(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleaning looks for aborted transactions in a thread; the loop appends a marker between its read and its next step."""
    log = disk.create()
    produce(log, idempotent(0, is_transactional=True))
    produce(log, marker(commit=False), from_coordinator=True)
    log.roll(NOW)
    log.close()
    log = disk.open(clean=True).log
    read = OsDirectory.read
    is_first = True

    def slowly(directory: OsDirectory, name: str) -> bytes | None:
        nonlocal is_first
        data = read(directory, name)
        if is_first:
            is_first = False
            produce(log, idempotent(0, is_transactional=True, producer_id=8))
            produce(log, marker(commit=False, producer_id=8), from_coordinator=True)
        return data

    monkeypatch.setattr(OsDirectory, "read", slowly)
    assert [one.producer_id for one in log.aborted_apart(0, 2)] == [7]
    assert not is_first
    assert [one.producer_id for one in log.aborted_transactions(0, EVERYTHING)] == [7, 8]


def test_segments_without_an_aborted_transaction_are_not_asked_and_their_files_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fetch of committed records went over all segments behind it, up to the end of the log where nothing was aborted."""
    disk = Disk(tmp_path, config(segment_bytes=1_000))
    log = disk.create()
    sequence = 0
    for number in range(60):
        aborts = number in (20, 40)
        for _ in range(12):
            produce(log, idempotent(sequence, is_transactional=True))
            sequence += 1
        produce(log, marker(commit=not aborts), from_coordinator=True)
    assert len(log.segments) > 100
    offsets_read = range(0, log.log_end_offset, 13)

    def told(of: PartitionLog) -> list[list[AbortedTransaction]]:
        found = []
        for offset in offsets_read:
            read = of.read(offset, max_bytes=900, upper_bound_offset=EVERYTHING, min_one_batch=True)
            found.append(of.aborted_in(read, offset))
        return found

    alive = told(log)
    assert [one.producer_id for some in alive for one in some] == [7] * len([some for some in alive if some])
    assert any(alive)
    log.close()
    again = disk.open(clean=True, recovery_point=log.log_end_offset).log
    looked_for: list[str] = []
    asked: list[int] = []
    read_file, between = OsDirectory.read, TransactionIndex.between

    def reading(directory: OsDirectory, name: str) -> bytes | None:
        looked_for.append(name)
        return read_file(directory, name)

    def asking(index: TransactionIndex, offset: int, bound: int) -> tuple[list[AbortedTransaction], bool]:
        asked.append(offset)
        return between(index, offset, bound)

    monkeypatch.setattr(OsDirectory, "read", reading)
    monkeypatch.setattr(TransactionIndex, "between", asking)

    assert told(again) == alive

    # Two segments have one, and the active one is always asked.
    assert len([name for name in looked_for if name.endswith(".txnindex")]) <= 3
    assert len(asked) <= 3 * len(offsets_read)
    again.roll(NOW)
    produce(again, idempotent(sequence, is_transactional=True))
    produce(again, marker(commit=False), from_coordinator=True)
    read = again.read(again.log_end_offset - 2, max_bytes=EVERYTHING, upper_bound_offset=EVERYTHING)
    assert len(again.aborted_in(read, again.log_end_offset - 2)) == 1
