"""The first record of a batch with some timestamp or a later one, found without opening more of it than that takes."""

from odradek.records.batch import CODEC_MASK, LOG_APPEND_TIME, BatchHeader, Buffer
from odradek.records.compression import decompress_prefix, most_opened_bytes
from odradek.records.errors import InvalidRecord, TakesLong
from odradek.records.opened import MOST_OPENED_RECORDS
from odradek.records.reader import varint, wrapped

# What is opened at first, and how much more each time that was not enough.
FIRST_BYTES = 64 << 10
GROWTH = 4


def first_record_at(
    header: BatchHeader, block: Buffer, *, timestamp: int, offset: int, at_once: bool = False
) -> tuple[int, int] | None:
    """Offset and timestamp of the first record from `offset` on that is not before `timestamp`; None: there is none.

    `block` is what stands behind the header, as it is. ProtocolError where it cannot be read so far, or is a bomb.
    TakesLong where it has to be `at_once`, and more than FIRST_BYTES would be opened.
    """
    codec = header.attributes & CODEC_MASK
    limit = most_opened_bytes(len(block)) if codec else len(block)
    size = FIRST_BYTES
    position = index = 0
    while True:
        size = min(size, limit)
        data, is_whole = decompress_prefix(codec, block, size)
        found, position, index = _walk(header, data, position, index, timestamp, offset)
        if found is not None or index == header.record_count:
            return found
        if is_whole or size == limit:
            raise InvalidRecord(f"the records end behind {index} of {header.record_count}")
        if at_once and codec:
            raise TakesLong(f"{index} of {header.record_count} records in the first {size} bytes")
        size *= GROWTH


def _walk(
    header: BatchHeader, data: Buffer, position: int, index: int, timestamp: int, offset: int
) -> tuple[tuple[int, int] | None, int, int]:
    """From record `index` at `position` as far as `data` goes: what was found, and where to go on with more data."""
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    end = len(data)
    for at_index in range(index, min(header.record_count, MOST_OPENED_RECORDS)):
        begin = position
        try:
            size, position = varint(data, position)
            if size < 0:
                raise InvalidRecord(f"record {at_index} has length {size}")
            behind = position + size
            delta, position = varint(data, position + 1)
            record_offset, _ = varint(data, position)
        except IndexError:
            return None, begin, at_index
        record_offset += header.base_offset
        time = wrapped(header.base_timestamp + delta) if append_time is None else append_time
        if time >= timestamp and record_offset >= offset:
            return (record_offset, time), behind, at_index
        if behind > end:
            return None, begin, at_index
        position = behind
    if header.record_count > MOST_OPENED_RECORDS:
        raise InvalidRecord(f"batch of {header.record_count} records; {MOST_OPENED_RECORDS} are looked at")
    return None, position, header.record_count
