"""Many groups of one kind in a few statements: what a controller writes when a broker dies or topics are made.

Each function does a whole run of groups, exactly as one by one, or does nothing and says so: then they are done
one by one, and each gets its own answer. The conformance suite holds both ways to the same answers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from odradek.store.api import (
    ANY_VERSION,
    NO_OWNER,
    ConditionalOps,
    Create,
    Fence,
    Node,
    Set,
    Stored,
    WriteAnswer,
    check_path,
    parent_of,
)

AT_ONCE = 5_000
WORTH_IT = 32


class Writing(Protocol):
    """What is needed here of a write transaction, `operations.Writing`."""

    zxid: int
    lines: list[str]

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> sqlite3.Cursor: ...
    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> sqlite3.Cursor: ...
    def get_many(self, paths: Sequence[str]) -> list[Node | None]: ...
    def add_children(self, path: str, count: int) -> None: ...


def run_at(writes: Sequence[ConditionalOps], start: int, fence: Fence | None) -> list[ConditionalOps]:
    """The groups from `start` on that one of the functions below can do together; one group at least."""
    first = writes[start]
    kind = _kind(first, fence)
    end = start + 1
    if kind is not None:
        limit = min(len(writes), start + AT_ONCE)
        while end < limit and _kind(writes[end], fence) is kind:
            end += 1
    return list(writes[start:end])


def _kind(group: ConditionalOps, fence: Fence | None) -> type | None:
    if len(group.ops) != 1:
        return None
    op = group.ops[0]
    # The root is always there, and by its path would be a child of its own.
    if op.path == "/" or (fence is not None and op.path == fence.path):
        return None
    if isinstance(op, Set):
        return Set if op.version != ANY_VERSION and not group.parents else None
    if isinstance(op, Create):
        return Create if not op.ephemeral and not op.sequential else None
    return None


def do_all(writing: Writing, run: Sequence[ConditionalOps]) -> list[WriteAnswer] | None:
    """The answers; None, and nothing done, when one of the groups is in conflict."""
    if len(run) < WORTH_IT:
        return None
    before = writing.zxid, len(writing.lines)
    writing.execute("SAVEPOINT run")
    is_set = isinstance(run[0].ops[0], Set)
    answers = _set_all(writing, run) if is_set else _create_all(writing, run)
    if answers is None:
        writing.execute("ROLLBACK TO run")
        writing.zxid = before[0]
        del writing.lines[before[1] :]
    writing.execute("RELEASE run")
    return answers


def _set_all(writing: Writing, run: Sequence[ConditionalOps]) -> list[WriteAnswer] | None:
    rows = []
    answers: list[WriteAnswer] = []
    for number, group in enumerate(run, start=writing.zxid + 1):
        op = group.ops[0]
        assert isinstance(op, Set)
        parent, _, name = op.path.rpartition("/")
        rows.append((op.data, number, parent or "/", name, op.version))
        writing.lines.append(f"s{op.path}")
        answers.append(Stored(op.version + 1))
    done = writing.executemany(
        "UPDATE nodes SET data = ?, version = version + 1, mzxid = ? "
        "WHERE parent = ? AND name = ? AND version = ?",
        rows,
    ).rowcount
    writing.zxid += len(run)
    return answers if done == len(run) else None


def _create_all(writing: Writing, run: Sequence[ConditionalOps]) -> list[WriteAnswer] | None:
    """New nodes are inserted with the count of children they end up with; only nodes that were there are updated."""
    ancestors = dict.fromkeys(parent for group in run for parent in group.parents)
    ancestors.update(dict.fromkeys(parent_of(group.ops[0].path) for group in run))
    found = writing.get_many(list(ancestors))
    there = {path for path, node in zip(ancestors, found, strict=True) if node is not None}
    if any(node is not None and node.stat.ephemeral_owner != NO_OWNER for node in found):
        return None
    made: dict[str, tuple[bytes, int]] = {}  # path -> data, zxid
    children: dict[str, int] = {}
    # Must be there, and were not asked for yet, or are not made before their children
    above: set[str] = set()
    for zxid, group in enumerate(run, start=writing.zxid + 1):
        op = group.ops[0]
        assert isinstance(op, Create)
        wanted = [(path, b"") for path in group.parents if path not in there and path not in made]
        for path, data in (*wanted, (op.path, op.data)):
            check_path(path)
            parent = parent_of(path)
            if path in made:
                return None
            if parent not in there and parent not in made:
                above.add(parent)
            made[path] = data, zxid
            children[parent] = children.get(parent, 0) + 1
            writing.lines += (f"c{path}", f"l{parent}")
    if any(node is None or node.stat.ephemeral_owner != NO_OWNER for node in writing.get_many(list(above))):
        return None
    rows = []
    for path, (data, zxid) in made.items():
        parent, _, name = path.rpartition("/")
        count = children.pop(path, 0)
        rows.append((parent or "/", name, data, 0, count, count, zxid, zxid, NO_OWNER))
    try:
        writing.executemany("INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    except sqlite3.IntegrityError:  # one of them exists
        return None
    for path, count in children.items():
        writing.add_children(path, count)
    writing.zxid += len(run)
    return [Stored(0)] * len(run)
