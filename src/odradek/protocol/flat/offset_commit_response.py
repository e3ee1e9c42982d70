"""OffsetCommitResponse (key 8) as objects, versions 2-9.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/offset_commit.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable
from struct import Struct, pack, unpack_from
from typing import Any

from odradek.protocol.primitives import UVARINTS, Buffer, bad_null, left_over, over_budget, read_uvarint, skip_tagged_fields, too_long, too_many, unencodable, uvarint
from odradek.protocol.messages.offset_commit import OffsetCommitResponse, OffsetCommitResponsePartition, OffsetCommitResponseTopic


_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_iB = Struct(">iB").pack
_pack_ih = Struct(">ih").pack
_pack_ihx = Struct(">ihx").pack
_pack_ii = Struct(">ii").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_iB = Struct(">iB").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_unpack_ihB = Struct(">ihB").unpack_from
_unpack_ii = Struct(">ii").unpack_from
new = object.__new__


def _decode_2(buffer: Buffer, position: int, budget: int) -> OffsetCommitResponse:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetCommitResponse)
    message.throttle_time_ms = 0
    n1, = _unpack_i(buffer, position)
    position += 4
    if n1 >= 0:
        if n1 * 6 > end - position:
            raise too_many('topics', n1, 6, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('topics')
        a2: list[OffsetCommitResponseTopic] = []
        for _ in range(n1):
            o3 = new(OffsetCommitResponseTopic)
            n4, = _unpack_h(buffer, position)
            position += 2
            if n4 >= 0:
                stop = position + n4
                if stop > end:
                    raise too_long('name', n4, end - position)
                o3.name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n4)
            n5, = _unpack_i(buffer, position)
            position += 4
            if n5 >= 0:
                if n5 * 6 > end - position:
                    raise too_many('partitions', n5, 6, end - position)
                budget -= n5 * 4
                if budget < 0:
                    raise over_budget('partitions')
                a6: list[OffsetCommitResponsePartition] = []
                for _ in range(n5):
                    o7 = new(OffsetCommitResponsePartition)
                    o7.partition_index, o7.error_code = _unpack_ih(buffer, position)
                    position += 6
                    a6.append(o7)
                o3.partitions = a6
            else:
                raise bad_null('partitions', n5)
            a2.append(o3)
        message.topics = a2
    else:
        raise bad_null('topics', n1)
    if position != end:
        raise left_over(end - position)
    return message


def _decode_3_to_7(buffer: Buffer, position: int, budget: int) -> OffsetCommitResponse:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetCommitResponse)
    message.throttle_time_ms, n1 = _unpack_ii(buffer, position)
    position += 8
    if n1 >= 0:
        if n1 * 6 > end - position:
            raise too_many('topics', n1, 6, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('topics')
        a2: list[OffsetCommitResponseTopic] = []
        for _ in range(n1):
            o3 = new(OffsetCommitResponseTopic)
            n4, = _unpack_h(buffer, position)
            position += 2
            if n4 >= 0:
                stop = position + n4
                if stop > end:
                    raise too_long('name', n4, end - position)
                o3.name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n4)
            n5, = _unpack_i(buffer, position)
            position += 4
            if n5 >= 0:
                if n5 * 6 > end - position:
                    raise too_many('partitions', n5, 6, end - position)
                budget -= n5 * 4
                if budget < 0:
                    raise over_budget('partitions')
                a6: list[OffsetCommitResponsePartition] = []
                for _ in range(n5):
                    o7 = new(OffsetCommitResponsePartition)
                    o7.partition_index, o7.error_code = _unpack_ih(buffer, position)
                    position += 6
                    a6.append(o7)
                o3.partitions = a6
            else:
                raise bad_null('partitions', n5)
            a2.append(o3)
        message.topics = a2
    else:
        raise bad_null('topics', n1)
    if position != end:
        raise left_over(end - position)
    return message


def _decode_8_to_9(buffer: Buffer, position: int, budget: int) -> OffsetCommitResponse:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetCommitResponse)
    message.throttle_time_ms, n1 = _unpack_iB(buffer, position)
    position += 5
    if n1 > 127:
        n1, position = read_uvarint(buffer, position - 1)
    n1 -= 1
    if n1 >= 0:
        if n1 * 3 > end - position:
            raise too_many('topics', n1, 3, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('topics')
        a2: list[OffsetCommitResponseTopic] = []
        for _ in range(n1):
            o3 = new(OffsetCommitResponseTopic)
            n4 = buffer[position]
            position += 1
            if n4 > 127:
                n4, position = read_uvarint(buffer, position - 1)
            n4 -= 1
            if n4 >= 0:
                stop = position + n4
                if stop > end or n4 > 32767:
                    raise too_long('name', n4, end - position)
                o3.name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n4)
            n5 = buffer[position]
            position += 1
            if n5 > 127:
                n5, position = read_uvarint(buffer, position - 1)
            n5 -= 1
            if n5 >= 0:
                if n5 * 7 > end - position:
                    raise too_many('partitions', n5, 7, end - position)
                budget -= n5 * 4
                if budget < 0:
                    raise over_budget('partitions')
                a6: list[OffsetCommitResponsePartition] = []
                for _ in range(n5):
                    o7 = new(OffsetCommitResponsePartition)
                    o7.partition_index, o7.error_code, n8 = _unpack_ihB(buffer, position)
                    position += 7
                    if n8:
                        budget -= n8 * 4
                        if budget < 0:
                            raise over_budget('tagged fields')
                        position = skip_tagged_fields(buffer, position - 1)
                    a6.append(o7)
                o3.partitions = a6
            else:
                raise bad_null('partitions', n5)
            n9 = buffer[position]
            position += 1
            if n9:
                budget -= n9 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            a2.append(o3)
        message.topics = a2
    else:
        raise bad_null('topics', n1)
    n10 = buffer[position]
    position += 1
    if n10:
        budget -= n10 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        position = skip_tagged_fields(buffer, position - 1)
    if position != end:
        raise left_over(end - position)
    return message


DECODERS: dict[int, Callable[[Buffer, int, int], OffsetCommitResponse]] = {
    2: _decode_2,
    3: _decode_3_to_7,
    4: _decode_3_to_7,
    5: _decode_3_to_7,
    6: _decode_3_to_7,
    7: _decode_3_to_7,
    8: _decode_8_to_9,
    9: _decode_8_to_9,
}


def _encode_2(message: OffsetCommitResponse) -> bytes:
    parts: list[Any] = []
    a1 = message.topics
    n2 = len(a1)
    parts.append(_pack_i(n2))
    for o3 in a1:
        b5 = o3.name.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('name', n4)
        parts.append(_pack_h(n4))
        parts.append(b5)
        a6 = o3.partitions
        n7 = len(a6)
        parts.append(_pack_i(n7))
        for o8 in a6:
            parts.append(_pack_ih(o8.partition_index, o8.error_code))
    return b''.join(parts)


def _encode_3_to_7(message: OffsetCommitResponse) -> bytes:
    parts: list[Any] = []
    a1 = message.topics
    n2 = len(a1)
    parts.append(_pack_ii(message.throttle_time_ms, n2))
    for o3 in a1:
        b5 = o3.name.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('name', n4)
        parts.append(_pack_h(n4))
        parts.append(b5)
        a6 = o3.partitions
        n7 = len(a6)
        parts.append(_pack_i(n7))
        for o8 in a6:
            parts.append(_pack_ih(o8.partition_index, o8.error_code))
    return b''.join(parts)


def _encode_8_to_9(message: OffsetCommitResponse) -> bytes:
    parts: list[Any] = []
    a1 = message.topics
    n2 = len(a1)
    n2 += 1
    if n2 < 128:
        parts.append(_pack_iB(message.throttle_time_ms, n2))
    else:
        parts.append(_pack_i(message.throttle_time_ms))
        parts.append(uvarint(n2))
    for o3 in a1:
        b5 = o3.name.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('name', n4)
        n4 += 1
        parts.append(UVARINTS[n4] if n4 < 128 else uvarint(n4))
        parts.append(b5)
        a6 = o3.partitions
        n7 = len(a6)
        n7 += 1
        parts.append(UVARINTS[n7] if n7 < 128 else uvarint(n7))
        for o8 in a6:
            parts.append(_pack_ihx(o8.partition_index, o8.error_code))
        parts.append(b'\x00')
    parts.append(b'\x00')
    return b''.join(parts)


ENCODERS: dict[int, Callable[[OffsetCommitResponse], bytes]] = {
    2: _encode_2,
    3: _encode_3_to_7,
    4: _encode_3_to_7,
    5: _encode_3_to_7,
    6: _encode_3_to_7,
    7: _encode_3_to_7,
    8: _encode_8_to_9,
    9: _encode_8_to_9,
}
