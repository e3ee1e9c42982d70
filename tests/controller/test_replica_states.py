"""The replica state machine, from its table and through `core.step`."""

import pytest

from odradek.controller.plan import Plan
from odradek.controller.replica_states import (
    TRANSITIONS,
    DeleteData,
    Forget,
    JoinAssignment,
    LeaveIsr,
    Mark,
    Return,
    StartFollowing,
    plan_replica_move,
)
from odradek.controller.states import ReplicaState
from odradek.controller.transitions import IllegalTransition
from odradek.model.cluster import ReplicaAssignment
from odradek.model.facts import BrokersChanged
from odradek.model.ids import BrokerId
from tests.controller.world import (
    World,
    failures,
    lai,
    lai_brokers,
    metadata,
    moves,
    state,
    stops,
    three,
    tp,
)

NON_EXISTENT, NEW, ONLINE, OFFLINE, STARTED, SUCCESSFUL, INELIGIBLE = ReplicaState
PAIRS = [(source, target) for source in ReplicaState for target in ReplicaState]
LEGAL = [(source, target) for source, target in PAIRS if target in TRANSITIONS[source]]
ILLEGAL = [pair for pair in PAIRS if pair not in LEGAL]
T0 = tp("t-0")


def planned_from(source: ReplicaState, broker: int = 3, *, with_leader: bool = True) -> Plan:
    context = three().context
    context.commit_replica_states(T0, {BrokerId(broker): source})
    if not with_leader:
        context.leaderships.pop(T0)
    return Plan(context, "a test")


@pytest.mark.behaviour(53, 54, 55, 56, 57, 58, 59, 60)
def test_the_table_has_the_previous_states_of_the_source_documents() -> None:
    previous = {target: {source for source, to in LEGAL if to is target} for target in ReplicaState}
    assert previous == {
        NEW: {NON_EXISTENT},
        ONLINE: {NEW, ONLINE, OFFLINE, INELIGIBLE},
        OFFLINE: {NEW, ONLINE, OFFLINE, INELIGIBLE},
        STARTED: {OFFLINE},
        SUCCESSFUL: {STARTED},
        INELIGIBLE: {OFFLINE, STARTED},
        NON_EXISTENT: {SUCCESSFUL},
    }
    assert len(LEGAL) + len(ILLEGAL) == 49
    effects = {(source, target): TRANSITIONS[source][target] for source, target in LEGAL}
    assert set(effects.values()) == {
        Mark,
        StartFollowing,
        JoinAssignment,
        Return,
        LeaveIsr,
        DeleteData,
        Forget,
    }


@pytest.mark.behaviour(53, 54, 55, 56, 57, 58, 59, 75)
@pytest.mark.parametrize(("source", "target"), LEGAL)
def test_a_legal_move_is_planned_and_committed(source: ReplicaState, target: ReplicaState) -> None:
    plan = planned_from(source)
    assert plan_replica_move(plan, T0, BrokerId(3), target)
    assert plan.context.replica_state(T0, BrokerId(3)) is source, "planning changes nothing"
    plan.commit()
    assert plan.context.replica_state(T0, BrokerId(3)) is target
    assert [(c.source, c.to) for c in plan.changes if c.kind == "replica"] == [(source, target)]
    if TRANSITIONS[source][target] is Mark:
        assert plan.telling.stops == {} and plan.telling.leader_and_isr == {} and plan.telling.metadata == {}


@pytest.mark.behaviour(24, 60, 82)
@pytest.mark.parametrize(("source", "target"), ILLEGAL)
def test_an_illegal_move_raises_names_the_legal_ones_and_plans_nothing(
    source: ReplicaState, target: ReplicaState
) -> None:
    plan = planned_from(source)
    with pytest.raises(IllegalTransition) as raised:
        plan_replica_move(plan, T0, BrokerId(3), target)
    assert str(raised.value) == f"t-0/3: {source} -> {target}; legal: {', '.join(TRANSITIONS[source])}"
    assert plan.changes == [] and plan.writes() == [] and plan.telling.stops == {}


@pytest.mark.behaviour(61)
def test_an_unknown_replica_does_not_exist() -> None:
    context = three().context
    assert context.replica_state(T0, BrokerId(9)) is NON_EXISTENT
    assert context.replica_state(tp("nobody-0"), BrokerId(1)) is NON_EXISTENT


@pytest.mark.behaviour(53, 62)
def test_a_new_replica_without_a_known_leader_waits_for_the_election() -> None:
    plan = planned_from(NON_EXISTENT, with_leader=False)
    assert plan_replica_move(plan, T0, BrokerId(3), NEW)
    assert plan.telling.leader_and_isr == {} and plan.telling.metadata == {}
    plan.commit()
    assert plan.context.replica_state(T0, BrokerId(3)) is NEW


