"""`python -m odradek.server.cleaning_worker PARENT`: the process that compacts for a broker, which alone starts it.

It walks the passes of one cleaning after another (`log.compaction.passes`), a slice for each request on its standard input, a socket.
It imports what that takes and no more, leaves its processor to whoever wants it, and ends with its broker.
"""

import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread

from odradek.log.cleaned_segment import MadeSegment
from odradek.log.compaction.passes import MapBuilt, PassesHere, Uncleanable
from odradek.log.errors import StorageError
from odradek.log.files import Health, OsDirectory
from odradek.server.cleaning_messages import (
    Answer,
    Begin,
    BuildMap,
    GoOn,
    Request,
    Slice,
    WriteSegment,
    failed,
    receive,
    send,
)

PR_SET_PDEATHSIG = 1
# Records make no cycles. As of a broker that serves (`main`).
GC_THRESHOLDS = (50_000, 50, 100)
# How many times as long a slice may take as it works, and how much work it can be owed: the machine may have slept.
PATIENCE = 5
MOST_OWED_S = 2.0

Walk = Generator[int, None, MapBuilt] | Generator[int, None, MadeSegment]


class Worker:
    def __init__(self) -> None:
        self._health = Health("")
        self._passes: PassesHere | None = None
        self._walk: Walk | None = None
        self._slice_bytes = 0

    def answer(self, request: Request) -> Answer:
        try:
            return self._answer(request)
        except (StorageError, Uncleanable) as error:
            self._passes = self._walk = None
            return failed(error, is_offline=self._health.failure is not None)

    def _answer(self, request: Request) -> Slice:
        match request:
            case Begin(job, path, root, slice_bytes):
                self._health = Health(root)
                self._passes = PassesHere(job, OsDirectory(path, self._health), os.sched_yield)
                self._slice_bytes = slice_bytes
                return Slice(0, None)
            case BuildMap():
                assert self._passes is not None
                self._walk = self._passes.build_map()
            case WriteSegment():
                assert self._passes is not None
                self._walk = self._passes.write_segment()
            case GoOn():
                pass
        return self._slice()

    def _slice(self) -> Slice:
        assert self._walk is not None
        moved = 0
        try:
            while moved < self._slice_bytes:
                moved += next(self._walk)
        except StopIteration as end:
            self._walk = None
            assert self._passes is not None
            if self._passes.is_done:
                self._passes = None  # and so the map
            return Slice(moved, end.value)
        return Slice(moved, None)


def end_with(parent: int) -> None:
    """The kernel ends this process with the one that started it. Where it cannot, the end of the socket does, a slice later."""
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it had ended before
        sys.exit(1)


class IdleThread:
    """Whoever else wants its processor gets it at once."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Callable[[], Answer]] = SimpleQueue()
        self._done: SimpleQueue[Answer | BaseException] = SimpleQueue()
        Thread(target=self._run, name="odradek-idle", daemon=True).start()

    def __call__(self, work: Callable[[], Answer]) -> Answer:
        self._work.put(work)
        done = self._done.get()
        if isinstance(done, BaseException):
            raise done
        return done

    def _run(self) -> None:
        # Of this thread alone.
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        except OSError:  # a sandbox that knows no such class
            os.nice(19)
        while True:
            work = self._work.get()
            try:
                self._done.put(work())
            except BaseException as mistake:
                self._done.put(mistake)


class Shares:
    """Who walks the next slice: as a rule a thread that gives way to everybody. Where that leaves it less than a fifth of a processor,
    this one does, which has its share as any other, until the fifth is made up for: what is never compacted fills the disk.
    """

    def __init__(
        self,
        idle: Callable[[Callable[[], Answer]], Answer],
        clock: Callable[[], float] = time.monotonic,
        worked: Callable[[], float] = time.process_time,
    ) -> None:
        self._idle = idle
        self._clock = clock
        self._worked = worked
        self._owed_s = 0.0

    def run(self, work: Callable[[], Answer]) -> Answer:
        began, worked = self._clock(), self._worked()
        answer = work() if self._owed_s > 0 else self._idle(work)
        least_s = (self._clock() - began) / PATIENCE
        self._owed_s = min(max(self._owed_s + least_s - (self._worked() - worked), 0.0), MOST_OWED_S)
        return answer


def dies_first() -> None:
    """Of all processes, where the kernel is in want of memory: the broker starts another one."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def main(parent: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # for the broker, which may be a while
        signal.signal(number, signal.SIG_IGN)
    end_with(parent)
    dies_first()
    shares = Shares(_idle())
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    channel = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    worker = Worker()
    with suppress(ConnectionError):
        while (request := receive(channel)) is not None:
            send(channel, shares.run(partial(worker.answer, request)))


def _idle() -> Callable[[Callable[[], Answer]], Answer]:
    if hasattr(os, "SCHED_IDLE"):
        with suppress(RuntimeError, MemoryError):  # the machine has no thread left
            return IdleThread()
    os.nice(19)
    return lambda work: work()


if __name__ == "__main__":
    main(int(sys.argv[1]))
