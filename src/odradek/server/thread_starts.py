"""A thread for whose beginning there is no memory keeps nobody waiting.

`threading.Thread.start` waits until the new thread says that it runs. One that fails before that with a MemoryError never says
so, and whoever started it waits for ever (CPython 3.11 to 3.15, with `ulimit -v` or without overcommitment): here, the loop of a
broker. Also threads of libraries are begun so, therefore it is `Thread` itself that is mended.
"""

import threading
from typing import Any

# Together 5 s: threads begin within milliseconds. In many waits, for one that a stopped process (SIGSTOP) has slept through is over
# before any thread could begin.
WAITS = 50
WAIT_S = 0.1

_start: Any = threading.Thread.start


class _Begun(threading.Event):
    has_been_given_up = False

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is not None:
            return super().wait(timeout)
        self.has_been_given_up = not any(super(_Begun, self).wait(WAIT_S) for _ in range(WAITS))
        return not self.has_been_given_up


def _start_or_raise(thread: Any) -> None:
    started = getattr(thread, "_started", None)
    if started is None or started.is_set():
        _start(thread)  # raises
        return
    thread._started = begun = _Begun()
    _start(thread)
    if begun.has_been_given_up:
        with threading._active_limbo_lock:  # type: ignore[attr-defined]
            threading._limbo.pop(thread, None)  # type: ignore[attr-defined]
        raise RuntimeError("can't start new thread: it did not begin")


def bound_all() -> None:
    """For a process of its own. From now on `start` raises RuntimeError, as where there is no thread, instead of waiting for ever.
    A CPython without what this needs is left as it is."""
    if not (hasattr(threading, "_limbo") and hasattr(threading, "_active_limbo_lock")):
        return
    threading.Thread.start = _start_or_raise  # type: ignore[assignment,method-assign]
