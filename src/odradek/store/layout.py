"""Every path of the tree and every value in it, in both directions, exactly as Apache Kafka 3.9 has them.

The nodes were recorded in tests/golden/controller (3.9.1, ZooKeeper mode); older versions of a value that 3.9 still
reads are read here too. A value that cannot be trusted raises `Unreadable`, which says which node and why:
one bad node takes its topic out of service, not the cluster.

The layout before 0.8 (`/brokers/topics/<t>/<p>/leader`, `/brokers/partitions_reassigned`) is history: what
took its place stands in docs/store.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from odradek.model.cluster import (
    SECURITY_PROTOCOL_IDS,
    BrokerRegistration,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
)
from odradek.model.entity_names import escape_entity as escape_entity
from odradek.model.entity_names import unescape_entity as unescape_entity
from odradek.model.facts import ProducerIdBlock, StoredPartitionState, TopicAssignment, UnreadableNode
from odradek.model.features import HIGHEST_LEVELS
from odradek.model.ids import (
    NO_LEADER,
    NO_TOPIC_ID,
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicPartition,
    name_in_digits,
    number_in,
    topic_id_from_text,
    topic_id_to_text,
)
from odradek.model.topic_names import problem_with
from odradek.store.api import InvalidPath, Node, check_path
from odradek.store.fields import Fields, Unreadable, are_broker_ids

# ---- paths

BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE = f"{CONFIG_CHANGES}/config_change_"
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
ISR_CHANGES = "/isr_change_notification"
ISR_CHANGE = f"{ISR_CHANGES}/isr_change_"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT = f"{LOG_DIR_EVENTS}/log_dir_event_"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CLUSTER_ID = "/cluster/id"
FEATURE = "/feature"

CONFIG_TYPES = ("topics", "clients", "users", "brokers", "ips")
DEFAULT_ENTITY = "<default>"

# Made by every broker on its start where they are missing, in the order in which Apache's do, each after its parents.
PERSISTENT_PATHS = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    "/brokers/seqid",
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    *(f"/config/{kind}" for kind in CONFIG_TYPES),
)


def broker_path(broker_id: BrokerId) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def broker_id_of(name: str) -> BrokerId | None:
    """Whose node it is that has this name; None of a name that we give no broker's node: `01`, `²`, what 32 bits do not hold."""
    number = name_in_digits(name)
    return None if number is None else BrokerId(number)


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(partition: TopicPartition) -> str:
    return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}"


def state_path(partition: TopicPartition) -> str:
    return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}/state"


