"""The aborted transactions of a segment whose `.txnindex` is not what it was, learnt again from the batches.

No batch says that it was aborted: a reader of committed records who is not told shows what was taken back. So an index that
was removed, emptied or shortened, or cannot be of this segment, is never believed. The producers' snapshot at the beginning of
the segment tells which transactions were open there, and its batches the rest. A thread does that, as for other
indexes; it also reads an index that is right and long.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence

from odradek.log import lookups
from odradek.log.errors import StorageError
from odradek.log.files import Directory
from odradek.log.index_rebuilding import BATCHES_A_PIECE, Rebuild
from odradek.log.indexes import TransactionIndex, transactions_to_bytes
from odradek.log.log_state import LogState
from odradek.log.scan import scan_headers
from odradek.log.segment import TRANSACTION_INDEX_SUFFIX, Segment
from odradek.log.steps import all_at_once

# By which clock producers are forgotten: those of one walk are all heard of at once.
NOW_MS = 0


def learn_aborted(
    directory: Directory, segments: Sequence[Segment], snapshots: Iterable[int], end_offset: int, now_ms: int
) -> Generator[None, None, TransactionIndex]:
    """Of the last of these segments, up to `end_offset`, in steps; those before it are read where there is no snapshot."""
    last = segments[-1]
    first = segments[0].base_offset
    known = [offset for offset in snapshots if first <= offset <= last.base_offset]
    start, producers = yield from lookups.newest_snapshot(directory, known, first, now_ms)
    found = TransactionIndex()
    left = BATCHES_A_PIECE
    for segment in segments:
        end = end_offset if segment is last else segment.end_offset
        if end <= start:
            continue
        file = segment.file_apart()
        for position, header in scan_headers(file, 0, file.size_bytes):
            if header.base_offset >= end:
                break
            if not left:
                yield
                left = BATCHES_A_PIECE
            left -= 1
            if header.producer_id >= 0 and header.base_offset >= start:
                aborted = lookups.replay(producers, file, position, header, now_ms)
                if aborted is not None and segment is last:
                    found.append(aborted)
            if header.next_offset >= end:
                break  # behind it may be what a power cut left: a start asks before that is cut off
    return found


def transactions_of(log: LogState, segment: Segment) -> TransactionIndex:
    """For a thread beside the loop: nothing is put in its place."""
    known = segment.known_transactions
    if known is None:
        known = segment.read_transactions(segment.end_offset)
    if known is None:
        segments = (*log.segments.below(segment), segment)
        snapshots = _snapshots(log, segments)
        known = all_at_once(learn_aborted(log.directory, segments, snapshots, segment.end_offset, NOW_MS))
    return known


def rebuild(log: LogState, segment: Segment) -> None:
    """Here and now, where there is no loop."""
    work = TransactionRebuild(log, segment)
    while not work.is_over:
        came = work.run()
        if isinstance(came, StorageError):
            raise log.broken(came)
    work.put()


def _snapshots(log: LogState, segments: Iterable[Segment]) -> set[int]:
    return {*(one.base_offset for one in segments), *tuple(log.other_snapshots)}


class TransactionRebuild(Rebuild):
    """Of a segment that is not appended to: those of the active one are known."""

    def __init__(self, log: LogState, segment: Segment) -> None:
        super().__init__(log, segment)
        assert segment.end_offset >= 0
        self.found: TransactionIndex | None = None
        self._segments = (*log.segments.below(segment), segment)
        self._snapshots = _snapshots(log, self._segments)
        self._steps: Iterator[None] | None = None
        self._learnt: TransactionIndex | None = None

    def _do_a_piece(self) -> None:
        if self._steps is None:
            self.found = self.segment.read_transactions(self._end_offset)
            if self.found is not None:
                self.is_over = True
                return
            self.notice = f"{self.segment.name(TRANSACTION_INDEX_SUFFIX)} is missing or not what it was: built again from the batches"
            self._steps = self._learn()
        next(self._steps, None)
        if self._learnt is not None:
            self.found = self._learnt
            self.is_over = True
            if len(self.found):
                self._files.write(
                    self.segment.name(TRANSACTION_INDEX_SUFFIX), transactions_to_bytes(self.found)
                )

    def _learn(self) -> Iterator[None]:
        self._learnt = yield from learn_aborted(
            self.segment.directory, self._segments, self._snapshots, self._end_offset, NOW_MS
        )

    def _put(self) -> bool:
        assert self.found is not None
        if self._steps is not None:
            name = self.segment.name(TRANSACTION_INDEX_SUFFIX)
            self._files.put()
            if not len(self.found):
                self.segment.directory.remove(name)
            self.log.flushed.name_changed(name)
        self.segment.take_transactions(self.found)
        self.log.note_index_sizes()
        return True

    def _has_lost_segments(self) -> bool:
        return not set(self._segments) <= set(self.log.segments)
