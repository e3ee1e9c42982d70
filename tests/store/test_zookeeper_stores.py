"""`zookeeper.connect` and the settings beside it. No server."""

import asyncio
import itertools
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from odradek.model.errors import ConfigurationError
from odradek.model.settings import BrokerSettings
from odradek.server.main import open_provider
from odradek.store.api import OutOfTouch, SessionState
from odradek.store.memory_session import MemoryEnsemble, MemorySession

pytest.importorskip("kazoo", reason="kazoo is not installed")
from odradek.store.zookeeper import last_session, stores
from odradek.store.zookeeper import session as zookeeper_session
from odradek.store.zookeeper.last_session import LastSession
from odradek.store.zookeeper.link import LinkState, SessionKey


@pytest.mark.parametrize(
    ("connect", "hosts", "chroot"),
    [
        ("h:2181", "h:2181", "/"),
        ("h", "h", "/"),
        ("h:65535", "h:65535", "/"),
        ("a:2181,b:2182/", "a:2181,b:2182", "/"),
        ("a:2181, b:2182/clusters/one/", "a:2181, b:2182", "/clusters/one"),
        ("[::1]:2181/x", "[::1]:2181", "/x"),
    ],
)
def test_hosts_and_chroot(connect: str, hosts: str, chroot: str) -> None:
    assert stores.split_connect(connect) == (hosts, chroot)


@pytest.mark.parametrize(
    ("connect", "why"),
    [
        ("", "expected host:port,host:port/chroot, found ''"),
        ("h:", "found 'h:'"),
        ("h:x", "found 'h:x'"),
        ("h:-1", "found 'h:-1'"),
        ("h:\u0661", "found 'h:\u0661'"),
        ("h:0", "port 0 is not between 1 and 65535"),
        ("a:1,b:65536/x", "port 65536 is not between 1 and 65535"),
        ("[::1]:70000", "port 70000 is not between 1 and 65535"),
        ("a:1,,b:2", "found ''"),
        ("a:1/x,b:2/x", "the chroot stands once, at the end"),
        ("a:1//x", "is no path of a node"),
        ("a:1/x/../y", "is no path of a node"),
    ],
)
def test_what_names_no_ensemble_says_why(connect: str, why: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        stores.split_connect(connect)
    assert why in str(caught.value)
    assert str(caught.value).startswith(f"zookeeper.connect={connect}: ")


def test_the_settings_of_the_broker_reach_the_connection() -> None:
    made = stores.ZooKeeperStores.of(
        BrokerSettings(
            {
                "zookeeper.connect": "h:1/c",
                "zookeeper.session.timeout.ms": "4000",
                "zookeeper.max.in.flight.requests": "3",
                "zookeeper.set.acl": "true",
            }
        )
    )
    assert (made.hosts, made.chroot) == ("h:1", "/c")
    assert (made._connection_timeout_ms, made._in_flight) == (4000, 3)
    assert made._security.sets_acl
    longer = {"zookeeper.connect": "h:1", "zookeeper.connection.timeout.ms": "9000"}
    assert stores.ZooKeeperStores.of(BrokerSettings(longer))._connection_timeout_ms == 9000


def test_a_session_below_a_chroot_is_one_with_the_ensemble_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ensemble = MemoryEnsemble()
    asked: list[str] = []

    async def opened(hosts: str, *arguments: object, **named: object) -> MemorySession:
        asked.append(hosts)
        return ensemble.open()

    monkeypatch.setattr(stores.ZooKeeperStore, "open", opened)

    async def scenario() -> None:
        session = await stores.ZooKeeperStores("a:1,b:2/c").open_session(6000)
        await session.create("/d", b"below")
        assert (await ensemble.open().get("/c/d")).data == b"below"

    asyncio.run(scenario())
    assert asked == ["a:1,b:2"]


@pytest.mark.parametrize(("patience_ms", "opens"), [(60_000, [True, True]), (50, [True])])
def test_a_way_that_is_lost_behind_the_first_word_is_looked_for_as_long_as_one_that_was_never_there(
    monkeypatch: pytest.MonkeyPatch, patience_ms: int, opens: list[bool]
) -> None:
    """The member that made the session dies before the chroot was looked at: the start of a broker ended with that."""
    ensemble = MemoryEnsemble()
    asked: list[bool] = []

    async def opened(*arguments: object, **named: object) -> MemorySession:
        asked.append(True)
        session = ensemble.open()
        if len(asked) == 1:
            session.disconnect()
        return session

    monkeypatch.setattr(stores.ZooKeeperStore, "open", opened)

    async def scenario() -> None:
        session = await stores.ZooKeeperStores("a:1/c", connection_timeout_ms=patience_ms).open_session(6000)
        assert session.state is SessionState.CONNECTED

    with pytest.raises(OutOfTouch) if len(opens) == 1 else nullcontext():
        asyncio.run(scenario())
    assert asked == opens


class Link:
    """A way to an ensemble that lets everybody in, and knows each session by its number."""

    last_problem = ""
    numbers = itertools.count(7)

    def __init__(self, *arguments: object, on_state: Callable[[LinkState], None], **named: object) -> None:
        self.become = on_state
        self.session_id = next(self.numbers)
        self.key = SessionKey(self.session_id, b"password")

    def start(self) -> None:
        self.become(LinkState.UP)

    def stop(self) -> asyncio.Future[None]:
        stopped = asyncio.get_running_loop().create_future()
        stopped.set_result(None)
        return stopped

    def exists(self, path: str, watch: bool) -> object:
        return None

    def ask(self, request: object, settle: Callable[..., None]) -> None:
        settle(None, None, 0)


@pytest.mark.parametrize("is_out_of_touch", [False, True])
def test_a_session_that_the_ensemble_did_not_hear_end_is_left_to_whoever_comes_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_out_of_touch: bool
) -> None:
    """Stopped while the ensemble was away, and started again when it was back, a broker waited for the end of its own session."""
    note = LastSession(tmp_path / "note.json")

    monkeypatch.setattr(zookeeper_session, "KazooLink", Link)

    async def scenario() -> None:
        made = stores.ZooKeeperStores("a:1", last_session=note)
        session = await made.open_session(6000)
        assert note.read() == session.key
        if is_out_of_touch:
            session._link.become(LinkState.DOWN)
        await session.close()
        await made.close()
        assert note.read() == (session.key if is_out_of_touch else None)

    asyncio.run(scenario())


