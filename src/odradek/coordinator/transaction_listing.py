"""DescribeTransactions and ListTransactions (KIP-664): what stands of each id."""

from collections.abc import Collection

from odradek.coordinator.events import Asked
from odradek.coordinator.later import made
from odradek.coordinator.transaction_records import StoredTransaction
from odradek.coordinator.transaction_room import Room
from odradek.coordinator.transaction_states import BY_TITLE, PREPARED
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition, in_order
from odradek.protocol.messages import list_transactions as listing
from odradek.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


def describe_transactions(
    room: Room, asked: Asked, request: DescribeTransactionsRequest, now_ms: int
) -> None:
    seen: list[tuple[str, StoredTransaction | None, Collection[tuple[str, int]]]] = []
    rows = 0
    for name in request.transactional_ids:
        value = room.stored.by_id.get(name)
        partitions: Collection[tuple[str, int]] = () if value is None else value.partitions
        if value is not None and value.state in PREPARED:
            partitions = tuple(room.unmarked.get(name, partitions))
        seen.append((name, value, partitions))
        rows += 1 + len(partitions)

    def make() -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(transaction_states=[_described(*one) for one in seen])

    room.answer(asked.call, made(make, rows))


def _described(
    name: str, value: StoredTransaction | None, partitions: Collection[tuple[str, int]]
) -> TransactionState:
    if not name:
        return TransactionState(error_code=ErrorCode.INVALID_REQUEST)
    if value is None:
        return TransactionState(error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=name)
    topics: dict[str, list[int]] = {}
    for one in in_order(TopicPartition(*one) for one in partitions):
        topics.setdefault(one.topic, []).append(one.partition)
    return TransactionState(
        transactional_id=name,
        transaction_state=value.state.title,
        transaction_timeout_ms=value.timeout_ms,
        transaction_start_time_ms=value.started_at_ms,
        producer_id=value.producer_id,
        producer_epoch=value.epoch,
        topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
    )


def list_transactions(
    room: Room, asked: Asked, request: listing.ListTransactionsRequest, now_ms: int
) -> None:
    states = {BY_TITLE[title] for title in request.state_filters if title in BY_TITLE}
    producers = set(request.producer_id_filters)
    longer_than_ms = request.duration_filter if asked.version >= 1 else -1
    every = room.stored.by_id.copy()

    def make() -> listing.ListTransactionsResponse:
        rows = [
            listing.TransactionState(
                transactional_id=name, producer_id=value.producer_id, transaction_state=value.state.title
            )
            for name, value in every.items()
            if (not request.state_filters or value.state in states)
            and (not producers or value.producer_id in producers)
            and (longer_than_ms < 0 or 0 <= value.started_at_ms < now_ms - longer_than_ms)
        ]
        return listing.ListTransactionsResponse(
            unknown_state_filters=[title for title in request.state_filters if title not in BY_TITLE],
            transaction_states=rows,
        )

    room.answer(asked.call, made(make, len(every)))
