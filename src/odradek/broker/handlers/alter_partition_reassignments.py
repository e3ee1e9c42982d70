"""AlterPartitionReassignments (key 45), version 0 (KIP-455). Only the controller answers; others NOT_CONTROLLER.

Starts, replaces or, with null replicas, cancels reassignments. Each partition is answered when the target assignment stands
in its topic node; the moving itself takes as long as the copying, and ListPartitionReassignments tells of it.

v0 the only one (KIP-455).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.controller_wait import ask_controller
from odradek.model.controller_requests import AlterReassignmentsAnswer, AlterReassignmentsAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.topic_names import LONGEST_NAME
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

NOT_CONTROLLER = "This is not the correct controller for this cluster."
TIMED_OUT = AlterReassignmentsAnswer(
    ErrorCode.REQUEST_TIMED_OUT, "The store has not answered yet; what was asked for may still happen."
)


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = AlterPartitionReassignmentsRequest.decode(version, request.body, budget=request.budget)
    if not broker.is_controller:
        return Reply([_response(AlterReassignmentsAnswer(ErrorCode.NOT_CONTROLLER)).encode(version)])
    # No topic has so long a name; told to the controller, it would stand in its journal once for each partition.
    unknown = {
        TopicPartition(topic.name, row.partition_index): (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The partition does not exist.",
        )
        for topic in asked.topics
        if len(topic.name) > LONGEST_NAME
        for row in topic.partitions
    }
    targets = {
        TopicPartition(topic.name, row.partition_index): (
            None if row.replicas is None else tuple(BrokerId(replica) for replica in row.replicas)
        )
        for topic in asked.topics
        if len(topic.name) <= LONGEST_NAME
        for row in topic.partitions
    }
    park = Park()

    def answered(answer: AlterReassignmentsAnswer, later_ms: int) -> None:
        if unknown and answer.error is ErrorCode.NONE:
            answer = answer._replace(partitions={**answer.partitions, **unknown})
        park.answer(lambda: Reply([_response(answer).encode(version)]))

    ask_controller(
        broker,
        AlterReassignmentsAsked(targets),
        answered=answered,
        timed_out=lambda: answered(TIMED_OUT, now_ms),
        timeout_ms=asked.timeout_ms,
        now_ms=now_ms,
    )
    return park


def _response(answer: AlterReassignmentsAnswer) -> AlterPartitionReassignmentsResponse:
    topics: dict[str, ReassignableTopicResponse] = {}
    for (name, index), (error, message) in sorted(answer.partitions.items()):
        row = topics.setdefault(name, ReassignableTopicResponse(name=name))
        row.partitions.append(
            ReassignablePartitionResponse(
                partition_index=index, error_code=error, error_message=message or None
            )
        )
    message = NOT_CONTROLLER if answer.error is ErrorCode.NOT_CONTROLLER else answer.message
    return AlterPartitionReassignmentsResponse(
        error_code=answer.error, error_message=message or None, responses=list(topics.values())
    )
