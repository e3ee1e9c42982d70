"""What was collected stays out of the collector's sight from the first test of a process to its last.

A simulated run ends with a whole collection. After one test has thawed what pytest holds, as a benchmark does that is called here,
each of them passes over all modules and thousands of tests.
"""

import gc


def freeze() -> None:
    gc.collect()
    gc.freeze()


def freeze_again() -> None:
    """Where somebody has thawed it. To count what is frozen costs a few milliseconds, so this is asked at the end of a file."""
    if not gc.get_freeze_count():
        freeze()
