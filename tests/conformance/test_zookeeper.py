"""What only a store at the other end of a network can do: be away, come back, never answer."""

import asyncio
import os
import socket
import threading
from contextlib import asynccontextmanager

import pytest

from odradek.store.api import (
    ConditionalOps,
    Conflict,
    Create,
    DeleteTree,
    Fence,
    Fenced,
    Put,
    SessionExpired,
    SessionState,
    Set,
    Stored,
    StoreUnavailable,
    TooLarge,
    WatchEvent,
    WatchKind,
)
from odradek.store.zookeeper.patience import Patience
from odradek.testing.process_cluster import free_ports
from tests.conformance.worlds import Heard, ZooKeeperWorld, until
from tests.conformance.zookeeper_server import ZooKeeperServer
from tests.nightly.proxy import Proxies

pytestmark = pytest.mark.process
# Of a session whose end is waited for; it is not to end before something was done in it.
SHORT_MS = 12_000


def in_zookeeper(scenario):
    def test(zookeeper: ZooKeeperServer) -> None:
        async def run() -> None:
            world = ZooKeeperWorld(zookeeper.address)
            try:
                await scenario(world)
            finally:
                await world.close()

        asyncio.run(run())

    test.__doc__ = scenario.__doc__
    return test


class Cut:
    """The way from one session to the server, cut and healed."""

    def __init__(self, session) -> None:
        self._client = session._session._link._client
        self._hosts = self._client.hosts

    def cut(self, port: int | None = None) -> None:
        """`port`: whom it finds there in place of the server; None: nobody."""
        from kazoo.protocol.connection import _CONNECTION_DROP

        # Not one that the kernel gives to outgoing connections: who connects to it might be given it himself.
        (nobodys,) = free_ports(1)
        self._client.hosts = [("127.0.0.1", nobodys if port is None else port)]
        self._client._call(_CONNECTION_DROP, self._client.handler.async_result())

    def heal(self) -> None:
        self._client.hosts = self._hosts


@in_zookeeper
async def test_a_connection_that_comes_back_tells_first_what_was_missed(world: ZooKeeperWorld) -> None:
    session, other = await world.open(60_000), await world.open(60_000)
    states: list[SessionState] = []
    heard = Heard(session)
    session.listen(on_session=states.append)
    for path in ("/same", "/changed", "/gone", "/again", "/parent", "/parent/old", "/quiet"):
        await other.create(path, b"0")
    await session.create("/mine", ephemeral=True)
    await session.get_many(["/same", "/changed", "/gone", "/again"], watch=True)
    assert await session.exists("/new", watch=True) is None
    await session.children("/parent", watch=True)
    await session.children("/quiet", watch=True)
    line = Cut(session)
    line.cut()
    await until(lambda: session.state is SessionState.SUSPENDED)
    with pytest.raises(StoreUnavailable):
        await session.get("/same")
    await other.set("/changed", b"1")
    await other.delete("/gone")
    await other.delete("/again")
    await other.create("/again", b"1")
    await other.create("/new")
    await other.create("/parent/young")
    await other.set("/quiet", b"1")  # no change of its children
    line.heal()
    await until(lambda: session.state is SessionState.CONNECTED)
    assert (await session.get("/changed")).data == b"1"
    assert sorted(heard, key=lambda event: event.path) == [
        WatchEvent(WatchKind.DELETED, "/again"),  # the first thing that happened to it
        WatchEvent(WatchKind.CHANGED, "/changed"),
        WatchEvent(WatchKind.DELETED, "/gone"),
        WatchEvent(WatchKind.CREATED, "/new"),
        WatchEvent(WatchKind.CHILDREN, "/parent"),
    ]
    assert await session.exists("/mine") is not None
    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    # What did not fire is armed still.
    heard.clear()
    await other.set("/same", b"1")
    await other.create("/quiet/child")
    await until(lambda: len(heard) == 2)
    assert heard == [WatchEvent(WatchKind.CHANGED, "/same"), WatchEvent(WatchKind.CHILDREN, "/quiet")]


