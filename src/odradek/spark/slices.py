"""The batches of a Fetch, cut into slices that are decoded one after the other: memory follows from a slice.

What is fetched bounds nothing: 160 KB of zstd may be 467 MB of values, a kilobyte 444,000 empty records. So a slice is
bounded by the bytes that come out and by the records, and so is everything that is made of it.

    small batches   opened whole, many to a slice; their records are found all at once
    a large batch   read as a stream through one window of the size of a slice, over and over
    a large record  the window grows to hold it, up to a bound; beyond that there is a sentence and no record
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from odradek.records.batch import BATCH_OVERHEAD, CODEC_MASK, BatchHeader
from odradek.records.compression import NONE, decompress_prefix
from odradek.records.errors import CorruptBatch
from odradek.spark.opened import TooLarge, opened
from odradek.spark.record_positions import (
    Bytes,
    Positions,
    join,
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
    headers: Sequence[BatchHeader]
    counts: Positions


def slices(
    records: memoryview | bytes, chosen: Sequence[tuple[int, BatchHeader]], limits: Limits
) -> Iterator[Slice]:
    """The records of the chosen batches (position and header), in order.

    The data of a slice may be overwritten once the next one is asked for. Raises CorruptBatch, and TooLarge for what
    cannot be held.
    """
    view = memoryview(records)
    together: list[tuple[BatchHeader, memoryview | bytes, int]] = []
    size_bytes = count = 0
    for position, header in chosen:
        body = view[position + BATCH_OVERHEAD : position + header.size_bytes]
        whole = _whole(header, body, limits)
        does_fit = (
            whole is not None
            and size_bytes + len(whole) <= limits.slice_bytes
            and count + header.record_count <= limits.slice_records
        )
        if together and not does_fit:
            yield _slice(view, together)
            # Let go of only now: given back before the columns are built, every page would be asked for anew.
            together, size_bytes, count = [], 0, 0
        if whole is None:
            yield from _windows(header, body, limits)
        else:
            together.append((header, whole, position + BATCH_OVERHEAD))
            size_bytes += len(whole)
            count += header.record_count
    if together:
        yield _slice(view, together)


def _whole(header: BatchHeader, body: memoryview, limits: Limits) -> memoryview | bytes | None:
    """What comes out of the batch, or None if that is more than a slice."""
    if header.record_count > limits.slice_records or len(body) > limits.slice_bytes:
        return None
    codec = header.attributes & CODEC_MASK
    if codec == NONE:
        return body
    found, is_whole = decompress_prefix(codec, body, limits.slice_bytes)
    return (found if isinstance(found, bytes) else memoryview(found)) if is_whole else None


def _slice(records: memoryview, together: Sequence[tuple[BatchHeader, memoryview | bytes, int]]) -> Slice:
    headers = [header for header, _, _ in together]
    sizes = np.array([len(whole) for _, whole, _ in together], dtype=np.int64)
    if any(header.attributes & CODEC_MASK for header in headers):
        data, begins = join([whole for _, whole, _ in together])
    else:
        data = np.frombuffer(records, dtype=np.uint8)
        begins = np.array([position for _, _, position in together], dtype=np.int64)
    counts = np.array([header.record_count for header in headers], dtype=np.int64)
    starts = record_starts(data, begins, begins + sizes, counts)
    ends = np.empty_like(starts)
    ends[:-1] = starts[1:]
    ends[np.cumsum(counts) - 1] = begins + sizes
    return Slice(data, starts, ends, headers, counts)


def _windows(header: BatchHeader, body: memoryview, limits: Limits) -> Iterator[Slice]:
    if header.record_count < 0:
        raise CorruptBatch(f"a batch of {header.record_count} records")
    stream = opened(header.attributes & CODEC_MASK, body, most_bytes=limits.record_bytes)
    window = bytearray(limits.slice_bytes)
    position, filled = 0, 0
    is_all_read = False
    left = header.record_count
    while left:
        starts, after = whole_records(window, position, filled, min(left, limits.slice_records))
        if len(starts):
            ends = np.append(starts[1:], after)
            yield Slice(np.frombuffer(window, np.uint8), starts, ends, [header], np.array([len(starts)]))
            left -= len(starts)
            position = after
            continue
        size = record_size(window, position, filled)
        if size > limits.record_bytes:
            raise TooLarge(_too_large(header, window, position, filled, size))
        if is_all_read:
            raise CorruptBatch("a record reaches beyond the end of its batch")
        rest = window[position:filled]
        if len(window) != max(size, limits.slice_bytes):
            window = bytearray(max(size, limits.slice_bytes))
        window[: len(rest)] = rest
        try:
            filled = len(rest) + stream.readinto(memoryview(window)[len(rest) :])
        except TooLarge as error:
            raise TooLarge(
                f"the batch of offsets {header.base_offset} to {header.last_offset} has {error}"
            ) from None
        position = 0
        is_all_read = filled < len(window)
    if position < filled or (not is_all_read and stream.readinto(memoryview(bytearray(1)))):
        raise CorruptBatch("a batch holds more bytes than the records its header counts")


def _too_large(header: BatchHeader, window: bytearray, position: int, filled: int, size: int) -> str:
    data = np.frombuffer(window, np.uint8)[:filled]
    _, at = varints(data, np.array([position], dtype=np.int64), strict=False)
    _, at = varints(data, at + 1, strict=False)
    delta, _ = varints(data, at, strict=False)
    return f"the record at offset {header.base_offset + int(delta[0])} has {size} bytes"
