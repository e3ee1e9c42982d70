"""Protobuf: what a message's columns are, and values as rows. Python's protobuf parses in C; a row of eight fields is 2.5 us.

A field without presence is never null: not set, it has its default, as proto3 says. A field with presence (`optional`, a
message, a member of a oneof) is null where it is not set. Enums are text; a number without a name is the number as text.
`uint64` becomes DECIMAL(20, 0), `google.protobuf.Timestamp` a timestamp, a wrapper (`Int64Value`) the value it wraps.
A field whose message holds itself has no column and is left out, and told of. What is nested deeper than protobuf's bound
of 100 is refused by its parser.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from odradek.spark.formats.decoded import RefusedSchema
from odradek.spark.formats.kinds import MOST_FIELDS, TIMESTAMP
from odradek.spark.formats.known_files import known_files
from odradek.spark.formats.registry import Schema

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

_NAMES = {  # the numbers of FieldDescriptor.CPPTYPE_*
    1: pa.int32(),
    2: pa.int64(),
    3: pa.int64(),  # uint32
    4: pa.decimal128(20, 0),  # uint64
    5: pa.float64(),
    6: pa.float32(),
    7: pa.bool_(),
    8: pa.string(),  # enum
    9: pa.string(),
}
_MESSAGE, _ENUM, _STRING, _BYTES = 10, 8, 9, 12
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}


class Protobuf(NamedTuple):
    """Messages of a schema, each by its full name or by where it stands in the file."""

    pool: Any
    files: tuple[str, ...]  # the last is the schema itself
    names: tuple[str, ...]  # of the messages that it has

    def message(self, name: str) -> "Message":
        """By its full name, or by its last part where no other has it."""
        found = [name] if name in self.names else [n for n in self.names if n.endswith(f".{name}")]
        if len(found) != 1:
            raise RefusedSchema(f"no message {name}; there are {', '.join(self.names) or 'none'}")
        return message_of(self.pool.FindMessageTypeByName(found[0]))

    def first(self) -> "Message":
        return self.at((0,))

    def at(self, path: tuple[int, ...]) -> "Message":
        """By indexes, as they stand before a value."""
        file = self.pool.FindFileByName(self.files[-1])
        inside = list(file.message_types_by_name.values())
        found = None
        for index in path:
            if index >= len(inside):
                raise RefusedSchema(f"the schema has no message at {'.'.join(map(str, path))}")
            found = inside[index]
            inside = list(found.nested_types)
        return message_of(found)


class Message(NamedTuple):
    name: str
    columns: pa.Schema
    read: Callable[[bytes], dict[str, Any]]
    left_out: tuple[str, ...]


def of_registry(schema: Schema, references: Iterable[tuple[str, Schema]]) -> Protobuf:
    """`references`: by the name under which they are imported, in an order in which each imports only those before it."""
    named = [(name, _parsed(found.text)) for name, found in references]
    return _pooled([*named, ("", _parsed(schema.text))])


def of_descriptor_set(data: bytes) -> Protobuf:
    """Of a file that `protoc --include_imports --descriptor_set_out=FILE` wrote."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    try:
        found = FileDescriptorSet.FromString(data)
    except DecodeError as error:
        raise RefusedSchema(f"this is no descriptor set of protoc: {error}") from None
    if not found.file:
        raise RefusedSchema("this is no descriptor set of protoc: there is no file in it")
    return _pooled([(file.name, file) for file in found.file])


def _parsed(text: str) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        raise RefusedSchema(
            "the registry gives Protobuf schemas as text only; expected one that knows format=serialized, or a file of protoc"
        ) from None


def _pooled(files: Sequence[tuple[str, Any]]) -> Protobuf:
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    there = {name or file.name for name, file in files}
    # Only what is imported: another file may have the same types, as a copy of descriptor.proto in a directory of its own has.
    known = {file.name: file for file in known_files() if file.name not in there}

    def add(file: Any) -> None:
        for imported in [name for name in file.dependency if name in known]:
            add(known.pop(imported))
        pool.AddSerializedFile(file.SerializeToString())

    try:
        for name, file in files:
            file.name = name or file.name or "schema.proto"
            add(file)
            last = pool.FindFileByName(file.name)
    except (TypeError, KeyError, ValueError) as error:
        raise RefusedSchema(f"this Protobuf schema does not hold together: {error}") from None
    names = tuple(n for d in last.message_types_by_name.values() for n in _names(d))
    return Protobuf(pool, tuple(name or file.name for name, file in files), names)


