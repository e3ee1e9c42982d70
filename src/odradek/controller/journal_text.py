"""The journal's text, made quickly: `as_json` and `json.dumps` of a large step take ten times as long as the step.

For each kind of record a function is written and compiled when the first one comes: the names of its fields are
constants in one text, numbers are put in as they are. What comes out is, byte for byte, what `json.dumps` makes of
`as_json` (tests/controller/test_journal_text.py), in pieces of a few milliseconds' work.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from inspect import get_annotations
from itertools import islice
from json.encoder import encode_basestring_ascii as quoted
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

from odradek.controller.journal import as_json, key_text, partition_text, word_of
from odradek.model.ids import TopicPartition

# So many values become text at once.
AT_ONCE = 1_000
_SAMPLED = 20
# Asked of every value of every step, and the same for every value of a kind.
_NAMES: dict[type, tuple[str, ...]] = {}
_IS_NEVER_CUT: dict[type, bool] = {}
_NEVER_CUT = (str, bytes, int, float, Enum, type(None), set, frozenset, TopicPartition)

MakeText = Callable[[Any], str]


def json_pieces(value: Any) -> Iterator[str]:
    """The text of a value in pieces, so that a step about 100,000 partitions needs neither all of it in memory nor
    all of its time at once."""
    names = _names_of(type(value))
    if not _is_large(value):
        yield text_of(value)
    elif names:
        yield f'{{"type":"{word_of(type(value).__name__)}"'
        for name in names:
            yield f',"{word_of(name)}":'
            yield from json_pieces(getattr(value, name))
        yield "}"
    elif isinstance(value, Mapping):
        yield from _entries(value)
    else:
        yield from _items(value)


def text_of(value: Any) -> str:
    return _MAKERS[type(value)](value)


def _entries(value: Mapping[Any, Any]) -> Iterator[str]:
    before = "{"
    if len(value) > AT_ONCE:  # of many, each is small
        keys = tuple(value)
        for start in range(0, len(keys), AT_ONCE):
            some = {key: value[key] for key in keys[start : start + AT_ONCE]}
            yield before + _mapping(some)[1:-1]
            before = ","
    else:
        for key, item in value.items():
            yield f"{before}{quoted(key_text(key))}:"
            yield from json_pieces(item)
            before = ","
    yield "}"


def _items(value: Sequence[Any]) -> Iterator[str]:
    before = "["
    if len(value) > AT_ONCE:
        for start in range(0, len(value), AT_ONCE):
            yield before + ",".join(map(text_of, value[start : start + AT_ONCE]))
            before = ","
    else:
        for item in value:
            yield before
            yield from json_pieces(item)
            before = ","
    yield "]"


def _is_large(value: Any) -> bool:
    """Too much for one piece, as far as the first of each kind tell: to look at all would take longer than to write
    them. Sets are not cut: they are sorted."""
    kind = type(value)
    if _is_never_cut(kind):
        return False
    names = _names_of(kind)
    if names:
        return any(_is_large(getattr(value, name)) for name in names)
    if isinstance(value, Mapping):
        return len(value) > AT_ONCE or any(map(_is_large, islice(value.values(), _SAMPLED)))
    return isinstance(value, tuple | list) and (
        len(value) > AT_ONCE or any(map(_is_large, islice(value, _SAMPLED)))
    )


def _is_never_cut(kind: type) -> bool:
    known = _IS_NEVER_CUT.get(kind)
    if known is None:
        known = _IS_NEVER_CUT[kind] = issubclass(kind, _NEVER_CUT)
    return known


def _names_of(kind: type) -> tuple[str, ...]:
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = _read_names(kind)
    return names


def _read_names(kind: type) -> tuple[str, ...]:
    if kind is TopicPartition or issubclass(kind, str | int | bytes):
        return ()
    return tuple(getattr(kind, "_fields", None) or getattr(kind, "__match_args__", None) or ())


# ---------------------------------------------------------------------------------------------- makers of text


def _maker(kind: type) -> MakeText:
    names = _names_of(kind)
    if names:
        return _compiled(kind, names)
    if issubclass(kind, Enum):
        return _enumerated(kind)
    if issubclass(kind, tuple | list) and kind is not TopicPartition:
        return _list
    if issubclass(kind, Mapping):
        return _mapping
    return _slowly


def _compiled(kind: type, names: tuple[str, ...]) -> MakeText:
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        hints.update(get_annotations(base))
    fields = [f'"{word_of(name)}":{{{_expression(hints.get(name), name)}}}' for name in names]
    # lambda v: f'{{"type":"Stored","version":{v.version:d}}}'
    source = "lambda v: f'{{" + ",".join([f'"type":"{word_of(kind.__name__)}"', *fields]) + "}}'"
    made: MakeText = eval(source, {**_NAMED, **{f"again_{name}": _Repeated() for name in names}})
    return made


def _expression(hint: Any, name: str) -> str:
    """Numbers as they are; lists of them, of which there are few, are made once; what the hint tells is not asked of the
    value again."""
    value = f"v.{name}"
    arguments = get_args(hint)
    if get_origin(hint) in (Union, UnionType) and len(arguments) == 2 and arguments[1] is NoneType:
        return f"null if {value} is None else {_call(arguments[0], name)}"
    if _plain(hint) is int:
        return f"{value}:d"
    return _call(hint, name)


def _call(hint: Any, name: str) -> str:
    kind = _plain(hint)
    if kind in _CALLED:
        return f"{_CALLED[kind]}(v.{name})"
    if get_origin(hint) is tuple and len(get_args(hint)) == 2:
        item, rest = get_args(hint)
        if rest is Ellipsis and _plain(item) is int:
            return f"ids(v.{name})"
        if rest is Ellipsis and isinstance(item, type) and _names_of(item):
            return f"again_{name}.text(v.{name})"
    return f"text_of(v.{name})"


def _plain(hint: Any) -> Any:
    """What a NewType is made of."""
    return getattr(hint, "__supertype__", hint)


class _Repeated:
    """The records of one field. Each broker is told of the same brokers, and mostly of the same partitions: the same tuple, or
    an equal one. Whoever writes in another thread meanwhile finds the one or the other, each with its text."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = _Written((), "[]")

    def text(self, records: Sequence[Any]) -> str:
        last = self._last
        if records == last.records:
            return last.text
        text = _list(records)
        if type(records) is tuple and len(records) <= AT_ONCE:  # else it is too much to be kept
            self._last = _Written(records, text)
        return text


