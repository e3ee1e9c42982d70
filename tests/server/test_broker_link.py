"""The callback connection to another broker: in order, once, again after a failure, never silently lost."""

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from odradek.broker.control_order import ControlOrder
from odradek.client.connection import BrokerLink, connect
from odradek.client.receive_buffers import BufferPool
from odradek.model.remedies import MORE_MEMORY
from odradek.protocol.headers import encode_request
from tests.support import localhost_is_here

METADATA = 3
FLEXIBLE = 9  # from this version on a header has tagged fields
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def read_request(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Correlation id and body of a request with client id `me` in an old, inflexible version."""
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    frame = await reader.readexactly(size)
    return struct.unpack_from(">i", frame, 4)[0], frame[12:]


def answer(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), correlation_id) + body


class Ear:
    """What came back, in order, and a way to wait for it."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes | None, str]] = []
        self.turns = 0
        self._changed = asyncio.Event()

    def on(self, name: str) -> Callable[[memoryview | None, str], None]:
        def heard(body: memoryview | None, reason: str) -> None:
            self.heard.append((name, None if body is None else bytes(body), reason))
            self._changed.set()

        return heard

    def after_turn(self) -> None:
        self.turns += 1

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.heard) < count:
                self._changed.clear()
                await self._changed.wait()


