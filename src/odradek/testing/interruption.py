"""A command that is stopped by a signal unwinds, so that the processes it started end before it does."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(BaseException):
    """SIGINT, SIGTERM or SIGHUP: clean up, then end with the shell's code for the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def stopping_signals() -> tuple[signal.Signals, ...]:
    """SIGHUP is none where it is ignored: `nohup` started us, to go on when the terminal is closed."""
    always = (signal.SIGINT, signal.SIGTERM)
    return always if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*always, signal.SIGHUP)


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
