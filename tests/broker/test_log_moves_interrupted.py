"""Replicas on their way between log directories: cancelled, their disks failing, their broker killed."""

import errno
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from odradek.broker import effects as fx
from odradek.broker import log_moves
from odradek.broker.log_moves import RETRY_MS, data_of
from odradek.log import files, future_logs
from odradek.log.errors import CorruptLog, DiskFault, NoDescriptor, StorageError
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import EPOCH_DURING_DELETE, TopicPartition
from tests.broker.log_directories import (
    a_world,
    ask,
    do,
    first,
    five_records,
    futures,
    lines,
    second,
    steps,
    under_way,
    where,
)
from tests.broker.world import T0, World, batch


@pytest.fixture
def world(tmp_path: Path) -> World:
    return five_records(tmp_path)


# -------------------------------------------------------------------------------------------------- cancelled


def test_to_where_it_is_already_means_that_it_stays(world: World) -> None:
    read = under_way(world)
    assert len(futures(world)) == 1
    assert ask(world, first(world)) == ErrorCode.NONE
    assert futures(world) == [] and world[1].logs.futures.logs == {}
    assert lines(world).endswith("-delete: the move is cancelled")
    do(world, read)
    world.settle()
    assert where(world) == first(world) and steps(world) == []
    assert ask(world, first(world)) == ErrorCode.NONE


def test_asked_twice_it_moves_once(world: World) -> None:
    read = under_way(world)
    name = futures(world)
    assert ask(world, second(world)) == ErrorCode.NONE
    assert futures(world) == name
    assert steps(world) == []
    world.copies = True
    do(world, read)
    world.settle()
    assert where(world) == second(world)


def test_an_answer_to_a_cancelled_copy_is_none_to_the_next(world: World) -> None:
    read = under_way(world)
    ask(world, first(world))
    ask(world, second(world))
    (again,) = steps(world)
    do(world, read)
    assert steps(world) == [], "else two flushes of one log would be under way in a moment"
    world.copies = True
    do(world, again)
    world.settle()
    assert where(world) == second(world) and world[1].values() == [b"%d" % n for n in range(5)]


