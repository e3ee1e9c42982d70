"""ListGroups (key 16), versions 0-5.

The groups that this broker coordinates; COORDINATOR_LOAD_IN_PROGRESS while some are still being loaded.

v0 ids and protocol types.
v1 throttle time.
v2 the response leaves before the client is throttled (KIP-219).
v3 flexible.
v4 states, and a filter of them (KIP-518).
v5 types, and a filter of them (KIP-848).
"""

from typing import TYPE_CHECKING, Any

from odradek.broker.answers import Answer
from odradek.broker.coordinator_calls import ask_all
from odradek.coordinator.describing import with_known_filters
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    asked = ListGroupsRequest.decode(request.api_version, request.body, budget=request.budget)

    def merge(answers: list[Any]) -> ListGroupsResponse:
        errors = [answer.error_code for answer in answers if answer.error_code]
        groups = [group for answer in answers for group in answer.groups]
        return ListGroupsResponse(error_code=errors[0] if errors else ErrorCode.NONE, groups=groups)

    return ask_all(broker.groups, broker.slices, request, with_known_filters(asked), merge, now_ms)
