"""ConsumerGroupDescribe (key 69), versions 0-1.

Epochs, members and assignments of consumer groups (KIP-848). Another group, or none, is GROUP_ID_NOT_FOUND.

v0 groups by name, and whether to name the operations the client may use.
v1 which protocol a member speaks.
"""

from typing import TYPE_CHECKING, Any

from odradek.broker.answers import Answer, Reply
from odradek.broker.coordinator_calls import ask_about
from odradek.coordinator.refusals import refuse
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = ConsumerGroupDescribeRequest.decode(version, request.body, budget=request.budget)
    if not broker.settings.offers_consumer_groups:
        return Reply([refuse(asked, version, ErrorCode.UNSUPPORTED_VERSION).encode(version)])
    wanted = dict.fromkeys(asked.group_ids)  # each once, as in DescribeGroups

    def message_of(some: list[str]) -> ConsumerGroupDescribeRequest:
        return ConsumerGroupDescribeRequest(
            group_ids=some, include_authorized_operations=asked.include_authorized_operations
        )

    def merge(answers: list[Any]) -> ConsumerGroupDescribeResponse:
        found = {group.group_id: group for answer in answers for group in answer.groups}
        return ConsumerGroupDescribeResponse(groups=[found[name] for name in wanted])

    return ask_about(broker.groups, broker.slices, request, list(wanted), message_of, merge, now_ms)
