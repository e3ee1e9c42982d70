"""All logs of a broker: directories, checkpoints, deletion, retention, a stop in order and one that was not."""

import errno
import shutil
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from odradek.log import checkpoints, files, segments
from odradek.log.errors import (
    DirectoryInUse,
    DirectoryOffline,
    DiskFault,
    NoDescriptor,
    StorageError,
    WrongDirectory,
)
from odradek.log.files import OsDirectory
from odradek.log.flushing import FlushState
from odradek.log.log_manager import LogManager, parse_directory_name
from odradek.log.memory_files import Crashed, MemoryDirectory, MemoryDisk
from odradek.log.partition_log import PartitionLog
from odradek.log.prepared_files import PreparedFiles
from odradek.log.scrubbing import Scrubber
from odradek.log.segment import Segment
from odradek.log.steps import all_at_once
from odradek.log.truncation import MOST_SEGMENTS
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicId, TopicPartition
from odradek.model.settings import BrokerSettings, TopicSettings
from tests.log.logs import NOW, TOPIC_ID, TP, batch, contents, follow, idempotent, offsets, produce
from tests.support import no_collector, open_under

A, B, C = TopicPartition("a", 0), TopicPartition("b", 1), TopicPartition("with-dash", 2)
OTHER_ID = TopicId(bytes(16 * [7]))
SIZE = len(batch())

Start = Callable[..., LogManager]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A broker's next life over directories named by number."""
    managers: list[LogManager] = []

    def start(*numbers: int, broker_id: int = 1, cluster: str = "cluster", **topic: Any) -> LogManager:
        for manager in managers:
            manager.release()
        settings = BrokerSettings({})
        overrides = {name.replace("_", "."): str(value) for name, value in topic.items()}
        manager = LogManager(
            [OsDirectory.create(str(tmp_path / str(number))) for number in numbers or (1,)],
            settings,
            topic_settings=lambda name: TopicSettings(settings, overrides),
        )
        managers.append(manager)
        manager.write_meta_properties(broker_id, cluster)
        manager.report = manager.load(NOW)  # type: ignore[attr-defined]
        return manager

    yield start
    for manager in managers:
        manager.release()


def report(manager: LogManager) -> Any:
    return manager.report  # type: ignore[attr-defined]


def test_logs_are_made_spread_over_the_directories_and_found_again(start: Start) -> None:
    manager = start(1, 2)
    for n in range(6):
        produce(manager.get_or_create(TopicPartition("t", n), TOPIC_ID, now_ms=NOW), batch(n + 1))
    homes = [manager.directory_of(TopicPartition("t", n)) for n in range(6)]
    assert homes.count(homes[0]) == 3 and len(set(homes)) == 2
    manager.close({})
    again = start(1, 2)
    assert len(report(again).clean_directories) == 2 and report(again).notes == []
    for n in range(6):
        log = again.get(TopicPartition("t", n))
        assert log is not None and log.log_end_offset == n + 1 and log.topic_id == TOPIC_ID
        assert again.directory_of(TopicPartition("t", n)) == homes[n]


def test_get_or_create_gives_the_log_that_is_there(start: Start) -> None:
    manager = start()
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    assert manager.get_or_create(A, TOPIC_ID, now_ms=NOW) is log is manager.get(A)
    assert manager.get(B) is None


@pytest.mark.parametrize("end", [lambda manager: manager.close({}), LogManager.release])
def test_a_stop_of_either_kind_keeps_no_descriptor(
    start: Start, tmp_path: Path, end: Callable[[LogManager], None]
) -> None:
    """Of logs that are used, of one that has failed and of a copy on its way; a process may have other brokers to come."""
    manager = start(1, 2)
    for topic_partition in (A, B, C):
        log = manager.get_or_create(topic_partition, TOPIC_ID, now_ms=NOW)
        produce(log, batch())
        log.roll(NOW)
        contents(log)
    (other,) = [d for d in manager.directories if d.path != manager.directory_of(A)]
    manager.futures.create(A, other, NOW)
    manager.logs[B].fail(StorageError("damaged"))
    with no_collector():
        assert len(open_under(tmp_path)) > 6
        end(manager)
        assert open_under(tmp_path) == []


def test_a_log_that_is_deleted_keeps_no_descriptor(start: Start, tmp_path: Path) -> None:
    """Or a disk would stay as full as it was until the collector comes by."""
    manager = start()
    for topic_partition in (A, B):
        produce(manager.get_or_create(topic_partition, TOPIC_ID, now_ms=NOW), batch())
    with no_collector():
        manager.delete(A, NOW)
        assert open_under(tmp_path) == ["1/.lock", "1/b-1/00000000000000000000.log"]


def test_a_deleted_log_that_somebody_still_knows_keeps_no_descriptor(start: Start, tmp_path: Path) -> None:
    """A reader of it, say: its disk would stay as full as it was."""
    manager = start()
    known = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    produce(known, batch())
    known.roll(NOW)
    contents(known)
    manager.delete(A, NOW)
    assert open_under(tmp_path) == ["1/.lock"]
    assert known.failure is not None


def test_a_log_that_is_deleted_is_in_no_cycle(start: Start) -> None:
    """What it knows of producers and segments would stay until the collector comes by."""
    manager = start()
    with no_collector():
        known = weakref.ref(manager.get_or_create(A, TOPIC_ID, now_ms=NOW))
        manager.delete(A, NOW)
        assert known() is None


def test_a_new_log_is_made_without_a_rename() -> None:
    disk = MemoryDisk()
    manager = LogManager([disk.root], BrokerSettings({}))
    manager.load(NOW)
    made = len(disk.trace)
    log = manager.get_or_create(TP, TopicId(TOPIC_ID), now_ms=NOW)
    log.assign_epoch(0, 0)
    operations = disk.trace[made:]
    assert not [step for step in operations if step.startswith("rename")], operations
    assert log.directory.read("leader-epoch-checkpoint") == b"0\n1\n0 0\n"
    log.assign_epoch(1, 0)
    assert disk.trace[-1].startswith("rename"), "what stands there already is never written over"


@pytest.mark.parametrize("torn", ["partition.metadata", "leader-epoch-checkpoint"])
def test_a_new_log_whose_small_files_are_torn_opens_as_it_was_made(torn: str) -> None:
    disk = MemoryDisk()
    manager = LogManager([disk.root], BrokerSettings({}))
    manager.load(NOW)
    log = manager.get_or_create(TP, TopicId(TOPIC_ID), now_ms=NOW)
    log.assign_epoch(0, 0)
    whole = log.directory.read(torn)
    assert whole is not None
    for size in range(len(whole)):
        again = MemoryDisk()
        directory = again.root.make(str(TP))
        directory.open("00000000000000000000.log", create=True)
        directory.open(torn, create=True).append(whole[:size])
        reopened = LogManager([again.root], BrokerSettings({}))
        reopened.load(NOW)
        assert reopened.get_or_create(TP, TopicId(TOPIC_ID), now_ms=NOW).topic_id == TOPIC_ID, size
        assert reopened.logs[TP].latest_epoch == -1, size


def test_28_a_log_of_an_earlier_topic_of_that_name_is_refused(start: Start) -> None:
    manager = start()
    manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    with pytest.raises(ProtocolError) as caught:
        manager.get_or_create(A, OTHER_ID, now_ms=NOW)
    assert caught.value.code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_28_a_topic_made_again_while_the_old_directory_waits_for_its_removal(
    start: Start, tmp_path: Path
) -> None:
    manager = start()
    produce(manager.get_or_create(A, TOPIC_ID, now_ms=NOW), batch(5))
    assert manager.delete(A, NOW)
    new = manager.get_or_create(A, OTHER_ID, now_ms=NOW)
    assert new.log_end_offset == 0
    produce(new, batch(2))
    assert manager.delete(A, NOW)
    third = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    produce(third, batch(1))
    aside = [p.name for p in (tmp_path / "1").iterdir() if p.name.endswith("-delete")]
    assert len(aside) == 2 and all(
        name.startswith("a-0.") and len(name) == len("a-0.-delete") + 32 for name in aside
    )
    again = start()
    log = again.get(A)
    assert log is not None and log.log_end_offset == 1 and log.topic_id == TOPIC_ID
    assert again.purge(NOW) == 2, "left over from before the start: at once"


