"""ListTransactions (key 66), versions 0-1.

Transactions a broker coordinates (KIP-664).
v1 filter by how long they have been running (KIP-994).
"""

from odradek.protocol.fields import Struct, array, int16, int32, int64, string
from odradek.protocol.schema import Request, Response


class ListTransactionsRequest(Request, key=66, versions="0-1", flexible="0+"):
    state_filters: list[str] = array("string", "0+")
    producer_id_filters: list[int] = array("int64", "0+")
    duration_filter: int = int64("1+", default=-1)


class TransactionState(Struct):
    transactional_id: str = string("0+")
    producer_id: int = int64("0+")
    transaction_state: str = string("0+")


class ListTransactionsResponse(Response, key=66, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    unknown_state_filters: list[str] = array("string", "0+")
    transaction_states: list[TransactionState] = array(TransactionState, "0+")
