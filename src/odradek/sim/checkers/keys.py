"""The last record of each key of one compacted log, as a checker sees it. Records of a transaction count once it is committed,
from its marker on; those of an aborted one never, and the cleaner takes them out.
"""

from odradek.sim.checkers.history import Value

Last = tuple[int, Value | None]  # offset, and the value; None: a tombstone


class Keys:
    __slots__ = ("_undecided", "decided_at", "disorder", "end_offset", "last", "tombstones")

    def __init__(self) -> None:
        self.last: dict[Value, Last] = {}
        self.tombstones: dict[Value, int] = {}  # of a key the last one, whatever was put behind it
        self.decided_at: dict[Value, int] = {}  # of a record of a transaction: where its marker is
        self._undecided: dict[int, list[tuple[Value, int, Value | None]]] = {}  # by producer
        self.end_offset = -1
        self.disorder: list[int] = []  # where a batch begins before the end of the one before

    def note(self, base_offset: int, next_offset: int) -> None:
        """A batch."""
        if base_offset < self.end_offset:
            self.disorder.append(base_offset)
        self.end_offset = next_offset

    def put(self, key: Value, offset: int, value: Value | None) -> None:
        """A record of it."""
        self.last[key] = offset, value
        self.decided_at.pop(key, None)
        if value is None:
            self.tombstones[key] = offset

    def put_undecided(self, producer_id: int, key: Value, offset: int, value: Value | None) -> None:
        """A record of an open transaction."""
        self._undecided.setdefault(producer_id, []).append((key, offset, value))

    def decide(self, producer_id: int, offset: int, *, is_commit: bool) -> None:
        """The marker at `offset`."""
        for key, where, value in self._undecided.pop(producer_id, ()):
            if is_commit and where > self.last.get(key, (-1, None))[0]:
                self.last[key] = where, value
                self.decided_at[key] = offset

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Keys)
            and (self.last, self.end_offset, self.disorder)
            == (other.last, other.end_offset, other.disorder)
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Keys({self.last})"