@in_zookeeper
async def test_a_server_that_accepts_and_never_answers_does_not_cost_the_session(
    world: ZooKeeperWorld,
) -> None:
    """As one that is starting: it refuses what comes too early, and does not get as far as closing the connection."""
    session = await world.open(32_000)
    line = Cut(session)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        line.cut(silent.getsockname()[1])
        accepted, _ = await asyncio.to_thread(silent.accept)
        with accepted:
            accepted.settimeout(60)
            assert await asyncio.to_thread(accepted.recv, 1), "it asks for its session"
            line.heal()
            await until(lambda: session.state is not SessionState.SUSPENDED)
    assert session.state is SessionState.CONNECTED


@asynccontextmanager
async def through_a_member(world: ZooKeeperWorld, timeout_ms: int):
    """A session that has come to a member that can fall silent: its states since it was opened, its line, and what makes the
    member fall silent."""
    session = await world.open(timeout_ms)
    states: list[SessionState] = []
    session.listen(on_session=states.append)
    line = Cut(session)
    (port,) = free_ports(1)
    with Proxies({port: int(world.address.rpartition(":")[2])}) as members:
        line.cut(port)
        await until(lambda: states == [SessionState.SUSPENDED, SessionState.CONNECTED])
        yield session, states, line, lambda: members.hold(port)


@in_zookeeper
async def test_a_member_that_falls_silent_is_left_for_another_one_before_it_costs_the_session(
    world: ZooKeeperWorld,
) -> None:
    """Its host has lost its power, or a firewall its table: no end of the connection is ever told."""
    async with through_a_member(world, 30_000) as (session, states, line, fall_silent):
        line.heal()
        fall_silent()
        with pytest.raises(StoreUnavailable):  # whether it happened is not known
            await session.create("/a")
        await until(lambda: len(states) == 4)
        assert states[2:] == [SessionState.SUSPENDED, SessionState.CONNECTED]
        assert await session.exists("/a") is None


@in_zookeeper
async def test_the_connection_of_a_session_that_has_ended_is_given_up_though_the_server_says_nothing(
    world: ZooKeeperWorld,
) -> None:
    """Its two threads would stay for as long as the kernel sends its last words again."""
    async with through_a_member(world, SHORT_MS) as (session, _, _, fall_silent):
        fall_silent()
        await session.close()
        session._session._loop_beat._came_round_at = 0.0  # as a while later: no beat comes any more
        connection = session._session._link._client._connection
        await until(connection.connection_closed.is_set)


@pytest.mark.parametrize(
    ("timeout_s", "attempts"), [(60.0, [7.5, 15, 30, 60, 60]), (3.0, [1, 2, 3, 3]), (0.5, [0.5, 0.5])]
)
def test_each_attempt_to_connect_that_is_not_answered_makes_the_next_one_longer(
    timeout_s: float, attempts: list[float]
) -> None:
    patience = Patience(timeout_s)
    waited = []
    for _ in attempts:
        waited.append(patience.now_s)
        patience.was_in_vain()

    assert waited == attempts
    patience.was_answered()
    assert patience.now_s == attempts[0]


@in_zookeeper
async def test_a_client_out_of_touch_gives_up_before_the_server_does(world: ZooKeeperWorld) -> None:
    session, other = await world.open(SHORT_MS), await world.open(60_000)
    await session.create("/controller", ephemeral=True)
    believed: list[bool] = []

    def place_is_free(event: WatchEvent) -> None:
        # At that very moment, however late this process hears of it: would the session let a call through?
        own = session._session
        believed.append(not (own._is_over or own._is_silent()))

    other.listen(on_watch=place_is_free)
    await other.exists("/controller", watch=True)
    line = Cut(session)
    line.cut()
    await until(lambda: session.state is SessionState.EXPIRED)
    with pytest.raises(SessionExpired):
        await session.get("/")
    await until(lambda: believed)
    assert believed == [False], "its place was taken while it still believed in itself"
    line.heal()
    with pytest.raises(SessionExpired):
        await session.get("/")


