"""What retention took from a log: whole segments, each too old or too much, and nothing above the high watermark; and what it left."""

from collections.abc import Iterator
from typing import NamedTuple

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.history import Anomaly


class Segment(NamedTuple):
    base_offset: int
    size_bytes: int
    newest_ms: int  # of its records; -1: they have no time


class Retained(NamedTuple):
    """A log before and after its start was moved by retention. Of segments whose records have no time only the size is judged."""

    topic_partition: TopicPartition
    broker: BrokerId
    segments: tuple[Segment, ...]  # before
    start: int  # after
    first_kept: int  # the base offset of the first segment that is left
    high_watermark: int
    now_ms: int
    retention_ms: int  # -1: none is too old
    retention_bytes: int  # -1: none is too much


def let_go_as_asked(seen: Retained) -> Iterator[Anomaly]:
    """RetentionIsAsked: the start moves past whole segments alone, whose newest record is older than retention.ms or without which
    retention.bytes are left, and never past the high watermark."""

    def wrong(why: str) -> Anomaly:
        return Anomaly(
            "RetentionIsAsked",
            seen.topic_partition,
            f"retention of broker {seen.broker} let the log begin at {seen.start}: {why}",
        )

    if seen.start != seen.first_kept:
        yield wrong(f"the first segment that is left begins at {seen.first_kept}")
    if seen.start > seen.high_watermark:
        yield wrong(f"its high watermark is {seen.high_watermark}")
    left = sum(segment.size_bytes for segment in seen.segments)
    for segment in seen.segments:
        if segment.base_offset >= seen.start:
            break
        left -= segment.size_bytes
        age_ms = seen.now_ms - segment.newest_ms
        is_old = seen.retention_ms >= 0 and (segment.newest_ms < 0 or age_ms > seen.retention_ms)
        is_surplus = seen.retention_bytes >= 0 and left >= seen.retention_bytes
        if segment.size_bytes and not is_old and not is_surplus:
            yield wrong(
                f"its segment {segment.base_offset} is {age_ms} ms old of {seen.retention_ms}, and {left} bytes are left of "
                f"{seen.retention_bytes}"
            )


class Oldest(NamedTuple):
    """The first segment of a log, where another one is written by now and nothing of it is above the high watermark."""

    topic_partition: TopicPartition
    broker: BrokerId
    segment: Segment
    left_bytes: int  # without it
    now_ms: int
    retention_ms: int
    retention_bytes: int


def old_is_let_go(seen: Oldest) -> Iterator[Anomaly]:
    """OldIsLetGo: it is neither too old nor too much. Of one whose records have no time only the size is judged."""
    segment = seen.segment
    age_ms = seen.now_ms - segment.newest_ms
    is_old = seen.retention_ms >= 0 and segment.newest_ms >= 0 and age_ms > seen.retention_ms
    if is_old or 0 <= seen.retention_bytes <= seen.left_bytes:
        yield Anomaly(
            "OldIsLetGo",
            seen.topic_partition,
            f"broker {seen.broker} keeps the segment {segment.base_offset}, {age_ms} ms old of {seen.retention_ms}, and "
            f"{seen.left_bytes} bytes are left without it of {seen.retention_bytes}",
        )
