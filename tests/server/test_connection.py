"""Frames in, answers out in order, backpressure: without a network and without a broker."""

import random
import struct
import sys
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from odradek.broker.answers import NO_REPLY, Answer, CloseConnection, NoReply, Park, Reply
from odradek.client.receive_buffers import SMALL_FRAME_BYTES, BufferPool, LargeBuffer
from odradek.log.files import FileSlice, OsDirectory
from odradek.server import freed_memory
from odradek.server.connection import (
    MOST_FRAMES_A_TURN,
    MOST_LINGERING_S,
    MOST_QUESTIONS,
    MOST_TURN_NS,
    Connection,
)
from odradek.server.freed_memory import LARGE_BYTES, FreedMemory
from odradek.server.outgoing import ENOUGH_BYTES_A_TURN, WRITE_CHUNK_BYTES
from odradek.server.unhandled_requests import UnhandledRequests
from odradek.server.unsent_answers import UnsentAnswers
from tests.server.memory_transport import MemoryTransport, connect

ECHO, PARK, SILENT, CLOSE, FILE, THROTTLE, SILENT_THROTTLE, ASK = range(8)


class FileBytes:
    """Bytes that still lie in a file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size_bytes = len(data)
        self.read_bytes = 0

    def read_piece(self, start: int, size: int) -> bytes:
        self.read_bytes += size
        return self.data[start : start + size]

    def send_to(self, descriptor: int, start: int, size: int) -> int:
        raise AssertionError("there is no socket")


class Host:
    """Answers a request by its api key; the version field is unused, the body is echoed."""

    def __init__(self) -> None:
        self.pool = BufferPool()
        self.freed = FreedMemory(lambda delay_s, callback: self.call_later(delay_s, callback))
        self.unsent = UnsentAnswers()
        self.unhandled = UnhandledRequests()
        self.turn = 0
        self.frame_takes_ns = 0
        self.frames: list[bytes] = []
        self.parked: list[Park] = []
        self.files: list[FileBytes] = []
        self.complaints: list[str] = []
        self.ready: list[Connection] = []
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.closed: list[Connection] = []
        self.file_bytes = b""

    def connection_opened(self, connection: Connection) -> bool:
        return True

    def connection_closed(self, connection: Connection) -> None:
        self.closed.append(connection)

    def handle_frame(self, connection: Connection, frame: memoryview) -> None:
        api_key, _, correlation_id = struct.unpack_from(">hhi", frame)
        body = bytes(frame[8:])
        self.frames.append(body)
        connection.answer(self.decide(api_key, body), correlation_id, False, api_key == ASK)

    def decide(self, api_key: int, body: bytes) -> Answer:
        if api_key in (PARK, ASK):
            self.parked.append(Park())
            return self.parked[-1]
        if api_key == SILENT:
            return NO_REPLY
        if api_key == CLOSE:
            return CloseConnection("asked to")
        if api_key == SILENT_THROTTLE:
            return NoReply(throttle_time_ms=3_000)
        if api_key == THROTTLE:
            return Reply([body], throttle_time_ms=3_000)
        if api_key == FILE:
            self.files.append(FileBytes(self.file_bytes))
            return Reply([b"head", self.files[-1]])
        return Reply([body])

    def answers_ready(self, connection: Connection) -> None:
        if not connection.is_marked_ready:
            connection.is_marked_ready = True
            self.ready.append(connection)

    def end_turn(self) -> None:
        while self.ready:
            connection = self.ready.pop()
            connection.is_marked_ready = False
            connection.flush()
        self.turn += 1

    def refused(self, connection: Connection, refusal: CloseConnection) -> None:
        self.nonsense(connection, refusal.reason)

    def nonsense(self, connection: Connection, reason: str) -> None:
        self.complaints.append(f"{connection.peer}: {reason}")

    def monotonic(self) -> float:
        return self.now

    def stopwatch_ns(self) -> int:
        return len(self.frames) * self.frame_takes_ns

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.timers.append((self.now + delay_s, callback))

    def turns_pass(self) -> None:
        """What was put off to the next turn of the loop happens, and what that puts off."""
        while any(at <= self.now for at, _ in self.timers):
            self.advance(0)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for timer in self.timers if timer[0] <= self.now]
        self.timers = [timer for timer in self.timers if timer[0] > self.now]
        for _, callback in due:
            callback()


def frame(correlation_id: int, body: bytes = b"", kind: int = ECHO) -> bytes:
    return struct.pack(">ihhi", 8 + len(body), kind, 0, correlation_id) + body


def answers(data: bytes | bytearray) -> Iterator[tuple[int, bytes]]:
    position = 0
    while position < len(data):
        size, correlation_id = struct.unpack_from(">ii", data, position)
        yield correlation_id, bytes(data[position + 8 : position + 4 + size])
        position += 4 + size


def make(
    *, high_water_bytes: int = 1 << 62, most_in_flight: int = 500, host: Host | None = None
) -> tuple[Host, Connection, MemoryTransport]:
    host = host or Host()
    connection = Connection(
        host, connection_id=1, listener="PLAINTEXT", max_frame_bytes=1 << 24, most_in_flight=most_in_flight
    )
    return host, connection, connect(connection, high_water_bytes=high_water_bytes)


def test_frames_that_arrive_together_are_handled_in_one_turn_and_answered_by_one_write() -> None:
    _, _, transport = make()

    transport.feed(frame(1, b"a") + frame(2, b"b") + frame(3, b"c"))

    assert list(answers(transport.written)) == [(1, b"a"), (2, b"b"), (3, b"c")]
    assert transport.write_calls == 1


@pytest.mark.parametrize("at_a_time", [1, 3, 7, 100, 4096, 65536, None])
def test_frames_of_any_size_come_whole_however_the_bytes_are_cut(at_a_time: int | None) -> None:
    host, _, transport = make()
    random_bytes = random.Random(7)
    sizes = [
        0,
        1,
        3,
        100,
        SMALL_FRAME_BYTES - 9,
        SMALL_FRAME_BYTES,
        SMALL_FRAME_BYTES + 1,
        200_000,
        5,
        0,
        131_072,
    ]
    if at_a_time is not None and at_a_time < 100:
        sizes = [size for size in sizes if size < 20_000]
    bodies = [random_bytes.randbytes(size) for size in sizes]

    transport.feed(b"".join(frame(n, body) for n, body in enumerate(bodies)), at_a_time=at_a_time)

    assert host.frames == bodies
    assert list(answers(transport.written)) == list(enumerate(bodies))


def test_a_frame_of_many_reads_comes_whole_and_the_next_one_too() -> None:
    host, _, transport = make()
    body = random.Random(1).randbytes(9_000_000)

    transport.feed(frame(1, body) + frame(2, b"next"), at_a_time=262_144)
    host.turns_pass()

    assert host.frames == [body, b"next"]


def test_buffers_of_usual_frames_are_used_again() -> None:
    host, _, transport = make()
    for number in range(5):
        transport.feed(frame(number, bytes(1_000_000)))
        host.turns_pass()
    (kept,) = host.pool._kept

    assert 1_000_000 < len(kept) < 1_200_000
    transport.feed(frame(9, bytes(20_000_000)))
    assert host.pool._kept == [kept], "what is unusually large is given back to the system"


def test_the_buffer_of_a_frame_that_never_came_whole_is_given_back_to_the_system() -> None:
    """Connections are reset where such take too much: the next frame would begin with what has just been freed."""
    host, connection, transport = make()
    transport.feed(frame(1, bytes(1_000_000))[:500_000])
    transport.protocol.connection_lost(None)

    assert connection._large is None
    assert not host.pool._kept


def test_answers_leave_in_the_order_of_requests_even_when_the_first_comes_last() -> None:
    host, _, transport = make()
    transport.feed(
        frame(1, kind=PARK) + frame(2, b"two") + frame(3, kind=PARK) + frame(4, kind=SILENT) + frame(5, b"5")
    )
    assert transport.written == b""

    host.parked[1].complete(Reply([b"three"]))
    host.end_turn()
    assert transport.written == b""

    host.parked[0].complete(Reply([b"one"]))
    host.end_turn()

    assert list(answers(transport.written)) == [(1, b"one"), (2, b"two"), (3, b"three"), (5, b"5")]
    assert transport.write_calls == 1


def test_what_is_large_of_connections_that_go_is_freed_one_in_a_turn() -> None:
    """The kernel takes 10 ms to take 50 MB back. Four connections that went at one moment gave theirs back in one turn."""
    host = Host()
    transports = [make(high_water_bytes=0, host=host)[2] for _ in range(2)]
    for transport, count in zip(transports, (3, 2), strict=True):
        transport.feed(b"".join(frame(n, kind=PARK) for n in range(count)))
    there = [bytes(LARGE_BYTES + n) for n in range(5)]
    for place in reversed(range(5)):
        host.parked[place].complete(Reply([there[place]]))
    host.parked.clear()
    host.end_turn()
    _, unfinished, begun = make(host=host)
    begun.feed(frame(1, bytes(2 * LARGE_BYTES))[:-1])
    assert unfinished._large is not None
    received = weakref.ref(unfinished._large)

    def held() -> int:
        answers = sum(sys.getrefcount(there[place]) > sys.getrefcount(bytes(1)) + 1 for place in range(5))
        return answers + (received() is not None)

    assert held() == 6
    for transport in (*transports, begun):
        transport.protocol.connection_lost(None)
    left = [held()]
    while host.timers:
        host.advance(0)
        left.append(held())
    assert left == [6, 5, 4, 3, 2, 1, 0]


def test_what_is_large_of_connections_that_go_is_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many go in a turn: 200 at a time, with 1.5 MB each, left the broker with 8.6 GB after eight seconds."""
    monkeypatch.setattr(freed_memory, "MOST_BYTES", 4 * LARGE_BYTES)
    host = Host()
    gone: list[weakref.ref[LargeBuffer]] = []

    def go(size_bytes: int) -> None:
        _, connection, transport = make(host=host)
        transport.feed(frame(1, bytes(size_bytes))[:-1])
        assert connection._large is not None
        gone.append(weakref.ref(connection._large))
        transport.protocol.connection_lost(None)

    for size_bytes in (LARGE_BYTES, 5 * LARGE_BYTES, LARGE_BYTES, LARGE_BYTES, LARGE_BYTES):
        go(size_bytes)
    assert [ref() is not None for ref in gone] == [True, False, True, True, False]
    while host.timers:
        host.advance(0)
    assert [ref() for ref in gone] == [None] * 5

    go(LARGE_BYTES // 2)
    go(5 * LARGE_BYTES)
    assert not host.timers and gone[-2]() is None and gone[-1]() is None
    go(LARGE_BYTES)
    assert gone[-1]() is not None
    host.advance(0)
    assert gone[-1]() is None


def test_a_parked_request_without_answer_leaves_no_gap() -> None:
    host, connection, transport = make()
    transport.feed(frame(1, kind=PARK) + frame(2, b"two"))

    host.parked[0].complete(NO_REPLY)
    host.end_turn()

    assert list(answers(transport.written)) == [(2, b"two")]
    assert connection.requests_in_flight == 0


def test_a_connection_closed_by_an_answer_still_sends_the_answers_before_it() -> None:
    host, _, transport = make()

    transport.feed(frame(1, b"one") + frame(2, kind=CLOSE) + frame(3, b"never"))

    assert list(answers(transport.written)) == [(1, b"one")]
    assert transport.was_closed
    assert host.frames == [b"one", b""]
    assert host.complaints == ["127.0.0.1:40001: asked to"]


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 7, (1 << 24) + 1, 2**31 - 1])
def test_a_length_that_cannot_be_closes_the_connection_with_one_line(size: int) -> None:
    host, _, transport = make()

    transport.feed(frame(1, b"fine") + struct.pack(">i", size) + b"x" * 50)

    assert transport.was_closed
    assert list(answers(transport.written)) == [(1, b"fine")]
    assert host.complaints == [f"127.0.0.1:40001: a frame of {size} bytes; 8 to {1 << 24} would have worked"]


