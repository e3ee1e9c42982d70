"""WriteTxnMarkers (key 27), version 1: a transaction coordinator ends transactions on the partitions led here.

The answer comes when all markers are committed (`marker_writes`). A marker of an older producer epoch is INVALID_PRODUCER_EPOCH, of an older coordinator
TRANSACTION_COORDINATOR_FENCED. A coordinator repeats a marker until it is in: appending it twice does no harm.

v1 flexible.
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = WriteTxnMarkersRequest.decode(version, request.body, budget=request.budget)
    park = Park()

    def done(response: WriteTxnMarkersResponse, now_ms: int) -> None:
        park.answer(lambda: Reply([response.encode(version)]))

    broker.marker_writes.write(asked, done, now_ms)
    return park
