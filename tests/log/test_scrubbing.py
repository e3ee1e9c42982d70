"""Batches that are not as they were written, found before somebody needs them."""

import random
from collections.abc import Iterator

import pytest

from odradek.log import scrubbing
from odradek.log.errors import CorruptLog, MissingFile, StorageError
from odradek.log.memory_files import MemoryDisk
from odradek.log.new_log import create_log
from odradek.log.partition_log import PartitionLog
from odradek.log.scrubbing import BATCHES_A_SEGMENT, MOST_BATCHES, Scrubber
from odradek.log.segment import Segment
from odradek.model.ids import TopicPartition
from odradek.records.batch import MAGIC_OFFSET, iter_batches
from tests.executed_lines import lines_of
from tests.log.logs import NOW, TOPIC_ID, TP, batch, config, produce

SMALL = batch(value=b"v" * 20)
EVERYTHING = 1 << 40


def log_of(count: int, *, records: int = 1, **overrides: object) -> tuple[MemoryDisk, PartitionLog]:
    disk = MemoryDisk()
    settings = config(**{"segment_bytes": 3 * len(SMALL), "index_interval_bytes": len(SMALL), **overrides})
    log = create_log(disk.root, TP, TOPIC_ID, settings, now_ms=NOW)
    for _ in range(count):
        produce(log, batch(records, value=b"v" * 20))
    return disk, log


def found_by(scrubber: Scrubber, log: PartitionLog) -> list[StorageError]:
    found: list[StorageError] = []
    log.on_broken = lambda _, error: found.append(error)
    scrubber.scrub(EVERYTHING)
    scrubber.judge()
    return found


def flip(disk: MemoryDisk, path: str, bit: int) -> None:
    disk.flip_bit(f"{TP}/{path}", bit)


def test_every_bit_of_a_batch_between_others_is_looked_at() -> None:
    """Offset and epoch, which no checksum covers, by their order."""
    disk, log = log_of(3)
    (_, _), (start, header), (_, _) = iter_batches(bytes(disk.contents(f"{TP}/{0:020d}.log")))
    for bit in range(start * 8, (start + header.size_bytes) * 8):
        flip(disk, f"{0:020d}.log", bit)
        (error,) = found_by(Scrubber(lambda: [log]), log)
        assert isinstance(error, CorruptLog) and f"{0:020d}.log at " in error.message, bit
        assert log.failure is error
        log.failure = None
        flip(disk, f"{0:020d}.log", bit)
    assert found_by(Scrubber(lambda: [log]), log) == []


@pytest.mark.parametrize("base_offset", [0, 3, 6, 9])
def test_every_segment_is_looked_at_the_active_one_too(base_offset: int) -> None:
    disk, log = log_of(11)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9]
    flip(disk, f"{base_offset:020d}.log", 8 * len(SMALL) - 1)
    (error,) = found_by(Scrubber(lambda: [log]), log)
    assert "the CRC of the batch" in error.message


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_segment_that_lost_its_last_batches_is_noticed_where_nothing_compacts(is_compacted: bool) -> None:
    """Whoever reads on from before them is told nothing of it, and goes on behind them."""
    disk, log = log_of(8, cleanup_policy="compact" if is_compacted else "delete")
    log.segments[1].close_handles()
    contents = disk.contents(f"{TP}/{3:020d}.log")
    del contents[-len(SMALL) :]

    errors = found_by(Scrubber(lambda: [log]), log)

    told = [f"/disk/{TP}/{3:020d}.log at {2 * len(SMALL)}: ends before offset 5; it must hold all up to 6"]
    assert [error.message for error in errors] == ([] if is_compacted else told)


def test_a_segment_that_is_gone_is_noticed() -> None:
    disk, log = log_of(8)
    log.segments[1].close_handles()
    disk.root.child(str(TP)).remove(f"{3:020d}.log")
    (error,) = found_by(Scrubber(lambda: [log]), log)
    assert isinstance(error, MissingFile)


