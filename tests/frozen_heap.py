"""What was collected stays out of the collector's sight from the first test of a process to its last.

A simulated run ends with a whole collection. After one test has thawed what pytest holds, as a benchmark does that is called here,
each of them passes over all modules and thousands of tests.
"""

import gc
from itertools import repeat
from operator import is_

# Frozen with all else that lived. Thawed it is among the old objects, which are few as long as the rest is frozen: to look through
# them takes a few milliseconds at most. To count the half a million frozen ones (`gc.get_freeze_count`) takes ten times as long.
_WITNESS: list[object] = []
_OLDEST = 2


def freeze() -> None:
    gc.collect()
    gc.freeze()


def freeze_again() -> None:
    """Where somebody has thawed it; asked at the end of a file."""
    if any(map(is_, gc.get_objects(_OLDEST), repeat(_WITNESS))):
        freeze()
