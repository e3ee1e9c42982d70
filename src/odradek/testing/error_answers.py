"""Answers that say an error, for any API and version, from the tables of the messages alone.

A broker's handlers know what each error means; here nothing is known but where a message has error codes, and which of its
elements is about which topic and partition.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from odradek.client.sync_connection import response_type_of
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.fields import Field, Struct, fields_at
from odradek.protocol.messages.fetch import FetchResponse
from odradek.protocol.schema import Request, Response
from odradek.replication.follower import SESSION_ERRORS

CODES = ("error_code", "partition_error_code")
MESSAGE = "error_message"
TOPIC_NAMES = ("topic", "topic_name")
# What a client asks without changing anything: it is asked of the broker, and errors replace what came.
ONLY_ASKED = frozenset(
    (
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.API_VERSIONS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    )
)


class About(IntEnum):
    """What a message tells apart."""

    NEITHER = 0
    TOPICS = 1
    PARTITIONS = 2


class Target(NamedTuple):
    """Whom an error is about; None: all."""

    topic: str | None = None
    topic_id: bytes | None = None
    partition: int | None = None

    @property
    def is_all(self) -> bool:
        return self.topic is None and self.partition is None

    def names(self, element: Struct) -> bool | None:
        """Whether an element of a message is about this topic; None: it is about no topic, or every topic is meant."""
        if self.topic is None:
            return None
        names = [line.name for line in element.TABLE]
        topic_id = getattr(element, "topic_id", None)
        if self.topic_id is not None and topic_id == self.topic_id:
            return True
        for name in (*TOPIC_NAMES, "name"):
            if name in names and (value := getattr(element, name)):
                return bool(value == self.topic)
        return False if topic_id is not None else None


def has_errors(kind: type[Struct], version: int) -> bool:
    return any(
        line.name in CODES or (_is_of_structs(line) and has_errors(line.struct, version))
        for line in _fields(kind, version)
    )


def asks_about(kind: type[Struct], version: int) -> About:
    """What the elements of a request name. Those of `protocols`, `users` and the like have names that are no topics'."""
    found = About.NEITHER
    for line in _fields(kind, version):
        if line.kind != "array":
            continue
        inner = {li.name: li for li in _fields(line.struct, version)} if _is_of_structs(line) else {}
        if not inner.keys().isdisjoint((*TOPIC_NAMES, "topic_id")) or "topic" in line.name:
            has_partitions = any("partition" in li.name and li.kind == "array" for li in inner.values())
            found = max(found, About.PARTITIONS if has_partitions else About.TOPICS)
        elif inner:
            found = max(found, asks_about(line.struct, version))
    return found


def fails_by(kind: type[Struct], version: int) -> About:
    """For what the elements of an answer have an error of their own."""
    found = About.NEITHER
    for line in _fields(kind, version):
        if not _is_of_structs(line) or not has_errors(line.struct, version):
            continue
        names = {li.name for li in _fields(line.struct, version)}
        if names.isdisjoint((*TOPIC_NAMES, "topic_id", "name")):
            found = max(found, fails_by(line.struct, version))
        else:
            is_leaf = not any(
                _is_of_structs(li) and has_errors(li.struct, version) for li in _fields(line.struct, version)
            )
            found = max(
                found, About.TOPICS if is_leaf and "partition_index" not in names else About.PARTITIONS
            )
    return found


def answer_with(request: Request, version: int, error: int) -> Response:
    """The answer in which everything that was asked for has failed."""
    answer = response_type_of(type(request))()
    _mirror(request, answer, version)
    put(answer, version, error, Target())
    return answer


def put(answer: Response, version: int, error: int, target: Target) -> int:
    """`error` in the place of whatever the answer says of `target`: how many times. Of all where it stands outermost, for that
    is where a client looks first."""
    is_each = isinstance(answer, FetchResponse) and error not in SESSION_ERRORS
    if target.is_all and not is_each:
        return _put_outermost(answer, version, error)
    return _put_in(answer, version, error, target, is_about=target.topic is None)


def without(request: Request, version: int, target: Target) -> Request | None:
    """Takes what is about `target` out of `request`: that part, as a request of its own; None: nothing is."""
    taken = type(request)(**{line.name: getattr(request, line.name) for line in request.TABLE})
    found = False
    for line in _fields(type(request), version):
        if line.kind == "array" and getattr(request, line.name):
            kept, out = _parted(getattr(request, line.name), version, target)
            setattr(request, line.name, kept)
            setattr(taken, line.name, out)
            found = found or bool(out)
    return taken if found else None


def is_empty(request: Request, version: int) -> bool:
    """Nothing is left of what it asked for."""
    return not any(
        getattr(request, line.name)
        for line in _fields(type(request), version)
        if line.kind == "array" and _source_of(type(request), version) is line
    )


def joined(first: Response, second: Response, version: int) -> Response:
    """`first` with what `second` says of other partitions."""
    for line in _fields(type(first), version):
        if _is_of_structs(line) and has_errors(line.struct, version):
            setattr(first, line.name, _joined(getattr(first, line.name), getattr(second, line.name), version))
    return first


# --- from a request to its answer


