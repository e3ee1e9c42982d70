"""What waits for a partition: readers for records, producers for acknowledgements; and what it leaves to be done.

A partition calls nobody in the middle of a change. It marks readers, settles acknowledgements and fills the
outbox; the broker does the rest at the end of the turn.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerEpoch, BrokerId, TopicPartition
from odradek.replication.isr import IsrAnswer, IsrProposal
from odradek.replication.purgatory import Purgatory, Waiter

if TYPE_CHECKING:
    from odradek.log.partition_log import PartitionLog
    from odradek.replication.cuts import Cut


BEYOND_ALL = 1 << 63  # behind every offset


class Reader:
    """An open interest in a partition's records: a partition of a fetch session, or of one parked fetch.

    `is_dirty` says that the partition may have something it has not been told; `wake` is called when that
    becomes so. Followers' readers are woken by appends, consumers' by the high watermark.
    """

    __slots__ = ("is_dirty",)

    is_dirty: bool

    def wake(self) -> None:
        raise NotImplementedError

    def on_high_watermark(self, now_ms: int) -> None:
        """A follower's reader: there are no more records, but more of them are committed."""
        raise NotImplementedError


class AckWaiter(Waiter):
    """Waits for offsets to be committed, or flushed: `complete` is called once for each, with the slot it was added with."""

    __slots__ = ()

    def complete(self, slot: int, error: ErrorCode) -> None:
        raise NotImplementedError


class AckQueue:
    """Requests that wait for an offset, in the order of their offsets (behaviour 129)."""

    __slots__ = ("_again", "_again_count", "_line")

    def __init__(self) -> None:
        self._line: deque[tuple[int, AckWaiter, int]] = deque()
        # Those that came when others waited for more already, as a heap; of one offset they keep their order, behind the line.
        self._again: list[tuple[int, int, AckWaiter, int]] = []
        self._again_count = 0

    def add(self, required_offset: int, waiter: AckWaiter, slot: int) -> None:
        line = self._line
        if not line or line[-1][0] <= required_offset:
            line.append((required_offset, waiter, slot))
            return
        # A batch that was sent again stands in the log already, below what others wait for: a hundred thousand may wait,
        # and a request may repeat a batch a thousand times.
        self._again_count += 1
        heappush(self._again, (required_offset, self._again_count, waiter, slot))

    @property
    def next_offset(self) -> int:
        """What the first in line waits for; beyond every offset when nobody does."""
        first = self._line[0][0] if self._line else BEYOND_ALL
        return min(first, self._again[0][0]) if self._again else first

    def complete(self, error: ErrorCode, *, up_to: int = BEYOND_ALL) -> None:
        """Answers all who wait for `up_to` or less."""
        line, again = self._line, self._again
        while True:
            if again and again[0][0] <= up_to and (not line or again[0][0] < line[0][0]):
                _, _, waiter, slot = heappop(again)
            elif line and line[0][0] <= up_to:
                _, waiter, slot = line.popleft()
            else:
                return
            if not waiter.is_done:
                waiter.complete(slot, error)

    def forget_expired(self) -> None:
        """The front of the line may have been answered by its deadline."""
        line, again = self._line, self._again
        while line and line[0][1].is_done:
            line.popleft()
        while again and again[0][2].is_done:
            heappop(again)

    def __len__(self) -> int:
        return sum(1 for _ in self.waiting())

    def waiting(self) -> Iterator[tuple[int, AckWaiter]]:
        """All who have no answer yet, each with the offset that it waits for; in no order."""
        for offset, waiter, _ in self._line:
            if not waiter.is_done:
                yield offset, waiter
        for offset, _, waiter, _ in self._again:
            if not waiter.is_done:
                yield offset, waiter


class Proposing(Protocol):
    """What whoever sends proposals needs of a partition (`Partition`)."""

    @property
    def topic_partition(self) -> TopicPartition: ...

    @property
    def isr(self) -> tuple[BrokerId, ...]: ...

    def proposal(self, own_broker_epoch: BrokerEpoch) -> IsrProposal | None: ...

    def isr_answered(self, proposal: IsrProposal, answer: IsrAnswer, now_ms: int) -> int | None: ...

    def propose_again(self, now_ms: int) -> None: ...


class Flushing(Protocol):
    """What whoever flushes logs needs of one that asks for it (`Replica`)."""

    @property
    def topic_partition(self) -> TopicPartition: ...

    @property
    def log(self) -> "PartitionLog": ...


class Outbox:
    """What partitions leave to be done at the end of the turn. One per broker, shared."""

    __slots__ = ("cuts", "flushes", "messages", "proposals", "purgatory")

    def __init__(self, purgatory: Purgatory) -> None:
        self.purgatory = purgatory
        self.proposals: list[Proposing] = []  # ISR changes to send to the controller
        self.flushes: list[Flushing] = []  # logs to flush before something may be acknowledged
        self.messages: list[tuple[str, str]] = []  # (level, text) for the log
        self.cuts: list[Cut] = []  # of logs, that take more than this turn
