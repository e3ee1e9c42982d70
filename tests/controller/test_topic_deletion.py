"""Topic deletion: every state, halted and resumed, with the controller dying at every step."""

import pytest

from odradek.controller.broker_requests import StopReplicaRequest
from odradek.controller.context import ControllerSettings
from odradek.controller.effects import (
    Effects,
    RemoveTopic,
    RemoveTopicConfig,
    RemoveTopicDeletion,
    WritePartitionState,
    WriteTopicAssignment,
)
from odradek.controller.events import LeaderAndIsrAnswered, Resigned, Tick
from odradek.controller.states import PartitionState, ReplicaState
from odradek.controller.topic_deletion import RETRY, RETRY_MS
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import (
    ConfigChanged,
    DeleteTopicsRequested,
    ReassignmentRequested,
    TopicAssignmentsChanged,
    TopicsChanged,
    UnreadableNode,
)
from odradek.model.ids import BrokerId
from tests.controller.world import (
    World,
    lai_brokers,
    metadata,
    moves,
    stops,
    three,
    topic_id_of,
    tp,
)


def delete(world: World, *topics: str) -> Effects:
    world.delete_topics = tuple(sorted({*world.delete_topics, *topics}))
    return world.step(DeleteTopicsRequested(world.delete_topics))


def deletions(effects: Effects) -> dict[int, list[str]]:
    """broker -> partitions it is told to delete."""
    return {
        r.broker: [str(p.topic_partition) for p in r.partitions if p.delete]
        for r in effects.requests
        if isinstance(r, StopReplicaRequest)
    }


@pytest.mark.behaviour(73, 74, 85, 87, 93, 94, 154)
def test_deletion_takes_the_partitions_out_of_the_machine_at_its_start_and_stops_every_replica() -> None:
    world = three("d", [2, 1, 3])
    effects = delete(world, "d")
    assert moves(effects) == [
        ("d-0", "Online", "Offline"),
        ("d-0", "Offline", "NonExistent"),
        ("d-0/1", "Online", "Offline"),
        ("d-0/1", "Offline", "ReplicaDeletionStarted"),
        ("d-0/2", "Online", "Offline"),
        ("d-0/2", "Offline", "ReplicaDeletionStarted"),
        ("d-0/3", "Online", "Offline"),
        ("d-0/3", "Offline", "ReplicaDeletionStarted"),
    ]
    assert world.context.partition_states == {}
    assert deletions(effects) == {1: ["d-0"], 2: ["d-0"], 3: ["d-0"]}
    assert {p.leader_epoch for r in stops(effects) for p in r.partitions} == {-2}
    assert lai_brokers(effects) == [], "row 71"
    told = metadata(effects)[0].partitions[0]
    assert (told.leader, told.leader_epoch, told.partition_epoch) == (-2, 0, 0)
    assert [m.broker for m in metadata(effects)] == [1, 2, 3]
    assert world.leader("d-0") == (-1, (3,), 1), "golden 05a writes it three times, ours once"
    assert len(world.writes()) == 1


@pytest.mark.behaviour(9, 57, 73, 76, 88, 90, 142, 169)
def test_when_every_replica_has_answered_the_nodes_go_and_then_the_memory() -> None:
    world = three("d", [2, 1], [1, 2])
    world.configs["d"] = {"retention.ms": "1000"}
    delete(world, "d")
    first = world.stopped(2, "d-0", "d-1")
    assert moves(first) == [
        ("d-0/2", "ReplicaDeletionStarted", "ReplicaDeletionSuccessful"),
        ("d-1/2", "ReplicaDeletionStarted", "ReplicaDeletionSuccessful"),
    ]
    assert world.removed == []
    last = world.stopped(1, "d-0", "d-1")
    assert moves(last)[2:] == [
        ("d-0/2", "ReplicaDeletionSuccessful", "NonExistent"),
        ("d-0/1", "ReplicaDeletionSuccessful", "NonExistent"),
        ("d-1/1", "ReplicaDeletionSuccessful", "NonExistent"),
        ("d-1/2", "ReplicaDeletionSuccessful", "NonExistent"),
    ]
    assert world.removed == [RemoveTopic("d"), RemoveTopicConfig("d"), RemoveTopicDeletion("d")]
    context = world.context
    assert context.topics == {} and context.assignments == {} and context.topics_to_delete == set()
    assert context.replica_state_overrides == {} and context.leaderships == {}


