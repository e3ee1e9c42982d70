"""A follower cuts its log while requests come in: what has to be on the disk before it is written by a thread."""

from pathlib import Path

import pytest

from odradek.broker import effects as fx
from odradek.log.errors import NoDescriptor
from odradek.log.log_directory import Lowering
from odradek.log.log_state import LogState
from tests.broker.world import World, told


def about_to_cut(tmp_path: Path) -> tuple[World, fx.RunAside]:
    """1 has a record that 2, the new leader, has not, and its checkpoint says that it is flushed."""
    world = World(tmp_path, brokers=(1, 2))
    world.lead(1, isr=(1, 2), replicas=(1, 2), is_new=True)
    world.produce(1, b"a")
    world.settle()
    world.cut |= {(2, 1)}
    world.produce(1, b"lost", acks=1)
    world.settle()
    world[1].partition().log.flush()
    world[1].logs.checkpoint_recovery_points()
    world.cut.clear()
    world.works = False
    world.lead(2, isr=(2,), replicas=(1, 2))
    (waiting,) = told(world, fx.RunAside)
    assert isinstance(waiting.work, Lowering)
    return world, waiting


def test_a_cut_below_what_is_flushed_does_not_hold_the_loop_up(
    tmp_path: Path, checkpoints_written: list[str]
) -> None:
    """Two syncs for a file, tens of milliseconds each, were waited for within the turn, for each partition."""
    world, waiting = about_to_cut(tmp_path)
    log = world[1].partition().log
    assert log.log_end_offset == 2
    came = waiting.work.run()
    assert came is True and log.log_end_offset == 2
    world[1].logs.checkpoint_recovery_points()  # comes in between, and takes nothing of it back
    world[1].broker.answered(waiting.request_id, came, world.now_ms)
    world.settle()
    assert log.log_end_offset == 1 and world[1].values() == world[2].values() == [b"a"]
    assert checkpoints_written == []
    (directory,) = world[1].logs.directories
    assert [*directory.recovery_points.offsets.values()] == [1]


def test_a_cut_that_could_not_be_prepared_is_asked_for_again(tmp_path: Path) -> None:
    world, waiting = about_to_cut(tmp_path)
    world.works = True
    world[1].broker.answered(waiting.request_id, NoDescriptor("no descriptor is left"), world.now_ms)
    world.settle()
    assert world[1].partition().log.log_end_offset == 2
    world.advance(2_000)
    assert world[1].values() == world[2].values() == [b"a"]


def test_a_cut_for_which_there_was_no_memory_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was fetched of its partition any more, in this leader epoch."""
    world, waiting = about_to_cut(tmp_path)
    world.works = True
    wants = 0

    def no_memory(*_: object) -> None:
        nonlocal wants
        wants += 1
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(LogState, "prepare_segment", no_memory)
        world[1].broker.answered(waiting.request_id, waiting.work.run(), world.now_ms)
        world[1].broker.go_on(world.now_ms)
        asked = world[1].broker.effects[:]
        world.settle()
    assert wants == 1 and world[1].partition().log.log_end_offset == 2
    assert {type(effect) for effect in asked} >= {fx.WakeFetcher, fx.LogLine}, (
        "else it sleeps on, and nobody knows"
    )
    world.advance(2_000)
    assert world[1].values() == world[2].values() == [b"a"]
