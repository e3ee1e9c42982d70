"""EndTxn (key 26), versions 0-5.

Commits or aborts a transaction.
v1 answers before it throttles. v2 may answer PRODUCER_FENCED (KIP-588). v3 flexible. v4 may answer
TRANSACTION_ABORTABLE (KIP-890). v5 answers the producer id and epoch to go on with.
"""

from odradek.protocol.fields import boolean, int16, int32, int64, string
from odradek.protocol.schema import Request, Response


class EndTxnRequest(Request, key=26, versions="0-5", flexible="3+"):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    committed: bool = boolean("0+")


class EndTxnResponse(Response, key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)
