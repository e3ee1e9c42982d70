"""Record batches, as a Fetch brings them, become Arrow columns; no Python runs per record.

    fetched bytes ── headers: CRC, control, aborted ──> batches that count
                  ── slices ──> decompressed, so many bytes and records at a time
                  ── record_positions ──> where each record begins
                  ── numpy, one field of all records at a time ──> where keys and values lie
                  ── one Arrow array over the very bytes, every second slot taken ──> columns

The slow decoder that this one is held equal to is `odradek.records.reader`.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.records.batch import (
    BATCH_OVERHEAD,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    read_header,
)
from odradek.records.control import ABORT, control_type
from odradek.records.errors import CorruptBatch
from odradek.records.reader import decode_batch
from odradek.spark.batch_headers import Headers, check_crcs, headers_of
from odradek.spark.compiled import kernels
from odradek.spark.opened import TooLarge
from odradek.spark.record_positions import Bytes, Positions, varints
from odradek.spark.slices import Limits, Slice, slices

DEFAULT_LIMITS = Limits()
SLICE_HEADERS = 100_000
_LARGEST_MARKER = 1024  # an end of a transaction has 78 bytes
_MICROSECONDS = 1000
_MOST_MILLISECONDS = (2**63 - 1) // _MICROSECONDS


class CorruptRange(CorruptBatch):
    """What a broker sent is damaged; the message names topic, partition and offset."""


class RecordTooLarge(OdradekError):
    """A record cannot be held within the bound; the message names topic, partition, offset and bound."""


class _Parsed(NamedTuple):
    """The records of some batches, field by field. Positions point into `data`; a length of -1 is null."""

    data: Bytes
    offset: Positions
    timestamp_ms: Positions
    timestamp_type: Positions
    leader_epoch: Positions
    key: Positions
    key_length: Positions
    value: Positions
    value_length: Positions
    headers: Positions
    header_count: Positions
    end: Positions


def decode(
    records: memoryview | bytes,
    *,
    partition: TopicPartition,
    start: int,
    end: int,
    schema: pa.Schema,
    aborted: Iterable[tuple[int, int]] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The records with offsets in [start, end), with the columns that `schema` names, as it types them.

    Slice by slice, each with the offset up to which it and those before it have read. `records` are whole batches.
    `aborted` are the producer ids and first offsets of a read_committed Fetch; what they wrote is left out, as control
    batches are always. Raises CorruptRange, and RecordTooLarge for what `limits` do not allow.
    """
    try:
        for piece in slices(records, _choose(records, start, end, aborted), limits):
            yield from _decoded(piece, partition, start, end, schema)
            del piece  # nothing of it may be held while the next one is made
    except CorruptBatch as error:
        raise CorruptRange(f"{partition}, offsets {start} to {end}: {error}") from error
    except TooLarge as error:
        raise RecordTooLarge(
            f"{partition}, offsets {start} to {end}: {error}; {limits.record_bytes} is the most that is read. "
            f"In a program the option maxRecordBytes raises it; a task then takes about four times as much memory"
        ) from error


def _decoded(
    piece: Slice, partition: TopicPartition, start: int, end: int, schema: pa.Schema
) -> Iterator[tuple[int, pa.RecordBatch]]:
    if not len(piece.starts):  # batches of no records: what is compressed takes bytes all the same
        return
    parsed = _parse(piece)
    if parsed.offset.min() < start or parsed.offset.max() >= end:
        parsed = _only(parsed, np.flatnonzero((parsed.offset >= start) & (parsed.offset < end)))
    for part in _bounded_headers(parsed) if "headers" in schema.names else (parsed,):
        if len(part.offset):
            columns = [_column(field, part, partition) for field in schema]
            yield int(part.offset[-1]) + 1, pa.RecordBatch.from_arrays(columns, schema=schema)


def _choose(records: memoryview | bytes, start: int, end: int, aborted: Iterable[tuple[int, int]]) -> Headers:
    """The batches whose records a reader of [start, end) may see. Every batch that counts has its CRC checked."""
    headers = headers_of(records)
    is_control = headers.attributes & CONTROL != 0
    is_in_range = (headers.last_offset >= start) & (headers.base_offset < end)
    check_crcs(records, headers.only(is_in_range | is_control))
    is_seen = is_in_range & ~is_control
    is_seen &= (headers.record_count != 0) | (headers.size_bytes > BATCH_OVERHEAD)
    is_seen[_of_aborted(records, headers, aborted)] = False
    return headers.only(is_seen)


