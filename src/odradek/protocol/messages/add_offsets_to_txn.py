"""AddOffsetsToTxn (key 25), versions 0-4.

A consumer group whose offsets a transaction commits.
v1 answers before it throttles. v2 may answer PRODUCER_FENCED (KIP-588). v3 flexible. v4 may answer
TRANSACTION_ABORTABLE (KIP-890).
"""

from odradek.protocol.fields import int16, int32, int64, string
from odradek.protocol.schema import Request, Response


class AddOffsetsToTxnRequest(Request, key=25, versions="0-4", flexible="3+"):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    group_id: str = string("0+")


class AddOffsetsToTxnResponse(Response, key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
