"""The resource BROKER_LOGGER: how much each logger of this process says, changed while it runs (KIP-412).

Levels are Kafka's words; `root` is the logger above all others. Nothing of it is kept: after a restart all speak
as the start says. Which loggers there are only the shell knows, so it is asked first.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from odradek.broker.answers import Park
from odradek.broker.config_resources import check_is_this_broker
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError

if TYPE_CHECKING:
    from odradek.broker.answers import Answer
    from odradek.broker.core import Broker

ROOT = "root"
LEVELS = ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")
SET, DELETE, APPEND, SUBTRACT = range(4)
Levels = Mapping[str, str]  # logger -> the level in force


class Operation(Protocol):
    name: str
    config_operation: int
    value: str | None


def check_resource(broker: "Broker", name: str) -> None:
    if not name:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    check_is_this_broker(broker, name, noun="Broker", or_else="")


def when_known(broker: "Broker", go_on: Callable[[Levels], "Answer"]) -> Park:
    """What `go_on` answers, once it is known which loggers there are."""
    park = Park()

    def told(levels: Levels, now_ms: int) -> None:
        park.answer(lambda: go_on(levels))

    broker.ask_loggers({}, told)
    return park


def plan(operations: Sequence[Operation], known: Levels) -> dict[str, str | None]:
    """The levels to set, None where a logger goes back to the level of the one above it."""
    levels: dict[str, str | None] = {}
    for operation in operations:
        name, kind = operation.name, operation.config_operation
        if kind in (APPEND, SUBTRACT):
            word = "APPEND" if kind == APPEND else "SUBTRACT"
            raise ProtocolError(
                ErrorCode.INVALID_REQUEST, f"{word} operation is not allowed for the BROKER_LOGGER resource"
            )
        if kind not in (SET, DELETE):
            raise ProtocolError(
                ErrorCode.INVALID_REQUEST,
                f"Unknown operation type {kind} is not allowed for the BROKER_LOGGER resource",
            )
        if name not in known:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
        if kind == DELETE:
            if name == ROOT:
                raise ProtocolError(
                    ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
                )
            levels[name] = None
        elif operation.value in LEVELS:
            levels[name] = operation.value
        else:
            raise ProtocolError(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {name} to {operation.value} as it is not a supported log level. "
                f"Valid log levels are {', '.join(sorted(LEVELS))}",
            )
    return levels
