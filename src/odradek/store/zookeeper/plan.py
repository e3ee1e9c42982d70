"""What ZooKeeper's multi does not know, said in what it knows. Pure.

A group of `write` may want parents that are perhaps there, a node put whatever stood there, or a whole tree gone.
ZooKeeper knows create, set, delete and check. So the store is looked at first (`Wanted` says where), and the
group is planned on what was seen (`plan`). What was seen may be old by the time the multi arrives; then the multi
fails on an op that *we* derived, nothing has happened, and we look again. A failure on an op that the caller
asked for is a conflict and his to know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from odradek.store.api import (
    ANY_VERSION,
    BadVersion,
    Check,
    ConditionalOps,
    Create,
    Delete,
    DeleteTree,
    Fence,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    Put,
    Set,
    StoreError,
    parent_of,
)

# A packet holds 1 MiB (jute.maxbuffer); room is left for headers and the answer.
MAX_BATCH_BYTES = 700_000
MAX_BATCH_GROUPS = 2_000
# While the server does one, the next is made and the last one's answer is read.
MAX_UNDER_WAY = 3
_OP_BYTES = 80  # headers, version, ACL


@dataclass(slots=True)
class Wanted:
    """What must be known before a batch can be planned."""

    exists: dict[str, None] = field(default_factory=dict)
    trees: dict[str, None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.exists or self.trees)


@dataclass(frozen=True, slots=True)
class Planned:
    """The ops of one group. Those at `derived` are ours: when one fails, what we saw was old."""

    ops: tuple[Op, ...]
    derived: Collection[int] = ()
    is_parents_only: bool = False

    def is_stale(self, index: int, error: StoreError) -> bool:
        if index not in self.derived:
            return False
        op = self.ops[index]
        if isinstance(op, Create):
            return isinstance(
                error, NodeExists
            )  # NoNode: its parent is missing, and nobody asked for that one
        return isinstance(error, NoNode | NotEmpty | BadVersion)


def batch_at(
    writes: Sequence[ConditionalOps], start: int, fence: Fence | None, limit: int = MAX_BATCH_GROUPS
) -> list[ConditionalOps]:
    """The groups from `start` on that fit into one multi, at most `limit`. One that takes a tree away, or that
    moves the fence, stands alone, so that those after it see what it did."""
    batch: list[ConditionalOps] = []
    size = 0
    for group in writes[start : start + limit]:
        size += group_bytes(group)
        is_alone = False
        for op in group.ops:
            if op.__class__ is DeleteTree or (fence is not None and op.path == fence.path):
                is_alone = True
        if batch and (is_alone or size > MAX_BATCH_BYTES):
            break
        batch.append(group)
        if is_alone:
            break
    return batch


def independent(
    writes: Sequence[ConditionalOps], start: int, fence: Fence | None, limit: int
) -> Iterator[list[Set]]:
    """Batches from `start` on that may be under way together: each group is one conditional set of a node of its
    own, so it is all the same to it what becomes of the others. Ends before the first batch with another group."""
    paths: set[str] = set() if fence is None else {fence.path}
    batch: list[Set] = []
    size = 0
    for at in range(start, len(writes)):
        group = writes[at]
        op = group.ops[0] if len(group.ops) == 1 and not group.parents else None
        if op.__class__ is not Set:
            return
        assert isinstance(op, Set)
        path = op.path
        if op.version == ANY_VERSION or path in paths:
            return
        paths.add(path)
        op_bytes = len(path) + len(op.data) + _OP_BYTES
        if batch and (size + op_bytes > MAX_BATCH_BYTES or len(batch) >= limit):
            yield batch
            batch, size = [], 0
        batch.append(op)
        size += op_bytes
    yield batch


def group_bytes(group: ConditionalOps) -> int:
    size = 0
    for parent in group.parents:
        size += len(parent) + _OP_BYTES
    for op in group.ops:
        size += len(op.path) + _OP_BYTES
        if isinstance(op, (Create, Set, Put)):  # `|` is slow, and this is asked for each partition
            size += len(op.data)
    return size


def wanted_by(groups: Sequence[ConditionalOps]) -> Wanted:
    wanted = Wanted()
    for group in groups:
        wanted.exists.update(dict.fromkeys(group.parents))
        for op in group.ops:
            if isinstance(op, Put):
                wanted.exists[op.path] = None
            elif isinstance(op, DeleteTree):
                wanted.trees[op.path] = None
    return wanted


def plan(
    groups: Sequence[ConditionalOps], there: Mapping[str, bool], trees: Mapping[str, Sequence[str]]
) -> list[Planned]:
    """`there`: what of `Wanted.exists` exists; `trees`: all paths below and with each of `Wanted.trees`.

    Each group is planned on what the groups before it will have done.
    """
    if not there and not trees:  # nothing to derive: what a controller writes, a hundred thousand times
        return [Planned(group.ops, is_parents_only=not group.ops) for group in groups]
    known = dict(there)
    planned: list[Planned] = []
    for group in groups:
        ops: list[Op] = []
        derived: list[int] = []

        def derive(op: Op, ops: list[Op] = ops, derived: list[int] = derived) -> None:
            derived.append(len(ops))
            ops.append(op)

        for parent in group.parents:
            if not known[parent]:
                derive(Create(parent))
                known[parent] = True
        for op in group.ops:
            if isinstance(op, Put):
                derive(Set(op.path, op.data) if known[op.path] else Create(op.path, op.data))
                known[op.path] = True
            elif isinstance(op, DeleteTree):
                for path in sorted(trees[op.path], key=lambda path: path.count("/"), reverse=True):
                    if known.get(path, True):
                        derive(Delete(path))
                        known[path] = False
            else:
                ops.append(op)
                if isinstance(op, Create | Delete):
                    known[op.path] = isinstance(op, Create)
        planned.append(Planned(tuple(ops), tuple(derived), is_parents_only=not group.ops))
    return planned


def fenced(planned: Sequence[Planned], fence: Fence | None) -> list[Op]:
    """All of it as one multi; the fence is its first op."""
    ops: list[Op] = [] if fence is None else [Check(fence.path, fence.version)]
    for group in planned:
        ops += group.ops
    return ops


def parts_of(group: Planned) -> list[Planned]:
    """A group that takes away a tree too large for one packet, in several: from the leaves up, so that what is
    left is always a tree. The only group that may happen in parts, and only where it must."""
    parts: list[Planned] = []
    ops: list[Op] = []
    size = 0
    for op in group.ops:
        size += len(op.path) + _OP_BYTES
        if isinstance(op, Create | Set):
            size += len(op.data)
        if ops and size > MAX_BATCH_BYTES and isinstance(op, Delete):
            parts.append(Planned(tuple(ops), range(len(ops))))
            ops, size = [], 0
        ops.append(op)
    derived = group.derived if not parts else range(len(ops))
    return [*parts, Planned(tuple(ops), derived, group.is_parents_only)]


def parents_by_their_parent(paths: Collection[str]) -> dict[str, list[str]]:
    """To see which of many exist, the children of their parents are read: fewer reads than paths."""
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(parent_of(path), []).append(path)
    return found
