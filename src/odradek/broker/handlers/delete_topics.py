"""DeleteTopics (key 20), versions 1-6. Only the controller answers; others NOT_CONTROLLER.

Writes `/admin/delete_topics/<t>`; the controller does the rest. Answered when the topic has left this
broker's cache (UpdateMetadata with leader -2), or REQUEST_TIMED_OUT; files go later.
v3 TOPIC_DELETION_DISABLED where `delete.topic.enable` is false, before that INVALID_REQUEST. v5 messages.
v6 by topic id.
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.effects import DeleteTopics, StoreFailed, StoreResult, TopicsWritten
from odradek.broker.leader_wait import TopicWait
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
    from odradek.broker.core import Broker, Request

FIRST_BY_STATE = 6
FIRST_WITH_DISABLED = 3


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = DeleteTopicsRequest.decode(version, request.body)
    states = asked.topics
    if version < FIRST_BY_STATE:
        states = [DeleteTopicState(name=name) for name in dict.fromkeys(asked.topic_names)]
    rows: list[DeletableTopicResult] = []
    accepted: dict[str, DeletableTopicResult] = {}
    for state in states:
        row = DeletableTopicResult(name=state.name, topic_id=state.topic_id)
        rows.append(row)
        try:
            name = _accept(broker, version, state, states)
        except ProtocolError as refusal:
            row.error_code = refusal.code
            row.error_message = refusal.message if refusal.message != refusal.code.name else None
            continue
        row.name = name
        row.topic_id = broker.metadata.topic_id(name)
        accepted[name] = row
    if not accepted:
        return Reply([DeleteTopicsResponse(responses=rows).encode(version)])

    def encode(still_there: list[str]) -> bytes:
        for name in still_there:
            accepted[name].error_code = ErrorCode.REQUEST_TIMED_OUT
            accepted[name].error_message = "The deletion was accepted and goes on."
        return DeleteTopicsResponse(responses=rows).encode(version)

    park = Park()

    def written(result: StoreResult, later_ms: int) -> None:
        if not isinstance(result, TopicsWritten):
            reason = result.reason if isinstance(result, StoreFailed) else "the store answered something else"
            result = TopicsWritten({name: (ErrorCode.UNKNOWN_SERVER_ERROR, reason) for name in accepted})
        for name, row in accepted.items():
            error, message = result.results[name]
            row.error_code = error
            row.error_message = message or None
        wait = TopicWait(
            broker,
            [name for name, row in accepted.items() if not row.error_code],
            is_over=lambda name: (
                broker.metadata.topic_ids.get(name) != accepted[name].topic_id
                or name not in broker.metadata.topics
            ),
            encode=encode,
            park=park,
        )
        wait.start(now_ms + max(asked.timeout_ms, 0), later_ms)

    broker.ask_store(DeleteTopics(tuple(accepted)), written)
    return park


def _accept(broker: "Broker", version: int, state: DeleteTopicState, states: list[DeleteTopicState]) -> str:
    """The topic's name, or ProtocolError."""
    if not broker.is_controller:
        raise ProtocolError(ErrorCode.NOT_CONTROLLER)
    if not broker.settings.delete_topic_enable:
        has_code = version >= FIRST_WITH_DISABLED
        raise ProtocolError(
            ErrorCode.TOPIC_DELETION_DISABLED if has_code else ErrorCode.INVALID_REQUEST,
            "delete.topic.enable is false on this broker.",
        )
    topic_id = TopicId(bytes(state.topic_id))
    if state.name is not None and topic_id != NO_TOPIC_ID:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "Topic name and topic id can not both be present.")
    if state.name is None:
        name = broker.metadata.names.get(topic_id)
        if name is None:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_ID)
    else:
        name = state.name
        if name not in broker.metadata.topics:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    names = [
        other.name if other.name is not None else broker.metadata.names.get(bytes(other.topic_id))
        for other in states
    ]
    if names.count(name) > 1:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "Duplicate topic name or topic id.")
    return name
