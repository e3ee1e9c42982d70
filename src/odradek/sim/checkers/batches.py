"""The batches of one replica as the checkers see them, with a running digest, so that a long log costs no more than
its new end.

`BatchList` belongs to whoever reads the log and grows at its end; `Batches` is a snapshot of it: a length. Where a
log was cut, its reader begins another list, so a snapshot never changes.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload


class BatchView(NamedTuple):
    """What makes a batch this batch."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int


class BatchList:
    """Batches in the order of their offsets, and for each a digest of everything up to it."""

    __slots__ = ("bases", "digests", "disorder", "items", "lasts")

    def __init__(self, batches: Sequence[BatchView] = ()) -> None:
        self.disorder: list[int] = []  # indexes of batches that overlap the one before, or whose epoch falls
        self.items: list[BatchView] = []
        self.bases: list[int] = []
        self.lasts: list[int] = []
        self.digests: list[int] = []
        for batch in batches:
            self.append(batch)

    def append(self, batch: BatchView) -> None:
        # Hashes of integers are the same in every process; two logs with one digest and different batches are not
        # to be expected within the life of this planet.
        before = self.digests[-1] if self.digests else 0
        if self.items:
            last = self.items[-1]
            if batch.base_offset <= last.last_offset or batch.leader_epoch < last.leader_epoch:
                self.disorder.append(len(self.items))
        self.items.append(batch)
        self.bases.append(batch.base_offset)
        self.lasts.append(batch.last_offset)
        self.digests.append(hash((before, batch)))

    def snapshot(self) -> "Batches":
        return Batches(self, len(self.items))


class Batches(Sequence[BatchView]):
    """The first `length` batches of a list."""

    __slots__ = ("_length", "_list")

    def __init__(self, batches: BatchList, length: int) -> None:
        self._list = batches
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[BatchView]:
        items = self._list.items
        return iter(items if len(items) == self._length else items[: self._length])

    @overload
    def __getitem__(self, index: int) -> BatchView: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[BatchView]: ...

    def __getitem__(self, index: int | slice) -> BatchView | Sequence[BatchView]:
        if isinstance(index, slice):
            return self._list.items[: self._length][index]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError(index)
        return self._list.items[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(tuple(self))

    def begins_at(self) -> int:
        return self._list.bases[0] if self._length else -1

    def count_below(self, offset: int) -> int:
        """How many batches end below `offset`."""
        return bisect_left(self._list.lasts, offset, 0, self._length)

    def disorder(self) -> list[int]:
        """Indexes of batches that overlap the one before, or whose epoch falls."""
        return [index for index in self._list.disorder if index < self._length]

    def digest(self, count: int) -> int:
        """Of the first `count` batches."""
        return self._list.digests[count - 1] if count else 0
