"""Producers of a partition, as its leader tells them, and markers by hand."""

from collections.abc import Iterator

import pytest

from odradek.client.sync import SyncClient
from odradek.client.sync_transactions import abort, is_open_still, list_transactions, producers
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from odradek.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.client.support import ScriptedBroker

ORDERS = TopicPartition("orders", 1)
OPEN = ProducerState(producer_id=7, producer_epoch=3, coordinator_epoch=-1, current_txn_start_offset=40)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as running:
        running.partitions["orders"] = [1, 1]
        yield running


@pytest.fixture
def client(broker: ScriptedBroker) -> Iterator[SyncClient]:
    with SyncClient(broker.address) as connected:
        yield connected


def described(*active: ProducerState, error: ErrorCode = ErrorCode.NONE) -> DescribeProducersResponse:
    row = PartitionResponse(partition_index=1, error_code=error, active_producers=list(active))
    return DescribeProducersResponse(topics=[TopicResponse(name="orders", partitions=[row])])


def test_producers_are_those_of_the_partition(broker: ScriptedBroker, client: SyncClient) -> None:
    broker.answer(DescribeProducersRequest, lambda request, version: described(OPEN))
    assert producers(client, ORDERS) == [OPEN]
    (asked,) = broker.requests[-1].topics  # type: ignore[attr-defined]
    assert (asked.name, list(asked.partition_indexes)) == ("orders", [1])


def test_a_transaction_is_open_still_where_the_same_producer_has_it_open_at_the_same_offset(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    """Behind an unclean election another one may have begun there: who ends what hangs is not to end that."""
    now: list[ProducerState] = []
    broker.answer(DescribeProducersRequest, lambda request, version: described(*now))
    open_still = []
    for producer_id, offset in ((7, 40), (8, 40), (7, 41), (7, -1)):
        now[:] = [
            ProducerState(
                producer_id=producer_id,
                producer_epoch=3,
                coordinator_epoch=-1,
                current_txn_start_offset=offset,
            )
        ]
        open_still.append(is_open_still(client, ORDERS, OPEN))
    assert open_still == [True, False, False, False]
    assert not is_open_still(client, ORDERS, now[0]), "none is open there"


def test_a_partition_whose_producers_are_not_told_is_named(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    refused = described(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    broker.answer(DescribeProducersRequest, lambda request, version: refused)
    with pytest.raises(ProtocolError, match="orders-1") as raised:
        producers(client, ORDERS)
    assert raised.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_an_abort_is_a_marker_of_that_producer_by_a_coordinator_of_epoch_0_at_least(
    broker: ScriptedBroker, client: SyncClient, error: ErrorCode
) -> None:
    row = WritableTxnMarkerPartitionResult(partition_index=1, error_code=error)
    topic = WritableTxnMarkerTopicResult(name="orders", partitions=[row])
    answer = WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=7, topics=[topic])])
    broker.answer(WriteTxnMarkersRequest, lambda request, version: answer)
    if error:
        with pytest.raises(ProtocolError, match="orders-1"):
            abort(client, ORDERS, OPEN)
    else:
        abort(client, ORDERS, OPEN)
    (marker,) = broker.requests[-1].markers  # type: ignore[attr-defined]
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 0)
    assert marker.transaction_result is False
    assert [(t.name, list(t.partition_indexes)) for t in marker.topics] == [("orders", [1])]


def test_transactions_are_listed_in_the_order_of_their_ids(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    answer = ListTransactionsResponse(
        transaction_states=[
            TransactionState(transactional_id=name, producer_id=7, transaction_state="Ongoing")
            for name in "ba"
        ]
    )
    broker.answer(ListTransactionsRequest, lambda request, version: answer)
    found, _ = list_transactions(client, ["Ongoing"])
    assert [(one.coordinator, one.transaction.transactional_id) for one in found] == [(1, "a"), (1, "b")]
    assert list(broker.requests[-1].state_filters) == ["Ongoing"]  # type: ignore[attr-defined]


def test_a_broker_that_does_not_list_its_transactions_is_named_and_not_taken_for_one_without(
    broker: ScriptedBroker, client: SyncClient
) -> None:
    refused = ListTransactionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    broker.answer(ListTransactionsRequest, lambda request, version: refused)
    assert list_transactions(client) == ([], {1: "broker 1: CLUSTER_AUTHORIZATION_FAILED"})
