"""ConsumerGroupHeartbeat (key 68), versions 0-1.

The one request of members of consumer groups (KIP-848): join, live, own partitions, leave.

v0 topics by name; the coordinator may name the member.
v1 regular expressions (RE2's syntax); the member names itself.
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.broker.coordinator_calls import ask_one
from odradek.coordinator.refusals import refuse
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = ConsumerGroupHeartbeatRequest.decode(version, request.body, budget=request.budget)
    if not broker.settings.offers_consumer_groups:
        return Reply([refuse(asked, version, ErrorCode.UNSUPPORTED_VERSION).encode(version)])
    return ask_one(broker.groups, request, asked, asked.group_id, now_ms)
