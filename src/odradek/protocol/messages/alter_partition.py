"""AlterPartition (key 56), versions 0-3.

A leader asks the controller to change the ISR (KIP-497).
v1 leader recovery state (KIP-704). v2 topic ids instead of names; may answer INELIGIBLE_REPLICA,
NEW_LEADER_ELECTED (KIP-841). v3 the new ISR with the broker epoch of each member (KIP-903).
`eligible_leader_replicas` is ours, as in LeaderAndIsr.
"""

from odradek.protocol.fields import FIRST_OWN_TAG, Struct, array, int8, int16, int32, int64, string, uuid
from odradek.protocol.schema import Request, Response


class BrokerState(Struct):
    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


class AlterPartitionRequestPartitionData(Struct):
    partition_index: int = int32("0+")
    leader_epoch: int = int32("0+")
    new_isr: list[int] = array("int32", "0-2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8("1+")
    partition_epoch: int = int32("0+")


class AlterPartitionRequestTopicData(Struct):
    topic_name: str = string("0-1")
    topic_id: bytes = uuid("2+")
    partitions: list[AlterPartitionRequestPartitionData] = array(AlterPartitionRequestPartitionData, "0+")


class AlterPartitionRequest(Request, key=56, versions="0-3", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    topics: list[AlterPartitionRequestTopicData] = array(AlterPartitionRequestTopicData, "0+")


class AlterPartitionResponsePartitionData(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    leader_id: int = int32("0+")
    leader_epoch: int = int32("0+")
    isr: list[int] = array("int32", "0+")
    leader_recovery_state: int = int8("1+")
    partition_epoch: int = int32("0+")
    eligible_leader_replicas: list[int] = array("int32", "0+", tag=FIRST_OWN_TAG)


class AlterPartitionResponseTopicData(Struct):
    topic_name: str = string("0-1")
    topic_id: bytes = uuid("2+")
    partitions: list[AlterPartitionResponsePartitionData] = array(AlterPartitionResponsePartitionData, "0+")


class AlterPartitionResponse(Response, key=56, versions="0-3", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    topics: list[AlterPartitionResponseTopicData] = array(AlterPartitionResponseTopicData, "0+")
