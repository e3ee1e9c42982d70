"""Values that golden does not show: older versions, odd hosts, and what cannot be trusted."""

import dataclasses
import json
import string
from bisect import bisect_left

import pytest

from odradek.model.cluster import BrokerRegistration, Endpoint, LeaderAndIsr, ReplicaAssignment
from odradek.model.facts import ProducerIdBlock, StoredPartitionState, TopicAssignment, UnreadableNode
from odradek.model.ids import (
    INT32_MAX,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from odradek.store import layout
from odradek.store.api import Node, Stat
from odradek.store.consistency import unassigned_leader
from odradek.store.fields import LONGEST_REASON, Unreadable


def _node(value: object, version: int = 0, czxid: int = 7) -> Node:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Node(data, Stat(version, 0, czxid, czxid))


def _brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(each) for each in ids)


# ---- registrations


def test_a_registration_tells_host_and_port_of_a_plaintext_listener_only() -> None:
    endpoints = (
        Endpoint("INTERNAL", "SASL_SSL", "10.0.0.1", 9094),
        Endpoint("CLIENT", "PLAINTEXT", "::1", 9092),
    )
    registration = BrokerRegistration(BrokerId(3), BrokerEpoch(7), endpoints, rack="r1")
    value = json.loads(layout.encode_registration(registration, timestamp_ms=5))
    assert (value["host"], value["port"], value["rack"]) == ("::1", 9092, "r1")
    assert value["endpoints"] == ["INTERNAL://10.0.0.1:9094", "CLIENT://[::1]:9092"]
    assert value["listener_security_protocol_map"] == {"INTERNAL": "SASL_SSL", "CLIENT": "PLAINTEXT"}
    assert layout.decode_registration(BrokerId(3), _node(value)) == registration

    secure = BrokerRegistration(BrokerId(3), BrokerEpoch(7), endpoints[:1])
    value = json.loads(layout.encode_registration(secure, timestamp_ms=5))
    assert (value["host"], value["port"]) == (None, -1)
    assert "rack" not in value
    assert layout.decode_registration(BrokerId(3), _node(value)) == secure


@pytest.mark.parametrize(
    ("value", "endpoints", "rack"),
    [
        ({"version": 1, "host": "h", "port": 9092, "jmx_port": -1}, [("PLAINTEXT", "PLAINTEXT")], None),
        ({"version": 2, "host": "h", "port": 9092, "endpoints": ["SSL://h:9092"]}, [("SSL", "SSL")], None),
        ({"version": 3, "endpoints": ["SSL://h:9092"], "rack": "a"}, [("SSL", "SSL")], "a"),
        (
            {
                "version": 4,
                "endpoints": ["X://h:9092"],
                "listener_security_protocol_map": {"X": "SSL"},
                "rack": None,
            },
            [("X", "SSL")],
            None,
        ),
    ],
)
def test_registrations_of_older_brokers_are_read(
    value: dict[str, object], endpoints: list[tuple[str, str]], rack: str | None
) -> None:
    registration = layout.decode_registration(BrokerId(1), _node(value))
    assert [(e.listener, e.security_protocol) for e in registration.endpoints] == endpoints
    assert registration.endpoints[0].host == "h"
    assert registration.endpoints[0].port == 9092
    assert registration.rack == rack
    assert registration.epoch == 7


# ---- topics and states


def test_a_topic_of_an_older_tool_has_no_id_and_no_reassignment() -> None:
    topic = layout.decode_topic("t", _node({"version": 1, "partitions": {"1": [2], "0": [1, 2]}}, version=4))
    assert topic == TopicAssignment(
        "t", None, {0: ReplicaAssignment(_brokers(1, 2)), 1: ReplicaAssignment(_brokers(2))}, version=4
    )
    assert "topic_id" not in json.loads(layout.encode_topic(topic))


def test_a_reassignment_is_kept_in_the_topic() -> None:
    assignment = ReplicaAssignment(_brokers(4, 5, 1), _brokers(4, 5), _brokers(1))
    topic = TopicAssignment(
        "t", TopicId(bytes(range(16))), {0: assignment, 1: ReplicaAssignment(_brokers(1))}
    )
    value = json.loads(layout.encode_topic(topic))
    assert value["adding_replicas"] == {"0": [4, 5]}
    assert value["removing_replicas"] == {"0": [1]}
    assert layout.decode_topic("t", _node(value)) == topic


