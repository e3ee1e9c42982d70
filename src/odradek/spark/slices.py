"""The batches of a Fetch, cut into slices that are decoded one after the other: memory follows from a slice.

What is fetched bounds nothing: 160 KB of zstd may be 467 MB of values, a kilobyte 444,000 empty records. So a slice is
bounded by the bytes that come out and by the records, and so is everything that is made of it.

    as they lie       small batches that are not compressed: nothing is copied, many to a slice
    into a window     others are read as streams, one behind the other while there is room in a window of a slice's size
    through a window  a batch that does not fit: what was read of it so far is where its flow through the window begins
    a large record    the window grows to hold it, up to a bound; beyond that there is a sentence and no record
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from odradek.records.batch import BATCH_OVERHEAD, CODEC_MASK
from odradek.records.compression import NONE
from odradek.records.errors import CorruptBatch
from odradek.spark.batch_headers import Headers
from odradek.spark.freed_memory import give_back_freed_memory
from odradek.spark.opened import Opened, TooLarge, opened
from odradek.spark.record_positions import (
    Bytes,
    Positions,
    record_size,
    record_starts,
    varints,
    whole_records,
)


class Limits(NamedTuple):
    # About what one Fetch brings uncompressed; a task holds some five times as much of it, copies and all.
    slice_bytes: int = 8 << 20
    # A record costs some 300 bytes of positions and columns however short it is.
    slice_records: int = 100_000
    record_bytes: int = 16 << 20


class Slice(NamedTuple):
    """Whole records in `data`: where each begins and ends, and of which batch how many are here."""

    data: Bytes
    starts: Positions
    ends: Positions
    headers: Headers
    counts: Positions


def slices(records: memoryview | bytes, chosen: Headers, limits: Limits) -> Iterator[Slice]:
    """The records of the chosen batches, in order.

    The data of a slice may be overwritten once the next one is asked for. Raises CorruptBatch, and TooLarge for what
    cannot be held.
    """
    view = memoryview(records)
    if _lie_open(chosen, limits):
        yield from _as_they_lie(view, chosen, limits)
    else:
        yield from _into_a_window(view, chosen, limits)


class _Batch(NamedTuple):
    """Where the records of a batch lie, all of them."""

    number: int  # among the chosen
    begin: int
    end: int


def _lie_open(chosen: Headers, limits: Limits) -> bool:
    lies_open = chosen.attributes & CODEC_MASK == NONE
    lies_open &= chosen.record_count <= limits.slice_records
    lies_open &= chosen.size_bytes - BATCH_OVERHEAD <= limits.slice_bytes
    return bool(lies_open.all())


def _as_they_lie(records: memoryview, chosen: Headers, limits: Limits) -> Iterator[Slice]:
    data = np.frombuffer(records, dtype=np.uint8)
    sizes = chosen.size_bytes - BATCH_OVERHEAD
    begins = chosen.position + BATCH_OVERHEAD
    first = size_bytes = count = 0
    for number, (size, records_of) in enumerate(
        zip(sizes.tolist(), chosen.record_count.tolist(), strict=True)
    ):
        size_bytes += size
        count += records_of
        if number > first and (size_bytes > limits.slice_bytes or count > limits.slice_records):
            here = slice(first, number)
            yield _slice(data, chosen.only(here), begins[here], begins[here] + sizes[here])
            first, size_bytes, count = number, size, records_of
    if chosen.batches > first:
        here = slice(first, None)
        yield _slice(data, chosen.only(here), begins[here], begins[here] + sizes[here])


def _into_a_window(records: memoryview, chosen: Headers, limits: Limits) -> Iterator[Slice]:
    buffer = bytearray(limits.slice_bytes)
    window, data = memoryview(buffer), np.frombuffer(buffer, dtype=np.uint8)
    together: list[_Batch] = []
    filled = count = 0
    fields = (chosen.position, chosen.size_bytes, chosen.attributes, chosen.record_count)
    for number, (position, size_bytes, attributes, records_of) in enumerate(
        zip(*(column.tolist() for column in fields), strict=True)
    ):
        body = records[position + BATCH_OVERHEAD : position + size_bytes]
        stream = opened(attributes & CODEC_MASK, body, most_bytes=limits.record_bytes)
        batch = chosen.only(slice(number, number + 1))
        begin, filled = filled, filled + _read(stream, batch, window[filled:])
        count += records_of
        if together and (filled == len(window) or count > limits.slice_records):
            yield _of(together, data[:begin], chosen)
            rest = filled - begin
            window[:rest] = window[begin:filled]
            together, begin, count = [], 0, records_of
            filled = rest + (_read(stream, batch, window[rest:]) if filled == len(window) else 0)
        if filled == len(window) or count > limits.slice_records:
            yield from _through_a_window(batch, stream, buffer, filled, limits)
            filled = count = 0
        else:
            together.append(_Batch(number, begin, filled))
    if together:
        yield _of(together, data[:filled], chosen)


def _read(stream: Opened, batch: Headers, target: memoryview) -> int:
    try:
        return stream.readinto(target)
    except TooLarge as error:
        raise TooLarge(
            f"the batch of offsets {batch.base_offset[0]} to {batch.last_offset[0]} has {error}"
        ) from None


def _of(together: Sequence[_Batch], data: Bytes, chosen: Headers) -> Slice:
    numbers, begins, ends = (np.array(column, dtype=np.int64) for column in zip(*together, strict=True))
    return _slice(data, chosen.only(numbers), begins, ends)


def _slice(data: Bytes, headers: Headers, begins: Positions, ends_of_batches: Positions) -> Slice:
    counts = headers.record_count
    starts = record_starts(data, begins, ends_of_batches, counts)
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    has_records = counts > 0
    ends[np.cumsum(counts)[has_records] - 1] = ends_of_batches[has_records]
    return Slice(data, starts, ends, headers, counts)


def _through_a_window(
    batch: Headers, stream: Opened, window: bytearray, filled: int, limits: Limits
) -> Iterator[Slice]:
    """The records of a batch of which the first `filled` bytes are in the window."""
    left = int(batch.record_count[0])
    if left < 0:
        raise CorruptBatch(f"a batch of {left} records")
    position = 0
    is_all_read = filled < len(window)
    while left:
        starts, after = whole_records(window, position, filled, min(left, limits.slice_records))
        if len(starts):
            ends = np.append(starts[1:], after)
            yield Slice(np.frombuffer(window, np.uint8), starts, ends, batch, np.array([len(starts)]))
            left -= len(starts)
            position = after
            continue
        size = record_size(window, position, filled)
        if size > limits.record_bytes:
            raise TooLarge(_too_large(batch, window, position, filled, size))
        if is_all_read:
            raise CorruptBatch("a record reaches beyond the end of its batch")
        rest = memoryview(window)[position:filled]
        if len(window) != max(size, limits.slice_bytes):
            give_back_freed_memory()
            window = bytearray(max(size, limits.slice_bytes))
        filled -= position
        memoryview(window)[:filled] = rest
        del rest  # and with it the window of before, where this is another one
        filled += _read(stream, batch, memoryview(window)[filled:])
        position = 0
        is_all_read = filled < len(window)
    if position < filled or (not is_all_read and stream.readinto(memoryview(bytearray(1)))):
        raise CorruptBatch("a batch holds more bytes than the records its header counts")


def _too_large(batch: Headers, window: bytearray, position: int, filled: int, size: int) -> str:
    data = np.frombuffer(window, np.uint8)[:filled]
    _, at = varints(data, np.array([position], dtype=np.int64), strict=False)
    _, at = varints(data, at + 1, strict=False)
    delta, _ = varints(data, at, strict=False)
    return f"the record at offset {int(batch.base_offset[0]) + int(delta[0])} has {size} bytes"
