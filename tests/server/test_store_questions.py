"""What the broker asks of the store, answered from one in memory."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import pytest

from odradek.broker import effects
from odradek.broker.effects import (
    AddPartitions,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    ReadConfigs,
    WriteConfigs,
)
from odradek.model.cluster import BrokerRegistration
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, TopicId
from odradek.server.environment import Environment
from odradek.server.registration import prepare_tree
from odradek.server.store_questions import CONFIGS_A_TURN, answer
from odradek.store import api, layout, transactions
from odradek.store.memory_session import MemoryEnsemble, MemorySession

T = TypeVar("T")
TOPIC_ID = TopicId(bytes(range(16)))
ONE_TWO = (BrokerId(1), BrokerId(2))
ORDERS = NewTopic("orders", TOPIC_ID, {0: ONE_TWO}, {"retention.ms": "1000"})


def with_store(body: "Any") -> None:
    async def main() -> None:
        store = MemoryEnsemble().open()
        await prepare_tree(store, Environment(asyncio.get_running_loop()))
        await body(store)

    asyncio.run(main())


async def results(store: MemorySession, question: effects.StoreQuestion) -> dict[str, tuple[ErrorCode, str]]:
    result = await answer(store, question)
    assert isinstance(result, effects.TopicsWritten), result
    return dict(result.results)


async def written(
    store: MemorySession, kind: str, name: str, config: dict[str, str], expected_version: int
) -> str:
    change = effects.ConfigWrite(kind, name, config, expected_version)
    result = await answer(store, WriteConfigs((change,)))
    assert isinstance(result, effects.ConfigsWritten), result
    return result.outcomes[0]


async def overrides(store: MemorySession, kind: str, name: str) -> dict[str, str]:
    path = layout.config_path(kind, name)
    return layout.decode_config(path, (await store.get(path)).data)


def test_a_topic_that_somebody_deletes_while_it_is_made_again_is_told_as_one_that_goes() -> None:
    class Deleting(MemorySession):
        async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[api.Node | None]:
            found = await super().get_many(paths, watch=watch)
            await self.write([transactions.request_topic_deletion("orders")], None)
            return found

    async def body(store: MemorySession) -> None:
        await results(store, CreateTopics((ORDERS,)))
        store.__class__ = Deleting
        assert await results(store, CreateTopics((ORDERS,))) == {
            "orders": (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' is marked for deletion.")
        }

    with_store(body)


def test_a_topic_is_made_with_its_configuration_and_only_once() -> None:
    async def body(store: MemorySession) -> None:
        assert await results(store, CreateTopics((ORDERS,))) == {"orders": (ErrorCode.NONE, "")}
        made = layout.decode_topic("orders", await store.get(layout.topic_path("orders")))
        assert (made.topic_id, made.partitions[0].replicas) == (TOPIC_ID, ONE_TWO)
        path = layout.config_path("topics", "orders")
        assert layout.decode_config(path, (await store.get(path)).data) == {"retention.ms": "1000"}

        again = NewTopic("orders", TopicId(bytes(16)), {0: ONE_TWO}, {})
        other = NewTopic("other", TopicId(bytes(reversed(range(16)))), {0: ONE_TWO}, {})
        found = await results(store, CreateTopics((again, other)))
        assert found["orders"] == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists.")
        assert found["other"][0] is ErrorCode.NONE
        config = layout.decode_config(path, (await store.get(path)).data)
        assert config == {"retention.ms": "1000"}, "a refused creation changes nothing"

    with_store(body)


def test_a_deletion_is_asked_for_once_and_blocks_what_would_follow() -> None:
    async def body(store: MemorySession) -> None:
        await answer(store, CreateTopics((ORDERS,)))
        assert (await results(store, DeleteTopics(("orders", "nope"))))["orders"] == (ErrorCode.NONE, "")
        assert (await results(store, DeleteTopics(("orders",))))["orders"][0] is ErrorCode.NONE
        assert (await results(store, DeleteTopics(("nope",))))["nope"][
            0
        ] is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await store.children(layout.DELETE_TOPICS) == ["orders"]
        code, sentence = (await results(store, CreateTopics((ORDERS,))))["orders"]
        assert (code, sentence) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' is marked for deletion.")
        code, _ = (await results(store, AddPartitions("orders", {1: ONE_TWO})))["orders"]
        assert code is ErrorCode.INVALID_TOPIC_EXCEPTION

    with_store(body)


def test_a_deletion_by_id_spares_a_topic_that_was_made_since_under_its_name() -> None:
    async def body(store: MemorySession) -> None:
        await answer(store, CreateTopics((ORDERS,)))
        other = TopicId(bytes(16))
        found = await results(store, DeleteTopics(("orders", "nope"), {"orders": other, "nope": other}))
        assert [code for code, _ in found.values()] == [ErrorCode.UNKNOWN_TOPIC_ID] * 2
        assert await store.exists(layout.delete_topic_path("orders")) is None
        assert await results(store, DeleteTopics(("orders",), {"orders": TOPIC_ID})) == {
            "orders": (ErrorCode.NONE, "")
        }
        assert await store.exists(layout.delete_topic_path("orders")) is not None

    with_store(body)


def test_others_have_their_turns_while_many_configurations_are_read() -> None:
    """Clients make users by the thousand, and anybody may ask about all of them."""

    async def body(store: MemorySession) -> None:
        entities = tuple(("users", f"user-{number}") for number in range(5 * CONFIGS_A_TURN))
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        turn()
        await answer(store, ReadConfigs(entities[:1]))
        few, turns = turns, 0
        await answer(store, ReadConfigs(entities))
        assert turns >= few + 4

    with_store(body)


def test_a_name_is_free_when_the_last_node_of_its_deletion_is_gone() -> None:
    """The topic's node goes first. Whatever were created now would lose its configuration to the rest of the deletion, and
    all of it to a controller that takes over before the request is removed."""

    async def body(store: MemorySession) -> None:
        await answer(store, CreateTopics((ORDERS,)))
        await answer(store, DeleteTopics(("orders",)))
        await store.write([transactions.remove_topic("orders")], None)

        code, sentence = (await results(store, CreateTopics((ORDERS,))))["orders"]
        assert (code, sentence) == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' is marked for deletion.")
        assert await store.exists(layout.topic_path("orders")) is None

        await store.write([transactions.remove_topic_config("orders")], None)
        await store.write([transactions.remove_topic_deletion("orders")], None)
        assert await results(store, CreateTopics((ORDERS,))) == {"orders": (ErrorCode.NONE, "")}

    with_store(body)


def test_partitions_are_added_and_never_replaced() -> None:
    async def body(store: MemorySession) -> None:
        await answer(store, CreateTopics((ORDERS,)))
        assert (await results(store, AddPartitions("orders", {1: ONE_TWO})))["orders"] == (ErrorCode.NONE, "")
        made = layout.decode_topic("orders", await store.get(layout.topic_path("orders")))
        assert sorted(made.partitions) == [0, 1]
        code, _ = (await results(store, AddPartitions("orders", {1: ONE_TWO})))["orders"]
        assert code is ErrorCode.INVALID_PARTITIONS
        code, _ = (await results(store, AddPartitions("nope", {1: ONE_TWO})))["nope"]
        assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_store(body)


def test_no_partition_is_added_behind_a_gap() -> None:
    """The topic was deleted, and made again with fewer, since somebody has counted them."""

    async def body(store: MemorySession) -> None:
        await answer(store, CreateTopics((ORDERS,)))
        assert (await results(store, AddPartitions("orders", {3: ONE_TWO, 4: ONE_TWO})))["orders"] == (
            ErrorCode.INVALID_PARTITIONS,
            "Topic 'orders' has 1 partitions by now.",
        )
        made = layout.decode_topic("orders", await store.get(layout.topic_path("orders")))
        assert sorted(made.partitions) == [0]

    with_store(body)


def test_partitions_added_by_two_at_once_are_both_there() -> None:
    async def body(store: MemorySession) -> None:
        await answer(store, CreateTopics((ORDERS,)))
        await asyncio.gather(
            answer(store, AddPartitions("orders", {1: ONE_TWO})),
            answer(store, AddPartitions("orders", {2: ONE_TWO})),
        )
        made = layout.decode_topic("orders", await store.get(layout.topic_path("orders")))
        assert sorted(made.partitions) == [0, 1, 2]

    with_store(body)


def test_configurations_are_written_over_the_version_that_was_read_and_announced() -> None:
    async def body(store: MemorySession) -> None:
        orders = ("topics", "orders")
        read = await answer(store, ReadConfigs((orders,)))
        assert isinstance(read, effects.ConfigsRead)
        assert (read.configs[orders].overrides, read.configs[orders].version) == ({}, -1)

        def write(value: str, version: int) -> Coroutine[Any, Any, effects.StoreResult]:
            change = effects.ConfigWrite("topics", "orders", {"retention.ms": value}, version)
            return answer(store, WriteConfigs((change,)))

        assert await write("1", -1) == effects.ConfigsWritten(("stored",))
        assert await write("2", -1) == effects.ConfigsWritten(("conflict",))
        assert await write("3", 0) == effects.ConfigsWritten(("stored",))
        again = await answer(store, ReadConfigs((orders,)))
        assert isinstance(again, effects.ConfigsRead)
        assert dict(again.configs[orders].overrides) == {"retention.ms": "3"}
        changes = await store.children(layout.CONFIG_CHANGES)
        assert len(changes) == 2, "one announcement for each that was stored"

    with_store(body)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("clients", "etl"),
        ("clients", "<default>"),
        ("ips", "10.0.0.1"),
        ("users", "ann"),
        ("users", "ann/clients/etl"),
    ],
)
def test_of_an_entity_without_a_quota_nothing_is_left(kind: str, name: str) -> None:
    """Clients may have ever new names, and each node is read by every broker that starts."""

    async def body(store: MemorySession) -> None:
        before = list(await store.children(f"/config/{kind}"))
        assert await written(store, kind, name, {"a": "1"}, -1) == "stored"
        assert await written(store, kind, name, {}, 1) == "conflict"
        assert await written(store, kind, name, {}, 0) == "stored"
        assert await store.children(f"/config/{kind}") == before
        assert len(await store.children(layout.CONFIG_CHANGES)) == 2, "everybody hears that it is gone"
        assert await written(store, kind, name, {}, 0) == "conflict"
        assert await written(store, kind, name, {"a": "2"}, -1) == "stored"

    with_store(body)


def test_a_user_whose_clients_have_quotas_stays_without_one_of_its_own() -> None:
    async def body(store: MemorySession) -> None:
        assert await written(store, "users", "ann", {"a": "1"}, -1) == "stored"
        assert await written(store, "users", "ann/clients/etl", {"a": "2"}, -1) == "stored"
        assert await written(store, "users", "ann/clients/web", {"a": "3"}, -1) == "stored"
        assert await written(store, "users", "ann", {}, 1) == "conflict"
        assert await written(store, "users", "ann", {}, 0) == "stored"
        assert await overrides(store, "users", "ann") == {}
        assert await written(store, "users", "ann/clients/etl", {}, 0) == "stored"
        assert await store.children("/config/users/ann/clients") == ["web"]
        assert await overrides(store, "users", "ann/clients/web") == {"a": "3"}
        assert await written(store, "users", "ann/clients/web", {}, 0) == "stored"
        assert await store.children("/config/users") == []

    with_store(body)


def test_a_user_with_something_of_its_own_stays_when_the_last_of_its_clients_has_no_quota() -> None:
    async def body(store: MemorySession) -> None:
        assert await written(store, "users", "ann", {"SCRAM-SHA-256": "x"}, -1) == "stored"
        assert await written(store, "users", "ann/clients/etl", {"a": "2"}, -1) == "stored"
        assert await written(store, "users", "ann/clients/etl", {}, 0) == "stored"
        assert await store.children("/config/users/ann") == []
        assert await overrides(store, "users", "ann") == {"SCRAM-SHA-256": "x"}

    with_store(body)


def test_topics_and_brokers_keep_their_node() -> None:
    """A topic has one as long as it is there; Apache's tools look for it."""

    async def body(store: MemorySession) -> None:
        for kind, name in (("topics", "orders"), ("brokers", "1")):
            assert await written(store, kind, name, {"a": "1"}, -1) == "stored"
            assert await written(store, kind, name, {}, 0) == "stored"
            assert await overrides(store, kind, name) == {}

    with_store(body)


