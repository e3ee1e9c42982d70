"""ListOffsets (key 2), versions 1-9.

The offset of a timestamp: the first record at or after it, and the time it has; -1 the end (LATEST), -2 the
start (EARLIEST), from v7 on -3 the record with the largest timestamp (KIP-734), v8 -4 the local start, v9 -5
the tiered end (there is none).
For a consumer the end is the high watermark, with read_committed (v2) the last stable offset. While a new
leader's high watermark is below the start of its epoch, the end and timestamps behind it are not known yet:
OFFSET_NOT_AVAILABLE, before v5 LEADER_NOT_AVAILABLE; the start always is. A replica (id >= 0) gets the log
end: it truncates to it. Replica id -2 asks anybody, leader or not. v4 leader epoch of the reader and of the
offset (KIP-320).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from odradek.replication.partition import Partition
from odradek.replication.replica import READ_COMMITTED

if TYPE_CHECKING:
    from odradek.broker.core import Broker, Request

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
CONSUMER = -1
DEBUGGING = -2
FIRST_WITH_OFFSET_NOT_AVAILABLE = 5


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = ListOffsetsRequest.decode(version, request.body)
    counts: dict[tuple[str, int], int] = {}
    for topic in asked.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            counts[key] = counts.get(key, 0) + 1
    response = ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _partition(broker, version, asked, topic.name, partition)
                    if counts[topic.name, partition.partition_index] == 1
                    else _error(partition.partition_index, ErrorCode.INVALID_REQUEST)
                    for partition in topic.partitions
                ],
            )
            for topic in asked.topics
        ]
    )
    return Reply([response.encode(version)])


def _partition(
    broker: "Broker", version: int, asked: ListOffsetsRequest, topic: str, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    if wanted.timestamp < 0 and version < FIRST_VERSION.get(wanted.timestamp, 0):
        return _error(index, ErrorCode.UNSUPPORTED_VERSION)
    try:
        partition = broker.replicas.hosted(topic, index)
        epoch_error = partition.check_epoch(wanted.current_leader_epoch)
        if epoch_error:
            return _error(index, epoch_error)
        if not partition.is_leader and asked.replica_id != DEBUGGING:
            return _error(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return _find(partition, version, asked, wanted)
    except ProtocolError as refusal:
        return _error(index, refusal.code)


def _find(
    partition: Partition, version: int, asked: ListOffsetsRequest, wanted: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    log = partition.log
    index = wanted.partition_index
    timestamp = wanted.timestamp
    is_consumer = asked.replica_id == CONSUMER
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return _found(index, log.log_start_offset, log.epochs.epoch_at(log.log_start_offset))
    if timestamp == LATEST_TIERED:
        return _found(index, -1, -1)
    end = log.log_end_offset
    if is_consumer:
        is_committed = asked.isolation_level == READ_COMMITTED
        end = partition.last_stable_offset if is_committed else partition.high_watermark
    # Below the start of our epoch the mark may still be that of an older leader, and move back to consumers.
    is_unsure = (
        is_consumer and partition.is_leader and partition.leader_epoch_start_offset > partition.high_watermark
    )
    unsure = (
        ErrorCode.OFFSET_NOT_AVAILABLE
        if version >= FIRST_WITH_OFFSET_NOT_AVAILABLE
        else ErrorCode.LEADER_NOT_AVAILABLE
    )
    if timestamp == LATEST:
        if is_unsure:
            return _error(index, unsure)
        return _found(index, end, partition.leader_epoch)
    found = (
        log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    )
    if found is None or found.offset >= end:
        # Nothing that may be read. Whether there will be is not known while the mark lags.
        if is_unsure:
            return _error(index, unsure)
        return ListOffsetsPartitionResponse(partition_index=index)
    return _found(index, found.offset, found.leader_epoch, timestamp=found.timestamp)


def _found(index: int, offset: int, leader_epoch: int, timestamp: int = -1) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=index, timestamp=timestamp, offset=offset, leader_epoch=leader_epoch
    )


def _error(index: int, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=error)
