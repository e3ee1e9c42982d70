"""A new controller takes over from what the store holds."""

import pytest

from odradek.controller.broker_requests import UpdateMetadataRequest
from odradek.controller.core import ControllerCore
from odradek.controller.events import Elected, Requested, Resigned
from odradek.controller.failover import load_context
from odradek.controller.states import PartitionState, ReplicaState
from odradek.model.controller_requests import AlterPartitionAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import ControllerChanged, TopicAssignmentsChanged, UnreadableNode
from odradek.model.ids import BrokerEpoch, BrokerId
from tests.controller.world import (
    World,
    answer_of,
    failures,
    lai,
    lai_brokers,
    metadata,
    moves,
    state,
    three,
    tp,
)

NEW, ONLINE, OFFLINE = PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE


def stored(*live: int) -> World:
    """A cluster as its last controller left it: t-0 led by 3, t-1 led by 2, t-2 never led."""
    world = World().brokers(*live)
    world.store_topic("t", [[3, 2, 1], [2, 3, 1], [3, 2]])
    world.states[tp("t-0")] = state(3, [3, 2, 1])
    world.states[tp("t-1")] = state(2, [2, 3, 1])
    world.controller_epoch = 1
    return world


@pytest.mark.behaviour(27, 80, 82)
def test_the_machines_start_from_the_cache_before_anything_moves() -> None:
    world = stored(1, 3)
    world.controller_epoch = 2
    context = load_context(Elected(*world.election()), world.settings)
    assert context.partition_states == {tp("t-0"): ONLINE, tp("t-1"): OFFLINE, tp("t-2"): NEW}
    assert context.replica_state(tp("t-0"), BrokerId(3)) is ReplicaState.ONLINE
    assert context.replica_state(tp("t-0"), BrokerId(2)) is ReplicaState.DELETION_INELIGIBLE


@pytest.mark.behaviour(28, 30, 34, 81, 121)
def test_failover_moves_replicas_first_then_elects_new_and_offline_partitions() -> None:
    world = stored(1, 3)
    effects = world.elect(1)
    assert moves(effects) == [
        ("t-0/2", "ReplicaDeletionIneligible", "Offline"),
        ("t-1/2", "ReplicaDeletionIneligible", "Offline"),
        ("t-2/2", "ReplicaDeletionIneligible", "Offline"),
        ("t-1", "Offline", "Online"),
        ("t-2", "New", "Online"),
    ]
    assert world.leader("t-0") == (3, (3, 1), 1), "the dead replica left the ISR"
    assert world.leader("t-1") == (3, (3, 1), 1), "left and elected: one write, one epoch"
    assert world.leader("t-2") == (3, (3,), 0)
    assert len(world.written) == 1 and len(world.writes()) == 3


@pytest.mark.behaviour(81, 84, 121)
def test_every_live_replica_is_told_even_if_nothing_changed() -> None:
    world = stored(1, 2, 3)
    effects = world.elect(1)
    told = {b: [str(p.topic_partition) for p in lai(effects, b)] for b in (1, 2, 3)}
    assert told == {1: ["t-0", "t-1"], 2: ["t-0", "t-1", "t-2"], 3: ["t-0", "t-1", "t-2"]}
    by_partition = {str(p.topic_partition): p for p in lai(effects, 2)}
    assert by_partition["t-0"].controller_epoch == 1, "who wrote it, not who tells it"
    assert by_partition["t-2"].controller_epoch == 2
    assert all(r.controller_epoch == 2 for r in effects.requests)  # type: ignore[union-attr]


@pytest.mark.behaviour(144)
def test_live_brokers_hear_of_each_other_before_anything_else() -> None:
    world = stored(1, 3)
    effects = world.elect(1)
    first = effects.requests[:2]
    assert all(isinstance(r, UpdateMetadataRequest) and r.partitions == () for r in first)
    assert [r.broker for r in first] == [1, 3]
    assert [b.broker_id for b in metadata(effects)[0].live_brokers] == [1, 3]
    assert lai_brokers(effects) == [1, 3], "then one LeaderAndIsr each"
    kinds = [type(r).__name__ for r in effects.requests[2:]]
    assert kinds == ["LeaderAndIsrRequest", "UpdateMetadataRequest"] * 2


