"""What the nodes of a simulated store say, for those who look at them again and again: read once for each value they have."""

from collections.abc import Callable
from typing import Any, TypeVar

from odradek.model.facts import StoredPartitionState, TopicAssignment
from odradek.store import layout
from odradek.store.api import Node

V = TypeVar("V")


class Decoded:
    """Each raises Unreadable as the functions of `layout` do."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Node, Any]] = {}

    def state(self, path: str, node: Node) -> StoredPartitionState:
        return self._read(path, node, state_of)

    def topic(self, path: str, node: Node) -> TopicAssignment:
        return self._read(path, node, topic_of)

    def config(self, path: str, node: Node) -> dict[str, str]:
        return self._read(path, node, config_of)

    def _read(self, path: str, node: Node, decode: Callable[[str, Node], V]) -> V:
        known = self._known.get(path)
        if known is not None and known[0] == node:
            return known[1]  # type: ignore[no-any-return]
        value = decode(path, node)
        self._known[path] = node, value
        return value


def state_of(path: str, node: Node) -> StoredPartitionState:
    return layout.decode_partition_state(path, node.data, node.stat.version)


def topic_of(path: str, node: Node) -> TopicAssignment:
    return layout.decode_topic(path.rpartition("/")[2], node)


def config_of(path: str, node: Node) -> dict[str, str]:
    return layout.decode_config(path, node.data)