def test_a_store_out_of_reach_is_an_answer_and_no_exception() -> None:
    async def body(store: MemorySession) -> None:
        store.disconnect()
        result = await answer(store, CreateTopics((ORDERS,)))
        assert isinstance(result, effects.StoreFailed)
        assert "out of touch" in result.reason

    with_store(body)


def test_all_quotas_are_listed_those_of_clients_of_a_user_too() -> None:
    async def body(store: MemorySession) -> None:
        writes = (
            effects.ConfigWrite("users", "ann/clients/app", {"producer_byte_rate": "1"}, -1),
            effects.ConfigWrite("users", "bob", {"producer_byte_rate": "2"}, -1),
            effects.ConfigWrite("clients", "app", {"producer_byte_rate": "3"}, -1),
        )
        assert await answer(store, WriteConfigs(writes)) == effects.ConfigsWritten(("stored",) * 3)
        read = await answer(store, effects.ListConfigs(("users", "clients", "ips")))
        assert isinstance(read, effects.ConfigsRead)
        found = {entity: dict(stored.overrides) for entity, stored in read.configs.items()}
        assert found == {
            ("users", "ann"): {},
            ("users", "ann/clients/app"): {"producer_byte_rate": "1"},
            ("users", "bob"): {"producer_byte_rate": "2"},
            ("clients", "app"): {"producer_byte_rate": "3"},
        }
        # The node of the user alone stands there as a parent; a value of its own is a change of it.
        change = effects.ConfigWrite("users", "ann", {"producer_byte_rate": "4"}, 0)
        assert await answer(store, WriteConfigs((change,))) == effects.ConfigsWritten(("stored",))
        paths = [
            layout.decode_config_change(path, (await store.get(path)).data)
            for name in await store.children(layout.CONFIG_CHANGES)
            for path in [f"{layout.CONFIG_CHANGES}/{name}"]
        ]
        assert paths == ["users/ann/clients/app", "users/bob", "clients/app", "users/ann"]

    with_store(body)


