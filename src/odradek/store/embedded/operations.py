"""The tree's ops as statements of one transaction. The same promises as `store.memory`, in SQL.

A transaction collects `lines`, the change log that every session reads to fire its watches: one letter and a
path (created, set, deleted, list of children) or a session's number (new, ended).
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from odradek.store.api import (
    ANY_VERSION,
    NO_OWNER,
    Applied,
    BadVersion,
    Check,
    ConditionalOps,
    Conflict,
    Create,
    Delete,
    DeleteTree,
    Fence,
    Fenced,
    NoChildrenForEphemerals,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    Put,
    Set,
    Stat,
    Stored,
    StoreError,
    WriteAnswer,
    check_characters,
    check_path,
    child_path,
    parent_of,
    sequential_path,
)
from odradek.store.embedded import bulk
from odradek.store.embedded.database import Database

CREATED, CHANGED, DELETED, CHILDREN, SESSION_NEW, SESSION_ENDED = "csdlnx"

_COLUMNS = "data, version, creations, children, czxid, mzxid, owner"
_BULK = 32  # from here on one statement for many reads is cheaper than one each

Row = tuple[bytes, int, int, int, int, int, int]


def key_of(path: str) -> tuple[str, str]:
    if path == "/":
        return "", ""
    parent, slash, name = path.rpartition("/")
    if not slash or parent == "/":  # `a` and `//a` are no other names of `/a`
        check_path(path)
    return parent or "/", name


def path_of(parent: str, name: str) -> str:
    return child_path(parent, name) if parent else "/"


def _stat(row: Row) -> Stat:
    return Stat(row[1], 2 * row[2] - row[3], row[4], row[5], row[6])


class SessionRow(NamedTuple):
    session_id: int
    timeout_ms: int
    pid: int


# ---- reading; each inside `database.read` or `database.write`


class Reading:
    def __init__(self, database: Database) -> None:
        self.execute = database.execute

    def row(self, path: str) -> Row | None:
        check_path(path)
        found: Row | None = self.execute(
            f"SELECT {_COLUMNS} FROM nodes WHERE parent = ? AND name = ?", key_of(path)
        ).fetchone()
        return found

    def get(self, path: str) -> Node:
        row = self._existing(path)
        return Node(row[0], _stat(row))

    def exists(self, path: str) -> Stat | None:
        row = self.row(path)
        return None if row is None else _stat(row)

    def children(self, path: str) -> list[str]:
        self._existing(path)
        rows = self.execute("SELECT name FROM nodes WHERE parent = ? AND name <> '' ORDER BY name", (path,))
        return [name for (name,) in rows]

    def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        found = self._get_each(paths) if len(paths) < _BULK else self._get_all(paths)
        for path, node in zip(paths, found, strict=True):
            if node is None:
                check_path(path)
        return found

    def _get_each(self, paths: Sequence[str]) -> list[Node | None]:
        rows = (self.row(path) for path in paths)
        return [None if row is None else Node(row[0], _stat(row)) for row in rows]

    def _get_all(self, paths: Sequence[str]) -> list[Node | None]:
        """Nodes of one name below many parents (states), or of many names below one (topics): one statement
        for each of the fewer."""
        check_characters(paths)
        keys = [key_of(path) for path in paths]
        names_are_fewer = len({name for _, name in keys}) <= len({parent for parent, _ in keys})
        fixed, varying = ("name", "parent") if names_are_fewer else ("parent", "name")
        at_fixed, at_varying = (1, 0) if names_are_fewer else (0, 1)
        by_fixed: defaultdict[str, list[int]] = defaultdict(list)
        for index, key in enumerate(keys):
            by_fixed[key[at_fixed]].append(index)
        found: list[Node | None] = [None] * len(paths)
        statement = (
            f"SELECT w.key, {_COLUMNS} FROM json_each(?) w "
            f"CROSS JOIN nodes n ON n.{varying} = w.value AND n.{fixed} = ?"
        )
        # As `Node(...)` and `Stat(...)`, at half the cost: a controller reads a node for each partition.
        new = tuple.__new__
        for value, indexes in by_fixed.items():
            wanted = json.dumps([keys[index][at_varying] for index in indexes])
            for at, data, version, creations, children, czxid, mzxid, owner in self.execute(
                statement, (wanted, value)
            ):
                stat = new(Stat, (version, 2 * creations - children, czxid, mzxid, owner))
                found[indexes[at]] = new(Node, (data, stat))
        return found

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        there = self.get_many(paths)
        return [
            self.children(path) if node is not None else None for path, node in zip(paths, there, strict=True)
        ]

    def below(self, root: str) -> list[tuple[str, Node]]:
        """`root` and all below it, parents first."""
        row = self.row(root)
        if row is None:
            return []
        prefix = "" if root == "/" else root
        # Whatever begins with `root/`: 0 is the character after the slash.
        rows = self.execute(
            f"SELECT parent, name, {_COLUMNS} FROM nodes "
            "WHERE name <> '' AND (parent = ? OR (parent >= ? AND parent < ?)) ORDER BY parent, name",
            (root, f"{prefix}/", f"{prefix}0"),
        )
        found = [(path_of(parent, name), Node(rest[0], _stat(rest))) for parent, name, *rest in rows]
        return [(root, Node(row[0], _stat(row))), *sorted(found, key=lambda item: item[0].split("/"))]

    def sessions(self) -> list[SessionRow]:
        return [
            SessionRow(*row) for row in self.execute("SELECT id, timeout_ms, pid FROM sessions ORDER BY id")
        ]

    def zxids(self) -> tuple[int, int]:
        """(the last transaction, the last one whose changes are not kept any more)"""
        zxid, pruned = self.execute("SELECT zxid, pruned_zxid FROM meta").fetchone()
        return zxid, pruned

    def changes_after(self, zxid: int) -> list[str]:
        return [
            lines
            for (lines,) in self.execute("SELECT lines FROM changes WHERE zxid > ? ORDER BY zxid", (zxid,))
        ]

    def _existing(self, path: str) -> Row:
        row = self.row(path)
        if row is None:
            raise NoNode(path)
        return row


# ---- writing


class Writing(Reading):
    """One write transaction, inside `database.write`. `finish` is its last step."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.executemany = database.executemany
        self.zxid, _ = self.zxids()
        self.lines: list[str] = []

    def finish(self) -> None:
        if self.lines:
            self.execute("INSERT INTO changes VALUES (?, ?)", (self.zxid, "\n".join(self.lines)))
        self.execute("UPDATE meta SET zxid = ?", (self.zxid,))

    def forget_changes_until(self, zxid: int) -> None:
        self.execute("DELETE FROM changes WHERE zxid <= ?", (zxid,))
        self.execute("UPDATE meta SET pruned_zxid = max(pruned_zxid, ?)", (zxid,))

    # ---- sessions

    def open_session(self, timeout_ms: int, pid: int) -> int:
        self.zxid += 1
        session_id = self.execute(
            "INSERT INTO sessions (timeout_ms, pid) VALUES (?, ?)", (timeout_ms, pid)
        ).lastrowid
        assert session_id is not None
        self.lines.append(f"{SESSION_NEW}{session_id}")
        return session_id

    def has_session(self, session_id: int) -> bool:
        return self.execute("SELECT 1 FROM sessions WHERE id = ?", (session_id,)).fetchone() is not None

    def end_session(self, session_id: int) -> bool:
        """Its ephemerals go with it, in this one transaction; False when somebody has done so before."""
        if self.execute("DELETE FROM sessions WHERE id = ?", (session_id,)).rowcount == 0:
            return False
        self.zxid += 1
        owned = self.execute("SELECT parent, name FROM nodes WHERE owner = ? AND owner <> 0", (session_id,))
        for parent, name in sorted(owned.fetchall()):
            self._remove(path_of(parent, name))
        self.lines.append(f"{SESSION_ENDED}{session_id}")
        return True

    # ---- ops

    def multi(self, session_id: int, ops: Sequence[Op]) -> list[Applied]:
        """The whole transaction is undone by the caller when this raises."""
        self.zxid += 1
        applied = []
        for index, op in enumerate(ops):
            assert not isinstance(op, DeleteTree | Put), f"ZooKeeper's multi knows no {op}: use write"
            try:
                applied.append(self._apply(session_id, op))
            except StoreError as error:
                error.index = index
                raise
        return applied

    def write(
        self, session_id: int, writes: Sequence[ConditionalOps], fence: Fence | None
    ) -> list[WriteAnswer]:
        answers: list[WriteAnswer] = []
        holds = self._holds(fence)
        at = 0
        while at < len(writes):
            if not holds:
                answers.append(Fenced())
                at += 1
                continue
            run = bulk.run_at(writes, at, fence)
            done = bulk.do_all(self, run)
            if done is None:
                done = [self._group(session_id, group) for group in run]
            answers += done
            at += len(run)
            if fence is not None and any(op.path == fence.path for group in run for op in group.ops):
                holds = self._holds(fence)
        return answers

    def _holds(self, fence: Fence | None) -> bool:
        if fence is None:
            return True
        row = self.row(fence.path)
        return row is not None and row[1] == fence.version

    def _group(self, session_id: int, group: ConditionalOps) -> WriteAnswer:
        # One op is checked in full before it changes anything; several may have to be taken back.
        needs_way_back = len(group.ops) > 1 or bool(group.parents)
        if needs_way_back:
            self.execute("SAVEPOINT one")
        before = self.zxid, len(self.lines)
        self.zxid += 1
        try:
            for parent in group.parents:
                self._ensure(parent)
            last = Applied("", None)
            for op in group.ops:
                last = self._apply(session_id, op)
            answer: WriteAnswer = Stored(-1 if last.stat is None else last.stat.version)
        except (NoNode, NodeExists, BadVersion, NotEmpty, NoChildrenForEphemerals) as error:
            if needs_way_back:
                self.execute("ROLLBACK TO one")
            self.zxid = before[0]
            del self.lines[before[1] :]
            row = self.row(error.path)
            answer = Conflict(error.path, None, -1) if row is None else Conflict(error.path, row[0], row[1])
        if needs_way_back:
            self.execute("RELEASE one")
        return answer

    def _ensure(self, path: str) -> None:
        if self.execute("SELECT 1 FROM nodes WHERE parent = ? AND name = ?", key_of(path)).fetchone() is None:
            self._create(NO_OWNER, Create(path))

    def _apply(self, session_id: int, op: Op) -> Applied:
        if isinstance(op, Set):
            return self._set(op)
        if isinstance(op, Create):
            return self._create(session_id, op)
        if isinstance(op, Check):
            row = self._existing(op.path)
            if row[1] != op.version:
                raise _bad_version(op.path, op.version, row[1])
            return Applied(op.path, None)
        if isinstance(op, Delete):
            row = self._existing(op.path)
            if op.version not in (ANY_VERSION, row[1]):
                raise _bad_version(op.path, op.version, row[1])
            if row[3]:
                raise NotEmpty(op.path)
            self._remove(op.path)
            return Applied(op.path, None)
        if isinstance(op, Put):
            if self.row(op.path) is not None:
                return self._set(Set(op.path, op.data))
            return self._create(session_id, Create(op.path, op.data))
        check_path(op.path)
        for path, _ in reversed(self.below(op.path)):
            self._remove(path)
        return Applied(op.path, None)

    def _set(self, op: Set) -> Applied:
        row = self._existing(op.path)
        if op.version not in (ANY_VERSION, row[1]):
            raise _bad_version(op.path, op.version, row[1])
        self.execute(
            "UPDATE nodes SET data = ?, version = version + 1, mzxid = ? WHERE parent = ? AND name = ?",
            (op.data, self.zxid, *key_of(op.path)),
        )
        self.lines.append(f"{CHANGED}{op.path}")
        _, version, creations, children, czxid, _, owner = row
        return Applied(op.path, Stat(version + 1, 2 * creations - children, czxid, self.zxid, owner))

    def _create(self, session_id: int, op: Create) -> Applied:
        check_path(op.path)
        if op.path == "/":
            raise NodeExists("/")
        parent_path = parent_of(op.path)
        parent = self.row(parent_path)
        if parent is None:
            raise NoNode(op.path, f"NoNode: {op.path}: its parent {parent_path} does not exist")
        path = sequential_path(op.path, parent[2]) if op.sequential else op.path
        owner = session_id if op.ephemeral else NO_OWNER
        if parent[6] != NO_OWNER:
            if self.row(path) is not None:
                raise NodeExists(path)
            raise NoChildrenForEphemerals(
                path, f"{path}: {parent_path} is ephemeral and can have no children"
            )
        try:
            self.execute(
                "INSERT INTO nodes VALUES (?, ?, ?, 0, 0, 0, ?, ?, ?)",
                (*key_of(path), op.data, self.zxid, self.zxid, owner),
            )
        except sqlite3.IntegrityError:
            raise NodeExists(path) from None
        self.add_children(parent_path, 1)
        self.lines += (f"{CREATED}{path}", f"{CHILDREN}{parent_path}")
        return Applied(path, Stat(0, 0, self.zxid, self.zxid, owner))

    def add_children(self, path: str, count: int) -> None:
        self.execute(
            "UPDATE nodes SET creations = creations + ?1, children = children + ?1 WHERE parent = ?2 AND name = ?3",
            (count, *key_of(path)),
        )

    def _remove(self, path: str) -> None:
        if path == "/":
            raise NotEmpty("/", "the root cannot be deleted")
        parent_path = parent_of(path)
        self.execute("DELETE FROM nodes WHERE parent = ? AND name = ?", key_of(path))
        self.execute(
            "UPDATE nodes SET children = children - 1 WHERE parent = ? AND name = ?", key_of(parent_path)
        )
        self.lines += (f"{DELETED}{path}", f"{CHILDREN}{parent_path}")


def _bad_version(path: str, expected: int, found: int) -> BadVersion:
    return BadVersion(path, f"BadVersion: {path}: expected {expected}, found {found}")
