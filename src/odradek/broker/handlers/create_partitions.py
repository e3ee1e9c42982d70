"""CreatePartitions (key 37), versions 0-3. Only the controller answers; others NOT_CONTROLLER.

`count` is the total wanted. Replicas of the new partitions go on where the topic began, or are given. Each topic has
its own answer, when every new partition has a leader in this broker's cache or the time is out (at once where
`timeout_ms` is 0 or less).

v0 the first (KIP-195).
v1 the response leaves before the client is throttled (KIP-219).
v2 flexible.
v3 THROTTLING_QUOTA_EXCEEDED; requests of older versions are let through and delayed (KIP-599).
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.aside import answer_aside
from odradek.broker.assignment import Assignment, assign_replicas
from odradek.broker.effects import AddPartitions, StoreFailed, StoreResult, TopicsWritten
from odradek.broker.leader_wait import TopicWait
from odradek.broker.topic_creation import (
    MOST_PARTITIONS_PER_REQUEST,
    check_not_too_many,
    check_not_too_many_topics,
    racks,
    refused_assignment,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import BrokerId
from odradek.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

STRICT_QUOTA_SINCE = 3


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = CreatePartitionsRequest.decode(version, request.body, budget=request.budget)
    try:
        check_not_too_many_topics(len(asked.topics))
    except ProtocolError as refusal:
        return _all_refused(broker, version, asked, refusal, now_ms)
    quota = broker.mutation_quota(request, strict_since=STRICT_QUOTA_SINCE, now_ms=now_ms)
    times = Counter(topic.name for topic in asked.topics)
    rows: dict[str, CreatePartitionsTopicResult] = {}
    planned: dict[str, Assignment] = {}
    added = 0
    for topic in asked.topics:
        name = topic.name
        rows[name] = row = CreatePartitionsTopicResult(name=name, error_message=None)
        try:
            if not broker.places_replicas:
                raise ProtocolError(ErrorCode.NOT_CONTROLLER)
            if times[name] > 1:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            wanted = _partitions_to_add(broker, topic)
            if added + wanted > MOST_PARTITIONS_PER_REQUEST:
                raise ProtocolError(
                    ErrorCode.POLICY_VIOLATION,
                    "Excessively large number of partitions per request: at most "
                    f"{MOST_PARTITIONS_PER_REQUEST} can be made at once.",
                )
            assignment = _plan(broker, topic, wanted)
            if not asked.validate_only and not quota.take(wanted):
                raise ProtocolError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            planned[name] = assignment
            added += wanted
        except ProtocolError as refusal:
            row.error_code = refusal.code
            row.error_message = refusal.message or None

    def reply(without_leaders: list[str], later_ms: int) -> Reply:
        for name in without_leaders:
            rows[name].error_code = ErrorCode.REQUEST_TIMED_OUT
            rows[name].error_message = "The partitions were added; not all of them have a leader yet."
        throttle_time_ms = quota.throttle_time_ms(later_ms)
        response = CreatePartitionsResponse(results=list(rows.values()), throttle_time_ms=throttle_time_ms)
        return Reply([response.encode(version)], throttle_time_ms)

    if asked.validate_only or not planned:
        return reply([], now_ms)
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
        grown = [topic for topic in planned if not rows[topic].error_code]
        if asked.timeout_ms <= 0:
            park.answer(lambda: reply(grown, later_ms))
            return
        wait = TopicWait(
            broker,
            grown,
            is_over=lambda topic: broker.metadata.has_leaders(topic, totals[topic]),
            reply=reply,
            park=park,
        )
        wait.start(now_ms + asked.timeout_ms, later_ms)

    for name, assignment in planned.items():

        def written(result: StoreResult, later_ms: int, name: str = name) -> None:
            written_to(name, result, later_ms)

        broker.ask_store(AddPartitions(name, assignment), written)
    return park


def _all_refused(
    broker: "Broker", version: int, asked: CreatePartitionsRequest, refusal: ProtocolError, now_ms: int
) -> Park:
    if not broker.is_controller:
        refusal = ProtocolError(ErrorCode.NOT_CONTROLLER)

    def encode() -> bytes:
        rows = [
            CreatePartitionsTopicResult(
                name=name, error_code=refusal.code, error_message=refusal.message or None
            )
            for name in dict.fromkeys(topic.name for topic in asked.topics)
        ]
        return CreatePartitionsResponse(results=rows).encode(version)

    return answer_aside(broker.aside, Park(), encode, now_ms)


def _partitions_to_add(broker: "Broker", topic: CreatePartitionsTopic) -> int:
    existing = broker.metadata.topics.get(topic.name)
    if existing is None:
        raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic.name}' does not exist.")
    now = len(existing)
    if topic.count < now:
        raise ProtocolError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {now} partitions, which is higher than the requested {topic.count}.",
        )
    if topic.count == now:
        raise ProtocolError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {now} partitions.")
    check_not_too_many(topic.count)
    return topic.count - now


def _plan(broker: "Broker", topic: CreatePartitionsTopic, added: int) -> Assignment:
    existing = broker.metadata.topics[topic.name]
    now = len(existing)
    first = existing[min(existing)].replicas
    if topic.assignments is not None:
        return _manual(broker, topic.assignments, now, added, len(first))
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


def _manual(
    broker: "Broker",
    given: Sequence[CreatePartitionsAssignment],
    now: int,
    added: int,
    replication_factor: int,
) -> Assignment:
    dead = sorted({node for row in given for node in row.broker_ids} - set(broker.metadata.brokers))
    if dead:
        raise refused_assignment(f"Unknown broker(s) in replica assignment: {', '.join(map(str, dead))}.")
    if len(given) != added:
        raise refused_assignment(
            f"Increasing the number of partitions by {added} but {len(given)} assignments provided."
        )
    assignment = {now + place: tuple(map(BrokerId, row.broker_ids)) for place, row in enumerate(given)}
    for partition, replicas in assignment.items():
        if not replicas:
            raise refused_assignment(f"Cannot have replication factor of 0 for partition id {partition}.")
        if len(set(replicas)) != len(replicas):
            raise refused_assignment(
                f"Duplicate brokers not allowed in replica assignment: {', '.join(map(str, replicas))} for "
                f"partition id {partition}."
            )
    uneven = {p: len(replicas) for p, replicas in assignment.items() if len(replicas) != replication_factor}
    if uneven:
        raise refused_assignment(
            "Inconsistent replication factor between partitions, partition 0 has "
            f"{replication_factor} while partitions [{', '.join(map(str, uneven))}] have replication factors "
            f"[{', '.join(map(str, uneven.values()))}], respectively."
        )
    return assignment