def test_the_session_that_is_left_to_whoever_comes_next_is_the_last_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a process whose first one had expired, and that was killed then."""
    note = LastSession(tmp_path / "note.json")
    monkeypatch.setattr(zookeeper_session, "KazooLink", Link)

    async def scenario() -> None:
        made = stores.ZooKeeperStores("a:1", last_session=note)
        first = await made.open_session(6000)
        first._link.become(LinkState.OVER)
        second = await made.open_session(6000)
        assert note.read() == second.key != first.key
        for session in (first, second):
            await session.close()

    asyncio.run(scenario())


def test_the_session_before_is_ended_where_the_ensemble_took_its_time_to_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Members that are started with their brokers elect one first. Nobody answered for as long as the end of a session is waited for,
    and then the note of it was written over: the registration of the broker before stood for a whole timeout of its session."""
    former = SessionKey(3, b"former")
    note = LastSession(tmp_path / "note.json")
    note.write(former)
    serves = False
    ended: list[SessionKey] = []

    class LinkOfALateEnsemble(Link):
        """Whoever opens a session waits until there is one; nobody else does so for as long."""

        def __init__(self, *arguments: object, key: SessionKey | None = None, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self.of_before = key

        def start(self) -> None:
            nonlocal serves
            serves = serves or self.of_before is None
            if serves:
                super().start()

        def stop(self) -> asyncio.Future[None]:
            if serves and self.of_before is not None:
                ended.append(self.of_before)
            return super().stop()

    for module in (zookeeper_session, last_session):
        monkeypatch.setattr(module, "KazooLink", LinkOfALateEnsemble)

    async def scenario() -> None:
        made = stores.ZooKeeperStores("a:1", last_session=note)
        for _ in range(2):  # a later one of this process ends nobody's
            session = await made.open_session(6000)
            assert (ended, note.read()) == ([former], session.key)
            await session.close()

    asyncio.run(scenario())


def test_two_stores_are_one_too_many() -> None:
    with pytest.raises(
        ConfigurationError, match=r"zookeeper\.connect=h:1 and odradek\.store=/f name two stores"
    ):
        open_provider(BrokerSettings({"zookeeper.connect": "h:1", "odradek.store": "/f"}))
