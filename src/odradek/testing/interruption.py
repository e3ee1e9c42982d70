"""A command that is stopped by a signal unwinds, so that the processes it started end before it does."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from odradek.server.stopping_signals import stopping_signals


class Interrupted(BaseException):
    """SIGINT, SIGTERM or SIGHUP: clean up, then end with the shell's code for the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def interruptible(program: str = "odradek") -> Iterator[None]:
    """The first signal unwinds everything; while that goes on, further ones change nothing."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for other in signals:
            signal.signal(other, signal.SIG_IGN)
        raise Interrupted(number)

    signals = stopping_signals()
    before = {number: signal.signal(number, interrupt) for number in signals}
    try:
        yield
    except Interrupted as stop:
        print(f"{program}: stopped; nothing is left running", file=sys.stderr)
        sys.exit(128 + stop.number)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
