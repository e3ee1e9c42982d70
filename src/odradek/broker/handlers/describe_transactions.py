"""DescribeTransactions (key 65), version 0: transactional ids as their coordinators know them (KIP-664).

v0 flexible (KIP-664).
"""

from typing import TYPE_CHECKING, Any

from odradek.broker.answers import Answer
from odradek.broker.coordinator_calls import ask_about
from odradek.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    asked = DescribeTransactionsRequest.decode(request.api_version, request.body, budget=request.budget)
    names = list(dict.fromkeys(asked.transactional_ids))

    def message_of(some: list[str]) -> DescribeTransactionsRequest:
        return DescribeTransactionsRequest(transactional_ids=some)

    def merge(answers: list[Any]) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(
            transaction_states=[row for answer in answers for row in answer.transaction_states]
        )

    return ask_about(broker.transactions, broker.slices, request, names, message_of, merge, now_ms)