@pytest.mark.behaviour(53, 63)
def test_the_current_leader_cannot_become_a_new_replica() -> None:
    plan = planned_from(NON_EXISTENT, broker=2)
    assert not plan_replica_move(plan, T0, BrokerId(2), NEW)
    (change,) = plan.commit()
    assert (change.kind, change.reason) == ("failure", "it is being requested to become leader")
    assert plan.context.replica_state(T0, BrokerId(2)) is NON_EXISTENT
    assert plan.telling.leader_and_isr == {}


@pytest.mark.behaviour(64, 78, 150)
def test_a_new_replica_alone_is_told_to_follow_as_new_and_every_broker_hears_of_it() -> None:
    plan = planned_from(NON_EXISTENT)
    assert plan_replica_move(plan, T0, BrokerId(3), NEW)
    assert plan.telling.leader_and_isr == {3: {T0: True}}
    assert list(plan.telling.metadata) == [T0]
    # Sticky: once new in a batch, new it stays, whatever is added to the batch later.
    plan_replica_move(plan, T0, BrokerId(3), ONLINE)
    plan.notify_leader_and_isr(BrokerId(3), T0)
    assert plan.telling.leader_and_isr == {3: {T0: True}}


@pytest.mark.behaviour(65)
def test_a_new_replica_that_comes_online_joins_the_assignment_and_nobody_is_told() -> None:
    plan = planned_from(NEW)
    plan.context.commit_assignment(T0, ReplicaAssignment((BrokerId(2), BrokerId(1))))
    plan.context.commit_replica_states(T0, {BrokerId(3): NEW})
    assert plan_replica_move(plan, T0, BrokerId(3), ONLINE)
    assert plan.telling.leader_and_isr == {} and plan.telling.metadata == {}
    plan.commit()
    assert plan.context.assignments[T0].replicas == (2, 1, 3)
    assert T0 in plan.context.partitions_on[BrokerId(3)]


@pytest.mark.behaviour(54, 66, 78)
@pytest.mark.parametrize("source", [ONLINE, OFFLINE, INELIGIBLE])
def test_a_replica_that_returns_is_told_who_leads_and_everybody_hears_of_it(source: ReplicaState) -> None:
    plan = planned_from(source)
    assert plan_replica_move(plan, T0, BrokerId(3), ONLINE)
    assert plan.telling.leader_and_isr == {3: {T0: False}}
    assert list(plan.telling.metadata) == [T0]
    assert plan.writes() == []


@pytest.mark.behaviour(67)
def test_a_replica_that_returns_to_a_partition_that_never_led_is_online_and_not_told() -> None:
    world = World().brokers(1)
    world.elect()
    world.create("t", [2, 3])
    world.context.commit_replica_states(T0, {BrokerId(2): OFFLINE})
    plan = Plan(world.context, "a test")
    assert plan_replica_move(plan, T0, BrokerId(2), ONLINE)
    assert plan.telling.leader_and_isr == {} and plan.telling.metadata == {}
    plan.commit()
    assert world.replica_state("t-0", 2) is ONLINE


@pytest.mark.behaviour(55, 68, 69)
def test_a_replica_that_goes_offline_is_stopped_and_leaves_the_isr() -> None:
    world = three("t", [1, 2, 3])
    effects = world.shut_down(2)
    assert world.leader("t-0") == (1, (1, 3), 1)
    (stop,) = stops(effects)
    assert stop.broker == 2
    assert [(p.topic_partition, p.delete) for p in stop.partitions] == [(T0, False)]
    assert lai_brokers(effects) == [1, 3], "the smaller ISR goes to the others"
    assert lai(effects, 1)[0].isr == (1, 3)
    assert [m.broker for m in metadata(effects)] == [1, 2, 3]
    assert world.replica_state("t-0", 2) is OFFLINE


@pytest.mark.behaviour(70, 168)
def test_the_last_member_of_the_isr_is_kept_with_no_leader() -> None:
    world = three("t", [2])
    world.kill(2)
    (write,) = world.writes()
    assert (write.value.leader, write.value.isr, write.value.leader_epoch) == (-1, (2,), 1)  # type: ignore[union-attr]
    assert world.replica_state("t-0", 2) is OFFLINE


