"""DescribeConfigs (key 32), versions 1-4.

Every setting of a topic or of this broker: value, source, synonyms, type, words; or those named. The resource broker
"" is the dynamic default of all brokers. Overrides are read from the store, so any broker may be asked about any
topic. The resource BROKER_LOGGER is the levels of this process's loggers (KIP-412). Each resource is told once.

v1 sources and synonyms (KIP-226).
v2 the response leaves before the client is throttled (KIP-219).
v3 type and documentation (KIP-569).
v4 flexible.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from odradek.broker import loggers
from odradek.broker.answers import Answer, Park
from odradek.broker.aside import made_where_short
from odradek.broker.config_description import (
    DYNAMIC_BROKER_LOGGER,
    TYPES,
    BrokerLayers,
    ConfigEntry,
    TopicDescriptions,
    broker_entries,
    cluster_default_entries,
)
from odradek.broker.config_resources import (
    BROKER,
    BROKER_LOGGER,
    DEFAULT_NAME,
    TOPIC,
    check_is_this_broker,
    check_topic,
    entity_of,
    unknown_type,
)
from odradek.broker.effects import ConfigsRead, ReadConfigs, StoredConfig, StoreFailed, StoreResult
from odradek.broker.slices import answer_in_slices
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.settings import BrokerSettings
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from odradek.protocol.primitives import MAX_STRING_BYTES

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

NOTHING_STORED = StoredConfig({}, -1)
# Resources that are told in the turn in which the store has answered: a millisecond. A thread makes longer answers.
MOST_AT_ONCE = 10
_SURELY_HAS_ROOM = MAX_STRING_BYTES // 4  # characters of UTF-8
# That are looked at in one turn: a millisecond or two.
CHECKED_AT_ONCE = 500


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = DescribeConfigsRequest.decode(version, request.body, budget=request.budget)
    if any(row.resource_type == BROKER_LOGGER for row in asked.resources):
        return loggers.when_known(broker, lambda levels: _answer(broker, version, asked, levels))
    return _answer(broker, version, asked, {})


def _answer(broker: "Broker", version: int, asked: DescribeConfigsRequest, levels: loggers.Levels) -> Answer:
    refused: dict[int, ProtocolError] = {}
    entities: dict[tuple[str, str], None] = {}
    steps = _checked(broker, asked, refused, entities)
    return answer_in_slices(
        broker.slices, steps, lambda: _described_all(broker, version, asked, levels, refused, entities)
    )


def _checked(
    broker: "Broker",
    asked: DescribeConfigsRequest,
    refused: dict[int, ProtocolError],
    entities: dict[tuple[str, str], None],
) -> Iterator[None]:
    """By their places those that are refused, and what is read of the others; a step each CHECKED_AT_ONCE."""
    named: set[tuple[int, str]] = set()
    for place, resource in enumerate(asked.resources):
        if place and not place % CHECKED_AT_ONCE:
            yield
        try:
            _check(broker, resource.resource_type, resource.resource_name)
            if (resource.resource_type, resource.resource_name) in named:
                # A row of a few bytes asks for some two hundred settings with their words, and there may be thousands.
                raise ProtocolError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            named.add((resource.resource_type, resource.resource_name))
        except ProtocolError as refusal:
            # What a traceback holds, with it the whole request, would wait for the collector of cycles.
            refused[place] = refusal.with_traceback(None)
            continue
        if resource.resource_type != BROKER_LOGGER:
            entities[entity_of(resource.resource_type, resource.resource_name)] = None
        if resource.resource_type == BROKER:
            entities["brokers", DEFAULT_NAME] = None


def _described_all(
    broker: "Broker",
    version: int,
    asked: DescribeConfigsRequest,
    levels: loggers.Levels,
    refused: dict[int, ProtocolError],
    entities: dict[tuple[str, str], None],
) -> Answer:
    layers, of_file = broker.layers, broker.dynamic.static

    def encode(configs: ConfigsRead) -> bytes:
        results = []
        topics = TopicDescriptions(layers)
        for place, resource in enumerate(asked.resources):
            refusal = refused.get(place)
            if refusal is not None:
                results.append(_refused(resource, refusal))
            elif resource.resource_type == BROKER_LOGGER:
                results.append(_loggers(resource, levels))
            else:
                results.append(_described(of_file, topics, asked, resource, configs))
        return DescribeConfigsResponse(results=results).encode(version)

    park = Park()

    def describe(configs: ConfigsRead, at_ms: int) -> None:
        is_short = len(asked.resources) <= MOST_AT_ONCE
        park.answer(lambda: made_where_short(broker.aside, lambda: encode(configs), at_ms, is_short=is_short))

    def answered(result: StoreResult, later_ms: int) -> None:
        if isinstance(result, ConfigsRead):
            describe(result, later_ms)
            return
        reason = result.reason if isinstance(result, StoreFailed) else "the store answered something else"
        for place, resource in enumerate(asked.resources):
            if resource.resource_type != BROKER_LOGGER:
                refused.setdefault(place, ProtocolError(ErrorCode.UNKNOWN_SERVER_ERROR, reason))
        describe(ConfigsRead({}), later_ms)

    if entities:
        broker.ask_store(ReadConfigs(tuple(entities)), answered)
    else:
        describe(ConfigsRead({}), broker.now_ms)
    return park if park.result is None else park.result


def _check(broker: "Broker", resource_type: int, name: str) -> None:
    if resource_type == TOPIC:
        check_topic(broker, name, "")
    elif resource_type == BROKER:
        if name:
            check_is_this_broker(broker, name, noun="Broker", or_else=" or empty string,")
    elif resource_type == BROKER_LOGGER:
        loggers.check_resource(broker, name)
    else:
        raise unknown_type(resource_type, f"Unsupported resource type: {resource_type}")


def _described(
    of_file: BrokerSettings,
    topics: TopicDescriptions,
    asked: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    configs: ConfigsRead,
) -> DescribeConfigsResult:
    # No names at all mean every one, as null does (tests/golden/admin_errors.json).
    names = dict.fromkeys(resource.configuration_keys) if resource.configuration_keys else None
    entity = entity_of(resource.resource_type, resource.resource_name)
    if entity in configs.unreadable:
        return _refused(resource, ProtocolError(ErrorCode.UNKNOWN_SERVER_ERROR, configs.unreadable[entity]))
    stored = configs.configs.get(entity, NOTHING_STORED).overrides
    dynamic_default = configs.configs.get(("brokers", DEFAULT_NAME), NOTHING_STORED).overrides
    if resource.resource_type == TOPIC:
        entries = topics.of(stored, names)
    elif resource.resource_name:
        entries = broker_entries(BrokerLayers(of_file, stored, dynamic_default), names)
    else:
        entries = cluster_default_entries(dynamic_default, names)
    rows = [_row(entry, asked) for entry in entries]
    if untold := _untold(rows):
        return _refused(resource, untold)
    return DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, configs=rows
    )


def _is_long(value: str | None) -> bool:
    return value is not None and len(value) > _SURELY_HAS_ROOM


def _untold(rows: list[DescribeConfigsResourceResult]) -> ProtocolError | None:
    """Of a value that has no room in a string: the others of the answer are told beside it."""
    long = [row for row in rows if _is_long(row.value)]
    long += [row for row in rows if row.synonyms and any(_is_long(synonym.value) for synonym in row.synonyms)]
    for row in long:
        values = (row.value, *[synonym.value for synonym in row.synonyms])
        size = max(len((value or "").encode()) for value in values)
        if size > MAX_STRING_BYTES:
            return ProtocolError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"{row.name} has {size} bytes, and {MAX_STRING_BYTES} can be told: set it to less",
            )
    return None


def _row(entry: ConfigEntry, asked: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    setting = entry.setting
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in entry.synonyms
        ]
        if asked.include_synonyms
        else [],
        config_type=TYPES[setting.type],
        documentation=setting.doc if asked.include_documentation else None,
    )


def _loggers(resource: DescribeConfigsResource, levels: loggers.Levels) -> DescribeConfigsResult:
    wanted = frozenset(resource.configuration_keys or ())
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            DescribeConfigsResourceResult(
                name=name,
                value=level,
                read_only=False,
                config_source=DYNAMIC_BROKER_LOGGER,
                is_sensitive=False,
            )
            for name, level in sorted(levels.items())
            if not wanted or name in wanted
        ],
    )


def _refused(resource: DescribeConfigsResource, refusal: ProtocolError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=refusal.code,
        error_message=refusal.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
