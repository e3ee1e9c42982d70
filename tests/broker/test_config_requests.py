"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: what is read, checked, written and refused."""

from pathlib import Path
from time import process_time
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker.config_changes import ATTEMPTS
from odradek.broker.config_description import (
    DYNAMIC_DEFAULT_BROKER,
    DYNAMIC_TOPIC,
)
from odradek.broker.handlers import describe_configs as describing
from odradek.model.error_codes import ErrorCode
from odradek.model.settings import BROKER_SETTINGS, ONLY_WHEN_SET, TOPIC_SETTINGS
from odradek.protocol.messages import alter_configs as am
from odradek.protocol.messages import describe_configs as dm
from odradek.protocol.messages import incremental_alter_configs as im
from tests.broker.configs import APPEND, BROKER, DELETE, SET, SUBTRACT, TOPIC, Store, alter, change, describe
from tests.broker.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    return world


@pytest.fixture
def store(world: World) -> Store:
    return Store(world)


@pytest.mark.parametrize("version", range(1, 5))
def test_describe_configs_lists_every_key_with_its_words(world: World, store: Store, version: int) -> None:
    store.nodes["topics", "t"] = ({"retention.ms": "77"}, 0)
    topic, broker = describe(world, store, (TOPIC, "t", None), (BROKER, "1", None), version=version)
    rows = {row.name: row for row in topic.configs}
    assert len(rows) == len(TOPIC_SETTINGS)
    assert (rows["retention.ms"].value, rows["retention.ms"].config_source) == ("77", DYNAMIC_TOPIC)
    assert {row.name for row in broker.configs} == set(BROKER_SETTINGS) - ONLY_WHEN_SET
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
    assert refused.error_message is not None  # null makes clients print a sentence of their own
    assert (fine.error_code, len(fine.configs)) == (0, 1)


@pytest.mark.parametrize("name", ["none", "a b", "x" * 250])
def test_a_topic_that_cannot_be_is_altered_as_one_that_is_not_there(
    world: World, store: Store, name: str
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
    assert alter(world, store, {"retention.ms": "5"}, name=name) == unknown
    assert change(world, store, ("retention.ms", SET, "5"), name=name) == unknown


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


def test_a_list_of_a_broker_grows_from_what_counts_now(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,), log_cleanup_policy="compact")
    store = Store(world)
    assert change(world, store, ("log.cleanup.policy", APPEND, "delete"), kind=BROKER, name="1")[0] == 0
    assert store.nodes["brokers", "1"][0] == {"log.cleanup.policy": "compact,delete"}


def test_the_first_change_makes_the_node(world: World, store: Store) -> None:
    assert change(world, store, ("retention.ms", SET, "5"))[0] == 0
    assert store.written == [fx.ConfigWrite("topics", "t", {"retention.ms": "5"}, -1)]


def test_a_change_by_somebody_else_in_between_is_kept(world: World, store: Store) -> None:
    store.nodes["topics", "t"] = ({}, 0)
    store.interfere["topics", "t"] = {"segment.bytes": "9000"}
    assert change(world, store, ("retention.ms", SET, "5"))[0] == 0
    assert store.nodes["topics", "t"] == ({"segment.bytes": "9000", "retention.ms": "5"}, 2)


