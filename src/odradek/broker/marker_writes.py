"""Markers that a transaction coordinator wants in the logs led here: one control batch for each producer and partition,
appended as acks=all, told when all are committed.

A marker in the groups' topic makes offsets visible. The coordinator of those groups hears of it first, and only then is
the marker told to be there: a client that has committed finds its offsets.
"""

from collections.abc import Callable

from odradek.broker.group_shards import GroupShards
from odradek.broker.replica_manager import ReplicaManager
from odradek.broker.verifications import Verifications
from odradek.coordinator.partitioning import GROUPS_TOPIC
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.records.control import build_end_marker
from odradek.replication.purgatory import Purgatory
from odradek.replication.waiting import AckWaiter

ALL = -1
WAIT_MS = 30_000
Done = Callable[[WriteTxnMarkersResponse, int], None]


class MarkerWrites:
    def __init__(
        self,
        replicas: ReplicaManager,
        purgatory: Purgatory,
        groups: GroupShards,
        verifications: Verifications,
    ) -> None:
        self.replicas = replicas
        self.purgatory = purgatory
        self.groups = groups
        self.verifications = verifications

    def write(self, asked: WriteTxnMarkersRequest, done: Done, now_ms: int) -> None:
        """`done(response, now_ms)` once, now or later."""
        response = WriteTxnMarkersResponse()
        wait = MarkerWait(self.purgatory, response, done)
        for marker in asked.markers:
            result = WritableTxnMarkerResult(producer_id=marker.producer_id)
            response.markers.append(result)
            for topic in marker.topics:
                rows: list[WritableTxnMarkerPartitionResult] = []
                result.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=rows))
                for index in topic.partition_indexes:
                    row = WritableTxnMarkerPartitionResult(partition_index=index)
                    rows.append(row)
                    try:
                        self._append(topic.name, index, marker, wait, row, now_ms)
                    except ProtocolError as refusal:
                        row.error_code = refusal.code
        self.purgatory.park(wait, deadline_ms=now_ms + WAIT_MS)
        self.purgatory.attempt(wait, now_ms)

    def _append(
        self,
        topic: str,
        index: int,
        marker: WritableTxnMarker,
        wait: "MarkerWait",
        row: WritableTxnMarkerPartitionResult,
        now_ms: int,
    ) -> None:
        partition = self.replicas.hosted(topic, index)
        batch = build_end_marker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            is_commit=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=now_ms,
        )
        written = partition.append(
            memoryview(bytearray(batch)), acks=ALL, now_ms=now_ms, from_coordinator=True
        )
        self.verifications.ended(partition.topic_partition, marker.producer_id)
        required = written.last_offset + 1
        is_committed = partition.high_watermark >= required
        if not is_committed:
            row.error_code = ErrorCode.REQUEST_TIMED_OUT  # until it is settled
        if topic == GROUPS_TOPIC:
            inner = OffsetsMarkerWait(self, index, marker, written.last_offset, wait, wait.expect(row))
            self.purgatory.park(inner, deadline_ms=now_ms + WAIT_MS)
            if is_committed:
                inner.complete(0, ErrorCode.NONE)
            else:
                partition.commit_waiters.add(required, inner, 0)
        elif not is_committed:
            partition.commit_waiters.add(required, wait, wait.expect(row))


class OffsetsMarkerWait(AckWaiter):
    """A marker in a partition of the groups' topic. It comes to the coordinator in the order of the log: behind the
    offsets it decides on, which wait in the same line. A time-out does not take it away, as it may be committed yet."""

    __slots__ = ("_error", "_index", "_is_settled", "_marker", "_offset", "_slot", "_wait", "_writes")

    def __init__(
        self,
        writes: MarkerWrites,
        index: int,
        marker: WritableTxnMarker,
        offset: int,
        wait: "MarkerWait",
        slot: int,
    ) -> None:
        super().__init__()
        self._writes = writes
        self._index = index
        self._marker = marker
        self._offset = offset
        self._wait = wait
        self._slot = slot
        self._error = ErrorCode.NONE
        self._is_settled = False

    def complete(self, slot: int, error: ErrorCode) -> None:
        self._error = error
        self._is_settled = True
        self._writes.purgatory.wake(self)

    def is_over(self, now_ms: int) -> bool:
        return self._is_settled

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        if is_late:
            self._go_on_waiting(now_ms)
            return
        if not self._error:
            marker = self._marker
            self._writes.groups.transaction_ended(
                self._index,
                self._offset,
                marker.producer_id,
                is_commit=marker.transaction_result,
                now_ms=now_ms,
            )
        if not self._wait.is_done:
            self._wait.complete(self._slot, self._error)

    def _go_on_waiting(self, now_ms: int) -> None:
        partition = self._writes.replicas.partitions.get((GROUPS_TOPIC, self._index))  # type: ignore[call-overload]
        if partition is None or not partition.is_leader:
            return
        partition.forget_expired_waiters()
        again = OffsetsMarkerWait(
            self._writes, self._index, self._marker, self._offset, self._wait, self._slot
        )
        self._writes.purgatory.park(again, deadline_ms=now_ms + WAIT_MS)
        partition.commit_waiters.add(self._offset + 1, again, 0)


class MarkerWait(AckWaiter):
    __slots__ = ("_done", "_open", "_purgatory", "_response", "_rows")

    def __init__(self, purgatory: Purgatory, response: WriteTxnMarkersResponse, done: Done) -> None:
        super().__init__()
        self._purgatory = purgatory
        self._response = response
        self._done = done
        self._rows: list[WritableTxnMarkerPartitionResult] = []
        self._open = 0

    def expect(self, row: WritableTxnMarkerPartitionResult) -> int:
        self._rows.append(row)
        self._open += 1
        return len(self._rows) - 1

    def complete(self, slot: int, error: ErrorCode) -> None:
        self._rows[slot].error_code = error
        self._open -= 1
        if not self._open:
            self._purgatory.wake(self)

    def is_over(self, now_ms: int) -> bool:
        return not self._open

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        self._done(self._response, now_ms)
