"""The two passes of one cleaning over the closed segments of a log: all of it that takes long, and nothing of the log's state.

What the passes need is a value, `CleaningJob`, and what they make are files under temporary names and a value that tells of them: so
whoever runs them may be a thread, or a process of its own (`server.cleaning_process`).
"""

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple, Protocol

from odradek.log.cleaned_segment import CleanedSegment, MadeSegment
from odradek.log.compaction.map_building import note_keys
from odradek.log.compaction.offset_map import OffsetMap
from odradek.log.compaction.records import Pause, no_pause
from odradek.log.compaction.rewriting import NO_END, LastEntry, Rewriting
from odradek.log.compaction.transactions import MetTransactions
from odradek.log.errors import CorruptLog
from odradek.log.files import Directory
from odradek.log.indexes import MAX_POSITION, TransactionIndex
from odradek.log.producers import read_snapshot
from odradek.log.scan import scan_batches
from odradek.log.segment import Segment
from odradek.model.errors import OdradekError, ProtocolError
from odradek.records.batch import BatchHeader, check_crc, read_header


class Uncleanable(OdradekError):
    """A batch cannot be opened, or its keys do not fit into the offset map. The log is in order, and is left as it is."""


class SourceSegment(NamedTuple):
    base_offset: int
    end_offset: int
    created_ms: int
    size_bytes: int


class CleaningJob(NamedTuple):
    """All of a log that a cleaning looks at besides its segment files, as it was when the cleaning began."""

    log: str  # for messages
    groups: tuple[tuple[SourceSegment, ...], ...]  # each becomes one; from the log's first to `end`
    first_dirty: int
    end: int
    aborted: TransactionIndex  # with records in those segments
    map_bytes: int
    load_factor: float
    secret: bytes
    now_ms: int
    delete_retention_ms: int
    index_interval_bytes: int
    producers: bytes  # as a snapshot: fifty thousand objects would keep the loop while they are made and sent
    droppable_below: int
    overdue_before_ms: int


class MapBuilt(NamedTuple):
    """`end_offset`: the next checkpoint, once all is put in place."""

    end_offset: int
    is_amid_transaction: bool


class Passes(Protocol):
    """Yields are numbers of bytes read and written since the last one, for whoever holds it to a rate. A walk may be abandoned between two of them."""

    def build_map(self) -> Generator[int, None, MapBuilt]:
        """The first pass. Uncleanable; MissingFile where a segment was removed meanwhile; CorruptLog; StorageError."""
        ...

    def write_segment(self) -> Generator[int, None, MadeSegment]:
        """The second pass, over the next group. As `build_map`, and StorageError where the disk fails; half-written files stay."""
        ...


class PassesHere:
    """In the thread that walks them."""

    def __init__(self, job: CleaningJob, directory: Directory, pause: Pause = no_pause) -> None:
        self._job = job
        self._directory = directory
        self._pause = pause
        self._groups = list(job.groups)
        self._rewriting: Rewriting | None = None
        self._last_entries: dict[int, LastEntry] = {}
        self._last_below: dict[int, int] = {}  # of these: see `Rewriting`

    def build_map(self) -> Generator[int, None, MapBuilt]:
        job = self._job
        offsets = OffsetMap(job.map_bytes, job.load_factor, job.secret)
        seen = MetTransactions()
        seen.add([one for one in job.aborted if one.last_offset >= job.first_dirty])
        self._last_entries = {
            producer.producer_id: LastEntry(producer.last_offset, producer.producer_epoch)
            for producer in read_snapshot(job.producers)
        }
        end = job.first_dirty
        for segment in [self._cold(one) for group in job.groups for one in group]:
            if segment.end_offset <= job.first_dirty:
                continue
            for header, batch in _batches(segment):
                if header.next_offset <= job.first_dirty:
                    continue
                try:
                    fits = note_keys(offsets, seen, header, batch, self._pause, first_offset=job.first_dirty)
                except ProtocolError as error:
                    raise self._uncleanable(header, error.message) from None
                if not fits:
                    if end == job.first_dirty:
                        raise self._uncleanable(
                            header,
                            f"its {header.record_count} keys do not fit into the offset map, which takes "
                            f"{offsets.most_keys} (log.cleaner.dedupe.buffer.size)",
                        )
                    return self._end_at(end, seen, offsets)
                end = header.next_offset
                if header.producer_id in self._last_entries:
                    self._last_below[header.producer_id] = header.last_offset
                yield header.size_bytes
        return self._end_at(job.end, seen, offsets)

    def _end_at(self, end_offset: int, seen: MetTransactions, offsets: OffsetMap) -> MapBuilt:
        job = self._job
        self._rewriting = Rewriting(
            offsets,
            end_offset=end_offset,
            now_ms=job.now_ms,
            delete_retention_ms=job.delete_retention_ms,
            last_entries=self._last_entries,
            last_below=self._last_below,
            droppable_below=job.droppable_below,
            overdue_before_ms=job.overdue_before_ms,
            pause=self._pause,
        )
        self._rewriting.transactions.add(list(job.aborted))
        self._groups = [group for group in self._groups if group[0].base_offset < end_offset]
        return MapBuilt(end_offset, seen.is_amid_one)

    @property
    def is_done(self) -> bool:
        return self._rewriting is not None and not self._groups

    def write_segment(self) -> Generator[int, None, MadeSegment]:
        rewriting = self._rewriting
        assert rewriting is not None and self._groups
        old = [self._cold(one) for one in self._groups.pop(0)]
        job = self._job
        cleaned = CleanedSegment(
            self._directory, old[0].base_offset, old[-1].created_ms, job.index_interval_bytes
        )
        for segment, header, batch, is_last in _and_whether_last(old):
            if not check_crc(batch, 0, header):
                raise CorruptLog(
                    f"{segment.directory.path}/{segment.name()}: the CRC of the batch at offset {header.base_offset} does not fit"
                )
            rewriting.segment_end = header.next_offset if is_last else NO_END
            try:
                left = rewriting.rewritten(header, batch)
            except ProtocolError as error:
                raise self._uncleanable(header, error.message) from None
            if cleaned.segment.file.size_bytes + len(left) > MAX_POSITION:
                # What stays may be larger than it was: a producer's codec packs closer than ours at its level.
                raise self._uncleanable(header, f"what stays up to it is more than {MAX_POSITION} bytes")
            if left is batch:
                cleaned.append(header, batch)
            elif left:
                cleaned.append(read_header(left), left)
            yield header.size_bytes + len(left)
        for aborted in rewriting.transactions.take_still_aborted():
            cleaned.add_transaction(aborted)
        return cleaned.finish(old[-1].end_offset, self._directory.modified_ms(old[-1].name()))

    def _cold(self, segment: SourceSegment) -> Segment:
        return Segment(self._directory, segment.base_offset, segment.created_ms, segment.end_offset)

    def _uncleanable(self, header: BatchHeader, why: str) -> Uncleanable:
        return Uncleanable(f"{self._job.log}: the batch at offset {header.base_offset}: {why}")


def _and_whether_last(
    segments: Sequence[Segment],
) -> Iterator[tuple[Segment, BatchHeader, memoryview, bool]]:
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


def _batches(segment: Segment) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Of a closed segment, over a descriptor that the loop does not use."""
    file = segment.file_apart()
    for position, header, batch in scan_batches(file, 0, file.size_bytes):
        if isinstance(header, str):
            raise CorruptLog(f"{file.name} at {position}: {header}")
        yield header, batch
