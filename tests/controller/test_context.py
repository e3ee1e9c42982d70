"""Memory: what it costs, what it indexes, and that a copy is a copy."""

import tracemalloc
from collections.abc import Iterable

import pytest

from odradek.broker.topic_configs import usable
from odradek.controller.context import ControllerContext, ControllerSettings
from odradek.controller.events import Elected
from odradek.controller.failover import load_context
from odradek.controller.states import ReplicaState
from odradek.model.cluster import ReplicaAssignment
from odradek.model.facts import MetadataLoaded, TopicAssignment
from odradek.model.ids import BrokerId, ControllerEpoch, TopicPartition
from odradek.model.settings import BrokerSettings, TopicSettings
from tests.controller.six import ids
from tests.controller.world import registration, state, three, topic_id_of, tp

ONLINE, OFFLINE, NON_EXISTENT = ReplicaState.ONLINE, ReplicaState.OFFLINE, ReplicaState.NON_EXISTENT


def test_a_replica_that_becomes_assigned_does_not_exist_yet() -> None:
    context = three("t", [2, 1]).context
    context.commit_assignment(tp("t-0"), ReplicaAssignment(ids(2, 1, 3)))
    assert context.replica_state(tp("t-0"), BrokerId(3)) is NON_EXISTENT
    assert context.replica_state(tp("t-0"), BrokerId(2)) is ONLINE
    assert tp("t-0") in context.partitions_on[BrokerId(3)]


def test_a_replica_that_is_no_longer_assigned_stays_what_it_was_until_it_is_moved() -> None:
    context = three("t", [2, 1, 3]).context
    context.commit_assignment(tp("t-0"), ReplicaAssignment(ids(2, 1)))
    assert context.replica_state(tp("t-0"), BrokerId(3)) is ONLINE
    assert tp("t-0") not in context.partitions_on[BrokerId(3)]
    context.commit_replica_states(tp("t-0"), {BrokerId(3): NON_EXISTENT})
    assert context.replica_state_overrides == {}


def test_a_topic_is_found_by_its_id_until_it_is_gone() -> None:
    context = three().context
    assert context.topic_of_id(topic_id_of("t")) == "t"
    context.commit_topic_gone("t")
    assert context.topic_of_id(topic_id_of("t")) is None
    assert context.assignments == {} and context.leaderships == {} and context.partition_states == {}
    assert all(not partitions for partitions in context.partitions_on.values())


def test_a_failed_disk_on_which_nothing_is_left_is_none() -> None:
    """Else each event would be planned partition by partition, for who is online might differ, until the broker registers anew."""
    context = three("t", [1, 2]).context
    context.offline_directories[BrokerId(2)] = frozenset({tp("t-0")})
    assert not context.all_log_dirs_online()
    context.commit_topic_gone("t")
    assert context.all_log_dirs_online()


def test_the_partitions_of_a_topic_that_goes_leave_a_failed_disk_together() -> None:
    """One by one, each would copy all that is left there."""

    class Failed(frozenset[TopicPartition]):
        copies = 0

        def difference(self, *others: Iterable[object]) -> frozenset[TopicPartition]:
            Failed.copies += 1
            return Failed(super().difference(*others))

    context = three("t", [1, 2], [1, 2], [1, 2]).context
    context.offline_directories[BrokerId(2)] = Failed(
        {*(tp(f"t-{index}") for index in range(3)), tp("other-0")}
    )
    context.commit_topic_gone("t")
    assert context.offline_directories[BrokerId(2)] == {tp("other-0")}
    assert Failed.copies == 1


def test_settings_of_a_topic_override_those_of_the_cluster() -> None:
    context = three().context
    context.settings = ControllerSettings(min_insync_replicas=1)
    assert context.min_insync_replicas("t") == 1
    context.broker_configs["<default>"] = {"min.insync.replicas": "2"}
    assert context.min_insync_replicas("t") == 2
    context.topic_configs["t"] = {"min.insync.replicas": "3", "unclean.leader.election.enable": "TRUE"}
    assert context.min_insync_replicas("t") == 3
    assert context.is_unclean_election_allowed("t") and not context.is_unclean_election_allowed("u")


