"""Avro: what a schema's columns are, and values as rows. fastavro reads them, some 5 us a record of eight fields.

A schema is written anew before fastavro has it: referenced types stand where they are first named, dates and times of any
unit become numbers in the unit that the columns have, and what would read without end is refused: types that hold
themselves (fastavro recurses in C), and arrays of what takes no byte (a count of 2**62 in ten bytes). Decimals are read here:
one of 400 KB would take fastavro 13 s. Symbols of enums are looked up here: of an
index below zero fastavro takes the last ones, as Python does. (Of a union's branch as well; to bound that doubled the time of a value.)

Fields are taken by name; a default of the reader's schema is not used, so a field that the writer did not know is null.
A field that no column holds (a union of a string and a record) is left out, and told of.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from io import BytesIO
from typing import Any, NamedTuple

import pyarrow as pa

from odradek.spark.formats.decoded import RefusedSchema
from odradek.spark.formats.kinds import MOST_FIELDS, TIMESTAMP
from odradek.spark.formats.registry import Schema

PLAIN = "value"  # the one column of a schema that is no record
_SIMPLE = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_LEAST_BYTES = {"null": 0, "float": 4, "double": 8}
# Logical types of our own names: fastavro's make Python's datetimes, which end with the year 9999.
_TIMES: dict[str, Callable[[Any], Any]] = {
    "timestamp-millis": lambda value: value * 1000,
    "timestamp-micros": lambda value: value,
    "timestamp-nanos": lambda value: value // 1000,
}
_NAMED = ("record", "error", "enum", "fixed")
_ENUM = "odradek-enum"
_SYMBOLS = "odradekSymbols"
_LARGEST_DECIMAL = 38
_EXACT = Context(prec=2 * _LARGEST_DECIMAL)
_DECIMAL_BYTES = 17  # of 38 digits, without those that repeat the sign; Python's time for a longer one grows with its square


class Avro(NamedTuple):
    """`columns` are those the schema would give a table; `read` makes a row of a value, by name of the column."""

    columns: pa.Schema
    read: Callable[[bytes], dict[str, Any]]
    is_plain: bool  # one column, because the schema is no record
    left_out: tuple[str, ...]  # fields that no column holds


def avro_of(text: str, references: Sequence[Schema] = ()) -> Avro:
    """Of a schema as JSON. `references` in an order in which each names only those before it."""
    import fastavro
    import fastavro.read

    for name in _TIMES:
        fastavro.read.LOGICAL_READERS.setdefault(f"long-odradek-{name}", _reader(name))
    for kind in ("bytes", "fixed"):
        fastavro.read.LOGICAL_READERS.setdefault(f"{kind}-odradek-decimal", _read_decimal)
    fastavro.read.LOGICAL_READERS.setdefault(f"int-{_ENUM}", _read_enum)
    walk = _Walk()
    try:
        for reference in references:
            walk.define(json.loads(reference.text))
        found = walk.kind(json.loads(text), "", "")
        parsed = fastavro.parse_schema(found.schema)
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        fastavro.schema.SchemaParseException,
    ) as error:
        raise RefusedSchema(f"this is no Avro schema: {type(error).__name__} {error}") from None
    if found.arrow is None:
        raise RefusedSchema("no column holds the values of this Avro schema")
    is_plain = not found.is_record
    columns = pa.schema([(PLAIN, found.arrow)]) if is_plain else pa.schema(list(found.arrow))

    def read(value: bytes) -> dict[str, Any]:
        stream = BytesIO(value)
        row = fastavro.schemaless_reader(stream, parsed)
        if stream.tell() != len(value):
            raise ValueError(f"{len(value) - stream.tell()} bytes stand behind the value")
        return {PLAIN: row} if is_plain else row

    return Avro(columns, read, is_plain, tuple(walk.left_out))


def _reader(name: str) -> Callable[..., Any]:
    of_unit = _TIMES[name]
    return lambda value, *_: of_unit(value)


def _read_decimal(value: bytes, schema: Mapping[str, Any], *_: Any) -> Decimal:
    number = int.from_bytes(value, "big", signed=True)
    if number.bit_length() > 8 * _DECIMAL_BYTES:
        raise ValueError(f"a decimal of {len(value):,} bytes")
    return Decimal(number).scaleb(-schema.get("scale", 0), _EXACT)


def _read_enum(index: int, schema: Mapping[str, Any], *_: Any) -> str:
    if index < 0:
        raise IndexError(index)
    symbol: str = schema[_SYMBOLS][index]
    return symbol


class _Kind(NamedTuple):
    schema: Any  # as fastavro gets it
    arrow: pa.DataType | None  # None: no column holds it
    least_bytes: int
    is_record: bool = False
    is_enum: bool = False  # which has no name of its own by then
    fields: int = 0  # with those nested in it


class _Walk:
    def __init__(self) -> None:
        # Referenced: a schema, and the namespace that it stands in.
        self._defined: dict[str, tuple[Any, str]] = {}
        self._known: dict[str, _Kind] = {}
        self._open: set[str] = set()
        self.left_out: list[str] = []

    def define(self, schema: Any) -> None:
        """A schema that others refer to by its name, and the names of those within it."""
        _full_name(schema, "")
        for name, defined, namespace in _types_of(schema, ""):
            self._defined.setdefault(name, (defined, namespace))

    def kind(self, schema: Any, namespace: str, path: str) -> _Kind:
        if isinstance(schema, str):
            return self._named(schema, namespace, path)
        if isinstance(schema, list):
            return self._union(schema, namespace, path)
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.kind(kind, namespace, path)
        if (
            kind in _NAMED
            and (name := _full_name(schema, namespace)) in self._defined
            and name in self._known
        ):
            return self._named(name, "", path)  # it was named before what it stands in
        match kind:
            case "record" | "error":
                return self._record(schema, namespace, path)
            case "enum":
                return self._enum(schema, namespace)
            case "fixed":
                decimal = _decimal(schema)
                plain = {k: v for k, v in schema.items() if k != "logicalType"}
                plain |= {"logicalType": "odradek-decimal"} if decimal else {}
                return self._define(plain, namespace, decimal or pa.binary(), int(schema["size"]))
            case "array":
                return self._array(schema, namespace, path)
            case "map":
                values = self.kind(schema["values"], namespace, path)
                arrow = None if values.arrow is None else pa.map_(pa.string(), values.arrow)
                return _Kind({"type": "map", "values": values.schema}, arrow, 1, fields=values.fields)
        return self._logical(schema) or self._named(kind, namespace, path)

    def _named(self, name: str, namespace: str, path: str) -> _Kind:
        if name in _SIMPLE:
            return _Kind(name, _SIMPLE[name], _LEAST_BYTES.get(name, 1))
        if name == "null":
            return _Kind(name, None, 0)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for known in (full, name):
            if known in self._open:
                raise RefusedSchema(f"the type {known} holds itself, which no column does")
            if known in self._known:
                found = self._known[known]
                return found if found.is_enum else found._replace(schema=known)
            if known in self._defined:
                return self.kind(*self._defined[known], path)
        raise RefusedSchema(f"there is no type {name} in this schema, nor among those it refers to")

    def _enum(self, schema: Any, namespace: str) -> _Kind:
        number = {
            "type": "int",
            "logicalType": _ENUM,
            _SYMBOLS: [str(symbol) for symbol in schema["symbols"]],
        }
        found = self._known[_full_name(schema, namespace)] = _Kind(number, pa.string(), 1, is_enum=True)
        return found

    def _define(self, schema: Any, namespace: str, arrow: pa.DataType | None, least: int) -> _Kind:
        name = _full_name(schema, namespace)
        kept = {key: value for key, value in schema.items() if key not in ("namespace", "aliases")}
        self._known[name] = _Kind({**kept, "name": name}, arrow, least)
        return self._known[name]

    def _record(self, schema: Any, namespace: str, path: str) -> _Kind:
        name = _full_name(schema, namespace)
        self._open.add(name)
        fields, columns, least, nested = [], [], 0, len(schema["fields"])
        for field in schema["fields"]:
            place = f"{path}.{field['name']}".lstrip(".")
            found = self.kind(field["type"], name.rpartition(".")[0], place)
            fields.append({"name": field["name"], "type": found.schema})
            least += found.least_bytes
            nested += found.fields
            if nested > MOST_FIELDS:
                raise RefusedSchema(
                    f"the record {name} has more than {MOST_FIELDS:,} fields, with those nested in it"
                )
            if found.arrow is None:
                self.left_out.append(place)
            else:
                columns.append(pa.field(field["name"], found.arrow))
        self._open.discard(name)
        whole = {"type": "record", "name": name, "fields": fields}
        arrow = pa.struct(columns) if columns else None
        self._known[name] = _Kind(whole, arrow, least, is_record=True, fields=nested)
        return self._known[name]

    def _array(self, schema: Any, namespace: str, path: str) -> _Kind:
        items = self.kind(schema["items"], namespace, path)
        if items.least_bytes == 0:
            raise RefusedSchema("an array of values that take no byte may have any number of them")
        arrow = None if items.arrow is None else pa.list_(items.arrow)
        return _Kind({"type": "array", "items": items.schema}, arrow, 1, fields=items.fields)

    def _union(self, schema: list[Any], namespace: str, path: str) -> _Kind:
        found = [self.kind(branch, namespace, path) for branch in schema]
        there = [kind for kind in found if kind.schema != "null"]
        arrows = {kind.arrow for kind in there}
        arrow: pa.DataType | None = None
        if len(arrows) == 1:
            arrow = next(iter(arrows))
        elif arrows and arrows <= {pa.int32(), pa.int64()}:
            arrow = pa.int64()
        elif arrows and arrows <= {pa.float32(), pa.float64(), pa.int32(), pa.int64()}:
            arrow = pa.float64()
        return _Kind([kind.schema for kind in found], arrow, 1, fields=sum(kind.fields for kind in found))

    def _logical(self, schema: Any) -> _Kind | None:
        kind, logical = schema["type"], schema.get("logicalType")
        if kind == "int" and logical == "date":
            return _Kind("int", pa.date32(), 1)
        if kind == "long" and logical in _TIMES:
            return _Kind({"type": "long", "logicalType": f"odradek-{logical}"}, TIMESTAMP, 1)
        if kind == "bytes" and (arrow := _decimal(schema)) is not None:
            return _Kind({**schema, "logicalType": "odradek-decimal"}, arrow, 1)
        return None


def _decimal(schema: Mapping[str, Any]) -> pa.DataType | None:
    """Larger ones, and those that are none by the rules, stay the bytes they are."""
    if schema.get("logicalType") != "decimal":
        return None
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return None
    is_one = 0 <= scale <= precision and 0 < precision <= _LARGEST_DECIMAL
    return pa.decimal128(precision, scale) if is_one else None


def _types_of(schema: Any, namespace: str) -> Iterator[tuple[str, Any, str]]:
    """The named types of a schema, itself and those within it, each with the namespace that it stands in."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _types_of(branch, namespace)
    if not isinstance(schema, dict):
        return
    if schema["type"] in _NAMED:
        name = _full_name(schema, namespace)
        yield name, schema, namespace
        namespace = name.rpartition(".")[0]
    inner = [schema.get(key) for key in ("type", "items", "values")]
    for one in [*inner, *(field["type"] for field in schema.get("fields", ()))]:
        yield from _types_of(one, namespace)


def _full_name(schema: Mapping[str, Any], namespace: str) -> str:
    name = str(schema["name"])
    within = str(schema.get("namespace", namespace))
    return name if "." in name or not within else f"{within}.{name}"
