"""ListTransactions (key 66), versions 0-1.

The transactional ids that this broker coordinates; COORDINATOR_LOAD_IN_PROGRESS while some are still being loaded.

v0 flexible (KIP-664).
v1 only those that are open for longer (KIP-994).
"""

from typing import TYPE_CHECKING, Any

from odradek.broker.answers import Answer
from odradek.broker.coordinator_calls import ask_all
from odradek.coordinator.transaction_states import BY_TITLE
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    asked = ListTransactionsRequest.decode(request.api_version, request.body, budget=request.budget)

    # Every coordinator reads the filters; those that match nothing are told once, here.
    known = sorted({title for title in asked.state_filters if title in BY_TITLE})
    filtered = ListTransactionsRequest(
        state_filters=known or asked.state_filters[:1],
        producer_id_filters=asked.producer_id_filters,
        duration_filter=asked.duration_filter,
    )

    def merge(answers: list[Any]) -> ListTransactionsResponse:
        errors = [answer.error_code for answer in answers if answer.error_code]
        return ListTransactionsResponse(
            error_code=errors[0] if errors else ErrorCode.NONE,
            unknown_state_filters=[title for title in asked.state_filters if title not in BY_TITLE],
            transaction_states=[row for answer in answers for row in answer.transaction_states],
        )

    return ask_all(broker.transactions, broker.slices, request, filtered, merge, now_ms)
