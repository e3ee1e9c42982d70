"""What turns of the loop cost, counted and not timed."""

from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from cProfile import Profile
from itertools import count


class Meter:
    """Counts the functions that each callback of some hosts enters: the same in every run of a seed, on any machine.

    Threads of a broker are no turn of its loop, and have none. To count costs as much again as to run, so few seeds are
    metered, and of these nobody but brokers. The profiler asks its clock at the entry and at the exit of each function, and its
    clock counts.
    """

    def __init__(self, hosts: Set[str]) -> None:
        """`hosts`: whose turns are counted, by name."""
        self.hosts = hosts
        self.busiest: dict[str, tuple[int, str]] = {}  # by the name of the host
        self.steps: dict[str, int] = {}  # of all its turns together
        self._is_counting = False
        self._asked = count()
        self._profiler = Profile(self._asked.__next__, 1.0, subcalls=False, builtins=False)
        self._own = self._counted(bool)  # from Python 3.14 on the profiler sees its own end as well

    def run(self, name: str, callback: Callable[[], object], *, is_turn: bool) -> None:
        """`callback` is one turn of the host of this name; with `is_turn` false a piece of work of its threads."""
        before = next(self._asked)
        self._is_counting = True
        self._profiler.enable()
        try:
            callback()
        finally:
            self._profiler.disable()
            self._is_counting = False
            steps = (next(self._asked) - before - self._own) // 2
            self.steps[name] = self.steps.get(name, 0) + steps
            if steps > self.busiest.get(name, (0, ""))[0] and is_turn:
                self.busiest[name] = steps, repr(callback)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """What is done for the simulator in the middle of a turn is no step of it."""
        if not self._is_counting:
            yield
            return
        self._profiler.disable()
        try:
            yield
        finally:
            self._profiler.enable()

    def _counted(self, nothing: Callable[[], object]) -> int:
        """How often the clock is asked where no function is entered."""
        before = next(self._asked)
        self._profiler.enable()
        nothing()
        self._profiler.disable()
        return next(self._asked) - before