def test_an_error_told_before_the_deletion_does_not_keep_the_answer_to_it_from_counting() -> None:
    """A replica whose log is damaged says so to LeaderAndIsr, and that answer comes behind the start of the deletion."""
    world = three("d", [2, 1])
    delete(world, "d")
    damaged = {tp("d-0"): ErrorCode.KAFKA_STORAGE_ERROR}
    late = world.step(
        LeaderAndIsrAnswered(BrokerId(2), world.registrations[2].epoch, ErrorCode.NONE, damaged)
    )
    assert moves(late) == []
    world.stopped(1, "d-0")
    world.stopped(2, "d-0")
    assert RemoveTopic("d") in world.removed

    world.create("d", [1, 3])
    assert world.leader("d-0") == (1, (1, 3), 0)


def test_a_topic_of_the_same_name_may_follow() -> None:
    world = three("d", [2, 1])
    delete(world, "d")
    world.stopped(1, "d-0")
    world.stopped(2, "d-0")
    world.create("d", [1, 3])
    assert world.leader("d-0") == (1, (1, 3), 0)


@pytest.mark.behaviour(58, 73, 89)
@pytest.mark.parametrize(
    "refusal", [{"error": ErrorCode.KAFKA_STORAGE_ERROR}, {"whole": ErrorCode.UNKNOWN_SERVER_ERROR}]
)
def test_a_broker_that_says_no_makes_the_replica_ineligible_and_is_asked_again(
    refusal: dict[str, ErrorCode],
) -> None:
    world = three("d", [2, 1])
    delete(world, "d")
    world.stopped(1, "d-0")
    effects = world.stopped(2, "d-0", **refusal)  # type: ignore[arg-type]
    assert moves(effects) == [("d-0/2", "ReplicaDeletionStarted", "ReplicaDeletionIneligible")]
    assert deletions(effects) == {}, "not at once: that would be a busy loop"
    assert world.context.deadlines[RETRY] == world.now_ms + RETRY_MS
    world.now_ms += RETRY_MS
    again = world.step(Tick())
    assert moves(again) == [
        ("d-0/2", "ReplicaDeletionIneligible", "Offline"),
        ("d-0/2", "Offline", "ReplicaDeletionStarted"),
    ]
    assert deletions(again) == {2: ["d-0"]}
    assert RETRY not in world.context.deadlines
    world.stopped(2, "d-0")
    assert "d" not in world.topics


def test_a_broker_that_said_no_is_asked_again_also_while_it_shuts_down() -> None:
    world = three("d", [2, 1])
    delete(world, "d")
    world.stopped(1, "d-0")
    world.stopped(2, "d-0", error=ErrorCode.KAFKA_STORAGE_ERROR)
    assert moves(world.shut_down(2)) == []
    world.now_ms += RETRY_MS

    assert deletions(world.step(Tick())) == {2: ["d-0"]}


@pytest.mark.behaviour(58, 101)
def test_a_dead_replica_halts_the_deletion_until_its_broker_returns() -> None:
    world = three("d", [2, 1, 3])
    world.kill(3)
    effects = delete(world, "d")
    assert ("d-0/3", "Offline", "ReplicaDeletionIneligible") in moves(effects)
    assert deletions(effects) == {1: ["d-0"], 2: ["d-0"]}
    (note,) = [c for c in effects.changes if c.kind == "topic"]
    assert "halted: replicas on broker 3, not live" in note.reason
    world.stopped(1, "d-0")
    world.stopped(2, "d-0")
    assert "d" in world.topics and world.delete_topics == ("d",)
    started = world.start(3)
    assert moves(started) == [
        ("d-0/3", "ReplicaDeletionIneligible", "Offline"),
        ("d-0/3", "Offline", "ReplicaDeletionStarted"),
    ]
    assert deletions(started) == {3: ["d-0"]}
    assert lai_brokers(started) == []
    world.stopped(3, "d-0")
    assert "d" not in world.topics and world.delete_topics == ()


@pytest.mark.behaviour(73, 101)
def test_a_broker_that_dies_while_it_deletes_makes_its_replica_ineligible() -> None:
    world = three("d", [2, 1])
    delete(world, "d")
    effects = world.kill(2)
    assert moves(effects) == [("d-0/2", "ReplicaDeletionStarted", "ReplicaDeletionIneligible")]
    assert world.writes() == []
    world.stopped(1, "d-0")
    world.start(2)
    world.stopped(2, "d-0")
    assert "d" not in world.topics


@pytest.mark.behaviour(57, 101)
def test_what_was_deleted_stays_deleted_when_its_broker_dies_and_returns() -> None:
    world = three("d", [2, 1])
    delete(world, "d")
    world.stopped(2, "d-0")
    world.kill(2)
    world.start(2)
    assert world.replica_state("d-0", 2) is ReplicaState.DELETION_SUCCESSFUL
    world.stopped(1, "d-0")
    assert "d" not in world.topics


