"""Topics and partitions appear in the store, whoever wrote them."""

import pytest

from odradek.controller.effects import CreatePartitionState, WriteTopicAssignment
from odradek.controller.states import PartitionState, ReplicaState
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment, TopicConfig
from odradek.model.facts import (
    ConfigChanged,
    DeleteTopicsRequested,
    StoredPartitionState,
    TopicAssignment,
    TopicAssignmentsChanged,
    TopicsChanged,
    UnreadableNode,
)
from odradek.model.ids import NO_TOPIC_ID, BrokerId, ControllerEpoch, LeaderEpoch
from tests.controller.world import (
    World,
    failures,
    lai,
    lai_brokers,
    metadata,
    moves,
    state,
    three,
    topic_id_of,
    tp,
)


@pytest.mark.behaviour(8, 84, 86, 91, 95, 96, 97)
def test_a_created_topic_goes_through_four_rounds_in_one_event() -> None:
    world = World().brokers(1, 2, 3)
    world.elect()
    effects = world.create("t", [2, 1], [3, 2])
    assert moves(effects) == [
        ("t-0", "NonExistent", "New"),
        ("t-1", "NonExistent", "New"),
        ("t-0/2", "NonExistent", "New"),
        ("t-0/1", "NonExistent", "New"),
        ("t-1/3", "NonExistent", "New"),
        ("t-1/2", "NonExistent", "New"),
        ("t-0", "New", "Online"),
        ("t-1", "New", "Online"),
        ("t-0/2", "New", "Online"),
        ("t-0/1", "New", "Online"),
        ("t-1/3", "New", "Online"),
        ("t-1/2", "New", "Online"),
    ]
    assert [type(w) for w in world.writes()] == [CreatePartitionState, CreatePartitionState]
    assert {b: [str(p.topic_partition) for p in lai(effects, b)] for b in (1, 2, 3)} == {
        1: ["t-0"],
        2: ["t-0", "t-1"],
        3: ["t-1"],
    }
    assert all(p.topic_id == topic_id_of("t") for p in lai(effects, 2))
    assert [len(m.partitions) for m in metadata(effects)] == [2, 2, 2]


@pytest.mark.behaviour(84, 97)
def test_the_first_assignment_of_a_partition_leaves_every_replica_online() -> None:
    world = three("t", [2, 1, 3])
    assert [world.replica_state("t-0", b) for b in (1, 2, 3)] == [ReplicaState.ONLINE] * 3
    assert world.context.replica_state_overrides == {}


@pytest.mark.behaviour(95, 97)
def test_partitions_added_to_a_topic_are_created_and_the_old_ones_left_alone() -> None:
    world = three("t", [2, 1, 3])
    effects = world.add_partitions("t", [3, 1])
    assert world.leader("t-1") == (3, (3, 1), 0)
    assert [str(w.topic_partition) for w in world.writes()] == ["t-1"]  # type: ignore[union-attr]
    assert {str(p.topic_partition) for b in (1, 2, 3) for p in lai(effects, b)} == {"t-1"}
    assert world.context.topics["t"].partitions == (0, 1)


def test_our_own_write_of_a_topic_node_comes_back_and_nothing_happens() -> None:
    world = three()
    effects = world.step(TopicAssignmentsChanged((world.topics["t"],)))
    assert effects.requests == () and effects.changes == ()


def test_a_topic_without_an_id_is_given_one_before_anybody_hears_of_it() -> None:
    world = World().brokers(1, 2)
    world.elect()
    node = world.store_topic("old", [[2, 1]], with_id=False)
    effects = world.step(TopicsChanged(("old",), (node,)))
    first = world.written[0][0]
    assert isinstance(first, WriteTopicAssignment)
    assert first.topic_id != NO_TOPIC_ID
    assert isinstance(world.written[1][0], CreatePartitionState)
    assert lai(effects, 2)[0].topic_id == first.topic_id
    assert world.topics["old"].topic_id == first.topic_id
    assert world.context.topic_of_id(first.topic_id) == "old"


def test_ids_are_given_also_to_topics_found_at_failover_and_differ() -> None:
    world = World().brokers(1, 2)
    world.store_topic("a", [[2]], with_id=False)
    world.store_topic("b", [[1]], with_id=False)
    world.elect()
    a, b = world.topics["a"].topic_id, world.topics["b"].topic_id
    assert a != b and NO_TOPIC_ID not in (a, b)


def test_an_id_that_somebody_else_wrote_meanwhile_is_the_true_one() -> None:
    world = World().brokers(1, 2)
    world.elect()
    node = world.store_topic("old", [[2, 1]], with_id=False)

    def another(writes: object) -> None:
        world.topics["old"] = TopicAssignment("old", topic_id_of("old", 7), node.partitions, 1)

    world.before_write = another
    effects = world.step(TopicsChanged(("old",), (node,)))
    assert lai(effects, 2)[0].topic_id == topic_id_of("old", 7)
    assert world.context.topics["old"].version == 1


