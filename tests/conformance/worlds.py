"""The stores under test, behind one face: sessions, and how a session is lost."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from odradek.store.api import SessionState, Store, WatchEvent
from odradek.store.embedded import EmbeddedStore
from odradek.store.embedded.worker import Job
from odradek.store.memory_session import MemoryEnsemble, MemorySession

DEADLINE_S = 20.0


class World(Protocol):
    async def open(self, session_timeout_ms: int = 6000) -> Store: ...

    async def lose(self, session: Store) -> None:
        """The owner of the session dies: it never calls again, and the store ends it."""

    async def close(self) -> None: ...


class MemoryWorld:
    def __init__(self, directory: Path) -> None:
        self._ensemble = MemoryEnsemble()

    async def open(self, session_timeout_ms: int = 6000) -> Store:
        return self._ensemble.open(session_timeout_ms)

    async def lose(self, session: Store) -> None:
        self._ensemble.expire(session.session_id)

    async def close(self) -> None:
        for session in tuple(self._ensemble.sessions.values()):
            await session.close()


class EmbeddedWorld:
    def __init__(self, directory: Path) -> None:
        self._path = directory / "store.db"
        self._sessions: list[EmbeddedStore] = []

    async def open(self, session_timeout_ms: int = 6000) -> Store:
        session = await EmbeddedStore.open(self._path, session_timeout_ms)
        self._sessions.append(session)
        return session

    async def lose(self, session: Store) -> None:
        # What the kernel does for a dead process: the lock is let go of, the row in the store stays.
        worker = session._worker  # type: ignore[attr-defined]
        worker.submit(Job(lambda worker: worker._finish(SessionState.EXPIRED), print, print))
        await asyncio.to_thread(worker.join)

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()


WORLDS: dict[str, Callable[[Path], World]] = {"memory": MemoryWorld, "embedded": EmbeddedWorld}


def on_every_store(scenario: Callable[[World], Awaitable[None]]) -> Any:
    """Make a test of an async function that takes a world: one run a store."""

    @pytest.mark.parametrize("kind", WORLDS)
    def test(kind: str, tmp_path: Path) -> None:
        async def run() -> None:
            world = WORLDS[kind](tmp_path)
            try:
                await scenario(world)
            finally:
                await world.close()

        asyncio.run(run())

    test.__doc__ = scenario.__doc__
    return test


class Heard(list[WatchEvent]):
    """Every watch event that a session is told."""

    def __init__(self, session: Store) -> None:
        session.listen(on_watch=self.append)


async def until(predicate: Callable[[], Any], what: str = "") -> None:
    end = time.monotonic() + DEADLINE_S
    while not predicate():
        assert time.monotonic() < end, f"not within {DEADLINE_S} s: {what or predicate}"
        await asyncio.sleep(0.001)  # a poll under a deadline


def as_memory(session: Store) -> MemorySession:
    assert isinstance(session, MemorySession)
    return session
