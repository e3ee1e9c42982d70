"""A store that counts what is asked of it: the figures that do not depend on the hour or the machine."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from odradek.store import api


class CountingStore:
    """`api.Store`, handed through. `calls_now` says whether somebody waits for an answer."""

    def __init__(self, store: api.Store, on_answer: Callable[[], None]) -> None:
        self._store = store
        self._on_answer = on_answer
        self.calls_now = 0
        self.calls: Counter[str] = Counter()
        self.writes = 0  # groups
        self.written_bytes = 0  # paths and values
        self.nodes_read = 0
        self.seconds = 0.0  # between a call and its answer

    def clear(self) -> None:
        self.calls.clear()
        self.writes = self.written_bytes = self.nodes_read = 0
        self.seconds = 0.0

    @property
    def session_id(self) -> int:
        return self._store.session_id

    @property
    def session_timeout_ms(self) -> int:
        return self._store.session_timeout_ms

    @property
    def state(self) -> api.SessionState:
        return self._store.state

    def listen(self, **listeners: Any) -> Callable[[], None]:
        return self._store.listen(**listeners)

    async def get(self, path: str, *, watch: bool = False) -> api.Node:
        return await self._called("get", 1, lambda: self._store.get(path, watch=watch))

    async def exists(self, path: str, *, watch: bool = False) -> api.Stat | None:
        return await self._called("exists", 1, lambda: self._store.exists(path, watch=watch))

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        return await self._called("children", 1, lambda: self._store.children(path, watch=watch))

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[api.Node | None]:
        return await self._called("get_many", len(paths), lambda: self._store.get_many(paths, watch=watch))

    async def children_many(self, paths: Sequence[str], *, watch: bool = False) -> list[list[str] | None]:
        return await self._called(
            "children_many", len(paths), lambda: self._store.children_many(paths, watch=watch)
        )

    async def create(self, path: str, data: bytes = b"", **options: bool) -> api.Applied:
        self.written_bytes += len(path) + len(data)
        return await self._called("create", 0, lambda: self._store.create(path, data, **options))

    async def set(self, path: str, data: bytes, version: int = api.ANY_VERSION) -> api.Stat:
        self.written_bytes += len(path) + len(data)
        return await self._called("set", 0, lambda: self._store.set(path, data, version))

    async def delete(self, path: str, version: int = api.ANY_VERSION) -> None:
        return await self._called("delete", 0, lambda: self._store.delete(path, version))

    async def multi(self, ops: Sequence[api.Op]) -> list[api.Applied]:
        self._count_ops(ops)
        return await self._called("multi", 0, lambda: self._store.multi(ops))

    async def write(
        self, writes: Sequence[api.ConditionalOps], fence: api.Fence | None
    ) -> list[api.WriteAnswer]:
        self.writes += len(writes)
        for group in writes:
            self._count_ops(group.ops)
        return await self._called("write", 0, lambda: self._store.write(writes, fence))

    async def close(self) -> None:
        await self._store.close()

    def _count_ops(self, ops: Sequence[api.Op]) -> None:
        self.written_bytes += sum([len(op.path) + len(getattr(op, "data", b"")) for op in ops])

    async def _called(self, name: str, nodes: int, call: Callable[[], Any]) -> Any:
        self.calls[name] += 1
        self.nodes_read += nodes
        self.calls_now += 1
        asked = time.perf_counter()
        try:
            return await call()
        finally:
            self.seconds += time.perf_counter() - asked
            self.calls_now -= 1
            self._on_answer()
