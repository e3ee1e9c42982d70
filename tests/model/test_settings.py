"""The table of settings against what Apache Kafka 3.9.1 reports, and the values read from it."""

import json

import pytest

from odradek.model import properties
from odradek.model.errors import ConfigurationError, InvalidValue
from odradek.model.settings import (
    BROKER_SETTINGS,
    ONLY_WHEN_SET,
    TABLE,
    TOPIC_SETTINGS,
    BrokerSettings,
    TopicSettings,
    attribute_name,
    broker_synonyms,
    nearest,
    parse_properties,
)
from tests.support import GOLDEN

APACHE = json.loads((GOLDEN / "configs.json").read_text(encoding="utf-8"))
# (scope, name) -> field -> what we say instead of Apache, and why.
DEVIATIONS: dict[tuple[str, str], dict[str, str]] = {
    # Apache prints a sentence of documentation here; a range says the same.
    ("broker", "remote.log.manager.copier.thread.pool.size"): {"valid": "-1, or [1,...]"},
    ("broker", "remote.log.manager.expiration.thread.pool.size"): {"valid": "-1, or [1,...]"},
}


@pytest.mark.parametrize("scope", ["broker", "topic"])
def test_every_setting_of_apache_is_there_with_its_type_and_default(scope):
    ours = BROKER_SETTINGS if scope == "broker" else TOPIC_SETTINGS
    for apache in APACHE[scope]:
        setting = ours[apache["name"]]
        found = {
            "type": setting.type,
            "default": setting.default,
            "importance": setting.importance,
            "dynamic": setting.dynamic,
            "sensitive": setting.is_sensitive,
            "valid": setting.valid,
        }
        expected = {field: apache[field] for field in found} | DEVIATIONS.get((scope, apache["name"]), {})
        assert found == expected, apache["name"]
        if scope == "topic":
            assert ",".join(setting.broker_synonyms) == apache["broker_synonyms"], apache["name"]


@pytest.mark.parametrize("scope", ["broker", "topic"])
def test_what_apache_does_not_have_begins_with_our_name(scope):
    ours = BROKER_SETTINGS if scope == "broker" else TOPIC_SETTINGS
    known = {apache["name"] for apache in APACHE[scope]} | ONLY_WHEN_SET
    assert all(name.startswith("odradek.") for name in ours if name not in known)


def test_every_setting_has_words_and_an_attribute_of_its_own():
    for settings in (BROKER_SETTINGS, TOPIC_SETTINGS):
        assert all(len(setting.doc) > 15 and setting.doc.endswith(".") for setting in settings.values())
        assert len({setting.attribute for setting in settings.values()}) == len(settings)


def test_the_table_names_the_scope_of_each():
    scopes = {row.setting.name: row.scope for row in TABLE}
    assert scopes["min.insync.replicas"] == "both"
    assert scopes["retention.ms"] == "topic"
    assert scopes["replica.lag.time.max.ms"] == "broker"
    assert len(scopes) == len(TABLE) == len(BROKER_SETTINGS.keys() | TOPIC_SETTINGS.keys())


