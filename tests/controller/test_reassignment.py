"""Reassignment: S0's twelve steps, with leavers and targets that die on the way."""

import pytest

from odradek.controller.broker_requests import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from odradek.controller.context import ReassignmentPhase
from odradek.controller.effects import WritePartitionState, WriteTopicAssignment
from odradek.controller.events import Requested, Tick
from odradek.controller.replica_removal import RETRY_MS
from odradek.controller.states import ReplicaState
from odradek.model.cluster import ReplicaAssignment
from odradek.model.controller_requests import AlterReassignmentsAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import TopicAssignment
from odradek.model.ids import BrokerId
from tests.controller.brokers import Brokers
from tests.controller.six import ids, result, six, told_to_delete
from tests.controller.world import (
    World,
    lai,
    lai_brokers,
    metadata,
    moves,
    stops,
    three,
    tp,
)

# ------------------------------------------------------------------------------------------- the twelve steps


@pytest.mark.behaviour(9, 86, 107, 108, 109, 119)
def test_steps_1_to_3_write_the_target_first_tell_everybody_and_start_the_new_replicas() -> None:
    world = six()
    effects = world.reassign({"r-0": [4, 5, 6]})
    assert result(effects) == (ErrorCode.NONE, "")
    assert world.node("r-0") == ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
    assert world.leader("r-0") == (1, (1, 2, 3), 1), "leader and ISR unchanged, epoch +1"
    assert [type(w) for w in world.writes()] == [WriteTopicAssignment, WritePartitionState], "in this order"
    assert lai_brokers(effects) == [1, 2, 3, 4, 5, 6]
    assert {b: lai(effects, b)[0].is_new for b in range(1, 7)} == {b: b > 3 for b in range(1, 7)}
    told = lai(effects, 1)[0]
    assert (told.replicas, told.adding_replicas, told.removing_replicas) == (
        (4, 5, 6, 1, 2, 3),
        (4, 5, 6),
        (1, 2, 3),
    )
    assert moves(effects) == [(f"r-0/{b}", "NonExistent", "New") for b in (4, 5, 6)]
    assert [m.broker for m in metadata(effects)] == [1, 2, 3, 4, 5, 6]


@pytest.mark.behaviour(110)
def test_step_4_waits_until_every_target_is_in_the_isr_without_blocking_anything() -> None:
    world = six()
    world.reassign({"r-0": [4, 5, 6]})
    for joined in (4, 5):
        effects = world.catch_up("r-0", joined)
        assert moves(effects) == [] and stops(effects) == []
    assert world.context.reassignments[tp("r-0")].phase is ReassignmentPhase.GROWING
    world.create("other", [2, 3])
    assert world.leader("other-0")[0] == 2, "the controller goes on with other things"


@pytest.mark.behaviour(84, 87, 92, 111, 112, 113, 114, 115, 119, 138, 139, 143)
def test_steps_5_to_9_when_all_targets_are_in_sync() -> None:
    world = six()
    world.reassign({"r-0": [4, 5, 6]})
    world.catch_up("r-0", 4)
    world.catch_up("r-0", 5)
    effects = world.catch_up("r-0", 6)
    assert moves(effects) == [
        ("r-0/4", "New", "Online"),  # 5
        ("r-0/5", "New", "Online"),
        ("r-0/6", "New", "Online"),
        ("r-0", "Online", "Online"),  # 7: the leader moves into the target
        ("r-0/1", "Online", "Offline"),  # 8
        ("r-0/1", "Offline", "ReplicaDeletionStarted"),  # 9
        ("r-0/2", "Online", "Offline"),
        ("r-0/2", "Offline", "ReplicaDeletionStarted"),
        ("r-0/3", "Online", "Offline"),
        ("r-0/3", "Offline", "ReplicaDeletionStarted"),
    ]
    written = [(w.value.leader, set(w.value.isr)) for w in world.writes()]  # type: ignore[union-attr]
    assert written == [(1, {1, 2, 3, 4, 5, 6}), (4, {1, 2, 3, 4, 5, 6}), (4, {4, 5, 6})]
    assert world.leader("r-0") == (4, (4, 5, 6), 3), "three leader epochs; Apache takes five"
    assert told_to_delete(effects) == [1, 2, 3]
    assert world.node("r-0") == ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3)), "10: the target is written last"
    moved = next(p for p in lai(effects, 4) if p.leader_epoch == 2)
    assert (moved.replicas, moved.adding_replicas, moved.removing_replicas) == ((4, 5, 6), (), ())
    assert {r.broker for r in effects.requests if isinstance(r, LeaderAndIsrRequest)} == {4, 5, 6}