@pytest.mark.behaviour(168)
def test_a_leaderless_partition_that_loses_its_broker_again_costs_no_further_write() -> None:
    world = three("t", [2, 3])
    world.kill(3)
    world.kill(2)
    assert world.leader("t-0") == (-1, (2,), 2)
    world.start(3)
    assert world.writes() == []
    effects = world.kill(3)
    assert world.writes() == []
    assert ("t-0/3", "Online", "Offline") in moves(effects)


@pytest.mark.behaviour(71)
def test_the_others_get_no_leader_and_isr_when_the_topic_is_being_deleted() -> None:
    plan = planned_from(ONLINE)
    plan.context.topics_to_delete.add("t")
    assert plan_replica_move(plan, T0, BrokerId(3), OFFLINE)
    assert plan.telling.leader_and_isr == {}
    assert plan.telling.stops == {3: {T0: False}}
    (write,) = plan.writes()
    assert write.value.isr == (2, 1)  # type: ignore[union-attr]


@pytest.mark.behaviour(72)
def test_a_replica_of_a_partition_that_never_led_goes_offline_and_everybody_hears_of_it() -> None:
    plan = planned_from(ONLINE, with_leader=False)
    assert plan_replica_move(plan, T0, BrokerId(3), OFFLINE)
    assert plan.writes() == []
    assert list(plan.telling.metadata) == [T0]
    plan.commit()
    assert plan.context.replica_state(T0, BrokerId(3)) is OFFLINE


@pytest.mark.behaviour(72)
def test_a_state_node_that_has_vanished_is_an_error_and_the_replica_keeps_its_state() -> None:
    world = three("t", [1, 2, 3], [1, 2, 3])
    world.before_write = lambda writes: world.states.pop(T0) and None
    effects = world.settle(world_without(world, 3))
    (failure,) = failures(effects)
    assert failure.reason == "the leader and isr path in zookeeper is empty"
    assert world.replica_state("t-0", 3) is ONLINE
    assert world.replica_state("t-1", 3) is OFFLINE, "the other partition is not held up"
    assert lai_brokers(effects, "t-0") == []


@pytest.mark.behaviour(56, 73, 74, 149)
def test_deletion_sets_the_state_first_and_then_asks_the_broker_to_erase_the_data() -> None:
    plan = planned_from(OFFLINE)
    assert plan_replica_move(plan, T0, BrokerId(3), STARTED)
    assert plan.replica_state(T0, BrokerId(3)) is STARTED
    assert plan.telling.stops == {3: {T0: True}}
    # Sticky: a stop without deletion that joins the batch later does not undo it (row 149).
    plan.notify_stop(BrokerId(3), T0, delete=False)
    assert plan.telling.stops == {3: {T0: True}}


@pytest.mark.behaviour(59, 76)
def test_a_deleted_replica_leaves_the_assignment_and_the_machine() -> None:
    plan = planned_from(SUCCESSFUL)
    assert plan_replica_move(plan, T0, BrokerId(3), NON_EXISTENT)
    plan.commit()
    assert plan.context.assignments[T0].replicas == (2, 1)
    assert T0 not in plan.context.partitions_on[BrokerId(3)]
    assert T0 not in plan.context.replica_state_overrides


@pytest.mark.behaviour(53)
def test_a_deleted_replica_may_come_back_as_new() -> None:
    plan = planned_from(SUCCESSFUL)
    plan_replica_move(plan, T0, BrokerId(3), NON_EXISTENT)
    plan.commit()
    again = Plan(plan.context, "a test")
    assert plan_replica_move(again, T0, BrokerId(3), NEW)
    plan_replica_move(again, T0, BrokerId(3), ONLINE)
    again.commit()
    assert again.context.assignments[T0].replicas == (2, 1, 3)
    assert again.context.replica_state(T0, BrokerId(3)) is ONLINE


@pytest.mark.behaviour(77)
def test_an_empty_set_of_replicas_does_nothing_and_says_nothing() -> None:
    world = three("t", [1, 2])
    effects = world.kill(3)
    assert moves(effects) == []
    assert world.writes() == [] and stops(effects) == [] and lai_brokers(effects) == []


@pytest.mark.behaviour(54, 55, 80)
def test_replicas_load_as_online_where_the_broker_lives_and_as_ineligible_where_it_does_not() -> None:
    world = World().brokers(1, 2)
    world.store_topic("t", [[1, 2, 3]])
    world.states[T0] = state(1, [1, 2])
    effects = world.elect()
    # Loaded as Ineligible, then moved: S1's initial state shows only in the change.
    assert ("t-0/3", "ReplicaDeletionIneligible", "Offline") in moves(effects)
    assert world.replica_state("t-0", 1) is ONLINE


def world_without(world: World, broker: int) -> BrokersChanged:
    del world.registrations[broker]
    return world.brokers_changed()
