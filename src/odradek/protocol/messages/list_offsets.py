"""ListOffsets (key 2), versions 1-9.

The offset that belongs to a timestamp, or the earliest or latest one.
v1 one offset and its timestamp. v2 isolation level, throttle time. v4 leader epochs (KIP-320). v5 may
answer OFFSET_NOT_AVAILABLE. v6 flexible. v7 timestamp -3: the greatest timestamp (KIP-734). v8 timestamp
-4: start of the local log (KIP-405). v9 timestamp -5: last tiered offset (KIP-1005).
"""

from odradek.protocol.fields import Struct, array, int8, int16, int32, int64, string
from odradek.protocol.schema import Request, Response


class ListOffsetsPartition(Struct):
    partition_index: int = int32("0+")
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64("0+")


class ListOffsetsTopic(Struct):
    name: str = string("0+")
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition, "0+")


class ListOffsetsRequest(Request, key=2, versions="1-9", flexible="6+"):
    replica_id: int = int32("0+")
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic, "0+")


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = string("0+")
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse, "0+")


class ListOffsetsResponse(Response, key=2, versions="1-9", flexible="6+"):
    throttle_time_ms: int = int32("2+")
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse, "0+")
