"""The three index files beside a segment, in Apache's byte format.

| file | entry | means |
|---|---|---|
| `.index` | relative offset i32, position i32 | the batch at `position` ends with this offset |
| `.timeindex` | timestamp i64, relative offset i32 | no batch before this offset has a larger timestamp |
| `.txnindex` | version i16, producer id, first, last, last stable offset i64 each | one aborted transaction |

An index is a hint: whoever uses an entry looks whether a batch stands there, and a wrong index is built again from
the log. While a segment is active its entries are kept in memory and written when the segment becomes inactive, so
that appending costs no second write; recovery scans the active segment anyway. Afterwards a lookup is a binary
search by reading, so that cold segments cost no memory.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import le, lt
from struct import Struct
from sys import byteorder
from typing import NamedTuple

from odradek.log.files import File

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
TRANSACTION_ENTRY = Struct(">hqqqq")
MAX_RELATIVE_OFFSET = 2**31 - 1
MAX_POSITION = 2**31 - 1
COMPARED_AT_ONCE = 1 << 16
BLOCK_ENTRIES = 512  # a page of the offset index


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int  # the marker's
    last_stable_offset: int  # as it was once the marker was written


def _offset_entries(data: bytes) -> "array[int]":
    """Relative offset and position of one entry behind the other; what is less than an entry is left out."""
    entries = array("i")
    entries.frombytes(data[: len(data) // OFFSET_ENTRY.size * OFFSET_ENTRY.size])
    if byteorder == "little":
        entries.byteswap()
    return entries


def _rises(values: "array[int]") -> bool:
    """Each is larger than the one before."""
    return all(map(lt, values, islice(values, 1, None)))


def _hold(relation: Callable[[int, int], bool], values: "array[int]", others: "array[int]") -> bool:
    """Between the first ones, the second ones and so on. In pieces of a few milliseconds, for within one of them no other thread runs."""
    return all(
        all(map(relation, values[at : at + COMPARED_AT_ONCE], others[at : at + COMPARED_AT_ONCE]))
        for at in range(0, len(others), COMPARED_AT_ONCE)
    )


class OffsetIndex:
    """Of the active segment: two arrays side by side, because bisect wants one of them alone."""

    __slots__ = ("_offsets", "_positions")

    def __init__(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")

    @classmethod
    def from_bytes(cls, data: bytes) -> "OffsetIndex":
        index = cls()
        entries = _offset_entries(data)
        index._offsets = entries[0::2]
        index._positions = entries[1::2]
        return index

    def append(self, relative_offset: int, position: int) -> None:
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def floor(self, relative_offset: int) -> tuple[int, int]:
        """The last entry at or below the offset: (relative offset, position); (-1, 0) if there is none."""
        at = bisect_right(self._offsets, relative_offset)
        return (self._offsets[at - 1], self._positions[at - 1]) if at else (-1, 0)

    def ceiling(self, position: int) -> tuple[int, int]:
        """The first entry at or behind the position: (relative offset, position); (-1, 0) if there is none."""
        at = bisect_left(self._positions, position)
        return (self._offsets[at], self._positions[at]) if at < len(self._positions) else (-1, 0)

    def last(self) -> tuple[int, int]:
        return (self._offsets[-1], self._positions[-1]) if self._offsets else (-1, 0)

    def truncate(self, position: int) -> None:
        """Drops the entries that point at `position` or behind it."""
        keep = bisect_right(self._positions, position - 1)
        del self._offsets[keep:]
        del self._positions[keep:]

    def is_sane(self) -> bool:
        """Strictly rising. What an index that was torn, zeroed or swapped seldom is."""
        offsets, positions = self._offsets, self._positions
        if not offsets:
            return True
        if positions[0] <= 0 or offsets[0] < 0:
            return False
        return _rises(offsets) and _rises(positions)

    def to_bytes(self) -> bytes:
        entries = array("i", bytes(8 * len(self._offsets)))
        entries[0::2] = self._offsets
        entries[1::2] = self._positions
        if byteorder == "little":
            entries.byteswap()
        return entries.tobytes()

    def __len__(self) -> int:
        return len(self._offsets)


class TimeIndex:
    """Of the active segment. Timestamps and offsets both rise strictly."""

    __slots__ = ("_offsets", "_timestamps")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")

    @classmethod
    def from_bytes(cls, data: bytes) -> "TimeIndex":
        index = cls()
        words = array("i")
        words.frombytes(data[: len(data) // TIME_ENTRY.size * TIME_ENTRY.size])
        index._offsets = words[2::3]
        halves = array("i", bytes(8 * len(index._offsets)))
        halves[0::2], halves[1::2] = words[0::3], words[1::3]
        index._timestamps.frombytes(halves.tobytes())
        if byteorder == "little":
            index._offsets.byteswap()
            index._timestamps.byteswap()
        return index

    def maybe_append(self, timestamp: int, relative_offset: int) -> None:
        """Only what moves time on; an entry that repeats it would say nothing new."""
        if timestamp < 0:
            return  # a batch without timestamps
        if self._timestamps and (timestamp <= self._timestamps[-1] or relative_offset <= self._offsets[-1]):
            return
        self._timestamps.append(timestamp)
        self._offsets.append(relative_offset)

    def floor(self, timestamp: int) -> tuple[int, int]:
        """The last entry at or below the timestamp: (timestamp, relative offset); (-1, 0) if there is none."""
        at = bisect_right(self._timestamps, timestamp)
        return (self._timestamps[at - 1], self._offsets[at - 1]) if at else (-1, 0)

    def last(self) -> tuple[int, int]:
        return (self._timestamps[-1], self._offsets[-1]) if self._timestamps else (-1, 0)

    def truncate(self, relative_offset: int) -> None:
        """Drops the entries at this offset or behind it."""
        keep = bisect_right(self._offsets, relative_offset - 1)
        del self._timestamps[keep:]
        del self._offsets[keep:]

    def is_sane(self) -> bool:
        timestamps, offsets = self._timestamps, self._offsets
        if timestamps and (timestamps[0] < 0 or offsets[0] < 0):
            return False
        return _rises(timestamps) and _rises(offsets)

    def to_bytes(self) -> bytes:
        """No Python code runs per entry: of a segment of a gigabyte there are 262,144, written in the turn in which it is rolled."""
        timestamps, offsets = self._timestamps[:], self._offsets[:]
        if byteorder == "little":
            timestamps.byteswap()
            offsets.byteswap()
        halves = array("i")
        halves.frombytes(timestamps.tobytes())
        words = array("i", bytes(12 * len(offsets)))
        words[0::3], words[1::3], words[2::3] = halves[0::2], halves[1::2], offsets
        return words.tobytes()


class TransactionIndex:
    """The aborted transactions whose markers are in one segment, in the order of the markers; a column for each field.

    Last stable offsets rise with the markers: nothing is undecided any more that was decided before. A thread may ask while the loop
    adds one: the last column is added to last, and counts.
    """

    __slots__ = ("_first", "_last", "_producers", "_stable")

    def __init__(self, entries: Iterable[AbortedTransaction] = ()) -> None:
        self._producers, self._first, self._last, self._stable = (array("q") for _ in range(4))
        for entry in entries:
            self.append(entry)

    @classmethod
    def from_bytes(cls, data: bytes) -> "TransactionIndex":
        """The whole entries of a `.txnindex`; a torn last one is left out, the log has it. No Python code runs per entry: a hundred
        thousand are read in a turn."""
        index = cls()
        shorts = array("h")
        shorts.frombytes(data[: len(data) // TRANSACTION_ENTRY.size * TRANSACTION_ENTRY.size])
        step = TRANSACTION_ENTRY.size // shorts.itemsize
        for number, column in enumerate(index._columns):
            parts = array("h", bytes(len(shorts) // step * column.itemsize))
            for part in range(4):
                parts[part::4] = shorts[1 + 4 * number + part :: step]
            column.frombytes(parts.tobytes())
            if byteorder == "little":
                column.byteswap()
        return index

    def can_be_of(self, base_offset: int, end_offset: int) -> bool:
        """Of a segment from the one offset to the other; -1: it has no end. What one that was zeroed or swapped seldom is."""
        last = self._last
        if not last:
            return True
        return (
            base_offset <= last[0]
            and (end_offset < 0 or last[-1] < end_offset)
            and _hold(lt, last, last[1:])
            and _hold(le, self._first, last)
        )

    def append(self, entry: AbortedTransaction) -> None:
        self._producers.append(entry.producer_id)
        self._first.append(entry.first_offset)
        self._last.append(entry.last_offset)
        self._stable.append(entry.last_stable_offset)

    def between(self, offset: int, upper_bound_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Those that have their markers at `offset` or behind it, and begin below the upper bound; and whether an entry says that
        everything below the bound was decided by then, so that later ones are not asked.
        """
        count = len(self)
        begin = bisect_left(self._last, offset, 0, count)
        decided = bisect_left(self._stable, upper_bound_offset, begin, count)
        begun = enumerate(self._first[begin : min(decided + 1, count)], begin)
        return [self[at] for at, first in begun if first < upper_bound_offset], decided < count

    def below(self, end_offset: int) -> "TransactionIndex":
        """Those whose markers lie below: of a log that is cut there."""
        left = TransactionIndex()
        count = bisect_left(self._last, end_offset, 0, len(self))
        for column, all_of_it in zip(left._columns, self._columns, strict=True):
            column.extend(all_of_it[:count])
        return left

    @property
    def _columns(self) -> "tuple[array[int], ...]":
        return self._producers, self._first, self._last, self._stable

    def __getitem__(self, at: int) -> AbortedTransaction:
        return AbortedTransaction(self._producers[at], self._first[at], self._last[at], self._stable[at])

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return map(AbortedTransaction, *self._columns)

    def __len__(self) -> int:
        return len(self._stable)


