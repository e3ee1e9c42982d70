"""How busy the thread of the loop is: its processor time against the clock on the wall."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

INTERVAL_S = 5.0
INTERVALS = 12  # a minute


class BusyTime:
    """Looks at both every few seconds, from `start` to `stop`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        processor: Callable[[], float] = time.thread_time,
        wall: Callable[[], float] = time.monotonic,
    ) -> None:
        """`processor` is asked in the loop's own thread."""
        self._loop = loop
        self._processor = processor
        self._wall = wall
        self._looks: deque[tuple[float, float]] = deque(maxlen=INTERVALS + 1)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._looks.append((self._wall(), self._processor()))
        self._timer = self._loop.call_later(INTERVAL_S, self.start)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def idle_share(self) -> float:
        """Of the last minute, or of the time since the start: 0 to 1."""
        if not self._looks:
            return 1.0
        wall, processor = self._looks[0]
        passed = self._wall() - wall
        if passed <= 0:
            return 1.0
        return min(max(1.0 - (self._processor() - processor) / passed, 0.0), 1.0)
