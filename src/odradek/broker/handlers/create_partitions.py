"""CreatePartitions (key 37), versions 0-3. Only the controller answers; others NOT_CONTROLLER.

`count` is the total wanted. Replicas of the new partitions go on where the topic began, or are given. Each
topic has its own answer, when every new partition has a leader in this broker's cache or the time is out.
v2 flexible. v3 may answer THROTTLING_QUOTA_EXCEEDED (never does here).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.assignment import Assignment, assign_replicas
from odradek.broker.effects import AddPartitions, StoreFailed, StoreResult, TopicsWritten
from odradek.broker.leader_wait import TopicWait
from odradek.broker.topic_creation import MOST_PARTITIONS, check_manual, racks
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker, Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = CreatePartitionsRequest.decode(version, request.body)
    names = list(dict.fromkeys(topic.name for topic in asked.topics))
    rows: dict[str, CreatePartitionsTopicResult] = {}
    planned: dict[str, Assignment] = {}
    for name in names:
        same = [topic for topic in asked.topics if topic.name == name]
        try:
            if not broker.is_controller:
                raise ProtocolError(ErrorCode.NOT_CONTROLLER)
            if len(same) > 1:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            planned[name] = _plan(broker, same[0])
            rows[name] = CreatePartitionsTopicResult(name=name)
        except ProtocolError as refusal:
            message = refusal.message if refusal.message != refusal.code.name else None
            rows[name] = CreatePartitionsTopicResult(
                name=name, error_code=refusal.code, error_message=message
            )

    def encode(without_leaders: list[str]) -> bytes:
        for name in without_leaders:
            rows[name].error_code = ErrorCode.REQUEST_TIMED_OUT
            rows[name].error_message = "The partitions were added; not all of them have a leader yet."
        return CreatePartitionsResponse(results=[rows[name] for name in names]).encode(version)

    if asked.validate_only or not planned:
        return Reply([encode([])])
    park = Park()
    unanswered = set(planned)
    totals = {topic.name: topic.count for topic in asked.topics}

    def written_to(name: str, result: StoreResult, later_ms: int) -> None:
        unanswered.discard(name)
        if isinstance(result, TopicsWritten):
            error, message = result.results[name]
        else:
            error = ErrorCode.UNKNOWN_SERVER_ERROR
            message = (
                result.reason if isinstance(result, StoreFailed) else "the store answered something else"
            )
        rows[name].error_code = error
        rows[name].error_message = message or None
        if unanswered:
            return
        wait = TopicWait(
            broker,
            [topic for topic in planned if not rows[topic].error_code],
            is_over=lambda topic: broker.metadata.has_leaders(topic, totals[topic]),
            encode=encode,
            park=park,
        )
        wait.start(now_ms + max(asked.timeout_ms, 0), later_ms)

    for name, assignment in planned.items():

        def written(result: StoreResult, later_ms: int, name: str = name) -> None:
            written_to(name, result, later_ms)

        broker.ask_store(AddPartitions(name, assignment), written)
    return park


def _plan(broker: "Broker", topic: CreatePartitionsTopic) -> Assignment:
    existing = broker.metadata.topics.get(topic.name)
    if existing is None:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic.name}' does not exist.")
    now = len(existing)
    if topic.count == now:
        raise ProtocolError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partitions.")
    if topic.count < now:
        raise ProtocolError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {now} partitions, which is higher than the requested {topic.count}.",
        )
    if topic.count > MOST_PARTITIONS:
        raise ProtocolError(
            ErrorCode.INVALID_PARTITIONS,
            f"{topic.count} partitions asked for; one topic holds at most {MOST_PARTITIONS}.",
        )
    first = existing[min(existing)].replicas
    added = topic.count - now
    if topic.assignments is not None:
        if len(topic.assignments) != added:
            raise ProtocolError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Increasing the number of partitions by {added} but {len(topic.assignments)} assignments provided.",
            )
        manual = {now + place: row.broker_ids for place, row in enumerate(topic.assignments)}
        return check_manual(broker, manual, first_partition=now, replication_factor=len(first))
    live = racks(broker)
    brokers = sorted(live)
    start = next((place for place, broker_id in enumerate(brokers) if broker_id >= first[0]), 0)
    return assign_replicas(
        live,
        partitions=added,
        replication_factor=len(first),
        start=start,
        shift=start,
        first_partition=now,
    )
