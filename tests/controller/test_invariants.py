"""Each invariant is seen red once: a check never seen red is not evidence."""

from dataclasses import replace

import pytest

from odradek.controller.context import ControllerContext
from odradek.controller.invariants import INVARIANTS, violations
from odradek.controller.states import PartitionState, ReplicaState
from odradek.model.facts import StoredPartitionState
from odradek.model.ids import BrokerId, ControllerEpoch
from tests.controller.world import state, three, tp

T0 = tp("t-0")


def lead(context: ControllerContext, leader: int, isr: list[int], **rest: int) -> None:
    context.commit_leadership(T0, state(leader, isr, **rest))


def break_type(context: ControllerContext) -> None:
    lead(context, 2, [2, 2, 1])


def break_recovery(context: ControllerContext) -> None:
    lead(context, 2, [2], recovery=7)


def break_online(context: ControllerContext) -> None:
    context.commit_broker_gone(BrokerId(2))


def break_offline(context: ControllerContext) -> None:
    context.commit_partition_state(T0, PartitionState.OFFLINE)


def break_new(context: ControllerContext) -> None:
    context.commit_partition_state(T0, PartitionState.NEW)


def break_replica(context: ControllerContext) -> None:
    context.commit_replica_states(T0, {BrokerId(3): ReplicaState.OFFLINE})


def break_deletion(context: ControllerContext) -> None:
    context.topics_to_delete.add("t")


def break_eligible(context: ControllerContext) -> None:
    stored = context.leaderships[T0]
    both = replace(stored.leader_and_isr, elr=(BrokerId(1),))
    context.commit_leadership(T0, StoredPartitionState(both, stored.controller_epoch))


def break_epoch(context: ControllerContext) -> None:
    stored = context.leaderships[T0]
    context.commit_leadership(T0, StoredPartitionState(stored.leader_and_isr, ControllerEpoch(9)))


def break_index(context: ControllerContext) -> None:
    context.partitions_on[BrokerId(1)].discard(T0)


def break_leaderless(context: ControllerContext) -> None:
    context.leaderless.add(T0)


SPOILT = [
    ("LeaderInIsr", lambda context: lead(context, 2, [1, 3])),
    ("IsrIsNeverEmpty", lambda context: lead(context, -1, [])),
    ("IsrIsAssigned", lambda context: lead(context, 2, [2, 9])),
    ("TypeOk", break_type),
    ("TypeOk", break_recovery),
    ("TypeOk", lambda context: lead(context, -3, [2])),
    ("NewHasNoLeader", break_new),
    ("OnlineHasALiveLeader", break_online),
    ("OfflineHasNoLiveLeader", break_offline),
    ("OfflineReplicasAreNotInSync", break_replica),
    ("DeletionIsUnderWay", break_deletion),
    ("EligibleAreOutsideTheIsr", break_eligible),
    ("ControllerEpochIsNotAboveOurs", break_epoch),
    ("IndexesAgree", break_index),
    ("IndexesAgree", break_leaderless),
]


@pytest.mark.parametrize(("name", "spoil"), SPOILT)
def test_an_invariant_that_is_broken_is_named_with_its_partition(name: str, spoil: object) -> None:
    context = three().context
    assert violations(context) == []
    spoil(context)  # type: ignore[operator]
    found = [(broken, where) for broken, where, _ in violations(context)]
    assert (name, T0) in found


def test_every_invariant_is_seen_red_above() -> None:
    assert {name for name, _ in SPOILT} == set(INVARIANTS)


def test_only_the_partitions_asked_for_are_looked_at() -> None:
    world = three("t", [2, 1], [3, 1])
    world.context.commit_leadership(T0, state(2, [1]))
    assert violations(world.context, [tp("t-1")]) == []
    assert len(violations(world.context, [T0])) == 1


def test_a_leader_that_is_shutting_down_still_leads() -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    world.shut_down(2)
    assert violations(world.context) == []


def test_the_world_of_these_tests_notices_a_memory_that_differs_from_the_store() -> None:
    world = three()
    stored = world.states[T0]
    world.states[T0] = StoredPartitionState(
        replace(stored.leader_and_isr, isr=(BrokerId(2),)), stored.controller_epoch
    )
    with pytest.raises(AssertionError):
        world.check_memory_is_store()
