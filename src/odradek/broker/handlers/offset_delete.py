"""OffsetDelete (key 47), version 0.

Forgets committed offsets of topics that the group does not subscribe to (KIP-496).

v0 the only one (KIP-496).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer
from odradek.broker.coordinator_calls import ask_one
from odradek.protocol.messages.offset_delete import OffsetDeleteRequest

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    asked = OffsetDeleteRequest.decode(request.api_version, request.body, budget=request.budget)
    return ask_one(broker.groups, request, asked, asked.group_id, now_ms)
