"""OffsetCommit (key 8), versions 2-9.

Stores how far a group has read; answered when that is committed.
v2-4 a retention. v3 throttle time. v6 leader epochs. v7 static members. v8 flexible. v9 epochs of KIP-848.
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer
from odradek.broker.coordinator_calls import ask_one
from odradek.protocol.messages.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    asked = OffsetCommitRequest.decode(request.api_version, request.body, budget=request.budget)
    return ask_one(broker.groups, request, asked, asked.group_id, now_ms)
