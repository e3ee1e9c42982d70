"""Frames: four bytes of size, then that many bytes, both ways.

The size is a signed integer that a stranger wrote, so it is held to a limit before anything waits for it or
makes room for it. Nothing here waits: bytes are handed in, frames come out.
"""

from struct import Struct
from typing import NamedTuple

from odradek.protocol.errors import MalformedMessage

_SIZE = Struct(">i")
SIZE_BYTES = 4

# socket.request.max.bytes, and what a peer that has not logged in may send
# (sasl.server.max.receive.size): spec/security.md.
DEFAULT_MAX_FRAME_BYTES = 100 * 1024 * 1024
DEFAULT_MAX_FRAME_BYTES_BEFORE_LOGIN = 512 * 1024


class Split(NamedTuple):
    frames: list[memoryview]  # bodies of whole frames, without their size, as slices of the buffer
    consumed: int  # bytes of the buffer these take; the rest is kept for next time
    missing: int  # bytes still to come before the next frame is whole; 0 if nothing of it is there


def split_frames(buffer: memoryview, max_frame_bytes: int) -> Split:
    """Cuts `buffer` into the frames that are whole. MalformedMessage at a size nobody may send."""
    frames: list[memoryview] = []
    position = 0
    end = len(buffer)
    while end - position >= SIZE_BYTES:
        size = frame_size(buffer, position, max_frame_bytes)
        start = position + SIZE_BYTES
        if size > end - start:
            return Split(frames, position, size - (end - start))
        frames.append(buffer[start : start + size])
        position = start + size
    left = end - position
    return Split(frames, position, SIZE_BYTES - left if left else 0)


def frame_size(buffer: bytes | bytearray | memoryview, position: int, max_frame_bytes: int) -> int:
    size: int = _SIZE.unpack_from(buffer, position)[0]
    if size < 0 or size > max_frame_bytes:
        raise MalformedMessage(f"frame of {size} bytes announced; 0 to {max_frame_bytes} are accepted")
    return size


def frame(body: bytes) -> bytes:
    return _SIZE.pack(len(body)) + body
