"""OffsetFetch (key 9), versions 1-9.

How far groups have read, as far as that is committed.

v1 offsets of the internal topic, not of ZooKeeper.
v2 an error of the whole, null for all topics.
v3 throttle time.
v4 the response leaves before the client is throttled (KIP-219).
v5 leader epochs (KIP-320).
v6 flexible.
v7 may ask for offsets that no open transaction is about to change (KIP-447).
v8 several groups, each once (KIP-709).
v9 member id and epoch (KIP-848).
"""

from typing import TYPE_CHECKING, Any

from odradek.broker.answers import Answer
from odradek.broker.coordinator_calls import ask_about, ask_one
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

FIRST_WITH_GROUPS = 8
# Asked about in one turn: each may have a thousand offsets that its coordinator tells at once, two milliseconds, and eight with as
# much metadata as there may be, in which most of that is to encode it.
GROUPS_AT_ONCE = 4


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = OffsetFetchRequest.decode(version, request.body, budget=request.budget)
    if version < FIRST_WITH_GROUPS:
        return ask_one(broker.groups, request, asked, asked.group_id, now_ms)
    wanted: dict[str, OffsetFetchRequestGroup] = {}
    again: list[OffsetFetchResponseGroup] = []
    for group in asked.groups:
        if wanted.setdefault(group.group_id, group) is not group:
            # A row may ask for all that a group has, a million offsets, and a request has room for thousands of rows.
            refused = OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.INVALID_REQUEST)
            again.append(refused)

    def message_of(some: list[str]) -> OffsetFetchRequest:
        return OffsetFetchRequest(groups=[wanted[name] for name in some], require_stable=asked.require_stable)

    def merge(answers: list[Any]) -> OffsetFetchResponse:
        return OffsetFetchResponse(groups=[*(group for answer in answers for group in answer.groups), *again])

    return ask_about(
        broker.groups,
        broker.slices,
        request,
        list(wanted),
        message_of,
        merge,
        now_ms,
        at_once=GROUPS_AT_ONCE,
    )
