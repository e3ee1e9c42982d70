"""Configuration as clients see and change it, against what Apache 3.9.1 reports (golden/configs.json)."""

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker.config_description import (
    DEFAULT,
    DYNAMIC_BROKER,
    DYNAMIC_DEFAULT_BROKER,
    DYNAMIC_TOPIC,
    STATIC_BROKER,
    BrokerLayers,
    broker_entries,
    topic_entries,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.settings import BrokerSettings
from odradek.protocol.messages import alter_configs as am
from odradek.protocol.messages import describe_configs as dm
from odradek.protocol.messages import incremental_alter_configs as im
from tests.broker.world import Pending, World
from tests.support import GOLDEN

TOPIC, BROKER = 2, 4
SOURCES = {"DEFAULT_CONFIG": DEFAULT, "STATIC_BROKER_CONFIG": STATIC_BROKER}
GOLDEN_CONFIGS: dict[str, list[dict[str, Any]]] = json.loads((GOLDEN / "configs.json").read_text())
GIVEN = {
    row["name"]: row["value"] for row in GOLDEN_CONFIGS["broker"] if row["source"] == "STATIC_BROKER_CONFIG"
}
LAYERS = BrokerLayers(BrokerSettings(GIVEN))


def told(entry: Any) -> dict[str, Any]:
    return {
        "value": entry.value,
        "source": entry.source,
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
        "type": entry.setting.type,
        "synonyms": [(s.name, s.value, s.source) for s in entry.synonyms],
    }


def expected(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "value": row["value"],
        "source": SOURCES[row["source"]],
        "read_only": row["read_only"],
        "sensitive": row["sensitive"],
        "type": row["type"],
        "synonyms": [(s["name"], s["value"], SOURCES[s["source"]]) for s in row["synonyms"]],
    }


ENTRIES = {
    "broker": {entry.setting.name: entry for entry in broker_entries(LAYERS, None)},
    "topic": {entry.setting.name: entry for entry in topic_entries({}, LAYERS, None)},
}


@pytest.mark.parametrize("kind", ["broker", "topic"])
def test_every_setting_is_reported_as_apache_reports_it(kind: str) -> None:
    entries = ENTRIES[kind]
    wrong = {
        row["name"]: (told(entries[row["name"]]), expected(row))
        for row in GOLDEN_CONFIGS[kind]
        if row["name"] not in entries or told(entries[row["name"]]) != expected(row)
    }
    assert not wrong
    assert len(GOLDEN_CONFIGS[kind]) > 30


def test_passwords_are_never_told() -> None:
    layers = BrokerLayers(BrokerSettings({"ssl.key.password": "secret"}), {"ssl.keystore.password": "x"})
    entries = {
        e.setting.name: e for e in broker_entries(layers, {"ssl.key.password": 1, "ssl.keystore.password": 1})
    }
    for name in ("ssl.key.password", "ssl.keystore.password"):
        entry = entries[name]
        assert entry.is_sensitive
        assert entry.value is None
        assert all(s.value is None for s in entry.synonyms)
    assert entries["ssl.key.password"].source == STATIC_BROKER


def test_the_nearest_source_wins_and_all_of_them_are_listed() -> None:
    layers = BrokerLayers(
        BrokerSettings({"min.insync.replicas": "2"}),
        {"min.insync.replicas": "4"},
        {"min.insync.replicas": "3"},
    )
    (entry,) = topic_entries({"min.insync.replicas": "5"}, layers, {"min.insync.replicas": None})
    assert (entry.value, entry.source) == ("5", DYNAMIC_TOPIC)
    assert [(s.value, s.source) for s in entry.synonyms] == [
        ("5", DYNAMIC_TOPIC),
        ("4", DYNAMIC_BROKER),
        ("3", DYNAMIC_DEFAULT_BROKER),
        ("2", STATIC_BROKER),
        ("1", DEFAULT),
    ]


# ---------------------------------------------------------------------------------------------------- requests


class Store:
    """Plays the store for broker 1's questions about configurations."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.nodes: dict[tuple[str, str], tuple[dict[str, str], int]] = {}
        self.interfere: dict[tuple[str, str], dict[str, str]] = {}
        self.written: list[fx.ConfigWrite] = []

    def serve(self) -> None:
        node = self.world[1]
        while True:
            requests = [e for e in node.broker.take_effects() if isinstance(e, fx.StoreRequest)]
            if not requests:
                return
            for request in requests:
                node.broker.store_answered(
                    request.request_id, self._answer(request.question), self.world.now_ms
                )

    def _answer(self, question: Any) -> Any:
        if isinstance(question, fx.ReadConfigs):
            found = {}
            for entity in question.entities:
                overrides, version = self.nodes.get(entity, ({}, -1))
                found[entity] = fx.StoredConfig(dict(overrides), version)
            return fx.ConfigsRead(found)
        outcomes = []
        for write in question.writes:
            entity = (write.kind, write.name)
            if entity in self.interfere:
                _, version = self.nodes.get(entity, ({}, -1))
                self.nodes[entity] = (self.interfere.pop(entity), version + 1)
            _, version = self.nodes.get(entity, ({}, -1))
            if version != write.expected_version:
                outcomes.append("conflict")
                continue
            self.nodes[entity] = (dict(write.overrides), version + 1)
            self.written.append(write)
            outcomes.append("stored")
        return fx.ConfigsWritten(tuple(outcomes))


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    return world


@pytest.fixture
def store(world: World) -> Store:
    return Store(world)


def describe(
    world: World, store: Store, *resources: tuple[int, str, list[str] | None], version: int = 4
) -> Any:
    request = dm.DescribeConfigsRequest(
        resources=[
            dm.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name, keys in resources
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    pending = world.send(1, request, version)
    store.serve()
    return pending.message.results


@pytest.mark.parametrize("version", range(1, 5))
def test_describe_configs_lists_every_key_with_its_words(world: World, store: Store, version: int) -> None:
    store.nodes["topics", "t"] = ({"retention.ms": "77"}, 0)
    topic, broker = describe(world, store, (TOPIC, "t", None), (BROKER, "1", None), version=version)
    rows = {row.name: row for row in topic.configs}
    assert len(rows) == len(ENTRIES["topic"])
    assert (rows["retention.ms"].value, rows["retention.ms"].config_source) == ("77", DYNAMIC_TOPIC)
    assert len(broker.configs) == len(ENTRIES["broker"])
    if version >= 3:
        assert rows["retention.ms"].config_type == 5
        assert rows["retention.ms"].documentation


def test_only_the_keys_asked_for_are_told(world: World, store: Store) -> None:
    (result,) = describe(world, store, (TOPIC, "t", ["segment.bytes", "no.such.key"]))
    assert [row.name for row in result.configs] == ["segment.bytes"]


def test_the_resource_without_a_name_is_the_default_of_all_brokers(world: World, store: Store) -> None:
    store.nodes["brokers", "<default>"] = ({"log.cleaner.threads": "3"}, 0)
    everybody, one = describe(world, store, (BROKER, "", None), (BROKER, "1", ["log.cleaner.threads"]))
    assert [(r.name, r.value, r.config_source) for r in everybody.configs] == [
        ("log.cleaner.threads", "3", 3)
    ]
    assert [(r.value, r.config_source) for r in one.configs] == [("3", DYNAMIC_DEFAULT_BROKER)]


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        ((TOPIC, "none", None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC, "a b", None), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((BROKER, "2", None), ErrorCode.INVALID_REQUEST),
        ((77, "x", None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_that_cannot_be_described(
    world: World, store: Store, resource: tuple[int, str, None], error: ErrorCode
) -> None:
    refused, fine = describe(world, store, resource, (TOPIC, "t", ["segment.bytes"]))
    assert refused.error_code == error
    assert (fine.error_code, len(fine.configs)) == (0, 1)


def test_a_store_that_cannot_be_asked_is_an_answer(world: World) -> None:
    request = dm.DescribeConfigsRequest(
        resources=[dm.DescribeConfigsResource(resource_type=TOPIC, resource_name="t")]
    )
    pending = world.send(1, request, 4)
    (effect,) = [e for e in world[1].broker.take_effects() if isinstance(e, fx.StoreRequest)]
    world[1].broker.store_answered(effect.request_id, fx.StoreFailed("session lost"), world.now_ms)
    (result,) = pending.message.results
    assert (result.error_code, result.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, "session lost")


def alter(
    world: World,
    store: Store,
    configs: dict[str, str | None],
    *,
    kind: int = TOPIC,
    name: str = "t",
    **options: Any,
) -> tuple[ErrorCode, str | None]:
    rows = [am.AlterableConfig(name=key, value=value) for key, value in configs.items()]
    request = am.AlterConfigsRequest(
        resources=[am.AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)], **options
    )
    return _outcome(world, store, world.send(1, request, 2))


def change(
    world: World,
    store: Store,
    *operations: tuple[str, int, str | None],
    kind: int = TOPIC,
    name: str = "t",
    **options: Any,
) -> tuple[ErrorCode, str | None]:
    rows = [im.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in operations]
    request = im.IncrementalAlterConfigsRequest(
        resources=[im.AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)], **options
    )
    return _outcome(world, store, world.send(1, request, 1))


def _outcome(world: World, store: Store, pending: Pending) -> tuple[ErrorCode, str | None]:
    store.serve()
    (row,) = pending.message.responses
    return ErrorCode(row.error_code), row.error_message


SET, DELETE, APPEND, SUBTRACT = range(4)


def test_alter_configs_replaces_everything(world: World, store: Store) -> None:
    store.nodes["topics", "t"] = ({"retention.ms": "1", "segment.bytes": "2000"}, 4)
    assert alter(world, store, {"retention.ms": "5"}) == (ErrorCode.NONE, None)
    assert store.written == [fx.ConfigWrite("topics", "t", {"retention.ms": "5"}, 4)]


def test_incremental_changes_leave_the_rest_alone(world: World, store: Store) -> None:
    store.nodes["topics", "t"] = ({"retention.ms": "1", "segment.bytes": "2000"}, 4)
    assert change(world, store, ("retention.ms", SET, "5"), ("segment.bytes", DELETE, None))[0] == 0
    assert store.nodes["topics", "t"] == ({"retention.ms": "5"}, 5)
    assert change(world, store, ("cleanup.policy", APPEND, "compact"))[0] == 0
    assert store.nodes["topics", "t"][0]["cleanup.policy"] == "delete,compact", (
        "from the value it had by default"
    )
    assert change(world, store, ("cleanup.policy", SUBTRACT, "delete"))[0] == 0
    assert store.nodes["topics", "t"][0]["cleanup.policy"] == "compact"


def test_the_first_change_makes_the_node(world: World, store: Store) -> None:
    assert change(world, store, ("retention.ms", SET, "5"))[0] == 0
    assert store.written == [fx.ConfigWrite("topics", "t", {"retention.ms": "5"}, -1)]


def test_a_change_by_somebody_else_in_between_is_kept(world: World, store: Store) -> None:
    store.nodes["topics", "t"] = ({}, 0)
    store.interfere["topics", "t"] = {"segment.bytes": "9000"}
    assert change(world, store, ("retention.ms", SET, "5"))[0] == 0
    assert store.nodes["topics", "t"] == ({"segment.bytes": "9000", "retention.ms": "5"}, 2)


def test_validate_only_writes_nothing(world: World, store: Store) -> None:
    assert change(world, store, ("retention.ms", SET, "5"), validate_only=True)[0] == 0
    assert alter(world, store, {"retention.ms": "5"}, validate_only=True)[0] == 0
    assert store.written == []


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (("retention.mss", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("min.insync.replicas", SET, "0"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_a_sentence(
    world: World, store: Store, operation: tuple[str, int, str | None], error: ErrorCode
) -> None:
    code, message = change(world, store, operation)
    assert code == error
    assert message
    assert store.written == []


def test_broker_settings_change_only_where_they_are_dynamic(world: World, store: Store) -> None:
    code, message = change(world, store, ("broker.rack", SET, "x"), kind=BROKER, name="1")
    assert code == ErrorCode.INVALID_REQUEST
    assert message is not None
    assert "broker.rack" in message
    assert change(world, store, ("log.cleaner.threads", SET, "2"), kind=BROKER, name="")[0] == 0
    assert store.written == [fx.ConfigWrite("brokers", "<default>", {"log.cleaner.threads": "2"}, -1)]


def test_the_same_key_or_resource_twice_is_refused(world: World, store: Store) -> None:
    assert (
        change(world, store, ("retention.ms", SET, "5"), ("retention.ms", DELETE, None))[0]
        == ErrorCode.INVALID_REQUEST
    )
    row = am.AlterConfigsResource(resource_type=TOPIC, resource_name="t")
    pending = world.send(1, am.AlterConfigsRequest(resources=[row, row]), 2)
    assert [r.error_code for r in pending.message.responses] == [ErrorCode.INVALID_REQUEST]


def test_a_change_reaches_the_partitions_at_once(world: World) -> None:
    world[1].broker.topic_config_changed(
        "t", {"max.message.bytes": "100", "min.insync.replicas": "1"}, world.now_ms
    )
    assert world.produced(world.produce(1, b"x" * 200))[0] == ErrorCode.MESSAGE_TOO_LARGE
    assert world[1].logs.config_of("t").max_message_bytes == 100
    world[1].broker.topic_config_changed("t", {}, world.now_ms)
    assert world.produced(world.produce(1, b"x" * 200))[0] == ErrorCode.NONE


def test_an_override_nobody_knows_is_not_applied_and_said_so(world: World) -> None:
    world[1].broker.topic_config_changed("t", {"max.message.bytes": "100"}, world.now_ms)
    world[1].broker.topic_config_changed("t", {"from.the.future": "1"}, world.now_ms)
    world.settle()
    assert world[1].logs.config_of("t").max_message_bytes == 100
    assert any("not applied" in e.text for e in world[1].told if isinstance(e, fx.LogLine))


def test_broker_settings_reach_topics_without_overrides(world: World) -> None:
    settings = world[1].settings.with_changes({"message.max.bytes": "100"})
    world[1].broker.broker_settings_changed(settings, world.now_ms)
    assert world.produced(world.produce(1, b"x" * 200))[0] == ErrorCode.MESSAGE_TOO_LARGE
