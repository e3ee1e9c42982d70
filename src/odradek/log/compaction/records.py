"""The records of a batch as compaction needs them: where each lies, its key, and whether it has a value."""

from collections.abc import Callable
from typing import NamedTuple

from odradek.records.batch import BATCH_OVERHEAD, BatchHeader, Buffer
from odradek.records.compression import MOST_OPENED_BYTES, decompress
from odradek.records.errors import InvalidRecord
from odradek.records.reader import varint


class Place(NamedTuple):
    """`begin` and `end` bound the whole record, its length included; `body` is where its key's length begins."""

    begin: int
    body: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def opened(header: BatchHeader, batch: Buffer) -> bytes:
    """What stands behind the header of the whole `batch`, decompressed. CorruptBatch: no codec wrote it, or more comes out of it
    than any broker of ours took in."""
    block = memoryview(batch)[BATCH_OVERHEAD : header.size_bytes]
    if header.codec and len(block):
        return bytes(decompress(header.codec, block, max(MOST_OPENED_BYTES, len(block))))
    return bytes(block)


# Called every PIECE records, some 0.03 ms, by whatever goes through a batch: whoever runs it in a thread lets
# others have the processor and the interpreter. A batch may have a thousand records, or twenty thousand small ones.
Pause = Callable[[], None]
PIECE = 16


def no_pause() -> None:
    """For whoever has nobody to wait for."""


def places(data: bytes, count: int, pause: Pause = no_pause) -> list[Place]:
    """All `count` records, which fill `data` exactly; InvalidRecord names the first that is none."""
    found: list[Place] = []
    position = 0
    new = tuple.__new__
    try:
        for number in range(count):
            if not number % PIECE:
                pause()
            begin = position
            # One byte is what nearly every field of a small record takes: looked at before anything is called.
            size = data[position]
            if size < 0x80:
                size = (size >> 1) ^ -(size & 1)
                position += 1
            else:
                size, position = varint(data, position)
            end = position + size
            timestamp_delta = data[position + 1]
            if timestamp_delta < 0x80:
                timestamp_delta = (timestamp_delta >> 1) ^ -(timestamp_delta & 1)
                position += 2
            else:
                timestamp_delta, position = varint(data, position + 1)
            offset_delta = data[position]
            if offset_delta < 0x80:
                offset_delta = (offset_delta >> 1) ^ -(offset_delta & 1)
                position += 1
            else:
                offset_delta, position = varint(data, position)
            body = position
            key_size = data[position]
            if key_size < 0x80:
                key_size = (key_size >> 1) ^ -(key_size & 1)
                position += 1
            else:
                key_size, position = varint(data, position)
            if key_size < 0:
                key = None
            else:
                key = data[position : position + key_size]
                position += key_size
            # A value's length is odd, in zigzag, where it is negative: null.
            has_value = not data[position] & 1
            if size < 0 or position >= end or end > len(data):
                raise InvalidRecord(f"{size} bytes long where {len(data) - begin} are left")
            found.append(new(Place, (begin, body, end, timestamp_delta, offset_delta, key, has_value)))
            position = end
    except (IndexError, InvalidRecord) as error:
        why = "the block ends inside it" if isinstance(error, IndexError) else error.message
        raise InvalidRecord(f"record {len(found)} of {count}: {why}", len(found)) from None
    if position != len(data):
        raise InvalidRecord(f"{len(data) - position} bytes behind the last of {count} records")
    return found
