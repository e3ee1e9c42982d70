"""A reassignment in the middle of something else: a deletion, a conflict, the death of the controller after any write."""

import pytest

from odradek.controller.broker_requests import LeaderAndIsrRequest
from odradek.controller.effects import WriteTopicAssignment
from odradek.controller.events import Requested, Resigned
from odradek.controller.states import PartitionState
from odradek.model.cluster import ReplicaAssignment
from odradek.model.controller_requests import AlterReassignmentsAsked
from odradek.model.facts import (
    DeleteTopicsRequested,
    TopicAssignment,
    TopicAssignmentsChanged,
    UnreadableNode,
)
from odradek.model.values import replace
from tests.controller.brokers import Brokers
from tests.controller.six import ids, six, told_to_delete
from tests.controller.world import (
    World,
    lai_brokers,
    tp,
)

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
    assert "r" not in world.topics and world.context.removals == {}


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
    assert effects.resign is None, "two administrators at once are no reason to begin anew"
    assert world.node("r-0") == ((4, 5, 1, 2), (4, 5), (1, 2)) and world.node("r-1") == ((2, 3), (), ())
    assert tp("r-1") not in world.states, "it is created when the store tells of it"
    world.step(TopicAssignmentsChanged((world.topics["r"],)))
    assert world.leader("r-1") == (2, (2, 3), 0) and world.partition_state("r-1") is PartitionState.ONLINE
    world.step(TopicAssignmentsChanged((world.topics["r"],)))
    assert world.leader("r-1") == (2, (2, 3), 0), "once"


def test_nor_those_that_appear_when_a_reassignment_ends() -> None:
    world = six([1, 2])
    world.reassign({"r-0": [1, 3]})
    world.catch_up("r-0", 3)

    def another(writes: object) -> None:
        node = world.topics["r"]
        grown = {**node.partitions, 1: ReplicaAssignment(ids(2, 3))}
        world.topics["r"] = TopicAssignment("r", node.topic_id, grown, node.version + 1)

    world.before_write = another
    assert world.stopped(2, "r-0").resign is None
    assert world.node("r-0") == ((1, 3), (), ()) and world.node("r-1") == ((2, 3), (), ())
    world.kill(2)  # before the store tells of it: it has no state that could change
    world.step(TopicAssignmentsChanged((world.topics["r"],)))
    assert world.leader("r-1") == (3, (3,), 0)


def test_a_reassignment_goes_on_when_the_node_of_its_topic_can_be_read_again() -> None:
    world = six()
    world.reassign({"r-0": [4, 5, 6]})
    node = world.topics["r"]
    world.step(
        TopicAssignmentsChanged((), (UnreadableNode("/brokers/topics/r", "expected JSON, found {", "r"),))
    )
    assert world.context.reassignments == {} and "r" in world.context.out_of_service
    world.topics["r"] = replace(node, version=node.version + 1)  # somebody wrote it again, as it was
    brokers = Brokers(world)
    brokers.hear(world.step(TopicAssignmentsChanged((world.topics["r"],))))
    assert list(world.context.reassignments) == [tp("r-0")]
    brokers.until_quiet()
    assert world.node("r-0") == ((4, 5, 6), (), ()) and world.context.reassignments == {}
    assert world.leader("r-0")[:2] == (4, (4, 5, 6))


def test_a_topic_node_that_is_gone_under_our_write_ends_the_term() -> None:
    world = six([1, 2])
    world.before_write = lambda writes: world.topics.clear()
    effects = world.reassign({"r-0": [4, 5]})
    assert "expected our own value, found None" in (effects.resign or "")


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
    brokers.do(Requested(1, AlterReassignmentsAsked({tp("r-0"): ids(*after)})))
    if tp("r-0") in world.context.reassignments or brokers.deaths == 0:
        brokers.until_quiet()
    elif world.node("r-0")[0] != tuple(after):
        # It died before the wish was stored: nobody was answered, the client asks again.
        brokers.do(Requested(2, AlterReassignmentsAsked({tp("r-0"): ids(*after)})))
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
        assert world.context.reassignments == {} and world.context.removals == {}, dies_after
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
        brokers.do(Requested(1, AlterReassignmentsAsked({tp("r-0"): None})))
        world.dies_after_write = 0
        if world.node("r-0")[1]:
            brokers.do(Requested(2, AlterReassignmentsAsked({tp("r-0"): None})))
        brokers.until_quiet()
        leader, isr, _ = world.leader("r-0")
        assert world.node("r-0") == ((1, 2, 3), (), ()), dies_after
        assert leader in (1, 2, 3) and set(isr) == {1, 2, 3}, dies_after
