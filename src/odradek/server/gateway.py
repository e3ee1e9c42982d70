"""Between the connections of one broker and the broker itself: frames to requests, and the end of a turn.

A turn is one callback of the loop: a read, a timer, an answer of another broker. Whatever it made due
(effects of the broker, answers that became ready on any connection) is done before it ends.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from heapq import nlargest
from typing import Any

from odradek.broker.answers import Answer, CloseConnection, Park
from odradek.broker.client_throttles import ClientThrottles
from odradek.broker.quotas import ClientQuotas
from odradek.broker.request import ConnectionInfo, HeldRequest, Request
from odradek.client.receive_buffers import BufferPool
from odradek.model.printable import shown
from odradek.model.settings import BrokerSettings
from odradek.protocol import headers
from odradek.protocol.api_keys import APIS, BETWEEN_BROKERS, ApiKey
from odradek.server.connection import MOST_LINGERING_S, MOST_TURN_NS, Connection
from odradek.server.connection_limits import ConnectionLimits, Full, Refused
from odradek.server.environment import Environment
from odradek.server.freed_memory import FreedMemory
from odradek.server.held_memory import H, HeldMemory
from odradek.server.log_limits import LimitedLog
from odradek.server.metrics import OTHER_KEYS, Metrics
from odradek.server.unhandled_requests import UnhandledRequests
from odradek.server.unsent_answers import UnsentAnswers

# Between the check for idle connections and their end.
_LAST_WORDS_S = 0.05
# Of idle connections: with what follows from it some 15 us each, in the turn behind it.
CLOSED_A_TURN = 500
# Of connections that are read on when quotas have changed: each may have a request that came long ago.
RELEASED_A_TURN = 20
# Where nobody was left to reset, all are looked at again after so long: 10,000 take 2 ms.
LOOK_AGAIN_S = 0.02
# Answers that are no larger than what was asked, or whose bytes lie in files.
_SMALL_ANSWERS = BETWEEN_BROKERS - {ApiKey.ENVELOPE} | {ApiKey.PRODUCE, ApiKey.FETCH}
_flexible: dict[tuple[int, int], bool] = {}


def _has_flexible_header(api_key: int, api_version: int) -> bool:
    """Whether the answer's header ends in tagged fields. A key without a table is answered in the oldest way."""
    known = _flexible.get((api_key, api_version))
    if known is None:
        known = api_key in APIS and headers.response_header_version(api_key, api_version) == 1
        if api_key in APIS and len(_flexible) < 10_000:
            _flexible[api_key, api_version] = known
    return known


def _refusal(frame: memoryview, error: Exception) -> CloseConnection:
    refusal = CloseConnection.because(error)
    if refusal.error is not None:
        refusal.reason += f" (key, version and correlation id: {bytes(frame[:8]).hex()})"
    return refusal


