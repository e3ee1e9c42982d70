"""Control requests that come late within one term: what was obeyed since counts."""

from pathlib import Path
from typing import Any

import pytest

from odradek.broker.answers import CloseConnection
from odradek.broker.control_order import ControlOrder
from odradek.model.error_codes import ErrorCode
from odradek.protocol.headers import encode_request
from odradek.protocol.messages import leader_and_isr as lai
from odradek.protocol.messages import stop_replica as sr
from odradek.protocol.messages import update_metadata as um
from tests.broker.world import T0, TOPIC_ID, Pending, World, live_broker

EPOCH = 100


def asked(order: ControlOrder, number: int, *, term: int = 1, life: int = EPOCH, who: int = 1) -> bool:
    """Whether it is obeyed."""
    late = order.why_late(controller_id=who, controller_epoch=term, broker_epoch=life, correlation_id=number)
    return late is None


def test_numbers_rise_within_a_term_and_a_life() -> None:
    order = ControlOrder()
    assert [asked(order, n) for n in (0, 1, 5, 5, 4, 0, 6)] == [True, True, True, False, False, False, True]


def test_a_new_term_and_a_new_life_begin_with_numbers_of_their_own() -> None:
    order = ControlOrder()
    assert asked(order, 50)
    assert asked(order, 0, life=EPOCH + 1)
    assert asked(order, 7, life=EPOCH + 1)
    assert asked(order, 0, term=2, life=EPOCH + 1)
    assert not asked(order, 0, term=2, life=EPOCH + 1)


def test_what_was_written_to_a_former_life_is_late() -> None:
    order = ControlOrder()
    assert asked(order, 50) and asked(order, 0, life=EPOCH + 1)
    assert not asked(order, 51)
    assert asked(order, 1, life=EPOCH + 1)


def test_without_a_broker_epoch_nothing_is_judged_and_nothing_remembered() -> None:
    order = ControlOrder()
    assert all(asked(order, number, life=-1) for number in (5, 5, 3))
    assert asked(order, 4)
    assert asked(order, 90, life=-1) and asked(order, 5)


def test_another_controller_of_the_same_epoch_has_numbers_of_its_own() -> None:
    """There is none, by the fence of the election; if there is, it is not for us to choose."""
    order = ControlOrder()
    assert asked(order, 50) and asked(order, 3, who=2)


@pytest.mark.parametrize(
    ("before", "after"),
    [(0x7FFFFFFF, -0x80000000), (0x7FFFFFF7, -0x80000000), (-1, 0), (0x7FFFFFFF, -0x7FFFFFF0)],
)
def test_the_numbers_go_round(before: int, after: int) -> None:
    """Apache leaves out the last eight, which are SASL's."""
    order = ControlOrder()
    assert asked(order, before) and asked(order, after)
    assert not asked(order, before)


# --------------------------------------------------------------------------------------------- by the handlers


def update_metadata(world: World, leader: int) -> um.UpdateMetadataRequest:
    partition = um.UpdateMetadataPartitionState(
        partition_index=0, controller_epoch=1, leader=leader, leader_epoch=0, isr=[1, 2], replicas=[1, 2]
    )
    return um.UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=world[1].broker.broker_epoch,
        topic_states=[
            um.UpdateMetadataTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[partition])
        ],
        live_brokers=[live_broker(1)],
    )


def stop(world: World) -> sr.StopReplicaRequest:
    partition = sr.StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
    return sr.StopReplicaRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=world[1].broker.broker_epoch,
        topic_states=[sr.StopReplicaTopicState(topic_name="t", partition_states=[partition])],
    )


def leader_and_isr(world: World, epoch: int = 0) -> lai.LeaderAndIsrRequest:
    partition = lai.LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=1,
        leader=1,
        leader_epoch=epoch,
        isr=[1],
        replicas=[1],
        is_new=True,
    )
    return lai.LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=world[1].broker.broker_epoch,
        topic_states=[
            lai.LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[partition])
        ],
    )


