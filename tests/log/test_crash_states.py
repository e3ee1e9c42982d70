"""A log on a disk that loses what was not synced, in every combination a file system allows, crash after crash.

Torn appends, rolls, truncations and checkpoints in all their states, and random mixtures of everything else. After each crash:
what is left is a prefix of some history the log had, nothing flushed is missing, nothing is refused, and a second
recovery changes nothing. A killed process loses nothing at all.
"""

import contextlib
import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import pytest

from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.log_manager import LogManager
from odradek.log.memory_files import Crashed, MemoryDisk
from odradek.log.partition_log import PartitionLog
from odradek.model.settings import BrokerSettings, TopicSettings
from odradek.records.batch import read_header
from tests.log.logs import (
    NOW,
    TOPIC_ID,
    TP,
    assert_index_answers_as_a_scan,
    batch,
    headers,
    idempotent,
    marker,
    produce,
    state,
)
from tests.support import each

SIZE = len(batch())


class Batch(NamedTuple):
    base_offset: int
    next_offset: int
    epoch: int
    crc: int


class Sound(NamedTuple):
    """A log that is whole in itself."""

    held: list[Batch]
    start: int
    end: int


@cache
def settings_of(segment_bytes: int) -> tuple[BrokerSettings, TopicSettings]:
    overrides = {"segment.bytes": str(segment_bytes), "index.interval.bytes": str(SIZE)}
    return (settings := BrokerSettings({})), TopicSettings(settings, overrides)


