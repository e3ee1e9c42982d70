"""LeaveGroup (key 13), versions 0-5.

Members that go on their own.

v0 one member.
v1 throttle time.
v2 the response leaves before the client is throttled (KIP-219).
v3 several members, by id or instance (KIP-345).
v4 flexible.
v5 reason (KIP-800).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer
from odradek.broker.coordinator_calls import ask_one
from odradek.protocol.messages.leave_group import LeaveGroupRequest

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    asked = LeaveGroupRequest.decode(request.api_version, request.body, budget=request.budget)
    return ask_one(broker.groups, request, asked, asked.group_id, now_ms)