def test_a_node_of_nonsense_is_named_and_the_others_are_read() -> None:
    async def body(store: MemorySession) -> None:
        await store.create("/config/topics/bad", b"{not json")
        await answer(store, WriteConfigs((effects.ConfigWrite("topics", "good", {"retention.ms": "1"}, -1),)))
        read = await answer(store, ReadConfigs((("topics", "bad"), ("topics", "good"))))
        assert isinstance(read, effects.ConfigsRead)
        assert list(read.unreadable) == [("topics", "bad")]
        assert "/config/topics/bad" in read.unreadable["topics", "bad"]
        assert read.configs["topics", "bad"].version == 0, "so that it can be replaced"
        assert dict(read.configs["topics", "good"].overrides) == {"retention.ms": "1"}

    with_store(body)


def test_features_are_read_and_written_over_the_version_that_was_read() -> None:
    async def body(store: MemorySession) -> None:
        assert await answer(store, effects.ReadFeatures()) == effects.FeaturesRead({}, -1)
        assert await answer(store, effects.WriteFeatures({"f": 2}, -1)) == effects.ConfigsWritten(("stored",))
        assert await answer(store, effects.WriteFeatures({}, -1)) == effects.ConfigsWritten(("conflict",))
        assert await answer(store, effects.ReadFeatures()) == effects.FeaturesRead({"f": 2}, 0)
        old = b'{"version":1,"status":1,"features":{"f":{"min_version_level":1,"max_version_level":3}}}'
        await store.set(layout.FEATURE, old)
        assert await answer(store, effects.ReadFeatures()) == effects.FeaturesRead({"f": 3}, 1)
        await store.set(layout.FEATURE, b"nonsense")
        assert isinstance(await answer(store, effects.ReadFeatures()), effects.StoreFailed)

    with_store(body)


