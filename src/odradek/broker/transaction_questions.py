"""What a leader asks the coordinator of a transactional id: whether partitions are in its open transaction, or to add
them (AddPartitionsToTxn, from version 4 on)."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.coordinator.member import Client
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition, in_order
from odradek.model.topic_names import TRANSACTIONS_TOPIC
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker

VERSION = 4

Errors = Mapping[TopicPartition, ErrorCode]


class Question(NamedTuple):
    transactional_id: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]
    is_adding: bool


def ask_coordinator(
    broker: "Broker", question: Question, done: Callable[[Errors, int], None], now_ms: int
) -> None:
    """`done(error of each partition, now_ms)` once, now or later. NETWORK_EXCEPTION: it could not be asked."""

    def answered(response: Any, later_ms: int) -> None:
        done(_errors(question.partitions, response), later_ms)

    index = broker.transactions.index_of(question.transactional_id)
    known = broker.metadata.partition(TRANSACTIONS_TOPIC, index)
    if known is None or known.leader < 0:
        return done(dict.fromkeys(question.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE), now_ms)
    message = _message(question)
    if known.leader == broker.broker_id:
        client = Client("", "")
        return broker.transactions.ask(
            index, message, VERSION, client, lambda response: answered(response, broker.now_ms), now_ms
        )
    if not broker.peers.ask(known.leader, message, VERSION, answered):
        answered(None, now_ms)
    return None


def _message(question: Question) -> AddPartitionsToTxnRequest:
    topics: dict[str, list[int]] = {}
    for one in in_order(question.partitions):
        topics.setdefault(one.topic, []).append(one.partition)
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=question.transactional_id,
                producer_id=question.producer_id,
                producer_epoch=question.epoch,
                verify_only=not question.is_adding,
                topics=[
                    AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                    for topic, indexes in topics.items()
                ],
            )
        ]
    )


def _errors(partitions: Iterable[TopicPartition], response: AddPartitionsToTxnResponse | None) -> Errors:
    if response is None:
        return dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION)
    found = {
        TopicPartition(topic.name, one.partition_index): _code(one.partition_error_code)
        for row in response.results_by_transaction
        for topic in row.topic_results
        for one in topic.results_by_partition
    }
    other = _code(response.error_code) or ErrorCode.UNKNOWN_SERVER_ERROR
    return {one: found.get(one, other) for one in partitions}


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


# The coordinator cannot be asked now; a client that hears these tries again.
UNASKED = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
)


def told_to_producer(error: ErrorCode, version: int) -> ErrorCode:
    """In a Produce of this version. Clients try NOT_ENOUGH_REPLICAS again, whatever their age."""
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error in UNASKED or (error == ErrorCode.CONCURRENT_TRANSACTIONS and version < 12):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if error == ErrorCode.TRANSACTION_ABORTABLE and version < 11:
        return ErrorCode.INVALID_TXN_STATE
    return error


def told_to_committer(error: ErrorCode, version: int) -> ErrorCode:
    """In a TxnOffsetCommit of this version."""
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error in UNASKED or (error == ErrorCode.CONCURRENT_TRANSACTIONS and version < 5):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error == ErrorCode.TRANSACTION_ABORTABLE and version < 4:
        return ErrorCode.INVALID_TXN_STATE
    return error
