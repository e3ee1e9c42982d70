"""What is known of values before anything is read, as it stands in options and travels to the tasks; and what decodes by it."""

import os
from collections.abc import Callable, Mapping, Sized
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from odradek.model.errors import ConfigurationError
from odradek.spark import json_values
from odradek.spark.formats import rows as arrow_rows
from odradek.spark.formats.avro import Avro, avro_of
from odradek.spark.formats.decoded import REGISTRY, SCHEMA, Bad, Decoded, Decoder, Offer, RefusedSchema
from odradek.spark.formats.kinds import check_fits
from odradek.spark.formats.protobuf import Message, Protobuf, of_descriptor_set, of_registry
from odradek.spark.formats.registry import (
    Registry,
    RegistryUnavailable,
    Schema,
    UnknownSchema,
    checked_url,
    registry_at,
    shown_url,
)
from odradek.spark.formats.rows import TooLarge
from odradek.spark.formats.wire_format import FRAME, message_path, unframed

FORMATS = ("string", "json", "avro", "protobuf")
OF_SCHEMAS = ("avro", "protobuf")
_KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF"}
PLAIN = pa.schema([("value", pa.string())])
_MOST_REFERENCES = 200
# Schemas that are kept compiled, some 15 KB each of 20 fields: the ones that values have named last.
MOST_READERS = 1_000
_MOST_REFUSED = 1_000  # messages of a schema that are remembered; values name any number that there are not


class Format(NamedTuple):
    name: str = "json"
    registry: str = ""  # URL; the values are framed then
    schema_file: str = ""  # Avro: JSON. Protobuf: a descriptor set of protoc
    message: str = ""  # Protobuf: which of the file; else the first
    is_framed: bool = False  # with a file: the values have a schema's id before them, which is not looked at

    def check(self, option: str = "--format") -> "Format":
        """ConfigurationError where the parts do not go together; nobody is asked."""
        if self.name not in FORMATS:
            raise ConfigurationError(f"{option} {self.name}: there are {', '.join(FORMATS)}")
        if self.name not in OF_SCHEMAS:
            given = self.registry or self.schema_file or self.message or self.is_framed
            if given:
                raise ConfigurationError(f"{option} {self.name} has no schema of a registry or a file")
            return self
        if bool(self.registry) == bool(self.schema_file):
            raise ConfigurationError(
                f"{option} {self.name}: expected either --registry or --schema-file, where the schema is"
            )
        if self.registry:
            checked_url(self.registry)
        if self.message and (self.registry or self.name != "protobuf"):
            raise ConfigurationError("--message is for a --schema-file of Protobuf")
        _require(self.name)
        return self

    def __str__(self) -> str:
        if self.registry:
            return f"{self.name}, schemas of {shown_url(self.registry)}"
        return f"{self.name}, schema of {self.schema_file}" if self.schema_file else self.name

    def to_json(self) -> dict[str, Any]:
        return self._asdict()

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Format":
        return cls(**value)


class Learnt(NamedTuple):
    """What a schema says of columns."""

    columns: pa.Schema
    is_plain: bool
    left_out: tuple[str, ...]
    where: str


def learnt(form: Format, subject: str, sample: Callable[[], pa.Array]) -> Learnt:
    """The columns of the newest schema of the subject, or of the newest that a sample of values names, or of the file."""
    if form.schema_file:
        found = _of_file(form, _read(form))
        return Learnt(found.columns, _is_plain(found), found.left_out, f"of {form.schema_file}")
    registry = registry_at(form.registry)
    kind = _KINDS[form.name]
    try:
        newest = registry.latest(subject, kind)
        where = f"of subject {subject}, schema id {newest.schema_id}"
    except UnknownSchema:
        newest_id, newest = _named_by(sample(), registry, kind, subject)
        where = f"of schema id {newest_id}, which values name (there is no subject {subject})"
    of_newest: Avro | Message
    if form.name == "avro":
        of_newest = avro_of(newest.text, _avro_references(registry, newest))
    else:
        of_newest = _protobuf(registry, newest).first()
    return Learnt(of_newest.columns, _is_plain(of_newest), of_newest.left_out, where)


def _named_by(values: pa.Array, registry: Registry, kind: str, subject: str) -> tuple[int, Schema]:
    """The newest schema that the values name and the registry has."""
    for schema_id in sorted(unframed(values).by_id, reverse=True):
        try:
            return schema_id, registry.schema(schema_id, kind)
        except UnknownSchema:  # of a value that is none, perhaps
            continue
    raise ConfigurationError(
        f"{registry} has no subject {subject}, and no value names a schema that it has; name the subject with --subject, "
        f"or give the columns with --schema"
    )


def _is_plain(found: Avro | Message) -> bool:
    return isinstance(found, Avro) and found.is_plain


# With what stood in the schema's file; of a registry, whose schemas never change, nothing. The one that was asked for last stands
# last: columns become more while a worker lives, and each time those of before are asked for by nobody any more.
_decoders: dict[tuple[int, Format, str], tuple[bytes, Decoder]] = {}
MOST_DECODERS = 64