def _state(**fields: object) -> bytes:
    value = {"version": 1, "leader": 1, "isr": [1, 2], "leader_epoch": 3, "controller_epoch": 4, **fields}
    return json.dumps({name: field for name, field in value.items() if field is not None}).encode()


def _leadership(**fields: object) -> LeaderAndIsr:
    plain = LeaderAndIsr(BrokerId(1), LeaderEpoch(3), _brokers(1, 2), PartitionEpoch(9))
    return dataclasses.replace(plain, **fields)  # type: ignore[arg-type]


def test_a_state_without_a_leader_keeps_its_isr() -> None:
    state = layout.decode_partition_state("/s", _state(leader=-1), 9)
    assert state == StoredPartitionState(_leadership(leader=BrokerId(-1)), ControllerEpoch(4))


def test_the_recovery_state_is_written_only_when_recovering() -> None:
    recovering = _leadership(leader_recovery_state=1)
    value = layout.encode_partition_state(recovering, ControllerEpoch(4))
    assert json.loads(value)["leader_recovery_state"] == 1
    assert layout.decode_partition_state("/s", value, 9).leader_and_isr == recovering
    assert b"recovery" not in layout.encode_partition_state(_leadership(), ControllerEpoch(4))


def test_eligible_leaders_hold_only_under_the_controller_that_wrote_them() -> None:
    with_elr = _leadership(elr=_brokers(3), last_known_elr=_brokers(4))
    value = json.loads(layout.encode_partition_state(with_elr, ControllerEpoch(4)))
    assert (value["elr"], value["last_known_elr"]) == ([3], [4])
    assert layout.decode_partition_state("/s", json.dumps(value).encode(), 9).leader_and_isr == with_elr
    value["controller_epoch"] = 5  # somebody wrote the node and left our keys as they were
    assert layout.decode_partition_state("/s", json.dumps(value).encode(), 9).leader_and_isr == _leadership()
    assert b"elr" not in layout.encode_partition_state(_leadership(), ControllerEpoch(4))


def test_many_states_are_told_apart_from_the_missing_and_the_unreadable() -> None:
    partitions = [TopicPartition("t", number) for number in range(5)]
    good, bad = _state(), b"{"
    nodes = [_node(good, 1), None, _node(bad), _node(good, 1), _node(good, 2)]
    states, missing, unreadable = layout.decode_partition_states(partitions, nodes)
    assert sorted(states) == [partitions[0], partitions[3], partitions[4]]
    assert [states[tp].leader_and_isr.partition_epoch for tp in sorted(states)] == [1, 1, 2]
    assert missing == [partitions[1]]
    assert [(bad.path, bad.topic) for bad in unreadable] == [("/brokers/topics/t/partitions/2/state", "t")]


def test_a_leader_that_is_not_assigned_contradicts_the_topic() -> None:
    partition = TopicPartition("orders", 3)
    state = StoredPartitionState(_leadership(leader=BrokerId(9)), ControllerEpoch(1))
    contradiction = unassigned_leader(partition, state, ReplicaAssignment(_brokers(1, 2)))
    assert contradiction == UnreadableNode(
        "/brokers/topics/orders/partitions/3/state",
        "leader 9 is not among the assigned replicas [1, 2]",
        "orders",
    )
    for leader in (1, -1):
        fine = StoredPartitionState(_leadership(leader=BrokerId(leader)), ControllerEpoch(1))
        assert unassigned_leader(partition, fine, ReplicaAssignment(_brokers(1, 2))) is None


# ---- the rest


def test_producer_id_blocks() -> None:
    block = ProducerIdBlock(BrokerId(2), 1000, 1999, version=3)
    value = layout.encode_producer_id_block(block)
    assert json.loads(value) == {"version": 1, "broker": 2, "block_start": "1000", "block_end": "1999"}
    assert layout.decode_producer_id_block(_node(value, 3)) == block
    assert layout.decode_producer_id_block(_node(b"", 0)).block_end == -1