def test_thousands_of_idle_logs_are_not_all_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    logs = [
        create_log(disk.root, TopicPartition("idle", index), TOPIC_ID, config(), now_ms=NOW)
        for index in range(250)
    ]
    looked_at: list[object] = []
    file_apart = Segment.file_apart

    def counted(self: Segment) -> object:
        looked_at.append(self)
        return file_apart(self)

    monkeypatch.setattr(Segment, "file_apart", counted)
    scrubber = Scrubber(lambda: logs)
    counts = []
    while not scrubber.rounds:
        scrubber.scrub(EVERYTHING)
        scrubber.judge()
        counts.append(len(looked_at))
    most = MOST_BATCHES // BATCHES_A_SEGMENT
    assert counts == [most, 2 * most, 250]
    assert set(looked_at) == {segment for log in logs for segment in log.segments}


def test_a_look_at_the_end_of_a_log_of_many_segments_costs_no_more_than_one_at_its_begin() -> None:
    """At 15,000 segments 14 ms of a look went into finding the place again, and up to 31."""
    _, log = log_of(300, segment_bytes=len(SMALL))
    scrubber = Scrubber(lambda: [log])
    costs = [lines_of(lambda: scrubber.scrub(1)) for _ in range(300)]
    assert len(log.segments) == 300 and max(costs[250:]) < max(costs[2:50]) * 1.2


