"""Arrow rows become record batches, without Python per record: the way back of `odradek.spark.decode`.

What is small of a record (lengths, deltas) is computed for all of them with numpy; Arrow joins it with keys and values, a
record after the other, and what it joined is the body of the batches:

    head   length, attributes, timestamp delta, offset delta, length of the key
    key
    middle length of the value
    value
    tail   number of headers, headers

The batches carry no producer and no checksum yet: `client.sync_transaction` stamps both when it sends them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.records.batch import (
    BATCH_OVERHEAD,
    HEADER,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
)
from odradek.records.compression import CODEC_NUMBERS, Buffer, compress
from odradek.spark.fingerprint import Fingerprint, of_arrow
from odradek.spark.murmur2 import partitions_of

# Before compression. Below max.message.bytes of a topic (1 MiB), which counts what is left behind it.
BATCH_BYTES = 512 << 10
_OVERHEAD = 24  # of a record, at most, where it has no headers
Ints = np.ndarray[Any, np.dtype[np.int64]]


class BadRow(OdradekError):
    """A row cannot be a record; the message says which and why."""


class Batch(NamedTuple):
    """A record batch of one partition: `header` and `body` one behind the other."""

    partition: TopicPartition
    records: int
    header: bytes
    body: Buffer


class Places(NamedTuple):
    """Which topics there are, and how many partitions each has."""

    topic: str | None  # that all rows go to; None: the column `topic` says
    partitions: Callable[[str], int]


class Encoded(NamedTuple):
    batches: Sequence[Batch]
    proofs: Mapping[TopicPartition, Fingerprint]


def encoded(
    rows: pa.RecordBatch,
    places: Places,
    *,
    codec: str,
    now_ms: int,
    keyless_from: int = 0,
    batch_bytes: int = BATCH_BYTES,
) -> Encoded:
    """`rows` has columns as `records_of` gives them. Rows without key and partition are dealt out in runs, beginning at
    partition `keyless_from`; a row's place within its partition is its place among the rows."""
    topics, of_topic = _topics(rows, places)
    partition = _partitions(rows, topics, of_topic, places, keyless_from)
    order = np.lexsort((partition, of_topic))
    if not np.array_equal(order, np.arange(len(order))):
        rows = rows.take(pa.array(order))
        of_topic, partition = of_topic[order], partition[order]
    timestamps = _timestamps(rows, now_ms)
    heads, tails = _sizes(rows)
    starts_group = np.flatnonzero(_changes(of_topic) | _changes(partition))
    starts = _batch_starts(heads + tails + _OVERHEAD, starts_group, batch_bytes)
    first = starts[np.cumsum(_at(starts, rows.num_rows)) - 1]
    body = _bodies(rows, timestamps - timestamps[first], np.arange(rows.num_rows) - first)
    borders = np.frombuffer(body.buffers()[1], np.int32)
    data = memoryview(body.buffers()[2])
    ends = np.append(starts[1:], rows.num_rows)
    newest = np.maximum.reduceat(timestamps, starts)
    batches = []
    number = CODEC_NUMBERS[codec]
    for start, end, most in zip(starts.tolist(), ends.tolist(), newest.tolist(), strict=True):
        block = compress(number, data[borders[start] : borders[end]])
        where = TopicPartition(topics[of_topic[start]], int(partition[start]))
        header = _header(number, end - start, int(timestamps[start]), most, len(block))
        batches.append(Batch(where, end - start, header, block))
    return Encoded(batches, _proofs(rows, topics, of_topic, partition, starts_group))


def records_of(rows: pa.RecordBatch, topic: str | None) -> pa.RecordBatch:
    """The columns that become records, each of one kind: key, value, headers, partition, timestamp, and topic where rows
    tell of it. Others are left out, as Spark's connector does."""
    found = {name.lower(): column for name, column in zip(rows.schema.names, rows.columns, strict=True)}
    count = rows.num_rows
    chosen = {
        "key": found["key"].cast(pa.binary()) if "key" in found else pa.nulls(count, pa.binary()),
        "value": found["value"].cast(pa.binary()),
        "headers": found.get("headers"),
        "partition": found["partition"].cast(pa.int32()) if "partition" in found else None,
        "timestamp": found.get("timestamp"),
        "topic": found["topic"].cast(pa.string()) if topic is None else None,
    }
    there = {name: column for name, column in chosen.items() if column is not None}
    return pa.RecordBatch.from_arrays(list(there.values()), names=list(there))