def test_notifications_and_wishes() -> None:
    partitions = (TopicPartition("a", 0), TopicPartition("b", 7))
    value = layout.encode_partition_list(partitions)
    assert layout.decode_partition_list("/p", value) == partitions
    assert json.loads(layout.encode_log_dir_event(BrokerId(3))) == {"version": 1, "broker": 3, "event": 1}
    assert layout.decode_log_dir_event("/e", layout.encode_log_dir_event(BrokerId(3))) == 3
    old = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert layout.decode_config_change("/c", old) == "topics/t"
    assert layout.decode_config("/config/users/u", b"") == {}


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain-name_1.x", "plain-name_1.x"),
        ("a b*c", "a%20b%2Ac"),
        ("CN=ü,O=x", "CN%3D%C3%BC%2CO%3Dx"),
        ("~", "%7E"),
    ],
)
def test_names_of_entities_are_escaped_as_kafka_does(name: str, escaped: str) -> None:
    assert layout.escape_entity(name) == escaped
    assert layout.unescape_entity(escaped) == name


def test_no_other_letter_of_an_entity_stands_as_it_is() -> None:
    """A slash would be another node."""
    kept = set(string.ascii_letters + string.digits + "-_.")
    for letter in set(map(chr, range(128))) - kept:
        assert layout.escape_entity(f"a{letter}") == f"a%{ord(letter):02X}"


def test_the_topic_a_node_belongs_to() -> None:
    for path in (
        "/brokers/topics/t",
        "/brokers/topics/t/partitions/0/state",
        "/config/topics/t",
        "/admin/delete_topics/t",
    ):
        assert Unreadable(path, "").as_fact().topic == "t"
    assert Unreadable("/brokers/ids/1", "").as_fact().topic is None


# ---- what cannot be trusted


TOPIC = {"version": 3, "partitions": {"0": [1, 2]}, "adding_replicas": {}, "removing_replicas": {}}
REGISTRATION = {"version": 5, "endpoints": ["A://h:1"], "listener_security_protocol_map": {"A": "SSL"}}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "expected a JSON object, found list"),
        (_state(version=2), "unknown version 2; known: 1"),
        (_state(version=None), "unknown version None"),
        (_state(version=True), "unknown version True"),
        (_state(leader=None), "leader is missing"),
        (_state(leader="1"), "leader: expected a whole number, found '1'"),
        (_state(leader=-3), "leader: expected a broker id, or -1 for none, found -3"),
        (_state(leader=True), "leader: expected a whole number, found True"),
        (_state(leader_epoch=-1), "leader_epoch: expected 0 or more, found -1"),
        (_state(leader_epoch=INT32_MAX), "leader_epoch: expected at most 1073741824, found 2147483647"),
        (_state(controller_epoch=1.5), "controller_epoch: expected a whole number, found 1.5"),
        (_state(isr="1"), "isr: expected a list, found '1'"),
        (_state(isr=[1, "2"]), "isr: expected a whole number, found '2'"),
        (_state(isr=[1, 1]), "isr: expected each broker once, found [1, 1]"),
        (_state(isr=[-1]), "isr: expected broker ids of 0 or more, found [-1]"),
        (_state(isr=[]), "isr: expected at least one member"),
        (_state(leader=3), "leader: expected a member of the ISR [1, 2], found 3"),
        (_state(leader=1 << 31), "leader: expected a number of 32 bits, found 2147483648"),
        (_state(controller_epoch=-1), "controller_epoch: expected 0 or more, found -1"),
        (_state(note="\ud800"), "a text with half a character in it"),
        # The same as three bytes, which are no UTF-8: some decoders take them.
        (_state(note="?").replace(b"?", b"\xed\xa0\x80"), "not JSON: 'utf-8' codec can't decode"),
        (b" " + _state(note="?").replace(b"?", b"\xed\xa0\x80"), "a text with half a character in it"),
        (b"[" * 100_000, "not JSON"),
        (_state(leader_recovery_state=2), "leader_recovery_state: expected 0 or 1, found 2"),
    ],
)
def test_a_state_that_cannot_be_trusted_says_why(value: bytes, reason: str) -> None:
    with pytest.raises(Unreadable) as caught:
        layout.decode_partition_state("/brokers/topics/t/partitions/0/state", value, 0)
    assert reason in caught.value.reason
    assert caught.value.as_fact() == UnreadableNode(
        "/brokers/topics/t/partitions/0/state", caught.value.reason, "t"
    )


