"""DeleteTopics (key 20), versions 1-6.

Topics to delete; the controller decides.
v1 throttle time. v2 answers before it throttles. v3 may answer TOPIC_DELETION_DISABLED. v4 flexible.
v5 error message, THROTTLING_QUOTA_EXCEEDED (KIP-599). v6 by name or by id (KIP-516).
"""

from odradek.protocol.fields import Struct, array, int16, int32, string, uuid
from odradek.protocol.schema import Request, Response


class DeleteTopicState(Struct):
    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+")


class DeleteTopicsRequest(Request, key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array("string", "0-5")
    timeout_ms: int = int32("0+")


class DeletableTopicResult(Struct):
    name: str | None = string("0+", nullable="6+")
    topic_id: bytes = uuid("6+")
    error_code: int = int16("0+")
    error_message: str | None = string("5+", nullable="5+", default=None)


class DeleteTopicsResponse(Response, key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    responses: list[DeletableTopicResult] = array(DeletableTopicResult, "0+")
