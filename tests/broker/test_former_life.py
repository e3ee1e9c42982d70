"""A broker that was restarted, and a controller that does not know it yet."""

from pathlib import Path

import pytest

from odradek.broker.effects import RegisterAgain
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages import stop_replica as sr
from tests.broker.world import World

T0 = TopicPartition("t", 0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def unregistered(world: World) -> None:
    world[1].broker.broker_epoch = None


def test_a_request_of_a_controller_waits_until_the_broker_knows_its_own_epoch(world: World) -> None:
    world.lead(1, isr=(1,), replicas=(1,), epoch=5)
    world.produce(1, b"a")
    node = world[1]
    former = node.epoch
    unregistered(world)
    delete = sr.StopReplicaRequest(
        controller_epoch=world.controller_epoch,
        broker_epoch=former,
        topic_states=[
            sr.StopReplicaTopicState(
                topic_name="t",
                partition_states=[
                    sr.StopReplicaPartitionState(partition_index=0, leader_epoch=-1, delete_partition=True)
                ],
            )
        ],
    )
    late = world.send(1, delete, 4)
    world.leadership[T0]["leader_epoch"] += 1
    early = world.send(1, world.leader_and_isr(T0, broker_epoch=former + 5), 7)
    assert not late.is_answered and not early.is_answered
    assert node.broker.replicas.partitions[T0].leader_epoch == 5
    node.broker.registered(former + 5, world.now_ms)
    assert late.message.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert early.message.error_code == ErrorCode.NONE
    assert node.broker.replicas.partitions[T0].leader_epoch == 6
    assert node.values() == [b"a"]


def test_of_a_controller_that_tries_again_and_again_only_what_it_waits_for_is_kept(world: World) -> None:
    """Its connections end while we wait for the store; a request may be of many megabytes."""
    world.lead(1, isr=(1,), replicas=(1,))
    unregistered(world)
    broker = world[1].broker
    for _ in range(5):
        for held in broker.control_gate.held:
            held.place.abandon()
        waiting = world.send(1, world.leader_and_isr(T0, broker_epoch=world[1].epoch), 7)
    assert len(broker.control_gate.held) == 1
    broker.registered(world[1].epoch, world.now_ms)
    assert waiting.is_answered and broker.control_gate.held == []


def test_a_new_process_does_not_lead_in_an_epoch_its_log_knows_and_registers_again(world: World) -> None:
    world.lead(1, isr=(1,), replicas=(1,), epoch=5)
    world.produce(1, b"a")
    replicas = world[1].broker.replicas
    # What a restart leaves: the log on the disk, nobody who leads it.
    replicas._forget(replicas.partitions[T0])
    world[1].broker.take_effects()
    assert world.tell_leader(1, T0) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert T0 not in replicas.partitions
    (again,) = [e for e in world[1].broker.take_effects() if isinstance(e, RegisterAgain)]
    assert "t-0" in again.reason
    world.leadership[T0]["leader_epoch"] = 6  # the controller has seen a restarted broker
    assert world.tell_leader(1, T0) == ErrorCode.NONE
    assert world[1].partition().is_leader


def test_a_few_of_them_are_named(world: World) -> None:
    replicas = world[1].broker.replicas
    reasons = []
    for count in range(5):
        replicas.refuse_to_lead([TopicPartition("t", index) for index in range(count)])
        reasons += [e.reason for e in world[1].broker.take_effects() if isinstance(e, RegisterAgain)]
    assert [reason.removeprefix("told to lead ").split(" in an epoch")[0] for reason in reasons] == [
        "t-0",
        "t-0, t-1",
        "t-0, t-1, t-2",
        "t-0, t-1, t-2 ...",
    ]


def test_it_follows_in_such_an_epoch_as_before(world: World) -> None:
    world.lead(1, isr=(1,), replicas=(1, 2), epoch=5)
    replicas = world[1].broker.replicas
    replicas._forget(replicas.partitions[T0])
    world.leadership[T0]["leader"] = 2
    assert world.tell_leader(1, T0) == ErrorCode.NONE
    assert not [e for e in world[1].broker.take_effects() if isinstance(e, RegisterAgain)]
