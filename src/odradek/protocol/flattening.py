"""Flat codecs: the compiler's source as files, `protocol/flat/*.py`, in which a message is plain tuples.

A class is made for each struct that the tables know; where that costs too much, or shall be built natively, the codec
is a file of its own, written by `python docs/generate.py` and checked in. Two forms:

- tuples (`TUPLES`): `decode(version, buffer)` gives a tuple, `encode(version, ...)` takes the fields. A struct is the
  tuple of its fields: those in line first, tagged ones behind them by their tag; of the versions that are flat, all
  fields; a field that a version does not know has its default. A tagged struct that is not there is None. Fields that
  no version has together share a place (`topic`, `topic_id`). Records are never copied: decoded they are a slice of
  the buffer, and a message that holds some is encoded to a list of buffers, the caller's own among them.
- objects (`flat=True` in the class): what `Message.decode` and `Message.encode` use instead of compiling.

tests/protocol/test_flat.py makes the files anew, and holds both forms equal to the tables.
"""

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from odradek.protocol.compiler import (
    ENDING,
    beginning,
    has_records,
    snake_case,
    written,
)
from odradek.protocol.fields import NEVER, Struct, VersionRange
from odradek.protocol.flat_form import Flat, FlatForm
from odradek.protocol.flat_sources import ObjectDecoder, ObjectEncoder, TupleDecoder, TupleEncoder, absent
from odradek.protocol.messages import (
    fetch,
    heartbeat,
    leader_and_isr,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    produce,
    stop_replica,
    update_metadata,
)
from odradek.protocol.schema import Message

TUPLES = (
    Flat(produce.ProduceRequest, decode="3+"),
    Flat(produce.ProduceResponse, encode="3+"),
    Flat(fetch.FetchRequest, decode="4+", encode="12+", named=True),
    Flat(fetch.FetchResponse, decode="12+", encode="4+", named=True),
    Flat(list_offsets.ListOffsetsRequest, decode="1+", named=True),
    Flat(list_offsets.ListOffsetsResponse, encode="1+"),
    Flat(metadata.MetadataResponse, encode="0+"),
    Flat(
        leader_and_isr.LeaderAndIsrRequest,
        encode="7",
        pieces=(leader_and_isr.LeaderAndIsrTopicState, leader_and_isr.LeaderAndIsrPartitionState),
    ),
    Flat(
        update_metadata.UpdateMetadataRequest,
        encode="8",
        pieces=(update_metadata.UpdateMetadataTopicState, update_metadata.UpdateMetadataPartitionState),
    ),
    Flat(stop_replica.StopReplicaRequest, encode="4"),
)

# Those with `flat=True`.
OBJECTS: tuple[type[Message], ...] = (
    heartbeat.HeartbeatRequest,
    heartbeat.HeartbeatResponse,
    offset_commit.OffsetCommitRequest,
    offset_commit.OffsetCommitResponse,
    offset_fetch.OffsetFetchRequest,
    offset_fetch.OffsetFetchResponse,
)


def files() -> Iterator[tuple[str, str]]:
    """(name of the module, its source)."""
    for cls in OBJECTS:
        yield snake_case(cls.__name__), objects_source(cls)
    for flat in TUPLES:
        yield snake_case(flat.cls.__name__), tuples_source(flat)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}_to_{last}"


def objects_source(cls: type[Message]) -> str:
    names: dict[str, Any] = {"new": "new = object.__new__"}
    title = cls.__name__
    assert not has_records(cls, cls.VERSIONS.last), f"{title}: records are handed on as tuples"
    decoding: dict[int, list[str]] = {}
    encoding: dict[int, list[str]] = {}
    for version in range(cls.VERSIONS.first, cls.VERSIONS.last + 1):
        decoder, encoder = ObjectDecoder(cls, version), ObjectEncoder(cls, version)
        decoder.struct(cls, "message")
        decoder.flush()
        encoder.struct(cls, "message")
        encoder.flush()
        names |= decoder.names | encoder.names
        decoding[version] = [*beginning(cls, version), *decoder.lines, *ENDING]
        encoding[version] = encoder.lines
    functions = []
    ways: dict[int, str] = {}
    for first, last, lines in _by_version(decoding):
        function = f"_decode_{_span(first, last)}"
        ways |= dict.fromkeys(range(first, last + 1), function)
        functions.append(
            "\n".join([f"def {function}(buffer: Buffer, position: int, budget: int) -> {title}:", *lines])
        )
    functions.append("\n".join(_table("DECODERS", f"Callable[[Buffer, int, int], {title}]", ways)))
    ways = {}
    for first, last, lines in _by_version(encoding):
        function = f"_encode_{_span(first, last)}"
        ways |= dict.fromkeys(range(first, last + 1), function)
        functions.append("\n".join([f"def {function}(message: {title}) -> bytes:", *written(lines)]))
    functions.append("\n".join(_table("ENCODERS", f"Callable[[{title}], bytes]", ways)))
    constants = [text for text in names.values() if isinstance(text, str)]
    classes = sorted({title, *(name for name, what in names.items() if isinstance(what, type))})
    imported = f"from {cls.__module__} import {', '.join(classes)}"
    return _file(
        f"{title} (key {cls.KEY}) as objects, versions {cls.VERSIONS.first}-{cls.VERSIONS.last}.",
        cls,
        ["\n".join(sorted(constants)), *functions],
        imported,
    )


