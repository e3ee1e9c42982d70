"""Produce (key 0), versions 0-12.

Batches of records for the partitions this broker leads.
Versions 0-2 carry magic 0 and 1. They are known only so that each partition can be answered
UNSUPPORTED_VERSION: some librdkafka releases compress nothing unless ApiVersions says that Produce starts
at 0.
v1 throttle time. v2 log append time. v3 magic 2, transactional id. v4 may answer KAFKA_STORAGE_ERROR.
v5 log start offset. v7 may carry zstd (KIP-110). v8 errors per record (KIP-467). v9 flexible. v10 current
leader and its endpoint in tags, beside NOT_LEADER_OR_FOLLOWER (KIP-951). v11 may answer
TRANSACTION_ABORTABLE (KIP-890). v12 the broker adds partitions to the transaction itself (KIP-890).
"""

from odradek.protocol.fields import Struct, array, int16, int32, int64, record_bytes, string, struct
from odradek.protocol.primitives import Buffer
from odradek.protocol.schema import Request, Response


class PartitionProduceData(Struct):
    index: int = int32("0+")
    records: Buffer | None = record_bytes("0+", nullable="0+")


class TopicProduceData(Struct):
    name: str = string("0+")
    partition_data: list[PartitionProduceData] = array(PartitionProduceData, "0+")


class ProduceRequest(Request, key=0, versions="0-12", flexible="9+"):
    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16("0+")
    timeout_ms: int = int32("0+")
    topic_data: list[TopicProduceData] = array(TopicProduceData, "0+")


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    index: int = int32("0+")
    error_code: int = int16("0+")
    base_offset: int = int64("0+")
    log_append_time_ms: int = int64("2+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+")
    error_message: str | None = string("8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, "10+", tag=0)


class TopicProduceResponse(Struct):
    name: str = string("0+")
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse, "0+")


class NodeEndpoint(Struct):
    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", nullable="10+", default=None)


class ProduceResponse(Response, key=0, versions="0-12", flexible="9+"):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse, "0+")
    throttle_time_ms: int = int32("1+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)
