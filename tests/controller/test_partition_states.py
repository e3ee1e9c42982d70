"""The partition state machine, from its table and through `core.step`."""

import pytest

from odradek.controller.effects import CreatePartitionState, WritePartitionState
from odradek.controller.election import Election
from odradek.controller.partition_states import TRANSITIONS, Mark, WriteLeaderAndIsr, plan_partition_move
from odradek.controller.plan import Plan
from odradek.controller.states import PartitionState
from odradek.controller.transitions import IllegalTransition
from odradek.model.facts import BrokersChanged
from odradek.model.ids import BrokerId
from tests.controller.world import World, failures, lai, lai_brokers, metadata, moves, state, three, tp

NON_EXISTENT, NEW, ONLINE, OFFLINE = PartitionState
PAIRS = [(source, target) for source in PartitionState for target in PartitionState]
LEGAL = [(source, target) for source, target in PAIRS if target in TRANSITIONS[source]]
ILLEGAL = [pair for pair in PAIRS if pair not in LEGAL]


def planned_from(source: PartitionState) -> Plan:
    """A plan over a partition that is in `source`: all brokers live, a leader where the state promises one."""
    context = three().context
    where = tp("t-0")
    context.commit_partition_state(where, source)
    if source in (NON_EXISTENT, NEW):
        context.leaderships.pop(where)
    return Plan(context, "a test")


@pytest.mark.behaviour(11, 12, 13, 14, 22, 23, 33)
def test_the_table_has_the_moves_of_the_source_documents_and_no_other() -> None:
    assert LEGAL == [
        (NON_EXISTENT, NEW),
        (NEW, ONLINE),
        (NEW, OFFLINE),
        (ONLINE, ONLINE),
        (ONLINE, OFFLINE),
        (OFFLINE, NON_EXISTENT),
        (OFFLINE, ONLINE),
        (OFFLINE, OFFLINE),
    ]
    assert len(LEGAL) + len(ILLEGAL) == 16
    to_online = {source for source, target in LEGAL if target is ONLINE}
    assert to_online == {NEW, ONLINE, OFFLINE}


@pytest.mark.behaviour(11, 12, 13, 14, 22, 23)
@pytest.mark.parametrize(("source", "target"), LEGAL)
def test_a_legal_move_is_planned_and_committed(source: PartitionState, target: PartitionState) -> None:
    plan = planned_from(source)
    where = tp("t-0")
    assert plan_partition_move(plan, where, target)
    assert plan.context.partition_state(where) is source, "planning changes nothing"
    writes = plan.writes()
    plan.commit()
    assert plan.context.partition_state(where) is target
    if TRANSITIONS[source][target] is Mark:
        assert writes == []
        assert plan.telling.leader_and_isr == {} and plan.telling.metadata == {}
    else:
        assert TRANSITIONS[source][target] is WriteLeaderAndIsr
        assert len(writes) == 1
        assert sorted(plan.telling.leader_and_isr) == [1, 2, 3]


@pytest.mark.behaviour(24, 82)
@pytest.mark.parametrize(("source", "target"), ILLEGAL)
def test_an_illegal_move_raises_names_the_legal_ones_and_plans_nothing(
    source: PartitionState, target: PartitionState
) -> None:
    plan = planned_from(source)
    with pytest.raises(IllegalTransition) as raised:
        plan_partition_move(plan, tp("t-0"), target)
    assert str(raised.value) == f"t-0: {source} -> {target}; legal: {', '.join(TRANSITIONS[source])}"
    assert plan.changes == [] and plan.writes() == []
    assert plan.telling.leader_and_isr == {} and plan.telling.metadata == {}
    assert plan.context.partition_state(tp("t-0")) is source


@pytest.mark.behaviour(24, 31, 77)
def test_a_controller_that_meets_an_illegal_move_sends_nothing_and_resigns() -> None:
    world = three("t", [2, 1, 3], [3, 1, 2])
    world.context.partition_states.pop(tp("t-0"))  # memory is wrong: the state of a led partition is lost
    effects = world.core.step(BrokersChanged((world.registrations[1], world.registrations[3])), 0)
    assert "t-0: NonExistentPartition -> OfflinePartition; legal: NewPartition" in (effects.resign or "")
    assert effects.writes == () and effects.requests == ()
    assert not world.core.is_active


@pytest.mark.behaviour(24, 31)
def test_the_successor_of_a_controller_that_resigned_elects_every_waiting_partition() -> None:
    world = three("t", [2, 1, 3], [2, 3, 1])
    world.context.partition_states.pop(tp("t-0"))
    del world.registrations[2]
    assert world.core.step(world.brokers_changed(), 0).resign
    world.elect(3)
    assert world.leader("t-0") == (1, (1, 3), 1)
    assert world.leader("t-1") == (3, (3, 1), 1)
    assert world.partition_state("t-0") is ONLINE


