"""A leader asks to change its ISR: the checks, one by one, in their order."""

import pytest

from odradek.controller.effects import Effects
from odradek.controller.events import Conflict, LeaderAndIsrAnswered, Requested, Stored, WritesAnswered
from odradek.model.controller_requests import (
    AlterPartitionAnswer,
    AlterPartitionAsked,
    AlterPartitionItem,
    IsrMember,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import UnreadableNode
from odradek.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from tests.controller.world import World, answer_of, lai_brokers, metadata, moves, state, three, tp

BEFORE_V2 = 1


def error_of(effects: Effects) -> ErrorCode:
    answer = answer_of(effects)
    assert isinstance(answer, AlterPartitionAnswer)
    if answer.error is not ErrorCode.NONE:
        assert answer.partitions == ()
        return answer.error
    (result,) = answer.partitions
    return result.error


def changed(world: World) -> bool:
    return (
        world.leader("t-0") != (2, (2, 1, 3), 0)
        or world.states[tp("t-0")].leader_and_isr.partition_epoch != 0
    )


@pytest.mark.behaviour(156, 159)
def test_a_shrink_is_written_over_the_partition_epoch_and_leaves_the_leader_epoch_alone() -> None:
    world = three()
    effects = world.alter("t-0", [2, 1])
    answer = answer_of(effects)
    assert isinstance(answer, AlterPartitionAnswer)
    (result,) = answer.partitions
    assert result.error is ErrorCode.NONE and result.leader_and_isr is not None
    stored = world.states[tp("t-0")].leader_and_isr
    assert result.leader_and_isr == stored
    assert (stored.isr, stored.leader_epoch, stored.partition_epoch) == ((2, 1), 0, 1)  # golden 09b
    assert lai_brokers(effects) == [], "the leader knows already"
    assert [(m.broker, m.partitions[0].isr) for m in metadata(effects)] == [(b, (2, 1)) for b in (1, 2, 3)]


@pytest.mark.behaviour(156, 159)
def test_an_expand_is_written_likewise_and_the_journal_says_who_joined() -> None:
    world = three()
    world.alter("t-0", [2, 1])
    effects = world.alter("t-0", [2, 1, 3])
    assert world.leader("t-0") == (2, (2, 1, 3), 0)
    assert [(c.source, c.to, c.reason) for c in effects.changes] == [
        ("[2,1]", "[2,1,3]", "AlterPartition of broker 2: 3 joined")
    ]


# ------------------------------------------------------------------------------ the checks, in their order


@pytest.mark.behaviour(159)
def test_1_not_the_controller() -> None:
    world = three()
    world.core.context = None
    assert error_of(world.alter("t-0", [2, 1])) is ErrorCode.NOT_CONTROLLER


@pytest.mark.behaviour(159)
@pytest.mark.parametrize("epoch", [1, 9999])
def test_2_another_incarnation_of_the_sender(epoch: int) -> None:
    world = three()
    assert error_of(world.alter("t-0", [2, 1], broker_epoch=epoch)) is ErrorCode.STALE_BROKER_EPOCH
    assert not changed(world)


@pytest.mark.behaviour(159)
def test_2_a_sender_that_is_not_registered() -> None:
    world = three()
    assert error_of(world.alter("t-0", [2, 1], sender=9, broker_epoch=1)) is ErrorCode.STALE_BROKER_EPOCH


def test_3_an_unknown_topic_id_and_before_v2_an_unknown_name() -> None:
    world = three()
    unknown = world.alter("t-0", [2, 1], topic_id=b"?" * 16)
    assert error_of(unknown) is ErrorCode.UNKNOWN_TOPIC_ID
    item = AlterPartitionItem("nobody", None, 0, LeaderEpoch(0), PartitionEpoch(0), ())
    epoch = world.registrations[2].epoch
    by_name = world.step(Requested(1, AlterPartitionAsked(BEFORE_V2, BrokerId(2), epoch, (item,))))
    assert error_of(by_name) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_3_a_known_topic_without_that_partition() -> None:
    world = three()
    epoch = world.registrations[2].epoch
    item = AlterPartitionItem(None, world.topics["t"].topic_id, 5, LeaderEpoch(0), PartitionEpoch(0), ())
    effects = world.step(Requested(1, AlterPartitionAsked(3, BrokerId(2), epoch, (item,))))
    assert error_of(effects) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.behaviour(159)
@pytest.mark.parametrize("ahead", [{"leader_epoch": 1}, {"partition_epoch": 1}])
def test_4_epochs_ahead_of_ours_mean_that_we_are_the_stale_one(ahead: dict[str, int]) -> None:
    world = three()
    assert error_of(world.alter("t-0", [2, 1], **ahead)) is ErrorCode.NOT_CONTROLLER  # type: ignore[arg-type]
    assert not changed(world)


@pytest.mark.behaviour(159)
def test_5_a_leader_epoch_behind_is_fenced() -> None:
    world = three()
    world.kill(2)
    world.start(2)
    effects = world.alter("t-0", [2, 1, 3], sender=2, leader_epoch=0, partition_epoch=0)
    assert error_of(effects) is ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.behaviour(159)
def test_6_a_repeat_of_what_is_committed_is_success_even_with_an_old_partition_epoch() -> None:
    world = three()
    world.alter("t-0", [2, 1])
    effects = world.alter("t-0", [1, 2], partition_epoch=0)  # its answer was lost (KAFKA-14144); as a set
    assert error_of(effects) is ErrorCode.NONE
    assert world.writes() == []
    assert [len(m.partitions) for m in metadata(effects)] == [1, 1, 1]


@pytest.mark.behaviour(159)
def test_7_a_partition_epoch_behind_is_an_invalid_update_version() -> None:
    world = three()
    world.alter("t-0", [2, 1])
    effects = world.alter("t-0", [2], partition_epoch=0)
    assert error_of(effects) is ErrorCode.INVALID_UPDATE_VERSION
    assert world.leader("t-0") == (2, (2, 1), 0)
    assert [len(m.partitions) for m in metadata(effects)] == [1, 1, 1], "refused partitions are told too"


@pytest.mark.parametrize("isr", [[2], [2, 1]])
def test_8_a_recovered_partition_does_not_begin_to_recover_by_request(isr: list[int]) -> None:
    world = three()
    assert error_of(world.alter("t-0", isr, recovery=1)) is ErrorCode.INVALID_REQUEST
    assert not changed(world)


def test_8_a_recovery_state_that_there_is_not_is_refused() -> None:
    """Written to the store, the next controller could not read it, and the topic would be out of service."""
    world = three()
    for recovery in (2, -1):
        assert error_of(world.alter("t-0", [2, 1], recovery=recovery)) is ErrorCode.INVALID_REQUEST
    assert not changed(world)


def test_8_only_a_lone_leader_recovers() -> None:
    world = three()
    world.states[tp("t-0")] = state(2, [2], recovery=1)
    world.context.commit_leadership(tp("t-0"), world.states[tp("t-0")])
    assert error_of(world.alter("t-0", [2, 1], recovery=1)) is ErrorCode.INVALID_REQUEST
    assert error_of(world.alter("t-0", [2, 1], recovery=0)) is ErrorCode.NONE


@pytest.mark.behaviour(156, 159)
@pytest.mark.parametrize(
    ("version", "error"),
    [(3, ErrorCode.INELIGIBLE_REPLICA), (BEFORE_V2, ErrorCode.OPERATION_NOT_ATTEMPTED)],
)
def test_9_a_dead_replica_may_not_join(version: int, error: ErrorCode) -> None:
    world = three()
    world.kill(3)
    effects = world.alter("t-0", [2, 1, 3], version=version, by_name=version == BEFORE_V2)
    assert error_of(effects) is error


@pytest.mark.behaviour(156, 159)
def test_9_a_replica_that_is_shutting_down_may_not_join() -> None:
    world = three()  # KIP-841
    world.shut_down(3)
    assert world.leader("t-0")[1] == (2, 1)
    assert error_of(world.alter("t-0", [2, 1, 3])) is ErrorCode.INELIGIBLE_REPLICA


@pytest.mark.behaviour(159)
def test_9_an_earlier_incarnation_may_not_join_even_if_a_later_one_is_live() -> None:
    world = three()  # KIP-903: its disk may have been emptied in between (hole H1)
    old = world.registrations[3].epoch
    world.bounce(3)
    assert error_of(world.alter("t-0", [2, 1, (3, old)])) is ErrorCode.INELIGIBLE_REPLICA
    now = world.registrations[3].epoch
    assert error_of(world.alter("t-0", [2, 1, (3, now)])) is ErrorCode.NONE


def test_9_an_unknown_epoch_is_checked_for_liveness_only() -> None:
    world = three()
    world.bounce(3)
    assert error_of(world.alter("t-0", [2, 1, (3, -1)])) is ErrorCode.NONE


def test_9_a_replica_on_a_failed_disk_may_not_join() -> None:
    world = three()
    lost = {tp("t-0"): ErrorCode.KAFKA_STORAGE_ERROR}
    world.step(LeaderAndIsrAnswered(BrokerId(3), world.registrations[3].epoch, ErrorCode.NONE, lost))
    assert error_of(world.alter("t-0", [2, 1, 3])) is ErrorCode.INELIGIBLE_REPLICA


def test_10_a_sender_that_does_not_lead_is_refused() -> None:
    world = three()
    assert error_of(world.alter("t-0", [2, 1], sender=1)) is ErrorCode.INVALID_REQUEST
    assert not changed(world)


@pytest.mark.parametrize("isr", [[1, 3], []])
def test_10_a_leader_cannot_leave_its_own_isr(isr: list[int]) -> None:
    world = three()
    assert error_of(world.alter("t-0", isr)) is ErrorCode.INVALID_REQUEST
    assert not changed(world)


def test_10_nobody_is_a_member_twice() -> None:
    world = three()
    assert error_of(world.alter("t-0", [2, 1, 1])) is ErrorCode.INVALID_REQUEST
    assert not changed(world)


def test_10_a_broker_that_is_not_assigned_cannot_join() -> None:
    world = three()
    world.start(4)
    assert error_of(world.alter("t-0", [2, 1, 3, 4])) is ErrorCode.INVALID_REQUEST
    assert not changed(world)


# ------------------------------------------------------------------------------------------ around the checks


@pytest.mark.behaviour(159)
def test_a_conflict_in_the_store_is_answered_on_the_value_found_there() -> None:
    world = three()
    world.before_write = lambda writes: world.states.update(
        {tp("t-0"): state(2, [2, 3], leader_epoch=0, version=1)}
    )
    effects = world.alter("t-0", [2, 1])
    assert error_of(effects) is ErrorCode.INVALID_UPDATE_VERSION
    assert world.leader("t-0") == (2, (2, 3), 0)
    assert world.context.leadership(tp("t-0")).isr == (2, 3)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "found", [None, UnreadableNode("/brokers/topics/t/partitions/0/state", "bad JSON", "t")]
)
def test_what_could_not_be_stored_is_no_success(found: UnreadableNode | None) -> None:
    """The node is gone, or damaged by hand. Told of a success, the leader would count on a smaller ISR than is stored."""
    world = three("t", [2, 1, 3], [2, 1])
    topic_id, members = world.topics["t"].topic_id, (IsrMember(BrokerId(2), BrokerEpoch(-1)),)
    items = tuple(
        AlterPartitionItem(None, topic_id, p, LeaderEpoch(0), PartitionEpoch(0), members) for p in (0, 1)
    )
    epoch = world.registrations[2].epoch
    assert (
        len(world.core.step(Requested(9, AlterPartitionAsked(3, BrokerId(2), epoch, items)), 0).writes) == 2
    )
    answer = answer_of(world.core.step(WritesAnswered((Conflict(found), Stored(1))), 0))
    assert isinstance(answer, AlterPartitionAnswer)
    errors = [result.error for result in answer.partitions]
    assert errors[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    of_another_partition = ErrorCode.NONE if found is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors[1] is of_another_partition, "a damaged node takes its topic out of service"
    assert [result.leader_and_isr is None for result in answer.partitions] == [True, found is not None]


@pytest.mark.behaviour(159)
def test_our_own_write_whose_answer_was_lost_is_success() -> None:
    world = three()
    world.lose_answers = True
    effects = world.alter("t-0", [2, 1])
    assert error_of(effects) is ErrorCode.NONE
    assert len(world.writes()) == 1
    assert world.leader("t-0") == (2, (2, 1), 0)


def test_one_request_may_succeed_for_one_partition_and_fail_for_another() -> None:
    world = three("t", [2, 1, 3], [2, 1])
    epoch = world.registrations[2].epoch
    members = (IsrMember(BrokerId(2), BrokerEpoch(-1)),)
    items = tuple(
        AlterPartitionItem(None, topic_id, p, LeaderEpoch(0), PartitionEpoch(version), members)
        for topic_id, p, version in (
            (world.topics["t"].topic_id, 0, 0),
            (TopicId(b"?" * 16), 0, 0),
            (world.topics["t"].topic_id, 1, 3),
        )
    )
    effects = world.step(Requested(5, AlterPartitionAsked(3, BrokerId(2), epoch, items)))
    answer = answer_of(effects)
    assert isinstance(answer, AlterPartitionAnswer)
    assert [r.error for r in answer.partitions] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_CONTROLLER,
    ]
    assert [r.topic_partition for r in answer.partitions] == [tp("t-0"), None, tp("t-1")]
    assert [str(w.topic_partition) for w in world.writes()] == ["t-0"]  # type: ignore[union-attr]


def test_an_alter_partition_moves_no_state() -> None:
    assert moves(three().alter("t-0", [2])) == []
