"""A cluster's metadata as a file, to keep or to move between stores. Pure, save for the session it is given.

    {"odradek_export": 1, "cluster_id": "...", "nodes": 300, "at_zxid": 4711}
    {"path": "/brokers/topics/t", "value": "{...}", "version": 3}            a line for each node, parents first
    {"path": "/x", "base64": "/wA=", "version": 0}                           a value that is no text

What is left out, and why nothing is lost by it:
- ephemeral nodes: whoever owned them makes them again;
- notifications: a broker reads everything when it starts, and their numbers would collide with new ones, for a
  store counts anew;
- `isr_broker_epochs` and `elr_broker_epochs` in a partition's state: they name incarnations by transaction ids of the
  store they were written in, which mean somebody else in another. Without them everybody counts as restarted since,
  which is true, and nobody is eligible outside the ISR.

Versions and transaction ids are the new store's own. Nobody remembers them over a restart: a controller reads a
node's version before it writes, and the controller epoch and leader epochs are values.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from odradek.model.errors import OdradekError
from odradek.store import layout
from odradek.store.api import (
    NO_OWNER,
    ConditionalOps,
    Conflict,
    Create,
    DeleteTree,
    InvalidPath,
    Node,
    NoNode,
    Store,
    check_path,
    child_path,
    parent_of,
)
from odradek.store.fields import Unreadable

FORMAT_VERSION = 1
# Their children come and go with what they tell of.
_NOTIFICATIONS = (layout.CONFIG_CHANGES, layout.ISR_CHANGES, layout.LOG_DIR_EVENTS)
# The server's own, at the root of an ensemble.
_FOREIGN = "/zookeeper"
_STATE = "/state"
_OURS_OF_THIS_STORE = ("isr_broker_epochs", "isr_broker_epochs_controller_epoch", "elr_broker_epochs")


class CannotMove(OdradekError):
    """The export or import is not done; the message says why and what would work."""


class PortableNode(NamedTuple):
    path: str
    data: bytes
    version: int = 0


# ---- from a store


async def below(store: Store, root: str) -> list[tuple[str, Node]]:
    """`root` and all below it, a level at a time: not of one moment, if others write meanwhile."""
    found: list[tuple[str, Node]] = []
    level = [root]
    while level:
        nodes = await store.get_many(level)
        there = [(path, node) for path, node in zip(level, nodes, strict=True) if node is not None]
        found += there
        # A node that never had a child has none: half of all nodes need no second look.
        parents = [path for path, node in there if node.stat.cversion > 0 and path != _FOREIGN]
        lists = await store.children_many(parents)
        level = [
            child_path(path, name)
            for path, names in zip(parents, lists, strict=True)
            for name in names or ()
            if child_path(path, name) != _FOREIGN
        ]
    return sorted(found, key=lambda item: item[0].split("/"))


def portable(nodes: Iterable[tuple[str, Node]]) -> list[PortableNode]:
    """What can be moved, parents first."""
    return [
        PortableNode(path, _without_incarnations(path, node.data), node.stat.version)
        for path, node in nodes
        if path != "/" and node.stat.ephemeral_owner == NO_OWNER and parent_of(path) not in _NOTIFICATIONS
    ]


def _without_incarnations(path: str, data: bytes) -> bytes:
    if not path.endswith(_STATE) or b"_broker_epochs" not in data:
        return data
    try:
        value = json.loads(data)
        if not isinstance(value, dict):
            return data
        kept = {name: item for name, item in value.items() if name not in _OURS_OF_THIS_STORE}
        return json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return data  # damaged: moved as it is, the controller says so there as here


def registered_brokers(nodes: Iterable[tuple[str, Node]]) -> list[str]:
    """The names of brokers that run on this store, or ran when it was last open: who dies with all others, or stands in a
    backup, is registered until the next process opens the store."""
    return [path.rpartition("/")[2] for path, _ in nodes if parent_of(path) == layout.BROKER_IDS]


# ---- the file


def encode(nodes: Sequence[PortableNode], at_zxid: int) -> Iterator[str]:
    """Lines, without their ends."""
    yield json.dumps(
        {
            "odradek_export": FORMAT_VERSION,
            "cluster_id": cluster_id_of(nodes),
            "nodes": len(nodes),
            "at_zxid": at_zxid,
        }
    )
    for node in nodes:
        try:
            value = {"value": node.data.decode()}
        except UnicodeDecodeError:
            value = {"base64": b64encode(node.data).decode()}
        yield json.dumps({"path": node.path, **value, "version": node.version}, ensure_ascii=False)


def decode(lines: Iterable[str]) -> list[PortableNode]:
    """Raises CannotMove for what is no whole export."""
    numbered = iter(enumerate(lines, start=1))
    try:
        _, first = next(numbered)
    except StopIteration:
        raise CannotMove("the export is empty") from None
    header = _object(1, first)
    version = header.get("odradek_export")
    if version != FORMAT_VERSION:
        raise CannotMove(
            f"line 1: no export of `odradek store export`, or one of another version ({version!r}; this "
            f"Odradek reads {FORMAT_VERSION})"
        )
    nodes: list[PortableNode] = []
    known = {"/"}
    for number, line in numbered:
        node = _node(number, _object(number, line))
        if parent_of(node.path) not in known:
            raise CannotMove(f"line {number}: {node.path} comes before its parent {parent_of(node.path)}")
        if node.path in known:
            raise CannotMove(f"line {number}: {node.path} is there twice")
        known.add(node.path)
        nodes.append(node)
    if header.get("nodes") != len(nodes):
        raise CannotMove(f"the export was cut off: {len(nodes)} of {header.get('nodes')} nodes are there")
    return nodes


def _object(number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CannotMove(
            f"line {number}: not JSON ({error}); `odradek store export` writes such a file"
        ) from None
    if not isinstance(value, dict):
        raise CannotMove(f"line {number}: expected a JSON object, found {type(value).__name__}")
    return value


def _node(number: int, value: dict[str, Any]) -> PortableNode:
    path, text, encoded = value.get("path"), value.get("value"), value.get("base64")
    version = value.get("version", 0)
    if not isinstance(path, str) or not isinstance(text if encoded is None else encoded, str):
        raise CannotMove(
            f"line {number}: expected path, and value or base64; found {', '.join(value) or 'nothing'}"
        )
    try:
        check_path(path)
        data = text.encode() if isinstance(text, str) else b64decode(str(encoded), validate=True)
    except (InvalidPath, ValueError) as error:
        raise CannotMove(f"line {number}: {error}") from None
    if path == "/":
        raise CannotMove(f"line {number}: / is always there")
    return PortableNode(path, data, version if isinstance(version, int) else 0)


def cluster_id_of(nodes: Iterable[PortableNode]) -> str | None:
    data = next((node.data for node in nodes if node.path == layout.CLUSTER_ID), None)
    if data is None:
        return None
    try:
        return layout.decode_cluster_id(data)
    except Unreadable:
        return None


# ---- into a store


async def check_target(store: Store, *, force: bool) -> None:
    """Raises CannotMove when something is there that an import would spoil."""
    try:
        brokers = await store.children(layout.BROKER_IDS)
    except NoNode:
        brokers = []
    if brokers:
        raise CannotMove(
            f"brokers are registered here ({', '.join(brokers)}); stop them first, and wait for their sessions to end"
        )
    there = await _top(store)
    if there and not force:
        raise CannotMove(
            f"there is a cluster here already ({', '.join(sorted(there))}); --force removes it and puts the import "
            "in its place"
        )


async def write_all(store: Store, nodes: Sequence[PortableNode]) -> None:
    """What is there goes, `nodes` come. The cluster's id is last: without it no broker takes this for a cluster."""
    # The id first: from here on this is no cluster.
    doomed = [layout.CLUSTER_ID, *(f"/{name}" for name in await _top(store))]
    await store.write([ConditionalOps((DeleteTree(path),)) for path in doomed], None)
    await _create_all(store, [node for node in nodes if node.path != layout.CLUSTER_ID])
    await _create_all(store, [node for node in nodes if node.path == layout.CLUSTER_ID])


async def _create_all(store: Store, nodes: Sequence[PortableNode]) -> None:
    groups = [ConditionalOps((Create(node.path, node.data),)) for node in nodes]
    for answer in await store.write(groups, None):
        if isinstance(answer, Conflict):
            raise CannotMove(
                f"{answer.path} was created by another client during the import; stop all brokers and import again "
                "with --force"
            )


async def _top(store: Store) -> list[str]:
    """Names below the root, without the server's own. With a chroot that is the cluster's root."""
    return [name for name in await store.children("/") if f"/{name}" != _FOREIGN]
