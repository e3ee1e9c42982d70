"""Configuration as clients see and change it, against what Apache 3.9.1 reports (tests/golden/configs.json)."""

import json
from typing import Any

import pytest

from odradek.broker.config_description import (
    DEFAULT,
    DYNAMIC_BROKER,
    DYNAMIC_DEFAULT_BROKER,
    DYNAMIC_TOPIC,
    STATIC_BROKER,
    BrokerLayers,
    Synonym,
    broker_entries,
    cluster_default_entries,
    topic_entries,
)
from odradek.model.settings import BrokerSettings
from tests.support import GOLDEN

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


# Setting of a topic, what was written, and what Apache 3.9.1 tells of it.
WRITTEN = [
    ("retention.ms", " 78 ", "78"),
    ("retention.ms", "+5", "5"),
    ("cleanup.policy", " delete ,compact", "delete,compact"),
    ("preallocate", "TRUE", "true"),
    ("min.cleanable.dirty.ratio", "1", "1.0"),
    ("min.cleanable.dirty.ratio", ".5", "0.5"),
    ("min.cleanable.dirty.ratio", "1e-1", "0.1"),
    ("min.cleanable.dirty.ratio", "0.00001", "1.0E-5"),
    ("min.cleanable.dirty.ratio", "0", "0.0"),
    ("leader.replication.throttled.replicas", " 0:1", "0:1"),
    ("compression.type", "gzip", "gzip"),
]


@pytest.mark.parametrize(("name", "text", "told"), WRITTEN)
def test_a_value_is_told_as_it_was_parsed(name: str, text: str, told: str) -> None:
    (entry,) = topic_entries({name: text}, LAYERS, {name: None})
    assert (entry.value, entry.synonyms[0].value) == (told, told)


def test_a_value_of_brokers_is_told_as_it_was_parsed_and_its_synonyms_as_they_were_written() -> None:
    """As Apache 3.9.1; what is asked for as the value of all brokers is told as it was written."""
    everywhere = {"log.retention.ms": " 780000 ", "log.cleaner.min.cleanable.ratio": "1e-5"}
    layers = LAYERS._replace(dynamic={"log.segment.bytes": "+77777777"}, dynamic_default=everywhere)
    names = dict.fromkeys(("log.retention.ms", "log.segment.bytes", "log.cleaner.min.cleanable.ratio"))
    found = {entry.setting.name: entry for entry in broker_entries(layers, names)}
    assert {name: (entry.value, entry.synonyms[0].value) for name, entry in found.items()} == {
        "log.retention.ms": ("780000", " 780000 "),
        "log.segment.bytes": ("77777777", "+77777777"),
        "log.cleaner.min.cleanable.ratio": ("1.0E-5", "1e-5"),
    }
    (of_topic,) = topic_entries({}, layers, {"segment.bytes": None})
    assert (of_topic.value, of_topic.synonyms[0].value) == ("77777777", "+77777777")
    of_all = cluster_default_entries(everywhere, None)
    assert {entry.setting.name: entry.value for entry in of_all} == everywhere


@pytest.mark.parametrize(("text", "told"), [("1e999", "Infinity"), ("-1e400", "-Infinity")])
def test_a_ratio_beyond_every_number_is_told_as_java_does(text: str, told: str) -> None:
    """It can be set, and after that nobody was told anything of this broker's settings."""
    name = "log.cleaner.io.max.bytes.per.second"
    layers = BrokerLayers(BrokerSettings({}), {name: text})
    (entry,) = broker_entries(layers, {name: None})
    assert entry.value == told


def test_settings_that_stand_in_for_each_other_are_listed_once_the_first_is_set() -> None:
    """As Apache's ConfigCommand prints it: 'DEFAULT_CONFIG:log.retention.hours=168' behind a dynamic log.retention.ms."""
    layers = BrokerLayers(BrokerSettings({"broker.id": "1"}), {}, {"log.retention.ms": "70"})
    (entry,) = broker_entries(layers, {"log.retention.ms": None})
    assert entry.synonyms == (
        Synonym("log.retention.ms", "70", DYNAMIC_DEFAULT_BROKER),
        Synonym("log.retention.hours", "168", DEFAULT),
    )
    (unset,) = broker_entries(BrokerLayers(BrokerSettings({"broker.id": "1"})), {"log.retention.ms": None})
    assert (unset.value, unset.synonyms) == (None, ())


@pytest.mark.parametrize(("given", "other"), [("broker.id", "node.id"), ("node.id", "broker.id")])
def test_both_names_of_the_brokers_number_are_said_to_be_given(given: str, other: str) -> None:
    (entry,) = broker_entries(BrokerLayers(BrokerSettings({given: "7"})), {other: None})
    assert (entry.value, entry.source) == ("7", STATIC_BROKER)
    assert entry.synonyms == (Synonym(other, "7", STATIC_BROKER), Synonym(other, "-1", DEFAULT))
