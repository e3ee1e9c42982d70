"""DescribeGroups (key 15), versions 0-5.

What classic groups look like at this moment: state, members, assignments. An unknown group is Dead.

v0 state and members.
v1 throttle time.
v2 the response leaves before the client is throttled (KIP-219).
v3 operations that the client is allowed (KIP-430).
v4 static members (KIP-345).
v5 flexible.
"""

from typing import TYPE_CHECKING, Any

from odradek.broker.answers import Answer
from odradek.broker.coordinator_calls import ask_about
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    asked = DescribeGroupsRequest.decode(request.api_version, request.body, budget=request.budget)
    # Each once: a row may be a group of ten thousand members, and a request has room for five thousand rows.
    wanted = dict.fromkeys(asked.groups)

    def message_of(some: list[str]) -> DescribeGroupsRequest:
        return DescribeGroupsRequest(
            groups=some, include_authorized_operations=asked.include_authorized_operations
        )

    def merge(answers: list[Any]) -> DescribeGroupsResponse:
        found = {group.group_id: group for answer in answers for group in answer.groups}
        return DescribeGroupsResponse(groups=[found[name] for name in wanted])

    return ask_about(broker.groups, broker.slices, request, list(wanted), message_of, merge, now_ms)
