"""Parked requests: woken by what they wait for or by their deadline, completed exactly once.

A waiter is parked with a deadline and, where nobody else knows when to wake it, under keys (a topic that
shall get its leaders, a partition whose records shall go). Partitions and fetch sessions keep their own
short lists of waiters, so a wake-up there costs no lookup; they put the waiter on `ready`.

Everything in `ready` is tried once at the end of the turn of the loop in which it was put there; no waiter is tried in
the middle of a change. The purgatory keeps the books alone: a waiter says whether it is over, and answers once it has been
booked out.

Deadlines are kept in buckets of DEADLINE_GRAIN_MS, rounded up: parking and leaving cost one dictionary
operation each, and a request that was answered leaves its bucket behind at most (a heap would keep 30 s of them). Empty
buckets go when they are more than the others: a client may be ready to wait for weeks, and be answered at once.
"""

from collections.abc import Hashable, Iterable
from heapq import heapify, heappop, heappush

DEADLINE_GRAIN_MS = 4
_SWEEP_FROM = 1_024  # buckets


class Waiter:
    """Something parked. Subclasses say when it is over, and answer."""

    __slots__ = ("_bucket", "_keys", "is_done", "is_ready")

    def __init__(self) -> None:
        self.is_done = False
        self.is_ready = False  # stands in `Purgatory.ready`
        self._bucket = -1
        self._keys: tuple[Hashable, ...] = ()

    def is_over(self, now_ms: int) -> bool:
        """Whether what it waits for has come true. Asked when something that it depends on has changed."""
        raise NotImplementedError

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        """Answers, with what there is where `is_late`: the deadline has passed, or nobody would wait that long. Called
        once, when the purgatory has it in its books no more."""
        raise NotImplementedError


class Purgatory:
    """Invariants: a waiter that was parked is in a bucket and under its keys, or it is done; `ready` holds no waiter twice."""

    def __init__(self) -> None:
        self.ready: list[Waiter] = []
        self._buckets: dict[int, dict[Waiter, None]] = {}
        self._bucket_heap: list[int] = []  # the numbers of all of them
        self._sweep_at = _SWEEP_FROM
        self._watched: dict[Hashable, dict[Waiter, None]] = {}

    def park(self, waiter: Waiter, *, deadline_ms: int, keys: Iterable[Hashable] = ()) -> None:
        assert waiter._bucket < 0 and not waiter.is_done, "parked twice"
        number = -(-deadline_ms // DEADLINE_GRAIN_MS)
        bucket = self._buckets.get(number)
        if bucket is None:
            if len(self._buckets) >= self._sweep_at:
                self._drop_empty_buckets()
            bucket = self._buckets[number] = {}
            heappush(self._bucket_heap, number)
        bucket[waiter] = None
        waiter._bucket = number
        if keys:
            waiter._keys = tuple(keys)
            for key in waiter._keys:
                self._watched.setdefault(key, {})[waiter] = None

    def reschedule(self, waiter: Waiter, *, deadline_ms: int) -> None:
        """A parked waiter is to be answered sooner; never later than it was to be."""
        if -(-deadline_ms // DEADLINE_GRAIN_MS) < waiter._bucket:
            del self._buckets[waiter._bucket][waiter]
            waiter._bucket = -1
            self.park(waiter, deadline_ms=deadline_ms)  # its keys stay

    def attempt(self, waiter: Waiter, now_ms: int) -> None:
        """Perhaps it is over."""
        if not waiter.is_done and waiter.is_over(now_ms):
            self.leave(waiter)
            waiter.finish(now_ms, is_late=False)

    def complete(self, waiter: Waiter, now_ms: int) -> None:
        """It is over, as whoever calls knows."""
        self.leave(waiter)
        waiter.finish(now_ms, is_late=False)

    def cut_short(self, waiter: Waiter, now_ms: int) -> None:
        """Its time is up."""
        self.leave(waiter)
        waiter.finish(now_ms, is_late=True)

    def leave(self, waiter: Waiter) -> None:
        """Nobody waits for the answer any more, or it is being given. A second call is our own mistake."""
        assert not waiter.is_done, "a parked request was completed twice"
        waiter.is_done = True
        bucket = self._buckets.get(waiter._bucket)  # None where its deadline has come, or it was never parked
        if bucket is not None:
            bucket.pop(waiter, None)
        for key in waiter._keys:
            watchers = self._watched[key]
            del watchers[waiter]
            if not watchers:
                del self._watched[key]

    def wake(self, waiter: Waiter) -> None:
        if not waiter.is_ready and not waiter.is_done:
            waiter.is_ready = True
            self.ready.append(waiter)

    def wake_key(self, key: Hashable) -> None:
        for waiter in self._watched.get(key, ()):
            self.wake(waiter)

    def sweep(self, now_ms: int) -> None:
        """Tries everything that was woken. Completing one may wake others: they are tried too."""
        ready = self.ready
        position = 0
        while position < len(ready):
            waiter = ready[position]
            position += 1
            waiter.is_ready = False
            if not waiter.is_done and waiter.is_over(now_ms):
                self.leave(waiter)
                waiter.finish(now_ms, is_late=False)
        ready.clear()

    def expire(self, now_ms: int) -> int:
        """Answers what is overdue; how many there were."""
        heap = self._bucket_heap
        expired = 0
        while heap and heap[0] * DEADLINE_GRAIN_MS <= now_ms:
            bucket = self._buckets.pop(heappop(heap))
            for waiter in bucket:
                if not waiter.is_done:
                    self.cut_short(waiter, now_ms)
                    expired += 1
        return expired

    def next_deadline_ms(self) -> int | None:
        heap = self._bucket_heap
        while heap and not self._buckets[heap[0]]:
            del self._buckets[heappop(heap)]
        return heap[0] * DEADLINE_GRAIN_MS if heap else None

    def _drop_empty_buckets(self) -> None:
        """When there are twice as many as were left the last time."""
        buckets, heap = self._buckets, self._bucket_heap
        heap[:] = [number for number in heap if buckets[number]]
        for number in buckets.keys() - set(heap):
            del buckets[number]
        heapify(heap)
        self._sweep_at = max(_SWEEP_FROM, 2 * len(heap))

    def __len__(self) -> int:
        return sum(len(bucket) for bucket in self._buckets.values())
