"""ControlledShutdown (key 7), versions 0-3. Only the controller answers; others NOT_CONTROLLER.

A broker that is about to stop asks that its leaderships move; the answer lists those that could not.

v0 a request header without client id.
v1 the common header.
v2 broker epoch: of an earlier incarnation STALE_BROKER_EPOCH (KIP-380).
v3 flexible.
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.model.controller_requests import ControlledShutdownAnswer, ControlledShutdownAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerEpoch, BrokerId
from odradek.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = ControlledShutdownRequest.decode(version, request.body, budget=request.budget)
    if not broker.is_controller:
        return Reply([ControlledShutdownResponse(error_code=ErrorCode.NOT_CONTROLLER).encode(version)])
    park = Park()

    def answered(answer: ControlledShutdownAnswer, later_ms: int) -> None:
        response = ControlledShutdownResponse(
            error_code=answer.error,
            remaining_partitions=[
                RemainingPartition(topic_name=topic, partition_index=index)
                for topic, index in answer.remaining
            ],
        )
        park.answer(lambda: Reply([response.encode(version)]))

    broker.ask_controller(
        ControlledShutdownAsked(BrokerId(asked.broker_id), BrokerEpoch(asked.broker_epoch)), answered
    )
    return park