VERSIONS = {lai.LeaderAndIsrRequest: 7, sr.StopReplicaRequest: 4, um.UpdateMetadataRequest: 8}


def write(world: World, message: Any, number: int) -> Any:
    """What broker 1 answers to the request with this correlation id, on a connection of its own."""
    version = VERSIONS[type(message)]
    frame = encode_request(message.KEY, version, number, "1", message.encode(version))
    module = {4: lai.LeaderAndIsrResponse, 5: sr.StopReplicaResponse, 6: um.UpdateMetadataResponse}
    pending = world.send_frame(1, frame[4:], Pending(module[message.KEY], version), world.connection())
    world.settle()
    if isinstance(pending.result, CloseConnection):
        return pending.result.reason
    return ErrorCode(pending.message.error_code)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_late_update_metadata_does_not_bring_back_the_leader_of_yesterday(world: World) -> None:
    assert write(world, update_metadata(world, leader=1), 10) is ErrorCode.NONE
    assert write(world, update_metadata(world, leader=2), 11) is ErrorCode.NONE
    late = write(world, update_metadata(world, leader=1), 10)
    assert (
        late == "UpdateMetadata comes late: its correlation id 10 is not above 11, which was obeyed already"
    )
    known = world[1].broker.metadata.partition("t", 0)
    assert known is not None and known.leader == 2


def test_a_late_deletion_does_not_delete_what_was_made_again(world: World) -> None:
    assert write(world, leader_and_isr(world), 10) is ErrorCode.NONE
    assert write(world, stop(world), 11) is ErrorCode.NONE
    assert T0 not in world[1].broker.replicas.partitions
    assert write(world, leader_and_isr(world), 12) is ErrorCode.NONE
    assert "StopReplica comes late" in write(world, stop(world), 11)
    assert T0 in world[1].broker.replicas.partitions


def test_late_leadership_does_not_make_again_what_was_deleted(world: World) -> None:
    """A replica that was deleted remembers no leader epoch."""
    assert write(world, leader_and_isr(world, epoch=3), 10) is ErrorCode.NONE
    assert write(world, stop(world), 11) is ErrorCode.NONE
    assert "LeaderAndIsr comes late" in write(world, leader_and_isr(world, epoch=3), 10)
    assert T0 not in world[1].broker.replicas.partitions and not world[1].path.joinpath("t-0").exists()


def test_what_was_refused_by_its_epochs_counts_for_nothing(world: World) -> None:
    assert write(world, leader_and_isr(world), 10) is ErrorCode.NONE
    zombie = stop(world)
    zombie.controller_epoch = 0
    assert write(world, zombie, 90) is ErrorCode.STALE_CONTROLLER_EPOCH
    former = stop(world)
    former.broker_epoch -= 1
    assert write(world, former, 91) is ErrorCode.STALE_BROKER_EPOCH
    assert write(world, update_metadata(world, leader=1), 11) is ErrorCode.NONE


def test_requests_that_wait_for_our_registration_are_judged_when_they_are_obeyed(world: World) -> None:
    """In the order they came; the second of an older connection may stand behind the first of a newer one."""
    broker = world[1].broker
    ten, eleven = update_metadata(world, leader=1), update_metadata(world, leader=2)
    epoch, broker.broker_epoch = broker.broker_epoch, None
    sent = []
    for message, number in ((eleven, 11), (ten, 10)):
        frame = encode_request(message.KEY, 8, number, "1", message.encode(8))
        pending = Pending(um.UpdateMetadataResponse, 8)
        sent.append(world.send_frame(1, frame[4:], pending, world.connection()))
    assert not any(pending.is_answered for pending in sent)
    assert epoch is not None
    broker.registered(epoch, world.now_ms)
    assert [type(pending.result).__name__ for pending in sent] == ["Reply", "CloseConnection"]
    known = broker.metadata.partition("t", 0)
    assert known is not None and known.leader == 2
