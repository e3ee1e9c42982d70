"""Slices of files: where they begin and end; and when a new segment is begun."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.log import segment as segment_module
from odradek.log.errors import CorruptLog
from odradek.log.files import OsDirectory
from odradek.log.partition_log import PartitionLog
from odradek.log.recovery import open_log
from odradek.log.retention import drop_expired_segments
from odradek.log.segment import IndexPending
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.records.batch import iter_batches, iter_whole_batches
from tests.log.logs import (
    EVERYTHING,
    NOW,
    TP,
    Disk,
    assert_index_answers_as_a_scan,
    batch,
    config,
    contents,
    follow,
    marker,
    offsets,
    produce,
)
from tests.support import no_collector, open_under

SIZE = len(batch())  # of a batch of one record


def first_offset(data: bytes) -> int:
    return next(iter(iter_batches(data)))[1].base_offset


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return Disk(tmp_path).create()


@pytest.fixture
def segmented(tmp_path: Path) -> PartitionLog:
    """Ten segments of three single records, and a little more."""
    log = Disk(tmp_path, config(segment_bytes=SIZE * 3, index_interval_bytes=1)).create()
    for n in range(32):
        produce(log, batch(at=NOW + n))
    return log


# --------------------------------------------------------------------------------------------------- reading


def test_outside_the_log_is_out_of_range_and_its_end_is_empty(log: PartitionLog) -> None:
    produce(log, batch(3))
    for offset in (-1, 4, 1 << 62):
        with pytest.raises(ProtocolError, match="the log holds 0 to 3") as caught:
            log.read(offset, max_bytes=100, upper_bound_offset=3)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(3, max_bytes=100, upper_bound_offset=3).slices == []


def test_an_offset_inside_a_batch_gives_the_whole_batch(log: PartitionLog) -> None:
    produce(log, batch(5))
    produce(log, batch(5))
    for offset in range(10):
        read = log.read(offset, max_bytes=EVERYTHING, upper_bound_offset=10)
        assert first_offset(read.slices[0].read()) == offset // 5 * 5


def test_nothing_at_or_above_the_upper_bound_is_given(log: PartitionLog) -> None:
    for _ in range(6):
        produce(log, batch(2))
    for upper in range(13):
        for offset in range(13):
            read = log.read(offset, max_bytes=EVERYTHING, upper_bound_offset=upper, min_one_batch=True)
            found = [h.base_offset for s in read.slices for _, h in iter_batches(s.read())]
            assert found == [base for base in range(0, 12, 2) if base + 1 >= offset and base + 2 <= upper]


def test_max_bytes_cuts_and_the_first_batch_is_whole_or_nothing(log: PartitionLog) -> None:
    for _ in range(5):
        produce(log, batch())

    def size(max_bytes: int, min_one_batch: bool = False) -> int:
        return log.read(1, max_bytes=max_bytes, upper_bound_offset=5, min_one_batch=min_one_batch).size_bytes

    assert size(SIZE * 2) == SIZE * 2
    assert size(SIZE + 1) == SIZE + 1, "a cut batch at the end, as Kafka's"
    assert size(SIZE) == SIZE
    assert size(SIZE - 1) == 0 and size(0) == 0
    assert size(SIZE - 1, min_one_batch=True) == SIZE == size(0, min_one_batch=True)
    assert size(EVERYTHING) == SIZE * 4


def test_a_read_goes_on_over_segments_until_it_is_full(segmented: PartitionLog) -> None:
    assert len(segmented.segments) == 11
    read = segmented.read(4, max_bytes=SIZE * 7 + 5, upper_bound_offset=32)
    data = b"".join(part.read() for part in read.slices)
    assert len(read.slices) == 3 and read.size_bytes == len(data) == SIZE * 7 + 5
    assert [h.base_offset for _, h in iter_whole_batches(data)] == list(range(4, 11))
    everything = b"".join(
        s.read() for s in segmented.read(0, max_bytes=EVERYTHING, upper_bound_offset=32).slices
    )
    assert [h.base_offset for _, h in iter_batches(everything)] == list(range(32))


def test_the_first_batch_of_an_older_segment_is_given_whatever_max_bytes_says(
    segmented: PartitionLog,
) -> None:
    for max_bytes in (0, 1, SIZE - 1):
        read = segmented.read(4, max_bytes=max_bytes, upper_bound_offset=32, min_one_batch=True)
        assert read.size_bytes == SIZE and first_offset(read.slices[0].read()) == 4
        assert segmented.read(4, max_bytes=max_bytes, upper_bound_offset=32).slices == []


def test_the_upper_bound_may_lie_in_an_older_segment(segmented: PartitionLog) -> None:
    for upper in range(33):
        read = segmented.read(1, max_bytes=EVERYTHING, upper_bound_offset=upper)
        data = b"".join(part.read() for part in read.slices)
        assert [h.base_offset for _, h in iter_batches(data)] == list(range(1, upper))


def test_only_one_cold_segment_keeps_its_descriptor(segmented: PartitionLog) -> None:
    for offset in range(32):
        segmented.read(offset, max_bytes=1, upper_bound_offset=32, min_one_batch=True)
    segmented.flush()
    opened = [segment for segment in segmented.segments if segment._file is not None]
    assert len(opened) <= 2


def test_remembered_positions_are_few_and_right(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_module, "REMEMBERED_POSITIONS", 10)
    for _ in range(100):
        produce(log, batch())
    assert len(log.segments.active.positions) <= 10
    for offset in range(100):
        read = log.read(offset, max_bytes=1, upper_bound_offset=100, min_one_batch=True)
        assert read.slices[0].position == offset * SIZE


def test_a_slice_outlives_its_segment(segmented: PartitionLog) -> None:
    part = segmented.read(0, max_bytes=SIZE, upper_bound_offset=32).slices[0]
    segmented.delete_records_before(12)
    segmented.segments.purge()
    assert first_offset(part.read()) == 0


def test_25_a_segment_removed_by_somebody_else_is_named_and_the_log_stops(tmp_path: Path) -> None:
    disk = Disk(tmp_path, config(segment_bytes=SIZE * 3))
    log = disk.create()
    for _ in range(9):
        produce(log, batch())
    log.flush()
    disk.file("00000000000000000003.log").unlink()
    with pytest.raises(ProtocolError, match=r"00000000000000000003\.log") as caught:
        log.read(3, max_bytes=100, upper_bound_offset=9)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(ProtocolError):
        produce(log, batch())
    assert disk.root.health.failure is None, "the other logs of the directory go on"


def test_25_an_open_segment_is_served_though_its_name_is_gone(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    produce(log, batch())
    disk.file("00000000000000000000.log").unlink()
    produce(log, batch())
    assert offsets(log) == [0, 1]


def test_22_a_cold_segment_that_was_cut_short_is_never_skipped(tmp_path: Path) -> None:
    disk = Disk(tmp_path, config(segment_bytes=SIZE * 3))
    log = disk.create()
    for _ in range(9):
        produce(log, batch())
    log.flush()
    path = disk.file("00000000000000000003.log")
    path.write_bytes(path.read_bytes()[: SIZE * 2])
    assert log.read(4, max_bytes=SIZE, upper_bound_offset=9, min_one_batch=True).size_bytes == SIZE
    with pytest.raises(CorruptLog, match="ends before offset 5"):
        log.read(5, max_bytes=100, upper_bound_offset=9, min_one_batch=True)


@pytest.mark.parametrize("left", [0, 2])
def test_22_nor_is_it_where_a_read_goes_on_in_the_next_segment(tmp_path: Path, left: int) -> None:
    """As nearly every read at the end of a segment does."""
    disk = Disk(tmp_path, config(segment_bytes=SIZE * 3))
    log = disk.create()
    for _ in range(9):
        produce(log, batch())
    log.flush()
    path = disk.file("00000000000000000003.log")
    path.write_bytes(path.read_bytes()[: SIZE * left])
    log.segments.close_handles()

    with pytest.raises(CorruptLog, match=f"ends before offset {3 + left}; it must hold all up to 6"):
        log.read(0, max_bytes=EVERYTHING, upper_bound_offset=9)


def test_gaps_that_compaction_left_are_passed_over(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(segment_bytes=SIZE * 3, cleanup_policy="compact")).create()
    follow(log, batch(base_offset=0, leader_epoch=0) + batch(base_offset=7, leader_epoch=0))
    follow(log, batch(base_offset=9, leader_epoch=0) + batch(base_offset=20, leader_epoch=0))
    assert [s.base_offset for s in log.segments] == [0, 10], "the gap is within the new segment"
    read = log.read(12, max_bytes=EVERYTHING, upper_bound_offset=21)
    assert first_offset(read.slices[0].read()) == 20


def test_a_gap_at_the_begin_of_a_segment_is_passed_over(tmp_path: Path) -> None:
    """A follower rolls where its leader has nothing any more of what came next; the segment before has no gap within."""
    log = Disk(tmp_path, config(segment_bytes=SIZE * 3, cleanup_policy="compact")).create()
    follow(log, b"".join(batch(base_offset=offset, leader_epoch=0) for offset in range(3)))
    follow(log, batch(base_offset=20, leader_epoch=0))
    assert [s.base_offset for s in log.segments] == [0, 3]
    read = log.read(3, max_bytes=EVERYTHING, upper_bound_offset=21)
    assert first_offset(read.slices[0].read()) == 20


def test_a_gap_between_two_segments_is_passed_over_when_the_topic_is_not_compacted_any_more(
    tmp_path: Path,
) -> None:
    disk = Disk(tmp_path, config(segment_bytes=SIZE * 3))
    log = disk.create()
    log.config = config(segment_bytes=SIZE * 3, cleanup_policy="compact")
    follow(log, b"".join(batch(base_offset=offset, leader_epoch=0) for offset in range(3)))
    follow(log, batch(base_offset=20, leader_epoch=0))
    log.config = disk.config
    assert log.read(3, max_bytes=EVERYTHING, upper_bound_offset=21).size_bytes == SIZE
    log.close()
    log = disk.open(clean=True, recovery_point=21).log
    assert log.read(3, max_bytes=EVERYTHING, upper_bound_offset=21).size_bytes == SIZE
    assert log.failure is None


@settings(max_examples=40, deadline=None)
@given(
    counts=st.lists(st.integers(1, 6), min_size=1, max_size=60),
    segment_records=st.integers(6, 40),
    interval=st.sampled_from([1, 200, 1000, 4096]),
    data=st.data(),
)
def test_any_read_of_any_log_is_what_a_scan_gives(
    tmp_path_factory: pytest.TempPathFactory,
    counts: list[int],
    segment_records: int,
    interval: int,
    data: st.DataObject,
) -> None:
    disk = Disk(
        tmp_path_factory.mktemp("log"),
        config(segment_bytes=SIZE * segment_records, index_interval_bytes=interval),
    )
    log = disk.create()
    for n, count in enumerate(counts):
        produce(log, batch(count, at=NOW + n * 10))
    scanned = [
        (segment, position, header) for segment in log.segments for position, header in segment.headers()
    ]
    offset = data.draw(st.integers(0, log.log_end_offset))
    upper = data.draw(st.integers(0, log.log_end_offset))
    read = log.read(offset, max_bytes=EVERYTHING, upper_bound_offset=upper, min_one_batch=True)
    found = [h.base_offset for s in read.slices for _, h in iter_batches(s.read())]
    assert found == [
        h.base_offset
        for _, _, h in scanned
        if h.last_offset >= offset and h.next_offset <= upper and offset < upper
    ]
    assert_index_answers_as_a_scan(log)


# --------------------------------------------------------------------------------------------------- rolling


def test_a_segment_is_rolled_when_the_next_batch_would_not_fit(tmp_path: Path) -> None:
    disk = Disk(tmp_path, config(segment_bytes=SIZE * 2))
    log = disk.create()
    for _ in range(5):
        produce(log, batch())
    assert [s.base_offset for s in log.segments] == [0, 2, 4]
    assert [s.size_bytes for s in log.segments] == [SIZE * 2, SIZE * 2, SIZE]
    assert {"00000000000000000002.snapshot", "00000000000000000004.snapshot"} <= set(disk.names())


def test_of_those_that_are_not_active_the_segment_that_was_read_last_keeps_its_descriptors(
    tmp_path: Path,
) -> None:
    log = Disk(tmp_path, config(segment_bytes=SIZE * 2)).create()
    for _ in range(6):
        produce(log, batch())
    names = [f"orders-0/{offset:020d}.log" for offset in (0, 2, 4)]

    def opened_by_reading(offset: int, max_bytes: int = 1) -> list[str]:
        log.read(offset, max_bytes=max_bytes, upper_bound_offset=6, min_one_batch=True)
        return [name for name in open_under(tmp_path) if name.endswith(".log")]

    with no_collector():
        log.segments.close_handles()
        assert opened_by_reading(0, max_bytes=2 * SIZE) == names[:1], "what has enough looks no further"
        first = log.segments[0].file
        assert opened_by_reading(4) == [names[0], names[2]]
        assert opened_by_reading(1) == [names[0], names[2]]
        assert log.segments[0].file is first, "not opened anew"
        del first
        assert opened_by_reading(2) == names[1:]


def test_a_roll_writes_the_indexes_of_the_old_segment(tmp_path: Path) -> None:
    disk = Disk(tmp_path, config(segment_bytes=SIZE * 4, index_interval_bytes=SIZE))
    log = disk.create()
    for n in range(5):
        produce(log, batch(at=NOW + n))
    # An entry for each batch that begins more than an interval behind the one before: offset 2 at two batches.
    assert disk.file("00000000000000000000.index").read_bytes() == bytes.fromhex("00000002") + (
        SIZE * 2
    ).to_bytes(4, "big")
    times = disk.file("00000000000000000000.timeindex").read_bytes()
    assert times == b"".join((NOW + n).to_bytes(8, "big") + n.to_bytes(4, "big") for n in (2, 3)), (
        "the last entry is the largest timestamp"
    )


def test_time_rolls_by_the_timestamps_of_the_records(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(segment_ms=1000)).create()
    produce(log, batch(at=NOW))
    produce(log, batch(at=NOW + 1000), now_ms=NOW + 50_000)
    assert len(log.segments) == 1, "the wall clock does not matter where records have timestamps"
    produce(log, batch(at=NOW + 1001))
    assert [s.base_offset for s in log.segments] == [0, 2]


def test_a_marker_with_the_brokers_clock_rolls_behind_records_of_years_ago(tmp_path: Path) -> None:
    """As tests/golden/log-dir shows at offsets 50 and 193."""
    log = Disk(tmp_path).create()
    produce(log, batch(at=NOW))
    produce(log, marker(commit=True, at=NOW + 95_000_000_000), from_coordinator=True)
    assert [s.base_offset for s in log.segments] == [0, 1]


def test_records_without_timestamps_roll_by_the_age_of_the_segment(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(segment_ms=1000)).create()
    produce(log, batch(at=-1), now_ms=NOW)
    produce(log, batch(at=-1), now_ms=NOW + 1000)
    assert len(log.segments) == 1
    produce(log, batch(at=-1), now_ms=NOW + 1001)
    assert len(log.segments) == 2


def test_that_no_record_has_a_timestamp_is_seen_without_building_an_index_again(tmp_path: Path) -> None:
    """The time index is empty, as it must be. Each segment was walked over behind each start, and retention took one of them a round."""
    disk = Disk(tmp_path, config(retention_ms=1000, segment_bytes=SIZE))
    log = disk.create()
    for _ in range(5):
        produce(log, batch(at=-1), now_ms=NOW)
    log.close()
    log = disk.open(clean=True).log
    asked: list[IndexPending] = []
    log.rebuild_indexes_by(lambda _, pending: asked.append(pending))
    later_ms = int(disk.file(f"{4:020d}.log").stat().st_mtime * 1000) + 10_000
    assert drop_expired_segments(log, later_ms, 5) and asked == []
    assert (log.log_start_offset, log.size_bytes) == (5, 0)


@pytest.mark.parametrize("which", [0, 2])
def test_an_empty_time_index_is_not_believed_where_a_batch_has_a_time(tmp_path: Path, which: int) -> None:
    disk = Disk(tmp_path, config(segment_bytes=3 * SIZE))
    log = disk.create()
    for n in range(4):
        produce(log, batch(at=NOW if n == which else -1), now_ms=NOW)
    log.close()
    disk.file(f"{0:020d}.timeindex").write_bytes(b"")
    log = disk.open(clean=True).log
    assert log.segments[0].largest_timestamp() == NOW


@pytest.mark.parametrize("is_opened_again", [False, True])
def test_records_without_timestamps_are_as_old_as_their_file(tmp_path: Path, is_opened_again: bool) -> None:
    """Not as their segment: what was appended to it a moment ago would go with it. And not as the broker's last start."""
    retention_ms = 1_000_000
    disk = Disk(tmp_path, config(segment_bytes=400, retention_ms=retention_ms))
    log = disk.create()
    for _ in range(6):
        produce(log, batch(at=-1), now_ms=NOW)
    count, last = len(log.segments), log.segments.active
    for segment in log.segments:
        modified_ms = NOW + 5000 if segment is last else NOW
        os.utime(disk.file(f"{segment.base_offset:020d}.log"), ns=(0, modified_ms * 1_000_000))
    now_ms = NOW + retention_ms + 1
    if is_opened_again:
        log.close()
        directory = OsDirectory(str(tmp_path))
        log = open_log(directory, TP, disk.config, now_ms=now_ms, was_clean=True, recovery_point=6).log

    assert count > 2 and drop_expired_segments(log, now_ms, log.log_end_offset)
    assert [segment.base_offset for segment in log.segments] == [last.base_offset]


