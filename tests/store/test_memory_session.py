"""What the owner of a store in memory can do to its sessions: cut, heal, delay, lose answers."""

import asyncio
from collections.abc import Awaitable

import pytest

from odradek.store.api import Create, SessionExpired, SessionState, StoreUnavailable, WatchEvent, WatchKind
from odradek.store.memory_session import MemoryEnsemble


def drive(scenario: Awaitable[None]) -> None:
    asyncio.run(scenario)  # type: ignore[arg-type]


def test_a_session_out_of_touch_fails_and_goes_on_when_healed() -> None:
    async def scenario() -> None:
        ensemble = MemoryEnsemble()
        writer, reader = ensemble.open(), ensemble.open()
        heard: list[WatchEvent] = []
        states: list[SessionState] = []
        reader.listen(on_watch=heard.append, on_session=states.append)
        await reader.create("/e", ephemeral=True)
        await reader.exists("/a", watch=True)
        reader.disconnect()
        with pytest.raises(StoreUnavailable):
            await reader.get("/e")
        await writer.create("/a")
        assert heard == []
        reader.connect()
        assert heard == [WatchEvent(WatchKind.CREATED, "/a")]
        assert await reader.exists("/e") is not None
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]

    drive(scenario())


def test_a_session_that_expired_while_out_of_touch_learns_it_when_healed() -> None:
    async def scenario() -> None:
        ensemble = MemoryEnsemble()
        session, other = ensemble.open(), ensemble.open()
        await session.create("/e", ephemeral=True)
        session.disconnect()
        ensemble.expire(session.session_id)
        assert session.state is SessionState.SUSPENDED, "nobody could tell it"
        assert await other.exists("/e") is None
        session.connect()
        assert session.state is SessionState.EXPIRED
        with pytest.raises(SessionExpired):
            await session.exists("/e")

    drive(scenario())


def test_a_client_may_give_itself_up_before_the_store_does() -> None:
    async def scenario() -> None:
        ensemble = MemoryEnsemble()
        session, other = ensemble.open(), ensemble.open()
        await session.create("/e", ephemeral=True)
        session.give_up()
        assert session.state is SessionState.CONNECTED, "in touch there is no reason to"
        session.disconnect()
        session.give_up()
        assert session.state is SessionState.EXPIRED
        assert await other.exists("/e") is not None, "the store has not noticed yet"
        session.connect()
        assert session.state is SessionState.EXPIRED
        ensemble.expire(session.session_id)
        assert await other.exists("/e") is None

    drive(scenario())


def test_late_watches_come_before_newer_data() -> None:
    async def scenario() -> None:
        ensemble = MemoryEnsemble()
        writer, reader = ensemble.open(), ensemble.open()
        heard: list[WatchEvent] = []
        reader.listen(on_watch=heard.append)
        await reader.exists("/a", watch=True)
        await reader.exists("/b", watch=True)
        reader.hold_watches()
        await writer.create("/a")
        assert heard == []
        assert await reader.exists("/a") is not None
        assert heard == [WatchEvent(WatchKind.CREATED, "/a")]
        await writer.create("/b")
        assert len(heard) == 1
        reader.release_watches()
        assert heard[1:] == [WatchEvent(WatchKind.CREATED, "/b")]

    drive(scenario())


class _LosesAnswers:
    def __init__(self) -> None:
        self.lose_next = False
        self.calls: list[str] = []

    async def before(self, session_id: int, call: str) -> None:
        self.calls.append(call)

    async def after(self, session_id: int, call: str) -> None:
        if self.lose_next:
            self.lose_next = False
            raise StoreUnavailable(message="the answer was lost")


def test_a_lost_answer_does_not_undo_the_write() -> None:
    async def scenario() -> None:
        gate = _LosesAnswers()
        ensemble = MemoryEnsemble(gate=gate)
        session = ensemble.open()
        gate.lose_next = True
        with pytest.raises(StoreUnavailable):
            await session.create("/a", b"written")
        assert (await session.get("/a")).data == b"written"
        assert gate.calls == ["multi", "get"]

    drive(scenario())


class _Cuts:
    """The way is cut while the answer travels."""

    def __init__(self) -> None:
        self.session = None

    async def before(self, session_id: int, call: str) -> None:
        """Let it through."""

    async def after(self, session_id: int, call: str) -> None:
        if self.session is not None:
            self.session.disconnect()


def test_an_answer_does_not_arrive_after_the_way_was_cut() -> None:
    async def scenario() -> None:
        gate = _Cuts()
        ensemble = MemoryEnsemble(gate=gate)
        session, other = ensemble.open(), ensemble.open()
        gate.session = session
        with pytest.raises(StoreUnavailable):
            await session.create("/a")
        gate.session = None
        assert await other.exists("/a") is not None

    drive(scenario())


def test_the_end_of_a_session_leaves_no_watch_behind() -> None:
    """Its watches are forgotten: no event for a session that is gone, and no growing tables."""

    async def scenario() -> None:
        ensemble = MemoryEnsemble()
        gone, other = ensemble.open(), ensemble.open()
        await gone.exists("/a", watch=True)
        await gone.children("/", watch=True)
        await other.exists("/a", watch=True)
        await gone.close()
        applied, fired = ensemble.tree.multi(other.session_id, [])
        assert (applied, fired) == ([], [])
        _, fired = ensemble.tree.multi(other.session_id, [Create("/a")])
        assert fired == [(other.session_id, WatchEvent(WatchKind.CREATED, "/a"))]

    drive(scenario())