def run(serve: Serve, scenario: Callable[[BrokerLink, Ear], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        ear = Ear()
        link = BrokerLink(
            asyncio.get_running_loop(),
            host="127.0.0.1",
            port=server.sockets[0].getsockname()[1],
            client_id="me",
            pool=BufferPool(),
            after_turn=ear.after_turn,
            **{"backoff_ms": 10, **options},
        )
        try:
            await scenario(link, ear)
        finally:
            link.close()
            server.close()

    asyncio.run(main())


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            correlation_id, body = await read_request(reader)
            writer.write(answer(correlation_id, body))
    except asyncio.IncompleteReadError:
        writer.close()


def test_answers_come_in_order_and_once() -> None:
    async def scenario(link: BrokerLink, ear: Ear) -> None:
        bodies = [b"a", b"", bytes(300_000), b"d"]
        for body in bodies:
            link.send(METADATA, 1, body, ear.on("x"))
        await ear.until(4)
        link.send(METADATA, 1, b"again", ear.on("x"))
        await ear.until(5)
        assert [body for _, body, _ in ear.heard] == [*bodies, b"again"]
        assert ear.turns > 0

    run(echo, scenario)


def test_what_an_answer_makes_due_is_done_in_the_turn_that_brought_it() -> None:
    async def scenario(link: BrokerLink, ear: Ear) -> None:
        link.send(METADATA, 1, b"which connects", ear.on("x"))
        await ear.until(1)
        turns = ear.turns
        link.send(METADATA, 1, b"over what is connected", ear.on("x"))
        await ear.until(2)
        assert ear.turns > turns

    run(echo, scenario)


def test_a_lost_connection_answers_everything_outstanding_and_the_next_request_connects_again() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        if connections == 1:
            await read_request(reader)
            writer.close()
        else:
            await echo(reader, writer)

    async def scenario(link: BrokerLink, ear: Ear) -> None:
        link.send(METADATA, 1, b"one", ear.on("one"))
        link.send(METADATA, 1, b"two", ear.on("two"))
        await ear.until(2)
        assert [(name, body) for name, body, _ in ear.heard] == [("one", None), ("two", None)]
        link.send(METADATA, 1, b"three", ear.on("three"))
        await ear.until(3)
        assert ear.heard[2][:2] == ("three", b"three")
        assert connections == 2

    run(serve, scenario)


def test_a_broker_that_closes_each_connection_is_not_connected_to_again_at_once() -> None:
    """Whoever sends again in the turn that told of the failure would keep both of them busy with nothing else."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, body = await read_request(reader)
        asked.append(body)
        writer.close()

    async def scenario(link: BrokerLink, ear: Ear) -> None:
        link.send(METADATA, 1, b"one", ear.on("one"))
        await ear.until(1)
        link.send(METADATA, 1, b"again", ear.on("again"))
        for name in (b"b", b"c"):  # connections come in their order, so that one would be in front of these
            reader, writer = await asyncio.open_connection(link.host, link.port)
            writer.write(encode_request(METADATA, 1, 0, "me", name))
            assert await reader.read() == b""
            writer.close()
        assert asked == [b"one", b"b", b"c"]

    run(serve, scenario, backoff_ms=600_000)


def test_numbers_rise_over_all_connections_and_none_comes_twice() -> None:
    """A broker tells by them what a controller wrote before what (decisions/0008)."""
    seen: list[list[int]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append([])
        here = seen[-1]
        for _ in range(2 if len(seen) < 3 else 99):
            here.append((await read_request(reader))[0])
        writer.close()

    async def scenario(link: BrokerLink, ear: Ear) -> None:
        for count in range(1, 4):
            for name in ("one", "two"):
                link.send(METADATA, 1, name.encode(), ear.on(name))
            if count < 3:
                await ear.until(2 * count)
        while len(seen) < 3 or len(seen[2]) < 2:
            await asyncio.sleep(0.001)
        assert seen == [[0, 1], [2, 3], [4, 5]]
        link.close()

    run(serve, scenario, backoff_ms=1)


def test_after_its_largest_number_comes_the_smallest() -> None:
    """As Java counts; a broker that compares them knows that they go round (`broker/control_order`)."""
    seen: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            correlation_id, body = await read_request(reader)
            seen.append(correlation_id)
            writer.write(answer(correlation_id, body))
        writer.close()

    async def scenario(link: BrokerLink, ear: Ear) -> None:
        link.next_correlation_id = 0x7FFFFFFF - 1
        for _ in range(3):
            link.send(METADATA, 1, b"x", ear.on("x"))
        await ear.until(3)
        assert seen == [0x7FFFFFFE, 0x7FFFFFFF, -0x80000000]
        assert [body for _, body, _ in ear.heard] == [b"x"] * 3
        order = ControlOrder()
        late = [
            order.why_late(controller_id=1, controller_epoch=1, broker_epoch=1, correlation_id=number)
            for number in seen
        ]
        assert late == [None, None, None]

    run(serve, scenario)


@pytest.mark.parametrize(
    ("host", "port"), [("no..name", 9092), ("nul\0", 9092), ("127.0.0.1", 70_000), ("127.0.0.1", -1)]
)
def test_an_address_that_is_none_is_a_broker_that_cannot_be_reached(host: str, port: int) -> None:
    """A registration may say anything. The task that connects must not end on it: nobody would be answered again."""

    async def main() -> None:
        ear = Ear()
        link = BrokerLink(
            asyncio.get_running_loop(),
            host=host,
            port=port,
            client_id="me",
            pool=BufferPool(),
            after_turn=ear.after_turn,
            backoff_ms=1,
        )
        for count in (1, 2):
            link.send(METADATA, 1, b"", ear.on("x"))
            await ear.until(count)
        assert all(body is None and "cannot connect to" in reason for _, body, reason in ear.heard)
        link.close()

    asyncio.run(main())


def test_a_sender_may_send_again_from_inside_the_failure() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        if connections < 3:
            writer.close()
        else:
            await echo(reader, writer)

    async def scenario(link: BrokerLink, ear: Ear) -> None:
        def again(body: memoryview | None, reason: str) -> None:
            if body is None:
                link.send(METADATA, 1, b"x", again)
            else:
                ear.on("done")(body, reason)

        link.send(METADATA, 1, b"x", again)
        await ear.until(1)
        assert connections == 3

    run(serve, scenario)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (answer(99, b"\0"), "it answered request 99 where 0 was next"),
        (answer(0, b""), "its answer cannot be read: response header: ends too early, after 4 bytes"),
        (struct.pack(">i", -5), "it answered with a frame of -5 bytes"),
        (struct.pack(">i", 2**31 - 1), "it answered with a frame of 2147483647 bytes"),
    ],
)
def test_a_peer_that_answers_nonsense_is_given_up(
    wrong: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(wrong)
        await reader.read()
        writer.close()

    async def scenario(link: BrokerLink, ear: Ear) -> None:
        link.send(METADATA, FLEXIBLE, b"", ear.on("x"))
        await ear.until(1)
        assert why in ear.heard[0][2]

    run(serve, scenario)
    assert "buffer_updated() call failed" not in caplog.text


def test_a_silent_peer_is_given_up_after_the_timeout() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def scenario(link: BrokerLink, ear: Ear) -> None:
        link.send(METADATA, 1, b"", ear.on("x"))
        await ear.until(1)
        assert "no answer within 0.05 s" in ear.heard[0][2]

    run(serve, scenario, request_timeout_ms=50)


def test_nobody_listening_is_told() -> None:
    async def main() -> None:
        ear = Ear()
        loop = asyncio.get_running_loop()
        with socket.socket() as held:  # a port that is ours, so that nobody else comes to listen there
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
            link = BrokerLink(
                loop,
                host="127.0.0.1",
                port=port,
                client_id="me",
                pool=BufferPool(),
                after_turn=ear.after_turn,
            )
            link.send(METADATA, 1, b"", ear.on("x"))
            await ear.until(1)
            assert "cannot connect to 127.0.0.1" in ear.heard[0][2]
            link.close()

    asyncio.run(main())


def test_closing_answers_what_is_outstanding() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def scenario(link: BrokerLink, ear: Ear) -> None:
        link.send(METADATA, 1, b"", ear.on("x"))
        link.close("we stop")
        assert ear.heard == [("x", None, "we stop")]

    run(serve, scenario)


@pytest.mark.parametrize("beyond", [65_536, -65_536])
def test_a_port_that_is_none_is_not_taken_for_another(beyond: int) -> None:
    """By uvloop it is taken modulo 65,536."""
    uvloop = pytest.importorskip("uvloop")

    async def body() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1] + beyond
        with pytest.raises(ValueError, match=f"port {port} is not between 0 and 65535"):
            await connect(loop, asyncio.Protocol, "127.0.0.1", port, 10)
        server.close()

    uvloop.run(body())


@pytest.mark.parametrize("others", [["192.0.2.1"], ["192.0.2.1", "192.0.2.2", "192.0.2.3"]])
def test_an_address_of_a_name_that_is_silent_leaves_time_for_those_behind_it(
    others: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`localhost` may be ::1 first, and a firewall may drop what is sent there."""

    async def scenario(link: BrokerLink, ear: Ear) -> None:
        loop = asyncio.get_running_loop()
        answers = loop.create_connection

        async def resolve(host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
            assert host == "a-name"
            return [(0, 0, 0, "", (address, port)) for address in (*others, "127.0.0.1")]

        async def connect(make: Any, host: str, port: int) -> Any:
            if host in others:
                await asyncio.Event().wait()
            return await answers(make, host, port)

        monkeypatch.setattr(loop, "getaddrinfo", resolve)
        monkeypatch.setattr(loop, "create_connection", connect)
        link.host = "a-name"
        link.send(METADATA, 1, b"one", ear.on("one"))
        await ear.until(1)
        assert ear.heard == [("one", b"one", "")]

    run(echo, scenario, connect_timeout_ms=400)


def test_a_mistake_of_one_who_is_told_of_a_failure_keeps_it_from_nobody_else() -> None:
    async def scenario(link: BrokerLink, ear: Ear) -> None:
        def mistaken(body: memoryview | None, reason: str) -> None:
            raise ValueError("mistaken")

        link.send(METADATA, 1, b"one", mistaken)
        link.send(METADATA, 1, b"two", ear.on("two"))
        link.send(METADATA, 1, b"three", ear.on("three"))
        with pytest.raises(ValueError, match="mistaken"):
            link.close("closed")
        assert ear.heard == [("two", None, "closed"), ("three", None, "closed")]

    run(echo, scenario)


def test_a_name_that_finds_no_thread_to_be_looked_up_by_is_told_and_looked_up_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """EAGAIN: a link that had no answer then waited for ever for its own attempt to connect."""
    localhost_is_here(monkeypatch)

    async def scenario(link: BrokerLink, ear: Ear) -> None:
        link.host = "localhost"
        with monkeypatch.context() as want:
            want.setattr(threading.Thread, "start", refuse_thread)
            link.send(METADATA, 1, b"one", ear.on("one"))
            await ear.until(1)
        ((name, body, reason),) = ear.heard
        assert (name, body) == ("one", None)
        assert "no thread to look up localhost by: raise the limit of processes" in reason
        link.send(METADATA, 1, b"two", ear.on("two"))
        await ear.until(2)
        assert ear.heard[1] == ("two", b"two", "")

    run(echo, scenario)


@pytest.mark.parametrize("want", ["a thread to look up by", "a connection"])
def test_a_link_that_finds_no_memory_is_told_and_connects_later(
    want: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MemoryError: a link waited for ever for its own attempt to connect, and a fetcher made no other."""
    localhost_is_here(monkeypatch)

    def refuse(*_: object, **__: object) -> None:
        raise MemoryError

    async def scenario(link: BrokerLink, ear: Ear) -> None:
        with monkeypatch.context() as short:
            if want == "a connection":
                short.setattr(asyncio.get_running_loop(), "create_connection", refuse)
            else:
                link.host = "localhost"
                short.setattr(threading.Thread, "start", refuse)
            link.send(METADATA, 1, b"one", ear.on("one"))
            await ear.until(1)
        ((name, body, reason),) = ear.heard
        assert (name, body) == ("one", None)
        assert f"Cannot allocate memory: {MORE_MEMORY}" in reason
        link.send(METADATA, 1, b"two", ear.on("two"))
        await ear.until(2)
        assert ear.heard[1] == ("two", b"two", "")

    run(echo, scenario)


def refuse_thread(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