def test_values_are_typed_attributes_in_snake_case():
    settings = BrokerSettings.from_properties(
        {
            "broker.id": "3",
            "auto.create.topics.enable": "FALSE",
            "log.cleanup.policy": "compact, delete",
            "log.cleaner.io.buffer.load.factor": "0.25",
        }
    )
    assert settings.broker_id == settings.node_id == 3
    assert settings.auto_create_topics_enable is False
    assert settings.log_cleanup_policy == ("compact", "delete")
    assert settings.log_cleaner_io_buffer_load_factor == 0.25
    assert settings.replica_lag_time_max_ms == 30_000
    assert settings.broker_rack is None
    assert attribute_name("zookeeper.clientCnxnSocket") == "zookeeper_client_cnxn_socket"


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({"replica.lag.time.ms": "1"}, "did you mean replica.lag.time.max.ms?"),
        ({"min.insync.replica": "1"}, "did you mean min.insync.replicas?"),
        ({"qqqqqqqqqqqqq": "1"}, "docs/reference/settings.md"),
        ({"num.partitions": "many"}, "num.partitions=many: must be a whole number (default: 1)"),
        # What Python reads as numbers and Java does not: it would stop an Apache broker that shares the store.
        *(
            ({"num.partitions": text}, "must be a whole number")
            for text in ("1_000", "\u0663", "0x1f", "9" * 5000)
        ),
        *(
            ({"log.cleaner.min.cleanable.ratio": text}, "must be a number")
            for text in ("nan", "inf", "0_0.5")
        ),
        ({"log.cleanup.policy": "compact,"}, "must be made of compact, delete"),
        ({"max.connections.per.ip.overrides": "10.0.0.1:\u00b2"}, "must be an address and a count"),
        ({"max.connections.per.ip.overrides": "client.example:5"}, "names are not looked up"),
        ({"num.partitions": "0"}, "num.partitions=0: must be 1 or more"),
        ({"num.partitions": "2147483648"}, "must lie between -2147483648 and 2147483647"),
        ({"log.cleaner.min.cleanable.ratio": "1.5"}, "must be 0 to 1"),
        ({"auto.create.topics.enable": "yes"}, "must be true or false"),
        ({"log.cleanup.policy": "compact,shred"}, "must be made of compact, delete"),
        ({"compression.type": "rar"}, "must be uncompressed, zstd, lz4, snappy, gzip, producer"),
        ({"compression.gzip.level": "0"}, "must be -1, or 1 to 9"),
        ({"inter.broker.protocol.version": "5.0"}, "must be a Kafka version"),
        ({"odradek.log.record.validation": "none"}, "must be full, header"),
        ({"broker.id": "1", "node.id": "2"}, "name two brokers"),
        ({"replica.fetch.wait.max.ms": "31000"}, "longer than replica.lag.time.max.ms=30000"),
        ({"replica.socket.timeout.ms": "499"}, "shorter than replica.fetch.wait.max.ms=500"),
        ({"log.dirs": " , "}, "log.dirs is empty"),
        ({"log.dirs": ""}, "log.dirs is empty"),
        ({"log.retention.ms": "0"}, "log.retention.ms=0: must be 1 or more, or -1, which keeps all"),
        ({"log.retention.hours": "0"}, "log.retention.hours=0: must be 1 or more, or -1, which keeps all"),
        ({"log.roll.ms": "0"}, "log.roll.ms=0: must be 1 or more"),
        ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms=-1: must be 0 or more"),
        ({"log.flush.interval.ms": "-1"}, "log.flush.interval.ms=-1: must be 0 or more"),
    ],
)
def test_a_wrong_configuration_is_refused_with_what_would_have_worked(properties, sentence):
    with pytest.raises(ConfigurationError) as refused:
        BrokerSettings.from_properties(properties)
    assert sentence in str(refused.value)


def test_a_version_is_known_by_its_short_name():
    assert BrokerSettings({"inter.broker.protocol.version": "3.9"}).inter_broker_protocol_version == "3.9"


def test_settings_do_not_change_and_a_change_makes_new_ones():
    settings = BrokerSettings({"broker.id": "1", "min.insync.replicas": "2"})
    with pytest.raises(AttributeError, match="do not change"):
        settings.min_insync_replicas = 1
    with pytest.raises(AttributeError):
        del settings.min_insync_replicas
    changed = settings.with_changes({"min.insync.replicas": None, "message.max.bytes": "9"})
    assert (changed.broker_id, changed.min_insync_replicas, changed.message_max_bytes) == (1, 1, 9)
    assert settings.min_insync_replicas == 2
    assert changed != settings
    assert settings == BrokerSettings({"broker.id": "1", "min.insync.replicas": "2"})


