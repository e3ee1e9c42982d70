"""OffsetCommitRequest (key 8) as objects, versions 2-9.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/offset_commit.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable
from struct import Struct, pack, unpack_from
from typing import Any

from odradek.protocol.primitives import UVARINTS, Buffer, bad_null, left_over, over_budget, read_uvarint, skip_tagged_fields, too_long, too_many, unencodable, uvarint
from odradek.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic


_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_iB = Struct(">iB").pack
_pack_ih = Struct(">ih").pack
_pack_iqh = Struct(">iqh").pack
_pack_iqi = Struct(">iqi").pack
_pack_iqiB = Struct(">iqiB").pack
_pack_iqih = Struct(">iqih").pack
_pack_qi = Struct(">qi").pack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_iB = Struct(">iB").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_unpack_iqh = Struct(">iqh").unpack_from
_unpack_iqiB = Struct(">iqiB").unpack_from
_unpack_iqih = Struct(">iqih").unpack_from
_unpack_qi = Struct(">qi").unpack_from
new = object.__new__


def _decode_2_to_4(buffer: Buffer, position: int, budget: int) -> OffsetCommitRequest:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetCommitRequest)
    message.group_instance_id = None
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
    message.generation_id_or_member_epoch, n2 = _unpack_ih(buffer, position)
    position += 6
    if n2 >= 0:
        stop = position + n2
        if stop > end:
            raise too_long('memberId', n2, end - position)
        message.member_id = buffer[position:stop].decode()
        position = stop
    else:
        raise bad_null('memberId', n2)
    message.retention_time_ms, n3 = _unpack_qi(buffer, position)
    position += 12
    if n3 >= 0:
        if n3 * 6 > end - position:
            raise too_many('topics', n3, 6, end - position)
        budget -= n3 * 4
        if budget < 0:
            raise over_budget('topics')
        a4: list[OffsetCommitRequestTopic] = []
        for _ in range(n3):
            o5 = new(OffsetCommitRequestTopic)
            n6, = _unpack_h(buffer, position)
            position += 2
            if n6 >= 0:
                stop = position + n6
                if stop > end:
                    raise too_long('name', n6, end - position)
                o5.name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n6)
            n7, = _unpack_i(buffer, position)
            position += 4
            if n7 >= 0:
                if n7 * 14 > end - position:
                    raise too_many('partitions', n7, 14, end - position)
                budget -= n7 * 4
                if budget < 0:
                    raise over_budget('partitions')
                a8: list[OffsetCommitRequestPartition] = []
                for _ in range(n7):
                    o9 = new(OffsetCommitRequestPartition)
                    o9.committed_leader_epoch = -1
                    o9.partition_index, o9.committed_offset, n10 = _unpack_iqh(buffer, position)
                    position += 14
                    if n10 >= 0:
                        stop = position + n10
                        if stop > end:
                            raise too_long('committedMetadata', n10, end - position)
                        o9.committed_metadata = buffer[position:stop].decode()
                        position = stop
                    elif n10 == -1:
                        o9.committed_metadata = None
                    else:
                        raise bad_null('committedMetadata', n10)
                    a8.append(o9)
                o5.partitions = a8
            else:
                raise bad_null('partitions', n7)
            a4.append(o5)
        message.topics = a4
    else:
        raise bad_null('topics', n3)
    if position != end:
        raise left_over(end - position)
    return message


def _decode_5(buffer: Buffer, position: int, budget: int) -> OffsetCommitRequest:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetCommitRequest)
    message.group_instance_id = None
    message.retention_time_ms = -1
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
    message.generation_id_or_member_epoch, n2 = _unpack_ih(buffer, position)
    position += 6
    if n2 >= 0:
        stop = position + n2
        if stop > end:
            raise too_long('memberId', n2, end - position)
        message.member_id = buffer[position:stop].decode()
        position = stop
    else:
        raise bad_null('memberId', n2)
    n3, = _unpack_i(buffer, position)
    position += 4
    if n3 >= 0:
        if n3 * 6 > end - position:
            raise too_many('topics', n3, 6, end - position)
        budget -= n3 * 4
        if budget < 0:
            raise over_budget('topics')
        a4: list[OffsetCommitRequestTopic] = []
        for _ in range(n3):
            o5 = new(OffsetCommitRequestTopic)
            n6, = _unpack_h(buffer, position)
            position += 2
            if n6 >= 0:
                stop = position + n6
                if stop > end:
                    raise too_long('name', n6, end - position)
                o5.name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n6)
            n7, = _unpack_i(buffer, position)
            position += 4
            if n7 >= 0:
                if n7 * 14 > end - position:
                    raise too_many('partitions', n7, 14, end - position)
                budget -= n7 * 4
                if budget < 0:
                    raise over_budget('partitions')
                a8: list[OffsetCommitRequestPartition] = []
                for _ in range(n7):
                    o9 = new(OffsetCommitRequestPartition)
                    o9.committed_leader_epoch = -1
                    o9.partition_index, o9.committed_offset, n10 = _unpack_iqh(buffer, position)
                    position += 14
                    if n10 >= 0:
                        stop = position + n10
                        if stop > end:
                            raise too_long('committedMetadata', n10, end - position)
                        o9.committed_metadata = buffer[position:stop].decode()
                        position = stop
                    elif n10 == -1:
                        o9.committed_metadata = None
                    else:
                        raise bad_null('committedMetadata', n10)
                    a8.append(o9)
                o5.partitions = a8
            else:
                raise bad_null('partitions', n7)
            a4.append(o5)
        message.topics = a4
    else:
        raise bad_null('topics', n3)
    if position != end:
        raise left_over(end - position)
    return message


def _decode_6(buffer: Buffer, position: int, budget: int) -> OffsetCommitRequest:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetCommitRequest)
    message.group_instance_id = None
    message.retention_time_ms = -1
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
    message.generation_id_or_member_epoch, n2 = _unpack_ih(buffer, position)
    position += 6
    if n2 >= 0:
        stop = position + n2
        if stop > end:
            raise too_long('memberId', n2, end - position)
        message.member_id = buffer[position:stop].decode()
        position = stop
    else:
        raise bad_null('memberId', n2)
    n3, = _unpack_i(buffer, position)
    position += 4
    if n3 >= 0:
        if n3 * 6 > end - position:
            raise too_many('topics', n3, 6, end - position)
        budget -= n3 * 4
        if budget < 0:
            raise over_budget('topics')
        a4: list[OffsetCommitRequestTopic] = []
        for _ in range(n3):
            o5 = new(OffsetCommitRequestTopic)
            n6, = _unpack_h(buffer, position)
            position += 2
            if n6 >= 0:
                stop = position + n6
                if stop > end:
                    raise too_long('name', n6, end - position)
                o5.name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n6)
            n7, = _unpack_i(buffer, position)
            position += 4
            if n7 >= 0:
                if n7 * 18 > end - position:
                    raise too_many('partitions', n7, 18, end - position)
                budget -= n7 * 4
                if budget < 0:
                    raise over_budget('partitions')
                a8: list[OffsetCommitRequestPartition] = []
                for _ in range(n7):
                    o9 = new(OffsetCommitRequestPartition)
                    o9.partition_index, o9.committed_offset, o9.committed_leader_epoch, n10 = _unpack_iqih(buffer, position)
                    position += 18
                    if n10 >= 0:
                        stop = position + n10
                        if stop > end:
                            raise too_long('committedMetadata', n10, end - position)
                        o9.committed_metadata = buffer[position:stop].decode()
                        position = stop
                    elif n10 == -1:
                        o9.committed_metadata = None
                    else:
                        raise bad_null('committedMetadata', n10)
                    a8.append(o9)
                o5.partitions = a8
            else:
                raise bad_null('partitions', n7)
            a4.append(o5)
        message.topics = a4
    else:
        raise bad_null('topics', n3)
    if position != end:
        raise left_over(end - position)
    return message


def _decode_7(buffer: Buffer, position: int, budget: int) -> OffsetCommitRequest:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetCommitRequest)
    message.retention_time_ms = -1
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
    message.generation_id_or_member_epoch, n2 = _unpack_ih(buffer, position)
    position += 6
    if n2 >= 0:
        stop = position + n2
        if stop > end:
            raise too_long('memberId', n2, end - position)
        message.member_id = buffer[position:stop].decode()
        position = stop
    else:
        raise bad_null('memberId', n2)
    n3, = _unpack_h(buffer, position)
    position += 2
    if n3 >= 0:
        stop = position + n3
        if stop > end:
            raise too_long('groupInstanceId', n3, end - position)
        message.group_instance_id = buffer[position:stop].decode()
        position = stop
    elif n3 == -1:
        message.group_instance_id = None
    else:
        raise bad_null('groupInstanceId', n3)
    n4, = _unpack_i(buffer, position)
    position += 4
    if n4 >= 0:
        if n4 * 6 > end - position:
            raise too_many('topics', n4, 6, end - position)
        budget -= n4 * 4
        if budget < 0:
            raise over_budget('topics')
        a5: list[OffsetCommitRequestTopic] = []
        for _ in range(n4):
            o6 = new(OffsetCommitRequestTopic)
            n7, = _unpack_h(buffer, position)
            position += 2
            if n7 >= 0:
                stop = position + n7
                if stop > end:
                    raise too_long('name', n7, end - position)
                o6.name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n7)
            n8, = _unpack_i(buffer, position)
            position += 4
            if n8 >= 0:
                if n8 * 18 > end - position:
                    raise too_many('partitions', n8, 18, end - position)
                budget -= n8 * 4
                if budget < 0:
                    raise over_budget('partitions')
                a9: list[OffsetCommitRequestPartition] = []
                for _ in range(n8):
                    o10 = new(OffsetCommitRequestPartition)
                    o10.partition_index, o10.committed_offset, o10.committed_leader_epoch, n11 = _unpack_iqih(buffer, position)
                    position += 18
                    if n11 >= 0:
                        stop = position + n11
                        if stop > end:
                            raise too_long('committedMetadata', n11, end - position)
                        o10.committed_metadata = buffer[position:stop].decode()
                        position = stop
                    elif n11 == -1:
                        o10.committed_metadata = None
                    else:
                        raise bad_null('committedMetadata', n11)
                    a9.append(o10)
                o6.partitions = a9
            else:
                raise bad_null('partitions', n8)
            a5.append(o6)
        message.topics = a5
    else:
        raise bad_null('topics', n4)
    if position != end:
        raise left_over(end - position)
    return message


def _decode_8_to_9(buffer: Buffer, position: int, budget: int) -> OffsetCommitRequest:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(OffsetCommitRequest)
    message.retention_time_ms = -1
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
    message.generation_id_or_member_epoch, n2 = _unpack_iB(buffer, position)
    position += 5
    if n2 > 127:
        n2, position = read_uvarint(buffer, position - 1)
    n2 -= 1
    if n2 >= 0:
        stop = position + n2
        if stop > end or n2 > 32767:
            raise too_long('memberId', n2, end - position)
        message.member_id = buffer[position:stop].decode()
        position = stop
    else:
        raise bad_null('memberId', n2)
    n3 = buffer[position]
    position += 1
    if n3 > 127:
        n3, position = read_uvarint(buffer, position - 1)
    n3 -= 1
    if n3 >= 0:
        stop = position + n3
        if stop > end or n3 > 32767:
            raise too_long('groupInstanceId', n3, end - position)
        message.group_instance_id = buffer[position:stop].decode()
        position = stop
    elif n3 == -1:
        message.group_instance_id = None
    else:
        raise bad_null('groupInstanceId', n3)
    n4 = buffer[position]
    position += 1
    if n4 > 127:
        n4, position = read_uvarint(buffer, position - 1)
    n4 -= 1
    if n4 >= 0:
        if n4 * 3 > end - position:
            raise too_many('topics', n4, 3, end - position)
        budget -= n4 * 4
        if budget < 0:
            raise over_budget('topics')
        a5: list[OffsetCommitRequestTopic] = []
        for _ in range(n4):
            o6 = new(OffsetCommitRequestTopic)
            n7 = buffer[position]
            position += 1
            if n7 > 127:
                n7, position = read_uvarint(buffer, position - 1)
            n7 -= 1
            if n7 >= 0:
                stop = position + n7
                if stop > end or n7 > 32767:
                    raise too_long('name', n7, end - position)
                o6.name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n7)
            n8 = buffer[position]
            position += 1
            if n8 > 127:
                n8, position = read_uvarint(buffer, position - 1)
            n8 -= 1
            if n8 >= 0:
                if n8 * 18 > end - position:
                    raise too_many('partitions', n8, 18, end - position)
                budget -= n8 * 4
                if budget < 0:
                    raise over_budget('partitions')
                a9: list[OffsetCommitRequestPartition] = []
                for _ in range(n8):
                    o10 = new(OffsetCommitRequestPartition)
                    o10.partition_index, o10.committed_offset, o10.committed_leader_epoch, n11 = _unpack_iqiB(buffer, position)
                    position += 17
                    if n11 > 127:
                        n11, position = read_uvarint(buffer, position - 1)
                    n11 -= 1
                    if n11 >= 0:
                        stop = position + n11
                        if stop > end or n11 > 32767:
                            raise too_long('committedMetadata', n11, end - position)
                        o10.committed_metadata = buffer[position:stop].decode()
                        position = stop
                    elif n11 == -1:
                        o10.committed_metadata = None
                    else:
                        raise bad_null('committedMetadata', n11)
                    n12 = buffer[position]
                    position += 1
                    if n12:
                        budget -= n12 * 4
                        if budget < 0:
                            raise over_budget('tagged fields')
                        position = skip_tagged_fields(buffer, position - 1)
                    a9.append(o10)
                o6.partitions = a9
            else:
                raise bad_null('partitions', n8)
            n13 = buffer[position]
            position += 1
            if n13:
                budget -= n13 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            a5.append(o6)
        message.topics = a5
    else:
        raise bad_null('topics', n4)
    n14 = buffer[position]
    position += 1
    if n14:
        budget -= n14 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        position = skip_tagged_fields(buffer, position - 1)
    if position != end:
        raise left_over(end - position)
    return message


DECODERS: dict[int, Callable[[Buffer, int, int], OffsetCommitRequest]] = {
    2: _decode_2_to_4,
    3: _decode_2_to_4,
    4: _decode_2_to_4,
    5: _decode_5,
    6: _decode_6,
    7: _decode_7,
    8: _decode_8_to_9,
    9: _decode_8_to_9,
}


def _encode_2_to_4(message: OffsetCommitRequest) -> bytes:
    parts: list[Any] = []
    b2 = message.group_id.encode()
    n1 = len(b2)
    if n1 > 32767:
        raise unencodable('groupId', n1)
    parts.append(_pack_h(n1))
    parts.append(b2)
    b4 = message.member_id.encode()
    n3 = len(b4)
    if n3 > 32767:
        raise unencodable('memberId', n3)
    parts.append(_pack_ih(message.generation_id_or_member_epoch, n3))
    parts.append(b4)
    a5 = message.topics
    n6 = len(a5)
    parts.append(_pack_qi(message.retention_time_ms, n6))
    for o7 in a5:
        b9 = o7.name.encode()
        n8 = len(b9)
        if n8 > 32767:
            raise unencodable('name', n8)
        parts.append(_pack_h(n8))
        parts.append(b9)
        a10 = o7.partitions
        n11 = len(a10)
        parts.append(_pack_i(n11))
        for o12 in a10:
            if o12.committed_metadata is None:
                b14 = b''
                n13 = -1
            else:
                b14 = o12.committed_metadata.encode()
                n13 = len(b14)
            if n13 > 32767:
                raise unencodable('committedMetadata', n13)
            parts.append(_pack_iqh(o12.partition_index, o12.committed_offset, n13))
            parts.append(b14)
    return b''.join(parts)


def _encode_5(message: OffsetCommitRequest) -> bytes:
    parts: list[Any] = []
    b2 = message.group_id.encode()
    n1 = len(b2)
    if n1 > 32767:
        raise unencodable('groupId', n1)
    parts.append(_pack_h(n1))
    parts.append(b2)
    b4 = message.member_id.encode()
    n3 = len(b4)
    if n3 > 32767:
        raise unencodable('memberId', n3)
    parts.append(_pack_ih(message.generation_id_or_member_epoch, n3))
    parts.append(b4)
    a5 = message.topics
    n6 = len(a5)
    parts.append(_pack_i(n6))
    for o7 in a5:
        b9 = o7.name.encode()
        n8 = len(b9)
        if n8 > 32767:
            raise unencodable('name', n8)
        parts.append(_pack_h(n8))
        parts.append(b9)
        a10 = o7.partitions
        n11 = len(a10)
        parts.append(_pack_i(n11))
        for o12 in a10:
            if o12.committed_metadata is None:
                b14 = b''
                n13 = -1
            else:
                b14 = o12.committed_metadata.encode()
                n13 = len(b14)
            if n13 > 32767:
                raise unencodable('committedMetadata', n13)
            parts.append(_pack_iqh(o12.partition_index, o12.committed_offset, n13))
            parts.append(b14)
    return b''.join(parts)


def _encode_6(message: OffsetCommitRequest) -> bytes:
    parts: list[Any] = []
    b2 = message.group_id.encode()
    n1 = len(b2)
    if n1 > 32767:
        raise unencodable('groupId', n1)
    parts.append(_pack_h(n1))
    parts.append(b2)
    b4 = message.member_id.encode()
    n3 = len(b4)
    if n3 > 32767:
        raise unencodable('memberId', n3)
    parts.append(_pack_ih(message.generation_id_or_member_epoch, n3))
    parts.append(b4)
    a5 = message.topics
    n6 = len(a5)
    parts.append(_pack_i(n6))
    for o7 in a5:
        b9 = o7.name.encode()
        n8 = len(b9)
        if n8 > 32767:
            raise unencodable('name', n8)
        parts.append(_pack_h(n8))
        parts.append(b9)
        a10 = o7.partitions
        n11 = len(a10)
        parts.append(_pack_i(n11))
        for o12 in a10:
            if o12.committed_metadata is None:
                b14 = b''
                n13 = -1
            else:
                b14 = o12.committed_metadata.encode()
                n13 = len(b14)
            if n13 > 32767:
                raise unencodable('committedMetadata', n13)
            parts.append(_pack_iqih(o12.partition_index, o12.committed_offset, o12.committed_leader_epoch, n13))
            parts.append(b14)
    return b''.join(parts)


def _encode_7(message: OffsetCommitRequest) -> bytes:
    parts: list[Any] = []
    b2 = message.group_id.encode()
    n1 = len(b2)
    if n1 > 32767:
        raise unencodable('groupId', n1)
    parts.append(_pack_h(n1))
    parts.append(b2)
    b4 = message.member_id.encode()
    n3 = len(b4)
    if n3 > 32767:
        raise unencodable('memberId', n3)
    parts.append(_pack_ih(message.generation_id_or_member_epoch, n3))
    parts.append(b4)
    if message.group_instance_id is None:
        b6 = b''
        n5 = -1
    else:
        b6 = message.group_instance_id.encode()
        n5 = len(b6)
    if n5 > 32767:
        raise unencodable('groupInstanceId', n5)
    parts.append(_pack_h(n5))
    parts.append(b6)
    a7 = message.topics
    n8 = len(a7)
    parts.append(_pack_i(n8))
    for o9 in a7:
        b11 = o9.name.encode()
        n10 = len(b11)
        if n10 > 32767:
            raise unencodable('name', n10)
        parts.append(_pack_h(n10))
        parts.append(b11)
        a12 = o9.partitions
        n13 = len(a12)
        parts.append(_pack_i(n13))
        for o14 in a12:
            if o14.committed_metadata is None:
                b16 = b''
                n15 = -1
            else:
                b16 = o14.committed_metadata.encode()
                n15 = len(b16)
            if n15 > 32767:
                raise unencodable('committedMetadata', n15)
            parts.append(_pack_iqih(o14.partition_index, o14.committed_offset, o14.committed_leader_epoch, n15))
            parts.append(b16)
    return b''.join(parts)


def _encode_8_to_9(message: OffsetCommitRequest) -> bytes:
    parts: list[Any] = []
    b2 = message.group_id.encode()
    n1 = len(b2)
    if n1 > 32767:
        raise unencodable('groupId', n1)
    n1 += 1
    parts.append(UVARINTS[n1] if n1 < 128 else uvarint(n1))
    parts.append(b2)
    b4 = message.member_id.encode()
    n3 = len(b4)
    if n3 > 32767:
        raise unencodable('memberId', n3)
    n3 += 1
    if n3 < 128:
        parts.append(_pack_iB(message.generation_id_or_member_epoch, n3))
    else:
        parts.append(_pack_i(message.generation_id_or_member_epoch))
        parts.append(uvarint(n3))
    parts.append(b4)
    if message.group_instance_id is None:
        b6 = b''
        n5 = -1
    else:
        b6 = message.group_instance_id.encode()
        n5 = len(b6)
    if n5 > 32767:
        raise unencodable('groupInstanceId', n5)
    n5 += 1
    parts.append(UVARINTS[n5] if n5 < 128 else uvarint(n5))
    parts.append(b6)
    a7 = message.topics
    n8 = len(a7)
    n8 += 1
    parts.append(UVARINTS[n8] if n8 < 128 else uvarint(n8))
    for o9 in a7:
        b11 = o9.name.encode()
        n10 = len(b11)
        if n10 > 32767:
            raise unencodable('name', n10)
        n10 += 1
        parts.append(UVARINTS[n10] if n10 < 128 else uvarint(n10))
        parts.append(b11)
        a12 = o9.partitions
        n13 = len(a12)
        n13 += 1
        parts.append(UVARINTS[n13] if n13 < 128 else uvarint(n13))
        for o14 in a12:
            if o14.committed_metadata is None:
                b16 = b''
                n15 = -1
            else:
                b16 = o14.committed_metadata.encode()
                n15 = len(b16)
            if n15 > 32767:
                raise unencodable('committedMetadata', n15)
            n15 += 1
            if n15 < 128:
                parts.append(_pack_iqiB(o14.partition_index, o14.committed_offset, o14.committed_leader_epoch, n15))
            else:
                parts.append(_pack_iqi(o14.partition_index, o14.committed_offset, o14.committed_leader_epoch))
                parts.append(uvarint(n15))
            parts.append(b16)
            parts.append(b'\x00')
        parts.append(b'\x00')
    parts.append(b'\x00')
    return b''.join(parts)


ENCODERS: dict[int, Callable[[OffsetCommitRequest], bytes]] = {
    2: _encode_2_to_4,
    3: _encode_2_to_4,
    4: _encode_2_to_4,
    5: _encode_5,
    6: _encode_6,
    7: _encode_7,
    8: _encode_8_to_9,
    9: _encode_8_to_9,
}