def test_a_want_of_memory_as_it_is_appended_leaves_no_copy_standing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody looked at it again before another one was asked for."""
    read = under_way(world)

    def no_memory(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(log_moves, "first_batches", no_memory)
        with pytest.raises(MemoryError):
            do(world, read)
    world[1].broker.replicas.moves.go_on(world.now_ms)
    assert steps(world) == [], "not before there may be memory again"
    world.copies = True
    world.advance(RETRY_MS)
    assert where(world) == second(world)


@pytest.mark.parametrize("asked", [fx.ReadSlices, fx.FlushLog])
def test_a_want_of_memory_to_ask_for_what_a_copy_awaits_leaves_none_standing(
    world: World, asked: type[fx.Effect]
) -> None:
    """It waited for an answer to what nobody had heard."""
    moves = world[1].broker.replicas.moves
    really_effects = moves._effects
    wants = 0

    class Effects(list[fx.Effect]):
        def append(self, effect: fx.Effect) -> None:
            nonlocal wants
            if isinstance(effect, asked) and not wants:
                wants += 1
                raise MemoryError
            really_effects.append(effect)

    moves._effects = Effects()
    with suppress(MemoryError):
        ask(world, second(world))
        world.settle()
    moves._effects = really_effects
    world.advance(RETRY_MS)
    assert wants == 1 and where(world) == second(world)


def test_it_goes_with_its_topic(world: World) -> None:
    read = under_way(world)
    assert world.stop_replica(1, T0, leader_epoch=EPOCH_DURING_DELETE, delete=True) == ErrorCode.NONE
    do(world, read)
    world.settle()
    assert futures(world) == [] and world[1].logs.futures.logs == {}
    assert all(p.name.endswith("-delete") for path in world[1].log_dirs for p in Path(path).glob("t-0*"))


# --------------------------------------------------------------------------------------------- disks that fail


def test_the_directory_it_goes_to_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    read = under_way(world)
    data = data_of(read.slices)

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as disk:
        disk.setattr(files, "_pwrite", fail)
        world[1].broker.answered(read.request_id, data, world.now_ms)
    world.settle()
    assert list(world[1].logs.offline_directories) == [second(world)]
    assert world[1].logs.futures.logs == {} and steps(world) == []
    assert "stays where it is" in lines(world)
    assert world.produced(world.produce(1, b"on")) == (ErrorCode.NONE, 5)
    world.advance(10_000)
    assert where(world) == first(world)


def test_the_directory_it_comes_from_fails(world: World) -> None:
    """Only what is in it goes offline. What was copied stays where it is: it may be all that is left."""
    world.lead(1, isr=(1,), replicas=(1,), index=1, is_new=True)
    other = TopicPartition("t", 1)
    assert world[1].logs.directory_of(other) == second(world)
    read = under_way(world)
    do(world, read)
    world[1].logs.directories[0].root.health.fail(DiskFault("gone"))
    world.settle()
    world.advance(10_000)
    assert list(world[1].broker.replicas.partitions) == [other]
    assert world.produced(world.produce(1, b"x", index=1))[0] == ErrorCode.NONE
    assert len(futures(world)) == 1
    world.restart(1)
    world.copies = True
    world.lead(1, isr=(1,), replicas=(1,))
    assert where(world) == second(world) and world[1].values() == [b"%d" % n for n in range(5)]


def test_a_copy_that_nobody_fills_yet_is_given_up_with_its_directory(world: World) -> None:
    """Found at the start, its replica not hosted yet. A new log of that name must not be made on the failed disk."""
    do(world, under_way(world))
    world.kill(1)
    world.restart(1)
    assert T0 in world[1].logs.futures.logs
    world[1].logs.directories[1].root.health.fail(DiskFault("gone"))
    world.settle()
    assert world[1].logs.futures.logs == {} and "stays where it is" in lines(world)


@pytest.mark.parametrize("emptied", [0, 1])
def test_a_disk_is_emptied_while_a_replica_moves(world: World, emptied: int) -> None:
    """Somebody takes all of it away. What is on the other disk serves on, and the replica if it can be had from there."""
    world.lead(1, isr=(1,), replicas=(1,), index=1, is_new=True)
    world.lead(1, isr=(1,), replicas=(1,), index=2, is_new=True)
    at = {index: world[1].logs.directory_of(TopicPartition("t", index)) for index in (0, 1, 2)}
    assert [at[0], at[1], at[2]] == [first(world), second(world), first(world)]
    read = under_way(world)
    data = data_of(read.slices)
    shutil.rmtree(world[1].log_dirs[emptied])
    world.copies = True
    world[1].broker.answered(read.request_id, data, world.now_ms)
    world.watch(lambda: bool(world[1].logs.offline_directories), within_ms=5_000)
    world.advance(3_000)
    assert list(world[1].logs.offline_directories) == [world[1].log_dirs[emptied]]
    gone = {index for index in (1, 2) if at[index] == world[1].log_dirs[emptied]}
    for index in (0, 1, 2):
        code, _ = world.produced(world.produce(1, b"on", index=index))
        assert code == (ErrorCode.KAFKA_STORAGE_ERROR if index in gone else ErrorCode.NONE)
    assert world[1].values() == [*(b"%d" % n for n in range(5)), b"on"]


def test_a_copy_that_is_damaged_or_taken_away_is_begun_again(world: World) -> None:
    read = under_way(world)
    do(world, read)
    (flush,) = steps(world)
    world[1].logs.futures.logs[T0].log.broken(CorruptLog("not what was written"))
    do(world, flush)
    assert world[1].logs.futures.logs[T0].log.log_end_offset == 0
    assert steps(world) == [] and world[1].broker.replicas.moves.due_ms == world.now_ms + RETRY_MS, (
        "not in every turn"
    )
    world.copies = True
    world.watch(lambda: where(world) == second(world), within_ms=5_000)
    assert world[1].values() == [b"%d" % n for n in range(5)]


def test_a_copy_that_cannot_be_begun_again_for_want_of_a_descriptor_is_said_to_be_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asked for it would wait for ever, and nothing said why."""
    read = under_way(world)
    do(world, read)
    (flush,) = steps(world)
    lines(world)
    world[1].logs.futures.logs[T0].log.broken(CorruptLog("not what was written"))

    def refused(*arguments: object, **options: object) -> None:
        raise NoDescriptor("no descriptor is left")

    monkeypatch.setattr(future_logs, "create_log", refused)
    do(world, flush)
    assert world[1].logs.futures.logs == {}
    assert f"its move to {second(world)} is given up: no descriptor is left" in lines(world)


