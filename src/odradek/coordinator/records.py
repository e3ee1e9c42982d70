"""Records of `__consumer_offsets` as values, and as the bytes Apache Kafka writes."""

from functools import lru_cache
from struct import Struct, error
from typing import Any, NamedTuple

from odradek.coordinator import consumer_records
from odradek.coordinator.consumer_records import ConsumerRecord
from odradek.coordinator.record_tables import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import MAX_STRING_BYTES, unencodable

OFFSET_KINDS = (0, 1)
GROUP_KIND = 2
OFFSET_VALUE_VERSION = 3
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1
GROUP_VALUE_VERSION = 3
NEWEST_VALUE = 4

NEVER_EXPIRES = -1
_VERSION = Struct(">h")
_KEY_HEAD = Struct(">hh")  # kind, length of the group's name
_VALUE_HEAD = Struct(">hqih")  # version, offset, leader epoch, length of the metadata
_TIME = Struct(">q")
_MEMBER_TAIL = Struct(">iii")  # rebalance and session time-out, length of the subscription
_COUNT = Struct(">i")
_COUNT_SIZE = 4
_PARTITION_SIZE = 4
_new: Any = tuple.__new__


class OffsetKey(NamedTuple):
    group: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    group: str


class CommittedOffset(NamedTuple):
    """Times in milliseconds since 1970; `expires_at_ms` -1: as long as the broker's retention says."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    expires_at_ms: int = NEVER_EXPIRES


class StoredMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


# In place of a time: the generation has members, and is not to stand. Apache's records have it where they know no time.
IN_NO_STATE = -1


class StoredGroup(NamedTuple):
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_since_ms: int
    members: tuple[StoredMember, ...]


class OffsetRecord(NamedTuple):
    key: OffsetKey
    value: CommittedOffset | None  # None: a tombstone


class GroupRecord(NamedTuple):
    key: GroupKey
    value: StoredGroup | None


CoordinatorRecord = OffsetRecord | GroupRecord | ConsumerRecord


def encode(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Key and value; a value of None is a tombstone."""
    if isinstance(record, OffsetRecord):
        return _offset_key(record.key), _offset_value(record.value)
    if not isinstance(record, GroupRecord):
        return consumer_records.encode(record)
    key = GroupMetadataKey(group=record.key.group)
    return _VERSION.pack(GROUP_KIND) + key.encode(GROUP_KIND), _group_value(record.value)


