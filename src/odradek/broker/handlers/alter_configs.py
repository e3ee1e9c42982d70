"""AlterConfigs (key 33), versions 0-2.

Replaces all overrides of a topic or of this broker ("" all brokers) by those given: what is not named goes
back to its default. Any broker may be asked; the store is written and the change announced there.
`validate_only` checks and writes nothing. v2 flexible.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.config_resources import Alteration, Change, Error, Resource, check_resource
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker, Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = AlterConfigsRequest.decode(version, request.body)
    resources = [(row.resource_type, row.resource_name) for row in asked.resources]
    errors: dict[Resource, Error] = {}
    changes: list[Change] = []
    for row, resource in zip(asked.resources, resources, strict=True):
        try:
            if resources.count(resource) > 1:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            check_resource(broker, *resource)
            changes.append(_change(row))
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
        return AlterConfigsResponse(responses=rows).encode(version)

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


def _change(row: AlterConfigsResource) -> Change:
    without_value = sorted(config.name for config in row.configs if config.value is None)
    if without_value:
        raise ProtocolError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(without_value)}"
        )
    wanted = {config.name: config.value or "" for config in row.configs}
    return Change((row.resource_type, row.resource_name), lambda stored: wanted)
