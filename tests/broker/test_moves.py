"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments: what is asked of the controller, and when it
is answered. The controller is the test itself.
"""

from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.model.cluster import ReplicaAssignment
from odradek.model.controller_requests import (
    AlterReassignmentsAnswer,
    AlterReassignmentsAsked,
    ControllerAnswer,
    ElectLeadersAnswer,
    ElectLeadersAsked,
    ListReassignmentsAnswer,
    ListReassignmentsAsked,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, LeaderEpoch, TopicPartition
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.broker.world import Pending, World

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    world[1].broker.controller_status(True, 1, world.now_ms)
    return world


def asked(world: World, message: Any, version: int) -> tuple[Pending, fx.ControllerRequest]:
    pending = world.send(1, message, version)
    (request,) = [e for e in world[1].broker.take_effects() if isinstance(e, fx.ControllerRequest)]
    return pending, request


def answer(world: World, request: fx.ControllerRequest, body: ControllerAnswer) -> None:
    world[1].broker.answered(request.request_id, body, world.now_ms)


def elect(*indexes: int, timeout_ms: int = 1000, election_type: int = 0) -> ElectLeadersRequest:
    named = [TopicPartitions(topic="t", partitions=list(indexes))] if indexes else None
    return ElectLeadersRequest(election_type=election_type, topic_partitions=named, timeout_ms=timeout_ms)


def results(pending: Pending) -> dict[int, tuple[int, str | None]]:
    return {
        row.partition_id: (row.error_code, row.error_message)
        for topic in pending.message.replica_election_results
        for row in topic.partition_result
    }


@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_election_is_answered_when_this_broker_knows_of_it(world: World, version: int) -> None:
    pending, request = asked(world, elect(0, 1), version)
    assert request.ask == ElectLeadersAsked(False, (T0, T1))
    epoch = LeaderEpoch(world.leadership[T0]["leader_epoch"] + 1)
    failed = (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "not live")
    answer(
        world,
        request,
        ElectLeadersAnswer(ErrorCode.NONE, {T0: (ErrorCode.NONE, ""), T1: failed}, {T0: epoch}),
    )
    assert not pending.is_answered, "elected, and UpdateMetadata is still on its way"
    world.lead(1, isr=(1,), replicas=(1,))
    assert results(pending) == {0: (0, None), 1: (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "not live")}


def test_an_election_nobody_tells_of_is_timed_out_and_elected_all_the_same(world: World) -> None:
    pending, request = asked(world, elect(0, timeout_ms=300), 2)
    answer(
        world,
        request,
        ElectLeadersAnswer(ErrorCode.NONE, {T0: (ErrorCode.NONE, "")}, {T0: LeaderEpoch(9)}),
    )
    world.advance(250)
    assert not pending.is_answered
    world.advance(60)
    assert results(pending) == {0: (ErrorCode.REQUEST_TIMED_OUT, None)}


def test_a_controller_that_resigns_meanwhile_refuses_the_whole_and_every_partition(world: World) -> None:
    pending, request = asked(world, elect(0, 1), 2)
    answer(world, request, request.ask.refused(ErrorCode.NOT_CONTROLLER))
    assert pending.message.error_code == ErrorCode.NOT_CONTROLLER
    assert results(pending) == dict.fromkeys((0, 1), (ErrorCode.NOT_CONTROLLER, None))
    pending, request = asked(world, reassign(1000), 0)
    answer(world, request, request.ask.refused(ErrorCode.NOT_CONTROLLER))
    assert pending.message.error_code == ErrorCode.NOT_CONTROLLER
    assert pending.message.error_message == "This is not the correct controller for this cluster."


@pytest.mark.parametrize("election_type", [0, 1])
def test_all_partitions_and_either_kind(world: World, election_type: int) -> None:
    pending, request = asked(world, elect(election_type=election_type), 1)
    assert request.ask == ElectLeadersAsked(election_type == 1, None)
    answer(world, request, ElectLeadersAnswer(ErrorCode.NONE))
    assert (pending.message.error_code, results(pending)) == (ErrorCode.NONE, {})


def test_another_kind_of_election_does_not_exist(world: World) -> None:
    pending = world.send(1, elect(0, election_type=7), 2)
    assert pending.message.error_code == ErrorCode.INVALID_REQUEST
    assert results(pending) == {
        0: (ErrorCode.INVALID_REQUEST, "election type 7: expected 0 (preferred) or 1 (unclean)")
    }


def reassign(timeout_ms: int) -> AlterPartitionReassignmentsRequest:
    rows = [
        ReassignablePartition(partition_index=0, replicas=[2, 3]),
        ReassignablePartition(partition_index=1, replicas=None),
    ]
    return AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="t", partitions=rows)], timeout_ms=timeout_ms
    )


def test_null_replicas_cancel_and_every_partition_has_its_answer(world: World) -> None:
    pending, request = asked(world, reassign(1000), 0)
    assert request.ask == AlterReassignmentsAsked({T0: (2, 3), T1: None})
    refused = (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "none")
    answer(
        world,
        request,
        AlterReassignmentsAnswer(ErrorCode.NONE, "", {T1: refused, T0: (ErrorCode.NONE, "")}),
    )
    (topic,) = pending.message.responses
    assert [(p.partition_index, p.error_code, p.error_message) for p in topic.partitions] == [
        (0, 0, None),
        (1, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "none"),
    ]


def test_of_a_topic_that_cannot_be_the_controller_is_not_told(world: World) -> None:
    """Two kilobytes of a name went into the journal for each of four thousand partitions: 60 ms of a turn."""
    wish = reassign(1000)
    long = ReassignableTopic(
        name="n" * 250, partitions=[ReassignablePartition(partition_index=7, replicas=[2])]
    )
    wish.topics.append(long)
    pending, request = asked(world, wish, 0)
    assert request.ask == AlterReassignmentsAsked({T0: (2, 3), T1: None})
    answer(world, request, AlterReassignmentsAnswer(ErrorCode.NONE, "", {T0: (ErrorCode.NONE, "")}))
    told = {topic.name[:2]: topic.partitions[0] for topic in pending.message.responses}
    assert told["t"].error_code == 0
    row = told["nn"]
    assert (row.partition_index, row.error_code) == (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert row.error_message == "The partition does not exist."


def test_a_controller_that_waits_too_long_for_the_store_is_not_waited_for(world: World) -> None:
    pending, request = asked(world, reassign(300), 0)
    world.advance(310)
    assert pending.message.error_code == ErrorCode.REQUEST_TIMED_OUT
    answer(world, request, AlterReassignmentsAnswer(ErrorCode.NONE))  # later; nobody listens any more
    assert len(world[1].broker.purgatory) == 0


def test_without_a_time_out_the_answer_is_waited_for(world: World) -> None:
    pending, request = asked(world, reassign(0), 0)
    world.advance(120_000)
    assert not pending.is_answered
    answer(world, request, AlterReassignmentsAnswer(ErrorCode.NONE))
    assert pending.message.error_code == ErrorCode.NONE


def test_running_moves_are_listed_as_their_topic_nodes_have_them(world: World) -> None:
    topics = [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 1])]
    pending, request = asked(world, ListPartitionReassignmentsRequest(topics=topics), 0)
    assert request.ask == ListReassignmentsAsked((T0, T1))
    moving = ReplicaAssignment(*(tuple(map(BrokerId, ids)) for ids in ((3, 1, 2), (3,), (2,))))
    answer(world, request, ListReassignmentsAnswer(ErrorCode.NONE, {T0: moving}))
    ((row,),) = [topic.partitions for topic in pending.message.topics]
    assert (row.partition_index, row.replicas, row.adding_replicas, row.removing_replicas) == (
        0,
        [3, 1, 2],
        [3],
        [2],
    )


def test_null_lists_every_running_move(world: World) -> None:
    _, request = asked(world, ListPartitionReassignmentsRequest(topics=None), 0)
    assert request.ask == ListReassignmentsAsked(None)