@pytest.mark.parametrize("what", ["_say", "create"])
def test_a_want_of_memory_as_a_copy_is_given_up_leaves_none_standing(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """What went wrong before was told, and this was not foreseen there."""
    read = under_way(world)
    do(world, read)
    (flush,) = steps(world)
    moves = world[1].broker.replicas.moves
    world[1].logs.futures.logs[T0].log.broken(CorruptLog("not what was written"))

    def no_memory(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(moves if what == "_say" else moves._futures, what, no_memory)
        with pytest.raises(MemoryError):
            do(world, flush)
    world.copies = True
    world.advance(RETRY_MS)
    if what == "create":
        assert not moves._moves and world[1].logs.futures.logs == {}, "it would look for a log that is none"
        ask(world, second(world))
    world.watch(lambda: where(world) == second(world), within_ms=5_000)
    assert world[1].values() == [b"%d" % n for n in range(5)]


def test_a_want_of_memory_as_a_failed_flush_is_told_leaves_no_copy_standing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = under_way(world)
    do(world, read)
    (flush,) = steps(world)
    moves = world[1].broker.replicas.moves

    def no_memory(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(moves, "_say", no_memory)
        with pytest.raises(MemoryError):
            world[1].broker.answered(
                flush.request_id, fx.Flushed(flush.plan, "fsync: no space"), world.now_ms
            )
    assert moves.due_ms == world.now_ms + RETRY_MS


def test_a_log_that_is_damaged_does_not_arrive(world: World) -> None:
    """Whoever copies it checks every batch, so the replica is found damaged as by a follower that does not take it."""
    path = Path(first(world)) / "t-0" / f"{0:020d}.log"
    with path.open("r+b") as file:
        file.seek(-3, 2)
        file.write(b"\xff")
    ask(world, second(world))
    world.settle()
    world.advance(3_000)
    assert T0 in world[1].logs.refused
    assert where(world) == first(world)


def test_a_directory_without_space_is_not_filled(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk would take all that is on it offline."""
    target = world[1].logs.directories[1].root
    with monkeypatch.context() as disk:
        disk.setattr(type(target), "space", lambda self: (1 << 40, 1 << 20))
        ask(world, second(world))
        world.advance(3_000)
        assert where(world) == first(world)
        assert lines(world).count("bytes are left there") == 1
    world.advance(1_500)
    assert where(world) == second(world)


# ---------------------------------------------------------------------------------------------------- restarts


def test_it_goes_on_after_a_restart(world: World) -> None:
    read = under_way(world)
    do(world, read)
    world.kill(1)
    world.restart(1)
    assert len(futures(world)) == 1 and where(world) == first(world)
    world.copies = True
    world.lead(1, isr=(1,), replicas=(1,))
    world.produce(1, b"after")
    world.settle()
    assert where(world) == second(world)
    assert world[1].values() == [*(b"%d" % n for n in range(5)), b"after"]


def test_a_copy_that_outlived_the_tail_of_its_log_is_cut_when_it_goes_on(world: World) -> None:
    """A power cut took what the log in use had not synced, and the copy on the other disk has it still. By then others
    may have been told of another record at that offset."""
    world.produce(1, b"tail")
    read = under_way(world)
    do(world, read)
    assert world[1].logs.futures.logs[T0].log.log_end_offset == 6
    world.kill(1)
    path = Path(first(world)) / "t-0" / f"{0:020d}.log"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - len(batch(b"tail")))
    world.restart(1)
    world.copies = True
    world.lead(1, isr=(1,), replicas=(1,), settle=False)
    world.produce(1, b"another")
    world.settle()
    assert where(world) == second(world)
    assert world[1].values() == [*(b"%d" % n for n in range(5)), b"another"]


def test_a_copy_that_could_not_be_cut_is_not_taken_for_one_that_was(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For want of a descriptor the log is not given up. What it had too much stayed, and the copy went on behind that."""
    world.produce(1, b"tail")
    read = under_way(world)
    do(world, read)
    current = world[1].partition().log
    current.truncate_to(5, world.now_ms)
    refused = []

    def refuse(*arguments: object) -> None:
        refused.append(arguments)
        raise StorageError("no descriptor is left")

    with monkeypatch.context() as patched:
        patched.setattr(type(current), "prepare_segment", refuse)
        (flush,) = steps(world)
        do(world, flush)
        assert refused
    world.copies = True
    world.lead(1, isr=(1,), replicas=(1,), settle=False)
    world.produce(1, b"another")
    world.advance(5_000)
    assert where(world) == second(world)
    assert world[1].values() == [*(b"%d" % n for n in range(5)), b"another"]


def test_the_high_watermark_moves_along(world: World) -> None:
    ask(world, second(world))
    world.settle()
    world.kill(1)
    world.restart(1)
    assert where(world) == second(world)
    assert world[1].logs.high_watermark_of(T0) == 5


@pytest.mark.parametrize("arrives", [True, False])
def test_what_is_not_committed_is_not_called_so_by_the_move(tmp_path: Path, arrives: bool) -> None:
    world = a_world(tmp_path, (1, 2))
    world.produce(1, b"a")
    world.settle()
    world.cut.add((2, 1))
    world.produce(1, b"b", b"c", acks=1)
    if arrives:
        ask(world, second(world))
        world.settle()
    else:
        do(world, under_way(world))
        assert steps(world), "the copy is to be flushed"
    world.kill(1)
    world.restart(1)
    assert where(world) == (second(world) if arrives else first(world))
    assert world[1].logs.logs[T0].log_end_offset == 3
    assert world[1].logs.high_watermark_of(T0) == 1