def test_partitions_that_appear_under_the_first_write_of_an_id_are_kept() -> None:
    """The old tool that made the topic goes on to add partitions. Written over, they would be gone."""
    world = World().brokers(1, 2)
    world.elect()
    node = world.store_topic("old", [[2, 1]], with_id=False)
    grown = TopicAssignment("old", None, {**node.partitions, 1: ReplicaAssignment((BrokerId(1),))}, 1)
    world.before_write = lambda writes: world.topics.update(old=grown)
    effects = world.step(TopicsChanged(("old",), (node,)))
    assert world.topics["old"].partitions == grown.partitions and world.topics["old"].topic_id is not None
    world.step(TopicAssignmentsChanged((world.topics["old"],)))
    assert (world.leader("old-0")[0], world.leader("old-1")[0]) == (2, 1)
    assert effects.resign is None


def test_a_state_node_that_is_there_before_we_write_one_is_taken_over() -> None:
    world = World().brokers(1, 2, 3)
    world.elect()
    node = world.store_topic("t", [[2, 1, 3]])
    world.before_write = lambda writes: world.states.update(
        {tp("t-0"): state(3, [3, 1], leader_epoch=4, version=6, controller_epoch=1)}
    )
    effects = world.step(TopicsChanged(("t",), (node,)))
    assert world.leader("t-0") == (3, (3, 1), 4), "a live leader leads on"
    assert world.partition_state("t-0") is PartitionState.ONLINE
    assert lai_brokers(effects) == [1, 2, 3]
    assert lai(effects, 2)[0].leader == 3
    assert len(failures(effects)) == 1


def test_a_topic_found_with_state_nodes_starts_where_they_say() -> None:
    world = World().brokers(1, 3)
    world.elect()
    node = world.store_topic("t", [[2, 1, 3]])
    stored = state(2, [2, 3], leader_epoch=4, version=6)
    world.states[tp("t-0")] = stored
    world.step(TopicsChanged(("t",), (node,), {tp("t-0"): stored}))
    assert world.leader("t-0") == (3, (3,), 5), "its leader is dead: elected at once"


def test_a_create_whose_answer_was_lost_is_recognised_as_ours() -> None:
    world = World().brokers(1, 2)
    world.elect()
    world.lose_answers = True
    effects = world.create("t", [2, 1])
    assert world.leader("t-0") == (2, (2, 1), 0)
    assert failures(effects) == [] and len(world.written) == 1
    assert lai(effects, 1)[0].is_new


def test_a_topic_whose_node_vanished_is_forgotten() -> None:
    world = three()
    del world.topics["t"]
    world.states.clear()
    effects = world.step(TopicsChanged(()))
    assert world.context.assignments == {} and world.context.partition_states == {}
    assert ("t", "known", "absent") in moves(effects, "topic")


@pytest.mark.parametrize("was", ["being deleted", "out of service"])
def test_a_wish_to_delete_does_not_outlive_a_topic_whose_node_somebody_took_away(was: str) -> None:
    """Left behind, it would delete the next topic of that name."""
    world = three("t", [2, 1])
    world.configs["t"] = {"retention.ms": "1"}
    if was == "out of service":
        broken = UnreadableNode("/brokers/topics/t", "bad JSON", "t")
        world.step(TopicAssignmentsChanged((), (broken,)))
    world.delete_topics = ("t",)
    world.step(DeleteTopicsRequested(("t",)))
    del world.topics["t"]
    world.states.clear()
    world.step(TopicsChanged(()))
    assert (world.delete_topics, world.configs) == ((), {})
    assert world.context.out_of_service == {} and world.context.deletions_requested == frozenset()
    world.create("t", [2, 1])
    assert world.leader("t-0")[0] == 2 and world.context.topics_to_delete == set()


def test_a_topic_deleted_and_created_again_between_two_looks_is_a_new_topic() -> None:
    world = three("t", [2, 1])
    world.states.clear()
    again = TopicAssignment("t", topic_id_of("t", 1), world.topics["t"].partitions, 0)
    world.topics["t"] = again
    effects = world.step(TopicsChanged(("t",), (again,)))
    assert world.leader("t-0") == (2, (2, 1), 0)
    assert lai(effects, 1)[0].topic_id == topic_id_of("t", 1)
    assert lai(effects, 1)[0].is_new


def test_a_topic_that_is_found_with_states_goes_on_where_they_say() -> None:
    """A backup was put back, say: its leader's epoch is not begun anew."""
    world = three("good", [2, 1])
    node = world.store_topic("old", [[3, 1]])
    state = LeaderAndIsr(BrokerId(3), LeaderEpoch(7), (BrokerId(3), BrokerId(1)))
    stored = StoredPartitionState(state, ControllerEpoch(1), ())
    world.states[tp("old-0")] = stored
    world.step(TopicsChanged(("good", "old"), (node,), states={tp("old-0"): stored}))
    assert world.leader("old-0") == (3, (3, 1), 7)
    assert not [write for write in world.writes() if isinstance(write, CreatePartitionState)]


