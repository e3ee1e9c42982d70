"""DeleteGroups (key 42), versions 0-2.

Deletes empty consumer groups (KIP-229).
v1 answers before it throttles. v2 flexible.
"""

from odradek.protocol.fields import Struct, array, int16, int32, string
from odradek.protocol.schema import Request, Response


class DeleteGroupsRequest(Request, key=42, versions="0-2", flexible="2+"):
    groups_names: list[str] = array("string", "0+")


class DeletableGroupResult(Struct):
    group_id: str = string("0+")
    error_code: int = int16("0+")


class DeleteGroupsResponse(Response, key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    results: list[DeletableGroupResult] = array(DeletableGroupResult, "0+")
