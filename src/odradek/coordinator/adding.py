"""AddPartitionsToTxn and AddOffsetsToTxn: what a transaction is about to write to, so that it gets a marker.

Brokers ask here too (version 4 on, several transactions in one request): whether a partition is in an open transaction
(`verify_only`, KIP-890), or, for clients of `transaction.version` 2, to add it.
"""

from collections.abc import Callable

from odradek.coordinator.events import Asked
from odradek.coordinator.later import MOST_OFFSETS, made
from odradek.coordinator.partitioning import partition_of
from odradek.coordinator.transaction_checks import (
    fenced_as,
    told_of_transaction,
    why_busy,
    why_not_owner,
)
from odradek.coordinator.transaction_records import NO_EPOCH, Partitions, StoredTransaction
from odradek.coordinator.transaction_room import Begun, Room
from odradek.coordinator.transaction_settings import MOST_IN_A_TRANSACTION
from odradek.coordinator.transaction_states import PREPARED, TransactionState
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.model.topic_names import GROUPS_TOPIC
from odradek.model.values import dataclass
from odradek.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FIRST_OF_BROKERS = 4
BUMPING_CLIENT = 2

# Of what does not change any more: a thread may ask.
Errors = Callable[[TopicPartition], ErrorCode]
Done = Callable[[Room, Errors], None]


def add_partitions(room: Room, asked: Asked, request: AddPartitionsToTxnRequest, now_ms: int) -> None:
    if asked.version < FIRST_OF_BROKERS:
        only = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )

        count = sum(len(topic.partitions) for topic in only.topics)

        def answer(room: Room, errors: Errors) -> None:
            def make() -> AddPartitionsToTxnResponse:
                rows = _rows(only.topics, errors, asked.version)
                return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)

            room.answer(asked.call, made(make, count, MOST_OFFSETS))

        return _add(room, only, 0, answer, now_ms)
    if not request.transactions:
        return room.answer(asked.call, AddPartitionsToTxnResponse())
    gathered: list[AddPartitionsToTxnResult] = []
    for one in request.transactions:
        gather = Gather(asked, one, gathered, len(request.transactions))
        if one.verify_only:
            gather(room, _verified(room, one))
        else:
            _add(room, one, BUMPING_CLIENT, gather, now_ms)
    return None


def add_offsets(room: Room, asked: Asked, request: AddOffsetsToTxnRequest, now_ms: int) -> None:
    """The group's partition of the groups' topic: its offsets become visible by the marker there."""
    groups = room.topics.get(GROUPS_TOPIC, 0)
    if not groups:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return room.answer(asked.call, AddOffsetsToTxnResponse(error_code=error))
    partition = partition_of(request.group_id, groups)
    one = AddPartitionsToTxnTransaction(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        topics=[AddPartitionsToTxnTopic(name=GROUPS_TOPIC, partitions=[partition])],
    )

    def answer(room: Room, errors: Errors) -> None:
        error = fenced_as(asked.version, errors(TopicPartition(GROUPS_TOPIC, partition)))
        room.answer(asked.call, AddOffsetsToTxnResponse(error_code=error))

    return _add(room, one, 0, answer, now_ms)


def _add(
    room: Room,
    asked: AddPartitionsToTxnTransaction,
    client_version: int,
    done: Done,
    now_ms: int,
) -> None:
    name = asked.transactional_id
    if sum(len(topic.partitions) for topic in asked.topics) > MOST_IN_A_TRANSACTION:
        # Not even looked at: each costs a turn a microsecond.
        too_many = told_of_transaction(ErrorCode.MESSAGE_TOO_LARGE)
        return done(room, lambda one: too_many)
    partitions = _partitions(asked.topics)
    missing = _missing(room, partitions)
    if missing:
        return done(
            room,
            lambda one: (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if one in missing else ErrorCode.OPERATION_NOT_ATTEMPTED
            ),
        )
    value = room.stored.by_id.get(name)
    error = ErrorCode.NONE if name else ErrorCode.INVALID_REQUEST
    error = error or why_not_owner(value, asked.producer_id, asked.producer_epoch)
    if not error and why_busy(room, name):
        again = AddAgain(asked, client_version, done)
        if room.waiting.add(name, len(partitions), again, now_ms):
            return None
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    if error or value is None:
        return done(room, lambda one: error)
    if value.state is TransactionState.ONGOING and partitions <= value.partitions:
        return done(room, lambda one: ErrorCode.NONE)
    grown = _grown(value, partitions, client_version, now_ms)
    room.write(name, grown, room.last_epochs.get(name, NO_EPOCH), Added(done), now_ms)
    return None


