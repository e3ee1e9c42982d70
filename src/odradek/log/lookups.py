"""What is asked of a log by timestamp or by transaction, and how its producers are known again after a cut."""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import NamedTuple

from odradek.log.errors import CorruptLog, StorageError
from odradek.log.files import Directory, File
from odradek.log.indexes import AbortedTransaction, TimestampOffset, TransactionIndex
from odradek.log.leader_epochs import UNDEFINED_EPOCH
from odradek.log.log_state import LogState
from odradek.log.producers import MalformedSnapshot, Producers
from odradek.log.segment import SNAPSHOT_SUFFIX, Segment, file_name
from odradek.log.segments import Segments
from odradek.model.errors import ProtocolError
from odradek.records.batch import BATCH_OVERHEAD, CONTROL, BatchHeader, check_crc
from odradek.records.control import end_marker_of
from odradek.records.search import first_record_at

# A batch may be looked into at once if it is no larger: a few milliseconds at most.
QUICK_COMPRESSED_BYTES = 4096
QUICK_RECORDS = 1000
# Of one search: a batch counts for what it costs to open one, in records to look at.
LABOUR_OF_A_BATCH = 1000
MOST_LABOUR = 2_000_000
# Of what a search looks at, in headers of batches (`Allowance`): a segment whose files have to be opened; a batch; each of
# its records, of which a batch that is quick to open has a thousand at most; and the first 64 KiB that come out of one.
COLD_LABOUR = 40
OPENING_LABOUR, RECORD_LABOUR = 20, 4
DECOMPRESSING_LABOUR = 100
NO_BOUND = 1 << 62
# Of one step in which producers are learnt again, a millisecond or less.
BATCHES_AT_ONCE = 500
SNAPSHOTS_AT_ONCE = 50


class FoundOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


class Candidate(NamedTuple):
    """A batch that says that it holds what is looked for. `run` opens it, and may do so in a thread."""

    name: str
    header: BatchHeader
    data: bytes
    timestamp: int
    start_offset: int

    @property
    def is_quick(self) -> bool:
        """Whether it takes no more than a moment to look, unless more comes out than `run` opens at once."""
        is_small = not self.header.codec or len(self.data) <= QUICK_COMPRESSED_BYTES
        return is_small and self.header.record_count <= QUICK_RECORDS

    def run(self, *, at_once: bool = False) -> FoundOffset | CorruptLog | None:
        """None too where it cannot be read: what a producer wrote under a right CRC is no fault of the log, and
        whoever looks for a time finds the next batch. CorruptLog, as a value, if it is not what was written. TakesLong
        as `first_record_at`.
        """
        header = self.header
        if len(self.data) != header.size_bytes or not check_crc(self.data, 0, header):
            return CorruptLog(f"{self.name}: the batch of offset {header.base_offset} is damaged")
        block = memoryview(self.data)[BATCH_OVERHEAD:]
        try:
            found = first_record_at(
                header, block, timestamp=self.timestamp, offset=self.start_offset, at_once=at_once
            )
        except ProtocolError:
            return None
        return None if found is None else FoundOffset(found[1], found[0], header.leader_epoch)


