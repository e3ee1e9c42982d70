"""OffsetForLeaderEpoch (key 23), versions 2-4.

Where an epoch ends in the leader's log: (largest epoch not above the asked one, its end offset), KIP-279. Followers
cut by it, consumers find out that what they read was cut away (KIP-320).

v2 leader epoch of the reader, throttle time (KIP-320).
v3 replica id: followers and consumers are answered by the leader alone, -2 by any replica: what it holds, before an
   election from outside the ISR; an epoch above all of its own is answered by its last one.
v4 flexible.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.broker.slices import answer_in_slices
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

DEBUGGING = -2
# Of one turn: some three milliseconds.
ROWS_AT_ONCE = 500
FIRST_WITH_REPLICA_ID = 3


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = OffsetForLeaderEpochRequest.decode(version, request.body, budget=request.budget)
    # Before v3 the field is absent and reads as -2, but it is a consumer that asks.
    any_replica = version >= FIRST_WITH_REPLICA_ID and asked.replica_id == DEBUGGING
    response = OffsetForLeaderEpochResponse(topics=[])

    def steps() -> Iterator[None]:
        left = ROWS_AT_ONCE
        for topic in asked.topics:
            result = OffsetForLeaderTopicResult(topic=topic.topic, partitions=[])
            response.topics.append(result)
            for wanted in topic.partitions:
                if not left:
                    yield
                    left = ROWS_AT_ONCE
                left -= 1
                result.partitions.append(_partition(broker, topic.topic, wanted, any_replica=any_replica))

    return answer_in_slices(broker.slices, steps(), lambda: Reply([response.encode(version)]))


def _partition(
    broker: "Broker", topic: str, wanted: OffsetForLeaderPartition, *, any_replica: bool
) -> EpochEndOffset:
    index = wanted.partition
    try:
        partition = broker.replicas.hosted(topic, index)
    except ProtocolError as refusal:
        return EpochEndOffset(error_code=refusal.code, partition=index)
    error = partition.check_epoch(wanted.current_leader_epoch)
    if not error and not partition.is_leader and not any_replica:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if error:
        return EpochEndOffset(error_code=error, partition=index)
    log = partition.log
    if any_replica and wanted.leader_epoch > log.latest_epoch:
        epoch, end_offset = log.latest_epoch, log.log_end_offset
    else:
        epoch, end_offset = log.end_offset_for_epoch(wanted.leader_epoch)
    return EpochEndOffset(partition=index, leader_epoch=epoch, end_offset=end_offset)
