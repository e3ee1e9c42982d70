"""What was counted in the last few windows of time: the ground under every rate that is held to a quota.

As Kafka's SampledStat: a window begins with what is counted first in it, and is forgotten when nothing was
counted in it for as long as all windows last. Its time may therefore reach back a little further than that; a
rate divides by the time that is covered, so nothing is counted as faster than it was.
"""

from collections import deque


class WindowedSum:
    """`total` of at least the last `window_count - 1` windows, once there were so many. The clock never runs
    backwards (`server.environment.Clock`)."""

    __slots__ = ("_windows", "span_ms", "total", "window_count", "window_ms")

    def __init__(self, *, window_count: int, window_ms: int) -> None:
        self.window_count = window_count
        self.window_ms = window_ms
        self.span_ms = window_count * window_ms
        self.total = 0
        self._windows: deque[list[int]] = deque()  # [begin, last counted, amount] of each, oldest first

    def record(self, amount: int, now_ms: int) -> None:
        """A negative amount takes back what was recorded before."""
        self.forget_old(now_ms)
        windows = self._windows
        if not windows or now_ms - windows[-1][0] >= self.window_ms:
            windows.append([now_ms, now_ms, amount])
        else:
            last = windows[-1]
            last[1] = now_ms
            last[2] += amount
        self.total += amount

    def forget_old(self, now_ms: int) -> None:
        windows = self._windows
        oldest_kept_ms = now_ms - self.span_ms
        while windows and windows[0][1] <= oldest_kept_ms:
            self.total -= windows.popleft()[2]

    def covered_ms(self, now_ms: int) -> int:
        """How long ago the oldest window that is kept began."""
        return now_ms - self._windows[0][0] if self._windows else 0

    @property
    def oldest_ends_ms(self) -> int | None:
        """When the oldest window is forgotten."""
        return self._windows[0][1] + self.span_ms if self._windows else None
