"""JoinGroup (key 11), versions 2-9.

A member enters a group, or enters again when it rebalances.
v2 throttle time. v3 answers before it throttles. v4 a member without an id is told one first:
MEMBER_ID_REQUIRED (KIP-394). v5 static members (KIP-345). v6 flexible. v7 protocol type in the answer
(KIP-559). v8 reason (KIP-800). v9 the leader may be told to skip the assignment (KIP-814).
"""

from odradek.protocol.fields import Struct, array, binary, boolean, int16, int32, string
from odradek.protocol.schema import Request, Response


class JoinGroupRequestProtocol(Struct):
    name: str = string("0+")
    metadata: bytes = binary("0+")


class JoinGroupRequest(Request, key=11, versions="2-9", flexible="6+"):
    group_id: str = string("0+")
    session_timeout_ms: int = int32("0+")
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string("0+")
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol, "0+")
    reason: str | None = string("8+", nullable="8+", default=None)


class JoinGroupResponseMember(Struct):
    member_id: str = string("0+")
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    metadata: bytes = binary("0+")


class JoinGroupResponse(Response, key=11, versions="2-9", flexible="6+"):
    throttle_time_ms: int = int32("2+")
    error_code: int = int16("0+")
    generation_id: int = int32("0+", default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None)
    protocol_name: str | None = string("0+", nullable="7+")
    leader: str = string("0+")
    skip_assignment: bool = boolean("9+")
    member_id: str = string("0+")
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember, "0+")
