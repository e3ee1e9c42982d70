"""HeartbeatResponse (key 12) as objects, versions 0-4.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/heartbeat.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable
from struct import Struct, pack, unpack_from

from odradek.protocol.primitives import Buffer, left_over, over_budget, skip_tagged_fields
from odradek.protocol.messages.heartbeat import HeartbeatResponse


_pack_h = Struct(">h").pack
_pack_ih = Struct(">ih").pack
_pack_ihx = Struct(">ihx").pack
_unpack_h = Struct(">h").unpack_from
_unpack_ih = Struct(">ih").unpack_from
_unpack_ihB = Struct(">ihB").unpack_from
new = object.__new__


def _decode_0(buffer: Buffer, position: int, budget: int) -> HeartbeatResponse:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(HeartbeatResponse)
    message.throttle_time_ms = 0
    message.error_code, = _unpack_h(buffer, position)
    position += 2
    if position != end:
        raise left_over(end - position)
    return message


def _decode_1_to_3(buffer: Buffer, position: int, budget: int) -> HeartbeatResponse:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(HeartbeatResponse)
    message.throttle_time_ms, message.error_code = _unpack_ih(buffer, position)
    position += 6
    if position != end:
        raise left_over(end - position)
    return message


def _decode_4(buffer: Buffer, position: int, budget: int) -> HeartbeatResponse:
    if type(buffer) is not bytes:
        buffer = bytes(buffer)
    end = len(buffer)
    message = new(HeartbeatResponse)
    message.throttle_time_ms, message.error_code, n1 = _unpack_ihB(buffer, position)
    position += 7
    if n1:
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        position = skip_tagged_fields(buffer, position - 1)
    if position != end:
        raise left_over(end - position)
    return message


DECODERS: dict[int, Callable[[Buffer, int, int], HeartbeatResponse]] = {
    0: _decode_0,
    1: _decode_1_to_3,
    2: _decode_1_to_3,
    3: _decode_1_to_3,
    4: _decode_4,
}


def _encode_0(message: HeartbeatResponse) -> bytes:
    return _pack_h(message.error_code)


def _encode_1_to_3(message: HeartbeatResponse) -> bytes:
    return _pack_ih(message.throttle_time_ms, message.error_code)


def _encode_4(message: HeartbeatResponse) -> bytes:
    return _pack_ihx(message.throttle_time_ms, message.error_code)


ENCODERS: dict[int, Callable[[HeartbeatResponse], bytes]] = {
    0: _encode_0,
    1: _encode_1_to_3,
    2: _encode_1_to_3,
    3: _encode_1_to_3,
    4: _encode_4,
}
