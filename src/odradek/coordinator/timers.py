"""What is due when, in one heap. An entry only says where to look: the deadline itself stands with its owner, and a
heartbeat moves that without touching the heap.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple
from weakref import WeakMethod


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

    __hash__ = (
        object.__hash__
    )  # the one of Enum is a function of Python, and takes as long as the rest of a look-up


class Timer(NamedTuple):
    due_ms: int
    number: int
    kind: Kind
    group_id: str
    key: str


# Whether a timer still means something, and when: None if not.
DueOf = Callable[[Timer], int | None]
_SWEEP_FROM = 1_024
_new: Any = tuple.__new__  # what the constructor of a named tuple calls, through a frame more


class Timers:
    def __init__(self, due_of: DueOf) -> None:
        """`due_of`: a method of whoever has the timers."""
        # Weak: whoever has the timers is not to hold itself. Unloaded, it would wait for a collector of what has lived for long.
        self._due_of = WeakMethod(due_of)
        self._heap: list[Timer] = []
        self._count = 0
        self._sweep_at = _SWEEP_FROM
        self._is_put_off = False

    @property
    def next_ms(self) -> int | None:
        return self._heap[0].due_ms if self._heap else None

    def arm(self, due_ms: int, kind: Kind, group_id: str, key: str = "") -> None:
        self._count += 1
        heappush(self._heap, Timer(due_ms, self._count, kind, group_id, key))
        if len(self._heap) > self._sweep_at:
            self._sweep()

    def arm_all(self, kind: Kind, group_id: str, due: Sequence[tuple[int, str]]) -> None:
        """As `arm` for each time and key. To sweep as well would make a long turn longer: some later one does."""
        numbers = range(self._count + 1, self._count + 1 + len(due))
        self._count += len(due)
        self._heap += [
            _new(Timer, (due_ms, number, kind, group_id, key))
            for (due_ms, key), number in zip(due, numbers, strict=True)
        ]
        heapify(self._heap)
        if len(self._heap) > self._sweep_at:
            if self._is_put_off:
                self._sweep()
            else:
                self._is_put_off = True
                self._sweep_at = len(self._heap) + _SWEEP_FROM

    def pop_due(self, now_ms: int) -> Timer | None:
        """The next whose time has come; those that were put off are put back, those without an owner dropped."""
        while self._heap and self._heap[0].due_ms <= now_ms:
            timer = heappop(self._heap)
            due_ms = self._asked(timer)
            if due_ms is None:
                continue
            if due_ms <= now_ms:
                return timer
            heappush(self._heap, timer._replace(due_ms=due_ms))
        return None

    def _asked(self, timer: Timer) -> int | None:
        due_of = self._due_of()
        return None if due_of is None else due_of(timer)

    def _sweep(self) -> None:
        """Twice as many entries as had a meaning at the last look: drop those that have none (any more, or beside
        another for the same owner)."""
        kept: dict[tuple[Kind, str, str], Timer] = {}
        for timer in self._heap:
            _, number, kind, group_id, key = timer
            owner = kind, group_id, key
            # Asked of each, for one of them is the one that its owner knows of, and is told so when that one is another.
            due_ms = self._asked(timer)
            if due_ms is not None:
                kept[owner] = _new(Timer, (due_ms, number, *owner))
        self._heap = list(kept.values())
        heapify(self._heap)
        self._sweep_at = max(_SWEEP_FROM, 2 * len(self._heap))
        self._is_put_off = False
