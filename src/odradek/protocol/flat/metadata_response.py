"""MetadataResponse (key 3) as tuples, encoded 0-12.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/metadata.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable, Sequence
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
    topics: Sequence[MetadataResponseTopic] = (),
    cluster_authorized_operations: int = -2147483648,
) -> bytes:
    return _ENCODERS[version](throttle_time_ms, brokers, cluster_id, controller_id, topics, cluster_authorized_operations)


def _encode_0(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[MetadataResponseTopic], cluster_authorized_operations: int) -> bytes:
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
    for o8_error_code, o8_name, o8_topic_id, o8_is_internal, o8_partitions, o8_topic_authorized_operations in a6:
        assert o8_name is not None, 'name is null'
        b10 = o8_name.encode()
        n9 = len(b10)
        if n9 > 32767:
            raise unencodable('name', n9)
        parts.append(_pack_hh(o8_error_code, n9))
        parts.append(b10)
        a11 = o8_partitions
        n12 = len(a11)
        parts.append(_pack_i(n12))
        for o13_error_code, o13_partition_index, o13_leader_id, o13_leader_epoch, o13_replica_nodes, o13_isr_nodes, o13_offline_replicas in a11:
            sizes15 = (len(o13_replica_nodes), len(o13_isr_nodes))
            pack14, o13_b0, o13_b1 = _shapes_hii__.get(sizes15) or _shapes_hii__.make(sizes15)
            parts.append(pack14(o13_error_code, o13_partition_index, o13_leader_id, o13_b0, *o13_replica_nodes, o13_b1, *o13_isr_nodes))
    return b''.join(parts)


def _encode_1(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[MetadataResponseTopic], cluster_authorized_operations: int) -> bytes:
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
    for o10_error_code, o10_name, o10_topic_id, o10_is_internal, o10_partitions, o10_topic_authorized_operations in a8:
        assert o10_name is not None, 'name is null'
        b12 = o10_name.encode()
        n11 = len(b12)
        if n11 > 32767:
            raise unencodable('name', n11)
        parts.append(_pack_hh(o10_error_code, n11))
        parts.append(b12)
        a13 = o10_partitions
        n14 = len(a13)
        parts.append(_pack_oi(o10_is_internal, n14))
        for o15_error_code, o15_partition_index, o15_leader_id, o15_leader_epoch, o15_replica_nodes, o15_isr_nodes, o15_offline_replicas in a13:
            sizes17 = (len(o15_replica_nodes), len(o15_isr_nodes))
            pack16, o15_b0, o15_b1 = _shapes_hii__.get(sizes17) or _shapes_hii__.make(sizes17)
            parts.append(pack16(o15_error_code, o15_partition_index, o15_leader_id, o15_b0, *o15_replica_nodes, o15_b1, *o15_isr_nodes))
    return b''.join(parts)


def _encode_2(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[MetadataResponseTopic], cluster_authorized_operations: int) -> bytes:
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
    for o12_error_code, o12_name, o12_topic_id, o12_is_internal, o12_partitions, o12_topic_authorized_operations in a10:
        assert o12_name is not None, 'name is null'
        b14 = o12_name.encode()
        n13 = len(b14)
        if n13 > 32767:
            raise unencodable('name', n13)
        parts.append(_pack_hh(o12_error_code, n13))
        parts.append(b14)
        a15 = o12_partitions
        n16 = len(a15)
        parts.append(_pack_oi(o12_is_internal, n16))
        for o17_error_code, o17_partition_index, o17_leader_id, o17_leader_epoch, o17_replica_nodes, o17_isr_nodes, o17_offline_replicas in a15:
            sizes19 = (len(o17_replica_nodes), len(o17_isr_nodes))
            pack18, o17_b0, o17_b1 = _shapes_hii__.get(sizes19) or _shapes_hii__.make(sizes19)
            parts.append(pack18(o17_error_code, o17_partition_index, o17_leader_id, o17_b0, *o17_replica_nodes, o17_b1, *o17_isr_nodes))
    return b''.join(parts)


def _encode_3_to_4(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[MetadataResponseTopic], cluster_authorized_operations: int) -> bytes:
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
    for o12_error_code, o12_name, o12_topic_id, o12_is_internal, o12_partitions, o12_topic_authorized_operations in a10:
        assert o12_name is not None, 'name is null'
        b14 = o12_name.encode()
        n13 = len(b14)
        if n13 > 32767:
            raise unencodable('name', n13)
        parts.append(_pack_hh(o12_error_code, n13))
        parts.append(b14)
        a15 = o12_partitions
        n16 = len(a15)
        parts.append(_pack_oi(o12_is_internal, n16))
        for o17_error_code, o17_partition_index, o17_leader_id, o17_leader_epoch, o17_replica_nodes, o17_isr_nodes, o17_offline_replicas in a15:
            sizes19 = (len(o17_replica_nodes), len(o17_isr_nodes))
            pack18, o17_b0, o17_b1 = _shapes_hii__.get(sizes19) or _shapes_hii__.make(sizes19)
            parts.append(pack18(o17_error_code, o17_partition_index, o17_leader_id, o17_b0, *o17_replica_nodes, o17_b1, *o17_isr_nodes))
    return b''.join(parts)


def _encode_5_to_6(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[MetadataResponseTopic], cluster_authorized_operations: int) -> bytes:
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
    for o12_error_code, o12_name, o12_topic_id, o12_is_internal, o12_partitions, o12_topic_authorized_operations in a10:
        assert o12_name is not None, 'name is null'
        b14 = o12_name.encode()
        n13 = len(b14)
        if n13 > 32767:
            raise unencodable('name', n13)
        parts.append(_pack_hh(o12_error_code, n13))
        parts.append(b14)
        a15 = o12_partitions
        n16 = len(a15)
        parts.append(_pack_oi(o12_is_internal, n16))
        for o17_error_code, o17_partition_index, o17_leader_id, o17_leader_epoch, o17_replica_nodes, o17_isr_nodes, o17_offline_replicas in a15:
            sizes19 = (len(o17_replica_nodes), len(o17_isr_nodes), len(o17_offline_replicas))
            pack18, o17_b0, o17_b1, o17_b2 = _shapes_hii___.get(sizes19) or _shapes_hii___.make(sizes19)
            parts.append(pack18(o17_error_code, o17_partition_index, o17_leader_id, o17_b0, *o17_replica_nodes, o17_b1, *o17_isr_nodes, o17_b2, *o17_offline_replicas))
    return b''.join(parts)


def _encode_7(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[MetadataResponseTopic], cluster_authorized_operations: int) -> bytes:
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
    for o12_error_code, o12_name, o12_topic_id, o12_is_internal, o12_partitions, o12_topic_authorized_operations in a10:
        assert o12_name is not None, 'name is null'
        b14 = o12_name.encode()
        n13 = len(b14)
        if n13 > 32767:
            raise unencodable('name', n13)
        parts.append(_pack_hh(o12_error_code, n13))
        parts.append(b14)
        a15 = o12_partitions
        n16 = len(a15)
        parts.append(_pack_oi(o12_is_internal, n16))
        for o17_error_code, o17_partition_index, o17_leader_id, o17_leader_epoch, o17_replica_nodes, o17_isr_nodes, o17_offline_replicas in a15:
            sizes19 = (len(o17_replica_nodes), len(o17_isr_nodes), len(o17_offline_replicas))
            pack18, o17_b0, o17_b1, o17_b2 = _shapes_hiii___.get(sizes19) or _shapes_hiii___.make(sizes19)
            parts.append(pack18(o17_error_code, o17_partition_index, o17_leader_id, o17_leader_epoch, o17_b0, *o17_replica_nodes, o17_b1, *o17_isr_nodes, o17_b2, *o17_offline_replicas))
    return b''.join(parts)


def _encode_8(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[MetadataResponseTopic], cluster_authorized_operations: int) -> bytes:
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
    for o12_error_code, o12_name, o12_topic_id, o12_is_internal, o12_partitions, o12_topic_authorized_operations in a10:
        assert o12_name is not None, 'name is null'
        b14 = o12_name.encode()
        n13 = len(b14)
        if n13 > 32767:
            raise unencodable('name', n13)
        parts.append(_pack_hh(o12_error_code, n13))
        parts.append(b14)
        a15 = o12_partitions
        n16 = len(a15)
        parts.append(_pack_oi(o12_is_internal, n16))
        for o17_error_code, o17_partition_index, o17_leader_id, o17_leader_epoch, o17_replica_nodes, o17_isr_nodes, o17_offline_replicas in a15:
            sizes19 = (len(o17_replica_nodes), len(o17_isr_nodes), len(o17_offline_replicas))
            pack18, o17_b0, o17_b1, o17_b2 = _shapes_hiii___.get(sizes19) or _shapes_hiii___.make(sizes19)
            parts.append(pack18(o17_error_code, o17_partition_index, o17_leader_id, o17_leader_epoch, o17_b0, *o17_replica_nodes, o17_b1, *o17_isr_nodes, o17_b2, *o17_offline_replicas))
        parts.append(_pack_i(o12_topic_authorized_operations))
    parts.append(_pack_i(cluster_authorized_operations))
    return b''.join(parts)


def _encode_9(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[MetadataResponseTopic], cluster_authorized_operations: int) -> bytes:
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
    for o12_error_code, o12_name, o12_topic_id, o12_is_internal, o12_partitions, o12_topic_authorized_operations in a10:
        assert o12_name is not None, 'name is null'
        b14 = o12_name.encode()
        n13 = len(b14)
        if n13 > 32767:
            raise unencodable('name', n13)
        n13 += 1
        if n13 < 128:
            parts.append(_pack_hB(o12_error_code, n13))
        else:
            parts.append(_pack_h(o12_error_code))
            parts.append(uvarint(n13))
        parts.append(b14)
        a15 = o12_partitions
        n16 = len(a15)
        n16 += 1
        if n16 < 128:
            parts.append(_pack_oB(o12_is_internal, n16))
        else:
            parts.append(_pack_o(o12_is_internal))
            parts.append(uvarint(n16))
        for o17_error_code, o17_partition_index, o17_leader_id, o17_leader_epoch, o17_replica_nodes, o17_isr_nodes, o17_offline_replicas in a15:
            sizes19 = (len(o17_replica_nodes), len(o17_isr_nodes), len(o17_offline_replicas))
            pack18, o17_b0, o17_b1, o17_b2 = _shapes_hiii___x.get(sizes19) or _shapes_hiii___x.make(sizes19)
            parts.append(pack18(o17_error_code, o17_partition_index, o17_leader_id, o17_leader_epoch, o17_b0, *o17_replica_nodes, o17_b1, *o17_isr_nodes, o17_b2, *o17_offline_replicas))
        parts.append(_pack_ix(o12_topic_authorized_operations))
    parts.append(_pack_ix(cluster_authorized_operations))
    return b''.join(parts)


def _encode_10(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[MetadataResponseTopic], cluster_authorized_operations: int) -> bytes:
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
    for o12_error_code, o12_name, o12_topic_id, o12_is_internal, o12_partitions, o12_topic_authorized_operations in a10:
        assert o12_name is not None, 'name is null'
        b14 = o12_name.encode()
        n13 = len(b14)
        if n13 > 32767:
            raise unencodable('name', n13)
        n13 += 1
        if n13 < 128:
            parts.append(_pack_hB(o12_error_code, n13))
        else:
            parts.append(_pack_h(o12_error_code))
            parts.append(uvarint(n13))
        parts.append(b14)
        a15 = o12_partitions
        n16 = len(a15)
        n16 += 1
        if n16 < 128:
            parts.append(_pack_16soB(o12_topic_id, o12_is_internal, n16))
        else:
            parts.append(_pack_16so(o12_topic_id, o12_is_internal))
            parts.append(uvarint(n16))
        for o17_error_code, o17_partition_index, o17_leader_id, o17_leader_epoch, o17_replica_nodes, o17_isr_nodes, o17_offline_replicas in a15:
            sizes19 = (len(o17_replica_nodes), len(o17_isr_nodes), len(o17_offline_replicas))
            pack18, o17_b0, o17_b1, o17_b2 = _shapes_hiii___x.get(sizes19) or _shapes_hiii___x.make(sizes19)
            parts.append(pack18(o17_error_code, o17_partition_index, o17_leader_id, o17_leader_epoch, o17_b0, *o17_replica_nodes, o17_b1, *o17_isr_nodes, o17_b2, *o17_offline_replicas))
        parts.append(_pack_ix(o12_topic_authorized_operations))
    parts.append(_pack_ix(cluster_authorized_operations))
    return b''.join(parts)


def _encode_11(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[MetadataResponseTopic], cluster_authorized_operations: int) -> bytes:
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
    for o12_error_code, o12_name, o12_topic_id, o12_is_internal, o12_partitions, o12_topic_authorized_operations in a10:
        assert o12_name is not None, 'name is null'
        b14 = o12_name.encode()
        n13 = len(b14)
        if n13 > 32767:
            raise unencodable('name', n13)
        n13 += 1
        if n13 < 128:
            parts.append(_pack_hB(o12_error_code, n13))
        else:
            parts.append(_pack_h(o12_error_code))
            parts.append(uvarint(n13))
        parts.append(b14)
        a15 = o12_partitions
        n16 = len(a15)
        n16 += 1
        if n16 < 128:
            parts.append(_pack_16soB(o12_topic_id, o12_is_internal, n16))
        else:
            parts.append(_pack_16so(o12_topic_id, o12_is_internal))
            parts.append(uvarint(n16))
        for o17_error_code, o17_partition_index, o17_leader_id, o17_leader_epoch, o17_replica_nodes, o17_isr_nodes, o17_offline_replicas in a15:
            sizes19 = (len(o17_replica_nodes), len(o17_isr_nodes), len(o17_offline_replicas))
            pack18, o17_b0, o17_b1, o17_b2 = _shapes_hiii___x.get(sizes19) or _shapes_hiii___x.make(sizes19)
            parts.append(pack18(o17_error_code, o17_partition_index, o17_leader_id, o17_leader_epoch, o17_b0, *o17_replica_nodes, o17_b1, *o17_isr_nodes, o17_b2, *o17_offline_replicas))
        parts.append(_pack_ix(o12_topic_authorized_operations))
    parts.append(b'\x00')
    return b''.join(parts)


def _encode_12(throttle_time_ms: int, brokers: Sequence[MetadataResponseBroker], cluster_id: str | None, controller_id: int, topics: Sequence[MetadataResponseTopic], cluster_authorized_operations: int) -> bytes:
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
    for o12_error_code, o12_name, o12_topic_id, o12_is_internal, o12_partitions, o12_topic_authorized_operations in a10:
        if o12_name is None:
            b14 = b''
            n13 = -1
        else:
            b14 = o12_name.encode()
            n13 = len(b14)
        if n13 > 32767:
            raise unencodable('name', n13)
        n13 += 1
        if n13 < 128:
            parts.append(_pack_hB(o12_error_code, n13))
        else:
            parts.append(_pack_h(o12_error_code))
            parts.append(uvarint(n13))
        parts.append(b14)
        a15 = o12_partitions
        n16 = len(a15)
        n16 += 1
        if n16 < 128:
            parts.append(_pack_16soB(o12_topic_id, o12_is_internal, n16))
        else:
            parts.append(_pack_16so(o12_topic_id, o12_is_internal))
            parts.append(uvarint(n16))
        for o17_error_code, o17_partition_index, o17_leader_id, o17_leader_epoch, o17_replica_nodes, o17_isr_nodes, o17_offline_replicas in a15:
            sizes19 = (len(o17_replica_nodes), len(o17_isr_nodes), len(o17_offline_replicas))
            pack18, o17_b0, o17_b1, o17_b2 = _shapes_hiii___x.get(sizes19) or _shapes_hiii___x.make(sizes19)
            parts.append(pack18(o17_error_code, o17_partition_index, o17_leader_id, o17_leader_epoch, o17_b0, *o17_replica_nodes, o17_b1, *o17_isr_nodes, o17_b2, *o17_offline_replicas))
        parts.append(_pack_ix(o12_topic_authorized_operations))
    parts.append(b'\x00')
    return b''.join(parts)


_ENCODERS: dict[int, Callable[..., bytes]] = {
    0: _encode_0,
    1: _encode_1,
    2: _encode_2,
    3: _encode_3_to_4,
    4: _encode_3_to_4,
    5: _encode_5_to_6,
    6: _encode_5_to_6,
    7: _encode_7,
    8: _encode_8,
    9: _encode_9,
    10: _encode_10,
    11: _encode_11,
    12: _encode_12,
}