def test_a_deleted_log_is_gone_at_once_and_its_files_later(start: Start, tmp_path: Path) -> None:
    manager = start(file_delete_delay_ms=1000)
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    produce(log, batch())
    part = log.read(0, max_bytes=1000, upper_bound_offset=1).slices[0]
    manager.checkpoint_high_watermarks({A: 1})
    assert manager.delete(A, NOW) and manager.get(A) is None and not manager.delete(A, NOW)
    with pytest.raises(StorageError, match="deleted"):
        produce(log, batch())
    assert manager.purge(NOW + 999) == 0
    assert manager.purge(NOW + 1000) == 1
    assert not [p for p in (tmp_path / "1").iterdir() if p.is_dir()]
    assert part.read(), "a fetch on its way is not disturbed"
    manager.checkpoint_high_watermarks({})
    assert (tmp_path / "1" / "replication-offset-checkpoint").read_text() == "0\n0\n"


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_deletion_that_was_synced_survives_a_power_cut(is_synced: bool) -> None:
    """Else the log is back after the broker had answered that it is gone (KAFKA-16157)."""

    def alive(root: MemoryDirectory) -> LogManager:
        manager = LogManager([root], BrokerSettings({}))
        manager.write_meta_properties(1, "cluster")
        manager.load(NOW)
        return manager

    disk = MemoryDisk()
    manager = alive(disk.root)
    produce(manager.get_or_create(A, TOPIC_ID, now_ms=NOW), batch())
    disk.root.sync()
    assert manager.delete(A, NOW)
    if is_synced:
        assert manager.sync_deletions() == {}
    again = alive(disk.power_cut(lambda choices: 0))  # nothing but what was synced
    assert (again.get(A) is None) is is_synced


def test_a_deletion_that_cannot_be_synced_is_told() -> None:
    disk = MemoryDisk()
    manager = LogManager([disk.root], BrokerSettings({}))
    manager.load(NOW)
    manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    assert manager.delete(A, NOW)
    disk.inject("sync", errno.EIO)
    assert manager.sync_deletions()[A].code is ErrorCode.KAFKA_STORAGE_ERROR
    assert manager.sync_deletions() == {}


def test_a_long_topic_name_can_be_deleted(start: Start, tmp_path: Path) -> None:
    manager = start()
    long = TopicPartition("x" * 249, 12345)
    manager.get_or_create(long, TOPIC_ID, now_ms=NOW)
    assert manager.delete(long, NOW)
    assert all(len(p.name) <= 255 for p in (tmp_path / "1").iterdir())


# -------------------------------------------------------------------------------------------- whose directory


def test_23_a_directory_of_another_broker_is_refused_in_a_sentence(start: Start) -> None:
    start(broker_id=1).close({})
    with pytest.raises(
        WrongDirectory, match=r"belongs to broker 1, this is broker 2: set broker\.id=1"
    ) as caught:
        start(broker_id=2)
    assert "log.dirs" in str(caught.value)
    start(broker_id=1)


def test_23_a_directory_of_another_cluster_is_refused_in_a_sentence(start: Start) -> None:
    start(cluster="one").close({})
    with pytest.raises(WrongDirectory, match="belongs to cluster one, this is cluster two"):
        start(cluster="two")


def test_23_directories_of_two_clusters_do_not_go_together(start: Start) -> None:
    start(1, cluster="one").close({})
    start(2, cluster="two").close({})
    with pytest.raises(WrongDirectory):
        start(1, 2, cluster="one")


