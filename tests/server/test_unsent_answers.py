"""What answers that nobody reads take, over all connections: counted as it is, bounded, and whose go."""

import asyncio
import logging
import random
from collections.abc import Iterator
from itertools import count

import pytest

from odradek.broker.answers import NO_REPLY, Answer, Buffer, Park, Reply
from odradek.broker.request import Request
from odradek.server.connection import Connection
from odradek.server.outgoing import WRITE_CHUNK_BYTES
from odradek.server.unsent_answers import (
    LEAST_LEFT_BYTES,
    LEAST_SHARED_BYTES,
    PATIENCE_S,
    SPAN_S,
    Unsent,
    UnsentAnswers,
)
from odradek.sim.observed.burden import unsent_bytes
from tests.server.door import StoppedDoor, request
from tests.server.memory_transport import MemoryTransport, connect

MOST = 10 << 20
ANSWER = 3 << 20


class FileBytes:
    """They still lie in a file."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def read_piece(self, start: int, size: int) -> bytes:
        return bytes(size)

    def send_to(self, descriptor: int, start: int, size: int) -> int:
        raise AssertionError("there is no socket")


class Peer:
    """Its transport takes nothing that it has not read."""

    numbers = count(1)

    def __init__(self, door: "Room", listener: str = "PLAINTEXT") -> None:
        self.door = door
        self.connection: Connection = door.gateway.make_connection(listener)
        self.transport: MemoryTransport = connect(self.connection, high_water_bytes=0)

    def ask(self, answer: Answer) -> None:
        self.door.answer = answer
        self.transport.feed(request(next(self.numbers)))

    def reads(self, pieces: int = 1) -> None:
        for _ in range(pieces):
            self.transport.peer_reads()

    @property
    def is_closed(self) -> bool:
        return self.transport.was_closed


class Room(StoppedDoor):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.answer: Answer = NO_REPLY
        self.gateway._most_unsent_bytes = MOST

    def handle(self, request: Request, now_ms: int) -> Answer:
        return self.answer

    @property
    def held(self) -> int:
        return unsent_bytes(self.gateway)


@pytest.fixture
def room() -> Iterator[Room]:
    loop = asyncio.new_event_loop()
    yield Room(loop)
    loop.close()


def test_answers_that_nobody_reads_have_a_bound_over_all_connections(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    deaf = [Peer(room) for _ in range(20)]
    for peer in deaf:
        peer.ask(Reply([bytes(ANSWER)]))
        room.now += 1.0
        assert room.gateway.unsent.size_bytes == room.held <= MOST

    closed = [peer.is_closed for peer in deaf]
    assert closed == sorted(closed, reverse=True), "those who have read nothing for longest go"
    assert room.metrics.connections_unread_closed == sum(closed) >= 17
    (line,) = [record for record in caplog.records if record.levelno == logging.WARNING][:1]
    assert "3 MiB of answers wait for it to read them" in line.getMessage()


def test_how_much_somebody_had_who_was_closed_is_said_where_it_is_little_too(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2 * MOST // (700 << 10)):
        Peer(room).ask(Reply([bytes(700 << 10)]))
        room.now += 1.0

    (line,) = [record for record in caplog.records if record.levelno == logging.WARNING][:1]
    assert "700 KiB of answers wait for it to read them" in line.getMessage()


def test_nobody_is_closed_while_there_is_room(room: Room) -> None:
    deaf = [Peer(room) for _ in range(3)]
    for peer in deaf:
        peer.ask(Reply([bytes(ANSWER)]))
    room.now += 500.0
    room.gateway.end_turn()

    assert not any(peer.is_closed for peer in deaf)


def test_who_reads_slowly_stays_where_others_read_nothing(room: Room) -> None:
    slow = Peer(room)
    slow.ask(Reply([bytes(ANSWER)]))
    for _ in range(30):
        room.now += 5.0
        slow.reads()  # a quarter of a megabyte: 50 kB/s
        deaf = Peer(room)
        room.now += 0.2
        deaf.ask(Reply([bytes(2 * ANSWER)]))

    assert room.metrics.connections_unread_closed >= 28
    assert not slow.is_closed
    assert len(slow.transport.written) > ANSWER, "and has its answer"


def test_what_the_kernel_has_sent_of_what_it_took_counts_as_read(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes no more for a minute of a slow line."""
    queued: dict[int, int] = {}
    monkeypatch.setattr("odradek.server.unsent_answers.unacknowledged", lambda number: queued.get(number, 0))
    slow = Peer(room)
    slow.connection.unsent.descriptor = 7
    queued[7] = 4_000_000
    slow.ask(Reply([bytes(ANSWER)]))
    for number in range(60):
        room.now += 1.0
        queued[7] -= 50_000
        if not number % 3:
            Peer(room).ask(Reply([bytes(ANSWER)]))

    assert room.metrics.connections_unread_closed >= 17
    assert not slow.is_closed