@pytest.mark.behaviour(16)
def test_an_unknown_partition_does_not_exist() -> None:
    context = three().context
    assert context.partition_state(tp("nobody-7")) is NON_EXISTENT
    plan = Plan(context, "a test")
    with pytest.raises(
        IllegalTransition, match="nobody-7: NonExistentPartition -> OnlinePartition; legal: New"
    ):
        plan_partition_move(plan, tp("nobody-7"), ONLINE)


@pytest.mark.behaviour(12, 15, 26)
def test_a_new_partition_loads_its_replicas_and_tells_nobody_until_it_has_a_leader() -> None:
    world = World().brokers(1)
    world.elect()
    effects = world.create("t", [3, 2])
    assert world.context.assignments[tp("t-0")].replicas == (3, 2)
    assert world.context.partition_states == {tp("t-0"): NEW}
    assert world.writes() == []
    assert lai_brokers(effects) == [] and metadata(effects) == []


@pytest.mark.behaviour(3, 17, 18, 34)
def test_the_first_leader_is_the_first_live_replica_and_all_live_ones_are_in_sync() -> None:
    world = World().brokers(1, 3, 4)
    world.elect()
    effects = world.create("t", [2, 3, 1])
    (write,) = world.writes()
    assert isinstance(write, CreatePartitionState)
    assert (write.value.leader, write.value.isr) == (3, (3, 1))
    assert (write.value.leader_epoch, write.controller_epoch) == (0, 1)
    assert lai_brokers(effects) == [1, 3], "every live replica, and only they"
    assert all(p.is_new and p.leader == 3 for b in (1, 3) for p in lai(effects, b))
    assert [m.broker for m in metadata(effects)] == [1, 3, 4], "every live broker"
    assert all(m.partitions[0].offline_replicas == (2,) for m in metadata(effects))


@pytest.mark.behaviour(19, 25)
def test_a_new_partition_without_a_live_replica_stays_new_and_says_so() -> None:
    world = World().brokers(1)
    world.elect()
    effects = world.create("t", [2, 3])
    assert world.partition_state("t-0") is NEW
    (failure,) = failures(effects)
    assert (failure.source, failure.to) == (NEW, ONLINE)
    assert failure.reason == "none of its replicas [2,3] is live, so no first leader can be chosen"


@pytest.mark.behaviour(20, 25)
def test_an_offline_partition_gets_the_leader_the_selector_names() -> None:
    world = three("t", [2, 3])
    world.alter("t-0", [2])
    world.kill(2)
    assert world.partition_state("t-0") is OFFLINE
    effects = world.start(2)
    (write,) = world.writes()
    assert isinstance(write, WritePartitionState)
    assert (write.value.leader, write.value.leader_epoch, write.expected_version) == (2, 2, 2)
    assert ("t-0", "Offline", "Online") in moves(effects)
    assert [(b, lai(effects, b)[0].leader) for b in lai_brokers(effects)] == [(2, 2), (3, 2)]
    assert [m.broker for m in metadata(effects)][-3:] == [1, 2, 3]


@pytest.mark.behaviour(21)
def test_an_online_partition_is_elected_again_only_when_asked_with_a_selector() -> None:
    world = three()
    plan = Plan(world.context, "asked")
    chosen = Election(BrokerId(3), (BrokerId(3),), False, (BrokerId(1), BrokerId(3)))
    assert plan_partition_move(plan, tp("t-0"), ONLINE, lambda plan, where, current: chosen)
    (write,) = plan.writes()
    assert isinstance(write, WritePartitionState)
    assert (write.value.leader, write.value.leader_epoch) == (3, 1)
    world.start(4)  # an event that triggers elections leaves a led partition alone
    assert world.writes() == []


@pytest.mark.behaviour(22, 25)
def test_an_election_that_nobody_can_win_leaves_the_partition_offline() -> None:
    world = three("t", [2])
    effects = world.kill(2)
    assert ("t-0", "Online", "Offline") in moves(effects)
    assert ("t-0", "Offline", "Online") not in moves(effects)
    (failure,) = failures(effects)
    assert (failure.source, failure.to) == (OFFLINE, ONLINE)
    assert failure.reason == "none of its replicas [2] is live; a member of the ISR [2] must return"


@pytest.mark.behaviour(26)
def test_partition_states_live_in_memory_as_a_map() -> None:
    world = three("t", [2, 1, 3], [3])
    world.kill(3)
    assert world.context.partition_states == {tp("t-0"): ONLINE, tp("t-1"): OFFLINE}
    assert world.context.leaderless == {tp("t-1")}


@pytest.mark.behaviour(3, 4)
def test_a_state_node_without_a_leader_is_loaded_as_offline_and_may_name_a_dead_broker() -> None:
    world = World().brokers(1)
    world.store_topic("t", [[2]])
    world.states[tp("t-0")] = state(-1, [2], leader_epoch=1, version=1)
    world.elect()
    assert world.partition_state("t-0") is OFFLINE
    assert world.leader("t-0") == (-1, (2,), 1)
    assert world.writes() == [], "nothing to write: the store says already what is true"
