"""Markers that a transaction coordinator wants in the logs led here: one control batch for each producer and partition,
appended as acks=all, told when all are committed.

A marker in the groups' topic makes offsets visible. The coordinator of those groups hears of it first, and only then is
the marker told to be there: a client that has committed finds its offsets.
"""

from collections import deque
from collections.abc import Callable

from odradek.broker.group_shards import GroupShards
from odradek.broker.replica_manager import ReplicaManager
from odradek.broker.slices import Slices
from odradek.broker.verifications import Verifications
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.topic_names import GROUPS_TOPIC
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
# Markers that are appended in the turn in which they are asked for, and in each slice: half a millisecond.
AT_ONCE = 20
_Todo = tuple[str, int, WritableTxnMarker, WritableTxnMarkerPartitionResult]
Done = Callable[[WriteTxnMarkersResponse, int], None]


class MarkerWrites:
    def __init__(
        self,
        replicas: ReplicaManager,
        purgatory: Purgatory,
        groups: GroupShards,
        verifications: Verifications,
        slices: Slices,
    ) -> None:
        self.replicas = replicas
        self.purgatory = purgatory
        self.groups = groups
        self.verifications = verifications
        self.slices = slices
        # Requests whose markers are not appended yet, in the order in which they came.
        self._queue: deque[tuple[MarkerWait, deque[_Todo]]] = deque()

    def write(self, asked: WriteTxnMarkersRequest, done: Done, now_ms: int) -> None:
        """`done(response, now_ms)` once, now or later."""
        response = WriteTxnMarkersResponse()
        wait = MarkerWait(self.purgatory, response, done)
        todo: deque[_Todo] = deque()
        for marker in asked.markers:
            result = WritableTxnMarkerResult(producer_id=marker.producer_id)
            response.markers.append(result)
            for topic in marker.topics:
                rows: list[WritableTxnMarkerPartitionResult] = []
                result.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=rows))
                for index in topic.partition_indexes:
                    # Until it is settled.
                    row = WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=ErrorCode.REQUEST_TIMED_OUT
                    )
                    rows.append(row)
                    todo.append((topic.name, index, marker, row))
        self.purgatory.park(wait, deadline_ms=now_ms + WAIT_MS)
        self._queue.append((wait, todo))
        if len(self._queue) == 1 and self._append_some(now_ms):
            self.slices.begin(self._append_some)

    def _append_some(self, now_ms: int) -> bool:
        """Of the requests in the order in which they came; whether there are more. A coordinator that was not answered sends again, and
        what came first must not be appended behind that: the producer's next transaction may be open by then."""
        left = AT_ONCE
        while self._queue:
            wait, todo = self._queue[0]
            try:
                while todo and left and not wait.is_done:
                    left -= 1
                    self._append(*todo.popleft(), wait, now_ms)
                if todo and not wait.is_done:
                    return True
                if not wait.is_done:
                    wait.all_are_appended()
                    self.purgatory.attempt(wait, now_ms)
            except Exception:  # ours: what is left of this request is not appended, and its deadline says so
                self._queue.popleft()
                if self._queue:
                    self.slices.begin(self._append_some)
                raise
            self._queue.popleft()
        return False

    def _append(
        self,
        topic: str,
        index: int,
        marker: WritableTxnMarker,
        row: WritableTxnMarkerPartitionResult,
        wait: "MarkerWait",
        now_ms: int,
    ) -> None:
        try:
            self._append_one(topic, index, marker, row, wait, now_ms)
        except ProtocolError as refusal:
            row.error_code = refusal.code

    def _append_one(
        self,
        topic: str,
        index: int,
        marker: WritableTxnMarker,
        row: WritableTxnMarkerPartitionResult,
        wait: "MarkerWait",
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
        if is_committed:
            row.error_code = ErrorCode.NONE
        if topic == GROUPS_TOPIC:
            inner = OffsetsMarkerWait(self, index, marker, written.last_offset, wait, wait.expect(row))
            if is_committed:
                inner.complete(0, ErrorCode.NONE)
            else:
                partition.commit_waiters.add(required, inner, 0)
        elif not is_committed:
            partition.commit_waiters.add(required, wait, wait.expect(row))


class OffsetsMarkerWait(AckWaiter):
    """A marker in a partition of the groups' topic. It comes to the coordinator in the order of the log: behind the
    offsets it decides on, which wait in the same line. It has no deadline, as it may be committed behind that of its request."""

    __slots__ = ("_error", "_index", "_marker", "_offset", "_slot", "_wait", "_writes")

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

    def complete(self, slot: int, error: ErrorCode) -> None:
        self._error = error
        self._writes.purgatory.wake(self)

    def is_over(self, now_ms: int) -> bool:
        return True  # nothing else wakes it

    def finish(self, now_ms: int, *, is_late: bool) -> None:
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


class MarkerWait(AckWaiter):
    __slots__ = ("_done", "_open", "_purgatory", "_response", "_rows")

    def __init__(self, purgatory: Purgatory, response: WriteTxnMarkersResponse, done: Done) -> None:
        super().__init__()
        self._purgatory = purgatory
        self._response = response
        self._done = done
        self._rows: list[WritableTxnMarkerPartitionResult] = []
        self._open = 1  # as long as not all are appended

    def all_are_appended(self) -> None:
        self._open -= 1

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