def decoder(form: Format, columns: pa.Schema) -> Decoder:
    """One a process and format, so that schemas are asked for and compiled once; anew when the schema's file says something else.

    A session, and its Python workers, outlive a query; a file that has gone meanwhile ends none that has read it.
    """
    key = (os.getpid(), form, str(columns))
    known = _decoders.get(key)
    if known is None or form.schema_file:
        known = _of_now(form, columns, known)
    _decoders.pop(key, None)
    _decoders[key] = known
    if len(_decoders) > MOST_DECODERS:
        _decoders.pop(next(iter(_decoders)), None)
    return known[1]


def _of_now(form: Format, columns: pa.Schema, known: tuple[bytes, Decoder] | None) -> tuple[bytes, Decoder]:
    data = b""
    if form.schema_file:
        try:
            data = _read(form)
        except ConfigurationError:
            if known is None:
                raise
            return known
    if known is None or known[0] != data:
        return data, _decoder(form, columns, data)
    return known


def _decoder(form: Format, columns: pa.Schema, data: bytes) -> Decoder:
    match form.name:
        case "json":
            return _Json(columns)
        case "string":
            return _Text(columns)
    if form.schema_file:
        found = _of_file(form, data)
        check_fits(found.columns, columns)
        reader_of_file = _reader_of(found)
        if form.is_framed and form.name == "protobuf":
            reader_of_file = reader_of_file._replace(read=_behind_path(found.read))
        return _OfFile(reader_of_file, columns, form.is_framed)
    registry = registry_at(form.registry)
    if form.name == "avro":
        return _OfRegistry(_avro_reader(registry, columns), lambda n: _avro(registry, n).columns, columns)
    reader = _protobuf_reader(registry, columns)
    return _OfRegistry(reader, lambda n: _protobuf_of(registry, n).first().columns, columns)


class _Json:
    def __init__(self, columns: pa.Schema) -> None:
        self._columns = columns

    def decoded(self, values: pa.Array) -> Decoded:
        found = json_values.decoded(values, self._columns)
        assert found is not None, "nothing was offered"
        return _of_json(found)

    def grown(self, values: pa.Array, offer: Offer) -> Decoded | None:
        found = json_values.decoded(values, self._columns, offer)
        return None if found is None else _of_json(found)


def _of_json(found: json_values.Decoded) -> Decoded:
    return Decoded(found.columns, found.good, {row: Bad(why) for row, why in found.bad.items()})


class _Text:
    def __init__(self, columns: pa.Schema) -> None:
        self._columns = columns

    def decoded(self, values: pa.Array) -> Decoded:
        try:
            texts = values.cast(pa.string())
        except pa.ArrowInvalid:
            bad: dict[int, Bad] = {}
            every = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
            none = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
            parts = [arrow_rows.nulls(none, self._columns)]
            name = self._columns.names[0]
            read = arrow_rows.Reader(lambda v: {name: v.decode()})
            parts += arrow_rows.read_rows(values, every, self._columns, read, bad)
            return arrow_rows.whole(parts, self._columns, bad)
        columns = pa.RecordBatch.from_arrays([texts], schema=self._columns)
        return Decoded(columns, np.arange(len(values)), {})

    def grown(self, values: pa.Array, offer: Offer) -> Decoded | None:
        return self.decoded(values)


class _OfFile:
    def __init__(self, reader: arrow_rows.Reader, columns: pa.Schema, is_framed: bool) -> None:
        self._reader, self._columns, self._is_framed = reader, columns, is_framed

    def decoded(self, values: pa.Array) -> Decoded:
        if self._is_framed:
            framed = unframed(values)
            bad, nulls, begin = framed.bad, framed.nulls, FRAME
            rows = np.sort(np.concatenate([np.arange(0), *framed.by_id.values()]))
        else:
            bad, begin = {}, 0
            nulls = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
            rows = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        parts = [arrow_rows.nulls(nulls, self._columns)]
        parts += arrow_rows.read_rows(values, rows, self._columns, self._reader, bad, begin=begin)
        return arrow_rows.whole(parts, self._columns, bad)

    def grown(self, values: pa.Array, offer: Offer) -> Decoded | None:
        return self.decoded(values)  # the file says what there is, and a job reads it once


# What reads the values of a schema into rows, by its id.
_Readers = Callable[[int], arrow_rows.Reader]


# The columns that a schema tells of, by its id.
_Tellers = Callable[[int], pa.Schema]


def _commonest_first(by_id: Mapping[int, Sized]) -> list[int]:
    """Ids, and of equally many records the least first: a registry is not asked for any number that it does not know, and those
    are rare ones."""
    return sorted(by_id, key=lambda schema_id: (-len(by_id[schema_id]), schema_id))


