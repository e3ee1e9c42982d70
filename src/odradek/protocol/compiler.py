"""The schema compiler: a table and a version in, Python source for the fast decoder and encoder out.

Fixed-size fields that follow each other become one `struct.Struct`, together with the length of the string or
array behind them; nested structs become nested loops of one function, so there is no call per field and none
per element. Compiled at the first use of a (message, version): a broker that has just started needs a dozen. Hot messages
have it in files instead, see `flattening`.

The shape of what comes out, for FetchRequest version 13, abridged:

    def decode(buffer, position, budget):
        ...
        o1.max_wait_ms, o1.min_bytes, ..., n1 = S2(buffer, position)
        position += 22
        if n1 > 127: n1, position = read_uvarint(buffer, position - 1)
        ...
        for _ in range(n1):
            o2 = new(FetchTopic)

Held equal to `reference` byte for byte by tests/protocol/test_compiled_equals_reference.py.
"""

import struct
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from odradek.protocol import primitives
from odradek.protocol.fields import FIXED, NEVER, Decoder, Encoder, Field, MessageTable, Struct, fields_at

_LENGTH = {"string": "h", "bytes": "i", "records": "i", "array": "i"}


def decoder_of(cls: type[MessageTable], version: int) -> Decoder:
    """Reads a message; what it raises is named by `Message.decode`."""
    decoder: Decoder
    if cls.IS_FLAT:
        decoder = flat_codec(cls).DECODERS[version]
    else:
        source, names = decoder_source(cls, version)
        exec(compile(source, f"<decoder of {cls.__name__} version {version}>", "exec"), names)
        decoder = names["decode"]
    return decoder


def encoder_of(cls: type[MessageTable], version: int) -> Encoder:
    encoder: Encoder
    if cls.IS_FLAT:
        encoder = flat_codec(cls).ENCODERS[version]
    else:
        source, names = encoder_source(cls, version)
        exec(compile(source, f"<encoder of {cls.__name__} version {version}>", "exec"), names)
        encoder = names["encode"]
    return encoder


def flat_codec(cls: type[MessageTable]) -> Any:
    """The module that `flattening` has written."""
    return import_module(f"odradek.protocol.flat.{snake_case(cls.__name__)}")


