"""InitProducerId (key 22), versions 0-5.

A producer id and epoch, for idempotence and transactions (KIP-98).
v1 answers before it throttles. v2 flexible. v3 a producer may name the id and epoch it had (KIP-360).
v4 may answer PRODUCER_FENCED (KIP-588). v5 may answer TRANSACTION_ABORTABLE (KIP-890).
"""

from odradek.protocol.fields import int16, int32, int64, string
from odradek.protocol.schema import Request, Response


class InitProducerIdRequest(Request, key=22, versions="0-5", flexible="2+"):
    transactional_id: str | None = string("0+", nullable="0+")
    transaction_timeout_ms: int = int32("0+")
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


class InitProducerIdResponse(Response, key=22, versions="0-5", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    producer_id: int = int64("0+", default=-1)
    producer_epoch: int = int16("0+")