def config_path(entity_type: str, entity_name: str) -> str:
    """`entity_name` as it stands in the tree: URL-escaped, `<default>` for the default."""
    return f"/config/{entity_type}/{entity_name}"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def _dump(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


# ---- /brokers/ids/<id>

# As in Kafka's EndPoint: an IPv6 address stands in brackets.
_ENDPOINT = re.compile(
    r"(?P<listener>[^:]*)://(?:\[(?P<ipv6>[^\]]*)\]|(?P<host>[^\[\]:]*)):(?P<port>-?[0-9]{1,10})"
)


def encode_registration(registration: BrokerRegistration, *, timestamp_ms: int, jmx_port: int = -1) -> bytes:
    """`host` and `port` are those of a PLAINTEXT listener, null and -1 when there is none.

    `features` stay empty, as those of every member of 3.9 in this mode are: what this release knows stands beside them.
    """
    plaintext = next((e for e in registration.endpoints if e.security_protocol == "PLAINTEXT"), None)
    value: dict[str, object] = {
        "features": {},
        "listener_security_protocol_map": {e.listener: e.security_protocol for e in registration.endpoints},
        "endpoints": [_endpoint_text(endpoint) for endpoint in registration.endpoints],
        "jmx_port": jmx_port,
        "port": plaintext.port if plaintext else -1,
        "host": plaintext.host if plaintext else None,
        "version": 5,
        "timestamp": str(timestamp_ms),
        "odradek_features": dict(HIGHEST_LEVELS),  # ours; readers pick the keys they know
    }
    if registration.rack is not None:
        value["rack"] = registration.rack
    if registration.clean_epoch != UNKNOWN_BROKER_EPOCH:
        value["odradek_clean_epoch"] = registration.clean_epoch  # ours too
    return _dump(value)


def _endpoint_text(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.listener}://{host}:{endpoint.port}"


def decode_registration(broker_id: BrokerId, node: Node) -> BrokerRegistration:
    """Versions 1 (one PLAINTEXT endpoint) to 5; the epoch is the czxid of the node."""
    fields = Fields(broker_path(broker_id), node.data, (1, 2, 3, 4, 5))
    if fields.version == 1:
        endpoints = [Endpoint("PLAINTEXT", "PLAINTEXT", fields.text("host"), fields.integer("port"))]
    else:
        protocols = fields.text_map("listener_security_protocol_map") if fields.version > 3 else {}
        endpoints = [_endpoint(fields, text, protocols) for text in fields.items("endpoints")]
    rack = fields.value.get("rack")
    if rack is not None:
        rack = fields.as_text("rack", rack)
    clean_epoch = fields.as_integer(
        "odradek_clean_epoch", fields.value.get("odradek_clean_epoch", -1), bits=64
    )
    return BrokerRegistration(
        broker_id, BrokerEpoch(node.stat.czxid), tuple(endpoints), rack, BrokerEpoch(clean_epoch)
    )


def decode_registered_features(broker_id: BrokerId, data: bytes) -> dict[str, int]:
    """The highest level of each feature that a broker says it knows; of an Apache broker none."""
    fields = Fields(broker_path(broker_id), data, (1, 2, 3, 4, 5))
    found = fields.value.get("odradek_features", {})
    if not isinstance(found, dict):
        raise fields.fail("odradek_features", "a map", found)
    return {name: fields.as_integer(name, level) for name, level in found.items()}


def _endpoint(fields: Fields, text: object, protocols: Mapping[str, str]) -> Endpoint:
    match = _ENDPOINT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise fields.fail("endpoints", "LISTENER://host:port", text)
    listener = fields.as_text("endpoints", match["listener"])
    host = fields.as_text("endpoints", match["ipv6"] or match["host"] or "")
    port = fields.as_integer("endpoints", int(match["port"]))
    # Before version 4 a listener was named after its protocol.
    protocol = protocols.get(listener, listener)
    if protocol not in SECURITY_PROTOCOL_IDS:
        raise fields.fail(
            f"security protocol of {listener}", f"one of {', '.join(SECURITY_PROTOCOL_IDS)}", protocol
        )
    return Endpoint(listener, protocol, host, port)


# ---- /brokers/topics/<t>


def encode_topic(assignment: TopicAssignment) -> bytes:
    value: dict[str, object] = {
        "partitions": {str(p): list(a.replicas) for p, a in sorted(assignment.partitions.items())}
    }
    if assignment.topic_id is not None:
        value["topic_id"] = topic_id_to_text(assignment.topic_id)
    moving = [(str(p), a) for p, a in sorted(assignment.partitions.items()) if a.is_being_reassigned]
    value["adding_replicas"] = {p: list(a.adding_replicas) for p, a in moving if a.adding_replicas}
    value["removing_replicas"] = {p: list(a.removing_replicas) for p, a in moving if a.removing_replicas}
    value["version"] = 3
    return _dump(value)


def decode_topic(topic: str, node: Node) -> TopicAssignment:
    """Versions 1 (before KIP-455), 2 (before topic ids) and 3."""
    problem = problem_with(topic)
    if problem is not None:
        raise Unreadable(topic_path(topic), f"no name of a topic: {problem}")
    fields = Fields(topic_path(topic), node.data, (1, 2, 3))
    adding = _replica_lists(fields, "adding_replicas") if "adding_replicas" in fields.value else {}
    removing = _replica_lists(fields, "removing_replicas") if "removing_replicas" in fields.value else {}
    partitions = {
        partition: ReplicaAssignment(replicas, adding.get(partition, ()), removing.get(partition, ()))
        for partition, replicas in sorted(_replica_lists(fields, "partitions").items())
    }
    for partition, assignment in partitions.items():
        if not assignment.replicas:
            raise fields.fail(f"partitions.{partition}", "at least one replica", [])
        strange = {*assignment.adding_replicas, *assignment.removing_replicas} - {*assignment.replicas}
        if strange:
            raise fields.fail(
                f"partitions.{partition}", "what is added or removed among the replicas", sorted(strange)
            )
    topic_id = None
    if "topic_id" in fields.value:
        try:
            topic_id = topic_id_from_text(fields.text("topic_id"))
        except ValueError as error:
            raise Unreadable(fields.path, str(error)) from None
        if topic_id == NO_TOPIC_ID:
            raise fields.fail("topic_id", "an id of its own", fields.text("topic_id"))
    return TopicAssignment(topic, topic_id, partitions, node.stat.version)


def _replica_lists(fields: Fields, name: str) -> dict[int, tuple[BrokerId, ...]]:
    lists: dict[int, tuple[BrokerId, ...]] = {}
    for text, replicas in fields.mapping(name).items():
        partition = name_in_digits(text)
        if partition is None:
            raise fields.fail(name, "partition numbers of 32 bits", text)
        lists[partition] = (
            tuple(replicas) if are_broker_ids(replicas) else fields.broker_ids(f"{name}.{text}", replicas)
        )
    return lists


# ---- /brokers/topics/<t>/partitions/<p>/state


def encode_partition_state(
    state: LeaderAndIsr,
    controller_epoch: ControllerEpoch,
    isr_broker_epochs: tuple[BrokerEpoch, ...] = (),
    elr_broker_epochs: tuple[BrokerEpoch, ...] = (),
) -> bytes:
    """Apache's keys in Apache's order. `elr` and `last_known_elr` are ours, named with the epoch that wrote
    them: Apache's controller drops keys it does not know, and what it has led over is void (KIP-966).

    So are `isr_broker_epochs`: the broker epoch of each member of the ISR, in its order, and `elr_broker_epochs`. They
    tell the next controller who has been restarted since (docs/decisions, 0004).
    """
    recovery = (
        f'"leader_recovery_state":{state.leader_recovery_state},' if state.leader_recovery_state else ""
    )
    ours = ""
    if state.elr or state.last_known_elr:
        ours = (
            f',"elr":[{_ids(state.elr)}],"last_known_elr":[{_ids(state.last_known_elr)}],'
            f'"elr_controller_epoch":{controller_epoch}'
        )
        if elr_broker_epochs:
            assert len(elr_broker_epochs) == len(state.elr), "an epoch for each that is eligible"
            ours += f',"elr_broker_epochs":[{_ids(elr_broker_epochs)}]'
    if isr_broker_epochs:
        assert len(isr_broker_epochs) == len(state.isr), "an epoch for each member of the ISR"
        ours += (
            f',"isr_broker_epochs":[{_ids(isr_broker_epochs)}],'
            f'"isr_broker_epochs_controller_epoch":{controller_epoch}'
        )
    return (
        f'{{"controller_epoch":{controller_epoch},"leader":{state.leader},"version":1,{recovery}'
        f'"leader_epoch":{state.leader_epoch},"isr":[{_ids(state.isr)}]{ours}}}'
    ).encode()


@lru_cache(maxsize=10_000)
def _ids(numbers: tuple[int, ...]) -> str:
    """Of 100,000 partitions a few hundred lists are different, and this is a third of the cost of a text."""
    return ",".join(map(str, numbers))


# Each election raises it by one, so no cluster ever gets there; and what follows this one fits the wire for long.
LARGEST_EPOCH = 1 << 30


def decode_partition_state(
    path: str, data: bytes, version: int, written_zxid: int = -1
) -> StoredPartitionState:
    """`written_zxid` is the mzxid of the node; kept only where the node itself does not say enough."""
    fields = Fields(path, data, (1,))
    leader = BrokerId(fields.integer("leader"))
    if leader < NO_LEADER:
        raise fields.fail("leader", "a broker id, or -1 for none", leader)
    leader_epoch, controller_epoch = fields.integer("leader_epoch"), fields.integer("controller_epoch")
    for name, epoch in (("leader_epoch", leader_epoch), ("controller_epoch", controller_epoch)):
        if epoch < 0:
            raise fields.fail(name, "0 or more", epoch)
        if epoch > LARGEST_EPOCH:
            raise fields.fail(name, f"at most {LARGEST_EPOCH}", epoch)
    recovery = fields.as_integer("leader_recovery_state", fields.value.get("leader_recovery_state", 0))
    if recovery not in (0, 1):
        raise fields.fail("leader_recovery_state", "0 or 1", recovery)
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()
    if fields.value.get("elr_controller_epoch") == controller_epoch:
        elr = fields.broker_ids("elr", fields.value.get("elr", []))
        last_known_elr = fields.broker_ids("last_known_elr", fields.value.get("last_known_elr", []))
    isr = fields.broker_ids("isr", fields.items("isr"))
    if not isr:
        raise fields.fail("isr", "at least one member: the last one stays when it dies", [])
    if leader != NO_LEADER and leader not in isr:
        raise fields.fail("leader", f"a member of the ISR {list(isr)}", leader)
    broker_epochs: tuple[BrokerEpoch, ...] = ()
    if fields.value.get("isr_broker_epochs_controller_epoch") == controller_epoch:
        broker_epochs = _broker_epochs(fields, "isr_broker_epochs", len(isr))
    return StoredPartitionState(
        LeaderAndIsr(
            leader=leader,
            leader_epoch=LeaderEpoch(leader_epoch),
            isr=isr,
            partition_epoch=PartitionEpoch(version),
            leader_recovery_state=recovery,
            elr=elr,
            last_known_elr=last_known_elr,
        ),
        ControllerEpoch(controller_epoch),
        broker_epochs,
        -1 if broker_epochs else written_zxid,
        _broker_epochs(fields, "elr_broker_epochs", len(elr)) if elr else (),
    )


def _broker_epochs(fields: Fields, name: str, members: int) -> tuple[BrokerEpoch, ...]:
    if name not in fields.value:
        return ()
    epochs = [BrokerEpoch(fields.as_integer(name, epoch, bits=64)) for epoch in fields.items(name)]
    return tuple(epochs) if len(epochs) == members else ()


def decode_partition_states(
    partitions: Sequence[TopicPartition], nodes: Sequence[Node | None]
) -> tuple[dict[TopicPartition, StoredPartitionState], list[TopicPartition], list[UnreadableNode]]:
    """Many at once: (states, those without a node, those that cannot be read).

    Of 100,000 partitions most share their text with others (same leader, ISR, epochs): each text is parsed
    once and its value, being frozen, is shared. This is what makes the load of a new controller cheap.
    """
    states: dict[TopicPartition, StoredPartitionState] = {}
    missing: list[TopicPartition] = []
    unreadable: list[UnreadableNode] = []
    known: dict[tuple[bytes, int], StoredPartitionState] = {}
    for partition, node in zip(partitions, nodes, strict=True):
        if node is None:
            missing.append(partition)
            continue
        key = (node.data, node.stat.version)
        state = known.get(key)
        if state is None:
            try:
                state = decode_partition_state(state_path(partition), node.data, node.stat.version)
            except Unreadable as error:
                unreadable.append(error.as_fact())
                continue
            known[key] = state
        if not state.isr_broker_epochs:
            # When it was written matters only where the text does not say whose incarnations it names.
            state = StoredPartitionState(state.leader_and_isr, state.controller_epoch, (), node.stat.mzxid)
        states[partition] = state
    return states, missing, unreadable


# ---- /controller, /controller_epoch


def encode_controller(broker_id: BrokerId, *, timestamp_ms: int) -> bytes:
    return _dump(
        {"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1}
    )


def decode_controller(data: bytes) -> BrokerId:
    return BrokerId(Fields(CONTROLLER, data, (1, 2)).integer("brokerid"))


def encode_controller_epoch(epoch: ControllerEpoch) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(data: bytes) -> ControllerEpoch:
    # Its successor stands in states, and must be one that can be read there.
    epoch = number_in(data.decode("latin-1"), LARGEST_EPOCH - 1)
    if epoch is None:
        raise Unreadable(
            CONTROLLER_EPOCH, f"expected a whole number as text, below {LARGEST_EPOCH}, found {data[:40]!r}"
        )
    return ControllerEpoch(epoch)


# ---- /config


def encode_config(config: Mapping[str, str]) -> bytes:
    return _dump({"version": 1, "config": dict(config)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """An empty node has no overrides: it stands there as the parent of others, e.g. of `<user>/clients`."""
    if not data:
        return {}
    return Fields(path, data, (1,)).text_map("config")


def encode_config_change(entity_path: str) -> bytes:
    return _dump({"version": 2, "entity_path": entity_path})


def decode_config_change(path: str, data: bytes) -> str:
    """The entity's path below `/config`, e.g. `topics/t` or `users/<u>/clients/<c>`. Versions 1 and 2."""
    fields = Fields(path, data, (1, 2))
    if fields.version == 1:
        return f"{fields.text('entity_type')}/{fields.text('entity_name')}"
    return fields.text("entity_path")


def check_entity(path: str, entity_path: str) -> None:
    """An announcement must name something below `/config`, or nobody could read it."""
    entity_type, _, entity_name = entity_path.partition("/")
    if entity_type not in CONFIG_TYPES or not all(entity_name.split("/")):
        raise Unreadable(
            path, f"expected type/name, the type one of {', '.join(CONFIG_TYPES)}; found {entity_path!r}"
        )
    try:
        check_path(config_path(entity_type, entity_name))
    except InvalidPath as error:
        raise Unreadable(path, str(error)) from None


# ---- /admin, notifications


def encode_reassignment(targets: Mapping[TopicPartition, Sequence[BrokerId]]) -> bytes:
    partitions = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
        for tp, replicas in targets.items()
    ]
    return _dump({"version": 1, "partitions": partitions})


def decode_reassignment(data: bytes) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    fields = Fields(REASSIGN_PARTITIONS, data, (1,))
    return {
        partition: fields.broker_ids(f"replicas of {partition}", item.get("replicas"))
        for partition, item in _partition_items(fields)
    }


def encode_partition_list(partitions: Iterable[TopicPartition]) -> bytes:
    """The value of `/admin/preferred_replica_election` and of an ISR change notification."""
    items = [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]
    return _dump({"version": 1, "partitions": items})


def decode_partition_list(path: str, data: bytes) -> tuple[TopicPartition, ...]:
    return tuple(partition for partition, _ in _partition_items(Fields(path, data, (1,))))


def _partition_items(fields: Fields) -> list[tuple[TopicPartition, dict[str, Any]]]:
    found = []
    for item in fields.items("partitions"):
        if not isinstance(item, dict) or not isinstance(item.get("topic"), str):
            raise fields.fail("partitions", "objects with topic and partition", item)
        found.append(
            (TopicPartition(item["topic"], fields.as_integer("partition", item.get("partition"))), item)
        )
    return found


def decode_isr_change(path: str, data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions whose states are to be read again. Each must be one that has a place in the tree."""
    partitions = decode_partition_list(path, data)
    for partition in partitions:
        problem = problem_with(partition.topic)
        if problem is not None:
            raise Unreadable(path, f"no name of a topic: {problem}")
    return partitions


def encode_log_dir_event(broker_id: BrokerId) -> bytes:
    return _dump({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes) -> BrokerId:
    return BrokerId(Fields(path, data, (1,)).integer("broker"))


# ---- /latest_producer_id_block, /cluster/id, /feature


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    return _dump(
        {
            "version": 1,
            "broker": block.broker,
            "block_start": str(block.block_start),
            "block_end": str(block.block_end),
        }
    )


def decode_producer_id_block(node: Node) -> ProducerIdBlock:
    """`block_end` is -1 while no block was given out: the node is there, empty, from the first start on."""
    if not node.data:
        return ProducerIdBlock(BrokerId(-1), -1, -1, node.stat.version)
    fields = Fields(PRODUCER_ID_BLOCK, node.data, (1,))
    try:
        first, last = int(fields.text("block_start")), int(fields.text("block_end"))
    except ValueError as error:
        raise Unreadable(PRODUCER_ID_BLOCK, str(error)) from None
    if not 0 <= first <= last:
        raise Unreadable(
            PRODUCER_ID_BLOCK, f"expected 0 <= block_start <= block_end, found {first} and {last}"
        )
    return ProducerIdBlock(BrokerId(fields.integer("broker")), first, last, node.stat.version)


def encode_cluster_id(cluster_id: str) -> bytes:
    return _dump({"version": "1", "id": cluster_id})  # the version is a text here


def decode_cluster_id(data: bytes) -> str:
    return Fields(CLUSTER_ID, data, (1,)).text("id")


def encode_feature(features: Mapping[str, int] | None = None) -> bytes:
    return _dump({"features": dict(features or {}), "version": 2, "status": 1})


def decode_feature(data: bytes) -> dict[str, int]:
    """By name the level in force. Version 1 kept a range, of which the upper end counts."""
    fields = Fields(FEATURE, data, (1, 2))
    levels = {}
    for name, level in fields.mapping("features").items():
        if isinstance(level, dict):
            level = level.get("max_version_level")
        levels[fields.as_text("features", name)] = fields.as_integer(name, level, bits=16)
    return levels
