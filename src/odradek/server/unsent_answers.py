"""Answers that wait for their peers to read them: the memory they take over all connections of a broker, and whose go where that
is too much.

Counted is what is left when a connection has written as much as its transport takes, so an answer that leaves at once costs
nothing here. A buffer that several connections wait with (Metadata of all topics is made once) counts once, and bytes of
files do not count.
"""

from collections.abc import Iterable
from fcntl import ioctl
from struct import Struct
from termios import TIOCOUTQ

from odradek.broker.answers import Buffer
from odradek.server.held_memory import HeldMemory

# An object beside its bytes; of a slice of a file all there is.
OBJECT_BYTES = 100
# From here on it is asked whether somebody else waits with the same.
LEAST_SHARED_BYTES = 16 * 1024
# As if so much had left besides: for a moment whoever has just begun is no worse than who reads slowly.
LEAST_LEFT_BYTES = 64 * 1024
# How fast answers leave is seen over a span of so long at least, and soon when they no longer do.
SPAN_S = 10.0
# How long nothing may leave for somebody who is alone with more than there is room for.
PATIENCE_S = 1.0


_COUNT = Struct("i")


def unacknowledged(descriptor: int) -> int:
    """Bytes of a socket that its peer has not received. A kernel takes megabytes at once, and more only when a third of them has
    left: a minute of a slow line. 0 where it does not say (other systems than Linux)."""
    try:
        (size,) = _COUNT.unpack(ioctl(descriptor, TIOCOUTQ, bytes(_COUNT.size)))
    except (OSError, ValueError):
        return 0
    return int(size)


def memory_of(buffer: Buffer) -> int:
    if isinstance(buffer, bytes | bytearray | memoryview):
        return OBJECT_BYTES + len(buffer)
    return OBJECT_BYTES


class UnsentAnswers(HeldMemory["Unsent"]):
    """Of a broker."""

    def __init__(self) -> None:
        super().__init__()
        self._shared: dict[int, int] = {}  # id of a buffer -> how often it waits

    def come(self, buffer: Buffer, size: int) -> int:
        """What it takes more."""
        if size < LEAST_SHARED_BYTES:
            return size
        times = self._shared.get(id(buffer), 0)
        self._shared[id(buffer)] = times + 1
        return 0 if times else size

    def gone(self, buffer: Buffer, size: int) -> int:
        """What it took."""
        if size < LEAST_SHARED_BYTES:
            return size
        times = self._shared.pop(id(buffer))
        if times > 1:
            self._shared[id(buffer)] = times - 1
        return 0 if times > 1 else size


class Unsent:
    """Of a connection. `size_bytes`: with those buffers that others wait with as well."""

    __slots__ = (
        "_all",
        "_held_back_bytes",
        "_left_at",
        "_left_bytes",
        "_queued_bytes",
        "_since",
        "connection_id",
        "descriptor",
        "size_bytes",
    )

    def __init__(self, unsent: UnsentAnswers, connection_id: int) -> None:
        self.connection_id = connection_id
        self.descriptor = -1  # of its socket; no network, none
        self.size_bytes = 0
        self._all = unsent
        self._held_back_bytes = 0  # by the transport
        # The span: when it began, what has left since then, and when something left last.
        self._since = self._left_at = 0.0
        self._left_bytes = 0
        self._queued_bytes = 0  # by the kernel, when something left last

    def come(self, buffers: Iterable[Buffer]) -> None:
        more = 0
        for buffer in buffers:
            size = memory_of(buffer)
            self.size_bytes += size
            more += self._all.come(buffer, size)
        self._all.changed(self, more)

    def gone(self, buffers: Iterable[Buffer]) -> None:
        less = 0
        for buffer in buffers:
            size = memory_of(buffer)
            self.size_bytes -= size
            less += self._all.gone(buffer, size)
        self._all.changed(self, -less)

    def held_back(self, size: int) -> None:
        """So many bytes by the transport."""
        change = size - self._held_back_bytes
        if change:
            self._held_back_bytes = size
            self.size_bytes += change
            self._all.changed(self, change)

    def begin(self, now: float) -> None:
        """Nothing waited until now."""
        self._since = self._left_at = now
        self._left_bytes = 0
        self._queued_bytes = unacknowledged(self.descriptor)

    def left(self, size: int, now: float) -> None:
        """For the kernel."""
        if now - self._since > SPAN_S:
            self._since = self._left_at
            self._left_bytes = 0
        queued = unacknowledged(self.descriptor)
        self._left_at = now
        self._left_bytes += self._queued_bytes + size - queued
        self._queued_bytes = queued

    def is_leaving(self, now: float) -> bool:
        return now - self._left_at <= PATIENCE_S

    def seconds_left(self, now: float) -> float:
        """Until the peer has all, if it goes on as in this span."""
        left = self._left_bytes + self._queued_bytes - unacknowledged(self.descriptor)
        return self.size_bytes * (now - self._since) / (LEAST_LEFT_BYTES + max(0, left))
