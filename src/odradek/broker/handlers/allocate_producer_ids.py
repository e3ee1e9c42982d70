"""AllocateProducerIds (key 67), version 0. Only the controller answers; others NOT_CONTROLLER.

A broker asks for a block of producer ids (KIP-730): 1,000 that nobody else gets. A broker that is not
registered, or was in an earlier life, is refused by the controller.

v0 the only one.
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.model.controller_requests import AllocateProducerIdsAnswer, AllocateProducerIdsAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerEpoch, BrokerId
from odradek.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = AllocateProducerIdsRequest.decode(version, request.body, budget=request.budget)
    if not broker.is_controller:
        return Reply([AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER).encode(version)])
    park = Park()

    def answered(answer: AllocateProducerIdsAnswer, later_ms: int) -> None:
        response = AllocateProducerIdsResponse(
            error_code=answer.error,
            producer_id_start=answer.first_producer_id,
            producer_id_len=answer.length,
        )
        park.answer(lambda: Reply([response.encode(version)]))

    broker.ask_controller(
        AllocateProducerIdsAsked(BrokerId(asked.broker_id), BrokerEpoch(asked.broker_epoch)), answered
    )
    return park