def whole(world: World) -> list[tuple[bool, set[str]]]:
    """Of each UpdateMetadata to broker 1 at failover: whether it says that it names all there is, and what it names."""
    told = [request for request in metadata(world.elect(1)) if request.broker == 1]
    return [(request.is_whole, {str(p.topic_partition) for p in request.partitions}) for request in told]


def test_who_is_told_of_all_there_is_hears_that_it_is_all() -> None:
    assert whole(stored(1, 3)) == [(False, set()), (True, {"t-0", "t-1", "t-2"})]
    assert whole(stored(1)) == [(False, set()), (True, {"t-0", "t-1"})], (
        "nobody was told of t-2, which never led"
    )
    assert whole(World().brokers(1)) == [(True, set())]


def test_topics_that_are_being_deleted_need_not_be_named_for_it_to_be_all() -> None:
    world = stored(1, 3)
    world.store_topic("goes", [[3, 1], [1, 3]])
    world.states[tp("goes-0")] = state(3, [3, 1])
    world.delete_topics = ("goes",)
    assert whole(world)[:2] == [(False, set()), (True, {"t-0", "t-1", "t-2"})]
    world = stored(1, 3)
    world.delete_topics = ("t",)
    assert whole(world)[0] == (True, set()), "nothing else is left"


def test_beside_a_topic_that_cannot_be_read_nothing_is_all() -> None:
    """Brokers were told of it, and it is not gone."""
    world = stored(1, 2, 3)
    world.store_topic("broken", [[2, 1]])
    world.unreadable.append(UnreadableNode("/brokers/topics/broken/partitions/0/state", "bad JSON", "broken"))
    assert whole(world) == [(False, set()), (False, {"t-0", "t-1", "t-2"})]


@pytest.mark.behaviour(144)
def test_the_journal_of_a_failover_begins_with_the_election_and_ends_with_ready() -> None:
    effects = stored(1, 3).elect(1)
    controller = [(c.source, c.to) for c in effects.changes if c.kind == "controller"]
    assert controller == [("standby", "epoch 2"), ("loading", "ready")]
    assert effects.changes[0].kind == "controller" and effects.changes[-1].to == "ready"
    machines = [(c.target, c.to, c.reason) for c in effects.changes if c.kind == "machine"]
    assert machines == [
        ("replica", "started", "3 OfflineReplica, 5 OnlineReplica"),
        ("partition", "started", "3 OnlinePartition"),
    ]


@pytest.mark.behaviour(82)
def test_the_machines_count_partitions_that_wait() -> None:
    effects = stored(1).elect(1)  # t-2 has no replica on broker 1: it never led and waits
    machines = [c.reason for c in effects.changes if c.kind == "machine"]
    assert machines == ["6 OfflineReplica, 2 OnlineReplica", "1 NewPartition, 2 OnlinePartition"]


@pytest.mark.behaviour(32)
def test_partitions_that_nobody_could_lead_are_tried_again_by_the_next_controller() -> None:
    world = three("t", [2])
    world.kill(2)
    world.brokers(2)  # it comes back while nobody is controller
    world.elect(3)
    assert world.leader("t-0") == (2, (2,), 2)


def test_controller_and_leader_that_die_together_cost_one_epoch() -> None:
    world = three("cg", [3, 2, 1], [2, 3, 1])
    del world.registrations[2], world.registrations[3]
    world.elect(1)
    # Apache 3.9.1 takes three (golden 07b): ours folds the two departures and the election.
    assert world.leader("cg-0") == (1, (1,), 1)
    assert world.leader("cg-1") == (1, (1,), 1)


def test_topics_queued_for_deletion_are_not_elected_at_failover() -> None:
    world = stored(1, 3)
    world.delete_topics = ("t",)
    effects = world.elect(1)
    assert [m for m in moves(effects) if m[2] == "Online"] == []


