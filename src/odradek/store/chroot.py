"""A cluster below a node of a store that it shares with others: `zookeeper.connect=host:2181/cluster`.

Whoever holds this sees `/controller`; the store holds `/cluster/controller`. Only paths are translated, in both
directions, in values, events and errors; of many some at a time, so that others have their turns on the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from odradek.store.api import (
    ANY_VERSION,
    Applied,
    ConditionalOps,
    Conflict,
    Create,
    Fence,
    Node,
    NodeExists,
    NoNode,
    OnSession,
    OnWatch,
    Op,
    SessionState,
    Set,
    Stat,
    Store,
    Stored,
    StoreError,
    StoreProvider,
    WatchEvent,
    WriteAnswer,
    check_path,
    check_paths,
)

T = TypeVar("T")

# Paths, or groups of a write, that are translated in one turn of the loop: some milliseconds.
AT_ONCE = 2_000


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
            return await self._session.get_many(await self._outer_paths(paths), watch=watch)

    async def children_many(self, paths: Sequence[str], *, watch: bool = False) -> list[list[str] | None]:
        with self._translated():
            return await self._session.children_many(await self._outer_paths(paths), watch=watch)

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
            groups: list[ConditionalOps] = []
            async for some in _some_at_a_time(writes):
                groups += map(self._outer_group, some)
            answers = await self._session.write(
                groups, None if fence is None else Fence(fence.version, self._outer(fence.path))
            )
            found: list[WriteAnswer] = []
            async for told in _some_at_a_time(answers):
                found += [
                    answer if answer.__class__ is Stored else self._inner_answer(answer) for answer in told
                ]
            return found

    async def close(self) -> None:
        await self._session.close()

    # ---- paths

    def _outer(self, path: str) -> str:
        check_path(path)
        return self._root if path == "/" else self._root + path

    async def _outer_paths(self, paths: Sequence[str]) -> list[str]:
        outer: list[str] = []
        async for some in _some_at_a_time(paths):
            check_paths(some)
            outer += [self._root if path == "/" else self._root + path for path in some]
        return outer

    def _inner(self, path: str) -> str:
        return path[len(self._root) :] or "/"

    def _outer_group(self, group: ConditionalOps) -> ConditionalOps:
        ops = tuple([self._outer_op(op) for op in group.ops])
        parents = tuple([self._outer(parent) for parent in group.parents]) if group.parents else ()
        return ConditionalOps(ops, parents)

    def _outer_op(self, op: Op) -> Op:
        path = self._outer(op.path)
        if isinstance(op, Set):  # as `replace`, at a fifth of the cost: there is one for each partition
            return Set(path, op.data, op.version)
        if isinstance(op, Create):
            return Create(path, op.data, op.ephemeral, op.sequential)
        return replace(op, path=path)

    def _inner_answer(self, answer: WriteAnswer) -> WriteAnswer:
        if isinstance(answer, Conflict):
            return Conflict(self._inner(answer.path), answer.value, answer.version)
        return answer

    def _translated(self) -> _Translated:
        return _Translated(self._root)


async def _some_at_a_time(many: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """All of them, and others have their turns in between."""
    for at in range(0, len(many), AT_ONCE):
        if at:
            await asyncio.sleep(0)
        yield many[at : at + AT_ONCE]


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