def test_26_a_clock_that_jumps_an_hour_back_and_forth_rolls_at_most_once(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(segment_ms=1_800_000, message_timestamp_type="LogAppendTime")).create()
    for jump in (0, 3_600_000, -3_600_000, 0, -3_600_000, -1):
        produce(log, batch(), now_ms=NOW + jump)
    assert offsets(log) == list(range(6)) and len(log.segments) == 2
    for timestamp in (NOW - 3_600_000, NOW, NOW + 3_600_000):
        assert log.offset_for_timestamp(timestamp) is not None


def test_jitter_is_taken_off_the_first_segment_and_the_one_found_at_a_start_too(tmp_path: Path) -> None:
    """Else partitions that were made together, or have been idle since the start, do roll together."""
    disk = Disk(tmp_path, config(segment_ms=100_000, segment_jitter_ms=50_000))
    log = disk.create(log_start_offset=7)
    jitter = log.segments.active.jitter_ms
    assert 0 < jitter < 50_000
    produce(log, batch())
    log.close()
    log = disk.open(clean=True).log
    assert (log.log_end_offset, log.segments.active.jitter_ms) == (8, jitter)


def test_jitter_takes_some_off_and_is_the_same_each_time(tmp_path: Path) -> None:
    disk = Disk(tmp_path, config(segment_ms=100_000, segment_jitter_ms=50_000))
    log = disk.create()
    log.truncate_fully_and_start_at(0, NOW)
    assert 0 < log.segments.active.jitter_ms < 50_000
    jitter = log.segments.active.jitter_ms
    produce(log, batch(at=NOW))
    produce(log, batch(at=NOW + 100_000 - jitter))
    assert len(log.segments) == 1
    produce(log, batch(at=NOW + 100_001 - jitter))
    assert len(log.segments) == 2