class Allowance:
    """What may be looked at before others have their turn: in headers of batches, some 1.5 us each."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    @property
    def is_used_up(self) -> bool:
        return self.left <= 0

    def look_at(self, segment: Segment) -> None:
        """For its largest timestamp. Of one that nobody has asked for it since the start three files are opened."""
        self.left -= COLD_LABOUR if segment.max_timestamp is None else 1

    def open(self, header: BatchHeader) -> None:
        self.left -= OPENING_LABOUR + RECORD_LABOUR * header.record_count
        if header.codec:
            self.left -= DECOMPRESSING_LABOUR


class TimestampSearch:
    """The first record at or behind the log's start with a timestamp or a later one, in steps: `next_candidate`, then
    its `run`, then `tell` with what that gave, until `is_over`. The log may change between two steps.
    """

    def __init__(self, log: LogState, timestamp: int) -> None:
        self.log = log
        self._timestamp = timestamp
        self._generation = log.flushed.generation
        self._segment_offset = 0  # candidates lie in the segment that begins here, or behind it,
        self._offset = -1  # and here or behind
        self._labour = 0
        self.is_over = False
        self.found: FoundOffset | None = None

    def next_candidate(self, allowance: Allowance | None = None) -> Candidate | None:
        """None: the search is over; or else the allowance is used up. StorageError where the log cannot be read."""
        allowance = Allowance(NO_BOUND) if allowance is None else allowance
        try:
            place = self._find(allowance)
            if place is None:
                return None
            segment, at, header = place
            data = segment.file.read_at(at, header.size_bytes)
        except StorageError as error:
            raise self.log.broken(error) from None
        return Candidate(segment.file.name, header, data, self._timestamp, self.log.log_start_offset)

    def is_near(self, allowance: Allowance) -> bool:
        """Goes on looking: True once the next candidate is found, or none is left."""
        try:
            return self._find(allowance) is not None or self.is_over
        except StorageError as error:
            raise self.log.broken(error) from None

    def _find(self, allowance: Allowance) -> tuple[Segment, int, BatchHeader] | None:
        log, timestamp = self.log, self._timestamp
        if self.is_over:
            return None
        log.check()
        if self._generation != log.flushed.generation:
            # It was cut: what is appended since may lie where there was nothing.
            self._generation = log.flushed.generation
            self._segment_offset, self._offset = 0, -1
        start_offset = min(log.log_start_offset, log.log_end_offset)
        for segment in log.segments.since(self._segment_offset):
            self._segment_offset = segment.base_offset
            if allowance.is_used_up:
                return None
            allowance.look_at(segment)
            if segment.largest_timestamp() < timestamp:
                continue
            log.segments.keep_open(segment)
            begin = max(segment.offset_before_timestamp(timestamp), start_offset, self._offset)
            for at, header in segment.headers(segment.position_of(begin)):
                if header.max_timestamp >= timestamp and header.base_offset >= self._offset:
                    self._offset = header.base_offset
                    return segment, at, header
                allowance.left -= 1
                if allowance.is_used_up:
                    self._offset = max(self._offset, header.next_offset)
                    return None
        self.is_over = True
        return None

    def tell(self, candidate: Candidate, found: FoundOffset | CorruptLog | None) -> None:
        """StorageError where the batch is damaged, and is so still: the log may have been cut meanwhile."""
        if isinstance(found, CorruptLog):
            again = self.next_candidate()
            if again is not None and again.data == candidate.data:
                raise self.log.broken(found)
            return
        header = candidate.header
        self._offset = header.next_offset
        self._labour += LABOUR_OF_A_BATCH + header.record_count
        if found is None and self._labour > MOST_LABOUR:
            # So many batches claim a time that none of their records has: they lie. Whoever begins to read here,
            # behind what was looked into, misses nothing.
            begin = max(header.base_offset, candidate.start_offset)
            found = FoundOffset(header.max_timestamp, begin, header.leader_epoch)
        self.found = found
        self.is_over = found is not None


class NewestSearch(TimestampSearch):
    """The first record with the largest timestamp of those at or behind the log's start (KIP-734). `largest`: what the segments say.

    Mostly one of the records that are left has it. Where that lay below the start, DeleteRecords took it, and what is largest then the headers
    behind the start tell, but for the batch in which the log begins: that one is opened, until no record of it is larger.
    """

    def __init__(self, log: LogState, largest: TimestampOffset) -> None:
        super().__init__(log, largest.timestamp)
        # That some batch claims; behind the walk, one that lies behind the start as a whole.
        self.largest = largest
        self._walked_to = -1  # -1: there was no need for it yet
        self._is_walked = False

    def _find(self, allowance: Allowance) -> tuple[Segment, int, BatchHeader] | None:
        if self._walked_to < 0:
            place = super()._find(allowance)
            if not self.is_over or self.found is not None or not self._begins_below_start():
                return place
            self.is_over = False
            self.largest = TimestampOffset(-1, -1)
            self._walked_to = self.log.log_start_offset
        if not self._is_walked:
            if not self._walk(allowance):
                return None
            self._is_walked = True
            self._timestamp = max(self.largest.timestamp, 0)
            self._segment_offset, self._offset = 0, -1
        return super()._find(allowance)

    def _begins_below_start(self) -> bool:
        """The batch that claims it."""
        segment = self.log.segments.holding(self.largest.offset)
        for _, header in segment.headers(segment.position_of(self.largest.offset)):
            return header.base_offset < self.log.log_start_offset
        return True

    def _walk(self, allowance: Allowance) -> bool:
        """Over the headers of the segment that holds the log's start, from there on. False: there are more."""
        start = self.log.log_start_offset
        first, *others = self.log.segments.since(start)
        for _, header in first.headers(first.position_of(max(start, self._walked_to))):
            if header.base_offset >= start and header.max_timestamp > self.largest.timestamp:
                self.largest = TimestampOffset(header.max_timestamp, header.last_offset)
            self._walked_to = header.next_offset
            allowance.left -= 1
            if allowance.is_used_up:
                return False
        for segment in others:
            if segment.largest_timestamp() > self.largest.timestamp:
                self.largest = TimestampOffset(segment.largest_timestamp(), segment.offset_of_max_timestamp)
        return True

    def tell(self, candidate: Candidate, found: FoundOffset | CorruptLog | None) -> None:
        best = self.found
        super().tell(candidate, found)
        if not self._is_walked or isinstance(found, CorruptLog):
            return
        if self.found is None:
            self.found = best
        elif self._labour <= MOST_LABOUR:  # is there a larger one, perhaps in the same batch?
            self._timestamp = self.found.timestamp + 1
            self._offset = candidate.header.base_offset
            self.is_over = False


