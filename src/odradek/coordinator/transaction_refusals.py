"""One error for a whole request of a transaction's owner: another broker coordinates the id, it is being loaded, or is
not available."""

from collections.abc import Callable
from typing import Any

from odradek.coordinator.initialising import refused
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from odradek.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from odradek.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from odradek.protocol.schema import Request, Response


def refuse(request: Request, version: int, error: ErrorCode) -> Response:
    return _REFUSALS[type(request)](request, version, error)


def _topics(topics: list[AddPartitionsToTxnTopic], error: ErrorCode) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=error)
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _add(request: AddPartitionsToTxnRequest, version: int, error: ErrorCode) -> Response:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=one.transactional_id, topic_results=_topics(one.topics, error)
            )
            for one in request.transactions
        ],
        results_by_topic_v3_and_below=_topics(request.v3_and_below_topics, error),
    )


def _describe(request: DescribeTransactionsRequest, version: int, error: ErrorCode) -> Response:
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(error_code=error, transactional_id=name) for name in request.transactional_ids
        ]
    )


_REFUSALS: dict[type[Request], Callable[[Any, int, ErrorCode], Response]] = {
    InitProducerIdRequest: lambda request, version, error: refused(version, error),
    AddPartitionsToTxnRequest: _add,
    AddOffsetsToTxnRequest: lambda request, version, error: AddOffsetsToTxnResponse(error_code=error),
    EndTxnRequest: lambda request, version, error: EndTxnResponse(error_code=error),
    DescribeTransactionsRequest: _describe,
    ListTransactionsRequest: lambda request, version, error: ListTransactionsResponse(error_code=error),
}
