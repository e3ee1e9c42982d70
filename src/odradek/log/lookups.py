"""What is asked of a log by timestamp or by transaction, and how its producers are known again after a cut."""

from typing import TYPE_CHECKING, NamedTuple

from odradek.log.indexes import AbortedTransaction, TimestampOffset
from odradek.log.producers import MalformedSnapshot, Producers
from odradek.log.segment import SNAPSHOT_SUFFIX, Segment, file_name
from odradek.records.batch import CONTROL, BatchHeader
from odradek.records.control import end_transaction
from odradek.records.reader import decode_batch

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog


class FoundOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(log: "PartitionLog", timestamp: int) -> FoundOffset | None:
    """The first record at or behind the log's start with this timestamp or a later one. Opens one batch."""
    for segment in log.segments[:]:
        if segment.largest_timestamp() < timestamp:
            continue
        position = segment.position_of(
            max(segment.offset_before_timestamp(timestamp), min(log.log_start_offset, log.log_end_offset))
        )
        for at, header in segment.headers(position):
            if header.max_timestamp >= timestamp:
                found = _record_at(log, segment, at, header, timestamp)
                if found is not None:
                    return found
    return None


def _record_at(
    log: "PartitionLog", segment: Segment, position: int, header: BatchHeader, timestamp: int
) -> FoundOffset | None:
    for record in decode_batch(segment.file.read_at(position, header.size_bytes)):
        if record.timestamp >= timestamp and record.offset >= log.log_start_offset:
            return FoundOffset(record.timestamp, record.offset, header.leader_epoch)
    return None


def max_timestamp(log: "PartitionLog") -> TimestampOffset:
    """The largest timestamp and the last offset of the first batch that has it; (-1, -1) if there is none."""
    best = TimestampOffset(-1, -1)
    for segment in log.segments:
        if segment.largest_timestamp() > best.timestamp:
            best = TimestampOffset(segment.largest_timestamp(), segment.offset_of_max_timestamp)
    return best


def offset_of_max_timestamp(log: "PartitionLog") -> FoundOffset | None:
    best = max_timestamp(log)
    return None if best.timestamp < 0 else offset_for_timestamp(log, best.timestamp)


def aborted_transactions(
    log: "PartitionLog", offset: int, upper_bound_offset: int
) -> list[AbortedTransaction]:
    """Those with records between the two offsets. A marker lies behind its records, perhaps segments later, so the
    search goes on until an entry says that everything below the upper bound was decided by then.
    """
    found: list[AbortedTransaction] = []
    for segment in log.segments[log.segment_index(offset) :]:
        for entry in segment.transactions:
            if entry.last_offset >= offset and entry.first_offset < upper_bound_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return found
    return found


def stale_snapshots(log: "PartitionLog", end_offset: int) -> list[str]:
    """Names of the snapshots that speak of what lies behind this offset."""
    return [file_name(offset, SNAPSHOT_SUFFIX) for offset in _snapshots(log) if offset > end_offset]


def _snapshots(log: "PartitionLog") -> list[int]:
    names = [
        name.removesuffix(SNAPSHOT_SUFFIX) for name in log.directory.names() if name.endswith(SNAPSHOT_SUFFIX)
    ]
    return sorted(int(stem) for stem in names if stem.isdigit())


def producers_at(log: "PartitionLog", end_offset: int, now_ms: int) -> Producers:
    """As they were when the log ended there: the newest snapshot at or below that, and the batches from there on."""
    start, producers = _newest_known(log, end_offset, now_ms)
    for segment in log.segments[log.segment_index(start) :]:
        if segment.base_offset >= end_offset:
            break
        for position, header in segment.headers(segment.position_of(start)):
            if header.base_offset >= end_offset:
                break
            if header.producer_id >= 0 and header.base_offset >= start:
                replay(producers, segment, position, header, now_ms)
    return producers


def _newest_known(log: "PartitionLog", end_offset: int, now_ms: int) -> tuple[int, Producers]:
    first = log.segments[0].base_offset
    snapshots = [offset for offset in _snapshots(log) if first <= offset <= end_offset]
    marks = [mark for mark in log.producer_marks if mark[0] <= end_offset]
    if marks and marks[-1][0] >= max(snapshots, default=-1):
        start, mark = marks[-1]
        return start, Producers.from_bytes(mark, now_ms)
    for offset in reversed(snapshots):
        data = log.directory.read(file_name(offset, SNAPSHOT_SUFFIX))
        try:
            return offset, Producers.from_bytes(data or b"", now_ms)
        except MalformedSnapshot:
            continue  # the one before it, and more batches
    return first, Producers()


def replay(
    producers: Producers, segment: Segment, position: int, header: BatchHeader, now_ms: int
) -> AbortedTransaction | None:
    """A batch with a producer id, as when it was appended. The entry of an aborted transaction, if it ends one."""
    if not header.attributes & CONTROL:
        producers.note_batch(header, header.base_offset, now_ms)
        return None
    if header.record_count == 0:
        return None  # compaction took the marker and kept the batch
    marker = end_transaction(decode_batch(segment.file.read_at(position, header.size_bytes))[0])
    if marker is None:
        return None
    ended = producers.note_marker(header, marker, header.base_offset, now_ms)
    return producers.aborted(ended) if ended is not None and ended.is_aborted else None
