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

    __slots__ = ("digests", "disorder", "items", "lasts")

    def __init__(self, batches: Sequence[BatchView] = ()) -> None:
        self.disorder: list[int] = []  # indexes of batches that overlap the one before, or whose epoch falls
        self.items: list[BatchView] = []
        self.lasts: list[int] = []
        self.digests: list[int] = []
        for batch in batches:
            self.append(batch)

    def append(self, batch: BatchView) -> None:
        items = self.items
        base_offset, last_offset, leader_epoch, _ = batch
        before = 0
        if items:
            before = self.digests[-1]
            _, last, epoch, _ = items[-1]
            if base_offset <= last or leader_epoch < epoch:
                self.disorder.append(len(items))
        items.append(batch)
        self.lasts.append(last_offset)
        # Hashes of integers are the same in every process; two logs with one digest and different batches are not
        # to be expected within the life of this planet.
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
        return self._list.items[0].base_offset if self._length else -1

    def count_below(self, offset: int) -> int:
        """How many batches end below `offset`."""
        return bisect_left(self._list.lasts, offset, 0, self._length)

    def is_same_below(self, other: "Batches", offset: int) -> bool:
        """Whether the batches that end below `offset` are those of `other`, all of them."""
        mine, theirs = self._list, other._list
        count = bisect_left(mine.lasts, offset, 0, self._length)
        return count == bisect_left(theirs.lasts, offset, 0, other._length) and (
            not count
            or (mine.items[0] == theirs.items[0] and mine.digests[count - 1] == theirs.digests[count - 1])
        )

    def between(self, start: int, end: int) -> Sequence[BatchView]:
        """Those that begin at `start` or behind it, and end below `end`; of a list in order."""
        batches = self._list
        first = bisect_left(batches.items, start, 0, self._length, key=_base_offset)
        return batches.items[first : bisect_left(batches.lasts, end, 0, self._length)]

    def disorder(self) -> list[int]:
        """Indexes of batches that overlap the one before, or whose epoch falls."""
        disorder = self._list.disorder
        return [index for index in disorder if index < self._length] if disorder else disorder

    def digest(self, count: int) -> int:
        """Of the first `count` batches."""
        return self._list.digests[count - 1] if count else 0


def _base_offset(batch: BatchView) -> int:
    return batch.base_offset
