"""A callback connection to one broker, for fetchers, the controller's outboxes and the way to the controller.

Answers are handed over in the callback that received them, so that whoever waits can go on in the same loop
turn: no task and no await between a response, what is done with it, and the next request.
"""

import asyncio
import errno
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TypeVar

from odradek.client.addresses import is_ip, no_thread_to_look_up
from odradek.client.frame_protocol import FrameProtocol
from odradek.client.receive_buffers import BufferPool
from odradek.model.errors import ProtocolError
from odradek.model.ids import LAST_PORT
from odradek.model.remedies import MORE_MEMORY
from odradek.protocol.headers import decode_response_header, encode_request

logger = logging.getLogger(__name__)

# An answer never comes near this; a peer that claims more is not a Kafka broker.
LARGEST_ANSWER_BYTES = 1 << 30
# Correlation ids are signed numbers of 32 bits, and go round as Java's do.
LARGEST_CORRELATION_ID, SMALLEST_CORRELATION_ID = (1 << 31) - 1, -(1 << 31)

# What connecting may raise: the network's errors, and those of an address that is none, which a registration may hold
# (a name with an empty label, a port beyond 65535).
CANNOT_CONNECT = (OSError, TimeoutError, ValueError, OverflowError)

# What came back: the body of the answer (valid during the call only), or None with a reason.
OnAnswer = Callable[[memoryview | None, str], None]
# Of a request; or who makes it, asked when there is a connection to write it to.
Body = bytes | Callable[[], bytes]
P = TypeVar("P", bound=asyncio.BaseProtocol)


async def connect(
    loop: asyncio.AbstractEventLoop, make_protocol: Callable[[], P], host: str, port: int, timeout_s: float
) -> tuple[asyncio.Transport, P]:
    """To the first address of `host` that answers. Raises what the last one said, as in CANNOT_CONNECT."""
    if not 0 <= port <= LAST_PORT:
        # uvloop would take it modulo 65,536, and reach somebody else.
        raise ValueError(f"port {port} is not between 0 and {LAST_PORT}")
    try:
        async with asyncio.timeout(timeout_s):
            return await _connected(loop, make_protocol, host, port, loop.time() + timeout_s)
    except MemoryError as error:  # also of threading.Thread.start
        raise OSError(errno.ENOMEM, f"{os.strerror(errno.ENOMEM)}: {MORE_MEMORY}") from error


async def _connected(
    loop: asyncio.AbstractEventLoop, make_protocol: Callable[[], P], host: str, port: int, deadline: float
) -> tuple[asyncio.Transport, P]:
    *others, last = [host] if is_ip(host) else await _resolve(loop, host, port)
    for tried, address in enumerate(others):
        # A silent one may not use up the time of those after it.
        share_s = (deadline - loop.time()) / (len(others) + 1 - tried)
        with suppress(OSError):
            async with asyncio.timeout(share_s):
                return await loop.create_connection(make_protocol, address, port)
    return await loop.create_connection(make_protocol, last, port)


