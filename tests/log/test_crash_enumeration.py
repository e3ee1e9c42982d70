"""All crash states of scripted runs, recovered one by one and judged.

The scripts are played on a disk that remembers every moment; `sim.crash_states` makes of each moment what a kill, a
torn write or a power cut can leave. Every one is opened by the production code and judged by `World.check`: nothing
refused, a prefix of a history the log had, nothing flushed is missing, the index answers as a scan, a second recovery
changes nothing. Seeds draw where there are too many; more with ODRADEK_CRASH_CUTS (power cuts a moment).
"""

import os
from collections.abc import Callable, Iterator
from itertools import islice
from operator import attrgetter
from typing import ClassVar, NamedTuple
from unittest.mock import patch

import pytest

from odradek.log import truncation
from odradek.log.indexes import OffsetIndex, TimeIndex, TransactionIndex
from odradek.log.memory_files import MemoryDirectory, MemoryDisk, MemoryFile
from odradek.log.partition_log import PartitionLog
from odradek.log.segment import Segment
from odradek.model.settings import TopicSettings
from odradek.sim.crash_states import (
    CrashState,
    Moment,
    RecordingDisk,
    all_choices,
    copied,
    crash_states,
    disk_with,
    fingerprint,
)
from tests.log.logs import NOW, TP, batch
from tests.log.test_crash_states import SIZE, Batch, Sound, World

CUTS = int(os.environ.get("ODRADEK_CRASH_CUTS", "80"))
FEW_CUTS = CUTS // 4  # where one rule is looked at, and what breaks it shows at each of its moments
RECOVERIES = 400  # crash states of recoveries, a script
ENOUGH = 20_000
JUDGED: dict[tuple[str, str], int] = {}  # (which test, script) -> how many states it judged


class Note(NamedTuple):
    """What had been done by then."""

    histories: tuple[tuple[Batch, ...], ...]
    flushed: tuple[Batch, ...]
    deleted: int
    epoch: int


class RecordedWorld(World):
    """A `World` that can be stopped at each of its moments and played on from there."""

    def __init__(self, seed: int, segment_bytes: int = SIZE * 4) -> None:
        self.recording = RecordingDisk()
        super().__init__(seed, segment_bytes, self.recording)
        self.recording.take_note = self.note
        self.start()

    def note(self) -> Note:
        return Note(tuple(map(tuple, self.histories)), tuple(self.flushed), self.deleted, self.epoch)

    def moments(self) -> list[Moment]:
        self.recording.note()
        return self.recording.moments

    def begin_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch, self.log.log_end_offset)

    def small(self) -> None:
        self.write(batch(1), 1)

    def large(self) -> None:
        """Two pages and a bit: its pages may reach the disk without each other."""
        self.write(batch(1, value=b"x" * 9000), 1)

    def high_watermarks(self) -> None:
        self.manager.checkpoint_high_watermarks({TP: self.log.log_end_offset})

    def delete_topic(self) -> None:
        self.histories.append([])
        self.flushed = []
        self.manager.delete(TP, NOW)

    def purge_later(self) -> None:
        self.manager.purge(NOW + 10 * 60_000)


class Resumed(World):
    """What comes up after a crash state, and what must be true of it.

    Most states are recovered to a log that another one was recovered to: of thousands, to one of a hundred. What is true of a
    log whatever was written is judged once of each (`likeness`), and each is compared once with what had been written by then.
    A disk that was left at several moments, or by several scripts, is recovered once: whoever recovers it knows nothing else.
    Nothing is done in such a world once it was judged.
    """

    sound: ClassVar[dict[bytes, Sound]] = {}
    recovered: ClassVar[dict[tuple[bytes, int], Sound]] = {}  # by what stood on the disk, and segment.bytes
    # By what is the same object, which is held here: no other has its identity.
    compared: ClassVar[dict[tuple[int, int, bool], tuple[Sound, Note]]] = {}

    def __init__(self, note: Note, disk: MemoryDisk, segment_bytes: int = SIZE * 4) -> None:
        super().__init__(0, segment_bytes, disk)
        self.note = note

    def compare(self, found: Sound, *, all_of_it: bool) -> None:
        note = self.note
        both = id(found), id(note), all_of_it
        if both not in self.compared:
            self.histories = [list(history) for history in note.histories]
            self.flushed = list(note.flushed)
            self.deleted = note.deleted
            self.epoch = note.epoch
            super().compare(found, all_of_it=all_of_it)
            self.compared[both] = found, note

    def recover(self, looks: bytes) -> Sound:
        """What becomes of the disk."""
        stood = looks, self.topic.segment_bytes
        found = self.recovered.get(stood)
        if found is None:
            self.disk.restart()
            self.start()
            self.assert_accepted()
            found = self.recovered[stood] = self.sound_log()
        return found

    def sound_log(self) -> Sound:
        alike = likeness(self.log, self.disk, self.topic)
        found = self.sound.get(alike)
        if found is None:
            found = self.sound[alike] = super().sound_log()
        return found


