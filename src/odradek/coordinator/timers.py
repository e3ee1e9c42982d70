"""What is due when, in one heap. An entry only says where to look: the deadline itself stands with its owner, and a
heartbeat moves that without touching the heap.
"""

from collections.abc import Callable
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import NamedTuple


class Kind(Enum):
    SESSION = "session"  # key: member id
    PENDING_ID = "pending id"  # key: the id
    JOIN = "join"
    SYNC = "sync"
    # Of members of a group of KIP-848; key: member id.
    CONSUMER_SESSION = "consumer session"
    REVOCATION = "revocation"  # was told to let go of partitions
    CLASSIC_JOIN = "classic join"  # a classic member was told to join again
    CLASSIC_SYNC = "classic sync"  # it joined, and has not asked for its assignment yet


class Timer(NamedTuple):
    due_ms: int
    number: int
    kind: Kind
    group_id: str
    key: str


# Whether a timer still means something, and when: None if not.
DueOf = Callable[[Timer], int | None]
_SWEEP_FROM = 1_024


class Timers:
    def __init__(self, due_of: DueOf) -> None:
        self._due_of = due_of
        self._heap: list[Timer] = []
        self._count = 0
        self._sweep_at = _SWEEP_FROM

    @property
    def next_ms(self) -> int | None:
        return self._heap[0].due_ms if self._heap else None

    def arm(self, due_ms: int, kind: Kind, group_id: str, key: str = "") -> None:
        self._count += 1
        heappush(self._heap, Timer(due_ms, self._count, kind, group_id, key))
        if len(self._heap) > self._sweep_at:
            self._sweep()

    def pop_due(self, now_ms: int) -> Timer | None:
        """The next whose time has come; those that were put off are put back, those without an owner dropped."""
        while self._heap and self._heap[0].due_ms <= now_ms:
            timer = heappop(self._heap)
            due_ms = self._due_of(timer)
            if due_ms is None:
                continue
            if due_ms <= now_ms:
                return timer
            heappush(self._heap, timer._replace(due_ms=due_ms))
        return None

    def _sweep(self) -> None:
        """Twice as many entries as had a meaning at the last look: drop those that have none (any more, or beside
        another for the same owner)."""
        kept: dict[tuple[Kind, str, str], Timer] = {}
        for timer in self._heap:
            owner = timer.kind, timer.group_id, timer.key
            if owner not in kept and self._due_of(timer) is not None:
                kept[owner] = timer
        for owner, timer in kept.items():
            due_ms = self._due_of(timer)
            assert due_ms is not None
            kept[owner] = timer._replace(due_ms=due_ms)
        self._heap = list(kept.values())
        heapify(self._heap)
        self._sweep_at = max(_SWEEP_FROM, 2 * len(self._heap))