async def _resolve(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[str]:
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except RuntimeError as error:  # of threading.Thread.start
        raise OSError(errno.EAGAIN, no_thread_to_look_up(host)) from error
    return [str(endpoint[0]) for *_, endpoint in found]


class _InFlight:
    __slots__ = ("api_key", "api_version", "correlation_id", "on_answer", "sent_at")

    def __init__(
        self, api_key: int, api_version: int, correlation_id: int, on_answer: OnAnswer, sent_at: float
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.on_answer = on_answer
        self.sent_at = sent_at


class _Channel(FrameProtocol):
    """The bytes of one connection; everything else is the link's."""

    def __init__(self, link: "BrokerLink", pool: BufferPool) -> None:
        super().__init__(pool, max_frame_bytes=LARGEST_ANSWER_BYTES)
        self._link = link

    def frame_received(self, frame: memoryview) -> None:
        self._link.frame_received(self, frame)

    def turn_ended(self, read_bytes: int) -> None:
        self._link.turn_ended()

    def size_refused(self, size: int) -> None:
        self._link.connection_failed(self, f"it answered with a frame of {size} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closing = True
        self.transport = None
        self.drop_received()
        self._link.connection_failed(self, f"connection lost ({exc})" if exc else "it closed the connection")


class BrokerLink:
    """One address, connected when something is to be sent, connected anew (after `backoff_ms`) when it
    failed.

    Every `send` is answered exactly once. Nothing is repeated here: who sent knows whether that is safe.
    Correlation ids rise from request to request over all its connections: a broker tells by them what a controller
    wrote before what (decisions/0008).
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        host: str,
        port: int,
        client_id: str,
        pool: BufferPool,
        after_turn: Callable[[], None],
        request_timeout_ms: int = 30_000,
        connect_timeout_ms: int = 10_000,
        backoff_ms: int = 100,
        first_correlation_id: int = 0,
    ) -> None:
        self.host = host
        self.port = port
        self.is_closed = False
        self._loop = loop
        self._client_id = client_id
        self._pool = pool
        self._after_turn = after_turn
        self._request_timeout_s = request_timeout_ms / 1000
        self._connect_timeout_s = connect_timeout_ms / 1000
        self._backoff_s = backoff_ms / 1000

        self._channel: _Channel | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._not_before = 0.0  # no attempt to connect earlier than this
        self.next_correlation_id = first_correlation_id
        self._unsent: deque[tuple[int, int, Body, OnAnswer]] = deque()
        self._in_flight: deque[_InFlight] = deque()
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_connected(self) -> bool:
        return self._channel is not None

    def send(self, api_key: int, api_version: int, body: Body, on_answer: OnAnswer) -> None:
        assert not self.is_closed, "a closed link was asked to send"
        if self._channel is None:
            self._unsent.append((api_key, api_version, body, on_answer))
            self._start_connecting()
        else:
            self._write(api_key, api_version, body, on_answer)

    def close(self, reason: str = "no longer needed") -> None:
        """Answers everything outstanding with `reason`."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        self._drop_channel()
        self._fail_all(reason)

    def fail(self, reason: str) -> None:
        """Gives the connection up as if it had failed; everything outstanding is answered with `reason`."""
        if self._channel is not None:
            self.connection_failed(self._channel, reason)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """For whoever wants to send again after a failure, once all failures of this one have been told."""
        self._loop.call_soon(callback)

    # --- connecting

    def _start_connecting(self) -> None:
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            wait_s = self._not_before - self._loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            transport, channel = await connect(
                self._loop,
                lambda: _Channel(self, self._pool),
                self.host,
                self.port,
                self._connect_timeout_s,
            )
        except CANNOT_CONNECT as error:
            self._connecting = None
            self._not_before = self._loop.time() + self._backoff_s
            reason = (
                f"timed out after {self._connect_timeout_s:g} s"
                if isinstance(error, TimeoutError)
                else str(error)
            )
            self._fail_all(f"cannot connect to {self.address}: {reason}")
            self._after_turn()
            return
        self._connecting = None
        if self.is_closed:
            transport.abort()
            return
        if channel.is_closing:
            self._not_before = self._loop.time() + self._backoff_s
            self._fail_all(f"{self.address}: it closed the connection at once")
            self._after_turn()
            return
        self._channel = channel
        while self._unsent and self._channel is channel:
            self._write(*self._unsent.popleft())
        self._after_turn()

    # --- requests and answers

    def _write(self, api_key: int, api_version: int, body: Body, on_answer: OnAnswer) -> None:
        channel = self._channel
        assert channel is not None and channel.transport is not None
        data = body() if callable(body) else body
        correlation_id = self.next_correlation_id
        is_last = correlation_id == LARGEST_CORRELATION_ID
        self.next_correlation_id = SMALLEST_CORRELATION_ID if is_last else correlation_id + 1
        self._in_flight.append(_InFlight(api_key, api_version, correlation_id, on_answer, self._loop.time()))
        if self._deadline is None:
            self._deadline = self._loop.call_later(self._request_timeout_s, self._check_deadline)
        channel.transport.write(encode_request(api_key, api_version, correlation_id, self._client_id, data))

    def frame_received(self, channel: _Channel, frame: memoryview) -> None:
        if channel is not self._channel:
            return
        if not self._in_flight:
            self.connection_failed(channel, "it answered a request that was never sent")
            return
        request = self._in_flight[0]
        try:
            correlation_id, body_offset = decode_response_header(request.api_key, request.api_version, frame)
        except ProtocolError as error:
            self.connection_failed(channel, f"its answer cannot be read: {error}")
            return
        if correlation_id != request.correlation_id:
            self.connection_failed(
                channel,
                f"it answered request {correlation_id} where {request.correlation_id} was next; "
                "answers keep the order of requests",
            )
            return
        self._in_flight.popleft()
        request.on_answer(frame[body_offset:], "")

    def turn_ended(self) -> None:
        self._after_turn()

    def _check_deadline(self) -> None:
        """One timer for the oldest request; the others are younger."""
        self._deadline = None
        if not self._in_flight:
            return
        due_at = self._in_flight[0].sent_at + self._request_timeout_s
        now = self._loop.time()
        if due_at <= now:
            channel = self._channel
            assert channel is not None
            self.connection_failed(channel, f"no answer within {self._request_timeout_s:g} s")
        else:
            self._deadline = self._loop.call_later(due_at - now, self._check_deadline)

    # --- failing

    def connection_failed(self, channel: _Channel, reason: str) -> None:
        if channel is not self._channel:
            return
        self._drop_channel()
        self._not_before = self._loop.time() + self._backoff_s
        self._fail_all(f"{self.address}: {reason}")
        self._after_turn()

    def _drop_channel(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.is_closing = True
            if channel.transport is not None:
                channel.transport.abort()
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _fail_all(self, reason: str) -> None:
        failed = [request.on_answer for request in self._in_flight]
        failed += [on_answer for _, _, _, on_answer in self._unsent]
        self._in_flight.clear()
        self._unsent.clear()
        with ExitStack() as told:  # also behind one that raises
            for on_answer in reversed(failed):
                told.callback(on_answer, None, reason)
