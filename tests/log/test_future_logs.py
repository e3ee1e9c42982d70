"""Logs on their way into another log directory, their arrival, and every crash and failed disk in the middle of it."""

import errno
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from odradek.log.checkpoints import DIRECTORY_MOVES
from odradek.log.errors import CorruptLog, DirectoryOffline, StorageError
from odradek.log.flushing import FlushState
from odradek.log.future_logs import FutureLog, is_too_long
from odradek.log.log_directory import moves_of
from odradek.log.log_manager import LogManager
from odradek.log.memory_files import MemoryDirectory, MemoryDisk, _Node
from odradek.log.partition_log import PartitionLog
from odradek.log.truncated_tails import TAILS
from odradek.model.ids import NO_TOPIC_ID, TopicId, TopicPartition
from odradek.model.settings import BrokerSettings, TopicSettings
from odradek.sim.crash_states import RecordingDisk, copied, fingerprint, without_what_was_lost
from tests.log.logs import (
    NOW,
    TOPIC_ID,
    TP,
    batch,
    contents,
    follow,
    headers,
    idempotent,
    marker,
    produce,
)

SIZE = len(batch())
OTHER_ID = TopicId(bytes(range(1, 17)))
LATER = NOW + 10 * 60_000


class Directories:
    """A broker's log directories `/a` and `/b` through its lives, and the log `orders-0` somewhere on them."""

    def __init__(self, *disks: MemoryDisk) -> None:
        self.disks = disks or (MemoryDisk("/a"), MemoryDisk("/b"))
        settings = BrokerSettings({})
        self._topic = TopicSettings(settings, {"segment.bytes": str(SIZE * 4)})
        self._settings = settings
        self.manager = self.start()

    def start(self) -> LogManager:
        """A new process."""
        for disk in self.disks:
            disk.restart()
        self.manager = LogManager(
            [disk.root for disk in self.disks], self._settings, topic_settings=lambda topic: self._topic
        )
        self.report = self.manager.load(NOW)
        return self.manager

    @property
    def log(self) -> PartitionLog:
        return self.manager.get_or_create(TP, TOPIC_ID, now_ms=NOW)

    @property
    def path(self) -> str | None:
        return self.manager.directory_of(TP)

    def move_to(self, path: str) -> FutureLog:
        directory = self.manager.directory_at(path)
        assert directory is not None
        return self.manager.futures.create(TP, directory, NOW)

    @property
    def future(self) -> PartitionLog:
        return self.manager.futures.logs[TP].log

    def copy(self, batches: int = 1 << 30) -> None:
        """What is missing, batch by batch."""
        for _ in range(batches):
            if self.future.log_end_offset >= self.log.log_end_offset:
                return
            read = self.log.read(
                self.future.log_end_offset, max_bytes=1, upper_bound_offset=1 << 40, min_one_batch=True
            )
            follow(self.future, b"".join(part.read() for part in read.slices))

    def arrive(self) -> list[str]:
        self.copy()
        self.manager.futures.prepare(TP)
        self.future.flush()
        return self.manager.futures.swap(TP, self.log.log_end_offset, NOW)

    def names(self, at: int) -> list[str]:
        return [name for name in self.disks[at].root.names() if name.startswith("orders")]


