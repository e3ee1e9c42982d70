"""Columns as people write them: `id BIGINT, at TIMESTAMP, lines ARRAY<STRUCT<sku: STRING, n: INT>>`.

Spark's own words for types, read without a session, so that a job is checked before Spark starts.
"""

import re
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from odradek.model.errors import ConfigurationError
from odradek.model.ids import number_in

_SIMPLE = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_MOST_DIGITS = 38
_DEEPEST = 100  # levels of types within types
_WORDS = re.compile(r"\s*([A-Za-z_][\w$-]*|`[^`]+`|\d+|[<>(),:])")


def schema_of(text: str) -> pa.Schema:
    words = _Words(text)
    fields = [words.field(may_have_colon=False)]
    while words.take_if(","):
        fields.append(words.field(may_have_colon=False))
    words.end()
    if twice := _twice(fields):
        raise ConfigurationError(f"schema {text!r}: column {twice} comes twice")
    return pa.schema(fields)


def _twice(fields: Sequence[pa.Field]) -> str:
    """The first name that another one is the same as to Delta, to which case is nothing; or ""."""
    names = [str(field.name) for field in fields]
    times = Counter(name.lower() for name in names)
    return next((name for name in names if times[name.lower()] > 1), "")


def text_of(schema: pa.Schema) -> str:
    """The other way: what `schema_of` reads as this schema."""
    return ", ".join(f"{_quoted(field.name)} {type_text(field.type)}" for field in schema)


def type_text(kind: pa.DataType) -> str:
    if pa.types.is_map(kind):
        return f"MAP<{type_text(kind.key_type)}, {type_text(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"ARRAY<{type_text(kind.value_type)}>"
    if pa.types.is_struct(kind):
        inner = ", ".join(f"{_quoted(f.name)}: {type_text(f.type)}" for f in kind)
        return f"STRUCT<{inner}>"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return next((name.upper() for name, known in _SIMPLE.items() if known == kind), str(kind))


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else f"`{name}`"


class _Words:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def field(self, *, may_have_colon: bool, depth: int = 0) -> pa.Field:
        name = self._name()
        if may_have_colon:
            self.take_if(":")
        return pa.field(name, self._type(depth))

    def _type(self, depth: int) -> pa.DataType:
        if depth > _DEEPEST:
            raise self._wrong(f"types within types go {_DEEPEST} levels deep")
        word = self._name().lower()
        if word == "array":
            self._want("<")
            inner = self._type(depth + 1)
            self._want(">")
            return pa.list_(inner)
        if word == "map":
            self._want("<")
            key = self._type(depth + 1)
            self._want(",")
            item = self._type(depth + 1)
            self._want(">")
            return pa.map_(key, item)
        if word == "struct":
            self._want("<")
            fields = [self.field(may_have_colon=True, depth=depth + 1)]
            while self.take_if(","):
                fields.append(self.field(may_have_colon=True, depth=depth + 1))
            self._want(">")
            if twice := _twice(fields):
                raise self._wrong(f"field {twice} comes twice")
            return pa.struct(fields)
        if word == "decimal":
            self._want("(")
            precision = number_in(self._next())
            self._want(",")
            scale = number_in(self._next())
            self._want(")")
            if precision is None or scale is None or not 0 < precision <= _MOST_DIGITS or scale > precision:
                raise self._wrong(
                    f"expected decimal(p, s) of up to {_MOST_DIGITS} digits, s of them behind the point"
                )
            return pa.decimal128(precision, scale)
        if word not in _SIMPLE:
            raise self._wrong(
                f"no type {word}; there are {', '.join(_SIMPLE)}, decimal(p, s), array<>, map<> and struct<>"
            )
        return _SIMPLE[word]

    def take_if(self, word: str) -> bool:
        before = self._at
        if self._next() == word:
            return True
        self._at = before
        return False

    def end(self) -> None:
        if self._text[self._at :].strip():
            raise self._wrong("expected a comma or the end")

    def _name(self) -> str:
        word = self._next()
        if not word or not (word[0].isalpha() or word[0] in "_`"):
            raise self._wrong("expected a name, as in id BIGINT, name STRING")
        return word.strip("`")

    def _want(self, word: str) -> None:
        if not self.take_if(word):
            raise self._wrong(f"expected {word}")

    def _next(self) -> str:
        found = _WORDS.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[1]

    def _wrong(self, why: str) -> ConfigurationError:
        near = self._text[max(0, self._at - 20) : self._at]
        return ConfigurationError(f"schema {self._text!r}, behind {near!r}: {why}")