@pytest.mark.behaviour(10, 88, 90, 115, 116, 118, 140)
def test_steps_10_to_12_when_every_leaver_has_answered() -> None:
    world = six()
    world.reassign({"r-0": [4, 5, 6]})
    for joined in (4, 5, 6):
        world.catch_up("r-0", joined)
    assert world.stopped(1, "r-0").requests == ()
    effects = world.stopped(2, "r-0")
    assert moves(effects) == [
        ("r-0/2", "ReplicaDeletionStarted", "ReplicaDeletionSuccessful"),
        ("r-0/2", "ReplicaDeletionSuccessful", "NonExistent"),
    ]
    assert world.writes() == [], "C15: one still owes its answer"
    last = world.stopped(3, "r-0")
    (write,) = world.writes()
    assert isinstance(write, WriteTopicAssignment)
    assert world.node("r-0") == ((4, 5, 6), (), ())
    assert [(m.broker, m.partitions[0].replicas) for m in metadata(last)] == [
        (b, (4, 5, 6)) for b in range(1, 7)
    ]
    context = world.context
    assert context.reassignments == {} and context.removals == {} and context.replica_state_overrides == {}


@pytest.mark.behaviour(119)
def test_the_example_of_the_source_document_goes_through_its_five_rows() -> None:
    world = six()
    rows = [(set(world.node("r-0")[0]), world.leader("r-0")[0], set(world.leader("r-0")[1]))]

    def look(_: object) -> None:
        rows.append((set(world.node("r-0")[0]), world.leader("r-0")[0], set(world.leader("r-0")[1])))

    original = world.count
    world.count = lambda answer: (look(answer), original(answer))[1]  # type: ignore[method-assign]
    brokers = Brokers(world)
    brokers.hear(world.elect(1))
    brokers.do(Requested(1, AlterReassignmentsAsked({tp("r-0"): ids(4, 5, 6)})))
    brokers.until_quiet()
    everybody = {1, 2, 3, 4, 5, 6}
    table = [
        ({1, 2, 3}, 1, {1, 2, 3}),
        (everybody, 1, everybody),
        (everybody, 4, everybody),
        (everybody, 4, {4, 5, 6}),
        ({4, 5, 6}, 4, {4, 5, 6}),
    ]
    seen = iter(rows)
    assert all(row in seen for row in table), rows


@pytest.mark.behaviour(92, 113)
def test_a_leader_that_stays_in_the_target_stays_leader_and_hears_of_the_new_set() -> None:
    world = six([1, 2, 3])
    world.reassign({"r-0": [2, 1, 4]})
    effects = world.catch_up("r-0", 4)
    assert world.leader("r-0") == (1, (1, 2, 4), 3)
    assert ("r-0", "Online", "Online") not in moves(effects)
    assert [p.replicas for p in lai(effects, 1)] == [(2, 1, 4), (2, 1, 4)]


@pytest.mark.behaviour(92)
def test_a_target_leader_that_is_dead_is_replaced_by_the_next_target_in_sync() -> None:
    world = six([1, 2])
    world.reassign({"r-0": [1, 4, 5]})
    world.catch_up("r-0", 4)
    world.kill(1)
    assert world.leader("r-0")[0] == 4
    assert world.context.reassignments[tp("r-0")].phase is ReassignmentPhase.GROWING, "1 is not in the ISR"
    world.start(1)
    world.catch_up("r-0", 5)
    effects = world.catch_up("r-0", 1)
    assert world.leader("r-0")[0] == 4, "in the target and alive: it stays"
    assert told_to_delete(effects) == [2]


def test_nobody_goes_while_the_only_target_that_could_lead_is_leaving() -> None:
    world = three("m", [2, 3])
    world.alter("m-0", [2])
    world.shut_down(2)
    world.reassign({"m-0": [2]})
    assert world.node("m-0") == ((2, 3), (), (3,)) and world.replica_state("m-0", 3) is ReplicaState.ONLINE
    world.start_clean(2, stopped_as=world.registrations[2].epoch)
    assert world.leader("m-0")[:2] == (2, (2,))
    world.stopped(3, "m-0")
    assert world.node("m-0") == ((2,), (), ())


def test_a_mere_change_of_order_costs_one_epoch_and_moves_no_leader() -> None:
    world = six([1, 2, 3])
    effects = world.reassign({"r-0": [3, 1, 2]})
    assert world.node("r-0") == ((3, 1, 2), (), ())
    assert world.leader("r-0") == (1, (1, 2, 3), 1)
    assert len([w for w in world.writes() if isinstance(w, WriteTopicAssignment)]) == 1
    assert moves(effects) == [] and world.context.reassignments == {}
    assert [p.replicas for p in lai(effects, 2)] == [(3, 1, 2)]