class _OfRegistry:
    def __init__(self, readers: _Readers, tell: _Tellers, columns: pa.Schema) -> None:
        self._readers = readers
        self._tell = tell
        self._columns = columns

    def grown(self, values: pa.Array, offer: Offer) -> Decoded | None:
        for schema_id in _commonest_first(unframed(values).by_id):
            try:
                told = self._tell(schema_id)
            except (UnknownSchema, RefusedSchema, RegistryUnavailable):
                continue  # its values are dead letters
            if offer({field.name: field.type for field in told}):
                return None
        return self.decoded(values)

    def decoded(self, values: pa.Array) -> Decoded:
        framed = unframed(values)
        bad = dict(framed.bad)
        parts = [arrow_rows.nulls(framed.nulls, self._columns)]
        for schema_id in _commonest_first(framed.by_id):
            rows = framed.by_id[schema_id]
            try:
                reader = self._readers(schema_id)
            except (UnknownSchema, RefusedSchema, RegistryUnavailable) as error:
                stage = REGISTRY if isinstance(error, RegistryUnavailable) else SCHEMA
                bad |= dict.fromkeys(rows.tolist(), Bad(str(error), stage, schema_id))
                continue
            parts += arrow_rows.read_rows(values, rows, self._columns, reader, bad, schema_id, FRAME)
        return arrow_rows.whole(parts, self._columns, bad)


def _avro_reader(registry: Registry, columns: pa.Schema) -> _Readers:
    @lru_cache(MOST_READERS)
    def reader(schema_id: int) -> arrow_rows.Reader:
        found = _avro(registry, schema_id)
        check_fits(found.columns, columns)
        return _reader_of(found)

    return reader


def _avro(registry: Registry, schema_id: int) -> Avro:
    schema = registry.schema(schema_id, "AVRO")
    return avro_of(schema.text, _avro_references(registry, schema))


def _protobuf_of(registry: Registry, schema_id: int) -> Protobuf:
    return _protobuf(registry, registry.schema(schema_id, "PROTOBUF"))


def _avro_references(registry: Registry, schema: Schema) -> list[Schema]:
    return [found for _, found in _references(registry, schema, "AVRO")]


def _protobuf_reader(registry: Registry, columns: pa.Schema) -> _Readers:
    @lru_cache(MOST_READERS)
    def reader(schema_id: int) -> arrow_rows.Reader:
        return _by_path(_protobuf_of(registry, schema_id), columns)

    return reader


def _behind_path(read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """For values that say which message they are, where that is known."""
    return lambda value: read(value[message_path(value)[1] :])


def _by_path(found: Protobuf, columns: pa.Schema) -> arrow_rows.Reader:
    """Reads values that say which message of the schema they are."""
    messages: dict[tuple[int, ...], arrow_rows.Reader] = {}
    refused: dict[tuple[int, ...], str] = {}

    def made(path: tuple[int, ...]) -> arrow_rows.Reader:
        if path in refused:
            raise RefusedSchema(refused[path])
        try:
            message = found.at(path)
            check_fits(message.columns, columns)
        except RefusedSchema as error:
            if len(refused) < _MOST_REFUSED:
                refused[path] = str(error)
            raise
        return _reader_of(message)

    def read(value: bytes) -> Any:
        path, at = message_path(value)
        if path not in messages:
            messages[path] = made(path)
        reader = messages[path]
        if len(value) > reader.largest:
            raise TooLarge(len(value), reader.largest)
        return reader.read(value[at:])

    return arrow_rows.Reader(read)


def _protobuf(registry: Registry, schema: Schema) -> Protobuf:
    return of_registry(schema, _references(registry, schema, "PROTOBUF"))


def _reader_of(found: Avro | Message) -> arrow_rows.Reader:
    return arrow_rows.Reader(found.read, arrow_rows.largest_of(found.columns, found.left_out))


def _references(registry: Registry, schema: Schema, kind: str) -> list[tuple[str, Schema]]:
    """All that a schema refers to, each behind what it refers to itself."""
    found: dict[str, Schema] = {}
    waiting: set[str] = set()

    def visit(of: Schema) -> None:
        for reference in of.references:
            if reference.name in found or reference.name in waiting:
                continue
            if len(found) + len(waiting) >= _MOST_REFERENCES:
                raise RefusedSchema(f"a schema refers to more than {_MOST_REFERENCES} others")
            waiting.add(reference.name)
            one = registry.referred(reference, kind)
            visit(one)
            waiting.discard(reference.name)
            found[reference.name] = one

    visit(schema)
    return list(found.items())


def _read(form: Format) -> bytes:
    try:
        with open(form.schema_file, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigurationError(f"--schema-file {form.schema_file}: {error.strerror}") from None


def _of_file(form: Format, data: bytes) -> Avro | Message:
    try:
        if form.name == "avro":
            return avro_of(data.decode(errors="replace"))
        found = of_descriptor_set(data)
        return found.message(form.message) if form.message else found.first()
    except RefusedSchema as error:
        raise ConfigurationError(f"--schema-file {form.schema_file}: {error}") from None


def _require(name: str) -> None:
    import importlib.util

    module, package = {"avro": ("fastavro", "fastavro"), "protobuf": ("google.protobuf", "protobuf")}[name]
    try:
        is_there = importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of `google`
        is_there = False
    if not is_there:
        raise ConfigurationError(
            f"{name} needs the package {package}: pip install 'odradek[spark]' brings it"
        )
