"""Indexes that are removed or damaged under a running broker: a thread builds them again, and who asks meanwhile waits."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.log import segment as segments
from odradek.log.errors import NoDescriptor
from odradek.log.index_rebuilding import IndexRebuild
from odradek.log.indexes import OffsetIndex
from odradek.log.partition_log import PartitionLog
from odradek.log.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    IndexPending,
    Segment,
    file_name,
)
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages import list_offsets as lm
from odradek.records.builder import NewRecord, build_batch
from tests.broker.fetched import T_0, rows, values
from tests.broker.log_directories import ask as move
from tests.broker.log_directories import do, second, steps, where
from tests.broker.test_fetch import Reader
from tests.broker.world import TOPIC_ID, Pending, World, told
from tests.log.logs import assert_index_answers_as_a_scan, produce

FIRST_TIME = 1_000_000
COUNT = 700
A_PIECE = 50


def value(n: int) -> bytes:
    return b"%06d" % n


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """One replica, in the first of two directories: two segments of three hundred batches and more, and an active one. What is to be done aside waits."""
    monkeypatch.setattr("odradek.log.index_rebuilding.BATCHES_A_PIECE", A_PIECE)
    monkeypatch.setattr("odradek.log.index_rebuilding.LAST_BYTES", 1_000)
    monkeypatch.setattr(segments, "MOST_WINDOWS", 0)
    monkeypatch.setattr(segments, "MOST_HEADERS", 200)
    world = World(tmp_path, brokers=(1,), directories="2", log_segment_bytes="25000")
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    log = log_of(world)
    for n in range(COUNT - 1):
        produce(log, build_batch([NewRecord(None, value(n), FIRST_TIME + n)]), epoch=log.latest_epoch)
    world.produce(1, records=build_batch([NewRecord(None, value(COUNT - 1), FIRST_TIME + COUNT - 1)]))
    world.settle()
    assert [segment.base_offset > 0 for segment in log.segments] == [False, True, True]
    log.segments.close_handles()
    world.works = False
    world[1].told.clear()

    def walks(*whoever: Any) -> list[str]:
        raise AssertionError("all batches of a segment are walked over in the loop")

    monkeypatch.setattr(Segment, "rebuild_indexes", walks)
    yield world
    assert world[1].told == [], "nothing is left to be done, or said"


def log_of(world: World) -> PartitionLog:
    log: PartitionLog = world[1].partition().log
    return log


def index(world: World, suffix: str = INDEX_SUFFIX) -> Path:
    return world[1].path / "t-0" / file_name(0, suffix)


def is_said(world: World) -> bool:
    return any("built again" in effect.text for effect in told(world, fx.LogLine))


def work(world: World) -> int:
    """The thread does what there is to do; how many pieces that was."""
    pieces = 0
    while waiting := told(world, fx.RunAside):
        (one,) = waiting
        pieces += 1
        world[1].broker.answered(one.request_id, one.work.run(), world.now_ms)
        world.settle()
    return pieces


def consume(world: World, offset: int) -> Pending:
    pending = world.consume(1, offset, max_wait_ms=20_000, max_bytes=500)
    world.settle()
    return pending


def entries_lie(path: Path) -> None:
    """But for the last one."""
    data = path.read_bytes()
    path.write_bytes(data[:-8].replace(b"\x00\x00", b"\x00\x01") + data[-8:])


DAMAGES: dict[str, Callable[[World], object]] = {
    "removed": lambda world: index(world).unlink(),
    "both removed": lambda world: (index(world).unlink(), index(world, TIME_INDEX_SUFFIX).unlink()),
    "emptied": lambda world: index(world).write_bytes(b""),
    "torn": lambda world: index(world).write_bytes(index(world).read_bytes()[:-3]),
    "thinned": lambda world: index(world).write_bytes(index(world).read_bytes()[:8]),
    "zeros": lambda world: index(world).write_bytes(bytes(800)),
    "lying": lambda world: entries_lie(index(world)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_fetch_waits_for_the_thread_and_is_answered_right(world: World, damage: str) -> None:
    DAMAGES[damage](world)

    pending = consume(world, 250)
    assert not pending.is_answered
    assert values(rows(consume(world, 400))[T_0])[0] == value(400), "other segments are read meanwhile"
    assert work(world) > 300 // A_PIECE

    assert values(rows(pending)[T_0])[0] == value(250)
    assert is_said(world)
    assert index(world).read_bytes() and index(world, TIME_INDEX_SUFFIX).read_bytes()
    for offset in (0, 1, 137, 299):
        assert values(rows(consume(world, offset))[T_0])[0] == value(offset)
    assert_index_answers_as_a_scan(log_of(world))


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, TIME_INDEX_SUFFIX])
@pytest.mark.parametrize("content", [None, b"", bytes(1_200), b"torn"])
def test_a_lookup_by_time_waits_for_the_thread_and_is_answered_right(
    world: World, suffix: str, content: bytes | None
) -> None:
    index(world, suffix).unlink()
    if content is not None:
        index(world, suffix).write_bytes(content)
    found = []

    for timestamp in (FIRST_TIME + 120, -3):
        pending = ask(world, timestamp)
        while told_works(world):
            assert not pending.is_answered
            work(world)
        found.append(pending.message.topics[0].partitions[0])

    assert [(row.error_code, row.offset) for row in found] == [(0, 120), (0, COUNT - 1)]
    assert is_said(world)


def test_who_comes_to_wait_when_the_thread_is_done_already_is_answered(world: World) -> None:
    """It asked, others had their turns, and the index was there before its own one."""
    index(world).unlink()
    (wanted,) = [lm.ListOffsetsPartition(partition_index=0, timestamp=FIRST_TIME + 120)]
    topics = [lm.ListOffsetsTopic(name="t", partitions=[wanted])]
    pending = world.send(1, lm.ListOffsetsRequest(replica_id=-1, topics=topics), 9)
    broker, pieces = world[1].broker, 0
    while works := [one for one in broker.take_effects() if isinstance(one, fx.RunAside)]:
        (one,) = works
        pieces += 1
        broker.answered(one.request_id, one.work.run(), world.now_ms)
    assert pieces > 300 // A_PIECE and not pending.is_answered

    while broker.go_on(world.now_ms):
        pass
    world.settle()

    (row,) = pending.message.topics[0].partitions
    assert (row.error_code, row.offset) == (0, 120)


@pytest.mark.parametrize("offset", [2, 200])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_cut_is_refused_until_the_thread_has_built_the_index(
    world: World, damage: str, offset: int
) -> None:
    DAMAGES[damage](world)
    log = log_of(world)
    with pytest.raises(IndexPending):
        log.truncate_to(offset, world.now_ms)
    assert log.log_end_offset == COUNT and log.failure is None
    world.settle()
    work(world)

    assert log.truncate_to(offset, world.now_ms) == offset

    assert is_said(world)
    assert_index_answers_as_a_scan(log)


def test_what_was_built_of_a_segment_that_is_cut_meanwhile_is_thrown_away(world: World) -> None:
    index(world).write_bytes(b"")
    log = log_of(world)
    pending = consume(world, 250)
    (one,) = told(world, fx.RunAside)
    rebuild: Any = one.work
    assert isinstance(rebuild, IndexRebuild)
    while not rebuild.is_over:
        assert rebuild.run() is True

    log.truncate_fully_and_start_at(250, world.now_ms)
    world[1].broker.answered(one.request_id, True, world.now_ms)
    world.settle()

    assert file_name(0, INDEX_SUFFIX) not in log.directory.names()
    assert [name for name in log.directory.names() if "rebuilt" in name] == []
    assert log.log_start_offset == 250 and pending.is_answered is False
    assert is_said(world)
    world.advance(20_000)


def test_what_was_built_of_a_segment_that_is_let_go_meanwhile_is_thrown_away(world: World) -> None:
    """Nobody would ever remove it again."""
    index(world).unlink()
    log = log_of(world)
    pending = consume(world, 250)
    (one,) = told(world, fx.RunAside)
    while not one.work.is_over:
        assert one.work.run() is True

    start = log.segments[1].base_offset
    log.delete_records_before(start)
    world[1].broker.answered(one.request_id, True, world.now_ms)
    world.settle()

    left = [name for name in log.directory.names() if not name.endswith(DELETED_SUFFIX)]
    assert file_name(0, INDEX_SUFFIX) not in left and not any("rebuilt" in name for name in left)
    assert log.log_start_offset == start and log.failure is None
    assert is_said(world)
    world.advance(20_000)
    assert pending.is_answered


@pytest.mark.parametrize("more", [0, 5, 90])
def test_the_index_of_the_active_segment_is_built_again_in_memory_though_it_grows(
    world: World, more: int
) -> None:
    """By nothing, by so little that the loop looks at it, and by more."""
    log = log_of(world)
    active = log.segments.active
    first = active.base_offset
    lying = OffsetIndex()
    lying.append(1, 17)
    active.offset_index = lying
    active.positions.clear()

    pending = consume(world, first + 3)
    (one,) = told(world, fx.RunAside)
    assert one.work.run() is True and one.work.is_over
    for n in range(COUNT, COUNT + more):
        world.produce(1, records=build_batch([NewRecord(None, value(n), FIRST_TIME + n)]))
    world[1].broker.answered(one.request_id, True, world.now_ms)
    world.settle()
    if more == 90:
        assert not pending.is_answered, "the loop would have to walk over what came meanwhile"
        assert work(world) == 2

    assert values(rows(pending)[T_0])[0] == value(first + 3)
    assert log.max_timestamp() == (FIRST_TIME + COUNT + more - 1, COUNT + more - 1)
    world.produce(1, records=build_batch([NewRecord(None, b"last", FIRST_TIME + COUNT + more)]))
    world.settle()
    assert values(rows(consume(world, COUNT + more))[T_0]) == [b"last"]
    assert_index_answers_as_a_scan(log)
    assert is_said(world)


def test_a_segment_that_ends_too_early_is_walked_over_by_the_thread_before_it_counts_as_damaged(
    world: World,
) -> None:
    log = log_of(world)
    first = log.segments[0]
    at = first.position_of(first.end_offset - 2)
    log.segments.close_handles()
    with (world[1].path / "t-0" / file_name(0, ".log")).open("r+b") as file:
        file.truncate(at)

    pending = consume(world, first.end_offset - 1)
    assert not pending.is_answered and log.failure is None
    work(world)

    assert rows(pending)[T_0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failure is not None and "ends before offset" in log.failure.message
    world[1].told.clear()


def test_a_damaged_batch_that_the_thread_comes_to_is_told(world: World) -> None:
    log = log_of(world)
    at = log.segments[0].position_of(100)
    log.segments.close_handles()
    with (world[1].path / "t-0" / file_name(0, ".log")).open("r+b") as file:
        file.seek(at + 16)
        file.write(b"\x07")  # its magic
    index(world).unlink()

    pending = consume(world, 250)
    work(world)

    assert rows(pending)[T_0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failure is not None
    world[1].told.clear()


def test_where_the_thread_had_no_descriptor_it_is_asked_again_in_time_and_not_at_once(world: World) -> None:
    """At once it would have none either, and who waits would have the thread try for as long as they wait."""
    index(world).unlink()
    pending, other = consume(world, 250), ask(world, FIRST_TIME + 120)
    (one,) = told(world, fx.RunAside)
    world[1].broker.answered(one.request_id, NoDescriptor("no descriptor is left"), world.now_ms)
    world.settle()
    assert told(world, fx.RunAside) == []
    assert is_said(world)

    world.advance(20_000)
    assert (rows(pending)[T_0].error_code, values(rows(pending)[T_0])) == (ErrorCode.NONE, [])
    again = consume(world, 250)
    work(world)
    assert values(rows(again)[T_0])[0] == value(250)
    assert log_of(world).failure is None
    assert is_said(world)
    world.advance(20_000)
    assert other.is_answered


@pytest.mark.parametrize("what", ["__init__", "put", "failed"])
def test_a_want_of_memory_leaves_no_segment_that_is_never_built_again(
    world: World, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Whoever asked for it waited for what nobody did, until the next start."""
    index(world).unlink()

    def no_memory(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(IndexRebuild, what, no_memory)
        if what == "failed":
            patch.setattr(IndexRebuild, "run", lambda _: NoDescriptor("no descriptor is left"))
        with suppress(MemoryError):
            consume(world, 250)
            work(world)
    world.advance(20_000)
    again = consume(world, 250)
    work(world)
    assert values(rows(again)[T_0])[0] == value(250)
    world[1].told.clear()


def test_a_session_looks_again_after_a_thread_that_had_no_descriptor(world: World) -> None:
    """It names the partition no more: what it has not been told stands with the broker alone."""
    reader = Reader(world)
    reader.fetch((TOPIC_ID, 0, COUNT))
    log_of(world).segments.close_handles()
    index(world).unlink()
    assert rows(reader.fetch((TOPIC_ID, 0, 250), partition_max_bytes=500)) == {}
    (one,) = told(world, fx.RunAside)
    world[1].broker.answered(one.request_id, NoDescriptor("no descriptor is left"), world.now_ms)
    world.settle()
    assert is_said(world)

    assert rows(reader.fetch()) == {}
    work(world)
    assert is_said(world)
    assert values(rows(reader.fetch())[T_0])[0] == value(250)


def ask(world: World, timestamp: int) -> Pending:
    wanted = lm.ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
    request = lm.ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[lm.ListOffsetsTopic(name="t", partitions=[wanted])]
    )
    pending = world.send(1, request, 9)
    world.settle()
    return pending