def test_who_has_stopped_reading_is_known_though_it_has_read_much(room: Room) -> None:
    room.gateway._most_unsent_bytes = 1 << 40
    was_fast, slow = Peer(room), Peer(room)
    was_fast.ask(Reply([bytes(12 * WRITE_CHUNK_BYTES)] * 253))
    for _ in range(300):
        was_fast.reads(10)
        was_fast.transport.written.clear()
        room.now += 0.01 * SPAN_S
    slow.ask(Reply([bytes(61 * WRITE_CHUNK_BYTES)]))
    for _ in range(60):
        room.now += SPAN_S / 2
        slow.reads()
    room.gateway._most_unsent_bytes = room.held - 1
    room.gateway.end_turn()

    assert (was_fast.is_closed, slow.is_closed) == (True, False)


def test_what_a_transport_holds_back_counts(room: Room) -> None:
    peer = Peer(room)
    peer.ask(Reply([bytes(1_000)]))
    assert room.gateway.unsent.size_bytes == len(peer.transport.written) > 1_000
    peer.reads()
    assert room.gateway.unsent.size_bytes == 0


def test_what_many_wait_with_counts_once(room: Room) -> None:
    metadata = bytes(ANSWER)
    peers = [Peer(room) for _ in range(100)]
    for peer in peers:
        peer.ask(Reply([metadata]))
        room.now += 1.0

    assert not any(peer.is_closed for peer in peers)
    assert ANSWER < room.gateway.unsent.size_bytes == room.held
    for peer in peers:
        peer.reads(1 + ANSWER // WRITE_CHUNK_BYTES)
    assert room.gateway.unsent.size_bytes == 0


def test_bytes_of_files_do_not_count(room: Room) -> None:
    followers = [Peer(room) for _ in range(3)]
    for peer in followers:
        peer.ask(Reply([b"head", FileBytes(2 * MOST)]))

    assert room.gateway.unsent.size_bytes < 3 * 2 * WRITE_CHUNK_BYTES
    assert not any(peer.is_closed for peer in followers)


def test_answers_that_wait_behind_a_parked_one_count_although_their_peer_reads(room: Room) -> None:
    peers = [Peer(room) for _ in range(5)]
    parked = Park()
    for peer in peers:
        peer.ask(parked if peer is peers[0] else Park())
        for place in [Park() for _ in range(3)]:
            peer.ask(place)
            place.complete(Reply([bytes(ANSWER)]))
            room.gateway.end_turn()
            room.now += 1.0

    assert room.gateway.unsent.size_bytes == room.held <= MOST
    assert peers[0].is_closed
    assert parked.abandoned


def test_a_broker_whose_listener_is_its_own_is_not_closed(room: Room) -> None:
    follower = Peer(room, "INTERNAL")
    follower.ask(Reply([bytes(ANSWER)]))
    room.now += 100.0
    deaf = [Peer(room) for _ in range(10)]
    for peer in deaf:
        peer.ask(Reply([bytes(ANSWER)]))
        room.now += 1.0

    assert room.metrics.connections_unread_closed >= 7
    assert not follower.is_closed


def test_an_answer_of_any_size_reaches_who_reads_it(room: Room) -> None:
    reader = Peer(room)
    reader.ask(Reply([bytes(3 * MOST)]))
    while room.held > 2 * WRITE_CHUNK_BYTES:
        room.now += 0.9 * PATIENCE_S
        reader.reads()
        assert not reader.is_closed
        room.gateway._most_unsent_bytes = 1  # while more than one piece is left: it is alone

    idle = Peer(room)
    idle.ask(Reply([bytes(3 * MOST)]))
    reader.reads(3)
    room.now += 1.1 * PATIENCE_S
    room.gateway.end_turn()
    assert idle.is_closed


def test_what_is_counted_is_what_is_held_whatever_happens(room: Room) -> None:
    """Also of connections that go, are closed by us, or have answers that wait for the one before."""
    chance = random.Random(7)
    room.gateway._most_unsent_bytes = 2 << 20
    shared = [bytes(size) for size in (LEAST_SHARED_BYTES, 300_000, 1_000_000)]
    peers: list[Peer] = []
    parks: list[Park] = []
    seen = 0

    def reply() -> Reply:
        size = chance.choice([0, 10, 5_000, 70_000, 700_000])
        buffers: list[Buffer] = [bytes(size), chance.choice(shared), bytearray(chance.randrange(200_000))]
        return Reply(chance.sample(buffers, chance.randrange(1, 4)))

    for _ in range(3_000):
        room.now += chance.random()
        if len(peers) < 5:
            peers.append(Peer(room))
        peer = chance.choice(peers)
        match chance.randrange(8):
            case 0 | 1 | 2:
                peer.ask(reply())
            case 3:
                parks.append(Park())
                peer.ask(parks[-1])
            case 4 if parks:
                parks.pop(chance.randrange(len(parks))).complete(reply())
                room.gateway.end_turn()
            case 5 | 6:
                peer.reads()
            case 7 if chance.random() < 0.1:
                peer.connection.close()
        for gone in [one for one in peers if one.is_closed or chance.random() < 0.005]:
            peers.remove(gone)
            gone.transport.protocol.connection_lost(None)
        assert room.gateway.unsent.size_bytes == room.held
        seen = max(seen, room.held)
    for peer in peers:
        peer.transport.protocol.connection_lost(None)

    assert seen > 1 << 20
    assert room.metrics.connections_unread_closed > 10
    assert room.gateway.unsent.size_bytes == 0
    assert not room.gateway.unsent._shared
    assert not room.gateway.unsent.waiting


def test_who_has_little_is_not_reset_however_long_it_has_stopped(room: Room) -> None:
    """A consumer in a debugger: that would give no room."""
    stopped = Peer(room)
    stopped.ask(Reply([FileBytes(2 * MOST)]))
    stopped.reads()
    room.now += 1_000.0
    for _ in range(20):
        Peer(room).ask(Reply([bytes(ANSWER)]))
        room.now += 0.05

    assert room.gateway.unsent.size_bytes == room.held <= MOST
    assert room.metrics.connections_unread_closed >= 17
    assert not stopped.is_closed


def test_who_is_alone_with_more_than_there_is_room_for_costs_nobody_who_has_little(room: Room) -> None:
    consumers = [Peer(room) for _ in range(15)]
    for peer in consumers:
        peer.ask(Reply([FileBytes(MOST)]))
        peer.reads()
    room.now += 10.0
    reader = Peer(room)
    reader.ask(Reply([bytes(2 * MOST)]))
    for _ in range(2 * MOST // WRITE_CHUNK_BYTES):
        room.now += 0.9 * PATIENCE_S
        reader.reads()

    assert len(reader.transport.written) > 2 * MOST
    assert room.metrics.connections_unread_closed == 0


def test_many_who_have_little_have_a_bound_as_well(room: Room) -> None:
    for _ in range(400):
        Peer(room).ask(Reply([bytes(MOST // 300)]))
        room.now += 0.1
        assert room.gateway.unsent.size_bytes == room.held <= MOST


def test_answers_that_come_at_one_time_have_the_bound(room: Room) -> None:
    for _ in range(20):
        Peer(room).ask(Reply([bytes(ANSWER)]))
        assert room.gateway.unsent.size_bytes == room.held <= MOST


def test_where_nobody_is_left_to_reset_not_every_turn_looks_at_all(room: Room) -> None:
    reader = Peer(room)
    reader.ask(Reply([bytes(2 * MOST)]))

    assert 0 < room.looks_in(100, "least_unsent_bytes") <= 100 / 20


def test_who_is_alone_and_reads_nothing_is_not_kept_by_asking(room: Room) -> None:
    idle = Peer(room)
    place = Park()
    idle.ask(place)
    idle.ask(Reply([bytes(2 * MOST)]))
    place.complete(Reply([bytes(WRITE_CHUNK_BYTES)]))
    room.gateway.end_turn()
    assert not idle.is_closed
    room.now += 1.1 * PATIENCE_S
    idle.connection.flush()
    room.gateway.end_turn()
    assert idle.is_closed


def test_a_span_that_begins_anew_does_so_when_something_left_last() -> None:
    unsent = Unsent(UnsentAnswers(), 1)
    unsent.begin(0.0)
    unsent.come([bytes(ANSWER)])
    unsent.left(1, SPAN_S)
    unsent.left(1, 2.5 * SPAN_S)
    assert unsent.seconds_left(2.5 * SPAN_S) > 0.0


def test_what_a_transport_gave_the_kernel_since_does_not_count_against_a_peer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unsent = Unsent(UnsentAnswers(), 1)
    unsent.begin(0.0)
    unsent.come([bytes(ANSWER)])
    least = unsent.seconds_left(1.0)
    monkeypatch.setattr("odradek.server.unsent_answers.unacknowledged", lambda number: LEAST_LEFT_BYTES)
    assert unsent.seconds_left(1.0) == least
