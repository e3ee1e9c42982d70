"""Processes are started whole, or not at all: what a signal's handler raises comes before or behind it."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_Handler = Callable[[int, FrameType | None], object]


@contextmanager
def late_signals() -> Iterator[None]:
    """Ctrl-C raises wherever this thread happens to be: inside of `Popen` that would leave a process behind that nobody
    knows of. In this block it waits for the end. Handlers run in the main thread alone, so elsewhere nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before: dict[int, _Handler] = {}
    for awaited in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        handler = signal.getsignal(awaited)
        if callable(handler):
            before[awaited] = handler
            signal.signal(awaited, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came:
            before[number](number, None)
