"""Silence on real sockets: nothing arrives, nothing is lost, and what was sent first arrives first."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from odradek.testing.held_links import BrokerLoop, HeldTransport, Links
from tests.old_asyncio import begin_to_read_though_paused

LARGE = 20_000_000  # no socket takes it at once


class Peer(asyncio.BufferedProtocol):
    """Keeps what it hears; says `more`, once, as soon as it may write again."""

    def __init__(self) -> None:
        self.transport: HeldTransport | None = None
        self.heard = bytearray()
        self.more = b""
        self.is_paused = False
        self.resumed = 0
        self.is_lost = False
        self._buffer = bytearray(1 << 16)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, HeldTransport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.heard += self._buffer[:nbytes]

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        self.resumed += 1
        more, self.more = self.more, b""
        if more:
            self.say(more)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_lost = True
        self.transport = None

    def say(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)


class Net:
    """Brokers 1 and 2, a connection from 1 to 2, and one from a client to 2."""

    def __init__(self) -> None:
        self.links = Links()
        self.accepted: list[Peer] = []
        self.servers: list[asyncio.Server] = []

    def accept(self) -> Peer:
        self.accepted.append(Peer())
        return self.accepted[-1]

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.first = BrokerLoop(loop, self.links, 1)
        for broker in (1, 2):
            server = await BrokerLoop(loop, self.links, broker).create_server(self.accept, "127.0.0.1", 0)
            self.servers.append(server)
        self.port = self.servers[1].sockets[0].getsockname()[1]
        self.near = await self.dial()
        await until(lambda: len(self.accepted) == 1)
        self.far = self.accepted[0]

    async def dial(self) -> Peer:
        _, protocol = await self.first.create_connection(Peer, "127.0.0.1", self.port)
        assert isinstance(protocol, Peer)
        return protocol

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, Peer]:
        known = len(self.accepted)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        await until(lambda: len(self.accepted) > known)
        return reader, writer, self.accepted[-1]

    def stop(self) -> None:
        for server in self.servers:
            server.close()
        for peer in (self.near, *self.accepted):
            if peer.transport is not None:
                peer.transport.abort()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0)


async def some_turns() -> None:
    """More than a byte takes over loopback; one that is held never comes."""
    for _ in range(200):
        await asyncio.sleep(0)


def on(body: Callable[[Net], Awaitable[None]]) -> None:
    async def main() -> None:
        net = Net()
        await net.start()
        try:
            await body(net)
        finally:
            net.stop()

    asyncio.run(main())


def test_what_is_said_during_a_cut_arrives_in_order_when_it_heals() -> None:
    async def body(net: Net) -> None:
        net.near.say(b"before ")
        await until(lambda: net.far.heard == b"before ")
        net.links.cut([1], [2])
        net.near.say(b"during ")
        net.near.say(b"it ")
        net.far.say(b"answer")
        assert net.near.transport is not None
        net.near.transport.writelines([b"and ", b"on"])
        await some_turns()
        assert (net.far.heard, net.near.heard) == (b"before ", b"")

        net.links.heal([2], [1])
        await until(lambda: net.far.heard == b"before during it and on" and net.near.heard == b"answer")

    on(body)


def test_whoever_writes_on_as_soon_as_it_may_is_not_heard_before_what_it_wrote_first() -> None:
    async def body(net: Net) -> None:
        net.links.cut([1], [2])
        net.near.more = b" second"
        net.near.say(b"first")
        assert net.near.is_paused

        net.links.heal([1], [2])

        await until(lambda: net.far.heard == b"first second")
        assert not net.near.is_paused

    on(body)


def test_more_than_the_socket_takes_keeps_its_writer_paused() -> None:
    async def body(net: Net) -> None:
        assert net.near.transport is not None
        net.near.transport.set_write_buffer_limits(high=0)
        net.links.cut([1], [2])
        net.near.say(bytes(LARGE))
        assert net.near.transport.get_write_buffer_size() > LARGE
        net.links.heal([1], [2])
        assert (net.near.is_paused, net.near.resumed) == (True, 0)

        await until(lambda: len(net.far.heard) == LARGE)
        await until(lambda: not net.near.is_paused)
        assert net.near.resumed == 1

    on(body)


def test_who_does_not_read_does_not_read_after_it_either() -> None:
    async def body(net: Net) -> None:
        assert net.far.transport is not None
        net.far.transport.pause_reading()
        net.links.cut([1], [2])
        net.far.transport.resume_reading()
        assert net.far.transport.is_reading()
        net.near.say(b"x")
        await some_turns()
        assert net.far.heard == b""
        net.far.transport.pause_reading()

        net.links.heal([1], [2])
        await some_turns()
        assert net.far.heard == b""
        net.far.transport.resume_reading()
        await until(lambda: net.far.heard == b"x")

    on(body)


@pytest.mark.parametrize(("end", "arrives"), [("close", b"last words"), ("abort", b"")])
def test_what_a_silent_broker_said_before_it_closed_arrives_and_before_it_aborted_does_not(
    end: str, arrives: bytes
) -> None:
    async def body(net: Net) -> None:
        assert net.far.transport is not None
        net.links.silence(2)
        net.far.say(b"last words")
        getattr(net.far.transport, end)()
        await some_turns()
        assert not net.near.is_lost

        net.links.let_speak(2)
        await until(lambda: net.near.is_lost)
        assert net.near.heard == arrives

    on(body)


def test_what_a_silent_broker_has_closed_is_closed_when_it_speaks_though_the_link_is_cut_by_then() -> None:
    async def body(net: Net) -> None:
        assert net.far.transport is not None
        net.links.silence(2)
        net.far.transport.close()
        net.links.cut([1], [2])
        await some_turns()
        assert not net.far.is_lost

        net.links.let_speak(2)
        await until(lambda: net.far.is_lost)

    on(body)


def test_a_cut_is_between_brokers_and_silence_is_towards_everybody() -> None:
    async def body(net: Net) -> None:
        reader, writer, peer = await net.client()
        net.links.cut([1], [2])
        writer.write(b"a")
        await until(lambda: peer.heard == b"a")
        peer.say(b"b")
        assert await reader.read(1) == b"b"

        net.links.silence(2)
        assert net.links.is_silent(2)
        writer.write(b"c")
        peer.say(b"d")
        net.near.say(b"e")
        await some_turns()
        assert (peer.heard, net.far.heard) == (b"a", b"")

        net.links.heal([1], [2])
        await some_turns()
        assert net.far.heard == b""
        net.links.let_speak(2)
        await until(lambda: peer.heard == b"ac" and net.far.heard == b"e")
        assert await reader.read(1) == b"d"
        writer.close()

    on(body)


def test_of_two_cuts_that_overlap_each_heals_by_itself() -> None:
    async def body(net: Net) -> None:
        net.links.cut([1], [2])
        net.links.cut([2], [1, 2, 3])
        net.links.heal([2], [1, 2, 3])
        net.near.say(b"x")
        await some_turns()
        assert net.far.heard == b""

        net.links.heal([1], [2])
        await until(lambda: net.far.heard == b"x")

    on(body)


def test_a_new_connection_waits_for_the_cut_to_heal() -> None:
    async def body(net: Net) -> None:
        net.links.cut([1], [2])
        dialling = asyncio.ensure_future(net.dial())
        await some_turns()
        assert (dialling.done(), len(net.accepted)) == (False, 1)

        net.links.silence(2)
        net.links.heal([1], [2])
        await some_turns()
        assert not dialling.done()
        net.links.let_speak(2)
        (await dialling).say(b"here")
        await until(lambda: len(net.accepted) == 2 and net.accepted[1].heard == b"here")

    on(body)


@pytest.mark.parametrize("is_old", [False, True])
def test_who_comes_to_a_silent_broker_is_accepted_and_not_answered(
    is_old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_old:
        begin_to_read_though_paused(monkeypatch)

    async def body(net: Net) -> None:
        net.links.silence(2)
        reader, writer, peer = await net.client()
        writer.write(b"hello")
        await some_turns()
        assert peer.heard == b""

        net.links.let_speak(2)
        await until(lambda: peer.heard == b"hello")
        peer.say(b"!")
        assert await reader.read(1) == b"!"
        writer.close()

    on(body)


def test_connections_that_ended_are_forgotten() -> None:
    async def body(net: Net) -> None:
        for _ in range(3):
            _, writer, peer = await net.client()
            writer.close()
            await until(lambda peer=peer: peer.is_lost)  # type: ignore[misc]
        peer = Peer()
        net.accepted = net.accepted[:1]
        await until(lambda: len(net.links._owners) == 2)

        net.links.cut([1], [2])  # of those that are left
        assert net.near.transport is not None
        net.near.transport.close()
        net.links.heal([1], [2])

    on(body)


class Inside(asyncio.Transport):
    """A transport of which only the two addresses and the end are of interest."""

    def __init__(self, near: int, far: int) -> None:
        super().__init__({"sockname": ("127.0.0.1", near), "peername": ("127.0.0.1", far)})
        self.is_ended = False
        self.reads = True

    def is_closing(self) -> bool:
        return self.is_ended

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def write(self, data: object) -> None:
        raise AssertionError("nobody writes")


def test_a_connection_whose_opener_has_closed_it_stays_cut() -> None:
    async def body(net: Net) -> None:
        net.links.cut([1], [2])
        assert net.near.transport is not None
        net.near.transport.close()
        net.links.cut([2], [3])
        await some_turns()
        assert not net.far.is_lost

        net.links.heal([1], [2])
        await until(lambda: net.far.is_lost)

    on(body)


def test_a_client_with_the_port_of_a_connection_that_ended_is_a_client() -> None:
    links = Links()
    links.listens(2, [9092])
    opened = Inside(50_000, 9092)  # by broker 1
    near = HeldTransport(opened, Peer())
    links.came(1, near)
    accepted = Inside(9092, 50_000)
    far = HeldTransport(accepted, Peer())
    links.came(2, far)
    links.cut([1], [2])
    assert (opened.reads, accepted.reads) == (False, False)

    opened.is_ended = accepted.is_ended = True
    of_a_client = Inside(9092, 50_000)
    last = HeldTransport(of_a_client, Peer())
    links.came(2, last)

    assert of_a_client.reads
    assert opened.reads is accepted.reads is False, "what has ended is left alone"
    del near, far
