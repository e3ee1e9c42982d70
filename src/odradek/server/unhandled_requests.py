"""Requests that have not come whole, or wait to be handled: the memory they take over all connections of a broker, and whose go
where that is too much.
"""

from odradek.server.held_memory import HeldMemory

# How much has come is seen over this span and the one before it.
SPAN_S = 2.0
# As if so much had come besides: a connection with little is no worse for a moment of silence than one with much.
LEAST_CAME_BYTES = 64 * 1024


class UnhandledRequests(HeldMemory["Unhandled"]):
    """Of a broker."""


class Unhandled:
    """Of a connection. `size_bytes`: of memory."""

    __slots__ = (
        "_all",
        "_began_at",
        "_came_at",
        "_came_before_bytes",
        "_came_bytes",
        "_missing_bytes",
        "_span",
        "connection_id",
        "size_bytes",
    )

    def __init__(self, unhandled: UnhandledRequests, connection_id: int) -> None:
        self.connection_id = connection_id
        self.size_bytes = 0
        self._all = unhandled
        self._missing_bytes = 0
        self._began_at = self._came_at = 0.0
        self._span = 0  # its number
        self._came_bytes = 0  # in it
        self._came_before_bytes = 0  # in the one before it

    def came(self, size_bytes: int, now: float) -> None:
        """Told before `hold`."""
        if not self.size_bytes:
            self._began_at = now
            self._came_bytes = self._came_before_bytes = 0
        self._go_on_to(now)
        self._came_at = now
        self._came_bytes += size_bytes

    def hold(self, size_bytes: int, missing_bytes: int) -> None:
        """`missing_bytes` are to come until it can be handled."""
        self._missing_bytes = missing_bytes
        change = size_bytes - self.size_bytes
        if change:
            self.size_bytes = size_bytes
            self._all.changed(self, change)

    def seconds_left(self, now: float) -> float:
        """Until it has come whole, if it goes on as lately; and half as long as what is held would take, for whoever lacks a byte and
        sends nothing would be through at once. Of those who are equally fast the one that has most is still best."""
        self._go_on_to(now)
        since = min(self._came_at, max(self._began_at, (self._span - 1) * SPAN_S))
        came = LEAST_CAME_BYTES + self._came_before_bytes + self._came_bytes
        return (self._missing_bytes + self.size_bytes / 2) * (now - since) / came

    def _go_on_to(self, now: float) -> None:
        span = int(now / SPAN_S)
        if span != self._span:
            self._came_before_bytes = self._came_bytes if span == self._span + 1 else 0
            self._came_bytes = 0
            self._span = span
