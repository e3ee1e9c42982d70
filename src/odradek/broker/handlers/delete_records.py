"""DeleteRecords (key 21), versions 0-2.

Moves the start of a log up, at most to its high watermark (-1 means there); beyond is OFFSET_OUT_OF_RANGE. Only where
`cleanup.policy` deletes: else POLICY_VIOLATION; of internal topics nothing: INVALID_TOPIC_EXCEPTION. The answer is the low
watermark, the smallest log start of the live replicas: it comes when all have followed, or REQUEST_TIMED_OUT.

v0 the first (KIP-107).
v1 the response leaves before the client is throttled (KIP-219).
v2 flexible.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.slices import answer_in_slices
from odradek.broker.topic_creation import INTERNAL_TOPICS
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from odradek.replication.partition import Partition
from odradek.replication.purgatory import Waiter

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

UP_TO_HIGH_WATERMARK = -1
INVALID_LOW_WATERMARK = -1
# Of one turn, in rows: a millisecond or two. A start that moves, and each segment that goes, is a file or some that change.
MOST_LABOUR, MOVED_LABOUR = 200, 10


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = DeleteRecordsRequest.decode(version, request.body, budget=request.budget)
    response = DeleteRecordsResponse()
    open_rows: list[tuple[Partition, int, DeleteRecordsPartitionResult]] = []

    def steps() -> Iterator[None]:
        labour = 0
        for topic in asked.topics:
            rows: list[DeleteRecordsPartitionResult] = []
            response.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=rows))
            for wanted in topic.partitions:
                if labour >= MOST_LABOUR:
                    yield
                    labour = 0
                row = DeleteRecordsPartitionResult(
                    partition_index=wanted.partition_index, low_watermark=INVALID_LOW_WATERMARK
                )
                rows.append(row)
                try:
                    if topic.name in INTERNAL_TOPICS:
                        # A coordinator would load less than it has acknowledged.
                        raise ProtocolError(ErrorCode.INVALID_TOPIC_EXCEPTION)
                    partition = broker.replicas.hosted(topic.name, wanted.partition_index)
                    segments = partition.log.segments
                    start, count = partition.log.log_start_offset, len(segments)
                    offset = partition.delete_records(wanted.offset)
                    open_rows.append((partition, offset, row))
                    labour += MOVED_LABOUR * ((offset > start) + count - len(segments))
                except ProtocolError as refusal:
                    row.error_code = refusal.code
                labour += 1

    def reply() -> Answer:
        wait = DeleteRecordsWait(broker, version, response, open_rows)
        broker.purgatory.park(
            wait,
            deadline_ms=now_ms + max(asked.timeout_ms, 0),
            keys={partition.topic_partition for partition, _, _ in open_rows},
        )
        broker.purgatory.attempt(wait, now_ms)
        return wait.park

    return answer_in_slices(broker.slices, steps(), reply)


class DeleteRecordsWait(Waiter):
    __slots__ = ("_broker", "_open", "_response", "_version", "park")

    def __init__(
        self,
        broker: "Broker",
        version: int,
        response: DeleteRecordsResponse,
        open_rows: list[tuple[Partition, int, DeleteRecordsPartitionResult]],
    ) -> None:
        super().__init__()
        self._broker = broker
        self._version = version
        self._response = response
        self._open = open_rows
        self.park = Park()

    def _refresh(self) -> None:
        still_open = []
        for partition, offset, row in self._open:
            if not partition.is_leader:
                row.low_watermark = INVALID_LOW_WATERMARK
                is_gone = partition.is_deleted
                row.error_code = (
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_gone else ErrorCode.NOT_LEADER_OR_FOLLOWER
                )
                continue
            row.low_watermark = partition.low_watermark
            if row.low_watermark < offset:
                still_open.append((partition, offset, row))
        self._open = still_open

    def is_over(self, now_ms: int) -> bool:
        self._refresh()
        return not self._open

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        if is_late:
            self._refresh()
            for _, _, row in self._open:
                row.error_code = ErrorCode.REQUEST_TIMED_OUT
        self.park.answer(lambda: Reply([self._response.encode(self._version)]))
