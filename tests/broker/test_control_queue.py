"""A LeaderAndIsr or StopReplica of many partitions is obeyed in slices, and nothing of a controller is obeyed in between."""

from pathlib import Path
from typing import Any

import pytest

from odradek.broker import control_queue
from odradek.broker.answers import CloseConnection
from odradek.broker.control_queue import AT_ONCE, NEW_LOG
from odradek.broker.effects import GoOn
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages import leader_and_isr as lai
from odradek.protocol.messages import stop_replica as sr
from odradek.protocol.messages import update_metadata as um
from tests.broker.world import TOPIC_ID, Pending, World, live_broker

MANY = 3 * AT_ONCE
NEW_AT_ONCE = AT_ONCE // NEW_LOG
STALE_CONTROLLER = ErrorCode.STALE_CONTROLLER_EPOCH


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, brokers=(1,))


def told(
    world: World,
    *,
    partitions: int = MANY,
    epoch: int = 0,
    term: int = 1,
    life: int | None = None,
    is_new: bool = True,
) -> lai.LeaderAndIsrRequest:
    """Broker 1 leads them all."""
    states = [
        lai.LeaderAndIsrPartitionState(
            partition_index=index,
            controller_epoch=term,
            leader=1,
            leader_epoch=epoch,
            isr=[1],
            replicas=[1],
            is_new=is_new,
        )
        for index in range(partitions)
    ]
    return lai.LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=term,
        broker_epoch=world[1].epoch if life is None else life,
        topic_states=[lai.LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=states)],
    )


def deletion(world: World, index: int, *, term: int = 1) -> sr.StopReplicaRequest:
    partition = sr.StopReplicaPartitionState(partition_index=index, leader_epoch=-2, delete_partition=True)
    return sr.StopReplicaRequest(
        controller_id=1,
        controller_epoch=term,
        broker_epoch=world[1].epoch,
        topic_states=[sr.StopReplicaTopicState(topic_name="t", partition_states=[partition])],
    )


def metadata(world: World, leader: int) -> um.UpdateMetadataRequest:
    partition = um.UpdateMetadataPartitionState(
        partition_index=0, controller_epoch=1, leader=leader, leader_epoch=0, isr=[1], replicas=[1]
    )
    return um.UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        broker_epoch=world[1].epoch,
        topic_states=[
            um.UpdateMetadataTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=[partition])
        ],
        live_brokers=[live_broker(1)],
    )


def hosted(world: World) -> int:
    return len(world[1].broker.replicas.partitions)


def slice_of(world: World) -> bool:
    return world[1].broker.go_on(world.now_ms)


def errors(pending: Pending) -> set[int]:
    return {row.error_code for topic in pending.message.topics for row in topic.partition_errors}


def test_what_fits_one_slice_is_answered_at_once(world: World) -> None:
    pending = world.send(1, told(world, partitions=NEW_AT_ONCE), 7)
    assert pending.is_answered and hosted(world) == NEW_AT_ONCE
    assert not any(isinstance(effect, GoOn) for effect in world[1].broker.take_effects())


def test_an_election_of_partitions_that_are_here_takes_larger_slices_than_new_ones(world: World) -> None:
    """A log is what takes long: directory and files are made."""
    world.send(1, told(world, partitions=AT_ONCE + 1), 7)
    world.settle()
    elected = told(world, partitions=AT_ONCE, epoch=1, is_new=False)
    assert world.send(1, elected, 7).is_answered
    more = world.send(1, told(world, partitions=AT_ONCE + 1, epoch=2, is_new=False), 7)
    assert not more.is_answered
    slice_of(world)
    assert {p.leader_epoch for p in world[1].broker.replicas.partitions.values()} == {2}
    slice_of(world)
    assert more.is_answered


