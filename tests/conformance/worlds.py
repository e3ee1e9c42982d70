"""The stores under test, behind one face: sessions, and how a session is lost."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pytest

from odradek.store.api import (
    Check,
    ConditionalOps,
    Fence,
    SessionState,
    Set,
    Store,
    WatchEvent,
    WriteAnswer,
)
from odradek.store.embedded import EmbeddedStore
from odradek.store.embedded.worker import Job
from odradek.store.memory_session import MemoryEnsemble, MemorySession
from odradek.store.zookeeper.write import write_groups

DEADLINE_S = 60.0
# Longer than any machine stands still: a session that ends was lost on purpose.
LONG_MS = 120_000


class World(Protocol):
    async def open(self, session_timeout_ms: int = LONG_MS) -> Store: ...

    async def lose(self, session: Store) -> None:
        """The owner of the session dies: it never calls again, and the store ends it."""

    async def close(self) -> None: ...


class MemoryWorld:
    def __init__(self, directory: Path) -> None:
        self._ensemble = MemoryEnsemble()

    async def open(self, session_timeout_ms: int = LONG_MS) -> Store:
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

    async def open(self, session_timeout_ms: int = LONG_MS) -> Store:
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


class MultiOnly(MemorySession):
    """A session whose `write` is made of `multi`, as a session with ZooKeeper has to make it."""

    async def write(self, writes: Sequence[ConditionalOps], fence: Fence | None) -> list[WriteAnswer]:
        return await write_groups(self, writes, fence)

    async def set_all(self, sets: Sequence[Set], fence: Fence | None) -> list[int]:
        checks = [] if fence is None else [Check(fence.path, fence.version)]
        applied = await self.multi([*checks, *sets])
        return [one.stat.version for one in applied if one.stat is not None]


class MultiOnlyWorld(MemoryWorld):
    async def open(self, session_timeout_ms: int = LONG_MS) -> Store:
        tree = self._ensemble.tree
        session = MultiOnly(self._ensemble, tree.open_session(session_timeout_ms), session_timeout_ms)
        self._ensemble.sessions[session.session_id] = session
        return session


class ZooKeeperWorld:
    """Each test below a node of its own, so that all share one server."""

    _number = 0

    def __init__(self, address: str) -> None:
        from odradek.store.zookeeper.stores import ZooKeeperStores

        type(self)._number += 1
        self.address = address
        self._stores = ZooKeeperStores(f"{address}/test-{os.getpid()}-{self._number}")
        self._sessions: list[Store] = []

    async def open(self, session_timeout_ms: int = LONG_MS) -> Store:
        session = await self._stores.open_session(session_timeout_ms)
        self._sessions.append(session)
        return session

    async def lose(self, session: Store) -> None:
        # Whoever has the id and the password of a session may end it. Its owner lives on here and may take it back
        # before it is ended, so this counts once the owner was told.
        from odradek.store.zookeeper.last_session import end_session
        from odradek.store.zookeeper.link import SessionKey
        from odradek.store.zookeeper.security import Security

        key = SessionKey(*session._session._link._client.client_id)  # type: ignore[attr-defined]
        while session.state is not SessionState.EXPIRED:
            await end_session(self.address, key, Security(), patience_s=20)
            with suppress(TimeoutError):
                async with asyncio.timeout(3):
                    await until(lambda: session.state is SessionState.EXPIRED)

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()


KINDS = ["memory", "memory-by-multi", "embedded", pytest.param("zookeeper", marks=pytest.mark.process)]


def make_world(kind: str, request: pytest.FixtureRequest, directory: Path) -> World:
    if kind == "zookeeper":
        return ZooKeeperWorld(request.getfixturevalue("zookeeper").address)
    return {"memory": MemoryWorld, "memory-by-multi": MultiOnlyWorld, "embedded": EmbeddedWorld}[kind](
        directory
    )


def on_every_store(scenario: Callable[[World], Awaitable[None]]) -> Any:
    """Make a test of an async function that takes a world: one run a store."""

    @pytest.mark.parametrize("kind", KINDS)
    def test(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
        async def run() -> None:
            world = make_world(kind, request, tmp_path)
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
