"""Who begins the next transaction while the markers of the one before are on their way: waits for them, some tens of
milliseconds at most.

A client that is told CONCURRENT_TRANSACTIONS comes again after 20 ms or more, and the markers take a few.
"""

from typing import Generic, NamedTuple, TypeVar

After = TypeVar("After")

# An owner asks one thing at a time. What waits is held in memory: together so many, with so many partitions.
MOST_WAITING, MOST_PARTITIONS = 1_000, 20_000


class _Waiter(NamedTuple, Generic[After]):
    due_ms: int
    partitions: int
    after: After


class Waiting(Generic[After]):
    """What is to be done for whom, by transactional id, one each; all wait equally long, so the first is due first."""

    def __init__(self, wait_ms: int) -> None:
        self._wait_ms = wait_ms
        self._waiters: dict[str, _Waiter[After]] = {}
        self._partitions = 0

    @property
    def due_ms(self) -> int | None:
        return next((one.due_ms for one in self._waiters.values()), None)

    def add(self, transactional_id: str, partitions: int, after: After, now_ms: int) -> bool:
        """False: nobody else may wait, or not this one."""
        is_full = len(self._waiters) >= MOST_WAITING or self._partitions + partitions > MOST_PARTITIONS
        if self._wait_ms <= 0 or is_full or transactional_id in self._waiters:
            return False
        self._waiters[transactional_id] = _Waiter(now_ms + self._wait_ms, partitions, after)
        self._partitions += partitions
        return True

    def take(self, transactional_id: str) -> After | None:
        waiter = self._waiters.pop(transactional_id, None)
        if waiter is None:
            return None
        self._partitions -= waiter.partitions
        return waiter.after

    def take_due(self, now_ms: int) -> list[After]:
        due = []
        for name, waiter in self._waiters.items():
            if waiter.due_ms > now_ms:
                break
            due.append(name)
        return self._taken(due)

    def take_all(self) -> list[After]:
        return self._taken(list(self._waiters))

    def _taken(self, names: list[str]) -> list[After]:
        return [after for after in map(self.take, names) if after is not None]
