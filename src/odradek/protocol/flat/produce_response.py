"""ProduceResponse (key 0) as tuples, encoded 3-12.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/produce.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable, Sequence
from struct import Struct, pack
from typing import Any

from odradek.protocol.primitives import UVARINTS, message_bytes, unencodable, uvarint


# batch_index, batch_index_error_message
BatchIndexAndErrorMessage = tuple[int, str | None]
# leader_id, leader_epoch
LeaderIdAndEpoch = tuple[int, int]
# index, error_code, base_offset, log_append_time_ms, log_start_offset, record_errors, error_message, current_leader
PartitionProduceResponse = tuple[int, int, int, int, int, Sequence[BatchIndexAndErrorMessage], str | None, LeaderIdAndEpoch | None]
# name, partition_responses
TopicProduceResponse = tuple[str, Sequence[PartitionProduceResponse]]
# node_id, host, port, rack
NodeEndpoint = tuple[int, str, int, str | None]


_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_iB = Struct(">iB").pack
_pack_ih = Struct(">ih").pack
_pack_ihqq = Struct(">ihqq").pack
_pack_ihqqq = Struct(">ihqqq").pack
_pack_ihqqqB = Struct(">ihqqqB").pack
_pack_ihqqqBBx = Struct(">ihqqqBBx").pack
_pack_ihqqqi = Struct(">ihqqqi").pack
_pack_ihqqqih = Struct(">ihqqqih").pack
_pack_iix = Struct(">iix").pack
_pack_ix = Struct(">ix").pack


def encode(
    version: int,
    responses: Sequence[TopicProduceResponse] = (),
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    return _ENCODERS[version](responses, throttle_time_ms, node_endpoints)


def _encode_3_to_4(responses: Sequence[TopicProduceResponse], throttle_time_ms: int, node_endpoints: Sequence[NodeEndpoint]) -> bytes:
    parts: list[Any] = []
    a1 = responses
    n2 = len(a1)
    parts.append(_pack_i(n2))
    for o3_name, o3_partition_responses in a1:
        b5 = o3_name.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('name', n4)
        parts.append(_pack_h(n4))
        parts.append(b5)
        a6 = o3_partition_responses
        n7 = len(a6)
        parts.append(_pack_i(n7))
        for o8_index, o8_error_code, o8_base_offset, o8_log_append_time_ms, o8_log_start_offset, o8_record_errors, o8_error_message, o8_current_leader in a6:
            parts.append(_pack_ihqq(o8_index, o8_error_code, o8_base_offset, o8_log_append_time_ms))
    parts.append(_pack_i(throttle_time_ms))
    return b''.join(parts)


def _encode_5_to_7(responses: Sequence[TopicProduceResponse], throttle_time_ms: int, node_endpoints: Sequence[NodeEndpoint]) -> bytes:
    parts: list[Any] = []
    a1 = responses
    n2 = len(a1)
    parts.append(_pack_i(n2))
    for o3_name, o3_partition_responses in a1:
        b5 = o3_name.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('name', n4)
        parts.append(_pack_h(n4))
        parts.append(b5)
        a6 = o3_partition_responses
        n7 = len(a6)
        parts.append(_pack_i(n7))
        for o8_index, o8_error_code, o8_base_offset, o8_log_append_time_ms, o8_log_start_offset, o8_record_errors, o8_error_message, o8_current_leader in a6:
            parts.append(_pack_ihqqq(o8_index, o8_error_code, o8_base_offset, o8_log_append_time_ms, o8_log_start_offset))
    parts.append(_pack_i(throttle_time_ms))
    return b''.join(parts)


def _encode_8(responses: Sequence[TopicProduceResponse], throttle_time_ms: int, node_endpoints: Sequence[NodeEndpoint]) -> bytes:
    parts: list[Any] = []
    a1 = responses
    n2 = len(a1)
    parts.append(_pack_i(n2))
    for o3_name, o3_partition_responses in a1:
        b5 = o3_name.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('name', n4)
        parts.append(_pack_h(n4))
        parts.append(b5)
        a6 = o3_partition_responses
        n7 = len(a6)
        parts.append(_pack_i(n7))
        for o8_index, o8_error_code, o8_base_offset, o8_log_append_time_ms, o8_log_start_offset, o8_record_errors, o8_error_message, o8_current_leader in a6:
            if not o8_record_errors and o8_error_message is None:
                parts.append(_pack_ihqqqih(o8_index, o8_error_code, o8_base_offset, o8_log_append_time_ms, o8_log_start_offset, 0, -1))
            else:
                a9 = o8_record_errors
                n10 = len(a9)
                parts.append(_pack_ihqqqi(o8_index, o8_error_code, o8_base_offset, o8_log_append_time_ms, o8_log_start_offset, n10))
                for o11_batch_index, o11_batch_index_error_message in a9:
                    if o11_batch_index_error_message is None:
                        b13 = b''
                        n12 = -1
                    else:
                        b13 = message_bytes(o11_batch_index_error_message)
                        n12 = len(b13)
                    parts.append(_pack_ih(o11_batch_index, n12))
                    parts.append(b13)
                if o8_error_message is None:
                    b15 = b''
                    n14 = -1
                else:
                    b15 = message_bytes(o8_error_message)
                    n14 = len(b15)
                parts.append(_pack_h(n14))
                parts.append(b15)
    parts.append(_pack_i(throttle_time_ms))
    return b''.join(parts)


def _encode_9(responses: Sequence[TopicProduceResponse], throttle_time_ms: int, node_endpoints: Sequence[NodeEndpoint]) -> bytes:
    parts: list[Any] = []
    a1 = responses
    n2 = len(a1)
    n2 += 1
    parts.append(UVARINTS[n2] if n2 < 128 else uvarint(n2))
    for o3_name, o3_partition_responses in a1:
        b5 = o3_name.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('name', n4)
        n4 += 1
        parts.append(UVARINTS[n4] if n4 < 128 else uvarint(n4))
        parts.append(b5)
        a6 = o3_partition_responses
        n7 = len(a6)
        n7 += 1
        parts.append(UVARINTS[n7] if n7 < 128 else uvarint(n7))
        for o8_index, o8_error_code, o8_base_offset, o8_log_append_time_ms, o8_log_start_offset, o8_record_errors, o8_error_message, o8_current_leader in a6:
            if not o8_record_errors and o8_error_message is None:
                parts.append(_pack_ihqqqBBx(o8_index, o8_error_code, o8_base_offset, o8_log_append_time_ms, o8_log_start_offset, 1, 0))
            else:
                a9 = o8_record_errors
                n10 = len(a9)
                n10 += 1
                if n10 < 128:
                    parts.append(_pack_ihqqqB(o8_index, o8_error_code, o8_base_offset, o8_log_append_time_ms, o8_log_start_offset, n10))
                else:
                    parts.append(_pack_ihqqq(o8_index, o8_error_code, o8_base_offset, o8_log_append_time_ms, o8_log_start_offset))
                    parts.append(uvarint(n10))
                for o11_batch_index, o11_batch_index_error_message in a9:
                    if o11_batch_index_error_message is None:
                        b13 = b''
                        n12 = -1
                    else:
                        b13 = message_bytes(o11_batch_index_error_message)
                        n12 = len(b13)
                    n12 += 1
                    if n12 < 128:
                        parts.append(_pack_iB(o11_batch_index, n12))
                    else:
                        parts.append(_pack_i(o11_batch_index))
                        parts.append(uvarint(n12))
                    parts.append(b13)
                    parts.append(b'\x00')
                if o8_error_message is None:
                    b15 = b''
                    n14 = -1
                else:
                    b15 = message_bytes(o8_error_message)
                    n14 = len(b15)
                n14 += 1
                parts.append(UVARINTS[n14] if n14 < 128 else uvarint(n14))
                parts.append(b15)
                parts.append(b'\x00')
        parts.append(b'\x00')
    parts.append(_pack_ix(throttle_time_ms))
    return b''.join(parts)


def _encode_10_to_12(responses: Sequence[TopicProduceResponse], throttle_time_ms: int, node_endpoints: Sequence[NodeEndpoint]) -> bytes:
    parts: list[Any] = []
    a1 = responses
    n2 = len(a1)
    n2 += 1
    parts.append(UVARINTS[n2] if n2 < 128 else uvarint(n2))
    for o3_name, o3_partition_responses in a1:
        b5 = o3_name.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('name', n4)
        n4 += 1
        parts.append(UVARINTS[n4] if n4 < 128 else uvarint(n4))
        parts.append(b5)
        a6 = o3_partition_responses
        n7 = len(a6)
        n7 += 1
        parts.append(UVARINTS[n7] if n7 < 128 else uvarint(n7))
        for o8_index, o8_error_code, o8_base_offset, o8_log_append_time_ms, o8_log_start_offset, o8_record_errors, o8_error_message, o8_current_leader in a6:
            if not o8_record_errors and o8_error_message is None and not ((o8_current_leader is not None and o8_current_leader != (-1, -1))):
                parts.append(_pack_ihqqqBBx(o8_index, o8_error_code, o8_base_offset, o8_log_append_time_ms, o8_log_start_offset, 1, 0))
            else:
                a9 = o8_record_errors
                n10 = len(a9)
                n10 += 1
                if n10 < 128:
                    parts.append(_pack_ihqqqB(o8_index, o8_error_code, o8_base_offset, o8_log_append_time_ms, o8_log_start_offset, n10))
                else:
                    parts.append(_pack_ihqqq(o8_index, o8_error_code, o8_base_offset, o8_log_append_time_ms, o8_log_start_offset))
                    parts.append(uvarint(n10))
                for o11_batch_index, o11_batch_index_error_message in a9:
                    if o11_batch_index_error_message is None:
                        b13 = b''
                        n12 = -1
                    else:
                        b13 = message_bytes(o11_batch_index_error_message)
                        n12 = len(b13)
                    n12 += 1
                    if n12 < 128:
                        parts.append(_pack_iB(o11_batch_index, n12))
                    else:
                        parts.append(_pack_i(o11_batch_index))
                        parts.append(uvarint(n12))
                    parts.append(b13)
                    parts.append(b'\x00')
                if o8_error_message is None:
                    b15 = b''
                    n14 = -1
                else:
                    b15 = message_bytes(o8_error_message)
                    n14 = len(b15)
                n14 += 1
                parts.append(UVARINTS[n14] if n14 < 128 else uvarint(n14))
                parts.append(b15)
                if (o8_current_leader is not None and o8_current_leader != (-1, -1)):
                    n16 = 0
                    p17: list[Any] = []
                    if (o8_current_leader is not None and o8_current_leader != (-1, -1)):
                        n16 += 1
                        p18: list[Any] = []
                        o20_leader_id, o20_leader_epoch = o8_current_leader
                        p18.append(_pack_iix(o20_leader_id, o20_leader_epoch))
                        b19 = b''.join(p18)
                        p17 += (uvarint(0), uvarint(len(b19)), b19)
                    parts.append(uvarint(n16))
                    parts.append(b''.join(p17))
                else:
                    parts.append(b'\x00')
        parts.append(b'\x00')
    if node_endpoints:
        parts.append(_pack_i(throttle_time_ms))
        n21 = 0
        p22: list[Any] = []
        if node_endpoints:
            n21 += 1
            p23: list[Any] = []
            a25 = node_endpoints
            n26 = len(a25)
            n26 += 1
            p23.append(UVARINTS[n26] if n26 < 128 else uvarint(n26))
            for o27_node_id, o27_host, o27_port, o27_rack in a25:
                b29 = o27_host.encode()
                n28 = len(b29)
                if n28 > 32767:
                    raise unencodable('host', n28)
                n28 += 1
                if n28 < 128:
                    p23.append(_pack_iB(o27_node_id, n28))
                else:
                    p23.append(_pack_i(o27_node_id))
                    p23.append(uvarint(n28))
                p23.append(b29)
                if o27_rack is None:
                    b31 = b''
                    n30 = -1
                else:
                    b31 = o27_rack.encode()
                    n30 = len(b31)
                if n30 > 32767:
                    raise unencodable('rack', n30)
                n30 += 1
                if n30 < 128:
                    p23.append(_pack_iB(o27_port, n30))
                else:
                    p23.append(_pack_i(o27_port))
                    p23.append(uvarint(n30))
                p23.append(b31)
                p23.append(b'\x00')
            b24 = b''.join(p23)
            p22 += (uvarint(0), uvarint(len(b24)), b24)
        parts.append(uvarint(n21))
        parts.append(b''.join(p22))
    else:
        parts.append(_pack_ix(throttle_time_ms))
    return b''.join(parts)


_ENCODERS: dict[int, Callable[..., bytes]] = {
    3: _encode_3_to_4,
    4: _encode_3_to_4,
    5: _encode_5_to_7,
    6: _encode_5_to_7,
    7: _encode_5_to_7,
    8: _encode_8,
    9: _encode_9,
    10: _encode_10_to_12,
    11: _encode_10_to_12,
    12: _encode_10_to_12,
}