@pytest.mark.behaviour(102)
def test_partitions_of_a_topic_that_is_being_deleted_get_no_leader_any_more() -> None:
    world = three("d", [2, 1, 3])
    delete(world, "d")
    effects = world.kill(2)
    assert [m for m in moves(effects) if m[0] == "d-0"] == []
    world.start(2)
    assert world.leader("d-0")[0] == -1


def test_the_old_leader_of_a_deleted_topic_is_fenced() -> None:
    world = three("d", [2, 1, 3])
    delete(world, "d")
    effects = world.alter("d-0", [2, 1], sender=2, leader_epoch=0, partition_epoch=0)
    assert effects.answers[0].body.partitions[0].error is ErrorCode.FENCED_LEADER_EPOCH  # type: ignore[union-attr]


def test_a_newly_started_broker_does_not_hear_of_topics_that_are_being_deleted() -> None:
    world = three("d", [2, 1])
    world.create("kept", [2, 1])
    delete(world, "d")
    effects = world.start(4)
    told = next(m for m in metadata(effects) if m.broker == 4)
    assert [str(p.topic_partition) for p in told.partitions] == ["kept-0"]


def test_an_answer_of_an_earlier_incarnation_does_not_count() -> None:
    world = three("d", [2, 1])
    delete(world, "d")
    old = world.registrations[2].epoch
    world.bounce(2)
    assert world.replica_state("d-0", 2) is ReplicaState.DELETION_STARTED, "asked again at once"
    world.stopped(2, "d-0", epoch=old)
    assert world.replica_state("d-0", 2) is ReplicaState.DELETION_STARTED


def test_a_wish_for_a_topic_that_is_not_there_is_removed() -> None:
    world = three("t", [2, 1])
    effects = delete(world, "nobody")
    assert world.removed == [RemoveTopicDeletion("nobody")]
    assert ("nobody", "deletion requested", "deletion forgotten") in moves(effects, "topic")
    assert world.leader("t-0")[0] == 2


@pytest.mark.behaviour(167)
def test_with_deletion_switched_off_wishes_are_removed_and_topics_stay() -> None:
    world = World(ControllerSettings(delete_topic_enable=False)).brokers(1, 2)
    world.elect()
    world.create("t", [2, 1])
    delete(world, "t")
    assert world.removed == [RemoveTopicDeletion("t")]
    assert world.leader("t-0") == (2, (2, 1), 0)
    world.delete_topics = ("t",)
    world.removed.clear()
    world.elect(2)
    assert world.removed == [RemoveTopicDeletion("t")]
    assert world.partition_state("t-0") is PartitionState.ONLINE


@pytest.mark.behaviour(165)
def test_partitions_added_meanwhile_are_taken_out_of_the_node_again() -> None:
    world = three("d", [2, 1])
    delete(world, "d")
    effects = world.add_partitions("d", [1, 2])
    (write,) = world.writes()
    assert isinstance(write, WriteTopicAssignment)
    assert sorted(write.partitions) == [0] and write.expected_version == 1
    assert sorted(world.topics["d"].partitions) == [0]
    assert moves(effects) == []
    assert world.context.topics["d"].version == 2


@pytest.mark.behaviour(169)
@pytest.mark.parametrize("removed", [1, 2])
def test_a_controller_that_dies_between_the_nodes_is_finished_by_its_successor(removed: int) -> None:
    world = three("d", [2, 1])
    world.configs["d"] = {"retention.ms": "1000"}
    delete(world, "d")
    world.stopped(2, "d-0")
    # The first `removed` writes of the last batch happened, then the process died.
    world.topics.pop("d")
    world.states.clear()
    if removed == 2:
        world.configs.pop("d")
    world.core.step(Resigned("it died"), 0)
    world.removed.clear()
    world.elect(2)
    assert world.removed == [RemoveTopicConfig("d"), RemoveTopicDeletion("d")]
    assert world.delete_topics == () and world.configs == {}
    assert world.context.topics_to_delete == set()


@pytest.mark.behaviour(73, 101, 169)
@pytest.mark.parametrize("dies_after", ["wish", "started", "one answered", "two answered", "returned"])
def test_a_deletion_survives_the_death_of_the_controller_at_every_step(dies_after: str) -> None:
    world = three("d", [2, 1, 3], [3, 2, 1])
    world.kill(3)
    world.configs["d"] = {}
    if dies_after == "wish":
        world.delete_topics = ("d",)
    else:
        delete(world, "d")
    if dies_after in ("one answered", "two answered", "returned"):
        world.stopped(1, "d-0", "d-1")
    if dies_after in ("two answered", "returned"):
        world.stopped(2, "d-0", "d-1")
    if dies_after == "returned":
        world.start(3)
    world.core.step(Resigned("it died"), 0)
    taken = world.elect(2)
    assert world.context.partition_states == {}, "out of the machine from the start"
    live = [b for b in (1, 2, 3) if b in world.registrations]
    assert deletions(taken) == {b: ["d-0", "d-1"] for b in live}, "whoever may still have data is asked"
    for broker in live:
        world.stopped(broker, "d-0", "d-1")
    if 3 not in live:
        assert "d" in world.topics
        world.start(3)
        world.stopped(3, "d-0", "d-1")
    assert "d" not in world.topics and world.delete_topics == () and "d" not in world.configs
    assert world.context.assignments == {}


