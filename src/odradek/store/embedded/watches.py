"""The armed watches of one session, fired by the lines of the change log."""

from __future__ import annotations

from collections.abc import Sequence

from odradek.store.api import WatchEvent, WatchKind
from odradek.store.embedded.operations import CHANGED, CHILDREN, CREATED, DELETED

_DATA_KINDS = {CREATED: WatchKind.CREATED, CHANGED: WatchKind.CHANGED, DELETED: WatchKind.DELETED}


class ArmedWatches:
    def __init__(self) -> None:
        self.data: set[str] = set()
        self.children: set[str] = set()

    def fire(self, lines: Sequence[str]) -> list[WatchEvent]:
        """What these changes fire, in their order. Once: what has fired is not armed any more."""
        if len(lines) > 10 * (len(self.data) + len(self.children)):
            # A hundred thousand changes, a few watches: look for the watches in the lines.
            interest = {kind + path for path in self.data for kind in _DATA_KINDS}
            interest.update(kind + path for path in self.children for kind in (CHILDREN, DELETED))
            if interest.isdisjoint(lines):
                return []
            lines = [line for line in lines if line in interest]
        return [event for line in lines if (event := self._fire(line[0], line[1:])) is not None]

    def _fire(self, kind: str, path: str) -> WatchEvent | None:
        """A deletion is told once, even to who watched both the data and the children."""
        fired = False
        if kind in _DATA_KINDS and path in self.data:
            self.data.remove(path)
            fired = True
        if kind in (CHILDREN, DELETED) and path in self.children:
            self.children.remove(path)
            fired = True
        return WatchEvent(_DATA_KINDS.get(kind, WatchKind.CHILDREN), path) if fired else None