def _file(title: str, cls: type[Message], parts: list[str], imported: str = "") -> str:
    source = "\n\n\n".join(part.strip("\n") for part in parts if part) + "\n"
    head = _HEAD.format(title=title, table=cls.__module__.rsplit(".", 1)[-1])
    imports = f"{_imports(source)}\n{imported}".strip("\n")
    return f"{head}{imports}\n\n\n{source}"


_HEAD = '''"""{title}

Written by `python docs/generate.py` (protocol/flattening.py) from messages/{table}.py: change those.
"""

# fmt: off
# ruff: noqa

'''
# Where the names that codecs use come from.
_IMPORTS = {
    "collections.abc": ("Callable", "Iterable", "Sequence"),
    "struct": ("Struct", "pack", "unpack_from"),
    "typing": ("Any", "NamedTuple"),
    "odradek.protocol.errors": ("MalformedMessage", "UnsupportedVersion"),
    "odradek.protocol.primitives": (
        "ELEMENT_BUDGET",
        "UNPACK_INTS",
        "UVARINTS",
        "Buffer",
        "RowShapes",
        "bad_null",
        "left_over",
        "message_bytes",
        "over_budget",
        "read_tag",
        "read_tag_count",
        "read_uvarint",
        "size_of",
        "skip_tagged_fields",
        "too_long",
        "too_many",
        "unencodable",
        "uvarint",
        "wrong_tag_size",
    ),
    "odradek.protocol.fields": ("NO_UUID",),
}
_WORDS = re.compile(r"[A-Za-z_]\w*")


def _imports(source: str) -> str:
    used = set(_WORDS.findall(source))
    lines: list[str] = []
    for module, names in _IMPORTS.items():
        wanted = [name for name in names if name in used]
        if not wanted:
            continue
        if module.startswith("odradek") and lines and not lines[-1].startswith("from odradek"):
            lines.append("")
        lines.append(f"from {module} import {', '.join(wanted)}")
        if module == "struct" and "struct_error" in used:
            lines.append("from struct import error as struct_error")
    return "\n".join(lines)


def _title(cls: type[Message], flat: Flat) -> str:
    ways = [
        f"{way} {span.first}-{span.last}"
        for way, span in zip(("decoded", "encoded"), flat.versions, strict=True)
        if span != NEVER
    ]
    return f"{cls.__name__} (key {cls.KEY}) as tuples, {' and '.join(ways)}."


def tuples_source(flat: Flat) -> str:
    cls = flat.cls
    form = FlatForm(flat)
    names: dict[str, Any] = {}
    decoding, encoding = flat.versions
    functions: list[str] = []
    if decoding != NEVER:
        functions += _decoders(form, decoding, names)
    if encoding != NEVER:
        functions += _encoders(form, encoding, names)
        for piece in flat.pieces:
            functions += _pieces(form, piece, encoding, names)
    constants = [text for text in names.values() if isinstance(text, str)]
    parts = [
        "\n".join(_aliases(form)),
        "\n".join(sorted(constants)),
        *functions,
    ]
    return _file(_title(cls, flat), cls, parts)


def _aliases(form: FlatForm) -> Iterator[str]:
    cls = form.flat.cls
    for one in dict.fromkeys(form.structs(cls)):
        names = ["_or_".join(line.name for line in lines) for lines in form.fields(one)]
        yield f"# {', '.join(names)}"
        yield f"{one.__name__} = {form.tuple_of(one)}"
    if not form.flat.decode:
        return
    if not form.flat.named:
        yield f"# {', '.join(line.name for (line, *_) in form.fields(cls))}"
        yield f"{cls.__name__} = {form.tuple_of(cls)}"
        return
    yield f"\n\nclass {cls.__name__}(NamedTuple):"
    for lines in form.fields(cls):
        yield f"    {lines[0].name}: {form.type_of(lines)}"


def _by_version(bodies: dict[int, list[str]]) -> Iterator[tuple[int, int, list[str]]]:
    """(first, last, lines) of versions that follow each other and are alike."""
    for _, group in groupby(bodies.items(), key=lambda item: item[1]):
        alike = list(group)
        yield alike[0][0], alike[-1][0], alike[0][1]


def _table(name: str, kind: str, ways: dict[int, str]) -> list[str]:
    rows = [f"    {version}: {function}," for version, function in ways.items()]
    return [f"{name}: dict[int, {kind}] = {{", *rows, "}"]


