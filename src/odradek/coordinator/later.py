"""An answer with so many rows that making it takes longer than a turn may: a thread makes it, from values that do not
change any more."""

from collections.abc import Callable
from typing import NamedTuple

from odradek.protocol.schema import Response

# Rows of an answer that is made at once. A question to all coordinators of a broker, of which there may be 50, is one turn.
MOST_AT_ONCE = 100
# The same of offsets: partitions of an answer that is made in its turn, some two milliseconds.
MOST_OFFSETS = 1_000
# As many bytes take as long as a row, at most.
BYTES_OF_A_ROW = 20_000


Make = Callable[[], Response]


class Later(NamedTuple):
    """`see` is called by the loop when the thread's turn has come, and gives what the thread calls: so what an answer is made of
    is copied for one of them at a time."""

    see: Callable[[], Make]

    def make(self) -> Response:
        return self.see()()


def rows_of(count: int, size_bytes: int) -> int:
    """Of an answer of so many, with texts and metadata of so many bytes."""
    return max(count, size_bytes // BYTES_OF_A_ROW)


def made(make: Make, rows: int, most: int | None = None) -> Response | Later:
    """`make` touches nothing but what it was given, if there are more than `most` rows (MOST_AT_ONCE)."""
    return Later(lambda: make) if rows > (MOST_AT_ONCE if most is None else most) else make()