class World:
    """One log through its lives, and what must be true of it."""

    def __init__(self, seed: int, segment_bytes: int = SIZE * 6, disk: MemoryDisk | None = None) -> None:
        """On a disk that is given nothing is started."""
        self.random = random.Random(seed)
        self.disk = MemoryDisk() if disk is None else disk
        self.settings, self.topic = settings_of(segment_bytes)
        self.histories: list[list[Batch]] = [[]]
        self.flushed: list[Batch] = []
        self.deleted = 0  # the highest offset ever asked to delete up to
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        self.lives = 0
        if disk is None:
            self.start()

    def start(self) -> LogManager:
        self.lives += 1
        self.manager = LogManager([self.disk.root], self.settings, topic_settings=lambda topic: self.topic)
        self.report = self.manager.load(NOW)
        return self.manager

    @property
    def log(self) -> PartitionLog:
        return self.manager.get_or_create(TP, TOPIC_ID, now_ms=NOW)

    def held(self) -> list[Batch]:
        return [Batch(h.base_offset, h.next_offset, h.leader_epoch, h.crc) for h in headers(self.log)]

    # ------------------------------------------------------------------------------------------ what is done

    def append(self) -> None:
        producer_id = self.random.randrange(4)
        count = self.random.randint(1, 3)
        at = NOW + self.random.randrange(1000)
        if producer_id:
            known = self.log.producers.get(producer_id)
            sequence = known.last_sequence + 1 if known else 0
            data = idempotent(sequence, count, producer_id=producer_id, at=at)
        else:
            data = batch(count, at=at)
        self.write(data, count)

    def write(self, data: bytes, count: int, **options: bool) -> None:
        end = self.log.log_end_offset
        self.histories.append(
            [*self.histories[-1], Batch(end, end + count, self.epoch, read_header(data).crc)]
        )
        produce(self.log, data, epoch=self.epoch, **options)

    def transaction(self) -> None:
        """Producer 9 writes in a transaction and ends it."""
        known = self.log.producers.get(9)
        if known is None or known.transaction_first_offset < 0:
            sequence = known.last_sequence + 1 if known else 0
            self.write(idempotent(sequence, 2, producer_id=9, is_transactional=True), 2)
        else:
            self.write(marker(commit=self.random.random() < 0.5, producer_id=9), 1, from_coordinator=True)

    def flush(self) -> None:
        before = self.histories[-1]
        self.log.flush()
        self.flushed = list(before)

    def checkpoint(self) -> None:
        self.manager.checkpoint_recovery_points()
        self.manager.checkpoint_log_start_offsets()

    def truncate(self) -> None:
        log = self.log
        offset = self.random.randint(max(log.log_start_offset, log.log_end_offset - 12), log.log_end_offset)
        kept = [b for b in self.histories[-1] if b.next_offset <= offset]
        self.flushed = [b for b in self.flushed if b.next_offset <= offset]
        self.histories.append(kept)
        log.truncate_to(offset, NOW)
        self.epoch += 1

    def delete_records(self) -> None:
        log = self.log
        offset = self.random.randint(log.log_start_offset, log.log_end_offset)
        self.deleted = max(self.deleted, offset)  # what is below may be gone, or still there
        log.delete_records_before(offset)
        self.manager.checkpoint_log_start_offsets()

    def histories_that_begin_with(
        self, held: list[Batch], start: int, histories: list[list[Batch]]
    ) -> list[list[Batch]]:
        def is_prefix(history: list[Batch]) -> bool:
            return held == visible(history[: cut(history, held, start)], start)

        def may_lie_before(history: list[Batch]) -> Iterator[list[Batch]]:
            """What was deleted, or left behind as the log began anew there, and may be on the disk yet: once the power goes while
            the log's start moves down it is there to be read again."""
            if not history or not held or held[0].base_offset >= history[0].base_offset:
                return
            begin = history[0].base_offset
            for older in self.histories:
                below = [b for b in older if b.next_offset <= begin]
                if below and below[-1].next_offset == begin:
                    yield below

        return [
            h
            for h in histories
            if is_prefix(h) or any(is_prefix([*below, *h]) for below in may_lie_before(h))
        ]

    def epochs_of_batches_begin(self, log: PartitionLog) -> bool:
        """Whether every epoch begins where its first batch does."""
        return True

    def begin_anew(self, offset: int | None = None) -> None:
        """The leader's log begins somewhere else by now."""
        if offset is None:
            offset = self.random.randrange(self.log.log_end_offset + 10)
        self.histories.append([])
        self.flushed = []
        self.deleted = min(self.deleted, offset)
        self.log.truncate_fully_and_start_at(offset, NOW)
        self.epoch += 1

    def roll(self) -> None:
        self.log.roll(NOW)

    def purge(self) -> None:
        self.manager.purge(NOW)

    def stop_and_start(self) -> None:
        self.manager.close({TP: self.log.log_end_offset})
        self.flushed = list(self.histories[-1])
        self.disk.restart()
        self.start()

    # ----------------------------------------------------------------------------------------- what must hold

    def die(self, *, power_cut: bool) -> None:
        self.disk.power_cut(self.random.randrange) if power_cut else self.disk.restart()
        self.start()
        self.check(all_of_it=not power_cut)

    def check(self, *, all_of_it: bool) -> None:
        self.assert_accepted()
        self.compare(self.sound_log(), all_of_it=all_of_it)

    def assert_accepted(self) -> None:
        assert self.manager.refused == {} and self.manager.offline_directories == {}, self.report.notes

    def compare(self, found: Sound, *, all_of_it: bool) -> None:
        """With what was written."""
        held, start, end = found
        histories = self.histories[-2:] if all_of_it else self.histories
        matching = self.histories_that_begin_with(held, start, histories)
        assert matching, f"no history of the log begins with {held}"
        if all_of_it:
            # Killed in the middle of a cut, it is somewhere between the two lengths.
            least = min(len(visible(h, max(start, self.deleted))) for h in histories)
            assert len(held) >= least, "a killed process loses nothing"
        missing = set(visible(self.flushed, max(start, self.deleted))) - set(held)
        assert not missing, f"flushed and gone: {sorted(missing)}"
        self.deleted = min(self.deleted, end)
        current = matching[-1][: cut(matching[-1], held, start)]
        # What was never synced may still fall back to any older history at a later power cut.
        self.histories.append(current)
        self.flushed = [b for b in self.flushed if b in current]
        self.epoch += 1

    def sound_log(self) -> Sound:
        """What must be true of a log whatever was written: of its checksums, epochs and indexes, and of a second recovery."""
        log = self.log
        found = Sound(self.held(), log.log_start_offset, log.log_end_offset)
        # Also the batches before the log's start, where there are any: the epoch it begins in is one of theirs.
        of_batches = LeaderEpochs()
        for segment in log.segments:
            for _, header in segment.headers():
                if header.leader_epoch > of_batches.latest:
                    of_batches.assign(header.leader_epoch, max(header.base_offset, found.start))
        if self.epochs_of_batches_begin(log):
            assert log.epochs.entries == of_batches.entries
        assert_index_answers_as_a_scan(log)
        before = state(log)
        self.disk.restart()
        self.start()
        assert state(self.log) == before, "a second recovery changes nothing"
        return found


