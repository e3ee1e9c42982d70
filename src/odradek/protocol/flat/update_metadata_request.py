"""UpdateMetadataRequest (key 6) as tuples, encoded 8-8.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/update_metadata.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable, Iterable, Sequence
from struct import Struct, pack
from typing import Any

from odradek.protocol.primitives import UVARINTS, RowShapes, unencodable, uvarint


# partition_index, controller_epoch, leader, leader_epoch, isr, zk_version, replicas, offline_replicas
UpdateMetadataPartitionState = tuple[int, int, int, int, Sequence[int], int, Sequence[int], Sequence[int]]
# topic_name, topic_id, partition_states
UpdateMetadataTopicState = tuple[str, bytes, Sequence[bytes]]
# port, host, listener, security_protocol
UpdateMetadataEndpoint = tuple[int, str, str, int]
# id, endpoints, rack
UpdateMetadataBroker = tuple[int, Sequence[UpdateMetadataEndpoint], str | None]


_pack_16s = Struct(">16s").pack
_pack_16sB = Struct(">16sB").pack
_pack_b = Struct(">b").pack
_pack_hx = Struct(">hx").pack
_pack_i = Struct(">i").pack
_pack_iB = Struct(">iB").pack
_pack_ioiq = Struct(">i?iq").pack
_pack_ioiqB = Struct(">i?iqB").pack
_shapes_iiii_i__x = RowShapes(('iiii', 'i', '', 'x'), is_flexible=True)


def encode(
    version: int,
    controller_id: int = 0,
    is_k_raft_controller: bool = False,
    controller_epoch: int = 0,
    broker_epoch: int = -1,
    topic_states: Sequence[bytes] = (),
    live_brokers: Sequence[UpdateMetadataBroker] = (),
    type: int = 0,
) -> bytes:
    return _ENCODERS[version](controller_id, is_k_raft_controller, controller_epoch, broker_epoch, topic_states, live_brokers, type)


def _encode_8(controller_id: int, is_k_raft_controller: bool, controller_epoch: int, broker_epoch: int, topic_states: Sequence[bytes], live_brokers: Sequence[UpdateMetadataBroker], type: int) -> bytes:
    parts: list[Any] = []
    a1 = topic_states
    n2 = len(a1)
    n2 += 1
    if n2 < 128:
        parts.append(_pack_ioiqB(controller_id, is_k_raft_controller, controller_epoch, broker_epoch, n2))
    else:
        parts.append(_pack_ioiq(controller_id, is_k_raft_controller, controller_epoch, broker_epoch))
        parts.append(uvarint(n2))
    parts += a1
    a3 = live_brokers
    n4 = len(a3)
    n4 += 1
    parts.append(UVARINTS[n4] if n4 < 128 else uvarint(n4))
    for o5_id, o5_endpoints, o5_rack in a3:
        a6 = o5_endpoints
        n7 = len(a6)
        n7 += 1
        if n7 < 128:
            parts.append(_pack_iB(o5_id, n7))
        else:
            parts.append(_pack_i(o5_id))
            parts.append(uvarint(n7))
        for o8_port, o8_host, o8_listener, o8_security_protocol in a6:
            b10 = o8_host.encode()
            n9 = len(b10)
            if n9 > 32767:
                raise unencodable('host', n9)
            n9 += 1
            if n9 < 128:
                parts.append(_pack_iB(o8_port, n9))
            else:
                parts.append(_pack_i(o8_port))
                parts.append(uvarint(n9))
            parts.append(b10)
            b12 = o8_listener.encode()
            n11 = len(b12)
            if n11 > 32767:
                raise unencodable('listener', n11)
            n11 += 1
            parts.append(UVARINTS[n11] if n11 < 128 else uvarint(n11))
            parts.append(b12)
            parts.append(_pack_hx(o8_security_protocol))
        if o5_rack is None:
            b14 = b''
            n13 = -1
        else:
            b14 = o5_rack.encode()
            n13 = len(b14)
        if n13 > 32767:
            raise unencodable('rack', n13)
        n13 += 1
        parts.append(UVARINTS[n13] if n13 < 128 else uvarint(n13))
        parts.append(b14)
        parts.append(b'\x00')
    if type != 0:
        n15 = 0
        p16: list[Any] = []
        if type != 0:
            n15 += 1
            p17: list[Any] = []
            p17.append(_pack_b(type))
            b18 = b''.join(p17)
            p16 += (uvarint(0), uvarint(len(b18)), b18)
        parts.append(uvarint(n15))
        parts.append(b''.join(p16))
    else:
        parts.append(b'\x00')
    return b''.join(parts)


_ENCODERS: dict[int, Callable[..., bytes]] = {
    8: _encode_8,
}


def encode_update_metadata_topic_states(version: int, rows: Iterable[UpdateMetadataTopicState]) -> list[bytes]:
    """The bytes of each, for a message of this version."""
    return _UPDATE_METADATA_TOPIC_STATES[version](rows)


def _encode_update_metadata_topic_states_8(rows: Iterable[UpdateMetadataTopicState]) -> list[bytes]:
    parts: list[bytes] = []
    for o1_topic_name, o1_topic_id, o1_partition_states in rows:
        p2: list[Any] = []
        b4 = o1_topic_name.encode()
        n3 = len(b4)
        if n3 > 32767:
            raise unencodable('topicName', n3)
        n3 += 1
        p2.append(UVARINTS[n3] if n3 < 128 else uvarint(n3))
        p2.append(b4)
        a5 = o1_partition_states
        n6 = len(a5)
        n6 += 1
        if n6 < 128:
            p2.append(_pack_16sB(o1_topic_id, n6))
        else:
            p2.append(_pack_16s(o1_topic_id))
            p2.append(uvarint(n6))
        p2 += a5
        p2.append(b'\x00')
        parts.append(b''.join(p2))
    return parts


_UPDATE_METADATA_TOPIC_STATES: dict[int, Callable[[Iterable[UpdateMetadataTopicState]], list[bytes]]] = {
    8: _encode_update_metadata_topic_states_8,
}


def encode_update_metadata_partition_states(version: int, rows: Iterable[UpdateMetadataPartitionState]) -> list[bytes]:
    """The bytes of each, for a message of this version."""
    return _UPDATE_METADATA_PARTITION_STATES[version](rows)


def _encode_update_metadata_partition_states_8(rows: Iterable[UpdateMetadataPartitionState]) -> list[bytes]:
    parts: list[bytes] = []
    for o1_partition_index, o1_controller_epoch, o1_leader, o1_leader_epoch, o1_isr, o1_zk_version, o1_replicas, o1_offline_replicas in rows:
        sizes3 = (len(o1_isr), len(o1_replicas), len(o1_offline_replicas))
        pack2, o1_b0, o1_b1, o1_b2 = _shapes_iiii_i__x.get(sizes3) or _shapes_iiii_i__x.make(sizes3)
        parts.append(pack2(o1_partition_index, o1_controller_epoch, o1_leader, o1_leader_epoch, o1_b0, *o1_isr, o1_zk_version, o1_b1, *o1_replicas, o1_b2, *o1_offline_replicas))
    return parts


_UPDATE_METADATA_PARTITION_STATES: dict[int, Callable[[Iterable[UpdateMetadataPartitionState]], list[bytes]]] = {
    8: _encode_update_metadata_partition_states_8,
}
