"""ConsumerGroupDescribe (key 69), versions 0-1.

Epochs, members and assignments of consumer groups (KIP-848). Another group, or none, is GROUP_ID_NOT_FOUND.

v0 groups by name, and whether to name the operations the client may use.
v1 which protocol a member speaks.
"""

from typing import TYPE_CHECKING, Any

from odradek.broker.answers import Answer, Reply
from odradek.broker.coordinator_calls import ask_each, by_partition
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
    parts = {
        index: ConsumerGroupDescribeRequest(
            group_ids=names, include_authorized_operations=asked.include_authorized_operations
        )
        for index, names in by_partition(broker.groups, wanted).items()
    }

    def merge(answers: list[Any]) -> ConsumerGroupDescribeResponse:
        found = {group.group_id: group for answer in answers for group in answer.groups}
        return ConsumerGroupDescribeResponse(groups=[found[name] for name in wanted])

    return ask_each(broker.groups, request, parts, merge, now_ms)
