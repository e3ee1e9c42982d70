"""From records to a batch: for clients, control records, tools and tests. Deterministic, byte for byte."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from odradek.records.batch import (
    ATTRIBUTES_OFFSET,
    BATCH_OVERHEAD,
    CONTROL,
    CRC_OFFSET,
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
)
from odradek.records.checksum import crc32c
from odradek.records.compression import CODEC_NAMES, CODEC_NUMBERS, compress
from odradek.records.reader import Record

Header = tuple[str, bytes | None]


class NewRecord(NamedTuple):
    """What a producer gives. `offset_delta` None counts on from the record before; compaction leaves gaps."""

    key: bytes | None
    value: bytes | None
    timestamp: int = NO_TIMESTAMP
    headers: Sequence[Header] = ()
    offset_delta: int | None = None


def build_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: str = "none",
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    base_timestamp: int | None = None,
    max_timestamp: int | None = None,
    last_offset_delta: int | None = None,
) -> bytes:
    """One batch. What is None follows from the records: base timestamp the first's, max timestamp the
    largest, last offset delta the last's. They are given where a batch is copied with fewer records.
    """
    records = list(records)
    codec_number = CODEC_NUMBERS[codec]
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else NO_TIMESTAMP
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms  # KIP-534: the horizon takes the place of the base timestamp
    body = bytearray()
    delta = -1
    largest = NO_TIMESTAMP
    for record in records:
        delta = delta + 1 if record.offset_delta is None else record.offset_delta
        _append_record(body, record, record.timestamp - base_timestamp, delta)
        largest = max(largest, record.timestamp)
    if log_append_time_ms is not None:
        largest = log_append_time_ms
    attributes = codec_number
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
    if is_transactional:
        attributes |= TRANSACTIONAL
    if is_control:
        attributes |= CONTROL
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
    block = compress(codec_number, body, level) if body else b""
    header = BatchHeader(
        base_offset,
        0,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        max(delta, 0) if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        largest if max_timestamp is None else max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    return batch_bytes(header, block)


def batch_bytes(header: BatchHeader, block: Buffer) -> bytes:
    """A batch of these fields over `block`, the records as they are stored; size and CRC are its own."""
    size = BATCH_OVERHEAD + len(block)
    batch = bytearray(size)
    HEADER.pack_into(
        batch, 0, header.base_offset, size - LOG_OVERHEAD, header.leader_epoch, MAGIC, 0, *header[5:]
    )
    batch[BATCH_OVERHEAD:] = block
    batch[CRC_OFFSET:ATTRIBUTES_OFFSET] = crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:]).to_bytes(4, "big")
    return bytes(batch)


def rebuild_batch(
    header: BatchHeader, records: Iterable[Record], *, codec: str | None = None, level: int | None = None
) -> bytes:
    """The batch that `header` heads, with these of its records, in its own codec or another.

    With LogAppendTime the records must carry the timestamps they were created with (`decode_batch(...,
    created=True)`): the deltas in the batch are theirs.
    """
    return build_batch(
        [
            NewRecord(
                record.key, record.value, record.timestamp, record.headers, record.offset - header.base_offset
            )
            for record in records
        ],
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        codec=CODEC_NAMES[header.codec] if codec is None else codec,
        level=level,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        log_append_time_ms=header.max_timestamp if header.is_log_append_time else None,
        delete_horizon_ms=header.delete_horizon_ms,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        last_offset_delta=header.last_offset_delta,
    )


def _append_record(body: bytearray, record: NewRecord, timestamp_delta: int, offset_delta: int) -> None:
    fields = bytearray(b"\x00")  # record attributes: none defined
    append_varint(fields, timestamp_delta)
    append_varint(fields, offset_delta)
    _append_bytes(fields, record.key)
    _append_bytes(fields, record.value)
    append_varint(fields, len(record.headers))
    for key, value in record.headers:
        _append_bytes(fields, key.encode("utf-8"))
        _append_bytes(fields, value)
    append_varint(body, len(fields))
    body += fields


def _append_bytes(target: bytearray, data: bytes | None) -> None:
    if data is None:
        target.append(1)  # -1 in zigzag
        return
    append_varint(target, len(data))
    target += data


def append_varint(target: bytearray, value: int) -> None:
    """Zigzag, seven bits a byte, low bits first."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        target.append((value & 0x7F) | 0x80)
        value >>= 7
    target.append(value)
