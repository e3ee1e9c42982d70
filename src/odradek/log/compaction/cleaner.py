"""Which log is cleaned next: the one with the largest dirty share, if it is worth it, and one at a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from odradek.log.compaction.cleaning import Cleaning, PassesOf
from odradek.log.compaction.offset_map import SLOT_BYTES
from odradek.log.compaction.passes import CleaningJob, PassesHere, SourceSegment
from odradek.log.compaction.planning import DirtyPart, Limits, SegmentFacts, dirty_part, grouped
from odradek.log.errors import CorruptLog, MissingFile, StorageError
from odradek.log.indexes import OFFSET_ENTRY, TIME_ENTRY, TransactionIndex
from odradek.log.partition_log import PartitionLog
from odradek.log.scan import scan_headers
from odradek.log.segment import INDEX_SUFFIX, TIME_INDEX_SUFFIX, Segment
from odradek.records.batch import BatchHeader

NO_LIMIT = 2**63 - 1
NEVER_MS = -1  # before every horizon


class Found(NamedTuple):
    """A log that is due, as it was when it was looked at."""

    log: PartitionLog
    part: DirtyPart
    segments: tuple[Segment, ...]
    facts: list[SegmentFacts]


class _Look(NamedTuple):
    """At a closed segment, as it ended then, and for which timestamps."""

    segment: Segment
    end_offset: int
    for_first: bool
    for_largest: bool


class Cleaner:
    """`candidates` and `most_dirty` look at files: for a thread. What they need of the moment is handed to them by the loop."""

    def __init__(
        self,
        logs: Callable[[], Iterable[PartitionLog]],
        cleaned_to: Callable[[PartitionLog], int | None],
        secret: bytes = b"",
        passes_of: PassesOf = PassesHere,
    ) -> None:
        self._logs = logs
        self._cleaned_to = cleaned_to
        self._secret = secret
        self._passes_of = passes_of
        # Until the next start: tried again and again they would only cost (as with Apache Kafka).
        self.uncleanable: dict[PartitionLog, str] = {}
        # Whose cleaning failed, which says nothing of the log: others come first, or one at which the process dies each time, for want
        # of memory, say, would keep them all waiting. Until one of its own succeeds.
        self._put_back: set[PartitionLog] = set()
        # What cannot be read where the next log is looked for: the log, its segments then, and where they ended.
        self._suspects: list[tuple[PartitionLog, list[tuple[Segment, int]], StorageError]] = []
        # Of closed segments that were looked at in the last round: the next one need not look at them again.
        self._known: dict[_Look, SegmentFacts] = {}

    def candidates(self) -> list[PartitionLog]:
        """Compacted, and with a closed segment that was not cleaned."""
        logs = list(self._logs())
        if self.uncleanable or self._put_back:
            here = set(logs)
            self._put_back &= here
            self.uncleanable = {log: why for log, why in self.uncleanable.items() if log in here}
        return [log for log in logs if self._has_dirty_segment(log)]

    def _has_dirty_segment(self, log: PartitionLog) -> bool:
        if not log.config.is_compacted or log.failure is not None or log in self.uncleanable:
            return False
        end = log.segments.active.base_offset
        return (self._cleaned_to(log) or 0) < end and log.log_start_offset < end

    def most_dirty(self, stable: Iterable[tuple[PartitionLog, int]], now_ms: int) -> Found | None:
        """Of logs with their last stable offsets. One that cannot be read keeps no other from being cleaned: see `judge`."""
        known, self._known = self._known, {}
        found = []
        for log, offset in stable:
            segments = log.segments[:]
            if not segments:
                continue  # the moment in which it begins anew
            try:
                found.append(self._inspect(log, segments, offset, now_ms, known))
            except (CorruptLog, MissingFile) as error:
                self._suspects.append((log, [(one, one.end_offset) for one in segments], error))
        due = (one for one in found if one.part.is_due)
        return max(due, key=lambda one: (one.log not in self._put_back, one.part.ratio), default=None)

    def was_cleaned(self, log: PartitionLog, *, done: bool) -> None:
        """What came of a cleaning; not `done`: it failed, and is tried again."""
        (self._put_back.discard if done else self._put_back.add)(log)

    def judge(self) -> None:
        """On the loop: what `most_dirty` could not read, and is still a part of its log, is used no more (`broken`). Else retention
        was faster, or a cut."""
        suspects, self._suspects = self._suspects, []
        for log, segments, error in suspects:
            there = set(log.segments)
            if all(one in there and one.end_offset == end for one, end in segments):
                log.broken(error)

    def _inspect(
        self,
        log: PartitionLog,
        segments: tuple[Segment, ...],
        last_stable_offset: int,
        now_ms: int,
        known: Mapping[_Look, SegmentFacts],
    ) -> Found:
        closed, active = segments[:-1], segments[-1]
        limits = limits_of(log)
        facts = []
        for segment in closed:
            look = _Look(segment, segment.end_offset, limits.max_lag_ms < NO_LIMIT, limits.min_lag_ms > 0)
            facts.append(known.get(look) or facts_of(segment, limits))
            self._known[look] = facts[-1]
        part = dirty_part(
            facts,
            limits,
            checkpoint=self._cleaned_to(log),
            log_start_offset=log.log_start_offset,
            active_base_offset=active.base_offset,
            last_stable_offset=last_stable_offset,
            now_ms=now_ms,
        )
        count = sum(one.end_offset <= part.end for one in facts)
        return Found(log, part, closed[:count], facts[:count])

    def cleaning_of(
        self,
        found: Found,
        *,
        now_ms: int,
        map_bytes: int,
        load_factor: float,
        droppable_below: int,
        overdue_before_ms: int = NEVER_MS,
    ) -> Cleaning:
        """On the loop: what the log knows of its producers is of this moment. The map takes `map_bytes` at most. For
        `droppable_below` and `overdue_before_ms` see `Rewriting`."""
        log, part = found.log, found.part
        most_keys = part.end - part.first_dirty
        needed = int(most_keys / load_factor + 1) * SLOT_BYTES
        config = log.config
        sources = {
            segment.base_offset: SourceSegment(
                facts.base_offset, facts.end_offset, segment.created_ms, facts.size_bytes
            )
            for segment, facts in zip(found.segments, found.facts, strict=True)
        }
        job = CleaningJob(
            str(log.topic_partition),
            tuple(
                tuple(sources[facts.base_offset] for facts in group)
                for group in grouped(found.facts, limits_of(log))
            ),
            part.first_dirty,
            part.end,
            aborted=TransactionIndex(),
            map_bytes=min(needed, map_bytes),
            load_factor=load_factor,
            secret=self._secret,
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            index_interval_bytes=config.index_interval_bytes,
            producers=log.producers.to_bytes(),
            droppable_below=droppable_below,
            overdue_before_ms=overdue_before_ms,
        )
        return Cleaning(log, found.segments, job, self._passes_of)


def limits_of(log: PartitionLog) -> Limits:
    config = log.config
    return Limits(
        config.min_cleanable_dirty_ratio,
        config.min_compaction_lag_ms,
        config.max_compaction_lag_ms,
        config.segment_bytes,
        config.segment_index_bytes,
    )


def facts_of(segment: Segment, limits: Limits) -> SegmentFacts:
    """Of a closed one. Timestamps are looked up only where a limit asks for them; for the largest all headers are read. Records without
    timestamps are as old as their file, as for retention."""
    first = largest = -1
    if limits.max_lag_ms < NO_LIMIT:
        first = next((header.max_timestamp for _, header in _headers(segment)), -1)
    if limits.min_lag_ms > 0:
        largest = max((header.max_timestamp for _, header in _headers(segment)), default=-1)
        if largest < 0:
            largest = segment.modified_ms()
    directory = segment.directory
    return SegmentFacts(
        segment.base_offset,
        segment.end_offset,
        segment.size_bytes,
        directory.size(segment.name(INDEX_SUFFIX)) or OFFSET_ENTRY.size,
        directory.size(segment.name(TIME_INDEX_SUFFIX)) or TIME_ENTRY.size,
        first,
        largest,
    )


def _headers(segment: Segment) -> Iterator[tuple[int, BatchHeader]]:
    file = segment.file_apart()
    return scan_headers(file, 0, file.size_bytes)
