"""Cutting a log at its end, starting it anew, and moving its beginning."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.log.checkpoints import LEADER_EPOCHS, read_epochs
from odradek.log.errors import CorruptLog, MissingFile
from odradek.log.files import OsDirectory, OsFile
from odradek.log.log_state import PRODUCER_MARKS
from odradek.log.memory_files import PAGE_BYTES, Crashed, MemoryDisk
from odradek.log.new_log import create_log
from odradek.log.partition_log import PartitionLog
from odradek.log.recovery import open_log
from odradek.log.segments import Segments
from odradek.log.steps import all_at_once
from odradek.log.truncated_tails import TAILS, keeping_tail
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from tests.executed_lines import lines_of
from tests.log.logs import (
    EVERYTHING,
    NOW,
    TOPIC_ID,
    TP,
    Disk,
    assert_index_answers_as_a_scan,
    batch,
    config,
    contents,
    follow,
    headers,
    idempotent,
    marker,
    offsets,
    produce,
    state,
)

SIZE = len(batch())


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path, config(segment_bytes=SIZE * 10, index_interval_bytes=SIZE))


def filled(disk: Disk, count: int = 35) -> PartitionLog:
    log = disk.create()
    for n in range(count):
        produce(log, batch(at=NOW + n), epoch=n // 10)
    return log


@pytest.mark.parametrize("offset", [0, 1, 5, 9, 10, 11, 20, 29, 30, 31, 34, 35, 36])
def test_what_is_left_is_a_prefix_that_goes_on(disk: Disk, offset: int) -> None:
    log = filled(disk)
    whole = contents(log)
    end = log.truncate_to(offset, NOW)
    assert end == log.log_end_offset == min(offset, 35)
    assert contents(log) == whole[: SIZE * end]
    assert all(entry.start_offset < end for entry in log.epochs.entries)
    assert log.latest_epoch == (end - 1) // 10
    assert_index_answers_as_a_scan(log)
    assert produce(log, batch(at=NOW + 99), epoch=7).base_offset == end
    assert_index_answers_as_a_scan(log)
    before = state(log)
    assert state(disk.open(recovery_point=0).log) == before


CHANGED: dict[str, Callable[[PartitionLog], object]] = {
    "cut": lambda log: log.truncate_to(17, NOW),
    "cut inside an epoch alone": lambda log: log.truncate_to(34, NOW),
    "begun anew": lambda log: log.truncate_fully_and_start_at(50, NOW),
    "deleted from the start": lambda log: log.delete_records_before(12),
}


@pytest.mark.parametrize("change", CHANGED)
def test_the_file_of_epochs_says_at_once_what_is_left(disk: Disk, change: str) -> None:
    log = filled(disk)

    CHANGED[change](log)

    assert read_epochs(disk.file(LEADER_EPOCHS).read_bytes()) == log.epochs.entries


def test_a_cut_at_the_end_takes_the_epochs_that_brought_no_record(disk: Disk) -> None:
    """Kept, they would be named to the leader with every fetch, and be answered with the same cut for ever."""
    log = filled(disk, 3)
    log.assign_epoch(4, 3)
    assert log.latest_epoch == 4
    assert log.truncate_to(3, NOW) == 3
    assert log.latest_epoch == 0
    assert disk.open(recovery_point=0).log.latest_epoch == 0


def test_a_cut_inside_a_batch_takes_the_whole_batch(disk: Disk) -> None:
    log = disk.create()
    for _ in range(4):
        produce(log, batch(5))
    assert log.truncate_to(13, NOW) == 10
    assert offsets(log) == [0, 5]


def test_appending_behind_a_cut_is_read_back_as_the_new_records(disk: Disk) -> None:
    log = filled(disk)
    log.truncate_to(23, NOW)
    new = [batch(at=NOW + 1000 + n, value=b"n" * 100) for n in range(20)]
    for data in new:
        produce(log, data, epoch=8)
    assert offsets(log) == list(range(43))
    assert contents(log, 23)[16:SIZE] == new[0][16:]


def test_the_largest_timestamp_is_forgotten_with_its_record(disk: Disk) -> None:
    log = disk.create()
    for n in (0, 5, 3, 90, 7):
        produce(log, batch(at=NOW + n))
    assert log.offset_of_max_timestamp() == (NOW + 90, 3, 0)
    log.truncate_to(3, NOW)
    assert log.offset_of_max_timestamp() == (NOW + 5, 1, 0)
    assert log.offset_for_timestamp(NOW + 6) is None
    log.truncate_to(0, NOW)
    assert log.offset_of_max_timestamp() is None


def test_producers_are_as_they_were_at_the_cut(disk: Disk) -> None:
    log = disk.create()
    snapshots = []
    for n in range(40):
        snapshots.append(log.producers.to_bytes())
        produce(log, idempotent(n // 2, producer_id=n % 2))
    for offset in (39, 31, 30, 17, 3, 0):
        log.truncate_to(offset, NOW)
        assert log.producers.to_bytes() == snapshots[offset]
    assert produce(log, idempotent(0, producer_id=0)).base_offset == 0


def test_a_cut_to_the_logs_start_keeps_the_producers_whose_records_were_deleted(disk: Disk) -> None:
    """A late copy of theirs is a duplicate still, for whoever leads with this log."""
    log = disk.create()
    produce(log, idempotent(0))
    log.roll(NOW)
    log.delete_records_before(1)
    produce(log, idempotent(0, producer_id=8))
    assert (log.log_start_offset, log.segments[0].base_offset) == (1, 1)
    log.truncate_to(1, NOW)
    assert log.producers.ids() == [7]
    log.close()
    assert disk.open(clean=True, log_start_offset=1).log.producers.ids() == [7]


def test_a_cut_near_the_end_of_a_large_segment_starts_from_a_mark(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.log.appending.PRODUCER_MARK_BYTES", 500)
    disk.config.segment_bytes = 1 << 20
    log = disk.create()
    snapshots = []
    for n in range(60):
        snapshots.append(log.producers.to_bytes())
        produce(log, idempotent(n))
    assert len(log.producer_marks) == PRODUCER_MARKS
    assert log.producer_marks[0][0] > 0
    for offset in (59, 55, 40, 10):
        log.truncate_to(offset, NOW)
        assert log.producers.to_bytes() == snapshots[offset]
        assert all(at <= offset for at, _ in log.producer_marks)


def test_a_new_segment_gets_marks_as_soon_as_it_has_so_much(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a cut near its end walks over as much as the segment before had."""
    monkeypatch.setattr("odradek.log.appending.PRODUCER_MARK_BYTES", 500)
    disk.config.segment_bytes = 1 << 20
    log = disk.create()
    for n in range(30):
        produce(log, idempotent(n))
    log.roll(NOW)
    begins = log.log_end_offset
    for n in range(30, 40):
        produce(log, idempotent(n))
    assert log.producer_marks and all(at > begins for at, _ in log.producer_marks)


