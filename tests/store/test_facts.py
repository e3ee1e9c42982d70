"""Hints become facts: everything behind a change is read, and the next change is not missed."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.model.cluster import BrokerRegistration, Endpoint, LeaderAndIsr, ReplicaAssignment, TopicConfig
from odradek.model.facts import (
    BrokersChanged,
    ConfigChanged,
    ControllerChanged,
    DeleteTopicsRequested,
    Fact,
    FeaturesChanged,
    IsrChangeNotified,
    LogDirFailed,
    PreferredElectionRequested,
    ReassignmentRequested,
    TopicAssignmentsChanged,
    TopicsChanged,
)
from odradek.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicId, TopicPartition
from odradek.store import facts as facts_module
from odradek.store import layout, transactions
from odradek.store.api import ConditionalOps, Create, Fence, Put, Set, StoreUnavailable
from odradek.store.facts import CONFIG_CHANGES_KEPT, BrokerFacts, ControllerFacts, config_names
from odradek.store.memory_session import MemoryEnsemble, MemorySession

EPOCH = ControllerEpoch(1)


def id_of(topic: str) -> TopicId:
    return TopicId(topic.encode().ljust(16, b"."))


def _replicas(*ids: int) -> ReplicaAssignment:
    return ReplicaAssignment(tuple(BrokerId(each) for each in ids))


def _leadership(leader: int, epoch: int = 0, isr: tuple[int, ...] = (1, 2)) -> LeaderAndIsr:
    return LeaderAndIsr(BrokerId(leader), LeaderEpoch(epoch), tuple(BrokerId(each) for each in isr))


class Cluster:
    """A tree as brokers make it, an administrator who writes, a controller who listens."""

    def __init__(self) -> None:
        self.ensemble = MemoryEnsemble()
        self.admin = self.ensemble.open()
        self.controller = self.ensemble.open()
        self.woken = 0
        self.fence = Fence(0)

    def wake(self) -> None:
        self.woken += 1

    async def prepare(self) -> None:
        for path in (*layout.PERSISTENT_PATHS, "/controller_epoch"):
            parts = path.split("/")
            parents = tuple("/".join(parts[:length]) for length in range(2, len(parts)))
            await self.admin.write([ConditionalOps((Put(path, b""),), parents)], None)

    async def broker(self, broker_id: int, port: int = 9092) -> MemorySession:
        session = self.ensemble.open()
        await session.multi(
            transactions.register_broker(self.registration(broker_id, 0, port), timestamp_ms=0)
        )
        return session

    @staticmethod
    def registration(broker_id: int, epoch: int, port: int = 9092) -> BrokerRegistration:
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "h", port)
        return BrokerRegistration(BrokerId(broker_id), BrokerEpoch(epoch), (endpoint,))

    async def topic(self, name: str, *replicas: tuple[int, ...], **config: str) -> None:
        partitions = {number: _replicas(*each) for number, each in enumerate(replicas)}
        await self.do(transactions.create_topic(name, id_of(name), partitions, config))

    async def do(self, *writes: ConditionalOps) -> None:
        answers = await self.admin.write(writes, None)
        assert [type(answer).__name__ for answer in answers] == ["Stored"] * len(writes), answers


def in_a_cluster(scenario: Callable[[Cluster], Awaitable[None]]) -> Callable[[], None]:
    def test() -> None:
        async def run() -> None:
            cluster = Cluster()
            await cluster.prepare()
            await scenario(cluster)

        asyncio.run(run())

    test.__doc__ = scenario.__doc__
    return test


async def _only(facts: ControllerFacts | BrokerFacts) -> Fact:
    taken = await facts.take()
    assert len(taken) == 1, taken
    return taken[0]


@in_a_cluster
async def test_everything_is_loaded_at_once(cluster: Cluster) -> None:
    await cluster.broker(2)
    await cluster.broker(10)
    await cluster.topic("a", (1, 2), (2, 1), **{"retention.ms": "5"})
    await cluster.topic("b", (1,))
    partition = TopicPartition("a", 0)
    await cluster.do(
        transactions.create_partition_state(partition, _leadership(1), EPOCH),
        transactions.request_topic_deletion("b"),
        transactions.write_config("brokers", "<default>", {"x": "y"}),
        transactions.write_reassignment({partition: (BrokerId(2),)}),
        ConditionalOps((Create(layout.PREFERRED_ELECTION, layout.encode_partition_list([partition])),)),
        ConditionalOps((Create(layout.ISR_CHANGE, b"old", sequential=True),)),
        ConditionalOps((Create(layout.LOG_DIR_EVENT, b"old", sequential=True),)),
    )
    facts = ControllerFacts(cluster.controller, cluster.wake)
    loaded = await facts.load(cluster.fence)
    assert [broker.broker_id for broker in loaded.brokers] == [2, 10]
    assert [(topic.topic, sorted(topic.partitions), topic.topic_id) for topic in loaded.topics] == [
        ("a", [0, 1], id_of("a")),
        ("b", [0], id_of("b")),
    ]
    assert list(loaded.states) == [partition]
    assert loaded.states[partition].leader_and_isr == _leadership(1)
    assert loaded.topic_configs == {"a": TopicConfig({"retention.ms": "5"})}
    assert loaded.broker_configs == {"<default>": {"x": "y"}}
    assert loaded.delete_topics == ("b",)
    assert loaded.reassignment == ReassignmentRequested({partition: (BrokerId(2),)}, 0)
    assert loaded.preferred_election == PreferredElectionRequested((partition,), 0)
    assert loaded.producer_ids is not None
    assert loaded.producer_ids.block_end == -1
    assert loaded.unreadable == ()
    # Old notifications are gone: what they told is in what was read after.
    assert await cluster.admin.children_many([layout.ISR_CHANGES, layout.LOG_DIR_EVENTS]) == [[], []]
    await facts.take()
    cluster.woken = 0
    assert await facts.take() == []
    assert cluster.woken == 0


@in_a_cluster
async def test_brokers_that_come_go_and_bounce(cluster: Cluster) -> None:
    first = await cluster.broker(1)
    facts = ControllerFacts(cluster.controller, cluster.wake)
    loaded = await facts.load(cluster.fence)
    second = await cluster.broker(2)
    assert cluster.woken > 0
    fact = await _only(facts)
    assert isinstance(fact, BrokersChanged)
    assert [broker.broker_id for broker in fact.brokers] == [1, 2]
    cluster.ensemble.expire(first.session_id)
    await cluster.broker(1, port=9999)
    await second.close()
    bounced = await _only(facts)
    assert isinstance(bounced, BrokersChanged)
    assert [broker.broker_id for broker in bounced.brokers] == [1]
    assert bounced.brokers[0].epoch > loaded.brokers[0].epoch
    assert bounced.brokers[0].endpoints[0].port == 9999


@in_a_cluster
async def test_a_registration_that_is_rewritten_is_told(cluster: Cluster) -> None:
    await cluster.broker(1)
    facts = ControllerFacts(cluster.controller, cluster.wake)
    loaded = await facts.load(cluster.fence)
    changed = cluster.registration(1, 0, port=9999)
    await cluster.admin.set(
        layout.broker_path(BrokerId(1)), layout.encode_registration(changed, timestamp_ms=1)
    )
    fact = await _only(facts)
    assert isinstance(fact, BrokersChanged)
    assert fact.brokers[0].endpoints == changed.endpoints
    assert fact.brokers[0].epoch == loaded.brokers[0].epoch


@in_a_cluster
async def test_a_registration_that_cannot_be_read_hides_nobody_else(cluster: Cluster) -> None:
    await cluster.broker(1)
    await cluster.admin.create(f"{layout.BROKER_IDS}/2", b"{}", ephemeral=True)
    # A name that is a number of ours and no other one: broker 1 is there once, and no id is larger than the wire has room for.
    strangers = ["seven", "-1", "01", "²", "2147483648", "9" * 5000]
    for name in strangers:
        await cluster.admin.create(f"{layout.BROKER_IDS}/{name}", b"{}")
    facts = ControllerFacts(cluster.controller, cluster.wake)
    loaded = await facts.load(cluster.fence)
    assert [broker.broker_id for broker in loaded.brokers] == [1]
    assert {bad.path for bad in loaded.unreadable} == {f"/brokers/ids/{name}" for name in ["2", *strangers]}


@in_a_cluster
async def test_new_topics_come_with_all_that_is_known_of_them(cluster: Cluster) -> None:
    await cluster.topic("old", (1,))
    facts = ControllerFacts(cluster.controller, cluster.wake)
    await facts.load(cluster.fence)
    await cluster.topic("b", (1, 2), **{"retention.ms": "5"})
    await cluster.topic("a", (2, 1))
    await cluster.do(transactions.create_partition_state(TopicPartition("a", 0), _leadership(2), EPOCH))
    fact = await _only(facts)
    assert isinstance(fact, TopicsChanged)
    assert fact.topics == ("a", "b", "old")
    assert [topic.topic for topic in fact.created] == ["a", "b"]
    assert list(fact.states) == [TopicPartition("a", 0)]
    assert fact.configs == {"b": TopicConfig({"retention.ms": "5"})}
    # The next look tells what is new since then, and who is gone.
    await cluster.do(transactions.remove_topic("b"))
    gone = await _only(facts)
    assert gone == TopicsChanged(("a", "old"))


@in_a_cluster
async def test_a_topic_deleted_and_made_again_between_two_looks_is_new(cluster: Cluster) -> None:
    await cluster.topic("a", (1,))
    facts = ControllerFacts(cluster.controller, cluster.wake)
    await facts.load(cluster.fence)
    await cluster.do(transactions.remove_topic("a"))
    await cluster.topic("a", (2,), (3,))
    fact = await _only(facts)
    assert isinstance(fact, TopicsChanged)
    assert [sorted(topic.partitions) for topic in fact.created] == [[0, 1]]
    # Its node is watched again.
    await cluster.admin.set(layout.topic_path("a"), layout.encode_topic(fact.created[0]))
    assert isinstance(await _only(facts), TopicAssignmentsChanged)


@in_a_cluster
async def test_changed_assignments_are_read_together_and_watched_on(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        await cluster.topic(name, (1,))
    facts = ControllerFacts(cluster.controller, cluster.wake)
    loaded = await facts.load(cluster.fence)
    versions = {topic.topic: topic.version for topic in loaded.topics}
    grown = {0: _replicas(1), 1: _replicas(2)}
    for expected in (0, 1):
        for name in ("c", "a"):
            await cluster.do(
                transactions.write_topic(name, id_of(name), grown, expected_version=versions[name] + expected)
            )
        fact = await _only(facts)
        assert isinstance(fact, TopicAssignmentsChanged)
        assert [(topic.topic, topic.version) for topic in fact.topics] == [
            ("a", expected + 1),
            ("c", expected + 1),
        ]
        assert dict(fact.topics[0].partitions) == grown


@in_a_cluster
async def test_a_damaged_topic_is_told_and_heals(cluster: Cluster) -> None:
    await cluster.topic("a", (1,))
    await cluster.topic("b", (1,))
    facts = ControllerFacts(cluster.controller, cluster.wake)
    await facts.load(cluster.fence)
    good = (await cluster.admin.get(layout.topic_path("a"))).data
    await cluster.admin.set(layout.topic_path("a"), b"{")
    fact = await _only(facts)
    assert isinstance(fact, TopicAssignmentsChanged)
    assert fact.topics == ()
    assert [(bad.topic, bad.path) for bad in fact.unreadable] == [("a", "/brokers/topics/a")]
    await cluster.admin.set(layout.topic_path("a"), good)
    healed = await _only(facts)
    assert isinstance(healed, TopicAssignmentsChanged)
    assert [topic.topic for topic in healed.topics] == ["a"]


@in_a_cluster
async def test_a_damaged_configuration_takes_no_topic_out_and_allows_nothing(cluster: Cluster) -> None:
    await cluster.topic("a", (1,))
    await cluster.do(transactions.write_config("topics", "a", {"unclean.leader.election.enable": "true"}))
    await cluster.admin.set(layout.config_path("topics", "a"), b"{")
    facts = ControllerFacts(cluster.controller, cluster.wake)
    loaded = await facts.load(cluster.fence)
    assert [(bad.path, bad.topic) for bad in loaded.unreadable] == [("/config/topics/a", None)]
    assert dict(loaded.topic_configs["a"].overrides) == {"unclean.leader.election.enable": "false"}
    assert [topic.topic for topic in loaded.topics] == ["a"]


@in_a_cluster
async def test_damaged_settings_of_brokers_allow_no_unclean_election(cluster: Cluster) -> None:
    """Who has just been elected knows no former ones, and what stands in its file may allow what they did not."""
    unclean = layout.encode_config({"unclean.leader.election.enable": "true"})
    for name, value in (("<default>", b"{"), ("1", b"\xff"), ("2", unclean)):
        await cluster.do(ConditionalOps((Create(layout.config_path("brokers", name), value),)))
    loaded = await ControllerFacts(cluster.controller, cluster.wake).load(cluster.fence)
    assert loaded.broker_configs == {
        "<default>": {"unclean.leader.election.enable": "false"},
        "1": {"unclean.leader.election.enable": "false"},
        "2": {"unclean.leader.election.enable": "true"},
    }
    assert [(node.path, node.topic) for node in loaded.unreadable] == [
        ("/config/brokers/1", None),
        ("/config/brokers/<default>", None),
    ]


@in_a_cluster
async def test_states_that_contradict_the_assignment_are_taken_out(cluster: Cluster) -> None:
    await cluster.topic("a", (1, 2), (1, 2))
    await cluster.do(
        transactions.create_partition_state(TopicPartition("a", 0), _leadership(9), EPOCH),
        transactions.create_partition_state(TopicPartition("a", 1), _leadership(1), EPOCH),
    )
    facts = ControllerFacts(cluster.controller, cluster.wake)
    loaded = await facts.load(cluster.fence)
    assert list(loaded.states) == [TopicPartition("a", 1)]
    assert [bad.path for bad in loaded.unreadable] == ["/brokers/topics/a/partitions/0/state"]


@in_a_cluster
async def test_members_of_an_isr_who_are_no_replicas_are_left_out_of_it(cluster: Cluster) -> None:
    """They would count for min.insync.replicas and hold nothing. An ISR of nobody else cannot be trusted at all."""
    await cluster.topic("a", (1, 2), (1, 2), (1, 2))
    for number, (leader, isr) in enumerate(((1, (1, 99, 2)), (-1, (99,)), (2, (2, 1)))):
        path = layout.state_path(TopicPartition("a", number))
        await cluster.do(
            transactions.create_partition_state(
                TopicPartition("a", number), _leadership(leader, isr=isr), EPOCH
            )
        )
        value = json.loads((await cluster.admin.get(path)).data)
        value |= {
            "isr_broker_epochs": [10 + member for member in isr],
            "isr_broker_epochs_controller_epoch": EPOCH,
        }
        await cluster.admin.set(path, json.dumps(value).encode())
    facts = ControllerFacts(cluster.controller, cluster.wake)
    loaded = await facts.load(cluster.fence)
    assert {tp.partition: s.leader_and_isr.isr for tp, s in loaded.states.items()} == {0: (1, 2), 2: (2, 1)}
    assert loaded.states[TopicPartition("a", 0)].isr_broker_epochs == (11, 12), "each its own"
    some, nobody = loaded.unreadable
    assert (some.topic, nobody.topic) == (None, "a")
    assert some.reason == "the ISR names [99], who are not among the assigned replicas [1, 2]; left out"


@in_a_cluster
async def test_wishes_are_told_whole_and_again_when_they_are_gone(cluster: Cluster) -> None:
    facts = ControllerFacts(cluster.controller, cluster.wake)
    await facts.load(cluster.fence)
    partition = TopicPartition("a", 0)
    await cluster.do(transactions.request_topic_deletion("b"), transactions.request_topic_deletion("a"))
    assert await facts.take() == [DeleteTopicsRequested(("a", "b"))]
    await cluster.do(transactions.remove_topic_deletion("a"))
    assert await facts.take() == [DeleteTopicsRequested(("b",))]

    await cluster.do(transactions.write_reassignment({partition: (BrokerId(3),)}))
    assert await facts.take() == [ReassignmentRequested({partition: (BrokerId(3),)}, 0)]
    await cluster.do(transactions.write_reassignment({}))
    assert await facts.take() == [ReassignmentRequested({})]
    await cluster.do(ConditionalOps((Create(layout.REASSIGN_PARTITIONS, b"?"),)))
    bad = await _only(facts)
    assert isinstance(bad, ReassignmentRequested)
    assert (bad.targets, bad.version, len(bad.unreadable)) == ({}, 0, 1)

    value = layout.encode_partition_list([partition])
    await cluster.do(ConditionalOps((Create(layout.PREFERRED_ELECTION, value),)))
    assert await facts.take() == [PreferredElectionRequested((partition,), 0)]
    await cluster.do(transactions.remove_preferred_election())
    assert await facts.take() == [PreferredElectionRequested(())]


@in_a_cluster
async def test_notifications_are_read_and_deleted(cluster: Cluster) -> None:
    await cluster.topic("a", (1, 2))
    partition = TopicPartition("a", 0)
    await cluster.do(transactions.create_partition_state(partition, _leadership(1), EPOCH))
    facts = ControllerFacts(cluster.controller, cluster.wake)
    await facts.load(cluster.fence)
    value = layout.encode_partition_list([partition, TopicPartition("gone", 0)])
    await cluster.do(
        transactions.write_partition_state(partition, _leadership(1, isr=(1,)), EPOCH, expected_version=0),
        ConditionalOps((Create(layout.ISR_CHANGE, value, sequential=True),)),
        ConditionalOps(
            (Create(layout.LOG_DIR_EVENT, layout.encode_log_dir_event(BrokerId(2)), sequential=True),)
        ),
        ConditionalOps((Create(layout.LOG_DIR_EVENT, b"nonsense", sequential=True),)),
    )
    isr, log_dirs = await facts.take()
    assert isinstance(isr, IsrChangeNotified)
    assert [state.leader_and_isr.isr for state in isr.states.values()] == [(1,)]
    assert log_dirs == LogDirFailed((BrokerId(2),))
    assert await cluster.admin.children_many([layout.ISR_CHANGES, layout.LOG_DIR_EVENTS]) == [[], []]
    # Our own deletion is a change like any other, and there is nothing behind it.
    assert await facts.take() == []


@in_a_cluster
async def test_a_fenced_controller_leaves_the_notifications_to_the_next(cluster: Cluster) -> None:
    facts = ControllerFacts(cluster.controller, cluster.wake)
    await facts.load(cluster.fence)
    await cluster.admin.set("/controller_epoch", b"2")
    value = layout.encode_log_dir_event(BrokerId(2))
    await cluster.do(ConditionalOps((Create(layout.LOG_DIR_EVENT, value, sequential=True),)))
    await facts.take()
    assert len(await cluster.admin.children(layout.LOG_DIR_EVENTS)) == 1


@in_a_cluster
async def test_changes_of_configuration_are_read_where_they_point(cluster: Cluster) -> None:
    await cluster.do(transactions.write_config("topics", "old", {"a": "1"}))
    controller_facts = ControllerFacts(cluster.controller, cluster.wake)
    await controller_facts.load(cluster.fence)
    broker_facts = BrokerFacts(cluster.ensemble.open(), cluster.wake)
    assert await broker_facts.load() == [
        ControllerChanged(None),
        FeaturesChanged({}, -1),
        ConfigChanged("topics", "old", {"a": "1"}),
    ]
    await cluster.do(
        transactions.write_config("topics", "t", {"a": "1"}),
        transactions.write_config("topics", "t", {"a": "2"}),
        transactions.write_config("brokers", "<default>", {"b": "3"}),
        transactions.write_config("users", "u/clients/c", {"quota": "4"}),
        ConditionalOps((Create(layout.CONFIG_CHANGE, b'{"version":2,"entity_path":"/"}', sequential=True),)),
    )
    for facts in (controller_facts, broker_facts):
        bad, *good = await facts.take()
        assert good == [
            ConfigChanged("topics", "t", {"a": "2"}),
            ConfigChanged("brokers", "<default>", {"b": "3"}),
            ConfigChanged("users", "u/clients/c", {"quota": "4"}),
        ]
        assert isinstance(bad, ConfigChanged)
        assert "expected type/name" in bad.unreadable[0].reason
        assert await facts.take() == []


@in_a_cluster
async def test_what_names_no_node_is_told_and_what_was_said_beside_it_is_read(cluster: Cluster) -> None:
    """A broker that could not go on over an announcement could not be followed by another one that can."""
    controller = ControllerFacts(cluster.controller, cluster.wake)
    broker = BrokerFacts(cluster.ensemble.open(), cluster.wake)
    await cluster.topic("t", (1, 2))
    await controller.load(cluster.fence)
    await broker.load()
    nowhere = ["..", ".", "a\x01b", "\ue000"]
    for name in nowhere:
        announced = layout.encode_config_change(f"topics/{name}")
        await cluster.admin.create(layout.CONFIG_CHANGE, announced, sequential=True)
    await cluster.do(transactions.write_config("topics", "t", {"a": "1"}))
    for name in (*nowhere, ""):
        changed = layout.encode_partition_list([TopicPartition(name, 0)])
        await cluster.admin.create(layout.ISR_CHANGE, changed, sequential=True)
    changed = layout.encode_partition_list([TopicPartition("t", 0)])
    await cluster.admin.create(layout.ISR_CHANGE, changed, sequential=True)
    *bad, good = await broker.take()
    assert good == ConfigChanged("topics", "t", {"a": "1"})
    assert len([fact for fact in bad if isinstance(fact, ConfigChanged) and fact.unreadable]) == len(nowhere)
    told = await controller.take()
    assert [fact for fact in told if isinstance(fact, ConfigChanged)] == [*bad, good]
    (isr,) = (fact for fact in told if isinstance(fact, IsrChangeNotified))
    assert len(isr.unreadable) == len(nowhere) + 1
    assert "no name of a topic" in isr.unreadable[0].reason


@in_a_cluster
async def test_a_node_of_requests_that_somebody_deleted_has_none_until_it_is_there_again(
    cluster: Cluster,
) -> None:
    """`deleteall /admin/delete_topics` is an old remedy. Every broker ended over the announcements, and each controller
    resigned over the others."""
    controller = ControllerFacts(cluster.controller, cluster.wake)
    broker = BrokerFacts(cluster.ensemble.open(), cluster.wake)
    await controller.load(cluster.fence)
    await broker.load()
    roots = (layout.CONFIG_CHANGES, layout.DELETE_TOPICS, layout.ISR_CHANGES, layout.LOG_DIR_EVENTS)
    for root in roots:
        await cluster.admin.delete(root)
    assert await broker.take() == []
    assert await controller.take() == [DeleteTopicsRequested(())]
    assert (await ControllerFacts(cluster.controller, cluster.wake).load(cluster.fence)).delete_topics == ()
    await cluster.do(transactions.request_topic_deletion("t"))
    for root in roots:
        if root != layout.DELETE_TOPICS:
            await cluster.admin.create(root)
    assert await controller.take() == [DeleteTopicsRequested(("t",))]
    await cluster.do(transactions.write_config("topics", "t", {"a": "1"}))
    assert await broker.take() == [ConfigChanged("topics", "t", {"a": "1"})]
    assert await controller.take() == [ConfigChanged("topics", "t", {"a": "1"})]


@in_a_cluster
async def test_only_the_newest_announcements_are_kept(cluster: Cluster) -> None:
    facts = ControllerFacts(cluster.controller, cluster.wake)
    await facts.load(cluster.fence)
    many = [
        transactions.write_config("topics", f"t{number % 7}", {})
        for number in range(CONFIG_CHANGES_KEPT + 50)
    ]
    await cluster.do(*many)
    assert len(await facts.take()) == 7
    names = await cluster.admin.children(layout.CONFIG_CHANGES)
    assert len(names) == CONFIG_CHANGES_KEPT
    assert names[-1] == f"config_change_{CONFIG_CHANGES_KEPT + 49:010d}"
    assert await facts.take() == []


@in_a_cluster
async def test_every_broker_hears_who_is_controller(cluster: Cluster) -> None:
    facts = BrokerFacts(cluster.ensemble.open(), cluster.wake)
    assert await facts.load() == [ControllerChanged(None), FeaturesChanged({}, -1)]
    leader = cluster.ensemble.open()
    await leader.create(
        layout.CONTROLLER, layout.encode_controller(BrokerId(3), timestamp_ms=0), ephemeral=True
    )
    assert await facts.take() == [ControllerChanged(BrokerId(3))]
    cluster.ensemble.expire(leader.session_id)
    assert await facts.take() == [ControllerChanged(None)]
    await cluster.admin.create(layout.CONTROLLER, b"nonsense", ephemeral=True)
    fact = await _only(facts)
    assert isinstance(fact, ControllerChanged)
    assert fact.controller is None
    assert fact.unreadable is not None
    assert "not JSON" in fact.unreadable.reason
    await cluster.admin.delete(layout.CONTROLLER)
    await cluster.admin.create(layout.CONTROLLER, layout.encode_controller(BrokerId(3), timestamp_ms=0))
    fact = await _only(facts)
    assert isinstance(fact, ControllerChanged)
    assert fact.controller is None
    assert fact.unreadable is not None
    assert "not ephemeral: it was created by hand" in fact.unreadable.reason


@in_a_cluster
async def test_others_have_their_turns_while_a_controller_reads_many_topics(cluster: Cluster) -> None:
    """Who is elected serves clients and followers meanwhile, and 100,000 partitions take a third of a second to read."""
    for number in range(10):
        await cluster.topic(f"t{number}", *[(1, 2)] * (facts_module.PARTITIONS_A_TURN // 2))
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    turn()
    snapshot = await ControllerFacts(cluster.controller, cluster.wake).load(None)

    assert len(snapshot.topics) == 10
    assert turns >= 5


@in_a_cluster
async def test_states_of_many_partitions_are_read_and_judged_in_several_turns(cluster: Cluster) -> None:
    """Of 100,000 it took a tenth of a second."""
    read: list[tuple[int, int]] = []
    judged: list[tuple[int, int]] = []
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    def decode(partitions: Any, nodes: Any, really: Any = layout.decode_partition_states) -> Any:
        read.append((turns, len(partitions)))
        return really(partitions, nodes)

    def drop(topics: Any, states: Any, really: Any = facts_module.drop_unassigned) -> Any:
        judged.append((turns, sum(len(topic.partitions) for topic in topics)))
        return really(topics, states)

    for number in range(5):
        await cluster.topic(f"t{number}", *[(1, 2)] * 20)
    turn()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(facts_module, "PARTITIONS_A_TURN", 20)
        patched.setattr(layout, "decode_partition_states", decode)
        patched.setattr(facts_module, "drop_unassigned", drop)
        snapshot = await ControllerFacts(cluster.controller, cluster.wake).load(None)

    assert len(snapshot.topics) == 5
    for some in (read, judged):
        assert [count for _, count in some] == [20] * 5
        assert len({when for when, _ in some}) == 5


@in_a_cluster
async def test_names_of_users_take_as_many_rounds_for_many_as_for_one(cluster: Cluster) -> None:
    """Anybody may make users, and each broker reads them all when it starts."""

    class Counted:
        calls = 0

        async def before(self, session_id: int, call: str) -> None:
            self.calls += 1

        async def after(self, session_id: int, call: str) -> None:
            """Nothing is lost."""

    users = [f"user-{number}" for number in range(20)]
    for user in users:
        await cluster.do(transactions.write_config("users", user, {"quota": "1"}))
        await cluster.do(transactions.write_config("users", f"{user}/clients/c", {"quota": "2"}))
    gate = cluster.ensemble.gate = Counted()

    names = await config_names(cluster.admin, "users")

    assert sorted(names) == sorted([*users, *(f"{user}/clients/c" for user in users)])
    assert gate.calls == 2


@in_a_cluster
async def test_a_hint_heard_during_a_read_is_kept_for_the_next(cluster: Cluster) -> None:
    """The change comes after the names were read, before the answer is taken."""
    await cluster.topic("a", (1,))
    facts = ControllerFacts(cluster.controller, cluster.wake)
    await facts.load(cluster.fence)

    class Gate:
        armed = True

        async def before(self, session_id: int, call: str) -> None:
            if session_id == cluster.controller.session_id and call == "get_many" and self.armed:
                self.armed = False
                await cluster.do(transactions.remove_topic("b"))
                await cluster.topic("b", (3,))
                await cluster.topic("c", (4,))

        async def after(self, session_id: int, call: str) -> None:
            """Nothing is lost here."""

    await cluster.topic("b", (2,))
    cluster.ensemble.gate = Gate()
    first = await _only(facts)
    assert isinstance(first, TopicsChanged)
    assert [dict(topic.partitions) for topic in first.created] == [{0: _replicas(3)}]
    second = await _only(facts)
    assert isinstance(second, TopicsChanged)
    assert [topic.topic for topic in second.created] == ["c"]


class OneCallFails:
    """The n-th call of one session does not get through."""

    def __init__(self, session: MemorySession, failing_call: int) -> None:
        self._session_id = session.session_id
        self._failing_call = failing_call
        self._calls = 0
        self.failed = 0

    async def before(self, session_id: int, call: str) -> None:
        if session_id == self._session_id:
            self._calls += 1
            if self._calls == self._failing_call:
                self.failed += 1
                raise StoreUnavailable(message="out of touch")

    async def after(self, session_id: int, call: str) -> None:
        """Nothing is lost here."""


@pytest.mark.parametrize("failing_call", range(1, 5))
def test_a_change_of_configuration_is_not_lost_with_a_read_that_failed(failing_call: int) -> None:
    """It would hold nowhere but in the store until somebody changed the same again."""

    async def scenario(cluster: Cluster) -> None:
        reader = cluster.ensemble.open()
        facts = BrokerFacts(reader, cluster.wake)
        await facts.load()
        await cluster.do(transactions.write_config("topics", "t", {"min.insync.replicas": "2"}))
        gate = cluster.ensemble.gate = OneCallFails(reader, failing_call)
        told: list[Fact] = []
        for _ in range(2):
            try:
                told += await facts.take()
            except StoreUnavailable:
                assert gate.failed == 1
        assert told == [ConfigChanged("topics", "t", {"min.insync.replicas": "2"})]
        assert gate.failed == (1 if failing_call <= 3 else 0)

    in_a_cluster(scenario)()


@pytest.mark.parametrize("failing_call", range(1, 7))
def test_a_read_that_failed_loses_nothing(failing_call: int) -> None:
    """Of the reads behind two hints one fails: both are told in the end, whichever it was."""

    async def scenario(cluster: Cluster) -> None:
        await cluster.topic("a", (1,))
        facts = ControllerFacts(cluster.controller, cluster.wake)
        await facts.load(cluster.fence)
        topic = (await cluster.admin.get(layout.topic_path("a"))).data
        await cluster.topic("b", (1,))
        await cluster.do(ConditionalOps((Set(layout.topic_path("a"), topic, 0),)))
        gate = cluster.ensemble.gate = OneCallFails(cluster.controller, failing_call)
        told: list[Fact] = []
        while len(told) < 2:
            try:
                told += await facts.take()
            except StoreUnavailable:
                assert gate.failed == 1
        created, changed = told
        assert isinstance(created, TopicsChanged)
        assert [topic.topic for topic in created.created] == ["b"]
        assert isinstance(changed, TopicAssignmentsChanged)
        assert [topic.topic for topic in changed.topics] == ["a"]
        assert await facts.take() == []
        assert gate.failed == (1 if failing_call <= 5 else 0)

    in_a_cluster(scenario)()


@in_a_cluster
async def test_who_stopped_hears_nothing(cluster: Cluster) -> None:
    facts = ControllerFacts(cluster.controller, cluster.wake)
    await facts.load(cluster.fence)
    facts.stop()
    cluster.woken = 0
    await cluster.topic("a", (1,))
    assert cluster.woken == 0
    assert await facts.take() == []


# ---- nodes that cannot all be true


@in_a_cluster
async def test_two_topics_of_one_id_are_told_apart_and_the_first_keeps_it(cluster: Cluster) -> None:
    await cluster.topic("a", (1,))
    twin = transactions.create_topic("b", id_of("a"), {0: _replicas(1)}, {})
    await cluster.do(twin)
    facts = ControllerFacts(cluster.controller, cluster.wake)
    loaded = await facts.load(cluster.fence)
    assert [topic.topic for topic in loaded.topics] == ["a"]
    assert [(node.topic, node.reason) for node in loaded.unreadable] == [("b", "topic_id is that of topic a")]
    # Later too; and when the owner is gone, the id is free.
    await cluster.do(transactions.create_topic("c", id_of("a"), {0: _replicas(1)}, {}))
    later = await _only(facts)
    assert isinstance(later, TopicsChanged)
    assert [node.topic for node in later.unreadable] == ["c"]
    await cluster.do(
        transactions.remove_topic("a"), transactions.create_topic("d", id_of("a"), {0: _replicas(1)}, {})
    )
    last = await _only(facts)
    assert isinstance(last, TopicsChanged)
    assert [topic.topic for topic in last.created] == ["d"]
    assert last.unreadable == ()


@in_a_cluster
async def test_an_epoch_that_nobody_was_elected_for_takes_out_its_partition_alone(cluster: Cluster) -> None:
    """Believed, it would make every controller resign for one that never comes (row 37)."""
    await cluster.topic("a", (1, 2), (1, 2))
    await cluster.admin.set("/controller_epoch", b"5")
    cluster.fence = Fence((await cluster.admin.get("/controller_epoch")).stat.version)
    good, bad = TopicPartition("a", 0), TopicPartition("a", 1)
    await cluster.do(
        transactions.create_partition_state(good, _leadership(1), ControllerEpoch(5)),
        transactions.create_partition_state(bad, _leadership(1), ControllerEpoch(6)),
    )
    loaded = await ControllerFacts(cluster.controller, cluster.wake).load(cluster.fence)
    assert list(loaded.states) == [good]
    (node,) = loaded.unreadable
    assert node.path == layout.state_path(bad)
    assert node.reason == "controller_epoch 6 was not reached yet: /controller_epoch stands at 5"


@in_a_cluster
async def test_a_leader_without_a_copy_takes_out_its_partition_alone(cluster: Cluster) -> None:
    await cluster.topic("a", (1, 2), (1, 2))
    good, bad = TopicPartition("a", 0), TopicPartition("a", 1)
    await cluster.admin.set("/controller_epoch", b"1")
    await cluster.do(
        transactions.create_partition_state(good, _leadership(1), EPOCH),
        transactions.create_partition_state(bad, _leadership(3, isr=(3,)), EPOCH),
    )
    cluster.fence = Fence((await cluster.admin.get("/controller_epoch")).stat.version)
    loaded = await ControllerFacts(cluster.controller, cluster.wake).load(cluster.fence)
    assert list(loaded.states) == [good]
    assert [node.reason for node in loaded.unreadable] == [
        "leader 3 is not among the assigned replicas [1, 2]"
    ]


class Meanwhile:
    """Before one of the controller's next calls of that name is answered, somebody else writes."""

    def __init__(self, cluster: Cluster, call: str, *writes: ConditionalOps, after: int = 0) -> None:
        """`after`: so many calls of that name."""
        self._cluster = cluster
        self._call = call
        self._left = after
        self._writes = writes
        cluster.ensemble.gate = self

    async def before(self, session_id: int, call: str) -> None:
        ensemble = self._cluster.ensemble
        if call == self._call and session_id == self._cluster.controller.session_id:
            self._left -= 1
            if self._left >= 0:
                return
            ensemble.gate = None
            answers, fired = ensemble.tree.write(self._cluster.admin.session_id, self._writes, None)
            ensemble.deliver(fired)
            assert [type(answer).__name__ for answer in answers] == ["Stored"] * len(answers), answers

    async def after(self, session_id: int, call: str) -> None:
        """Nothing is lost here."""


