"""An answer with so many rows that making it takes longer than a turn may: a thread makes it, from values that do not
change any more."""

from collections.abc import Callable
from typing import NamedTuple

from odradek.protocol.schema import Response

# Rows of an answer that is made at once. A question to all coordinators of a broker, of which there may be 50, is one turn.
MOST_AT_ONCE = 100
# The same of offsets: partitions of an answer that is made in its turn, some two milliseconds.
MOST_OFFSETS = 1_000


Make = Callable[[], Response]


class Later(NamedTuple):
    """`see` is called by the loop when the thread's turn has come, and gives what the thread calls: so what an answer is made of
    is copied for one of them at a time."""

    see: Callable[[], Make]

    def make(self) -> Response:
        return self.see()()


def made(make: Make, rows: int, most: int | None = None) -> Response | Later:
    """`make` touches nothing but what it was given, if there are more than `most` rows (MOST_AT_ONCE)."""
    return Later(lambda: make) if rows > (MOST_AT_ONCE if most is None else most) else make()
