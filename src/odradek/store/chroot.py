"""A cluster below a node of a store that it shares with others: `zookeeper.connect=host:2181/cluster`.

Whoever holds this sees `/controller`; the store holds `/cluster/controller`. Only paths are translated, in both
directions, in values, events and errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from odradek.store.api import (
    ANY_VERSION,
    Applied,
    ConditionalOps,
    Conflict,
    Fence,
    Node,
    NodeExists,
    NoNode,
    OnSession,
    OnWatch,
    Op,
    SessionState,
    Stat,
    Store,
    StoreError,
    StoreProvider,
    WatchEvent,
    WriteAnswer,
    check_path,
)

T = TypeVar("T")


class ChrootedStores:
    """Sessions below `root`, which is made on the first one; or, for who only reads, NoNode where it is not there."""

    def __init__(self, stores: StoreProvider, root: str, *, makes_root: bool = True) -> None:
        check_path(root)
        self._stores = stores
        self._root = root
        self._makes_root = makes_root

    async def open_session(self, session_timeout_ms: int) -> Store:
        session = await self._stores.open_session(session_timeout_ms)
        if self._root == "/":
            return session
        try:
            if self._makes_root:
                await self._make_root(session)
            elif await session.exists(self._root) is None:
                raise NoNode(self._root)
        except BaseException:  # nobody else has it
            with suppress(StoreError):
                await session.close()
            raise
        return ChrootedStore(session, self._root)

    async def _make_root(self, session: Store) -> None:
        parts = self._root.split("/")
        for depth in range(2, len(parts) + 1):
            path = "/".join(parts[:depth])
            if await session.exists(path) is None:
                try:
                    await session.create(path)
                except NodeExists:  # another session that opened at the same time
                    continue

    async def close(self) -> None:
        await self._stores.close()


class ChrootedStore:
    def __init__(self, session: Store, root: str) -> None:
        self._session = session
        self._root = root

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def session_timeout_ms(self) -> int:
        return self._session.session_timeout_ms

    @property
    def state(self) -> SessionState:
        return self._session.state

    def listen(
        self, *, on_watch: OnWatch | None = None, on_session: OnSession | None = None
    ) -> Callable[[], None]:
        if on_watch is None:
            return self._session.listen(on_session=on_session)
        tell = on_watch
        return self._session.listen(
            on_watch=lambda event: tell(WatchEvent(event.kind, self._inner(event.path))),
            on_session=on_session,
        )

    async def get(self, path: str, *, watch: bool = False) -> Node:
        with self._translated():
            return await self._session.get(self._outer(path), watch=watch)

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        with self._translated():
            return await self._session.exists(self._outer(path), watch=watch)

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        with self._translated():
            return await self._session.children(self._outer(path), watch=watch)

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Node | None]:
        with self._translated():
            return await self._session.get_many([self._outer(path) for path in paths], watch=watch)

    async def children_many(self, paths: Sequence[str], *, watch: bool = False) -> list[list[str] | None]:
        with self._translated():
            return await self._session.children_many([self._outer(path) for path in paths], watch=watch)

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Applied:
        with self._translated():
            made = await self._session.create(
                self._outer(path), data, ephemeral=ephemeral, sequential=sequential
            )
            return Applied(self._inner(made.path), made.stat)

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        with self._translated():
            return await self._session.set(self._outer(path), data, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        with self._translated():
            await self._session.delete(self._outer(path), version)

    async def multi(self, ops: Sequence[Op]) -> list[Applied]:
        with self._translated():
            applied = await self._session.multi([self._outer_op(op) for op in ops])
            return [Applied(self._inner(each.path), each.stat) for each in applied]

    async def write(self, writes: Sequence[ConditionalOps], fence: Fence | None) -> list[WriteAnswer]:
        with self._translated():
            answers = await self._session.write(
                [
                    ConditionalOps(
                        tuple(self._outer_op(op) for op in group.ops),
                        tuple(self._outer(parent) for parent in group.parents),
                    )
                    for group in writes
                ],
                None if fence is None else Fence(fence.version, self._outer(fence.path)),
            )
            return [self._inner_answer(answer) for answer in answers]

    async def close(self) -> None:
        await self._session.close()

    # ---- paths

    def _outer(self, path: str) -> str:
        check_path(path)
        return self._root if path == "/" else self._root + path

    def _inner(self, path: str) -> str:
        return path[len(self._root) :] or "/"

    def _outer_op(self, op: Op) -> Op:
        return replace(op, path=self._outer(op.path))

    def _inner_answer(self, answer: WriteAnswer) -> WriteAnswer:
        if isinstance(answer, Conflict):
            return Conflict(self._inner(answer.path), answer.value, answer.version)
        return answer

    def _translated(self) -> _Translated:
        return _Translated(self._root)


class _Translated:
    """Errors name the path that was asked for."""

    def __init__(self, root: str) -> None:
        self._root = root

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StoreError) and error.path.startswith(f"{self._root}/"):
            inner = error.path[len(self._root) :]
            error.args = (str(error).replace(error.path, inner),)
            error.path = inner
