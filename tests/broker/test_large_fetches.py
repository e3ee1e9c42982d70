"""A Fetch of very many partitions is taken in and looked at in slices; what changes between two of them is told."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from odradek.broker import large_fetches
from odradek.broker.answers import CloseConnection
from odradek.broker.handlers import fetch
from odradek.broker.handlers.fetch import FetchWait
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages import produce as pm
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.fetched import rows, values
from tests.broker.test_fetch import Reader
from tests.broker.world import TOPIC_ID, Pending, World, batch

COUNT = 40
A_STEP = 5


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """One broker leads forty partitions with a record each."""
    world = World(tmp_path, brokers=(1,))
    for index in range(COUNT):
        world.lead(1, index=index, isr=(1,), replicas=(1,), is_new=True, settle=False)
        world.produce(1, b"%d" % index, index=index)
    world.settle()
    monkeypatch.setattr(large_fetches, "OF_A_STEP", A_STEP)
    monkeypatch.setattr(large_fetches, "MOST_AT_ONCE", 2 * A_STEP)
    monkeypatch.setattr(fetch, "MOST_AT_ONCE", 2 * A_STEP)
    return world


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many partitions each look was about."""
    most: list[int] = []
    look_at = FetchWait.look_at

    def looking(wait: FetchWait, some: Sequence[Any], *given: Any) -> None:
        most.append(len(some))
        look_at(wait, some, *given)

    monkeypatch.setattr(FetchWait, "look_at", looking)
    return most


def wanted(offset: int = 0) -> list[tuple[bytes, int, int]]:
    return [(TOPIC_ID, index, offset) for index in range(COUNT)]


def begun(world: World, steps: int, **options: Any) -> tuple[Reader, Pending]:
    """A reader that wants all of them, after so many slices."""
    reader = Reader(world, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "LARGE_BYTES", 0)
        pending = reader.fetch(*wanted(options.pop("offset", 0)))
    for _ in range(steps):
        assert world[1].broker.go_on(world.now_ms)
        assert not pending.is_answered
    return reader, pending


def brought(pending: Pending) -> dict[int, list[bytes]]:
    return {place[1]: values(row) for place, row in rows(pending).items()}


EVERYTHING = {index: [b"%d" % index] for index in range(COUNT)}
# The first slices take in what it names.
TAKEN_IN = COUNT


@pytest.mark.parametrize("session_epoch", [0, -1])
def test_all_are_told_and_no_turn_looks_at_many(world: World, most: list[int], session_epoch: int) -> None:
    reader = Reader(world)
    reader.session_epoch = session_epoch
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "LARGE_BYTES", 0)
        pending = reader.fetch(*wanted())
        assert not pending.is_answered
        world.settle()

    assert brought(pending) == EVERYTHING
    assert sum(most) == COUNT and max(most) == A_STEP


@pytest.mark.parametrize("version", FetchRequest.VERSIONS)
def test_more_than_are_looked_at_in_a_turn_are_known_by_their_bytes(
    world: World, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.undo()
    partitions = [FetchPartition(partition=index) for index in range(fetch.MOST_AT_ONCE + 1)]
    request = FetchRequest(topics=[FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=partitions)])
    pending = world.send(1, request, version)
    assert not pending.is_answered
    world.settle()
    assert len(rows(pending)) == fetch.MOST_AT_ONCE + 1


def test_a_session_of_many_is_looked_at_in_slices_though_a_fetch_names_none(
    world: World, most: list[int]
) -> None:
    reader, pending = begun(world, 0)
    world.settle()
    reader.note(pending)
    for index in range(COUNT):
        world.produce(1, b"again", index=index)
    most.clear()

    following = reader.fetch()
    world.settle()

    assert brought(following) == {index: [b"%d" % index, b"again"] for index in range(COUNT)}
    assert max(most) == A_STEP
    assert brought_by_nothing(reader.note(following), reader, world) == set(range(COUNT)), "nobody moved on"


def brought_by_nothing(_: Pending, reader: Reader, world: World) -> set[int]:
    pending = reader.fetch()
    world.settle()
    return set(brought(pending))


def test_what_comes_behind_the_look_is_told_by_the_next_fetch(world: World) -> None:
    reader, pending = begun(world, TAKEN_IN + 4)
    world.produce(1, b"late", index=0)
    world.produce(1, b"soon", index=COUNT - 1)
    world.settle()

    assert brought(pending) == EVERYTHING | {COUNT - 1: [b"%d" % (COUNT - 1), b"soon"]}
    reader.note(pending)
    following = reader.fetch(*((TOPIC_ID, index, 1 + (index == COUNT - 1)) for index in range(COUNT)))
    world.settle()
    assert brought(following) == {0: [b"late"]}


def test_it_waits_and_is_answered_by_what_comes(world: World) -> None:
    reader, pending = begun(world, TAKEN_IN + 4, max_wait_ms=20_000, min_bytes=1 << 20)
    world.settle()
    assert not pending.is_answered
    world.advance(19_000)
    assert not pending.is_answered
    world.advance(2_000)
    world.settle()
    assert brought(pending) == EVERYTHING
    reader.note(pending)
    waiting = reader.fetch(*wanted(1), min_bytes=1)
    world.settle()
    assert not waiting.is_answered
    world.produce(1, b"news", index=7)
    world.settle()
    assert brought(waiting) == {7: [b"news"]}


