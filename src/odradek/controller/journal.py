"""The journal's lines, in both directions: events and effects as JSON, and back.

A line holds one `core.step`: the event, and what came of it. A record is an object with its type's name under
`type`; a partition is `orders-3`; bytes are hex; an enumeration is its name. From the type hints of the events
the way back is read, so a new event needs nothing here.
"""

from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from odradek.controller import broker_requests
from odradek.controller import effects as effects_module
from odradek.controller import events as events_module
from odradek.controller.effects import Effects
from odradek.controller.events import Event
from odradek.model import cluster, controller_requests, facts
from odradek.model.controller_requests import (
    AllocateProducerIdsAsked,
    AlterPartitionAsked,
    AlterReassignmentsAsked,
    ControlledShutdownAsked,
    ElectLeadersAsked,
    ListReassignmentsAsked,
)
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition, number_in
from odradek.model.printable import LONGEST_TEXT, shown

# Names here -> what journals call them: journals that are written must be read, and compared, by any later version.
_WORDS = {"WritePendingDeletions": "WriteStrays", "pending_deletions": "strays"}

_TYPES: dict[str, type] = {
    _WORDS.get(name, name): kind
    for module in (events_module, effects_module, broker_requests, controller_requests, facts, cluster)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and hasattr(kind, "__match_args__")
}

# Journals that are older than `Requested` have an event for each kind of request, its `request_id` among its fields.
_EVENT_OF_ITS_OWN: dict[str, type] = {
    "AlterPartitionRequested": AlterPartitionAsked,
    "ControlledShutdownRequested": ControlledShutdownAsked,
    "AllocateProducerIdsRequested": AllocateProducerIdsAsked,
    "ElectLeadersRequested": ElectLeadersAsked,
    "AlterReassignmentsRequested": AlterReassignmentsAsked,
    "ListReassignmentsRequested": ListReassignmentsAsked,
}

_PLAIN = (int, str, bool)

# What of an Effects stands in a line, each a list of records.
EFFECTS = ("writes", "requests", "changes", "answers")


class UnreadableJournal(OdradekError):
    """A line of the journal cannot be understood; the message says which part."""


def word_of(name: str) -> str:
    """What a journal calls this type, or this field."""
    return _WORDS.get(name, name)


def as_json(value: Any) -> Any:
    """A value of the controller as what `json` can write."""
    if value is None or isinstance(value, str | bool | float):
        return value
    if isinstance(value, TopicPartition):
        return partition_text(value)
    if isinstance(value, int):
        return value.name if isinstance(value, Enum) else value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, set | frozenset):
        return sorted((as_json(item) for item in value), key=str)
    names = getattr(type(value), "_fields", None) or getattr(type(value), "__match_args__", None)
    if names:
        fields = {word_of(name): as_json(getattr(value, name)) for name in names}
        return {"type": word_of(type(value).__name__), **fields}
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    if isinstance(value, Mapping):
        return {key_text(key): as_json(item) for key, item in value.items()}
    if hasattr(value, "__match_args__"):
        return {"type": type(value).__name__}
    return str(value)


def partition_text(value: TopicPartition) -> str:
    """`orders-3`. No topic has a name as long as what is cut here: somebody asked about one that cannot be, and the
    answer is the same for the shorter name."""
    topic, number = value
    return f"{topic if len(topic) <= LONGEST_TEXT else shown(topic)}-{number}"


def key_text(key: Any) -> str:
    return partition_text(key) if type(key) is TopicPartition else str(key)


def effects_as_json(effects: Effects) -> dict[str, Any]:
    """What of an Effects stands in a line, under the same names."""
    return {name: as_json(getattr(effects, name)) for name in EFFECTS}


def event_from_json(value: Any) -> Event:
    return cast(Event, _understood(_event, value))


