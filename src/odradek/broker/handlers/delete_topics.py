"""DeleteTopics (key 20), versions 1-6. Only the controller answers; others NOT_CONTROLLER.

Writes `/admin/delete_topics/<t>`; the controller does the rest. Answered when the topic has left this broker's cache
(UpdateMetadata with leader -2), or REQUEST_TIMED_OUT (at once where `timeout_ms` is 0 or less); files go later.

v1 throttle time. Where `delete.topic.enable` is false: INVALID_REQUEST.
v2 the response leaves before the client is throttled (KIP-219).
v3 TOPIC_DELETION_DISABLED there.
v4 flexible.
v5 error messages, THROTTLING_QUOTA_EXCEEDED (KIP-599).
v6 by name or by topic id (KIP-516).
"""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.effects import DeleteTopics, StoreFailed, StoreResult, TopicsWritten
from odradek.broker.leader_wait import TopicWait
from odradek.broker.slices import answer_in_slices
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import NO_TOPIC_ID, TopicId
from odradek.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

FIRST_BY_STATE = 6
FIRST_WITH_DISABLED = 3
STRICT_QUOTA_SINCE = 5
# Topics that are looked at in one turn: a millisecond or two.
AT_ONCE = 500


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = DeleteTopicsRequest.decode(version, request.body, budget=request.budget)
    states = asked.topics
    if version < FIRST_BY_STATE:
        states = [DeleteTopicState(name=name) for name in dict.fromkeys(asked.topic_names)]
    quota = broker.mutation_quota(request, strict_since=STRICT_QUOTA_SINCE, now_ms=now_ms)
    times = Counter(_name_of(broker, state) for state in states)
    rows: list[DeletableTopicResult] = []
    accepted: dict[str, DeletableTopicResult] = {}
    ids: dict[str, TopicId] = {}

    def steps() -> Iterator[None]:
        for place, state in enumerate(states):
            if place and not place % AT_ONCE:
                yield
            row = DeletableTopicResult(name=state.name, topic_id=state.topic_id)
            rows.append(row)
            try:
                name = _accept(broker, version, state)
                if times[name] > 1:
                    raise ProtocolError(ErrorCode.INVALID_REQUEST, "Duplicate topic name or topic id.")
                if not quota.take(len(broker.metadata.topics[name])):
                    raise ProtocolError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            except ProtocolError as refusal:
                row.error_code = refusal.code
                row.error_message = refusal.message or None
                continue
            row.name = name
            row.topic_id = broker.metadata.topic_id(name)
            accepted[name] = row
            if state.name is None:
                ids[name] = TopicId(bytes(state.topic_id))

    def reply(still_there: list[str], later_ms: int) -> Reply:
        for name in still_there:
            accepted[name].error_code = ErrorCode.REQUEST_TIMED_OUT
            accepted[name].error_message = "The deletion was accepted and goes on."
        throttle_time_ms = quota.throttle_time_ms(later_ms)
        response = DeleteTopicsResponse(responses=rows, throttle_time_ms=throttle_time_ms)
        return Reply([response.encode(version)], throttle_time_ms)

    def delete() -> Answer:
        if not accepted:
            return reply([], broker.now_ms)
        park = Park()

        def written(result: StoreResult, later_ms: int) -> None:
            if not isinstance(result, TopicsWritten):
                reason = (
                    result.reason if isinstance(result, StoreFailed) else "the store answered something else"
                )
                result = TopicsWritten({name: (ErrorCode.UNKNOWN_SERVER_ERROR, reason) for name in accepted})
            for name, row in accepted.items():
                error, message = result.results[name]
                row.error_code = error
                row.error_message = message or None
            marked = [name for name, row in accepted.items() if not row.error_code]
            if asked.timeout_ms <= 0:
                park.answer(lambda: reply(marked, later_ms))
                return
            wait = TopicWait(
                broker,
                marked,
                is_over=lambda name: (
                    broker.metadata.topic_id(name) != accepted[name].topic_id
                    or name not in broker.metadata.topics
                ),
                reply=reply,
                park=park,
            )
            wait.start(now_ms + asked.timeout_ms, later_ms)

        broker.ask_store(DeleteTopics(tuple(accepted), ids), written)
        return park

    return answer_in_slices(broker.slices, steps(), delete)


def _name_of(broker: "Broker", state: DeleteTopicState) -> str | None:
    return state.name if state.name is not None else broker.metadata.names.get(bytes(state.topic_id))


def _accept(broker: "Broker", version: int, state: DeleteTopicState) -> str:
    """The topic's name, or ProtocolError."""
    if not broker.is_controller:
        raise ProtocolError(ErrorCode.NOT_CONTROLLER)
    if not broker.settings.delete_topic_enable:
        has_code = version >= FIRST_WITH_DISABLED
        raise ProtocolError(
            ErrorCode.TOPIC_DELETION_DISABLED if has_code else ErrorCode.INVALID_REQUEST,
            "delete.topic.enable is false on this broker.",
        )
    if state.name is not None and TopicId(bytes(state.topic_id)) != NO_TOPIC_ID:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "Topic name and topic ID can not both be specified.")
    name = _name_of(broker, state)
    if name is None:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_ID)
    if name not in broker.metadata.topics:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return name
