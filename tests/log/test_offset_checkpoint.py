"""The checkpoints of a log directory, written by a thread while the loop cuts, deletes and makes logs."""

from collections.abc import Callable
from typing import Any

import pytest

from odradek.log.checkpoints import CLEANER, HIGH_WATERMARK, LOG_START, RECOVERY_POINT, read_offsets
from odradek.log.errors import NoDescriptor
from odradek.log.log_manager import LogManager
from odradek.log.memory_files import MemoryDirectory, MemoryDisk, MemoryFile
from odradek.model.ids import TopicId, TopicPartition
from odradek.model.settings import BrokerSettings
from tests.log.logs import NOW, TOPIC_ID, batch, produce

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
FILES = (RECOVERY_POINT, LOG_START, HIGH_WATERMARK, CLEANER)
SYNCS = 2 * len(FILES)


class World:
    """A and B, of nine records each; all is flushed, the first two are deleted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.disk = MemoryDisk()
        self.manager = LogManager([self.disk.root], BrokerSettings({}))
        self.manager.load(NOW)
        (self.directory,) = self.manager.directories
        for key in (A, B):
            log = self.manager.get_or_create(key, TOPIC_ID, now_ms=NOW)
            for _ in range(9):
                produce(log, batch())
            log.flush()
            log.delete_records_before(2)
        self.syncs = 0
        self.at: dict[
            int, Callable[[], object]
        ] = {}  # what the loop does while the thread waits for that sync
        for kind in (MemoryFile, MemoryDirectory):
            monkeypatch.setattr(kind, "sync", self._told(kind.sync))

    def _told(self, sync: Callable[[Any], None]) -> Callable[[object], None]:
        def told(synced: object) -> None:
            self.syncs += 1
            work = self.at.pop(self.syncs - 1, None)
            if work is not None:
                work()
            sync(synced)

        return told

    def write_all(self) -> None:
        log, cuts = self.manager.logs[A], self.manager.cuts
        generation = log.flushed.generation
        self.manager.checkpoint_recovery_points()
        self.manager.checkpoint_log_start_offsets()
        self.manager.checkpoint_high_watermarks({A: 9, B: 9}, cuts)
        self.manager.is_cleaned_to(log, 8, generation)

    def cut(self) -> None:
        log = self.manager.logs[A]
        log.flushed.cut(4)
        self.manager.before_cut_below(log, 4, 1)

    def make_anew(self) -> None:
        self.manager.delete(A, NOW)
        self.manager.get_or_create(A, TopicId(bytes(16 * [7])), now_ms=NOW)

    def said(self, key: TopicPartition) -> dict[str, int | None]:
        """Behind a kill."""
        files = {name: self.disk.root.read(name) for name in FILES}
        return {name: read_offsets(data or b"", name).get(key) for name, data in files.items()}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_the_loop_waits_for_no_disk_of_a_thread(world: World) -> None:
    locked: list[bool] = []
    world.at = dict.fromkeys(range(SYNCS), lambda: locked.append(world.directory.checkpointing.locked()))
    world.write_all()
    assert locked == [False] * SYNCS
    assert list(world.said(A).values()) == [9, 2, 9, 8] and list(world.said(B).values()) == [9, 2, 9, None]


@pytest.mark.parametrize("is_written", [False, True], ids=["the first time", "again"])
@pytest.mark.parametrize("at", range(SYNCS))
def test_a_log_that_is_cut_while_they_are_written_is_not_said_to_be_longer(
    world: World, at: int, *, is_written: bool
) -> None:
    """Else a start would find that records are missing which were safe."""
    if is_written:
        world.write_all()
    world.at = {world.syncs + at: world.cut}
    world.write_all()
    said = list(world.said(A).items())[: at // 2 + 1]
    assert [offset for _, offset in said] == [1 if name == LOG_START else 4 for name, _ in said]
    assert world.said(B)[RECOVERY_POINT] == 9


@pytest.mark.parametrize("limit", [3, 6])
def test_while_a_thread_lowers_it_the_file_still_says_what_it_said(world: World, limit: int) -> None:
    """The loop cuts meanwhile, below what is on the disk, and that has to be less before it does; a kill may come then."""
    world.write_all()
    said: list[int | None] = []

    def cut() -> None:
        world.directory.before_cut_below(A, 7, 2)
        said.append(world.said(A)[RECOVERY_POINT])

    world.at = {world.syncs: cut}
    world.directory.recovery_points.lower_beside(A, limit, world.directory.checkpointing)

    assert said == [limit] == [world.said(A)[RECOVERY_POINT]]


@pytest.mark.parametrize("is_written", [False, True], ids=["the first time", "again"])
@pytest.mark.parametrize("at", range(SYNCS))
def test_a_log_that_is_made_while_they_are_written_is_not_judged_by_the_one_before(
    world: World, at: int, *, is_written: bool
) -> None:
    if is_written:
        world.write_all()
    world.at = {world.syncs + at: world.make_anew}
    world.write_all()
    assert [offset or 0 for offset in world.said(A).values()] == [0, 0, 0, 0]
    assert world.said(B)[RECOVERY_POINT] == 9


@pytest.mark.parametrize("change", [World.cut, World.make_anew])
def test_what_could_not_be_written_for_want_of_a_descriptor_is_written_at_the_next_attempt(
    world: World, monkeypatch: pytest.MonkeyPatch, change: Callable[[World], None]
) -> None:
    """It was not done, and is done without a word of what the file says still: behind a kill records that were safe would be missing."""
    world.write_all()

    def refused(*arguments: object, **options: object) -> None:
        raise NoDescriptor("no descriptor is left")

    with monkeypatch.context() as patch, pytest.raises(NoDescriptor):
        patch.setattr(MemoryDirectory, "replace", refused)
        change(world)
    if change is World.cut:
        world.cut()
    else:
        world.manager.get_or_create(A, TopicId(bytes(16 * [7])), now_ms=NOW)
    assert all((offset or 0) <= 4 for offset in world.said(A).values())


def test_what_is_known_to_be_less_is_not_raised_to_where_a_log_is_cut(world: World) -> None:
    """The thread has found a lower point, and not written it yet: only up to there is it on the disk."""
    world.write_all()
    world.directory.recovery_points.offsets[A] = 2
    world.manager.before_cut_below(world.manager.logs[A], 4, 2)
    assert world.said(A)[RECOVERY_POINT] == 2
