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
import struct
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from odradek.protocol.compiler import (
    ENDING,
    DecoderSource,
    EncoderSource,
    beginning,
    has_records,
    snake_case,
    written,
)
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
from odradek.protocol.schema import FIXED, NEVER, Field, Message, Struct, VersionRange, fields_at

_PYTHON = {"bool": "bool", "float64": "float", "uuid": "bytes", "string": "str", "bytes": "bytes"}
# Letters of struct.Struct that no name can have.
_LETTERS = str.maketrans({"?": "o"})


class Flat(NamedTuple):
    """What there is of a message as tuples."""

    cls: type[Message]
    decode: str = ""  # versions
    encode: str = ""
    named: bool = False  # decoded to a named tuple
    # Structs that are encoded one by one; where the message has them in a list, it takes their bytes.
    pieces: tuple[type[Struct], ...] = ()

    @property
    def versions(self) -> tuple[VersionRange, VersionRange]:
        return _range(self.cls, self.decode), _range(self.cls, self.encode)


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


def _range(cls: type[Message], text: str) -> VersionRange:
    if not text:
        return NEVER
    first, last = VersionRange.parse(text)
    return VersionRange(first, min(last, cls.VERSIONS.last))


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}_to_{last}"


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


class FlatForm:
    """The fields of the flat form, in the versions that are flat."""

    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.versions = {version for span in flat.versions for version in range(span.first, span.last + 1)}
        # Fields that share their place with another -> its name.
        self.slots: dict[Field, str] = {}
        for one in [flat.cls, *self.structs(flat.cls)]:
            for lines in self.fields(one):
                if len(lines) > 1:
                    self.slots |= dict.fromkeys(lines, lines[0].name)

    def fields(self, cls: type[Struct]) -> list[list[Field]]:
        """In order; a place of two fields that share it has both."""
        known = [line for line in cls.TABLE if any(version in line.versions for version in self.versions)]
        # Tagged ones behind all others; of equal keys the order of the table stays.
        known.sort(key=lambda line: -1 if line.tag is None else line.tag)
        places: list[list[Field]] = []
        for line in known:
            if line.name == "topic_id" and places and places[-1][0].name == "topic":
                places[-1].append(line)
            else:
                places.append([line])
        return places

    def type_of(self, lines: list[Field]) -> str:
        names = [self._type_of_field(line) for line in lines]
        return " | ".join(names)

    def _type_of_field(self, line: Field) -> str:
        name = self._bare_type(line)
        is_optional = line.nullable != NEVER or (line.tag is not None and line.kind == "struct")
        return f"{name} | None" if is_optional and name != "Any" else name

    def _bare_type(self, line: Field) -> str:
        if line.kind == "records":
            return "Any" if self.flat.encode else "memoryview"
        if line.kind == "struct":
            return line.struct.__name__
        if line.kind == "array":
            return f"Sequence[{self.element_type(line)}]"
        return _PYTHON.get(line.kind, "int")

    def element_type(self, line: Field) -> str:
        if isinstance(line.of, str):
            return _PYTHON.get(line.of, "int")
        return "bytes" if line.struct in self.flat.pieces else line.struct.__name__

    def tuple_of(self, cls: type[Struct]) -> str:
        return f"tuple[{', '.join(self.type_of(lines) for lines in self.fields(cls))}]"

    def structs(self, cls: type[Struct]) -> Iterator[type[Struct]]:
        """Those inside it, the innermost first."""
        for line, *_ in self.fields(cls):
            if isinstance(line.of, type):
                yield from self.structs(line.of)
                yield line.of


class _Constants:
    """Names for what a module binds: the struct of given letters is one constant, whoever uses it."""

    names: dict[str, Any]

    def packed_name(self, what: str, letters: str) -> str:
        name = f"_{what}_{letters.translate(_LETTERS)}"
        self.names[name] = f'{name} = Struct(">{letters}").{"pack" if what == "pack" else "unpack_from"}'
        return name


