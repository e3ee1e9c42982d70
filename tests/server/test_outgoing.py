"""Slices of files on their way to real sockets: nothing lost, nothing mixed, nothing read that need not be."""

import asyncio
import hashlib
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from odradek.broker.answers import Answer, Reply
from odradek.client.local_peers import UNPACED
from odradek.log import files
from odradek.log.files import FileSlice, OsDirectory, OsFile
from odradek.server.connection import Connection
from odradek.server.outgoing import (
    ENOUGH_BYTES_A_TURN,
    LEAST_SENDFILE_BYTES,
    MOST_SENDFILE_BYTES,
    PIECE_FOR_FULL_SOCKET_BYTES,
    WRITE_CHUNK_BYTES,
    Outgoing,
)
from odradek.server.unsent_answers import Unsent, UnsentAnswers, unacknowledged
from tests.server.memory_transport import MemoryTransport
from tests.server.test_connection import Host
from tests.support import eventually

RECORDS = 37_500
# Its number, its history, a checksum of both over and over: none lies in two pages, of which one may be of another history.
RECORD = struct.Struct(">QI244s")
TAIL = 125
DEADLINE_S = 60


def record(number: int, history: int) -> bytes:
    return RECORD.pack(number, history, filling(number, history))


def filling(number: int, history: int) -> bytes:
    return (hashlib.sha1(b"%d %d" % (number, history)).digest() * 13)[:244]


def histories(data: bytes, first: int) -> set[int]:
    """Of whole records that follow each other from number `first` on; fails when they do not."""
    found = set()
    assert len(data) % RECORD.size == 0
    for at, (number, history, filled) in enumerate(RECORD.iter_unpack(data)):
        assert number == first + at
        assert filled == filling(number, history)
        found.add(history)
    return found


class Server:
    """A loop in a thread of its own whose connections answer (position, size) with that slice of a file."""

    def __init__(self, make_loop: Callable[[], asyncio.AbstractEventLoop], path: Path) -> None:
        self.loop = make_loop()
        self.host = Host()
        self.host.decide = self._slice  # type: ignore[method-assign]
        self.host.call_later = self.loop.call_later  # type: ignore[assignment]
        self.file: OsFile = OsDirectory.create(str(path)).open("0.log", create=True)
        self.connections: list[Connection] = []
        self.most_held_back = 0
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self._server = self.run(self._open())
        self.port = self._server.sockets[0].getsockname()[1]

    async def _open(self) -> Any:
        return await self.loop.create_server(self._connection, "127.0.0.1", 0)

    def _connection(self) -> Connection:
        made = Connection(self.host, connection_id=1, listener="PLAINTEXT", max_frame_bytes=1 << 24)
        self.connections.append(made)
        return made

    def _slice(self, api_key: int, body: bytes) -> Answer:
        position, size = struct.unpack(">qq", body)
        return Reply([FileSlice(self.file, position, min(size, self.file.size_bytes - position))])

    def run(self, work: Any) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return future.result(DEADLINE_S)

    def call(self, work: Callable[[], Any]) -> Any:
        async def in_loop() -> Any:
            return work()

        return self.run(in_loop())

    def rewrite_tail(self, records: int, history: int) -> None:
        """What a follower does behind a new leader: the last ones are cut, others are appended."""

        def cut() -> None:
            self.file.truncate((RECORDS - records) * RECORD.size)
            self.file.append(b"".join(record(n, history) for n in range(RECORDS - records, RECORDS)))

        self.call(cut)

    def close(self) -> None:
        self.call(self._server.close)
        for connection in self.connections:
            self.call(connection.abort)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(DEADLINE_S)
        self.loop.close()