def test_what_registered_brokers_know_is_read_with_the_features() -> None:
    async def body(store: MemorySession) -> None:
        ours = BrokerRegistration(BrokerId(2), BrokerEpoch(1), ())
        await store.create("/brokers/ids/2", layout.encode_registration(ours, timestamp_ms=5))
        await store.create("/brokers/ids/1", b'{"version":5,"features":{},"endpoints":[]}')
        for name in ("temporary", "٣", "9" * 5000):
            await store.create(f"/brokers/ids/{name}", b"no broker")
        read = await answer(store, effects.ReadFeatures())
        assert read == effects.FeaturesRead({}, -1, {1: {}, 2: {"transaction.version": 2}})
        await store.set("/brokers/ids/1", b'{"version":5,"odradek_features":3}')
        assert isinstance(await answer(store, effects.ReadFeatures()), effects.StoreFailed)

    with_store(body)


def test_a_topic_that_is_being_reassigned_does_not_grow() -> None:
    async def body(store: MemorySession) -> None:
        await answer(store, CreateTopics((ORDERS,)))
        node = await store.get(layout.topic_path("orders"))
        moving = node.data.replace(b'"adding_replicas":{}', b'"adding_replicas":{"0":[2]}')
        assert moving != node.data
        await store.set(layout.topic_path("orders"), moving)
        code, sentence = (await results(store, AddPartitions("orders", {1: ONE_TWO})))["orders"]
        assert code is ErrorCode.REASSIGNMENT_IN_PROGRESS
        assert sentence == "A partition reassignment is in progress for the topic 'orders'."

    with_store(body)


