"""DescribeTransactions and ListTransactions (KIP-664): what stands of each id."""

from odradek.coordinator.events import Asked
from odradek.coordinator.later import made
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
    rows = [_described(room, name) for name in request.transactional_ids]
    room.answer(asked.call, DescribeTransactionsResponse(transaction_states=rows))


def _described(room: Room, name: str) -> TransactionState:
    value = room.stored.by_id.get(name)
    if not name:
        return TransactionState(error_code=ErrorCode.INVALID_REQUEST)
    if value is None:
        return TransactionState(error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=name)
    partitions = value.partitions
    if value.state in PREPARED:
        partitions = frozenset(TopicPartition(*one) for one in room.unmarked.get(name, partitions))
    topics: dict[str, list[int]] = {}
    for one in in_order(partitions):
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
    every = list(room.stored.by_id.items())

    def make() -> listing.ListTransactionsResponse:
        rows = [
            listing.TransactionState(
                transactional_id=name, producer_id=value.producer_id, transaction_state=value.state.title
            )
            for name, value in every
            if (not request.state_filters or value.state in states)
            and (not producers or value.producer_id in producers)
            and (longer_than_ms < 0 or 0 <= value.started_at_ms < now_ms - longer_than_ms)
        ]
        return listing.ListTransactionsResponse(
            unknown_state_filters=[title for title in request.state_filters if title not in BY_TITLE],
            transaction_states=rows,
        )

    room.answer(asked.call, made(make, len(every)))
