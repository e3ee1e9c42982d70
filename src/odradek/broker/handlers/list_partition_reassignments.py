"""ListPartitionReassignments (key 46), version 0 (KIP-455). Only the controller answers; others NOT_CONTROLLER.

The reassignments under way among the partitions named, or, with null, all of them. A partition that is not
moving, or does not exist, is simply not in the answer.

v0 the only one (KIP-455).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.controller_wait import ask_controller
from odradek.broker.handlers.alter_partition_reassignments import NOT_CONTROLLER
from odradek.model.controller_requests import ListReassignmentsAnswer, ListReassignmentsAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

MESSAGES = {
    ErrorCode.NOT_CONTROLLER: NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT: "The controller is waiting for the store.",
}


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = ListPartitionReassignmentsRequest.decode(version, request.body, budget=request.budget)
    if not broker.is_controller:
        return Reply([_response(ListReassignmentsAnswer(ErrorCode.NOT_CONTROLLER)).encode(version)])
    partitions = None
    if asked.topics is not None:
        partitions = tuple(TopicPartition(row.name, i) for row in asked.topics for i in row.partition_indexes)
    park = Park()

    def answered(answer: ListReassignmentsAnswer, later_ms: int) -> None:
        park.answer(lambda: Reply([_response(answer).encode(version)]))

    ask_controller(
        broker,
        ListReassignmentsAsked(partitions),
        answered=answered,
        timed_out=lambda: answered(ListReassignmentsAnswer(ErrorCode.REQUEST_TIMED_OUT), now_ms),
        timeout_ms=asked.timeout_ms,
        now_ms=now_ms,
    )
    return park


def _response(answer: ListReassignmentsAnswer) -> ListPartitionReassignmentsResponse:
    topics: dict[str, OngoingTopicReassignment] = {}
    for (name, index), assignment in sorted(answer.partitions.items()):
        row = topics.setdefault(name, OngoingTopicReassignment(name=name))
        row.partitions.append(
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding_replicas),
                removing_replicas=list(assignment.removing_replicas),
            )
        )
    return ListPartitionReassignmentsResponse(
        error_code=answer.error, error_message=MESSAGES.get(answer.error), topics=list(topics.values())
    )
