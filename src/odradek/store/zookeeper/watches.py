"""What a session has armed, and what stood there when it did: enough to say what was missed. Pure.

A server forgets the watches of a connection that is lost. On coming back every node is looked at again, and what
differs from then is told as its watch would have told it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from odradek.store.api import Node, Stat, WatchEvent, WatchKind


class ArmedWatches:
    def __init__(self) -> None:
        self.data: dict[str, Stat | None] = {}  # None: no node was there
        self.children: dict[str, Stat] = {}
        self._begun: list[Arming] = []

    def clear(self) -> None:
        self.data.clear()
        self.children.clear()

    def begin(self, paths: Sequence[str]) -> Arming:
        """Watches on the data of many nodes are on their way, and a read of those nodes behind them."""
        arming = Arming(self, paths)
        self._begun.append(arming)
        return arming

    def forget(self, arming: Arming) -> None:
        self._begun.remove(arming)

    def fire(self, event: WatchEvent) -> bool:
        """Was it armed? Once: what has fired is not armed any more, and a deletion is one event for both."""
        was_armed = False
        for arming in self._begun:
            arming.used_up.add(event.path)
        if event.kind is not WatchKind.CHILDREN and event.path in self.data:
            del self.data[event.path]
            was_armed = True
        if event.kind in (WatchKind.CHILDREN, WatchKind.DELETED) and event.path in self.children:
            del self.children[event.path]
            was_armed = True
        return was_armed


class Arming:
    """Between the watches and the read that follows them. What fires then is used up before anybody knew that it
    was armed; whoever reads must look at that node again."""

    def __init__(self, watches: ArmedWatches, paths: Sequence[str]) -> None:
        self._watches = watches
        self._paths = paths
        self.used_up: set[str] = set()

    def end(self, nodes: Sequence[Node | None]) -> None:
        """The read is answered: what was there and did not move is armed."""
        for path, node in zip(self._paths, nodes, strict=True):
            if path in self.used_up:
                self._watches.data.pop(path, None)
            elif node is not None:
                self._watches.data[path] = node.stat


def missed(
    data_then: Mapping[str, Stat | None],
    children_then: Mapping[str, Stat],
    data_now: Mapping[str, Stat | None],
    children_now: Mapping[str, Stat | None],
) -> Iterator[WatchEvent]:
    """The first thing that happened to each node between the two looks."""
    for path, before in data_then.items():
        now = data_now[path]
        if before is None:
            if now is not None:
                yield WatchEvent(WatchKind.CREATED, path)
        elif now is None or now.czxid != before.czxid:
            yield WatchEvent(WatchKind.DELETED, path)
        elif now.mzxid != before.mzxid:
            yield WatchEvent(WatchKind.CHANGED, path)
    for path, then in children_then.items():
        now = children_now[path]
        if now is None or now.czxid != then.czxid:
            yield WatchEvent(WatchKind.DELETED, path)
        elif now.cversion != then.cversion:
            yield WatchEvent(WatchKind.CHILDREN, path)