def decode(key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
    """None: a kind this coordinator does not know, which a later one may have written. MalformedMessage: no record."""
    if key is None:
        raise MalformedMessage("a record of the groups' topic without a key")
    if value is not None and (plain := plain_offset(key, value)) is not None:
        return plain
    kind = _version(key, "key")
    if kind in OFFSET_KINDS:
        found = OffsetCommitKey.decode(kind, key, _VERSION.size)
        return OffsetRecord(OffsetKey(found.group, found.topic, found.partition), _read_offset(value))
    if kind == GROUP_KIND:
        return GroupRecord(
            GroupKey(GroupMetadataKey.decode(kind, key, _VERSION.size).group), _read_group(value)
        )
    if kind in consumer_records.KINDS:
        return consumer_records.decode(kind, key, value)
    if kind < 0:
        raise MalformedMessage(f"key version {kind}")
    return None


def plain_offset(key: bytes, value: bytes) -> OffsetRecord | None:
    """An offset as it is written, key 1 and value 3, without the tables: of these a coordinator loads a million. None: it is
    something else, or not in order; then the tables say what."""
    try:
        group, topic = names_of_offset_key(key[:-_PARTITION_SIZE])
        version, offset, leader_epoch, length = _VALUE_HEAD.unpack_from(value)
        ends = _VALUE_HEAD.size + length
        if version != OFFSET_VALUE_VERSION or length < 0 or len(value) != ends + _TIME.size:
            return None
        metadata = value[_VALUE_HEAD.size : ends].decode() if length else ""
        (committed_at_ms,) = _TIME.unpack_from(value, ends)
    except (error, UnicodeDecodeError, ValueError):
        return None
    partition = int.from_bytes(key[-_PARTITION_SIZE:], "big", signed=True)
    # `tuple.__new__` is what the constructors of named tuples call, through one frame more each.
    where = _new(OffsetKey, (group, topic, partition))
    what = _new(CommittedOffset, (offset, leader_epoch, metadata, committed_at_ms, NEVER_EXPIRES))
    record: OffsetRecord = _new(OffsetRecord, (where, what))
    return record


@lru_cache(maxsize=1024)
def names_of_offset_key(head: bytes) -> tuple[str, str]:
    """Group and topic of the key 1 of an offset, which is given without its partition; one pair of strings for all partitions.
    ValueError, struct.error: they do not fill it, or it is of another kind."""
    kind, size = _KEY_HEAD.unpack_from(head)
    at = _KEY_HEAD.size + size
    (topic_size,) = _VERSION.unpack_from(head, at)
    begin = at + _VERSION.size
    if kind != 1 or size < 0 or topic_size < 0 or len(head) != begin + topic_size:
        raise ValueError
    return head[_KEY_HEAD.size : at].decode(), head[begin:].decode()


def _version(data: bytes, what: str) -> int:
    if len(data) < _VERSION.size:
        raise MalformedMessage(f"a {what} of {len(data)} bytes has no version")
    return int(_VERSION.unpack_from(data)[0])


def _value_version(value: bytes) -> int:
    version = _version(value, "value")
    if not 0 <= version <= NEWEST_VALUE:
        raise MalformedMessage(f"value version {version}; known are 0-{NEWEST_VALUE}")
    return version


@lru_cache(maxsize=1024)
def offset_key_head(group: str, topic: str) -> bytes:
    """The key of an offset but for its last bytes, which are the partition."""
    kind = OFFSET_KINDS[-1]
    key = _VERSION.pack(kind) + OffsetCommitKey(group=group, topic=topic, partition=0).encode(kind)
    return key[:-_PARTITION_SIZE]


def _offset_key(key: OffsetKey) -> bytes:
    return offset_key_head(key.group, key.topic) + key.partition.to_bytes(_PARTITION_SIZE, "big", signed=True)


def _offset_value(value: CommittedOffset | None) -> bytes | None:
    if value is None:
        return None
    expires = value.expires_at_ms != NEVER_EXPIRES
    version = OFFSET_VALUE_VERSION_WITH_EXPIRY if expires else OFFSET_VALUE_VERSION
    message = OffsetCommitValue(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp=value.committed_at_ms,
        expire_timestamp=value.expires_at_ms,
    )
    return _VERSION.pack(version) + message.encode(version)


def _read_offset(value: bytes | None) -> CommittedOffset | None:
    if value is None:
        return None
    found = OffsetCommitValue.decode(_value_version(value), value, _VERSION.size)
    return CommittedOffset(
        found.offset, found.leader_epoch, found.metadata, found.commit_timestamp, found.expire_timestamp
    )


def _group_value(value: StoredGroup | None) -> bytes | None:
    if value is None:
        return None
    head = GroupMetadataValue(
        protocol_type=value.protocol_type,
        generation=value.generation,
        protocol=value.protocol,
        leader=value.leader,
        current_state_timestamp=value.state_since_ms,
        members=[],
    ).encode(GROUP_VALUE_VERSION)
    # Members stand last, and a group may have ten thousand: no object for each.
    count = len(value.members).to_bytes(_COUNT_SIZE, "big")
    members = b"".join(map(_member, value.members))
    return _VERSION.pack(GROUP_VALUE_VERSION) + head[:-_COUNT_SIZE] + count + members


def _member(member: StoredMember) -> bytes:
    """As the table of `MemberMetadata` says, version 3."""
    instance = b"" if member.instance_id is None else member.instance_id.encode()
    member_id, client_id, host = (
        member.member_id.encode(),
        member.client_id.encode(),
        member.client_host.encode(),
    )
    longest = max(len(member_id), len(instance), len(client_id), len(host))
    if longest > MAX_STRING_BYTES:
        raise unencodable("member", longest)
    return b"".join(
        (
            _VERSION.pack(len(member_id)),
            member_id,
            _VERSION.pack(-1 if member.instance_id is None else len(instance)),
            instance,
            _VERSION.pack(len(client_id)),
            client_id,
            _VERSION.pack(len(host)),
            host,
            _MEMBER_TAIL.pack(
                member.rebalance_timeout_ms, member.session_timeout_ms, len(member.subscription)
            ),
            member.subscription,
            _COUNT.pack(len(member.assignment)),
            member.assignment,
        )
    )


def _read_group(value: bytes | None) -> StoredGroup | None:
    if value is None:
        return None
    version = _value_version(value)
    found = GroupMetadataValue.decode(version, value, _VERSION.size)
    members = tuple(
        StoredMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            # Version 0 had one time-out for both.
            member.rebalance_timeout if version else member.session_timeout,
            member.session_timeout,
            bytes(member.subscription),
            bytes(member.assignment),
        )
        for member in found.members
    )
    return StoredGroup(
        found.protocol_type,
        found.generation,
        found.protocol,
        found.leader,
        found.current_state_timestamp,
        members,
    )
