"""The metadata store: ZooKeeper's tree of nodes as values, and the one interface to it.

Three stores keep these promises and one suite (tests/conformance) holds them to it:

- A node has data, a version that grows by one with each set, and a stat. Every change has a transaction id
  (zxid); the ids grow strictly.
- `multi` happens whole or not at all, and so does each group of `write`.
- A watch fires once, for the first change after it was armed. *A reader never sees newer data before its
  watch fired*: whoever reads a value and arms a watch in one call cannot miss what comes next.
- An ephemeral node goes when its session ends. A client that cannot reach the store for its session timeout
  must consider itself gone before the store does, and then starts again with a new session.

One `Store` object is one session. After EXPIRED or CLOSED it answers nothing but SessionExpired.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from odradek.model.errors import OdradekError
from odradek.model.values import dataclass

ANY_VERSION = -1
NO_OWNER = 0  # ephemeral_owner of a persistent node
SEQUENCE_DIGITS = 10
CONTROLLER_EPOCH_PATH = "/controller_epoch"


class Stat(NamedTuple):
    version: int
    cversion: int  # changes of the list of children
    czxid: int  # of the creation; of a broker's registration it is the broker epoch
    mzxid: int  # of the last set
    ephemeral_owner: int = NO_OWNER


class Node(NamedTuple):
    data: bytes
    stat: Stat


# ---- what can be asked to happen


@dataclass(frozen=True, slots=True)
class Create:
    """`sequential` appends the parent's count of creations, ten digits."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


@dataclass(frozen=True, slots=True)
class DeleteTree:
    """The node and everything below it; that it is already gone is no conflict. Only in `write`."""

    path: str


@dataclass(frozen=True, slots=True)
class Put:
    """Create the node, or overwrite whatever stands there. Only in `write`."""

    path: str
    data: bytes


Op = Create | Set | Delete | Check | DeleteTree | Put


class Applied(NamedTuple):
    """What one op of a `multi` did: the path (of a sequential node: with its number), the stat after it."""

    path: str
    stat: Stat | None  # None after Delete and Check


@dataclass(frozen=True, slots=True)
class ConditionalOps:
    """One group of `write`: all of it happens, or none.

    `parents` are persistent empty nodes that must be there first; that one exists already is no conflict.
    """

    ops: tuple[Op, ...]
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fence:
    """Proof of still being controller: the version of `/controller_epoch` our election wrote (KAFKA-6082)."""

    version: int
    path: str = CONTROLLER_EPOCH_PATH


@dataclass(frozen=True, slots=True)
class Stored:
    """The group happened. `version` is that of the node its last op wrote; -1 when that op deleted."""

    version: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """The group did not happen: `path` stands at this value and version (None and -1: no such node)."""

    path: str
    value: bytes | None
    version: int


@dataclass(frozen=True, slots=True)
class Fenced:
    """The fence does not hold any more: somebody else was elected. Nothing of this group happened."""


WriteAnswer = Stored | Conflict | Fenced


# ---- what is told


class WatchKind(Enum):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN = "children"


class WatchEvent(NamedTuple):
    kind: WatchKind
    path: str


