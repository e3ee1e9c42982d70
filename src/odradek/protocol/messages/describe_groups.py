"""DescribeGroups (key 15), versions 0-5.

State and members of consumer groups.
v1 throttle time. v2 answers before it throttles. v3 authorized operations (KIP-430). v4 static members
(KIP-345). v5 flexible.
"""

from odradek.protocol.fields import Struct, array, binary, boolean, int16, int32, string
from odradek.protocol.schema import Request, Response


class DescribeGroupsRequest(Request, key=15, versions="0-5", flexible="5+"):
    groups: list[str] = array("string", "0+")
    include_authorized_operations: bool = boolean("3+")


class DescribedGroupMember(Struct):
    member_id: str = string("0+")
    group_instance_id: str | None = string("4+", nullable="4+", default=None)
    client_id: str = string("0+")
    client_host: str = string("0+")
    member_metadata: bytes = binary("0+")
    member_assignment: bytes = binary("0+")


class DescribedGroup(Struct):
    error_code: int = int16("0+")
    group_id: str = string("0+")
    group_state: str = string("0+")
    protocol_type: str = string("0+")
    protocol_data: str = string("0+")
    members: list[DescribedGroupMember] = array(DescribedGroupMember, "0+")
    authorized_operations: int = int32("3+", default=-2147483648)


class DescribeGroupsResponse(Response, key=15, versions="0-5", flexible="5+"):
    throttle_time_ms: int = int32("1+")
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")
