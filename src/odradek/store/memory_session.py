"""Sessions with a tree in memory: the whole cluster in one process, for tests and the simulator.

There is no clock here. The owner of the `MemoryEnsemble` drives what time would do:
`expire` ends a session as the store would after its timeout; `disconnect` and `connect` cut and heal the way
to the store; `hold_watches` delivers late, though never after newer data; a `gate` may delay a call, or lose
its answer, before and after it took effect.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from odradek.store.api import (
    Applied,
    ConditionalOps,
    Fence,
    Node,
    NoNode,
    Op,
    OutOfTouch,
    SessionExpired,
    SessionState,
    Stat,
    WatchEvent,
    WriteAnswer,
)
from odradek.store.memory import Fired, Tree
from odradek.store.session import SessionBase

T = TypeVar("T")


class Gate(Protocol):
    """What lies between a session and the store. Raising StoreUnavailable loses the call, or its answer."""

    async def before(self, session_id: int, call: str) -> None: ...

    async def after(self, session_id: int, call: str) -> None: ...


class MemoryEnsemble:
    """One tree and the sessions with it."""

    def __init__(self, tree: Tree | None = None, gate: Gate | None = None) -> None:
        self.tree = tree if tree is not None else Tree()
        self.gate = gate
        self.sessions: dict[int, MemorySession] = {}

    async def open_session(self, session_timeout_ms: int = 6000) -> MemorySession:
        return self.open(session_timeout_ms)

    def open(self, session_timeout_ms: int = 6000) -> MemorySession:
        session = MemorySession(self, self.tree.open_session(session_timeout_ms), session_timeout_ms)
        self.sessions[session.session_id] = session
        return session

    async def close(self) -> None:
        """Nothing is held open."""

    # ---- what time and the network do

    def expire(self, session_id: int) -> None:
        """The store gives the session up. The client learns of it at once, or when it is connected again.

        A client that is out of touch was to call `give_up` before: then it knew first.
        """
        session = self.sessions.pop(session_id, None)
        fired = self.tree.end_session(session_id)
        if session is not None and session.state is SessionState.CONNECTED:
            session._end(SessionState.EXPIRED)
        self.deliver(fired)

    def deliver(self, fired: Fired) -> None:
        for session_id, event in fired:
            session = self.sessions.get(session_id)
            if session is not None:
                session._tell(event)


class MemorySession(SessionBase):
    """A `Store` over a tree in this process."""

    def __init__(self, ensemble: MemoryEnsemble, session_id: int, session_timeout_ms: int) -> None:
        super().__init__(session_timeout_ms, SessionState.CONNECTED)
        self._ensemble = ensemble
        self._session_id = session_id
        self._held: deque[WatchEvent] = deque()
        self._is_holding = False

    # ---- what the owner of the ensemble does to us

    def disconnect(self) -> None:
        """Cut the way to the store: calls fail, watches wait."""
        if self._state is SessionState.CONNECTED:
            self._become(SessionState.SUSPENDED)

    def connect(self) -> None:
        """Heal it: the session goes on, or learns that it is over."""
        if self._state is not SessionState.SUSPENDED:
            return
        if self._session_id in self._ensemble.tree.sessions:
            self._become(SessionState.CONNECTED)
            if not self._is_holding:
                self._flush()
        else:
            self._end(SessionState.EXPIRED)

    def give_up(self) -> None:
        """Out of touch for the session timeout: the client considers itself gone before the store does."""
        if self._state is SessionState.SUSPENDED:
            self._end(SessionState.EXPIRED)

    def hold_watches(self) -> None:
        self._is_holding = True

    def release_watches(self) -> None:
        self._is_holding = False
        if self._state is SessionState.CONNECTED:
            self._flush()

    def unheard(self) -> tuple[WatchEvent, ...]:
        """What has fired and still waits to be told."""
        return tuple(self._held)

    def hear_instead(self, events: Sequence[WatchEvent]) -> None:
        """The rest was lost with the connection."""
        self._held = deque(events)

    # ---- reading

    async def get(self, path: str, *, watch: bool = False) -> Node:
        return await self._call("get", lambda: self._ensemble.tree.get(self._session_id, path, watch))

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        return await self._call("exists", lambda: self._ensemble.tree.exists(self._session_id, path, watch))

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return await self._call(
            "children", lambda: self._ensemble.tree.children(self._session_id, path, watch)
        )

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Node | None]:
        tree, me = self._ensemble.tree, self._session_id
        return await self._call("get_many", lambda: [_or_none(tree.get, me, path, watch) for path in paths])

    async def children_many(self, paths: Sequence[str], *, watch: bool = False) -> list[list[str] | None]:
        tree, me = self._ensemble.tree, self._session_id
        return await self._call(
            "children_many", lambda: [_or_none(tree.children, me, path, watch) for path in paths]
        )

    # ---- writing

    async def multi(self, ops: Sequence[Op]) -> list[Applied]:
        def apply() -> list[Applied]:
            applied, fired = self._ensemble.tree.multi(self._session_id, ops)
            self._ensemble.deliver(fired)
            return applied

        return await self._call("multi", apply)

    async def write(self, writes: Sequence[ConditionalOps], fence: Fence | None) -> list[WriteAnswer]:
        def apply() -> list[WriteAnswer]:
            answers, fired = self._ensemble.tree.write(self._session_id, writes, fence)
            self._ensemble.deliver(fired)
            return answers

        return await self._call("write", apply)

    async def close(self) -> None:
        """Ends the session where the store can be reached; where not, it goes by its timeout."""
        if self._state is SessionState.CONNECTED:
            self._ensemble.sessions.pop(self._session_id, None)
            fired = self._ensemble.tree.end_session(self._session_id)
            self._end(SessionState.CLOSED)
            self._ensemble.deliver(fired)
        elif self._state is SessionState.SUSPENDED:
            self._end(SessionState.CLOSED)

    # ---- inside

    async def _call(self, call: str, apply: Callable[[], T]) -> T:
        gate = self._ensemble.gate
        if gate is not None:
            await gate.before(self._session_id, call)
        if self._state is not SessionState.CONNECTED:
            self._check_reachable()
        try:
            answer = apply()
        except SessionExpired:
            self._end(SessionState.EXPIRED)
            raise
        finally:
            # The guarantee: what fired before this answer is heard before it.
            if self._held:
                self._flush()
        if gate is not None:
            await gate.after(self._session_id, call)
            if self._state is not SessionState.CONNECTED:
                self._check_reachable()
            if self._held:
                self._flush()
        return answer

    def _check_reachable(self) -> None:
        if self._state is SessionState.SUSPENDED:
            raise OutOfTouch(message=f"session {self._session_id} is out of touch with the store")
        if self._state is not SessionState.CONNECTED:
            raise self._ended()

    def _tell(self, event: WatchEvent) -> None:
        self._held.append(event)
        if self._state is SessionState.CONNECTED and not self._is_holding:
            self._flush()

    def _flush(self) -> None:
        while self._held and self._state is SessionState.CONNECTED:
            self._hear(self._held.popleft())

    def _end(self, state: SessionState) -> None:
        if self._is_over:
            return
        self._become(state)


def _or_none(read: Callable[[int, str, bool], T], session_id: int, path: str, watch: bool) -> T | None:
    try:
        return read(session_id, path, watch)
    except NoNode:
        return None