def _made_and_deleted(topic: str) -> tuple[ConditionalOps, ...]:
    partitions = {0: _replicas(1)}
    return (
        transactions.create_topic(topic, id_of(topic), partitions, {"retention.ms": "5"}),
        transactions.request_topic_deletion(topic),
    )


@in_a_cluster
async def test_who_takes_over_hears_of_no_deletion_before_its_topic(cluster: Cluster) -> None:
    """It would take the request for one of a topic that is gone, and remove it with the topic's configuration: the topic, made and
    deleted while everything was read, would live on without it."""
    await cluster.topic("a", (1,))
    facts = ControllerFacts(cluster.controller, cluster.wake)
    # After two kinds of notifications and the brokers come the topics.
    Meanwhile(cluster, "get_many", *_made_and_deleted("b"), after=3)
    loaded = await facts.load(cluster.fence)
    assert set(loaded.delete_topics) <= {topic.topic for topic in loaded.topics}
    later = [type(fact) for fact in await facts.take() if not isinstance(fact, ConfigChanged)]
    assert later == [TopicsChanged, DeleteTopicsRequested]


@pytest.mark.parametrize("call", ["get_many", "children"])
def test_a_controller_hears_of_no_deletion_before_its_topic(call: str) -> None:
    """`get_many`: while it reads other new topics. `children`: while it reads what is to be deleted."""

    @in_a_cluster
    async def scenario(cluster: Cluster) -> None:
        await cluster.topic("a", (1,))
        facts = ControllerFacts(cluster.controller, cluster.wake)
        await facts.load(cluster.fence)
        if call == "get_many":
            await cluster.topic("new", (1,))
        await cluster.do(transactions.request_topic_deletion("a"))
        Meanwhile(cluster, call, *_made_and_deleted("b"))
        known = {"a"}
        heard: list[str] = []
        while taken := await facts.take():
            for fact in taken:
                if isinstance(fact, TopicsChanged):
                    known.update(topic.topic for topic in fact.created)
                if isinstance(fact, DeleteTopicsRequested):
                    assert set(fact.topics) <= known
                    heard += fact.topics
        assert {"a", "b"} <= set(heard)

    scenario()


