"""The headers of all batches of a Fetch, read at once: a column a field, so that nothing is done in Python for each batch.

Where batches are as small as a Java producer's (16 KiB), a Fetch brings five hundred of them.
"""

from struct import Struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odradek.model.errors import ProtocolError
from odradek.records.batch import (
    ATTRIBUTES_OFFSET,
    BATCH_OVERHEAD,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    iter_batches,
)
from odradek.records.checksum import crc32c
from odradek.records.errors import CorruptBatch

Column = npt.NDArray[np.int64]
Chosen = npt.NDArray[np.intp] | npt.NDArray[np.bool_] | slice

# As `records.batch` draws it.
_HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
assert _HEADER.itemsize == BATCH_OVERHEAD
_EACH_BYTE = np.arange(BATCH_OVERHEAD)
_LENGTH = Struct(">i")


class Headers(NamedTuple):
    """In the order of the log. Like `records.batch.BatchHeader`, and where each batch begins."""

    position: Column
    size_bytes: Column
    base_offset: Column
    last_offset: Column
    leader_epoch: Column
    crc: Column
    attributes: Column
    base_timestamp: Column
    max_timestamp: Column
    producer_id: Column
    record_count: Column

    @property
    def batches(self) -> int:
        return len(self.position)

    def only(self, chosen: Chosen) -> "Headers":
        return Headers(*(column[chosen] for column in self))


def headers_of(records: memoryview | bytes) -> Headers:
    """Of whole batches, one behind the other; CorruptBatch, or OldMessageFormat, for what are none."""
    positions = np.array(_positions(records), dtype=np.int64)
    data = np.frombuffer(records, np.uint8)
    fields = data[positions[:, None] + _EACH_BYTE].view(_HEADER)[:, 0]
    if bool((fields["magic"] != MAGIC).any()):
        raise _why_not(records)

    def column(name: str) -> Column:
        found: Column = fields[name].astype(np.int64)
        return found

    return Headers(
        position=positions,
        size_bytes=column("batch_length") + LOG_OVERHEAD,
        base_offset=column("base_offset"),
        last_offset=column("base_offset") + column("last_offset_delta"),
        leader_epoch=column("leader_epoch"),
        crc=column("crc"),
        attributes=column("attributes"),
        base_timestamp=column("base_timestamp"),
        max_timestamp=column("max_timestamp"),
        producer_id=column("producer_id"),
        record_count=column("record_count"),
    )


def check_crcs(records: memoryview | bytes, headers: Headers) -> None:
    """CorruptBatch names the offsets of the first batch that is not as it was when its checksum was made."""
    view = memoryview(records)
    begins, ends = headers.position + ATTRIBUTES_OFFSET, headers.position + headers.size_bytes
    found = [crc32c(view[begin:end]) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    wrong = np.flatnonzero(np.array(found, dtype=np.int64) != headers.crc)
    if len(wrong):
        first, last = headers.base_offset[wrong[0]], headers.last_offset[wrong[0]]
        raise CorruptBatch(f"the batch of offsets {first} to {last} has a wrong CRC")


def _positions(records: memoryview | bytes) -> list[int]:
    positions = []
    position, end = 0, len(records)
    unpack_from = _LENGTH.unpack_from
    while position < end:
        if end - position < BATCH_OVERHEAD:
            raise _why_not(records)
        (length,) = unpack_from(records, position + LENGTH_OFFSET)
        positions.append(position)
        position += LOG_OVERHEAD + length
        if length < BATCH_OVERHEAD - LOG_OVERHEAD or position > end:
            raise _why_not(records)
    return positions


def _why_not(records: memoryview | bytes) -> ProtocolError:
    """What the reader of one header after the other says of them."""
    try:
        for _ in iter_batches(records):
            pass
    except ProtocolError as error:
        return error
    raise AssertionError("one reader of headers refuses what the other takes")