def _shown(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MiB" if size_bytes >= 1 << 20 else f"{size_bytes >> 10} KiB"


class Gateway:
    """The `ConnectionHost` of one broker."""

    def __init__(
        self,
        *,
        settings: BrokerSettings,
        environment: Environment,
        pool: BufferPool,
        handle: Callable[[Request, int], Answer],
        on_connection_closed: Callable[[ConnectionInfo], None],
        log: LimitedLog,
        metrics: Metrics,
        address_rate: Callable[[str], float | None] = lambda address: None,
        throttles: ClientThrottles | None = None,
        protected_listener: str | None = None,
    ) -> None:
        """`address_rate`: new connections a second that an address may open (KIP-612), None: any. `throttles`: to
        whom the time of requests is told, when somebody has a quota of it. `protected_listener`: see
        `connection_limits`."""
        self.pool = pool
        self.unsent = UnsentAnswers()
        self._most_unsent_bytes = environment.most_unsent_bytes
        self.unhandled = UnhandledRequests()
        self._most_unhandled_bytes = environment.most_unhandled_bytes
        self.turn = 0
        self.monotonic = environment.loop.time
        self.call_later = environment.loop.call_later
        self.freed = FreedMemory(self.call_later)
        self._settings = settings
        self._now_ms = environment.clock.now_ms
        self.stopwatch_ns = environment.stopwatch_ns
        self._loop = environment.loop
        self._handle = handle
        self._drain_effects: Callable[[], bool] = lambda: False
        self._turn_over: Callable[[], None] = lambda: None
        self._on_connection_closed = on_connection_closed
        self._log = log
        self._metrics = metrics
        self._throttles = throttles or ClientThrottles(ClientQuotas(), settings)
        self._limits = ConnectionLimits(settings, address_rate, environment.clock.now_ms)
        self._protected_listener = protected_listener
        self._connections: dict[int, Connection] = {}
        self._per_address: dict[str, int] = {}
        self.per_listener: dict[str, int] = {}  # connections open now
        self._next_connection_id = 0
        self._ready: list[Connection] = []
        self._is_ending_turn = False
        self._idle_timer: asyncio.TimerHandle | None = None
        self._quotas_seen = self._throttles.changes
        self._to_be_released: list[Connection] = []  # some in each turn
        self._is_closed = False
        self._is_empty = asyncio.Event()  # since it was closed

    def end_turns_with(self, drain_effects: Callable[[], bool], turn_over: Callable[[], None]) -> None:
        """Said once by whoever does the effects, which are done over this gateway in part. `turn_over`: called when
        nothing is due any more."""
        self._drain_effects = drain_effects
        self._turn_over = turn_over

    # --- connections

    def make_connection(self, listener: str, protocol: str = "PLAINTEXT") -> Connection:
        self._next_connection_id += 1
        largest = self._settings.socket_request_max_bytes
        if protocol.startswith("SASL_"):
            # Nobody who has not said who they are may send more.
            largest = min(largest, self._settings.sasl_server_max_receive_size)
        return Connection(
            self,
            connection_id=self._next_connection_id,
            listener=listener,
            max_frame_bytes=largest,
            most_in_flight=self._settings.queued_max_requests,
        )

    def connection_opened(self, connection: Connection) -> bool:
        address = connection.peer.rpartition(":")[0]
        here = self._per_address.get(address, 0)
        self._per_address[address] = here + 1
        connection.info = ConnectionInfo(connection.connection_id, connection.peer, connection.listener)
        self._connections[connection.connection_id] = connection
        self.per_listener[connection.listener] = self.per_listener.get(connection.listener, 0) + 1
        self._metrics.connections_accepted += 1
        self._metrics.connections_now = len(self._connections)
        if self._is_closed:
            return False
        verdict = self._limits.opened(
            address,
            here=here + 1,
            total=len(self._connections),
            descriptor=connection.descriptor,
            is_protected=connection.listener == self._protected_listener,
        )
        if isinstance(verdict, Refused):
            self._metrics.connections_refused += 1
            self._log.warning(verdict.key, f"connection from {connection.peer} refused: {verdict.reason}")
            if not verdict.after_s:
                return False
            connection.mute(verdict.after_s)
            self.call_later(verdict.after_s, connection.close)
        elif isinstance(verdict, Full):
            self._make_room(verdict.reason)
        elif verdict:
            connection.mute(verdict)
        return True

    def _make_room(self, reason: str) -> None:
        """Closes the connection of a listener that is not protected which has been idle longest."""
        others = [
            connection
            for connection in self._connections.values()
            if connection.listener != self._protected_listener and not connection.is_closing
        ]
        if not others:
            return
        idlest = min(others, key=lambda connection: (not connection.is_idle, connection.last_active_at))
        self._metrics.connections_refused += 1
        self._log.warning(
            "protected", f"connection from {idlest.peer} closed, a broker gets its place: {reason}"
        )
        idlest.close()

    def _close_who_does_not_read(self) -> None:
        """Those whose answers will take longest to leave, as fast as they do, until there is room again: for some more, so
        that not each of them has all looked at. Not who will be through first, while something leaves: an answer of any size
        reaches who reads it. Not who has less than half of an equal part, a reader of files and the controller among them: all of
        those together take less than half of what there is, and resetting them gives no room. And no broker, where brokers have a
        listener of their own."""
        self._metrics.connections_unread_closed += self._make_room_in(
            self.unsent,
            self._most_unsent_bytes,
            self.least_unsent_bytes,
            lambda last, now: last.is_leaving(now),
            "answers wait for it to read them",
        )

    def least_unsent_bytes(self) -> float:
        """Of a connection that is reset where there is no room."""
        return self._most_unsent_bytes / (2 * len(self.unsent.waiting))

    def _close_who_does_not_go_on(self) -> None:
        """Those whose requests will take longest to come whole, until there is room again. It spares whom `_close_who_does_not_read`
        spares; and who will be through first, so that a request of any size comes whole where nobody else sends."""
        self._metrics.connections_unfinished_closed += self._make_room_in(
            self.unhandled,
            self._most_unhandled_bytes,
            self.least_unhandled_bytes,
            lambda last, now: True,
            "requests have not come whole, or wait to be handled",
        )

    def least_unhandled_bytes(self) -> float:
        """Of a connection that is reset where there is no room."""
        return self._most_unhandled_bytes / (2 * len(self.unhandled.waiting))

    def _make_room_in(
        self,
        held: HeldMemory[H],
        most_bytes: int,
        least_bytes: Callable[[], float],
        spares_last: Callable[[H, float], bool],
        what: str,
    ) -> int:
        """Resets those with most seconds left, until some more than is needed is free; returns how many. `spares_last`: whether who is
        left of those that may be reset stays."""
        now = self.monotonic()
        if now < held.look_from:
            return 0
        least = least_bytes()
        rated = [
            (one.seconds_left(now), one.size_bytes, connection_id)
            for connection_id, one in held.waiting.items()
            if one.size_bytes >= least
            and self._connections[connection_id].listener != self._protected_listener
        ]
        at_most = len(rated) - 1 or int(not spares_last(held.waiting[rated[0][2]], now))
        count = 0
        for _, size, connection_id in nlargest(min(CLOSED_A_TURN, at_most), rated):
            if held.size_bytes <= most_bytes * 63 // 64:
                break
            count += 1
            connection = self._connections[connection_id]
            self._log.warning(
                what,
                f"connection from {connection.peer} closed: {_shown(size)} of {what}, and those of all clients take more than "
                f"{most_bytes >> 20} MiB",
            )
            connection.reset()
        if held.size_bytes > most_bytes:
            held.look_from = now + LOOK_AGAIN_S
            self.call_later(LOOK_AGAIN_S, self.end_turn)
        return count

    def settings_changed(self, settings: BrokerSettings) -> None:
        """What was set for this broker or for all, beyond its file."""
        self._settings = settings
        self._limits.settings_changed(settings)

    def connection_closed(self, connection: Connection) -> None:
        if self._connections.pop(connection.connection_id, None) is None:
            return
        self.per_listener[connection.listener] -= 1
        address = connection.peer.rpartition(":")[0]
        left = self._per_address.get(address, 1) - 1
        if left:
            self._per_address[address] = left
        else:
            self._per_address.pop(address, None)
        self._metrics.connections_now = len(self._connections)
        if self._is_closed and not self._connections:
            self._is_empty.set()
        self._on_connection_closed(connection.info)

    def start_closing_idle(self) -> None:
        """connections.max.idle.ms, checked ten times in that span."""
        idle_ms = self._settings.connections_max_idle_ms
        if idle_ms < 0:
            return
        period_s = max(0.1, min(60.0, idle_ms / 10_000))

        def close_idle_later() -> None:
            oldest = self.monotonic() - idle_ms / 1000
            if any(connection.last_active_at < oldest for connection in self._connections.values()):
                # What has come meanwhile is read first, or a request would be lost that was sent in time.
                self._idle_timer = self._loop.call_later(_LAST_WORDS_S, close, oldest)
            else:
                self._idle_timer = self._loop.call_later(period_s, close_idle_later)

        def close(oldest: float) -> None:
            idle = [
                connection
                for connection in self._connections.values()
                if connection.last_active_at < oldest and connection.is_idle and not connection.is_closing
            ]
            for connection in idle[:CLOSED_A_TURN]:
                self._metrics.connections_idle_closed += 1
                connection.close()
            if len(idle) > CLOSED_A_TURN:
                self._idle_timer = self._loop.call_later(0, close, oldest)
                return
            self._idle_timer = self._loop.call_later(period_s, close_idle_later)

        self._idle_timer = self._loop.call_later(period_s, close_idle_later)

    def close(self) -> None:
        self._is_closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for connection in list(self._connections.values()):
            connection.close()

    async def drained(self) -> None:
        """After `close`: what was answered has left, or its time is up."""
        if any(connection.is_lingering for connection in self._connections.values()):
            with suppress(TimeoutError):
                async with asyncio.timeout(MOST_LINGERING_S):
                    await self._is_empty.wait()

    def abort(self) -> None:
        """What a crash does: nothing more leaves."""
        self._is_closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for connection in list(self._connections.values()):
            connection.abort()

    # --- requests

    def handle_frame(self, connection: Connection, frame: memoryview) -> None:
        metrics = self._metrics
        metrics.requests += 1
        metrics.bytes_in += len(frame)
        try:
            header = headers.decode_request_header(frame)
            api_key, api_version, correlation_id, client_id, body_offset = header
            metrics.requests_by_key[api_key if 0 <= api_key < OTHER_KEYS else OTHER_KEYS] += 1
            handle = self._handle_timed if self._throttles.counts_time else self._handle
            answer = handle(
                Request(
                    api_key, api_version, correlation_id, client_id, frame[body_offset:], connection.info
                ),
                self._now_ms(),
            )
        except Exception as error:
            self.refused(connection, _refusal(frame, error))
            connection.close()
            return
        connection.answer(
            answer,
            correlation_id,
            _has_flexible_header(api_key, api_version),
            api_key not in _SMALL_ANSWERS,
        )

    def handle_again(self, request: HeldRequest, place: Park) -> None:
        """As `handle_frame`; its place in the order of answers is taken already."""
        handle = self._handle_timed if self._throttles.counts_time else self._handle
        place.answer(lambda: handle(request, self._now_ms()))

    def _handle_timed(self, request: Request, now_ms: int) -> Answer:
        began = self.stopwatch_ns()
        answer = self._handle(request, now_ms)
        self._throttles.time_spent(request, self.stopwatch_ns() - began, now_ms)
        return answer

    def refused(self, connection: Connection, refusal: CloseConnection) -> None:
        error = refusal.error
        if error is None:
            self.nonsense(connection, refusal.reason)
            return
        # Our own mistake. The peer asks again on a new connection; the log has the whole story once.
        self._metrics.requests_failed_inside += 1
        self._log.failure(
            f"handling {type(error).__name__}",
            f"a request of {connection.peer} could not be handled: {shown(refusal.reason)}",
            error,
        )

    def nonsense(self, connection: Connection, reason: str) -> None:
        self._metrics.nonsense_frames += 1
        address = connection.peer.rpartition(":")[0]
        self._log.warning(f"nonsense {address}", f"connection from {connection.peer} closed: {shown(reason)}")

    # --- the end of a turn

    def answers_ready(self, connection: Connection) -> None:
        if not connection.is_marked_ready:
            connection.is_marked_ready = True
            self._ready.append(connection)

    def end_turn(self) -> None:
        if self._is_ending_turn:
            return
        self._is_ending_turn = True
        try:
            # Writing may let a connection read on, whose requests may have effects, and so on: until nothing
            # is due.
            while self._drain_effects() or self._ready:
                ready = self._ready
                if ready:
                    self._ready = []
                    ready.reverse()
                    try:
                        while ready:
                            connection = ready.pop()
                            connection.is_marked_ready = False
                            try:
                                connection.flush()
                            except Exception as error:
                                # No memory for what is to leave, or a mistake of ours. Those behind it have answers, too.
                                connection.abort()
                                self.refused(connection, CloseConnection.because(error))
                    finally:
                        if ready:  # there was no memory to tell of it
                            self._ready += reversed(ready)
            if self.unsent.size_bytes > self._most_unsent_bytes:
                self._close_who_does_not_read()
            if self.unhandled.size_bytes > self._most_unhandled_bytes:
                self._close_who_does_not_go_on()
            if self._throttles.changes != self._quotas_seen:
                self._quotas_changed()
            self._turn_over()
        finally:
            self._is_ending_turn = False
            self.turn += 1

    def _quotas_changed(self) -> None:
        """Else whoever has used up a quota that is raised, or removed, would wait on: for weeks, where it was a small one."""
        self._quotas_seen = self._throttles.changes
        is_releasing = bool(self._to_be_released)
        self._to_be_released = [one for one in self._connections.values() if one.is_held_to_quota]
        if self._to_be_released and not is_releasing:
            self.call_later(0, self._release_some)

    def _release_some(self) -> None:
        began_ns = self.stopwatch_ns()
        for _ in range(RELEASED_A_TURN):
            if not self._to_be_released:
                return
            self._to_be_released.pop().release()
            if self.stopwatch_ns() - began_ns >= MOST_TURN_NS:
                break
        if self._to_be_released:
            self.call_later(0, self._release_some)

    def describe(self) -> dict[str, Any]:
        return {
            "connections": len(self._connections),
            **self._metrics.snapshot(),
            **self._throttles.counters,
        }