@pytest.mark.parametrize(
    "value",
    [_state(isr=["1" * 100_000]), _state(version="1" * 100_000), _state(isr=list(range(-1, 100_000)))],
)
def test_a_reason_is_a_sentence_however_large_the_node(value: bytes) -> None:
    """It is logged, journalled, and told to clients."""
    with pytest.raises(Unreadable) as caught:
        layout.decode_partition_state("/brokers/topics/t/partitions/0/state", value, 0)
    assert len(caught.value.reason) == LONGEST_REASON and len(str(caught.value)) < LONGEST_REASON + 100


def test_a_value_nested_as_deep_as_can_just_be_read_is_read_or_unreadable() -> None:
    """Looking into what was read takes one call more than reading it did."""

    def is_read(depth: int) -> bool:
        nested = b"[" * depth + rb'"\u0041"' + b"]" * depth
        try:
            return (
                layout.decode_config("/config/topics/t", b'{"version":1,"config":{},"a":' + nested + b"}")
                == {}
            )
        except Unreadable:
            return False

    # Python's own limit up to 3.11; the parser, which is in C, has another one in later versions.
    deepest = bisect_left(range(1 << 20), True, key=lambda depth: not is_read(depth))
    # From 3.14 on it counts bytes of the stack, of which `bisect_left` has had some.
    outcomes = {is_read(depth) for depth in range(deepest - 250, deepest + 250)}
    assert outcomes == {True, False}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 4}, "unknown version 4"),
        ({"partitions": [1]}, "partitions: expected an object"),
        ({"partitions": {"x": [1]}}, "partitions: expected partition numbers of 32 bits, found 'x'"),
        ({"partitions": {"-1": [1]}}, "partitions: expected partition numbers of 32 bits, found '-1'"),
        ({"partitions": {"0": []}}, "partitions.0: expected at least one replica"),
        ({"partitions": {"0": [1, 1]}}, "partitions.0: expected each broker once"),
        ({"partitions": {"0": [-1]}}, "partitions.0: expected broker ids of 0 or more"),
        ({"adding_replicas": {"0": [9]}}, "what is added or removed among the replicas, found [9]"),
        ({"topic_id": "short"}, "expected 22 characters"),
        ({"topic_id": 5}, "topic_id: expected a text"),
        ({"topic_id": "AAAAAAAAAAAAAAAAAAAA!!"}, "expected 22 characters of URL-safe base64"),
        ({"topic_id": "AAAAAAAAAAAAAAAAAAAA+/"}, "expected 22 characters of URL-safe base64"),
        ({"topic_id": "AAAAAAAAAAAAAAAAAAAAAA"}, "topic_id: expected an id of its own"),
        ({"partitions": {"00": [1]}}, "partitions: expected partition numbers of 32 bits, found '00'"),
        (
            {"partitions": {"2147483648": [1]}},
            "partitions: expected partition numbers of 32 bits, found '2147483648'",
        ),
        ({"partitions": {"9" * 5000: [1]}}, "partitions: expected partition numbers"),
    ],
)
def test_a_topic_that_cannot_be_trusted_says_why(change: dict[str, object], reason: str) -> None:
    with pytest.raises(Unreadable) as caught:
        layout.decode_topic("t", _node({**TOPIC, **change}))
    assert reason in caught.value.reason
    assert caught.value.as_fact().topic == "t"


