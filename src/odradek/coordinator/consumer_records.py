"""Records of groups of KIP-848 as values, and as the bytes Apache Kafka 4.1 writes.

A group is many records: its epoch, the epoch of its target assignment, and for each member what it subscribes to, its
target and what it has. A value of None removes what the key names.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from struct import Struct
from typing import Any, NamedTuple

from odradek.coordinator.record_tables import (
    AssignedTopic,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.schema import Message

_VERSION = Struct(">h")
VALUE_VERSION = 0

# Topic id -> partitions. The order of both is kept: an assignor that takes something away begins at the end.
Assignment = Mapping[bytes, tuple[int, ...]]
NOTHING: Assignment = {}


class MemberState(IntEnum):
    """As it is stored. Of a later version: UNKNOWN."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ClassicMember(NamedTuple):
    """Of a member that speaks the classic protocol in a group of the new one."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class Subscriber(NamedTuple):
    """What a member said of itself."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]  # sorted
    regex: str  # empty: none
    rebalance_timeout_ms: int
    assignor: str | None
    classic: ClassicMember | None = None


class Current(NamedTuple):
    """What a member has: `revoking` was taken from it, and it has not said yet that it let go."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Assignment
    revoking: Assignment


class GroupEpoch(NamedTuple):
    epoch: int
    metadata_hash: int


class ResolvedRegex(NamedTuple):
    topics: tuple[str, ...]  # sorted
    version: int  # of the metadata it was resolved against
    resolved_at_ms: int


class EpochRecord(NamedTuple):
    group: str
    value: GroupEpoch | None


class PartitionMetadataRecord(NamedTuple):
    """Of 3.9: read as nothing, written as a tombstone."""

    group: str
    value: None = None


class MemberRecord(NamedTuple):
    group: str
    member_id: str
    value: Subscriber | None


class TargetEpochRecord(NamedTuple):
    group: str
    value: int | None


class TargetRecord(NamedTuple):
    group: str
    member_id: str
    value: Assignment | None


class CurrentRecord(NamedTuple):
    group: str
    member_id: str
    value: Current | None


class RegexRecord(NamedTuple):
    group: str
    regex: str
    value: ResolvedRegex | None


ConsumerRecord = (
    EpochRecord
    | PartitionMetadataRecord
    | MemberRecord
    | TargetEpochRecord
    | TargetRecord
    | CurrentRecord
    | RegexRecord
)


# ------------------------------------------------------------------------------------------------- to bytes


def encode(record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    kind, key, value = _messages(record)
    encoded = None if value is None else _VERSION.pack(VALUE_VERSION) + value.encode(VALUE_VERSION)
    return _VERSION.pack(kind) + key.encode(kind), encoded


def _messages(record: ConsumerRecord) -> tuple[int, Message, Message | None]:
    match record:
        case EpochRecord(group, epoch):
            return 3, ConsumerGroupMetadataKey(group_id=group), _epoch_message(epoch)
        case PartitionMetadataRecord(group):
            return 4, ConsumerGroupPartitionMetadataKey(group_id=group), None
        case MemberRecord(group, member_id, subscriber):
            key: Message = ConsumerGroupMemberMetadataKey(group_id=group, member_id=member_id)
            return 5, key, _subscriber_message(subscriber)
        case TargetEpochRecord(group, target_epoch):
            key = ConsumerGroupTargetAssignmentMetadataKey(group_id=group)
            return 6, key, _target_epoch_message(target_epoch)
        case TargetRecord(group, member_id, target):
            key = ConsumerGroupTargetAssignmentMemberKey(group_id=group, member_id=member_id)
            return 7, key, _target_message(target)
        case CurrentRecord(group, member_id, current):
            key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group, member_id=member_id)
            return 8, key, _current_message(current)
        case RegexRecord(group, regex, resolved):
            key = ConsumerGroupRegularExpressionKey(group_id=group, regular_expression=regex)
            return 16, key, _resolved_message(resolved)


def _epoch_message(epoch: GroupEpoch | None) -> Message | None:
    return epoch and ConsumerGroupMetadataValue(epoch=epoch.epoch, metadata_hash=epoch.metadata_hash)


def _target_epoch_message(epoch: int | None) -> Message | None:
    return None if epoch is None else ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch)


def _subscriber_message(value: Subscriber | None) -> Message | None:
    if value is None:
        return None
    classic = value.classic
    return ConsumerGroupMemberMetadataValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=list(value.topics),
        subscribed_topic_regex=value.regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.assignor,
        classic_member_metadata=classic
        and ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols
            ],
        ),
    )


def _target_message(value: Assignment | None) -> Message | None:
    if value is None:
        return None
    return ConsumerGroupTargetAssignmentMemberValue(topic_partitions=_topics(value))


def _current_message(value: Current | None) -> Message | None:
    return value and ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=value.epoch,
        previous_member_epoch=value.previous_epoch,
        state=value.state,
        assigned_partitions=_topics(value.assigned),
        partitions_pending_revocation=_topics(value.revoking),
    )


def _resolved_message(value: ResolvedRegex | None) -> Message | None:
    return value and ConsumerGroupRegularExpressionValue(
        topics=list(value.topics), version=value.version, timestamp=value.resolved_at_ms
    )


def _topics(assignment: Assignment) -> list[AssignedTopic]:
    return [AssignedTopic(topic_id=topic, partitions=list(at)) for topic, at in assignment.items()]


# ----------------------------------------------------------------------------------------------- from bytes


def decode(kind: int, key: bytes, value: bytes | None) -> ConsumerRecord:
    """MalformedMessage: no record."""
    if value is not None and (len(value) < _VERSION.size or _VERSION.unpack_from(value)[0] != VALUE_VERSION):
        raise MalformedMessage(f"value of a record of kind {kind}; known is version {VALUE_VERSION}")
    return _DECODERS[kind](key, value)


def _read(of: Any, version: int, data: bytes) -> Any:
    return of.decode(version, data, _VERSION.size)


def _read_epoch(key: bytes, value: bytes | None) -> ConsumerRecord:
    group = _read(ConsumerGroupMetadataKey, 3, key).group_id
    if value is None:
        return EpochRecord(group, None)
    found = _read(ConsumerGroupMetadataValue, VALUE_VERSION, value)
    return EpochRecord(group, GroupEpoch(found.epoch, found.metadata_hash))


def _read_partition_metadata(key: bytes, value: bytes | None) -> ConsumerRecord:
    return PartitionMetadataRecord(_read(ConsumerGroupPartitionMetadataKey, 4, key).group_id)


def _read_member(key: bytes, value: bytes | None) -> ConsumerRecord:
    found = _read(ConsumerGroupMemberMetadataKey, 5, key)
    if value is None:
        return MemberRecord(found.group_id, found.member_id, None)
    said = _read(ConsumerGroupMemberMetadataValue, VALUE_VERSION, value)
    classic = said.classic_member_metadata
    subscriber = Subscriber(
        said.instance_id,
        said.rack_id,
        said.client_id,
        said.client_host,
        tuple(said.subscribed_topic_names),
        said.subscribed_topic_regex or "",
        said.rebalance_timeout_ms,
        said.server_assignor,
        ClassicMember(
            classic.session_timeout_ms,
            tuple((one.name, bytes(one.metadata)) for one in classic.supported_protocols),
        )
        if classic is not None and classic.supported_protocols
        else None,
    )
    return MemberRecord(found.group_id, found.member_id, subscriber)


def _read_target_epoch(key: bytes, value: bytes | None) -> ConsumerRecord:
    group = _read(ConsumerGroupTargetAssignmentMetadataKey, 6, key).group_id
    if value is None:
        return TargetEpochRecord(group, None)
    found = _read(ConsumerGroupTargetAssignmentMetadataValue, VALUE_VERSION, value)
    return TargetEpochRecord(group, found.assignment_epoch)


def _read_target(key: bytes, value: bytes | None) -> ConsumerRecord:
    found = _read(ConsumerGroupTargetAssignmentMemberKey, 7, key)
    if value is None:
        return TargetRecord(found.group_id, found.member_id, None)
    target = _read(ConsumerGroupTargetAssignmentMemberValue, VALUE_VERSION, value)
    return TargetRecord(found.group_id, found.member_id, _assignment(target.topic_partitions))


def _read_current(key: bytes, value: bytes | None) -> ConsumerRecord:
    found = _read(ConsumerGroupCurrentMemberAssignmentKey, 8, key)
    if value is None:
        return CurrentRecord(found.group_id, found.member_id, None)
    has = _read(ConsumerGroupCurrentMemberAssignmentValue, VALUE_VERSION, value)
    known = has.state in (
        MemberState.STABLE,
        MemberState.UNREVOKED_PARTITIONS,
        MemberState.UNRELEASED_PARTITIONS,
    )
    current = Current(
        has.member_epoch,
        has.previous_member_epoch,
        MemberState(has.state) if known else MemberState.UNKNOWN,
        _assignment(has.assigned_partitions),
        _assignment(has.partitions_pending_revocation),
    )
    return CurrentRecord(found.group_id, found.member_id, current)


def _read_regex(key: bytes, value: bytes | None) -> ConsumerRecord:
    found = _read(ConsumerGroupRegularExpressionKey, 16, key)
    if value is None:
        return RegexRecord(found.group_id, found.regular_expression, None)
    resolved = _read(ConsumerGroupRegularExpressionValue, VALUE_VERSION, value)
    regex = ResolvedRegex(tuple(resolved.topics), resolved.version, resolved.timestamp)
    return RegexRecord(found.group_id, found.regular_expression, regex)


def _assignment(topics: list[AssignedTopic]) -> Assignment:
    return {bytes(one.topic_id): tuple(one.partitions) for one in topics}


_DECODERS: dict[int, Callable[[bytes, bytes | None], ConsumerRecord]] = {
    3: _read_epoch,
    4: _read_partition_metadata,
    5: _read_member,
    6: _read_target_epoch,
    7: _read_target,
    8: _read_current,
    16: _read_regex,
}
KINDS = frozenset(_DECODERS)
