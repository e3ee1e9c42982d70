"""Arrow rows become record batches, without Python per record: the way back of `odradek.spark.decode`.

    all rows of a slice   which partition each is for, and at which rows a batch begins: by lengths alone
    some batches of it    are gathered, encoded, hashed, compressed and checked, while they are in the processor's cache

What is small of a record (lengths, deltas) is computed for all of these with numpy; Arrow joins it with keys and values, a
record after the other, and what it joined is the body of the batches:

    head   length, attributes, timestamp delta, offset delta, length of the key
    key
    middle length of the value
    value
    tail   number of headers, headers

The batches carry no producer yet: `client.sync_transaction` stamps it when it sends them.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.records.batch import (
    ATTRIBUTES_OFFSET,
    BATCH_OVERHEAD,
    CRC_OFFSET,
    HEADER,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
)
from odradek.records.checksum import crc32c
from odradek.records.compression import CODEC_NUMBERS, Buffer, compress
from odradek.spark.fingerprint import Fingerprint, of_arrow
from odradek.spark.murmur2 import partitions_of

# Before compression. Below max.message.bytes of a topic (1 MiB), which counts what is left behind it.
BATCH_BYTES = 512 << 10
# Of records that are encoded at once: numpy is called seldom, and what it works on stays near the processor.
_BLOCK_BYTES = 8 << 20
_OVERHEAD = 24  # of a record, at most, where it has no headers
_OVERHEAD_OF_HEADER = 4  # at most, where key and value are below 8 KiB
Ints = np.ndarray[Any, np.dtype[np.int64]]


class BadRow(OdradekError):
    """A row cannot be a record; the message says which and why."""


class Batch(NamedTuple):
    """A record batch of one partition: `header` and `body` one behind the other."""

    partition: TopicPartition
    header: bytes
    body: Buffer


class Places(NamedTuple):
    """Which topics there are, and how many partitions each has."""

    topic: str | None  # that all rows go to; None: the column `topic` says
    partitions: Callable[[str], int]


class Encoded(NamedTuple):
    batches: Sequence[Batch]
    proofs: Sequence[tuple[TopicPartition, Fingerprint]]


def encoded(
    rows: pa.Table,
    places: Places,
    *,
    codec: str,
    now_ms: int,
    keyless_from: int = 0,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[Encoded]:
    """`rows` has columns as `records_of` gives them. Rows without key and partition are dealt out in runs, beginning at
    partition `keyless_from`; a row's place within its partition is its place among the rows."""
    topics, of_topic = _topics(rows, places)
    partition = _partitions(rows, topics, of_topic, places, keyless_from)
    timestamps = _timestamps(rows, now_ms)
    sizes = _sizes(rows)
    order = _order(of_topic, partition)
    rows = rows.select([name for name in ("key", "value", "headers") if name in rows.schema.names])
    if order is not None:
        together = _in_one(rows)
        of_topic, partition = of_topic[order], partition[order]
        timestamps, sizes = timestamps[order], sizes[order]
    group = np.cumsum(_changes(of_topic) | _changes(partition)) - 1
    starts = _batch_starts(sizes, group, batch_bytes)
    for first, end in _blocks(sizes, starts):
        if order is None:
            of_block = _in_one(rows.slice(first, end - first))
        else:
            of_block = together.take(pa.array(order[first:end]))
        here = starts[np.searchsorted(starts, first) : np.searchsorted(starts, end)] - first
        places_of = [
            TopicPartition(topics[of_topic[row]], int(partition[row])) for row in (here + first).tolist()
        ]
        yield _encoded(of_block, places_of, here, timestamps[first:end], CODEC_NUMBERS[codec])


def records_of(rows: pa.Table, topic: str | None) -> pa.Table:
    """The columns that become records, each of one kind: key, value, headers, partition, timestamp, and topic where rows
    tell of it. Others are left out, as Spark's connector does."""
    found = {name.lower(): column for name, column in zip(rows.schema.names, rows.columns, strict=True)}
    chosen = {
        "key": found["key"].cast(pa.binary()) if "key" in found else None,
        "value": found["value"].cast(pa.binary()),
        "headers": found.get("headers"),
        "partition": found["partition"].cast(pa.int32()) if "partition" in found else None,
        "timestamp": found.get("timestamp"),
        "topic": found["topic"].cast(pa.string()) if topic is None else None,
    }
    return pa.table({name: column for name, column in chosen.items() if column is not None})


