"""Large buffers of connections that have gone: freed one in a turn of the loop, of however many connections. The kernel takes a fifth of
a millisecond to take a megabyte back."""

from collections.abc import Callable, Sequence

LARGE_BYTES = 1 << 20


class FreedMemory:
    def __init__(self, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        self._call_later = call_later
        self._buffers: list[object] = []

    def take(self, buffers: Sequence[object]) -> None:
        """Nobody else holds them."""
        if buffers and not self._buffers:
            self._call_later(0, self._free)
        self._buffers += buffers

    def _free(self) -> None:
        self._buffers.pop()
        if self._buffers:
            self._call_later(0, self._free)