@pytest.mark.parametrize("told", ["with its states", "without them"])
def test_the_replicas_of_a_topic_that_is_found_with_states_are_told_of_elections(told: str) -> None:
    world = three("t", [2, 1, 3])
    world.bounce(3)
    assert world.leader("t-0") == (2, (2, 1), 1)
    world.step(TopicAssignmentsChanged((), (UnreadableNode("/brokers/topics/t", "bad JSON", "t"),)))
    world.kill(3)
    if told == "with its states":
        world.step(TopicsChanged(("t",), (world.topics["t"],), states=dict(world.states)))
    else:
        world.step(TopicAssignmentsChanged((world.topics["t"],)))
    assert [world.replica_state("t-0", b) for b in (2, 1, 3)] == [
        ReplicaState.ONLINE,
        ReplicaState.ONLINE,
        ReplicaState.OFFLINE,
    ]
    effects = world.kill(2)
    assert world.leader("t-0")[:2] == (1, (1,))
    assert [p.leader for p in lai(effects, 1)] == [1]


def test_a_topic_that_cannot_be_read_is_out_of_service_with_the_reason_and_the_rest_goes_on() -> None:
    world = three("good", [2, 1])
    broken = UnreadableNode("/brokers/topics/bad", "bad JSON at character 3", "bad")
    good = world.store_topic("fine", [[3, 1]])
    effects = world.step(TopicsChanged(("bad", "fine", "good"), (good,), unreadable=(broken,)))
    assert world.context.out_of_service == {"bad": "/brokers/topics/bad: bad JSON at character 3"}
    assert world.leader("fine-0")[0] == 3
    assert ("bad", "known", "out of service") in moves(effects, "topic")


def test_a_topic_that_can_be_read_again_returns() -> None:
    world = three("good", [2, 1])
    broken = UnreadableNode("/brokers/topics/bad", "bad JSON", "bad")
    world.step(TopicsChanged(("bad", "good"), unreadable=(broken,)))
    node = world.store_topic("bad", [[3, 1]])
    world.step(TopicAssignmentsChanged((node,)))
    assert world.context.out_of_service == {}
    assert world.leader("bad-0")[0] == 3


def test_a_topic_that_returns_is_configured_as_before() -> None:
    """Its own node could not be read; what it is configured to be stands in another one."""
    config = {"unclean.leader.election.enable": "true"}
    for damage in ("told", "found while writing"):
        world = three("bad", [2, 1])
        world.step(ConfigChanged("topics", "bad", config))
        broken = UnreadableNode("/brokers/topics/bad", "bad JSON", "bad")
        node = world.topics["bad"]
        if damage == "told":
            world.step(TopicAssignmentsChanged((), (broken,)))
        else:
            world.context.commit_out_of_service("bad", broken.reason)
        assert world.context.partitions_of("bad") == []
        world.step(TopicAssignmentsChanged((node,)))
        assert world.context.topic_configs["bad"] == config, damage
        world.step(TopicsChanged(()))
        assert "bad" not in world.context.topic_configs


def test_the_configuration_of_a_topic_that_is_gone_is_not_remembered() -> None:
    """It was changed a moment before the deletion, and who reads of the change finds no node any more."""
    world = three("t", [2, 1])
    world.step(ConfigChanged("topics", "t", {"min.insync.replicas": "2"}))
    world.step(TopicsChanged(()))
    world.step(ConfigChanged("topics", "t", {}))
    world.step(ConfigChanged("brokers", "9", {"min.insync.replicas": "2"}))
    world.step(ConfigChanged("brokers", "9", {}))
    assert world.context.topic_configs == {} and world.context.broker_configs == {}


def test_a_new_topic_that_cannot_be_read_at_first_is_configured_as_was_told_with_it() -> None:
    """Its configuration is told once, with the topic; and is not told again because the topic can be read."""
    world = three("good", [2, 1])
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "2"}
    broken = UnreadableNode("/brokers/topics/bad", "bad JSON", "bad")
    event = TopicsChanged(("bad", "good"), configs={"bad": TopicConfig(config)}, unreadable=(broken,))
    world.step(event)
    node = world.store_topic("bad", [[3, 1]])
    world.step(TopicAssignmentsChanged((node,)))
    assert world.context.is_unclean_election_allowed("bad")
    assert world.context.min_insync_replicas("bad") == 2


def test_a_configuration_that_cannot_be_read_changes_nothing() -> None:
    world = three("t", [2, 1])
    config = {"unclean.leader.election.enable": "false"}
    world.step(ConfigChanged("topics", "t", config))
    broken = UnreadableNode("/config/topics/t", "bad JSON", "t")
    assert world.step(ConfigChanged("topics", "t", {}, (broken,))).changes == ()
    assert world.context.topic_configs["t"] == config
    assert world.context.out_of_service == {}


def test_a_dead_replica_of_a_new_topic_is_caught_up_when_its_broker_starts() -> None:
    world = World().brokers(1, 2)
    world.elect()
    world.create("t", [3, 2])
    assert world.leader("t-0") == (2, (2,), 0)
    effects = world.start(3)
    assert lai(effects, 3)[0].leader == 2
