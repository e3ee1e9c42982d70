"""A transport without a network: bytes are fed by hand, what is written is kept, and the peer may stop
reading.
"""

import asyncio
from typing import Any, cast


class MemoryTransport(asyncio.Transport):
    def __init__(self, protocol: asyncio.BufferedProtocol, *, high_water_bytes: int = 1 << 62) -> None:
        super().__init__({"peername": ("127.0.0.1", 40001)})
        self.protocol = protocol
        self.written = bytearray()
        self.write_calls = 0
        self.unread_bytes = 0  # written, and not yet read by the peer
        self.high_water_bytes = high_water_bytes
        self.is_reading_allowed = True
        self.was_closed = False
        self._is_paused = False

    # --- asyncio's side

    def write(self, data: Any) -> None:
        self.write_calls += 1
        self.written += data
        self.unread_bytes += len(data)
        if self.unread_bytes > self.high_water_bytes and not self._is_paused:
            self._is_paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass  # the test's own limit counts

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def is_reading(self) -> bool:
        return self.is_reading_allowed

    def pause_reading(self) -> None:
        assert self.is_reading_allowed, "paused twice"
        self.is_reading_allowed = False

    def resume_reading(self) -> None:
        assert not self.is_reading_allowed, "resumed twice"
        self.is_reading_allowed = True

    def close(self) -> None:
        if not self.was_closed:
            self.was_closed = True

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self.was_closed

    # --- the test's side

    def feed(self, data: bytes, *, at_a_time: int | None = None) -> int:
        """Delivers as long as the protocol reads; returns how many bytes it took."""
        position = 0
        while position < len(data) and self.is_reading_allowed and not self.was_closed:
            buffer = cast(memoryview, self.protocol.get_buffer(-1))
            assert len(buffer) > 0
            count = min(len(buffer), len(data) - position, at_a_time or len(data))
            buffer[:count] = data[position : position + count]
            position += count
            self.protocol.buffer_updated(count)
        return position

    def peer_reads(self) -> None:
        """The peer takes everything that was written so far."""
        self.unread_bytes = 0
        if self._is_paused:
            self._is_paused = False
            self.protocol.resume_writing()


def connect(protocol: asyncio.BufferedProtocol, *, high_water_bytes: int = 1 << 62) -> MemoryTransport:
    transport = MemoryTransport(protocol, high_water_bytes=high_water_bytes)
    protocol.connection_made(transport)
    return transport