def _topics(rows: pa.RecordBatch, places: Places) -> tuple[list[str], Ints]:
    if places.topic is not None:
        return [places.topic], np.zeros(rows.num_rows, np.int64)
    column = rows.column("topic")
    if column.null_count:
        raise BadRow("a row has no topic: its column topic is null, and the option topic is not set")
    kinds = column.dictionary_encode()
    return kinds.dictionary.to_pylist(), kinds.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _partitions(
    rows: pa.RecordBatch, topics: Sequence[str], of_topic: Ints, places: Places, keyless_from: int
) -> Ints:
    partition = np.full(rows.num_rows, -1, np.int64)
    if "partition" in rows.schema.names:
        partition = pc.fill_null(rows.column("partition"), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    has_key = rows.column("key").is_valid().to_numpy(zero_copy_only=False)
    for number, topic in enumerate(topics):
        count = places.partitions(topic)
        mine = of_topic == number
        given = partition[mine & (partition != -1)]
        if len(given) and not (given.min() >= 0 and given.max() < count):
            wrong = given[(given < 0) | (given >= count)][0]
            raise BadRow(f"a row is for partition {wrong} of {topic}, which has partitions 0 to {count - 1}")
        keyed = np.flatnonzero(mine & (partition == -1) & has_key)
        keys = rows.column("key") if len(keyed) == rows.num_rows else rows.column("key").take(pa.array(keyed))
        partition[keyed] = partitions_of(keys, count)
        keyless = np.flatnonzero(mine & (partition == -1))
        if len(keyless):
            # In runs, so that batches are large; the next slice goes on elsewhere.
            run = -(-len(keyless) // count)
            partition[keyless] = (keyless_from + np.arange(len(keyless)) // run) % count
    return partition


def _timestamps(rows: pa.RecordBatch, now_ms: int) -> Ints:
    if "timestamp" not in rows.schema.names:
        return np.full(rows.num_rows, now_ms, np.int64)
    micros = rows.column("timestamp").cast(pa.timestamp("us", rows.column("timestamp").type.tz))
    found = pc.fill_null(micros.cast(pa.int64()), now_ms * 1000).to_numpy(zero_copy_only=False)
    timestamps: Ints = found // 1000
    if len(timestamps) and timestamps.min() < 0:
        raise BadRow(
            f"a row has a timestamp before 1970 ({int(timestamps.min())} ms), which no record may have"
        )
    return timestamps


def _sizes(rows: pa.RecordBatch) -> tuple[Ints, Ints]:
    """Bytes of key and value together, and of headers about."""
    sizes = sum(
        pc.fill_null(pc.binary_length(rows.column(name)), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        for name in ("key", "value")
    )
    if "headers" not in rows.schema.names:
        return sizes, np.zeros(rows.num_rows, np.int64)
    headers = _headers(rows.column("headers"))
    return sizes, np.diff(np.frombuffer(headers.buffers()[1], np.int32)[: rows.num_rows + 1]).astype(np.int64)


def _changes(column: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.append(True, column[1:] != column[:-1])[: len(column)]


def _at(places: Ints, count: int) -> Ints:
    marks = np.zeros(count, np.int64)
    marks[places] = 1
    return marks


def _batch_starts(sizes: Ints, groups: Ints, batch_bytes: int) -> Ints:
    """Rows at which a batch begins: with each partition, and where the one before is full."""
    before = np.cumsum(sizes) - sizes
    group = np.cumsum(_at(groups, len(sizes))) - 1
    full = (before - before[groups][group]) // batch_bytes
    return np.flatnonzero(_changes(group) | _changes(full))


def _bodies(rows: pa.RecordBatch, timestamp_deltas: Ints, offset_deltas: Ints) -> pa.Array:
    """All records as they stand in a batch, each a binary value."""
    key, value = rows.column("key"), rows.column("value")
    key_size, value_size = _length(key), _length(value)
    tails = _headers(rows.column("headers")) if "headers" in rows.schema.names else None
    tail_size = 1 if tails is None else _length(tails)
    fields = [_zigzag(timestamp_deltas), _zigzag(offset_deltas), _zigzag(key_size)]
    value_length = _zigzag(value_size)
    size = 1 + sum(_varint_sizes(field) for field in fields) + _varint_sizes(value_length)
    size = size + np.maximum(key_size, 0) + np.maximum(value_size, 0) + tail_size
    attributes = np.zeros(rows.num_rows, np.uint64)
    head = _varints([_zigzag(size), attributes, *fields])
    middle = _varints([value_length])
    none = pa.scalar(b"\x00", pa.binary())  # headers: the number of them
    pieces = (head, _filled(key), middle, _filled(value), none if tails is None else tails)
    joined: pa.Array = pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.binary()))
    assert joined.offset == 0, "borders are counted from the beginning"
    return joined


def _headers(column: pa.Array) -> pa.Array:
    """Number and content of each row's headers; null is none of them."""
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    fields = column.flatten()
    keys = fields.field("key") if not fields.offset else fields.flatten()[0]
    values = fields.field("value") if not fields.offset else fields.flatten()[1]
    keys, values = keys.cast(pa.binary()), values.cast(pa.binary())
    if keys.null_count:
        raise BadRow("a header has no key; its value may be null")
    pieces = (_varints([_zigzag(_length(keys))]), keys, _varints([_zigzag(_length(values))]), _filled(values))
    each = pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.binary()))
    # Those of a row stand one behind the other: a row's borders are those of its first and last.
    of_rows = np.append(0, np.cumsum(counts))
    borders = np.frombuffer(each.buffers()[1], np.int32)[of_rows] if len(each) else of_rows.astype(np.int32)
    data = each.buffers()[2] if len(each) else pa.py_buffer(b"")
    whole = pa.Array.from_buffers(
        pa.binary(), len(counts), [None, pa.py_buffer(np.ascontiguousarray(borders)), data]
    )
    return pc.binary_join_element_wise(_varints([_zigzag(counts)]), whole, pa.scalar(b"", pa.binary()))


def _filled(column: pa.Array) -> pa.Array:
    return pc.fill_null(column, b"") if column.null_count else column


def _length(column: pa.Array) -> Ints:
    """In bytes, -1 of null."""
    found = pc.fill_null(pc.binary_length(column), -1).to_numpy(zero_copy_only=False)
    lengths: Ints = found.astype(np.int64)
    return lengths


def _zigzag(numbers: Ints) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def _varint_sizes(numbers: np.ndarray[Any, np.dtype[np.uint64]]) -> Ints:
    sizes = np.ones(len(numbers), np.int64)
    most = int(numbers.max(initial=0))
    for shift in range(7, max(most.bit_length(), 1), 7):
        sizes += numbers >= np.uint64(1 << shift)
    return sizes


def _varints(fields: Sequence[np.ndarray[Any, np.dtype[np.uint64]]]) -> pa.Array:
    """A binary value a row: its fields as varints, one behind the other, seven bits a byte, low bits first."""
    sizes = [_varint_sizes(field) for field in fields]
    whole = sum(sizes, np.zeros(len(fields[0]), np.int64))
    borders = np.append(0, np.cumsum(whole))
    data = np.empty(int(borders[-1]), np.uint8)
    at = borders[:-1].copy()
    for field, size in zip(fields, sizes, strict=True):
        longest = int(size.max(initial=1))
        for byte in range(longest):
            rows = slice(None) if byte == 0 else np.flatnonzero(size > byte)
            bits = (field[rows] >> np.uint64(7 * byte)).astype(np.uint8) & 0x7F
            goes_on = (size[rows] > byte + 1).astype(np.uint8) << 7
            data[at[rows] + byte] = bits | goes_on
        at += size
    buffers = [None, pa.py_buffer(borders.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(whole), buffers)


def _header(codec: int, count: int, base_timestamp: int, max_timestamp: int, body_bytes: int) -> bytes:
    return HEADER.pack(
        *(0, BATCH_OVERHEAD + body_bytes - LOG_OVERHEAD, -1, MAGIC, 0, codec | TRANSACTIONAL, count - 1),
        *(base_timestamp, max_timestamp, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count),
    )


def _proofs(
    rows: pa.RecordBatch, topics: Sequence[str], of_topic: Ints, partition: Ints, groups: Ints
) -> dict[TopicPartition, Fingerprint]:
    proofs = {}
    for start, end in zip(groups.tolist(), [*groups[1:].tolist(), rows.num_rows], strict=True):
        where = TopicPartition(topics[of_topic[start]], int(partition[start]))
        piece = rows.slice(start, end - start)
        proofs[where] = of_arrow(piece.column("key"), piece.column("value"))
    return proofs


def slices_of(batches: Iterator[pa.RecordBatch], most_bytes: int) -> Iterator[pa.RecordBatch]:
    """The same rows, in pieces of about so many bytes: small ones together, large ones cut."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        pieces = max(1, min(batch.num_rows, -(-batch.nbytes // most_bytes)))
        step = -(-batch.num_rows // pieces)
        for start in range(0, batch.num_rows, step):
            held.append(batch.slice(start, step))
            size += held[-1].nbytes
            if size >= most_bytes:
                yield _one(held)
                held, size = [], 0
    if held:
        yield _one(held)


def _one(held: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    (batch,) = pa.Table.from_batches(held).combine_chunks().to_batches()
    return batch
