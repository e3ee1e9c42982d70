"""A broker asks to leave in order."""

import pytest

from odradek.controller.broker_requests import LeaderAndIsrRequest
from odradek.controller.states import ReplicaState
from odradek.model.controller_requests import ControlledShutdownAnswer
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId
from tests.controller.world import (
    World,
    answer_of,
    failures,
    lai,
    lai_brokers,
    metadata,
    moves,
    stops,
    three,
    tp,
)


@pytest.mark.behaviour(38, 50, 91, 123)
def test_partitions_it_leads_move_to_one_that_stays_and_it_hears_of_it() -> None:
    world = three("cs", [2, 3, 1])
    effects = world.shut_down(2)
    assert moves(effects) == [("cs-0", "Online", "Online")]
    assert world.leader("cs-0") == (3, (3, 1), 1)
    assert lai_brokers(effects) == [1, 2, 3]
    assert lai(effects, 2)[0].leader == 3
    assert world.replica_state("cs-0", 2) is ReplicaState.ONLINE, "golden 06: it follows until it is gone"


@pytest.mark.behaviour(85, 124, 125)
def test_partitions_it_follows_lose_it_from_the_isr_and_it_is_stopped_without_deletion() -> None:
    world = three("cs", [1, 2, 3])
    effects = world.shut_down(2)
    assert moves(effects) == [("cs-0/2", "Online", "Offline")]
    assert world.leader("cs-0") == (1, (1, 3), 1)
    (stop,) = stops(effects)
    assert (stop.broker, [(p.topic_partition, p.delete) for p in stop.partitions]) == (
        2,
        [(tp("cs-0"), False)],
    )
    assert lai_brokers(effects) == [1, 3]
    assert metadata(effects)[0].partitions[0].offline_replicas == (2,)


@pytest.mark.behaviour(160)
def test_a_shutdown_that_moved_everything_has_nothing_remaining() -> None:
    world = three("cs", [2, 3, 1], [1, 2, 3])
    answer = answer_of(world.shut_down(2))
    assert answer == ControlledShutdownAnswer(ErrorCode.NONE, (), ())
    assert BrokerId(2) in world.context.shutting_down_brokers


@pytest.mark.behaviour(160)
def test_a_partition_that_cannot_move_is_returned_as_remaining() -> None:
    world = three("cs", [2, 3])
    world.alter("cs-0", [2])
    effects = world.shut_down(2)
    answer = answer_of(effects)
    assert answer == ControlledShutdownAnswer(ErrorCode.NONE, (tp("cs-0"),), ())
    assert world.leader("cs-0") == (2, (2,), 0), "it leads on"
    assert world.writes() == []
    assert [f.target for f in failures(effects)] == ["cs-0"]


@pytest.mark.behaviour(160)
def test_a_retry_after_a_replica_caught_up_finds_nothing_remaining() -> None:
    world = three("cs", [2, 3])
    world.alter("cs-0", [2])
    world.shut_down(2)
    world.alter("cs-0", [2, 3], sender=2)  # refused: 2 is leaving, it may not be in a new ISR
    assert world.leader("cs-0") == (2, (2,), 0)


@pytest.mark.behaviour(51, 126)
def test_an_only_replica_is_not_on_the_wire_and_not_silent() -> None:
    world = three("s3", [2], [1])
    effects = world.shut_down(2)
    assert answer_of(effects) == ControlledShutdownAnswer(ErrorCode.NONE, (), (tp("s3-0"),))
    (warning,) = [c for c in effects.changes if c.kind == "warning"]
    assert warning.target == "s3-0"
    assert "broker 2 holds the only replica: the partition goes offline when it stops" in warning.reason
    assert world.leader("s3-0") == (2, (2,), 0), "golden 02b: the leader stays until the session ends"
    world.kill(2)
    assert world.leader("s3-0") == (-1, (2,), 1)


@pytest.mark.behaviour(50)
def test_two_brokers_that_leave_one_after_the_other_do_not_elect_each_other() -> None:
    world = three("cs", [2, 3, 1])
    world.shut_down(2)
    world.shut_down(3)
    assert world.leader("cs-0") == (1, (1,), 2)


@pytest.mark.behaviour(123, 155)
def test_the_end_of_a_shut_down_broker_writes_nothing_more() -> None:
    world = three("cs", [2, 3, 1], [1, 2, 3])
    world.shut_down(2)
    effects = world.kill(2)
    assert world.writes() == []
    assert not [r for r in effects.requests if isinstance(r, LeaderAndIsrRequest)], "nothing new to lead by"
    assert [len(m.partitions) for m in metadata(effects)] == [2, 2]
    assert BrokerId(2) not in world.context.shutting_down_brokers


def test_a_broker_that_shut_down_and_returns_is_welcome_again() -> None:
    world = three("cs", [2, 3, 1])
    world.shut_down(2)
    world.kill(2)
    world.start(2)
    world.alter("cs-0", [3, 1, 2])
    assert world.leader("cs-0") == (3, (3, 1, 2), 1)


@pytest.mark.behaviour(160)
def test_an_earlier_incarnation_cannot_shut_down_a_later_one() -> None:
    world = three("cs", [2, 3, 1])
    old = world.registrations[2].epoch
    world.bounce(2)
    effects = world.shut_down(2, epoch=old)
    assert answer_of(effects) == ControlledShutdownAnswer(ErrorCode.STALE_BROKER_EPOCH)
    assert BrokerId(2) not in world.context.shutting_down_brokers
    assert effects.requests == ()


def test_versions_without_an_epoch_are_believed() -> None:
    world = three("cs", [2, 3, 1])
    assert answer_of(world.shut_down(2, epoch=-1)) == ControlledShutdownAnswer(ErrorCode.NONE, (), ())


def test_a_broker_that_is_not_registered_is_refused() -> None:
    world = three()
    effects = world.shut_down(9)
    assert answer_of(effects) == ControlledShutdownAnswer(ErrorCode.BROKER_NOT_AVAILABLE)


@pytest.mark.behaviour(160)
def test_who_is_not_controller_says_so() -> None:
    world = World().brokers(1)
    assert answer_of(world.shut_down(1)) == ControlledShutdownAnswer(ErrorCode.NOT_CONTROLLER)