def test_a_look_does_as_much_as_it_may_and_the_next_one_goes_on() -> None:
    _, log = log_of(9)
    scrubber = Scrubber(lambda: [log])
    positions = []
    for _ in range(9):
        scrubber.scrub(1)
        scrubber.judge()
        positions.append((scrubber._base_offset, scrubber._position // len(SMALL)))
    assert positions == [(base, n) for base in (0, 3, 6) for n in (1, 2, 3)]
    assert scrubber.rounds == 0
    scrubber.scrub(EVERYTHING)
    scrubber.judge()
    assert scrubber.rounds == 1
    scrubber.scrub(EVERYTHING)
    scrubber.judge()
    assert scrubber.rounds == 2, "a whole round in one look"


def test_small_batches_count_as_more_than_their_bytes() -> None:
    _, log = log_of(MOST_BATCHES + 5, segment_bytes=1 << 20)
    scrubber = Scrubber(lambda: [log])
    scrubber.scrub(EVERYTHING)
    scrubber.judge()
    assert scrubber._expected == MOST_BATCHES


def test_a_cold_segment_stays_cold_also_half_way_through() -> None:
    """A descriptor left behind by a thread would stay for good, or serve whoever writes with an end that is old."""
    _, log = log_of(7)
    for segment in log.segments[:-1]:
        segment.close_handles()
    scrubber = Scrubber(lambda: [log])
    for _ in range(7):
        scrubber.scrub(len(SMALL))  # a batch at a time
        scrubber.judge()
        assert [segment.is_cold for segment in log.segments] == [True, True, False]
    scrubber.scrub(EVERYTHING)
    scrubber.judge()
    assert scrubber.rounds == 1 and [segment.is_cold for segment in log.segments] == [True, True, False]


@pytest.mark.parametrize("seed", range(20))
def test_a_log_that_lives_meanwhile_is_never_called_damaged(seed: int) -> None:
    chance = random.Random(seed)
    _, log = log_of(3)
    scrubber = Scrubber(lambda: [log])
    for _ in range(200):
        act = chance.randrange(6)
        if act < 3:
            produce(log, batch(chance.randint(1, 3), value=b"v" * 20), epoch=max(log.latest_epoch, 0))
        elif act == 3 and log.log_end_offset > log.log_start_offset:
            log.truncate_to(chance.randrange(log.log_start_offset, log.log_end_offset), NOW)
            log.assign_epoch(log.latest_epoch + 1, log.log_end_offset)
        elif act == 4:
            log.delete_records_before(chance.randint(log.log_start_offset, log.log_end_offset))
        else:
            log.roll(NOW)
        scrubber.scrub(chance.choice((1, 100, 1000)))
        scrubber.judge()
        assert log.failure is None
    assert scrubber.rounds > 1


@pytest.mark.parametrize("change", ["cut", "let go"])
def test_what_was_cut_or_let_go_while_it_was_read_says_nothing(
    monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """It runs in a thread: what it reads may be half of what was there and half of what came instead."""
    _, log = log_of(8)

    def changed_meanwhile(*args: object) -> Iterator[tuple[int, str, memoryview]]:
        if change == "cut":
            log.truncate_to(1, NOW)
            for _ in range(20):
                produce(log, SMALL)
        else:
            log.delete_records_before(8)
        yield 0, "no batch", memoryview(b"")

    monkeypatch.setattr(scrubbing, "scan_batches", changed_meanwhile)
    found: list[StorageError] = []
    log.on_broken = lambda _, error: found.append(error)
    scrubber = Scrubber(lambda: [log])
    scrubber._log = log
    scrubber._check(log, log.segments[0], (1, 1))
    scrubber.judge()
    assert found == []
    monkeypatch.undo()
    assert found_by(Scrubber(lambda: [log]), log) == []


def test_a_batch_somebody_does_not_take_is_looked_at_by_itself() -> None:
    disk, log = log_of(9, records=3)
    found: list[StorageError] = []
    log.on_broken = lambda _, error: found.append(error)
    for offset in range(27):
        log.check_batch(offset)
    flip(disk, f"{3:020d}.log", 8 * 70)
    log.check_batch(2)
    for _ in range(2):
        with pytest.raises(CorruptLog):
            log.check_batch(4)
    assert len(found) == 1, "told once"


def test_a_batch_whose_magic_became_that_of_an_old_message_is_damaged() -> None:
    """One bit makes 0 of 2; no segment here ever held a message of that format."""
    disk, log = log_of(1)
    flip(disk, f"{0:020d}.log", 8 * MAGIC_OFFSET + 1)
    with pytest.raises(CorruptLog, match="message format 0"):
        log.check_batch(0)
    assert isinstance(log.failure, CorruptLog)


def test_looking_at_single_batches_keeps_the_descriptors_of_one_old_segment() -> None:
    _, log = log_of(9)
    log.flush()
    for offset in range(9):
        log.check_batch(offset)
    assert [segment.is_cold for segment in log.segments] == [True, False, False]


def test_what_cannot_be_read_on_the_way_is_told_too() -> None:
    disk, log = log_of(9)
    found: list[StorageError] = []
    log.on_broken = lambda _, error: found.append(error)
    flip(disk, f"{0:020d}.log", 8 * 16)  # the magic of the first
    log.segments[0].positions.clear()
    with pytest.raises(CorruptLog):
        log.read(1, max_bytes=100, upper_bound_offset=9)
    assert len(found) == 1 and log.failure is found[0]


def test_a_segment_whose_name_is_gone_is_noticed_though_its_descriptor_is_held() -> None:
    disk, log = log_of(3)
    disk.root.child(str(TP)).remove(log.segments.active.name())
    told: list[StorageError] = []
    log.on_broken = lambda _, error: told.append(error)
    scrubber = Scrubber(lambda: [log])
    scrubber.scrub(EVERYTHING)
    scrubber.judge()
    (error,) = told
    assert (
        "missing: it was removed or renamed from outside this process" in error.message
        and log.failure is error
    )


def test_batches_below_the_start_of_a_log_are_well_though_their_epoch_is_forgotten() -> None:
    """All was deleted on request, and the epoch that went on at the end was cut off: it had brought no record."""
    disk, log = log_of(2)
    log.delete_records_before(2)
    log.truncate_to(2, NOW)
    assert log.latest_epoch == -1 and log.segments.active.size_bytes
    assert found_by(Scrubber(lambda: [log]), log) == []
    flip(disk, f"{0:020d}.log", 8 * 70)
    (error,) = found_by(Scrubber(lambda: [log]), log)
    assert "the CRC of the batch at offset 0 does not fit" in error.message