def _order(of_topic: Ints, partition: Ints) -> Ints | None:
    """The rows by topic and partition, those of a partition as they come; None where those of each stand together already."""
    place = of_topic * (int(partition.max(initial=0)) + 1) + partition
    runs = place[_changes(place)]
    if len(runs) <= int(place.max(initial=0)) + 1 and len(np.unique(runs)) == len(runs):
        return None
    # Narrow numbers are sorted by their digits.
    narrow = np.uint16 if int(place.max()) <= np.iinfo(np.uint16).max else np.int64
    order: Ints = np.argsort(place.astype(narrow), kind="stable")
    return order


def _in_one(rows: pa.Table) -> pa.RecordBatch:
    batches = rows.to_batches()
    return batches[0] if len(batches) == 1 else rows.combine_chunks().to_batches()[0]


def _column(rows: pa.Table, name: str) -> pa.Array:
    return rows.column(name).combine_chunks()


def _encoded(
    rows: pa.RecordBatch, partitions: Sequence[TopicPartition], starts: Ints, timestamps: Ints, codec: int
) -> Encoded:
    """Batches that begin at `starts`, each of one partition."""
    count = rows.num_rows
    key = rows.column("key") if "key" in rows.schema.names else pa.nulls(count, pa.binary())
    value = rows.column("value")
    headers = rows.column("headers") if "headers" in rows.schema.names else None
    ends = np.append(starts[1:], count)
    first = np.repeat(starts, ends - starts)
    joined = _bodies(key, value, headers, timestamps - timestamps[first], np.arange(count) - first)
    borders = np.frombuffer(joined.buffers()[1], np.int32)[joined.offset : joined.offset + count + 1]
    data = memoryview(joined.buffers()[2])
    newest = np.maximum.reduceat(timestamps, starts).tolist()
    batches = []
    for where, start, end, most in zip(partitions, starts.tolist(), ends.tolist(), newest, strict=True):
        body = compress(codec, data[borders[start] : borders[end]])
        batches.append(Batch(where, _header(codec, end - start, int(timestamps[start]), most, body), body))
    proofs = []
    begin = 0
    for where, of_one in groupby(zip(partitions, ends.tolist(), strict=True), key=itemgetter(0)):
        *_, (_, end) = of_one
        rest = slice(begin, end)
        proofs.append((where, of_arrow(key[rest], value[rest])))
        begin = end
    return Encoded(batches, proofs)


