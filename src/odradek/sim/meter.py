"""What turns of the loop cost, counted and not timed."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class Meter:
    """Counts the functions that each callback of the loop enters: the same in every run of a seed, on any machine.

    Threads of a broker are no turn of its loop, and have none. To count costs more than to run, so few seeds are metered.
    """

    def __init__(self) -> None:
        self.busiest: dict[str, tuple[int, str]] = {}  # by the name of the host
        self.steps: dict[str, int] = {}  # of all its turns together
        self._count = 0

    def run(self, name: str, callback: Callable[[], object], *, is_turn: bool) -> None:
        """`callback` is one turn of the host of this name; with `is_turn` false a piece of work of its threads."""
        self._count = 0
        sys.setprofile(self._entered)
        try:
            callback()
        finally:
            sys.setprofile(None)
            count = self._count
            self.steps[name] = self.steps.get(name, 0) + count
            if count > self.busiest.get(name, (0, ""))[0] and is_turn:
                self.busiest[name] = count, repr(callback)

    def _entered(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self._count += 1
