"""DeleteGroups (key 42), versions 0-2.

Removes groups without members, and their offsets.

v0 the first (KIP-229).
v1 the response leaves before the client is throttled (KIP-219).
v2 flexible.
"""

from typing import TYPE_CHECKING, Any

from odradek.broker.answers import Answer
from odradek.broker.coordinator_calls import ask_about
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    asked = DeleteGroupsRequest.decode(request.api_version, request.body, budget=request.budget)
    names = list(dict.fromkeys(asked.groups_names))

    def message_of(some: list[str]) -> DeleteGroupsRequest:
        return DeleteGroupsRequest(groups_names=some)

    def merge(answers: list[Any]) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(results=[row for answer in answers for row in answer.results])

    return ask_about(broker.groups, broker.slices, request, names, message_of, merge, now_ms)