def snake_case(name: str) -> str:
    """`FetchRequest` -> `fetch_request`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)[1:]


def has_records(cls: type[Struct], version: int) -> bool:
    return any(
        line.kind == "records" or (isinstance(line.of, type) and has_records(line.of, version))
        for line in cls.TABLE
        if version in line.versions
    )


def smallest_size(line: Field, version: int, flexible: bool) -> int:
    """The fewest bytes a field can take: what an array count is multiplied with before it is believed."""
    if line.kind in FIXED:
        return struct.calcsize(">" + FIXED[line.kind])
    if line.kind == "struct":
        return 1 if version in line.nullable else smallest_struct(line.struct, version, flexible)
    return 1 if flexible else struct.calcsize(">" + _LENGTH[line.kind])


def smallest_struct(cls: type[Struct], version: int, flexible: bool) -> int:
    inline, _, _ = fields_at(cls, version)
    return sum(smallest_size(line, version, flexible) for line in inline) + flexible


def smallest_element(line: Field, version: int, flexible: bool) -> int:
    if isinstance(line.of, str):
        return smallest_size(Field(line.of, "0+"), version, flexible)
    return max(1, smallest_struct(line.struct, version, flexible))


class Source:
    """Lines of source, the names they use, and the run of fixed-size fields that is still pending."""

    def __init__(self, cls: type[MessageTable], version: int) -> None:
        self.version = version
        self.flexible = cls.is_flexible(version)
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.indent = 1
        self.run: list[tuple[str, str]] = []  # letter of struct.Struct, target or value
        self.counter = 0

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def bind(self, prefix: str, value: Any) -> str:
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def packed_name(self, what: str, letters: str) -> str:
        """The name of `pack` or `unpack_from` of these letters."""
        packed = struct.Struct(">" + letters)
        return self.bind(what, packed.pack if what == "pack" else packed.unpack_from)

    def class_name(self, cls: type[Struct]) -> str:
        self.names[cls.__name__] = cls
        return cls.__name__

    def place(self, variable: str, line: Field) -> str:
        """Where a field of the struct in `variable` stands."""
        return f"{variable}.{line.name}"


class DecoderSource(Source):
    def __init__(self, cls: type[MessageTable], version: int) -> None:
        super().__init__(cls, version)
        self.view = has_records(cls, version)

    def flush(self) -> None:
        if not self.run:
            return
        letters = "".join(letter for letter, _ in self.run)
        if letters == "B":
            self.emit(f"{self.run[0][1]} = buffer[position]")
            self.emit("position += 1")
        else:
            unpack = self.packed_name("unpack", letters)
            targets = ", ".join(target for _, target in self.run)
            comma = "," if len(self.run) == 1 else ""
            self.emit(f"{targets}{comma} = {unpack}(buffer, position)")
            self.emit(f"position += {struct.calcsize('>' + letters)}")
        self.run = []

    def struct(self, cls: type[Struct], variable: str) -> None:
        """Reads a `cls` into a new `variable`. May leave a run pending."""
        inline, tagged, absent = fields_at(cls, self.version)
        self.emit(f"{variable} = new({self.class_name(cls)})")
        for line in [*absent, *tagged]:
            self.default(line, self.place(variable, line))
        for line in inline:
            self.field(line, self.place(variable, line))
        if self.flexible:
            self.tagged_fields(tagged, variable)

    def default(self, line: Field, target: str) -> None:
        if line.default is None or isinstance(line.default, bool | int | str | bytes | float):
            self.emit(f"{target} = {line.default!r}")
        elif line.kind == "array":
            self.emit(f"{target} = []")
        else:
            self.emit(f"{target} = {self.class_name(line.struct)}()")

    def field(self, line: Field, target: str) -> None:
        if line.kind in FIXED:
            self.run.append((FIXED[line.kind], target))
        elif line.kind == "struct":
            self.nested(line, target)
        elif line.kind == "array":
            self.array(line, target)
        else:
            self.variable_length(line, target)

    def length(self, kind: str) -> str:
        """Reads a length into a new variable, -1 for null in both forms; the run in front goes with it."""
        length = self.fresh("n")
        self.run.append(("B" if self.flexible else _LENGTH[kind], length))
        self.flush()
        if self.flexible:
            self.emit(f"if {length} > 127:")
            self.emit(f"    {length}, position = read_uvarint(buffer, position - 1)")
            self.emit(f"{length} -= 1")
        return length

    def null(self, line: Field, target: str, length: str) -> None:
        """The branches for a length that is not one."""
        if self.version in line.nullable:
            self.emit(f"elif {length} == -1:")
            self.emit(f"    {target} = None")
        self.emit("else:")
        self.emit(f"    raise bad_null({line.json_name!r}, {length})")

    def variable_length(self, line: Field, target: str) -> None:
        length = self.length(line.kind)
        self.emit(f"if {length} >= 0:")
        self.indent += 1
        self.emit(f"stop = position + {length}")
        if line.kind == "string" and self.flexible:
            self.emit(f"if stop > end or {length} > {primitives.MAX_STRING_BYTES}:")
        else:
            self.emit("if stop > end:")
        self.emit(f"    raise too_long({line.json_name!r}, {length}, end - position)")
        piece = "buffer[position:stop]"
        if line.kind == "string":
            piece = f"str({piece}, 'utf-8')" if self.view else f"{piece}.decode()"
        elif line.kind == "bytes" and self.view:
            piece = f"bytes({piece})"
        self.emit(f"{target} = {piece}")
        self.emit("position = stop")
        self.indent -= 1
        self.null(line, target, length)

    def nested(self, line: Field, target: str) -> None:
        variable = self.fresh("o")
        if self.version not in line.nullable:
            self.flush()
            self.struct(line.struct, variable)
            self.flush()
            self.emit(f"{target} = {variable}")
            return
        # A struct that may be null has one byte in front: -1 null, 1 present (KIP-893); in a tagged field 0 is null.
        present = self.fresh("n")
        self.run.append(("b", present))
        self.flush()
        if line.tag is not None:
            self.emit(f"{present} -= 1")
        self.emit(f"if {present} >= 0:")
        self.indent += 1
        self.struct(line.struct, variable)
        self.flush()
        self.emit(f"{target} = {variable}")
        self.indent -= 1
        self.null(line, target, present)

    def array(self, line: Field, target: str) -> None:
        count = self.length("array")
        self.emit(f"if {count} >= 0:")
        self.indent += 1
        size = smallest_element(line, self.version, self.flexible)
        self.emit(f"if {count} * {size} > end - position:")
        self.emit(f"    raise too_many({line.json_name!r}, {count}, {size}, end - position)")
        fixed = isinstance(line.of, str) and line.of in FIXED
        self.emit(f"budget -= {count}" if fixed else f"budget -= {count} * {primitives.OBJECT_COST}")
        self.emit("if budget < 0:")
        self.emit(f"    raise over_budget({line.json_name!r})")
        if isinstance(line.of, str) and line.of in FIXED:
            letter = FIXED[line.of]
            if letter == "16s":
                self.emit(f"{target} = list(unpack_from('>' + '16s' * {count}, buffer, position))")
            elif letter == "i":  # replicas, in-sync replicas: short, and several in each row
                self.emit(f"if {count} < {len(primitives.UNPACK_INTS)}:")
                self.emit(f"    {target} = list(UNPACK_INTS[{count}](buffer, position))")
                self.emit("else:")
                self.emit(f"    {target} = list(unpack_from(f'>{{{count}}}i', buffer, position))")
            else:
                self.emit(f"{target} = list(unpack_from(f'>{{{count}}}{letter}', buffer, position))")
            self.emit(f"position += {count} * {size}")
        else:
            self.elements(line, target, count)
        self.indent -= 1
        self.null(line, target, count)

    def elements(self, line: Field, target: str, count: str) -> None:
        """Reads `count` structs or strings into a new list."""
        items, element = self.fresh("a"), self.fresh("o")
        self.emit(f"{target} = {items} = []")
        self.emit(f"for _ in range({count}):")
        self.indent += 1
        if isinstance(line.of, str):
            inner = Field(line.of, "0+").named(line.name)
            self.variable_length(inner, element)
        else:
            self.struct(line.struct, element)
            self.flush()
        self.emit(f"{items}.append({element})")
        self.indent -= 1

    def tagged_fields(self, tagged: Sequence[Field], variable: str) -> None:
        count = self.fresh("n")
        self.run.append(("B", count))
        self.flush()
        self.emit(f"if {count}:")
        self.indent += 1
        self.emit(f"budget -= {count} * {primitives.OBJECT_COST}")
        self.emit("if budget < 0:")
        self.emit("    raise over_budget('tagged fields')")
        if not tagged:
            self.emit("position = skip_tagged_fields(buffer, position - 1)")
            self.indent -= 1
            return
        tag, stop = self.fresh("t"), self.fresh("s")
        self.emit(f"{count}, position = read_tag_count(buffer, position - 1)")
        self.emit(f"for _ in range({count}):")
        self.indent += 1
        self.emit(f"{tag}, position, {stop} = read_tag(buffer, position)")
        for number, line in enumerate(tagged):
            self.emit(f"{'elif' if number else 'if'} {tag} == {line.tag}:")
            self.indent += 1
            self.field(line, self.place(variable, line))
            self.flush()
            self.emit(f"if position != {stop}:")
            self.emit(f"    raise wrong_tag_size({line.json_name!r})")
            self.indent -= 1
        self.emit("else:")
        self.emit(f"    position = {stop}")
        self.indent -= 2


def decoder_source(cls: type[MessageTable], version: int) -> tuple[str, dict[str, Any]]:
    source = DecoderSource(cls, version)
    source.struct(cls, "message")
    source.flush()
    source.names.update(
        new=object.__new__,
        unpack_from=struct.unpack_from,
        UNPACK_INTS=primitives.UNPACK_INTS,
        read_uvarint=primitives.read_uvarint,
        read_tag=primitives.read_tag,
        read_tag_count=primitives.read_tag_count,
        skip_tagged_fields=primitives.skip_tagged_fields,
        too_long=primitives.too_long,
        bad_null=primitives.bad_null,
        too_many=primitives.too_many,
        over_budget=primitives.over_budget,
        wrong_tag_size=primitives.wrong_tag_size,
        left_over=primitives.left_over,
    )
    head = ["def decode(buffer, position, budget):", *beginning(cls, version)]
    return "\n".join([*head, *source.lines, *ENDING, ""]), source.names


def beginning(cls: type[MessageTable], version: int) -> list[str]:
    """Records are handed on as slices of the frame; everything else is read faster from bytes."""
    kind = "memoryview" if has_records(cls, version) else "bytes"
    return [
        f"    if type(buffer) is not {kind}:",
        f"        buffer = {kind}(buffer)",
        "    end = len(buffer)",
    ]


ENDING = ["    if position != end:", "        raise left_over(end - position)", "    return message"]


class EncoderSource(Source):
    """Emits `write(...)` calls: the append of a list of parts, of another one inside tagged fields."""

    def __init__(self, cls: type[MessageTable], version: int) -> None:
        super().__init__(cls, version)
        self.write = "parts.append"

    def packed(self, run: list[tuple[str, str]]) -> str:
        letters = "".join(letter for letter, _ in run)
        values = [value for letter, value in run if letter != "x"]
        if not values:
            return repr(bytes(len(run)))
        return f"{self.packed_name('pack', letters)}({', '.join(values)})"

    def put(self, piece: str, *, deeper: bool = False) -> None:
        """Writes the bytes that an expression stands for."""
        self.emit(f"{'    ' * deeper}{self.write}({piece})")

    def flush(self) -> None:
        if self.run:
            self.put(self.packed(self.run))
            self.run = []

    def struct(self, cls: type[Struct], variable: str) -> None:
        inline, tagged, _ = fields_at(cls, self.version)
        for line in inline:
            self.field(line, self.place(variable, line))
        if self.flexible:
            self.tagged_fields(tagged, variable)

    def field(self, line: Field, value: str) -> None:
        if line.nullable != NEVER and self.version not in line.nullable:
            self.emit(f"assert {value} is not None, '{line.name} is null'")
        if line.kind in FIXED:
            self.run.append((FIXED[line.kind], value))
        elif line.kind == "struct":
            self.nested(line, value)
        elif line.kind == "array":
            self.array(line, value)
        else:
            self.variable_length(line, value)

    def length(self, kind: str, length: str) -> None:
        """Writes the run and a length, which in the variable is -1 for null."""
        if not self.flexible:
            self.run.append((_LENGTH[kind], length))
            self.flush()
            return
        self.emit(f"{length} += 1")
        run, self.run = self.run, []
        if not run:
            self.put(f"UVARINTS[{length}] if {length} < 128 else uvarint({length})")
            return
        self.emit(f"if {length} < 128:")
        self.put(self.packed([*run, ("B", length)]), deeper=True)
        self.emit("else:")
        self.put(self.packed(run), deeper=True)
        self.put(f"uvarint({length})", deeper=True)

    def variable_length(self, line: Field, value: str) -> None:
        length, content = self.fresh("n"), self.fresh("b")
        if line.is_message:
            encoded = f"message_bytes({value})"
        else:
            encoded = f"{value}.encode()" if line.kind == "string" else value
        if self.version in line.nullable:
            self.emit(f"if {value} is None:")
            self.emit(f"    {content} = b''")
            self.emit(f"    {length} = -1")
            self.emit("else:")
            self.emit(f"    {content} = {encoded}")
            self.emit(f"    {length} = len({content})")
        else:
            self.emit(f"{content} = {encoded}")
            self.emit(f"{length} = len({content})")
        if line.kind == "string" and not line.is_message:
            self.emit(f"if {length} > {primitives.MAX_STRING_BYTES}:")
            self.emit(f"    raise unencodable({line.json_name!r}, {length})")
        self.length(line.kind, length)
        self.put(content)

    def nested(self, line: Field, value: str) -> None:
        variable = self.fresh("o")
        self.emit(f"{variable} = {value}")
        if self.version not in line.nullable:
            self.struct(line.struct, variable)
            return
        self.flush()
        self.emit(f"if {variable} is None:")
        null = b"\xff" if line.tag is None else b"\0"
        self.put(repr(null), deeper=True)
        self.emit("else:")
        self.indent += 1
        self.run.append(("b", "1"))
        self.struct(line.struct, variable)
        self.flush()
        self.indent -= 1

    def array(self, line: Field, value: str) -> None:
        items, count = self.fresh("a"), self.fresh("n")
        if self.version in line.nullable:
            self.emit(f"{items} = {value} or ()")
            self.emit(f"{count} = -1 if {value} is None else len({items})")
        else:
            self.emit(f"{items} = {value}")
            self.emit(f"{count} = len({items})")
        self.length("array", count)
        if isinstance(line.of, str) and line.of in FIXED:
            letter = FIXED[line.of]
            self.emit(f"if {items}:")
            form = f"'>' + '16s' * len({items})" if letter == "16s" else f"f'>{{len({items})}}{letter}'"
            self.put(f"pack({form}, *{items})", deeper=True)
            return
        self.elements(line, items)

    def elements(self, line: Field, items: str) -> None:
        """Writes structs or strings, one after the other."""
        element = self.fresh("o")
        self.emit(f"for {element} in {items}:")
        self.indent += 1
        before = len(self.lines)
        if isinstance(line.of, str):
            self.variable_length(Field(line.of, "0+").named(line.name), element)
        else:
            self.struct(line.struct, element)
            self.flush()
        if len(self.lines) == before:
            self.emit("pass")
        self.indent -= 1

    def tagged_fields(self, tagged: Sequence[Field], variable: str) -> None:
        if not tagged:
            self.run.append(("x", ""))
            return
        self.flush()
        count, parts, outer = self.fresh("n"), self.fresh("p"), self.write
        self.emit(f"{count} = 0")
        self.emit(f"{parts}: list[Any] = []")
        for line in tagged:
            content, joined, value = self.fresh("p"), self.fresh("b"), self.place(variable, line)
            self.emit(f"if {self.differs(line, value)}:")
            self.indent += 1
            self.emit(f"{count} += 1")
            self.emit(f"{content}: list[Any] = []")
            self.write = f"{content}.append"
            self.field(line, value)
            self.flush()
            self.write = outer
            self.emit(f"{joined} = b''.join({content})")
            self.emit(f"{parts} += (uvarint({line.tag}), uvarint(len({joined})), {joined})")
            self.indent -= 1
        self.put(f"uvarint({count})")
        self.put(f"b''.join({parts})")

    def differs(self, line: Field, value: str) -> str:
        """An expression: is the value other than the default, and so to be written?"""
        if line.kind == "struct" and line.default is not None:
            inner = [self.differs(part, f"{value}.{part.name}") for part in line.struct.TABLE]
            if self.version in line.nullable:
                inner.insert(0, f"{value} is None")
            return f"({' or '.join(inner)})"
        if line.kind == "array" and line.default is not None:
            return f"{value} is None or {value}" if self.version in line.nullable else f"{value}"
        if line.default is None:
            return f"{value} is not None"
        return f"{value} != {line.default!r}"


def written(lines: list[str]) -> list[str]:
    """The body of an encoder that writes what these lines write."""
    start = "    parts.append("
    if len(lines) == 1 and lines[0].startswith(start):
        return [f"    return {lines[0][len(start) : -1]}"]
    return ["    parts: list[Any] = []", *lines, "    return b''.join(parts)"]


def encoder_source(cls: type[MessageTable], version: int) -> tuple[str, dict[str, Any]]:
    source = EncoderSource(cls, version)
    source.struct(cls, "message")
    source.flush()
    source.names.update(
        pack=struct.pack,
        uvarint=primitives.uvarint,
        UVARINTS=primitives.UVARINTS,
        unencodable=primitives.unencodable,
        message_bytes=primitives.message_bytes,
    )
    return "\n".join(["def encode(message):", *written(source.lines), ""]), source.names
