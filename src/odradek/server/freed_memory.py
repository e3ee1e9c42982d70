"""Large buffers of connections that have gone: freed one in a turn of the loop, of however many connections. The kernel takes a fifth of
a millisecond to take a megabyte back."""

from collections.abc import Callable, Iterable

from odradek.client.receive_buffers import LargeBuffer

LARGE_BYTES = 1 << 20
# Clients may come and go faster than turns pass: 200 at a time, with a megabyte each, had the broker keep a gigabyte more each second.
MOST_BYTES = 256 << 20


class FreedMemory:
    def __init__(self, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        self._call_later = call_later
        self._buffers: list[bytes | LargeBuffer] = []
        self._size_bytes = 0

    def take(self, buffers: Iterable[bytes | LargeBuffer]) -> None:
        """Nobody else holds them. Those beyond MOST_BYTES are not kept, and so freed at once."""
        was_empty = not self._buffers
        for one in buffers:
            if self._size_bytes + len(one) <= MOST_BYTES:
                self._buffers.append(one)
                self._size_bytes += len(one)
        if was_empty and self._buffers:
            self._call_later(0, self._free)

    def _free(self) -> None:
        self._size_bytes -= len(self._buffers.pop())
        if self._buffers:
            self._call_later(0, self._free)
