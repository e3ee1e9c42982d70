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


@contextmanager
def resting() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > MOST_YOUNG_OBJECTS:
            gc.freeze()
        gc.enable()
