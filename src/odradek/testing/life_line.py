"""A pipe by which a process that was started hears that whoever started it is gone, also of `kill -9`."""

import os


class LifeLine:
    """Its one end is for that process, which reads an end of file when the other end is closed. That one has to be this
    process's alone: a test that forks a worker of its own (`multiprocessing` does) would leave it open there, and what was let
    go would live on with the worker.
    """

    def __init__(self) -> None:
        self.read_end, self._held = os.pipe()
        _held_here.add(self)

    def is_handed_over(self) -> None:
        """The process has its end, or there is none."""
        os.close(self.read_end)

    def let_go(self) -> None:
        if self in _held_here:
            _held_here.remove(self)
            os.close(self._held)


_held_here: set[LifeLine] = set()


def _let_all_go() -> None:
    for line in list(_held_here):
        line.let_go()


os.register_at_fork(after_in_child=_let_all_go)
