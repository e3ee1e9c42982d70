"""Reading a log as slices of its files: found by the index and a few headers, no record touched."""

from typing import NamedTuple

from odradek.log.errors import CorruptLog
from odradek.log.files import File, FileSlice
from odradek.log.segment import Segment
from odradek.log.segments import Segments
from odradek.records.batch import BATCH_OVERHEAD, LENGTH_OFFSET, LOG_OVERHEAD

# Whoever does not say how many segments are looked into.
ALL = 1 << 62
# That are looked into for one answer, or one piece of a copy: of each a descriptor is held until it is sent, and a client may make one with
# each batch, by timestamps that are far apart.
MOST_SEGMENTS_READ = 16


class LogRead(NamedTuple):
    """`last`: the segment in which the last slice lies. `ends_early`: behind it there is more that would have been read, had more
    segments been looked into."""

    slices: list[FileSlice]
    size_bytes: int
    last: Segment | None = None
    ends_early: bool = False


NOTHING = LogRead([], 0)


def read(
    segments: Segments,
    log_end_offset: int,
    offset: int,
    max_bytes: int,
    upper_bound_offset: int,
    min_one_batch: bool,
    may_have_gaps: bool,
    most_segments: int,
) -> LogRead:
    """`offset` lies in the log. Most reads are of its end: two dictionary lookups and a slice."""
    upper = upper_bound_offset if upper_bound_offset < log_end_offset else log_end_offset
    if offset >= upper:
        return NOTHING
    active = segments.active
    if offset < active.base_offset:
        return _read_from_older(
            segments, log_end_offset, offset, max_bytes, upper, min_one_batch, may_have_gaps, most_segments
        )
    file = active.file
    position = active.positions.get(offset, -1)
    if position < 0:
        position = active.position_of(offset)
    end = file.size_bytes if upper == log_end_offset else active.position_of(upper)
    size = end - position
    if size <= 0:
        active.check_reach(min(position, end), log_end_offset)
    elif size > max_bytes:
        size = _limited(file, position, size, max_bytes, min_one_batch)
    return LogRead([FileSlice(file, position, size)], size, active) if size > 0 else NOTHING


def _read_from_older(
    segments: Segments,
    log_end_offset: int,
    offset: int,
    max_bytes: int,
    upper: int,
    min_one_batch: bool,
    may_have_gaps: bool,
    most_segments: int,
) -> LogRead:
    """From the segment that holds `offset` on, until enough is found. Of each slice a descriptor is held."""
    slices: list[FileSlice] = []
    total = 0
    last = None
    for segment in segments.since(offset):
        offset = max(offset, segment.base_offset)
        if offset >= upper or (total >= max_bytes and (slices or not min_one_batch)):
            break
        if len(slices) == most_segments:
            return LogRead(slices, total, last, True)
        if last is not None and not may_have_gaps:
            end_offset = last.end_of_batches_before(last.file.size_bytes, last.end_offset)
            _check_end(last, end_offset)
        segments.keep_open(segment)
        file = segment.file
        position = segment.position_of(offset)
        end = file.size_bytes if segment.end(log_end_offset) <= upper else segment.position_of(upper)
        # Compaction leaves gaps: as Apache Kafka's cleaner an empty segment, and at the end of a follower's segment where the
        # leader has none of what came next any more.
        if position >= file.size_bytes and not may_have_gaps:
            _check_end(segment, offset)
        size = end - position
        if size <= 0:
            segment.check_reach(min(position, end), log_end_offset)
        elif size > max_bytes - total:
            size = _limited(file, position, size, max_bytes - total, min_one_batch and not slices)
            if size <= 0:
                break
        if size > 0:
            slices.append(FileSlice(file, position, size))
            total += size
            last = segment
    return LogRead(slices, total, last) if slices else NOTHING


def _check_end(segment: Segment, found: int) -> None:
    """CorruptLog where a closed segment has nothing from `found` on, and must have."""
    if found < segment.end_offset and not segment.has_gaps():
        raise CorruptLog(
            f"{segment.file.name}: ends before offset {found}; it must hold all up to {segment.end_offset}"
        )


def _limited(file: File, position: int, size: int, max_bytes: int, min_one_batch: bool) -> int:
    """How much of `size` bytes to give when they are more than asked for."""
    head = file.read_at(position + LENGTH_OFFSET, 4)
    first = int.from_bytes(head, "big") + LOG_OVERHEAD
    if len(head) < 4 or not BATCH_OVERHEAD <= first <= size:
        raise CorruptLog(f"{file.name}: no batch at {position}, where one was appended")
    if first > max_bytes:
        return first if min_one_batch else 0
    return max(max_bytes, 0)
