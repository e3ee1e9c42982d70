"""Reassignment: S0's twelve steps, replaced, cancelled, and with the controller dying after every write."""

import pytest

from odradek.controller.context import ReassignmentPhase
from odradek.controller.core import ControllerCore
from odradek.controller.effects import (
    AlterReassignmentsAnswer,
    Effects,
    LeaderAndIsrRequest,
    ListReassignmentsAnswer,
    StopReplicaRequest,
    UpdateMetadataRequest,
    WritePartitionState,
    WriteTopicAssignment,
)
from odradek.controller.events import (
    AlterReassignmentsRequested,
    ListReassignmentsRequested,
    Resigned,
    Tick,
)
from odradek.controller.leavers import RETRY_MS
from odradek.controller.replica_states import ReplicaState
from odradek.model.cluster import ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import DeleteTopicsRequested, ReassignmentRequested, TopicAssignment
from odradek.model.ids import BrokerId, TopicPartition
from tests.controller.brokers import Brokers
from tests.controller.world import (
    ControllerDied,
    World,
    answer_of,
    lai,
    lai_brokers,
    metadata,
    moves,
    stops,
    tp,
)


def six(*assignment: list[int]) -> World:
    world = World().brokers(1, 2, 3, 4, 5, 6)
    world.elect(1)
    world.create("r", *(assignment or ([1, 2, 3],)))
    return world


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(b) for b in brokers)


def result(effects: Effects, text: str = "r-0") -> tuple[ErrorCode, str]:
    answer = effects.answers[-1].body
    assert isinstance(answer, AlterReassignmentsAnswer)
    return answer.partitions[tp(text)]


def told_to_delete(effects: Effects) -> list[int]:
    return [r.broker for r in stops(effects) if any(p.delete for p in r.partitions)]


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
    assert context.reassignments == {} and context.leavers == {} and context.unusual_replicas == {}


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
    brokers.do(AlterReassignmentsRequested(1, {tp("r-0"): ids(4, 5, 6)}))
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


def test_a_mere_change_of_order_costs_one_epoch_and_moves_no_leader() -> None:
    world = six([1, 2, 3])
    effects = world.reassign({"r-0": [3, 1, 2]})
    assert world.node("r-0") == ((3, 1, 2), (), ())
    assert world.leader("r-0") == (1, (1, 2, 3), 1)
    assert len([w for w in world.writes() if isinstance(w, WriteTopicAssignment)]) == 1
    assert moves(effects) == [] and world.context.reassignments == {}
    assert [p.replicas for p in lai(effects, 2)] == [(3, 1, 2)]


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
    effects = world.reassign({"r-0": [1]})
    assert told_to_delete(effects) == [2]
    assert tp("r-0") in world.context.leavers and set(world.context.leavers[tp("r-0")]) == {2, 3}
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
    assert world.context.strays == world.strays == {}
    kinds = [type(r).__name__ for r in back.requests if r.broker == 3]
    assert kinds[0] == "StopReplicaRequest", "before it is told of anything new"


def test_a_broker_that_is_dead_already_is_left_behind_at_once() -> None:
    world = six([1, 2, 3])
    world.kill(3)
    world.reassign({"r-0": [1, 2, 4]})
    effects = world.catch_up("r-0", 4)
    assert world.node("r-0") == ((1, 2, 4), (), ()), "replacing a dead broker must not wait for it"
    assert BrokerId(3) in world.context.strays
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
    assert tp("r-0") in world.context.strays[BrokerId(3)]
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


# ---------------------------------------------------------------------------------------- replace and cancel


@pytest.mark.behaviour(162)
def test_a_replacement_drops_what_is_no_longer_wanted_and_goes_on_with_the_rest() -> None:
    world = six([1, 2, 3])
    world.reassign({"r-0": [4, 5, 6]})
    effects = world.reassign({"r-0": [4, 5, 3]})
    assert world.node("r-0") == ((4, 5, 3, 1, 2), (4, 5), (1, 2))  # golden 04b
    assert moves(effects)[:2] == [("r-0/6", "New", "Offline"), ("r-0/6", "Offline", "ReplicaDeletionStarted")]
    assert told_to_delete(effects) == [6]
    assert world.leader("r-0") == (1, (1, 2, 3), 3), "one for the drop, one for the new set"
    assert [world.replica_state("r-0", b) for b in (4, 5)] == [ReplicaState.NEW, ReplicaState.NEW]
    assert lai_brokers(effects) == [1, 2, 3, 4, 5]
    world.stopped(6, "r-0")
    world.catch_up("r-0", 4)
    world.catch_up("r-0", 5)
    world.stopped(1, "r-0")
    world.stopped(2, "r-0")
    assert world.node("r-0") == ((4, 5, 3), (), ())