def _of_aborted(
    records: memoryview | bytes, headers: Headers, aborted: Iterable[tuple[int, int]]
) -> list[int]:
    """The batches that a transaction wrote which was aborted."""
    waiting = sorted(((first, producer) for producer, first in aborted), reverse=True)
    if not waiting:
        return []
    aborting: set[int] = set()
    found = []
    for number in np.flatnonzero(headers.attributes & (CONTROL | TRANSACTIONAL)).tolist():
        while waiting and waiting[-1][0] <= headers.last_offset[number]:
            aborting.add(waiting.pop()[1])
        producer = int(headers.producer_id[number])
        if producer not in aborting:
            continue
        if not headers.attributes[number] & CONTROL:
            found.append(number)
        elif _is_abort(records, int(headers.position[number])):
            aborting.discard(producer)
    return found


def _is_abort(records: memoryview | bytes, position: int) -> bool:
    header = read_header(records, position)
    if header.codec or header.size_bytes > _LARGEST_MARKER:
        raise CorruptBatch(
            f"a control batch of {header.size_bytes} bytes and codec {header.codec}; none is written"
        )
    marker = decode_batch(records, position, verify_crc=False)
    return bool(marker) and control_type(marker[0]) == ABORT


class _Fields(NamedTuple):
    """What stands in each record, where it stands."""

    timestamp_delta: Positions
    offset_delta: Positions
    key: Positions
    key_length: Positions
    value: Positions
    value_length: Positions
    headers: Positions
    header_count: Positions


def _fields(piece: Slice) -> _Fields:
    compiled = kernels()
    if compiled is not None:
        found = np.empty((len(_Fields._fields), len(piece.starts)), dtype=np.int64)
        if compiled.record_fields(piece.data, piece.starts, piece.ends, found):
            return _Fields(*found)
    return _fields_by_columns(piece)


def _fields_by_columns(piece: Slice) -> _Fields:
    data, starts, record_ends, _, _ = piece
    length, at = varints(data, starts)
    if bool((at + length != record_ends).any()):
        raise CorruptBatch("a record of another length than it claims")
    timestamp_delta, at = varints(data, at + 1)  # behind the attributes, which have no bit in use
    offset_delta, at = varints(data, at)
    key_length, key = varints(data, at)
    value_length, value = varints(data, _after(key, key_length, record_ends))
    header_count, at = varints(data, _after(value, value_length, record_ends))
    if bool((at > record_ends).any()):
        raise CorruptBatch("a record ends before its last field")
    if bool((header_count < 0).any()) or bool((header_count > record_ends - at).any()):
        raise CorruptBatch("a record with an impossible number of headers")
    if bool((at[header_count == 0] != record_ends[header_count == 0]).any()):
        raise CorruptBatch("a record is longer than its fields")
    return _Fields(timestamp_delta, offset_delta, key, key_length, value, value_length, at, header_count)


def _parse(piece: Slice) -> _Parsed:
    fields = _fields(piece)
    headers, counts = piece.headers, piece.counts

    def of_batch(column: Positions) -> Positions:
        return np.repeat(column, counts)

    append_time = (headers.attributes & LOG_APPEND_TIME != 0).astype(np.int64)
    timestamp_ms = fields.timestamp_delta + of_batch(headers.base_timestamp)
    if append_time.any():
        # KIP-32: with LogAppendTime the batch's max timestamp is the timestamp of all its records.
        timestamp_ms = np.where(of_batch(append_time) == 1, of_batch(headers.max_timestamp), timestamp_ms)
    return _Parsed(
        data=piece.data,
        offset=fields.offset_delta + of_batch(headers.base_offset),
        timestamp_ms=timestamp_ms,
        timestamp_type=of_batch(append_time),
        leader_epoch=of_batch(headers.leader_epoch),
        key=fields.key,
        key_length=fields.key_length,
        value=fields.value,
        value_length=fields.value_length,
        headers=fields.headers,
        header_count=fields.header_count,
        end=piece.ends,
    )


def _after(position: Positions, length: Positions, limit: Positions) -> Positions:
    """Where the field of `length` bytes at `position` ends, which is before `limit`."""
    if bool((length < -1).any()):
        raise CorruptBatch("a field of negative length")
    after = position + np.maximum(length, 0)
    if bool((after > limit).any()) or bool((after < position).any()):
        raise CorruptBatch("a field reaches beyond the end of its record")
    return after


def _only(parsed: _Parsed, chosen: npt.NDArray[np.intp]) -> _Parsed:
    return _Parsed(parsed.data, *(column[chosen] for column in parsed[1:]))


