"""Threads of a simulated process, where the machine may have none left: production's own pool (`server.threads`) on virtual time.

Only worlds in which threads run out have them, so that all others keep their traces.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from odradek.server.threads import Threads
from odradek.sim.loop import SimLoop


class Machine:
    """What all pools of one process take their threads from."""

    def __init__(self, loop: SimLoop, most: Callable[[], int | None], takes_s: Callable[[], float]) -> None:
        """`most`: threads that the process may have now, None: any number. `takes_s`: what blocks, on top of the usual delay."""
        self.loop = loop
        self.most = most
        self.takes_s = takes_s
        self.count = 0

    def start_one(self) -> None:
        """RuntimeError: there is none, as `threading.Thread.start` says."""
        most = self.most()
        if most is not None and self.count >= most:
            raise RuntimeError("can't start new thread")
        self.count += 1


class _VirtualPool(ThreadPoolExecutor):
    """Where Python starts a thread it takes one of the machine; each does what is in the queue at moments that the seed chooses."""

    machine: Machine
    _busy = 0

    def _adjust_thread_count(self) -> None:
        """As in CPython: whoever is idle takes it; else one more is started, if there may be one more."""
        started: set[Any] = self._threads  # type: ignore[assignment]
        if self._busy == len(started):
            if len(started) >= self._max_workers:
                return  # whoever is done first takes it
            self.machine.start_one()
            started.add(object())
        self._busy += 1
        self._later()

    def _later(self) -> None:
        loop = self.machine.loop
        loop.call_later(
            self.machine.takes_s() + loop.random.random() * 0.005,
            self._turn,
            context=loop.context_of_threads(),
        )

    def _turn(self) -> None:
        work: Any = None if self._work_queue.empty() else self._work_queue.get_nowait()
        if work is not None:
            begin = getattr(self, "_create_worker_context", None)  # CPython 3.14
            work.run() if begin is None else work.run(begin())
        if self._work_queue.empty():
            self._busy -= 1
        else:
            self._later()

    @property
    def is_at_work(self) -> bool:
        return self._busy > 0


class SimThreads(Threads, _VirtualPool):
    """Production's waiting for a thread, above what Python does without."""

    def __init__(self, machine: Machine, most: int, name: str) -> None:
        self.machine = machine
        super().__init__(machine.loop, most, name)

    def do(self, work: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        return asyncio.wrap_future(self.submit(work, *args), loop=self.machine.loop)