def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    host, _, transport = make(high_water_bytes=5_000)
    data = b"".join(frame(n, bytes(100)) for n in range(10_000))

    taken = transport.feed(data)

    # One read's worth of frames was answered into a full transport; then both sides rest.
    assert not transport.is_reading_allowed
    assert taken < len(data)
    handled = len(host.frames)
    assert handled < 10_000
    host.end_turn()
    assert len(host.frames) == handled, "nothing more is handled while nothing is read"

    while len(host.frames) < 10_000:
        transport.peer_reads()
        host.turns_pass()
        taken += transport.feed(data[taken:])
    transport.peer_reads()

    assert [correlation_id for correlation_id, _ in answers(transport.written)] == list(range(10_000))


@pytest.mark.parametrize("count", [MOST_FRAMES_A_TURN, MOST_FRAMES_A_TURN + 1, 5 * MOST_FRAMES_A_TURN + 7])
def test_so_many_frames_of_one_read_are_handled_in_a_turn_and_the_others_in_the_next_ones(count: int) -> None:
    """The smallest request has eight bytes: a read may bring ten thousand of them."""
    host, _, transport = make()
    transport.feed(b"".join(frame(n) for n in range(count)))
    handled = [0, len(host.frames)]
    assert transport.is_reading_allowed is (count == MOST_FRAMES_A_TURN)

    while host.timers:
        host.advance(0)
        handled.append(len(host.frames))
    assert max(after - before for before, after in pairwise(handled)) == MOST_FRAMES_A_TURN
    assert [number for number, _ in answers(transport.written)] == list(range(count))
    assert transport.is_reading_allowed


