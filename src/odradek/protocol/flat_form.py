"""What is flat of a message, and the form of its tuples: see `flattening`, which has the list."""

from collections.abc import Iterator
from typing import NamedTuple

from odradek.protocol.fields import NEVER, Field, Struct, VersionRange
from odradek.protocol.schema import Message

PYTHON_TYPES = {"bool": "bool", "float64": "float", "uuid": "bytes", "string": "str", "bytes": "bytes"}


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


def _range(cls: type[Message], text: str) -> VersionRange:
    if not text:
        return NEVER
    first, last = VersionRange.parse(text)
    return VersionRange(first, min(last, cls.VERSIONS.last))


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
        return PYTHON_TYPES.get(line.kind, "int")

    def element_type(self, line: Field) -> str:
        if isinstance(line.of, str):
            return PYTHON_TYPES.get(line.of, "int")
        return "bytes" if line.struct in self.flat.pieces else line.struct.__name__

    def tuple_of(self, cls: type[Struct]) -> str:
        return f"tuple[{', '.join(self.type_of(lines) for lines in self.fields(cls))}]"

    def structs(self, cls: type[Struct]) -> Iterator[type[Struct]]:
        """Those inside it, the innermost first."""
        for line, *_ in self.fields(cls):
            if isinstance(line.of, type):
                yield from self.structs(line.of)
                yield line.of