def test_a_fetch_behind_it_is_answered_with_what_was_not_looked_at(world: World) -> None:
    reader, first = begun(world, 0)
    world.settle()
    reader.note(first)
    for index in range(COUNT):
        world.produce(1, b"again", index=index)
    second = reader.fetch(*wanted(1))
    for _ in range(COUNT + 3):
        assert world[1].broker.go_on(world.now_ms)
    assert not second.is_answered
    reader.session_epoch += 1

    third = reader.fetch()

    some = brought(second)
    assert 0 < len(some) < COUNT and set(map(tuple, some.values())) == {(b"again",)}
    world.settle()
    assert set(brought(third)) == set(range(COUNT))


def test_what_a_reader_says_is_taken_in_though_it_asks_again_at_once(world: World) -> None:
    reader, first = begun(world, 0)
    world.settle()
    reader.note(first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "LARGE_BYTES", 0)
        reader.fetch(*wanted(1), forget=[(TOPIC_ID, 3)])
    reader.session_epoch += 1
    for index in range(COUNT):
        world.produce(1, b"again", index=index)

    third = reader.fetch()
    world.settle()

    assert brought(third) == {index: [b"again"] for index in range(COUNT) if index != 3}


def test_what_a_reader_said_is_taken_in_though_its_connection_has_closed(world: World) -> None:
    reader, first = begun(world, 0)
    world.settle()
    reader.note(first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "LARGE_BYTES", 0)
        reader.fetch(*wanted(1), forget=[(TOPIC_ID, 3)])
    reader.session_epoch += 1
    world[1].broker.connection_closed(reader.connection, world.now_ms)
    reader.connection = world.connection()
    for index in range(COUNT):
        world.produce(1, b"again", index=index)

    third = reader.fetch()
    world.settle()

    assert brought(third) == {index: [b"again"] for index in range(COUNT) if index != 3}


def test_nothing_goes_on_for_a_connection_that_closes(world: World, most: list[int]) -> None:
    reader, pending = begun(world, TAKEN_IN + 4)
    world[1].broker.connection_closed(reader.connection, world.now_ms)
    looked = len(most)
    world.settle()
    assert not pending.is_answered and len(most) == looked


def test_a_mistake_in_a_slice_closes_the_connection(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _, pending = begun(world, TAKEN_IN + 1)
    monkeypatch.setattr(FetchWait, "look_at", lambda *given: 1 // 0)
    world.settle()
    assert isinstance(pending.result, CloseConnection)
    assert isinstance(pending.result.error, ZeroDivisionError)


def test_what_comes_behind_a_look_that_found_nothing_is_told_though_nobody_names_it_again(
    world: World,
) -> None:
    reader = Reader(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "LARGE_BYTES", 0)
        pending = reader.fetch(*wanted(1))
    for _ in range(TAKEN_IN + 4):
        assert world[1].broker.go_on(world.now_ms)
    world.produce(1, b"late", index=0)
    world.settle()
    assert brought(pending) == {index: [] for index in range(COUNT)}
    reader.note(pending)

    following = reader.fetch()
    world.settle()

    assert brought(following) == {0: [b"late"]}


def test_what_comes_behind_the_look_ends_the_wait(world: World) -> None:
    reader, first = begun(world, 0)
    world.settle()
    reader.note(first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetch, "LARGE_BYTES", 0)
        waiting = reader.fetch(*wanted(1), max_wait_ms=20_000)
    for _ in range(TAKEN_IN + 4):
        assert world[1].broker.go_on(world.now_ms)
    world.produce(1, b"late", index=0)
    world.settle()
    assert brought(waiting) == {0: [b"late"]}


def test_many_that_a_throttle_holds_back_while_it_waits_are_looked_at_when_the_rate_allows_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in range(COUNT):
        world.lead(1, index=index, isr=(1, 3), replicas=(1, 2, 3), settle=False)
    world.settle()
    world[1].broker.topic_config_changed("t", {"leader.replication.throttled.replicas": "*"}, world.now_ms)
    world[1].broker.broker_config_changed(
        "<default>", {"leader.replication.throttled.rate": "20000"}, world.now_ms
    )
    world.settle()
    reader = Reader(world, replica_id=2, max_wait_ms=60_000)
    assert reader.fetch(*wanted(1), version=14).is_answered
    monkeypatch.setattr(fetch, "LARGE_BYTES", 0)
    waiting = reader.fetch(*wanted(1), version=14)
    world.settle()
    throttle = world[1].broker.replicas.leader_throttle
    throttle.record(40_000, world.now_ms)
    several = [pm.PartitionProduceData(index=index, records=batch(b"x")) for index in range(COUNT)]
    request = pm.ProduceRequest(acks=1, topic_data=[pm.TopicProduceData(name="t", partition_data=several)])

    assert not waiting.is_answered
    world.send(1, request, 9)
    world.settle()
    assert not waiting.is_answered, "they are held back"
    world.advance(throttle.free_at_ms(world.now_ms) - world.now_ms + 4)
    world.settle()

    assert waiting.is_answered


def test_a_session_that_has_no_reason_for_so_many_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world[1].broker.row_limits, "has_reason", lambda count: False)
    _, pending = begun(world, 0)
    world.settle()
    assert pending.message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(world[1].broker.fetch_sessions) == 0
