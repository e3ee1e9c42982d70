"""Connections to the leaders this broker follows: one for each, driven by callbacks.

Between an answer, the append of what it brought, and the next fetch (which is the acknowledgement) there is
no await and no further turn of the loop. What to ask and what answers mean is `replication.follower`'s; here
are only bytes.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from odradek.client.connection import CANNOT_CONNECT, connect
from odradek.client.frame_protocol import FrameProtocol
from odradek.client.receive_buffers import BufferPool
from odradek.model.cluster import Endpoint
from odradek.model.errors import ProtocolError
from odradek.model.ids import BrokerId
from odradek.replication.follower import FollowerFetcher
from odradek.server.environment import Environment
from odradek.server.log_limits import LimitedLog
from odradek.server.metrics import Metrics

# A leader that died is gone for good in most cases; one that is being started again answers soon.
RECONNECT_MS = 100
LARGEST_ANSWER_BYTES = 1 << 30


class _LeaderConnection(FrameProtocol):
    def __init__(self, fetching: "Fetching", pool: BufferPool) -> None:
        super().__init__(pool, max_frame_bytes=LARGEST_ANSWER_BYTES)
        self._fetching = fetching

    def frame_received(self, frame: memoryview) -> None:
        self._fetching.answered(self, frame)

    def turn_ended(self, read_bytes: int) -> None:
        self._fetching.after_turn()

    def size_refused(self, size: int) -> None:
        self._fetching.failed(self, f"it answered with a frame of {size} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closing = True
        self.transport = None
        self.drop_received()
        self._fetching.failed(self, f"connection lost ({exc})" if exc else "it closed the connection")


class Fetching:
    """One leader followed: connects, keeps the requests of its fetcher going, connects again."""

    def __init__(
        self,
        leader: BrokerId,
        endpoint: Endpoint,
        fetcher: FollowerFetcher,
        *,
        environment: Environment,
        pool: BufferPool,
        after_turn: Callable[[], None],
        connect_timeout_ms: int,
        silence_timeout_ms: int,
        log: LimitedLog,
        metrics: Metrics,
        on_lost: Callable[[BrokerId], None],
        on_connected: Callable[[BrokerId], None],
    ) -> None:
        self.leader = leader
        self.endpoint = endpoint
        self.fetcher = fetcher
        self.after_turn = after_turn
        self._loop = environment.loop
        self._now_ms = environment.clock.now_ms
        self._pool = pool
        self._connect_timeout_s = connect_timeout_ms / 1000
        self._silence_timeout_s = silence_timeout_ms / 1000
        self._log = log
        self._metrics = metrics
        self._on_lost = on_lost
        self._on_connected = on_connected
        self._connection: _LeaderConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._wake_timer: asyncio.TimerHandle | None = None
        self._wake_timer_at_ms = 0
        self._silence_timer: asyncio.TimerHandle | None = None
        self._unanswered = 0
        self._heard_at = 0.0
        self._is_stopped = False
        self._connecting = self._loop.create_task(self._connect(0.0))

    def wake(self) -> None:
        """The fetcher has something to ask that it had not before."""
        self._pump()

    def stop(self) -> None:
        self._is_stopped = True
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        self._drop()

    # --- the connection

    async def _connect(self, pause_s: float) -> None:
        while not self._is_stopped:
            if pause_s:
                await asyncio.sleep(pause_s)
            pause_s = RECONNECT_MS / 1000
            try:
                transport, connection = await connect(
                    self._loop,
                    lambda: _LeaderConnection(self, self._pool),
                    self.endpoint.host,
                    self.endpoint.port,
                    self._connect_timeout_s,
                )
            except CANNOT_CONNECT as error:
                self._metrics.fetcher_failures += 1
                reason = str(error) or "timed out"
                self._log.warning(
                    f"fetch {self.leader}",
                    f"leader {self.leader} at {self.endpoint.host}:{self.endpoint.port} cannot be reached: {reason}",
                )
                continue
            if self._is_stopped:
                transport.abort()
                return
            if connection.is_closing:
                continue
            self._connecting = None
            self._connection = connection
            self._unanswered = 0
            self._heard_at = self._loop.time()
            self._watch_silence()
            self._on_connected(self.leader)
            self._pump()
            self.after_turn()
            return

    def failed(self, connection: _LeaderConnection, reason: str) -> None:
        if connection is not self._connection:
            return
        self._metrics.fetcher_failures += 1
        self._log.warning(f"fetch {self.leader}", f"fetching from leader {self.leader}: {reason}")
        self._drop()
        self.fetcher.connection_lost(self._now_ms())
        self._on_lost(self.leader)
        if not self._is_stopped:
            self._connecting = self._loop.create_task(self._connect(RECONNECT_MS / 1000))
        self.after_turn()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.is_closing = True
            if connection.transport is not None:
                connection.transport.abort()
        for timer in (self._wake_timer, self._silence_timer):
            if timer is not None:
                timer.cancel()
        self._wake_timer = self._silence_timer = None

    def _watch_silence(self) -> None:
        """replica.socket.timeout.ms: a leader that owes an answer and says nothing is given up."""

        def check_silence() -> None:
            connection = self._connection
            if connection is None:
                return
            silent_s = self._loop.time() - self._heard_at
            if self._unanswered and silent_s >= self._silence_timeout_s:
                self.failed(connection, f"no answer for {silent_s:.0f} s")
            else:
                self._watch_silence()

        self._silence_timer = self._loop.call_later(self._silence_timeout_s / 4, check_silence)

    # --- requests and answers

    def answered(self, connection: _LeaderConnection, frame: memoryview) -> None:
        if connection is not self._connection:
            return
        self._unanswered -= 1
        self._heard_at = self._loop.time()
        try:
            self.fetcher.handle_response(frame, self._now_ms())
        except ProtocolError as error:
            self.failed(connection, f"its answer cannot be read: {error}")
            return
        self._pump()

    def _pump(self) -> None:
        connection = self._connection
        if connection is None or connection.transport is None:
            return
        now_ms = self._now_ms()
        frame = self.fetcher.next_request(now_ms)
        while frame is not None:
            if not self._unanswered:
                self._heard_at = self._loop.time()
            self._unanswered += 1
            connection.transport.write(frame)
            frame = self.fetcher.next_request(now_ms)
        self._set_wake_timer(now_ms)

    def _set_wake_timer(self, now_ms: int) -> None:
        at_ms = self.fetcher.wake_at_ms(now_ms)
        if at_ms is None or (self._wake_timer is not None and self._wake_timer_at_ms <= at_ms):
            return  # a timer that comes too early asks again and sets the next
        if self._wake_timer is not None:
            self._wake_timer.cancel()
        self._wake_timer_at_ms = at_ms
        self._wake_timer = self._loop.call_later(max(0, at_ms - now_ms) / 1000 + 0.001, self._woken)

    def _woken(self) -> None:
        self._wake_timer = None
        self._pump()
        self.after_turn()


class Fetchers:
    """All leaders one broker follows."""

    def __init__(
        self,
        *,
        environment: Environment,
        pool: BufferPool,
        after_turn: Callable[[], None],
        connect_timeout_ms: int,
        silence_timeout_ms: int,
        log: LimitedLog,
        metrics: Metrics,
        on_lost: Callable[[BrokerId], None],
        on_connected: Callable[[BrokerId], None],
    ) -> None:
        """`on_lost` hears of connections that broke, `on_connected` of those that stand."""
        self._fetch = partial(
            Fetching,
            environment=environment,
            pool=pool,
            after_turn=after_turn,
            connect_timeout_ms=connect_timeout_ms,
            silence_timeout_ms=silence_timeout_ms,
            log=log,
            metrics=metrics,
            on_lost=on_lost,
            on_connected=on_connected,
        )
        self._fetching: dict[BrokerId, Fetching] = {}

    def start(self, leader: BrokerId, endpoint: Endpoint, fetcher: FollowerFetcher) -> None:
        self.stop(leader)
        self._fetching[leader] = self._fetch(leader, endpoint, fetcher)

    def stop(self, leader: BrokerId) -> None:
        fetching = self._fetching.pop(leader, None)
        if fetching is not None:
            fetching.stop()

    def wake(self, leader: BrokerId) -> None:
        fetching = self._fetching.get(leader)
        if fetching is not None:
            fetching.wake()

    def stop_all(self) -> None:
        for leader in sorted(self._fetching):
            self.stop(leader)
