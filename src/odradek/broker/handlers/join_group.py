"""JoinGroup (key 11), versions 2-9.

Parked until the members of the group have joined.

v2 throttle time.
v3 the response leaves before the client is throttled (KIP-219).
v4 a member without an id is given one first: MEMBER_ID_REQUIRED (KIP-394).
v5 static members (KIP-345).
v6 flexible.
v7 protocol type in the answer (KIP-559).
v8 reason (KIP-800).
v9 the leader may be told to leave the assignment as it is (KIP-814).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer
from odradek.broker.coordinator_calls import ask_one
from odradek.protocol.messages.join_group import JoinGroupRequest

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    asked = JoinGroupRequest.decode(request.api_version, request.body, budget=request.budget)
    return ask_one(broker.groups, request, asked, asked.group_id, now_ms)