def of_many_producers(disk: Disk, count: int) -> tuple[PartitionLog, list[bytes]]:
    """One segment, as a clean stop and a start leave it; and the producers as they were at each offset."""
    disk.config.segment_bytes = 1 << 30
    log = disk.create()
    snapshots = []
    for n in range(count):
        snapshots.append(log.producers.to_bytes())
        produce(log, idempotent(n // 7, producer_id=n % 7, value=b"v"))
    log.close()
    return disk.open(clean=True, recovery_point=count).log, snapshots


def test_a_step_of_a_cut_looks_at_no_more_batches_in_a_large_segment_than_in_a_small_one(
    tmp_path: Path,
) -> None:
    """Of ten million batches it took a quarter of a minute, in which the broker served nobody."""
    costs = []
    for count in (600, 3_000):
        path = tmp_path / str(count)
        path.mkdir()
        log, snapshots = of_many_producers(Disk(path, config()), count)
        steps = log.truncating_to(count - 1, NOW)
        most = 0
        while log.log_end_offset == count:
            most = max(most, lines_of(lambda steps=steps: next(steps, None)))  # type: ignore[misc]
        assert log.log_end_offset == count - 1
        assert log.producers.to_bytes() == snapshots[-1]
        costs.append(most)
    assert costs[1] < costs[0] * 1.2


def test_a_cut_behind_very_many_producers_reads_their_snapshot_in_steps(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.log.producers.LOADED_AT_ONCE", 2)
    log, _ = of_many_producers(disk, 20)
    log.roll(NOW)
    produce(log, idempotent(0, producer_id=99))
    log.truncate_to(20, NOW)
    log.close()
    log = disk.open(clean=True, recovery_point=20).log
    produce(log, idempotent(0, producer_id=99))
    assert len(list(log.truncating_to(20, NOW))) == 3, "of seven producers"
    assert log.log_end_offset == 20 and len(log.producers) == 7


def test_a_cut_does_not_list_the_directory(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 15,000 segments it has 60,000 files: to list them twice took longer than a turn may."""
    log = filled(disk)
    log.forget_marks()
    snapshots = [name for name in disk.names() if name.endswith(".snapshot")]
    assert len(snapshots) == 3
    listed: list[str] = []
    monkeypatch.setattr(OsDirectory, "names", lambda directory: listed.append(directory.path))

    log.truncate_to(12, NOW)
    log.truncate_fully_and_start_at(50, NOW)

    assert not listed


def test_a_cut_that_finds_no_snapshot_looks_for_a_few_at_a_time(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.log.lookups.SNAPSHOTS_AT_ONCE", 3)
    log = filled(disk, 95)
    for name in disk.names():
        if name.endswith(".snapshot"):
            log.directory.remove(name)
    log.forget_marks()
    assert len(list(log.truncating_to(93, NOW))) == 3, "of ten segments"


def rolls(log: PartitionLog) -> None:
    log.roll(NOW)


def loses_its_first_segments(log: PartitionLog) -> None:
    log.delete_records_before(15)


def loses_all_but_its_last(log: PartitionLog) -> None:
    log.delete_records_before(38)


@pytest.mark.parametrize("meanwhile", [rolls, loses_its_first_segments, loses_all_but_its_last])
@pytest.mark.parametrize("at_step", [1, 4, 12])
def test_between_two_steps_of_a_cut_the_log_may_do_what_a_follower_does(
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[PartitionLog], None],
    at_step: int,
) -> None:
    monkeypatch.setattr("odradek.log.lookups.BATCHES_AT_ONCE", 2)
    log = disk.create()
    snapshots = []
    for n in range(40):
        snapshots.append(log.producers.to_bytes())
        produce(log, idempotent(n // 2, producer_id=n % 2))
    log.forget_marks()
    for name in disk.names():
        if name.endswith(".snapshot"):
            log.directory.remove(name)
    steps = log.truncating_to(37, NOW)
    for _ in range(at_step):
        next(steps)
    assert log.log_end_offset == 40
    meanwhile(log)
    assert all_at_once(steps) == log.log_end_offset == (37 if log.log_start_offset < 37 else 38 - 1)
    if log.log_start_offset < 37:
        assert log.producers.to_bytes() == snapshots[37]
        assert produce(log, idempotent(18, producer_id=1)).base_offset == 37
    before = state(log)
    assert state(disk.open(recovery_point=0, log_start_offset=log.log_start_offset).log) == before


@pytest.mark.parametrize("offset", [3, 10, 0])
def test_very_many_segments_are_cut_some_at_a_time_and_a_kill_in_between_leaves_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    (tmp_path / "disk").mkdir()
    disk = Disk(tmp_path / "disk", config(segment_bytes=SIZE * 10, index_interval_bytes=SIZE))
    monkeypatch.setattr("odradek.log.truncation.MOST_SEGMENTS_CUT", 2)
    log = filled(disk, 95)
    whole, count = contents(log), len(log.segments)
    steps = log.truncating_to(offset, NOW) if offset else log.restarting_at(1_000, NOW)
    ends = [log.log_end_offset]
    for _ in steps:
        ends.append(log.log_end_offset)
        assert ends[-1] < ends[-2] and count - len(log.segments) <= 2
        count = len(log.segments)
        assert contents(log) == whole[: SIZE * ends[-1]]
        assert log.recovery_point <= ends[-1]
        found = Disk(tmp_path / f"killed-{len(ends)}", disk.config)
        shutil.copytree(disk.path, found.path)
        assert state(found.open(recovery_point=log.recovery_point).log) == state(log)
    assert len(ends) > 5
    assert (log.log_start_offset, log.log_end_offset) == ((0, offset) if offset else (1_000, 1_000))


@pytest.mark.parametrize("ends_at", [700, 930])
@pytest.mark.parametrize("begins_anew", [False, True])
def test_segments_below_the_logs_start_are_taken_out_some_at_a_time_where_it_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_at: int, begins_anew: bool
) -> None:
    """Retention takes a hundred a turn, and may have thousands to come to when the log is cut below its start."""
    (tmp_path / "disk").mkdir()
    disk = Disk(tmp_path / "disk", config(segment_bytes=SIZE * 10, index_interval_bytes=SIZE))
    log = filled(disk, 955)
    with monkeypatch.context() as retention:
        retention.setattr("odradek.log.truncation.has_segments_below", lambda *asked: False)
        log.delete_records_before(ends_at + 1)
    monkeypatch.setattr("odradek.log.truncation.MOST_SEGMENTS_CUT", 5)
    whole, count, ends = contents(log), len(log.segments), [log.log_end_offset]
    assert count == 96
    renamed: list[str] = []
    rename = OsDirectory.rename
    monkeypatch.setattr(OsDirectory, "rename", lambda *named: renamed.append(named[1]) or rename(*named))

    for number, _ in enumerate(log.restarting_at(2_000, NOW) if begins_anew else log.truncating_to(3, NOW)):
        assert len(renamed) <= 5 * 4 + 4
        ends.append(log.log_end_offset)
        assert ends[-1] <= ends[-2] and log.log_start_offset == ends_at + 1
        assert contents(log) == whole[: SIZE * (ends[-1] - ends_at - 1)]
        found = Disk(tmp_path / f"killed-{number}", disk.config)
        shutil.copytree(disk.path, found.path)
        reopened = found.open(recovery_point=log.recovery_point, log_start_offset=log.log_start_offset).log
        assert state(reopened) == state(log)
        renamed.clear()  # recovering the copy

    assert len(renamed) <= 5 * 4 + 4
    assert len(ends) > count // 5
    assert log.log_start_offset == log.log_end_offset == (2_000 if begins_anew else 3)
    assert len(log.segments) == 1
    assert state(disk.open().log) == state(log)


def test_aborted_transactions_behind_the_cut_are_gone_and_open_again(disk: Disk) -> None:
    log = disk.create()
    produce(log, idempotent(0, is_transactional=True))
    produce(log, marker(commit=False), from_coordinator=True)
    produce(log, idempotent(1, is_transactional=True))
    produce(log, marker(commit=False), from_coordinator=True)
    assert len(log.aborted_transactions(0, 4)) == 2
    log.truncate_to(3, NOW)
    assert [entry.first_offset for entry in log.aborted_transactions(0, 3)] == [0]
    assert log.last_stable_offset(3) == 2
    log.truncate_to(1, NOW)
    assert log.aborted_transactions(0, 1) == [] and log.last_stable_offset(1) == 0
    assert not disk.file("00000000000000000000.txnindex").exists()


def test_the_recovery_point_falls_with_the_cut_and_is_told_before_it(disk: Disk) -> None:
    log = filled(disk)
    log.flush()
    assert log.recovery_point == 35
    told: list[tuple[int, int]] = []
    log.before_cut_below = lambda cut, offset, start: told.append((offset, cut.log_end_offset))
    log.truncate_to(12, NOW)
    assert told == [(12, 35)], "told while the records were still there"
    assert log.recovery_point == 12
    produce(log, batch())
    assert log.recovery_point == 12 and log.flush() == 13


@pytest.mark.parametrize(("offset", "start"), [(1000, 5), (3, 3), (0, 0)])
def test_of_a_log_that_begins_anew_nothing_counts_as_flushed(disk: Disk, offset: int, start: int) -> None:
    """Should the name of its one file be lost in a crash, nothing says where it began."""
    log = filled(disk)
    log.flush()
    log.delete_records_before(5)
    told: list[tuple[int, int, int]] = []
    log.before_cut_below = lambda cut, offset, start: told.append((offset, start, cut.log_end_offset))
    if offset > 35:
        log.truncate_fully_and_start_at(offset, NOW)
    else:
        log.truncate_to(offset, NOW)
    assert told == [(0, start, 35)] and log.recovery_point == 0


def test_a_flush_that_was_under_way_when_the_log_was_cut_changes_nothing(disk: Disk) -> None:
    log = filled(disk)
    log.flush()
    produce(log, batch())
    plan = log.plan_flush()
    log.truncate_to(5, NOW)
    for n in range(40):
        produce(log, batch(at=NOW + n), epoch=9)
    plan.run()
    assert log.commit_flush(plan) == 5 and log.recovery_point == 5
    assert log.flush() == 45


def test_starting_anew_leaves_nothing_of_the_old(disk: Disk) -> None:
    log = filled(disk)
    log.truncate_fully_and_start_at(1000, NOW)
    assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (1000, 1000, -1)
    assert log.producers.all() == [] and log.recovery_point <= 1000
    follow(log, batch(base_offset=1000, leader_epoch=9))
    assert offsets(log) == [1000] and log.epochs.entries == [(9, 1000)]
    log.segments.purge()
    for kind in (".log", ".snapshot"):
        assert [name for name in disk.names() if name.endswith(kind)] == [f"00000000000000001000{kind}"]
    assert state(disk.open(log_start_offset=1000).log)["end"] == 1001


# ------------------------------------------------------------------------------------- the log's beginning


def test_deleted_records_are_out_of_range_and_their_segments_go(disk: Disk) -> None:
    log = filled(disk)
    assert log.delete_records_before(14) == 14
    assert (log.log_start_offset, log.segments[0].base_offset) == (14, 10)
    for offset in (0, 13):
        with pytest.raises(ProtocolError) as caught:
            log.read(offset, max_bytes=1, upper_bound_offset=35)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert offsets(log) == list(range(14, 35))
    assert log.epochs.entries == [(1, 14), (2, 20), (3, 30)]
    assert log.delete_records_before(3) == 14, "never backwards"
    assert (
        log.segments.pending_removal
        and log.segments.purge() == 3
        and not any(".deleted" in name for name in disk.names())
    )
    assert log.segments.purge() == 0  # what is gone is not looked for again


def test_what_is_taken_out_of_a_log_while_a_thread_removes_files_is_removed_by_the_next(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(disk)
    log.delete_records_before(14)
    really_remove = OsDirectory.remove

    def remove(directory: OsDirectory, name: str) -> bool:
        log.delete_records_before(24)
        return really_remove(directory, name)

    with monkeypatch.context() as patch:
        patch.setattr(OsDirectory, "remove", remove)
        assert log.segments.purge() == 3
    assert log.segments.purge() == 3
    assert not any(".deleted" in name for name in disk.names())


def test_deleting_everything_keeps_the_active_segment(disk: Disk) -> None:
    log = filled(disk)
    assert log.delete_records_before(35) == 35
    assert log.read(35, max_bytes=9, upper_bound_offset=35).slices == []
    assert produce(log, batch(), epoch=3).base_offset == 35
    with pytest.raises(ProtocolError, match="the log ends at 36") as caught:
        log.delete_records_before(37)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_timestamps_of_deleted_records_are_not_found(disk: Disk) -> None:
    log = filled(disk)
    log.delete_records_before(14)
    assert log.offset_for_timestamp(NOW) == (NOW + 14, 14, 1)


USED: dict[str, Callable[[PartitionLog], object]] = {
    "append_as_leader": lambda log: produce(log, batch()),
    "append_as_follower": lambda log: follow(log, batch(base_offset=3)),
    "read": lambda log: log.read(0, max_bytes=EVERYTHING, upper_bound_offset=3),
    "check_batch": lambda log: log.check_batch(1),
    "offset_for_timestamp": lambda log: log.offset_for_timestamp(NOW),
    "truncate_to": lambda log: log.truncate_to(1, NOW),
    "truncate_to the end": lambda log: log.truncate_to(3, NOW),
    "truncate_fully_and_start_at": lambda log: log.truncate_fully_and_start_at(9, NOW),
    "delete_records_before": lambda log: log.delete_records_before(1),
}


@pytest.mark.parametrize("use", USED)
def test_a_log_that_has_failed_answers_with_its_failure_and_stays_as_it_is(disk: Disk, use: str) -> None:
    log = filled(disk, 3)
    before, names = state(log), disk.names()
    failure = log.fail(CorruptLog("a batch is damaged"))

    with pytest.raises(CorruptLog) as caught:
        USED[use](log)

    assert repr(caught.value) == repr(failure)
    log.failure = None
    assert (state(log), disk.names()) == (before, names)


def test_a_deleted_log_answers_nothing(disk: Disk) -> None:
    log = filled(disk, 3)
    log.close()
    for use in (
        lambda: produce(log, batch()),
        lambda: follow(log, batch(base_offset=3)),
        lambda: log.read(0, max_bytes=EVERYTHING, upper_bound_offset=3),
        lambda: log.truncate_to(1, NOW),
        lambda: log.delete_records_before(1),
    ):
        with pytest.raises(ProtocolError) as caught:
            use()
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_tail_that_is_cut_off_while_a_thread_copies_it_ends_the_copy(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another leader, of which no tail is kept, is known before the piece is done. All who wait for the thread would wait for ever."""
    monkeypatch.setattr("odradek.log.truncated_tails.CHUNK_BYTES", 100)
    log = disk.create()
    for _ in range(20):
        produce(log, batch())
    copying = next(keeping_tail(log, 13, NOW))
    assert copying is not None
    reads = 0
    read_at = OsFile.read_at

    def cut_meanwhile(file: OsFile, position: int, size: int) -> bytes:
        nonlocal reads
        reads += 1
        if reads == 5:
            with monkeypatch.context() as patch:
                patch.setattr(OsFile, "read_at", read_at)
                log.truncate_to(13, NOW)
        assert reads < 1_000, "for ever"
        return read_at(file, position, size)

    monkeypatch.setattr(OsFile, "read_at", cut_meanwhile)
    assert isinstance(copying.run(), MissingFile)
    assert reads < 10


def test_a_thread_may_ask_where_a_log_begins_in_the_moment_in_which_it_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no segment for a moment, and the thread writes checkpoints."""
    log = Disk(tmp_path).create(log_start_offset=7)
    count = Segments.__len__

    def and_then_none(segments: Segments) -> int:
        found = count(segments)
        segments.drop_all()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Segments, "__len__", and_then_none)
        assert log.first_base_offset == 7
    log.segments.drop_all()
    assert log.first_base_offset == 7
    assert log.aborted_apart(0, 100) == []


def test_a_tail_that_is_kept_outlives_a_power_cut_that_comes_once_the_cut_is_flushed() -> None:
    memory = MemoryDisk()
    log = create_log(memory.root, TP, TOPIC_ID, config(), now_ms=NOW)
    for _ in range(5):
        produce(log, batch())
    log.flush()
    all_at_once(keeping_tail(log, 3, NOW))
    log.truncate_to(3, NOW)
    log.flush()

    memory.power_cut(lambda count: 0)

    kept = f"{TP}/{TAILS}/{3:020d}-{NOW}/{3:020d}.log"
    assert len(memory.contents(kept)) == 2 * len(batch())


def test_a_kill_in_the_midst_of_a_cut_and_a_power_cut_behind_it_leave_no_old_batch_before_a_new_one() -> None:
    """Batches of one page each: what was cut off fits, where the page that was written over it is lost."""
    room = PAGE_BYTES - len(batch(value=b""))
    while len(batch(value=b"o" * room)) > PAGE_BYTES:
        room -= 1
    old, new = batch(value=b"o" * room), batch(value=b"n" * room)
    steps = 0
    is_killed = True
    while is_killed:
        is_killed = False
        for seed in range(8):
            memory = MemoryDisk()
            log = create_log(memory.root, TP, TOPIC_ID, config(), now_ms=NOW)
            for _ in range(8):
                produce(log, old)
            log.flush()
            memory.crash_at(steps, lambda count: count // 2)
            try:
                log.truncate_to(3, NOW)
            except Crashed:
                is_killed = True
            memory.restart()
            log = open_log(memory.root, TP, config(), now_ms=NOW, was_clean=False, recovery_point=3).log
            begin = log.log_end_offset
            for _ in range(3):
                produce(log, new, epoch=1)

            memory.power_cut(random.Random(seed).randrange)

            log = open_log(memory.root, TP, config(), now_ms=NOW, was_clean=False, recovery_point=3).log
            epochs = [header.leader_epoch for header in headers(log)]
            assert sum(epochs) == 0 or (not any(epochs[:begin]) and all(epochs[begin:])), (steps, epochs)
        steps += 1
    assert steps > 10


def test_of_what_was_cut_no_snapshot_is_left(disk: Disk) -> None:
    """A start would believe it once the log has grown as far again."""
    log = filled(disk)
    log.take_snapshot(log.log_end_offset)
    log.truncate_to(12, NOW)
    assert max(int(name[:20]) for name in disk.names() if name.endswith(".snapshot")) == log.log_end_offset