@pytest.mark.parametrize("name", [".", "..", "a b", "a" * 250, "ü"])
def test_a_node_whose_name_no_topic_can_have_says_why(name: str) -> None:
    with pytest.raises(Unreadable, match="no name of a topic: "):
        layout.decode_topic(name, _node(TOPIC))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 6}, "unknown version 6"),
        ({"endpoints": ["h:1"]}, "endpoints: expected LISTENER://host:port, found 'h:1'"),
        ({"endpoints": [5]}, "endpoints: expected LISTENER://host:port, found 5"),
        ({"endpoints": None}, "endpoints: expected a list"),
        ({"listener_security_protocol_map": {"A": 1}}, "listener_security_protocol_map.A: expected a text"),
        ({"rack": 5}, "rack: expected a text"),
        ({"rack": "r" * 40_000}, "rack: expected at most 32767 bytes"),
        ({"rack": "ü" * 20_000}, "rack: expected at most 32767 bytes"),
        ({"endpoints": ["A://h:\u0663"]}, "endpoints: expected LISTENER://host:port"),
        ({"endpoints": [f"A://h:{'9' * 5000}"]}, "endpoints: expected LISTENER://host:port"),
        ({"endpoints": ["A://h:9999999999"]}, "endpoints: expected a number of 32 bits, found 9999999999"),
        ({"endpoints": [f"A://{'h' * 40_000}:1"]}, "endpoints: expected at most 32767 bytes, found 'hhh"),
        ({"endpoints": [f"{'L' * 40_000}://h:1"]}, "endpoints: expected at most 32767 bytes, found 'LLL"),
        (
            {"endpoints": ["B://h:1"], "listener_security_protocol_map": {"B": "TLS"}},
            "security protocol of B: expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, found 'TLS'",
        ),
    ],
)
def test_a_registration_that_cannot_be_trusted_says_why(change: dict[str, object], reason: str) -> None:
    with pytest.raises(Unreadable) as caught:
        layout.decode_registration(BrokerId(1), _node({**REGISTRATION, **change}))
    assert reason in caught.value.reason


def test_other_nodes_that_cannot_be_trusted_say_why() -> None:
    for read, value, reason in [
        (layout.decode_controller, b'{"version":2}', "brokerid is missing"),
        (layout.decode_controller_epoch, b"one", "expected a whole number as text"),
        (layout.decode_controller_epoch, b"", "expected a whole number as text"),
        (layout.decode_controller_epoch, b"2147483647", "expected a whole number as text, below 1073741824"),
        (layout.decode_controller_epoch, b"9" * 5000, "expected a whole number as text, below 1073741824"),
        (layout.decode_reassignment, b'{"version":1,"partitions":[{"partition":0}]}', "objects with topic"),
        (
            layout.decode_reassignment,
            b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
            "list of broker",
        ),
        (layout.decode_cluster_id, b'{"version":"2","id":"x"}', "unknown version '2'"),
        (layout.decode_feature, b'{"version":2,"features":{"a":"b"}}', "a: expected a whole number"),
        (layout.decode_feature, b'{"version":2,"features":{"a":32768}}', "a: expected a number of 16 bits"),
        (
            layout.decode_feature,
            b'{"version":2,"features":{"%b":1}}' % (b"a" * 40_000),
            "features: expected at most 32767 bytes",
        ),
    ]:
        with pytest.raises(Unreadable) as caught:
            read(value)  # type: ignore[operator]
        assert reason in caught.value.reason
    with pytest.raises(Unreadable, match=r"config\.a: expected a text"):
        layout.decode_config("/config/topics/t", b'{"version":1,"config":{"a":1}}')
    for first, last in (("5", "1"), ("x", "9"), ("-5", "9")):
        value = json.dumps({"version": 1, "broker": 1, "block_start": first, "block_end": last}).encode()
        with pytest.raises(Unreadable):
            layout.decode_producer_id_block(_node(value))
    for entity in ("topics", "topics/", "strange/x", "users/u//c"):
        with pytest.raises(Unreadable, match="expected type/name"):
            layout.check_entity("/config/changes/1", entity)
    layout.check_entity("/config/changes/1", "users/u/clients/c")


def test_what_a_controller_writes_in_the_last_epoch_that_may_be_taken_up_the_next_one_can_read() -> None:
    """An operator who mends /controller_epoch is told to choose a large number."""
    before = layout.decode_controller_epoch(b"1073741823")
    with pytest.raises(Unreadable):
        layout.decode_controller_epoch(b"1073741824")
    written = layout.encode_partition_state(
        LeaderAndIsr(BrokerId(1), LeaderEpoch(0), (BrokerId(1),)), ControllerEpoch(before + 1)
    )
    read = layout.decode_partition_state("/brokers/topics/t/partitions/0/state", written, 0)
    assert read.controller_epoch == before + 1
