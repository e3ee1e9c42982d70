"""Where bytes from the network land before anybody looks at them.

One scratch buffer serves every connection: a read lands in it, whole frames are handled in the same callback, and what
is left over (less than a small frame) waits in the connection as `bytes`. So a connection that is quiet costs no
buffer. A frame larger than `SMALL_FRAME_BYTES` gets a buffer of its own, sized by its length, and its bytes come
straight from the socket. It is kept for the next frame: pages that are new cost as much again as what is done with the bytes.
"""

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

SCRATCH_BYTES = 128 * 1024
SMALL_FRAME_BYTES = 16 * 1024
_KEPT_BUFFERS = 8
_KEPT_BYTES = 16 * 1024 * 1024  # of all together


class LargeBuffer(mmap):
    """Pages of the kernel's, each of which takes memory once bytes have arrived in it."""

    was_used = False  # for a frame before: all of it takes memory


class BufferPool:
    """The scratch buffer and a few large ones of one process."""

    __slots__ = ("_kept", "scratch", "scratch_view")

    def __init__(self) -> None:
        self.scratch = bytearray(SCRATCH_BYTES)
        self.scratch_view = memoryview(self.scratch)
        self._kept: list[LargeBuffer] = []

    def take(self, size_bytes: int) -> LargeBuffer:
        """A buffer of at least `size_bytes`; its contents are whatever was there before.

        Pages of the kernel's, not a bytearray: a length is only a claim, and a page costs nothing until bytes arrive
        in it. A peer that claims 100 MiB and sends nothing has cost an entry in a table.
        """
        best = None
        for buffer in self._kept:
            if len(buffer) >= size_bytes and (best is None or len(buffer) < len(best)):
                best = buffer
        # A buffer four times too large would let one small frame pin it.
        if best is not None and len(best) <= max(4 * size_bytes, SCRATCH_BYTES):
            self._kept.remove(best)
            return best
        return LargeBuffer(-1, _rounded(size_bytes), flags=MAP_PRIVATE | MAP_ANONYMOUS)

    def give_back(self, buffer: LargeBuffer) -> None:
        buffer.was_used = True
        if len(buffer) > _KEPT_BYTES:
            return
        self._kept.append(buffer)
        while len(self._kept) > _KEPT_BUFFERS or sum(map(len, self._kept)) > _KEPT_BYTES:
            self._kept.pop(0)


def _rounded(size_bytes: int) -> int:
    """Sizes in steps of an eighth of their magnitude, so that frames of almost equal size share buffers."""
    step = max(4096, 1 << max(0, size_bytes.bit_length() - 4))
    return -(-size_bytes // step) * step
