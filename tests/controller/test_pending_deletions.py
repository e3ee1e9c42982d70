"""What must still be deleted although no topic node names it: kept in the store, told before anything new."""

from contextlib import suppress

import pytest

from odradek.controller import pending_deletions as pending_deletions_module
from odradek.controller.broker_requests import LeaderAndIsrRequest, StopReplicaRequest
from odradek.controller.context import ControllerSettings
from odradek.controller.core import ControllerCore
from odradek.controller.effects import Effects
from odradek.controller.events import Tick
from odradek.controller.pending_deletions import RETRY, RETRY_MS
from odradek.model.controller_requests import AlterReassignmentsAnswer
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import DeleteTopicsRequested, TopicsChanged
from odradek.model.ids import BrokerId, TopicId
from odradek.model.values import replace
from odradek.store.pending_deletions import encode_pending_deletions
from tests.controller.six import result
from tests.controller.world import ControllerDied, World, answer_of, lai, state, stops, tp

THREE = BrokerId(3)
WITHOUT_THE_DEAD = ControllerSettings(delete_topic_with_offline_replicas=True)


def left_behind(*replicas: int) -> World:
    """The topic `d` was deleted while broker 3 was dead; 3 has a replica of it still."""
    world = World(WITHOUT_THE_DEAD).brokers(1, 2, 3)
    world.elect()
    world.create("d", list(replicas) or [1, 2, 3])
    world.kill(3)
    delete(world, "d")
    for broker in (1, 2):
        world.stopped(broker, "d-0")
    assert "d" not in world.topics and world.delete_topics == ()
    return world


def delete(world: World, topic: str) -> Effects:
    world.delete_topics = (topic,)
    return world.step(DeleteTopicsRequested(world.delete_topics))


def create_again(world: World, *replicas: int) -> Effects:
    """A topic of the same name, with an id of its own."""
    node = replace(world.store_topic("d", [list(replicas)]), topic_id=TopicId(b"the second one d"))
    world.topics["d"] = node
    return world.step(TopicsChanged(tuple(sorted(world.topics)), (node,)))


def told(effects: Effects, broker: int) -> list[str]:
    """What the broker is told about partitions, in order."""
    return [
        type(request).__name__.removesuffix("Request")
        for request in effects.requests
        if request.broker == broker and isinstance(request, LeaderAndIsrRequest | StopReplicaRequest)
    ]


def successor(world: World, broker: int = 2) -> Effects:
    world.core = ControllerCore(world.settings)
    return world.elect(broker)


def test_what_a_deletion_leaves_behind_is_stored_before_the_topic_node_goes() -> None:
    world = World(WITHOUT_THE_DEAD).brokers(1, 2, 3)
    world.elect()
    world.create("d", [1, 3])
    topic_id = world.topics["d"].topic_id
    world.kill(3)
    delete(world, "d")
    world.stopped(1, "d-0")
    kinds = [type(write).__name__ for write in world.writes()]
    assert kinds == ["WritePendingDeletions", "RemoveTopic", "RemoveTopicConfig", "RemoveTopicDeletion"]
    assert world.pending_deletions == {THREE: {tp("d-0"): topic_id}}


def test_a_broker_is_told_also_when_the_state_of_the_next_topic_met_a_conflict() -> None:
    world = left_behind()
    create_again(world, 2, 3)
    world.kill(2)
    world.before_write = lambda writes: world.states.update(
        {tp("d-0"): state(-1, [2], leader_epoch=2, version=9)}
    )
    world.brokers(2)
    effects = world.start(3)
    assert world.leader("d-0") == (2, (2,), 3), "another value was stored; planned again on it"
    (stop,) = [request for request in stops(effects) if request.broker == 3]
    assert [(str(p.topic_partition), p.delete, p.leader_epoch) for p in stop.partitions] == [
        ("d-0", True, -2)
    ]


def test_it_is_told_to_go_when_its_broker_returns_and_forgotten_when_that_has_answered() -> None:
    world = left_behind()
    (stop,) = stops(world.start(3))
    assert stop.broker == 3
    assert [(str(p.topic_partition), p.delete, p.leader_epoch) for p in stop.partitions] == [
        ("d-0", True, -2)
    ]
    assert world.pending_deletions != {}, "told is not done"
    world.stopped(3, "d-0")
    assert world.pending_deletions == {} and world.context.pending_deletions == {}
    world.bounce(3)
    assert stops(world.bounce(3)) == []


def test_the_next_controller_knows_of_it_and_tells_it_before_any_leader_and_isr() -> None:
    world = left_behind()
    successor(world)
    world.create("other", [1, 3])
    assert told(world.start(3), 3)[:2] == ["StopReplica", "LeaderAndIsr"]
    effects = successor(world, 1)
    assert told(effects, 3) == ["StopReplica", "LeaderAndIsr"], "nobody has answered the first controller"
    world.stopped(3, "d-0")
    assert told(successor(world), 3) == ["LeaderAndIsr"]