@pytest.mark.parametrize("meanwhile", ["dead", "leaving"])
def test_a_mere_change_of_order_waits_for_no_leader(meanwhile: str) -> None:
    world = three("m", [2, 3])
    world.alter("m-0", [2])
    if meanwhile == "dead":
        world.kill(2)
    else:
        world.shut_down(2)
    leader, isr, epoch = world.leader("m-0")
    assert (leader, isr) == (-1 if meanwhile == "dead" else 2, (2,))
    effects = world.reassign({"m-0": [3, 2]})
    assert world.node("m-0") == ((3, 2), (), ()) and world.context.reassignments == {}
    assert world.leader("m-0") == (leader, (2,), epoch + 1)
    assert 3 in lai_brokers(effects, "m-0")


def test_growing_alone_stops_nobody() -> None:
    world = six([1, 2])
    world.reassign({"r-0": [1, 2, 3]})
    effects = world.catch_up("r-0", 3)
    assert stops(effects) == []
    assert world.node("r-0") == ((1, 2, 3), (), ())
    assert world.context.reassignments == {}


def test_shrinking_alone_waits_only_for_the_answers() -> None:
    world = six([2, 4, 3, 5])
    effects = world.reassign({"r-0": [3]})
    assert world.leader("r-0") == (3, (3,), 2)
    assert told_to_delete(effects) == [2, 4, 5]
    for broker in (2, 4, 5):
        world.stopped(broker, "r-0")
    assert world.node("r-0") == ((3,), (), ())


def test_several_partitions_of_a_topic_are_one_write_of_its_node() -> None:
    world = six([1, 2], [2, 3], [3, 1])
    world.reassign({"r-0": [4, 5], "r-2": [5, 6]})
    assert len([w for w in world.writes() if isinstance(w, WriteTopicAssignment)]) == 1
    assert world.node("r-1") == ((2, 3), (), ())
    assert world.node("r-2") == ((5, 6, 3, 1), (5, 6), (3, 1))


def test_the_wish_for_what_is_there_already_does_nothing() -> None:
    world = six([1, 2])
    effects = world.reassign({"r-0": [1, 2]})
    assert result(effects) == (ErrorCode.NONE, "")
    assert world.writes() == [] and effects.requests == ()


def test_a_partition_that_never_had_a_leader_moves_and_may_get_one() -> None:
    world = World().brokers(1, 2)
    world.elect()
    world.create("r", [8, 9])
    assert world.partition_state("r-0").value == "NewPartition"
    world.reassign({"r-0": [2, 1]})
    assert world.leader("r-0") == (2, (2, 1), 0)
    assert world.node("r-0") == ((2, 1), (), ())
    assert world.context.reassignments == {}


def test_one_that_never_had_a_leader_waits_for_a_target_that_is_live() -> None:
    """Nobody led it as far as we know. Whoever is removed may hold all of it, and the state node say so."""
    world = World().brokers(1)
    world.elect()
    world.create("r", [8, 9])
    world.reassign({"r-0": [9]})
    assert world.node("r-0") == ((9, 8), (), (8,)), "it still names 8"
    assert world.pending_deletions == {}
    world.start(9)
    assert world.leader("r-0") == (9, (9,), 1)
    assert world.node("r-0") == ((9,), (), ()) and world.context.reassignments == {}


def test_one_that_never_had_a_leader_waits_while_its_only_live_target_is_leaving() -> None:
    world = World().brokers(1, 9)
    world.elect()
    world.shut_down(9)
    world.create("r", [8, 9])
    world.reassign({"r-0": [9]})
    assert world.node("r-0") == ((9, 8), (), (8,)), "it still names 8"
    world.start_clean(9, stopped_as=world.registrations[9].epoch)
    assert world.leader("r-0")[:2] == (9, (9,))
    assert world.node("r-0") == ((9,), (), ()) and world.context.reassignments == {}


def test_update_metadata_after_completion_goes_to_brokers_that_host_nothing_of_it() -> None:
    world = six([1, 2])
    world.reassign({"r-0": [1]})
    effects = world.stopped(2, "r-0")
    assert [r.broker for r in effects.requests if isinstance(r, UpdateMetadataRequest)] == [1, 2, 3, 4, 5, 6]
    assert not [r for r in effects.requests if isinstance(r, StopReplicaRequest)]


# --------------------------------------------------------------------------------------- leavers and their deaths


@pytest.mark.behaviour(115, 172)
def test_a_leaver_that_says_no_is_asked_again_for_ever() -> None:
    world = six([1, 2, 3])
    world.reassign({"r-0": [1, 2]})
    for _ in range(3):
        effects = world.stopped(3, "r-0", error=ErrorCode.KAFKA_STORAGE_ERROR)
        assert moves(effects) == [("r-0/3", "ReplicaDeletionStarted", "ReplicaDeletionIneligible")]
        assert world.node("r-0")[2] == (3,)
        world.now_ms += RETRY_MS
        assert told_to_delete(world.step(Tick())) == [3]
    world.stopped(3, "r-0")
    assert world.node("r-0") == ((1, 2), (), ())


