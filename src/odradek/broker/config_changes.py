"""AlterConfigs and IncrementalAlterConfigs: the frame around what each of them wants changed.

A change is read, planned and written over the version that was read; somebody else's change in between is a
conflict, and the plan runs again on what they wrote. Every resource has an answer of its own, in the order of
the request.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.answers import Answer, Park
from odradek.broker.aside import made_where_short
from odradek.broker.config_resources import (
    BROKER,
    TOPIC,
    Resource,
    check_broker_overrides,
    check_is_this_broker,
    check_topic_is_known,
    check_topic_overrides,
    entity_of,
    unknown_type,
)
from odradek.broker.effects import (
    ConfigsRead,
    ConfigsWritten,
    ConfigWrite,
    ReadConfigs,
    StoreFailed,
    StoreResult,
    WriteConfigs,
)
from odradek.broker.slices import END, answer_in_slices
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError, InvalidValue, ProtocolError

if TYPE_CHECKING:
    from odradek.broker.core import Broker

ATTEMPTS = 5
# Resources that are looked at, or planned, in one turn: some two milliseconds. A thread encodes the answer about more.
AT_ONCE = 300

Entity = tuple[str, str]  # kind and name of a node below /config
Error = tuple[ErrorCode, str | None]
OK: Error = (ErrorCode.NONE, None)
Encode = Callable[[Sequence[tuple[Resource, Error]]], bytes]


class Change(NamedTuple):
    """What to do to one resource: from the overrides it has to those it shall have. May refuse.

    `replaces`: all that was there, so what cannot be read does not matter.
    """

    plan: Callable[[Mapping[str, str]], dict[str, str]]
    replaces: bool = False


def _told(refusal: ConfigurationError, resource: Resource) -> tuple[ErrorCode, str]:
    """As Apache says it: a bad value of a topic is named with its resource."""
    sentence = refusal.kafka_message if isinstance(refusal, InvalidValue) else str(refusal)
    if resource[0] != TOPIC:
        return ErrorCode.INVALID_REQUEST, sentence
    return (
        ErrorCode.INVALID_CONFIG,
        f"Invalid config value for resource ConfigResource(type=TOPIC, name='{resource[1]}'): {sentence}",
    )


def answer(
    broker: "Broker",
    resources: Sequence[Resource],
    change_of: Callable[[int], Change | None],
    *,
    validate_only: bool,
    encode: Encode,
) -> Answer:
    """`change_of(place)` says what the row of the request at that place wants, None where it is done already; it
    refuses with ProtocolError."""
    times = Counter(resources)
    errors: dict[int, Error] = {}
    changes: dict[int, Change] = {}

    def steps() -> Iterator[None]:
        for place, resource in enumerate(resources):
            if place and not place % AT_ONCE:
                yield
            try:
                if times[resource] > 1:
                    raise ProtocolError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
                change = change_of(place)
                if change is None:
                    errors[place] = OK
                    continue
                _check_resource(broker, resource)
                changes[place] = change
            except ProtocolError as refusal:
                errors[place] = refusal.code, refusal.message or None

    def encoded() -> bytes:
        return encode([(resource, errors[place]) for place, resource in enumerate(resources)])

    def reply() -> Answer:
        return made_where_short(broker.aside, encoded, broker.now_ms, is_short=len(resources) <= AT_ONCE)

    def planned(place: int, stored: Mapping[str, str]) -> dict[str, str]:
        resource_type, name = resources[place]
        overrides = changes[place].plan(stored)
        try:
            if resource_type == TOPIC:
                check_topic_overrides(broker, overrides, stored)
            else:
                check_broker_overrides(broker, name, overrides, stored)
        except ConfigurationError as refusal:
            code, message = _told(refusal, resources[place])
            raise ProtocolError(code, message) from refusal
        return overrides

    def alter() -> Answer:
        if not changes:
            return reply()
        park = Park()
        Alteration(
            broker,
            {place: entity_of(*resources[place]) for place in changes},
            planned,
            errors,
            validate_only=validate_only,
            replaces=frozenset(place for place, change in changes.items() if change.replaces),
            done=lambda: park.answer(reply),
        ).start()
        return park

    return answer_in_slices(broker.slices, steps(), alter)


def _check_resource(broker: "Broker", resource: Resource) -> None:
    resource_type, name = resource
    if resource_type == TOPIC:
        if not name:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_is_known(broker, name, f"The topic '{name}' does not exist.")
    elif resource_type == BROKER:
        if name:
            check_is_this_broker(broker, name)
    else:
        raise unknown_type(resource_type, f"Unknown resource type {resource_type}")


class Alteration:
    """Reads nodes below /config, plans, writes; `done()` once `errors` has every place of `entities`.

    `plan(place, what stands there)` gives what shall stand there, or refuses with ProtocolError. A node that
    cannot be read is only changed where the place is in `replaces`.
    """

    def __init__(
        self,
        broker: "Broker",
        entities: Mapping[int, Entity],
        plan: Callable[[int, Mapping[str, str]], dict[str, str]],
        errors: dict[int, Error],
        *,
        validate_only: bool,
        done: Callable[[], None],
        replaces: Set[int] = frozenset(),
    ) -> None:
        self._broker = broker
        self._entities = entities
        self._plan = plan
        self._errors = errors
        self._validate_only = validate_only
        self._done = done
        self._replaces = replaces
        self._attempts = 0

    def start(self) -> None:
        self._attempts += 1
        entities = tuple(self._entities[place] for place in self._open())
        self._broker.ask_store(ReadConfigs(entities), self._read)

    def _open(self) -> list[int]:
        return [place for place in self._entities if place not in self._errors]

    def _read(self, result: StoreResult, now_ms: int) -> None:
        if not isinstance(result, ConfigsRead):
            return self._fail(result)
        writes: dict[int, ConfigWrite] = {}
        steps = self._planned(result, writes)
        if next(steps, END) is END:
            return self._write(writes)

        def piece(later_ms: int) -> bool:
            if next(steps, END) is not END:
                return True
            self._write(writes)
            return False

        return self._broker.slices.begin(piece)

    def _planned(self, read: ConfigsRead, writes: dict[int, ConfigWrite]) -> Iterator[None]:
        """Into `writes`; a step each AT_ONCE."""
        for count, place in enumerate(self._open()):
            if count and not count % AT_ONCE:
                yield
            entity = self._entities[place]
            stored = read.configs[entity]
            unreadable = read.unreadable.get(entity)
            try:
                if unreadable is not None and place not in self._replaces:
                    raise ProtocolError(
                        ErrorCode.UNKNOWN_SERVER_ERROR,
                        f"{unreadable}; AlterConfigs replaces what stands there",
                    )
                overrides = self._plan(place, stored.overrides)
            except ProtocolError as refusal:
                self._errors[place] = refusal.code, refusal.message or None
                continue
            if self._validate_only or (overrides == stored.overrides and unreadable is None):
                self._errors[place] = OK
            else:
                writes[place] = ConfigWrite(*entity, overrides, stored.version)

    def _write(self, writes: dict[int, ConfigWrite]) -> None:
        if not writes:
            self._done()
            return

        def written(result: StoreResult, now_ms: int) -> None:
            self._written(list(writes), result)

        self._broker.ask_store(WriteConfigs(tuple(writes.values())), written)

    def _written(self, places: list[int], result: StoreResult) -> None:
        if not isinstance(result, ConfigsWritten):
            self._fail(result)
            return
        for place, outcome in zip(places, result.outcomes, strict=True):
            if outcome == "stored":
                self._errors[place] = OK
            elif outcome != "conflict":
                self._errors[place] = ErrorCode.UNKNOWN_SERVER_ERROR, outcome
            elif self._attempts >= ATTEMPTS:
                self._errors[place] = ErrorCode.UNKNOWN_SERVER_ERROR, "others keep changing it; try again"
        if self._open():
            self.start()
        else:
            self._done()

    def _fail(self, result: StoreResult) -> None:
        reason = result.reason if isinstance(result, StoreFailed) else "the store answered something else"
        for place in self._open():
            self._errors[place] = ErrorCode.UNKNOWN_SERVER_ERROR, reason
        self._done()
