"""MetadataResponse (key 3) as tuples, encoded 0-12.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/metadata.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable, Iterable, Sequence
from struct import Struct, pack
from typing import Any

from odradek.protocol.primitives import UVARINTS, RowShapes, unencodable, uvarint


# node_id, host, port, rack
MetadataResponseBroker = tuple[int, str, int, str | None]
# error_code, partition_index, leader_id, leader_epoch, replica_nodes, isr_nodes, offline_replicas
MetadataResponsePartition = tuple[int, int, int, int, Sequence[int], Sequence[int], Sequence[int]]
# error_code, name, topic_id, is_internal, partitions, topic_authorized_operations
MetadataResponseTopic = tuple[int, str | None, bytes, bool, Sequence[MetadataResponsePartition], int]


_pack_16so = Struct(">16s?").pack
_pack_16soB = Struct(">16s?B").pack
_pack_h = Struct(">h").pack
_pack_hB = Struct(">hB").pack
_pack_hh = Struct(">hh").pack
_pack_i = Struct(">i").pack
_pack_iB = Struct(">iB").pack
_pack_ih = Struct(">ih").pack
_pack_ii = Struct(">ii").pack
_pack_ix = Struct(">ix").pack
_pack_o = Struct(">?").pack
_pack_oB = Struct(">?B").pack
_pack_oi = Struct(">?i").pack
_shapes_hii__ = RowShapes(('hii', '', ''), is_flexible=False)
_shapes_hii___ = RowShapes(('hii', '', '', ''), is_flexible=False)
_shapes_hiii___ = RowShapes(('hiii', '', '', ''), is_flexible=False)
_shapes_hiii___x = RowShapes(('hiii', '', '', 'x'), is_flexible=True)


def encode(
    version: int,
    throttle_time_ms: int = 0,
    brokers: Sequence[MetadataResponseBroker] = (),
    cluster_id: str | None = None,
    controller_id: int = -1,
    topics: Sequence[bytes] = (),
    cluster_authorized_operations: int = -2147483648,
) -> bytes:
    return _ENCODERS[version](throttle_time_ms, brokers, cluster_id, controller_id, topics, cluster_authorized_operations)


def _encode_0(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[bytes], cluster_authorized_operations: int) -> bytes:
    parts: list[Any] = []
    a1 = brokers
    n2 = len(a1)
    parts.append(_pack_i(n2))
    for o3_node_id, o3_host, o3_port, o3_rack in a1:
        b5 = o3_host.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('host', n4)
        parts.append(_pack_ih(o3_node_id, n4))
        parts.append(b5)
        parts.append(_pack_i(o3_port))
    a6 = topics
    n7 = len(a6)
    parts.append(_pack_i(n7))
    parts += a6
    return b''.join(parts)


def _encode_1(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[bytes], cluster_authorized_operations: int) -> bytes:
    parts: list[Any] = []
    a1 = brokers
    n2 = len(a1)
    parts.append(_pack_i(n2))
    for o3_node_id, o3_host, o3_port, o3_rack in a1:
        b5 = o3_host.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('host', n4)
        parts.append(_pack_ih(o3_node_id, n4))
        parts.append(b5)
        if o3_rack is None:
            b7 = b''
            n6 = -1
        else:
            b7 = o3_rack.encode()
            n6 = len(b7)
        if n6 > 32767:
            raise unencodable('rack', n6)
        parts.append(_pack_ih(o3_port, n6))
        parts.append(b7)
    a8 = topics
    n9 = len(a8)
    parts.append(_pack_ii(controller_id, n9))
    parts += a8
    return b''.join(parts)


def _encode_2(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[bytes], cluster_authorized_operations: int) -> bytes:
    parts: list[Any] = []
    a1 = brokers
    n2 = len(a1)
    parts.append(_pack_i(n2))
    for o3_node_id, o3_host, o3_port, o3_rack in a1:
        b5 = o3_host.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('host', n4)
        parts.append(_pack_ih(o3_node_id, n4))
        parts.append(b5)
        if o3_rack is None:
            b7 = b''
            n6 = -1
        else:
            b7 = o3_rack.encode()
            n6 = len(b7)
        if n6 > 32767:
            raise unencodable('rack', n6)
        parts.append(_pack_ih(o3_port, n6))
        parts.append(b7)
    if cluster_id is None:
        b9 = b''
        n8 = -1
    else:
        b9 = cluster_id.encode()
        n8 = len(b9)
    if n8 > 32767:
        raise unencodable('clusterId', n8)
    parts.append(_pack_h(n8))
    parts.append(b9)
    a10 = topics
    n11 = len(a10)
    parts.append(_pack_ii(controller_id, n11))
    parts += a10
    return b''.join(parts)


def _encode_3_to_7(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[bytes], cluster_authorized_operations: int) -> bytes:
    parts: list[Any] = []
    a1 = brokers
    n2 = len(a1)
    parts.append(_pack_ii(throttle_time_ms, n2))
    for o3_node_id, o3_host, o3_port, o3_rack in a1:
        b5 = o3_host.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('host', n4)
        parts.append(_pack_ih(o3_node_id, n4))
        parts.append(b5)
        if o3_rack is None:
            b7 = b''
            n6 = -1
        else:
            b7 = o3_rack.encode()
            n6 = len(b7)
        if n6 > 32767:
            raise unencodable('rack', n6)
        parts.append(_pack_ih(o3_port, n6))
        parts.append(b7)
    if cluster_id is None:
        b9 = b''
        n8 = -1
    else:
        b9 = cluster_id.encode()
        n8 = len(b9)
    if n8 > 32767:
        raise unencodable('clusterId', n8)
    parts.append(_pack_h(n8))
    parts.append(b9)
    a10 = topics
    n11 = len(a10)
    parts.append(_pack_ii(controller_id, n11))
    parts += a10
    return b''.join(parts)


def _encode_8(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[bytes], cluster_authorized_operations: int) -> bytes:
    parts: list[Any] = []
    a1 = brokers
    n2 = len(a1)
    parts.append(_pack_ii(throttle_time_ms, n2))
    for o3_node_id, o3_host, o3_port, o3_rack in a1:
        b5 = o3_host.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('host', n4)
        parts.append(_pack_ih(o3_node_id, n4))
        parts.append(b5)
        if o3_rack is None:
            b7 = b''
            n6 = -1
        else:
            b7 = o3_rack.encode()
            n6 = len(b7)
        if n6 > 32767:
            raise unencodable('rack', n6)
        parts.append(_pack_ih(o3_port, n6))
        parts.append(b7)
    if cluster_id is None:
        b9 = b''
        n8 = -1
    else:
        b9 = cluster_id.encode()
        n8 = len(b9)
    if n8 > 32767:
        raise unencodable('clusterId', n8)
    parts.append(_pack_h(n8))
    parts.append(b9)
    a10 = topics
    n11 = len(a10)
    parts.append(_pack_ii(controller_id, n11))
    parts += a10
    parts.append(_pack_i(cluster_authorized_operations))
    return b''.join(parts)


def _encode_9_to_10(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[bytes], cluster_authorized_operations: int) -> bytes:
    parts: list[Any] = []
    a1 = brokers
    n2 = len(a1)
    n2 += 1
    if n2 < 128:
        parts.append(_pack_iB(throttle_time_ms, n2))
    else:
        parts.append(_pack_i(throttle_time_ms))
        parts.append(uvarint(n2))
    for o3_node_id, o3_host, o3_port, o3_rack in a1:
        b5 = o3_host.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('host', n4)
        n4 += 1
        if n4 < 128:
            parts.append(_pack_iB(o3_node_id, n4))
        else:
            parts.append(_pack_i(o3_node_id))
            parts.append(uvarint(n4))
        parts.append(b5)
        if o3_rack is None:
            b7 = b''
            n6 = -1
        else:
            b7 = o3_rack.encode()
            n6 = len(b7)
        if n6 > 32767:
            raise unencodable('rack', n6)
        n6 += 1
        if n6 < 128:
            parts.append(_pack_iB(o3_port, n6))
        else:
            parts.append(_pack_i(o3_port))
            parts.append(uvarint(n6))
        parts.append(b7)
        parts.append(b'\x00')
    if cluster_id is None:
        b9 = b''
        n8 = -1
    else:
        b9 = cluster_id.encode()
        n8 = len(b9)
    if n8 > 32767:
        raise unencodable('clusterId', n8)
    n8 += 1
    parts.append(UVARINTS[n8] if n8 < 128 else uvarint(n8))
    parts.append(b9)
    a10 = topics
    n11 = len(a10)
    n11 += 1
    if n11 < 128:
        parts.append(_pack_iB(controller_id, n11))
    else:
        parts.append(_pack_i(controller_id))
        parts.append(uvarint(n11))
    parts += a10
    parts.append(_pack_ix(cluster_authorized_operations))
    return b''.join(parts)


def _encode_11_to_12(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[bytes], cluster_authorized_operations: int) -> bytes:
    parts: list[Any] = []
    a1 = brokers
    n2 = len(a1)
    n2 += 1
    if n2 < 128:
        parts.append(_pack_iB(throttle_time_ms, n2))
    else:
        parts.append(_pack_i(throttle_time_ms))
        parts.append(uvarint(n2))
    for o3_node_id, o3_host, o3_port, o3_rack in a1:
        b5 = o3_host.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('host', n4)
        n4 += 1
        if n4 < 128:
            parts.append(_pack_iB(o3_node_id, n4))
        else:
            parts.append(_pack_i(o3_node_id))
            parts.append(uvarint(n4))
        parts.append(b5)
        if o3_rack is None:
            b7 = b''
            n6 = -1
        else:
            b7 = o3_rack.encode()
            n6 = len(b7)
        if n6 > 32767:
            raise unencodable('rack', n6)
        n6 += 1
        if n6 < 128:
            parts.append(_pack_iB(o3_port, n6))
        else:
            parts.append(_pack_i(o3_port))
            parts.append(uvarint(n6))
        parts.append(b7)
        parts.append(b'\x00')
    if cluster_id is None:
        b9 = b''
        n8 = -1
    else:
        b9 = cluster_id.encode()
        n8 = len(b9)
    if n8 > 32767:
        raise unencodable('clusterId', n8)
    n8 += 1
    parts.append(UVARINTS[n8] if n8 < 128 else uvarint(n8))
    parts.append(b9)
    a10 = topics
    n11 = len(a10)
    n11 += 1
    if n11 < 128:
        parts.append(_pack_iB(controller_id, n11))
    else:
        parts.append(_pack_i(controller_id))
        parts.append(uvarint(n11))
    parts += a10
    parts.append(b'\x00')
    return b''.join(parts)


_ENCODERS: dict[int, Callable[..., bytes]] = {
    0: _encode_0,
    1: _encode_1,
    2: _encode_2,
    3: _encode_3_to_7,
    4: _encode_3_to_7,
    5: _encode_3_to_7,
    6: _encode_3_to_7,
    7: _encode_3_to_7,
    8: _encode_8,
    9: _encode_9_to_10,
    10: _encode_9_to_10,
    11: _encode_11_to_12,
    12: _encode_11_to_12,
}


def encode_metadata_response_topics(version: int, rows: Iterable[MetadataResponseTopic]) -> list[bytes]:
    """The bytes of each, for a message of this version."""
    return _METADATA_RESPONSE_TOPICS[version](rows)


def _encode_metadata_response_topics_0(rows: Iterable[MetadataResponseTopic]) -> list[bytes]:
    parts: list[bytes] = []
    for o1_error_code, o1_name, o1_topic_id, o1_is_internal, o1_partitions, o1_topic_authorized_operations in rows:
        p2: list[Any] = []
        assert o1_name is not None, 'name is null'
        b4 = o1_name.encode()
        n3 = len(b4)
        if n3 > 32767:
            raise unencodable('name', n3)
        p2.append(_pack_hh(o1_error_code, n3))
        p2.append(b4)
        a5 = o1_partitions
        n6 = len(a5)
        p2.append(_pack_i(n6))
        for o7_error_code, o7_partition_index, o7_leader_id, o7_leader_epoch, o7_replica_nodes, o7_isr_nodes, o7_offline_replicas in a5:
            sizes9 = (len(o7_replica_nodes), len(o7_isr_nodes))
            pack8, o7_b0, o7_b1 = _shapes_hii__.get(sizes9) or _shapes_hii__.make(sizes9)
            p2.append(pack8(o7_error_code, o7_partition_index, o7_leader_id, o7_b0, *o7_replica_nodes, o7_b1, *o7_isr_nodes))
        parts.append(b''.join(p2))
    return parts


def _encode_metadata_response_topics_1_to_4(rows: Iterable[MetadataResponseTopic]) -> list[bytes]:
    parts: list[bytes] = []
    for o1_error_code, o1_name, o1_topic_id, o1_is_internal, o1_partitions, o1_topic_authorized_operations in rows:
        p2: list[Any] = []
        assert o1_name is not None, 'name is null'
        b4 = o1_name.encode()
        n3 = len(b4)
        if n3 > 32767:
            raise unencodable('name', n3)
        p2.append(_pack_hh(o1_error_code, n3))
        p2.append(b4)
        a5 = o1_partitions
        n6 = len(a5)
        p2.append(_pack_oi(o1_is_internal, n6))
        for o7_error_code, o7_partition_index, o7_leader_id, o7_leader_epoch, o7_replica_nodes, o7_isr_nodes, o7_offline_replicas in a5:
            sizes9 = (len(o7_replica_nodes), len(o7_isr_nodes))
            pack8, o7_b0, o7_b1 = _shapes_hii__.get(sizes9) or _shapes_hii__.make(sizes9)
            p2.append(pack8(o7_error_code, o7_partition_index, o7_leader_id, o7_b0, *o7_replica_nodes, o7_b1, *o7_isr_nodes))
        parts.append(b''.join(p2))
    return parts


def _encode_metadata_response_topics_5_to_6(rows: Iterable[MetadataResponseTopic]) -> list[bytes]:
    parts: list[bytes] = []
    for o1_error_code, o1_name, o1_topic_id, o1_is_internal, o1_partitions, o1_topic_authorized_operations in rows:
        p2: list[Any] = []
        assert o1_name is not None, 'name is null'
        b4 = o1_name.encode()
        n3 = len(b4)
        if n3 > 32767:
            raise unencodable('name', n3)
        p2.append(_pack_hh(o1_error_code, n3))
        p2.append(b4)
        a5 = o1_partitions
        n6 = len(a5)
        p2.append(_pack_oi(o1_is_internal, n6))
        for o7_error_code, o7_partition_index, o7_leader_id, o7_leader_epoch, o7_replica_nodes, o7_isr_nodes, o7_offline_replicas in a5:
            sizes9 = (len(o7_replica_nodes), len(o7_isr_nodes), len(o7_offline_replicas))
            pack8, o7_b0, o7_b1, o7_b2 = _shapes_hii___.get(sizes9) or _shapes_hii___.make(sizes9)
            p2.append(pack8(o7_error_code, o7_partition_index, o7_leader_id, o7_b0, *o7_replica_nodes, o7_b1, *o7_isr_nodes, o7_b2, *o7_offline_replicas))
        parts.append(b''.join(p2))
    return parts


def _encode_metadata_response_topics_7(rows: Iterable[MetadataResponseTopic]) -> list[bytes]:
    parts: list[bytes] = []
    for o1_error_code, o1_name, o1_topic_id, o1_is_internal, o1_partitions, o1_topic_authorized_operations in rows:
        p2: list[Any] = []
        assert o1_name is not None, 'name is null'
        b4 = o1_name.encode()
        n3 = len(b4)
        if n3 > 32767:
            raise unencodable('name', n3)
        p2.append(_pack_hh(o1_error_code, n3))
        p2.append(b4)
        a5 = o1_partitions
        n6 = len(a5)
        p2.append(_pack_oi(o1_is_internal, n6))
        for o7_error_code, o7_partition_index, o7_leader_id, o7_leader_epoch, o7_replica_nodes, o7_isr_nodes, o7_offline_replicas in a5:
            sizes9 = (len(o7_replica_nodes), len(o7_isr_nodes), len(o7_offline_replicas))
            pack8, o7_b0, o7_b1, o7_b2 = _shapes_hiii___.get(sizes9) or _shapes_hiii___.make(sizes9)
            p2.append(pack8(o7_error_code, o7_partition_index, o7_leader_id, o7_leader_epoch, o7_b0, *o7_replica_nodes, o7_b1, *o7_isr_nodes, o7_b2, *o7_offline_replicas))
        parts.append(b''.join(p2))
    return parts


def _encode_metadata_response_topics_8(rows: Iterable[MetadataResponseTopic]) -> list[bytes]:
    parts: list[bytes] = []
    for o1_error_code, o1_name, o1_topic_id, o1_is_internal, o1_partitions, o1_topic_authorized_operations in rows:
        p2: list[Any] = []
        assert o1_name is not None, 'name is null'
        b4 = o1_name.encode()
        n3 = len(b4)
        if n3 > 32767:
            raise unencodable('name', n3)
        p2.append(_pack_hh(o1_error_code, n3))
        p2.append(b4)
        a5 = o1_partitions
        n6 = len(a5)
        p2.append(_pack_oi(o1_is_internal, n6))
        for o7_error_code, o7_partition_index, o7_leader_id, o7_leader_epoch, o7_replica_nodes, o7_isr_nodes, o7_offline_replicas in a5:
            sizes9 = (len(o7_replica_nodes), len(o7_isr_nodes), len(o7_offline_replicas))
            pack8, o7_b0, o7_b1, o7_b2 = _shapes_hiii___.get(sizes9) or _shapes_hiii___.make(sizes9)
            p2.append(pack8(o7_error_code, o7_partition_index, o7_leader_id, o7_leader_epoch, o7_b0, *o7_replica_nodes, o7_b1, *o7_isr_nodes, o7_b2, *o7_offline_replicas))
        p2.append(_pack_i(o1_topic_authorized_operations))
        parts.append(b''.join(p2))
    return parts


def _encode_metadata_response_topics_9(rows: Iterable[MetadataResponseTopic]) -> list[bytes]:
    parts: list[bytes] = []
    for o1_error_code, o1_name, o1_topic_id, o1_is_internal, o1_partitions, o1_topic_authorized_operations in rows:
        p2: list[Any] = []
        assert o1_name is not None, 'name is null'
        b4 = o1_name.encode()
        n3 = len(b4)
        if n3 > 32767:
            raise unencodable('name', n3)
        n3 += 1
        if n3 < 128:
            p2.append(_pack_hB(o1_error_code, n3))
        else:
            p2.append(_pack_h(o1_error_code))
            p2.append(uvarint(n3))
        p2.append(b4)
        a5 = o1_partitions
        n6 = len(a5)
        n6 += 1
        if n6 < 128:
            p2.append(_pack_oB(o1_is_internal, n6))
        else:
            p2.append(_pack_o(o1_is_internal))
            p2.append(uvarint(n6))
        for o7_error_code, o7_partition_index, o7_leader_id, o7_leader_epoch, o7_replica_nodes, o7_isr_nodes, o7_offline_replicas in a5:
            sizes9 = (len(o7_replica_nodes), len(o7_isr_nodes), len(o7_offline_replicas))
            pack8, o7_b0, o7_b1, o7_b2 = _shapes_hiii___x.get(sizes9) or _shapes_hiii___x.make(sizes9)
            p2.append(pack8(o7_error_code, o7_partition_index, o7_leader_id, o7_leader_epoch, o7_b0, *o7_replica_nodes, o7_b1, *o7_isr_nodes, o7_b2, *o7_offline_replicas))
        p2.append(_pack_ix(o1_topic_authorized_operations))
        parts.append(b''.join(p2))
    return parts


def _encode_metadata_response_topics_10_to_11(rows: Iterable[MetadataResponseTopic]) -> list[bytes]:
    parts: list[bytes] = []
    for o1_error_code, o1_name, o1_topic_id, o1_is_internal, o1_partitions, o1_topic_authorized_operations in rows:
        p2: list[Any] = []
        assert o1_name is not None, 'name is null'
        b4 = o1_name.encode()
        n3 = len(b4)
        if n3 > 32767:
            raise unencodable('name', n3)
        n3 += 1
        if n3 < 128:
            p2.append(_pack_hB(o1_error_code, n3))
        else:
            p2.append(_pack_h(o1_error_code))
            p2.append(uvarint(n3))
        p2.append(b4)
        a5 = o1_partitions
        n6 = len(a5)
        n6 += 1
        if n6 < 128:
            p2.append(_pack_16soB(o1_topic_id, o1_is_internal, n6))
        else:
            p2.append(_pack_16so(o1_topic_id, o1_is_internal))
            p2.append(uvarint(n6))
        for o7_error_code, o7_partition_index, o7_leader_id, o7_leader_epoch, o7_replica_nodes, o7_isr_nodes, o7_offline_replicas in a5:
            sizes9 = (len(o7_replica_nodes), len(o7_isr_nodes), len(o7_offline_replicas))
            pack8, o7_b0, o7_b1, o7_b2 = _shapes_hiii___x.get(sizes9) or _shapes_hiii___x.make(sizes9)
            p2.append(pack8(o7_error_code, o7_partition_index, o7_leader_id, o7_leader_epoch, o7_b0, *o7_replica_nodes, o7_b1, *o7_isr_nodes, o7_b2, *o7_offline_replicas))
        p2.append(_pack_ix(o1_topic_authorized_operations))
        parts.append(b''.join(p2))
    return parts


def _encode_metadata_response_topics_12(rows: Iterable[MetadataResponseTopic]) -> list[bytes]:
    parts: list[bytes] = []
    for o1_error_code, o1_name, o1_topic_id, o1_is_internal, o1_partitions, o1_topic_authorized_operations in rows:
        p2: list[Any] = []
        if o1_name is None:
            b4 = b''
            n3 = -1
        else:
            b4 = o1_name.encode()
            n3 = len(b4)
        if n3 > 32767:
            raise unencodable('name', n3)
        n3 += 1
        if n3 < 128:
            p2.append(_pack_hB(o1_error_code, n3))
        else:
            p2.append(_pack_h(o1_error_code))
            p2.append(uvarint(n3))
        p2.append(b4)
        a5 = o1_partitions
        n6 = len(a5)
        n6 += 1
        if n6 < 128:
            p2.append(_pack_16soB(o1_topic_id, o1_is_internal, n6))
        else:
            p2.append(_pack_16so(o1_topic_id, o1_is_internal))
            p2.append(uvarint(n6))
        for o7_error_code, o7_partition_index, o7_leader_id, o7_leader_epoch, o7_replica_nodes, o7_isr_nodes, o7_offline_replicas in a5:
            sizes9 = (len(o7_replica_nodes), len(o7_isr_nodes), len(o7_offline_replicas))
            pack8, o7_b0, o7_b1, o7_b2 = _shapes_hiii___x.get(sizes9) or _shapes_hiii___x.make(sizes9)
            p2.append(pack8(o7_error_code, o7_partition_index, o7_leader_id, o7_leader_epoch, o7_b0, *o7_replica_nodes, o7_b1, *o7_isr_nodes, o7_b2, *o7_offline_replicas))
        p2.append(_pack_ix(o1_topic_authorized_operations))
        parts.append(b''.join(p2))
    return parts


_METADATA_RESPONSE_TOPICS: dict[int, Callable[[Iterable[MetadataResponseTopic]], list[bytes]]] = {
    0: _encode_metadata_response_topics_0,
    1: _encode_metadata_response_topics_1_to_4,
    2: _encode_metadata_response_topics_1_to_4,
    3: _encode_metadata_response_topics_1_to_4,
    4: _encode_metadata_response_topics_1_to_4,
    5: _encode_metadata_response_topics_5_to_6,
    6: _encode_metadata_response_topics_5_to_6,
    7: _encode_metadata_response_topics_7,
    8: _encode_metadata_response_topics_8,
    9: _encode_metadata_response_topics_9,
    10: _encode_metadata_response_topics_10_to_11,
    11: _encode_metadata_response_topics_10_to_11,
    12: _encode_metadata_response_topics_12,
}
