"""`write` over a store that has only `multi`: many groups in one transaction, and each its own answer.

One op that cannot be done fails the whole multi. The groups before it are then sent again without it, it gets
its answer by itself, and the rest goes on in smaller batches, which grow again: an undisturbed write of a thousand
groups is one round, each conflict costs two or three more, and where all conflict no large batch is sent in vain.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Protocol

from odradek.store.api import (
    Applied,
    BadVersion,
    ConditionalOps,
    Conflict,
    Fence,
    Fenced,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    Set,
    Stored,
    StoreError,
    StoreUnavailable,
    WriteAnswer,
    check_path,
    child_path,
    name_of,
)
from odradek.store.zookeeper import plan as planning
from odradek.store.zookeeper.plan import Planned

_SMALL_BATCH = 16
_REFUSALS = (NoNode, NodeExists, BadVersion, NotEmpty, NoChildrenForEphemerals)
# Looks at a part of the tree that others keep changing, before we say so.
_PLANS = 10


class MultiStore(Protocol):
    async def get(self, path: str) -> Node: ...

    async def children_many(self, paths: Sequence[str]) -> list[list[str] | None]: ...

    async def multi(self, ops: Sequence[Op]) -> list[Applied]: ...

    async def set_all(self, sets: Sequence[Set], fence: Fence | None) -> list[int]:
        """As one multi, the fence checked first: the new version of each node. Sent before it waits."""
        ...


class _FenceMoved(Exception):
    """Somebody else was elected."""


class _Failed(Exception):
    """The `op`th op of the `group`th planned group cannot be done; nothing has happened."""

    def __init__(self, group: int, op: int, error: StoreError) -> None:
        super().__init__(str(error))
        self.group = group
        self.op = op
        self.error = error


async def write_groups(
    store: MultiStore, writes: Sequence[ConditionalOps], fence: Fence | None
) -> list[WriteAnswer]:
    answers: list[WriteAnswer] = []
    limit = planning.MAX_BATCH_GROUPS
    while len(answers) < len(writes):
        batches = planning.independent(writes, len(answers), fence, limit)
        first, second = next(batches, None), next(batches, None)
        if first is not None and second is not None:
            answers += await _write_together(store, chain((first, second), batches), fence)
            if isinstance(answers[-1], Fenced):
                return answers + [Fenced()] * (len(writes) - len(answers))
            continue
        batch = planning.batch_at(writes, len(answers), fence, limit)
        done = await _write_batch(store, batch, fence)
        if done is None:
            return answers + [Fenced()] * (len(writes) - len(answers))
        answers += done
        is_disturbed = len(done) < len(batch) or isinstance(done[-1], Conflict)
        limit = max(limit // 4, _SMALL_BATCH) if is_disturbed else min(limit * 2, planning.MAX_BATCH_GROUPS)
    return answers


async def _write_together(
    store: MultiStore, batches: Iterable[Sequence[Set]], fence: Fence | None
) -> list[WriteAnswer]:
    """While the server does one, the next is made and sent. One that could not be done is done again by itself; what
    the others did stands. Ends when the fence has moved."""
    answers: list[WriteAnswer] = []
    under_way: deque[tuple[Sequence[Set], asyncio.Future[list[int]]]] = deque()
    stored: dict[int, Stored] = {}  # an answer for each version: there are few

    async def next_answered() -> None:
        sets, done = under_way.popleft()
        try:
            versions = await done
        except _REFUSALS:  # of one of them, or of the fence
            answers.extend(await write_groups(store, [ConditionalOps((op,)) for op in sets], fence))
            return
        for version in versions:
            known = stored.get(version)
            if known is None:
                known = stored[version] = Stored(version)
            answers.append(known)

    try:
        for sets in batches:
            if len(under_way) >= planning.MAX_UNDER_WAY:
                await next_answered()
                if isinstance(answers[-1], Fenced):
                    break
            under_way.append((sets, asyncio.ensure_future(store.set_all(sets, fence))))
            await asyncio.sleep(0)  # now it is sent
        while under_way:
            await next_answered()
    finally:
        for _, left in under_way:  # of a write that failed: nobody waits for the others
            left.add_done_callback(_retrieve)
            left.cancel()
    return answers


def _retrieve(left: asyncio.Future[list[int]]) -> None:
    """What failed with the one that was waited for says nothing more than that one."""
    if not left.cancelled():
        left.exception()


async def _write_batch(
    store: MultiStore, batch: Sequence[ConditionalOps], fence: Fence | None
) -> list[WriteAnswer] | None:
    """The answers, of the first groups at least; None when the fence does not hold."""
    for _ in range(_PLANS):
        planned = await _plan(store, batch)
        try:
            return await _commit(store, planned, fence)
        except _FenceMoved:
            return None
        except _Failed as failure:
            if planned[failure.group].is_stale(failure.op, failure.error):
                continue
            if failure.group:
                return await _write_batch(store, batch[: failure.group], fence)
            return [await _conflict(store, failure.error)]
    raise StoreUnavailable(message=f"{batch[0]} was planned {_PLANS} times; each time others were faster")


async def _plan(store: MultiStore, batch: Sequence[ConditionalOps]) -> list[Planned]:
    wanted = planning.wanted_by(batch)
    for path in (*wanted.exists, *wanted.trees):
        check_path(path)  # of the other ops the multi does
    there: dict[str, bool] = {}
    by_parent = planning.parents_by_their_parent(wanted.exists)
    lists = await store.children_many(list(by_parent)) if by_parent else []
    for (_, paths), names in zip(by_parent.items(), lists, strict=True):
        known = frozenset(names or ())
        there.update((path, name_of(path) in known) for path in paths)
    return planning.plan(batch, there, await _trees(store, wanted.trees))


async def _trees(store: MultiStore, roots: Iterable[str]) -> dict[str, list[str]]:
    """Of each root itself and all below it; nothing when it is not there. A look for each level of all of them."""
    found: dict[str, list[str]] = {root: [] for root in roots}
    level = [(root, root) for root in found]
    while level:
        lists = await store.children_many([path for _, path in level])
        there = [(*place, names) for place, names in zip(level, lists, strict=True) if names is not None]
        for root, path, _ in there:
            found[root].append(path)
        level = [(root, child_path(path, name)) for root, path, names in there for name in names]
    return found


async def _commit(store: MultiStore, planned: Sequence[Planned], fence: Fence | None) -> list[WriteAnswer]:
    if len(planned) == 1:
        *first_parts, last_part = planning.parts_of(planned[0])
        for part in first_parts:
            await _commit(store, [part], fence)
        planned = [last_part]
    ops = planning.fenced(planned, fence)
    offset = 0 if fence is None else 1
    applied: list[Applied] = []
    if ops:
        try:
            applied = await store.multi(ops)
        except _REFUSALS as error:
            if error.index < offset:
                raise _FenceMoved from None
            raise _failed(planned, error, error.index - offset) from None
    answers: list[WriteAnswer] = []
    for group in planned:
        last = None
        if group.ops and not group.is_parents_only:
            last = applied[offset + len(group.ops) - 1].stat
        answers.append(Stored(-1 if last is None else last.version))
        offset += len(group.ops)
    return answers


def _failed(planned: Sequence[Planned], error: StoreError, index: int) -> _Failed:
    for number, group in enumerate(planned):
        if index < len(group.ops):
            return _Failed(number, index, error)
        index -= len(group.ops)
    raise AssertionError(f"op {index} is beyond all groups")


async def _conflict(store: MultiStore, error: StoreError) -> Conflict:
    try:
        node = await store.get(error.path)
    except NoNode:
        return Conflict(error.path, None, -1)
    return Conflict(error.path, node.data, node.stat.version)