def test_watches_and_answers_are_heard_in_the_order_of_the_wire() -> None:
    """kazoo's own handler gives them to two threads, of which either may be the first."""
    pytest.importorskip("kazoo", reason="kazoo is not installed")
    from kazoo.protocol.states import Callback

    from odradek.store.zookeeper.link import _Inline
    from odradek.store.zookeeper.security import Security

    handler = _Inline(Security(), Patience(6.0))
    handler.start()
    heard = []
    answer = handler.async_result()
    answer.rawlink(lambda result: heard.append(result.value))
    for number in range(3):
        handler.dispatch_callback(Callback("watch", heard.append, (f"watch {number}",)))
    answer.set("answer")
    assert heard == ["watch 0", "watch 1", "watch 2", "answer"]
    handler.stop()


def test_what_tls_has_decrypted_is_read_without_waiting_for_more() -> None:
    """Two answers in one TLS record: after the first no socket is readable any more, and the second is there."""
    pytest.importorskip("kazoo", reason="kazoo is not installed")
    from odradek.store.zookeeper.link import _Inline
    from odradek.store.zookeeper.security import Security

    silent, other = socket.socketpair()

    class Decrypted:
        decrypted = 7

        def fileno(self) -> int:
            return silent.fileno()

        def pending(self) -> int:
            return self.decrypted

    connection = Decrypted()
    handler = _Inline(Security(), Patience(6.0))
    with silent, other:
        assert handler.select([connection, other], [], [], 60)[0] == [connection]
        silent.sendall(b"x")
        assert handler.select([connection, other], [], [], 60)[0] == [connection, other]
        connection.decrypted = 0
        assert handler.select([connection, other], [], [], 60)[0] == [other]


def test_an_ensemble_that_does_not_answer_is_named() -> None:
    async def run() -> None:
        from odradek.store.zookeeper.stores import ZooKeeperStores

        (port,) = free_ports(1)
        with pytest.raises(
            StoreUnavailable, match=f"no ZooKeeper answered at 127.0.0.1:{port} within 300 ms"
        ):
            await ZooKeeperStores(f"127.0.0.1:{port}", connection_timeout_ms=300).open_session(6000)

    pytest.importorskip("kazoo", reason="kazoo is not installed")
    asyncio.run(run())


def test_a_server_that_is_killed_and_comes_back_has_the_session_and_all_that_was_written(tmp_path) -> None:
    from tests.conformance import zookeeper_server

    reason = zookeeper_server.missing()
    if reason is not None:
        pytest.skip(reason)
    server = ZooKeeperServer(tmp_path)

    async def run() -> None:
        world = ZooKeeperWorld(server.address)
        session = await world.open(60_000)
        await session.create("/kept", b"data")
        await session.create("/mine", ephemeral=True)
        server.kill()
        await until(lambda: session.state is SessionState.SUSPENDED)
        with pytest.raises(StoreUnavailable):
            await session.set("/kept", b"lost")
        await asyncio.to_thread(server.start)
        await until(lambda: session.state is SessionState.CONNECTED)
        assert (await session.get("/kept")).data == b"data"
        stat = await session.exists("/mine")
        assert stat is not None
        assert stat.ephemeral_owner == session.session_id
        await world.close()

    try:
        server.start()
        asyncio.run(run())
    finally:
        server.kill()


# ---- a packet holds 1 MiB


