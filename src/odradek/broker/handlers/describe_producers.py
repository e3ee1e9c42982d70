"""DescribeProducers (key 61), version 0: the producers of partitions as the logs led here know them (KIP-664).

v0 flexible (KIP-664).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    asked = DescribeProducersRequest.decode(request.api_version, request.body, budget=request.budget)
    topics = [
        TopicResponse(
            name=topic.name,
            partitions=[_partition(broker, topic.name, index) for index in topic.partition_indexes],
        )
        for topic in asked.topics
    ]
    return Reply([DescribeProducersResponse(topics=topics).encode(request.api_version)])


def _partition(broker: "Broker", topic: str, index: int) -> PartitionResponse:
    try:
        partition = broker.replicas.hosted(topic, index)
        if not partition.is_leader:
            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    except ProtocolError as refusal:
        return PartitionResponse(partition_index=index, error_code=refusal.code)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_first_offset,
            )
            for producer in partition.log.producers.all()
        ],
    )
