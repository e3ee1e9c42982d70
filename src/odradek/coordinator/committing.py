"""OffsetCommit and TxnOffsetCommit: who may commit to which group, and what is stored of it."""

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

from odradek.coordinator.append_errors import told_of_offsets
from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_epochs import why_no_commit, why_no_commit_in_transaction
from odradek.coordinator.effects import RECORD_OVERHEAD_BYTES, Producer
from odradek.coordinator.events import Asked
from odradek.coordinator.group_states import COMMIT, GroupState
from odradek.coordinator.later import MOST_OFFSETS, made
from odradek.coordinator.offsets import NO_PRODUCER, of_offsets
from odradek.coordinator.partitioning import utf16_units
from odradek.coordinator.records import NEVER_EXPIRES, CommittedOffset, OffsetKey, OffsetRecord
from odradek.coordinator.shard import Shard
from odradek.model.error_codes import ErrorCode
from odradek.model.values import dataclass
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from odradek.protocol.schema import Response

LATEST_MS = 2**63 - 1
_new: Any = tuple.__new__
_value: Callable[[OffsetRecord], CommittedOffset] = itemgetter(1)


Topics = list[OffsetCommitRequestTopic] | list[TxnOffsetCommitRequestTopic]
Outcome = tuple[str, int, ErrorCode]
Respond = Callable[[Iterable[Outcome]], Response]


def offset_commit(shard: Shard, asked: Asked, request: OffsetCommitRequest, now_ms: int) -> None:
    group = shard.groups.get(request.group_id)
    consumers = shard.consumer_groups.get(request.group_id)
    if consumers is not None:
        error = why_no_commit(consumers, request, asked.version)
    else:
        error = _why_not(group, request)
    if not error and group is not None and group.state is not GroupState.EMPTY:
        shard.renew_session(group, group.members[request.member_id], now_ms)
        error = COMMIT[group.state]
    expires_at_ms = NEVER_EXPIRES
    if request.retention_time_ms != -1:
        expires_at_ms = min(now_ms + max(request.retention_time_ms, 0), LATEST_MS)
    _commit(
        shard, asked.call, request.group_id, request.topics, error, expires_at_ms, None, _committed, now_ms
    )


def txn_offset_commit(shard: Shard, asked: Asked, request: TxnOffsetCommitRequest, now_ms: int) -> None:
    group = shard.groups.get(request.group_id)
    consumers = shard.consumer_groups.get(request.group_id)
    if consumers is not None:
        error = why_no_commit_in_transaction(consumers, request)
    else:
        error = _why_not_in_transaction(group, request)
    if not error and group is not None and request.member_id in group.members:
        shard.renew_session(group, group.members[request.member_id], now_ms)
    producer = Producer(request.producer_id, request.producer_epoch)
    _commit(
        shard,
        asked.call,
        request.group_id,
        request.topics,
        error,
        NEVER_EXPIRES,
        producer,
        _txn_committed,
        now_ms,
    )


def _why_not(group: ClassicGroup | None, request: OffsetCommitRequest) -> ErrorCode:
    generation = request.generation_id_or_member_epoch
    if group is None:
        return ErrorCode.NONE if generation < 0 else ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if group.state is GroupState.EMPTY and generation < 0:
        return ErrorCode.NONE  # offsets are all that this group is used for
    return group.why_not_of_generation(request.member_id, request.group_instance_id, generation)


def _why_not_in_transaction(group: ClassicGroup | None, request: TxnOffsetCommitRequest) -> ErrorCode:
    """A producer that names neither generation nor member is believed: it is fenced by its own epoch."""
    is_bare = request.generation_id < 0 and not request.member_id and request.group_instance_id is None
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.NONE if request.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if is_bare:
        return ErrorCode.NONE
    if group.state is GroupState.EMPTY and request.generation_id < 0:
        return ErrorCode.NONE  # as without a transaction: nobody is a member
    return group.why_not_of_generation(request.member_id, request.group_instance_id, request.generation_id)


