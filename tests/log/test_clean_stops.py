"""What a stop in order writes, and what it leaves as the stop before has written it."""

from collections.abc import Callable

import pytest

from odradek.log.checkpoints import (
    DIRECTORY_MOVES,
    OFFSET_GAPS,
    RECOVERY_POINT,
    TRANSACTION_INDEX_SIZES,
    moves_to_bytes,
)
from odradek.log.log_manager import LogManager
from odradek.log.memory_files import MemoryDisk
from odradek.log.partition_log import PartitionLog
from odradek.model.ids import TopicPartition
from odradek.model.settings import BrokerSettings
from tests.log.logs import NOW, TOPIC_ID, idempotent, marker, produce

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
DAY = 24 * 3_600_000


class Lives:
    """Two logs of three batches of one producer, through lives that are each stopped in order."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.manager = self.begin()
        for key in (A, B):
            log = self.manager.get_or_create(key, TOPIC_ID, now_ms=NOW)
            for sequence in range(3):
                produce(log, idempotent(sequence))
        self.stop()

    def begin(self) -> LogManager:
        self.disk.restart()
        self.manager = LogManager([self.disk.root], BrokerSettings({}))
        report = self.manager.load(NOW)
        assert report.notes == []
        return self.manager

    def stop(self) -> set[str]:
        """The files of A that were written or synced."""
        self.disk.trace.clear()
        self.manager.close({})
        return {line.rpartition("/a-0")[2].strip("/") for line in self.disk.trace if "/a-0" in line}

    def known(self, log: PartitionLog) -> tuple[object, ...]:
        assert log.segments.active.offset_index is not None and log.segments.active.time_index is not None
        return (
            log.log_end_offset,
            [(p.producer_id, p.last_sequence) for p in log.producers.all()],
            log.segments.active.offset_index.to_bytes(),
            log.segments.active.time_index.to_bytes(),
        )


@pytest.fixture
def lives() -> Lives:
    return Lives()


def test_behind_a_stop_in_order_all_counts_as_flushed_whatever_became_of_the_checkpoint(lives: Lives) -> None:
    lives.disk.root.remove(RECOVERY_POINT)
    assert [log.recovery_point for log in lives.begin().logs.values()] == [3, 3]


def test_a_log_that_nobody_writes_to_costs_the_next_stop_nothing(lives: Lives) -> None:
    """However many of them there are: five files and directories were synced for each."""
    manager = lives.begin()
    known = lives.known(manager.logs[A])
    produce(manager.logs[B], idempotent(3))
    assert lives.stop() == set()
    lives.disk.power_cut(lambda count: 0)
    manager = lives.begin()
    assert lives.known(manager.logs[A]) == known
    assert manager.logs[B].log_end_offset == 4
    assert lives.stop() == set(), "of any further life as well"


def without_its_index(lives: Lives) -> None:
    lives.disk.root.child("a-0").remove("00000000000000000000.index")


def without_its_snapshot(lives: Lives) -> None:
    lives.disk.root.child("a-0").remove("00000000000000000003.snapshot")


@pytest.mark.parametrize("lost", [without_its_index, without_its_snapshot])
def test_what_is_missing_of_it_is_written(lives: Lives, lost: Callable[[Lives], None]) -> None:
    lives.disk.restart()
    lost(lives)
    log = lives.begin().logs[A]
    assert lives.stop()
    known = lives.known(log)
    lives.disk.power_cut(lambda count: 0)
    assert lives.known(lives.begin().logs[A]) == known
    assert lives.stop() == set()


def cut_and_written_again(log: PartitionLog) -> None:
    log.truncate_to(2, NOW)
    produce(log, idempotent(0, producer_id=8))


def appended(log: PartitionLog) -> None:
    produce(log, idempotent(3))


def without_the_producer(log: PartitionLog) -> None:
    log.producers.expire(NOW + 2 * DAY, DAY)


@pytest.mark.parametrize("change", [cut_and_written_again, appended, without_the_producer])
def test_what_has_changed_is_on_the_disk_behind_the_stop(
    lives: Lives, change: Callable[[PartitionLog], None]
) -> None:
    log = lives.begin().logs[A]
    change(log)
    assert lives.stop()
    known = lives.known(log)
    lives.disk.power_cut(lambda count: 0)
    assert lives.known(lives.begin().logs[A]) == known


def test_a_log_of_a_life_that_was_killed_is_written_whole(lives: Lives) -> None:
    """What that life wrote itself may be in no more than the page cache."""
    lives.begin()
    lives.begin()
    assert {"00000000000000000000.index", "00000000000000000003.snapshot"} <= lives.stop()


def test_what_a_killed_process_had_not_synced_the_next_stop_in_order_makes_durable(lives: Lives) -> None:
    """The next life finds it in the page cache (simulator, seed 48): whatever it need not write again, it has to sync."""
    log = lives.begin().logs[A]
    produce(log, idempotent(3, is_transactional=True))
    produce(log, marker(commit=False), from_coordinator=True)
    log.roll(NOW)
    log.directory.replace(DIRECTORY_MOVES, moves_to_bytes(2), durable=False)
    log.directory.replace(OFFSET_GAPS, b"", durable=False)
    assert {TRANSACTION_INDEX_SIZES, DIRECTORY_MOVES, OFFSET_GAPS} <= set(log.directory.names())
    lives.begin()  # killed
    assert set(lives.disk.volatile("a-0")) >= {f"a-0/{TRANSACTION_INDEX_SIZES}", f"a-0/{DIRECTORY_MOVES}"}
    lives.stop()
    assert lives.disk.volatile("a-0") == []