def test_a_full_index_rolls(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(segment_index_bytes=24, index_interval_bytes=1)).create()
    for _ in range(6):
        produce(log, batch())
    # Entries for all but the first batch of a segment; three fill the index.
    assert [s.base_offset for s in log.segments] == [0, 4]


def test_offsets_too_far_apart_for_an_index_roll(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(cleanup_policy="compact")).create()
    far = 2**31 + 5
    follow(log, batch(base_offset=0, leader_epoch=0) + batch(base_offset=far, leader_epoch=0))
    assert [s.base_offset for s in log.segments] == [0, far]
    assert offsets(log) == [0, far]
    follow(log, batch(base_offset=far + 2**31 - 1, leader_epoch=0))
    assert len(log.segments) == 2, "the largest that fits"
    empty = Disk(tmp_path / "other", config(cleanup_policy="compact"))
    empty.path.mkdir()
    second = empty.create()
    follow(second, batch(base_offset=far, leader_epoch=0))
    assert [s.base_offset for s in second.segments] == [far] and contents(second, far)


def test_an_empty_active_segment_is_not_rolled(log: PartitionLog) -> None:
    log.roll(NOW)
    log.roll(NOW)
    assert [s.base_offset for s in log.segments] == [0]
    produce(log, batch())
    log.roll(NOW)
    log.roll(NOW)
    assert [s.base_offset for s in log.segments] == [0, 1]