class Reader:
    """Blocking. `at_a_time`: how much it takes from its socket at once, out of a small buffer if that is little."""

    def __init__(self, server: Server, at_a_time: int) -> None:
        self.server = server
        self.at_a_time = at_a_time
        self.socket = self._connected()

    def _connected(self) -> socket.socket:
        made = socket.socket()
        if self.at_a_time < 65_536:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
        made.settimeout(DEADLINE_S)
        made.connect(("127.0.0.1", self.server.port))
        return made

    def ask(self, position: int, size: int) -> None:
        self.socket.sendall(struct.pack(">ihhiqq", 24, 0, 0, 7, position, size))

    def take(self, size: int) -> bytes:
        """Less if the connection ends."""
        taken = bytearray()
        while len(taken) < size:
            try:
                part = self.socket.recv(min(self.at_a_time, size - len(taken)))
            except ConnectionResetError:
                part = b""
            if not part:
                break
            taken += part
        return bytes(taken)

    def answer(self, meanwhile: Callable[[], None] = lambda: None) -> bytes | None:
        """None: the connection was closed before its end; a new one is there. `meanwhile` happens once it has begun."""
        head = self.take(8)
        meanwhile()
        size = struct.unpack(">ii", head)[0] - 4 if len(head) == 8 else -1
        data = self.take(size) if size >= 0 else b""
        if len(data) == size:
            return data
        self.socket.close()
        self.socket = self._connected()
        return None


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = Server(request.param, tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of what was read from files into this process."""
    sizes: list[int] = []
    pread = files._pread

    def counted(descriptor: int, size: int, position: int) -> bytes:
        sizes.append(size)
        return pread(descriptor, size, position)

    monkeypatch.setattr(files, "_pread", counted)
    return sizes


@pytest.mark.parametrize("at_a_time", [3_000, 1 << 20], ids=["slow", "fast"])
@pytest.mark.parametrize("answer_bytes", [2 * RECORD.size, 1_500_000 - 1_500_000 % RECORD.size, 1 << 40])
def test_everything_comes_whole_and_in_order_though_the_file_is_cut_meanwhile(
    server: Server, at_a_time: int, answer_bytes: int
) -> None:
    written = 3_750 if answer_bytes < 1_000 else RECORDS
    first = RECORDS - written
    server.file.append(bytes(first * RECORD.size))
    server.file.append(b"".join(record(n, 0) for n in range(first, RECORDS)))
    reader = Reader(server, at_a_time)
    position, history = first * RECORD.size, 0
    interrupted = 0
    while position < RECORDS * RECORD.size:
        reader.ask(position, answer_bytes)
        is_about_to_be_cut = history < 5 and (RECORDS - TAIL) * RECORD.size < position + answer_bytes
        if is_about_to_be_cut:
            history += 1
            data = reader.answer(partial(server.rewrite_tail, TAIL, history))
        else:
            data = reader.answer()
        if data is None:
            assert is_about_to_be_cut, "nothing else ends a connection"
            interrupted += 1
            continue
        assert len(histories(data, position // RECORD.size)) <= 2, "the beginning, and one tail"
        position += len(data)

    assert history, "the file was cut"
    if answer_bytes > written * RECORD.size and at_a_time < 65_536:
        assert interrupted, "an answer that had begun cannot be finished from another history"


@pytest.mark.skipif(not hasattr(socket, "TCP_CONGESTION"), reason="no TCP_CONGESTION here")
def test_what_goes_to_a_reader_on_this_host_is_not_paced(server: Server) -> None:
    reader = Reader(server, 1 << 20)
    server.file.append(bytes(1_000))
    reader.ask(0, 1_000)
    assert reader.answer() == bytes(1_000)
    (connection,) = server.connections
    assert connection.transport is not None
    made = connection.transport.get_extra_info("socket")
    assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).startswith(UNPACED)


def test_a_fast_reader_of_large_slices_costs_no_read(server: Server, reads: list[int]) -> None:
    server.file.append(bytes(range(256)) * 40_000)
    reader = Reader(server, 1 << 20)
    size = 100_000  # fits into a socket's buffer
    for position in range(0, 10_000_000, size):
        reader.ask(position, size)
        assert reader.answer() == (bytes(range(256)) * 392)[position % 256 :][:size]

    assert sum(reads) == 0


def test_small_slices_are_read_and_leave_with_what_stands_around_them(
    server: Server, reads: list[int]
) -> None:
    server.file.append(bytes(100_000))
    reader = Reader(server, 1 << 20)
    reader.ask(10, 5_000)
    assert reader.answer() == bytes(5_000)

    assert reads == [5_000]


def test_a_peer_that_does_not_read_costs_one_piece_of_memory(server: Server, reads: list[int]) -> None:
    server.file.append(bytes(50_000_000))
    reader = Reader(server, 1_000)
    for _ in range(3):
        reader.ask(0, 50_000_000)
    reader.take(1_000)
    (connection,) = server.connections
    outgoing = connection._outgoing
    eventually(lambda: outgoing.is_held_back)

    transport = connection.transport
    assert transport is not None
    assert server.call(transport.get_write_buffer_size) <= PIECE_FOR_FULL_SOCKET_BYTES
    # What the socket's own buffer took came from sendfile; beyond it stands one piece, read because of it.
    assert sum(reads) <= 4 * PIECE_FOR_FULL_SOCKET_BYTES
    assert outgoing.waiting_bytes > 40_000_000
    assert server.host.frames[1:] == [], "and is not asked for more while that waits"


def test_a_reader_as_fast_as_the_server_does_not_keep_the_loop(server: Server) -> None:
    """Between two pieces others have their turn."""
    server.file.append(bytes(30_000_000))
    sizes: list[int] = []
    write = Outgoing.write

    def measured(self: Outgoing) -> bool:
        before = self.waiting_bytes
        went_on = write(self)
        sizes.append(before - self.waiting_bytes)
        return went_on

    reader = Reader(server, 1 << 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Outgoing, "write", measured)
        reader.ask(0, 30_000_000)
        assert reader.answer() == bytes(30_000_000)

    assert max(sizes) <= ENOUGH_BYTES_A_TURN + MOST_SENDFILE_BYTES


def test_where_the_kernel_refuses_sendfile_the_bytes_are_read(
    server: Server, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(files, "_sendfile", refused)
    server.file.append(bytes(3_000_000))
    reader = Reader(server, 1 << 20)
    reader.ask(0, 3_000_000)

    assert reader.answer() == bytes(3_000_000)
    assert sum(reads) == 3_000_000


def test_a_file_that_somebody_else_made_shorter_ends_the_connection(server: Server) -> None:
    server.file.append(bytes(200_000))
    with open(server.file.name, "r+b") as other:
        other.truncate(100_000)
    reader = Reader(server, 1 << 20)
    reader.ask(0, 200_000)

    assert reader.answer() is None
    assert "are there" in server.host.complaints[0]


class BreakingTransport(MemoryTransport):
    """The socket says at the first write that the peer has gone."""

    def write(self, data: Any) -> None:
        super().write(data)
        self.close()


def test_a_transport_that_broke_is_given_no_more_pieces() -> None:
    transport = BreakingTransport(cast(asyncio.BufferedProtocol, object()))
    outgoing = Outgoing(Unsent(UnsentAnswers(), 1))
    outgoing.opened(transport)
    outgoing.add(b"head", [bytes(WRITE_CHUNK_BYTES), bytes(WRITE_CHUNK_BYTES)], 4 + 2 * WRITE_CHUNK_BYTES)
    outgoing.write()
    assert outgoing.waiting_bytes == 0
    outgoing.add(b"", [bytes(WRITE_CHUNK_BYTES)], WRITE_CHUNK_BYTES)
    outgoing.write()
    assert transport.write_calls == 1


def test_a_transport_that_was_closing_before_is_given_the_rest() -> None:
    """Its peer has stopped sending and may still read."""
    transport = MemoryTransport(cast(asyncio.BufferedProtocol, object()))
    outgoing = Outgoing(Unsent(UnsentAnswers(), 1))
    outgoing.opened(transport)
    transport.close()
    outgoing.add(b"head", [bytes(WRITE_CHUNK_BYTES)], 4 + WRITE_CHUNK_BYTES)
    outgoing.write()
    assert len(transport.written) == 4 + WRITE_CHUNK_BYTES


class Holding(MemoryTransport):
    """Has not sent all that it was given, and has not asked to wait: what a loop may do is its own."""

    def __init__(self, socket: socket.socket) -> None:
        super().__init__(cast(asyncio.BufferedProtocol, object()))
        self._extra["socket"] = socket  # type: ignore[attr-defined]

    def get_write_buffer_size(self) -> int:
        return len(self.written)


def test_nothing_goes_past_what_a_transport_still_holds(tmp_path: Path) -> None:
    file = OsDirectory.create(str(tmp_path)).open("0.log", create=True)
    file.append(bytes(2 * LEAST_SENDFILE_BYTES))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        transport = Holding(ours)
        outgoing = Outgoing(Unsent(UnsentAnswers(), 1))
        outgoing.opened(transport)
        outgoing.add(b"head", [FileSlice(file, 0, 2 * LEAST_SENDFILE_BYTES)], 4 + 2 * LEAST_SENDFILE_BYTES)
        while outgoing.waiting_bytes:
            outgoing.write()
        assert bytes(transport.written) == b"head" + bytes(2 * LEAST_SENDFILE_BYTES)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


def test_a_transport_without_a_socket_gets_pieces(tmp_path: Path, reads: list[int]) -> None:
    file = OsDirectory.create(str(tmp_path)).open("0.log", create=True)
    file.append(bytes(2_000_000))
    host = Host()
    connection = Connection(host, connection_id=1, listener="PLAINTEXT", max_frame_bytes=1 << 20)
    host.decide = lambda key, body: Reply([FileSlice(file, 0, 2_000_000)])  # type: ignore[method-assign]
    transport = MemoryTransport(connection, high_water_bytes=WRITE_CHUNK_BYTES)
    connection.connection_made(transport)
    transport.feed(struct.pack(">ihhi", 8, 0, 0, 1))
    assert transport.unread_bytes <= 2 * WRITE_CHUNK_BYTES
    while transport.unread_bytes:
        transport.peer_reads()
        host.turns_pass()

    assert len(transport.written) == 2_000_008
    assert max(reads) <= WRITE_CHUNK_BYTES


class KeepingTransport(MemoryTransport):
    """Holds back the object that it was given last, as uvloop's and those of later Pythons do."""

    def write(self, data: Any) -> None:
        self.kept = data


def test_a_large_answer_is_not_kept_for_the_last_piece_of_it() -> None:
    transport = KeepingTransport(cast(asyncio.BufferedProtocol, object()))
    outgoing = Outgoing(Unsent(UnsentAnswers(), 1))
    outgoing.opened(transport)
    answer = bytes(WRITE_CHUNK_BYTES + 1_000)
    unheld = sys.getrefcount(answer)

    outgoing.add(b"head", [answer], 4 + len(answer))
    outgoing.write()

    assert len(transport.kept) == 1_000
    assert sys.getrefcount(answer) == unheld


def test_the_kernel_says_what_a_peer_has_not_received() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        here = socket.create_connection(listening.getsockname())
        there, _ = listening.accept()
    with here, there:
        here.setblocking(False)
        sent = 0
        with pytest.raises(BlockingIOError):
            while True:
                sent += here.send(bytes(100_000))
        queued = unacknowledged(here.fileno())
        assert 0 < queued < sent
        there.settimeout(DEADLINE_S)
        while sent:
            sent -= len(there.recv(1 << 20))
        eventually(lambda: unacknowledged(here.fileno()) == 0)
    assert unacknowledged(-1) == 0
