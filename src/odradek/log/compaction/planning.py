"""Which part of a log is to be cleaned, whether it is worth it, and which segments become one.

| cleaned before |          dirty           |     not to be touched      |
log start        first dirty offset         first uncleanable offset     log end
                 (cleaner-offset-checkpoint)
"""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.log.indexes import MAX_RELATIVE_OFFSET

# That become one: all their files are renamed in one turn of the loop, some 0.2 ms for each.
MOST_SEGMENTS = 100


class SegmentFacts(NamedTuple):
    """A closed segment. Timestamps in ms, -1 where they were not looked up; `first_timestamp` is the first batch's, -1 where that has none."""

    base_offset: int
    end_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int
    first_timestamp: int
    largest_timestamp: int


class Limits(NamedTuple):
    """What the settings of a topic say (`min.cleanable.dirty.ratio`, `min.compaction.lag.ms`, `max.compaction.lag.ms`,
    `segment.bytes`, `segment.index.bytes`)."""

    min_dirty_ratio: float
    min_lag_ms: int
    max_lag_ms: int
    segment_bytes: int
    segment_index_bytes: int


class DirtyPart(NamedTuple):
    """From `first_dirty` to `end`, both starts of segments but for a first dirty offset within one."""

    first_dirty: int
    end: int
    ratio: float
    is_due: bool


def dirty_part(
    segments: Sequence[SegmentFacts],
    limits: Limits,
    *,
    checkpoint: int | None,
    log_start_offset: int,
    active_base_offset: int,
    last_stable_offset: int,
    now_ms: int,
) -> DirtyPart:
    """Of a log whose closed segments are `segments`. Nothing at or behind the last stable offset is cleaned, so neither an open
    transaction nor what is not committed; nor the active segment, nor what is younger than `min_lag_ms`.

    A checkpoint that cannot be right (before the log's start: records were deleted; behind its end: it was cut) is not believed.
    """
    first_dirty = log_start_offset
    if checkpoint is not None and log_start_offset <= checkpoint <= active_base_offset:
        first_dirty = checkpoint
    end = active_base_offset
    clean_bytes = dirty_bytes = 0
    is_late = False
    for segment in segments:
        if segment.end_offset > last_stable_offset:
            end = segment.base_offset
            break
        if segment.end_offset <= first_dirty:
            clean_bytes += segment.size_bytes
            continue
        if limits.min_lag_ms > 0 and segment.largest_timestamp > now_ms - limits.min_lag_ms:
            end = segment.base_offset
            break
        dirty_bytes += segment.size_bytes
        first = segment.first_timestamp
        is_late = is_late or (first >= 0 and now_ms - first > limits.max_lag_ms)
    total = clean_bytes + dirty_bytes
    ratio = dirty_bytes / total if total else 0.0
    is_due = dirty_bytes > 0 and (is_late or ratio > limits.min_dirty_ratio)
    return DirtyPart(first_dirty, max(end, first_dirty), ratio, is_due)


def grouped(segments: Sequence[SegmentFacts], limits: Limits) -> list[list[SegmentFacts]]:
    """The segments that are written anew, as they become one: so many in a row as are certain to fit whatever stays of them, and MOST_SEGMENTS at
    most: what is made of them may become one in the next round."""
    groups: list[list[SegmentFacts]] = []
    size = index = time_index = 0
    for segment in segments:
        fits = (
            groups
            and len(groups[-1]) < MOST_SEGMENTS
            and size + segment.size_bytes <= limits.segment_bytes
            and index + segment.index_bytes <= limits.segment_index_bytes
            and time_index + segment.time_index_bytes <= limits.segment_index_bytes
            and segment.end_offset - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
        )
        if not fits:
            groups.append([])
            size = index = time_index = 0
        groups[-1].append(segment)
        size += segment.size_bytes
        index += segment.index_bytes
        time_index += segment.time_index_bytes
    return groups
