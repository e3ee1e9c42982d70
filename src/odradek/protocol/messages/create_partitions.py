"""CreatePartitions (key 37), versions 0-3.

More partitions for a topic; the controller decides.
v1 answers before it throttles. v2 flexible. v3 may answer THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from odradek.protocol.fields import Struct, array, boolean, int16, int32, string
from odradek.protocol.schema import Request, Response


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array("int32", "0+")


class CreatePartitionsTopic(Struct):
    name: str = string("0+")
    count: int = int32("0+")
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, "0+", nullable="0+"
    )


class CreatePartitionsRequest(Request, key=37, versions="0-3", flexible="2+"):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")


class CreatePartitionsTopicResult(Struct):
    name: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


class CreatePartitionsResponse(Response, key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+")
