"""Answers that say nothing of what was asked: a sentence that names it, and no mistake of the client's own."""

from collections.abc import Callable

import pytest

from odradek.client import sync_groups, sync_transactions
from odradek.client.sync import LATEST, SyncClient
from odradek.client.sync_fetch import OffsetsGone, read_range
from odradek.client.sync_transaction import Transaction
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages import (
    add_partitions_to_txn,
    describe_groups,
    describe_producers,
    describe_transactions,
    fetch,
    find_coordinator,
    list_offsets,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    write_txn_markers,
)
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from odradek.protocol.schema import Message, Request
from odradek.records.builder import NewRecord, build_batch
from tests.client.support import ScriptedBroker
from tests.client.test_sync_groups import coordinates
from tests.support import each

ORDERS = TopicPartition("orders", 0)
ANOTHER = produce.TopicProduceResponse(
    name="orders", partition_responses=[produce.PartitionProduceResponse(index=1, base_offset=5)]
)
ADDED = add_partitions_to_txn.AddPartitionsToTxnTopicResult(
    name="orders",
    results_by_partition=[add_partitions_to_txn.AddPartitionsToTxnPartitionResult(partition_index=0)],
)
OPEN = describe_producers.ProducerState(producer_id=7)


def a_batch() -> bytes:
    return bytes(build_batch([NewRecord(None, b"x", 0, ())]))


def in_transaction(client: SyncClient) -> None:
    transaction = Transaction(client, "tx", timeout_ms=1_000)
    transaction.begin()
    transaction.send({ORDERS: [a_batch()]})


Asked = tuple[type[Request], Message, Callable[[SyncClient], object], str]
LEFT_OUT: tuple[Asked, ...] = (
    (
        list_offsets.ListOffsetsRequest,
        list_offsets.ListOffsetsResponse(topics=[]),
        lambda client: client.list_offsets({ORDERS: LATEST}),
        "orders-0",
    ),
    (
        offset_for_leader_epoch.OffsetForLeaderEpochRequest,
        offset_for_leader_epoch.OffsetForLeaderEpochResponse(topics=[]),
        lambda client: client.ends_of_epochs({ORDERS: 3}),
        "orders-0",
    ),
    (
        produce.ProduceRequest,
        produce.ProduceResponse(responses=[]),
        lambda client: client.produce(ORDERS, a_batch()),
        "orders-0",
    ),
    (
        produce.ProduceRequest,
        produce.ProduceResponse(responses=[ANOTHER]),
        lambda client: client.produce(ORDERS, a_batch()),
        "orders-0",
    ),
    (produce.ProduceRequest, produce.ProduceResponse(responses=[ANOTHER]), in_transaction, "orders-0"),
    (
        add_partitions_to_txn.AddPartitionsToTxnRequest,
        add_partitions_to_txn.AddPartitionsToTxnResponse(),
        in_transaction,
        "orders-0",
    ),
    (
        find_coordinator.FindCoordinatorRequest,
        find_coordinator.FindCoordinatorResponse(coordinators=[]),
        lambda client: sync_groups.coordinators(client, ["billing"]),
        "coordinator of billing",
    ),
    (
        describe_groups.DescribeGroupsRequest,
        describe_groups.DescribeGroupsResponse(groups=[]),
        lambda client: sync_groups.describe(client, ["billing"]),
        "group billing",
    ),
    (
        offset_fetch.OffsetFetchRequest,
        offset_fetch.OffsetFetchResponse(groups=[]),
        lambda client: sync_groups.committed(client, "billing"),
        "offsets of billing",
    ),
    (
        offset_commit.OffsetCommitRequest,
        offset_commit.OffsetCommitResponse(topics=[]),
        lambda client: sync_groups.commit(client, "billing", {ORDERS: 5}),
        "offset of orders-0 for billing",
    ),
    (
        describe_transactions.DescribeTransactionsRequest,
        describe_transactions.DescribeTransactionsResponse(transaction_states=[]),
        lambda client: sync_transactions.describe(client, 1, "tx"),
        "tx",
    ),
    (
        describe_producers.DescribeProducersRequest,
        describe_producers.DescribeProducersResponse(topics=[]),
        lambda client: sync_transactions.producers(client, ORDERS),
        "orders-0",
    ),
    (
        write_txn_markers.WriteTxnMarkersRequest,
        write_txn_markers.WriteTxnMarkersResponse(markers=[]),
        lambda client: sync_transactions.abort(client, ORDERS, OPEN),
        "orders-0",
    ),
)


@each(LEFT_OUT)
def test_what_an_answer_leaves_out_is_named(
    request: type[Request], answer: Message, ask: Callable[[SyncClient], object], what: str
) -> None:
    with ScriptedBroker() as broker, SyncClient(broker.address, request_timeout_s=10) as client:
        broker.partitions["orders"] = [1, 1]
        broker.answer(find_coordinator.FindCoordinatorRequest, coordinates)
        broker.answer(
            InitProducerIdRequest, lambda *_: InitProducerIdResponse(producer_id=7, producer_epoch=0)
        )
        broker.answer(
            add_partitions_to_txn.AddPartitionsToTxnRequest,
            lambda *_: add_partitions_to_txn.AddPartitionsToTxnResponse(
                results_by_topic_v3_and_below=[ADDED]
            ),
        )
        broker.answer(request, lambda *_: answer)
        with pytest.raises(ProtocolError, match=f"^{what}: not in the answer of the broker$"):
            ask(client)


def test_a_broker_that_holds_its_answer_up_for_no_time_at_all_is_asked_again() -> None:
    """A wait below zero there is not."""
    answers: list[Message] = [fetch.FetchResponse(throttle_time_ms=-4)]
    gone = fetch.PartitionData(partition_index=0, error_code=1)
    topic = fetch.FetchableTopicResponse(topic="orders", topic_id=bytes(range(16)), partitions=[gone])

    def fetched(request: Request, version: int) -> Message:
        return answers.pop() if answers else fetch.FetchResponse(responses=[topic])

    def offsets(request: Request, version: int) -> Message:
        row = list_offsets.ListOffsetsPartitionResponse(partition_index=0, offset=9)
        of_topic = list_offsets.ListOffsetsTopicResponse(name="orders", partitions=[row])
        return list_offsets.ListOffsetsResponse(topics=[of_topic])

    with ScriptedBroker() as broker, SyncClient(broker.address, request_timeout_s=10) as client:
        broker.partitions["orders"] = [1]
        broker.answer(fetch.FetchRequest, fetched)
        broker.answer(list_offsets.ListOffsetsRequest, offsets)
        with pytest.raises(OffsetsGone, match="offsets 0 to 5 were asked for"):
            list(read_range(client, ORDERS, 0, 5))
