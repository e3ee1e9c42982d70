"""Descriptors that tests leave open in their own process: closed as soon as that may be, and a file that leaves some is red.

A shell gives a process 1,024 of them, and a run of thousands of tests in one process must do with far fewer. A broker or a
log that a test lets go of often goes round in circles, so its files are closed when the collector of cycles comes by, and
that one counts objects, not descriptors. `OpenDescriptors` sends it when many are held.

What is left then is held by somebody: a client that nobody closed, a broker that was not stopped, a cache. A few may be: of
a store that all tests of a session share, of a library that opens a file when it is imported. Tests of Spark share a JVM, to which
each thread that called it has a connection, a broker and a client, and what is written in Rust keeps threads that watch some.
"""

import gc
import os
from pathlib import Path

import pytest

from tests.support import descriptors

# So many more than after the last time the collector was sent: some twenty brokers of a test.
MOST_GARBAGE = 64
MOST_LEFT, MOST_LEFT_OF_SPARK = 12, 64


class OpenDescriptors:
    def __init__(self, most_garbage: int = MOST_GARBAGE) -> None:
        self._most_garbage = most_garbage
        self._file: Path | None = None  # of tests
        self._before: dict[int, str] = {}  # that file
        self._held = 0  # after the collector was there

    def test_begins(self, file: Path) -> None:
        if file != self._file:
            self._file = file
            self._before = descriptors()
            self._held = len(self._before)

    def test_ended(self) -> None:
        """And what it alone used is torn down."""
        if len(os.listdir("/proc/self/fd")) > self._held + self._most_garbage:
            gc.collect()
            self._held = len(os.listdir("/proc/self/fd"))

    def file_ended(self, most_left: int) -> None:
        """And all that its tests used is torn down."""
        left = self._left()
        if len(left) > most_left:
            gc.collect()
            left = self._left()
        if len(left) > most_left:
            gc.unfreeze()  # what was frozen may have held one by chance (`gc.freeze` takes all that lives)
            gc.collect()
            gc.freeze()
            left = self._left()
        if len(left) > most_left:
            pytest.fail(f"{len(left)} descriptors are left open: {', '.join(left)}", pytrace=False)

    def _left(self) -> list[str]:
        return sorted(of for number, of in descriptors().items() if self._before.get(number) != of)