def test_a_misspelt_attribute_is_a_mistake_of_ours_and_names_the_nearest():
    with pytest.raises(AttributeError, match="did you mean replica_lag_time_max_ms"):
        BrokerSettings().replica_lag_time_ms  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean retention_ms"):
        TopicSettings(BrokerSettings()).retention_msec  # noqa: B018
    for settings in (BrokerSettings(), TopicSettings(BrokerSettings())):
        with pytest.raises(AttributeError, match=r"^__of_a_protocol__$"):
            settings.__of_a_protocol__  # noqa: B018


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({}, 168 * 3_600_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finest_unit_that_is_set_wins(properties, retention_ms):
    settings = BrokerSettings(properties)
    assert settings.log_retention_ms == retention_ms
    assert TopicSettings(settings).retention_ms == retention_ms


def test_a_topic_has_its_overrides_over_the_brokers_values():
    broker = BrokerSettings({"min.insync.replicas": "2", "log.segment.bytes": "1000", "log.roll.hours": "2"})
    topic = TopicSettings(broker, {"min.insync.replicas": "3", "cleanup.policy": "compact"})
    assert topic.min_insync_replicas == 3
    assert topic.segment_bytes == 1000
    assert topic.segment_ms == 7_200_000
    assert topic.cleanup_policy == ("compact",)
    assert topic.overrides == {"min.insync.replicas": "3", "cleanup.policy": "compact"}
    assert TopicSettings(broker).min_insync_replicas == 2


def test_topic_defaults_are_apaches_when_the_broker_has_nothing_set():
    topic = TopicSettings(BrokerSettings())
    for apache in APACHE["topic"]:
        setting = TOPIC_SETTINGS[apache["name"]]
        value = getattr(topic, setting.attribute)
        shown = ",".join(value) if isinstance(value, tuple) else str(value)
        if setting.type == "BOOLEAN":
            shown = shown.lower()
        assert shown == apache["default"], setting.name


def test_the_older_timestamp_limit_counts_where_the_newer_ones_are_unset():
    topic = TopicSettings(
        BrokerSettings(),
        {"message.timestamp.difference.max.ms": "10", "message.timestamp.after.max.ms": "5"},
    )
    assert topic.message_timestamp_before_max_ms == 10
    assert topic.message_timestamp_after_max_ms == 5


def test_an_unknown_topic_setting_gets_a_suggestion():
    with pytest.raises(
        ConfigurationError, match=r"retention\.m: no such topic setting; did you mean retention\.ms\?"
    ):
        TopicSettings(BrokerSettings(), {"retention.m": "1"})


@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        ("*", True),
        ("0:1,12:3", True),
        ("0:1,x:3", False),
        ("01", False),
        ("0:", False),
        ("\u00b2:1", False),
        ("0:1,", False),
        ("*,0:1", False),
    ],
)
def test_throttled_replicas_are_pairs_or_a_star(value, accepted):
    overrides = {"leader.replication.throttled.replicas": value}
    if accepted:
        assert TopicSettings(BrokerSettings(), overrides).leader_replication_throttled_replicas
    else:
        with pytest.raises(ConfigurationError, match="pairs such as"):
            TopicSettings(BrokerSettings(), overrides)


def test_a_password_is_not_shown():
    settings = BrokerSettings({"ssl.key.password": "geheim"})
    assert settings.ssl_key_password == "geheim"
    assert "geheim" not in repr(settings)
    assert "geheim" not in repr(settings.ssl_key_password)


@pytest.mark.parametrize("text", ["\u00a05", "5\u2003", "\u30005"])
def test_a_number_between_blanks_that_java_does_not_take_for_blanks_is_none(text):
    """Java's `trim` knows the characters up to the space. Python's `strip` knows more, and no Apache broker could read the node."""
    with pytest.raises(InvalidValue, match="must be a whole number"):
        TopicSettings(BrokerSettings({}), {"retention.ms": text})


def test_blanks_around_a_value_are_left_out_as_java_leaves_them_out():
    settings = BrokerSettings(
        {
            "log.retention.ms": "\x00 5\x1f\t",
            "log.cleanup.policy": " compact\t, delete ",
            "zookeeper.ssl.keystore.password": " not known ",
        }
    )
    assert settings.log_retention_ms == 5
    assert settings.log_cleanup_policy == ("compact", "delete")
    assert settings.zookeeper_ssl_keystore_password == "not known"


def test_where_the_metadata_lies():
    assert BrokerSettings({"log.dirs": "/a,/b"}).store_file == "/a/odradek-store.sqlite"
    assert BrokerSettings({"log.dirs": "/a", "odradek.store": "/s/store"}).store_file == "/s/store"
    assert BrokerSettings({"log.dirs": "/a", "zookeeper.connect": "h:2181"}).store_file is None