class _Written(NamedTuple):
    records: tuple[Any, ...]
    text: str


def _ids(numbers: Sequence[int]) -> str:
    return _few_ids(numbers) if type(numbers) is tuple else _list(numbers)


@lru_cache(maxsize=10_000)
def _few_ids(numbers: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, numbers))}]"


def _enumerated(kind: type[Enum]) -> MakeText:
    texts = {member: _slowly(member) for member in kind}
    return lambda member: texts[member]


def _list(value: Sequence[Any]) -> str:
    return f"[{','.join([_MAKERS[type(item)](item) for item in value])}]" if value else "[]"


def _mapping(value: Mapping[Any, Any]) -> str:
    return f"{{{','.join([f'{quoted(key_text(key))}:{text_of(item)}' for key, item in value.items()])}}}"


def _slowly(value: Any) -> str:
    return json.dumps(as_json(value), separators=(",", ":"))


class _Makers(dict[type, MakeText]):
    """By kind of value; one that was not met before is made."""

    def __missing__(self, kind: type) -> MakeText:
        made = self[kind] = _maker(kind)
        return made


_MAKERS = _Makers(
    {
        str: quoted,
        int: str,
        bool: lambda value: "true" if value else "false",
        type(None): lambda value: "null",
        TopicPartition: lambda value: quoted(partition_text(value)),
        bytes: lambda value: f'"{value.hex()}"',
    }
)
# What stands in compiled functions, and by which of it a value of a kind is written.
_NAMED = {
    "text_of": text_of,
    "ids": _ids,
    "number": str,
    "quoted": quoted,
    "partition": _MAKERS[TopicPartition],
    "null": "null",
}
_CALLED = {int: "number", str: "quoted", TopicPartition: "partition"}
