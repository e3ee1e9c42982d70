"""CreateTopics (key 19), versions 2-7. Only the controller answers; others NOT_CONTROLLER.

Each topic is checked, its replicas chosen or taken as given, and written to the store; the answer comes when
every partition has a leader in this broker's cache, or REQUEST_TIMED_OUT after `timeout_ms`. With
`validate_only` nothing is written.
v4 counts of -1 mean the broker's defaults (KIP-464). v5 flexible, configuration in the answer (KIP-525).
v7 topic id (KIP-516).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.config_description import BrokerLayers, topic_entries
from odradek.broker.effects import CreateTopics, NewTopic, StoreFailed, StoreResult, TopicsWritten
from odradek.broker.leader_wait import TopicWait
from odradek.broker.topic_creation import plan_topic
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker, Request

FIRST_WITH_CONFIGS = 5


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = CreateTopicsRequest.decode(version, request.body)
    names = list(dict.fromkeys(topic.name for topic in asked.topics))
    if not broker.is_controller or not broker.metadata.brokers:
        # A controller that has not told its own broker of anybody yet is none to its clients either.
        rows = [_refused(name, ErrorCode.NOT_CONTROLLER, None) for name in names]
        return Reply([CreateTopicsResponse(topics=rows).encode(version)])
    results: dict[str, CreatableTopicResult] = {}
    planned: dict[str, NewTopic] = {}
    for name in names:
        same = [topic for topic in asked.topics if topic.name == name]
        try:
            if len(same) > 1:
                raise ProtocolError(
                    ErrorCode.INVALID_REQUEST,
                    "Create topics request from client contains multiple entries for it.",
                )
            planned[name] = _plan(broker, same[0])
            results[name] = _created(broker, planned[name], version)
        except ProtocolError as refusal:
            results[name] = _refused(name, refusal.code, refusal.message)

    def encode(without_leaders: list[str]) -> bytes:
        for name in without_leaders:
            results[name] = _refused(
                name,
                ErrorCode.REQUEST_TIMED_OUT,
                "The topic was created; not all of its partitions have a leader yet.",
            )
        return CreateTopicsResponse(topics=[results[name] for name in names]).encode(version)

    if asked.validate_only or not planned:
        return Reply([encode([])])
    park = Park()

    def written(result: StoreResult, later_ms: int) -> None:
        if not isinstance(result, TopicsWritten):
            reason = result.reason if isinstance(result, StoreFailed) else "the store answered something else"
            result = TopicsWritten({name: (ErrorCode.UNKNOWN_SERVER_ERROR, reason) for name in planned})
        for name in planned:
            error, message = result.results[name]
            if error:
                results[name] = _refused(name, error, message)
        wait = TopicWait(
            broker,
            [name for name in planned if not results[name].error_code],
            is_over=lambda name: broker.metadata.has_leaders(name, len(planned[name].assignment)),
            encode=encode,
            park=park,
        )
        wait.start(now_ms + max(asked.timeout_ms, 0), later_ms)

    broker.ask_store(CreateTopics(tuple(planned.values())), written)
    return park


def _plan(broker: "Broker", topic: CreatableTopic) -> NewTopic:
    manual = {row.partition_index: row.broker_ids for row in topic.assignments}
    if len(manual) != len(topic.assignments):
        raise ProtocolError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned more than once.")
    return plan_topic(
        broker,
        topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        manual=manual,
        configs={config.name: config.value for config in topic.configs},
    )


def _created(broker: "Broker", new: NewTopic, version: int) -> CreatableTopicResult:
    configs = None
    if version >= FIRST_WITH_CONFIGS:
        configs = [
            CreatableTopicConfigs(
                name=entry.setting.name,
                value=entry.value,
                read_only=entry.is_read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in topic_entries(new.config, BrokerLayers(broker.settings), None)
        ]
    return CreatableTopicResult(
        name=new.topic,
        topic_id=new.topic_id,
        num_partitions=len(new.assignment),
        replication_factor=len(new.assignment[0]),
        configs=configs,
    )


def _refused(name: str, error: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error, error_message=message, configs=[])
