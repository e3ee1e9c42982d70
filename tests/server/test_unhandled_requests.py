"""What requests that have not come whole take, over all connections: counted as it is, bounded, and whose go."""

import asyncio
import logging
import random
import struct
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.request import Request
from odradek.client.receive_buffers import SMALL_FRAME_BYTES
from odradek.server.connection import MOST_QUESTIONS
from odradek.server.unhandled_requests import LEAST_CAME_BYTES, SPAN_S, Unhandled, UnhandledRequests
from odradek.sim.observed.burden import unhandled_bytes
from tests.server.door import StoppedDoor, request
from tests.server.memory_transport import MemoryTransport, connect

MIB = 1 << 20
MOST = 10 * MIB
FRAME = 4 * MIB


class Peer:
    numbers = count(1)

    def __init__(self, room: "Room", listener: str = "PLAINTEXT") -> None:
        self.room = room
        self.connection = room.gateway.make_connection(listener)
        self.transport: MemoryTransport = connect(self.connection)
        self.left = b""  # of the request that it is sending

    def begin(self, size: int = FRAME) -> "Peer":
        self.left = request(next(self.numbers), body=bytes(size))
        return self

    def send(self, size: int) -> "Peer":
        taken = self.transport.feed(self.left[:size], at_a_time=256 * 1024)
        self.left = self.left[taken:]
        return self

    @property
    def is_closed(self) -> bool:
        return self.transport.was_closed


class Room(StoppedDoor):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.gateway._most_unhandled_bytes = MOST

    def handle(self, request: Request, now_ms: int) -> Answer:
        return self.decide(request)

    @property
    def counted(self) -> int:
        return self.gateway.unhandled.size_bytes

    @property
    def held(self) -> int:
        return unhandled_bytes(self.gateway)

    @property
    def closed_count(self) -> int:
        return self.metrics.connections_unfinished_closed


@pytest.fixture
def room() -> Iterator[Room]:
    loop = asyncio.new_event_loop()
    yield Room(loop)
    loop.close()