class SessionState(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"  # out of touch; the session may still live
    EXPIRED = "expired"  # gone for good, with its ephemerals
    CLOSED = "closed"  # by its owner


OnWatch = Callable[[WatchEvent], None]
OnSession = Callable[[SessionState], None]


# ---- what can go wrong


class StoreError(OdradekError):
    """`path` is the node it is about, `index` the op within a multi."""

    def __init__(self, path: str = "", message: str = "", index: int = 0) -> None:
        super().__init__(message or f"{type(self).__name__}: {path}")
        self.path = path
        self.index = index


class NoNode(StoreError):
    """There is no node at `path` (of a create: its parent is missing)."""


class NodeExists(StoreError):
    """There is a node at `path` already."""


class BadVersion(StoreError):
    """The node stands at another version than the one expected."""


class NotEmpty(StoreError):
    """A node with children cannot be deleted."""


class NoChildrenForEphemerals(StoreError):
    """An ephemeral node cannot have children."""


class InvalidPath(StoreError):
    """A path begins with `/`, does not end with it, has no empty, `.` or `..` part and no control character."""


class SessionExpired(StoreError):
    """This session is over; its ephemerals are gone. Open another one."""


class StoreUnavailable(StoreError):
    """The store could not be reached or could not write. Whether a write happened is not known. `verdict`: as the message
    goes on after "the store"."""

    verdict = "cannot be reached"


class OutOfTouch(StoreUnavailable):
    """The way to the store is lost, and is looked for: within the session the same may be asked again."""


class NotAllowed(StoreUnavailable):
    """The store does not know us, or does not let us at this node. Nothing was changed by that transaction; what a `write` of several
    did before it stands."""

    verdict = "refuses it"


class TooLarge(StoreUnavailable):
    """More than the store takes in one transaction. Nothing was changed by it; what a `write` of several did before it stands."""

    verdict = "refuses it"


class StoreGone(StoreUnavailable):
    """The file that is open is not the one its name means any more, or there is none and must have been one. What was
    written last may be lost. `is_final`: this process cannot go on with what is there now.
    """

    verdict = "cannot be used"
    is_final = False


class StoreCorrupt(StoreUnavailable):
    """The store's file cannot be used as it is; the message says what to do."""

    verdict = "cannot be used"


# ---- the one interface


class Store(Protocol):
    """One session with the store. All calls may raise SessionExpired and StoreUnavailable."""

    @property
    def session_id(self) -> int: ...

    @property
    def session_timeout_ms(self) -> int: ...

    @property
    def state(self) -> SessionState: ...

    def listen(
        self, *, on_watch: OnWatch | None = None, on_session: OnSession | None = None
    ) -> Callable[[], None]:
        """Tell the callbacks of every fired watch and every change of state, until the answer is called.

        All listeners of one session share its watches: an armed watch fires once and every listener hears it.
        A callback must not wait; it notes what it heard and wakes its owner.
        """
        ...

    async def get(self, path: str, *, watch: bool = False) -> Node:
        """Raises NoNode, and then arms nothing. The watch fires on set and delete."""
        ...

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        """None when there is no such node. The watch fires on create, set and delete."""
        ...

    async def children(self, path: str, *, watch: bool = False) -> list[str]:
        """Names, sorted. Raises NoNode. The watch fires when a child comes or goes, or the node goes."""
        ...

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[Node | None]:
        """As `get` for each, at the cost of one round; None where there is no node (nothing armed there)."""
        ...

    async def children_many(self, paths: Sequence[str], *, watch: bool = False) -> list[list[str] | None]:
        """As `children` for each, at the cost of one round; None where there is no node."""
        ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Applied: ...

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat: ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    async def multi(self, ops: Sequence[Op]) -> list[Applied]:
        """All of it or nothing; raises the error of the first op that cannot be done, with its `index`.

        The answer has one entry an op; Create, Set, Delete and Check only, as in ZooKeeper's multi.
        """
        ...

    async def write(self, writes: Sequence[ConditionalOps], fence: Fence | None) -> list[WriteAnswer]:
        """Each group on its own, in order, under the fence; a conflict of one does not stop the others."""
        ...

    async def close(self) -> None:
        """End the session in order; its ephemerals go at once."""
        ...


class StoreProvider(Protocol):
    """Where sessions come from: a place to come back to after one has expired."""

    async def open_session(self, session_timeout_ms: int) -> Store: ...

    async def close(self) -> None: ...


# ---- paths


# ZooKeeper's rule: no control characters, no surrogates or private use, no specials.
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")


def check_path(path: str) -> None:
    if path == "/":
        return
    if _FORBIDDEN.search(path):
        raise InvalidPath(path, f"{path!r} is no path of a node: it has a character that no path may have")
    if not path.startswith("/") or path.endswith("/") or "//" in path:
        raise InvalidPath(
            path, f"{path!r} is no path of a node: expected /part/part, without a slash at the end"
        )
    if "/." in path and any(part in (".", "..") for part in path.split("/")):
        raise InvalidPath(path, f"{path!r} is no path of a node: `.` and `..` have no meaning here")


def check_characters(paths: Sequence[str]) -> None:
    """Many paths at once, at the cost of one look: none has a character that no path may have."""
    if _FORBIDDEN.search("".join(paths)):
        for path in paths:
            check_path(path)


def check_paths(paths: Sequence[str]) -> None:
    """As `check_path` for each, at the cost of a few looks at all of them."""
    text = "\0".join(paths) + "\0"
    if (
        _FORBIDDEN.search("".join(paths))
        or "//" in text
        or "/\0" in text
        or "/." in text
        or f"\0{text}".count("\0/") != len(paths)
    ):
        for path in paths:
            check_path(path)


def parent_of(path: str) -> str:
    return path[: path.rindex("/")] or "/"


def name_of(path: str) -> str:
    return path[path.rindex("/") + 1 :]


def child_path(parent: str, name: str) -> str:
    return f"/{name}" if parent == "/" else f"{parent}/{name}"


def sequential_path(path: str, number: int) -> str:
    return f"{path}{number:0{SEQUENCE_DIGITS}d}"