def likeness(log: PartitionLog, disk: MemoryDisk, topic: TopicSettings) -> bytes:
    """The same of two logs with the same settings whose files are the same, byte for byte, and what is in memory of them."""
    segments = [[in_words(value) for value in of_segment(one)] for one in log.segments]
    ends = log.log_start_offset, log.log_end_offset, log.failure
    memory = segments, ends, log.epochs.entries, log.producers.to_bytes()
    return fingerprint(disk._top, repr((memory, topic)).encode())


of_segment = attrgetter(*Segment.__slots__)


def in_words(value: object) -> object:
    """What a segment holds: the same text for the same."""
    if value is None or type(value) is int:  # most of it
        return value
    if isinstance(value, MemoryFile):
        return value.name, value.size_bytes, value.cuts
    if isinstance(value, OffsetIndex | TimeIndex):
        return value.to_bytes()
    if isinstance(value, TransactionIndex):
        return list(value)
    if isinstance(value, MemoryDirectory):
        return value.path
    assert value is None or isinstance(value, int | list | dict), value
    return value


Script = Callable[[RecordedWorld], None]


def appends(world: RecordedWorld) -> None:
    for n in range(6):
        world.append()
        if n == 3:
            world.flush()
    world.large()
    world.append()


def rolls(world: RecordedWorld) -> None:
    for n in range(9):
        world.small()
        if n in (4, 7):
            world.flush()
            world.checkpoint()


def transactions(world: RecordedWorld) -> None:
    for n in range(6):
        world.transaction()
        world.append()
        if n == 2:
            world.flush()


def cuts(world: RecordedWorld) -> None:
    for _ in range(7):
        world.small()
    world.flush()
    world.checkpoint()
    world.small()
    world.truncate()
    world.flush()
    world.truncate()
    world.small()


def epochs(world: RecordedWorld) -> None:
    for _ in range(3):
        world.small()
        world.epoch += 1
    world.flush()
    for _ in range(3):
        world.small()
        world.epoch += 1
    world.large()


def checkpoints(world: RecordedWorld) -> None:
    for _ in range(4):
        world.small()
        world.flush()
        world.checkpoint()
        world.high_watermarks()


def deleted_records(world: RecordedWorld) -> None:
    for _ in range(8):
        world.small()
    world.flush()
    for _ in range(3):
        world.delete_records()
        world.purge()
        world.small()
    world.flush()
    world.checkpoint()


def deleted_topic(world: RecordedWorld) -> None:
    for _ in range(5):
        world.small()
    world.flush()
    world.checkpoint()
    world.delete_topic()
    for _ in range(2):
        world.small()
    world.flush()
    world.purge_later()
    world.small()


def clean_stop(world: RecordedWorld) -> None:
    for _ in range(5):
        world.append()
    world.stop_and_start()
    world.append()
    world.flush()
    world.stop_and_start()


def begun_anew(world: RecordedWorld) -> None:
    """With segments at both ends that go in steps before: few of them, and fewer a step. Until it is flushed it is as in `rolls`."""
    for _ in range(26):
        world.small()
    world.flush()
    world.recording.moments.clear()
    world.deleted = 13
    with patch.object(truncation, "has_segments_below", return_value=False):
        world.log.delete_records_before(13)
    world.checkpoint()
    world.small()
    assert len(world.log.segments) == 7
    with patch.object(truncation, "MOST_SEGMENTS_CUT", 2):
        world.begin_anew(20)  # where a segment begins that goes
    world.small()
    world.flush()


SMALL, BIG = SIZE * 4, 40_000  # segment.bytes
SCRIPTS: tuple[tuple[Script, int], ...] = (
    (appends, BIG),
    (rolls, SMALL),
    (transactions, SMALL),
    (cuts, SMALL),
    (epochs, BIG),
    (checkpoints, SMALL),
    (deleted_records, SMALL),
    (deleted_topic, SMALL),
    (begun_anew, SMALL),
    (clean_stop, SMALL),
)


def judge(state: CrashState, segment_bytes: int, *, all_of_it: bool = True) -> None:
    world = Resumed(state.note, state.disk, segment_bytes)
    try:
        world.compare(world.recover(state.looks), all_of_it=all_of_it and state.kind != "power cut")
    except Exception as error:
        raise AssertionError(f"{state}: {error}") from error


def recorded(script: Script, segment_bytes: int, cuts: int) -> tuple[list[Moment], Iterator[CrashState]]:
    world = RecordedWorld(11, segment_bytes)
    script(world)
    moments = world.moments()
    return moments, crash_states(moments, cuts_per_moment=cuts, seed=11)


@pytest.mark.slow
@pytest.mark.parametrize(("script", "segment_bytes"), SCRIPTS, ids=[script.__name__ for script, _ in SCRIPTS])
def test_every_crash_of_a_script_is_recovered(script: Script, segment_bytes: int) -> None:
    moments, states = recorded(script, segment_bytes, CUTS)
    count = 0
    for state in states:
        judge(state, segment_bytes)
        count += 1
    JUDGED["crashes", script.__name__] = count
    assert count > 100 and count > len(moments)


