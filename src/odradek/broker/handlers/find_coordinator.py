"""FindCoordinator (key 10), versions 0-6.

Which broker coordinates a group or a transactional id: the leader of its partition of `__consumer_offsets`, or of
`__transaction_state`, which the first such request makes, once the controller has told which topics there are. Until that has leaders: COORDINATOR_NOT_AVAILABLE.

v0 of a group.
v1 key type (group 0, transaction 1), error message, throttle time.
v2 the response leaves before the client is throttled (KIP-219).
v3 flexible.
v4 several keys at once (KIP-699).
v5 TRANSACTION_ABORTABLE (KIP-890).
v6 share groups (KIP-932).
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.broker.aside import made_where_short
from odradek.broker.coordinator_calls import pieces_of
from odradek.broker.effects import CreateTopics, LogLine, StoreResult
from odradek.broker.internal_topics import PURPOSES, plan_internal_topic
from odradek.broker.slices import answer_in_slices
from odradek.coordinator.partitioning import partition_of
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from odradek.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

FIRST_WITH_KEYS = 4
FIRST_WITH_SHARE_GROUPS = 6
GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {GROUP: GROUPS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC}
# Of one turn: some two milliseconds. Longer answers are encoded by a thread.
KEYS_AT_ONCE = 500


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = FindCoordinatorRequest.decode(version, request.body, budget=request.budget)
    keys = asked.coordinator_keys if version >= FIRST_WITH_KEYS else [asked.key]
    topic = TOPICS.get(asked.key_type)
    metadata = broker.metadata
    if topic is not None and keys and not metadata.topics.get(topic) and metadata.knows_topics(now_ms):
        _create(broker, topic)  # once, however many keys there are
    if version >= FIRST_WITH_KEYS:
        rows: list[Coordinator] = []
        steps = _rows(broker, request.connection.listener, version, asked.key_type, keys, rows)
        return answer_in_slices(broker.slices, steps, lambda: _told(broker, rows, version))
    only = _find(broker, request.connection.listener, version, asked.key_type, keys[0])
    response = FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message if only.error_code else "NONE",
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
    return Reply([response.encode(version)])


def _rows(
    broker: "Broker", listener: str, version: int, key_type: int, keys: Sequence[str], rows: list[Coordinator]
) -> Iterator[None]:
    """Into `rows`; a step each KEYS_AT_ONCE, or fewer where they are long."""
    for some in pieces_of(keys, KEYS_AT_ONCE):
        if rows:
            yield
        rows += [_find(broker, listener, version, key_type, key) for key in some]


def _told(broker: "Broker", rows: list[Coordinator], version: int) -> Answer:
    response = FindCoordinatorResponse(coordinators=rows)
    return made_where_short(
        broker.aside, lambda: response.encode(version), broker.now_ms, is_short=len(rows) <= KEYS_AT_ONCE
    )


def _find(broker: "Broker", listener: str, version: int, key_type: int, key: str) -> Coordinator:
    if key_type == SHARE and version >= FIRST_WITH_SHARE_GROUPS:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    topic = TOPICS.get(key_type)
    if topic is None:
        return _refused(key, ErrorCode.INVALID_REQUEST)
    partitions = broker.metadata.topics.get(topic)
    if not partitions:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    found = partitions.get(partition_of(key, len(partitions)))
    endpoint = None if found is None else broker.metadata.endpoint(found.leader, listener)
    if found is None or endpoint is None:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(
        key=key, node_id=found.leader, host=endpoint.host, port=endpoint.port, error_message=""
    )


def _refused(key: str, error: ErrorCode) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=error, error_message=error.name)


def _create(broker: "Broker", topic: str) -> None:
    """As any broker may; the client asks again until there are leaders."""
    if topic in broker.being_created:
        return
    try:
        new = plan_internal_topic(broker, topic)
    except ProtocolError as refusal:
        of, setting = PURPOSES[topic]
        said = f"{topic} cannot be created, so no {of} is served: {refusal} Start more brokers, or set {setting}."
        broker.effects.append(LogLine("warning", said, key=f"uncreated {topic}"))
        return
    broker.being_created.add(topic)

    def answered(result: StoreResult, now_ms: int) -> None:
        broker.being_created.discard(topic)

    broker.ask_store(CreateTopics((new,)), answered)
