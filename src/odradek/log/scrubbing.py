"""Finding batches that are not as they were written, before somebody needs them (hole H6).

A bit that turns on the disk, in memory or on the way is seen by nobody: a leader sends batches as they lie, a replica
counts as a copy whatever it holds, and after a clean stop nothing is read again. So the CRC of every batch is looked at
now and then, a little at a time and in a thread, and at once where a follower asks again for what it was sent.

Base offset and leader epoch lie before the CRC (KIP-98): of these only the order in the log can be looked at.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from odradek.log.errors import CorruptLog, MissingFile, StorageError
from odradek.log.log_state import LogState
from odradek.log.scan import scan_batches
from odradek.log.segment import IndexPending, Segment, lacks_records
from odradek.model.errors import ProtocolError
from odradek.records.batch import BATCH_OVERHEAD, BatchHeader, check_crc, read_header

# Small batches cost more than their bytes say: this many a look are a few milliseconds.
MOST_BATCHES = 1000
# A segment counts as so many, were it empty: thousands of idle logs would all be looked at every second, in a thread that
# takes the interpreter away from the loop.
BATCHES_A_SEGMENT = 10


def why_damaged(
    header: BatchHeader, batch: memoryview, expected: int, limit: int, epoch: int, last_epoch: int
) -> str:
    """ "" for a batch that may stand at `expected` or, where compaction was, behind it, and ends at `limit` or before."""
    if header.last_offset_delta < 0:
        return f"last offset delta {header.last_offset_delta}"
    if header.base_offset < expected or header.next_offset > limit:
        return f"offsets {header.base_offset} to {header.last_offset} where {expected} to {limit - 1} belong"
    if not epoch <= header.leader_epoch <= last_epoch:
        return f"leader epoch {header.leader_epoch} where {epoch} to {last_epoch} belong"
    if not check_crc(batch, 0, header):
        return f"the CRC of the batch at offset {header.base_offset} does not fit"
    return ""


def check_batch(log: LogState, offset: int) -> None:
    """Looks at the one batch that holds `offset`. CorruptLog, and the log is used no more, if it is damaged."""
    segment = log.segments.holding(offset)
    log.segments.keep_open(segment)
    try:
        file = segment.file
        position = segment.position_of(offset)
        head = file.read_at(position, BATCH_OVERHEAD)
        try:
            header = read_header(head)
        except ProtocolError as error:  # the magic of an old message, too: none is stored here
            raise segment.corrupt(position, error.message) from None
        batch = memoryview(file.read_at(position, header.size_bytes))
        limit = segment.end(log.log_end_offset)
        behind = file.read_at(position + header.size_bytes, BATCH_OVERHEAD)
        if behind:
            limit = min(limit, int.from_bytes(behind[:8], "big", signed=True))
        reason = "cut short" if len(batch) < header.size_bytes else ""
        # A log may start inside a batch, and so may whoever reads it.
        reason = reason or why_damaged(header, batch, segment.base_offset, limit, -1, log.latest_epoch)
        if reason:
            raise CorruptLog(f"{file.name} at {position}: {reason}")
    except IndexPending as pending:
        log.broken(pending)  # whoever is sent it again, and does not take it, has it looked at then
    except StorageError as error:
        raise log.broken(error) from None


class Suspect(NamedTuple):
    """What a look found, to be judged where the log is changed."""

    log: LogState
    segment: "Segment"
    limit: int
    error: StorageError


class Scrubber:
    """Walks over all logs, segment by segment, for ever; `scrub` goes on where the last one ended.

    `scrub` runs in a thread, and a change of the log (a cut, retention, the files of a cleaned segment that take the names of
    others) may be half done then. So it calls nothing damaged: `judge` does, which whoever changes logs calls afterwards.
    """

    def __init__(self, logs: Callable[[], Iterable[LogState]]) -> None:
        self._logs = logs
        self._round: list[LogState] = []  # those still to be looked at, the next one last
        self._log: LogState | None = None
        self._segment: Segment | None = None  # the one we are in
        self._base_offset = -1  # the next one begins here or behind
        self._position = 0
        self._expected = 0
        self._epoch = -1
        self._has_gaps = False  # the segment we are in, as far as it was looked at
        self._suspects: list[Suspect] = []
        self.rounds = 0

    def judge(self) -> None:
        """What was found damaged, and is still a part of its log, is used no more (`broken`)."""
        suspects, self._suspects = self._suspects, []
        for log, segment, limit, error in suspects:
            if log.failure is None and _is_still(log, segment, limit):
                log.broken(error)

    def scrub(self, most_bytes: int) -> None:
        """Blocks, so for a thread; the logs go on meanwhile."""
        if self._log is None and not self._round:
            self._round = sorted(self._logs(), key=lambda log: log.topic_partition, reverse=True)
        left = (most_bytes, MOST_BATCHES)
        while left[0] > 0 and left[1] > 0:
            log = self._log
            if log is None or log.failure is not None:
                self._log = self._round.pop() if self._round else None
                self._segment, self._base_offset = None, -1
                if self._log is None:
                    self.rounds += 1
                    return  # that was all; another round begins with the next look
                continue
            segment = log.segments.first_from(self._base_offset)
            if segment is None:
                self._log = None
                continue
            if segment is not self._segment:
                self._enter(segment)
            left = self._check(log, segment, left)

    def _enter(self, segment: "Segment") -> None:
        self._segment = segment
        self._base_offset = self._expected = segment.base_offset
        self._position, self._epoch = 0, -1
        self._has_gaps = False

    def _check(self, log: LogState, segment: "Segment", left: tuple[int, int]) -> tuple[int, int]:
        """What is left to be looked at now."""
        most_bytes, most_batches = left
        limit = segment.end(log.log_end_offset)
        last_epoch = log.latest_epoch
        log_start_offset = log.log_start_offset
        error: StorageError | None = None
        try:
            file = segment.file_apart()
            if not log.directory.exists(segment.name()):
                # Whoever holds a descriptor goes on in a file that nobody finds again.
                raise MissingFile(
                    f"{file.name}: missing: it was removed or renamed from outside this process"
                )
            for position, header, batch in scan_batches(file, self._position, file.size_bytes):
                if self._expected >= limit:
                    break  # appended while we looked
                if isinstance(header, str):
                    error = CorruptLog(f"{file.name} at {position}: {header}")
                    break
                # Of records that were deleted the log may have forgotten the epoch.
                is_deleted = header.next_offset <= log_start_offset
                reason = why_damaged(
                    header,
                    batch,
                    self._expected,
                    limit,
                    self._epoch,
                    header.leader_epoch if is_deleted else last_epoch,
                )
                if reason:
                    error = CorruptLog(f"{file.name} at {position}: {reason}")
                    break
                self._has_gaps = self._has_gaps or lacks_records(header, self._expected)
                self._expected, self._epoch = header.next_offset, header.leader_epoch
                self._position = position + header.size_bytes
                most_bytes -= header.size_bytes
                most_batches -= 1
                if most_bytes <= 0 or most_batches <= 0:
                    return most_bytes, most_batches
            if error is None and self._expected < limit and not (log.may_have_gaps or self._has_gaps):
                error = CorruptLog(
                    f"{file.name} at {self._position}: ends before offset {self._expected}; it must hold all up to {limit}"
                )
        except MissingFile as missing:
            error = missing
        except StorageError:
            self._log = None  # the whole directory is offline, and has told so
            return most_bytes, most_batches
        if error is not None:
            self._suspects.append(Suspect(log, segment, limit, error))
        self._base_offset += 1  # the next segment, wherever it begins
        return most_bytes, most_batches - BATCHES_A_SEGMENT


def _is_still(log: LogState, segment: "Segment", limit: int) -> bool:
    """Else it was cut or let go while we looked at it, and what we read says nothing."""
    end = segment.end(log.log_end_offset)
    return segment in log.segments and end >= limit