@pytest.mark.parametrize("text", ["\u00b2", "many", "-1", "", "9" * 5000])
def test_a_minimum_that_is_no_number_is_as_if_it_were_not_set(text: str) -> None:
    """A node that somebody wrote by hand: the controller goes on with what it can trust."""
    context = three().context
    context.topic_configs["t"] = {"min.insync.replicas": text}
    assert context.min_insync_replicas("t") == context.settings.min_insync_replicas


@pytest.mark.parametrize("text", ["+2", "02", "00000000000000002", "\x00 2\t"])
def test_a_minimum_is_the_number_that_leaders_take_it_for(text: str) -> None:
    """It was as if none were set: so with `+1` over a default of 2 replicas outside an ISR of one counted as eligible, though it
    commits without them, and leaders that heard so refused what acks=all asked for."""
    assert TopicSettings(BrokerSettings({}), {"min.insync.replicas": text}).min_insync_replicas == 2
    context = three().context
    context.settings = ControllerSettings(min_insync_replicas=3)
    context.topic_configs["t"] = {"min.insync.replicas": text}
    assert context.min_insync_replicas("t") == 2


@pytest.mark.parametrize("text", ["0", "-0", "+", "+-2", "++2", "2147483648", "0" * 18 + "2", "0" * 19 + "2"])
def test_a_minimum_that_leaders_leave_out_is_left_out(text: str) -> None:
    good, _ = usable({"min.insync.replicas": text})
    expected = TopicSettings(BrokerSettings({"min.insync.replicas": "3"}), good).min_insync_replicas
    context = three().context
    context.settings = ControllerSettings(min_insync_replicas=3)
    context.topic_configs["t"] = {"min.insync.replicas": text}
    assert context.min_insync_replicas("t") == expected


def test_what_leaders_cannot_read_allows_no_loss() -> None:
    context = three().context
    context.topic_configs["t"] = {"unclean.leader.election.enable": "\u00a0true"}
    assert not context.is_unclean_election_allowed("t")
    context.topic_configs["t"] = {"unclean.leader.election.enable": "\x00 true"}
    assert context.is_unclean_election_allowed("t")


def loaded(partitions: int) -> ControllerContext:
    topics = 50
    each = partitions // topics
    nodes, states = [], {}
    for t in range(topics):
        name = f"topic-{t:03d}"
        assignments = {}
        for p in range(each):
            replicas = ids(*(1 + (t + p + i) % 6 for i in range(3)))
            assignments[p] = ReplicaAssignment(replicas)
            states[TopicPartition(name, p)] = state(
                replicas[0], replicas, leader_epoch=p % 7, version=p % 500
            )
        nodes.append(TopicAssignment(name, topic_id_of(name), assignments, 0))
    brokers = tuple(registration(b, 100 + b) for b in range(1, 7))
    snapshot = MetadataLoaded(brokers, tuple(nodes), states)
    return load_context(Elected(BrokerId(1), ControllerEpoch(2), 2, snapshot), ControllerSettings())


def test_a_partition_costs_less_than_a_kilobyte() -> None:
    partitions = 10_000
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    context = loaded(partitions)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(context.assignments) == partitions
    assert (after - before) / partitions < 1024


def test_a_fork_shares_no_container() -> None:
    context = three("t", [2, 1, 3]).context
    copy = context.fork()
    for name in ControllerContext.__dataclass_fields__:
        mine, theirs = getattr(context, name), getattr(copy, name)
        assert mine == theirs
        if isinstance(mine, dict | set):
            assert mine is not theirs, name
    for broker in context.partitions_on:
        assert context.partitions_on[broker] is not copy.partitions_on[broker]
