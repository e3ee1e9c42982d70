"""Offsets by timestamp."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.log.errors import CorruptLog
from odradek.log.lookups import Allowance, NewestSearch, TimestampSearch
from odradek.log.partition_log import PartitionLog
from odradek.records.builder import NewRecord, build_batch
from odradek.records.compression import CODEC_NAMES
from odradek.records.reader import decode_batch
from tests.log.logs import NOW, Disk, batch, config, contents, produce


def at(*timestamps: int, codec: str = "none") -> bytes:
    return build_batch([NewRecord(b"k", b"v", timestamp) for timestamp in timestamps], codec=codec)


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_the_first_record_with_the_timestamp_or_a_later_one(tmp_path: Path, codec: str) -> None:
    log = Disk(tmp_path).create()
    produce(log, at(100, 300, 200, codec=codec), epoch=3)
    produce(log, at(250, 400, codec=codec), epoch=4)
    found = {ts: log.offset_for_timestamp(ts) for ts in (0, 100, 101, 200, 300, 301, 400, 401)}
    assert found[0] == found[100] == (100, 0, 3)
    assert found[101] == found[200] == found[300] == (300, 1, 3)
    assert found[301] == found[400] == (400, 4, 4)
    assert found[401] is None
    assert log.offset_of_max_timestamp() == (400, 4, 4)


def test_a_batch_that_is_not_what_was_written_is_not_looked_into(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    produce(log, at(100, 300))
    candidate = TimestampSearch(log, 200).next_candidate()
    assert candidate is not None and candidate.run() == (300, 1, 0)
    for data in (candidate.data[:-1], candidate.data[:-1] + b"?"):
        found = candidate._replace(data=data).run()
        assert isinstance(found, CorruptLog)
        assert "00000000000000000000.log: the batch of offset 0 is damaged" in found.message


def test_the_first_of_equal_timestamps_is_the_largest(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(segment_bytes=400, index_interval_bytes=1)).create()
    for _ in range(4):
        produce(log, at(500, 900))
        produce(log, at(900, 100))
    assert log.offset_of_max_timestamp() == (900, 1, 0)
    assert log.offset_for_timestamp(900) == (900, 1, 0)


def test_records_without_timestamps_are_never_found(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(segment_bytes=200)).create()
    for _ in range(5):
        produce(log, at(-1, -1))
    assert log.offset_for_timestamp(0) is None and log.offset_of_max_timestamp() is None


def test_a_time_of_0_is_one_also_where_the_index_files_are_asked(tmp_path: Path) -> None:
    disk = Disk(tmp_path, config(segment_bytes=200, index_interval_bytes=1))
    log = disk.create()
    for _ in range(5):
        produce(log, at(-1, 0))
    log.close()
    log = disk.open(clean=True, recovery_point=10).log
    assert [segment.largest_timestamp() for segment in log.segments] == [0] * len(log.segments)
    assert log.offset_of_max_timestamp() == (0, 1, 0) and log.max_timestamp() == (0, 1)


def test_an_empty_log_has_no_timestamps(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    assert log.offset_for_timestamp(0) is None and log.offset_of_max_timestamp() is None


def test_a_search_by_time_keeps_the_descriptors_of_one_old_segment_and_no_more(tmp_path: Path) -> None:
    disk = Disk(tmp_path, config(segment_bytes=200))
    log = disk.create()
    for time in range(20):
        produce(log, at(time, time))
    log.close()
    log = disk.open(clean=True).log
    assert len(log.segments) > 4
    assert log.offset_for_timestamp(99) is None
    assert log.offset_of_max_timestamp() is not None
    assert all(segment.is_cold for segment in log.segments[:-1])
    for time in range(20):
        found = log.offset_for_timestamp(time)
        assert found is not None and found.timestamp == time
        assert sum(not segment.is_cold for segment in log.segments[:-1]) <= 1, time


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), min_size=1, max_size=30),
    asked=st.integers(0, 61),
    interval=st.sampled_from([1, 150, 4096]),
    reopen=st.booleans(),
)
def test_any_timestamp_in_any_log_is_answered_as_by_a_scan(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[int]],
    asked: int,
    interval: int,
    reopen: bool,
) -> None:
    disk = Disk(tmp_path_factory.mktemp("log"), config(segment_bytes=500, index_interval_bytes=interval))
    log = disk.create()
    records = []
    for timestamps in batches:
        produce(log, at(*timestamps))
        records += [(NOW * 0 + ts, len(records) + n) for n, ts in enumerate(timestamps)]
    if reopen:
        end = log.log_end_offset
        log.close()
        log = disk.open(clean=True, recovery_point=end).log
    expected = next(((ts, offset, 0) for ts, offset in records if ts >= asked), None)
    assert log.offset_for_timestamp(asked) == expected
    largest = max(ts for ts, _ in records)
    assert log.offset_of_max_timestamp() == next((ts, offset, 0) for ts, offset in records if ts == largest)
    assert in_steps(log, asked) == expected


@settings(max_examples=100, deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(-1, 20), min_size=1, max_size=4), min_size=1, max_size=20),
    start=st.integers(0, 80),
    segment_bytes=st.sampled_from([500, 1 << 20]),
    reopen=st.booleans(),
)
@example(batches=[[9], [5], [7], [7, 3]], start=1, segment_bytes=1 << 20, reopen=False)
@example(batches=[[5, 9, 3, 7], [6]], start=2, segment_bytes=1 << 20, reopen=False)
@example(batches=[[5, 9, 3, 3]], start=2, segment_bytes=1 << 20, reopen=True)
@example(batches=[[9, -1], [-1]], start=1, segment_bytes=1 << 20, reopen=False)
def test_the_largest_timestamp_is_that_of_the_records_that_are_left(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[int]],
    start: int,
    segment_bytes: int,
    reopen: bool,
) -> None:
    """DeleteRecords takes any, the newest too, and the log may begin in the middle of a segment or of a batch."""
    disk = Disk(tmp_path_factory.mktemp("log"), config(segment_bytes=segment_bytes, index_interval_bytes=1))
    log = disk.create()
    records: list[int] = []
    for timestamps in batches:
        produce(log, at(*timestamps))
        records += timestamps
    start = min(start, len(records))
    log.delete_records_before(start)
    if reopen:
        log.close()
        log = disk.open(clean=True, recovery_point=len(records), log_start_offset=start).log
    left = [(timestamp, -offset) for offset, timestamp in enumerate(records) if offset >= start]
    timestamp, offset = max(left, default=(-1, 0))
    expected = None if timestamp < 0 else (timestamp, -offset, 0)
    assert log.offset_of_max_timestamp() == expected
    largest = log.max_timestamp()
    if largest.timestamp >= 0:
        search = NewestSearch(log, largest)
        while not search.is_over:
            if search.is_near(Allowance(1)) and (found := search.next_candidate(Allowance(1))) is not None:
                search.tell(found, found.run())
        assert search.found == expected


def in_steps(log: PartitionLog, timestamp: int) -> tuple[int, int, int] | None:
    """As little as can be is looked at in each."""
    search = TimestampSearch(log, timestamp)
    while not search.is_over:
        if search.is_near(Allowance(1)) and (candidate := search.next_candidate(Allowance(1))) is not None:
            search.tell(candidate, candidate.run())
    return search.found


def test_a_search_that_a_cut_overtakes_begins_anew(tmp_path: Path) -> None:
    """What is appended behind the cut may lie where there was nothing before."""
    log = Disk(tmp_path, config(segment_bytes=100, index_interval_bytes=1)).create()
    for timestamp in (100, 200, 300, 400):
        produce(log, at(timestamp))
    search = TimestampSearch(log, 400)
    for _ in range(3):
        assert not search.is_near(Allowance(1))
    log.truncate_to(1, NOW)
    for timestamp in (500, 50):
        produce(log, at(timestamp))
    candidate = search.next_candidate()
    assert candidate is not None and candidate.run() == (500, 1, 0)


def test_log_append_time_is_found_as_the_brokers_time(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(message_timestamp_type="LogAppendTime")).create()
    produce(log, batch(3, at=5), now_ms=NOW)
    produce(log, batch(3, at=1), now_ms=NOW + 10)
    assert log.offset_for_timestamp(NOW + 1) == (NOW + 10, 3, 0)
    assert decode_batch(contents(log))[0].timestamp == NOW


def test_a_log_that_was_cut_while_a_batch_was_looked_into_is_not_called_damaged(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    for at in range(4):
        produce(log, batch(at=NOW + at))
    search = TimestampSearch(log, NOW + 3)
    candidate = search.next_candidate()
    assert candidate is not None
    log.truncate_to(1, NOW)
    search.tell(candidate, CorruptLog("other bytes"))
    assert log.failure is None and search.next_candidate() is None and search.is_over
