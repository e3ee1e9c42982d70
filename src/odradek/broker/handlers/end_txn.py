"""EndTxn (key 26), versions 0-5.

Commits or aborts; answered when the decision is committed, while the markers are on their way.

v0 the first (KIP-98).
v1 the response leaves before the client is throttled (KIP-219).
v2 PRODUCER_FENCED (KIP-588).
v3 flexible.
v4 TRANSACTION_ABORTABLE (KIP-890).
v5 each end raises the epoch, and names it (KIP-890).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer
from odradek.broker.coordinator_calls import ask_one
from odradek.protocol.messages.end_txn import EndTxnRequest

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    asked = EndTxnRequest.decode(request.api_version, request.body, budget=request.budget)
    return ask_one(broker.transactions, request, asked, asked.transactional_id, now_ms)
