"""What an organ does with a partition that this broker leads: append and hear that it is committed, read it from its start.

Nothing here waits. An append stands in the log when `append` returns, and is committed, or not, later; a log is read in
slices, one after the other, by a thread.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.effects import Effect, ReadSlices
from odradek.broker.pending_calls import PendingCalls
from odradek.broker.replica_manager import ReplicaManager
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.replication.partition import Partition
from odradek.replication.purgatory import Purgatory
from odradek.replication.waiting import AckWaiter

if TYPE_CHECKING:
    from odradek.log.appending import AppendResult

ALL = -1
# What became of an append, and the time: NONE when it is committed. NOT_LEADER_OR_FOLLOWER and REQUEST_TIMED_OUT do not
# say that it never will be.
Settled = Callable[[ErrorCode, int], None]
# Whole batches, the last perhaps cut, and the time. None: they could not be read.
SliceRead = Callable[[bytes | None, int], None]


class LeaderLog:
    def __init__(
        self, replicas: ReplicaManager, purgatory: Purgatory, effects: list[Effect], calls: PendingCalls
    ) -> None:
        self._replicas = replicas
        self._purgatory = purgatory
        self._effects = effects
        self._calls = calls

    def append(
        self,
        topic_partition: TopicPartition,
        records: memoryview,
        settled: Settled,
        *,
        timeout_ms: int,
        now_ms: int,
    ) -> "AppendResult":
        """With acks=all. ProtocolError: refused, nothing is appended, and `settled` is not called. Else it is called once,
        never before this returns.
        """
        partition = self._replicas.hosted(*topic_partition)
        result = partition.append(records, acks=ALL, now_ms=now_ms, from_coordinator=True)
        waiter = CommitWaiter(partition, self._purgatory, settled)
        self._purgatory.park(waiter, deadline_ms=now_ms + timeout_ms)
        required = result.last_offset + 1
        if partition.high_watermark < required:
            partition.commit_waiters.add(required, waiter, 0)
        else:
            waiter.complete(0, ErrorCode.NONE)
        return result

    def read(self, topic_partition: TopicPartition, offset: int, max_bytes: int, done: SliceRead) -> bool:
        """The batch that holds `offset`, and what follows up to `max_bytes`, at least one batch. False: there is nothing
        behind it yet. ProtocolError: not led here, or outside of the log.

        What is read may be above the high watermark: a new leader has to know it, for it will be committed.
        """
        partition = self._replicas.hosted(*topic_partition)
        if not partition.is_leader:
            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = partition.log
        end = log.log_end_offset
        read = log.read(offset, max_bytes=max_bytes, upper_bound_offset=end, min_one_batch=True)
        if not read.size_bytes:
            return False
        self._effects.append(ReadSlices(self._calls.expect(done), topic_partition, log, offset, read.slices))
        return True


class CommitWaiter(AckWaiter):
    """One append, until it is committed."""

    __slots__ = ("_error", "_partition", "_purgatory", "_settled")

    def __init__(self, partition: Partition, purgatory: Purgatory, settled: Settled) -> None:
        super().__init__()
        self._partition = partition
        self._purgatory = purgatory
        self._settled = settled
        self._error = ErrorCode.NONE

    def complete(self, slot: int, error: ErrorCode) -> None:
        self._error = error
        self._purgatory.wake(self)

    def is_over(self, now_ms: int) -> bool:
        return True  # it is woken by `settle` alone

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        if is_late:
            self._partition.forget_expired_waiters()
        self._settled(ErrorCode.REQUEST_TIMED_OUT if is_late else self._error, now_ms)