def test_who_leads_is_told_with_the_epoch() -> None:
    async def body(store: MemorySession) -> None:
        question = effects.ReadControlEpochs(ControllerEpoch(1))
        assert await answer(store, question) == effects.ControlEpochs(ControllerEpoch(0), None)
        await store.multi(
            transactions.become_controller(
                BrokerId(2), ControllerEpoch(1), expected_epoch_version=0, timestamp_ms=0
            )
        )
        assert await answer(store, question) == effects.ControlEpochs(ControllerEpoch(1), BrokerId(2))
        await store.set(layout.CONTROLLER_EPOCH, b"seven")
        assert isinstance(await answer(store, question), effects.StoreFailed)

    with_store(body)


def test_that_an_epoch_is_not_there_is_proved_by_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server of an ensemble may lag behind: the first read misses an election that has happened."""

    async def body(store: MemorySession) -> None:
        read = store.get_many
        paths = (layout.CONTROLLER_EPOCH, layout.CONTROLLER)
        reads = [await read(paths)]
        await store.multi(
            transactions.become_controller(
                BrokerId(2), ControllerEpoch(1), expected_epoch_version=0, timestamp_ms=0
            )
        )

        async def lagging(wanted: Sequence[str], *, watch: bool = False) -> list[api.Node | None]:
            return reads.pop() if reads else await read(wanted, watch=watch)

        monkeypatch.setattr(store, "get_many", lagging)
        question = effects.ReadControlEpochs(ControllerEpoch(1))
        assert await answer(store, question) == effects.ControlEpochs(ControllerEpoch(1), BrokerId(2))

    with_store(body)
