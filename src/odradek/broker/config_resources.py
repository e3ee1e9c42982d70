"""Resources that have a configuration in the store: which there are, how they are named, what may be set.

Shared by DescribeConfigs, AlterConfigs and IncrementalAlterConfigs. A change is read, changed and written over
the version that was read; somebody else's change in between is a conflict, and the plan runs again on what
they wrote.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.effects import (
    ConfigsRead,
    ConfigsWritten,
    ConfigWrite,
    ReadConfigs,
    StoreFailed,
    StoreResult,
    WriteConfigs,
)
from odradek.broker.topic_creation import check_name
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError, ProtocolError
from odradek.model.settings import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    Setting,
    TopicSettings,
    parse_value,
    unknown_setting,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
DEFAULT_NAME = "<default>"
KINDS = {TOPIC: "topics", BROKER: "brokers"}
ATTEMPTS = 5

Resource = tuple[int, str]  # (type, name)
Error = tuple[ErrorCode, str | None]
OK: Error = (ErrorCode.NONE, None)


def entity_of(resource_type: int, name: str) -> tuple[str, str]:
    """Kind and name of its node in the store; the broker "" stands for all."""
    return KINDS[resource_type], name if name or resource_type == TOPIC else DEFAULT_NAME


def check_resource(broker: "Broker", resource_type: int, name: str) -> None:
    if resource_type == TOPIC:
        check_name(name)
        if name not in broker.metadata.topics:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    elif resource_type == BROKER:
        if name and name != str(broker.broker_id):
            raise ProtocolError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {broker.broker_id} or empty string, but received {name}",
            )
    else:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type}")


def check_overrides(broker: "Broker", resource_type: int, overrides: Mapping[str, str]) -> None:
    """Everything that would be stored, as a whole. ConfigurationError's sentence is what the client reads."""
    try:
        if resource_type == TOPIC:
            TopicSettings(broker.settings, overrides)
            return
        fixed = []
        for name, text in overrides.items():
            setting = BROKER_SETTINGS.get(name)
            if setting is None:
                raise unknown_setting(name, BROKER_SETTINGS, "broker")
            if not setting.dynamic:
                fixed.append(name)
            parse_value(setting, text)
    except ConfigurationError as error:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, str(error)) from error
    if fixed:
        raise ProtocolError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically: {', '.join(sorted(fixed))}; set them in the broker's file",
        )


def setting_of(resource_type: int, name: str) -> Setting | None:
    return (TOPIC_SETTINGS if resource_type == TOPIC else BROKER_SETTINGS).get(name)


class Change(NamedTuple):
    """What to do to one resource: from the overrides it has to those it shall have. May refuse."""

    resource: Resource
    plan: Callable[[Mapping[str, str]], dict[str, str]]


class Alteration:
    """Reads, plans, writes; `done(errors)` once every resource has its answer."""

    def __init__(
        self,
        broker: "Broker",
        changes: list[Change],
        *,
        validate_only: bool,
        done: Callable[[dict[Resource, Error]], None],
    ) -> None:
        self._broker = broker
        self._changes = {change.resource: change for change in changes}
        self._validate_only = validate_only
        self._done = done
        self._errors: dict[Resource, Error] = {}
        self._attempts = 0

    def start(self) -> None:
        self._attempts += 1
        entities = tuple(entity_of(*resource) for resource in self._open())
        self._broker.ask_store(ReadConfigs(entities), self._read)

    def _open(self) -> list[Resource]:
        return [resource for resource in self._changes if resource not in self._errors]

    def _read(self, result: StoreResult, now_ms: int) -> None:
        if not isinstance(result, ConfigsRead):
            self._fail(result)
            return
        writes: dict[Resource, ConfigWrite] = {}
        for resource in self._open():
            entity = entity_of(*resource)
            stored = result.configs[entity]
            try:
                overrides = self._changes[resource].plan(stored.overrides)
                check_overrides(self._broker, resource[0], overrides)
            except ProtocolError as refusal:
                self._errors[resource] = refusal.code, refusal.message
                continue
            if self._validate_only or overrides == stored.overrides:
                self._errors[resource] = OK
            else:
                writes[resource] = ConfigWrite(*entity, overrides, stored.version)
        if not writes:
            self._done(self._errors)
            return

        def written(result: StoreResult, now_ms: int) -> None:
            self._written(list(writes), result)

        self._broker.ask_store(WriteConfigs(tuple(writes.values())), written)

    def _written(self, resources: list[Resource], result: StoreResult) -> None:
        if not isinstance(result, ConfigsWritten):
            self._fail(result)
            return
        for resource, outcome in zip(resources, result.outcomes, strict=True):
            if outcome == "stored":
                self._errors[resource] = OK
            elif outcome != "conflict":
                self._errors[resource] = ErrorCode.UNKNOWN_SERVER_ERROR, outcome
            elif self._attempts >= ATTEMPTS:
                self._errors[resource] = ErrorCode.UNKNOWN_SERVER_ERROR, "others keep changing it; try again"
        if self._open():
            self.start()
        else:
            self._done(self._errors)

    def _fail(self, result: StoreResult) -> None:
        reason = result.reason if isinstance(result, StoreFailed) else "the store answered something else"
        for resource in self._open():
            self._errors[resource] = ErrorCode.UNKNOWN_SERVER_ERROR, reason
        self._done(self._errors)
