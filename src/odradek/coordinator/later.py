"""An answer with so many rows that making it takes longer than a turn may: a thread makes it, from values that do not
change any more."""

from collections.abc import Callable
from typing import NamedTuple

from odradek.protocol.schema import Response

# Rows of an answer that is made at once. A question to all coordinators of a broker, of which there may be 50, is one turn.
MOST_AT_ONCE = 100


class Later(NamedTuple):
    make: Callable[[], Response]


def made(make: Callable[[], Response], rows: int) -> Response | Later:
    """`make` touches nothing but what it was given, if there are more than MOST_AT_ONCE rows."""
    return Later(make) if rows > MOST_AT_ONCE else make()