@pytest.mark.behaviour(162)
def test_a_cancel_restores_the_original_set_and_stops_the_newcomers() -> None:
    world = six([1, 2, 3])
    world.reassign({"r-0": [4, 5, 6]})
    world.reassign({"r-0": [4, 5, 3]})
    world.stopped(6, "r-0")
    effects = world.reassign({"r-0": None})
    assert result(effects) == (ErrorCode.NONE, "")
    assert world.node("r-0") == ((3, 1, 2), (), ()), (
        "golden 04b: the order of the original is not kept anywhere"
    )
    assert told_to_delete(effects) == [4, 5]
    assert world.leader("r-0") == (1, (1, 2, 3), 5)
    assert lai(effects, 1)[-1].replicas == (3, 1, 2)
    world.stopped(4, "r-0")
    world.stopped(5, "r-0")
    assert world.context.reassignments == {} and world.context.leavers == {}
    assert result(world.reassign({"r-0": None}))[0] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.behaviour(162)
def test_a_cancel_takes_the_lead_and_the_isr_from_the_newcomers_before_the_node_forgets_them() -> None:
    world = six([1, 2])
    world.reassign({"r-0": [4, 5]})
    world.catch_up("r-0", 4)
    world.kill(1)
    assert world.leader("r-0")[:2] == (4, (2, 4))
    effects = world.reassign({"r-0": None})
    kinds = [type(w).__name__ for w in world.writes()]
    assert kinds[:4] == ["WriteStrays", "WriteStrays", "WritePartitionState", "WriteTopicAssignment"], (
        "a crash in between leaves a leader with a node, and data that somebody knows of"
    )
    assert world.leader("r-0")[:2] == (2, (2,))
    assert world.node("r-0") == ((1, 2), (), ())
    assert told_to_delete(effects) == [4, 5]


@pytest.mark.behaviour(164)
def test_a_cancel_that_would_lose_the_records_is_refused() -> None:
    world = six([1, 2])  # KAFKA-14424
    world.reassign({"r-0": [4, 5]})
    world.catch_up("r-0", 4)
    world.kill(1, 2)
    assert world.leader("r-0")[:2] == (4, (4,))
    error, why = result(world.reassign({"r-0": None}))
    assert error is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert why == "without [4, 5] no replica that is live and in the ISR [4] would be left"
    assert world.leader("r-0")[0] == 4 and world.node("r-0")[1] == (4, 5)


