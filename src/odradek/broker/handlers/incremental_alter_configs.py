"""IncrementalAlterConfigs (key 44), versions 0-1.

Changes single overrides of a topic or of this broker ("" all brokers), or the level of a logger of this process: SET
0, DELETE 1, and for lists APPEND 2 and SUBTRACT 3; the others stay as they are (KIP-339, KIP-412). Any broker may be
asked. `validate_only` writes nothing.

v0 the first (KIP-339).
v1 flexible.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from odradek.broker import config_changes, loggers
from odradek.broker.answers import Answer
from odradek.broker.config_changes import Change, Error
from odradek.broker.config_resources import BROKER_LOGGER, TOPIC, Resource, check_is_this_broker, setting_of
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from odradek.protocol.primitives import MAX_STRING_BYTES

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

SET, DELETE, APPEND, SUBTRACT = range(4)


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = IncrementalAlterConfigsRequest.decode(version, request.body, budget=request.budget)

    def encode(rows: Sequence[tuple[Resource, Error]]) -> bytes:
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error_code=error, error_message=message, resource_type=kind, resource_name=name
                )
                for (kind, name), (error, message) in rows
            ]
        ).encode(version)

    def start(known: loggers.Levels) -> Answer:
        def change_of(place: int) -> Change | None:
            row = asked.resources[place]
            _check_rows(row)
            if row.resource_type == BROKER_LOGGER:
                check_is_this_broker(broker, row.resource_name)
                levels = loggers.plan(row.configs, known)
                if not asked.validate_only:
                    broker.ask_loggers(levels, lambda found, later_ms: None)
                return None
            return Change(lambda stored: _planned(broker, row, stored))

        return config_changes.answer(
            broker,
            [(row.resource_type, row.resource_name) for row in asked.resources],
            change_of,
            validate_only=asked.validate_only,
            encode=encode,
        )

    if any(row.resource_type == BROKER_LOGGER for row in asked.resources):
        return loggers.when_known(broker, start)
    return start({})


def _check_rows(row: AlterConfigsResource) -> None:
    names = [config.name for config in row.configs]
    if len(set(names)) < len(names):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    empty = [c.name for c in row.configs if c.value is None and c.config_operation != DELETE]
    if empty:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(empty)}")


def _planned(broker: "Broker", row: AlterConfigsResource, stored: Mapping[str, str]) -> dict[str, str]:
    overrides = dict(stored)
    for config in row.configs:
        _apply(broker, row.resource_type, config, overrides)
    return overrides


def _apply(broker: "Broker", resource_type: int, config: AlterableConfig, overrides: dict[str, str]) -> None:
    name, value, operation = config.name, config.value or "", config.config_operation
    if operation == SET:
        overrides[name] = value
        return
    if operation == DELETE:
        overrides.pop(name, None)
        return
    if operation not in (APPEND, SUBTRACT):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"Unknown operation {operation} for {name}")
    setting = setting_of(resource_type, name)
    if setting is None or setting.type != "LIST":
        word = "append" if operation == APPEND else "subtract"
        raise ProtocolError(
            ErrorCode.INVALID_CONFIG, f"Config value {word} is not allowed for config key: {name}"
        )
    # A list that is not overridden begins with the value it has now.
    if name in overrides:
        present = overrides[name]
    elif resource_type == TOPIC:
        present = ",".join(broker.settings.topic_defaults.get(setting.attribute) or ())
    else:
        present = ",".join(getattr(broker.settings, setting.attribute) or ())
    items = [item.strip() for item in present.split(",") if item.strip()]
    given = [item.strip() for item in value.split(",") if item.strip()]
    # Thousands of items each: see which are there without comparing all with all.
    if operation == APPEND:
        present_items = set(items)
        items += [item for item in given if item not in present_items]
    else:
        taken = set(given)
        items = [item for item in items if item not in taken]
    merged = ",".join(items)
    size = len(merged.encode())
    if operation == APPEND and size > MAX_STRING_BYTES:  # DescribeConfigs could not answer any more
        instead = "; a * stands for all replicas" if name.endswith(".replication.throttled.replicas") else ""
        raise ProtocolError(
            ErrorCode.INVALID_CONFIG,
            f"{name} would have {size} bytes, and {MAX_STRING_BYTES} can be told{instead}",
        )
    overrides[name] = merged