def test_frames_that_take_long_are_fewer_a_turn() -> None:
    host, _, transport = make()
    host.frame_takes_ns = MOST_TURN_NS // 4
    transport.feed(b"".join(frame(n) for n in range(9)))
    handled = [len(host.frames)]
    while host.timers:
        host.advance(0)
        handled.append(len(host.frames))
    assert handled == [4, 8, 9]
    assert transport.is_reading_allowed

    transport.feed(frame(9))
    transport.feed(b"".join(frame(n) for n in range(10, 14)))
    assert transport.is_reading_allowed, "each read is a turn of its own"
    assert [number for number, _ in answers(transport.written)] == list(range(14))


def test_a_connection_that_closes_with_frames_put_off_is_let_go() -> None:
    host, connection, transport = make()
    transport.feed(b"".join(frame(n) for n in range(2 * MOST_FRAMES_A_TURN)))
    connection.connection_lost(None)
    host.turns_pass()

    assert len(host.frames) == MOST_FRAMES_A_TURN


def test_requests_in_flight_are_bounded_and_reading_goes_on_when_they_are_answered() -> None:
    host, connection, transport = make(most_in_flight=10)
    data = b"".join(frame(n, bytes(30_000) if n % 7 == 0 else b"x", kind=PARK) for n in range(100))

    taken = transport.feed(data)
    assert connection.requests_in_flight == 10
    assert not transport.is_reading_allowed

    answered = 0
    while answered < 100:
        host.parked[answered].complete(Reply([b"%d" % answered]))
        answered += 1
        host.end_turn()
        assert connection.requests_in_flight <= 10
        taken += transport.feed(data[taken:])

    assert list(answers(transport.written)) == [(n, b"%d" % n) for n in range(100)]


