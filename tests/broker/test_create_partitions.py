"""CreatePartitions: where the new ones go, and what is refused."""

import pytest

from odradek.broker import effects as fx
from odradek.broker.topic_creation import MOST_TOPICS
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages import create_partitions as cp
from tests.broker.topics import grow
from tests.broker.world import World, told


def test_create_partitions_goes_on_where_the_topic_began(world: World) -> None:
    world.lead(2, isr=(2, 3), replicas=(2, 3))
    asked = grow(world, 4)
    (effect,) = told(world, fx.StoreRequest)
    assert effect.question == fx.AddPartitions("t", {1: (3, 2), 2: (1, 3), 3: (2, 3)})
    world[1].broker.answered(effect.request_id, fx.TopicsWritten({"t": (ErrorCode.NONE, "")}), world.now_ms)
    for index in (1, 2, 3):
        world.settle()
        assert not asked.is_answered
        world.lead(1, index=index, isr=(1,), replicas=(1,))
    row = asked.message.results[0]
    assert (row.error_code, row.error_message) == (0, None)


@pytest.mark.parametrize(
    ("count", "assignments", "error"),
    [
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (0, None, ErrorCode.INVALID_PARTITIONS),
        (1_000_000, None, ErrorCode.INVALID_PARTITIONS),
        (3, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (2, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(
    world: World, count: int, assignments: list[list[int]] | None, error: ErrorCode
) -> None:
    rows = None
    if assignments is not None:
        rows = [cp.CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    row = grow(world, count, rows).message.results[0]
    assert row.error_code == error
    assert row.error_message
    assert told(world, fx.StoreRequest) == []


def test_partitions_are_added_only_to_topics_there_are(world: World) -> None:
    assert grow(world, 3, name="none").message.results[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_partitions_of_one_request_are_bounded_however_many_topics_they_are_in(world: World) -> None:
    for number in range(2, 5):
        world.lead(
            1, isr=(1,), replicas=(1,), topic=f"t{number}", topic_id=bytes([number + 100] * 16), settle=False
        )
    rows = [cp.CreatePartitionsTopic(name=f"t{n}", count=6_000, assignments=None) for n in range(2, 5)]
    pending = world.send(1, cp.CreatePartitionsRequest(topics=rows, timeout_ms=0), 3)
    (request,) = told(world, fx.StoreRequest)
    assert request.question.topic == "t2"
    world[1].broker.answered(request.request_id, fx.TopicsWritten({"t2": (ErrorCode.NONE, "")}), world.now_ms)
    assert [(r.name, r.error_code) for r in pending.message.results] == [
        ("t2", ErrorCode.REQUEST_TIMED_OUT),
        ("t3", ErrorCode.POLICY_VIOLATION),
        ("t4", ErrorCode.POLICY_VIOLATION),
    ]


def test_validated_growth_is_not_written(world: World) -> None:
    assert grow(world, 4, validate_only=True).message.results[0].error_code == 0
    assert grow(world, 1, validate_only=True).message.results[0].error_code == ErrorCode.INVALID_PARTITIONS
    assert told(world, fx.StoreRequest) == []


def test_partitions_without_a_leader_in_time_are_added_and_the_time_is_out(world: World) -> None:
    asked = grow(world, 2)
    (effect,) = told(world, fx.StoreRequest)
    world[1].broker.answered(effect.request_id, fx.TopicsWritten({"t": (ErrorCode.NONE, "")}), world.now_ms)
    world.advance(4_900)
    assert not asked.is_answered
    world.advance(200)
    row = asked.message.results[0]
    assert (row.error_code, row.error_message) == (
        ErrorCode.REQUEST_TIMED_OUT,
        "The partitions were added; not all of them have a leader yet.",
    )


@pytest.mark.parametrize("is_controller", [True, False])
def test_so_many_topics_are_not_grown_at_once_and_a_thread_says_so(world: World, is_controller: bool) -> None:
    world[1].broker.controller_status(is_controller, 1, world.now_ms)
    rows = [cp.CreatePartitionsTopic(name=f"n{n}", count=2) for n in range(MOST_TOPICS + 1)]
    world.works = False
    asked = world.send(1, cp.CreatePartitionsRequest(topics=rows, timeout_ms=0), 3)
    assert not asked.is_answered
    (aside,) = told(world, fx.RunAside)
    world[1].broker.answered(aside.request_id, aside.work.run(), world.now_ms)
    error = ErrorCode.POLICY_VIOLATION if is_controller else ErrorCode.NOT_CONTROLLER
    assert {row.error_code for row in asked.message.results} == {error}
    assert len(asked.message.results) == MOST_TOPICS + 1
