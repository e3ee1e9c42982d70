"""UpdateMetadata (key 6), versions 0-8.

The controller tells a broker what to answer in Metadata.
v0 one host and port per broker. v1 an endpoint per listener. v2 rack. v3 listener names. v4 offline
replicas. v5 broker epoch (KIP-380), partitions grouped by topic. v6 flexible. v7 topic ids (KIP-516).
v8 says whether a KRaft controller sends it (KIP-866), full or incremental in a tag.
"""

from odradek.protocol.fields import Struct, array, boolean, int8, int16, int32, int64, string, uuid
from odradek.protocol.schema import Request, Response

# `type` of v8: a full one names every partition there is. Apache's brokers heed it of KRaft controllers only.
UNKNOWN, FULL = 0, 2


class UpdateMetadataPartitionState(Struct):
    topic_name: str = string("0-4")
    partition_index: int = int32("0+")
    controller_epoch: int = int32("0+")
    leader: int = int32("0+")
    leader_epoch: int = int32("0+")
    isr: list[int] = array("int32", "0+")
    zk_version: int = int32("0+")
    replicas: list[int] = array("int32", "0+")
    offline_replicas: list[int] = array("int32", "4+")


class UpdateMetadataTopicState(Struct):
    topic_name: str = string("5+")
    topic_id: bytes = uuid("7+")
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState, "5+")


class UpdateMetadataEndpoint(Struct):
    port: int = int32("1+")
    host: str = string("1+")
    listener: str = string("3+")
    security_protocol: int = int16("1+")


class UpdateMetadataBroker(Struct):
    id: int = int32("0+")
    v0_host: str = string("0")
    v0_port: int = int32("0")
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+")
    rack: str | None = string("2+", nullable="0+")


class UpdateMetadataRequest(Request, key=6, versions="0-8", flexible="6+"):
    controller_id: int = int32("0+")
    is_k_raft_controller: bool = boolean("8+")
    type: int = int8("8+", tag=0)
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("5+", default=-1)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, "0-4"
    )
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, "5+")
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker, "0+")


class UpdateMetadataResponse(Response, key=6, versions="0-8", flexible="6+"):
    error_code: int = int16("0+")