class _TupleDecoder(_Constants, DecoderSource):
    """Fields go to variables, and these into a tuple."""

    def __init__(self, form: FlatForm, version: int) -> None:
        super().__init__(form.flat.cls, version)
        self.form = form

    def place(self, variable: str, line: Field) -> str:
        return f"{variable}_{line.name}"

    def struct(self, cls: type[Struct], variable: str) -> None:
        inline, tagged, _ = fields_at(cls, self.version)
        for line in tagged:
            kind = self.form.type_of([line])
            self.emit(f"{self.place(variable, line)}: {kind} = {_absent(line)}")
        for line in inline:
            self.field(line, self.place(variable, line))
        if self.flexible:
            self.tagged_fields(tagged, variable)

    def field(self, line: Field, target: str) -> None:
        if line.tag is None and (self.version in line.nullable or line.kind == "array"):
            kind = self.form.type_of([line]).replace("Sequence[", "list[", 1)
            if self.version not in line.nullable:
                kind = kind.removesuffix(" | None")
            self.emit(f"{target}: {kind}")
        super().field(line, target)

    def row(self, cls: type[Struct], variable: str) -> str:
        """The tuple of what was read into variables."""
        values = []
        for lines in self.form.fields(cls):
            known = [line for line in lines if self.version in line.versions]
            values.append(self.place(variable, known[0]) if known else _absent(lines[0]))
        comma = "," if len(values) == 1 else ""
        return f"({', '.join(values)}{comma})"

    def nested(self, line: Field, target: str) -> None:
        assert self.version not in line.nullable, f"{line.name}: no flat form of a struct that may be null"
        variable = self.fresh("o")
        self.flush()
        self.struct(line.struct, variable)
        self.flush()
        self.emit(f"{target} = {self.row(line.struct, variable)}")

    def elements(self, line: Field, target: str, count: str) -> None:
        element = self.fresh("o")
        if isinstance(line.of, type) and self._is_fixed(line.of):
            self._fixed_elements(line, target, count, element)
            return
        self.emit(f"{target} = []")
        self.emit(f"for _ in range({count}):")
        self.indent += 1
        if isinstance(line.of, str):
            self.variable_length(Field(line.of, "0+").named(line.name), element)
            self.emit(f"{target}.append({element})")
        else:
            self.struct(line.struct, element)
            self.flush()
            self.emit(f"{target}.append({self.row(line.struct, element)})")
        self.indent -= 1

    def _is_fixed(self, cls: type[Struct]) -> bool:
        inline, _, _ = fields_at(cls, self.version)
        return not self.flexible and all(line.kind in FIXED for line in inline)

    def _fixed_elements(self, line: Field, target: str, count: str, element: str) -> None:
        """Rows of one size and without tags: all at once."""
        inline, _, _ = fields_at(line.struct, self.version)
        letters = "".join(FIXED[part.kind] for part in inline)
        name = f"_rows_{letters.translate(_LETTERS)}"
        self.names[name] = f'{name} = Struct(">{letters}").iter_unpack'
        stop = self.fresh("s")
        names = ", ".join(self.place(element, part) for part in inline)
        comma = "," if len(inline) == 1 else ""
        self.emit(f"{stop} = position + {count} * {struct.calcsize('>' + letters)}")
        rows = f"{name}(buffer[position:{stop}])"
        row = self.row(line.struct, element)
        made = f"list({rows})" if row == f"({names}{comma})" else f"[{row} for {names}{comma} in {rows}]"
        self.emit(f"{target} = {made}")
        self.emit(f"position = {stop}")


def _absent(line: Field) -> str:
    """What stands for a field that is not on the wire."""
    if line.kind == "struct":
        return "None"
    if line.kind == "array" and line.default is not None:
        return "[]"
    return "NO_UUID" if line.kind == "uuid" else repr(line.default)


