"""OffsetFetchResponse (key 9) as objects, versions 1-9.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/offset_fetch.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable
from struct import Struct, pack, unpack_from
from typing import Any

from odradek.protocol.primitives import UVARINTS, Buffer, bad_null, left_over, over_budget, read_uvarint, skip_tagged_fields, too_long, too_many, unencodable, uvarint
from odradek.protocol.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic, OffsetFetchResponseTopics


_pack_h = Struct(">h").pack
_pack_hx = Struct(">hx").pack
_pack_i = Struct(">i").pack
_pack_iB = Struct(">iB").pack
_pack_ii = Struct(">ii").pack
_pack_iqh = Struct(">iqh").pack
_pack_iqi = Struct(">iqi").pack
_pack_iqiB = Struct(">iqiB").pack
_pack_iqih = Struct(">iqih").pack
_unpack_h = Struct(">h").unpack_from
_unpack_hB = Struct(">hB").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_iB = Struct(">iB").unpack_from
_unpack_ii = Struct(">ii").unpack_from
_unpack_iqh = Struct(">iqh").unpack_from
_unpack_iqiB = Struct(">iqiB").unpack_from
_unpack_iqih = Struct(">iqih").unpack_from
new = object.__new__


def _decode_1(buffer: Buffer, position: int, budget: int) -> OffsetFetchResponse:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetFetchResponse)
    message.throttle_time_ms = 0
    message.error_code = 0
    message.groups = []
    n1, = _unpack_i(buffer, position)
    position += 4
    if n1 >= 0:
        if n1 * 6 > end - position:
            raise too_many('topics', n1, 6, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('topics')
        a2: list[OffsetFetchResponseTopic] = []
        for _ in range(n1):
            o3 = new(OffsetFetchResponseTopic)
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
                if n5 * 16 > end - position:
                    raise too_many('partitions', n5, 16, end - position)
                budget -= n5 * 4
                if budget < 0:
                    raise over_budget('partitions')
                a6: list[OffsetFetchResponsePartition] = []
                for _ in range(n5):
                    o7 = new(OffsetFetchResponsePartition)
                    o7.committed_leader_epoch = -1
                    o7.partition_index, o7.committed_offset, n8 = _unpack_iqh(buffer, position)
                    position += 14
                    if n8 >= 0:
                        stop = position + n8
                        if stop > end:
                            raise too_long('metadata', n8, end - position)
                        o7.metadata = buffer[position:stop].decode()
                        position = stop
                    elif n8 == -1:
                        o7.metadata = None
                    else:
                        raise bad_null('metadata', n8)
                    o7.error_code, = _unpack_h(buffer, position)
                    position += 2
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


def _decode_2(buffer: Buffer, position: int, budget: int) -> OffsetFetchResponse:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetFetchResponse)
    message.throttle_time_ms = 0
    message.groups = []
    n1, = _unpack_i(buffer, position)
    position += 4
    if n1 >= 0:
        if n1 * 6 > end - position:
            raise too_many('topics', n1, 6, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('topics')
        a2: list[OffsetFetchResponseTopic] = []
        for _ in range(n1):
            o3 = new(OffsetFetchResponseTopic)
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
                if n5 * 16 > end - position:
                    raise too_many('partitions', n5, 16, end - position)
                budget -= n5 * 4
                if budget < 0:
                    raise over_budget('partitions')
                a6: list[OffsetFetchResponsePartition] = []
                for _ in range(n5):
                    o7 = new(OffsetFetchResponsePartition)
                    o7.committed_leader_epoch = -1
                    o7.partition_index, o7.committed_offset, n8 = _unpack_iqh(buffer, position)
                    position += 14
                    if n8 >= 0:
                        stop = position + n8
                        if stop > end:
                            raise too_long('metadata', n8, end - position)
                        o7.metadata = buffer[position:stop].decode()
                        position = stop
                    elif n8 == -1:
                        o7.metadata = None
                    else:
                        raise bad_null('metadata', n8)
                    o7.error_code, = _unpack_h(buffer, position)
                    position += 2
                    a6.append(o7)
                o3.partitions = a6
            else:
                raise bad_null('partitions', n5)
            a2.append(o3)
        message.topics = a2
    else:
        raise bad_null('topics', n1)
    message.error_code, = _unpack_h(buffer, position)
    position += 2
    if position != end:
        raise left_over(end - position)
    return message


def _decode_3_to_4(buffer: Buffer, position: int, budget: int) -> OffsetFetchResponse:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetFetchResponse)
    message.groups = []
    message.throttle_time_ms, n1 = _unpack_ii(buffer, position)
    position += 8
    if n1 >= 0:
        if n1 * 6 > end - position:
            raise too_many('topics', n1, 6, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('topics')
        a2: list[OffsetFetchResponseTopic] = []
        for _ in range(n1):
            o3 = new(OffsetFetchResponseTopic)
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
                if n5 * 16 > end - position:
                    raise too_many('partitions', n5, 16, end - position)
                budget -= n5 * 4
                if budget < 0:
                    raise over_budget('partitions')
                a6: list[OffsetFetchResponsePartition] = []
                for _ in range(n5):
                    o7 = new(OffsetFetchResponsePartition)
                    o7.committed_leader_epoch = -1
                    o7.partition_index, o7.committed_offset, n8 = _unpack_iqh(buffer, position)
                    position += 14
                    if n8 >= 0:
                        stop = position + n8
                        if stop > end:
                            raise too_long('metadata', n8, end - position)
                        o7.metadata = buffer[position:stop].decode()
                        position = stop
                    elif n8 == -1:
                        o7.metadata = None
                    else:
                        raise bad_null('metadata', n8)
                    o7.error_code, = _unpack_h(buffer, position)
                    position += 2
                    a6.append(o7)
                o3.partitions = a6
            else:
                raise bad_null('partitions', n5)
            a2.append(o3)
        message.topics = a2
    else:
        raise bad_null('topics', n1)
    message.error_code, = _unpack_h(buffer, position)
    position += 2
    if position != end:
        raise left_over(end - position)
    return message


def _decode_5(buffer: Buffer, position: int, budget: int) -> OffsetFetchResponse:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetFetchResponse)
    message.groups = []
    message.throttle_time_ms, n1 = _unpack_ii(buffer, position)
    position += 8
    if n1 >= 0:
        if n1 * 6 > end - position:
            raise too_many('topics', n1, 6, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('topics')
        a2: list[OffsetFetchResponseTopic] = []
        for _ in range(n1):
            o3 = new(OffsetFetchResponseTopic)
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
                if n5 * 20 > end - position:
                    raise too_many('partitions', n5, 20, end - position)
                budget -= n5 * 4
                if budget < 0:
                    raise over_budget('partitions')
                a6: list[OffsetFetchResponsePartition] = []
                for _ in range(n5):
                    o7 = new(OffsetFetchResponsePartition)
                    o7.partition_index, o7.committed_offset, o7.committed_leader_epoch, n8 = _unpack_iqih(buffer, position)
                    position += 18
                    if n8 >= 0:
                        stop = position + n8
                        if stop > end:
                            raise too_long('metadata', n8, end - position)
                        o7.metadata = buffer[position:stop].decode()
                        position = stop
                    elif n8 == -1:
                        o7.metadata = None
                    else:
                        raise bad_null('metadata', n8)
                    o7.error_code, = _unpack_h(buffer, position)
                    position += 2
                    a6.append(o7)
                o3.partitions = a6
            else:
                raise bad_null('partitions', n5)
            a2.append(o3)
        message.topics = a2
    else:
        raise bad_null('topics', n1)
    message.error_code, = _unpack_h(buffer, position)
    position += 2
    if position != end:
        raise left_over(end - position)
    return message


def _decode_6_to_7(buffer: Buffer, position: int, budget: int) -> OffsetFetchResponse:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetFetchResponse)
    message.groups = []
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
        a2: list[OffsetFetchResponseTopic] = []
        for _ in range(n1):
            o3 = new(OffsetFetchResponseTopic)
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
                if n5 * 20 > end - position:
                    raise too_many('partitions', n5, 20, end - position)
                budget -= n5 * 4
                if budget < 0:
                    raise over_budget('partitions')
                a6: list[OffsetFetchResponsePartition] = []
                for _ in range(n5):
                    o7 = new(OffsetFetchResponsePartition)
                    o7.partition_index, o7.committed_offset, o7.committed_leader_epoch, n8 = _unpack_iqiB(buffer, position)
                    position += 17
                    if n8 > 127:
                        n8, position = read_uvarint(buffer, position - 1)
                    n8 -= 1
                    if n8 >= 0:
                        stop = position + n8
                        if stop > end or n8 > 32767:
                            raise too_long('metadata', n8, end - position)
                        o7.metadata = buffer[position:stop].decode()
                        position = stop
                    elif n8 == -1:
                        o7.metadata = None
                    else:
                        raise bad_null('metadata', n8)
                    o7.error_code, n9 = _unpack_hB(buffer, position)
                    position += 3
                    if n9:
                        budget -= n9 * 4
                        if budget < 0:
                            raise over_budget('tagged fields')
                        position = skip_tagged_fields(buffer, position - 1)
                    a6.append(o7)
                o3.partitions = a6
            else:
                raise bad_null('partitions', n5)
            n10 = buffer[position]
            position += 1
            if n10:
                budget -= n10 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            a2.append(o3)
        message.topics = a2
    else:
        raise bad_null('topics', n1)
    message.error_code, n11 = _unpack_hB(buffer, position)
    position += 3
    if n11:
        budget -= n11 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        position = skip_tagged_fields(buffer, position - 1)
    if position != end:
        raise left_over(end - position)
    return message


def _decode_8_to_9(buffer: Buffer, position: int, budget: int) -> OffsetFetchResponse:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetFetchResponse)
    message.topics = []
    message.error_code = 0
    message.throttle_time_ms, n1 = _unpack_iB(buffer, position)
    position += 5
    if n1 > 127:
        n1, position = read_uvarint(buffer, position - 1)
    n1 -= 1
    if n1 >= 0:
        if n1 * 5 > end - position:
            raise too_many('groups', n1, 5, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('groups')
        a2: list[OffsetFetchResponseGroup] = []
        for _ in range(n1):
            o3 = new(OffsetFetchResponseGroup)
            n4 = buffer[position]
            position += 1
            if n4 > 127:
                n4, position = read_uvarint(buffer, position - 1)
            n4 -= 1
            if n4 >= 0:
                stop = position + n4
                if stop > end or n4 > 32767:
                    raise too_long('groupId', n4, end - position)
                o3.group_id = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('groupId', n4)
            n5 = buffer[position]
            position += 1
            if n5 > 127:
                n5, position = read_uvarint(buffer, position - 1)
            n5 -= 1
            if n5 >= 0:
                if n5 * 3 > end - position:
                    raise too_many('topics', n5, 3, end - position)
                budget -= n5 * 4
                if budget < 0:
                    raise over_budget('topics')
                a6: list[OffsetFetchResponseTopics] = []
                for _ in range(n5):
                    o7 = new(OffsetFetchResponseTopics)
                    n8 = buffer[position]
                    position += 1
                    if n8 > 127:
                        n8, position = read_uvarint(buffer, position - 1)
                    n8 -= 1
                    if n8 >= 0:
                        stop = position + n8
                        if stop > end or n8 > 32767:
                            raise too_long('name', n8, end - position)
                        o7.name = buffer[position:stop].decode()
                        position = stop
                    else:
                        raise bad_null('name', n8)
                    n9 = buffer[position]
                    position += 1
                    if n9 > 127:
                        n9, position = read_uvarint(buffer, position - 1)
                    n9 -= 1
                    if n9 >= 0:
                        if n9 * 20 > end - position:
                            raise too_many('partitions', n9, 20, end - position)
                        budget -= n9 * 4
                        if budget < 0:
                            raise over_budget('partitions')
                        a10: list[OffsetFetchResponsePartitions] = []
                        for _ in range(n9):
                            o11 = new(OffsetFetchResponsePartitions)
                            o11.partition_index, o11.committed_offset, o11.committed_leader_epoch, n12 = _unpack_iqiB(buffer, position)
                            position += 17
                            if n12 > 127:
                                n12, position = read_uvarint(buffer, position - 1)
                            n12 -= 1
                            if n12 >= 0:
                                stop = position + n12
                                if stop > end or n12 > 32767:
                                    raise too_long('metadata', n12, end - position)
                                o11.metadata = buffer[position:stop].decode()
                                position = stop
                            elif n12 == -1:
                                o11.metadata = None
                            else:
                                raise bad_null('metadata', n12)
                            o11.error_code, n13 = _unpack_hB(buffer, position)
                            position += 3
                            if n13:
                                budget -= n13 * 4
                                if budget < 0:
                                    raise over_budget('tagged fields')
                                position = skip_tagged_fields(buffer, position - 1)
                            a10.append(o11)
                        o7.partitions = a10
                    else:
                        raise bad_null('partitions', n9)
                    n14 = buffer[position]
                    position += 1
                    if n14:
                        budget -= n14 * 4
                        if budget < 0:
                            raise over_budget('tagged fields')
                        position = skip_tagged_fields(buffer, position - 1)
                    a6.append(o7)
                o3.topics = a6
            else:
                raise bad_null('topics', n5)
            o3.error_code, n15 = _unpack_hB(buffer, position)
            position += 3
            if n15:
                budget -= n15 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            a2.append(o3)
        message.groups = a2
    else:
        raise bad_null('groups', n1)
    n16 = buffer[position]
    position += 1
    if n16:
        budget -= n16 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        position = skip_tagged_fields(buffer, position - 1)
    if position != end:
        raise left_over(end - position)
    return message


DECODERS: dict[int, Callable[[Buffer, int, int], OffsetFetchResponse]] = {
    1: _decode_1,
    2: _decode_2,
    3: _decode_3_to_4,
    4: _decode_3_to_4,
    5: _decode_5,
    6: _decode_6_to_7,
    7: _decode_6_to_7,
    8: _decode_8_to_9,
    9: _decode_8_to_9,
}


def _encode_1(message: OffsetFetchResponse) -> bytes:
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
            if o8.metadata is None:
                b10 = b''
                n9 = -1
            else:
                b10 = o8.metadata.encode()
                n9 = len(b10)
            if n9 > 32767:
                raise unencodable('metadata', n9)
            parts.append(_pack_iqh(o8.partition_index, o8.committed_offset, n9))
            parts.append(b10)
            parts.append(_pack_h(o8.error_code))
    return b''.join(parts)


def _encode_2(message: OffsetFetchResponse) -> bytes:
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
            if o8.metadata is None:
                b10 = b''
                n9 = -1
            else:
                b10 = o8.metadata.encode()
                n9 = len(b10)
            if n9 > 32767:
                raise unencodable('metadata', n9)
            parts.append(_pack_iqh(o8.partition_index, o8.committed_offset, n9))
            parts.append(b10)
            parts.append(_pack_h(o8.error_code))
    parts.append(_pack_h(message.error_code))
    return b''.join(parts)


def _encode_3_to_4(message: OffsetFetchResponse) -> bytes:
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
            if o8.metadata is None:
                b10 = b''
                n9 = -1
            else:
                b10 = o8.metadata.encode()
                n9 = len(b10)
            if n9 > 32767:
                raise unencodable('metadata', n9)
            parts.append(_pack_iqh(o8.partition_index, o8.committed_offset, n9))
            parts.append(b10)
            parts.append(_pack_h(o8.error_code))
    parts.append(_pack_h(message.error_code))
    return b''.join(parts)


def _encode_5(message: OffsetFetchResponse) -> bytes:
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
            if o8.metadata is None:
                b10 = b''
                n9 = -1
            else:
                b10 = o8.metadata.encode()
                n9 = len(b10)
            if n9 > 32767:
                raise unencodable('metadata', n9)
            parts.append(_pack_iqih(o8.partition_index, o8.committed_offset, o8.committed_leader_epoch, n9))
            parts.append(b10)
            parts.append(_pack_h(o8.error_code))
    parts.append(_pack_h(message.error_code))
    return b''.join(parts)


def _encode_6_to_7(message: OffsetFetchResponse) -> bytes:
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
            if o8.metadata is None:
                b10 = b''
                n9 = -1
            else:
                b10 = o8.metadata.encode()
                n9 = len(b10)
            if n9 > 32767:
                raise unencodable('metadata', n9)
            n9 += 1
            if n9 < 128:
                parts.append(_pack_iqiB(o8.partition_index, o8.committed_offset, o8.committed_leader_epoch, n9))
            else:
                parts.append(_pack_iqi(o8.partition_index, o8.committed_offset, o8.committed_leader_epoch))
                parts.append(uvarint(n9))
            parts.append(b10)
            parts.append(_pack_hx(o8.error_code))
        parts.append(b'\x00')
    parts.append(_pack_hx(message.error_code))
    return b''.join(parts)


def _encode_8_to_9(message: OffsetFetchResponse) -> bytes:
    parts: list[Any] = []
    a1 = message.groups
    n2 = len(a1)
    n2 += 1
    if n2 < 128:
        parts.append(_pack_iB(message.throttle_time_ms, n2))
    else:
        parts.append(_pack_i(message.throttle_time_ms))
        parts.append(uvarint(n2))
    for o3 in a1:
        b5 = o3.group_id.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('groupId', n4)
        n4 += 1
        parts.append(UVARINTS[n4] if n4 < 128 else uvarint(n4))
        parts.append(b5)
        a6 = o3.topics
        n7 = len(a6)
        n7 += 1
        parts.append(UVARINTS[n7] if n7 < 128 else uvarint(n7))
        for o8 in a6:
            b10 = o8.name.encode()
            n9 = len(b10)
            if n9 > 32767:
                raise unencodable('name', n9)
            n9 += 1
            parts.append(UVARINTS[n9] if n9 < 128 else uvarint(n9))
            parts.append(b10)
            a11 = o8.partitions
            n12 = len(a11)
            n12 += 1
            parts.append(UVARINTS[n12] if n12 < 128 else uvarint(n12))
            for o13 in a11:
                if o13.metadata is None:
                    b15 = b''
                    n14 = -1
                else:
                    b15 = o13.metadata.encode()
                    n14 = len(b15)
                if n14 > 32767:
                    raise unencodable('metadata', n14)
                n14 += 1
                if n14 < 128:
                    parts.append(_pack_iqiB(o13.partition_index, o13.committed_offset, o13.committed_leader_epoch, n14))
                else:
                    parts.append(_pack_iqi(o13.partition_index, o13.committed_offset, o13.committed_leader_epoch))
                    parts.append(uvarint(n14))
                parts.append(b15)
                parts.append(_pack_hx(o13.error_code))
            parts.append(b'\x00')
        parts.append(_pack_hx(o3.error_code))
    parts.append(b'\x00')
    return b''.join(parts)


ENCODERS: dict[int, Callable[[OffsetFetchResponse], bytes]] = {
    1: _encode_1,
    2: _encode_2,
    3: _encode_3_to_4,
    4: _encode_3_to_4,
    5: _encode_5,
    6: _encode_6_to_7,
    7: _encode_6_to_7,
    8: _encode_8_to_9,
    9: _encode_8_to_9,
}
