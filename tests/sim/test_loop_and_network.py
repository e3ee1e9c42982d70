"""The deterministic loop and its TCP: order, time, death, flow control."""

import asyncio

import pytest

from odradek.sim.clients.client import MOST_RETRY_S, RETRY_S, Pauses
from odradek.sim.loop import Host, Moment, SimLoop, SimulationEnded, current_host
from odradek.sim.network import FIRST_SYN_AGAIN_S, LAST_SYN_AGAIN_S, SEND_BUFFER_BYTES, Network


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Collect(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self.received = bytearray()
        self.lost: list[Exception | None] = []
        self.is_paused = False
        self._buffer = bytearray(7)  # small, so that reads come in pieces

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class World:
    def __init__(self, seed: int) -> None:
        self.loop = SimLoop(seed)
        self.network = Network(self.loop)
        self.server, self.client = Host("server", 1), Host("client", 2)
        self.servers: list[object] = []

    def serve(self, factory: type = Echo) -> None:
        async def start() -> None:
            self.servers.append(await self.loop.create_server(factory, "server", 9092))

        self.run_as(self.server, start())

    def connect(self) -> Collect:
        async def start() -> Collect:
            return (await self.loop.create_connection(Collect, "server", 9092))[1]  # type: ignore[return-value]

        return self.run_as(self.client, start())

    def run_as(self, host: Host, coroutine):  # type: ignore[no-untyped-def]
        async def outer():  # type: ignore[no-untyped-def]
            return await self.loop.create_task(coroutine, context=self.loop.context_of(host))

        return self.loop.run_until_complete(outer())


def conversation(seed: int) -> tuple[int, bytes, float]:
    world = World(seed)
    world.serve()
    first, second = world.connect(), world.connect()
    for number in range(50):
        first.transport.write(b"%d," % number)
        second.transport.write(b"%d;" % number)
    world.loop.run_until(10.0)
    assert first.received == b"".join(b"%d," % n for n in range(50))
    assert second.received == b"".join(b"%d;" % n for n in range(50))
    return world.loop.trace_hash, bytes(first.received), world.loop.time()


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    hashes = [conversation(seed)[0] for seed in (1, 2, 1, 2)]

    assert hashes[:2] == hashes[2:]
    assert hashes[0] != hashes[1]


def test_time_passes_only_when_nothing_is_ready() -> None:
    loop = SimLoop(0)
    seen = []

    async def story() -> None:
        await asyncio.sleep(3600)
        seen.append(loop.time())
        await asyncio.sleep(0)
        seen.append(loop.time())

    loop.run_until_complete(story())

    assert seen == [3600.0, 3600.0]


def test_to_wait_for_a_moment_is_one_event() -> None:
    loop = SimLoop(0)

    async def story() -> list[float]:
        seen = []
        for seconds in (1.0, 2.0, 4.0):
            await Moment(loop, loop.time() + seconds)
            seen.append(loop.time())
        return seen

    assert loop.run_until_complete(story()) == [1.0, 3.0, 7.0]
    assert loop.events == 4, "the first step of the task, and one for each moment"


def test_who_waits_for_a_moment_can_be_cancelled_and_can_lose_patience() -> None:
    loop = SimLoop(0)

    async def wait() -> None:
        await Moment(loop, 100.0)

    async def story() -> tuple[float, float]:
        waiting = loop.create_task(wait())
        await Moment(loop, 1.0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        cancelled_at = loop.time()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.0):
                await wait()
        return cancelled_at, loop.time()

    assert loop.run_until_complete(story()) == (1.0, 3.0)


def test_a_moment_of_a_paused_host_comes_when_it_goes_on_and_a_cancelled_one_never() -> None:
    loop = SimLoop(0)
    host, seen = Host("b1", 1), list[tuple[str, float]]()

    async def wait(name: str) -> None:
        try:
            await Moment(loop, 1.0)
        finally:
            seen.append((name, loop.time()))

    tasks = [loop.create_task(wait(name), context=loop.context_of(host)) for name in ("stays", "goes")]
    loop.run_until(0.5)
    host.pause(until=5.0)
    loop.run_until(2.0)
    tasks[1].cancel()
    loop.run_until(6.0)

    assert sorted(seen) == [("goes", 5.0), ("stays", 5.0)]
    assert [task.cancelled() for task in tasks] == [False, True]


def test_a_run_goes_no_further_than_it_was_told_where_a_timer_by_then_was_cancelled() -> None:
    loop, seen = SimLoop(0), list[float]()
    loop.call_at(1.0, seen.append, 1.0).cancel()
    loop.call_at(5.0, seen.append, 5.0)

    loop.run_until(2.0)

    assert (loop.time(), seen) == (2.0, [])


def test_attempts_in_vain_come_at_longer_and_longer_intervals() -> None:
    loop = SimLoop(0)
    pauses = Pauses()

    async def story() -> list[float]:
        took = []
        for attempt in range(8):
            if attempt == 6:
                pauses.succeeded()
            before = loop.time()
            await pauses.pause()
            took.append(round(loop.time() - before, 6))
        return took

    doubled = [RETRY_S, 2 * RETRY_S, MOST_RETRY_S, MOST_RETRY_S, MOST_RETRY_S, MOST_RETRY_S]
    assert loop.run_until_complete(story()) == [*doubled, RETRY_S, 2 * RETRY_S]


def test_ready_callbacks_run_in_an_order_the_seed_chooses() -> None:
    orders = set()
    for seed in range(20):
        loop = SimLoop(seed)
        order: list[int] = []
        for number in range(3):
            loop.call_soon(order.append, number)
        loop.run_until(1.0)
        orders.add(tuple(order))

    assert len(orders) >= 4


def test_waiting_for_what_never_comes_is_an_error_and_not_a_hang() -> None:
    loop = SimLoop(0)

    async def story() -> None:
        await loop.create_future()

    with pytest.raises(SimulationEnded):
        loop.run_until_complete(story())


def test_a_killed_host_runs_nothing_not_even_finally() -> None:
    loop = SimLoop(0)
    host = Host("b1", 1)
    seen: list[str] = []

    async def forever() -> None:
        try:
            while True:
                await asyncio.sleep(1)
                seen.append("tick")
        finally:
            seen.append("finally")

    context = loop.context_of(host)
    loop.call_soon(lambda: loop.create_task(forever(), context=context), context=context)
    loop.run_until(2.5)
    assert seen == ["tick", "tick"]
    host.kill()
    loop.run_until(100.0)

    assert seen == ["tick", "tick"]


def test_what_a_paused_host_had_to_do_is_due_when_it_is_let_go_on_early() -> None:
    loop = SimLoop(1)
    host = Host("b1", 1)
    ran: list[float] = []
    loop.call_at(1.0, lambda: ran.append(loop.time()), context=loop.context_of(host))
    host.pause(9.0)
    loop.run_until(2.0)
    assert ran == []
    host.pause(2.0)
    loop.go_on(host)
    loop.run_until(3.0)
    assert ran == [2.0]
    loop.run_until(20.0)
    assert ran == [2.0], "once"


def test_a_paused_host_goes_on_where_it_stopped() -> None:
    loop = SimLoop(0)
    host = Host("b1", 1)
    seen: list[float] = []
    for second in (1, 2, 3):
        loop.call_at(second, lambda: seen.append(loop.time()), context=loop.context_of(host))
    loop.run_until(1.5)
    host.paused_until = 10.0
    loop.run_until(20.0)

    assert seen == [1.0, 10.0, 10.0]


@pytest.mark.parametrize(
    ("stops", "by_then"),
    [("hang", ["worked"]), ("pause", []), ("kill", [])],
    ids=["its loop hangs: its threads live", "it is stopped", "it is dead"],
)
def test_blocking_work_is_done_by_threads_of_its_host(stops: str, by_then: list[str]) -> None:
    loop, host = SimLoop(1), Host("a", 1)
    done: list[str] = []

    async def work() -> None:
        await loop.run_in_executor(None, done.append, "worked")
        done.append("heard")

    context = loop.context_of(host)
    loop.call_soon(lambda: loop.create_task(work(), context=context), context=context)
    loop.run_until(0.0)
    if stops == "kill":
        host.kill()
    else:
        getattr(host, stops)(5.0)
    loop.run_until(4.0)
    assert done == by_then, "whoever waits for it hears it when the loop goes on"
    loop.run_until(6.0)
    assert done == ([] if stops == "kill" else ["worked", "heard"])
    loop.close()


def test_callbacks_belong_to_the_host_that_made_them() -> None:
    world = World(3)
    world.serve()
    hosts = []

    class Ask(Echo):
        def data_received(self, data: bytes) -> None:
            hosts.append(current_host.get().name)

    world.servers.clear()
    world.network.listeners.clear()
    world.serve(Ask)
    world.connect().transport.write(b"x")
    world.loop.run_until(1.0)

    assert hosts == ["server"]


def test_a_cut_link_stalls_and_a_healed_one_loses_nothing() -> None:
    world = World(5)
    world.serve()
    client = world.connect()
    world.loop.run_until(1.0)
    world.network.cut("client", "server")
    client.transport.write(b"hello")
    world.loop.run_until(30.0)
    assert client.received == b""
    world.network.heal("client", "server")
    world.loop.run_until(31.0)

    assert client.received == b"hello"


def test_a_killed_server_resets_its_connections_and_refuses_new_ones() -> None:
    world = World(6)
    world.serve()
    client = world.connect()
    world.loop.run_until(1.0)
    world.server.kill()
    world.network.host_killed(world.server)
    world.loop.run_until(2.0)

    assert [type(e) for e in client.lost] == [ConnectionResetError]
    with pytest.raises(ConnectionRefusedError):
        world.connect()


def test_a_connection_behind_a_cut_is_half_open_until_the_link_is_back() -> None:
    world = World(7)
    world.serve()
    client = world.connect()
    world.loop.run_until(1.0)
    world.network.cut("server", "client")
    world.server.kill()
    world.network.host_killed(world.server)
    world.loop.run_until(60.0)
    assert client.lost == []
    world.network.heal("server", "client")
    world.loop.run_until(61.0)

    assert len(client.lost) == 1


def test_to_heal_one_link_ends_no_connection_behind_another_one() -> None:
    world = World(7)
    world.serve()
    client = world.connect()
    world.loop.run_until(1.0)
    world.network.cut("server", "client")
    world.server.kill()
    world.network.host_killed(world.server)
    world.network.heal("server", "somebody else")
    world.loop.run_until(60.0)
    assert client.lost == []

    world.network.heal("server", "client")
    world.loop.run_until(61.0)
    assert len(client.lost) == 1


def test_who_is_behind_a_cut_hears_of_an_end_once_the_link_is_back() -> None:
    """It heard never of a connection that its peer had aborted, and what it wrote was lost without a word."""
    world = World(7)
    world.serve(Collect)
    client = world.connect()
    far = client.transport.peer.protocol
    world.loop.run_until(1.0)
    world.network.cut("client", "server")
    client.transport.abort()
    world.loop.run_until(60.0)
    assert (len(client.lost), len(far.lost)) == (1, 0)

    world.network.heal("client", "server")
    world.loop.run_until(61.0)
    assert len(far.lost) == 1


def test_what_a_given_up_connection_had_written_arrives_behind_what_the_next_one_writes() -> None:
    world = World(5)
    arrived: list[bytes] = []
    ended: list[bool] = []

    class Listen(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            arrived.append(data)

        def eof_received(self) -> None:
            ended.append(True)

    world.serve(Listen)
    first = world.connect()
    world.network.hold(first.transport)  # type: ignore[arg-type]
    first.transport.write(b"old")
    world.loop.run_until(1.0)
    world.network.give_up(first.transport)  # type: ignore[arg-type]
    world.loop.run_until(2.0)
    assert isinstance(first.lost[0], ConnectionResetError), "whoever wrote it knows that it is gone"
    second = world.connect()
    second.transport.write(b"new")
    world.loop.run_until(3.0)
    assert arrived == [b"new"], "and goes on; the other end has not heard of anything"
    world.network.heal_all()
    world.loop.run_until(4.0)

    assert (arrived, ended) == ([b"new", b"old"], [True])


def test_a_connection_that_is_held_and_kept_loses_nothing() -> None:
    world = World(5)
    world.serve()
    client = world.connect()
    world.network.hold(client.transport)  # type: ignore[arg-type]
    client.transport.write(b"once")
    world.loop.run_until(1.0)
    assert client.received == b""
    world.network.let_go(client.transport)  # type: ignore[arg-type]
    world.loop.run_until(2.0)

    assert (client.received, client.lost) == (b"once", [])


def test_a_peer_that_does_not_read_stops_the_writer() -> None:
    world = World(8)

    class Deaf(Echo):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            transport.pause_reading()
            self.transport = transport
            deaf.append(self)

    deaf: list[Deaf] = []
    world.serve(Deaf)
    client = world.connect()
    client.transport.write(bytes(1_000_000))
    world.loop.run_until(1.0)
    assert client.is_paused
    assert client.transport.get_write_buffer_size() > 500_000
    deaf[0].transport.resume_reading()
    world.loop.run_until(2.0)

    assert not client.is_paused
    assert client.transport.get_write_buffer_size() == 0


def test_what_the_kernel_takes_at_once_stops_no_writer_and_what_is_more_does() -> None:
    world = World(8)
    world.serve()
    client = world.connect()
    client.transport.write(bytes(SEND_BUFFER_BYTES))
    assert not client.is_paused
    assert client.transport.get_write_buffer_size() == 0
    client.transport.set_write_buffer_limits(high=0)
    client.transport.write(b"x")
    assert client.is_paused
    assert client.transport.get_write_buffer_size() == 1
    world.loop.run_until(1.0)

    assert not client.is_paused
    world.network.send_buffer_bytes = 0
    client.transport.write(b"x")
    assert client.is_paused
    assert client.transport.get_write_buffer_size() == 1


def test_a_connection_over_a_cut_link_is_tried_less_and_less_often_and_soon_made_once_it_is_healed() -> None:
    world = World(8)
    world.serve()
    world.network.cut("client", "server")
    before = world.loop.events
    made = world.loop.create_task(
        world.loop.create_connection(Collect, "server", 9092), context=world.loop.context_of(world.client)
    )
    world.loop.run_until(60.0)
    assert not made.done()
    assert world.loop.events - before < 60.0 / LAST_SYN_AGAIN_S + 10
    world.network.heal("client", "server")
    world.loop.run_until(60.0 + LAST_SYN_AGAIN_S + FIRST_SYN_AGAIN_S)

    assert made.done()


def test_closing_sends_what_was_written_first() -> None:
    world = World(9)
    world.serve()
    client = world.connect()
    received = bytearray()

    class Keep(Echo):
        def data_received(self, data: bytes) -> None:
            received.extend(data)

    world.network.listeners.clear()
    world.serve(Keep)
    client = world.connect()
    client.transport.write(bytes(300_000))
    client.transport.close()
    world.loop.run_until(5.0)

    assert len(received) == 300_000
    assert client.lost == [None]
