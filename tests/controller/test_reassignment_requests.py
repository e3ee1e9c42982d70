"""What may be wished of a reassignment, by request and by the older node, and what is running."""

import pytest

from odradek.controller import reassignment_requests
from odradek.controller.effects import Effects
from odradek.controller.events import Requested
from odradek.model.cluster import ReplicaAssignment
from odradek.model.controller_requests import (
    AlterReassignmentsAnswer,
    ListReassignmentsAnswer,
    ListReassignmentsAsked,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import (
    DeleteTopicsRequested,
    ReassignmentRequested,
    TopicAssignment,
    TopicAssignmentsChanged,
    TopicsChanged,
    UnreadableNode,
)
from odradek.model.ids import TopicId, TopicPartition
from odradek.store.layout import encode_topic
from tests.controller.six import ids, result, six
from tests.controller.world import (
    World,
    answer_of,
    tp,
)

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
    for asked in ("r-0", "r-7", "none-0"):  # whether there is such a partition or not
        effects = world.reassign({asked: target})
        assert result(effects, asked) == (error, why)
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
        answer = answer_of(world.step(Requested(1, ListReassignmentsAsked(partitions))))
        assert isinstance(answer, ListReassignmentsAnswer)
        return dict(answer.partitions)

    running = {tp("r-0"): ReplicaAssignment(ids(4, 5, 1, 2), ids(4, 5), ids(1, 2))}
    assert listed(None) == running
    assert listed((tp("r-0"), tp("r-1"))) == running
    assert listed((tp("r-1"),)) == {}


# ------------------------------------------------------------------------------------------------ the older node


@pytest.mark.behaviour(163)
def test_more_than_the_node_of_a_topic_can_name_is_refused_and_nobody_resigns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The store takes no larger node, and a controller that cannot write one cannot go on: no other could either."""
    monkeypatch.setattr(reassignment_requests, "MOST_NODE_BYTES", 60)
    world = six([1, 2], [2, 3], [3, 4])
    targets = {"r-0": [4, 5], "r-1": [5, 6], "r-2": [1, 2]}
    answer = answer_of(world.reassign(targets))
    assert isinstance(answer, AlterReassignmentsAnswer)
    assert {error for error, _ in answer.partitions.values()} == {ErrorCode.POLICY_VIOLATION}
    assert "reassign fewer of its 3 partitions at a time" in answer.partitions[tp("r-0")][1]
    ask_by_node(world, targets)
    assert world.reassignment is None
    assert [world.node(f"r-{n}") for n in range(3)] == [((1, 2), (), ()), ((2, 3), (), ()), ((3, 4), (), ())]
    assert result(world.reassign({"r-0": [4, 5]})) == (ErrorCode.NONE, "")


@pytest.mark.parametrize("count", [1, 9, 120])
def test_what_the_node_of_a_topic_is_reckoned_to_take_is_what_it_takes(count: int) -> None:
    moving = ReplicaAssignment(ids(1001, 2, 30, 4), ids(1001, 2), ids(30, 4))
    partitions = {n: moving if n % 2 else ReplicaAssignment(ids(7, 1008)) for n in range(count)}
    reckoned = sum(
        reassignment_requests._most_bytes(TopicPartition("r", n), a) for n, a in partitions.items()
    )
    frame = len(encode_topic(TopicAssignment("r", TopicId(bytes(16)), {})))
    written = len(encode_topic(TopicAssignment("r", TopicId(bytes(16)), partitions)))
    assert written <= reckoned + frame <= written + 3 + 3 * count


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


@pytest.mark.parametrize("becomes", ["absent", "as a hand has written it"])
def test_the_older_node_forgets_what_a_hand_has_ended(becomes: str) -> None:
    """Its tools refuse to ask for anything as long as it is there."""
    world = six([1, 2])
    ask_by_node(world, {"r-0": [4, 5]})
    broken = UnreadableNode("/brokers/topics/r", "expected JSON, found {", "r")
    world.step(TopicAssignmentsChanged((), (broken,)))
    assert world.reassignment == {tp("r-0"): (4, 5)}
    world.states.clear()
    if becomes == "absent":
        del world.topics["r"]
        world.step(TopicsChanged(()))
    else:
        world.create("r", [4, 5])
    assert world.reassignment is None


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