def test_a_topic_that_cannot_be_read_is_left_out_and_the_rest_goes_on() -> None:
    world = stored(1, 2, 3)
    world.store_topic("broken", [[2, 1]])
    node = UnreadableNode("/brokers/topics/broken/partitions/0/state", "leader is missing", "broken")
    world.unreadable.append(node)
    effects = world.elect(1)
    assert "broken" not in world.context.topics
    assert world.context.out_of_service["broken"].endswith("leader is missing")
    assert ("broken", "stored", "out of service") in moves(effects, "topic")
    assert world.leader("t-2")[0] == 3


def test_a_deletion_of_a_topic_that_cannot_be_read_waits_until_it_can() -> None:
    """It is neither forgotten, nor is its configuration removed, as where the topic's node is gone already."""
    world = stored(1, 2, 3)
    node = world.store_topic("broken", [[2, 1]])
    world.configs["broken"] = {"retention.ms": "1"}
    world.unreadable.append(UnreadableNode("/brokers/topics/broken", "bad JSON", "broken"))
    world.delete_topics = ("broken",)
    world.elect(1)
    assert (world.delete_topics, world.configs["broken"]) == (("broken",), {"retention.ms": "1"})
    assert world.context.topics_to_delete == set()
    world.unreadable.clear()
    world.step(TopicAssignmentsChanged((node,)))
    assert world.context.topics_to_delete == {"broken"}


@pytest.mark.behaviour(145)
def test_a_controller_that_resigns_forgets_everything_and_answers_not_controller() -> None:
    world = three()
    effects = world.core.step(Resigned("the session ended"), 0)
    assert effects.resign == "the session ended"
    assert world.core.context is None and not world.core.is_active
    assert effects.requests == ()
    asked = Requested(3, AlterPartitionAsked(3, BrokerId(2), BrokerEpoch(102), ()))
    refused = world.core.step(asked, 0)
    assert answer_of(refused).error is ErrorCode.NOT_CONTROLLER  # type: ignore[attr-defined]
    assert world.core.step(world.brokers_changed(), 0).requests == (), "facts are not ours any more"


@pytest.mark.behaviour(145)
def test_another_name_in_the_controller_node_means_resignation() -> None:
    world = three()
    assert world.step(ControllerChanged(BrokerId(1))).resign is None
    assert world.core.step(ControllerChanged(BrokerId(2)), 0).resign == "/controller names 2, not 1"


@pytest.mark.behaviour(145)
def test_a_controller_elected_again_reads_everything_anew() -> None:
    world = three()
    world.core.step(Resigned("test"), 0)
    world.states[tp("t-0")] = state(3, [3], leader_epoch=9, version=9)
    world.elect(1)
    assert world.context.leadership(tp("t-0")).leader == 3  # type: ignore[union-attr]
    assert world.context.controller_epoch == 2


def test_being_elected_while_active_starts_from_the_store_too() -> None:
    # KAFKA-13407: an early return here once left a cluster with a winner that never loaded.
    world = three()
    world.states[tp("t-0")] = state(3, [3], leader_epoch=9, version=9)
    world.elect(1)
    assert world.leader("t-0") == (3, (3,), 9)
    assert world.core.is_active


def test_an_empty_cluster_has_nothing_to_do_and_still_introduces_its_brokers() -> None:
    world = World().brokers(1, 2)
    effects = world.elect(1)
    assert [(m.broker, m.partitions) for m in metadata(effects)] == [(1, ()), (2, ())]
    assert world.writes() == [] and failures(effects) == []


def test_two_controllers_loaded_from_the_same_store_decide_the_same() -> None:
    first, second = stored(1, 3), stored(1, 3)
    assert first.elect(1) == second.elect(1)
    assert first.states == second.states


def test_a_fresh_core_is_not_the_controller() -> None:
    core = ControllerCore()
    assert not core.is_active and core.next_deadline_ms() is None