def _topics(rows: pa.Table, places: Places) -> tuple[list[str], Ints]:
    if places.topic is not None:
        return [places.topic], np.zeros(rows.num_rows, np.int64)
    column = _column(rows, "topic")
    if column.null_count:
        raise BadRow("a row has no topic: its column topic is null, and the option topic is not set")
    kinds = column.dictionary_encode()
    return kinds.dictionary.to_pylist(), kinds.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _partitions(
    rows: pa.Table, topics: Sequence[str], of_topic: Ints, places: Places, keyless_from: int
) -> Ints:
    partition = np.full(rows.num_rows, -1, np.int64)
    is_told = np.zeros(rows.num_rows, np.bool_)
    if "partition" in rows.schema.names:
        column = _column(rows, "partition")
        is_told = _is_valid(column)
        partition = pc.fill_null(column, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    key = _column(rows, "key") if "key" in rows.schema.names else None
    has_key = np.zeros(rows.num_rows, np.bool_) if key is None else _is_valid(key)
    for number, topic in enumerate(topics):
        count = places.partitions(topic)
        mine = of_topic == number
        told = partition[mine & is_told]
        if len(told) and not (told.min() >= 0 and told.max() < count):
            wrong = told[(told < 0) | (told >= count)][0]
            raise BadRow(f"a row is for partition {wrong} of {topic}, which has partitions 0 to {count - 1}")
        keyed = np.flatnonzero(mine & (partition == -1) & has_key)
        if key is not None and len(keyed):
            keys = key if len(keyed) == rows.num_rows else key.take(pa.array(keyed))
            partition[keyed] = partitions_of(keys, count)
        keyless = np.flatnonzero(mine & (partition == -1))
        if len(keyless):
            # In runs, so that batches are large; the next slice goes on elsewhere.
            run = -(-len(keyless) // count)
            partition[keyless] = (keyless_from + np.arange(len(keyless)) // run) % count
    return partition


def _timestamps(rows: pa.Table, now_ms: int) -> Ints:
    if "timestamp" not in rows.schema.names:
        return np.full(rows.num_rows, now_ms, np.int64)
    column = _column(rows, "timestamp")
    micros = column.cast(pa.timestamp("us", column.type.tz))
    found = pc.fill_null(micros.cast(pa.int64()), now_ms * 1000).to_numpy(zero_copy_only=False)
    timestamps: Ints = found // 1000
    # -1 is what a record without a timestamp is read with, and is written as it was.
    if len(timestamps) and timestamps.min() < NO_TIMESTAMP:
        raise BadRow(
            f"a row has a timestamp before 1970 ({int(timestamps.min())} ms), which no record may have; "
            f"null becomes the time of writing"
        )
    return timestamps


def _sizes(rows: pa.Table) -> Ints:
    """About how many bytes the record of each row has."""
    sizes = np.full(rows.num_rows, _OVERHEAD, np.int64)
    for name in ("key", "value"):
        if name in rows.schema.names:
            lengths = [_length(chunk) for chunk in rows.column(name).chunks]
            sizes += np.maximum(np.concatenate(lengths), 0)
    if "headers" in rows.schema.names:
        counts, keys, values = _fields(_column(rows, "headers"))
        each = np.maximum(_length(keys), 0) + np.maximum(_length(values), 0) + _OVERHEAD_OF_HEADER
        ends = np.append(0, np.cumsum(each))[np.append(0, np.cumsum(counts))]
        sizes += np.diff(ends)
    return sizes


def _changes(column: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.append(True, column[1:] != column[:-1])[: len(column)]


def _batch_starts(sizes: Ints, group: Ints, batch_bytes: int) -> Ints:
    """Rows at which a batch begins: with each partition, which is a group of rows, and where the one before is full. A record of
    more than half of it stands alone: behind others it would make a batch of them that no topic takes."""
    before = np.cumsum(sizes) - sizes
    full = (before - before[_changes(group)][group]) // batch_bytes
    is_large = sizes > batch_bytes // 2
    is_alone = is_large | np.append(False, is_large[:-1])[: len(sizes)]
    return np.flatnonzero(_changes(group) | _changes(full) | is_alone)


def _blocks(sizes: Ints, starts: Ints) -> Iterator[tuple[int, int]]:
    """First row and end of some batches at a time, of about so many bytes."""
    ends = np.append(starts[1:], len(sizes)).tolist()
    before = np.append(0, np.cumsum(sizes))
    first = 0
    for end in ends:
        if end == ends[-1] or before[end] - before[first] >= _BLOCK_BYTES:
            yield first, end
            first = end


def _bodies(
    key: pa.Array, value: pa.Array, headers: pa.Array | None, timestamp_deltas: Ints, offset_deltas: Ints
) -> pa.Array:
    """All records as they stand in a batch, each a binary value."""
    count = len(value)
    key_size, value_size = _length(key), _length(value)
    tails = None if headers is None else _headers(headers)
    fields = [_zigzag(timestamp_deltas), _zigzag(offset_deltas), _zigzag(key_size)]
    value_length = _zigzag(value_size)
    size = sum(_varint_sizes(field) for field in [*fields, value_length]) + 1
    size = size + np.maximum(key_size, 0) + np.maximum(value_size, 0)
    size = size + (1 if tails is None else _length(tails))
    attributes = np.zeros(count, np.uint64)
    head = [_zigzag(size), attributes, *fields]
    tail = pa.scalar(b"\x00", pa.binary()) if tails is None else tails  # headers: the number of them
    pieces: tuple[pa.Array | pa.Scalar, ...]
    if key.null_count == count:
        pieces = (_varints([*head, value_length]), _filled(value), tail)
    else:
        pieces = (_varints(head), _filled(key), _varints([value_length]), _filled(value), tail)
    return pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.binary()))


def _headers(column: pa.Array) -> pa.Array:
    """Number and content of each row's headers; null is none of them."""
    counts, keys, values = _fields(column)
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


def _fields(column: pa.Array) -> tuple[Ints, pa.Array, pa.Array]:
    """How many headers each row has, and keys and values of all of them; null is none of them."""
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    fields = column.flatten()
    is_plain = not fields.offset and not fields.null_count
    keys, values = (fields.field("key"), fields.field("value")) if is_plain else fields.flatten()
    return counts, keys.cast(pa.binary()), values.cast(pa.binary())


def _filled(column: pa.Array) -> pa.Array:
    return pc.fill_null(column, b"") if column.null_count else column


def _length(column: pa.Array) -> Ints:
    """In bytes, -1 of null."""
    if column.null_count == len(column):
        return np.full(len(column), -1, np.int64)
    borders = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    lengths: Ints = np.diff(borders).astype(np.int64)
    if column.null_count:
        lengths[~_is_valid(column)] = -1
    return lengths


def _is_valid(column: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    valid: np.ndarray[Any, np.dtype[np.bool_]] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _zigzag(numbers: Ints) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def _varint_sizes(numbers: np.ndarray[Any, np.dtype[np.uint64]]) -> Ints:
    if not len(numbers):
        return np.zeros(0, np.int64)
    least, most = (max(int(bound).bit_length(), 1) for bound in (numbers.min(), numbers.max()))
    sizes = np.full(len(numbers), (least + 6) // 7, np.int64)
    for shift in range(7 * ((least + 6) // 7), most, 7):
        sizes += numbers >= np.uint64(1 << shift)
    return sizes


def _varints(fields: Sequence[np.ndarray[Any, np.dtype[np.uint64]]]) -> pa.Array:
    """A binary value a row: its fields as varints, one behind the other, seven bits a byte, low bits first."""
    sizes = [_varint_sizes(field) for field in fields]
    whole = sum(sizes, np.zeros(len(fields[0]), np.int64))
    borders = np.append(0, np.cumsum(whole))
    data = np.zeros(int(borders[-1]), np.uint8)
    at = borders[:-1].copy()
    for field, size in zip(fields, sizes, strict=True):
        if field.any():
            _put_varints(data, at, field, size)
        at += size
    buffers = [None, pa.py_buffer(borders.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(whole), buffers)


def _put_varints(
    data: np.ndarray[Any, np.dtype[np.uint8]],
    at: Ints,
    field: np.ndarray[Any, np.dtype[np.uint64]],
    size: Ints,
) -> None:
    shortest, longest = int(size.min()), int(size.max())
    for byte in range(longest):
        rows = slice(None) if byte < shortest else np.flatnonzero(size > byte)
        bits = (field[rows] >> np.uint64(7 * byte)).astype(np.uint8) & 0x7F
        if byte + 1 < shortest:
            bits |= 0x80
        elif byte + 1 < longest:
            bits |= (size[rows] > byte + 1).astype(np.uint8) << 7
        data[at[rows] + byte] = bits


def _header(codec: int, count: int, base_timestamp: int, max_timestamp: int, body: Buffer) -> bytes:
    header = bytearray(BATCH_OVERHEAD)
    HEADER.pack_into(
        *(header, 0),
        *(0, BATCH_OVERHEAD + len(body) - LOG_OVERHEAD, -1, MAGIC, 0, codec | TRANSACTIONAL, count - 1),
        *(base_timestamp, max_timestamp, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count),
    )
    crc = crc32c(body, crc32c(memoryview(header)[ATTRIBUTES_OFFSET:]))
    header[CRC_OFFSET:ATTRIBUTES_OFFSET] = crc.to_bytes(4, "big")
    return bytes(header)


def slices_of(batches: Iterator[pa.RecordBatch], most_bytes: int) -> Iterator[pa.Table]:
    """The same rows, in pieces of about so many bytes: small ones together, large ones cut. Nothing is copied."""
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
                yield pa.Table.from_batches(held)
                held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)