def test_what_waits_is_read_when_its_turn_comes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large request is not taken apart twice, nor in the turn in which another one is obeyed."""
    world.send(1, told(world), 7)
    read: list[object] = []
    decode = um.UpdateMetadataRequest.decode
    monkeypatch.setattr(
        um.UpdateMetadataRequest, "decode", lambda *args, **more: read.append(args) or decode(*args, **more)
    )
    answer = world.send(1, metadata(world, 1), 8)
    assert not read
    world.settle()
    assert len(read) == 1 and answer.message.error_code == 0


def test_each_that_waits_is_taken_up_in_a_turn_of_its_own(world: World) -> None:
    """To read a request about a thousand partitions takes as long as a slice."""
    first = world.send(1, told(world), 7)
    second, third = world.send(1, metadata(world, 1), 8), world.send(1, metadata(world, 2), 8)
    while not first.is_answered:
        assert slice_of(world)
    assert not second.is_answered
    late = world.send(1, metadata(world, 3), 8)
    assert not late.is_answered, "nobody is served before those that wait"

    answered = []
    while not late.is_answered:
        slice_of(world)
        answered.append([second.is_answered, third.is_answered, late.is_answered])

    assert answered == [[True, False, False], [True, True, False], [True, True, True]]
    known = world[1].broker.metadata.partition("t", 0)
    assert known is not None and known.leader == 3


def test_many_partitions_are_taken_in_slices_and_answered_together(world: World) -> None:
    pending = world.send(1, told(world), 7)
    steps = [hosted(world)]
    assert [effect for effect in world[1].broker.take_effects() if isinstance(effect, GoOn)] == [GoOn()]
    while not pending.is_answered:
        slice_of(world)
        steps.append(hosted(world))
    assert steps == [*range(NEW_AT_ONCE, MANY + 1, NEW_AT_ONCE), MANY], "the answer is a slice of its own"
    assert errors(pending) == {0}
    assert sum(len(topic.partition_errors) for topic in pending.message.topics) == MANY
    assert not slice_of(world), "nothing is left"


def test_clients_are_served_between_two_slices(world: World) -> None:
    configs = world[1].broker.replicas.topic_configs
    configs.at_start(configs.settings, {"t": {}})  # what is not known is flushed first
    world.send(1, told(world), 7)
    done = world.produce(1, b"a", index=0, acks=1)
    assert world.produced(done) == (ErrorCode.NONE, 0)
    early = world.produce(1, b"a", index=MANY - 1, acks=1)
    assert world.produced(early)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_many_partitions_are_deleted_in_slices_and_what_is_gone_is_synced_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.send(1, told(world), 7)
    world.settle()
    logs, synced = world[1].broker.replicas.logs, []
    monkeypatch.setattr(logs, "sync_deletions", lambda: synced.append(len(logs.logs)) or {})
    request = deletion(world, 0)
    request.topic_states[0].partition_states = [
        sr.StopReplicaPartitionState(partition_index=index, leader_epoch=-2, delete_partition=True)
        for index in range(MANY)
    ]
    pending = world.send(1, request, 4)
    steps = [hosted(world)]
    while not pending.is_answered:
        slice_of(world)
        steps.append(hosted(world))
    assert steps == [2 * AT_ONCE, AT_ONCE, 0]
    assert [row.error_code for row in pending.message.partition_errors] == [0] * MANY
    assert synced == [0]


def test_of_a_deletion_to_a_former_life_no_more_is_obeyed(world: World) -> None:
    world.send(1, told(world), 7)
    world.settle()
    request = deletion(world, 0)
    request.topic_states[0].partition_states = [
        sr.StopReplicaPartitionState(partition_index=index, leader_epoch=-2, delete_partition=True)
        for index in range(MANY)
    ]
    pending = world.send(1, request, 4)
    world[1].broker.registered(world[1].epoch + 1, world.now_ms)
    slice_of(world)
    assert pending.message.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert hosted(world) == 2 * AT_ONCE


def test_a_newer_leader_and_isr_does_not_overtake(world: World) -> None:
    first = world.send(1, told(world), 7)
    newer = world.send(1, told(world, epoch=1), 7)
    assert not newer.is_answered
    world.settle()
    assert errors(first) == errors(newer) == {0}
    assert {p.leader_epoch for p in world[1].broker.replicas.partitions.values()} == {1}


def test_a_deletion_does_not_overtake_the_making_of_what_it_deletes(world: World) -> None:
    last = MANY - 1
    made = world.send(1, told(world), 7)
    gone = world.send(1, deletion(world, last), 4)
    assert not gone.is_answered
    world.settle()
    assert made.is_answered and gone.message.partition_errors[0].error_code == 0
    assert TopicPartition("t", last) not in world[1].broker.replicas.partitions
    assert hosted(world) == MANY - 1


def test_metadata_is_told_after_the_slices_and_in_its_order(world: World) -> None:
    world.send(1, told(world), 7)
    answers = [world.send(1, metadata(world, leader), 8) for leader in (1, 2)]
    assert world[1].broker.metadata.partition("t", 0) is None
    world.settle()
    assert [answer.message.error_code for answer in answers] == [0, 0]
    known = world[1].broker.metadata.partition("t", 0)
    assert known is not None and known.leader == 2


def test_a_new_controller_waits_and_the_former_one_is_refused_behind_it(world: World) -> None:
    first = world.send(1, told(world), 7)
    new = world.send(1, told(world, epoch=1, term=2), 7)
    former = world.send(1, told(world, epoch=2, term=1), 7)
    world.settle()
    assert errors(first) == errors(new) == {0}
    assert former.message.error_code == STALE_CONTROLLER
    assert {p.leader_epoch for p in world[1].broker.replicas.partitions.values()} == {1}


def test_what_comes_late_is_judged_when_its_turn_comes(world: World) -> None:
    """Of the same term, with a number below one that was read after it and waits as well."""
    world.send(1, told(world), 7)
    world._correlation_id += 10
    newer = world.send(1, deletion(world, 0), 4)
    world._correlation_id -= 5
    late = world.send(1, metadata(world, 1), 8)
    world.settle()
    assert newer.message.partition_errors[0].error_code == 0
    assert isinstance(late.result, CloseConnection) and "comes late" in late.result.reason


def test_what_is_left_is_refused_when_the_broker_has_registered_anew(world: World) -> None:
    pending = world.send(1, told(world), 7)
    world[1].broker.registered(world[1].epoch + 1, world.now_ms)
    assert not slice_of(world)
    assert pending.message.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert hosted(world) == NEW_AT_ONCE


def parks(world: World) -> list[Any]:
    return [waiting.park for waiting in world[1].broker.control_queue._waiting]


def test_the_connection_may_close_and_what_was_begun_is_brought_to_its_end(world: World) -> None:
    pending = world.send(1, told(world), 7)
    work = world[1].broker.control_queue._work
    assert work is not None
    work.park.abandon()
    world.settle()
    assert hosted(world) == MANY and not pending.is_answered


@pytest.mark.parametrize("others", ["none", "one before it", "one behind it"])
def test_what_only_waits_goes_with_its_connection(world: World, others: str) -> None:
    world.send(1, told(world), 7)
    kept = [world.send(1, metadata(world, 1), 8)] if others == "one before it" else []
    world.send(1, deletion(world, 0), 4)
    parks(world)[-1].abandon()
    if others == "one behind it":
        kept = [world.send(1, metadata(world, 1), 8)]
        assert len(parks(world)) == 1
    world.settle()
    assert all(one.is_answered for one in kept) and hosted(world) == MANY, "nothing was deleted"


def test_what_waits_before_the_registration_is_obeyed_one_after_the_other(world: World) -> None:
    broker = world[1].broker
    broker.broker_epoch = None
    life = world[1].epoch + 5
    first = world.send(1, told(world, life=life), 7)
    second = world.send(1, told(world, epoch=1, life=life), 7)
    assert hosted(world) == 0
    broker.registered(life, world.now_ms)
    assert hosted(world) == NEW_AT_ONCE and not first.is_answered
    world.settle()
    assert errors(first) == errors(second) == {0}
    assert {p.leader_epoch for p in broker.replicas.partitions.values()} == {1}


def test_what_waits_takes_no_more_memory_than_allowed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.send(1, told(world), 7)
    monkeypatch.setattr(control_queue, "MOST_WAITING_BYTES", 3_000)
    answers = [world.send(1, told(world, epoch=1 + n), 7) for n in range(10)]
    refused = [answer for answer in answers if isinstance(answer.result, CloseConnection)]
    assert refused and sum(len(w.request.body) for w in world[1].broker.control_queue._waiting) <= 3_000
    world.settle()
    assert all(answer.is_answered for answer in answers)


def test_one_that_is_larger_than_all_that_may_wait_waits_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its controller would send it again and again, and while others are obeyed it would never be."""
    world.send(1, told(world), 7)
    monkeypatch.setattr(control_queue, "MOST_WAITING_BYTES", 10)
    large, refused = (world.send(1, told(world, epoch=1 + n), 7) for n in range(2))
    assert isinstance(refused.result, CloseConnection) and large.result is None
    world.settle()
    assert large.message.error_code == 0


def test_a_mistake_of_ours_in_a_slice_closes_the_connection_and_keeps_nobody_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = world.send(1, told(world), 7)
    behind = world.send(1, metadata(world, 1), 8)
    world[1].broker.take_effects()
    monkeypatch.setattr(world[1].broker.replicas, "commit_slice", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        slice_of(world)
    assert isinstance(pending.result, CloseConnection)
    assert world[1].broker.take_effects() == [GoOn()], "or what waits would wait for ever"
    assert not slice_of(world)
    assert behind.message.error_code == 0
