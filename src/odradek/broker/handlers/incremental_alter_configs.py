"""IncrementalAlterConfigs (key 44), versions 0-1.

Changes single overrides of a topic or of this broker ("" all brokers): SET 0, DELETE 1, and for lists APPEND 2
and SUBTRACT 3; the others stay as they are (KIP-339). Any broker may be asked. `validate_only` writes nothing.
v1 flexible.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.config_resources import Alteration, Change, Error, Resource, check_resource, setting_of
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker, Request

SET, DELETE, APPEND, SUBTRACT = range(4)


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = IncrementalAlterConfigsRequest.decode(version, request.body)
    resources = [(row.resource_type, row.resource_name) for row in asked.resources]
    errors: dict[Resource, Error] = {}
    changes: list[Change] = []
    for row, resource in zip(asked.resources, resources, strict=True):
        try:
            if resources.count(resource) > 1:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            check_resource(broker, *resource)
            changes.append(_change(broker, row))
        except ProtocolError as refusal:
            errors[resource] = refusal.code, refusal.message

    def encode(found: Mapping[Resource, Error]) -> bytes:
        rows = []
        for resource in dict.fromkeys(resources):
            error, message = errors.get(resource) or found[resource]
            rows.append(
                AlterConfigsResourceResponse(
                    error_code=error,
                    error_message=message,
                    resource_type=resource[0],
                    resource_name=resource[1],
                )
            )
        return IncrementalAlterConfigsResponse(responses=rows).encode(version)

    if not changes:
        return Reply([encode({})])
    park = Park()
    Alteration(
        broker,
        changes,
        validate_only=asked.validate_only,
        done=lambda found: park.complete(Reply([encode(found)])),
    ).start()
    return park


def _change(broker: "Broker", row: AlterConfigsResource) -> Change:
    names = [config.name for config in row.configs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ProtocolError(
            ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys: {','.join(twice)}"
        )
    empty = sorted(c.name for c in row.configs if c.value is None and c.config_operation != DELETE)
    if empty:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(empty)}")

    def plan(stored: Mapping[str, str]) -> dict[str, str]:
        overrides = dict(stored)
        for config in row.configs:
            _apply(broker, row.resource_type, config, overrides)
        return overrides

    return Change((row.resource_type, row.resource_name), plan)


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
        raise ProtocolError(
            ErrorCode.INVALID_CONFIG,
            f"Config value append/subtract is not allowed for config key: {name}; it is no list",
        )
    # A list that is not overridden begins with the value it has now.
    if name in overrides:
        present = overrides[name]
    elif resource_type == 2:
        present = ",".join(broker.settings.topic_defaults.get(setting.attribute) or ())
    else:
        present = setting.default or ""
    items = [item.strip() for item in present.split(",") if item.strip()]
    given = [item.strip() for item in value.split(",") if item.strip()]
    if operation == APPEND:
        items += [item for item in given if item not in items]
    else:
        items = [item for item in items if item not in given]
    overrides[name] = ",".join(items)
