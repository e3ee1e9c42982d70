"""Which leader epoch began at which offset, per log (KIP-101), and the question KIP-279 asks of it.

Kept in memory; the file `leader-epoch-checkpoint` is written by the log whenever this changes.
"""

from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


_EPOCH, _START_OFFSET = attrgetter("epoch"), attrgetter("start_offset")


class LeaderEpochs:
    """Epochs and start offsets both rise strictly from entry to entry."""

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self.entries: list[EpochEntry] = []
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    @property
    def latest(self) -> int:
        return self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """The epoch begins at this offset; False if that was known.

        Entries that contradict it go: what they say was cut off the log before this epoch was appended.
        """
        entries = self.entries
        if epoch < 0 or start_offset < 0:
            return False
        if entries:
            last = entries[-1]
            if epoch == last.epoch and start_offset >= last.start_offset:
                return False
            while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
                entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        return True

    def end_offset(self, asked: int, log_end_offset: int) -> tuple[int, int]:
        """(largest epoch at or below the asked one, where it ends): the leader's answer of KIP-279.

        (-1, -1): asked about an epoch larger than any here, or about nothing. Where the log begins with a larger
        epoch than the asked one, the answer is the asked epoch and the start of the first: cut all of it.
        """
        entries = self.entries
        if asked < 0 or not entries or asked > entries[-1].epoch:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if asked == entries[-1].epoch:
            return asked, log_end_offset
        at = bisect_right(entries, asked, key=_EPOCH)
        return (entries[at - 1].epoch if at else asked), entries[at].start_offset

    def epoch_at(self, offset: int) -> int:
        """The epoch of the record at `offset`; -1 if it lies before the first entry."""
        at = bisect_right(self.entries, offset, key=_START_OFFSET)
        return self.entries[at - 1].epoch if at else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int) -> bool:
        """The log ends here now. An epoch that had begun at its very end has nothing left."""
        before = len(self.entries)
        while self.entries and self.entries[-1].start_offset >= end_offset:
            self.entries.pop()
        return len(self.entries) != before

    def truncate_from_start(self, start_offset: int) -> bool:
        """The log begins here now. The epoch it begins in stays, from here on."""
        entries = self.entries
        keep = 0
        while keep + 1 < len(entries) and entries[keep + 1].start_offset <= start_offset:
            keep += 1
        if not entries or entries[0].start_offset >= start_offset:
            return False
        first = EpochEntry(entries[keep].epoch, max(entries[keep].start_offset, start_offset))
        entries[: keep + 1] = [first]
        return True
