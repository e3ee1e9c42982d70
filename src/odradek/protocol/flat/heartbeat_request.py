"""HeartbeatRequest (key 12) as objects, versions 0-4.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/heartbeat.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable
from struct import Struct, pack, unpack_from
from typing import Any

from odradek.protocol.primitives import UVARINTS, Buffer, bad_null, left_over, over_budget, read_uvarint, skip_tagged_fields, too_long, unencodable, uvarint
from odradek.protocol.messages.heartbeat import HeartbeatRequest


_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_iB = Struct(">iB").pack
_pack_ih = Struct(">ih").pack
_unpack_h = Struct(">h").unpack_from
_unpack_iB = Struct(">iB").unpack_from
_unpack_ih = Struct(">ih").unpack_from
new = object.__new__


def _decode_0_to_2(buffer: Buffer, position: int, budget: int) -> HeartbeatRequest:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(HeartbeatRequest)
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
    message.generation_id, n2 = _unpack_ih(buffer, position)
    position += 6
    if n2 >= 0:
        stop = position + n2
        if stop > end:
            raise too_long('memberId', n2, end - position)
        message.member_id = buffer[position:stop].decode()
        position = stop
    else:
        raise bad_null('memberId', n2)
    if position != end:
        raise left_over(end - position)
    return message


def _decode_3(buffer: Buffer, position: int, budget: int) -> HeartbeatRequest:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(HeartbeatRequest)
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
    message.generation_id, n2 = _unpack_ih(buffer, position)
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
    if position != end:
        raise left_over(end - position)
    return message


def _decode_4(buffer: Buffer, position: int, budget: int) -> HeartbeatRequest:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(HeartbeatRequest)
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
    message.generation_id, n2 = _unpack_iB(buffer, position)
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
    if n4:
        budget -= n4 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        position = skip_tagged_fields(buffer, position - 1)
    if position != end:
        raise left_over(end - position)
    return message


DECODERS: dict[int, Callable[[Buffer, int, int], HeartbeatRequest]] = {
    0: _decode_0_to_2,
    1: _decode_0_to_2,
    2: _decode_0_to_2,
    3: _decode_3,
    4: _decode_4,
}


def _encode_0_to_2(message: HeartbeatRequest) -> bytes:
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
    parts.append(_pack_ih(message.generation_id, n3))
    parts.append(b4)
    return b''.join(parts)


def _encode_3(message: HeartbeatRequest) -> bytes:
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
    parts.append(_pack_ih(message.generation_id, n3))
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
    return b''.join(parts)


def _encode_4(message: HeartbeatRequest) -> bytes:
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
        parts.append(_pack_iB(message.generation_id, n3))
    else:
        parts.append(_pack_i(message.generation_id))
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
    parts.append(b'\x00')
    return b''.join(parts)


ENCODERS: dict[int, Callable[[HeartbeatRequest], bytes]] = {
    0: _encode_0_to_2,
    1: _encode_0_to_2,
    2: _encode_0_to_2,
    3: _encode_3,
    4: _encode_4,
}