def cut(history: list[Batch], held: list[Batch], start: int) -> int:
    """How many batches of the history are there, if it is a prefix of it. Deleted ones may be on the disk yet."""
    if not held:
        return sum(b.next_offset <= start for b in history)
    return next((n + 1 for n, b in enumerate(history) if b == held[-1]), 0)


def visible(batches: list[Batch], start: int) -> list[Batch]:
    return [b for b in batches if b.next_offset > start]


OPERATIONS: list[tuple[Callable[[World], None], int]] = [
    (World.append, 12),
    (World.transaction, 3),
    (World.flush, 2),
    (World.checkpoint, 2),
    (World.truncate, 2),
    (World.roll, 1),
    (World.purge, 1),
    (World.delete_records, 1),
    (World.begin_anew, 1),
    (World.stop_and_start, 1),
]


def random_life(world: World, operations: int) -> None:
    chosen = world.random.choices([o for o, _ in OPERATIONS], [w for _, w in OPERATIONS], k=operations)
    for operation in chosen:
        operation(world)


@each(range(150))
def test_random_lives_that_end_in_the_middle_of_anything(seed: int) -> None:
    world = World(seed)
    for _ in range(6):
        world.disk.crash_at(world.random.randrange(1, 120), world.random.randrange)
        with contextlib.suppress(Crashed):
            random_life(world, 40)
        world.die(power_cut=world.random.random() < 0.7)
    assert world.lives > 12


def scripted_rolls(world: World) -> None:
    """Case 8: batches over three segments, flushed now and then."""
    for n in range(16):
        world.append()
        if n in (5, 11):
            world.flush()
            world.checkpoint()


def scripted_cut(world: World) -> None:
    """Cases 13 and 27: a log with a flushed part is cut below it, and goes on with another epoch."""
    for _ in range(14):
        world.append()
    world.flush()
    world.checkpoint()
    world.append()
    world.truncate()
    for _ in range(4):
        world.append()
    world.flush()


def scripted_stop(world: World) -> None:
    """Cases 7 and 14: a stop in order, killed on the way or just after."""
    for _ in range(8):
        world.append()
    world.stop_and_start()
    world.append()


@pytest.mark.parametrize("power_cut", [False, True])
@pytest.mark.parametrize("script", [scripted_rolls, scripted_cut, scripted_stop])
def test_8_a_crash_at_every_step(script: Callable[[World], None], power_cut: bool) -> None:
    steps = 0
    while True:
        for choice in range(4 if power_cut else 2):
            world = World(choice)
            world.disk.crash_at(steps, random.Random(steps * 31 + choice).randrange)
            try:
                script(world)
                died = False
            except Crashed:
                died = True
            world.random = random.Random(steps * 17 + choice)
            world.die(power_cut=power_cut)
            world.append()
            world.die(power_cut=False)
        if not died:
            break
        steps += 1
    assert steps > 40


@each(range(20))
def test_15_recovery_is_killed_again_and_again(seed: int) -> None:
    world = World(seed)
    random_life(world, 60)
    expected = None
    for attempt in range(40):
        if attempt == 0:
            world.disk.power_cut(world.random.randrange)
        else:
            world.disk.restart()
        world.disk.crash_at(attempt // 2)
        try:
            world.start()
        except Crashed:
            continue
        world.disk.crash_at(1 << 60)
        expected = state(world.log)
        break
    world.disk.restart()
    world.start()
    if expected is not None:
        assert state(world.log) == expected
    world.check(all_of_it=False)