class _TupleEncoder(_Constants, EncoderSource):
    """Fields come from variables, those of a struct inside from a tuple taken apart.

    A row that has nothing but what it always has is written by one `pack`: lists and tagged fields are empty, texts
    null. Rows of integers and lists of integers are one `pack` for each set of lengths (`primitives.RowShapes`).
    """

    def __init__(self, form: FlatForm, version: int) -> None:
        super().__init__(form.flat.cls, version)
        self.form = form
        self.is_buffers = has_records(form.flat.cls, version)
        self.plain: frozenset[Field] = frozenset()  # fields that are known to be empty here
        self.parts = "parts"  # the list that `write` appends to
        self.is_piece = False  # the row to come is bytes of its own

    def place(self, variable: str, line: Field) -> str:
        name = self.form.slots.get(line, line.name)
        return name if variable == "message" else f"{variable}_{name}"

    def put(self, piece: str, *, deeper: bool = False) -> None:
        if self.is_buffers and self.write == "parts.append":
            self.emit(f"{'    ' * deeper}head += {piece}")
        else:
            super().put(piece, deeper=deeper)

    def field(self, line: Field, value: str) -> None:
        if line in self.form.slots:
            kind = "bytes" if line.kind == "uuid" else "str"
            self.emit(f"assert isinstance({value}, {kind}), 'a {line.name} is {kind}'")
        if line in self.plain:
            self._empty(line, value)
        elif line.kind == "records":
            self.records(line, value)
        else:
            super().field(line, value)

    def _empty(self, line: Field, value: str) -> None:
        """Its length, which is null or nothing."""
        is_nullable = self.version in line.nullable
        if line.kind == "string":
            self.run.append(("B", "0") if self.flexible else ("h", "-1"))
        elif self.flexible:
            self.run.append(("B", f"0 if {value} is None else 1" if is_nullable else "1"))
        else:
            self.run.append(("i", f"-1 if {value} is None else 0" if is_nullable else "0"))

    def records(self, line: Field, value: str) -> None:
        """Their buffers stand between ours."""
        size, length = self.fresh("z"), self.fresh("n")
        self.emit(f"{size} = 0 if {value} is None else size_of({value})")
        run, self.run = self.run, []
        if self.flexible:
            self.emit(f"{length} = 0 if {value} is None else {size} + 1")
            self.emit(f"if {length} < 128:")
            self.put(self.packed([*run, ("B", length)]), deeper=True)
            self.emit(f"elif {length} < 16384:")
            pair = [("B", f"{length} & 127 | 128"), ("B", f"{length} >> 7")]
            self.put(self.packed([*run, *pair]), deeper=True)
            self.emit("else:")
            self.put(self.packed(run), deeper=True)
            self.put(f"uvarint({length})", deeper=True)
        else:
            self.put(self.packed([*run, ("i", f"-1 if {value} is None else {size}")]))
        self.emit(f"if {size}:")
        self.emit("    buffers.append(head)")
        self.emit(f"    if isinstance({value}, list | tuple):")
        self.emit(f"        buffers += {value}")
        self.emit("    else:")
        self.emit(f"        buffers.append({value})")
        self.emit("    head = bytearray()")

    def nested(self, line: Field, value: str) -> None:
        assert self.version not in line.nullable, f"{line.name}: no flat form of a struct that may be null"
        variable = self.fresh("o")
        self.emit(f"{self.taken_apart(line.struct, variable)} = {value}")
        self.struct(line.struct, variable)

    def taken_apart(self, cls: type[Struct], variable: str) -> str:
        names = [self.place(variable, lines[0]) for lines in self.form.fields(cls)]
        return f"({names[0]},)" if len(names) == 1 else ", ".join(names)

    def elements(self, line: Field, items: str) -> None:
        if isinstance(line.of, str):
            super().elements(line, items)
        elif line.struct in self.form.flat.pieces:
            self.emit(f"{self.parts} += {items}")
        else:
            element = self.fresh("o")
            self.emit(f"for {self.taken_apart(line.struct, element)} in {items}:")
            self.indent += 1
            self.row(line.struct, element)
            self.indent -= 1

    def row(self, cls: type[Struct], variable: str) -> None:
        inline, tagged, _ = fields_at(cls, self.version)
        is_of_integers = all(line.kind in FIXED or _is_integers(line, self.version) for line in inline)
        is_of_lists = is_of_integers and any(line.kind == "array" for line in inline)
        may_be_empty = [] if is_of_lists else _seldom(inline, tagged, self.version)
        conditions = [
            f"{self.place(variable, line)} is None"
            if line.kind == "string"
            else f"not {self.place(variable, line)}"
            for line in may_be_empty
        ]
        conditions += [f"not ({self.differs(line, self.place(variable, line))})" for line in tagged]
        if not conditions:
            self._row(inline, tagged, variable, by_shape=is_of_lists)
            return
        self.emit(f"if {' and '.join(conditions)}:")
        self.indent += 1
        before, self.plain = self.plain, frozenset([*may_be_empty, *tagged])
        self._row(inline, tagged, variable, by_shape=is_of_lists)
        self.plain = before
        self.indent -= 1
        self.emit("else:")
        self.indent += 1
        self._row(inline, tagged, variable, by_shape=False)
        self.indent -= 1

    def _row(
        self, inline: Sequence[Field], tagged: Sequence[Field], variable: str, *, by_shape: bool
    ) -> None:
        if by_shape:
            self.by_shape(inline, variable)
            return
        outer, is_piece, self.is_piece = (self.write, self.parts), self.is_piece, False
        if is_piece:
            self.parts = self.fresh("p")
            self.write = f"{self.parts}.append"
            self.emit(f"{self.parts}: list[Any] = []")
        for line in inline:
            self.field(line, self.place(variable, line))
        if self.flexible:
            self.tagged_fields(tagged, variable)
        self.flush()
        if is_piece:
            piece = self.parts
            self.write, self.parts = outer
            self.is_piece = True
            self.put(f"b''.join({piece})")

    def pieces(self, cls: type[Struct]) -> None:
        """Each row to bytes of its own."""
        element = self.fresh("o")
        self.emit(f"for {self.taken_apart(cls, element)} in rows:")
        self.indent += 1
        self.is_piece = True
        self.row(cls, element)
        self.indent -= 1

    def by_shape(self, inline: Sequence[Field], variable: str) -> None:
        """One `pack` for the whole row, known by the lengths of its lists."""
        runs, values = [""], []
        lists: list[tuple[str, str]] = []
        for line in inline:
            value = self.place(variable, line)
            if line.kind == "array":
                length = f"{variable}_b{len(lists)}"
                values += [length, f"*{value}"]
                lists.append((value, length))
                runs.append("")
            else:
                values.append(value)
                runs[-1] += FIXED[line.kind]
        if self.flexible:
            runs[-1] += "x"
        name = "_shapes_" + "_".join(runs).translate(_LETTERS)
        self.names[name] = f"{name} = RowShapes({tuple(runs)!r}, is_flexible={self.flexible})"
        pack, sizes = self.fresh("pack"), self.fresh("sizes")
        lengths = ", ".join(f"len({value})" for value, _ in lists)
        comma = "," if len(lists) == 1 else ""
        self.emit(f"{sizes} = ({lengths}{comma})")
        self.emit(
            f"{pack}, {', '.join(length for _, length in lists)} = {name}.get({sizes}) or {name}.make({sizes})"
        )
        self.put(f"{pack}({', '.join(values)})")

    def tagged_fields(self, tagged: Sequence[Field], variable: str) -> None:
        if not tagged or all(line in self.plain for line in tagged):
            self.run.append(("x", ""))
            return
        said = " or ".join(self.differs(line, self.place(variable, line)) for line in tagged)
        run, self.run = self.run, []
        self.emit(f"if {said}:")
        self.indent += 1
        self.run = list(run)
        super().tagged_fields(tagged, variable)
        self.indent -= 1
        self.emit("else:")
        self.indent += 1
        self.run = [*run, ("x", "")]
        self.flush()
        self.indent -= 1

    def differs(self, line: Field, value: str) -> str:
        if line.kind == "struct":
            default = ", ".join(_absent(lines[0]) for lines in self.form.fields(line.struct))
            return f"({value} is not None and {value} != ({default}))"
        return super().differs(line, value)


