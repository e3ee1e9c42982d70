"""Heartbeat (key 12), versions 0-4.

Keeps a member's session, and tells it whether it has to join again.

v0 member and generation.
v1 throttle time.
v2 the response leaves before the client is throttled (KIP-219).
v3 static members (KIP-345).
v4 flexible.
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer
from odradek.broker.coordinator_calls import ask_one
from odradek.protocol.messages.heartbeat import HeartbeatRequest

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    asked = HeartbeatRequest.decode(request.api_version, request.body, budget=request.budget)
    return ask_one(broker.groups, request, asked, asked.group_id, now_ms)
