"""What only a store at the other end of a network can do: be away, come back, never answer."""

import asyncio
import socket

import pytest

from odradek.store.api import SessionExpired, SessionState, StoreUnavailable, WatchEvent, WatchKind
from tests.conformance.worlds import Heard, ZooKeeperWorld, until
from tests.conformance.zookeeper_server import ZooKeeperServer

pytestmark = pytest.mark.process


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


def _dead_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cut:
    """The way from one session to the server, cut and healed."""

    def __init__(self, session) -> None:
        self._client = session._session._link._client
        self._hosts = self._client.hosts

    def cut(self) -> None:
        from kazoo.protocol.connection import _CONNECTION_DROP

        self._client.hosts = [("127.0.0.1", _dead_port())]
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
async def test_a_client_out_of_touch_gives_up_before_the_server_does(world: ZooKeeperWorld) -> None:
    session, other = await world.open(3000), await world.open(60_000)
    await session.create("/controller", ephemeral=True)
    heard = Heard(other)
    await other.exists("/controller", watch=True)
    line = Cut(session)
    line.cut()
    await until(lambda: session.state is SessionState.EXPIRED)
    assert heard == [], "its place was taken while it still believed in itself"
    assert await other.exists("/controller") is not None
    with pytest.raises(SessionExpired):
        await session.get("/")
    await until(lambda: heard)
    line.heal()
    with pytest.raises(SessionExpired):
        await session.get("/")


def test_watches_and_answers_are_heard_in_the_order_of_the_wire() -> None:
    """kazoo's own handler gives them to two threads, of which either may be the first."""
    pytest.importorskip("kazoo", reason="kazoo is not installed")
    from kazoo.protocol.states import Callback

    from odradek.store.zookeeper.link import _Inline
    from odradek.store.zookeeper.security import Security

    handler = _Inline(Security())
    handler.start()
    heard = []
    answer = handler.async_result()
    answer.rawlink(lambda result: heard.append(result.value))
    for number in range(3):
        handler.dispatch_callback(Callback("watch", heard.append, (f"watch {number}",)))
    answer.set("answer")
    assert heard == ["watch 0", "watch 1", "watch 2", "answer"]
    handler.stop()


def test_an_ensemble_that_does_not_answer_is_named() -> None:
    async def run() -> None:
        from odradek.store.zookeeper.stores import ZooKeeperStores

        port = _dead_port()
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
