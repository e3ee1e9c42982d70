"""What every organ of a broker keeps to, so that the hub (`core`) need not know it by name.

An organ is a part of the broker with work of its own that no request waits in line for: ISR changes under way, copies
between directories, later the coordinators of groups and transactions. It decides and never waits: it leaves effects
behind, asks under an id of `PendingCalls`, and is called again when there is an answer or when its time has come.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from odradek.model.ids import LeaderEpoch, TopicPartition


class RoleChange(NamedTuple):
    """This broker leads the partition from `epoch` on; or it does not, or no longer: it follows in `epoch`, or the replica
    was stopped, deleted, or lost with its disk, and then `epoch` is the last it was told."""

    partition: TopicPartition
    leads: bool
    epoch: LeaderEpoch


class Organ:
    """`due_ms`: when it wants to be called at the latest, None for never. The hub looks at it at the end of every turn, so
    it is an attribute that is kept, and not a question that is answered by looking at everything.
    """

    due_ms: int | None = None

    def tick(self, now_ms: int) -> None:
        """Time has passed: perhaps the organ is due, perhaps another one."""

    def roles_changed(self, changes: Sequence[RoleChange], now_ms: int) -> None:
        """What this broker was told since the last turn, in that order. A new epoch is a change too: whoever led in it has
        perhaps appended meanwhile. Requests of the same turn may have been handled before."""


class Periodic(Organ):
    """`act(now_ms)` at `first_ms`, and then `interval_ms()` after each time."""

    def __init__(self, first_ms: int, interval_ms: Callable[[], int], act: Callable[[int], None]) -> None:
        self.due_ms: int = first_ms
        self._interval_ms = interval_ms
        self._act = act

    def tick(self, now_ms: int) -> None:
        if now_ms >= self.due_ms:
            self.due_ms = now_ms + self._interval_ms()
            self._act(now_ms)