@in_zookeeper
async def test_what_is_larger_than_a_packet_is_written_in_several_and_read_whatever_its_size(
    world: ZooKeeperWorld,
) -> None:
    session = await world.open(60_000)
    await session.create("/big")
    large = b"x" * 300_000
    paths = [f"/big/{number}" for number in range(8)]
    answers = await session.write([ConditionalOps((Put(path, large),)) for path in paths], None)
    assert answers == [Stored(0)] * 8
    for watch in (False, True):
        nodes = await session.get_many(paths, watch=watch)
        assert [node is not None and node.data == large for node in nodes] == [True] * 8
    answers = await session.write([ConditionalOps((Set(path, large, 0),)) for path in paths], None)
    assert answers == [Stored(1)] * 8
    # A tree of many is taken away in parts too.
    many = [ConditionalOps((Create(f"/big/{'n' * 200}{number}"),)) for number in range(5_000)]
    assert set(await session.write(many, None)) == {Stored(0)}
    assert await session.write([ConditionalOps((DeleteTree("/big"),))], None) == [Stored(-1)]
    assert await session.exists("/big") is None


@in_zookeeper
async def test_a_value_that_no_packet_holds_is_refused_before_it_costs_the_connection(
    world: ZooKeeperWorld,
) -> None:
    session = await world.open(60_000)
    states: list[SessionState] = []
    session.listen(on_session=states.append)
    await session.create("/t", b"before")
    largest = 1_048_575 - 8 - 100
    for refused in (
        session.set("/t", b"x" * (largest + 200)),
        session.write([ConditionalOps((Set("/t", b"x" * (1 << 20)),))], None),
        session.multi([Set("/t", b"x" * 600_000), Set("/t", b"x" * 600_000)]),
    ):
        with pytest.raises(
            TooLarge, match="most of them the value of /t, is more than ZooKeeper takes in one packet"
        ):
            await refused
    assert (await session.get("/t")).data == b"before"
    await session.set("/t", b"x" * largest)
    assert len((await session.get("/t")).data) == largest
    assert states == []


@in_zookeeper
async def test_a_conflict_in_a_large_write_is_told_alone_and_the_others_happen(world: ZooKeeperWorld) -> None:
    session = await world.open(60_000)
    await session.create("/controller_epoch")
    await session.create("/many")
    paths = [f"/many/{number}" for number in range(3_000)]
    await session.write([ConditionalOps((Create(path, b"0"),)) for path in paths], Fence(0))
    moved = {paths[0], paths[1500], paths[2999]}
    for path in moved:
        await session.set(path, b"theirs")
    groups = [ConditionalOps((Set(path, b"ours", 0),)) for path in paths]
    answers = await session.write(groups, Fence(0))
    assert answers == [Conflict(path, b"theirs", 1) if path in moved else Stored(1) for path in paths]
    await session.set("/controller_epoch", b"2")
    assert set(await session.write(groups, Fence(0))) == {Fenced()}


def test_the_session_of_a_loop_that_hangs_ends_though_kazoos_thread_goes_on(
    zookeeper: ZooKeeperServer,
) -> None:
    from odradek.store.zookeeper.stores import ZooKeeperStores

    is_there, is_gone = threading.Event(), threading.Event()
    stores = ZooKeeperStores(f"{zookeeper.address}/a-loop-that-hangs-{os.getpid()}")

    async def watch() -> None:
        store = await stores.open_session(60_000)
        changed = asyncio.Event()
        store.listen(on_watch=lambda event: changed.set())
        for has_changed in (is_there, is_gone):
            while (await store.exists("/e", watch=True) is not None) is (has_changed is is_gone):
                await changed.wait()
                changed.clear()
            has_changed.set()
        await store.close()

    async def hang() -> None:
        store = await stores.open_session(SHORT_MS)
        await store.create("/e", ephemeral=True)
        assert await asyncio.to_thread(is_there.wait, 60)
        assert is_gone.wait(90), "others take over while the loop stands still in this call"
        with pytest.raises((SessionExpired, StoreUnavailable)):
            while True:
                await store.create("/late")
        async with asyncio.timeout(60):
            while store.state is not SessionState.EXPIRED:
                await asyncio.sleep(0)
        await store.close()

    watcher = threading.Thread(target=lambda: asyncio.run(watch()), daemon=True)
    watcher.start()
    asyncio.run(hang())
    watcher.join(60)