def test_24_an_emptied_disk_is_a_new_one_and_says_whose_it_becomes(start: Start, tmp_path: Path) -> None:
    manager = start()
    produce(manager.get_or_create(A, TOPIC_ID, now_ms=NOW), batch())
    manager.close({A: 1})
    for path in sorted((tmp_path / "1").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    again = start()
    assert report(again).logs == 0 and report(again).clean_directories == []
    assert "broker.id=1" in (tmp_path / "1" / "meta.properties").read_text()


def test_a_second_process_on_the_same_directory_is_refused(start: Start, tmp_path: Path) -> None:
    manager = start()
    second = LogManager([OsDirectory(str(tmp_path / "1"))], BrokerSettings({}))
    with pytest.raises(DirectoryInUse, match=r"in use by another process.*log\.dirs"):
        second.claim(1)
    manager.close({})
    assert second.claim(1) == "cluster"
    second.release()


def test_a_meta_properties_that_is_none_is_refused(start: Start, tmp_path: Path) -> None:
    start().close({})
    (tmp_path / "1" / "meta.properties").write_text("broker.id=one\n")
    with pytest.raises(WrongDirectory, match=r"broker\.id=one is no number"):
        start()


# ------------------------------------------------------------------------------------------------ checkpoints


def test_high_watermarks_come_back_never_above_the_log(start: Start, tmp_path: Path) -> None:
    manager = start()
    for key in (A, B, C):
        produce(manager.get_or_create(key, TOPIC_ID, now_ms=NOW), batch(5))
    manager.checkpoint_high_watermarks({A: 3, B: 5})
    manager.checkpoint_high_watermarks({A: 4})
    path = tmp_path / "1" / "replication-offset-checkpoint"
    assert path.read_text() == "0\n2\na 0 4\nb 1 5\n"
    path.write_text("0\n3\na 0 4\nb 1 500\nwith-dash 2 0\n")
    again = start()
    assert [again.high_watermark_of(key) for key in (A, B, C)] == [4, 5, 0]


def test_a_log_that_was_cut_is_not_committed_beyond_the_cut_behind_a_kill(start: Start) -> None:
    """What follows the cut need not be committed, and reaches as far as what was."""
    manager = start()
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    produce(log, batch(2))
    produce(log, batch(3))
    manager.checkpoint_high_watermarks({A: 5})
    log.truncate_to(2, NOW)
    produce(log, batch(3), epoch=1)
    assert start().high_watermark_of(A) == 2


def test_a_log_that_lost_its_end_is_not_committed_beyond_that_behind_a_kill(
    start: Start, tmp_path: Path
) -> None:
    """A power cut took what was not flushed, and the mark was written. What follows need not be committed."""
    manager = start()
    for key in (A, B):
        log = manager.get_or_create(key, TOPIC_ID, now_ms=NOW)
        produce(log, batch(2))
        end = log.size_bytes
        produce(log, batch(3))
    manager.checkpoint_high_watermarks({A: 5, B: 5})
    with (tmp_path / "1" / str(A) / "00000000000000000000.log").open("r+b") as file:
        file.truncate(end)
    again = start()
    assert [again.high_watermark_of(key) for key in (A, B)] == [2, 5]
    produce(again.logs[A], batch(3), epoch=1)
    assert [start().high_watermark_of(key) for key in (A, B)] == [2, 5]


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_high_watermark_of_before_a_cut_is_not_written_behind_it(
    start: Start, *, is_made_anew: bool
) -> None:
    """It is written by a thread, and the loop goes on meanwhile."""
    manager = start()
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    produce(manager.get_or_create(B, TOPIC_ID, now_ms=NOW), batch(5))
    produce(log, batch(2))
    produce(log, batch(3))
    said, cuts = {A: 5, B: 5}, manager.cuts
    if is_made_anew:
        manager.delete(A, NOW)
        produce(manager.get_or_create(A, OTHER_ID, now_ms=NOW), batch(9))
    else:
        log.truncate_to(2, NOW)
        produce(log, batch(9), epoch=1)
    manager.checkpoint_high_watermarks(said, cuts)
    again = start()
    assert again.high_watermark_of(A) == 0 and again.high_watermark_of(B) == 5


@pytest.mark.parametrize("is_killed", [False, True])
def test_no_high_watermark_is_written_above_a_cut_before_that_is_flushed(
    start: Start, *, is_killed: bool
) -> None:
    """What it would stand over after a power cut is what was cut off. Other logs do not wait for it."""
    manager = start()
    produce(manager.get_or_create(B, TOPIC_ID, now_ms=NOW), batch(5))
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    produce(log, batch(2))
    produce(log, batch(7))
    manager.checkpoint_high_watermarks({A: 2})
    log.truncate_to(2, NOW)
    if is_killed:
        manager = start()
    log = manager.logs[A]
    produce(log, batch(3), epoch=1)
    manager.checkpoint_high_watermarks({A: 5, B: 5})
    written = manager.directories[0].high_watermarks.offsets
    assert written == {A: 2, B: 0 if is_killed else 5}

    assert log.flush_is_due(NOW)
    log.flush(NOW)
    manager.checkpoint_high_watermarks({A: 5, B: 5})
    assert written[A] == 5 and start().high_watermark_of(A) == 5


@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_log_at_rest_has_nothing_to_flush_behind_a_kill(start: Start, *, is_flushed: bool) -> None:
    """Where one of the two checkpoints says its end, it was not cut below that; and its high watermark is not held up."""
    manager = start()
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    produce(log, batch(5))
    if is_flushed:
        log.flush(NOW)
        manager.checkpoint_recovery_points()
    else:
        manager.checkpoint_high_watermarks({A: 5})
    manager = start()
    assert not manager.logs[A].flush_is_due(NOW)
    manager.checkpoint_high_watermarks({A: 5})
    assert start().high_watermark_of(A) == 5


def test_a_log_that_lost_its_end_is_cut_where_it_ends_now(start: Start) -> None:
    """Whatever was written of it: this start has cut it."""
    manager = start()
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    produce(log, batch(2))
    produce(log, batch(7))
    manager.checkpoint_high_watermarks({A: 9})
    log.segments.active.file.truncate(log.segments.active.file.size_bytes - 1)
    manager = start()
    produce(manager.logs[A], batch(7), epoch=1)
    manager.checkpoint_high_watermarks({A: 9})
    assert start().high_watermark_of(A) == 2


def test_a_cut_that_is_given_up_holds_no_high_watermark_up(start: Start) -> None:
    manager = start()
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    produce(log, batch(5))
    log.flush(NOW)
    manager.checkpoint_high_watermarks({A: 5})
    manager.to_flush.clear()
    log.flushed.settled()
    cut = log.preparing_cut(2, 0)
    next(cut).run()
    cut.close()
    manager.checkpoint_high_watermarks({A: 5})
    assert start().high_watermark_of(A) == 2
    assert A in manager.to_flush and log.flush_is_due(NOW)
    log.flush(NOW)
    manager.checkpoint_high_watermarks({A: 5})
    assert start().high_watermark_of(A) == 5


def test_13_checkpoints_ahead_of_the_log_after_a_power_cut(start: Start, tmp_path: Path) -> None:
    manager = start()
    produce(manager.get_or_create(A, TOPIC_ID, now_ms=NOW), batch(5))
    (tmp_path / "1" / "replication-offset-checkpoint").write_text("0\n1\na 0 9\n")
    (tmp_path / "1" / "log-start-offset-checkpoint").write_text("0\n1\na 0 8\n")
    again = start()
    log = again.logs[A]
    assert (log.log_start_offset, log.log_end_offset, again.high_watermark_of(A)) == (8, 8, 8)


@pytest.mark.parametrize("data", [b"", b"\0" * 40, b"garbage", b"0\n5\na 0 1\n"])
def test_7_checkpoints_of_no_use_are_taken_as_empty(start: Start, tmp_path: Path, data: bytes) -> None:
    manager = start()
    produce(manager.get_or_create(A, TOPIC_ID, now_ms=NOW), batch(5))
    for name in ("replication", "recovery-point", "log-start"):
        (
            tmp_path / "1" / f"{name}-offset-checkpoint".replace("log-start-offset", "log-start-offset")
        ).write_bytes(data)
    again = start()
    assert again.logs[A].log_end_offset == 5 and again.high_watermark_of(A) == 0
    assert len(report(again).notes) == (0 if data == b"" else 3)


def test_the_log_start_is_written_where_no_file_name_says_it(start: Start, tmp_path: Path) -> None:
    manager = start(segment_bytes=SIZE * 2)
    for key in (A, B):
        log = manager.get_or_create(key, TOPIC_ID, now_ms=NOW)
        for _ in range(6):
            produce(log, batch())
    manager.logs[A].delete_records_before(3)
    manager.logs[B].delete_records_before(4)
    manager.checkpoint_log_start_offsets()
    path = tmp_path / "1" / "log-start-offset-checkpoint"
    assert path.read_text() == "0\n2\na 0 3\nb 1 4\n", "until the names are synced they may be lost"
    for key in (A, B):
        manager.logs[key].flush()
    manager.checkpoint_log_start_offsets()
    assert path.read_text() == "0\n1\na 0 3\n"
    again = start(segment_bytes=SIZE * 2)
    assert (again.logs[A].log_start_offset, again.logs[B].log_start_offset) == (3, 4)


def test_the_recovery_point_on_disk_falls_before_the_log_is_cut(start: Start, tmp_path: Path) -> None:
    manager = start()
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    for _ in range(9):
        produce(log, batch())
    log.flush()
    manager.checkpoint_recovery_points()
    path = tmp_path / "1" / "recovery-point-offset-checkpoint"
    assert path.read_text() == "0\n1\na 0 9\n"
    log.truncate_to(4, NOW)
    assert path.read_text() == "0\n1\na 0 4\n"
    # Killed right here, the shorter log is no sign of lost records.
    again = start()
    assert again.logs[A].log_end_offset == 4 and again.refused == {}


@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("recovery_point", [None, 3, 7, 9], ids=["clean", "3", "7", "9"])
def test_gaps_at_the_ends_of_segments_that_apache_has_compacted_are_no_damage(
    start: Start, tmp_path: Path, policy: str, recovery_point: int | None
) -> None:
    """Its cleaner keeps the last batch of no segment, and writes no `offset-gaps`; up to where it came stands in its checkpoint. The
    topic may not be compacted any more."""
    manager = start(segment_bytes=SIZE * 3)
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    for _ in range(9):
        produce(log, batch())
    log.flush()
    manager.checkpoint_recovery_points()
    if recovery_point is None:
        manager.close({})
    for base_offset, kept in ((0, 2), (3, 0)):
        path = tmp_path / "1" / str(A) / f"{base_offset:020d}.log"
        path.write_bytes(path.read_bytes()[: SIZE * kept])
    (tmp_path / "1" / "cleaner-offset-checkpoint").write_text("0\n1\na 0 6\n")
    if recovery_point is not None:
        (tmp_path / "1" / "recovery-point-offset-checkpoint").write_text(f"0\n1\na 0 {recovery_point}\n")

    manager = start(segment_bytes=SIZE * 3, cleanup_policy=policy)
    assert manager.refused == {}
    log = manager.logs[A]
    assert offsets(log) == [0, 1, 6, 7, 8]
    for offset in range(9):
        log.read(offset, max_bytes=SIZE, upper_bound_offset=9)
    scrubber = Scrubber(lambda: [log])
    scrubber.scrub(1 << 40)
    scrubber.judge()
    assert log.failure is None

    log.flush()
    manager.checkpoint_recovery_points()
    (tmp_path / "1" / "cleaner-offset-checkpoint").unlink()
    assert offsets(start(segment_bytes=SIZE * 3).logs[A]) == [0, 1, 6, 7, 8]


def nine_in_three_segments(start: Start, tmp_path: Path) -> None:
    """Of which nothing counts as flushed."""
    log = start(segment_bytes=SIZE * 3).get_or_create(A, TOPIC_ID, now_ms=NOW)
    for _ in range(9):
        produce(log, batch())
    log.flush()


def loses_end(tmp_path: Path, base_offset: int) -> None:
    path = tmp_path / "1" / str(A) / f"{base_offset:020d}.log"
    path.write_bytes(path.read_bytes()[:-SIZE])


def test_a_loss_is_no_gap_where_the_checkpoint_of_the_cleaner_is_ahead_of_the_log(
    start: Start, tmp_path: Path
) -> None:
    """It is of a former topic of that name, then: no cleaner comes to the segment that is appended to."""
    nine_in_three_segments(start, tmp_path)
    loses_end(tmp_path, 3)
    (tmp_path / "1" / "cleaner-offset-checkpoint").write_text("0\n1\na 0 7\n")
    assert start(segment_bytes=SIZE * 3).logs[A].log_end_offset == 5
    assert not (tmp_path / "1" / str(A) / "offset-gaps").exists()


def test_a_stop_in_order_leaves_nothing_of_a_deleted_log_in_the_checkpoint_of_the_cleaner(
    start: Start, tmp_path: Path
) -> None:
    """An Apache broker may go on here, and make the topic again: what it says would be believed of that one."""
    manager = start()
    for key in (A, B):
        log = manager.get_or_create(key, TOPIC_ID, now_ms=NOW)
        manager.is_cleaned_to(log, 6, log.flushed.generation)
    manager.delete(A, NOW)
    manager.close({})
    assert (tmp_path / "1" / "cleaner-offset-checkpoint").read_text() == "0\n1\nb 1 6\n"


def test_what_stands_where_a_log_had_lost_its_end_was_never_cleaned(start: Start, tmp_path: Path) -> None:
    nine_in_three_segments(start, tmp_path)
    (tmp_path / "1" / "cleaner-offset-checkpoint").write_text("0\n1\na 0 6\n")
    path = tmp_path / "1" / str(A) / f"{3:020d}.log"
    path.write_bytes(path.read_bytes()[: SIZE - 1])
    manager = start(segment_bytes=SIZE * 3)
    log = manager.logs[A]
    assert (log.log_end_offset, manager.cleaned_to(log)) == (3, None)
    for _ in range(5):
        produce(log, batch(), epoch=1)
    loses_end(tmp_path, 3)
    assert start(segment_bytes=SIZE * 3).logs[A].log_end_offset == 5


# ----------------------------------------------------------------------------------- stops, in order and not


def test_a_stop_in_order_is_believed_once(start: Start, tmp_path: Path) -> None:
    manager = start()
    produce(manager.get_or_create(A, TOPIC_ID, now_ms=NOW), batch(5))
    manager.close({A: 5}, broker_epoch=77)
    marker = tmp_path / "1" / ".kafka_cleanshutdown"
    assert marker.read_text() == '{"version":0,"brokerEpoch":77}'
    assert report(start()).clean_directories == [str(tmp_path / "1")]
    assert not marker.exists()
    again = start()
    assert report(again).clean_directories == [] and again.logs[A].log_end_offset == 5


def test_a_stop_that_could_not_write_everything_is_not_called_clean(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = start()
    produce(manager.get_or_create(A, TOPIC_ID, now_ms=NOW), batch(5))

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files, "_fdatasync", fail)
    with pytest.raises(StorageError):
        manager.close({A: 5})
    monkeypatch.undo()
    assert not (tmp_path / "1" / ".kafka_cleanshutdown").exists()


def test_a_directory_that_fails_goes_offline_alone(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = start(1, 2)
    a = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    b = manager.get_or_create(B, TOPIC_ID, now_ms=NOW)
    produce(a, batch())
    produce(b, batch())
    told: list[tuple[str, str]] = []
    manager.on_directory_failure = lambda path, error: told.append((path, error.message))
    home = manager.directory_of(A)
    assert home is not None and home != manager.directory_of(B)
    a.directory.health.fail(StorageError("it is on fire"))
    assert told == [(home, "it is on fire")]
    assert list(manager.offline_directories) == [home]
    with pytest.raises(ProtocolError) as caught:
        a.read(0, max_bytes=9, upper_bound_offset=1)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(b, batch()).base_offset == 1
    new = manager.get_or_create(C, TOPIC_ID, now_ms=NOW)
    assert manager.directory_of(C) == manager.directory_of(B)
    produce(new, batch())
    manager.checkpoint_recovery_points()
    manager.close({A: 1, B: 2, C: 1})


def test_a_replica_in_an_offline_directory_is_not_made_again_empty(start: Start) -> None:
    manager = start(1, 2)
    a = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    a.directory.health.fail(StorageError("it is on fire"))
    manager.logs.pop(A)  # as if it had not been loaded at all
    with pytest.raises(DirectoryOffline):
        manager.get_or_create(A, TOPIC_ID, now_ms=NOW)


@pytest.mark.parametrize(
    ("operation", "name"),
    [("names", "/disk/."), ("read", "recovery-point-offset-checkpoint"), ("sync", "/disk/.")],
)
def test_a_directory_of_which_not_every_log_is_known_is_offline_though_the_disk_is_well(
    operation: str, name: str
) -> None:
    """For want of a descriptor: an empty log would be begun over the files of one that is in sync."""
    disk = MemoryDisk()
    first = LogManager([disk.root], BrokerSettings({}))
    produce(first.get_or_create(A, TOPIC_ID, now_ms=NOW), batch(5))
    first.close({A: 5})
    disk.restart()
    disk.inject(operation, errno.EMFILE, name=name.removesuffix("/."), times=1)
    manager = LogManager([disk.root], BrokerSettings({}))
    notes = manager.load(NOW).notes
    assert disk.failures == 1 and any("is offline" in note for note in notes)
    with pytest.raises(DirectoryOffline):
        manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    again = LogManager([disk.restart()], BrokerSettings({}))
    again.load(NOW)
    assert again.logs[A].log_end_offset == 5


def with_an_unopened_log() -> tuple[MemoryDisk, LogManager]:
    """Of five records, for which there was no descriptor at this start."""
    disk = MemoryDisk()
    first = LogManager([disk.root], BrokerSettings({}))
    produce(first.get_or_create(A, TOPIC_ID, now_ms=NOW), batch(5))
    first.close({A: 5})
    disk.restart()
    disk.inject("open", errno.EMFILE, name=".log", times=1)
    manager = LogManager([disk.root], BrokerSettings({}))
    manager.load(NOW)
    return disk, manager


def test_an_unopened_log_that_cannot_be_taken_away_for_want_of_a_descriptor_is_still_known() -> None:
    """Else an empty one would be begun over its files."""
    disk, manager = with_an_unopened_log()
    assert manager.is_unopened(A)
    disk.inject("read", errno.EMFILE, name="partition.metadata", times=1)
    with pytest.raises(NoDescriptor):
        manager.delete(A, NOW)
    with pytest.raises(NoDescriptor):
        manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    load = manager.load_late(A, NOW)
    load.run()
    assert manager.loaded_late(load) == ([], None)
    assert manager.logs[A].log_end_offset == 5 and manager.refused == {}


def test_a_log_that_was_made_and_for_whose_use_there_was_no_memory_is_not_made_in_two_directories(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disks = [MemoryDisk("/0"), MemoryDisk("/1")]
    manager = LogManager([disk.root for disk in disks], BrokerSettings({}))

    def no_memory(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(FlushState, "when_something_comes", no_memory)
        manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    manager.futures.preferred[A] = "/1"
    produce(manager.get_or_create(A, TOPIC_ID, now_ms=NOW), batch(5))
    manager.close({})
    again = LogManager([disk.restart() for disk in disks], BrokerSettings({}))
    again.load(NOW)
    assert again.offline_directories == {} and again.ambiguous == {}
    assert again.directory_of(A) == "/1" and again.logs[A].log_end_offset == 5


@pytest.mark.parametrize("name", ["partition.metadata", ".log"])
def test_a_log_that_could_not_be_made_is_made_where_it_was_begun(name: str) -> None:
    """Else two directories have one of its name: of one topic, and the broker refuses a directory at its next start."""
    disks = [MemoryDisk("/0"), MemoryDisk("/1")]
    manager = LogManager([disk.root for disk in disks], BrokerSettings({}))
    disks[0].inject("open", errno.EMFILE, name=name, times=1)
    with pytest.raises(StorageError):
        manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    manager.get_or_create(B, TOPIC_ID, now_ms=NOW)
    assert manager.directory_of(B) == "/0"  # so the other one has fewer
    produce(manager.get_or_create(A, TOPIC_ID, now_ms=NOW), batch(5))
    manager.close({})
    again = LogManager([disk.restart() for disk in disks], BrokerSettings({}))
    again.load(NOW)
    assert again.offline_directories == {} and again.ambiguous == {}
    assert {p: log.log_end_offset for p, log in again.logs.items()} == {A: 5, B: 0}


def test_a_log_that_could_not_be_made_is_made_where_it_was_asked_to_be_since() -> None:
    disks = [MemoryDisk("/0"), MemoryDisk("/1")]
    manager = LogManager([disk.root for disk in disks], BrokerSettings({}))
    disks[0].inject("open", errno.EMFILE, name=".log", times=1)
    with pytest.raises(StorageError):
        manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    manager.futures.preferred[A] = "/1"
    produce(manager.get_or_create(A, TOPIC_ID, now_ms=NOW), batch(5))
    assert manager.directory_of(A) == "/1"
    manager.close({})
    again = LogManager([disk.restart() for disk in disks], BrokerSettings({}))
    again.load(NOW)
    assert again.offline_directories == {} and again.ambiguous == {}
    assert again.directory_of(A) == "/1" and again.logs[A].log_end_offset == 5


def test_of_a_log_that_could_not_be_made_and_is_deleted_nothing_is_found_at_the_next_start() -> None:
    """Broker 3 was to get a replica, had no descriptor for it, and was told that it gets none; after a restart there was a log
    of that name (a world with three faults: `descriptors_run_out`, `killed_while_cleaning`, `reassign_and_cancel`)."""
    disk = MemoryDisk()
    manager = LogManager([disk.root], BrokerSettings({}))
    disk.inject("open", errno.EMFILE, name=".log", times=1)
    with pytest.raises(StorageError):
        manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    assert manager.delete(A, NOW) and not manager.delete(A, NOW)
    assert manager.sync_deletions() == {}
    again = LogManager([disk.power_cut(lambda choices: 0)], BrokerSettings({}))
    again.load(NOW)
    assert again.get(A) is None and again.logs == {} and again.refused == {}


def test_a_log_that_could_not_be_made_is_made_elsewhere_when_that_directory_goes_offline() -> None:
    disks = [MemoryDisk("/0"), MemoryDisk("/1")]
    manager = LogManager([disk.root for disk in disks], BrokerSettings({}))
    disks[0].inject("open", errno.EMFILE, times=1)
    with pytest.raises(StorageError):
        manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    manager.directories[0].root.health.fail(StorageError("it is on fire"))
    manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    assert manager.directory_of(A) == "/1"


def test_a_directory_that_cannot_be_read_at_start_is_offline_and_the_others_load(
    start: Start, tmp_path: Path
) -> None:
    manager = start(1, 2)
    for key in (A, B):
        produce(manager.get_or_create(key, TOPIC_ID, now_ms=NOW), batch())
    homes = {manager.directory_of(A): A, manager.directory_of(B): B}
    manager.close({})
    bad, good = OsDirectory(str(tmp_path / "1")), OsDirectory(str(tmp_path / "2"))
    bad.health.fail(StorageError("unreadable"))
    survivor = LogManager([bad, good], BrokerSettings({}))
    survivor.load(NOW)
    assert list(survivor.logs) == [homes[good.path]] and list(survivor.offline_directories) == [bad.path]


def test_of_a_directory_that_fails_while_it_is_loaded_nothing_is_kept_open(
    start: Start, tmp_path: Path
) -> None:
    """A person may unmount the disk and mend it, while the broker serves from the others."""
    start(1, 2).close({})
    (tmp_path / "1" / "recovery-point-offset-checkpoint").unlink()
    (tmp_path / "1" / "recovery-point-offset-checkpoint").mkdir()
    with no_collector():
        manager = start(1, 2)
        assert list(manager.offline_directories) == [str(tmp_path / "1")]
        assert open_under(tmp_path / "1") == []
        assert ".lock" in open_under(tmp_path / "2")


def test_a_log_that_cannot_be_recovered_is_refused_alone(start: Start, tmp_path: Path) -> None:
    manager = start()
    for key in (A, B):
        log = manager.get_or_create(key, TOPIC_ID, now_ms=NOW)
        produce(log, batch(3))
        log.flush()
    manager.checkpoint_recovery_points()
    path = tmp_path / "1" / "a-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    again = start()
    assert list(again.refused) == [A] and "a-0 is refused" in report(again).notes[0]
    for use in (lambda: again.get(A), lambda: again.get_or_create(A, TOPIC_ID, now_ms=NOW)):
        with pytest.raises(StorageError, match="flushed"):
            use()
    assert again.logs[B].log_end_offset == 3
    again.close({B: 3})
    assert not (tmp_path / "1" / ".kafka_cleanshutdown").exists()
    assert "a 0 3" in (tmp_path / "1" / "recovery-point-offset-checkpoint").read_text()
    assert list(start().refused) == [A], "no later start believes it either"
    # Deleted and made again, it is fetched from its leader.
    last = start()
    assert last.delete(A, NOW)
    fresh = last.get_or_create(A, TOPIC_ID, now_ms=NOW)
    follow(fresh, batch(3, base_offset=0, leader_epoch=0))
    assert contents(fresh)


def test_what_is_no_log_is_left_alone(start: Start, tmp_path: Path) -> None:
    start().close({})
    for name in ("lost+found", "notes", "a-b", "a-01", "-5"):
        (tmp_path / "1" / name).mkdir()
    (tmp_path / "1" / "file-0").write_text("a file")
    mine = "before-the-delete", f"a-0.{7:032d}.old-delete", f"a-0.{7:031d}-delete", f"a-0-{7:032d}-future"
    for name in mine:
        (tmp_path / "1" / name).mkdir()
    manager = start()
    manager.purge(NOW + HOUR)
    assert manager.logs == {} and report(manager).notes == []
    assert not {"lost+found", *mine} - {path.name for path in (tmp_path / "1").iterdir()}


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("a-0", TopicPartition("a", 0)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("a.b_c-3", TopicPartition("a.b_c", 3)),
        ("a-01", None),
        ("a-", None),
        ("-1", None),
        ("a", None),
        ("a-x", None),
        ("a-²", None),
        ("a-٣", None),
        ("a-99999999999", None),
        ("copy of a-0", None),
        ("a\n-0", None),
        ("ä-0", None),
        ("..-0", None),
        ("a" * 250 + "-0", None),
    ],
)
def test_directory_names(name: str, parsed: TopicPartition | None) -> None:
    assert parse_directory_name(name) == parsed


def test_a_directory_that_no_topic_can_have_costs_no_log_its_checkpoints(
    start: Start, tmp_path: Path
) -> None:
    """Its name has a space, which parts the fields of a checkpoint's line: at the next start the file was of no use."""
    manager = start()
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    produce(log, batch(10))
    log.delete_records_before(7)
    manager.close({A: 10})
    shutil.copytree(tmp_path / "1" / "a-0", tmp_path / "1" / "copy of a-0")
    start().close({A: 10})
    manager = start()
    assert report(manager).notes == []
    assert (manager.logs[A].log_start_offset, manager.high_watermark_of(A)) == (7, 10)


# --------------------------------------------------------------------------------------------------- retention


def aged(manager: LogManager, count: int = 10) -> PartitionLog:
    """Segments of two records, a record an hour."""
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    for n in range(count):
        produce(log, batch(at=NOW + n * 3_600_000), now_ms=NOW + n * 3_600_000)
    return log


HOUR = 3_600_000


def test_segments_older_than_retention_ms_are_let_go(start: Start) -> None:
    manager = start(segment_bytes=SIZE * 2, retention_ms=5 * HOUR)
    log = aged(manager)
    (line,) = manager.apply_retention(NOW + 9 * HOUR, {A: 10})
    assert log.log_start_offset == 4 and "segments 0, 2 let go: older than retention.ms" in line
    assert manager.apply_retention(NOW + 9 * HOUR, {A: 10}) == []
    manager.purge(NOW)
    assert start(segment_bytes=SIZE * 2).logs[A].log_start_offset == 4


def test_retention_never_passes_the_high_watermark(start: Start) -> None:
    manager = start(segment_bytes=SIZE * 2, retention_ms=1, retention_bytes=1)
    log = aged(manager)
    manager.apply_retention(NOW + 1000 * HOUR, {A: 5})
    assert log.log_start_offset == 4
    manager.apply_retention(NOW + 1000 * HOUR, {})
    assert log.log_start_offset == 4


def test_a_quiet_log_empties_and_goes_on(start: Start) -> None:
    manager = start(segment_bytes=SIZE * 2, retention_ms=HOUR)
    log = aged(manager)
    manager.apply_retention(NOW + 1000 * HOUR, {A: 10})
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (10, 10, 1)
    assert produce(log, batch()).base_offset == 10


def test_a_log_larger_than_retention_bytes_loses_its_oldest_segments(start: Start) -> None:
    manager = start(segment_bytes=SIZE * 2, retention_bytes=SIZE * 5, retention_ms=-1)
    log = aged(manager)
    manager.apply_retention(NOW, {A: 10})
    assert log.log_start_offset == 4 and log.size_bytes == SIZE * 6, "never below what was asked to be kept"


def test_a_log_is_left_with_exactly_as_much_as_retention_bytes_keeps(start: Start) -> None:
    manager = start(segment_bytes=SIZE * 2, retention_bytes=SIZE * 6, retention_ms=-1)
    log = aged(manager)
    manager.apply_retention(NOW, {A: 10})
    assert log.log_start_offset == 4 and log.size_bytes == SIZE * 6


def test_retention_bytes_of_zero_keeps_nothing_that_is_committed(start: Start) -> None:
    """As of Apache's brokers: the active segment goes too."""
    manager = start(retention_bytes=0, segment_bytes=2 * SIZE)
    log = aged(manager)
    manager.apply_retention(NOW, {A: 9})
    assert (log.log_start_offset, len(log.segments)) == (8, 1)
    manager.apply_retention(NOW, {A: 10})
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (10, 10, 0)
    assert manager.apply_retention(NOW, {A: 10}) == []


def test_a_record_as_old_as_retention_ms_stays_and_an_older_one_goes(start: Start) -> None:
    manager = start(segment_bytes=SIZE * 2, retention_ms=5 * HOUR)
    log = aged(manager)
    manager.apply_retention(NOW + 6 * HOUR, {A: 10})
    assert log.log_start_offset == 0
    manager.apply_retention(NOW + 6 * HOUR + 1, {A: 10})
    assert log.log_start_offset == 2


def test_segments_are_taken_out_a_hundred_at_a_time(start: Start) -> None:
    manager = start(segment_bytes=SIZE, retention_ms=HOUR)
    log = aged(manager, 2 * MOST_SEGMENTS + 50)
    logs = iter(manager.retention(NOW + 1000 * HOUR, lambda log: log.log_end_offset))
    (line,), _ = next(logs)
    assert log.log_start_offset == MOST_SEGMENTS and "older than retention.ms" in line
    # What it asks between two steps is of then: a log that was cut has another mark.
    assert [len(lines) for lines, _ in logs] == [1, 1, 0]
    assert (log.log_start_offset, len(log.segments)) == (log.log_end_offset, 1)


def test_of_each_log_that_begins_later_somebody_hears_once_it_does(start: Start) -> None:
    manager = start(segment_bytes=SIZE, retention_ms=HOUR)
    log = aged(manager, 10)
    manager.get_or_create(B, now_ms=NOW)
    moved: list[tuple[object, int]] = []
    for _ in manager.retention(
        NOW + 1000 * HOUR,
        lambda log: log.log_end_offset,
        lambda log: moved.append((log.topic_partition, log.log_start_offset)),
    ):
        pass
    assert moved == [(A, log.log_end_offset)]


def test_after_a_start_no_more_segments_are_opened_at_once_than_may_go(start: Start) -> None:
    manager = start(segment_bytes=SIZE, retention_ms=HOUR)
    log = aged(manager, 2 * MOST_SEGMENTS)
    for segment in log.segments[:-1]:
        segment.max_timestamp = None
    logs = iter(manager.retention(NOW + 1000 * HOUR, lambda log: log.log_end_offset))
    next(logs)
    assert sum(segment.max_timestamp is None for segment in log.segments) == MOST_SEGMENTS - 1


def test_who_applies_retention_is_told_how_many_segments_were_looked_at(start: Start) -> None:
    """To know the size of a log each is asked of the disk: 500 logs of a hundred took 0.2 s of one turn."""
    manager = start(segment_bytes=SIZE, retention_ms=-1)
    log = aged(manager, 30)
    for retention_bytes, told in (-1, 1), (1 << 40, len(log.segments)):
        log.config.retention_bytes = retention_bytes
        assert list(manager.retention(NOW, lambda log: 0)) == [([], told)]


def test_sizes_that_nobody_asked_for_since_the_start_are_looked_up_so_many_in_a_step(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "SIZES_AT_ONCE", 10)
    manager = start(segment_bytes=SIZE, retention_ms=-1, retention_bytes=SIZE)
    log = aged(manager, 30)
    log.flush(NOW)
    log.segments.close_handles()
    for segment in log.segments:
        segment._size_bytes = -1
    lines = [len(lines) for lines, _ in manager.retention(NOW, lambda log: log.log_end_offset)]
    assert lines == [0, 0, 1, 0]
    assert log.size_bytes == SIZE


def test_an_empty_segment_of_apaches_cleaner_holds_up_nothing_behind_it(start: Start, tmp_path: Path) -> None:
    """Where all of a segment went, and nothing was kept of its last batch."""
    manager = start(segment_bytes=SIZE * 2, retention_ms=5 * HOUR, cleanup_policy="compact,delete")
    aged(manager)
    manager.close({})
    for suffix in (".log", ".index", ".timeindex"):
        (tmp_path / "1" / "a-0" / f"{0:020d}{suffix}").write_bytes(b"")
    manager = start(segment_bytes=SIZE * 2, retention_ms=5 * HOUR, cleanup_policy="compact,delete")
    manager.apply_retention(NOW + 7 * HOUR, {A: 0})
    assert manager.logs[A].log_start_offset == 0
    manager.apply_retention(NOW + 9 * HOUR, {A: 10})
    assert manager.logs[A].log_start_offset == 4


def test_segments_below_the_start_that_was_asked_for_go_a_hundred_at_a_time(start: Start) -> None:
    manager = start(segment_bytes=SIZE, retention_ms=-1, cleanup_policy="compact,delete")
    log = aged(manager, 3 * MOST_SEGMENTS)
    log.delete_records_before(log.log_end_offset - 1)
    assert log.log_start_offset == log.log_end_offset - 1
    assert len(log.segments) == 2 * MOST_SEGMENTS
    manager.apply_retention(NOW, {A: log.log_end_offset})
    assert len(log.segments) == 1 and log.log_start_offset == log.log_end_offset - 1


def test_a_segment_below_the_start_has_no_part_in_the_largest_timestamp(start: Start) -> None:
    """It may be there for some minutes more."""
    manager = start(segment_bytes=SIZE, retention_ms=-1)
    log = aged(manager, MOST_SEGMENTS)
    produce(log, batch(at=NOW + 900 * HOUR), now_ms=NOW + 900 * HOUR)
    for n in range(3):
        produce(log, batch(at=NOW + 500 * HOUR - n), now_ms=NOW + 900 * HOUR)

    log.delete_records_before(MOST_SEGMENTS + 1)

    assert log.segments[0].base_offset < log.log_start_offset
    assert log.max_timestamp() == (NOW + 500 * HOUR, MOST_SEGMENTS + 1)
    assert log.offset_of_max_timestamp() == (NOW + 500 * HOUR, MOST_SEGMENTS + 1, 0)


def test_a_producer_is_forgotten_by_its_own_setting_and_not_with_the_records(start: Start) -> None:
    """producer.id.expiration.ms, a day; retries are recognised as long, however short records are kept."""
    manager = start(retention_ms=HOUR)
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    produce(log, idempotent(0))
    manager.apply_retention(NOW + 23 * HOUR, {A: 0})
    assert log.producers.ids() == [7]
    manager.apply_retention(NOW + 24 * HOUR, {A: 0})
    assert log.producers.ids() == []


def test_where_a_replica_was_to_go_is_forgotten_with_it(start: Start) -> None:
    """The next topic of that name is another one, and nobody has asked for a directory for it."""
    manager = start()
    manager.futures.preferred[A] = manager.directories[0].path
    manager.delete(A, NOW)
    assert A not in manager.futures.preferred


def test_a_log_that_goes_between_two_steps_of_retention_is_left_alone(start: Start) -> None:
    manager = start(segment_bytes=SIZE, retention_ms=HOUR)
    aged(manager, 2 * MOST_SEGMENTS + 50)
    logs = iter(manager.retention(NOW + 1000 * HOUR, lambda log: log.log_end_offset))
    next(logs)
    manager.delete(A, NOW)
    assert list(logs) == [([], 1)]


def test_26_a_clock_an_hour_off_in_either_direction_deletes_nothing_too_early(start: Start) -> None:
    manager = start(segment_bytes=SIZE * 2, retention_ms=20 * HOUR)
    log = aged(manager)
    for now in (NOW - HOUR, NOW + 9 * HOUR, NOW + 10 * HOUR, NOW + 8 * HOUR):
        manager.apply_retention(now, {A: 10})
        assert log.log_start_offset == 0


def test_a_compacted_topic_is_not_cut_by_age(start: Start) -> None:
    manager = start(segment_bytes=SIZE * 2, retention_ms=1, cleanup_policy="compact")
    log = aged(manager)
    manager.apply_retention(NOW + 1000 * HOUR, {A: 10})
    assert log.log_start_offset == 0


def test_changed_settings_reach_the_logs(start: Start) -> None:
    manager = start()
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    assert log.config.max_message_bytes == 1048588
    manager._topic_settings = lambda topic: TopicSettings(BrokerSettings({}), {"max.message.bytes": "100"})
    manager.forget_config("a")
    manager.update_config("a", [A])
    with pytest.raises(ProtocolError) as caught:
        produce(log, batch())
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert manager.get_or_create(TopicPartition("a", 5), now_ms=NOW).config is log.config


def test_a_log_that_cannot_be_closed_keeps_no_other_from_being_closed_in_order(
    start: Start, tmp_path: Path
) -> None:
    manager = start()
    for log in (A, B):
        produce(manager.get_or_create(log, TOPIC_ID, now_ms=NOW), batch(5))
    shutil.rmtree(tmp_path / "1" / str(A))
    with pytest.raises(StorageError, match=str(A)):
        manager.close({A: 5, B: 5})
    assert not (tmp_path / "1" / ".kafka_cleanshutdown").exists()
    again = start()
    report(again)
    assert again.logs[B].recovery_point == 5


def test_whoever_knows_the_other_copies_is_told_of_a_broken_log_though_nothing_can_be_written_down(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = start()
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    produce(log, batch(5))
    told: list[tuple[TopicPartition, StorageError]] = []
    manager.on_broken_log = lambda broken, error: told.append((broken, error))

    def no_descriptor(*arguments: object, **options: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    shutil.rmtree(tmp_path / "1" / str(A))
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "open", no_descriptor)
        log.give_up(StorageError("half of a change"))
    assert [broken for broken, _ in told] == [A] and manager.refused[A].message == "half of a change"
    manager.checkpoint_recovery_points()
    assert "a 0 5" in (tmp_path / "1" / "recovery-point-offset-checkpoint").read_text()


@contextmanager
def too_few_descriptors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A log can open its first file, and not the second."""
    really_open = files.os.open

    def without_second(path: str, *arguments: Any, **options: Any) -> int:
        if str(path).endswith(".txnindex"):
            raise OSError(errno.EMFILE, "Too many open files")
        return really_open(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "open", without_second)
        yield


def test_a_log_for_which_there_were_too_few_descriptors_holds_none(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error that is kept knew the frames in which it came up, and their open files: what became free was held by the next attempt
    that failed."""
    produce(start().get_or_create(A, TOPIC_ID, now_ms=NOW), batch(5))
    log_directory = tmp_path / "1" / "a-0"
    with too_few_descriptors(monkeypatch):
        manager = start()
        assert manager.is_unopened(A) and open_under(log_directory) == []
        load = manager.load_late(A, NOW)
        assert not load.run()
        assert isinstance(manager.loaded_late(load)[1], NoDescriptor) and open_under(log_directory) == []
    load = manager.load_late(A, NOW)
    assert load.run() and manager.loaded_late(load) == ([], None)


def test_a_log_that_was_opened_late_in_a_directory_that_fails_meanwhile_holds_no_descriptor(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the disk could not be unmounted."""
    produce(start().get_or_create(A, TOPIC_ID, now_ms=NOW), batch(5))
    log_directory = tmp_path / "1" / "a-0"
    with too_few_descriptors(monkeypatch):
        manager = start()
    load = manager.load_late(A, NOW)
    assert load.run() and open_under(log_directory)
    manager.directories[0].root.health.fail(DiskFault("it is on fire"))
    assert isinstance(manager.loaded_late(load)[1], StorageError)
    assert open_under(log_directory) == []


def test_a_checkpoint_that_is_written_as_a_log_is_opened_late_keeps_what_it_says_of_it() -> None:
    """Neither among those in use nor among those refused, it would begin at 0 again after a crash, and nothing of it would be flushed."""
    _, manager = with_an_unopened_log()
    (directory,) = manager.directories
    really_adopt = manager.adopt

    def adopt(*arguments: Any) -> None:
        if directory.checkpointing.acquire(blocking=False):  # what a thread that comes now does
            directory.checkpointing.release()
            manager.checkpoint_recovery_points()
        really_adopt(*arguments)

    manager.adopt = adopt  # type: ignore[method-assign]
    load = manager.load_late(A, NOW)
    load.run()
    assert manager.loaded_late(load) == ([], None)
    assert directory.recovery_points.offsets == {A: 5}


def test_a_log_that_is_opened_late_knows_that_its_directory_fails_in_this_moment() -> None:
    """A thread that flushes another log finds it neither before nor after; the replica was registered as one that can be used."""
    _, manager = with_an_unopened_log()
    (directory,) = manager.directories
    really_adopt = manager.adopt

    def adopt(*arguments: Any) -> None:
        directory.root.health.fail(DiskFault("it is on fire"))
        really_adopt(*arguments)

    manager.adopt = adopt  # type: ignore[method-assign]
    load = manager.load_late(A, NOW)
    load.run()
    manager.loaded_late(load)
    with pytest.raises(DiskFault, match="it is on fire"):
        manager.get(A)


def test_a_log_that_is_opened_late_and_whose_end_cannot_be_written_down_is_not_used() -> None:
    """Behind a kill it would be committed up to where it ended before, over whatever stands there by then."""
    disk = MemoryDisk()
    first = LogManager([disk.root], BrokerSettings({}))
    produce(first.get_or_create(A, TOPIC_ID, now_ms=NOW), batch(5))
    first.close({A: 5})
    disk.restart()
    disk.inject("open", errno.EMFILE, name=".log", times=1)
    manager = LogManager([disk.root], BrokerSettings({}))
    manager.load(NOW)
    (directory,) = manager.directories
    directory.recovery_points.set(A, 0)
    for checkpoint in (directory.high_watermarks, directory.cleaned_to):
        checkpoint.set(A, 9)
    load = manager.load_late(A, NOW)
    disk.inject("open", errno.EMFILE, name="replication-offset-checkpoint")
    assert not load.run()
    assert isinstance(manager.loaded_late(load)[1], StorageError) and A not in manager.logs


def test_a_log_that_is_opened_late_without_its_end_holds_up_nobody_who_cuts_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop waits for the lock of the checkpoints, and is not to wait with it for the disk of a thread."""
    disk, manager = with_an_unopened_log()
    (directory,) = manager.directories
    directory.recovery_points.set(A, 0)  # as after a power cut, that took the records
    for checkpoint in (directory.high_watermarks, directory.cleaned_to):
        checkpoint.set(A, 9)
    locked: list[bool] = []
    really_replace = MemoryDirectory.replace

    def replace(*arguments: Any, **options: Any) -> None:
        locked.append(directory.checkpointing.locked())
        really_replace(*arguments, **options)

    load = manager.load_late(A, NOW)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryDirectory, "replace", replace)
        assert load.run()
    assert True not in locked
    assert manager.loaded_late(load)[1] is None and manager.logs[A].log_end_offset == 5
    found = LogManager([disk.root], BrokerSettings({})).directories[0]
    found.read_checkpoints([])
    assert found.high_watermarks.offsets == {A: 5} and found.cleaned_to.offsets.get(A, 0) <= 5


def test_a_log_is_opened_late_as_its_topic_was_configured_at_the_start() -> None:
    """What was known then is forgotten with the last replica of the topic that is in use. Where nothing is compacted a gap is taken
    for records that a power cut took, and all behind it is cut off."""
    disk = MemoryDisk()
    settings = BrokerSettings({})
    overrides: dict[str, str] = {"cleanup.policy": "compact"}

    def manager() -> LogManager:
        return LogManager(
            [disk.root], settings, topic_settings=lambda topic: TopicSettings(settings, overrides)
        )

    log = manager().get_or_create(A, TOPIC_ID, now_ms=NOW)
    follow(log, batch(1))
    follow(log, batch(1, base_offset=5))
    log.directory.remove("offset-gaps")  # Apache's broker makes none
    disk.restart()
    disk.inject("open", errno.EMFILE, name=".log", times=1)
    again = manager()
    again.load(NOW)
    assert again.is_unopened(A)
    overrides.clear()
    again.forget_config(A.topic)
    load = again.load_late(A, NOW)
    load.run()
    assert again.loaded_late(load) == ([], None)
    assert offsets(again.logs[A]) == [0, 5]


@pytest.mark.parametrize("where", [(Segment, "mark_deleted"), (Segment, "cut"), (PreparedFiles, "put")])
@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("offset", [0, 3, 7])
@pytest.mark.parametrize("anew", [False, True])
def test_a_log_in_whose_cut_memory_ran_out_is_read_again_by_the_next_start(
    where: tuple[type, str], after: int, offset: int, anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it was said to have been here, as of a log that was found damaged, and so it was refused for what the cut had taken."""
    disk = MemoryDisk()
    first = LogManager([disk.root], BrokerSettings({}))
    log = first.get_or_create(A, TOPIC_ID, now_ms=NOW)
    for _ in range(5):
        produce(log, batch(2))
        log.roll(NOW)
    log.flush()
    first.checkpoint_recovery_points()

    really_done = getattr(*where)

    def no_memory(*arguments: Any) -> Any:
        nonlocal after
        after -= 1
        if after < 0:
            raise MemoryError
        return really_done(*arguments)

    steps = log.restarting_at(offset, NOW) if anew else log.truncating_to(offset, NOW)
    with monkeypatch.context() as patch:
        patch.setattr(*where, no_memory)
        with suppress(MemoryError):
            all_at_once(steps)
    assert (log.failure is None) is (after >= 0)
    disk.restart()
    again = LogManager([disk.root], BrokerSettings({}))
    again.load(NOW)
    assert again.refused == {} and again.logs[A].log_end_offset <= 10


@pytest.mark.parametrize("what", ["refused", "being opened", "failed"])
def test_an_error_that_is_kept_keeps_nobody_who_was_told_of_it(what: str) -> None:
    """With each LeaderAndIsr for a log that was refused, all of that request was kept as long as the log was."""
    disk = MemoryDisk()
    produce(LogManager([disk.root], BrokerSettings({})).get_or_create(A, TOPIC_ID, now_ms=NOW), batch(5))
    disk.restart()
    if what != "failed":
        disk.inject("open", errno.EMFILE, name=".log", times=1)
    manager = LogManager([disk.root], BrokerSettings({}))
    manager.load(NOW)
    if what == "failed":
        manager.logs[A].fail(NoDescriptor("too many"))
    if what == "being opened":
        manager.load_late(A, NOW)

    class Asked:
        pass

    def ask() -> weakref.ref[Asked]:
        request = Asked()
        with suppress(NoDescriptor):
            manager.resolve_topic_id(A, TOPIC_ID, NOW)
            manager.get(A)
        return weakref.ref(request)

    with no_collector():
        assert ask()() is None
    with pytest.raises(NoDescriptor, match=r"injected|too many") as caught:
        manager.get(A)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_of_a_process_that_is_dead_in_the_midst_of_a_change_nobody_hears_anything() -> None:
    """What a world kills there must not go on: it was told that its log is damaged."""
    disk = MemoryDisk()
    manager = LogManager([disk.root], BrokerSettings({}))
    told: list[TopicPartition] = []
    manager.on_broken_log = lambda topic_partition, fault: told.append(topic_partition)
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    produce(log, batch())
    disk.dies_at = lambda step: step.startswith("rename") and ".snapshot" in step
    with pytest.raises(Crashed):
        log.roll(NOW)
    assert told == [] and manager.refused == {} and log.failure is None


def test_a_log_in_which_memory_ran_out_is_told_of_though_its_end_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For want of memory as well. Its broker led with it, and answered every request with its failure."""
    manager = LogManager([MemoryDisk().root], BrokerSettings({}))
    told: list[TopicPartition] = []
    manager.on_broken_log = lambda topic_partition, fault: told.append(topic_partition)
    log = manager.get_or_create(A, TOPIC_ID, now_ms=NOW)

    def no_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Segment, "note_batch", no_memory)
    monkeypatch.setattr(checkpoints, "offsets_to_bytes", no_memory)
    with pytest.raises(MemoryError):
        produce(log, batch())
    assert told == [A]


def test_in_a_directory_that_failed_nothing_is_removed(start: Start) -> None:
    manager = start()
    manager.get_or_create(A, TOPIC_ID, now_ms=NOW)
    manager.delete(A, NOW)
    manager.directories[0].root.health.fail(DiskFault("it is on fire"))
    assert manager.purge(NOW + 10**9) == 0