def _entrance(title: str, buffer: str) -> str:
    """The function that others call to decode."""
    refuse = f'raise MalformedMessage(f"{title} version {{version}}: '
    return "\n".join(
        [
            f"def decode(version: int, buffer: Buffer, offset: int = 0, *, budget: int = ELEMENT_BUDGET) -> {title}:",
            f"    whole = buffer if type(buffer) is {buffer} else {buffer}(buffer)",
            "    try:",
            "        return _DECODERS[version](whole, offset, budget)",
            "    except (struct_error, IndexError):",
            f'        {refuse}ends too early, after {{len(whole) - offset}} bytes") from None',
            "    except UnicodeDecodeError as error:",
            f'        {refuse}a string is not UTF-8 ({{error.reason}})") from None',
            "    except MalformedMessage as error:",
            f'        {refuse}{{error.message}}") from None',
            "    except KeyError:",
            f'        raise UnsupportedVersion(f"{title} version {{version}} is not read here") from None',
        ]
    )


def _decoders(form: FlatForm, versions: VersionRange, names: dict[str, Any]) -> Iterator[str]:
    cls = form.flat.cls
    title = cls.__name__
    bodies: dict[int, list[str]] = {}
    for version in range(versions.first, versions.last + 1):
        source = TupleDecoder(form, version)
        source.struct(cls, "m")
        source.flush()
        row = source.row(cls, "m")
        source.emit("if position != end:")
        source.emit("    raise left_over(end - position)")
        source.emit(f"return _new({title}, {row})" if form.flat.named else f"return {row}")
        names.update(source.names)
        bodies[version] = source.lines
    if form.flat.named:
        names["_new"] = "_new = tuple.__new__"
    buffer = "memoryview" if has_records(cls, versions.last) else "bytes"
    yield _entrance(title, buffer)
    ways: dict[int, str] = {}
    for first, last, lines in _by_version(bodies):
        function = f"_decode_{_span(first, last)}"
        ways |= dict.fromkeys(range(first, last + 1), function)
        head = f"def {function}(buffer: {buffer}, position: int, budget: int) -> {title}:"
        yield "\n".join([head, "    end = len(buffer)", *lines])
    kind = f"Callable[[{buffer}, int, int], {title}]"
    yield "\n".join(_table("_DECODERS", kind, ways))


def _parameters(form: FlatForm, cls: type[Struct], *, defaults: bool) -> list[str]:
    known = []
    for lines in form.fields(cls):
        line = lines[0]
        default = absent(line) if line.kind not in ("array",) else "()"
        known.append(f"{line.name}: {form.type_of(lines)}" + (f" = {default}" if defaults else ""))
    return known


def _encoders(form: FlatForm, versions: VersionRange, names: dict[str, Any]) -> Iterator[str]:
    cls = form.flat.cls
    is_buffers = has_records(cls, versions.last)
    result = "list[Any]" if is_buffers else "bytes"
    bodies: dict[int, list[str]] = {}
    for version in range(versions.first, versions.last + 1):
        source = TupleEncoder(form, version)
        source.struct(cls, "message")
        source.flush()
        names.update(source.names)
        bodies[version] = source.lines
    arguments = ", ".join(lines[0].name for lines in form.fields(cls))
    yield "\n".join(
        [
            "def encode(",
            "    version: int,",
            *(f"    {text}," for text in _parameters(form, cls, defaults=True)),
            f") -> {result}:",
            f"    return _ENCODERS[version]({arguments})",
        ]
    )
    if is_buffers:
        head = ["    head = bytearray()", "    buffers: list[Any] = []"]
        tail = ["    buffers.append(head)", "    return buffers"]
    else:
        head = ["    parts: list[Any] = []"]
        tail = ["    return b''.join(parts)"]
    ways: dict[int, str] = {}
    for first, last, lines in _by_version(bodies):
        function = f"_encode_{_span(first, last)}"
        ways |= dict.fromkeys(range(first, last + 1), function)
        parameters = ", ".join(_parameters(form, cls, defaults=False))
        yield "\n".join([f"def {function}({parameters}) -> {result}:", *head, *lines, *tail])
    yield "\n".join(_table("_ENCODERS", f"Callable[..., {result}]", ways))


def _pieces(
    form: FlatForm, piece: type[Struct], versions: VersionRange, names: dict[str, Any]
) -> Iterator[str]:
    name = piece.__name__
    what = snake_case(name)
    bodies: dict[int, list[str]] = {}
    for version in range(versions.first, versions.last + 1):
        source = TupleEncoder(form, version)
        source.pieces(piece)
        names.update(source.names)
        bodies[version] = source.lines
    yield "\n".join(
        [
            f"def encode_{what}s(version: int, rows: Iterable[{name}]) -> list[bytes]:",
            '    """The bytes of each, for a message of this version."""',
            f"    return _{what.upper()}S[version](rows)",
        ]
    )
    ways: dict[int, str] = {}
    for first, last, lines in _by_version(bodies):
        function = f"_encode_{what}s_{_span(first, last)}"
        ways |= dict.fromkeys(range(first, last + 1), function)
        start = f"def {function}(rows: Iterable[{name}]) -> list[bytes]:"
        yield "\n".join([start, "    parts: list[bytes] = []", *lines, "    return parts"])
    yield "\n".join(_table(f"_{what.upper()}S", f"Callable[[Iterable[{name}]], list[bytes]]", ways))