def test_answers_behind_a_parked_one_are_bounded_and_reading_goes_on_when_it_is_answered() -> None:
    """A long poll in front, and behind it questions of some bytes with answers of many."""
    host, connection, transport = make()
    host.file_bytes = bytes(100_000)
    data = frame(0, kind=PARK) + b"".join(frame(n, kind=FILE) for n in range(1, 400))
    assert transport.feed(data) == len(data)
    assert len(host.files) == -(-ENOUGH_BYTES_A_TURN // 100_004)
    assert not transport.is_reading_allowed

    host.parked[0].complete(Reply([b"at last"]))
    host.end_turn()
    host.turns_pass()
    assert [number for number, _ in answers(transport.written)] == list(range(400))
    assert transport.is_reading_allowed
    assert connection._waiting_bytes == 0


def test_questions_whose_answers_take_time_and_may_be_large_are_few_at_a_time() -> None:
    host, connection, transport = make()
    data = frame(0, kind=PARK) + b"".join(frame(n, kind=ASK) for n in range(1, 100))
    assert transport.feed(data) == len(data)
    assert len(host.parked) == 1 + MOST_QUESTIONS
    assert not transport.is_reading_allowed

    # The place of each that is answered is another's, until half a megabyte waits.
    for number in range(1, 5):
        assert len(host.parked) == MOST_QUESTIONS + number
        host.parked[number].complete(Reply([bytes(ENOUGH_BYTES_A_TURN // 4)]))
        host.end_turn()
    assert len(host.parked) == MOST_QUESTIONS + 4

    host.parked[0].complete(Reply([b"at last"]))
    for number in range(5, 100):
        host.end_turn()
        host.turns_pass()
        assert len(host.parked) <= number + MOST_QUESTIONS
        host.parked[number].complete(Reply([b""]))
    host.end_turn()
    assert [number for number, _ in answers(transport.written)] == list(range(100))
    assert transport.is_reading_allowed
    assert (connection._questions, connection._waiting_bytes) == (0, 0)


def test_what_a_lost_connection_had_asked_counts_no_more() -> None:
    host, connection, transport = make()
    transport.feed(frame(0, kind=ASK) + frame(1, bytes(1_000)))
    connection.connection_lost(None)
    host.parked[0].complete(Reply([b"too late"]))
    assert (connection._questions, connection._waiting_bytes) == (0, 0)


def test_a_client_that_has_used_up_its_quota_is_answered_and_not_read_from_for_a_while() -> None:
    """KIP-219: it hears how long, and the broker does not rely on it."""
    host, _, transport = make()
    assert transport.feed(frame(1, b"a", THROTTLE) + frame(2, b"b") + frame(3, b"c")) > 0
    assert list(answers(transport.written)) == [(1, b"a")]
    assert not transport.is_reading_allowed
    host.advance(2.9)
    assert host.frames == [b"a"]
    host.advance(0.2)
    assert [body for _, body in answers(transport.written)] == [b"a", b"b", b"c"]
    assert transport.is_reading_allowed


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "behind a parked one"])
def test_a_producer_that_wants_no_answer_is_held_up_as_well(waits: bool) -> None:
    """acks=0: it is not told, only not read from."""
    host, _, transport = make()
    if waits:
        transport.feed(frame(1, kind=PARK) + frame(2, kind=SILENT_THROTTLE))
        assert transport.is_reading_allowed
        host.parked[0].complete(NO_REPLY)
        host.end_turn()
    else:
        transport.feed(frame(2, kind=SILENT_THROTTLE) + frame(3, b"c"))
    assert not transport.is_reading_allowed
    host.advance(2.9)
    assert host.frames == ([b"", b""] if waits else [b""])
    host.advance(0.2)
    if waits:
        transport.feed(frame(3, b"c"))
    assert list(answers(transport.written)) == [(3, b"c")]
    assert transport.is_reading_allowed


def test_the_longer_of_two_pauses_counts_and_the_end_of_a_closed_connection_does_nothing() -> None:
    host, connection, transport = make()
    connection.mute(1.0)
    connection.mute(3.0)
    connection.mute(2.0)
    host.advance(2.5)
    assert not transport.is_reading_allowed
    host.advance(1.0)
    assert transport.is_reading_allowed
    connection.mute(1.0)
    connection.connection_lost(None)
    host.advance(2.0)


def test_who_was_released_is_held_for_as_long_as_the_next_quota_says() -> None:
    """And not for what was left of the pause before."""
    host, connection, transport = make()
    transport.feed(frame(1, b"a", kind=THROTTLE))
    host.advance(1.0)
    connection.release()
    assert transport.is_reading_allowed
    transport.feed(frame(2, b"b", kind=THROTTLE))
    host.advance(2.5)
    assert not transport.is_reading_allowed and len(host.timers) == 1
    host.advance(0.6)
    assert transport.is_reading_allowed and host.timers == []


def test_a_long_pause_is_kept_and_a_closed_connection_is_not_kept_for_it() -> None:
    host, connection, transport = make()
    connection.mute(1_000_000.0)
    for _ in range(100):
        host.advance(60.0)
        assert len(host.timers) == 1 and not transport.is_reading_allowed
    connection.connection_lost(None)
    host.advance(60.0)
    assert host.timers == []
    host, connection, transport = make()
    connection.mute(150.0)
    for _ in range(2):
        host.advance(60.0)
    host.advance(29.0)
    assert not transport.is_reading_allowed
    host.advance(1.0)
    assert transport.is_reading_allowed and host.timers == []


def test_bytes_of_files_are_read_only_when_the_transport_can_take_them() -> None:
    host, _, transport = make(high_water_bytes=WRITE_CHUNK_BYTES)
    host.file_bytes = bytes(WRITE_CHUNK_BYTES + 1)

    transport.feed(b"".join(frame(n, kind=FILE) for n in range(5)))

    read_bytes = sum(file.read_bytes for file in host.files)
    assert WRITE_CHUNK_BYTES < read_bytes + 8 <= 2 * WRITE_CHUNK_BYTES, "no more than was written"
    while transport.unread_bytes:
        transport.peer_reads()
        host.turns_pass()
    assert [file.read_bytes for file in host.files] == [WRITE_CHUNK_BYTES + 1] * 5
    assert [len(body) for _, body in answers(transport.written)] == [4 + WRITE_CHUNK_BYTES + 1] * 5


def test_a_segment_that_became_shorter_closes_the_connection_instead_of_sending_other_bytes(
    tmp_path: Path,
) -> None:
    file = OsDirectory.create(str(tmp_path)).open("00000000000000000000.log", create=True)
    file.append(b"short")
    host, _, transport = make()
    host.decide = lambda key, body: Reply([FileSlice(file, 0, 500)]) if key == FILE else Reply([body])  # type: ignore[method-assign]

    transport.feed(frame(1, b"fine") + frame(2, kind=FILE) + frame(3, b"never"))

    assert transport.was_closed
    assert "500 bytes at 0 wanted, 5 are there" in host.complaints[0]
    assert b"short" not in transport.written


def test_a_lost_connection_abandons_what_it_had_parked() -> None:
    host, connection, transport = make()
    transport.feed(frame(1, kind=PARK))

    connection.connection_lost(None)

    assert host.parked[0].abandoned
    host.parked[0].complete(Reply([b"too late"]))
    host.end_turn()
    assert transport.written == b""
    assert host.closed == [connection]


def test_a_handler_may_write_into_its_frame() -> None:
    """The log stamps offsets in place, also in frames that had to wait."""
    host, _, transport = make(most_in_flight=1)
    writable: list[bool] = []
    original = host.handle_frame

    def handle(connection: Connection, view: memoryview) -> None:
        writable.append(not view.readonly)
        original(connection, view)

    host.handle_frame = handle  # type: ignore[method-assign]
    transport.feed(frame(1, kind=PARK) + frame(2) + frame(3, bytes(50_000)))
    host.parked[0].complete(Reply([b""]))
    host.end_turn()

    assert writable == [True, True, True]


def test_a_segment_cut_while_its_bytes_waited_closes_the_connection(tmp_path: Path) -> None:
    """What stands there now was written by another leader; with records of one size it would even fit."""
    file = OsDirectory.create(str(tmp_path)).open("00000000000000000000.log", create=True)
    file.append(b"of the old leader")
    old = FileSlice(file, 0, 17)
    file.truncate(3)
    file.append(b"another history")
    assert file.size_bytes > 17
    host, _, transport = make()
    host.decide = lambda key, body: Reply([old])  # type: ignore[method-assign]

    transport.feed(frame(1))

    assert transport.was_closed
    assert b"another" not in transport.written
    assert "cut since 17 bytes at 0 were wanted" in host.complaints[0]
    assert FileSlice(file, 0, 18).read() == b"of another history"


def test_answers_that_are_complete_leave_before_a_connection_closes() -> None:
    host, connection, transport = make(high_water_bytes=WRITE_CHUNK_BYTES)
    host.file_bytes = bytes(3 * WRITE_CHUNK_BYTES)
    transport.feed(b"".join(frame(n, kind=FILE) for n in range(4)) + frame(4, kind=PARK))

    connection.close()
    assert not transport.was_closed and not transport.is_reading_allowed
    while not transport.was_closed:
        transport.peer_reads()
        host.turns_pass()

    found = [(number, len(body)) for number, body in answers(transport.written)]
    assert found == [(number, 4 + 3 * WRITE_CHUNK_BYTES) for number in range(len(host.files))] and found
    host.advance(10)
    assert not host.timers


def test_whoever_has_no_answer_yet_when_a_connection_closes_gets_none() -> None:
    """One behind it would come in its place."""
    host, connection, transport = make(high_water_bytes=WRITE_CHUNK_BYTES)
    host.file_bytes = bytes(3 * WRITE_CHUNK_BYTES)
    transport.feed(frame(1, kind=FILE) + frame(2, kind=PARK) + frame(3, kind=PARK))

    connection.close()
    assert [park.abandoned for park in host.parked] == [True] * len(host.parked)
    for park in reversed(host.parked):
        park.complete(Reply([b"late"]))
    while not transport.was_closed:
        transport.peer_reads()
        host.turns_pass()
    assert [number for number, _ in answers(transport.written)] == [1]


def test_a_peer_that_reads_nothing_does_not_keep_a_connection_that_closes() -> None:
    host, connection, transport = make(high_water_bytes=WRITE_CHUNK_BYTES)
    host.file_bytes = bytes(3 * WRITE_CHUNK_BYTES)
    transport.feed(frame(1, kind=FILE))

    connection.close()
    host.advance(MOST_LINGERING_S / 2)
    assert not transport.was_closed
    host.advance(MOST_LINGERING_S)
    assert transport.was_closed
