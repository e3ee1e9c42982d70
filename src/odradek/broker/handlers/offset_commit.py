"""OffsetCommit (key 8), versions 2-9.

Stores how far a group has read; answered when that is committed.

v2 retention time of these offsets, where it is not -1.
v3 throttle time.
v4 the response leaves before the client is throttled (KIP-219).
v5 no retention time: `offsets.retention.minutes` decides (KIP-211).
v6 leader epochs (KIP-320).
v7 static members (KIP-345).
v8 flexible.
v9 epochs of members (KIP-848).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer
from odradek.broker.coordinator_calls import ask_one
from odradek.broker.large_commits import refusal_of_large
from odradek.protocol.messages.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    refusal = refusal_of_large(broker, request, OffsetCommitRequest)
    if refusal is not None:
        return refusal
    asked = OffsetCommitRequest.decode(request.api_version, request.body, budget=request.budget)
    return ask_one(broker.groups, request, asked, asked.group_id, now_ms)
