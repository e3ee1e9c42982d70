"""LeaderAndIsr (key 4), versions 0-7.

The controller tells a broker which replicas it hosts, who leads them and who is in sync.
v0 and v1 list partitions flat, each with its topic name; since v2 they are grouped by topic. v1 is_new.
v2 broker epoch (KIP-380). v3 adding and removing replicas (KIP-455). v4 flexible. v5 topic ids, type full
or incremental; the answer is grouped by topic id (KIP-516). v6 leader recovery state (KIP-704). v7 says
whether a KRaft controller sends it (KIP-866). `eligible_leader_replicas` is ours (decisions/0011): Apache's brokers pass
over a tag they do not know.
"""

from odradek.protocol.fields import (
    FIRST_OWN_TAG,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)
from odradek.protocol.schema import Request, Response


class LeaderAndIsrPartitionState(Struct):
    topic_name: str = string("0-1")
    partition_index: int = int32("0+")
    controller_epoch: int = int32("0+")
    leader: int = int32("0+")
    leader_epoch: int = int32("0+")
    isr: list[int] = array("int32", "0+")
    partition_epoch: int = int32("0+")
    replicas: list[int] = array("int32", "0+")
    adding_replicas: list[int] = array("int32", "3+")
    removing_replicas: list[int] = array("int32", "3+")
    is_new: bool = boolean("1+")
    leader_recovery_state: int = int8("6+")
    eligible_leader_replicas: list[int] = array("int32", "4+", tag=FIRST_OWN_TAG)


class LeaderAndIsrTopicState(Struct):
    topic_name: str = string("2+")
    topic_id: bytes = uuid("5+")
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "2+")


class LeaderAndIsrLiveLeader(Struct):
    broker_id: int = int32("0+")
    host_name: str = string("0+")
    port: int = int32("0+")


class LeaderAndIsrRequest(Request, key=4, versions="0-7", flexible="4+"):
    controller_id: int = int32("0+")
    is_k_raft_controller: bool = boolean("7+")
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("2+", default=-1)
    type: int = int8("5+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "0-1")
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader, "0+")


class LeaderAndIsrPartitionError(Struct):
    topic_name: str = string("0-4")
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class LeaderAndIsrTopicError(Struct):
    topic_id: bytes = uuid("5+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "5+")


class LeaderAndIsrResponse(Response, key=4, versions="0-7", flexible="4+"):
    error_code: int = int16("0+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "0-4")
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+")