def test_log_directories_come_from_either_name():
    assert BrokerSettings({"log.dirs": "/a, /b"}).log_directories == ("/a", "/b")
    assert BrokerSettings({"log.dir": "/c"}).log_directories == ("/c",)


def test_synonyms_are_listed_in_order_of_precedence():
    assert broker_synonyms("log.retention.hours") == (
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    )
    assert broker_synonyms("message.max.bytes") == ("message.max.bytes",)
    assert nearest("lisseners", BROKER_SETTINGS) == "listeners"


def test_a_java_properties_file_is_read_as_java_reads_it():
    text = "\n".join(
        [
            "# a comment",
            "  ! another",
            "",
            "broker.id=1",
            "  listeners : PLAINTEXT://127.0.0.1:9092",
            "log.dirs /a,\\",
            "    /b",
            "path=C:\\\\logs\\\\",
            "tab=a\\tb",
            "unicode=\\u00e9t\\u00e9",
            "beyond=\\ud83d\\ude00",
            "empty=",
            "key\\ with\\=signs = value # not a comment",
            "broker.id=2",
        ]
    )
    assert parse_properties(text) == {
        "broker.id": "2",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "log.dirs": "/a,/b",
        "path": "C:\\logs\\",
        "tab": "a\tb",
        "unicode": "été",
        "beyond": "\U0001f600",
        "empty": "",
        "key with=signs": "value # not a comment",
    }


def test_a_line_of_properties_ends_where_it_does_for_java():
    within = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g"
    assert parse_properties(f"# {within}\npath={within}\r\nb=1\rc=2\n") == {
        "path": within,
        "b": "1",
        "c": "2",
    }


def test_a_value_that_is_continued_over_many_lines_costs_what_it_is_long(monkeypatch):
    looked_at = 0
    ends = properties._ends_with_odd_backslashes

    def counted(line):
        nonlocal looked_at
        looked_at += len(line)
        return ends(line)

    monkeypatch.setattr(properties, "_ends_with_odd_backslashes", counted)
    text = "hosts=\\\n" + "  abc,\\\n" * 1_000 + "\\\\\\\n" + "\\\\\n"
    assert parse_properties(text) == {"hosts": "abc," * 1_000 + "\\\\"}
    # Looked at again with each line, half a million characters.
    assert looked_at <= len(text)


def test_a_broken_escape_is_refused():
    with pytest.raises(ConfigurationError, match="four hexadecimal digits"):
        parse_properties("a=\\u12")
    with pytest.raises(ConfigurationError, match="half of a character"):
        parse_properties("a=\\ude00\\ud83d")


def test_the_two_selectors_of_replicas_are_known_and_no_other_class_is_loaded():
    rack_aware = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    leader = "org.apache.kafka.common.replica.LeaderSelector"
    assert not BrokerSettings({}).selects_replicas_by_rack
    assert not BrokerSettings({"replica.selector.class": leader}).selects_replicas_by_rack
    assert BrokerSettings({"replica.selector.class": rack_aware}).selects_replicas_by_rack
    for other in ("com.example.Nearest", "RackAwareReplicaSelector", ""):
        with pytest.raises(ConfigurationError, match=rf"replica\.selector\.class={other}:.*{leader} and "):
            BrokerSettings({"replica.selector.class": other})


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("compression.gzip.level", "0", "0 {}: Value must be between 1 and 9 or equal to -1"),
        ("compression.gzip.level", "10", "10 {}: Value must be between 1 and 9 or equal to -1"),
        ("cleanup.policy", "delete,", " {}: String must be one of: compact, delete"),
        ("cleanup.policy", "delete,x", "x {}: String must be one of: compact, delete"),
        ("message.format.version", "9.9", "9.9 {}: Version 9.9 is not a valid version"),
    ],
)
def test_a_bad_value_of_a_topic_is_refused_in_apaches_words(name: str, text: str, words: str) -> None:
    """As Apache 3.9.1 answered them."""
    with pytest.raises(InvalidValue) as refusal:
        TopicSettings(BrokerSettings(), {name: text})
    assert refusal.value.kafka_message == "Invalid value " + words.format(f"for configuration {name}")
