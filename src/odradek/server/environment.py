"""Everything the shell takes from the outside world, in one place, so that the simulator can put its own
there.

Time, randomness, threads and files. Sockets come through the loop (`create_server`, `create_connection`).
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, TypeVar

from odradek.broker.answers import Answer
from odradek.broker.control_queue import AT_ONCE
from odradek.broker.request import Request
from odradek.log.compaction.passes import CleaningJob, Passes, PassesHere
from odradek.log.errors import StorageError
from odradek.log.files import Directory
from odradek.server import collector
from odradek.server.cleaning_process import CleaningProcess

T = TypeVar("T")
Handle = Callable[[Request, int], Answer]


class Clock:
    """Milliseconds since 1970 that never run backwards.

    One number serves timestamps and deadlines. It runs with the loop's monotonic clock and is drawn towards
    the wall clock at no more than a tenth of its speed, so a wall clock that is put forward an hour expires
    no session, shrinks no ISR, and is caught up with all the same.
    """

    SLEW = 0.1

    def __init__(
        self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._monotonic = monotonic
        self._wall = wall
        # As of the last comparison: the monotonic clock, this one, and how far the wall clock was ahead of it.
        self._compared_at = monotonic()
        self._compared_ms = wall() * 1000.0
        self._off_ms = 0.0

    def now_ms(self) -> int:
        return int(self._at(self._monotonic()))

    def compare_with_wall(self) -> None:
        """Called about once a second. What was found off is made up for from here on, and no more than that."""
        now = self._monotonic()
        self._compared_ms = self._at(now)
        self._compared_at = now
        self._off_ms = self._wall() * 1000.0 - self._compared_ms

    def _at(self, monotonic: float) -> float:
        passed_ms = (monotonic - self._compared_at) * 1000.0
        off_ms, limit = self._off_ms, self.SLEW * passed_ms
        if off_ms > limit:
            off_ms = limit
        elif off_ms < -limit:
            off_ms = -limit
        return self._compared_ms + passed_ms + off_ms


async def to_its_end(work: "asyncio.Future[T]") -> T:
    """What a thread is at. Whoever cancels this waits for the end of it."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return work.result()


class Environment:
    """What one process gives its brokers. The simulator passes another object with the same attributes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.clock = Clock(loop.time)
        self.process_id = os.getpid()
        self.partitions_at_once = AT_ONCE
        # How long a request of the controller keeps the loop at a stretch.
        # Others wait for no more than that and the log that is being made; a turn of the loop itself takes 0.05 ms.
        self.slice_ns = 1_000_000
        # Partitions from which on a step of the controller is made by a thread: below it takes some 2 ms.
        self.large_step = 100
        # Of what a controller has for one broker that does not answer (`outboxes.Bound`): 3 to 15 MB.
        self.requests_kept, self.partitions_kept = 10_000, 100_000
        # Of answers that wait for their peers to read them, over all connections.
        self.most_unsent_bytes = 256 << 20
        # Of requests that have not come whole, or wait to be handled.
        self.most_unhandled_bytes = 256 << 20
        # Read by compaction before it asks whether the broker is stopping, and whether it is ahead of its rate.
        self.cleaner_slice_bytes = 4 << 20
        self._cleaning = CleaningProcess(self.cleaner_slice_bytes)
        self._executor: Any = None
        self._stepper: Any = None
        self._aside: Any = None

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def stopwatch_ns(self) -> int:
        """Runs within a callback too, where the loop's own time may stand still (uvloop)."""
        return time.perf_counter_ns()

    def run_blocking(self, function: Callable[..., T], *args: Any) -> "asyncio.Future[T]":
        """Runs what may block (fsync, deletion, recovery) off the loop; the future belongs to the loop."""
        if self._executor is None:
            # Imported here: a broker that never blocks never pays for the import.
            from odradek.server.threads import Threads

            self._executor = Threads(self.loop, 2, "blocking")
        return self.loop.run_in_executor(self._executor, function, *args)

    def run_aside(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """What a broker does one piece at a time for whoever waits: a batch that is checked, an answer that is long. By threads of
        its own: where a disk hangs, two syncs of it hold both of those that may block."""
        if self._aside is None:
            from odradek.server.threads import Threads

            self._aside = Threads(self.loop, 2, "aside")
        return self.loop.run_in_executor(self._aside, work)

    async def aside_ended(self) -> None:
        """Returns when the threads of `run_aside` have nothing to do any more: they may be writing files. What has found none yet
        is not begun."""
        if self._aside is not None:
            aside, self._aside = self._aside, None
            await to_its_end(self.run_blocking(partial(aside.shutdown, cancel_futures=True)))

    def run_step(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """What only thinks, by a thread of its own: it is not to wait behind a disk."""
        if self._stepper is None:
            from odradek.server.threads import Threads

            self._stepper = Threads(self.loop, 1, "controller")
        return self.loop.run_in_executor(self._stepper, work)

    def give_way(self) -> None:
        """Between two slices of what takes long: whoever else waits for this processor runs first. Brokers that share one
        would each keep it for as long as the kernel allows (4 ms at 250 Hz), and all clients wait for the sum of that."""
        os.sched_yield()

    def passes_of(self, job: CleaningJob, directory: Directory) -> Passes:
        """Of a compaction: by a process of its own. By a thread; may start it. Where Python is embedded in a program and does not
        know of any interpreter to start (`sys.executable` is empty or None), the thread that asks makes them itself."""
        if not sys.executable:
            return PassesHere(job, directory)
        return self._cleaning.passes(job, directory)

    def cleaning_is_idle(self) -> bool:
        """There is a process of compactions that has had none for long."""
        return self._cleaning.is_idle

    def end_cleaning(self) -> None:
        """Blocks. StorageError: it does not end."""
        self._cleaning.end()

    def abandon_cleaning(self) -> None:
        """Who waits for a slice of a compaction hears at once that there will be none."""
        self._cleaning.kill()

    def making_what_stays(self) -> AbstractContextManager[None]:
        return collector.resting()

    def intercepted(self, handle: Handle) -> Handle:
        """What stands between the connections of a broker and its handlers: nothing. Clusters for tests put faults there."""
        return handle

    def controller_stepped(self, event: object, effects: object) -> None:
        """After each step of a controller of this process, before anything is told. The simulator looks here."""

    def close(self) -> None:
        self._cleaning.kill()
        for executor in (self._executor, self._aside, self._stepper):
            if executor is not None:
                executor.shutdown(wait=True)
        self._executor = self._aside = self._stepper = None
        with suppress(StorageError):  # it is killed, and waits for a disk
            self._cleaning.end()
