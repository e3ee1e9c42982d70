"""Transactions, asked of their coordinators and of the leaders of partitions through a `SyncClient`."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from odradek.client.sync import SyncClient, answered, code_of
from odradek.client.sync_brokers import PATIENCE_S, of_every_broker
from odradek.client.sync_connection import left_out
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    ProducerState,
    TopicRequest,
)
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest, TransactionState
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

# A coordinator will end a transaction that it has in one of these.
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


class Coordinated(NamedTuple):
    coordinator: int
    transaction: TransactionState


class Listed(NamedTuple):
    """Transactions in the order of their ids, and the brokers that did not say, with the reason."""

    transactions: list[Coordinated]
    problems: dict[int, str]


def list_transactions(
    client: SyncClient, states: Iterable[str] = (), *, timeout_s: float = PATIENCE_S
) -> Listed:
    """Each broker lists those it coordinates, all of them asked side by side."""
    told = of_every_broker(client, ListTransactionsRequest(state_filters=list(states)), timeout_s=timeout_s)
    found = [
        Coordinated(broker, row)
        for broker, answer in told.answers.items()
        for row in answer.transaction_states
    ]
    return Listed(sorted(found, key=lambda one: one.transaction.transactional_id), told.problems)


def describe(client: SyncClient, coordinator: int, transactional_id: str) -> Any:
    answer = client.call(coordinator, DescribeTransactionsRequest(transactional_ids=[transactional_id]))
    if not answer.transaction_states:
        raise left_out(transactional_id)
    row = answer.transaction_states[0]
    if row.error_code:
        raise answered(row.error_code, transactional_id)
    return row


def holds(client: SyncClient, listed: Coordinated, partition: TopicPartition) -> bool:
    """Whether the partition is one of that transaction, so that its coordinator sends a marker there. One that has had its marker
    is not any more: ask behind this whether the log still has it open."""
    row = describe(client, listed.coordinator, listed.transaction.transactional_id)
    return any(
        topic.topic == partition.topic and partition.partition in topic.partitions for topic in row.topics
    )


def is_open_still(client: SyncClient, partition: TopicPartition, seen: ProducerState) -> bool:
    """The same transaction, in the leader's log."""
    return any(
        one.producer_id == seen.producer_id
        and one.current_txn_start_offset == seen.current_txn_start_offset >= 0
        for one in producers(client, partition)
    )


def producers(client: SyncClient, partition: TopicPartition) -> list[ProducerState]:
    """As the leader's log knows them."""
    leader, _ = client.leader(partition)
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=partition.topic, partition_indexes=[partition.partition])]
    )
    row = _row_of(partition, client.call(leader, request).topics)
    if row.error_code:
        raise answered(row.error_code, str(partition), row.error_message)
    states: list[ProducerState] = row.active_producers
    return states


def abort(client: SyncClient, partition: TopicPartition, producer: ProducerState) -> None:
    """An abort marker of this producer into that partition, as its coordinator would write it."""
    leader, _ = client.leader(partition)
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        coordinator_epoch=max(producer.coordinator_epoch, 0),
        topics=[WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
    )
    answer = client.call(leader, WriteTxnMarkersRequest(markers=[marker]))
    error = _row_of(partition, answer.markers[0].topics if answer.markers else ()).error_code
    if code_of(error):
        raise answered(error, str(partition))


def _row_of(partition: TopicPartition, topics: Iterable[Any]) -> Any:
    for topic in topics:
        for row in topic.partitions:
            if TopicPartition(topic.name, row.partition_index) == partition:
                return row
    raise left_out(partition)