def test_requests_that_do_not_come_whole_have_a_bound_over_all_connections(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    peers = []
    for _ in range(20):
        peers.append(Peer(room).begin().send(FRAME))
        room.now += 3 * SPAN_S
        assert room.counted == room.held <= MOST

    closed = [peer.is_closed for peer in peers]
    assert sum(closed) == room.closed_count == 18
    assert not peers[-1].is_closed, "it has just come"
    line = next(record for record in caplog.records if record.levelno == logging.WARNING)
    assert "4 MiB of requests have not come whole" in line.getMessage()


def test_nobody_is_closed_while_there_is_room(room: Room) -> None:
    peers = [Peer(room).begin().send(MOST // 4) for _ in range(4)]
    room.now += 500.0
    room.gateway.end_turn()
    assert not any(peer.is_closed for peer in peers)


def test_who_sends_slowly_stays_where_others_send_most_of_a_request_and_nothing_more(room: Room) -> None:
    """Also nothing but a byte now and then, or the last byte only."""
    slow = Peer(room).begin(2 * MIB)
    dead: list[Peer] = []
    for number in range(400):
        room.now += 0.1
        slow.send(5_000)
        for peer in dead:
            if not peer.is_closed:
                peer.send(1 if len(peer.left) > 1 else 0)
        if number % 50 == 0:
            dead.append(Peer(room).begin(FRAME).send(FRAME))

    assert room.closed_count >= 5
    assert not slow.is_closed
    while slow.left:
        slow.send(100_000)
    assert list(slow.transport.written), "and is answered"


def test_who_sends_at_the_pace_of_a_slow_line_and_holds_much_goes_first(room: Room) -> None:
    """Fifty kilobytes a second are honest for two megabytes, not for three times as many."""
    slow = Peer(room).begin(3 * MIB).send(MIB)
    greedy = [Peer(room).begin(8 * MIB).send(4 * MIB - 200_000) for _ in range(2)]
    for _ in range(100):
        room.now += 0.1
        for peer in (slow, *greedy):
            if not peer.is_closed:
                peer.send(5_000)
    for _ in range(10):
        slow.send(100_000)
    Peer(room).begin(MIB).send(MIB)

    assert [peer.is_closed for peer in greedy].count(True) == 1
    assert not slow.is_closed


def test_who_sends_a_large_request_slowly_stays_where_others_have_been_silent_for_long(room: Room) -> None:
    """However little they have, and lack."""
    silent = [Peer(room).begin(5 * MIB // 4).send(5 * MIB // 4) for _ in range(4)]
    room.now += 100.0
    slow = Peer(room).begin(9 * MIB).send(4 * MIB)
    for _ in range(100):
        room.now += 0.1
        slow.send(10_000)
    Peer(room).begin().send(2 * MIB)

    assert [peer.is_closed for peer in silent].count(True) == room.closed_count == 2
    assert not slow.is_closed


def test_who_has_just_begun_stays_where_others_send_nothing_more(room: Room) -> None:
    stopped = [Peer(room).begin(MIB + 10_000).send(MIB) for _ in range(9)]
    room.now += 5 * SPAN_S
    begun = Peer(room).begin(9 * MIB).send(300_000)
    room.now += 0.1
    begun.send(300_000)
    Peer(room).begin(MIB + 10_000).send(MIB)

    assert [peer.is_closed for peer in stopped].count(True) == room.closed_count == 1
    assert not begun.is_closed


def test_who_has_stopped_is_known_though_it_has_sent_much(room: Room) -> None:
    stopped = Peer(room).begin().send(FRAME)
    room.now += 50 * SPAN_S
    slow = Peer(room).begin().send(FRAME // 2)
    for _ in range(50):
        room.now += 0.1
        slow.send(10_000)
    Peer(room).begin(MOST).send(FRAME)

    assert (stopped.is_closed, slow.is_closed) == (True, False)


def test_a_byte_now_and_then_makes_nobody_better_than_who_has_less_and_is_silent_for_a_moment(
    room: Room,
) -> None:
    silent = Peer(room).begin(7 * MIB // 4 + 10_000).send(7 * MIB // 4)
    trickling = Peer(room).begin(FRAME + 10_000).send(FRAME)
    for _ in range(40):
        room.now += SPAN_S / 20
        trickling.send(1)
    Peer(room).begin(2 * FRAME).send(FRAME + MIB)

    assert (silent.is_closed, trickling.is_closed) == (False, True)


def test_who_has_sent_before_a_span_began_and_not_since_is_not_taken_for_slow(room: Room) -> None:
    room.now = 501 * SPAN_S - 0.5
    slow = Peer(room).begin(9 * MIB).send(3 * MIB // 2)
    fast = Peer(room).begin().send(3 * MIB)
    room.now += 1.0
    slow.send(MIB // 2)
    Peer(room).begin(7 * MIB).send(6 * MIB)

    assert (slow.is_closed, fast.is_closed) == (True, False)


def test_how_fast_it_comes_is_seen_over_two_spans_and_of_who_is_silent_since_its_last_byte() -> None:
    began = 500 * SPAN_S + 0.5
    one = Unhandled(UnhandledRequests(), 1)
    one.came(90_000, began)
    one.hold(90_000, 60_000)
    assert one.seconds_left(began + 1.0) == 105_000 * 1.0 / (LEAST_CAME_BYTES + 90_000)
    one.came(10_000, began + SPAN_S)
    one.hold(100_000, 50_000)
    assert one.seconds_left(began + SPAN_S + 1.0) == 100_000 * (SPAN_S + 1.0) / (LEAST_CAME_BYTES + 100_000)
    now = 502 * SPAN_S + 0.5
    assert one.seconds_left(now) == 100_000 * (SPAN_S + 0.5) / (LEAST_CAME_BYTES + 10_000)
    now = began + 11 * SPAN_S
    assert one.seconds_left(now) == 100_000 * 10 * SPAN_S / LEAST_CAME_BYTES


def test_what_came_with_requests_before_is_not_the_pace_of_the_one_that_has_begun() -> None:
    old, new = (Unhandled(UnhandledRequests(), number) for number in range(2))
    old.came(MIB, 1000.0)
    old.hold(100_000, 0)
    old.hold(0, 0)
    for one in (old, new):
        one.came(1_000, 1000.5)
        one.hold(1_000, 50_000)

    assert old.seconds_left(1001.0) == new.seconds_left(1001.0) > 0


def test_some_more_is_free_than_was_needed_and_so_many_are_reset_in_a_turn(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers = [Peer(room).begin(40_000).send(30_000) for _ in range(200)]
    room.gateway._most_unhandled_bytes = most = room.counted - 1
    room.gateway.end_turn()
    assert room.counted <= most * 63 // 64

    monkeypatch.setattr("odradek.server.gateway.CLOSED_A_TURN", 3)
    closed_before = room.closed_count
    room.gateway._most_unhandled_bytes = most // 4
    room.gateway.end_turn()
    assert sum(peer.is_closed for peer in peers) == room.closed_count == closed_before + 3


def test_who_has_little_is_not_reset_however_long_it_has_stopped(room: Room) -> None:
    """A producer in a debugger: that would give no room."""
    stopped = Peer(room).begin(2 * MIB).send(MIB)
    room.now += 1_000.0
    for _ in range(20):
        Peer(room).begin().send(FRAME)
        room.now += 0.05

    assert room.counted == room.held <= MOST
    assert room.closed_count >= 18
    assert not stopped.is_closed


def test_a_broker_whose_listener_is_its_own_is_not_closed(room: Room) -> None:
    controller = Peer(room, "INTERNAL").begin().send(FRAME)
    room.now += 100.0
    for _ in range(10):
        Peer(room).begin().send(FRAME)
        room.now += 1.0

    assert room.closed_count >= 8
    assert not controller.is_closed


def test_a_request_of_any_size_comes_whole_where_nobody_else_sends(room: Room) -> None:
    peer = Peer(room).begin(3 * MOST)
    while peer.left:
        assert not peer.is_closed
        peer.send(MIB)
        room.now += 10.0

    assert list(peer.transport.written)
    assert room.counted == 0


def test_a_request_that_has_come_whole_and_has_to_wait_counts(room: Room) -> None:
    room.decide = lambda request: Park()
    peers = []
    for _ in range(5):
        peer = Peer(room)
        for _ in range(MOST_QUESTIONS):
            peer.begin(10).send(1_000)
        peers.append(peer.begin().send(FRAME + 1_000))
        assert not peer.left
        room.now += 10.0
        assert room.counted == room.held <= MOST

    assert room.closed_count == 3


def test_who_is_not_read_from_for_requests_that_wait_goes_before_who_sends_slowly(room: Room) -> None:
    """Else ten questions that wait for minutes would keep whatever comes behind them."""
    room.decide = lambda request: Park()
    waiting = Peer(room)
    for _ in range(MOST_QUESTIONS):
        waiting.begin(10).send(1_000)
    waiting.begin().send(FRAME + 1_000)
    room.now += 10.0
    slow = Peer(room).begin(3 * MIB).send(2 * MIB)
    for _ in range(50):
        room.now += 0.1
        slow.send(10_000)
    Peer(room).begin(2 * FRAME).send(2 * FRAME - MIB)

    assert (waiting.is_closed, slow.is_closed) == (True, False)


def test_small_requests_that_have_to_wait_count(room: Room) -> None:
    room.decide = lambda request: Park()
    for _ in range(200):
        peer = Peer(room)
        for _ in range(MOST_QUESTIONS):
            peer.begin(10).send(1_000)
        peer.transport.feed(b"".join(request(number, body=bytes(1_000)) for number in range(110)))
        assert room.counted == room.held <= MOST

    assert room.closed_count >= 100


def test_a_buffer_that_was_used_counts_whole(room: Room) -> None:
    """Its pages take memory, however little of the next request is in them."""
    for _ in range(10):
        room.now += 3 * SPAN_S
        first = Peer(room).begin(2 * MIB)
        first.send(2 * MIB + 1_000)
        assert not first.left
        Peer(room).begin(2 * MIB).send(SMALL_FRAME_BYTES + 1_000)
        assert room.counted == room.held <= MOST

    assert room.closed_count >= 5


def test_who_gets_a_buffer_that_was_used_is_not_taken_for_one_that_has_stopped(room: Room) -> None:
    Peer(room).begin(3 * MIB).send(4 * MIB)
    stopped = [Peer(room).begin().send(2 * MIB) for _ in range(3)]
    room.now += 3 * SPAN_S
    unlucky = Peer(room).begin(3 * MIB).send(200_000)
    assert room.counted > 9 * MIB, "it counts whole"
    Peer(room).begin().send(2 * MIB)

    assert [peer.is_closed for peer in stopped].count(True) == 1
    assert not unlucky.is_closed


def test_more_slow_lines_than_there_is_room_for_get_their_requests_through(room: Room) -> None:
    """Were those who have most the first to go, none would."""
    size, piece, turns = MIB // 2, 5_000, 500
    slow = [Peer(room).begin(size) for _ in range(80)]
    whole = 0
    for _ in range(turns):
        room.now += 0.2
        for number, peer in enumerate(slow):
            peer.send(piece)
            if peer.is_closed or not peer.left:
                whole += not peer.left
                slow[number] = Peer(room).begin(size)

    assert room.closed_count > 80
    # Twice as many send as there is room for, and those who are closed come again at once.
    assert whole * size > turns * len(slow) * piece / 8


def test_what_is_counted_is_what_is_held_whatever_happens(room: Room) -> None:
    """Also of connections that go, are closed by us, or are not read from."""
    chance = random.Random(11)
    room.gateway._most_unhandled_bytes = MIB
    peers: list[Peer] = []
    parks: list[Park] = []
    seen = 0

    def decide(request: Request) -> Answer:
        if chance.random() < 0.5:
            return Reply([b"ok"])
        parks.append(Park())
        return parks[-1]

    room.decide = decide
    for _ in range(5_000):
        room.now += chance.random()
        if len(peers) < 8:
            peers.append(Peer(room))
        peer = chance.choice(peers)
        match chance.randrange(8):
            case 0 | 1 | 2:
                if not peer.left:
                    peer.begin(chance.choice([0, 10, 5_000, 20_000, 70_000, 700_000]))
                peer.send(chance.choice([1, 3, 100, 20_000, 300_000]))
            case 3:
                peer.send(len(peer.left))
            case 4:
                if not peer.left:
                    many = [request(n, body=bytes(chance.randrange(30_000))) for n in range(20)]
                    peer.left = b"".join(many)
            case 5 | 6 if parks:
                parks.pop(chance.randrange(len(parks))).complete(Reply([b"late"]))
                room.gateway.end_turn()
            case 7 if chance.random() < 0.1:
                peer.connection.close()
        for gone in [one for one in peers if one.is_closed or chance.random() < 0.005]:
            peers.remove(gone)
            gone.transport.protocol.connection_lost(None)
        assert room.counted == room.held <= 3 * MIB // 2
        seen = max(seen, room.held)
    for peer in peers:
        peer.transport.protocol.connection_lost(None)

    assert seen > MIB * 7 // 8
    assert room.closed_count > 10
    assert room.counted == 0
    assert not room.gateway.unhandled.waiting


def test_where_nobody_is_left_to_reset_not_every_turn_looks_at_all(room: Room) -> None:
    Peer(room).begin(2 * MOST).send(2 * MOST)

    assert 0 < room.looks_in(100, "least_unhandled_bytes") <= 100 / 20


def test_lengths_that_are_claimed_take_nothing(room: Room) -> None:
    for _ in range(300):
        Peer(room).transport.feed(struct.pack(">i", 99 * MIB) + bytes(100))

    assert room.closed_count == 0
    assert room.counted == room.held == 300 * 104


def test_who_comes_before_it_is_looked_again_is_reset_though_nothing_else_comes(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    later: list[tuple[float, Callable[[], None]]] = []
    monkeypatch.setattr(room.gateway, "call_later", lambda delay_s, call: later.append((delay_s, call)))
    Peer(room).begin(2 * MOST).send(2 * MOST - 1)
    Peer(room).begin(2 * MOST).send(MOST)
    assert room.held > 2 * MOST

    ((delay_s, look),) = later
    room.now += delay_s
    look()

    assert room.closed_count == 1
