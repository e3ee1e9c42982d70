"""AddPartitionsToTxn (key 24), versions 0-5.

Partitions that a transaction writes to. From version 4 on it is the leaders' question, of several transactions at once,
which may have different coordinators (KIP-890).

v0 the first (KIP-98).
v1 the response leaves before the client is throttled (KIP-219).
v2 PRODUCER_FENCED (KIP-588).
v3 flexible.
v4 several transactions at once, for leaders that verify or add (KIP-890).
v5 TRANSACTION_ABORTABLE (KIP-890).
"""

from typing import TYPE_CHECKING, Any

from odradek.broker.answers import Answer
from odradek.broker.coordinator_calls import ask_about, ask_one
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

FIRST_OF_BROKERS = 4


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = AddPartitionsToTxnRequest.decode(version, request.body, budget=request.budget)
    shards = broker.transactions
    if version < FIRST_OF_BROKERS:
        return ask_one(shards, request, asked, asked.v3_and_below_transactional_id, now_ms)
    wanted: dict[str, list[AddPartitionsToTxnTransaction]] = {}
    for one in asked.transactions:
        wanted.setdefault(one.transactional_id, []).append(one)

    def message_of(some: list[str]) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(transactions=[one for name in some for one in wanted[name]])

    def merge(answers: list[Any]) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(
            results_by_transaction=[row for answer in answers for row in answer.results_by_transaction]
        )

    return ask_about(shards, broker.slices, request, list(wanted), message_of, merge, now_ms)