def flaw_of(line: Mapping[str, Any], missing: object) -> str | None:
    """What no controller would write in the event, the writes or the changes of this line; `missing`: a name that a record must
    have, where one was looked for in vain."""
    for value, read in (
        (line["event"], _event),
        *((v, _effect) for v in (*line["writes"], *line["changes"])),
    ):
        try:
            _understood(read, value)
        except UnreadableJournal as error:
            return str(error)
        if (kind := _kind_without(value, missing)) is not None:
            return f"{kind}: it names no {missing}"
    return None


def _kind_without(value: Any, name: object) -> str | None:
    """The first record within `value` that lacks this field of its type."""
    if isinstance(value, dict):
        kind = _TYPES.get(str(value.get("type")))
        fields = {word_of(field) for field in getattr(kind, "__match_args__", ())}
        if name in fields and name not in value:
            return str(value["type"])
        value = list(value.values())
    if isinstance(value, list):
        return next((found for item in value if (found := _kind_without(item, name)) is not None), None)
    return None


def _effect(value: Any) -> Any:
    return _record(_TYPES[value["type"]], value)


def _understood(read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        kind = value.get("type") if isinstance(value, dict) else value
        raise UnreadableJournal(f"{kind} cannot be understood: {error!r}") from error


def _event(value: Any) -> Event:
    older = _EVENT_OF_ITS_OWN.get(str(value.get("type"))) if isinstance(value, dict) else None
    if older is not None:
        if "request_id" not in value:
            raise UnreadableJournal(f"{value['type']}: it names no request_id")
        return events_module.Requested(value["request_id"], _record(older, value))
    if not isinstance(value, dict) or value.get("type") not in _TYPES:
        found = value.get("type") if isinstance(value, dict) else value
        raise UnreadableJournal(f"no such event: {found!r}")
    return cast(Event, _record(_TYPES[value["type"]], value))


def _record(kind: type, value: Mapping[str, Any]) -> Any:
    hints = _hints_of(kind)
    names = cast("tuple[str, ...]", getattr(kind, "__match_args__", ()))
    known = {name: _read(hints[name], value[word_of(name)]) for name in names if word_of(name) in value}
    try:
        return kind(**known)
    except TypeError as error:
        raise UnreadableJournal(f"{kind.__name__}: {error}") from error


@cache
def _hints_of(kind: type) -> dict[str, Any]:
    """Evaluated once: a line has as many records as there are partitions."""
    return get_type_hints(kind)


def _read(hint: Any, value: Any) -> Any:
    hint = getattr(hint, "__supertype__", hint)  # a NewType is its number, or its bytes
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _read_union(arguments, value)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_read(arguments[0], item) for item in value)
        return tuple(_read(inner, item) for inner, item in zip(arguments, value, strict=True))
    if origin is frozenset:
        return frozenset(_read(arguments[0], item) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        key, inner = arguments
        return {_read_key(key, name): _read(inner, item) for name, item in value.items()}
    if hint is TopicPartition:
        return _partition(value)
    if hint is bytes:
        return bytes.fromhex(value)
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return hint[value]
    if hint is object and isinstance(value, dict):
        return _record(_TYPES[value["type"]], value)
    if isinstance(value, dict) and value.get("type") in _TYPES:
        return _record(_TYPES[value["type"]], value)
    if (hint in _PLAIN and type(value) is not hint) or hasattr(hint, "__match_args__"):
        raise UnreadableJournal(f"expected {hint.__name__}, found {value!r}")
    return value


def _read_union(arguments: tuple[Any, ...], value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, dict) and "type" in value:
        return _record(_TYPES[value["type"]], value)
    (hint,) = [a for a in arguments if a is not NoneType and not hasattr(a, "__match_args__")] or arguments[
        :1
    ]
    return _read(hint, value)


def _read_key(hint: Any, text: str) -> Any:
    hint = getattr(hint, "__supertype__", hint)
    if hint is TopicPartition:
        return _partition(text)
    return int(text) if hint is int else text


def _partition(text: str) -> TopicPartition:
    topic, _, digits = text.rpartition("-")
    number = number_in(digits)
    if not topic or number is None:
        raise UnreadableJournal(f"{text!r} is no partition: expected topic-number")
    return TopicPartition(topic, number)
