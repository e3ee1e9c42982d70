"""The collector of cycles, kept away while things are made that live on.

A thousand partitions, or what a controller has decided of them, are a hundred thousand values. None is garbage, and
nothing in them goes round in circles: what is let go later goes at once, by its count of references. The collector would
look at all of them, some 20 ms in which nobody is served, in whatever callback is the next.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# When more than this many are new, it is told never to look at them.
MOST_YOUNG_OBJECTS = 20_000


_resting: list[None] = []  # one for each that is within `resting`


@contextmanager
def resting() -> Iterator[None]:
    """It rests until the last of those that are in here at once has left: a thread makes something for seconds, and slices of
    the loop come and go meanwhile."""
    gc.disable()
    _resting.append(None)
    try:
        yield
    finally:
        if gc.get_count()[0] > MOST_YOUNG_OBJECTS:
            gc.freeze()
        _resting.pop()
        if not _resting:
            gc.enable()