def told_works(world: World) -> bool:
    return any(isinstance(effect, fx.RunAside) for effect in world[1].told)


def test_readers_of_one_that_is_not_wanted_any_more_look_again_in_that_turn(world: World) -> None:
    """The log is cut in the turn in which they asked. Nobody else may have anything to say for long."""
    index(world).unlink()
    pending = world.consume(1, 250, max_wait_ms=20_000, max_bytes=500)
    log_of(world).flushed.cut(COUNT)

    turn = world[1].broker.take_effects()
    world[1].told += [effect for effect in turn if isinstance(effect, fx.LogLine | fx.RunAside)]
    assert any(isinstance(effect, fx.RunAside) for effect in turn), (
        "it waits for a turn that nobody has a reason for"
    )

    assert work(world) > 300 // A_PIECE
    assert values(rows(pending)[T_0])[0] == value(250)
    assert is_said(world)


def test_readers_of_a_log_that_moves_meanwhile_go_on_in_the_one_that_has_its_place(world: World) -> None:
    """Its index is whole. The thread builds that of the former one, which nobody reads any more."""
    world.copies = False
    assert move(world, second(world)) == ErrorCode.NONE
    (one,) = steps(world)
    while not isinstance(one, fx.FlushLog):
        do(world, one)
        world.settle()
        (one,) = steps(world)
    log_of(world).segments.close_handles()
    index(world).unlink()
    pending = consume(world, 250)
    assert not pending.is_answered

    do(world, one)
    world.settle()
    assert where(world) == second(world)
    assert values(rows(pending)[T_0])[0] == value(250)
    work(world)
    assert is_said(world)