def floor_offset_in_file(file: File, relative_offset: int, end_offset: int) -> tuple[int, int]:
    """As `OffsetIndex.floor`, of an index in a file. `end_offset` is where the segment ends, relative as well.

    Offsets rise nearly evenly, so the entry is looked for where it would be if they did: one read finds it in
    most indexes, and an uneven one is halved from there.
    """
    size = OFFSET_ENTRY.size
    count = file.size_bytes // size
    middle = count * relative_offset // end_offset if end_offset > 0 else 0
    first = max(0, min(middle - BLOCK_ENTRIES // 2, count - BLOCK_ENTRIES))
    block = _offset_entries(file.read_at(first * size, BLOCK_ENTRIES * size))
    at = bisect_right(block[0::2], relative_offset)
    if at:
        found = (block[2 * at - 2], block[2 * at - 1])
        if 2 * at < len(block):
            return found
        return floor_in_file(file, OFFSET_ENTRY, relative_offset, low=first + BLOCK_ENTRIES, found=found)
    return floor_in_file(file, OFFSET_ENTRY, relative_offset, high=first)


def floor_in_file(
    file: File, entry: Struct, key: int, *, low: int = 0, high: int = -1, found: tuple[int, int] = (-1, 0)
) -> tuple[int, int]:
    """The last entry of an index file whose first field is at or below `key`; (-1, 0) if there is none.

    Only entries from `low` to `high` are looked at; `found` is the answer if none of them will do.
    """
    if high < 0:
        high = file.size_bytes // entry.size
    while low < high:
        middle = (low + high) // 2
        first, second = entry.unpack(file.read_at(middle * entry.size, entry.size))
        if first <= key:
            found = (first, second)
            low = middle + 1
        else:
            high = middle
    return found


def ceiling_in_file(index: File, position: int) -> tuple[int, int]:
    """As `OffsetIndex.ceiling`, of an index in a file."""
    size = OFFSET_ENTRY.size
    low, high = 0, index.size_bytes // size
    found = (-1, 0)
    while low < high:
        middle = (low + high) // 2
        entry = OFFSET_ENTRY.unpack(index.read_at(middle * size, size))
        if entry[1] < position:
            low = middle + 1
        else:
            found, high = entry, middle
    return found


def last_in_file(file: File, entry: Struct) -> tuple[int, int]:
    count = file.size_bytes // entry.size
    if count == 0:
        return (-1, 0)
    first, second = entry.unpack(file.read_at((count - 1) * entry.size, entry.size))
    return (first, second)


def transactions_to_bytes(transactions: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(map(transaction_to_bytes, transactions))


def transaction_to_bytes(transaction: AbortedTransaction) -> bytes:
    return TRANSACTION_ENTRY.pack(0, *transaction)
