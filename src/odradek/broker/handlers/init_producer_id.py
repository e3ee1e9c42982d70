"""InitProducerId (key 22), versions 0-5.

Without a transactional id: a producer id nobody had before, epoch 0, from a block the controller gave this broker;
who comes while a block is on its way waits for it. With one: its coordinator says which id and epoch.

v0 the first (KIP-98).
v1 the response leaves before the client is throttled (KIP-219).
v2 flexible.
v3 id and epoch that the producer has (KIP-360).
v4 PRODUCER_FENCED (KIP-588).
v5 TRANSACTION_ABORTABLE (KIP-890).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.coordinator_calls import ask_one
from odradek.coordinator.initialising import refused, why_not_sensible
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.replication.purgatory import Waiter

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

# A client's request.timeout.ms is 30 s at least; before that it hears that it should try again.
WAIT_MS = 10_000


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = InitProducerIdRequest.decode(version, request.body, budget=request.budget)
    error = why_not_sensible(asked, broker.settings.transaction_max_timeout_ms)
    if error:
        return Reply([refused(version, error).encode(version)])
    if asked.transactional_id is not None:
        return ask_one(broker.transactions, request, asked, asked.transactional_id, now_ms)
    producer_id = broker.producer_ids.take()
    broker.producer_ids.ask_if_low()
    if producer_id is not None:
        return Reply([InitProducerIdResponse(producer_id=producer_id).encode(version)])
    wait = ProducerIdWait(broker, version)
    broker.purgatory.park(wait, deadline_ms=now_ms + WAIT_MS)
    broker.producer_ids.wait(wait.given)
    return wait.park


class ProducerIdWait(Waiter):
    __slots__ = ("_broker", "_response", "_version", "park")

    def __init__(self, broker: "Broker", version: int) -> None:
        super().__init__()
        self._broker = broker
        self._version = version
        self.park = Park()
        self._response = InitProducerIdResponse(
            error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_epoch=-1
        )

    def given(self, producer_id: int, now_ms: int) -> None:
        self._response = InitProducerIdResponse(producer_id=producer_id)
        self._broker.purgatory.complete(self, now_ms)

    def finish(self, now_ms: int, *, is_late: bool) -> None:
        if is_late:
            self._broker.producer_ids.forget(self.given)
        self.park.answer(lambda: Reply([self._response.encode(self._version)]))