def test_a_new_topic_of_that_name_waits_until_the_old_data_is_gone() -> None:
    """The request names no topic id: told before, the broker would answer INCONSISTENT_TOPIC_ID for ever."""
    world = left_behind()
    world.start(3)
    effects = create_again(world, 3, 1)
    assert told(effects, 3) == []
    assert world.leader("d-0") == (1, (1,), 0), "the one in doubt does not lead and is not in the ISR"
    effects = world.stopped(3, "d-0")
    (request,) = lai(effects, 3)
    assert request.leader == 1 and request.replicas == (3, 1)


def test_a_new_topic_with_nobody_else_gets_its_leader_then() -> None:
    world = left_behind()
    world.start(3)
    create_again(world, 3)
    assert tp("d-0") not in world.states
    effects = world.stopped(3, "d-0")
    assert world.leader("d-0") == (3, (3,), 0)
    assert [p.leader for p in lai(effects, 3)] == [3]


def test_a_topic_created_while_the_broker_was_away_waits_too() -> None:
    world = left_behind()
    create_again(world, 1, 3)
    assert told(world.start(3), 3) == ["StopReplica"]
    assert told(world.stopped(3, "d-0"), 3) == ["LeaderAndIsr"]


def test_a_broker_that_could_not_delete_is_told_again() -> None:
    world = left_behind()
    world.start(3)
    world.now_ms += RETRY_MS
    assert stops(world.step(Tick())) == [], "it has not answered yet: the request is still on its way"
    world.stopped(3, "d-0", error=ErrorCode.KAFKA_STORAGE_ERROR)
    assert world.pending_deletions != {}
    world.now_ms += RETRY_MS
    (stop,) = stops(world.step(Tick()))
    assert (stop.broker, stop.partitions[0].leader_epoch) == (3, -2)
    world.stopped(3, "d-0")
    assert world.pending_deletions == {}


def test_a_new_topic_of_that_name_that_goes_itself_is_not_made_where_the_old_data_has_gone() -> None:
    """Its deletion failed there, and is asked for again later than that of the old data."""
    world = left_behind()
    world.start(3)
    world.stopped(3, "d-0", error=ErrorCode.KAFKA_STORAGE_ERROR)
    world.now_ms += RETRY_MS // 2
    create_again(world, 3, 1)
    delete(world, "d")
    world.stopped(3, "d-0", error=ErrorCode.KAFKA_STORAGE_ERROR)
    world.now_ms += RETRY_MS // 2
    assert told(world.step(Tick()), 3) == ["StopReplica"]
    assert "LeaderAndIsr" not in told(world.stopped(3, "d-0"), 3)


def test_a_member_of_the_isr_keeps_what_it_has_whatever_the_node_says() -> None:
    """An Apache controller led in between; it made a topic of that name there, and cleaned nothing up for us."""
    world = left_behind()
    create_again(world, 1, 2)
    world.pending_deletions = {BrokerId(2): {tp("d-0"): TopicId(b"another topic of")}}
    assert told(successor(world), 2) == ["LeaderAndIsr"]
    assert world.pending_deletions == {}, "what is void leaves the node"
    world.pending_deletions = {BrokerId(2): {tp("d-0"): TopicId(b"another topic of")}}
    world.context.pending_deletions.update(world.pending_deletions)
    world.context.commit_deadline(RETRY, world.now_ms + RETRY_MS)
    world.now_ms += RETRY_MS
    assert stops(world.step(Tick())) == [] and world.pending_deletions == {}, "also without a new controller"


# ----------------------------------------------------------------------------------------------- reassignments


def six(*replicas: int) -> World:
    world = World().brokers(1, 2, 3, 4, 5, 6)
    world.elect()
    world.create("r", list(replicas))
    return world


@pytest.mark.parametrize("writes", range(1, 9))
def test_newcomers_of_a_cancelled_move_delete_what_they_copied_whoever_is_controller(writes: int) -> None:
    """The topic node does not name them any more. However far the controller came, somebody tells them."""
    world = six(1, 2)
    world.reassign({"r-0": [3, 4]})
    world.dies_after_write = world.writes_done + writes
    told_before: set[int] = set()
    with suppress(ControllerDied):
        told_before = {stop.broker for stop in stops(world.reassign({"r-0": None}))}
    world.dies_after_write = 0
    effects = successor(world)
    if world.node("r-0")[1:] == ((), ()):
        assert {stop.broker for stop in stops(effects)} == {3, 4}
    else:
        assert stops(effects) == [] and not told_before, "the node names them: the move goes on"


