"""What every session is to whoever holds it, whatever store stands behind: an id, a state, those who listen, and
the calls that are a transaction of one op. Pure; the three stores add the way to the tree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from odradek.store.api import (
    ANY_VERSION,
    Applied,
    Create,
    Delete,
    OnSession,
    OnWatch,
    Op,
    SessionExpired,
    SessionState,
    Set,
    Stat,
    WatchEvent,
)

OVER = (SessionState.EXPIRED, SessionState.CLOSED)


class SessionBase(ABC):
    def __init__(self, session_timeout_ms: int, state: SessionState) -> None:
        self._session_id = 0
        self._session_timeout_ms = session_timeout_ms
        self._state = state
        self._on_watch: list[OnWatch] = []
        self._on_session: list[OnSession] = []

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        return self._session_timeout_ms

    @property
    def state(self) -> SessionState:
        return self._state

    def listen(
        self, *, on_watch: OnWatch | None = None, on_session: OnSession | None = None
    ) -> Callable[[], None]:
        if on_watch is not None:
            self._on_watch.append(on_watch)
        if on_session is not None:
            self._on_session.append(on_session)

        def stop() -> None:
            if on_watch in self._on_watch:
                self._on_watch.remove(on_watch)
            if on_session in self._on_session:
                self._on_session.remove(on_session)

        return stop

    # ---- transactions of one op

    @abstractmethod
    async def multi(self, ops: Sequence[Op]) -> list[Applied]: ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Applied:
        return (await self.multi([Create(path, data, ephemeral, sequential)]))[0]

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        stat = (await self.multi([Set(path, data, version)]))[0].stat
        assert stat is not None
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.multi([Delete(path, version)])

    # ---- for the stores

    @property
    def _is_over(self) -> bool:
        return self._state in OVER

    def _ended(self) -> SessionExpired:
        return SessionExpired(
            message=f"session {self._session_id:#x} is {self._state.value}; open another one"
        )

    def _hear(self, event: WatchEvent) -> None:
        # Of a copy: a callback may stop listening, or begin to.
        for on_watch in tuple(self._on_watch):
            on_watch(event)

    def _become(self, state: SessionState) -> None:
        if state is not self._state:
            self._state = state
            for on_session in tuple(self._on_session):
                on_session(state)