@pytest.fixture
def world() -> Directories:
    world = Directories()
    for n in range(10):
        produce(world.log, batch(1, value=b"%d" % n * 100), epoch=n // 4)
    assert world.path == "/a"
    return world


# ----------------------------------------------------------------------------------------------- without accidents


def test_a_future_log_has_the_name_of_apaches_and_is_not_the_one_in_use(world: Directories) -> None:
    world.move_to("/b")
    (name,) = world.names(1)
    stem, dot, unique = name.removesuffix("-future").partition(".")
    assert (stem, dot, len(unique)) == ("orders-0", ".", 32) and int(unique, 16) >= 0
    assert name.endswith("-future") and world.path == "/a" and world.manager.get(TP) is world.log


def test_it_arrives_with_everything_the_log_in_use_knows(world: Directories) -> None:
    world.log.delete_records_before(3)
    world.log.assign_epoch(9, world.log.log_end_offset)  # a leader that has not written yet
    produce(world.log, idempotent(0, 2), epoch=9)
    world.log.assign_epoch(11, world.log.log_end_offset)
    before = (contents(world.log), world.log.epochs.entries, world.log.log_start_offset)
    producers = world.log.producers.to_bytes()
    former = world.log
    world.move_to("/b")
    assert world.arrive() == ["orders-0 has moved from /a to /b"]
    assert world.path == "/b" and world.names(1) == ["orders-0"]
    assert [name.endswith("-delete") for name in world.names(0)] == [True]
    assert (contents(world.log), world.log.epochs.entries, world.log.log_start_offset) == before
    assert world.log.producers.to_bytes() == producers
    assert former.failure is not None and world.log.topic_id == TOPIC_ID
    produce(world.log, batch(), epoch=11)
    assert world.manager.purge(LATER) == 1 and world.names(0) == []


def test_a_cut_of_a_log_that_has_moved_lowers_what_its_new_directory_says_is_flushed(
    world: Directories,
) -> None:
    world.move_to("/b")
    world.arrive()
    world.log.flush()
    world.manager.checkpoint_recovery_points()
    directory = world.manager.directory_at("/b")
    assert directory is not None and directory.recovery_points.offsets[TP] == 10

    world.log.truncate_to(4, NOW)

    assert directory.recovery_points.offsets[TP] == 4
    world.start()
    assert (world.path, world.log.log_end_offset) == ("/b", 4)


def test_it_is_of_the_topic_that_the_log_in_use_has_learnt_to_be_of_meanwhile() -> None:
    """An old controller named no topic id, and the one that did came while the log was copied (KIP-516)."""
    world = Directories()
    log = world.manager.get_or_create(TP, NO_TOPIC_ID, now_ms=NOW)
    produce(log, batch())
    world.move_to("/b")
    assert world.future.topic_id == NO_TOPIC_ID
    log.assign_topic_id(TOPIC_ID)

    world.arrive()

    assert world.path == "/b" and world.manager.logs[TP].topic_id == TOPIC_ID
    assert world.start().logs[TP].topic_id == TOPIC_ID, "what is synced with the swap is known behind it"


def test_how_far_it_was_replicated_is_known_in_the_new_directory_before_the_next_checkpoint(
    world: Directories,
) -> None:
    world.move_to("/b")
    world.copy()
    world.manager.futures.prepare(TP)
    world.future.flush()
    world.manager.futures.swap(TP, 7, NOW)
    world.start()
    assert world.path == "/b" and world.manager.high_watermark_of(TP) == 7


def test_what_was_committed_before_the_log_in_use_was_cut_is_not_committed_in_the_new_directory(
    world: Directories,
) -> None:
    """The copy had not got so far, so it was not cut; and what it gets now need not be committed."""
    world.move_to("/b")
    world.manager.checkpoint_high_watermarks({TP: 10})
    world.log.truncate_to(3, NOW)
    for _ in range(7):
        produce(world.log, batch(), epoch=20)
    world.copy()
    world.manager.futures.prepare(TP)
    world.future.flush()
    world.manager.futures.swap(TP, 3, NOW)
    world.start()
    assert world.path == "/b" and world.manager.high_watermark_of(TP) == 3


def test_a_high_watermark_is_written_where_the_log_is_and_where_it_goes_and_nowhere_else() -> None:
    world = Directories(*map(MemoryDisk, ("/a", "/b", "/c")))
    produce(world.log, batch())
    world.move_to("/b")
    world.manager.checkpoint_high_watermarks({TP: 1})
    written = [one.high_watermarks.offsets for one in world.manager.directories]
    assert written == [{TP: 1}, {TP: 1}, {}]


@pytest.mark.parametrize("is_written", [False, True])
def test_a_copy_whose_cut_is_not_on_the_disk_is_not_committed_beyond_it_when_it_takes_its_place(
    world: Directories, *, is_written: bool
) -> None:
    """What was cut off it would be back after a power cut, and look as if it were committed."""
    world.move_to("/b")
    world.copy()
    world.manager.futures.prepare(TP)
    world.future.flush()
    for log in (world.log, world.future):
        log.truncate_to(3, NOW)
    world.log.flush()
    for _ in range(7):
        produce(world.log, batch(), epoch=20)
    if is_written:  # by a thread, which may come behind what the swap says of it
        world.manager.checkpoint_high_watermarks({TP: 10})
        assert [one.high_watermarks.offsets[TP] for one in world.manager.directories] == [10, 3]
    world.copy()
    world.manager.futures.swap(TP, 10, NOW)
    world.start()
    assert world.path == "/b" and world.manager.high_watermark_of(TP) == 3


def test_a_copy_that_is_cut_is_not_said_to_be_flushed_beyond_the_cut(world: Directories) -> None:
    """Behind a kill it would look as if it had lost what was flushed, and all of it would be copied again; where the disk of the log
    in use is gone meanwhile, it would be the last copy, and refused."""
    world.move_to("/b")
    world.copy()
    world.future.flush()
    world.manager.checkpoint_recovery_points()
    world.future.truncate_to(4, NOW)
    world.start()
    assert world.future.log_end_offset == 4 and world.report.notes == []


def test_a_stop_is_not_in_order_where_a_copy_turned_out_to_be_damaged(world: Directories) -> None:
    """It would be believed at the next start, and take the place of the log in use."""
    world.move_to("/b")
    world.copy()
    world.future.fail(CorruptLog("not what was written"))
    world.manager.close({TP: 10})
    assert [".kafka_cleanshutdown" in disk.root.names() for disk in world.disks] == [True, False]


@pytest.mark.parametrize("start", [0, 4, 6])
def test_where_the_log_begins_is_written_in_the_new_directory_before_the_next_checkpoint_if_its_files_do_not_say_it(
    world: Directories, start: int
) -> None:
    world.move_to("/b")
    world.copy()
    world.log.delete_records_before(start)
    world.arrive()
    directory = world.manager.directory_at("/b")
    assert directory is not None
    assert (world.log.log_start_offset, world.log.first_base_offset) == (start, 4 if start else 0)
    assert directory.log_starts.offsets == ({TP: start} if start else {})
    world.start()
    assert (world.path, world.log.log_start_offset) == ("/b", start)


def test_changed_settings_reach_a_copy_on_its_way(world: Directories) -> None:
    """It is the log in use soon, and would go on with those of before."""
    world.move_to("/b")
    manager = world.manager
    manager._topic_settings = lambda topic: TopicSettings(BrokerSettings({}), {"max.message.bytes": "100"})
    manager.forget_config(TP.topic)
    manager.update_config(TP.topic, [TP])
    assert world.future.config.max_message_bytes == 100 == world.log.config.max_message_bytes


def test_records_deleted_before_a_move_are_not_back_after_a_power_cut_behind_it(world: Directories) -> None:
    """The segments that go from the copy in the swap are renamed, and that is not synced."""
    world.move_to("/b")
    world.copy()
    world.manager.futures.prepare(TP)
    world.future.flush()
    world.log.delete_records_before(8)
    world.manager.checkpoint_log_start_offsets()
    world.manager.futures.swap(TP, 10, NOW)

    for disk in world.disks:
        disk.power_cut(lambda count: 0)
    world.start()

    assert world.path == "/b" and world.log.log_start_offset == 8


def test_a_producer_whose_records_are_deleted_is_known_in_the_new_directory(world: Directories) -> None:
    produce(world.log, idempotent(0, 1), epoch=5)
    produce(world.log, batch(), epoch=5)
    world.log.delete_records_before(11)
    world.move_to("/b")
    assert world.future.producers.get(7) is None
    world.arrive()
    assert produce(world.log, idempotent(0, 1), epoch=5).duplicate


def test_a_copy_that_begins_behind_the_log_in_use_takes_no_epoch_from_below_its_start() -> None:
    """A kill takes the start of the log in use, which the file name of the copy's first segment still says."""
    world = Directories()
    for epoch in range(4):
        produce(world.log, batch(1), epoch=epoch)
    world.log.delete_records_before(2)
    world.move_to("/b")
    world.start()
    assert (world.log.log_start_offset, world.future.log_start_offset) == (0, 2)
    world.log.assign_epoch(9, world.log.log_end_offset)
    world.copy()
    world.manager.futures.prepare(TP)
    assert world.future.epochs.entries == [(2, 2), (3, 3), (9, 4)]
    world.arrive()
    assert world.log.epochs.entries == [(2, 2), (3, 3), (9, 4)]
    assert world.log.end_offset_for_epoch(0) == (0, 2)  # not below the log's start


def test_slices_read_before_the_swap_are_good_after_it(world: Directories) -> None:
    read = world.log.read(0, max_bytes=1 << 20, upper_bound_offset=1 << 40)
    expected = contents(world.log)
    world.move_to("/b")
    world.arrive()
    assert b"".join(part.read() for part in read.slices) == expected
    world.manager.purge(LATER)
    assert b"".join(part.read() for part in read.slices) == expected


def test_messages_name_the_file_where_it_lies_now(world: Directories) -> None:
    world.move_to("/b")
    world.arrive()
    assert world.log.segments.active.file.name.startswith("/b/orders-0/")
    assert world.log.directory.path == "/b/orders-0"


def test_it_goes_there_and_back_again(world: Directories) -> None:
    expected = contents(world.log)
    for n, path in enumerate(("/b", "/a", "/b", "/a"), start=1):
        world.move_to(path)
        world.arrive()
        produce(world.log, batch(), epoch=20)
        assert moves_of(world.log.directory) == n
    world.manager.purge(LATER)
    assert world.names(0) == ["orders-0"] and world.names(1) == []
    assert contents(world.log).startswith(expected) and world.log.log_end_offset == 14


def test_a_log_whose_count_of_moves_is_torn_has_not_been_moved(world: Directories) -> None:
    world.log.directory.replace(DIRECTORY_MOVES, b"version: 0", durable=False)
    assert moves_of(world.log.directory) == 0


def test_what_an_earlier_stay_left_in_the_checkpoints_is_not_believed(world: Directories) -> None:
    """The recovery point of the log that was there: the new one would look as if flushed records were missing."""
    world.log.flush()
    world.manager.checkpoint_recovery_points()
    world.manager.checkpoint_high_watermarks({TP: 10})
    world.move_to("/b")
    world.arrive()
    world.manager.checkpoint_recovery_points()
    world.manager.purge(LATER)
    world.log.truncate_fully_and_start_at(2, NOW)
    world.move_to("/a")
    world.copy()
    world.start()
    assert world.manager.refused == {} and world.report.notes == []
    assert world.future.log_end_offset == 2


def test_tails_of_an_unclean_election_are_not_deleted_with_the_former_log(world: Directories) -> None:
    world.log.directory.make(TAILS).make("0-1")
    world.move_to("/b")
    lines = world.arrive()
    (name,) = world.names(0)
    assert name.endswith("-stray") and name in lines[1]


def test_a_cancelled_copy_goes_after_a_while(world: Directories) -> None:
    world.move_to("/b")
    world.copy(4)
    world.manager.futures.drop(TP, NOW)
    assert [name.endswith("-delete") for name in world.names(1)] == [True]
    assert world.manager.purge(LATER) == 1
    assert world.names(1) == [] and world.log.log_end_offset == 10


def test_a_deleted_log_takes_its_copy_along(world: Directories) -> None:
    world.move_to("/b")
    world.manager.delete(TP, NOW)
    assert world.manager.futures.logs == {}
    assert all(name.endswith("-delete") for at in (0, 1) for name in world.names(at))


@pytest.mark.parametrize(
    ("operation", "name"), [("open", "partition.metadata"), ("open", ".log"), ("replace", DIRECTORY_MOVES)]
)
def test_a_copy_that_could_not_be_begun_is_not_on_its_way(operation: str, name: str) -> None:
    """Whoever asked for it was told so: it does not go on by itself, neither now nor behind a restart."""
    world = Directories()
    produce(world.log, batch())
    world.disks[1].inject(operation, errno.EMFILE, name=name, times=1)
    with pytest.raises(StorageError):
        world.move_to("/b")
    assert world.manager.futures.logs == {}
    assert [left.endswith("-delete") for left in world.names(1)] == [True]
    world.manager.close({})
    world.start()
    assert world.path == "/a" and world.manager.futures.logs == {}
    assert world.move_to("/b").directory.path == "/b"


def test_a_name_that_a_suffix_would_make_too_long_is_told() -> None:
    assert is_too_long(TopicPartition("x" * 214, 0)) and not is_too_long(TopicPartition("x" * 213, 0))


def test_a_new_log_is_made_where_it_was_asked_to_be() -> None:
    world = Directories()
    world.manager.futures.preferred[TP] = "/b"
    assert world.log is not None and world.path == "/b"
    assert world.manager.futures.preferred == {}


def test_copies_count_when_the_emptiest_directory_is_looked_for(world: Directories) -> None:
    world.move_to("/b")
    other = TopicPartition("orders", 1)
    world.manager.get_or_create(other, now_ms=NOW)
    third = TopicPartition("orders", 2)
    world.manager.get_or_create(third, now_ms=NOW)
    assert {world.manager.directory_of(other), world.manager.directory_of(third)} == {"/a", "/b"}


def test_logs_are_counted_wherever_they_go(world: Directories) -> None:
    def counts() -> list[int]:
        return [directory.log_count for directory in world.manager.directories]

    assert counts() == [1, 0]
    world.move_to("/b")
    assert counts() == [1, 0], "a copy counts apart"
    world.arrive()
    assert counts() == [0, 1]
    world.start()
    assert counts() == [0, 1]
    world.manager.delete(TP, NOW)
    assert counts() == [0, 0]


# ------------------------------------------------------------------------------------------------------ restarts


@pytest.mark.parametrize("in_order", [True, False])
def test_a_copy_found_at_the_start_goes_on(world: Directories, in_order: bool) -> None:
    world.move_to("/b")
    world.copy(4)
    if in_order:
        world.manager.close({TP: 10})
    world.start()
    assert world.path == "/a" and world.future.log_end_offset == 4
    assert world.report.notes == []
    world.arrive()
    assert world.path == "/b" and world.log.log_end_offset == 10


def test_a_copy_whose_log_in_use_is_gone_with_its_disk_is_kept(world: Directories) -> None:
    """It may be the last one: a person decides. What is fetched anew goes to the directory that was asked for."""
    world.move_to("/b")
    world.copy(9)
    world.disks[0].wipe()
    world.start()
    assert world.log.log_end_offset == 0 and world.path == "/b"
    stray, _ = sorted(world.names(1), key=len, reverse=True)
    assert stray.endswith("-stray") and world.manager.futures.logs == {}


def test_a_copy_of_a_log_on_a_failed_disk_stays(world: Directories) -> None:
    world.move_to("/b")
    world.copy(9)
    world.disks[0].inject("names", errno.EIO)
    world.start()
    assert world.future.log_end_offset == 9
    world.disks[0].heal()
    world.start()
    world.arrive()
    assert world.path == "/b" and world.log.log_end_offset == 10


def test_a_damaged_copy_is_begun_again(world: Directories) -> None:
    world.move_to("/b")
    world.copy()
    world.future.flush()
    world.manager.checkpoint_recovery_points()
    (name,) = world.names(1)
    world.disks[1].flip_bit(f"{name}/{8:020d}.log", 8 * 80)
    world.start()
    assert world.future.log_end_offset == 0 and "begun again" in world.report.notes[0]


def test_a_copy_of_another_topic_of_that_name_goes(world: Directories) -> None:
    world.move_to("/b")
    world.copy(3)
    disk = MemoryDisk("/a")
    world.disks = (disk, world.disks[1])
    other = Directories(disk, MemoryDisk("/none"))
    other.manager.get_or_create(TP, OTHER_ID, now_ms=NOW)
    world.start()
    assert world.manager.futures.logs == {} and [n.endswith("-delete") for n in world.names(1)] == [True]


def test_a_log_is_not_said_to_be_deleted_whose_copy_may_have_got_its_name_on_a_disk_that_failed(
    world: Directories,
) -> None:
    world.move_to("/b")
    world.copy()
    manager = world.manager
    manager.futures.prepare(TP)
    world.future.flush()
    world.disks[1].inject("sync", errno.EIO, after=2)
    with pytest.raises(StorageError):
        manager.futures.swap(TP, 10, NOW)
    assert str(TP) in world.names(1)
    manager.futures.lose(TP)
    for _ in range(2):
        with pytest.raises(DirectoryOffline):
            manager.delete(TP, NOW)
    assert TP not in manager.logs and str(TP) not in world.names(0)


@pytest.mark.parametrize("what", ["arrived", "cancelled"])
def test_a_log_is_deleted_where_it_is_though_the_disk_failed_since_that_it_came_from_or_was_to_go_to(
    world: Directories, what: str
) -> None:
    """Whoever moves logs off a bad disk could not delete them once that had failed. What is left of a copy is in the way of no log."""
    world.move_to("/b")
    if what == "arrived":
        world.arrive()
    else:
        world.manager.futures.drop(TP, NOW)
    home, other = ("/b", "/a") if what == "arrived" else ("/a", "/b")
    assert world.path == home
    directory = world.manager.directory_at(other)
    assert directory is not None
    directory.root.health.fail(StorageError("it is on fire"))
    assert world.manager.delete(TP, NOW)
    unsynced = world.manager.sync_deletions()
    assert unsynced == {} or what == "cancelled", "which is asked for once more"
    assert not world.manager.may_be_lost(TP)
    assert not world.manager.delete(TP, NOW) and world.manager.sync_deletions() == {}


def test_a_copy_beside_the_log_in_use_goes_as_soon_as_that_is_opened(world: Directories) -> None:
    """In one directory, as after a crash: it would arrive where the log is, which is an error of the disk."""
    world.move_to("/b")
    former, disk = world.disks
    world.disks = (MemoryDisk("/a"), disk)
    disk._top.entries[str(TP)] = former._top.entries[str(TP)]
    disk.inject("open", errno.EMFILE, name=".log", times=1)
    manager = world.start()
    assert manager.is_unopened(TP) and TP in manager.futures.logs
    load = manager.load_late(TP, NOW)
    load.run()
    notes, fault = manager.loaded_late(load)
    assert fault is None and TP not in manager.futures.logs
    assert ["where the log is" in note for note in notes] == [True]
    assert [name.endswith("-delete") for name in world.names(1)] == [False, True]


@pytest.mark.parametrize("topic_id", [OTHER_ID, TOPIC_ID, NO_TOPIC_ID])
def test_a_copy_of_another_topic_goes_as_soon_as_the_log_in_use_is_opened(
    world: Directories, topic_id: TopicId
) -> None:
    """For which there was no descriptor at the start. Filled up from where the copy ends, it took the place of the log."""
    world.move_to("/b")
    disk = MemoryDisk("/a")
    world.disks = (disk, world.disks[1])
    Directories(disk, MemoryDisk("/none")).manager.get_or_create(TP, topic_id, now_ms=NOW)
    disk.inject("open", errno.EMFILE, name=".log", times=1)
    manager = world.start()
    assert manager.is_unopened(TP) and TP in manager.futures.logs
    load = manager.load_late(TP, NOW)
    load.run()
    notes, fault = manager.loaded_late(load)
    assert fault is None
    is_other = topic_id == OTHER_ID
    assert (TP in manager.futures.logs) is not is_other
    assert [name.endswith("-delete") for name in world.names(1)] == [is_other]
    assert ["of another topic" in note for note in notes] == [True] * is_other


def test_of_two_copies_one_goes_on(world: Directories) -> None:
    """The first was cancelled and its new name lost to a power cut."""
    world.move_to("/b")
    (first,) = world.names(1)
    world.manager.futures.lose(TP)
    world.move_to("/b")
    world.start()
    (kept,) = [name for name in world.names(1) if name.endswith("-future")]
    assert world.manager.futures.logs[TP].name == kept == first


# ----------------------------------------------------------------------- crashes, in every state they can leave


class Moment(NamedTuple):
    after: str
    tops: tuple[_Node, _Node]
    written: bytes  # acknowledged by then
    flushed: int  # bytes of it that a power cut must leave


class Pair:
    """Two disks that note what stands on both before each operation on either."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.written = b""
        self.flushed = 0
        self.disks = (_Recorded("/a", self), _Recorded("/b", self))

    def note(self, after: str) -> None:
        tops = (copied(self.disks[0]._top), copied(self.disks[1]._top))
        self.moments.append(Moment(after, tops, self.written, self.flushed))


class _Recorded(RecordingDisk):
    def __init__(self, path: str, pair: Pair) -> None:
        MemoryDisk.__init__(self, path)
        self._pair = pair

    def _step(self, operation: str, name: str) -> bool:
        self._pair.note(f"before {operation} {name}")
        return MemoryDisk._step(self, operation, name)


def a_move(pair: Pair) -> None:
    """Written, flushed and moved, and back again, with records in between all of it."""
    world = Directories(*pair.disks)

    def write(epoch: int) -> None:
        data = batch(1, value=b"%d" % len(pair.written) * 20)
        produce(world.log, data, epoch=epoch)
        pair.written = contents(world.log)

    def flush() -> None:
        world.log.flush()
        pair.flushed = len(pair.written)

    for n in range(6):
        write(n // 2)
    flush()
    world.manager.checkpoint_recovery_points()
    write(3)
    for epoch, path in ((3, "/b"), (4, "/a")):
        world.move_to(path)
        world.copy(5)
        write(epoch)
        world.manager.checkpoint_recovery_points()
        world.copy()
        world.manager.futures.prepare(TP)
        world.future.flush()
        write(epoch)
        world.copy()
        world.manager.futures.swap(TP, world.log.log_end_offset, NOW)
        write(epoch + 1)
        flush()
        world.manager.checkpoint_recovery_points()
        world.manager.purge(LATER)
        write(epoch + 1)
    pair.note("the end")


def crash_states(moments: list[Moment], cuts: int) -> Iterator[tuple[Moment, str, Directories]]:
    """States that look the same are given once."""
    seen: set[bytes] = set()
    for at, moment in enumerate(moments):
        for n in range(cuts + 1):
            choices = random.Random(at * 1009 + n)
            looks = repr((moment.written, moment.flushed, n > 0)).encode()
            disks = []
            for top, path in zip(moment.tops, ("/a", "/b"), strict=True):
                disk = MemoryDisk(path)
                disk._top = without_what_was_lost(top, choices.randrange) if n else copied(top)
                disks.append(disk)
                looks = fingerprint(disk._top, looks)
            if looks not in seen:
                seen.add(looks)
                yield moment, "power cut" if n else "killed", Directories(*disks)


def judge(moment: Moment, kind: str, world: Directories) -> None:
    where = f"{kind} {moment.after}: {world.report.notes}"
    if not moment.written and world.path is None:
        return
    assert world.manager.refused == {} and world.manager.offline_directories == {}, where
    assert world.manager.ambiguous == {}, where
    held = contents(world.log)
    if kind == "killed":
        assert held == moment.written or held[: len(moment.written)] == moment.written, where
    else:
        assert len(held) >= moment.flushed, where
        assert moment.written.startswith(held) or held.startswith(moment.written), where
    assert [entry.epoch for entry in world.log.epochs.entries] == sorted(
        {header.leader_epoch for header in headers(world.log)}
    ), where
    plain = [at for at in (0, 1) if "orders-0" in world.names(at)]
    assert plain == ([0] if world.path == "/a" else [1]), where
    # It goes on: what was on its way arrives, and nothing is lost by that either.
    if TP in world.manager.futures.logs:
        future = world.future
        if future.log_end_offset > world.log.log_end_offset:
            future.truncate_to(world.log.log_end_offset, NOW)
        before = world.path
        world.arrive()
        assert world.path != before and contents(world.log) == held, where
    produce(world.log, batch(), epoch=99)
    held = contents(world.log)
    world.start()
    assert contents(world.log) == held, f"{where}; and after another kill"


@pytest.mark.slow
def test_no_crash_in_the_middle_of_a_move_loses_a_record() -> None:
    pair = Pair()
    a_move(pair)
    count = 0
    kinds: set[str] = set()
    for moment, kind, world in crash_states(pair.moments, 6):
        judge(moment, kind, world)
        count += 1
        kinds.update("stray" for at in (0, 1) for name in world.names(at) if name.endswith("-stray"))
    assert count > 1000 and kinds == {"stray"}, "some crash left both, and one was set aside"


FAULTS = ("append", "replace", "rename", "sync", "truncate", "open", "make", "remove")


@pytest.mark.parametrize("disk", [0, 1])
def test_a_disk_that_fails_in_the_swap_takes_nothing_of_the_other_along(disk: int) -> None:
    """Whichever operation fails: one log goes on with all that was written, and whatever is written to it then is not
    given up for an older copy when the other disk comes back."""
    failed_in = {operation for operation in FAULTS if _failures_in_the_swap(operation, disk)}
    in_the_source = {"open", "remove", "append", "rename", "sync"}
    assert failed_in == (in_the_source if disk == 0 else {"replace", "rename", "sync"})


def _failures_in_the_swap(operation: str, disk: int) -> int:
    for after in range(12):
        world = Directories()
        for n in range(6):
            produce(world.log, batch(1, value=b"%d" % n * 50), epoch=n // 2)
        world.move_to("/b")
        world.copy()
        world.manager.futures.prepare(TP)
        world.future.flush()
        written = contents(world.log)
        world.disks[disk].inject(operation, errno.EIO, after=after)
        try:
            world.manager.futures.swap(TP, 6, NOW)
        except StorageError:
            world.manager.futures.lose(TP)
        failed = world.manager.offline_directories
        world.disks[disk].heal()
        if not failed:
            return after
        assert list(failed) == [("/a", "/b")[disk]]
        assert world.path not in failed, "the other one has it, or still has it"
        produce(world.log, batch(), epoch=7)
        assert len(headers(world.log)) == 7
        written = contents(world.log)
        world.start()
        assert world.manager.refused == {} and world.manager.offline_directories == {}, world.report.notes
        assert contents(world.log) == written, f"{operation} {after}: {world.report.notes}"
    raise AssertionError("the swap has no end")


def test_a_power_cut_after_the_swap_brings_the_former_log_not_back(world: Directories) -> None:
    """With the new directory gone as well, its older copy would be taken for all there is."""
    world.move_to("/b")
    world.arrive()
    produce(world.log, batch(), epoch=20)
    world.disks[0].power_cut(lambda n: 0)
    assert "orders-0" not in world.names(0)


@pytest.mark.parametrize("operation", ["append", "sync"])
def test_a_failing_target_takes_only_what_is_in_it_offline(world: Directories, operation: str) -> None:
    world.move_to("/b")
    told: list[str] = []
    world.manager.on_directory_failure = lambda path, fault: told.append(path)
    world.disks[1].inject(operation, errno.EIO)
    with pytest.raises(StorageError):
        world.arrive()
    assert told == ["/b"] and world.log.failure is None
    produce(world.log, batch(), epoch=20)


@pytest.mark.parametrize("disk", [0, 1], ids=["source", "target"])
@pytest.mark.parametrize("operation", ["open", "replace", "names", "sync"])
def test_no_descriptor_in_the_swap_leaves_one_log_that_goes_on(operation: str, disk: int) -> None:
    """Nothing is wrong with the disks; above all the name that the copy was given must not count after the next start."""
    for after in range(20):
        world = Directories()
        for n in range(10):
            produce(world.log, batch(1, value=b"%d" % n * 100), epoch=n // 4)
        world.move_to("/b")
        world.copy()
        world.manager.futures.prepare(TP)
        world.future.flush()
        world.disks[disk].inject(operation, errno.EMFILE, name="", after=after, times=1)
        try:
            world.manager.futures.swap(TP, world.log.log_end_offset, NOW)
        except StorageError:
            assert world.path == "/a" and not world.manager.offline_directories
        failed = world.disks[disk].failures
        world.disks[disk].heal()
        produce(world.log, batch(1, value=b"after"), epoch=3)
        expected = contents(world.log)
        world.start()
        assert contents(world.log) == expected
        if not failed:
            assert world.path == "/b"
            return
    raise AssertionError("it never got through")


@pytest.mark.parametrize("operation", ["replace", "sync"])
def test_a_copy_whose_swap_had_no_descriptor_follows_producers_of_its_own(operation: str) -> None:
    """A batch and its copy would count twice for those of both, and the end of a transaction once."""
    for after in range(20):
        world = Directories()
        produce(world.log, idempotent(0, is_transactional=True))
        world.move_to("/b")
        world.copy()
        world.manager.futures.prepare(TP)
        world.future.flush()
        world.disks[1].inject(operation, errno.EMFILE, name="", after=after, times=1)
        try:
            world.manager.futures.swap(TP, world.log.log_end_offset, NOW)
        except StorageError:
            assert world.path == "/a"
        else:
            return
        world.disks[1].heal()
        produce(world.log, marker(commit=False), from_coordinator=True)
        (aborted,) = world.log.aborted_transactions(0, 1 << 40)
        world.arrive()
        assert world.path == "/b" and world.log.aborted_transactions(0, 1 << 40) == [aborted], after
        assert world.log.last_stable_offset(world.log.log_end_offset) == world.log.log_end_offset
    raise AssertionError("it never got through")


@pytest.mark.parametrize(
    ("owner", "step", "call"),
    [
        (PartitionLog, "take_snapshot", 1),
        (MemoryDirectory, "rename", 1),
        (MemoryDirectory, "sync", 2),
        (MemoryDirectory, "sync", 3),
        (PartitionLog, "renamed", 1),
        (LogManager, "adopt", 1),
        (FlushState, "when_something_comes", 1),
        (MemoryDirectory, "is_directory", 1),
        (LogManager, "retire", 1),
        (MemoryDirectory, "rename", 2),
    ],
)
def test_a_want_of_memory_in_the_swap_leaves_one_log_that_goes_on(
    owner: type, step: str, call: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the rename it left a copy with the name and the larger number: at the next start that took the place of the log in
    use, which had been appended to since."""
    world = Directories()
    produce(world.log, idempotent(0, is_transactional=True))
    world.move_to("/b")
    world.copy()
    world.manager.futures.prepare(TP)
    world.future.flush()
    calls, has_moved = 0, False
    really = getattr(owner, step)

    def no_memory(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise MemoryError
        return really(*args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, no_memory)
        with suppress(MemoryError):
            world.manager.futures.swap(TP, world.log.log_end_offset, NOW)
            has_moved = True  # and whoever has the partition goes on with this log
    assert calls >= call and has_moved == (world.manager.futures.get(TP) is None)
    assert world.path == ("/b" if has_moved else "/a") and not world.manager.offline_directories
    produce(world.log, marker(commit=False), from_coordinator=True)
    expected = contents(world.log)
    if not has_moved:
        world.arrive()
        assert world.path == "/b" and contents(world.log) == expected
    assert len(world.log.aborted_transactions(0, 1 << 40)) == 1
    produce(world.log, batch(1, value=b"after"), epoch=3)
    expected = contents(world.log)

    world.start()

    assert world.path == "/b" and contents(world.log) == expected, world.report.notes


def test_a_log_whose_former_one_could_not_be_taken_away_can_move_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a disk a directory that holds files is not renamed over: its log directory went offline."""
    world = Directories()
    produce(world.log, batch(1))

    def no_memory(*_: Any, **__: Any) -> None:
        raise MemoryError

    world.move_to("/b")
    with monkeypatch.context() as patch:
        patch.setattr(LogManager, "retire", no_memory)
        world.arrive()
    assert world.path == "/b" and world.names(0) == [str(TP)]

    future = world.move_to("/a")

    (stray, copy) = sorted(world.names(0), key=lambda name: not name.endswith("-stray"))
    assert stray.endswith("-stray") and copy == future.name
    produce(world.log, batch(1, value=b"after"))
    expected = contents(world.log)
    world.arrive()
    world.start()
    assert world.path == "/a" and contents(world.log) == expected


def test_a_copy_that_arrives_at_the_second_attempt_counts_as_the_one_that_moved_last(
    world: Directories,
) -> None:
    """The first one, which had no descriptor, gave the log in use a number beyond that of the copy."""
    world.move_to("/b")
    world.copy()
    world.manager.futures.prepare(TP)
    world.future.flush()
    world.disks[1].inject(
        "sync", errno.EMFILE, after=2, times=1
    )  # of the new name, behind those of a checkpoint
    with pytest.raises(StorageError):
        world.manager.futures.swap(TP, 10, NOW)
    assert world.path == "/a" and not world.manager.offline_directories
    world.disks[1].heal()
    world.disks[0].inject("rename", errno.EIO)  # and so the former log keeps its name
    world.arrive()
    assert world.path == "/b"
    produce(world.log, batch(), epoch=20)
    expected = contents(world.log)

    world.disks[0].heal()
    world.start()

    assert world.path == "/b" and contents(world.log) == expected, world.report.notes
