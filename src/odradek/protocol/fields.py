"""The notation in which every message is written down: a class is a table, a line is a field.

    class FetchPartition(Struct):
        partition: int = int32("0+")
        current_leader_epoch: int = int32("9+", default=-1)
        replica_directory_id: bytes = uuid("17+", tag=0)

    class FetchRequest(Request, key=1, versions="4-17", flexible="12+"):
        ...
        topics: list[FetchTopic] = array(FetchTopic, "0+")

A version range is `"3"`, `"3-8"` or `"3+"`; the version is always the message's, in nested structs too. Names
are Kafka's in snake_case; the JSON name is the same in camelCase. A field with a tag is a tagged field
(KIP-482) in all its versions, and is written only when it differs from its default.

An instance has a slot per field, a keyword constructor with the defaults, and equality. What reads and writes these
tables: `compiler` (Python source per version), `reference` (walks them), `json_form`. Messages proper, which are decoded and
encoded, stand in `schema`.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, dataclass_transform

from odradek.protocol.errors import UnsupportedVersion
from odradek.protocol.primitives import Buffer

NEWEST = 32767
# Tagged fields of our own begin here, far from Apache's, which count from 0 (decisions/0011).
FIRST_OWN_TAG = 10_000
NO_UUID = bytes(16)


class VersionRange(NamedTuple):
    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    @classmethod
    def parse(cls, text: str) -> "VersionRange":
        if text.endswith("+"):
            return cls(int(text[:-1]), NEWEST)
        first, _, last = text.partition("-")
        return cls(int(first), int(last or first))


NEVER = VersionRange(0, -1)


class _Unset:
    def __repr__(self) -> str:
        return "<the default of the type>"


UNSET: Any = _Unset()

# Kind of a field -> letter of struct.Struct. These have one size in every version.
FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
_DEFAULTS: dict[str, Any] = {
    "bool": False,
    "float64": 0.0,
    "uuid": NO_UUID,
    "string": "",
    "bytes": b"",
    "records": b"",
}


class Field:
    """One line of a table."""

    __slots__ = ("default", "is_message", "json_name", "kind", "name", "nullable", "of", "tag", "versions")

    def __init__(
        self,
        kind: str,
        versions: str,
        *,
        of: "type[Struct] | str | None" = None,
        nullable: str | None = None,
        tag: int | None = None,
        default: Any = UNSET,
    ) -> None:
        self.kind = kind  # a key of FIXED, or string, bytes, records, struct, array
        self.of = of  # the struct; of an array, its element: a struct or the kind of a primitive
        self.versions = VersionRange.parse(versions)
        self.nullable = VersionRange.parse(nullable) if nullable else NEVER
        self.tag = tag
        # Of arrays and structs UNSET stays: each instance gets a list or struct of its own.
        self.default = default
        if default is UNSET and kind not in ("array", "struct"):
            self.default = _DEFAULTS.get(kind, 0)
        self.name = ""
        self.json_name = ""
        self.is_message = False

    def named(self, name: str) -> "Field":
        head, *rest = name.split("_")
        self.name = name
        self.json_name = head + "".join(word.capitalize() for word in rest)
        # A sentence for people beside an error code: cut where it is too long, for the code must arrive.
        self.is_message = self.kind == "string" and name.endswith("error_message")
        return self

    def is_default(self, value: Any) -> bool:
        if self.default is not UNSET:
            return bool(value == self.default)
        return bool(value == ([] if self.kind == "array" else self.struct()))

    @property
    def struct(self) -> "type[Struct]":
        assert isinstance(self.of, type), f"{self.name} is no struct and no array of structs"
        return self.of

    def __repr__(self) -> str:
        return f"<{self.name}: {self.kind} {self.versions.first}-{self.versions.last}>"


def boolean(versions: str, *, tag: int | None = None, default: bool = False) -> Any:
    return Field("bool", versions, tag=tag, default=default)


def int8(versions: str, *, tag: int | None = None, default: int = 0) -> Any:
    return Field("int8", versions, tag=tag, default=default)


def int16(versions: str, *, tag: int | None = None, default: int = 0) -> Any:
    return Field("int16", versions, tag=tag, default=default)


def uint16(versions: str, *, tag: int | None = None, default: int = 0) -> Any:
    return Field("uint16", versions, tag=tag, default=default)


def int32(versions: str, *, tag: int | None = None, default: int = 0) -> Any:
    return Field("int32", versions, tag=tag, default=default)


def int64(versions: str, *, tag: int | None = None, default: int = 0) -> Any:
    return Field("int64", versions, tag=tag, default=default)


def float64(versions: str, *, tag: int | None = None, default: float = 0.0) -> Any:
    return Field("float64", versions, tag=tag, default=default)


def uuid(versions: str, *, tag: int | None = None) -> Any:
    return Field("uuid", versions, tag=tag)


def string(
    versions: str, *, nullable: str | None = None, tag: int | None = None, default: str | None = ""
) -> Any:
    return Field("string", versions, nullable=nullable, tag=tag, default=default)


def binary(
    versions: str, *, nullable: str | None = None, tag: int | None = None, default: bytes | None = b""
) -> Any:
    return Field("bytes", versions, nullable=nullable, tag=tag, default=default)


def record_bytes(versions: str, *, nullable: str | None = None) -> Any:
    """Record batches as they stand on disk: decoded to a memoryview of the frame, encoded from any buffer."""
    return Field("records", versions, nullable=nullable, default=None if nullable else b"")


def struct(
    of: "type[Struct]",
    versions: str,
    *,
    nullable: str | None = None,
    tag: int | None = None,
    default: Any = UNSET,
) -> Any:
    return Field("struct", versions, of=of, nullable=nullable, tag=tag, default=default)


def array(
    of: "type[Struct] | str",
    versions: str,
    *,
    nullable: str | None = None,
    tag: int | None = None,
    default: Any = UNSET,
) -> Any:
    """An array of structs, or of a primitive named by its kind: `array("int32", "0+")`."""
    return Field("array", versions, of=of, nullable=nullable, tag=tag, default=default)


@dataclass_transform(kw_only_default=True, eq_default=True)
class StructMeta(type):
    """Takes the fields out of the class body and leaves a slot for each."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any
    ) -> "StructMeta":
        table = tuple(line.named(key) for key, line in body.items() if isinstance(line, Field))
        for line in table:
            del body[line.name]
        body["TABLE"] = table
        body["__slots__"] = tuple(line.name for line in table)
        body["__match_args__"] = ()
        return super().__new__(mcs, name, bases, body, **options)


