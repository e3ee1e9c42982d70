"""Processor time of this process and of all that it started, those that have ended as well.

Neighbours on the same cores change how long work takes, and hardly what it costs. Spark's daemon does not wait for
the Python processes it forks, so that what they took is in nobody's figure once they have ended: they are looked at
often, and what a process took after the last look (`LOOK_S` at most) is lost. What the looks took is nobody's work, and
is left out.
"""

import os
import threading
import time
from pathlib import Path
from typing import NamedTuple, Self

TICKS = os.sysconf("SC_CLK_TCK")
LOOK_S = 0.05


class _Seen(NamedTuple):
    parent: int
    ticks: int
    began: int  # tells processes of one number apart


class ProcessorTime:
    """Of `root` and the processes below it. Entered, it looks at them in a thread of its own."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._last: dict[tuple[int, int], int] = {}  # ticks of each process, by number and beginning
        self._looking_s = 0.0  # what the looks themselves took, where this process is one of those looked at
        self._lock = threading.Lock()
        self._is_over = threading.Event()

    def taken_s(self) -> float:
        with self._lock:
            looks_from = time.thread_time()
            seen = {
                int(name): found for name in os.listdir("/proc") if name.isdigit() and (found := _seen(name))
            }
            for pid, (_, ticks, began) in seen.items():
                # Whose parent has ended is below somebody else by now.
                if (pid, began) in self._last or _is_below(pid, self._root, seen):
                    self._last[pid, began] = ticks
            if self._root == os.getpid():
                self._looking_s += time.thread_time() - looks_from
            return sum(self._last.values()) / TICKS - self._looking_s

    def __enter__(self) -> Self:
        threading.Thread(target=self._look, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._is_over.set()

    def _look(self) -> None:
        while not self._is_over.wait(LOOK_S):
            self.taken_s()


def _seen(pid: str) -> _Seen | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None  # it has just ended
    fields = text.rpartition(") ")[2].split()
    return _Seen(int(fields[1]), int(fields[11]) + int(fields[12]), int(fields[19]))


def _is_below(pid: int, root: int, seen: dict[int, _Seen]) -> bool:
    while pid != root:
        if pid not in seen:
            return False
        pid = seen[pid].parent
    return True


class Stopwatch:
    """Around the work, and around nothing that only prepares or checks it."""

    def __init__(self, everything: ProcessorTime, broker: ProcessorTime) -> None:
        """`broker` is among `everything`, and told apart."""
        self._of = (everything, broker)
        self.seconds = self.cpu_s = self.broker_cpu_s = 0.0

    def __enter__(self) -> Self:
        self._before = [one.taken_s() for one in self._of]
        self._began = time.perf_counter()
        return self

    def __exit__(self, *exc: object) -> None:
        self.seconds += time.perf_counter() - self._began
        cpu_s, broker_cpu_s = (
            one.taken_s() - before for one, before in zip(self._of, self._before, strict=True)
        )
        self.cpu_s += cpu_s
        self.broker_cpu_s += broker_cpu_s
