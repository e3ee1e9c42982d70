"""The messages inside `__consumer_offsets`, as tables: keys and values of kinds 0-8 and 16.

A key begins with two bytes that are its version and its kind at once; a value with two bytes of version. Values
written: OffsetCommit 3 (1 where the client gave a retention), GroupMetadata 3, which Apache Kafka 3.9 reads; read
are all up to 4, which 4.x writes.
"""

from odradek.protocol.fields import Struct, array, binary, int8, int32, int64, string, struct, uuid
from odradek.protocol.schema import Message


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


# ------------------------------------------------------------------------- groups of KIP-848, kinds 3-8 and 16


class ConsumerGroupMetadataKey(Message, versions="3"):
    group_id: str = string("3+")


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    epoch: int = int32("0+")
    metadata_hash: int = int64("0+", tag=0)


class ConsumerGroupPartitionMetadataKey(Message, versions="4"):
    """Written by 3.9 alone; 4.x and ours write its tombstone where a group goes."""

    group_id: str = string("4+")


class ConsumerGroupMemberMetadataKey(Message, versions="5"):
    group_id: str = string("5+")
    member_id: str = string("5+")


class ClassicProtocol(Struct):
    name: str = string("0+")
    metadata: bytes = binary("0+")


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32("0+")
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol, "0+")


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array("string", "0+")
    subscribed_topic_regex: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    # Null is written, so what is absent never is: an empty one stands for it.
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, "0+", nullable="0+", tag=0
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions="6"):
    group_id: str = string("6+")


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    assignment_epoch: int = int32("0+")


class ConsumerGroupTargetAssignmentMemberKey(Message, versions="7"):
    group_id: str = string("7+")
    member_id: str = string("7+")


class AssignedTopic(Struct):
    topic_id: bytes = uuid("0+")
    partitions: list[int] = array("int32", "0+")


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    topic_partitions: list[AssignedTopic] = array(AssignedTopic, "0+")


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions="8"):
    group_id: str = string("8+")
    member_id: str = string("8+")


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[AssignedTopic] = array(AssignedTopic, "0+")
    partitions_pending_revocation: list[AssignedTopic] = array(AssignedTopic, "0+")


class ConsumerGroupRegularExpressionKey(Message, versions="16"):
    group_id: str = string("16+")
    regular_expression: str = string("16+")


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    topics: list[str] = array("string", "0+")
    version: int = int64("0+")
    timestamp: int = int64("0+")
