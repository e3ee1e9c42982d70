"""ListOffsetsResponse (key 2) as tuples, encoded 1-9.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/list_offsets.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable, Sequence
from struct import Struct, pack
from typing import Any

from odradek.protocol.primitives import UVARINTS, unencodable, uvarint


# partition_index, error_code, timestamp, offset, leader_epoch
ListOffsetsPartitionResponse = tuple[int, int, int, int, int]
# name, partitions
ListOffsetsTopicResponse = tuple[str, Sequence[ListOffsetsPartitionResponse]]


_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_iB = Struct(">iB").pack
_pack_ihqq = Struct(">ihqq").pack
_pack_ihqqi = Struct(">ihqqi").pack
_pack_ihqqix = Struct(">ihqqix").pack
_pack_ii = Struct(">ii").pack


def encode(
    version: int,
    throttle_time_ms: int = 0,
    topics: Sequence[ListOffsetsTopicResponse] = (),
) -> bytes:
    return _ENCODERS[version](throttle_time_ms, topics)


def _encode_1(throttle_time_ms: int, topics: Sequence[ListOffsetsTopicResponse]) -> bytes:
    parts: list[Any] = []
    a1 = topics
    n2 = len(a1)
    parts.append(_pack_i(n2))
    for o3_name, o3_partitions in a1:
        b5 = o3_name.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('name', n4)
        parts.append(_pack_h(n4))
        parts.append(b5)
        a6 = o3_partitions
        n7 = len(a6)
        parts.append(_pack_i(n7))
        for o8_partition_index, o8_error_code, o8_timestamp, o8_offset, o8_leader_epoch in a6:
            parts.append(_pack_ihqq(o8_partition_index, o8_error_code, o8_timestamp, o8_offset))
    return b''.join(parts)


def _encode_2_to_3(throttle_time_ms: int, topics: Sequence[ListOffsetsTopicResponse]) -> bytes:
    parts: list[Any] = []
    a1 = topics
    n2 = len(a1)
    parts.append(_pack_ii(throttle_time_ms, n2))
    for o3_name, o3_partitions in a1:
        b5 = o3_name.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('name', n4)
        parts.append(_pack_h(n4))
        parts.append(b5)
        a6 = o3_partitions
        n7 = len(a6)
        parts.append(_pack_i(n7))
        for o8_partition_index, o8_error_code, o8_timestamp, o8_offset, o8_leader_epoch in a6:
            parts.append(_pack_ihqq(o8_partition_index, o8_error_code, o8_timestamp, o8_offset))
    return b''.join(parts)


def _encode_4_to_5(throttle_time_ms: int, topics: Sequence[ListOffsetsTopicResponse]) -> bytes:
    parts: list[Any] = []
    a1 = topics
    n2 = len(a1)
    parts.append(_pack_ii(throttle_time_ms, n2))
    for o3_name, o3_partitions in a1:
        b5 = o3_name.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('name', n4)
        parts.append(_pack_h(n4))
        parts.append(b5)
        a6 = o3_partitions
        n7 = len(a6)
        parts.append(_pack_i(n7))
        for o8_partition_index, o8_error_code, o8_timestamp, o8_offset, o8_leader_epoch in a6:
            parts.append(_pack_ihqqi(o8_partition_index, o8_error_code, o8_timestamp, o8_offset, o8_leader_epoch))
    return b''.join(parts)


def _encode_6_to_9(throttle_time_ms: int, topics: Sequence[ListOffsetsTopicResponse]) -> bytes:
    parts: list[Any] = []
    a1 = topics
    n2 = len(a1)
    n2 += 1
    if n2 < 128:
        parts.append(_pack_iB(throttle_time_ms, n2))
    else:
        parts.append(_pack_i(throttle_time_ms))
        parts.append(uvarint(n2))
    for o3_name, o3_partitions in a1:
        b5 = o3_name.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('name', n4)
        n4 += 1
        parts.append(UVARINTS[n4] if n4 < 128 else uvarint(n4))
        parts.append(b5)
        a6 = o3_partitions
        n7 = len(a6)
        n7 += 1
        parts.append(UVARINTS[n7] if n7 < 128 else uvarint(n7))
        for o8_partition_index, o8_error_code, o8_timestamp, o8_offset, o8_leader_epoch in a6:
            parts.append(_pack_ihqqix(o8_partition_index, o8_error_code, o8_timestamp, o8_offset, o8_leader_epoch))
        parts.append(b'\x00')
    parts.append(b'\x00')
    return b''.join(parts)


_ENCODERS: dict[int, Callable[..., bytes]] = {
    1: _encode_1,
    2: _encode_2_to_3,
    3: _encode_2_to_3,
    4: _encode_4_to_5,
    5: _encode_4_to_5,
    6: _encode_6_to_9,
    7: _encode_6_to_9,
    8: _encode_6_to_9,
    9: _encode_6_to_9,
}
