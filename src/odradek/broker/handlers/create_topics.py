"""CreateTopics (key 19), versions 2-7. Only the controller answers; others NOT_CONTROLLER.

Each topic is checked, its replicas chosen or taken as given, and written to the store; the answer comes when every
partition has a leader in this broker's cache, or REQUEST_TIMED_OUT after `timeout_ms` (at once, where that is 0 or
less) while creation goes on. With `validate_only` nothing is written, and no topic has an id.

v2 throttle time.
v3 the response leaves before the client is throttled (KIP-219).
v4 counts of -1 mean the broker's defaults (KIP-464).
v5 flexible, configuration in the answer (KIP-525).
v6 THROTTLING_QUOTA_EXCEEDED; requests of older versions are let through and delayed (KIP-599).
v7 topic id (KIP-516).
"""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, CloseConnection, NoReply, Park, Reply
from odradek.broker.aside import answer_aside, made_where_short
from odradek.broker.config_description import TopicDescriptions
from odradek.broker.effects import CreateTopics, NewTopic, StoreFailed, StoreResult, TopicsWritten
from odradek.broker.leader_wait import TopicWait
from odradek.broker.topic_creation import (
    MOST_PARTITIONS,
    MOST_PARTITIONS_PER_REQUEST,
    MOST_TOPICS,
    RESERVED_TOPICS,
    USE_DEFAULT,
    Names,
    check_not_too_many_topics,
    plan_topic,
    refused_assignment,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import NO_TOPIC_ID
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

FIRST_WITH_CONFIGS = 5
STRICT_QUOTA_SINCE = 6
# Topics whose configurations are told at once, some milliseconds; a thread tells those of more.
MOST_AT_ONCE = 100


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = CreateTopicsRequest.decode(version, request.body, budget=request.budget)
    names = [topic.name for topic in asked.topics]
    try:
        if not broker.places_replicas or not broker.metadata.brokers:
            # A controller that has not told its own broker of anybody yet is none to its clients either.
            raise ProtocolError(ErrorCode.NOT_CONTROLLER)
        check_not_too_many_topics(len(names))
    except ProtocolError as refusal:
        return _all_refused(broker, version, names, refusal, now_ms)
    quota = broker.mutation_quota(request, strict_since=STRICT_QUOTA_SINCE, now_ms=now_ms)
    times = Counter(topic.name for topic in asked.topics)
    is_too_much = _partitions_asked_for(broker, asked) > MOST_PARTITIONS_PER_REQUEST
    taken = Names(broker)
    described = _Described(broker, version)
    results: dict[str, CreatableTopicResult] = {}
    planned: dict[str, NewTopic] = {}
    for topic in asked.topics:
        name = topic.name
        try:
            if times[name] > 1:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
            if name in RESERVED_TOPICS:
                raise ProtocolError(
                    ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
                )
            if is_too_much and not _is_too_large(topic):
                raise ProtocolError(
                    ErrorCode.POLICY_VIOLATION,
                    "Excessively large number of partitions per request: at most "
                    f"{MOST_PARTITIONS_PER_REQUEST} can be made at once.",
                )
            new = _plan(broker, topic, taken)
            if not asked.validate_only and not quota.take(len(new.assignment)):
                raise ProtocolError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            planned[name] = new
            taken.take(name)
            results[name] = _created(new, NO_TOPIC_ID if asked.validate_only else new.topic_id)
        except ProtocolError as refusal:
            results[name] = _refused(name, refusal.code, refusal.message or None)

    def reply(without_leaders: list[str], later_ms: int) -> Answer:
        for name in without_leaders:
            results[name] = _refused(
                name,
                ErrorCode.REQUEST_TIMED_OUT,
                "The topic was created; not all of its partitions have a leader yet.",
            )
        throttle_time_ms = quota.throttle_time_ms(later_ms)

        def encode() -> bytes:
            for name, new in planned.items():
                if not results[name].error_code:
                    results[name].configs = described.of(new.config)
            return CreateTopicsResponse(
                topics=[results[name] for name in names], throttle_time_ms=throttle_time_ms
            ).encode(version)

        if len(names) <= MOST_AT_ONCE:
            return Reply([encode()], throttle_time_ms)
        place, made = Park(), answer_aside(broker.aside, Park(), encode, later_ms)
        place.follow(made)
        made.on_complete(lambda done: place.answer(lambda: _throttled(done, throttle_time_ms)))
        return place

    if asked.validate_only or not planned:
        return reply([], now_ms)
    park = Park()

    def written(result: StoreResult, later_ms: int) -> None:
        if not isinstance(result, TopicsWritten):
            reason = result.reason if isinstance(result, StoreFailed) else "the store answered something else"
            result = TopicsWritten({name: (ErrorCode.UNKNOWN_SERVER_ERROR, reason) for name in planned})
        for name in planned:
            error, message = result.results[name]
            if error:
                results[name] = _refused(name, error, message)
        made = [name for name in planned if not results[name].error_code]
        if asked.timeout_ms <= 0:
            park.answer(lambda: reply(made, later_ms))
            return
        wait = TopicWait(
            broker,
            made,
            is_over=lambda name: broker.metadata.has_leaders(name, len(planned[name].assignment)),
            reply=reply,
            park=park,
        )
        wait.start(now_ms + asked.timeout_ms, later_ms)

    broker.ask_store(CreateTopics(tuple(planned.values())), written)
    return park


def _all_refused(
    broker: "Broker", version: int, names: list[str], refusal: ProtocolError, now_ms: int
) -> Answer:
    def encode() -> bytes:
        rows = [_refused(name, refusal.code, refusal.message or None) for name in names]
        return CreateTopicsResponse(topics=rows).encode(version)

    return made_where_short(broker.aside, encode, now_ms, is_short=len(names) <= MOST_TOPICS)


def _partitions_asked_for(broker: "Broker", asked: CreateTopicsRequest) -> int:
    """In all topics of the request that could be made; one that is too large by itself is refused by itself."""
    default: int = broker.settings.num_partitions
    return sum(
        len(topic.assignments) or (default if topic.num_partitions == USE_DEFAULT else topic.num_partitions)
        for topic in asked.topics
        if topic.num_partitions >= USE_DEFAULT and not _is_too_large(topic)
    )


def _is_too_large(topic: CreatableTopic) -> bool:
    return max(len(topic.assignments), topic.num_partitions) > MOST_PARTITIONS


def _plan(broker: "Broker", topic: CreatableTopic, taken: Names) -> NewTopic:
    manual = {row.partition_index: row.broker_ids for row in topic.assignments}
    if len(manual) != len(topic.assignments):
        raise refused_assignment("A partition is assigned more than once.")
    return plan_topic(
        broker,
        topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        manual=manual,
        configs={config.name: config.value for config in topic.configs},
        names=taken,
    )


class _Described:
    """Configurations of new topics as their answers carry them; those without overrides share theirs."""

    def __init__(self, broker: "Broker", version: int) -> None:
        self._topics = TopicDescriptions(broker.layers)
        self._has_room = version >= FIRST_WITH_CONFIGS
        self._defaults: list[CreatableTopicConfigs] = []

    def of(self, config: Mapping[str, str]) -> list[CreatableTopicConfigs] | None:
        if not self._has_room:
            return None
        if config:
            return self._rows(config)
        self._defaults = self._defaults or self._rows({})
        return self._defaults

    def _rows(self, config: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        return [
            CreatableTopicConfigs(
                name=entry.setting.name,
                value=entry.value,
                read_only=entry.is_read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in self._topics.of(config, None)
        ]


def _throttled(done: Reply | NoReply | CloseConnection, throttle_time_ms: int) -> Answer:
    return Reply(done.buffers, throttle_time_ms) if isinstance(done, Reply) else done


def _created(new: NewTopic, topic_id: bytes) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=new.topic,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(new.assignment),
        replication_factor=len(new.assignment[0]),
    )


def _refused(name: str, error: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error, error_message=message, configs=[])
