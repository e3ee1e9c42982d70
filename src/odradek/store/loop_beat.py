"""Whether the event loop still comes round, for threads that give signs of life on its behalf.

A session's threads go on while the loop hangs, in an endless loop or in a call that never returns. Then nobody is answered,
and whoever leads partitions or the cluster must not keep them: signs of life are given for the loop. One that has
not come round for a third of the session timeout gets none, so its session ends after at most four thirds of it. A loop that
works longer than that on one thing is not dead, and loses its session only when it is as long as that altogether.
"""

from __future__ import annotations

import asyncio
import time

_BEATS_PER_TIMEOUT = 12
PATIENCE = 1 / 3


class LoopBeat:
    """Made and stopped on the loop; asked by any thread."""

    def __init__(self, session_timeout_ms: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.timeout_s = session_timeout_ms / 1000  # the store may grant less
        self._came_round_at = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._beat()

    def is_late(self) -> bool:
        """It has not come round for so long that nobody may say that it lives."""
        return time.monotonic() - self._came_round_at > self.timeout_s * PATIENCE

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _beat(self) -> None:
        self._came_round_at = time.monotonic()
        self._timer = self._loop.call_later(self.timeout_s / _BEATS_PER_TIMEOUT, self._beat)
