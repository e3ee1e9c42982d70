"""Heartbeat (key 12), versions 0-4.

A member of a group is alive, and hears whether the group rebalances.
v1 throttle time. v2 answers before it throttles. v3 static members (KIP-345). v4 flexible.
"""

from odradek.protocol.fields import int16, int32, string
from odradek.protocol.schema import Request, Response


class HeartbeatRequest(Request, key=12, versions="0-4", flexible="4+", flat=True):
    group_id: str = string("0+")
    generation_id: int = int32("0+")
    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Response, key=12, versions="0-4", flexible="4+", flat=True):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("0+")
