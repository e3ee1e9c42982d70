"""AlterConfigs (key 33), versions 0-2.

Replaces all overrides of a topic or of this broker ("" all brokers) by those given: what is not named goes back to
its default. Any broker may be asked; the store is written and the change announced there. `validate_only` checks and
writes nothing.

v0 the first.
v1 the response leaves before the client is throttled (KIP-219).
v2 flexible.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.broker import config_changes
from odradek.broker.answers import Answer
from odradek.broker.config_changes import Change, Error
from odradek.broker.config_resources import BROKER_LOGGER, Resource
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = AlterConfigsRequest.decode(version, request.body, budget=request.budget)

    def encode(rows: Sequence[tuple[Resource, Error]]) -> bytes:
        return AlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error_code=error, error_message=message, resource_type=kind, resource_name=name
                )
                for (kind, name), (error, message) in rows
            ]
        ).encode(version)

    return config_changes.answer(
        broker,
        [(row.resource_type, row.resource_name) for row in asked.resources],
        lambda place: _change(asked.resources[place]),
        validate_only=asked.validate_only,
        encode=encode,
    )


def _change(row: AlterConfigsResource) -> Change:
    if row.resource_type == BROKER_LOGGER:
        raise ProtocolError(
            ErrorCode.INVALID_REQUEST,
            f"Unknown resource type {BROKER_LOGGER}",
        )
    names = [config.name for config in row.configs]
    if len(set(names)) < len(names):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    without_value = [config.name for config in row.configs if config.value is None]
    if without_value:
        raise ProtocolError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(without_value)}"
        )
    wanted = {config.name: config.value or "" for config in row.configs}
    return Change(lambda stored: wanted, replaces=True)
