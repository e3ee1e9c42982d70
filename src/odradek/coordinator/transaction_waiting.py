"""Who adds partitions while a record of the id, or the markers of the transaction before, are on their way: waits for
them, some tens of milliseconds at most.

A client that is told CONCURRENT_TRANSACTIONS comes again after 20 ms or more, and what it waits for takes a few. With
`transaction.version` 2 the leaders of all partitions that a producer writes to add theirs at the same moment.
"""

from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

After = TypeVar("After")

# What waits is held in memory: together so many, with so many partitions; of one id so many, a leader each.
MOST_WAITING, MOST_PARTITIONS, MOST_OF_ONE_ID = 1_000, 20_000, 100


class _Waiter(NamedTuple, Generic[After]):
    transactional_id: str
    due_ms: int
    partitions: int
    after: After


class Waiting(Generic[After]):
    """What is to be done for whom, in the order in which they came; all wait equally long, so the first is due first."""

    def __init__(self, wait_ms: int) -> None:
        self._wait_ms = wait_ms
        self._waiters: dict[int, _Waiter[After]] = {}  # by the number of who came
        self._numbers: dict[str, list[int]] = {}
        self._count = 0
        self._partitions = 0

    @property
    def due_ms(self) -> int | None:
        return next((one.due_ms for one in self._waiters.values()), None)

    def add(self, transactional_id: str, partitions: int, after: After, now_ms: int) -> bool:
        """False: nobody else may wait."""
        is_full = len(self._waiters) >= MOST_WAITING or self._partitions + partitions > MOST_PARTITIONS
        is_full = is_full or len(self._numbers.get(transactional_id, ())) >= MOST_OF_ONE_ID
        if self._wait_ms <= 0 or is_full:
            return False
        self._count += 1
        self._waiters[self._count] = _Waiter(transactional_id, now_ms + self._wait_ms, partitions, after)
        self._numbers.setdefault(transactional_id, []).append(self._count)
        self._partitions += partitions
        return True

    def first(self, transactional_id: str) -> After | None:
        numbers = self._numbers.get(transactional_id)
        return self._waiters[numbers[0]].after if numbers else None

    def take_first(self, transactional_id: str) -> After:
        return self._take(self._numbers[transactional_id][0])

    def take(self, transactional_id: str) -> list[After]:
        return self._taken(self._numbers.get(transactional_id, ()))

    def take_due(self, now_ms: int) -> list[After]:
        due = []
        for number, waiter in self._waiters.items():
            if waiter.due_ms > now_ms:
                break
            due.append(number)
        return self._taken(due)

    def take_all(self) -> list[After]:
        return self._taken(self._waiters)

    def _taken(self, numbers: Iterable[int]) -> list[After]:
        return [self._take(number) for number in list(numbers)]

    def _take(self, number: int) -> After:
        waiter = self._waiters.pop(number)
        self._partitions -= waiter.partitions
        of_id = self._numbers[waiter.transactional_id]
        of_id.remove(number)
        if not of_id:
            del self._numbers[waiter.transactional_id]
        return waiter.after