@in_a_cluster
async def test_a_topic_that_went_while_it_was_read_is_new_when_it_is_there_again(cluster: Cluster) -> None:
    facts = ControllerFacts(cluster.controller, cluster.wake)
    await facts.load(cluster.fence)
    await cluster.topic("a", (1,))
    Meanwhile(cluster, "get_many", transactions.remove_topic("a"))
    first = await _only(facts)
    assert isinstance(first, TopicsChanged)
    assert first.created == ()
    await cluster.topic("a", (1, 2))
    again = await _only(facts)
    assert isinstance(again, TopicsChanged)
    assert [topic.topic for topic in again.created] == ["a"]


@in_a_cluster
async def test_configurations_of_many_topics_are_read_in_several_turns(cluster: Cluster) -> None:
    """Those of 10,000 topics took 80 ms, at each election and at each new session of a broker."""
    read: list[int] = []
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    def decode(path: str, data: bytes, really: Any = layout.decode_config) -> Any:
        read.append(turns)
        return really(path, data)

    for number in range(50):
        await cluster.topic(f"t{number}", (1,), **{"retention.ms": "5"})
    turn()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(facts_module, "CONFIGS_A_TURN", 10, raising=False)
        patched.setattr(layout, "decode_config", decode)
        loaded = await BrokerFacts(cluster.controller, cluster.wake).load()

    assert len(read) == 50
    assert len(set(read)) >= 5
    assert [fact.entity_name for fact in loaded if isinstance(fact, ConfigChanged)] == sorted(
        f"t{number}" for number in range(50)
    )
