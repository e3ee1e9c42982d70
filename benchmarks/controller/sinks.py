"""Brokers that answer at once, in this process: what is told to them is counted, and nothing is done with it.

They stand where the network would begin. Everything before is the production shell: the outboxes, the encoders,
the frames of `BrokerLink`. A sink reads the header of a frame, counts its bytes and answers without an error.
"""

import asyncio
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from odradek.model.cluster import BrokerRegistration, Endpoint
from odradek.model.ids import BrokerEpoch, BrokerId
from odradek.protocol.headers import response_header
from odradek.protocol.messages import response_class

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
NAMES = {LEADER_AND_ISR: "LeaderAndIsr", STOP_REPLICA: "StopReplica", UPDATE_METADATA: "UpdateMetadata"}

_SIZE = struct.Struct(">i")
_KEY_VERSION_CORRELATION = struct.Struct(">hhi")
FIRST_PORT = 9000


class Told:
    """What all sinks together were told."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.sent_bytes = 0

    def clear(self) -> None:
        self.requests.clear()
        self.sent_bytes = 0


class _SinkTransport(asyncio.Transport):
    def __init__(
        self, loop: asyncio.AbstractEventLoop, protocol: asyncio.BufferedProtocol, told: Told
    ) -> None:
        super().__init__({"peername": ("127.0.0.1", 0)})
        self._loop = loop
        self._protocol = protocol
        self._told = told
        self._is_closed = False

    def write(self, data: Any) -> None:
        """`BrokerLink` writes a whole frame at a time."""
        (size,) = _SIZE.unpack_from(data)
        assert size + 4 == len(data), f"a frame of {size} bytes came as {len(data)}"
        key, version, correlation_id = _KEY_VERSION_CORRELATION.unpack_from(data, 4)
        self._told.requests[NAMES.get(key, str(key))] += 1
        self._told.sent_bytes += len(data)
        answer: Any = response_class(key)()
        payload = response_header(key, version, correlation_id) + answer.encode(version)
        self._loop.call_soon(self._answer, _SIZE.pack(len(payload)) + payload)

    def _answer(self, frame: bytes) -> None:
        if self._is_closed:
            return
        buffer = cast(memoryview, self._protocol.get_buffer(len(frame)))
        buffer[: len(frame)] = frame
        self._protocol.buffer_updated(len(frame))

    def close(self) -> None:
        self._is_closed = True

    def abort(self) -> None:
        self._is_closed = True

    def is_closing(self) -> bool:
        return self._is_closed


class SinkLoop:
    """The event loop, with sinks at the other end of every connection that is opened."""

    def __init__(self, loop: asyncio.AbstractEventLoop, told: Told) -> None:
        self._loop = loop
        self._told = told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(
        self, factory: Callable[[], Any], host: str, port: int
    ) -> tuple[asyncio.Transport, Any]:
        protocol = factory()
        transport = _SinkTransport(self._loop, protocol, self._told)
        protocol.connection_made(transport)
        return transport, protocol


def registration(broker: int) -> BrokerRegistration:
    """As a broker registers itself; the epoch is the store's to give."""
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", FIRST_PORT + broker)
    return BrokerRegistration(BrokerId(broker), BrokerEpoch(-1), (endpoint,))
