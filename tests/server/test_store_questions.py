"""What the broker asks of the store, answered from one in memory."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from odradek.broker import effects
from odradek.broker.effects import (
    AddPartitions,
    CreateTopics,
    DeleteTopics,
    NewTopic,
    ReadConfigs,
    WriteConfigs,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, TopicId
from odradek.server.registration import prepare_tree
from odradek.server.seams import Seams
from odradek.server.store_questions import answer
from odradek.store import layout
from odradek.store.memory_session import MemoryEnsemble, MemorySession

T = TypeVar("T")
TOPIC_ID = TopicId(bytes(range(16)))
ONE_TWO = (BrokerId(1), BrokerId(2))
ORDERS = NewTopic("orders", TOPIC_ID, {0: ONE_TWO}, {"retention.ms": "1000"})


def with_store(body: "Any") -> None:
    async def main() -> None:
        store = MemoryEnsemble().open()
        await prepare_tree(store, Seams(asyncio.get_running_loop()))
        await body(store)

    asyncio.run(main())


async def results(store: MemorySession, question: effects.StoreQuestion) -> dict[str, tuple[ErrorCode, str]]:
    result = await answer(store, question)
    assert isinstance(result, effects.TopicsWritten), result
    return dict(result.results)


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


def test_a_store_out_of_reach_is_an_answer_and_no_exception() -> None:
    async def body(store: MemorySession) -> None:
        store.disconnect()
        result = await answer(store, CreateTopics((ORDERS,)))
        assert isinstance(result, effects.StoreFailed)
        assert "out of touch" in result.reason

    with_store(body)
