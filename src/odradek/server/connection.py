"""One client connection: bytes in, frames to the broker, answers out in the order of the requests.

No task per request: frames are handled in the callback that received them, parked requests keep a slot in the
order of answers and fill it when their time comes, and everything that became ready during one callback
leaves in one write at its end (`ConnectionHost.end_turn`). An acks=all round trip therefore costs no extra
loop turn.

So many frames of one connection are handled in a turn, and for so long, and the others come first then: one read may bring
thousands.

Backpressure in four places. A peer that does not read its answers is not read from (`pause_writing`), and it is closed where
all that is unread takes too much memory (`Gateway._close_who_does_not_read`), as it is where requests that have not come whole
do (`Gateway._close_who_does_not_go_on`). A peer
with too many requests in flight is not read from either, nor is one that is over its quota for as long as it was
told (`mute`), nor one with half a megabyte of answers waiting, for its socket or for the answer before them. Bytes of
segment files leave only when the transport can take them (outgoing.py).

How large an answer will be is not known before it is made, so there are fewer requests in flight whose answers may be
large (`MOST_QUESTIONS`). Apache handles one request of a connection at a time.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from socket import SO_LINGER, SOL_SOCKET
from struct import Struct
from typing import Any, Protocol, cast

from odradek.broker.answers import Answer, CloseConnection, NoReply, Park, Reply
from odradek.client.begun_reading import pause_begun
from odradek.client.frame_protocol import FrameProtocol
from odradek.client.receive_buffers import BufferPool, LargeBuffer
from odradek.model.errors import ProtocolError
from odradek.protocol.primitives import size_of
from odradek.server.freed_memory import LARGE_BYTES, FreedMemory
from odradek.server.outgoing import ENOUGH_BYTES_A_TURN, Outgoing
from odradek.server.unhandled_requests import Unhandled, UnhandledRequests
from odradek.server.unsent_answers import Unsent, UnsentAnswers

LONGEST_MUTED_TIMER_S = 60.0
# How long a connection that closes waits for its peer to read what was answered.
MOST_LINGERING_S = 2.0
MOST_FRAMES_A_TURN = 100
# What takes a millisecond a frame would keep everybody else waiting for a tenth of a second.
MOST_TURN_NS = 10_000_000
# Of 500 requests in flight, those that may be parked with an answer that is larger than they are, and has to be held in
# memory if the peer does not read it: some megabytes each, where there are thousands of topics.
MOST_QUESTIONS = 10
LARGEST_ANSWER_BYTES = 2**31 - 1 - 5  # its size is an int32, and counts the header

_AT_ONCE = Struct("ii").pack(1, 0)  # a `struct linger`
_SIZE_AND_CORRELATION = Struct(">ii")
_SIZE_CORRELATION_AND_NO_TAGS = Struct(">iix")


class ConnectionHost(Protocol):
    """What a connection asks of the process it stands in."""

    pool: BufferPool
    freed: FreedMemory
    unsent: UnsentAnswers
    unhandled: UnhandledRequests
    turn: int  # its number, raised by `end_turn`

    def connection_opened(self, connection: "Connection") -> bool:
        """False refuses the connection."""

    def connection_closed(self, connection: "Connection") -> None: ...

    def handle_frame(self, connection: "Connection", frame: memoryview) -> None:
        """`frame` is valid during the call only. Answers by `connection.answer`, or closes it."""

    def answers_ready(self, connection: "Connection") -> None:
        """Something can be written; `connection.flush()` will be called in `end_turn`."""

    def end_turn(self) -> None:
        """Everything that became due during this callback is done before it returns."""

    def refused(self, connection: "Connection", refusal: CloseConnection) -> None:
        """`nonsense`, or a mistake of ours with its trace."""

    def nonsense(self, connection: "Connection", reason: str) -> None:
        """One rate-limited log line that names the peer."""

    def monotonic(self) -> float: ...

    def stopwatch_ns(self) -> int: ...

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> object: ...


class _Slot:
    """The place of one request in the order of answers."""

    __slots__ = (
        "answer",
        "connection",
        "correlation_id",
        "flexible_header",
        "is_question",
        "park",
        "size_bytes",
    )

    def __init__(self, connection: "Connection", correlation_id: int, flexible_header: bool) -> None:
        self.connection: Connection | None = connection
        self.correlation_id = correlation_id
        self.flexible_header = flexible_header
        self.is_question = False  # parked, and its answer may be large
        self.answer: Reply | NoReply | CloseConnection | None = None
        self.park: Park | None = None
        self.size_bytes = 0  # of an answer that waits for the one before it

    def fill(self, answer: Reply | NoReply | CloseConnection) -> None:
        self.answer = answer
        self.park = None
        connection = self.connection
        if connection is not None:
            connection.slot_filled(self)


class Connection(FrameProtocol):
    """See the module. Attributes without underscore are for the host."""

    # Request header at its shortest: api key, api version, correlation id.
    smallest_frame_bytes = 8

    def __init__(
        self,
        host: ConnectionHost,
        *,
        connection_id: int,
        listener: str,
        max_frame_bytes: int,
        most_in_flight: int = 500,
    ) -> None:
        super().__init__(host.pool, max_frame_bytes=max_frame_bytes)
        self.connection_id = connection_id
        self.listener = listener
        self.peer = "unknown"
        self.descriptor = -1  # of its socket; no network, none
        self.info: Any = None  # broker.request.ConnectionInfo, set by the host
        self.last_active_at = 0.0  # when a request came last, or an answer left
        self.is_lingering = False  # closing, and not all answers have left
        self.is_marked_ready = False  # the host has it in its list of connections to flush

        self._host = host
        self._most_in_flight = most_in_flight
        self._slots: deque[_Slot] = deque()
        self._questions = 0  # parked ones
        self._waiting_bytes = 0  # of answers that wait for the one before them
        self.unsent = Unsent(host.unsent, connection_id)
        self.unhandled = Unhandled(host.unhandled, connection_id)
        self._outgoing = Outgoing(self.unsent)
        self._goes_on_next_turn = False  # with writing, and then with reading: others come first
        self._turn = -1  # that in which a frame came last
        self._turn_began_ns = 0
        self._frames_in_turn = 0
        self._is_reading_paused = False
        self._muted_until: float | None = None
        self.is_held_to_quota = False  # and so muted
        self._releases = 0

    # --- transport callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
        socket = transport.get_extra_info("socket")
        if socket is not None:
            self.descriptor = self.unsent.descriptor = socket.fileno()
        assert self.transport is not None
        self._outgoing.opened(self.transport)
        self.last_active_at = self._host.monotonic()
        if not self._host.connection_opened(self):
            self.close()
        elif self._muted_until is not None:
            self._host.call_later(0, self._pause_begun_reading)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closing = True
        self.is_lingering = False
        self.transport = None
        self._let_go()
        self._host.connection_closed(self)
        self._host.end_turn()

    def _abandon(self) -> None:
        for slot in self._slots:
            slot.connection = None
            if slot.park is not None:
                slot.park.abandon()
            if slot.size_bytes:
                self.unsent.gone(cast(Reply, slot.answer).buffers)
        self._slots.clear()
        self._questions = self._waiting_bytes = 0

    def _let_go(self) -> None:
        waiting = [slot.answer.buffers for slot in self._slots if type(slot.answer) is Reply]
        waiting.append(self._outgoing.buffers())
        large: list[bytes | LargeBuffer] = [
            one for buffers in waiting for one in buffers if type(one) is bytes and len(one) >= LARGE_BYTES
        ]
        if self._large is not None and len(self._large) >= LARGE_BYTES:
            large.append(self._large)
        self.drop_received()
        self.unhandled.hold(0, 0)
        self._abandon()
        self._outgoing.clear()
        self._host.freed.take(large)

    def eof_received(self) -> bool:
        return False  # close: whoever has stopped sending does not wait for our answers

    def pause_writing(self) -> None:
        self._outgoing.is_held_back = True
        self._pause_reading()

    def resume_writing(self) -> None:
        self._outgoing.is_held_back = False
        self._host.answers_ready(self)
        self._host.end_turn()

    # --- receiving

    def frame_received(self, frame: memoryview) -> None:
        host = self._host
        self.last_active_at = host.monotonic()
        if self._turn != host.turn:
            self._turn = host.turn
            self._turn_began_ns = host.stopwatch_ns()
            self._frames_in_turn = 0
        self._frames_in_turn += 1
        host.handle_frame(self, frame)

    def turn_ended(self, read_bytes: int) -> None:
        if self._large is not None or self._rest:
            self.unhandled.came(read_bytes, self._host.monotonic())
            self._count_unhandled()
        elif self.unhandled.size_bytes:
            self.unhandled.hold(0, 0)
        self._host.end_turn()

    def _count_unhandled(self) -> None:
        large, filled = self._large, self._large_filled
        if large is None:
            self.unhandled.hold(len(self._rest), 0)
        else:
            self.unhandled.hold(len(large) if large.was_used else filled, self._large_wanted - filled)

    def may_handle(self) -> bool:
        if (
            self._outgoing.is_held_back
            or self._waiting_bytes + self._outgoing.waiting_bytes >= ENOUGH_BYTES_A_TURN
            or len(self._slots) >= self._most_in_flight
            or self._questions >= MOST_QUESTIONS
            or self._muted_until is not None
        ):
            self._pause_reading()
            return False
        if self._turn == self._host.turn and (
            self._frames_in_turn >= MOST_FRAMES_A_TURN
            or self._host.stopwatch_ns() - self._turn_began_ns >= MOST_TURN_NS
        ):
            self._pause_reading()
            self._put_off()
            return False
        return True

    def _hold_to_quota(self, throttle_time_ms: int) -> None:
        """Its client has used up a quota (KIP-219)."""
        self.is_held_to_quota = True
        self.mute(throttle_time_ms / 1000)

    def release(self) -> None:
        """Quotas have changed: it is read on, and what comes is held to those that there are now."""
        if self.is_held_to_quota and self._muted_until is not None:
            self._releases += 1
            self._muted_until = self._host.monotonic()
            self._unmute()

    def mute(self, delay_s: float) -> None:
        """Nothing more is read from it for so long."""
        until = self._host.monotonic() + delay_s
        if self._muted_until is None:
            self._wait_muted(delay_s)
        if self._muted_until is None or until > self._muted_until:
            self._muted_until = until
            self._pause_reading()

    def _wait_muted(self, delay_s: float) -> None:
        """Looks again now and then: a quota may mute for weeks, and a timer keeps a closed connection in memory."""
        self._host.call_later(
            min(delay_s, LONGEST_MUTED_TIMER_S), partial(self._unmute_unless_released, self._releases)
        )

    def _unmute_unless_released(self, releases: int) -> None:
        if releases == self._releases:
            self._unmute()

    def _unmute(self) -> None:
        if self._muted_until is None or self.is_closing:
            return
        left_s = self._muted_until - self._host.monotonic()
        if left_s > 0.001:  # muted anew in between; a clock of microseconds, a timer of milliseconds
            self._wait_muted(left_s)
            return
        self._muted_until = None
        self.is_held_to_quota = False
        self._host.answers_ready(self)
        self._host.end_turn()

    def _pause_reading(self) -> None:
        if self.transport is None or self.is_closing:
            return
        if not self._is_reading_paused:
            self._is_reading_paused = True
            self.transport.pause_reading()

    def _pause_begun_reading(self) -> None:
        if self._is_reading_paused and self.transport is not None and not self.is_closing:
            pause_begun(self.transport)

    def _resume_reading(self) -> None:
        """Called from `flush`, so `end_turn` is already running."""
        may_read_on = self.take_up_waiting_frames()
        self._count_unhandled()
        if may_read_on and self.transport is not None:
            self._is_reading_paused = False
            self.transport.resume_reading()

    def size_refused(self, size: int) -> None:
        self._host.nonsense(
            self,
            f"a frame of {size} bytes; {self.smallest_frame_bytes} to {self.max_frame_bytes} "
            "would have worked",
        )
        self.close()

    # --- answering

    def answer(self, answer: Answer, correlation_id: int, flexible_header: bool, may_be_large: bool) -> None:
        """What the broker said to one request; called during `handle_frame`."""
        if type(answer) is Reply and not self._slots:
            self._emit(answer, correlation_id, flexible_header)
            return
        if type(answer) is NoReply and not self._slots:
            if answer.throttle_time_ms:
                self._hold_to_quota(answer.throttle_time_ms)
            return
        slot = _Slot(self, correlation_id, flexible_header)
        self._slots.append(slot)
        if type(answer) is Park:
            slot.park = answer
            if may_be_large:
                slot.is_question = True
                self._questions += 1
            answer.on_complete(slot.fill)
        else:
            slot.fill(cast("Reply | NoReply | CloseConnection", answer))

    def slot_filled(self, slot: _Slot) -> None:
        slots = self._slots
        if slot.is_question:
            slot.is_question = False
            self._questions -= 1
        if slots[0] is not slot and type(slot.answer) is Reply:
            slot.size_bytes = size_of(slot.answer.buffers)
            if slot.size_bytes:
                self._waiting_bytes += slot.size_bytes
                if not self.unsent.size_bytes:
                    self.unsent.begin(self._host.monotonic())
                self.unsent.come(slot.answer.buffers)
        while slots:
            answer = slots[0].answer
            if answer is None:
                break
            done = slots.popleft()
            done.connection = None
            if done.size_bytes:
                self._waiting_bytes -= done.size_bytes
                self.unsent.gone(cast(Reply, answer).buffers)
            if type(answer) is Reply:
                self._emit(answer, done.correlation_id, done.flexible_header)
            elif type(answer) is NoReply:
                if answer.throttle_time_ms:
                    self._hold_to_quota(answer.throttle_time_ms)
            elif type(answer) is CloseConnection:
                self._host.refused(self, answer)
                self.close()
                return
        if self._is_reading_paused and not self.is_marked_ready:
            self._host.answers_ready(self)

    def _emit(self, reply: Reply, correlation_id: int, flexible_header: bool) -> None:
        buffers = reply.buffers
        size = size_of(buffers)
        if size > LARGEST_ANSWER_BYTES:
            self._host.nonsense(self, f"an answer of {size} bytes, the wire allows {LARGEST_ANSWER_BYTES}")
            self.close()
            return
        if flexible_header:
            header = _SIZE_CORRELATION_AND_NO_TAGS.pack(size + 5, correlation_id)
        else:
            header = _SIZE_AND_CORRELATION.pack(size + 4, correlation_id)
        self._outgoing.add(header, buffers, size + len(header))
        if reply.throttle_time_ms:
            self._hold_to_quota(reply.throttle_time_ms)
        if not self.is_marked_ready:
            self._host.answers_ready(self)

    def flush(self) -> None:
        """Writes what is ready, as far as the transport takes it; then reads on if reading had stopped."""
        if self.is_closing:
            if self.is_lingering:
                self._leave()
            return
        self._write_outgoing()
        if self._is_reading_paused and not self.is_closing and not self._goes_on_next_turn:
            self._resume_reading()

    def _write_outgoing(self) -> None:
        unsent, before = self.unsent, self._outgoing.waiting_bytes
        if before:
            self.last_active_at = self._host.monotonic()
        waited_before = unsent.size_bytes > 0
        try:
            if self._outgoing.write():
                self._put_off()
        except ProtocolError as error:
            # The size stands in the frame already, so this answer cannot be mended. The peer asks again.
            self._host.nonsense(self, f"an answer cannot be finished: {error}")
            self._outgoing.drop()
            self.close()  # or, where it was closing already, whoever called sees that nothing is left
        if unsent.size_bytes:
            left = before - self._outgoing.waiting_bytes
            if not waited_before:
                unsent.begin(self.last_active_at)
            elif left:
                unsent.left(left, self.last_active_at)

    def _put_off(self) -> None:
        if not self._goes_on_next_turn:
            self._goes_on_next_turn = True
            self._host.call_later(0.0, self._go_on)

    def _go_on(self) -> None:
        self._goes_on_next_turn = False
        if not self.is_closing or self.is_lingering:
            self._host.answers_ready(self)
            self._host.end_turn()

    def close(self) -> None:
        """Nothing more is read, and nobody waits for an answer any more. Those that are complete leave first, for
        `MOST_LINGERING_S`: a peer that does not read them does not keep the connection."""
        if self.is_closing:
            return
        self._abandon()
        self.is_closing = self.is_lingering = True
        self._leave()
        if self.is_lingering and self.transport is not None:
            if self.transport.is_reading():
                self.transport.pause_reading()
            self._host.call_later(MOST_LINGERING_S, self._leave_at_once)

    def _leave(self) -> None:
        self._write_outgoing()
        if not (self._outgoing.waiting_bytes or self._outgoing.is_held_back):
            self.is_lingering = False
            if self.transport is not None:
                self.transport.close()

    def _leave_at_once(self) -> None:
        if self.transport is not None:
            self.abort()

    def abort(self) -> None:
        self.is_closing = True
        self.is_lingering = False
        self._let_go()
        if self.transport is not None:
            self.transport.abort()

    def reset(self) -> None:
        """`abort`, and what the kernel has for a peer that does not read goes as well."""
        connected = None if self.transport is None else self.transport.get_extra_info("socket")
        if connected is not None:
            with suppress(OSError):  # the peer has gone
                connected.setsockopt(SOL_SOCKET, SO_LINGER, _AT_ONCE)
        self.abort()

    @property
    def requests_in_flight(self) -> int:
        return len(self._slots)

    @property
    def is_idle(self) -> bool:
        """Nobody but the peer keeps it. Answers may wait for their socket: each piece that leaves is a sign of life, and a
        peer that reads none gives no other."""
        return not self._slots