def _column(field: pa.Field, parsed: _Parsed, partition: TopicPartition) -> pa.Array:
    count = len(parsed.offset)
    match field.name:
        case "key":
            return _binary(parsed.data, parsed.key, parsed.key_length)
        case "value":
            return _binary(parsed.data, parsed.value, parsed.value_length)
        case "topic":
            return pa.repeat(pa.scalar(partition.topic, field.type), count)
        case "partition":
            return pa.repeat(pa.scalar(partition.partition, field.type), count)
        case "offset":
            return pa.array(parsed.offset, field.type)
        case "timestamp":
            # A timestamp beyond the year 294246 has no place in microseconds; it becomes the last that has.
            clipped = np.clip(parsed.timestamp_ms, -_MOST_MILLISECONDS, _MOST_MILLISECONDS)
            return pa.array(clipped * _MICROSECONDS, pa.int64()).cast(field.type)
        case "timestampType":
            return pa.array(parsed.timestamp_type, field.type)
        case "leaderEpoch":
            return pa.array(parsed.leader_epoch, field.type)
        case "headers":
            return _headers(field.type, parsed)
        case _:
            raise AssertionError(f"no column {field.name} in a record")


def _binary(data: Bytes, position: Positions, length: Positions) -> pa.Array:
    """The bytes at the positions, copied once by Arrow.

    One array is laid over the whole buffer: slot 2i is field i, slot 2i+1 what lies between it and the next.
    Taking the even slots copies the fields together.
    """
    count = len(position)
    is_null = length < 0
    nulls = int(is_null.sum())
    if nulls == count:
        return pa.nulls(count, pa.binary())
    borders = np.empty(2 * count + 1, dtype=np.int32)
    borders[0:-1:2] = position
    borders[1::2] = position + np.maximum(length, 0)
    borders[-1] = borders[-2]
    slots = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(borders), pa.py_buffer(data)])
    even = np.arange(0, 2 * count, 2, dtype=np.int32)
    return slots.take(pa.array(even, mask=is_null if nulls else None))


def _bounded_headers(parsed: _Parsed) -> Iterator[_Parsed]:
    """The same records in parts with so many headers at most: two bytes are one, and it costs a hundred."""
    total = np.cumsum(parsed.header_count)
    if not len(total) or total[-1] <= SLICE_HEADERS:
        yield parsed
        return
    most = int(parsed.header_count.max())
    if most > SLICE_HEADERS:
        offset = parsed.offset[int(parsed.header_count.argmax())]
        raise CorruptBatch(f"the record at offset {offset} has {most} headers; {SLICE_HEADERS} are the most")
    first = 0
    while first < len(total):
        before = int(total[first - 1]) if first else 0
        after = int(np.searchsorted(total, before + SLICE_HEADERS, side="right"))
        yield _only(parsed, np.arange(first, after))
        first = after


def _texts(names: pa.Array, kind: pa.DataType) -> pa.Array:
    """As Java's clients read them: brokers never looked at the bytes of a header's key."""
    try:
        return names.cast(kind)
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], kind)


def _headers(kind: pa.ListType, parsed: _Parsed) -> pa.Array:
    """Lists of (key, value), null for a record without any, as in Spark's connector.

    Header number n of all records that have so many is read at once.
    """
    counts = parsed.header_count
    borders = np.concatenate(([0], np.cumsum(counts)))
    total = int(borders[-1])
    # Two bytes is the least a header takes; what is allocated below follows from this claim.
    if 2 * total > len(parsed.data):
        raise CorruptBatch("records with more headers than bytes")
    key, key_length, value, value_length = (np.zeros(total, dtype=np.int64) for _ in range(4))
    owner = np.flatnonzero(counts > 0)
    at, limit = parsed.headers[owner], parsed.end[owner]
    number = 0
    while len(owner):
        slot = borders[owner] + number
        key_length[slot], key[slot] = varints(parsed.data, at)
        if bool((key_length[slot] < 0).any()):
            raise CorruptBatch("a header without a key")
        value_length[slot], value[slot] = varints(parsed.data, _after(key[slot], key_length[slot], limit))
        at = _after(value[slot], value_length[slot], limit)
        number += 1
        going_on = counts[owner] > number
        if bool((at[~going_on] != limit[~going_on]).any()):
            raise CorruptBatch("a record is longer than its fields")
        owner, at, limit = owner[going_on], at[going_on], limit[going_on]
    entry = kind.value_type
    # `_binary` wants rising positions. Slots are numbered record by record, so they do rise.
    values = _binary(parsed.data, value, value_length)
    keys = _texts(_binary(parsed.data, key, key_length), entry.field(0).type)
    entries = pa.StructArray.from_arrays([keys, values], fields=[entry.field(0), entry.field(1)])
    return pa.ListArray.from_arrays(
        pa.array(borders, pa.int32()), entries, type=kind, mask=pa.array(counts == 0)
    )
