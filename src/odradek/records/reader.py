"""From a batch to its records. The broker's own path never comes here: it is for clients, tools and lookups.

A record: varint length, attributes i8 (unused), varlong timestamp delta, varint offset delta, key, value,
headers; lengths are zigzag varints, -1 is null (KIP-98).
"""

from typing import NamedTuple

from odradek.records.batch import (
    BATCH_OVERHEAD,
    LOG_APPEND_TIME,
    MAX_SEQUENCE,
    NO_SEQUENCE,
    BatchHeader,
    check_crc,
    read_header,
)
from odradek.records.compression import DEFAULT_MAX_DECOMPRESSED_BYTES, decompress
from odradek.records.errors import CorruptBatch, InvalidRecord

Buffer = bytes | bytearray | memoryview
Header = tuple[str, bytes | None]
_new = tuple.__new__


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    sequence: int = NO_SEQUENCE


def decode_batch(
    buffer: Buffer,
    position: int = 0,
    *,
    verify_crc: bool = True,
    created: bool = False,
    max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> list[Record]:
    """The records of the batch at `position`; CorruptBatch or InvalidRecord say what is wrong with it.

    `created` gives the producers' timestamps even where the batch says LogAppendTime.
    """
    header = read_header(buffer, position)
    if header.size_bytes > len(buffer) - position:
        raise CorruptBatch(f"batch of {header.size_bytes} bytes, {len(buffer) - position} are there")
    if verify_crc and not check_crc(buffer, position, header):
        raise CorruptBatch(f"batch at offset {header.base_offset}: its CRC is not {header.crc}")
    block: Buffer = memoryview(buffer)[position + BATCH_OVERHEAD : position + header.size_bytes]
    if len(block):  # an emptied batch keeps its codec and has no block (compaction)
        block = decompress(header.attributes & 7, block, max_bytes)
    if created:
        header = header._replace(attributes=header.attributes & ~LOG_APPEND_TIME)
    return decode_records(header, block)


def decode_records(header: BatchHeader, block: Buffer, count: int | None = None) -> list[Record]:
    """`block` is what stands behind the header, decompressed. The count in the header, or of those that were asked for, must
    be exactly met."""
    data = bytes(block)  # slices of bytes are the records' own bytes; slices of a view would pin the block
    records: list[Record] = []
    position = 0
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    base_timestamp = header.base_timestamp
    for index in range(header.record_count if count is None else count):
        try:
            # One byte is what nearly every field of a small record takes: looked at before anything is called.
            size = data[position]
            if size < 0x80:
                size = (size >> 1) ^ -(size & 1)
                position += 1
            else:
                size, position = varint(data, position)
            end = position + size
            if size < 0 or end > len(data):
                raise InvalidRecord(f"{size} bytes long where {len(data) - position} are left")
            # A single zero is what most deltas and counts of headers are.
            at = position + 1
            timestamp_delta, at = varint(data, at) if data[at] else (0, at + 1)
            offset_delta, at = varint(data, at) if data[at] else (0, at + 1)
            key, at = _bytes(data, at, end)
            value, at = _bytes(data, at, end)
            headers, at = _headers(data, at, end) if data[at] else ((), at + 1)
        except IndexError:
            raise InvalidRecord(f"record {index}: the block ends inside it", index) from None
        except InvalidRecord as error:
            raise InvalidRecord(f"record {index}: {error.message}", index) from None
        if at != end:
            raise InvalidRecord(f"record {index}: {end - at} bytes are left over in it", index)
        position = end
        sequence = header.base_sequence
        if sequence != NO_SEQUENCE:
            sequence = (sequence + offset_delta) & MAX_SEQUENCE
        timestamp = wrapped(base_timestamp + timestamp_delta) if append_time is None else append_time
        offset = header.base_offset + offset_delta
        # The constructor of a named tuple is one frame more.
        records.append(_new(Record, (offset, timestamp, key, value, headers, sequence)))
    if position != len(data):
        raise InvalidRecord(f"{len(data) - position} bytes behind the last of {header.record_count} records")
    return records


def wrapped(timestamp: int) -> int:
    """As 64 bits have it. Java's clients wrap too, so such a record is read as everybody reads it."""
    return timestamp if -(2**63) <= timestamp < 2**63 else (timestamp + 2**63) % 2**64 - 2**63


def varint(data: Buffer, position: int) -> tuple[int, int]:
    """A zigzag varint of at most ten bytes, and where it ends. IndexError at the end of the data."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise InvalidRecord("a varint does not fit into 64 bits")
            return (value >> 1) ^ -(value & 1), position
        shift += 7
        if shift > 63:
            raise InvalidRecord("a varint has more than ten bytes")


def headers_count(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """How many headers follow in a record that ends at `end`, and where they begin."""
    count, position = varint(data, position)
    if count < 0 or 2 * count > end - position:
        raise InvalidRecord(f"{count} headers in a record with {end - position} bytes left")
    return count, position


def skip_headers(data: Buffer, position: int, end: int, count: int) -> int:
    """Where these headers end that begin at `position`, in a record that ends at `end`."""
    for _ in range(count):
        size, position = varint(data, position)
        if size < 0:
            raise InvalidRecord("a header without a key")
        size, position = varint(data, position + size)
        if size < -1:
            raise InvalidRecord(f"a length of {size}; only -1 stands for null")
        position += max(size, 0)
        if position > end:
            raise InvalidRecord("a header reaches beyond the end of its record")
    return position


def _bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size = data[position]
    if size < 0x80:  # one byte, as nearly always
        size = (size >> 1) ^ -(size & 1)
        position += 1
    else:
        size, position = varint(data, position)
    if size < 0:
        if size != -1:
            raise InvalidRecord(f"a length of {size}; only -1 stands for null")
        return None, position
    if size > end - position:
        raise InvalidRecord(f"a field of {size} bytes where the record has {end - position} left")
    return data[position : position + size], position + size


def _headers(data: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, position = varint(data, position)
    if count == 0:
        return (), position
    if count < 0 or count > end - position:
        raise InvalidRecord(f"{count} headers in a record with {end - position} bytes left")
    headers: list[Header] = []
    for _ in range(count):
        key, position = _bytes(data, position, end)
        if key is None:
            raise InvalidRecord("a header without a key")
        value, position = _bytes(data, position, end)
        # As Java's clients read it: brokers never looked at the bytes of a header's key.
        headers.append((key.decode("utf-8", "replace"), value))
    return tuple(headers), position
