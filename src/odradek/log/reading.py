"""Reading a log as slices of its files: found by the index and a few headers, no record touched."""

from typing import TYPE_CHECKING, NamedTuple

from odradek.log.errors import CorruptLog
from odradek.log.files import File, FileSlice
from odradek.log.segment import Segment
from odradek.records.batch import BATCH_OVERHEAD, LENGTH_OFFSET, LOG_OVERHEAD

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog


class LogRead(NamedTuple):
    slices: list[FileSlice]
    size_bytes: int


NOTHING = LogRead([], 0)


def read(
    log: "PartitionLog", offset: int, max_bytes: int, upper_bound_offset: int, min_one_batch: bool
) -> LogRead:
    """`offset` lies in the log. Most reads are of its end: two dictionary lookups and a slice."""
    log_end_offset = log.log_end_offset
    upper = upper_bound_offset if upper_bound_offset < log_end_offset else log_end_offset
    if offset >= upper:
        return NOTHING
    active = log.active
    if offset < active.base_offset:
        return _read_from_older(log, offset, max_bytes, upper, min_one_batch)
    file = active.file
    position = active.positions.get(offset, -1)
    if position < 0:
        position = active.position_of(offset)
    end = file.size_bytes if upper == log_end_offset else active.position_of(upper)
    size = end - position
    if size > max_bytes:
        size = _limited(file, position, size, max_bytes, min_one_batch)
    return LogRead([FileSlice(file, position, size)], size) if size > 0 else NOTHING


def _read_from_older(
    log: "PartitionLog", offset: int, max_bytes: int, upper: int, min_one_batch: bool
) -> LogRead:
    """From the segment that holds `offset` on, until enough is found."""
    slices: list[FileSlice] = []
    total = 0
    at = log.segment_index(offset)
    while at < len(log.segments) and offset < upper and (total < max_bytes or (min_one_batch and not slices)):
        segment = log.segments[at]
        _warm_up(log, segment)
        file = segment.file
        position = segment.position_of(offset)
        end_offset = segment.end_offset if segment.end_offset >= 0 else log.log_end_offset
        end = file.size_bytes if end_offset <= upper else segment.position_of(upper)
        if position >= file.size_bytes and offset < segment.end_offset and not segment.has_gaps():
            raise CorruptLog(
                f"{file.name}: ends before offset {offset}; it must hold all up to {segment.end_offset}"
            )
        size = end - position
        if size > max_bytes - total:
            size = _limited(file, position, size, max_bytes - total, min_one_batch and not slices)
            if size <= 0:
                break
        if size > 0:
            slices.append(FileSlice(file, position, size))
            total += size
        at += 1
        if at < len(log.segments):
            offset = log.segments[at].base_offset
    return LogRead(slices, total) if slices else NOTHING


def _limited(file: File, position: int, size: int, max_bytes: int, min_one_batch: bool) -> int:
    """How much of `size` bytes to give when they are more than asked for."""
    head = file.read_at(position + LENGTH_OFFSET, 4)
    first = int.from_bytes(head, "big") + LOG_OVERHEAD
    if len(head) < 4 or not BATCH_OVERHEAD <= first <= size:
        raise CorruptLog(f"{file.name}: no batch at {position}, where one was appended")
    if first > max_bytes:
        return first if min_one_batch else 0
    return max(max_bytes, 0)


def _warm_up(log: "PartitionLog", segment: Segment) -> None:
    """Only one segment that is not active keeps its descriptors, so that old segments cost none."""
    if segment is not log.warm and segment is not log.active:
        if log.warm is not None and log.warm is not log.active:
            log.warm.cool()
        log.warm = segment
