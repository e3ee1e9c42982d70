"""Where bytes from the network land before anybody looks at them.

One scratch buffer serves every connection: a read lands in it, whole frames are handled in the same callback,
and what is left over (less than a small frame) waits in the connection as `bytes`. So a connection that is
quiet costs no buffer. A frame larger than `SMALL_FRAME_BYTES` gets a buffer of its own, sized by its length,
straight from the socket; buffers of usual sizes are kept for the next frame.
"""

SCRATCH_BYTES = 128 * 1024
SMALL_FRAME_BYTES = 16 * 1024
# A length is only a claim. Up to here we believe it at once; beyond, the buffer doubles as bytes really
# arrive, so a peer that claims 100 MiB and sends nothing costs 4 MiB.
TRUSTED_BYTES = 4 * 1024 * 1024
_KEPT_BUFFERS = 8
_LARGEST_KEPT_BYTES = 2 * 1024 * 1024


class BufferPool:
    """The scratch buffer and a few large ones of one process."""

    __slots__ = ("_kept", "scratch", "scratch_view")

    def __init__(self) -> None:
        self.scratch = bytearray(SCRATCH_BYTES)
        self.scratch_view = memoryview(self.scratch)
        self._kept: list[bytearray] = []

    def take(self, size_bytes: int) -> bytearray:
        """A buffer of at least `size_bytes`; its contents are whatever was there before."""
        best = None
        for buffer in self._kept:
            if len(buffer) >= size_bytes and (best is None or len(buffer) < len(best)):
                best = buffer
        # A buffer four times too large would let one small frame pin it.
        if best is not None and len(best) <= max(4 * size_bytes, SCRATCH_BYTES):
            self._kept.remove(best)
            return best
        return bytearray(_rounded(size_bytes))

    def give_back(self, buffer: bytearray) -> None:
        if len(buffer) <= _LARGEST_KEPT_BYTES:
            if len(self._kept) == _KEPT_BUFFERS:
                self._kept.pop(0)
            self._kept.append(buffer)

    def release_kept(self) -> None:
        """Called when the process has been idle for a while."""
        self._kept.clear()


def _rounded(size_bytes: int) -> int:
    """Sizes in steps of an eighth of their magnitude, so that frames of almost equal size share buffers."""
    step = max(4096, 1 << max(0, size_bytes.bit_length() - 4))
    return -(-size_bytes // step) * step