def _commit(
    shard: Shard,
    call: int,
    group_id: str,
    topics: Topics,
    error: ErrorCode,
    expires_at_ms: int,
    producer: Producer | None,
    respond: Respond,
    now_ms: int,
) -> None:
    count = sum(len(topic.partitions) for topic in topics)
    if count * RECORD_OVERHEAD_BYTES > shard.settings.max_append_bytes:
        # Whatever their partitions are: looking at each would take a turn of many.
        why = error or ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        refused = ((topic.name, one.partition_index, why) for topic in topics for one in topic.partitions)
        return shard.answer(call, made(lambda: respond(refused), count, MOST_OFFSETS))
    outcomes: list[Outcome] = []
    records: list[OffsetRecord] = []
    size_bytes = 0
    for topic in topics:
        name, partitions = topic.name, shard.topics.get(topic.name, 0)
        before = len(records)
        for one in topic.partitions:
            index, metadata = one.partition_index, one.committed_metadata or ""
            why = error
            if not 0 <= index < partitions:
                why = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif not why and metadata and utf16_units(metadata) > shard.settings.offset_metadata_max_units:
                why = ErrorCode.OFFSET_METADATA_TOO_LARGE
            outcomes.append((name, index, why))
            if why:
                continue
            size_bytes += len(metadata)
            # `tuple.__new__` is what the constructors of named tuples call, through one frame more each.
            key = _new(OffsetKey, (group_id, name, index))
            value = one.committed_offset, one.committed_leader_epoch, metadata, now_ms, expires_at_ms
            records.append(_new(OffsetRecord, (key, _new(CommittedOffset, value))))
        # About what a batch of these takes. The log has the last word.
        size_bytes += (len(records) - before) * (RECORD_OVERHEAD_BYTES + len(group_id) + len(name))
    after = OffsetsStored(call, outcomes, respond)
    if not records:
        return after.answer(shard, outcomes)
    if size_bytes > shard.settings.max_append_bytes:
        return after.failed(shard, ErrorCode.MESSAGE_TOO_LARGE, now_ms)
    # As if none of them replaced one: only where there is no room for that it is worth a look at each.
    values = list(map(_value, records))
    kept_bytes = of_offsets(values)
    if not shard.would_keep(group_id, kept_bytes):
        producer_id = NO_PRODUCER if producer is None else producer.producer_id
        keys = (record.key for record in records)
        kept_bytes = shard.offsets.more_bytes(group_id, keys, values, producer_id)
        if not shard.has_room_to_keep(group_id, kept_bytes, now_ms):
            return after.failed(shard, ErrorCode.COORDINATOR_NOT_AVAILABLE, now_ms)
    if group_id not in shard.consumer_groups:
        shard.group(group_id, now_ms)
    shard.append(records, after, producer, kept_bytes=kept_bytes)
    return None


@dataclass(frozen=True, slots=True)
class OffsetsStored:
    call: int
    outcomes: list[Outcome]
    respond: Respond

    def committed(self, shard: Shard, now_ms: int) -> None:
        self.answer(shard, self.outcomes)

    def failed(self, shard: Shard, error: ErrorCode, now_ms: int) -> None:
        told = told_of_offsets(error)
        self.answer(shard, [(topic, at, why or told) for topic, at, why in self.outcomes])

    def answer(self, shard: Shard, outcomes: list[Outcome]) -> None:
        shard.answer(self.call, made(lambda: self.respond(outcomes), len(outcomes), MOST_OFFSETS))


def _by_topic(outcomes: Iterable[Outcome]) -> dict[str, list[tuple[int, ErrorCode]]]:
    topics: dict[str, list[tuple[int, ErrorCode]]] = {}
    for topic, partition, error in outcomes:
        topics.setdefault(topic, []).append((partition, error))
    return topics


def _committed(outcomes: Iterable[Outcome]) -> Response:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=at, error_code=why) for at, why in rows
                ],
            )
            for topic, rows in _by_topic(outcomes).items()
        ]
    )


def _txn_committed(outcomes: Iterable[Outcome]) -> Response:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=at, error_code=why) for at, why in rows
                ],
            )
            for topic, rows in _by_topic(outcomes).items()
        ]
    )