@pytest.mark.behaviour(172)
def test_a_second_reassignment_sends_stop_replica_again() -> None:
    world = six([1, 2, 3])
    world.reassign({"r-0": [1, 2]})
    began_ms = world.now_ms
    world.now_ms += 1000
    effects = world.reassign({"r-0": [1]})
    assert told_to_delete(effects) == [2]
    assert world.context.removals[tp("r-0")] == {3: began_ms, 2: world.now_ms}, "each since it was told"
    world.stopped(2, "r-0")
    world.stopped(3, "r-0")
    assert world.node("r-0") == ((1,), (), ())


def test_a_leaver_that_dies_is_not_waited_for_and_told_when_it_returns() -> None:
    world = six([1, 2, 3])
    world.reassign({"r-0": [1, 2]})
    effects = world.kill(3)
    assert world.node("r-0") == ((1, 2), (), ())
    (stray,) = [c for c in effects.changes if c.kind == "warning"]
    assert stray.reason == "broker 3 is dead and keeps r-0: told to delete it when it returns"
    back = world.start(3)
    (stop,) = stops(back)
    assert (stop.broker, stop.partitions[0].delete, stop.partitions[0].leader_epoch) == (3, True, -2)
    world.stopped(3, "r-0")
    assert world.context.pending_deletions == world.pending_deletions == {}
    kinds = [type(r).__name__ for r in back.requests if r.broker == 3]
    assert kinds[0] == "StopReplicaRequest", "before it is told of anything new"


def test_a_broker_that_is_dead_already_is_left_behind_at_once() -> None:
    world = six([1, 2, 3])
    world.kill(3)
    world.reassign({"r-0": [1, 2, 4]})
    effects = world.catch_up("r-0", 4)
    assert world.node("r-0") == ((1, 2, 4), (), ()), "replacing a dead broker must not wait for it"
    assert BrokerId(3) in world.context.pending_deletions
    assert [c.reason for c in effects.changes if c.kind == "warning"] != []


def test_a_stray_that_was_given_back_meanwhile_is_not_deleted() -> None:
    world = six([1, 2, 3])
    world.reassign({"r-0": [1, 2]})
    world.kill(3)
    world.reassign({"r-0": [1, 2, 4]})
    world.catch_up("r-0", 4)
    world.context.commit_assignment(tp("r-0"), ReplicaAssignment(ids(1, 2, 4)))
    world.topics["r"] = TopicAssignment(
        "r", world.topics["r"].topic_id, {0: ReplicaAssignment(ids(1, 2, 4))}, world.topics["r"].version
    )
    assert tp("r-0") in world.context.pending_deletions[BrokerId(3)]
    world.start(3)
    world.reassign({"r-0": [1, 2, 4, 3]})
    world.kill(3)
    assert stops(world.start(3)) == []


# -------------------------------------------------------------------------------------------------- targets die


@pytest.mark.behaviour(106)
def test_a_target_that_dies_and_returns_takes_the_reassignment_up_again() -> None:
    world = six([1, 2])
    world.reassign({"r-0": [4, 5]})
    world.catch_up("r-0", 4)
    effects = world.kill(5)
    assert moves(effects) == [("r-0/5", "New", "Offline")]
    effects = world.start(5)
    assert ("r-0/5", "Offline", "Online") in moves(effects)
    world.catch_up("r-0", 5)
    world.stopped(1, "r-0")
    world.stopped(2, "r-0")
    assert world.node("r-0") == ((4, 5), (), ())


@pytest.mark.behaviour(106)
def test_the_start_of_a_broker_completes_a_reassignment_that_can_be() -> None:
    world = six([1, 2])
    world.reassign({"r-0": [4, 1]})
    world.catch_up("r-0", 4)
    assert world.node("r-0")[2] == (2,)
    world.kill(2)
    assert world.node("r-0") == ((4, 1), (), ())


def test_a_leader_that_dies_while_growing_is_replaced_and_the_growth_goes_on() -> None:
    world = six([1, 2])
    world.reassign({"r-0": [4, 5]})
    world.catch_up("r-0", 4)
    world.kill(1)
    assert world.leader("r-0")[0] == 4, "target first: the first live member of the ISR"
    world.catch_up("r-0", 5)
    world.stopped(2, "r-0")
    assert world.node("r-0") == ((4, 5), (), ())


@pytest.mark.behaviour(52, 170)
def test_an_only_replica_can_be_moved_away_before_its_broker_stops() -> None:
    world = six([2])
    world.reassign({"r-0": [3]})
    world.catch_up("r-0", 3)
    world.stopped(2, "r-0")
    effects = world.kill(2)
    assert world.leader("r-0") == (3, (3,), 3)
    assert moves(effects) == [] and world.writes() == []
