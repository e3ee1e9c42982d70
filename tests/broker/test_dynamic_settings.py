"""What was set for brokers and topics while they run: where it comes from, and that it acts at once."""

from pathlib import Path

import pytest

from odradek.broker import effects as fx
from odradek.broker.config_description import DEFAULT, DYNAMIC_BROKER, DYNAMIC_DEFAULT_BROKER, STATIC_BROKER
from odradek.broker.dynamic_settings import DynamicSettings
from odradek.model.error_codes import ErrorCode
from odradek.model.settings import BrokerSettings
from tests.broker.configs import BROKER, TOPIC, Store, describe
from tests.broker.world import World, told


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, brokers=(1,), log_retention_hours="2")
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    return world


def test_the_nearest_level_counts_and_going_back_uncovers_the_next() -> None:
    dynamic = DynamicSettings(BrokerSettings({"broker.id": "1", "min.insync.replicas": "2"}))
    steps: list[tuple[str, dict[str, str], int]] = [
        ("<default>", {"min.insync.replicas": "3"}, 3),
        ("1", {"min.insync.replicas": "4"}, 4),
        ("<default>", {}, 4),
        ("1", {}, 2),
    ]
    for level, config, expected in steps:
        assert dynamic.change(level, config) == []
        assert dynamic.current.min_insync_replicas == expected
    assert dynamic.static.min_insync_replicas == 2


@pytest.mark.parametrize(
    ("level", "name", "text", "why"),
    [
        ("1", "log.retention.mss", "5", "did you mean log.retention.ms?"),
        ("1", "log.retention.ms", "soon", "must be a whole number"),
        ("1", "broker.rack", "east", "cannot change while the broker runs"),
        ("1", "listeners", "PLAINTEXT://:1", "opens its listeners once"),
        ("<default>", "advertised.listeners", "PLAINTEXT://x:1", "it is of one broker"),
        ("1", "max.connections.per.ip.overrides", "x", "must be an address and a count"),
        ("1", "max.connections.per.ip", "0", "refuses every address"),
        ("1", "max.connections", "0", "no client could connect"),
        ("<default>", "max.connection.creation.rate", "0", "no client could connect"),
    ],
)
def test_what_cannot_be_applied_is_left_out_with_a_reason_and_the_rest_acts(
    level: str, name: str, text: str, why: str
) -> None:
    """The nodes can be written by anybody: by hand, by a tool, by a broker that knows other settings."""
    dynamic = DynamicSettings(BrokerSettings({"broker.id": "1"}))
    (problem,) = dynamic.change(level, {name: text, "message.max.bytes": "777"})
    assert name in problem
    assert why in problem
    assert dynamic.current.message_max_bytes == 777
    assert dynamic.change(level, {name: text, "message.max.bytes": "777"}) == [], "said once"


def test_a_bad_value_is_one_line_and_the_others_reach_the_partitions(world: World) -> None:
    config = {"message.max.bytes": "100", "no.such.key": "1"}
    world[1].broker.broker_config_changed("<default>", config, world.now_ms)
    assert world.produced(world.produce(1, b"x" * 200))[0] == ErrorCode.MESSAGE_TOO_LARGE
    (line,) = told(world, fx.LogLine)
    assert line.level == "warning"
    assert "/config/brokers/<default>" in line.text
    assert "no.such.key" in line.text
    world[1].broker.broker_config_changed("<default>", {}, world.now_ms)
    assert world.produced(world.produce(1, b"x" * 200))[0] == ErrorCode.NONE


def test_a_change_of_a_topic_reaches_its_partitions_at_once(world: World) -> None:
    world[1].broker.topic_config_changed(
        "t", {"max.message.bytes": "100", "min.insync.replicas": "1"}, world.now_ms
    )
    assert world.produced(world.produce(1, b"x" * 200))[0] == ErrorCode.MESSAGE_TOO_LARGE
    assert world[1].logs.config_of("t").max_message_bytes == 100
    world[1].broker.topic_config_changed("t", {}, world.now_ms)
    assert world.produced(world.produce(1, b"x" * 200))[0] == ErrorCode.NONE


def test_min_insync_replicas_of_all_brokers_counts_for_the_next_write(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1, 2))
    world.lead(1, isr=(1,), replicas=(1, 2), is_new=True, tell=(1,))
    world[1].broker.broker_config_changed("<default>", {"min.insync.replicas": "2"}, world.now_ms)
    assert world.produced(world.produce(1, b"x"))[0] == ErrorCode.NOT_ENOUGH_REPLICAS
    world[1].broker.topic_config_changed("t", {"min.insync.replicas": "1"}, world.now_ms)
    assert world.produced(world.produce(1, b"x"))[0] == ErrorCode.NONE


LOG_DEFAULTS = {
    "log.retention.ms": ("5", "retention_ms", 5),
    "log.retention.bytes": ("6", "retention_bytes", 6),
    "log.segment.bytes": ("700", "segment_bytes", 700),
    "log.roll.ms": ("800", "segment_ms", 800),
    "log.roll.jitter.ms": ("9", "segment_jitter_ms", 9),
    "log.index.interval.bytes": ("10", "index_interval_bytes", 10),
    "log.index.size.max.bytes": ("1100", "segment_index_bytes", 1100),
    "log.segment.delete.delay.ms": ("12", "file_delete_delay_ms", 12),
    "log.flush.interval.messages": ("13", "flush_messages", 13),
    "log.flush.interval.ms": ("14", "flush_ms", 14),
    "log.cleanup.policy": ("compact", "cleanup_policy", ("compact",)),
    "log.message.timestamp.type": ("LogAppendTime", "log_append_time", True),
    "log.message.timestamp.before.max.ms": ("15", "timestamp_before_max_ms", 15),
    "log.message.timestamp.after.max.ms": ("16", "timestamp_after_max_ms", 16),
    "message.max.bytes": ("17", "max_message_bytes", 17),
    "compression.type": ("gzip", "compression_type", 1),
    "producer.id.expiration.ms": ("18", "producer_id_expiration_ms", 18),
    "odradek.log.record.validation": ("full", "full_validation", True),
}


