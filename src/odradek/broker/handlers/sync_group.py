"""SyncGroup (key 14), versions 0-5.

The leader brings the assignment, everybody takes his part of it; parked until it is stored.

v0 assignments of one generation.
v1 throttle time.
v2 the response leaves before the client is throttled (KIP-219).
v3 static members (KIP-345).
v4 flexible.
v5 protocol type and name (KIP-559).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer
from odradek.broker.coordinator_calls import ask_one
from odradek.protocol.messages.sync_group import SyncGroupRequest

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    asked = SyncGroupRequest.decode(request.api_version, request.body, budget=request.budget)
    return ask_one(broker.groups, request, asked, asked.group_id, now_ms)
