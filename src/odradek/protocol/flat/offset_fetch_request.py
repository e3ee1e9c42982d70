"""OffsetFetchRequest (key 9) as objects, versions 1-9.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/offset_fetch.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable
from struct import Struct, pack, unpack_from
from typing import Any

from odradek.protocol.primitives import UNPACK_INTS, UVARINTS, Buffer, bad_null, left_over, over_budget, read_uvarint, skip_tagged_fields, too_long, too_many, unencodable, uvarint
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics


_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_iB = Struct(">iB").pack
_pack_ox = Struct(">?x").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_iB = Struct(">iB").unpack_from
_unpack_oB = Struct(">?B").unpack_from
new = object.__new__


def _decode_1(buffer: Buffer, position: int, budget: int) -> OffsetFetchRequest:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetFetchRequest)
    message.groups = []
    message.require_stable = False
    n1, = _unpack_h(buffer, position)
    position += 2
    if n1 >= 0:
        stop = position + n1
        if stop > end:
            raise too_long('groupId', n1, end - position)
        message.group_id = buffer[position:stop].decode()
        position = stop
    else:
        raise bad_null('groupId', n1)
    n2, = _unpack_i(buffer, position)
    position += 4
    if n2 >= 0:
        if n2 * 6 > end - position:
            raise too_many('topics', n2, 6, end - position)
        budget -= n2 * 4
        if budget < 0:
            raise over_budget('topics')
        a3: list[OffsetFetchRequestTopic] = []
        for _ in range(n2):
            o4 = new(OffsetFetchRequestTopic)
            n5, = _unpack_h(buffer, position)
            position += 2
            if n5 >= 0:
                stop = position + n5
                if stop > end:
                    raise too_long('name', n5, end - position)
                o4.name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n5)
            n6, = _unpack_i(buffer, position)
            position += 4
            if n6 >= 0:
                if n6 * 4 > end - position:
                    raise too_many('partitionIndexes', n6, 4, end - position)
                budget -= n6
                if budget < 0:
                    raise over_budget('partitionIndexes')
                if n6 < 16:
                    o4.partition_indexes = list(UNPACK_INTS[n6](buffer, position))
                else:
                    o4.partition_indexes = list(unpack_from(f'>{n6}i', buffer, position))
                position += n6 * 4
            else:
                raise bad_null('partitionIndexes', n6)
            a3.append(o4)
        message.topics = a3
    else:
        raise bad_null('topics', n2)
    if position != end:
        raise left_over(end - position)
    return message


def _decode_2_to_5(buffer: Buffer, position: int, budget: int) -> OffsetFetchRequest:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetFetchRequest)
    message.groups = []
    message.require_stable = False
    n1, = _unpack_h(buffer, position)
    position += 2
    if n1 >= 0:
        stop = position + n1
        if stop > end:
            raise too_long('groupId', n1, end - position)
        message.group_id = buffer[position:stop].decode()
        position = stop
    else:
        raise bad_null('groupId', n1)
    n2, = _unpack_i(buffer, position)
    position += 4
    if n2 >= 0:
        if n2 * 6 > end - position:
            raise too_many('topics', n2, 6, end - position)
        budget -= n2 * 4
        if budget < 0:
            raise over_budget('topics')
        a3: list[OffsetFetchRequestTopic] = []
        for _ in range(n2):
            o4 = new(OffsetFetchRequestTopic)
            n5, = _unpack_h(buffer, position)
            position += 2
            if n5 >= 0:
                stop = position + n5
                if stop > end:
                    raise too_long('name', n5, end - position)
                o4.name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n5)
            n6, = _unpack_i(buffer, position)
            position += 4
            if n6 >= 0:
                if n6 * 4 > end - position:
                    raise too_many('partitionIndexes', n6, 4, end - position)
                budget -= n6
                if budget < 0:
                    raise over_budget('partitionIndexes')
                if n6 < 16:
                    o4.partition_indexes = list(UNPACK_INTS[n6](buffer, position))
                else:
                    o4.partition_indexes = list(unpack_from(f'>{n6}i', buffer, position))
                position += n6 * 4
            else:
                raise bad_null('partitionIndexes', n6)
            a3.append(o4)
        message.topics = a3
    elif n2 == -1:
        message.topics = None
    else:
        raise bad_null('topics', n2)
    if position != end:
        raise left_over(end - position)
    return message


def _decode_6(buffer: Buffer, position: int, budget: int) -> OffsetFetchRequest:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetFetchRequest)
    message.groups = []
    message.require_stable = False
    n1 = buffer[position]
    position += 1
    if n1 > 127:
        n1, position = read_uvarint(buffer, position - 1)
    n1 -= 1
    if n1 >= 0:
        stop = position + n1
        if stop > end or n1 > 32767:
            raise too_long('groupId', n1, end - position)
        message.group_id = buffer[position:stop].decode()
        position = stop
    else:
        raise bad_null('groupId', n1)
    n2 = buffer[position]
    position += 1
    if n2 > 127:
        n2, position = read_uvarint(buffer, position - 1)
    n2 -= 1
    if n2 >= 0:
        if n2 * 3 > end - position:
            raise too_many('topics', n2, 3, end - position)
        budget -= n2 * 4
        if budget < 0:
            raise over_budget('topics')
        a3: list[OffsetFetchRequestTopic] = []
        for _ in range(n2):
            o4 = new(OffsetFetchRequestTopic)
            n5 = buffer[position]
            position += 1
            if n5 > 127:
                n5, position = read_uvarint(buffer, position - 1)
            n5 -= 1
            if n5 >= 0:
                stop = position + n5
                if stop > end or n5 > 32767:
                    raise too_long('name', n5, end - position)
                o4.name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n5)
            n6 = buffer[position]
            position += 1
            if n6 > 127:
                n6, position = read_uvarint(buffer, position - 1)
            n6 -= 1
            if n6 >= 0:
                if n6 * 4 > end - position:
                    raise too_many('partitionIndexes', n6, 4, end - position)
                budget -= n6
                if budget < 0:
                    raise over_budget('partitionIndexes')
                if n6 < 16:
                    o4.partition_indexes = list(UNPACK_INTS[n6](buffer, position))
                else:
                    o4.partition_indexes = list(unpack_from(f'>{n6}i', buffer, position))
                position += n6 * 4
            else:
                raise bad_null('partitionIndexes', n6)
            n7 = buffer[position]
            position += 1
            if n7:
                budget -= n7 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            a3.append(o4)
        message.topics = a3
    elif n2 == -1:
        message.topics = None
    else:
        raise bad_null('topics', n2)
    n8 = buffer[position]
    position += 1
    if n8:
        budget -= n8 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        position = skip_tagged_fields(buffer, position - 1)
    if position != end:
        raise left_over(end - position)
    return message


def _decode_7(buffer: Buffer, position: int, budget: int) -> OffsetFetchRequest:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetFetchRequest)
    message.groups = []
    n1 = buffer[position]
    position += 1
    if n1 > 127:
        n1, position = read_uvarint(buffer, position - 1)
    n1 -= 1
    if n1 >= 0:
        stop = position + n1
        if stop > end or n1 > 32767:
            raise too_long('groupId', n1, end - position)
        message.group_id = buffer[position:stop].decode()
        position = stop
    else:
        raise bad_null('groupId', n1)
    n2 = buffer[position]
    position += 1
    if n2 > 127:
        n2, position = read_uvarint(buffer, position - 1)
    n2 -= 1
    if n2 >= 0:
        if n2 * 3 > end - position:
            raise too_many('topics', n2, 3, end - position)
        budget -= n2 * 4
        if budget < 0:
            raise over_budget('topics')
        a3: list[OffsetFetchRequestTopic] = []
        for _ in range(n2):
            o4 = new(OffsetFetchRequestTopic)
            n5 = buffer[position]
            position += 1
            if n5 > 127:
                n5, position = read_uvarint(buffer, position - 1)
            n5 -= 1
            if n5 >= 0:
                stop = position + n5
                if stop > end or n5 > 32767:
                    raise too_long('name', n5, end - position)
                o4.name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n5)
            n6 = buffer[position]
            position += 1
            if n6 > 127:
                n6, position = read_uvarint(buffer, position - 1)
            n6 -= 1
            if n6 >= 0:
                if n6 * 4 > end - position:
                    raise too_many('partitionIndexes', n6, 4, end - position)
                budget -= n6
                if budget < 0:
                    raise over_budget('partitionIndexes')
                if n6 < 16:
                    o4.partition_indexes = list(UNPACK_INTS[n6](buffer, position))
                else:
                    o4.partition_indexes = list(unpack_from(f'>{n6}i', buffer, position))
                position += n6 * 4
            else:
                raise bad_null('partitionIndexes', n6)
            n7 = buffer[position]
            position += 1
            if n7:
                budget -= n7 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            a3.append(o4)
        message.topics = a3
    elif n2 == -1:
        message.topics = None
    else:
        raise bad_null('topics', n2)
    message.require_stable, n8 = _unpack_oB(buffer, position)
    position += 2
    if n8:
        budget -= n8 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        position = skip_tagged_fields(buffer, position - 1)
    if position != end:
        raise left_over(end - position)
    return message


def _decode_8(buffer: Buffer, position: int, budget: int) -> OffsetFetchRequest:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetFetchRequest)
    message.group_id = ''
    message.topics = []
    n1 = buffer[position]
    position += 1
    if n1 > 127:
        n1, position = read_uvarint(buffer, position - 1)
    n1 -= 1
    if n1 >= 0:
        if n1 * 3 > end - position:
            raise too_many('groups', n1, 3, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('groups')
        a2: list[OffsetFetchRequestGroup] = []
        for _ in range(n1):
            o3 = new(OffsetFetchRequestGroup)
            o3.member_id = None
            o3.member_epoch = -1
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
                a6: list[OffsetFetchRequestTopics] = []
                for _ in range(n5):
                    o7 = new(OffsetFetchRequestTopics)
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
                        if n9 * 4 > end - position:
                            raise too_many('partitionIndexes', n9, 4, end - position)
                        budget -= n9
                        if budget < 0:
                            raise over_budget('partitionIndexes')
                        if n9 < 16:
                            o7.partition_indexes = list(UNPACK_INTS[n9](buffer, position))
                        else:
                            o7.partition_indexes = list(unpack_from(f'>{n9}i', buffer, position))
                        position += n9 * 4
                    else:
                        raise bad_null('partitionIndexes', n9)
                    n10 = buffer[position]
                    position += 1
                    if n10:
                        budget -= n10 * 4
                        if budget < 0:
                            raise over_budget('tagged fields')
                        position = skip_tagged_fields(buffer, position - 1)
                    a6.append(o7)
                o3.topics = a6
            elif n5 == -1:
                o3.topics = None
            else:
                raise bad_null('topics', n5)
            n11 = buffer[position]
            position += 1
            if n11:
                budget -= n11 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            a2.append(o3)
        message.groups = a2
    else:
        raise bad_null('groups', n1)
    message.require_stable, n12 = _unpack_oB(buffer, position)
    position += 2
    if n12:
        budget -= n12 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        position = skip_tagged_fields(buffer, position - 1)
    if position != end:
        raise left_over(end - position)
    return message


def _decode_9(buffer: Buffer, position: int, budget: int) -> OffsetFetchRequest:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetFetchRequest)
    message.group_id = ''
    message.topics = []
    n1 = buffer[position]
    position += 1
    if n1 > 127:
        n1, position = read_uvarint(buffer, position - 1)
    n1 -= 1
    if n1 >= 0:
        if n1 * 8 > end - position:
            raise too_many('groups', n1, 8, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('groups')
        a2: list[OffsetFetchRequestGroup] = []
        for _ in range(n1):
            o3 = new(OffsetFetchRequestGroup)
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
                stop = position + n5
                if stop > end or n5 > 32767:
                    raise too_long('memberId', n5, end - position)
                o3.member_id = buffer[position:stop].decode()
                position = stop
            elif n5 == -1:
                o3.member_id = None
            else:
                raise bad_null('memberId', n5)
            o3.member_epoch, n6 = _unpack_iB(buffer, position)
            position += 5
            if n6 > 127:
                n6, position = read_uvarint(buffer, position - 1)
            n6 -= 1
            if n6 >= 0:
                if n6 * 3 > end - position:
                    raise too_many('topics', n6, 3, end - position)
                budget -= n6 * 4
                if budget < 0:
                    raise over_budget('topics')
                a7: list[OffsetFetchRequestTopics] = []
                for _ in range(n6):
                    o8 = new(OffsetFetchRequestTopics)
                    n9 = buffer[position]
                    position += 1
                    if n9 > 127:
                        n9, position = read_uvarint(buffer, position - 1)
                    n9 -= 1
                    if n9 >= 0:
                        stop = position + n9
                        if stop > end or n9 > 32767:
                            raise too_long('name', n9, end - position)
                        o8.name = buffer[position:stop].decode()
                        position = stop
                    else:
                        raise bad_null('name', n9)
                    n10 = buffer[position]
                    position += 1
                    if n10 > 127:
                        n10, position = read_uvarint(buffer, position - 1)
                    n10 -= 1
                    if n10 >= 0:
                        if n10 * 4 > end - position:
                            raise too_many('partitionIndexes', n10, 4, end - position)
                        budget -= n10
                        if budget < 0:
                            raise over_budget('partitionIndexes')
                        if n10 < 16:
                            o8.partition_indexes = list(UNPACK_INTS[n10](buffer, position))
                        else:
                            o8.partition_indexes = list(unpack_from(f'>{n10}i', buffer, position))
                        position += n10 * 4
                    else:
                        raise bad_null('partitionIndexes', n10)
                    n11 = buffer[position]
                    position += 1
                    if n11:
                        budget -= n11 * 4
                        if budget < 0:
                            raise over_budget('tagged fields')
                        position = skip_tagged_fields(buffer, position - 1)
                    a7.append(o8)
                o3.topics = a7
            elif n6 == -1:
                o3.topics = None
            else:
                raise bad_null('topics', n6)
            n12 = buffer[position]
            position += 1
            if n12:
                budget -= n12 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            a2.append(o3)
        message.groups = a2
    else:
        raise bad_null('groups', n1)
    message.require_stable, n13 = _unpack_oB(buffer, position)
    position += 2
    if n13:
        budget -= n13 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        position = skip_tagged_fields(buffer, position - 1)
    if position != end:
        raise left_over(end - position)
    return message


DECODERS: dict[int, Callable[[Buffer, int, int], OffsetFetchRequest]] = {
    1: _decode_1,
    2: _decode_2_to_5,
    3: _decode_2_to_5,
    4: _decode_2_to_5,
    5: _decode_2_to_5,
    6: _decode_6,
    7: _decode_7,
    8: _decode_8,
    9: _decode_9,
}


def _encode_1(message: OffsetFetchRequest) -> bytes:
    parts: list[Any] = []
    b2 = message.group_id.encode()
    n1 = len(b2)
    if n1 > 32767:
        raise unencodable('groupId', n1)
    parts.append(_pack_h(n1))
    parts.append(b2)
    assert message.topics is not None, 'topics is null'
    a3 = message.topics
    n4 = len(a3)
    parts.append(_pack_i(n4))
    for o5 in a3:
        b7 = o5.name.encode()
        n6 = len(b7)
        if n6 > 32767:
            raise unencodable('name', n6)
        parts.append(_pack_h(n6))
        parts.append(b7)
        a8 = o5.partition_indexes
        n9 = len(a8)
        parts.append(_pack_i(n9))
        if a8:
            parts.append(pack(f'>{len(a8)}i', *a8))
    return b''.join(parts)


def _encode_2_to_5(message: OffsetFetchRequest) -> bytes:
    parts: list[Any] = []
    b2 = message.group_id.encode()
    n1 = len(b2)
    if n1 > 32767:
        raise unencodable('groupId', n1)
    parts.append(_pack_h(n1))
    parts.append(b2)
    a3 = message.topics or ()
    n4 = -1 if message.topics is None else len(a3)
    parts.append(_pack_i(n4))
    for o5 in a3:
        b7 = o5.name.encode()
        n6 = len(b7)
        if n6 > 32767:
            raise unencodable('name', n6)
        parts.append(_pack_h(n6))
        parts.append(b7)
        a8 = o5.partition_indexes
        n9 = len(a8)
        parts.append(_pack_i(n9))
        if a8:
            parts.append(pack(f'>{len(a8)}i', *a8))
    return b''.join(parts)


def _encode_6(message: OffsetFetchRequest) -> bytes:
    parts: list[Any] = []
    b2 = message.group_id.encode()
    n1 = len(b2)
    if n1 > 32767:
        raise unencodable('groupId', n1)
    n1 += 1
    parts.append(UVARINTS[n1] if n1 < 128 else uvarint(n1))
    parts.append(b2)
    a3 = message.topics or ()
    n4 = -1 if message.topics is None else len(a3)
    n4 += 1
    parts.append(UVARINTS[n4] if n4 < 128 else uvarint(n4))
    for o5 in a3:
        b7 = o5.name.encode()
        n6 = len(b7)
        if n6 > 32767:
            raise unencodable('name', n6)
        n6 += 1
        parts.append(UVARINTS[n6] if n6 < 128 else uvarint(n6))
        parts.append(b7)
        a8 = o5.partition_indexes
        n9 = len(a8)
        n9 += 1
        parts.append(UVARINTS[n9] if n9 < 128 else uvarint(n9))
        if a8:
            parts.append(pack(f'>{len(a8)}i', *a8))
        parts.append(b'\x00')
    parts.append(b'\x00')
    return b''.join(parts)


def _encode_7(message: OffsetFetchRequest) -> bytes:
    parts: list[Any] = []
    b2 = message.group_id.encode()
    n1 = len(b2)
    if n1 > 32767:
        raise unencodable('groupId', n1)
    n1 += 1
    parts.append(UVARINTS[n1] if n1 < 128 else uvarint(n1))
    parts.append(b2)
    a3 = message.topics or ()
    n4 = -1 if message.topics is None else len(a3)
    n4 += 1
    parts.append(UVARINTS[n4] if n4 < 128 else uvarint(n4))
    for o5 in a3:
        b7 = o5.name.encode()
        n6 = len(b7)
        if n6 > 32767:
            raise unencodable('name', n6)
        n6 += 1
        parts.append(UVARINTS[n6] if n6 < 128 else uvarint(n6))
        parts.append(b7)
        a8 = o5.partition_indexes
        n9 = len(a8)
        n9 += 1
        parts.append(UVARINTS[n9] if n9 < 128 else uvarint(n9))
        if a8:
            parts.append(pack(f'>{len(a8)}i', *a8))
        parts.append(b'\x00')
    parts.append(_pack_ox(message.require_stable))
    return b''.join(parts)


def _encode_8(message: OffsetFetchRequest) -> bytes:
    parts: list[Any] = []
    a1 = message.groups
    n2 = len(a1)
    n2 += 1
    parts.append(UVARINTS[n2] if n2 < 128 else uvarint(n2))
    for o3 in a1:
        b5 = o3.group_id.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('groupId', n4)
        n4 += 1
        parts.append(UVARINTS[n4] if n4 < 128 else uvarint(n4))
        parts.append(b5)
        a6 = o3.topics or ()
        n7 = -1 if o3.topics is None else len(a6)
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
            a11 = o8.partition_indexes
            n12 = len(a11)
            n12 += 1
            parts.append(UVARINTS[n12] if n12 < 128 else uvarint(n12))
            if a11:
                parts.append(pack(f'>{len(a11)}i', *a11))
            parts.append(b'\x00')
        parts.append(b'\x00')
    parts.append(_pack_ox(message.require_stable))
    return b''.join(parts)


def _encode_9(message: OffsetFetchRequest) -> bytes:
    parts: list[Any] = []
    a1 = message.groups
    n2 = len(a1)
    n2 += 1
    parts.append(UVARINTS[n2] if n2 < 128 else uvarint(n2))
    for o3 in a1:
        b5 = o3.group_id.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('groupId', n4)
        n4 += 1
        parts.append(UVARINTS[n4] if n4 < 128 else uvarint(n4))
        parts.append(b5)
        if o3.member_id is None:
            b7 = b''
            n6 = -1
        else:
            b7 = o3.member_id.encode()
            n6 = len(b7)
        if n6 > 32767:
            raise unencodable('memberId', n6)
        n6 += 1
        parts.append(UVARINTS[n6] if n6 < 128 else uvarint(n6))
        parts.append(b7)
        a8 = o3.topics or ()
        n9 = -1 if o3.topics is None else len(a8)
        n9 += 1
        if n9 < 128:
            parts.append(_pack_iB(o3.member_epoch, n9))
        else:
            parts.append(_pack_i(o3.member_epoch))
            parts.append(uvarint(n9))
        for o10 in a8:
            b12 = o10.name.encode()
            n11 = len(b12)
            if n11 > 32767:
                raise unencodable('name', n11)
            n11 += 1
            parts.append(UVARINTS[n11] if n11 < 128 else uvarint(n11))
            parts.append(b12)
            a13 = o10.partition_indexes
            n14 = len(a13)
            n14 += 1
            parts.append(UVARINTS[n14] if n14 < 128 else uvarint(n14))
            if a13:
                parts.append(pack(f'>{len(a13)}i', *a13))
            parts.append(b'\x00')
        parts.append(b'\x00')
    parts.append(_pack_ox(message.require_stable))
    return b''.join(parts)


ENCODERS: dict[int, Callable[[OffsetFetchRequest], bytes]] = {
    1: _encode_1,
    2: _encode_2_to_5,
    3: _encode_2_to_5,
    4: _encode_2_to_5,
    5: _encode_2_to_5,
    6: _encode_6,
    7: _encode_7,
    8: _encode_8,
    9: _encode_9,
}