@pytest.mark.parametrize("name", LOG_DEFAULTS)
def test_a_default_of_the_logs_acts_on_those_that_are_open(world: World, name: str) -> None:
    text, attribute, expected = LOG_DEFAULTS[name]
    log = world[1].partition().log
    before = getattr(log.config, attribute)
    assert before != expected
    world[1].broker.broker_config_changed("1", {name: text}, world.now_ms)
    assert getattr(log.config, attribute) == expected
    world[1].broker.broker_config_changed("1", {}, world.now_ms)
    assert getattr(log.config, attribute) == before


def test_an_override_nobody_knows_is_left_out_and_said_so(world: World) -> None:
    overrides = {"from.the.future": "1", "max.message.bytes": "100", "segment.bytes": "x"}
    world[1].broker.topic_config_changed("t", overrides, world.now_ms)
    assert world[1].logs.config_of("t").max_message_bytes == 100
    lines = [line.text for line in told(world, fx.LogLine)]
    assert len(lines) == 2
    assert all("/config/topics/t" in line for line in lines)


def test_of_a_topic_whose_configuration_cannot_be_read_nothing_is_acknowledged_too_early(
    tmp_path: Path,
) -> None:
    """It may have asked for more members of the ISR, or for a flush of each record, than the broker's settings do."""
    world = World(tmp_path, brokers=(1, 2, 3))
    world.unreadable_configs["topics", "t"] = "/config/topics/t: not JSON"
    world.lead(1, isr=(1, 2), replicas=(1, 2, 3), is_new=True)
    partition = world[1].partition()
    assert partition.effective_min_isr == 3
    assert partition.flushes_before_ack
    world[1].broker.topic_config_changed("t", {}, world.now_ms)
    assert partition.effective_min_isr == 1
    assert not partition.flushes_before_ack


def test_of_a_topic_whose_configuration_cannot_be_read_nothing_is_deleted(tmp_path: Path) -> None:
    """It may have said so; the broker's own retention could delete what its owner kept for ever."""
    world = World(tmp_path, brokers=(1,), log_retention_ms="1000", log_cleanup_policy="compact")
    world.unreadable_configs["topics", "t"] = "/config/topics/t: not JSON"
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    config = world[1].logs.config_of("t")
    assert (config.retention_ms, config.retention_bytes, config.cleanup_policy) == (-1, -1, ("delete",))
    (line,) = told(world, fx.LogLine)
    assert line.text == (
        "nothing of t is set, so nothing of it is deleted or compacted, and acks=all waits for all replicas: /config/topics/t: not JSON"
    )
    world[1].broker.topic_config_changed("t", {}, world.now_ms)
    assert world[1].logs.config_of("t").retention_ms == 1000


def test_where_a_value_comes_from_is_told_of_every_level(world: World) -> None:
    """A value set while the broker runs is not one of its file, in no description."""
    store = Store(world)
    store.nodes["brokers", "<default>"] = ({"log.retention.ms": "20"}, 0)
    store.nodes["brokers", "1"] = ({"log.retention.ms": "30"}, 0)
    for (_, name), (config, _) in store.nodes.items():
        world[1].broker.broker_config_changed(name, config, world.now_ms)
    keys = ["log.retention.ms", "log.retention.hours"]
    everybody, one, topic = describe(
        world, store, (BROKER, "", None), (BROKER, "1", keys), (TOPIC, "t", ["retention.ms"])
    )
    assert [(r.name, r.value) for r in everybody.configs] == [("log.retention.ms", "20")]
    rows = {r.name: r for r in one.configs}
    assert rows["log.retention.hours"].config_source == STATIC_BROKER
    expected = [
        ("log.retention.ms", "30", DYNAMIC_BROKER),
        ("log.retention.ms", "20", DYNAMIC_DEFAULT_BROKER),
        ("log.retention.hours", "2", STATIC_BROKER),
        ("log.retention.hours", "168", DEFAULT),
    ]
    assert [(s.name, s.value, s.source) for s in rows["log.retention.ms"].synonyms] == expected
    (row,) = topic.configs
    assert (row.value, row.config_source) == ("30", DYNAMIC_BROKER)
    assert [(s.name, s.value, s.source) for s in row.synonyms] == expected


def test_the_rates_of_replication_are_reported_only_where_they_are_set(world: World) -> None:
    store = Store(world)
    key = "leader.replication.throttled.rate"
    (one,) = describe(world, store, (BROKER, "1", [key]))
    assert one.configs == []
    store.nodes["brokers", "1"] = ({key: "1000"}, 0)
    (one,) = describe(world, store, (BROKER, "1", [key]))
    assert [(r.name, r.value, r.config_source) for r in one.configs] == [(key, "1000", DYNAMIC_BROKER)]
    world[1].broker.broker_config_changed("1", {key: "1000"}, world.now_ms)
    assert world[1].broker.settings.leader_replication_throttled_rate == 1000