@pytest.mark.slow
@pytest.mark.parametrize(("script", "segment_bytes"), SCRIPTS, ids=[script.__name__ for script, _ in SCRIPTS])
def test_15_every_crash_of_a_recovery_is_recovered_and_of_that_recovery_too(
    script: Script, segment_bytes: int
) -> None:
    """Recovery changes the disk as well. It is stopped at each of its steps, and the next one after it."""
    _, states = recorded(script, segment_bytes, 2)
    count = 0
    for number, state in enumerate(list(states)):
        if number % 9:
            continue
        for again in crashes_of_recovery(state.note, state.disk, segment_bytes, seed=number):
            top = copied(again.disk._top)
            judge(again, segment_bytes, all_of_it=False)
            count += 1
            if count % 7 == 0:
                thirds = crashes_of_recovery(state.note, disk_with(top), segment_bytes, seed=count)
                for third in islice(thirds, 20):
                    judge(third, segment_bytes, all_of_it=False)
                    count += 1
        if count >= RECOVERIES:
            break
    JUDGED["recoveries", script.__name__] = count
    assert count > 30


@pytest.mark.slow
def test_there_were_enough_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    """After the two above, in the same process; where only some of them ran there is nothing to count."""
    if len(JUDGED) < 2 * len(SCRIPTS):
        pytest.skip("only some of the scripts were played")
    with capsys.disabled():
        print(f"\n{sum(JUDGED.values())} crash states of the log recovered and judged")
    assert sum(JUDGED.values()) >= ENOUGH


def crashes_of_recovery(note: Note, disk: MemoryDisk, segment_bytes: int, seed: int) -> Iterator[CrashState]:
    recording = disk_with(disk._top, RecordingDisk(lambda: note))
    assert isinstance(recording, RecordingDisk)
    world = Resumed(note, recording, segment_bytes)
    world.start()
    assert world.manager.refused == {}
    recording.note()
    return crash_states(recording.moments, cuts_per_moment=2, seed=seed)


def test_a_topic_made_again_is_not_judged_by_the_checkpoints_of_the_old_one() -> None:
    """Its recovery point and its log start stood in the files until the next checkpoint: after a crash the new log
    was refused as one that lacks flushed records, or began where the old one had begun."""
    world = World(0)
    for _ in range(5):
        world.write(batch(1), 1)
    world.flush()
    world.log.delete_records_before(2)
    world.checkpoint()
    world.manager.checkpoint_high_watermarks({TP: 5})
    world.manager.delete(TP, NOW)
    world.histories, world.flushed, world.deleted = [[]], [], 0
    for _ in range(3):
        world.write(batch(1), 1)
    world.flush()
    world.disk.restart()
    world.start()
    world.check(all_of_it=True)
    assert (world.log.log_start_offset, world.log.log_end_offset) == (0, 3)
    assert world.manager.high_watermark_of(TP) == 0


@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize("is_killed", [False, True], ids=["at once", "in the next life"])
def test_no_crash_leaves_a_high_watermark_over_what_was_cut_off(offset: int, *, is_killed: bool) -> None:
    """A follower is cut, is given what is committed, and writes that down (seed 905)."""
    disk = RecordingDisk()
    world = World(0, SMALL, disk)
    world.start()
    disk.take_note = lambda: tuple(world.histories[-1])
    for _ in range(6):
        world.write(batch(1), 1)
    world.flush()
    world.log.truncate_to(offset, NOW)
    del world.histories[-1][offset:]
    world.epoch += 1
    if is_killed:
        disk.restart()
        world.start()
    for flush in (False, True, False):
        world.write(batch(1), 1)
        if flush:
            world.flush()
        world.manager.checkpoint_high_watermarks({TP: world.log.log_end_offset})
    disk.note()
    marks = set()
    for state in crash_states(disk.moments, cuts_per_moment=FEW_CUTS, seed=11):
        left = World(0, SMALL, state.disk)
        mark = left.start().high_watermark_of(TP) if TP in left.start().logs else 0
        marks.add(mark)
        assert {one for one in left.held() if one.base_offset < mark} <= set(state.note), state
    assert max(marks) == offset + 3, "and what is on the disk is written down"


def test_a_recovery_that_loses_a_flushed_batch_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge itself: a flush that syncs nothing must not pass."""
    monkeypatch.setattr(MemoryFile, "sync", lambda self: None)
    with pytest.raises(AssertionError):
        for state in recorded(rolls, SMALL, CUTS)[1]:
            judge(state, SMALL)


def test_all_choices_are_made_once() -> None:
    made = []
    for choose in all_choices():
        first = choose(2)
        made.append((first, choose(3) if first else 0))
    assert sorted(made) == [(0, 0), (1, 0), (1, 1), (1, 2)]
