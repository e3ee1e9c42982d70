"""The reference store: ZooKeeper's tree as a plain value, with sessions and watches, and no time.

Every function answers at once with what came of it and whom it must be told: `Fired` lists (session, event)
in order. Who delivers, and when, is the caller's business (`memory_session` at once, the simulator as late as
the guarantee allows: before the next answer to that session).

Semantics checked against a real ZooKeeper by tests/conformance:
- one transaction id for each transaction, however many ops it has;
- `cversion` counts the creations and deletions of children; a sequential name takes the count of creations;
- the deletion of a node tells a session once, even if it watched both the data and the children.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

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
    SessionExpired,
    Set,
    Stat,
    Stored,
    StoreError,
    WatchEvent,
    WatchKind,
    WriteAnswer,
    check_path,
    check_paths,
    name_of,
    parent_of,
    sequential_path,
)

Fired = list[tuple[int, WatchEvent]]
Undo = list[Callable[[], None]]
_new = tuple.__new__  # a NamedTuple's own constructor costs twice as much


def _paths_below(path: str, names: Iterable[str]) -> list[str]:
    """`child_path` of each, at one call for all."""
    above = "" if path == "/" else path
    return [f"{above}/{name}" for name in names]


class _TreeNode:
    __slots__ = ("_stat", "children", "creations", "czxid", "data", "ephemeral_owner", "mzxid", "version")

    def __init__(self, data: bytes, zxid: int, ephemeral_owner: int) -> None:
        self.data = data
        self.version = 0
        self.czxid = zxid
        self.mzxid = zxid
        self.ephemeral_owner = ephemeral_owner
        self.creations = 0
        self.children: dict[str, None] | None = None  # most nodes are leaves
        self._stat: Stat | None = None

    def stat(self) -> Stat:
        """One value while nothing of it changes: whatever changes something forgets it."""
        if self._stat is None:
            cversion = 2 * self.creations - len(self.children or ())
            self._stat = Stat(self.version, cversion, self.czxid, self.mzxid, self.ephemeral_owner)
        return self._stat


@dataclass(slots=True)
class TreeSession:
    timeout_ms: int
    ephemerals: dict[str, None] = field(default_factory=dict)
    data_watches: dict[str, None] = field(default_factory=dict)
    children_watches: dict[str, None] = field(default_factory=dict)


class Tree:
    """The nodes, the sessions, the armed watches, and the last transaction id."""

    def __init__(self) -> None:
        self.zxid = 0
        self.sessions: dict[int, TreeSession] = {}
        self._nodes: dict[str, _TreeNode] = {"/": _TreeNode(b"", 0, NO_OWNER)}
        self._last_session_id = 0
        # path -> sessions, in the order they armed; the sessions keep the mirror of it
        self._data_watchers: dict[str, dict[int, None]] = {}
        self._children_watchers: dict[str, dict[int, None]] = {}

    # ---- sessions

    def open_session(self, timeout_ms: int) -> int:
        self.zxid += 1
        self._last_session_id += 1
        self.sessions[self._last_session_id] = TreeSession(timeout_ms)
        return self._last_session_id

    def end_session(self, session_id: int) -> Fired:
        """Closed or expired: its watches are forgotten, its ephemerals go in one transaction."""
        session = self.sessions.pop(session_id, None)
        if session is None:
            return []
        for path in session.data_watches:
            self._data_watchers[path].pop(session_id)
        for path in session.children_watches:
            self._children_watchers[path].pop(session_id)
        self.zxid += 1
        told: list[WatchEvent] = []
        for path in sorted(session.ephemerals):
            self._remove(path, told, None)
        return self._fire(told)

    def _session(self, session_id: int) -> TreeSession:
        session = self.sessions.get(session_id)
        if session is None:
            raise SessionExpired(message=f"session {session_id} is over; open another one")
        return session

    # ---- reading

    def get(self, session_id: int, path: str, watch: bool = False) -> Node:
        session = self._session(session_id)
        node = self._node(path)
        if watch:
            self._arm_data(session_id, session, path)
        return Node(node.data, node.stat())

    def exists(self, session_id: int, path: str, watch: bool = False) -> Stat | None:
        session = self._session(session_id)
        check_path(path)
        node = self._nodes.get(path)
        if watch:
            self._arm_data(session_id, session, path)
        return None if node is None else node.stat()

    def children(self, session_id: int, path: str, watch: bool = False) -> list[str]:
        session = self._session(session_id)
        node = self._node(path)
        if watch:
            session.children_watches[path] = None
            self._children_watchers.setdefault(path, {})[session_id] = None
        return sorted(node.children or ())

    def _arm_data(self, session_id: int, session: TreeSession, path: str) -> None:
        session.data_watches[path] = None
        self._data_watchers.setdefault(path, {})[session_id] = None

    def _node(self, path: str) -> _TreeNode:
        node = self._nodes.get(path)
        if node is None:
            check_path(path)
            raise NoNode(path)
        return node

    def walk(self, root: str = "/") -> Iterator[tuple[str, Node]]:
        """`root` and everything below it, parents first, names sorted: for tests, dumps and exports."""
        left = [root]
        while left:
            path = left.pop()
            node = self._nodes.get(path)
            if node is not None:
                yield path, _new(Node, (node.data, node.stat()))
                if node.children:
                    left += _paths_below(path, sorted(node.children, reverse=True))

    def written(self, *roots: str) -> list[tuple[str, int]]:
        """Of each of `roots` and of everything below it the path, and the transaction that wrote it last: equal lists are equal
        nodes."""
        found: list[tuple[str, int]] = []
        paths = list(roots)
        for path in paths:
            node = self._nodes.get(path)
            if node is not None:
                found.append((path, node.mzxid))
                if node.children:
                    paths += _paths_below(path, node.children)
        return found

    # ---- writing

    def multi(self, session_id: int, ops: Sequence[Op]) -> tuple[list[Applied], Fired]:
        """Raises the error of the first op that cannot be done, and then nothing has changed."""
        self._session(session_id)
        told: list[WatchEvent] = []
        undo: Undo = []
        self.zxid += 1
        applied: list[Applied] = []
        for index, op in enumerate(ops):
            assert not isinstance(op, DeleteTree | Put), f"ZooKeeper's multi knows no {op}: use write"
            try:
                applied.append(self._apply(session_id, op, told, undo))
            except StoreError as error:
                error.index = index
                self._roll_back(undo)
                self.zxid -= 1
                raise
        return applied, self._fire(told)

    def write(
        self, session_id: int, writes: Sequence[ConditionalOps], fence: Fence | None
    ) -> tuple[list[WriteAnswer], Fired]:
        """Raises InvalidPath before anything of it is done: what was done before would be told to nobody."""
        self._session(session_id)
        check_paths([path for group in writes for path in (*group.parents, *[op.path for op in group.ops])])
        fired: Fired = []
        answers: list[WriteAnswer] = []
        for group in writes:
            if fence is not None:
                guard = self._nodes.get(fence.path)
                if guard is None or guard.version != fence.version:
                    answers.append(Fenced())
                    continue
            answer, told = self._write_group(session_id, group)
            answers.append(answer)
            fired += self._fire(told)
        return answers, fired

    def _write_group(self, session_id: int, group: ConditionalOps) -> tuple[WriteAnswer, list[WatchEvent]]:
        told: list[WatchEvent] = []
        undo: Undo = []
        self.zxid += 1
        try:
            for parent in group.parents:
                if parent not in self._nodes:
                    self._apply(session_id, Create(parent), told, undo)
            last = Applied("", None)
            for op in group.ops:
                last = self._apply(session_id, op, told, undo)
            return Stored(-1 if last.stat is None else last.stat.version), told
        except (NoNode, NodeExists, BadVersion, NotEmpty, NoChildrenForEphemerals) as error:
            self._roll_back(undo)
            self.zxid -= 1
            found = self._nodes.get(error.path)
            if found is None:
                return Conflict(error.path, None, -1), []
            return Conflict(error.path, found.data, found.version), []

    @staticmethod
    def _roll_back(undo: Undo) -> None:
        for step in reversed(undo):
            step()

    def _apply(self, session_id: int, op: Op, told: list[WatchEvent], undo: Undo) -> Applied:
        """One op, checked in full before anything moves; the way back goes to `undo`."""
        if isinstance(op, Set):
            return self._set(op, told, undo)
        if isinstance(op, Create):
            return self._create(session_id, op, told, undo)
        if isinstance(op, Check):
            node = self._node(op.path)
            if node.version != op.version:
                raise _bad_version(op.path, op.version, node.version)
            return Applied(op.path, None)
        if isinstance(op, Delete):
            node = self._node(op.path)
            if op.version not in (ANY_VERSION, node.version):
                raise _bad_version(op.path, op.version, node.version)
            if node.children:
                raise NotEmpty(op.path)
            self._remove(op.path, told, undo)
            return Applied(op.path, None)
        if isinstance(op, Put):
            if op.path in self._nodes:
                return self._set(Set(op.path, op.data), told, undo)
            return self._create(session_id, Create(op.path, op.data), told, undo)
        check_path(op.path)
        for path in [path for path, _ in self.walk(op.path)][::-1]:
            self._remove(path, told, undo)
        return Applied(op.path, None)

    def _set(self, op: Set, told: list[WatchEvent], undo: Undo) -> Applied:
        node = self._node(op.path)
        if op.version not in (ANY_VERSION, node.version):
            raise _bad_version(op.path, op.version, node.version)
        before = (node.data, node.version, node.mzxid)

        def restore() -> None:
            node.data, node.version, node.mzxid = before
            node._stat = None

        undo.append(restore)
        node.data = op.data
        node.version += 1
        node.mzxid = self.zxid
        node._stat = None
        told.append(WatchEvent(WatchKind.CHANGED, op.path))
        return Applied(op.path, node.stat())

    def _create(self, session_id: int, op: Create, told: list[WatchEvent], undo: Undo) -> Applied:
        check_path(op.path)
        if op.path == "/":
            raise NodeExists("/")
        parent_path = parent_of(op.path)
        parent = self._nodes.get(parent_path)
        if parent is None:
            raise NoNode(op.path, f"NoNode: {op.path}: its parent {parent_path} does not exist")
        path = sequential_path(op.path, parent.creations) if op.sequential else op.path
        if path in self._nodes:
            raise NodeExists(path)
        if parent.ephemeral_owner != NO_OWNER:
            raise NoChildrenForEphemerals(
                path, f"{path}: {parent_path} is ephemeral and can have no children"
            )
        node = _TreeNode(op.data, self.zxid, session_id if op.ephemeral else NO_OWNER)
        self._nodes[path] = node
        parent.creations += 1
        if parent.children is None:
            parent.children = {}
        name = name_of(path)
        parent.children[name] = None
        parent._stat = None
        if op.ephemeral:
            self.sessions[session_id].ephemerals[path] = None

        def take_back() -> None:
            del self._nodes[path]
            parent.creations -= 1
            assert parent.children is not None
            del parent.children[name]
            parent._stat = None
            if op.ephemeral:
                del self.sessions[session_id].ephemerals[path]

        undo.append(take_back)
        told.append(WatchEvent(WatchKind.CREATED, path))
        told.append(WatchEvent(WatchKind.CHILDREN, parent_path))
        return Applied(path, node.stat())

    def _remove(self, path: str, told: list[WatchEvent], undo: Undo | None) -> None:
        """Take a leaf out of the tree. Without `undo` there is no way back (the end of a session)."""
        if path == "/":
            raise NotEmpty("/", "the root cannot be deleted")
        node = self._nodes.pop(path)
        parent_path = parent_of(path)
        parent = self._nodes[parent_path]
        name = name_of(path)
        assert parent.children is not None
        del parent.children[name]
        parent._stat = None
        owner = self.sessions.get(node.ephemeral_owner)
        if owner is not None:
            del owner.ephemerals[path]

        def put_back() -> None:
            self._nodes[path] = node
            assert parent.children is not None
            parent.children[name] = None
            parent._stat = None
            if owner is not None:
                owner.ephemerals[path] = None

        if undo is not None:
            undo.append(put_back)
        told.append(WatchEvent(WatchKind.DELETED, path))
        told.append(WatchEvent(WatchKind.CHILDREN, parent_path))

    # ---- telling

    def _fire(self, told: list[WatchEvent]) -> Fired:
        """Whom the changes of one transaction reach. An armed watch is gone once it fired."""
        if not self._data_watchers and not self._children_watchers:
            return []
        fired: Fired = []
        for event in told:
            path = event.path
            reached: dict[int, None] = {}
            if event.kind is not WatchKind.CHILDREN:
                for session_id in self._data_watchers.pop(path, ()):
                    del self.sessions[session_id].data_watches[path]
                    reached[session_id] = None
            if event.kind in (WatchKind.CHILDREN, WatchKind.DELETED):
                for session_id in self._children_watchers.pop(path, ()):
                    del self.sessions[session_id].children_watches[path]
                    reached[session_id] = None
            fired += [(session_id, event) for session_id in reached]
        return fired


def _bad_version(path: str, expected: int, found: int) -> BadVersion:
    return BadVersion(path, f"BadVersion: {path}: expected {expected}, found {found}")
