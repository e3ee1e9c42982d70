"""What every organ of a broker keeps to, so that the hub (`core`) need not know it by name.

An organ is a part of the broker with work of its own that no request waits in line for: ISR changes under way, copies
between directories, later the coordinators of groups and transactions. It decides and never waits: it leaves effects
behind, asks under an id of `PendingCalls`, and is called again when there is an answer or when its time has come.
"""

from collections.abc import Callable


class Organ:
    """`due_ms`: when it wants to be called at the latest, None for never. The hub looks at it at the end of every turn, so
    it is an attribute that is kept, and not a question that is answered by looking at everything.
    """

    due_ms: int | None = None

    def tick(self, now_ms: int) -> None:
        """Time has passed: perhaps the organ is due, perhaps another one."""


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
