"""The answers of one connection on their way out: piece by piece, as its transport takes them, in order.

Nothing is read from a segment file before it can leave, so a peer that does not read costs one piece of memory and
not its whole answer. On a plain socket large slices do not come into this process at all: the kernel copies them
from the page cache (`sendfile`), which takes a third of the processor time of reading and writing them.

`sendfile` goes past the transport, straight to its socket. So it is used only while the transport itself holds
nothing back, else bytes would overtake each other. When the socket is full, one small piece is read and given to
the transport after all: what is left of it makes the transport call `pause_writing`, and later `resume_writing`.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from odradek.broker.answers import Buffer
from odradek.server.unsent_answers import Unsent

# Bytes handed to the transport at a time: enough to fill a socket buffer, small enough not to hurt memory.
WRITE_CHUNK_BYTES = 256 * 1024
# What a transport may hold back that cannot use sendfile; the others hold back one piece.
WRITE_HIGH_WATER_BYTES = 512 * 1024
# Below this the two system calls of reading and writing cost no more than sendfile's.
LEAST_SENDFILE_BYTES = 32 * 1024
PIECE_FOR_FULL_SOCKET_BYTES = 64 * 1024
MOST_SENDFILE_BYTES = 1024 * 1024  # 0.1 to 0.4 ms
# After so much the loop looks after others; a reader as fast as this process would keep it for a whole answer, or for
# all it has asked for.
ENOUGH_BYTES_A_TURN = 512 * 1024
_ALONE_BYTES = 32 * 1024
# Up to this an answer is put behind its header at once: one buffer to look at instead of two.
_COPIED_BYTES = 4 * 1024

_Memory = bytes | bytearray | memoryview


class Outgoing:
    """What is left of a connection's answers. `waiting_bytes` counts it, in memory or in files."""

    __slots__ = (
        "_buffers",
        "_counted",
        "_descriptor",
        "_done_bytes",
        "_transport",
        "_unsent",
        "is_held_back",
        "waiting_bytes",
    )

    def __init__(self, unsent: Unsent) -> None:
        self.is_held_back = False  # by the transport, between pause_writing and resume_writing
        self.waiting_bytes = 0
        self._buffers: deque[Buffer] = deque()
        self._counted = 0  # of these, the first, in `_unsent`
        self._unsent = unsent
        self._done_bytes = 0  # of the first buffer
        self._transport: asyncio.Transport | None = None
        self._descriptor: Callable[[], int] | None = None  # of the socket, where there is one

    def opened(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        if transport.get_extra_info("sslcontext") is None:
            self._descriptor = getattr(transport.get_extra_info("socket"), "fileno", None)
        # With sendfile whatever the transport holds back has to make it tell us when that has left.
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES if self._descriptor is None else 0)

    def buffers(self) -> Sequence[Buffer]:
        """Those that have not left whole."""
        return tuple(self._buffers)

    def clear(self) -> None:
        """The connection is gone, and its descriptor may soon be another's."""
        self._transport = self._descriptor = None
        self.drop()

    def drop(self) -> None:
        """Nothing more of what waits is to leave."""
        self._unsent.gone(islice(self._buffers, self._counted))
        self._unsent.held_back(0)
        self._counted = 0
        self._buffers.clear()
        self._done_bytes = self.waiting_bytes = 0

    def add(self, header: bytes, body: Sequence[Buffer], size_bytes: int) -> None:
        """`size_bytes` of both together."""
        if len(body) == 1 and type(body[0]) is bytes and size_bytes <= _COPIED_BYTES:
            self._buffers.append(header + body[0])
        else:
            self._buffers.append(header)
            self._buffers.extend(body)
        self.waiting_bytes += size_bytes

    def write(self) -> bool:
        """Writes as far as the transport takes it; True when that was enough for this turn of the loop. StorageError: a
        slice cannot be read any more (`FileSlice`)."""
        written = 0
        transport = self._transport
        if transport is None:
            return False
        was_closing = transport.is_closing()
        while self._buffers and not self.is_held_back and written < ENOUGH_BYTES_A_TURN:
            in_memory = type(self._buffers[0]) is bytes
            written += (not in_memory and self._send_file()) or self._write_piece()
            if not was_closing and transport.is_closing():
                # The peer has gone, as the transport has found. `connection_lost` comes in the next turn; until then asyncio
                # would write a line to the log for each piece more.
                self.clear()
                return False
        if self._buffers or self.is_held_back or self._unsent.size_bytes:
            self._count()
        return written >= ENOUGH_BYTES_A_TURN

    # --- private

    def _count(self) -> None:
        new = len(self._buffers) - self._counted
        if new:
            self._unsent.come(islice(reversed(self._buffers), new))
            self._counted += new
        assert self._transport is not None
        is_holding = self.is_held_back and not self._transport.is_closing()
        self._unsent.held_back(self._transport.get_write_buffer_size() if is_holding else 0)

    def _pop(self) -> None:
        buffer = self._buffers.popleft()
        if self._counted:
            self._counted -= 1
            self._unsent.gone((buffer,))

    def _send_file(self) -> int:
        """How much of the first buffer went from its file to the socket; 0: it is to be read and written."""
        first = self._buffers[0]
        if self._descriptor is None or isinstance(first, _Memory) or first.size_bytes < LEAST_SENDFILE_BYTES:
            return 0
        assert self._transport is not None
        if self._transport.get_write_buffer_size():
            return 0
        size = min(first.size_bytes - self._done_bytes, MOST_SENDFILE_BYTES)
        sent = first.send_to(self._descriptor(), self._done_bytes, size)
        self._done(first.size_bytes, sent)
        return sent

    def _write_piece(self) -> int:
        """One write: small buffers joined, or a piece of a large one."""
        most = WRITE_CHUNK_BYTES
        batch: list[_Memory] = []
        size = 0
        buffers = self._buffers
        while buffers and size < most:
            buffer = buffers[0]
            if type(buffer) is bytes and len(buffer) <= _COPIED_BYTES and not self._done_bytes:
                # What nearly every answer is; such a one may lead beyond `most`, by its few bytes.
                self._pop()
                batch.append(buffer)
                size += len(buffer)
                self.waiting_bytes -= len(buffer)
                continue
            whole = len(buffer) if isinstance(buffer, _Memory) else buffer.size_bytes
            left = whole - self._done_bytes
            if left >= _ALONE_BYTES:
                if batch:
                    break  # copying it behind the others costs more than another system call
                if self._descriptor is not None and not isinstance(buffer, _Memory):
                    most = PIECE_FOR_FULL_SOCKET_BYTES
            piece = self._piece(buffer, self._done_bytes, min(left, most - size))
            batch.append(piece)
            size += len(piece)
            self._done(whole, len(piece))
        assert self._transport is not None
        # The transport calls pause_writing from inside write.
        self._transport.write(batch[0] if len(batch) == 1 else b"".join(batch))
        return size

    @staticmethod
    def _piece(buffer: Buffer, start: int, size: int) -> _Memory:
        if not isinstance(buffer, _Memory):
            return buffer.read_piece(start, size)
        if size == len(buffer):
            return buffer
        piece = memoryview(buffer)[start : start + size]
        # The last one is a copy: the transport may hold it back (uvloop's the object itself), and not all before it.
        return bytes(piece) if start + size == len(buffer) else piece

    def _done(self, whole: int, size: int) -> None:
        self.waiting_bytes -= size
        self._done_bytes += size
        if self._done_bytes == whole:
            self._pop()
            self._done_bytes = 0