def test_the_answer_of_a_dropped_newcomer_is_what_ends_it() -> None:
    world = six(1, 2)
    world.reassign({"r-0": [3, 2]})
    world.reassign({"r-0": None})
    assert set(world.pending_deletions) == {3}
    world.stopped(3, "r-0")
    assert world.pending_deletions == {} and stops(successor(world)) == []


def test_a_newcomer_that_is_wanted_again_is_no_stray() -> None:
    world = six(1, 2)
    world.reassign({"r-0": [3, 2]})
    world.reassign({"r-0": None})
    world.reassign({"r-0": [3, 2]})
    assert world.pending_deletions == {}
    kinds = [type(write).__name__ for write in world.writes()]
    assert kinds.index("WriteTopicAssignment") < kinds.index("WritePendingDeletions"), (
        "no moment in which nobody knows"
    )
    assert stops(successor(world)) == []


def test_a_newcomer_that_its_controller_died_over_is_tidied_up_by_the_next() -> None:
    """Between the topic node, which names it again, and the node that asks it to delete (seed 1696)."""
    world = six(1, 2)
    world.reassign({"r-0": [3, 2]})
    world.reassign({"r-0": None})
    with suppress(ControllerDied):
        world.dies_after_write = world.writes_done + 2
        world.reassign({"r-0": [3, 2]})
    world.dies_after_write = 0
    assert world.node("r-0")[1] == (3,) and set(world.pending_deletions) == {3}, "died between the two"
    assert stops(successor(world)) == [], "it is assigned: nobody tells it to delete"
    assert world.pending_deletions == {} == world.context.pending_deletions


def test_a_leaver_that_died_is_remembered_when_the_topic_node_forgets_it() -> None:
    world = six(1, 2, 3)
    world.kill(3)
    world.reassign({"r-0": [1, 2]})
    kinds = [type(write).__name__ for write in world.writes()]
    assert kinds.index("WritePendingDeletions") < len(kinds) - 1 - kinds[::-1].index("WriteTopicAssignment")
    assert set(world.pending_deletions) == {3}
    successor(world)
    assert [stop.broker for stop in stops(world.start(3))] == [3]
    world.stopped(3, "r-0")
    assert world.pending_deletions == {}


def test_a_dead_leaver_that_the_next_reassignment_still_names_is_told_when_it_returns() -> None:
    """It stands in the topic node, as removing, so it counted as wanted again: told nothing when it came back, and
    forgotten with the node."""
    world = six(1, 2, 3, 4)
    world.reassign({"r-0": [1, 2]})
    world.kill(3)
    world.reassign({"r-0": [1, 5]})
    assert world.node("r-0") == ((1, 5, 2, 3, 4), (5,), (2, 3, 4))
    back = world.start(3)
    assert [stop.broker for stop in stops(back)] == [3] and told(back, 3) == ["StopReplica"]
    world.now_ms += RETRY_MS
    assert stops(world.step(Tick())) == [], "told already"
    world.stopped(3, "r-0")
    world.catch_up("r-0", 5)
    for broker in (2, 4):
        world.stopped(broker, "r-0")
    assert world.node("r-0") == ((1, 5), (), ()) and world.pending_deletions == {}


def test_a_dead_leaver_that_stays_away_is_remembered_by_the_store_when_the_node_forgets_it() -> None:
    world = six(1, 2, 3, 4)
    world.reassign({"r-0": [1, 2]})
    world.kill(3)
    world.reassign({"r-0": [1, 5]})
    world.catch_up("r-0", 5)
    for broker in (2, 4):
        world.stopped(broker, "r-0")
    assert world.node("r-0") == ((1, 5), (), ()) and set(world.pending_deletions) == {3}
    successor(world)
    assert [stop.broker for stop in stops(world.start(3))] == [3]


def test_a_dead_leaver_that_is_wanted_again_keeps_what_it_has() -> None:
    world = six(1, 2, 3, 4)
    world.reassign({"r-0": [1, 2]})
    world.kill(3)
    world.reassign({"r-0": [1, 3]})
    assert world.context.pending_deletions == world.pending_deletions == {}
    assert told(world.start(3), 3) == ["LeaderAndIsr"]


