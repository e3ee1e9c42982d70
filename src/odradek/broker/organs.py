"""What every organ of a broker keeps to, so that the hub (`core`) need not know it by name.

An organ is a part of the broker with work of its own that no request waits in line for: ISR changes under way, copies
between directories, the coordinators of groups and transactions. It decides and never waits: it leaves effects
behind, asks under an id of `PendingCalls`, and is called again when there is an answer or when its time has come.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from odradek.model.ids import LeaderEpoch, TopicPartition


class RoleChange(NamedTuple):
    """This broker leads the partition from `epoch` on; or it does not, or no longer: it follows in `epoch`, or the replica
    was stopped, deleted, or lost with its disk, and then `epoch` is the last it was told."""

    partition: TopicPartition
    leads: bool
    epoch: LeaderEpoch


class Organs:
    """Those of one hub, in the order in which they are called.

    When the first is due is asked at the end of every turn, and in hardly any turn has one of them set its `due_ms`: so they
    are looked through only then.
    """

    def __init__(self, organs: Iterable["Organ"] = ()) -> None:
        self._organs: list[Organ] = []
        self._have_changed = False
        self._earliest_ms: int | None = None
        for organ in organs:
            self.append(organ)

    def append(self, organ: "Organ") -> None:
        organ.hub = self
        self._organs.append(organ)
        self._have_changed = True

    def __iter__(self) -> Iterator["Organ"]:
        return iter(self._organs)

    def changed(self) -> None:
        """One of them is due at another time."""
        self._have_changed = True

    def earliest_ms(self) -> int | None:
        if self._have_changed:
            self._have_changed = False
            self._earliest_ms = min(
                [due_ms for organ in self._organs if (due_ms := organ._due_ms) is not None], default=None
            )
        return self._earliest_ms


class Organ:
    """`due_ms`: when it wants to be called at the latest, None for never. It is set when something becomes due, and not a
    question that is answered by looking at everything.
    """

    hub = Organs()  # none, until one has it
    _due_ms: int | None = None

    @property
    def due_ms(self) -> int | None:
        return self._due_ms

    @due_ms.setter
    def due_ms(self, due_ms: int | None) -> None:
        self._due_ms = due_ms
        self.hub.changed()

    def tick(self, now_ms: int) -> None:
        """Time has passed: perhaps the organ is due, perhaps another one."""

    def roles_changed(self, changes: Sequence[RoleChange], now_ms: int) -> None:
        """What this broker was told since the last turn, in that order. A new epoch is a change too: whoever led in it has
        perhaps appended meanwhile. Requests of the same turn may have been handled before."""


class Periodic(Organ):
    """`act(now_ms)` at `first_ms`, and then `interval_ms()` after each time."""

    def __init__(self, first_ms: int, interval_ms: Callable[[], int], act: Callable[[int], None]) -> None:
        self._at_ms = self.due_ms = first_ms
        self._interval_ms = interval_ms
        self._act = act

    def tick(self, now_ms: int) -> None:
        if now_ms >= self._at_ms:
            self._at_ms = self.due_ms = now_ms + self._interval_ms()
            self._act(now_ms)
