"""ElectLeaders (key 43), versions 0-2.

Preferred (0) or unclean (1) elections by hand (KIP-460).
v1 election type, top-level error code. v2 flexible.
"""

from odradek.protocol.fields import Struct, array, int8, int16, int32, string
from odradek.protocol.schema import Request, Response


class TopicPartitions(Struct):
    topic: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class ElectLeadersRequest(Request, key=43, versions="0-2", flexible="2+"):
    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+")
    timeout_ms: int = int32("0+", default=60000)


class PartitionResult(Struct):
    partition_id: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class ReplicaElectionResult(Struct):
    topic: str = string("0+")
    partition_result: list[PartitionResult] = array(PartitionResult, "0+")


class ElectLeadersResponse(Response, key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult, "0+")
