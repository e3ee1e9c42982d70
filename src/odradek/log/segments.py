"""The segments of one log: the one owner of their list, of the files taken out of it, and of the descriptors it keeps.

The list is a tuple that is replaced whole, so a thread that walks over it (a flush, the scrubber) sees the segments of
one moment. Names that change are told to the flush state, which syncs them.

Nothing here is synced, and nothing needs to be: a journaling file system keeps the names of one directory in the order
in which they changed, so each change is made in an order of which every beginning is a log that recovery understands.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import overload

from odradek.log.cleaned_segment import SWAP_SUFFIX, CleanedSegment
from odradek.log.errors import MissingFile
from odradek.log.files import Directory, Mark
from odradek.log.flushing import FlushState
from odradek.log.prepared_files import PreparedFiles
from odradek.log.segment import Cut, Segment

SIZES_AT_ONCE = 1_000


class Segments(Sequence[Segment]):
    """In the order of their offsets; the last one is `active`.

    Invariant: each but the active one ends where the next one begins.
    """

    __slots__ = (
        "_all",
        "_flushed",
        "_kept_open",
        "_rebuilds_elsewhere",
        "_with_aborted",
        "active",
        "directory",
        "pending_removal",
    )

    def __init__(self, directory: Directory, segments: Sequence[Segment], flushed: FlushState) -> None:
        assert segments, "a log has at least its active segment"
        self.directory = directory
        self._all = tuple(segments)
        self.active = self._all[-1]
        self._flushed = flushed
        # Names of files taken out of the log, to be removed by `purge` when it suits.
        self.pending_removal: list[str] = []
        # The one older segment that keeps its descriptors.
        self._kept_open: Segment | None = None
        self._rebuilds_elsewhere = False
        # Those with aborted transactions, as they were when the list was that one.
        self._with_aborted: tuple[tuple[Segment, ...], list[Segment]] = ((), [])

    # ---------------------------------------------------------------------------------------------- the list

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @overload
    def __getitem__(self, at: int) -> Segment: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Segment, ...]: ...
    def __getitem__(self, at: int | slice) -> Segment | tuple[Segment, ...]:
        return self._all[at]

    def holding(self, offset: int) -> Segment:
        """The one that holds `offset`, or would."""
        return self._all[self._index(offset)]

    def since(self, offset: int) -> tuple[Segment, ...]:
        """The one that holds `offset`, or would, and all behind it."""
        return self._all[self._index(offset) :]

    def first_from(self, base_offset: int) -> Segment | None:
        """The first that begins there or behind it. A thread may ask."""
        segments = self._all
        at = bisect_left(segments, base_offset, key=_base_offset)
        return segments[at] if at < len(segments) else None

    def below(self, segment: Segment) -> tuple[Segment, ...]:
        """All before this one."""
        return self._all[: self._index(segment.base_offset)]

    def with_aborted_since(self, offset: int) -> Sequence[Segment]:
        """As `since`, without those that have no aborted transaction: a log of 15,000 segments may have few that do. Which ones
        is looked up again when the list has changed, for only the active one gets any. A thread may ask, in the moment too in which a log
        begins anew."""
        segments, found = self._with_aborted
        if segments is not self._all:
            segments = self._all
            found = [one for one in segments if one is segments[-1] or one.may_have_aborted]
            self._with_aborted = segments, found
        if not segments:
            return []
        holding = segments[max(bisect_right(segments, offset, key=_base_offset) - 1, 0)]
        return found[bisect_left(found, holding.base_offset, key=_base_offset) :]

    def _index(self, offset: int) -> int:
        return max(bisect_right(self._all, offset, key=_base_offset) - 1, 0)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._all)

    def sizing(self) -> Iterator[None]:
        """Looks up the sizes that are not known yet, in steps of some five milliseconds. Behind it `size_bytes` asks nothing of the
        disk. What was let go in between is passed over.
        """
        left = SIZES_AT_ONCE
        for segment in self._all:
            if segment.knows_its_size:
                continue
            if not left:
                yield
                left = SIZES_AT_ONCE
            left -= 1
            try:
                segment.size_bytes  # noqa: B018  (it is known from here on)
            except MissingFile:
                if segment in self._all:
                    raise

    def rebuild_elsewhere(self) -> None:
        """From now on whoever would have to walk over all batches of a segment for its indexes is told IndexPending."""
        self._rebuilds_elsewhere = True
        for segment in self._all:
            segment.rebuilds_elsewhere = True

    # ---------------------------------------------------------------------------------------------- changing it

    def roll(self, files: PreparedFiles, following: Segment) -> None:
        """The log goes on in `following`; an active segment without a batch is not kept."""
        old = self.active
        if old.file.size_bytes == 0:
            self._drop_last()
        else:
            old.rely_on_index_files(following.base_offset)
        self.begin(files, following)

    def begin(self, files: PreparedFiles, following: Segment) -> None:
        """`following`, empty and among `files`, is the active one. Takes no descriptor: see `prepared_files`."""
        following.remove_leftovers()
        for name in files.put():
            if name != following.name():  # what is appended to is synced by itself
                self._flushed.name_changed(name)
        if self._all and not self._all[-1].is_cold:  # else it was followed before
            self._all[-1].file.set_mark(Mark.FOLLOWED)
        following.rebuilds_elsewhere = self._rebuilds_elsewhere
        self._all = (*self._all, following)
        self.active = following
        self._flushed.rolled()

    def cut(self, target: Segment, cut: Cut | None, end_offset: int, *, is_kept: bool) -> None:
        """Takes out what lies behind `target`, from the last on, and shortens it by `cut`, so that it ends at `end_offset`;
        `target` itself goes too where it is not kept. The log is without an active segment until `begin`.
        """
        while self._all[-1] is not target:
            self._drop_last()
        if not is_kept:
            self._drop_last()
        elif cut is not None:
            for name in target.cut(cut):
                self._flushed.name_changed(name)
        elif target.end_offset > end_offset:
            target.end_offset = end_offset  # in the gap that compaction, or the leader, left at its end

    def drop_all(self) -> None:
        """From the last on. There is none until `begin`."""
        while self._all:
            self._drop_last()

    def drop_first(self) -> Segment:
        first = self._all[0]
        self._all = self._all[1:]
        self._mark_deleted(first)
        return first

    def can_replace(self, old: Sequence[Segment], cleaned: CleanedSegment) -> bool:
        """Whether the log still has what `cleaned` was made from, as it was: not cut, not deleted, not active."""
        assert old and cleaned.segment.base_offset == old[0].base_offset
        behind = self._index(old[0].base_offset) + len(old)
        return (
            behind < len(self._all)
            and all(a is b for a, b in zip(old, self._all[behind - len(old) : behind], strict=True))
            and old[-1].end_offset == cleaned.segment.end_offset
        )

    def replace(self, old: Sequence[Segment], cleaned: CleanedSegment) -> None:
        """`cleaned`, finished, takes the place of those it was made from (`can_replace`); slices of these stay readable.

        A crash before the log file is a `.swap` leaves the old ones, one behind it the new one: see `cleaned_segment`.
        """
        first = self._index(old[0].base_offset)
        cleaned.files.put_under(SWAP_SUFFIX)
        for segment in old:
            self._mark_deleted(segment)
        cleaned.files.put()
        cleaned.segment.close_handles()
        cleaned.segment.rebuilds_elsewhere = self._rebuilds_elsewhere
        self._all = (*self._all[:first], cleaned.segment, *self._all[first + len(old) :])
        self._flushed.names_dirty()

    def _drop_last(self) -> None:
        last = self._all[-1]
        self._all = self._all[:-1]
        self._mark_deleted(last)

    def _mark_deleted(self, segment: Segment) -> None:
        """Renames the files of a segment that is in the list no more; `purge` removes them."""
        self.pending_removal += segment.mark_deleted()
        if segment is self._kept_open:
            self._kept_open = None
        self._flushed.names_dirty()

    # ---------------------------------------------------------------------------------------------- their files

    def keep_open(self, segment: Segment) -> None:
        """`segment` is about to be read. Only one that is not active keeps its descriptors, so old segments cost none."""
        if segment is not self._kept_open and segment is not self.active:
            if self._kept_open is not None and self._kept_open is not self.active:
                self._kept_open.close_handles()
            self._kept_open = segment

    def close_handles(self) -> None:
        """As of each segment; whoever still reads opens the file anew."""
        for segment in self._all:
            segment.close_handles()
        self._kept_open = None

    def directory_renamed(self) -> None:
        for segment in self._all:
            segment.directory_renamed()

    def purge(self) -> int:
        """Removes what was taken out of the log. Blocks on large files; may be called from a thread."""
        count = len(self.pending_removal)
        for name in self.pending_removal[:count]:
            self.directory.remove(name)
        del self.pending_removal[:count]
        return count


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
