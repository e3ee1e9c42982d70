"""The messages inside `__consumer_offsets`, as tables: keys and values of kinds 0, 1 and 2.

A key begins with two bytes that are its version and its kind at once; a value with two bytes of version. Values
written: OffsetCommit 3 (1 where the client gave a retention), GroupMetadata 3, which Apache Kafka 3.9 reads; read
are all up to 4, which 4.x writes.
"""

from odradek.protocol.schema import Message, Struct, array, binary, int32, int64, string, uuid


class OffsetCommitKey(Message, versions="0-1"):
    group: str = string("0+")
    topic: str = string("0+")
    partition: int = int32("0+")


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    offset: int = int64("0+")
    leader_epoch: int = int32("3+", default=-1)
    metadata: str = string("0+")
    commit_timestamp: int = int64("0+")
    expire_timestamp: int = int64("1", default=-1)
    topic_id: bytes = uuid("4+", tag=0)


class GroupMetadataKey(Message, versions="2"):
    group: str = string("2+")


class MemberMetadata(Struct):
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout: int = int32("1+", default=-1)
    session_timeout: int = int32("0+")
    subscription: bytes = binary("0+")
    assignment: bytes = binary("0+")


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    protocol_type: str = string("0+")
    generation: int = int32("0+")
    protocol: str | None = string("0+", nullable="0+", default=None)
    leader: str | None = string("0+", nullable="0+", default=None)
    current_state_timestamp: int = int64("2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata, "0+")