def offset_for_timestamp(log: LogState, timestamp: int) -> FoundOffset | None:
    return _all_at_once(TimestampSearch(log, timestamp))


def _all_at_once(search: TimestampSearch) -> FoundOffset | None:
    while (candidate := search.next_candidate()) is not None:
        search.tell(candidate, candidate.run())
    return search.found


def max_timestamp(log: LogState) -> TimestampOffset:
    """The largest timestamp and the last offset of the first batch that has it; (-1, -1) if there is none.

    Of the segments from the one on that holds the log's start: what lies below waits to be let go. It may lie below the start as well: see
    `NewestSearch`."""
    best = TimestampOffset(-1, -1)
    for segment in log.segments.since(log.log_start_offset):
        if segment.largest_timestamp() > best.timestamp:
            best = TimestampOffset(segment.largest_timestamp(), segment.offset_of_max_timestamp)
    return best


def knows_max_timestamp(log: LogState, allowance: Allowance) -> bool:
    """Looks at the segments that `max_timestamp` would have to look at, as far as the allowance goes. False: not at all of them yet."""
    for segment in log.segments.since(log.log_start_offset):
        if allowance.is_used_up:
            return False
        if segment.max_timestamp is None:
            allowance.look_at(segment)
            segment.largest_timestamp()
    return True


def offset_of_max_timestamp(log: LogState) -> FoundOffset | None:
    best = max_timestamp(log)
    return None if best.timestamp < 0 else _all_at_once(NewestSearch(log, best))


def epoch_in_header(log: LogState, offset: int) -> int:
    """-1 if no batch holds it. The epochs of a log are known from its start on only."""
    segment = log.segments.holding(offset)
    for _, header in segment.headers(segment.position_of(offset)):
        return header.leader_epoch
    return UNDEFINED_EPOCH


def _transactions(segment: Segment) -> TransactionIndex:
    return segment.transactions