@pytest.mark.behaviour(164)
def test_a_replacement_that_would_lose_the_records_is_refused_too() -> None:
    world = six([1, 2])
    world.reassign({"r-0": [4, 5]})
    world.catch_up("r-0", 4)
    world.kill(1, 2)
    assert result(world.reassign({"r-0": [5, 6]}))[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT


# ------------------------------------------------------------------------------------------------- validation


@pytest.mark.behaviour(163)
@pytest.mark.parametrize(
    ("target", "error", "why"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Empty replica list specified in partition reassignment."),
        (
            [1, 1],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Duplicate replica ids in partition reassignment replica list: [1, 1]",
        ),
        (
            [1, -2],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Invalid broker id in replica list: [1, -2]",
        ),
        (
            [1, 9],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Replica assignment has brokers that are not alive. Replica list: [9], live broker list: [1, 2, 3, 4, 5, 6]",
        ),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused_with_a_sentence(
    target: list[int] | None, error: ErrorCode, why: str
) -> None:
    world = six([1, 2])
    effects = world.reassign({"r-0": target})
    assert result(effects) == (error, why)
    assert world.writes() == [] and effects.requests == ()


@pytest.mark.behaviour(163)
def test_a_dead_broker_that_is_assigned_already_may_stay() -> None:
    world = six([1, 2])
    world.kill(2)
    assert result(world.reassign({"r-0": [1, 2, 3]}))[0] is ErrorCode.NONE


@pytest.mark.behaviour(163)
def test_partitions_that_are_not_there_or_are_being_deleted_are_unknown() -> None:
    world = six([1, 2])
    assert result(world.reassign({"r-7": [1]}), "r-7") == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "The partition does not exist.",
    )
    world.delete_topics = ("r",)
    world.step(DeleteTopicsRequested(("r",)))
    assert result(world.reassign({"r-0": [3]}))[0] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_one_request_may_be_accepted_for_one_partition_and_refused_for_another() -> None:
    world = six([1, 2], [2, 3])
    effects = world.reassign({"r-0": [4, 5], "r-1": [9]})
    answer = answer_of(effects)
    assert isinstance(answer, AlterReassignmentsAnswer) and answer.error is ErrorCode.NONE
    assert {str(t): e for t, (e, _) in answer.partitions.items()} == {
        "r-0": ErrorCode.NONE,
        "r-1": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    }
    assert world.node("r-0")[1] == (4, 5) and world.node("r-1") == ((2, 3), (), ())


def test_a_change_of_size_can_be_ruled_out() -> None:
    world = six([1, 2])
    effects = world.reassign({"r-0": [1, 2, 3]}, allow_replication_factor_change=False)
    assert result(effects)[0] is ErrorCode.INVALID_REPLICATION_FACTOR
    assert result(world.reassign({"r-0": [1, 3]}, allow_replication_factor_change=False))[0] is ErrorCode.NONE


def test_running_reassignments_are_listed_with_what_comes_and_goes() -> None:
    world = six([1, 2], [2, 3])
    world.reassign({"r-0": [4, 5]})

    def listed(partitions: tuple[TopicPartition, ...] | None) -> dict[TopicPartition, ReplicaAssignment]:
        answer = answer_of(world.step(ListReassignmentsRequested(1, partitions)))
        assert isinstance(answer, ListReassignmentsAnswer)
        return dict(answer.partitions)

    running = {tp("r-0"): ReplicaAssignment(ids(4, 5, 1, 2), ids(4, 5), ids(1, 2))}
    assert listed(None) == running
    assert listed((tp("r-0"), tp("r-1"))) == running
    assert listed((tp("r-1"),)) == {}


# ------------------------------------------------------------------------------------------------ the older node


def ask_by_node(world: World, targets: dict[str, list[int]]) -> Effects:
    world.reassignment = {tp(t): ids(*r) for t, r in targets.items()}
    return world.step(ReassignmentRequested(dict(world.reassignment), 0))


@pytest.mark.behaviour(6, 117)
def test_the_older_node_starts_a_reassignment_and_loses_the_partition_when_it_is_done() -> None:
    world = six([1, 2], [2, 3])
    ask_by_node(world, {"r-0": [4, 5], "r-1": [5, 6]})
    assert world.node("r-0") == ((4, 5, 1, 2), (4, 5), (1, 2))
    world.catch_up("r-0", 4)
    world.catch_up("r-0", 5)
    world.stopped(1, "r-0")
    assert world.reassignment == {tp("r-0"): (4, 5), tp("r-1"): (5, 6)}
    world.stopped(2, "r-0")
    assert world.reassignment == {tp("r-1"): (5, 6)}
    for broker in (5, 6):
        world.catch_up("r-1", broker)
    world.stopped(2, "r-1")
    world.stopped(3, "r-1")
    assert world.reassignment is None, "the node goes with its last partition"


@pytest.mark.behaviour(6, 163)
def test_what_is_refused_in_the_older_node_is_taken_out_of_it_and_said() -> None:
    world = six([1, 2])
    effects = ask_by_node(world, {"r-0": [4, 99], "nosuch-0": [1]})
    assert world.reassignment is None  # golden 04c: Apache keeps [4,99] and hangs
    assert world.node("r-0") == ((1, 2), (), ())
    said = {str(c.topic_partition): c.reason for c in effects.changes if c.kind == "failure"}
    assert said["nosuch-0"] == "UNKNOWN_TOPIC_OR_PARTITION: The partition does not exist."
    assert "brokers that are not alive. Replica list: [99]" in said["r-0"]


def test_a_request_overrides_what_the_older_node_asked_for() -> None:
    world = six([1, 2])
    ask_by_node(world, {"r-0": [4, 5]})
    world.reassign({"r-0": [3, 1]})
    assert world.reassignment is None
    assert world.node("r-0") == ((3, 1, 2), (3,), (2,))


def test_our_own_trim_of_the_node_comes_back_and_nothing_happens() -> None:
    world = six([1, 2], [2, 3])
    ask_by_node(world, {"r-0": [4, 5], "r-1": [9]})
    assert world.reassignment == {tp("r-0"): (4, 5)}
    effects = world.step(ReassignmentRequested(dict(world.reassignment), 1))
    assert effects.requests == () and world.writes() == []


# ------------------------------------------------------------------------------------- deletion in the middle


def test_a_deletion_takes_old_and_new_replicas_alike() -> None:
    world = six([1, 2])
    world.reassign({"r-0": [4, 5]})
    world.catch_up("r-0", 4)
    world.delete_topics = ("r",)
    effects = world.step(DeleteTopicsRequested(("r",)))
    assert told_to_delete(effects) == [1, 2, 4, 5]  # golden 05c
    assert world.context.reassignments == {}
    for broker in (1, 2, 4, 5):
        world.stopped(broker, "r-0")
    assert "r" not in world.topics


def test_a_deletion_while_leavers_owe_their_answers_takes_them_along() -> None:
    world = six([1, 2])
    world.reassign({"r-0": [1]})
    world.delete_topics = ("r",)
    effects = world.step(DeleteTopicsRequested(("r",)))
    assert told_to_delete(effects) == [1], "2 is deleting already"
    world.stopped(1, "r-0")
    assert "r" in world.topics
    world.stopped(2, "r-0")
    assert "r" not in world.topics and world.context.leavers == {}


# ------------------------------------------------------------------------------------------ conflicts and failover


@pytest.mark.behaviour(121)
def test_a_new_controller_takes_a_running_reassignment_up_with_a_new_epoch() -> None:
    world = six([1, 2])
    world.reassign({"r-0": [4, 5]})
    world.core.step(Resigned("it died"), 0)
    effects = world.elect(2)
    assert world.leader("r-0") == (1, (1, 2), 2)  # golden 07c
    assert lai_brokers(effects)[-4:] == [1, 2, 4, 5]
    last = [r for r in effects.requests if isinstance(r, LeaderAndIsrRequest) and r.broker == 4][-1]
    assert last.partitions[0].adding_replicas == (4, 5) and last.partitions[0].leader_epoch == 2


def test_a_topic_node_written_by_another_under_our_write_is_written_over_when_it_is_the_same() -> None:
    world = six([1, 2])

    def another(writes: object) -> None:
        node = world.topics["r"]
        world.topics["r"] = TopicAssignment("r", node.topic_id, node.partitions, node.version + 1)

    world.before_write = another
    world.reassign({"r-0": [4, 5]})
    assert world.node("r-0") == ((4, 5, 1, 2), (4, 5), (1, 2))


def test_partitions_that_appeared_under_our_write_are_not_overwritten() -> None:
    world = six([1, 2])

    def another(writes: object) -> None:
        node = world.topics["r"]
        grown = {**node.partitions, 1: ReplicaAssignment(ids(2, 3))}
        world.topics["r"] = TopicAssignment("r", node.topic_id, grown, node.version + 1)

    world.before_write = another
    effects = world.reassign({"r-0": [4, 5]})
    assert "partitions [1] appeared under our write" in (effects.resign or "")
    assert sorted(world.topics["r"].partitions) == [0, 1]
    world.elect(2)
    assert world.leader("r-1")[0] == 2


def test_a_lost_answer_of_the_topic_write_is_recognised() -> None:
    world = six([1, 2])
    world.lose_answers = True
    effects = world.reassign({"r-0": [4, 5]})
    assert len([w for w in world.writes() if isinstance(w, WriteTopicAssignment)]) == 1
    assert lai_brokers(effects) == [1, 2, 4, 5]


STORIES = {
    "all new": ([1, 2, 3], [4, 5, 6]),
    "leader stays": ([1, 2, 3], [2, 1, 4]),
    "overlap": ([1, 2, 3], [3, 2, 4]),
    "shrink": ([2, 4, 3, 5], [3]),
    "grow": ([1, 2], [1, 2, 3, 4]),
    "order": ([1, 2, 3], [3, 1, 2]),
}


def run(story: str, dies_after: int) -> tuple[World, Brokers]:
    before, after = STORIES[story]
    world = six(before)
    brokers = Brokers(world)
    brokers.hear(world.elect(1))
    brokers.until_quiet()
    world.dies_after_write = world.writes_done + dies_after if dies_after else 0
    brokers.do(AlterReassignmentsRequested(1, {tp("r-0"): ids(*after)}))
    if tp("r-0") in world.context.reassignments or brokers.deaths == 0:
        brokers.until_quiet()
    elif world.node("r-0")[0] != tuple(after):
        # It died before the wish was stored: nobody was answered, the client asks again.
        brokers.do(AlterReassignmentsRequested(2, {tp("r-0"): ids(*after)}))
    brokers.until_quiet()
    return world, brokers


@pytest.mark.behaviour(119, 120)
@pytest.mark.parametrize("story", STORIES)
def test_a_reassignment_survives_the_death_of_the_controller_after_every_single_write(story: str) -> None:
    undisturbed, _ = run(story, 0)
    _, after = STORIES[story]
    most = undisturbed.writes_done
    deaths = 0
    for dies_after in range(1, most + 1):
        world, brokers = run(story, dies_after)
        deaths += brokers.deaths
        leader, isr, _ = world.leader("r-0")
        assert world.node("r-0") == (tuple(after), (), ()), dies_after
        assert leader in after and set(isr) == set(after), dies_after
        assert world.context.reassignments == {} and world.context.leavers == {}, dies_after
        holders = {b for b, kept in brokers.holds.items() if tp("r-0") in kept}
        assert holders == set(after), f"dies after write {dies_after}: data on {holders}"
    assert deaths >= 2, "the controller was killed inside the story"


@pytest.mark.behaviour(162)
def test_a_cancel_survives_the_death_of_the_controller_after_every_single_write() -> None:
    for dies_after in range(1, 8):
        world = six([1, 2, 3])
        brokers = Brokers(world)
        brokers.hear(world.elect(1))
        world.reassign({"r-0": [4, 5, 6]})
        brokers.hear(world.catch_up("r-0", 4))
        world.dies_after_write = world.writes_done + dies_after
        brokers.do(AlterReassignmentsRequested(1, {tp("r-0"): None}))
        world.dies_after_write = 0
        if world.node("r-0")[1]:
            brokers.do(AlterReassignmentsRequested(2, {tp("r-0"): None}))
        brokers.until_quiet()
        leader, isr, _ = world.leader("r-0")
        assert world.node("r-0") == ((1, 2, 3), (), ()), dies_after
        assert leader in (1, 2, 3) and set(isr) == {1, 2, 3}, dies_after


def test_update_metadata_after_completion_goes_to_brokers_that_host_nothing_of_it() -> None:
    world = six([1, 2])
    world.reassign({"r-0": [1]})
    effects = world.stopped(2, "r-0")
    assert [r.broker for r in effects.requests if isinstance(r, UpdateMetadataRequest)] == [1, 2, 3, 4, 5, 6]
    assert not [r for r in effects.requests if isinstance(r, StopReplicaRequest)]


@pytest.mark.behaviour(162)
def test_a_leaver_that_is_wanted_again_is_not_waited_for() -> None:
    world = six([1, 2, 3])
    world.reassign({"r-0": [1, 2]})
    assert world.replica_state("r-0", 3) is ReplicaState.DELETION_STARTED
    world.reassign({"r-0": None})
    assert world.replica_state("r-0", 3) is ReplicaState.ONLINE
    world.catch_up("r-0", 3)
    late = world.stopped(3, "r-0")
    assert moves(late) == [] and set(world.leader("r-0")[1]) == {1, 2, 3}
    assert world.context.leavers == {}


@pytest.mark.behaviour(162)
def test_the_leader_hears_of_a_cancel_even_if_the_controller_died_of_it() -> None:
    world = six([1, 2, 3])
    told = lai(world.reassign({"r-0": [4, 5, 6]}), 1)[-1]
    world.dies_after_write = world.writes_done + 5  # three strays, the drop, the topic node
    with pytest.raises(ControllerDied):
        world.reassign({"r-0": None})
    assert world.node("r-0")[1:] == ((), ()), "nothing in the store says that something is left to do"
    world.core = ControllerCore(world.settings)
    news = lai(world.elect(2), 1)[-1]
    assert news.leader_epoch > told.leader_epoch and 4 not in news.replicas
