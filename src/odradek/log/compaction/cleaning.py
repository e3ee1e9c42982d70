"""One cleaning of one log: of a snapshot of its closed segments, in a thread, while the log goes on.

`build_map` and `write_segment` are walked by whoever runs them, and may be abandoned between any two steps: what was written is
thrown away then, and the log has changed in nothing. Only `put` does, on the loop, and only where the segments are still those
that were read. A crash leaves the old segments or the new one (`cleaned_segment`).
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from odradek.log.cleaned_segment import CleanedSegment
from odradek.log.compaction.map_building import note_keys
from odradek.log.compaction.offset_map import OffsetMap
from odradek.log.compaction.planning import DirtyPart, SegmentFacts
from odradek.log.compaction.records import Pause
from odradek.log.compaction.rewriting import NO_END, LastEntry, Rewriting
from odradek.log.compaction.transactions import MetTransactions
from odradek.log.errors import CorruptLog
from odradek.log.scan import scan_batches
from odradek.model.errors import OdradekError, ProtocolError
from odradek.records.batch import BatchHeader, check_crc, read_header

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog
    from odradek.log.segment import Segment


class Uncleanable(OdradekError):
    """A batch cannot be opened, or its keys do not fit into the offset map. The log is in order, and is left as it is."""


class Cleaning:
    """Yields are numbers of bytes read since the last one, for whoever holds it to a rate."""

    def __init__(
        self,
        log: "PartitionLog",
        segments: Sequence["Segment"],
        groups: Sequence[Sequence[SegmentFacts]],
        part: DirtyPart,
        *,
        offsets: OffsetMap,
        now_ms: int,
        delete_retention_ms: int,
        last_entries: Mapping[int, LastEntry],
        droppable_below: int,
        overdue_before_ms: int,
        pause: Pause,
    ) -> None:
        """`segments` are those that `groups` tell of, from the log's first one to `part.end`."""
        self.log = log
        self.part = part
        self.end_offset = part.first_dirty  # the next checkpoint, once all is put in place
        self.bytes_read = 0
        self.bytes_written = 0
        self._segments = segments
        self._groups = list(groups)
        self._offsets = offsets
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._last_entries = last_entries
        self._pause = pause
        self._droppable_below = droppable_below
        self._overdue_before_ms = overdue_before_ms
        self._rewriting: Rewriting | None = None
        self._made: tuple[Sequence[Segment], CleanedSegment] | None = None

    def build_map(self) -> Generator[int]:
        """The first pass. Uncleanable; MissingFile where a segment was removed meanwhile; CorruptLog; StorageError."""
        log, part = self.log, self.part
        self._sync(self._segments)
        seen = MetTransactions()
        seen.add(log.aborted_transactions(part.first_dirty, part.end))
        end = part.first_dirty
        for segment in self._segments:
            if segment.end_offset <= part.first_dirty:
                continue
            for header, batch in _batches(segment):
                if header.next_offset <= part.first_dirty:
                    continue
                try:
                    fits = note_keys(self._offsets, seen, header, batch, self._pause)
                except ProtocolError as error:
                    raise self._uncleanable(header, error.message) from None
                if not fits:
                    if end == part.first_dirty:
                        raise self._uncleanable(
                            header,
                            f"its {header.record_count} keys do not fit into the offset map, which takes "
                            f"{self._offsets.most_keys} (log.cleaner.dedupe.buffer.size)",
                        )
                    self._end_at(end, seen)
                    return
                end = header.next_offset
                yield header.size_bytes
        self._end_at(part.end, seen)

    def _sync(self, segments: Iterable["Segment"]) -> None:
        """Blocks. A value goes because a later one is there. Were the later one not on the disk, a power cut would take that,
        and the former one, which was flushed long ago, would be gone too."""
        log = self.log
        unflushed = [one for one in segments if one.end(log.log_end_offset) > log.recovery_point]
        for segment in unflushed:
            segment.file_apart().sync()
        if unflushed:
            log.directory.sync()

    def _end_at(self, end_offset: int, seen: MetTransactions) -> None:
        if seen.is_amid_one:  # the later value counts by a marker further on, perhaps in the active segment
            self._sync(self.log.segments[:])
        self.end_offset = end_offset
        self._groups = [group for group in self._groups if group[0].base_offset < end_offset]
        self._rewriting = Rewriting(
            self._offsets,
            end_offset=end_offset,
            now_ms=self._now_ms,
            delete_retention_ms=self._delete_retention_ms,
            last_entries=self._last_entries,
            droppable_below=self._droppable_below,
            overdue_before_ms=self._overdue_before_ms,
            pause=self._pause,
        )
        if self._groups:
            start, end = self._groups[0][0].base_offset, self._groups[-1][-1].end_offset
            self._rewriting.transactions.add(self.log.aborted_transactions(start, end))

    @property
    def is_done(self) -> bool:
        return self._rewriting is not None and not self._groups and self._made is None

    def write_segment(self) -> Generator[int]:
        """The second pass, as far as the next segment reaches; `put` follows. As `build_map`, and StorageError where the disk fails."""
        rewriting = self._rewriting
        assert rewriting is not None and self._groups and self._made is None
        log = self.log
        group = self._groups.pop(0)
        bases = {facts.base_offset for facts in group}
        old = [segment for segment in self._segments if segment.base_offset in bases]
        end_offset = group[-1].end_offset
        cleaned = CleanedSegment(
            log.directory, old[0].base_offset, old[-1].created_ms, log.config.index_interval_bytes
        )
        try:
            for segment, header, batch, is_last in _and_whether_last(old):
                if not check_crc(batch, 0, header):
                    raise CorruptLog(
                        f"{segment.file.name}: the CRC of the batch at offset {header.base_offset} does not fit"
                    )
                rewriting.segment_end = header.next_offset if is_last else NO_END
                try:
                    left = rewriting.rewritten(header, batch)
                except ProtocolError as error:
                    raise self._uncleanable(header, error.message) from None
                if left is batch:
                    cleaned.append(header, batch)
                elif left:
                    cleaned.append(read_header(left), left)
                self.bytes_read += header.size_bytes
                self.bytes_written += len(left)
                yield header.size_bytes
            for aborted in rewriting.transactions.take_still_aborted():
                cleaned.add_transaction(aborted)
            cleaned.finish(end_offset)
        except BaseException:  # an abandoned walk, too: GeneratorExit
            cleaned.throw_away()
            raise
        self._made = old, cleaned

    def put(self) -> bool:
        """On the loop. False: the log was cut, or its segments were deleted meanwhile; nothing has happened, and this is over."""
        assert self._made is not None
        old, cleaned = self._made
        self._made = None
        return self.log.replace_segments(old, cleaned)

    def _uncleanable(self, header: BatchHeader, why: str) -> Uncleanable:
        return Uncleanable(f"{self.log.topic_partition}: the batch at offset {header.base_offset}: {why}")


def _and_whether_last(
    segments: Sequence["Segment"],
) -> Iterator[tuple["Segment", BatchHeader, memoryview, bool]]:
    """Every batch, and whether it is the last one of all. It need not end where its segment does: there is a gap behind it
    where a compacted leader had one."""
    found = ((segment, header, batch) for segment in segments for header, batch in _batches(segment))
    before = next(found, None)
    for following in found:
        assert before is not None
        yield *before, False
        before = following
    if before is not None:
        yield *before, True


def _batches(segment: "Segment") -> Iterator[tuple[BatchHeader, memoryview]]:
    """Of a closed segment, over a descriptor that the loop does not use."""
    file = segment.file_apart()
    for position, header, batch in scan_batches(file, 0, file.size_bytes):
        if isinstance(header, str):
            raise CorruptLog(f"{file.name} at {position}: {header}")
        yield header, batch