def test_with_offline_replicas_allowed_the_deletion_ends_without_the_dead() -> None:
    world = World(ControllerSettings(delete_topic_with_offline_replicas=True)).brokers(1, 2, 3)
    world.elect()
    world.create("d", [2, 1, 3])
    world.kill(3)
    delete(world, "d")
    world.stopped(1, "d-0")
    effects = world.stopped(2, "d-0")
    assert "d" not in world.topics
    (left,) = [c for c in effects.changes if c.kind == "warning"]
    assert left.reason == "broker 3 is dead and keeps d-0: cleaned by topic id when it returns"


def test_with_offline_replicas_allowed_a_death_may_be_what_ends_it() -> None:
    world = World(ControllerSettings(delete_topic_with_offline_replicas=True)).brokers(1, 2)
    world.elect()
    world.create("d", [2, 1])
    delete(world, "d")
    world.stopped(1, "d-0")
    world.kill(2)
    assert "d" not in world.topics


def test_allowing_it_ends_a_deletion_that_waits_at_once() -> None:
    """`odradek why` names the setting as the way out; nothing else need happen for the deletion to take it."""
    world = three("d", [2, 1, 3])
    world.kill(3)
    delete(world, "d")
    world.stopped(1, "d-0")
    world.stopped(2, "d-0")
    assert "d" in world.topics
    name = "odradek.delete.topic.with.offline.replicas"
    world.step(ConfigChanged("brokers", "<default>", {name: "false"}))
    assert "d" in world.topics
    world.step(ConfigChanged("brokers", "<default>", {name: "true"}))
    assert "d" not in world.topics and world.pending_deletions == {3: {tp("d-0"): topic_id_of("d")}}


def test_a_topic_without_partitions_is_gone_at_once() -> None:
    world = three("t", [1])
    world.store_topic("none", [])
    world.step(TopicsChanged(("none", "t"), (world.topics["none"],)))
    delete(world, "none")
    assert "none" not in world.topics


def test_a_topic_that_could_not_be_read_is_deleted_once_it_can_be() -> None:
    world = three("good", [2, 1])
    broken = UnreadableNode("/brokers/topics/bad", "bad JSON", "bad")
    world.step(TopicsChanged(("bad", "good"), unreadable=(broken,)))
    delete(world, "bad")
    assert world.removed == [], "the wish stands"
    node = world.store_topic("bad", [[1, 2]])
    effects = world.step(TopicAssignmentsChanged((node,)))
    assert deletions(effects) == {1: ["bad-0"], 2: ["bad-0"]}


def test_a_conflict_during_deletion_is_planned_again_on_the_value_found() -> None:
    world = three("d", [2, 1, 3])

    def hand(writes: object) -> None:
        world.put(
            tp("d-0"), world.states[tp("d-0")].leader_and_isr, world.states[tp("d-0")].controller_epoch, 5
        )

    world.before_write = hand
    effects = delete(world, "d")
    assert [type(w) for w in world.writes()] == [WritePartitionState, WritePartitionState]
    assert deletions(effects) == {1: ["d-0"], 2: ["d-0"], 3: ["d-0"]}
    assert world.context.leadership(tp("d-0")).partition_epoch == 6  # type: ignore[union-attr]


@pytest.mark.behaviour(169)
def test_a_replica_that_a_reassignment_had_removed_is_not_made_anew_to_be_deleted() -> None:
    world = World().brokers(1, 2, 3)
    world.elect(1)
    world.create("d", [1, 2, 3])
    world.reassign({"d-0": [1]})
    world.stopped(2, "d-0")
    assert world.replica_state("d-0", 2) is ReplicaState.NON_EXISTENT
    effects = delete(world, "d")
    assert 2 in deletions(effects), "whatever came back with the broker goes"
    assert 2 not in lai_brokers(effects)


def test_a_deleted_topic_leaves_nothing_in_the_older_reassignment_node() -> None:
    world = three("d", [2, 1])
    world.reassignment = {tp("d-0"): (BrokerId(2), BrokerId(3))}
    world.step(ReassignmentRequested(dict(world.reassignment), 0))
    delete(world, "d")
    for broker in (1, 2, 3):
        world.stopped(broker, "d-0")
    assert "d" not in world.topics and world.reassignment is None
