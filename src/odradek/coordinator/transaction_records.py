"""Records of `__transaction_state` as values, and as the bytes Apache Kafka writes."""

from struct import Struct
from typing import NamedTuple

from odradek.coordinator.transaction_states import TransactionState
from odradek.coordinator.transaction_tables import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from odradek.model.ids import TopicPartition, in_order
from odradek.protocol.errors import MalformedMessage

KEY_VERSION = 0
NEWEST_VALUE = 1
NO_PRODUCER_ID = -1
NO_EPOCH = -1
NEVER_MS = -1
_VERSION = Struct(">h")

Partitions = frozenset[TopicPartition]


class StoredTransaction(NamedTuple):
    """What the last record of a transactional id says; times in milliseconds since 1970, `started_at_ms` -1 for none.

    The last four are tags of value version 1. `next_producer_id`: whom the id goes on as when this transaction is
    complete. `client_version`: 2 if the client that moved it last speaks `transaction.version` 2.
    """

    producer_id: int
    epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: Partitions
    updated_at_ms: int
    started_at_ms: int = NEVER_MS
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0


class TransactionRecord(NamedTuple):
    transactional_id: str
    value: StoredTransaction | None  # None: a tombstone


def encode(record: TransactionRecord, value_version: int) -> tuple[bytes, bytes | None]:
    """Key and value; a value of None is a tombstone."""
    key = TransactionLogKey(transactional_id=record.transactional_id)
    return _VERSION.pack(KEY_VERSION) + key.encode(KEY_VERSION), _value(record.value, value_version)


def decode(key: bytes | None, value: bytes | None) -> TransactionRecord | None:
    """None: a key of a version that is not known here. MalformedMessage: no record."""
    if key is None:
        raise MalformedMessage("a record of the transactions' topic without a key")
    version = _version(key, "key")
    if version > KEY_VERSION:
        return None
    if version < 0:
        raise MalformedMessage(f"key version {version}")
    found = TransactionLogKey.decode(version, key, _VERSION.size)
    return TransactionRecord(found.transactional_id, _read_value(value))


def size_bytes_of(partitions: Partitions) -> int:
    """About what a record with these takes. The log has the last word."""
    return 4 * len(partitions) + sum(len(topic) + 8 for topic in {one.topic for one in partitions})


def _version(data: bytes, what: str) -> int:
    if len(data) < _VERSION.size:
        raise MalformedMessage(f"a {what} of {len(data)} bytes has no version")
    return int(_VERSION.unpack_from(data)[0])


def _value(value: StoredTransaction | None, version: int) -> bytes | None:
    if value is None:
        return None
    topics: dict[str, list[int]] = {}
    for one in in_order(value.partitions):
        topics.setdefault(one.topic, []).append(one.partition)
    rows = [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()]
    message = TransactionLogValue(
        producer_id=value.producer_id,
        producer_epoch=value.epoch,
        transaction_timeout_ms=value.timeout_ms,
        transaction_status=value.state,
        transaction_partitions=None if value.state is TransactionState.EMPTY else rows,
        transaction_last_update_timestamp_ms=value.updated_at_ms,
        transaction_start_timestamp_ms=value.started_at_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_transaction_version=value.client_version,
    )
    return _VERSION.pack(version) + message.encode(version)


def _read_value(value: bytes | None) -> StoredTransaction | None:
    if value is None:
        return None
    version = _version(value, "value")
    if not 0 <= version <= NEWEST_VALUE:
        raise MalformedMessage(f"value version {version}; known are 0-{NEWEST_VALUE}")
    found = TransactionLogValue.decode(version, value, _VERSION.size)
    try:
        state = TransactionState(found.transaction_status)
    except ValueError:
        raise MalformedMessage(f"transaction status {found.transaction_status}") from None
    return StoredTransaction(
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        state,
        frozenset(
            TopicPartition(topic.topic, index)
            for topic in found.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        found.transaction_last_update_timestamp_ms,
        found.transaction_start_timestamp_ms,
        found.previous_producer_id,
        found.next_producer_id,
        found.client_transaction_version,
    )
