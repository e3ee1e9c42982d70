"""WriteTxnMarkers (key 27), version 1: a transaction coordinator ends transactions on the partitions led here.

One control batch per producer and partition, appended as acks=all; the answer comes when all are committed.
A marker of an older producer epoch is INVALID_PRODUCER_EPOCH, of an older coordinator
TRANSACTION_COORDINATOR_FENCED. A coordinator repeats a marker until it is in: appending it twice does no harm.

v1 flexible.
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
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
from odradek.replication.waiting import AckWaiter

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

ALL = -1
WAIT_MS = 30_000


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = WriteTxnMarkersRequest.decode(version, request.body, budget=request.budget)
    response = WriteTxnMarkersResponse()
    wait = MarkerWait(broker, version, response)
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
                    _append(broker, topic.name, index, marker, wait, row, now_ms)
                except ProtocolError as refusal:
                    row.error_code = refusal.code
    broker.purgatory.park(wait, deadline_ms=now_ms + WAIT_MS)
    broker.purgatory.attempt(wait, now_ms)
    return wait.park


def _append(
    broker: "Broker",
    topic: str,
    index: int,
    marker: WritableTxnMarker,
    wait: "MarkerWait",
    row: WritableTxnMarkerPartitionResult,
    now_ms: int,
) -> None:
    partition = broker.replicas.hosted(topic, index)
    batch = build_end_marker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        is_commit=marker.transaction_result,
        coordinator_epoch=marker.coordinator_epoch,
        timestamp=now_ms,
    )
    written = partition.append(memoryview(bytearray(batch)), acks=ALL, now_ms=now_ms, from_coordinator=True)
    required = written.last_offset + 1
    if partition.high_watermark < required:
        row.error_code = ErrorCode.REQUEST_TIMED_OUT  # until it is settled
        partition.commit_waiters.add(required, wait, wait.expect(row))


class MarkerWait(AckWaiter):
    __slots__ = ("_broker", "_open", "_response", "_rows", "_version", "park")

    def __init__(self, broker: "Broker", version: int, response: WriteTxnMarkersResponse) -> None:
        super().__init__()
        self._broker = broker
        self._version = version
        self._response = response
        self._rows: list[WritableTxnMarkerPartitionResult] = []
        self._open = 0
        self.park = Park()

    def expect(self, row: WritableTxnMarkerPartitionResult) -> int:
        self._rows.append(row)
        self._open += 1
        return len(self._rows) - 1

    def complete(self, slot: int, error: ErrorCode) -> None:
        self._rows[slot].error_code = error
        self._open -= 1
        if not self._open:
            self._broker.purgatory.wake(self)

    def is_over(self, now_ms: int) -> bool:
        return not self._open

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        self.park.answer(lambda: Reply([self._response.encode(self._version)]))
