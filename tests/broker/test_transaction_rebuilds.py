"""A `.txnindex` that is taken away under a running broker: its readers wait for a thread, and see no aborted record."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.log import segment as segments
from odradek.log.index_rebuilding import Rebuild
from odradek.log.segment import INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, IndexPending, file_name
from odradek.model.error_codes import ErrorCode
from odradek.records.builder import NewRecord, build_batch
from odradek.replication.replica import READ_COMMITTED
from tests.broker.fetched import T_0, rows
from tests.broker.test_index_rebuilds import is_said, work
from tests.broker.world import Pending, World, told
from tests.log.logs import EVERYTHING, idempotent, marker, produce

A_PIECE = 50


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """One replica, started again: two segments with a hundred aborted transactions and more, and an active one. What is to be done
    aside waits."""
    monkeypatch.setattr("odradek.log.transaction_rebuilding.BATCHES_A_PIECE", A_PIECE)
    world = World(tmp_path, brokers=(1,), log_segment_bytes="33000")
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    log = log_of(world)
    for n in range(350):
        produce(log, idempotent(n, is_transactional=True), epoch=log.latest_epoch)
        ends = marker(commit=n % 7 == 0)
        produce(log, ends, epoch=log.latest_epoch, from_coordinator=True)
    assert [len(segment.transactions) > 50 for segment in log.segments] == [True, True, True]
    world[1].logs.close({T_0: log.log_end_offset})
    world.restart(1)
    world.lead(1, isr=(1,), replicas=(1,))
    world.produce(1, records=build_batch([NewRecord(None, b"last", 1)]))
    world.settle()
    world.works = False
    world[1].told.clear()
    yield world
    assert world[1].told == [], "nothing is left to be done, or said"


def log_of(world: World) -> Any:
    return world[1].partition().log


def index(world: World) -> Path:
    return world[1].path / "t-0" / file_name(0, TRANSACTION_INDEX_SUFFIX)


def consume(world: World, offset: int) -> Pending:
    pending = world.consume(1, offset, max_wait_ms=20_000, max_bytes=500, isolation_level=READ_COMMITTED)
    world.settle()
    return pending


def aborts(pending: Pending) -> list[tuple[int, int]]:
    row = rows(pending)[T_0]
    assert row.error_code == ErrorCode.NONE and row.records
    return [(one.producer_id, one.first_offset) for one in row.aborted_transactions]


DAMAGES: dict[str, Callable[[Path], object]] = {
    "removed": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "thinned": lambda path: path.write_bytes(path.read_bytes()[:-340]),
    "zeros": lambda path: path.write_bytes(bytes(len(path.read_bytes()))),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_reader_waits_for_the_thread_and_is_told_of_every_abort(world: World, damage: str) -> None:
    path = index(world)
    content = path.read_bytes()
    DAMAGES[damage](path)

    pending = consume(world, 100)
    assert not pending.is_answered
    behind = log_of(world).segments[1].base_offset
    assert aborts(consume(world, behind + 20)), "other segments are read meanwhile"
    assert work(world) > 2

    told_of = aborts(pending)
    assert (7, 100) in told_of or (7, 102) in told_of
    assert told_of == aborts(consume(world, 100))
    assert is_said(world)
    assert path.read_bytes() == content


def test_a_cut_is_refused_until_the_thread_has_built_the_index(world: World) -> None:
    index(world).unlink()
    log = log_of(world)
    everything = log.log_end_offset
    with pytest.raises(IndexPending):
        log.truncate_to(200, world.now_ms)
    assert log.log_end_offset == everything and log.failure is None
    world.settle()
    work(world)

    log.truncate_to(200, world.now_ms)

    assert is_said(world)
    assert [one.last_offset for one in log.aborted_transactions(0, EVERYTHING)] == [
        offset for offset in range(1, 200, 2) if offset % 14 != 1
    ]


def test_a_long_index_that_is_right_is_read_by_the_thread_and_nothing_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "MOST_READ_AT_ONCE", 20)
    pending = consume(world, 100)
    assert not pending.is_answered
    assert work(world) == 1
    assert aborts(pending)
    assert aborts(consume(world, 100)) == aborts(pending)


def test_what_was_learnt_of_a_segment_that_is_cut_meanwhile_is_thrown_away(world: World) -> None:
    path = index(world)
    path.unlink()
    log = log_of(world)
    pending = consume(world, 100)
    (one,) = told(world, fx.RunAside)
    rebuild: Any = one.work
    assert isinstance(rebuild, Rebuild)
    while not rebuild.is_over:
        assert rebuild.run() is True

    log.truncate_fully_and_start_at(100, world.now_ms)
    world[1].broker.answered(one.request_id, True, world.now_ms)
    world.settle()

    assert not path.exists()
    assert [name for name in log.directory.names() if "rebuilt" in name] == []
    assert pending.is_answered is False
    assert is_said(world)
    world.advance(20_000)


def test_what_a_woken_reader_finds_missing_is_asked_of_the_thread_in_that_turn(world: World) -> None:
    """The one index is built, its readers look, and the other is missing too. Nobody else may have anything to say for long."""
    index(world).unlink()
    (world[1].path / "t-0" / file_name(0, INDEX_SUFFIX)).unlink()
    pending = consume(world, 100)
    broker = world[1].broker
    (one,) = told(world, fx.RunAside)

    while not pending.is_answered:
        broker.answered(one.request_id, one.work.run(), world.now_ms)
        turn = broker.take_effects()
        world[1].told += [effect for effect in turn if isinstance(effect, fx.LogLine)]
        one = next((effect for effect in turn if isinstance(effect, fx.RunAside)), None)
        assert pending.is_answered or one is not None, "it waits for a turn that nobody has a reason for"

    assert aborts(pending)
    assert is_said(world)
