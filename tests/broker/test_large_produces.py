"""A Produce that names very many partitions that are not here: its rows are made in slices."""

from pathlib import Path

import pytest

from odradek.broker.answers import CloseConnection
from odradek.broker.handlers import produce
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages import produce as pm
from tests.broker.world import Pending, World, batch

COUNT = 30
AT_ONCE = 10
HERE = (3, COUNT - 1)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Two of so many partitions are led here, and broker 2, which follows, is not reached."""
    monkeypatch.setattr(produce, "MOST_REFUSED_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(produce, "OF_A_STEP", 4)
    world = World(tmp_path, brokers=(1, 2))
    for index in HERE:
        world.lead(1, index=index, isr=(1, 2), replicas=(1, 2), is_new=True)
    world.settle()
    return world


def sent(world: World, acks: int, timeout_ms: int = 1_000, version: int = 10) -> Pending:
    rows = [pm.PartitionProduceData(index=index, records=batch(b"%d" % index)) for index in range(COUNT)]
    topics = [pm.TopicProduceData(name="t", partition_data=rows)]
    request = pm.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)
    return world.send(1, request, version)


def told(pending: Pending) -> list[tuple[int, int]]:
    (topic,) = pending.message.responses
    return [(row.index, row.error_code) for row in topic.partition_responses]


def expected(error_here: ErrorCode) -> list[tuple[int, int]]:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [(index, error_here if index in HERE else unknown) for index in range(COUNT)]


@pytest.mark.parametrize("version", [3, 9, 10, 12])
@pytest.mark.parametrize("acks", [1, -1])
def test_every_partition_has_its_row(world: World, acks: int, version: int) -> None:
    pending = sent(world, acks, version=version)
    slices = 1
    assert not pending.is_answered
    while world[1].broker.go_on(world.now_ms):
        slices += 1
    world.settle()
    assert slices == 5
    assert told(pending) == expected(ErrorCode.NONE)
    assert world[1].values(index=3) == [b"3"]


def test_the_rows_are_made_though_the_time_of_the_others_is_over(world: World) -> None:
    world.cut.add((2, 1))
    pending = sent(world, -1, timeout_ms=0)
    world[1].broker.tick(world.now_ms + 10)
    assert not pending.is_answered
    world.settle()
    assert told(pending) == expected(ErrorCode.REQUEST_TIMED_OUT)


def test_who_wants_no_answer_loses_the_connection(world: World) -> None:
    pending = sent(world, 0)
    world.settle()
    assert isinstance(pending.result, CloseConnection)
    assert world[1].values(index=3) == [b"3"]


def test_nothing_is_made_for_a_connection_that_is_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pending = sent(world, 1)
    monkeypatch.setattr(produce, "_refused", lambda *given: pytest.fail("a row for nobody"))
    work = world[1].broker.slices._work[0]
    wait = work.__self__  # type: ignore[attr-defined]
    wait.park.abandon()
    world.settle()
    assert not pending.is_answered


@pytest.mark.parametrize("acks", [1, -1])
def test_a_mistake_in_a_slice_closes_the_connection_once_the_others_are_settled(
    world: World, monkeypatch: pytest.MonkeyPatch, acks: int
) -> None:
    world.cut.add((2, 1))
    pending = sent(world, acks, timeout_ms=50)
    monkeypatch.setattr(produce, "_refused", lambda *given: 1 // 0)
    while world[1].broker.go_on(world.now_ms):
        pass
    assert pending.is_answered is (acks == 1), "the others may still be committed"
    monkeypatch.undo()
    world.cut.clear()
    world.settle()
    assert isinstance(pending.result, CloseConnection)
    assert isinstance(pending.result.error, ZeroDivisionError)
    assert world[1].values(index=3) == [b"3"]
