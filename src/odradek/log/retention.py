"""Which segments a log may let go: too old, or too much.

Nothing above the high watermark goes (KAFKA-5634): it is not known yet whether those records stay. The clock only
ever makes a segment older than its newest record says; a clock put back deletes nothing.
"""

from odradek.log.partition_log import PartitionLog
from odradek.log.truncation import MOST_SEGMENTS, has_segments_below


def drop_expired_segments(log: PartitionLog, now_ms: int, high_watermark: int) -> list[str]:
    """Moves the log's start up past whole segments, MOST_SEGMENTS for each reason at most; a line for each reason there was."""
    if has_segments_below(log, log.log_start_offset):
        log.drop_segments_below(log.log_start_offset)
        return [f"segments below its start, {log.log_start_offset}, are gone"]
    if not log.config.is_deleted:
        return []
    lines = []
    by_time = _leading_expired(log, now_ms, high_watermark)
    if by_time:
        lines += _drop(log, by_time, now_ms, f"older than retention.ms={log.config.retention_ms}")
    by_size = _leading_surplus(log, high_watermark)
    if by_size:
        lines += _drop(log, by_size, now_ms, f"more than retention.bytes={log.config.retention_bytes}")
    return lines


def _leading_expired(log: PartitionLog, now_ms: int, high_watermark: int) -> int:
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return 0
    count = 0
    for segment in log.segments[:MOST_SEGMENTS]:  # of those behind them the files are not opened yet
        end_offset = segment.end(log.log_end_offset)
        is_empty = segment.size_bytes == 0
        if end_offset > high_watermark or (is_empty and segment is log.segments.active):
            break
        if is_empty:  # what Apache's cleaner may leave: there is nothing in it that could be too young
            count += 1
            continue
        largest = segment.largest_timestamp()
        # Records without timestamps: by the time of the file, as Apache does; it outlives the broker.
        if now_ms - (largest if largest >= 0 else segment.modified_ms()) <= retention_ms:
            break
        count += 1
    return count


def _leading_surplus(log: PartitionLog, high_watermark: int) -> int:
    limit = log.config.retention_bytes
    if limit < 0:
        return 0
    surplus = log.size_bytes - limit
    count = 0
    for segment in log.segments[:MOST_SEGMENTS]:
        size = segment.size_bytes
        if surplus < size or segment.end(log.log_end_offset) > high_watermark:
            break
        if size == 0 and segment is log.segments.active:
            break
        surplus -= size
        count += 1
    return count


def _drop(log: PartitionLog, count: int, now_ms: int, reason: str) -> list[str]:
    if count == len(log.segments):
        # The active one is among them: the log goes on in a new one, or it could never be let go.
        log.roll(now_ms)
        count = min(count, len(log.segments) - 1)
    gone = log.segments[:count]
    start = log.segments[count].base_offset
    log.delete_records_before(max(start, log.log_start_offset))
    log.drop_segments_below(start)
    names = ", ".join(str(segment.base_offset) for segment in gone)
    return [f"segments {names} let go: {reason}; the log starts at {log.log_start_offset}"]