def aborted_transactions(
    segments: Segments,
    offset: int,
    upper_bound_offset: int,
    index_of: Callable[[Segment], TransactionIndex] = _transactions,
) -> list[AbortedTransaction]:
    """Those with records between the two offsets. A marker lies behind its records, perhaps segments later, so the
    search goes on until an entry says that everything below the upper bound was decided by then.
    """
    found: list[AbortedTransaction] = []
    for segment in segments.with_aborted_since(offset):
        entries, is_decided = index_of(segment).between(offset, upper_bound_offset)
        found += entries
        if is_decided:
            break
    return found


def snapshots_behind(log: LogState, end_offset: int) -> list[int]:
    """Offsets of the snapshots that may be there and speak of what lies behind this one."""
    return [offset for offset in _snapshots(log, log.segments.since(end_offset)) if offset > end_offset]


def _snapshots(log: LogState, segments: Sequence[Segment]) -> list[int]:
    """The directory is not listed for them: it has sixty thousand files where there are 15,000 segments."""
    return sorted([*(segment.base_offset for segment in segments), *log.other_snapshots])


def producers_at(log: LogState, end_offset: int, now_ms: int) -> Generator[None, None, Producers]:
    """As they were when the log ended there: the newest snapshot at or below that, and the batches from there on.

    In steps, for a segment may have ten million batches. Between two of them the log may be appended to, rolled, compacted
    and let go from its start; not cut below `end_offset`.
    """
    start, producers = yield from _newest_known(log, end_offset, now_ms)
    left = BATCHES_AT_ONCE
    while start < end_offset:
        if not left:
            yield
            left = BATCHES_AT_ONCE
        segment = log.segments.holding(start)
        log.segments.keep_open(segment)
        for position, header in segment.headers(segment.position_of(start)):
            if header.base_offset >= end_offset:
                return producers
            if header.producer_id >= 0 and header.base_offset >= start:
                replay(producers, segment.file, position, header, now_ms)
            left -= 1
            if not left:
                start = header.next_offset
                break
        else:
            start = segment.end(end_offset)
    return producers


def _newest_known(
    log: LogState, end_offset: int, now_ms: int
) -> Generator[None, None, tuple[int, Producers]]:
    first = log.segments[0].base_offset
    snapshots = [offset for offset in _snapshots(log, log.segments) if first <= offset <= end_offset]
    marks = [mark for mark in log.producer_marks if mark[0] <= end_offset]
    if marks and marks[-1][0] >= max(snapshots, default=-1):
        start, mark = marks[-1]
        return start, (yield from Producers.loading(mark, now_ms))
    return (yield from newest_snapshot(log.directory, snapshots, first, now_ms))


def newest_snapshot(
    directory: Directory, snapshots: Iterable[int], first: int, now_ms: int
) -> Generator[None, None, tuple[int, Producers]]:
    """The last of these that can be read, and its offset; nobody, at `first`, if none can be."""
    for tried, offset in enumerate(sorted(snapshots, reverse=True), 1):
        if not tried % SNAPSHOTS_AT_ONCE:
            yield
        data = directory.read(file_name(offset, SNAPSHOT_SUFFIX))
        try:
            return offset, (yield from Producers.loading(data or b"", now_ms))
        except MalformedSnapshot:
            continue  # it is not there, or no good: the one before it, and more batches
    return first, Producers()


def replay(
    producers: Producers, file: File, position: int, header: BatchHeader, now_ms: int
) -> AbortedTransaction | None:
    """A batch with a producer id, as when it was appended. The entry of an aborted transaction, if it ends one."""
    if not header.attributes & CONTROL:
        producers.note_batch(header, header.base_offset, now_ms)
        return None
    block = file.read_at(position + BATCH_OVERHEAD, header.size_bytes - BATCH_OVERHEAD)
    marker = end_marker_of(header, block)
    if marker is None:
        return None
    ended = producers.note_marker(header, marker, header.base_offset, now_ms)
    return producers.aborted(ended) if ended is not None and ended.is_aborted else None