def test_what_has_no_room_in_the_node_of_a_dead_broker_is_deleted_when_others_have_gone_or_it_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node beyond what ZooKeeper takes would be refused, and each controller would resign over it: after some 12,000 topics,
    which a cluster for tests makes and deletes in the weeks in which a broker is away."""
    monkeypatch.setattr(pending_deletions_module, "MOST_NODE_BYTES", 150)
    world = World(WITHOUT_THE_DEAD).brokers(1, 2, 3)
    world.elect()
    topics = ("d", "e", "f")
    for topic in topics:
        world.create(topic, [1, 3])
    world.kill(3)
    world.delete_topics = topics
    world.step(DeleteTopicsRequested(topics))
    for topic in topics:
        world.stopped(1, f"{topic}-0")
    assert set(world.topics) == {"f"} and world.delete_topics == ("f",)
    (kept,) = world.pending_deletions.values()
    assert len(encode_pending_deletions(kept)) <= 150
    assert set(kept) == {tp("d-0"), tp("e-0")}
    world.start(3)
    for topic in topics:
        world.stopped(3, f"{topic}-0")
    assert world.topics == {} and world.delete_topics == () and world.pending_deletions == {}


def test_a_reassignment_whose_dead_leaver_has_no_room_in_its_node_ends_when_that_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thousands of topics are reassigned away from a broker that died for good."""
    monkeypatch.setattr(pending_deletions_module, "MOST_NODE_BYTES", 150)
    world = World().brokers(1, 2, 3)
    world.elect()
    for topic in ("d", "e", "f"):
        world.create(topic, [1, 3], [1, 3])
    world.kill(3)
    world.reassign({f"{topic}-{p}": [1] for topic in ("d", "e", "f") for p in (0, 1)})
    (kept,) = world.pending_deletions.values()
    assert set(kept) == {tp(f"{topic}-{p}") for topic in ("d", "e") for p in (0, 1)}
    assert len(encode_pending_deletions(kept)) <= 150
    assert world.node("d-0") == ((1,), (), ()) and world.node("f-0") == ((1, 3), (), (3,))

    world.elect(1)
    assert world.node("f-0") == ((1, 3), (), (3,)), "a successor does not resign over it either"
    world.start(3)
    for topic in ("d", "e", "f"):
        for p in (0, 1):
            world.stopped(3, f"{topic}-{p}")
    assert world.pending_deletions == world.context.pending_deletions == {}
    assert world.node("f-0") == world.node("f-1") == ((1,), (), ())
    assert world.context.reassignments == {}


def test_a_dead_leaver_of_a_partition_whose_newcomer_may_not_go_is_not_forgotten_with_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both are to be back where they were; of one of them the ISR has shrunk to the newcomer by then, so nothing is written of it."""
    monkeypatch.setattr(pending_deletions_module, "MOST_NODE_BYTES", 10)
    world = World().brokers(1, 2, 3)
    world.elect()
    for topic in ("e", "f"):
        world.create(topic, [1, 3])
    world.kill(3)
    world.reassign({"e-0": [1], "f-0": [1, 2]})
    world.alter("f-0", [1, 2])
    assert set(world.context.pending_deletions[THREE]) == {tp("e-0"), tp("f-0")}
    monkeypatch.undo()  # there is room for what 2 has to delete
    found = world.states[tp("f-0")].leader_and_isr
    world.before_write = lambda writes: world.states.update(
        {tp("f-0"): state(2, [2], leader_epoch=found.leader_epoch + 1, version=found.partition_epoch + 1)}
    )
    world.reassign({"e-0": [1, 3], "f-0": [1, 3]})
    assert world.node("e-0") == ((1, 3), (), ()) and world.node("f-0") == ((1, 2, 3), (2,), (3,))
    assert set(world.context.pending_deletions[THREE]) == {tp("f-0")}
    assert told(world.start(3), 3)[0] == "StopReplica"


def test_more_cancelled_at_once_than_the_node_of_a_broker_can_name_is_refused_and_nobody_resigns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Thousands of topics were to go to a broker that died before it had them; and to one that lives."""
    monkeypatch.setattr(pending_deletions_module, "MOST_NODE_BYTES", 150)
    world = World().brokers(1, 2, 3)
    world.elect()
    topics = ("d", "e", "f")
    for topic in topics:
        world.create(topic, [1])
    for is_dead in (True, False):
        world.reassign({f"{topic}-0": [1, 3] for topic in topics})
        if is_dead:
            world.kill(3)
        answer = answer_of(world.reassign({f"{topic}-0": None for topic in topics}))
        assert isinstance(answer, AlterReassignmentsAnswer)
        assert {where.topic: error for where, (error, _) in answer.partitions.items()} == {
            "d": ErrorCode.NONE,
            "e": ErrorCode.NONE,
            "f": ErrorCode.POLICY_VIOLATION,
        }
        assert (
            "drop fewer replicas of broker 3 at a time, or start it first" in answer.partitions[tp("f-0")][1]
        )
        (kept,) = world.pending_deletions.values()
        assert set(kept) == {tp("d-0"), tp("e-0")} and len(encode_pending_deletions(kept)) <= 150
        assert world.node("d-0") == ((1,), (), ()) and world.node("f-0") == ((1, 3), (3,), ())

        if is_dead:
            world.start(3)
        for topic in ("d", "e"):
            world.stopped(3, f"{topic}-0")
        assert result(world.reassign({"f-0": None}), "f-0")[0] is ErrorCode.NONE
        world.stopped(3, "f-0")
        assert world.pending_deletions == {} and world.node("f-0") == ((1,), (), ())