def _mirror(asked: Struct, answer: Struct, version: int, *, is_element: bool = False) -> None:
    """What the answer repeats of the question: what has the same name, and in an element also the first of its kind, which is
    the name or the number of what it is about."""
    theirs = {line.name: line for line in _fields(type(asked), version)}
    named: set[str] = set()
    for line in _fields(type(answer), version):
        same = theirs.get(line.name)
        if same is not None and same.kind == line.kind and line.kind not in ("array", "struct"):
            setattr(answer, line.name, getattr(asked, line.name))
            named.add(line.kind)
    for kind in ("string", "uuid", "int32") if is_element else ():
        mine = _first(type(answer), version, kind)
        other = _first(type(asked), version, kind)
        if kind not in named and mine is not None and other is not None:
            setattr(answer, mine.name, getattr(asked, other.name))
    for line in _fields(type(answer), version):
        if not _is_of_structs(line):
            continue
        same = theirs.get(line.name)
        if same is None or same.kind != "array":
            same = _source_of(type(asked), version) if has_errors(line.struct, version) else None
        if same is not None:
            setattr(answer, line.name, [_element(line, e, version) for e in getattr(asked, same.name) or ()])


def _element(line: Field, asked: Any, version: int) -> Struct:
    element = line.struct()
    if isinstance(asked, Struct):
        _mirror(asked, element, version, is_element=True)
        return element
    mine = _first(line.struct, version, "string" if isinstance(asked, str) else "int32")
    if mine is not None:
        setattr(element, mine.name, asked)
    return element


def _source_of(kind: type[Struct], version: int) -> Field | None:
    """The array of what is asked for."""
    return next((line for line in _fields(kind, version) if line.kind == "array"), None)


def _first(kind: type[Struct], version: int, of: str) -> Field | None:
    return next((li for li in _fields(kind, version) if li.kind == of and li.name != MESSAGE), None)


# --- errors in an answer


def _put_outermost(struct: Struct, version: int, error: int) -> int:
    lines = _fields(type(struct), version)
    own = [line for line in lines if line.name in CODES]
    for line in own:
        setattr(struct, line.name, error)
    if own:
        return 1
    return _in_elements(struct, version, lambda element: _put_outermost(element, version, error))


def _put_in(struct: Struct, version: int, error: int, target: Target, *, is_about: bool) -> int:
    """`is_about`: this struct is of the topic, or every topic is meant."""

    def element(found: Struct) -> int:
        about = target.names(found)
        if about is False:
            return 0
        if about is None:
            about = is_about
            number = _first(type(found), version, "int32")
            if about and number is not None and any(li.name in CODES for li in _fields(type(found), version)):
                if target.partition is not None and getattr(found, number.name) != target.partition:
                    return 0
                return _put_outermost(found, version, error)
        elif about and target.partition is None:
            return _put_outermost(found, version, error)
        return _put_in(found, version, error, target, is_about=bool(about))

    return _in_elements(struct, version, element)


def _in_elements(struct: Struct, version: int, do: Callable[[Struct], int]) -> int:
    return sum(
        do(element)
        for line in _fields(type(struct), version)
        if _is_of_structs(line) and has_errors(line.struct, version)
        for element in getattr(struct, line.name) or ()
    )


# --- parts of a request


def _parted(elements: list[Any], version: int, target: Target) -> tuple[list[Any], list[Any]]:
    """What stays and what is about `target`. Elements that name no topic are looked into."""
    kept: list[Any] = []
    out: list[Any] = []
    for element in elements:
        about = target.names(element) if isinstance(element, Struct) else element == target.topic
        if about is False:
            kept.append(element)
        elif about is None:
            rest, taken = _looked_into(element, version, target)
            kept += [rest] if rest is not None else []
            out += [taken] if taken is not None else []
        elif target.partition is None or not isinstance(element, Struct):
            out.append(element)
        else:
            rest, taken = _by_partition(element, version, target.partition)
            kept += [rest] if rest is not None else []
            out += [taken] if taken is not None else []
    return kept, out


def _looked_into(element: Struct, version: int, target: Target) -> tuple[Struct | None, Struct | None]:
    """What a group or a transaction asks of its topics."""
    line = next((li for li in _fields(type(element), version) if _is_of_structs(li)), None)
    if line is None:
        return element, None
    kept, out = _parted(getattr(element, line.name) or [], version, target)
    return (_with(element, line, kept), _with(element, line, out)) if out else (element, None)


def _with(element: Struct, line: Field, found: list[Any]) -> Struct | None:
    values = {other.name: getattr(element, other.name) for other in element.TABLE}
    return type(element)(**{**values, line.name: found}) if found else None


def _by_partition(topic: Struct, version: int, partition: int) -> tuple[Struct | None, Struct | None]:
    line = _source_of(type(topic), version)
    if line is None:
        return topic, None
    elements = getattr(topic, line.name) or []

    def is_it(element: Any) -> bool:
        if not isinstance(element, Struct):
            return bool(element == partition)
        number = _first(type(element), version, "int32")
        return number is not None and getattr(element, number.name) == partition

    mine = [element for element in elements if is_it(element)]
    rest = [element for element in elements if not is_it(element)]
    return _with(topic, line, rest), _with(topic, line, mine)


def _joined(first: list[Struct], second: list[Struct], version: int) -> list[Struct]:
    """Elements of one name become one."""
    found = list(first)
    for element in second:
        same = next((e for e in found if _is_same(e, element, version)), None)
        line = None if same is None else _source_of(type(element), version)
        if same is None or line is None:
            found.append(element)
        elif _is_of_structs(line):
            setattr(same, line.name, _joined(getattr(same, line.name), getattr(element, line.name), version))
    return found


def _is_same(one: Struct, other: Struct, version: int) -> bool:
    keys = [_first(type(one), version, kind) for kind in ("string", "uuid")]
    return any(keys) and all(
        getattr(one, key.name) == getattr(other, key.name) for key in keys if key is not None
    )


def _is_of_structs(line: Field) -> bool:
    return line.kind == "array" and isinstance(line.of, type)


def _fields(kind: type[Struct], version: int) -> list[Field]:
    inline, tagged, _ = fields_at(kind, version)
    return [*inline, *tagged]
