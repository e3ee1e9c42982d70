"""Frames out of a byte stream, for both ends of a connection.

A frame is a length (int32) and that many bytes. Whole frames are handled in the callback that received them,
as views into the receive buffer (see receive_buffers.py); several frames that arrived together are one turn.
"""

import asyncio
from struct import Struct
from typing import cast

from odradek.client.local_peers import no_pacing_within_a_host
from odradek.client.receive_buffers import SCRATCH_BYTES, SMALL_FRAME_BYTES, BufferPool, LargeBuffer

_SIZE = Struct(">i")


class FrameProtocol(asyncio.BufferedProtocol):
    """Subclasses say what a frame is for: `frame_received`, `may_handle`, `turn_ended`, `size_refused`."""

    smallest_frame_bytes = 4

    def __init__(self, pool: BufferPool, *, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.is_closing = False
        self.transport: asyncio.Transport | None = None
        self._pool = pool
        # Bytes of an incomplete small frame; while not reading, perhaps whole frames that wait.
        self._rest: bytes = b""
        # A large frame on its way: its buffer, the bytes in it, and how many it will have.
        self._large: LargeBuffer | None = None
        self._large_filled = 0
        self._large_wanted = 0

    # --- for subclasses

    def frame_received(self, frame: memoryview) -> None:
        """`frame` (without its length) is valid during the call only."""
        raise NotImplementedError

    def may_handle(self) -> bool:
        """False leaves frames where they are until `take_up_waiting_frames`; the subclass stops reading."""
        return True

    def turn_ended(self, read_bytes: int) -> None:
        """So many came, and all of them that can be have been handled."""

    def size_refused(self, size: int) -> None:
        """A length that cannot be; the subclass closes the connection."""
        raise NotImplementedError

    def take_up_waiting_frames(self) -> bool:
        """Handles frames left by `may_handle`; True when none is left and reading can go on."""
        if self._large is not None and self._large_filled == self._large_wanted:
            self._advance_large()
        while self._rest and not self.is_closing and self.may_handle():
            waiting = bytearray(self._rest)  # handlers stamp offsets in place, so it must be writable
            view = memoryview(waiting)
            used = self._take_frames(view, len(waiting))
            if not self.is_closing:
                self._keep(view, used, len(waiting))
            if used == 0:
                break
        if self.is_closing or not self.may_handle():
            return False
        assert len(self._rest) < SCRATCH_BYTES, "there must be room to read on"
        return True

    def drop_received(self) -> None:
        """Called when the connection is gone. Memory of a frame that has not come whole is free then: kept for the next one it would stay
        taken where there is little."""
        self._rest = b""
        self._large = None

    # --- asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        connected = transport.get_extra_info("socket")
        if connected is not None:
            no_pacing_within_a_host(connected)

    def get_buffer(self, sizehint: int) -> memoryview:
        large = self._large
        if large is not None:
            return memoryview(large)[self._large_filled : self._large_wanted]
        rest = self._rest
        scratch = self._pool.scratch_view
        if rest:
            scratch[: len(rest)] = rest
            return scratch[len(rest) :]
        return scratch

    def buffer_updated(self, nbytes: int) -> None:
        if self.is_closing:
            return
        if self._large is not None:
            self._large_filled += nbytes
            self._advance_large()
        else:
            end = len(self._rest) + nbytes
            view = self._pool.scratch_view
            used = self._take_frames(view, end)
            if used == end:
                self._rest = b""  # what nearly every read is: whole frames
            elif not self.is_closing:
                self._keep(view, used, end)
        self.turn_ended(nbytes)

    # --- taking frames apart

    def _take_frames(self, view: memoryview, end: int) -> int:
        """Handles whole frames of view[:end]; returns how many bytes are done with."""
        position = 0
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(view, position)
            if size < self.smallest_frame_bytes or size > self.max_frame_bytes:
                self.size_refused(size)
                return end
            stop = position + 4 + size
            if stop > end or not self.may_handle():
                break
            self.frame_received(view[position + 4 : stop])
            position = stop
            if self.is_closing:
                return end
        return position

    def _keep(self, view: memoryview, used: int, end: int) -> None:
        """Puts the incomplete end of what was read where the next read continues it."""
        left = end - used
        if left >= 4:
            (size,) = _SIZE.unpack_from(view, used)
            if size > SMALL_FRAME_BYTES and 4 + size > left:
                self._rest = b""
                self._large_wanted = 4 + size
                self._large = self._pool.take(self._large_wanted)
                self._large[:left] = view[used:end]
                self._large_filled = left
                return
        # The beginning of a small frame; or whole frames that may not be handled yet.
        self._rest = bytes(view[used:end])

    def _advance_large(self) -> None:
        large = self._large
        assert large is not None
        if self._large_filled < self._large_wanted:
            return
        if not self.may_handle():
            return  # stays where it is; nothing is read meanwhile, `take_up_waiting_frames` comes back
        self._large = None
        self.frame_received(memoryview(large)[4 : self._large_wanted])
        self._pool.give_back(large)