def _missing(room: Room, partitions: Partitions) -> Partitions:
    return frozenset(one for one in partitions if not 0 <= one.partition < room.topics.get(one.topic, 0))


def _grown(
    value: StoredTransaction, partitions: Partitions, client_version: int, now_ms: int
) -> StoredTransaction:
    is_open = value.state is TransactionState.ONGOING
    return value._replace(
        state=TransactionState.ONGOING,
        partitions=value.partitions | partitions if is_open else partitions,
        updated_at_ms=now_ms,
        started_at_ms=value.started_at_ms if is_open else now_ms,
        client_version=client_version,
    )


def _verified(room: Room, asked: AddPartitionsToTxnTransaction) -> Errors:
    """What is committed counts. A partition that is just being added is not in it yet; one that is in it stays so while
    others are added."""
    name = asked.transactional_id
    value = room.stored.by_id.get(name)
    error = ErrorCode.NONE if name else ErrorCode.INVALID_REQUEST
    error = error or why_not_owner(value, asked.producer_id, asked.producer_epoch)
    pending = room.pending(name)
    is_open = value is not None and value.state is TransactionState.ONGOING
    grows = (
        pending is not None and pending.value is not None and pending.value.state is TransactionState.ONGOING
    )
    is_decided = value is not None and value.state in PREPARED
    if not error and (is_decided or (pending is not None and not grows)):
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    if error:
        return lambda one: error
    inside = value.partitions if value is not None and is_open else frozenset()
    outside = ErrorCode.CONCURRENT_TRANSACTIONS if grows else ErrorCode.TRANSACTION_ABORTABLE
    return lambda one: ErrorCode.NONE if one in inside else outside


@dataclass(frozen=True, slots=True)
class Gather:
    """Of one of the transactions of a request: the last that is known answers for all."""

    asked: Asked
    one: AddPartitionsToTxnTransaction
    gathered: list[AddPartitionsToTxnResult]
    wanted: int

    def __call__(self, room: Room, errors: Errors) -> None:
        rows = _rows(self.one.topics, errors, self.asked.version)
        self.gathered.append(
            AddPartitionsToTxnResult(transactional_id=self.one.transactional_id, topic_results=rows)
        )
        if len(self.gathered) == self.wanted:
            answer = AddPartitionsToTxnResponse(results_by_transaction=self.gathered)
            room.answer(self.asked.call, answer)


@dataclass(frozen=True, slots=True)
class Added:
    done: Done

    def committed(self, room: Room, now_ms: int) -> None:
        self.done(room, lambda one: ErrorCode.NONE)

    def failed(self, room: Room, error: ErrorCode, now_ms: int) -> None:
        told = told_of_transaction(error)
        self.done(room, lambda one: told)


@dataclass(frozen=True, slots=True)
class AddAgain:
    """A record of the id is on its way; or the transaction before is decided, and has no marker yet in some partition. Of
    several that waited the first writes the next record, and the others wait for that. The first that waits when the
    last partition has its marker writes with the end of that transaction: one append is to be committed, not two."""

    asked: AddPartitionsToTxnTransaction
    client_version: int
    done: Done

    def begins(self, room: Room, ended: StoredTransaction, now_ms: int) -> Begun | None:
        partitions = _partitions(self.asked.topics)
        if not partitions or _missing(room, partitions):
            return None
        if why_not_owner(ended, self.asked.producer_id, self.asked.producer_epoch):
            return None
        return Begun(_grown(ended, partitions, self.client_version, now_ms), Added(self.done))

    def committed(self, room: Room, now_ms: int) -> None:
        _add(room, self.asked, self.client_version, self.done, now_ms)

    def failed(self, room: Room, error: ErrorCode, now_ms: int) -> None:
        told = told_of_transaction(error)
        self.done(room, lambda one: told)


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> Partitions:
    return frozenset(TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)


def _rows(
    topics: list[AddPartitionsToTxnTopic], errors: Errors, version: int
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=fenced_as(version, errors(TopicPartition(topic.name, index))),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