def test_whom_others_overtake_each_time_gives_up_in_a_sentence(
    world: World, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that change one topic without end would keep each other, and the store, busy for ever."""
    store.nodes["topics", "t"] = ({}, 0)
    answer, writes = store._answer, []

    def overtaken(question: Any) -> Any:
        if isinstance(question, fx.WriteConfigs):
            writes.append(question)
            assert len(writes) <= ATTEMPTS, "it does not give up"
            store.interfere["topics", "t"] = {"segment.bytes": str(9_000 + len(writes))}
        return answer(question)

    monkeypatch.setattr(store, "_answer", overtaken)
    error, message = change(world, store, ("retention.ms", SET, "5"))
    assert error == ErrorCode.UNKNOWN_SERVER_ERROR and "try again" in (message or "")
    assert len(writes) == ATTEMPTS and store.written == []


def test_what_stands_there_already_is_not_written_again(world: World, store: Store) -> None:
    store.nodes["topics", "t"] = ({"retention.ms": "5"}, 3)
    assert alter(world, store, {"retention.ms": "5"}) == (ErrorCode.NONE, None)
    assert change(world, store, ("retention.ms", SET, "5")) == (ErrorCode.NONE, None)
    assert store.written == []


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("", ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'none' does not exist."),
    ],
)
def test_topics_whose_configuration_cannot_be_changed(
    world: World, store: Store, name: str, error: ErrorCode, message: str
) -> None:
    assert alter(world, store, {"retention.ms": "5"}, name=name) == (error, message)
    assert change(world, store, ("retention.ms", SET, "5"), name=name) == (error, message)
    assert store.written == []


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


@pytest.mark.parametrize(
    ("name", "operation", "sentence"),
    [
        ("1", ("broker.rack", SET, "x"), "Cannot update these configs dynamically: Set(broker.rack)"),
        ("", ("listeners", SET, "PLAINTEXT://:1"), "at default cluster level, broker id must be specified"),
        ("1", ("ssl.key.password", SET, "secret"), "HashSet(ssl.key.password)"),
        ("1", ("sasl.jaas.config", SET, "secret"), "no secret is kept in the store"),
        ("1", ("listeners", SET, "PLAINTEXT://:1"), "opens its listeners once"),
        (
            "1",
            ("advertised.listeners", SET, "PLAINTEXT://evil\x1b[31m:1"),
            "is no listener; NAME://host:port",
        ),
        ("1", ("advertised.listeners", SET, "PLAINTEXT://a b:1"), "is no listener; NAME://host:port"),
        ("1", ("advertised.listeners", SET, "PLAINTEXT://[x]y:1"), "is no listener; NAME://host:port"),
        ("1", ("advertised.listeners", SET, "PLAINTEXT://0.0.0.0:1"), "no client can connect to 0.0.0.0"),
        ("1", ("advertised.listeners", SET, "OTHER://h:1"), "OTHER is not among listeners (PLAINTEXT)"),
        ("1", ("log.retention.ms", SET, "soon"), "Not a number of type LONG"),
        ("1", ("max.connections.per.ip.overrides", SET, "here"), "must be an address and a count"),
        ("1", ("log.cleaner.thread", SET, "2"), "did you mean log.cleaner.threads?"),
        ("one", ("log.cleaner.threads", SET, "2"), "Node id must be an integer, but it is: one"),
        ("2", ("log.cleaner.threads", SET, "2"), "Unexpected broker id, expected 1, but received 2"),
    ],
)
def test_broker_settings_that_cannot_change_are_refused_in_a_sentence(
    world: World, store: Store, name: str, operation: tuple[str, int, str], sentence: str
) -> None:
    code, message = change(world, store, operation, kind=BROKER, name=name)
    assert code in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG)
    assert message is not None
    assert sentence in message
    assert "secret" not in message or "secret is kept" in message
    assert store.written == []


def test_broker_settings_are_written_for_one_and_for_all(world: World, store: Store) -> None:
    assert change(world, store, ("log.cleaner.threads", SET, "2"), kind=BROKER, name="")[0] == 0
    assert change(world, store, ("num.io.threads", SET, "16"), kind=BROKER, name="1")[0] == 0
    assert store.written == [
        fx.ConfigWrite("brokers", "<default>", {"log.cleaner.threads": "2"}, -1),
        fx.ConfigWrite("brokers", "1", {"num.io.threads": "16"}, -1),
    ]


DYNAMIC = "Invalid value org.apache.kafka.common.config.ConfigException: {} for configuration Invalid dynamic configuration"
THREADS = DYNAMIC.format("Dynamic thread count update validation failed for {}, value should {}")


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        # As Apache Kafka 3.9.1 answered.
        (
            "max.connections.per.ip",
            "0",
            "requirement failed: max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
            "property is set.",
        ),
        ("max.connections", "0", DYNAMIC.format("Invalid max.connections 0")),
        ("max.connection.creation.rate", "0", DYNAMIC.format("Invalid max.connection.creation.rate 0")),
        (
            "num.io.threads",
            "100",
            THREADS.format("num.io.threads=100", "not be greater than double the current value 8"),
        ),
        (
            "principal.builder.class",
            "x",
            "Invalid value x for configuration principal.builder.class: Class x could not be found.",
        ),
        # As its source says.
        ("num.io.threads", "3", THREADS.format("num.io.threads=3", "be at least half the current value 8")),
        (
            "log.cleaner.threads",
            "3",
            DYNAMIC.format("Log cleaner threads cannot be increased to more than double the current value 1"),
        ),
    ],
)
@pytest.mark.parametrize("broker", ["", "1"])
def test_a_change_that_would_lock_everybody_out_or_leaps_is_refused_as_apache_refuses_it(
    world: World, store: Store, broker: str, name: str, text: str, sentence: str
) -> None:
    assert change(world, store, (name, SET, text), kind=BROKER, name=broker) == (
        ErrorCode.INVALID_REQUEST,
        sentence,
    )
    assert store.written == []


def test_resources_of_kraft_are_named(world: World, store: Store) -> None:
    sentence = "Config type client-metrics is only supported on KRaft clusters"
    (described,) = describe(world, store, (16, "m", None))
    assert (described.error_code, described.error_message) == (ErrorCode.INVALID_REQUEST, sentence)
    told = change(world, store, ("interval.ms", SET, "1"), kind=16, name="m")
    assert told == (ErrorCode.INVALID_REQUEST, sentence)


def test_an_address_may_be_shut_out_where_another_is_let_in(world: World, store: Store) -> None:
    let_in = ("max.connections.per.ip.overrides", SET, "127.0.0.1:9")
    assert change(world, store, let_in, ("max.connections.per.ip", SET, "0"), kind=BROKER, name="1")[0] == 0


def test_what_somebody_else_put_there_stays_and_does_not_hinder(world: World, store: Store) -> None:
    """A node written by a tool that knows more, or by hand: the change of another setting goes through."""
    store.nodes["topics", "t"] = ({"from.the.future": "1", "segment.bytes": "many"}, 0)
    assert change(world, store, ("retention.ms", SET, "5")) == (ErrorCode.NONE, None)
    assert store.nodes["topics", "t"][0] == {
        "from.the.future": "1",
        "segment.bytes": "many",
        "retention.ms": "5",
    }
    assert change(world, store, ("from.the.future", DELETE, None), ("segment.bytes", DELETE, None))[0] == 0
    assert store.nodes["topics", "t"][0] == {"retention.ms": "5"}
    store.nodes["brokers", "1"] = ({"plug.in": "1", "broker.rack": "x"}, 0)
    assert change(world, store, ("log.cleaner.threads", SET, "2"), kind=BROKER, name="1")[0] == 0


def test_a_node_that_cannot_be_read_is_named_and_only_replaced_as_a_whole(world: World, store: Store) -> None:
    store.unreadable["topics", "t"] = "/config/topics/t: expected JSON"
    (result,) = describe(world, store, (TOPIC, "t", None))
    assert (result.error_code, result.error_message) == (-1, "/config/topics/t: expected JSON")
    code, message = change(world, store, ("retention.ms", SET, "5"))
    assert code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert message == "/config/topics/t: expected JSON; AlterConfigs replaces what stands there"
    assert alter(world, store, {"retention.ms": "5"}) == (ErrorCode.NONE, None)
    assert store.written == [fx.ConfigWrite("topics", "t", {"retention.ms": "5"}, -1)]
    store.unreadable["topics", "u"] = "/config/topics/u: expected JSON"
    world.lead(1, topic="u", topic_id=b"u" * 16, isr=(1,), replicas=(1,), is_new=True)
    assert alter(world, store, {}, name="u") == (ErrorCode.NONE, None)
    assert store.written[1:] == [fx.ConfigWrite("topics", "u", {}, -1)], "though it has no overrides either"


def test_settings_of_a_topic_that_contradict_each_other_are_refused(world: World, store: Store) -> None:
    lags = ("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")
    code, message = change(world, store, *lags)
    assert code == ErrorCode.INVALID_CONFIG
    assert message == ("conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)")
    code, message = change(world, store, ("remote.storage.enable", SET, "true"))
    assert code == ErrorCode.INVALID_CONFIG


def test_the_same_key_or_resource_twice_is_refused(world: World, store: Store) -> None:
    assert (
        change(world, store, ("retention.ms", SET, "5"), ("retention.ms", DELETE, None))[0]
        == ErrorCode.INVALID_REQUEST
    )
    row = am.AlterConfigsResource(resource_type=TOPIC, resource_name="t")
    pending = world.send(1, am.AlterConfigsRequest(resources=[row, row]), 2)
    assert [(r.error_code, r.error_message) for r in pending.message.responses] == [
        (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    ] * 2


def test_a_broker_has_one_node_however_its_number_is_written(world: World, store: Store) -> None:
    """Java reads "01" and "+1" as 1; a node of that name nobody would read."""
    for name, threads in (("01", "1"), ("+1", "2")):
        told = alter(world, store, {"log.cleaner.threads": threads}, kind=BROKER, name=name)
        assert told == (ErrorCode.NONE, None)
        assert store.nodes == {("brokers", "1"): ({"log.cleaner.threads": threads}, int(threads) - 1)}
    (described,) = describe(world, store, (BROKER, "01", ["log.cleaner.threads"]))
    assert (described.resource_name, described.configs[0].value) == ("01", "2")
    for name in (" 1", "0_1", "\u0661"):
        code, message = alter(world, store, {"log.cleaner.threads": "1"}, kind=BROKER, name=name)
        assert code == ErrorCode.INVALID_REQUEST
        assert message == f"Node id must be an integer, but it is: {name}"


def test_lists_of_thousands_are_not_compared_item_by_item(world: World, store: Store) -> None:
    name = "leader.replication.throttled.replicas"
    some = ",".join(f"{number}:1" for number in range(2_400))
    others = ",".join(f"{number}:2" for number in range(2_400))
    store.nodes["topics", "t"] = ({name: some}, 0)
    began = process_time()
    assert change(world, store, (name, APPEND, others)) == (ErrorCode.NONE, None)
    both = store.nodes["topics", "t"][0][name]
    assert change(world, store, (name, SUBTRACT, some)) == (ErrorCode.NONE, None)
    assert process_time() - began < 0.1, "all with all takes longer"
    assert (both, store.nodes["topics", "t"][0][name]) == (f"{some},{others}", others)


def test_a_list_that_no_answer_could_tell_any_more_is_not_appended_to(world: World, store: Store) -> None:
    """A string on the wire has 32,767 bytes: a topic with a longer one could not be described by anybody again."""
    name = "follower.replication.throttled.replicas"
    store.nodes["topics", "t"] = ({name: ",".join(f"{number}:1" for number in range(4_000))}, 0)
    told = change(world, store, (name, APPEND, ",".join(f"{number}:2" for number in range(4_000))))
    assert told == (
        ErrorCode.INVALID_CONFIG,
        f"{name} would have 53779 bytes, and 32767 can be told; a * stands for all replicas",
    )
    (row,) = describe(world, store, (TOPIC, "t", [name]))
    assert (row.error_code, len(row.configs[0].value)) == (0, 26889)


def test_a_value_that_no_answer_can_tell_is_refused_alone(world: World, store: Store) -> None:
    """An earlier version appended to lists without end, and so do Apache's brokers: others are described beside it, and it can be
    set again."""
    name = "follower.replication.throttled.replicas"
    long = ",".join(f"{number}:1" for number in range(6_000))
    store.nodes["topics", "t"] = ({name: long, "retention.ms": "5"}, 0)
    store.nodes["brokers", "1"] = ({"log.cleaner.threads": "é" * 20_000}, 0)
    topics = world[1].broker.metadata.topics
    topics["u"] = topics["t"]
    rows = describe(world, store, (TOPIC, "t", None), (TOPIC, "u", None), (BROKER, "1", None))
    assert [(row.error_code, row.error_message) for row in rows] == [
        (
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"{name} has {len(long)} bytes, and 32767 can be told: set it to less",
        ),
        (0, ""),
        (
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "log.cleaner.threads has 40000 bytes, and 32767 can be told: set it to less",
        ),
    ]
    (row,) = describe(world, store, (TOPIC, "t", ["retention.ms"]))
    assert (row.error_code, row.configs[0].value) == (0, "5")


def test_a_long_value_that_is_not_told_keeps_nothing_back(world: World, store: Store) -> None:
    """Certificates are secret, and a listener's are told by nobody: Apache's broker that was here before may have stored them."""
    certificates = "-" * 40_000
    names = "ssl.truststore.certificates", "listener.name.internal.ssl.truststore.certificates"
    store.nodes["brokers", "1"] = (dict.fromkeys(names, certificates), 0)
    (row,) = describe(world, store, (BROKER, "1", None))
    assert row.error_code == 0, row.error_message
    (told,) = [entry for entry in row.configs if entry.name in names]
    assert (told.name, told.value, told.is_sensitive) == (names[0], None, True)


def test_a_long_value_that_another_hides_has_no_room_as_a_synonym_either(world: World, store: Store) -> None:
    store.nodes["brokers", "1"] = ({"log.cleaner.threads": "2"}, 0)
    store.nodes["brokers", "<default>"] = ({"log.cleaner.threads": "1" * 40_000}, 0)
    (row,) = describe(world, store, (BROKER, "1", None))
    assert (row.error_code, row.error_message) == (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        "log.cleaner.threads has 40000 bytes, and 32767 can be told: set it to less",
    )


def test_settings_of_many_topics_are_changed_some_in_a_turn(world: World, store: Store) -> None:
    names = [f"topic-{number}" for number in range(1_000)]
    world[1].broker.metadata.topics |= dict.fromkeys(names[:-1], world[1].broker.metadata.topics["t"])
    store.nodes["topics", "topic-7"] = ({"retention.ms": "many"}, 0)
    store.unreadable["topics", "topic-8"] = "no JSON"
    rows = [im.AlterableConfig(name="segment.ms", config_operation=SET, value="5000")]
    request = im.IncrementalAlterConfigsRequest(
        resources=[
            im.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=rows) for name in names
        ]
    )
    pending = world.send(1, request, 1)
    store.serve()

    assert [row.resource_name for row in pending.message.responses] == names
    assert [row.error_code for row in pending.message.responses] == [0] * 8 + [-1] + [0] * 990 + [3]
    assert len(store.written) == 998
    assert store.nodes["topics", "topic-7"][0] == {"retention.ms": "many", "segment.ms": "5000"}
    assert store.slices > 3, "each is looked at, and then planned"


def test_settings_of_many_topics_are_made_into_an_answer_by_a_thread(world: World, store: Store) -> None:
    many = describing.MOST_AT_ONCE + 1
    for number in range(many):
        world.lead(1, isr=(1,), replicas=(1,), topic=f"t{number}", topic_id=bytes([number]) * 16, is_new=True)
    rows = [
        dm.DescribeConfigsResource(
            resource_type=TOPIC, resource_name=f"t{number}", configuration_keys=["segment.bytes"]
        )
        for number in range(many)
    ]
    world[1].broker.take_effects()
    pending = world.send(1, dm.DescribeConfigsRequest(resources=rows), 4)
    (asked,) = [e for e in world[1].broker.take_effects() if isinstance(e, fx.StoreRequest)]
    assert isinstance(asked.question, fx.ReadConfigs)
    found = {entity: fx.StoredConfig({"segment.bytes": "77777"}, 0) for entity in asked.question.entities}
    world[1].broker.answered(asked.request_id, fx.ConfigsRead(found), world.now_ms)

    (aside,) = [e for e in world[1].broker.take_effects() if isinstance(e, fx.RunAside)]
    assert not pending.is_answered
    world[1].broker.answered(aside.request_id, aside.work.run(), world.now_ms)

    assert [(one.resource_name, [c.value for c in one.configs]) for one in pending.message.results] == [
        (f"t{number}", ["77777"]) for number in range(many)
    ]