class Struct(metaclass=StructMeta):
    """A nested struct: fields, and no version of its own."""

    TABLE: ClassVar[tuple[Field, ...]]

    def __init__(self, **values: Any) -> None:
        # Few of the classes of a loaded file are ever constructed, so the constructor proper is made here,
        # when the first instance is.
        cls = type(self)
        cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, line.name) == getattr(other, line.name) for line in self.TABLE)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = []
        for line in self.TABLE:
            value = getattr(self, line.name)
            if line.kind == "records" and value is not None:
                value = f"<{len(value)} bytes>"
            shown.append(f"{line.name}={value!r}" if line.kind != "records" else f"{line.name}={value}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _constructor(cls: type[Struct]) -> Callable[..., None]:
    arguments, body, names = [], [], {"UNSET": UNSET}
    for line in cls.TABLE:
        names[f"d_{line.name}"] = line.default
        arguments.append(f"{line.name}=d_{line.name}")
        if line.default is not UNSET:
            body.append(f"    self.{line.name} = {line.name}")
            continue
        fresh = "[]"
        if line.kind == "struct":
            names[f"c_{line.name}"] = line.struct
            fresh = f"c_{line.name}()"
        body.append(f"    self.{line.name} = {fresh} if {line.name} is UNSET else {line.name}")
    star = "*, " if arguments else ""
    source = f"def __init__(self, {star}{', '.join(arguments)}):\n" + "\n".join(body or ["    pass"])
    exec(source, names)
    constructor: Callable[..., None] = names["__init__"]
    return constructor


Decoder = Callable[[Buffer, int, int], Any]
Encoder = Callable[[Any], bytes]


class MessageTable(Struct):
    """A table with versions of its own: what a codec needs to know of a message."""

    KEY: ClassVar[int] = -1
    TYPE: ClassVar[str] = ""
    IS_FLAT: ClassVar[bool] = False  # has a codec of its own in protocol/flat
    VERSIONS: ClassVar[VersionRange] = NEVER
    FLEXIBLE: ClassVar[VersionRange] = NEVER

    @classmethod
    def check_version(cls, version: int) -> None:
        if version not in cls.VERSIONS:
            known = f"{cls.VERSIONS.first}-{cls.VERSIONS.last}"
            raise UnsupportedVersion(f"{cls.__name__} version {version} is not known; known are {known}")

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return version in cls.FLEXIBLE


def fields_at(cls: type[Struct], version: int) -> tuple[Sequence[Field], Sequence[Field], Sequence[Field]]:
    """The fields of `cls` in a version: in line, with a tag (ascending), and those it does not know."""
    inline = [line for line in cls.TABLE if version in line.versions and line.tag is None]
    tagged = [line for line in cls.TABLE if version in line.versions and line.tag is not None]
    absent = [line for line in cls.TABLE if version not in line.versions]
    return inline, sorted(tagged, key=lambda line: line.tag or 0), absent
