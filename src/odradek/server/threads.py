"""Threads for what may block or takes long, where the machine may have none left."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from odradek.model.remedies import MORE_THREADS

logger = logging.getLogger("odradek.server")

THREAD_AGAIN_S = 1.0


class Threads(ThreadPoolExecutor):
    """Work that finds no thread waits for one. `submit` of the base class raises (EAGAIN: pids.max, RLIMIT_NPROC, no memory for a
    stack) and leaves the work in its queue all the same: a thread of later did it, behind the back of whoever had been told that it
    had failed, and a replica whose flush had failed so stayed offline.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int, name: str) -> None:
        """`submit` is called by the thread of `loop`."""
        super().__init__(max_workers=most, thread_name_prefix=f"odradek-{name}")
        self._loop = loop
        self._is_waiting = False
        # Pieces of work, of which each is to take a thread that has nothing to do, or to ask for one more.
        self._come = 0

    def _adjust_thread_count(self) -> None:
        """At the end of `submit` (CPython 3.11 to 3.15): the work is in the queue, and whichever thread is there takes it."""
        self._come += 1
        if self._is_waiting or self._could_start():
            return
        self._is_waiting = True
        self._loop.call_later(THREAD_AGAIN_S, self._again)
        if not self._threads:  # else it gets on, if more slowly; but the one there is may hang with its disk
            logger.warning(
                "no thread can be started, so what disks and large requests need waits until one can: %s",
                MORE_THREADS,
            )

    def _again(self) -> None:
        self._is_waiting = not self._could_start()
        if self._is_waiting:
            self._loop.call_later(THREAD_AGAIN_S, self._again)

    def _could_start(self) -> bool:
        """Those that are wanted. The base class counts threads that have nothing to do by what they have done: it is to be asked for
        each piece, or it would count some twice and start no other."""
        if self._shutdown:
            return True
        try:
            while self._come:
                super()._adjust_thread_count()
                self._come -= 1
        except (RuntimeError, MemoryError):
            return False
        return True