def _names(descriptor: "Descriptor") -> Iterable[str]:
    yield descriptor.full_name
    for inner in descriptor.nested_types:
        if not inner.GetOptions().map_entry:
            yield from _names(inner)


def message_of(descriptor: "Descriptor") -> Message:
    from google.protobuf.message_factory import GetMessageClass

    walk = _Walk(descriptor.full_name)
    arrow, convert = _message(descriptor, (), "", walk)
    if arrow is None:
        raise RefusedSchema(f"the message {descriptor.full_name} has no field that a column holds")
    parse = GetMessageClass(descriptor).FromString

    def read(value: bytes) -> dict[str, Any]:
        row: dict[str, Any] = convert(parse(value))
        return row

    return Message(descriptor.full_name, pa.schema(list(arrow)), read, tuple(walk.left_out))


Convert = Callable[[Any], Any]


class _Walk:
    """What is met on the way from a message to all that is nested in it. Messages that hold each other are met once on each of the
    ways between them, of which a dozen have more than can be counted."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._fields = 0
        self.left_out: list[str] = []

    def meet(self) -> None:
        self._fields += 1
        if self._fields > MOST_FIELDS:
            raise RefusedSchema(
                f"the message {self._root} has more than {MOST_FIELDS:,} fields, with those nested in it"
            )


def _message(
    descriptor: "Descriptor", within: tuple[str, ...], path: str, walk: _Walk
) -> tuple[pa.DataType | None, Convert]:
    """The type of a column that holds such messages, and what makes a value of one. `within`: the messages around it."""
    name = descriptor.full_name
    if name == _TIMESTAMP:
        return TIMESTAMP, lambda m: m.seconds * 1_000_000 + m.nanos // 1000
    if name in _WRAPPERS:
        arrow, _ = _scalar(descriptor.fields_by_name["value"])
        return arrow, lambda m: m.value
    if name in within:
        return None, _nothing
    columns: list[pa.Field] = []
    getters: list[tuple[str, Convert]] = []
    for field in descriptor.fields:
        walk.meet()
        place = f"{path}.{field.name}".lstrip(".")
        found, getter = _field(field, (*within, name), place, walk)
        if found is None:
            walk.left_out.append(place)
        else:
            columns.append(pa.field(field.name, found))
            getters.append((field.name, getter))
    if not columns:
        return None, _nothing
    return pa.struct(columns), lambda message: {field: get(message) for field, get in getters}


def _nothing(_: Any) -> None:
    return None


def _field(
    field: "FieldDescriptor", within: tuple[str, ...], path: str, walk: _Walk
) -> tuple[pa.DataType | None, Convert]:
    name = field.name
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        key, _ = _value(kind.fields_by_name["key"], within, path, walk)
        value, convert = _value(kind.fields_by_name["value"], within, path, walk)
        if value is None:
            return None, _nothing
        return pa.map_(key, value), lambda m: [(k, convert(v)) for k, v in getattr(m, name).items()]
    arrow, convert = _value(field, within, path, walk)
    if arrow is None:
        return None, _nothing
    if field.is_repeated:
        return pa.list_(arrow), lambda m: [convert(v) for v in getattr(m, name)]
    if field.has_presence:
        return arrow, lambda m: convert(getattr(m, name)) if m.HasField(name) else None
    return arrow, lambda m: convert(getattr(m, name))


def _value(
    field: "FieldDescriptor", within: tuple[str, ...], path: str, walk: _Walk
) -> tuple[pa.DataType | None, Convert]:
    if field.message_type is not None:
        return _message(field.message_type, within, path, walk)
    return _scalar(field)


def _scalar(field: "FieldDescriptor") -> tuple[pa.DataType, Convert]:
    if field.cpp_type == _ENUM:
        # Of several names for a number the first, as in protobuf's JSON.
        names = {value.number: value.name for value in reversed(field.enum_type.values)}
        return pa.string(), lambda number: names.get(number, str(number))
    if field.type == _BYTES:
        return pa.binary(), _same
    return _NAMES[field.cpp_type], _same


def _same(value: Any) -> Any:
    return value