def _is_integers(line: Field, version: int) -> bool:
    return line.kind == "array" and line.of == "int32" and version not in line.nullable


def _seldom(inline: Sequence[Field], tagged: Sequence[Field], version: int) -> list[Field]:
    """The texts and lists of a row that are empty more often than not: those beside fields of one size, where nothing
    else is of any size but records."""
    seldom = [
        line
        for line in inline
        if (line.kind == "string" and version in line.nullable and line.default is None)
        or line.kind == "array"
    ]
    others = [line for line in inline if line not in seldom]
    is_row = others and all(line.kind in FIXED or line.kind == "records" for line in others)
    has_lists = tagged or any(line.kind == "array" for line in seldom)
    return seldom if is_row and has_lists else []


class _ObjectDecoder(_Constants, DecoderSource):
    def elements(self, line: Field, target: str, count: str) -> None:
        items, element = self.fresh("a"), self.fresh("o")
        kind = line.of if isinstance(line.of, str) else line.struct.__name__
        self.emit(f"{items}: list[{_PYTHON.get(kind, kind)}] = []")
        self.emit(f"for _ in range({count}):")
        self.indent += 1
        if isinstance(line.of, str):
            self.variable_length(Field(line.of, "0+").named(line.name), element)
        else:
            self.struct(line.struct, element)
            self.flush()
        self.emit(f"{items}.append({element})")
        self.indent -= 1
        self.emit(f"{target} = {items}")


class _ObjectEncoder(_Constants, EncoderSource):
    pass


def objects_source(cls: type[Message]) -> str:
    names: dict[str, Any] = {"new": "new = object.__new__"}
    title = cls.__name__
    assert not has_records(cls, cls.VERSIONS.last), f"{title}: records are handed on as tuples"
    decoding: dict[int, list[str]] = {}
    encoding: dict[int, list[str]] = {}
    for version in range(cls.VERSIONS.first, cls.VERSIONS.last + 1):
        decoder, encoder = _ObjectDecoder(cls, version), _ObjectEncoder(cls, version)
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
        "cut_message",
        "left_over",
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
    "odradek.protocol.schema": ("NO_UUID",),
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
        source = _TupleDecoder(form, version)
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
        default = _absent(line) if line.kind not in ("array",) else "()"
        known.append(f"{line.name}: {form.type_of(lines)}" + (f" = {default}" if defaults else ""))
    return known


def _encoders(form: FlatForm, versions: VersionRange, names: dict[str, Any]) -> Iterator[str]:
    cls = form.flat.cls
    is_buffers = has_records(cls, versions.last)
    result = "list[Any]" if is_buffers else "bytes"
    bodies: dict[int, list[str]] = {}
    for version in range(versions.first, versions.last + 1):
        source = _TupleEncoder(form, version)
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
        source = _TupleEncoder(form, version)
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
