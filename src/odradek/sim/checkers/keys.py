"""The last record of each key of one compacted log, as a checker sees it."""

from odradek.sim.checkers.history import Value

Last = tuple[int, Value | None]  # offset, and the value; None: a tombstone


class Keys:
    __slots__ = ("disorder", "end_offset", "last")

    def __init__(self) -> None:
        self.last: dict[Value, Last] = {}
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

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Keys)
            and (self.last, self.end_offset, self.disorder)
            == (other.last, other.end_offset, other.disorder)
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Keys({self.last})"
