"""The messages inside `__transaction_state`, as tables.

Values written: version 0, which Apache Kafka 3.9 reads; version 1, with its tags, once `transaction.version` 1 is
finalised. A tag that is not known here is skipped.
"""

from odradek.protocol.fields import Struct, array, int8, int16, int32, int64, string
from odradek.protocol.schema import Message


class TransactionLogKey(Message, versions="0"):
    transactional_id: str = string("0+")


class PartitionsSchema(Struct):
    topic: str = string("0+")
    partition_ids: list[int] = array("int32", "0+")


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    producer_id: int = int64("0+")
    producer_epoch: int = int16("0+")
    transaction_timeout_ms: int = int32("0+")
    transaction_status: int = int8("0+")
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, "0+", nullable="0+")
    transaction_last_update_timestamp_ms: int = int64("0+")
    transaction_start_timestamp_ms: int = int64("0+")
    previous_producer_id: int = int64("1+", tag=0, default=-1)
    next_producer_id: int = int64("1+", tag=1, default=-1)
    client_transaction_version: int = int16("1+", tag=2)
