"""Any message of a table, for hypothesis."""

from typing import Any

from hypothesis import strategies as st

from odradek.protocol.schema import Field, Message, Struct

INTEGERS = {
    "int8": st.integers(-(1 << 7), (1 << 7) - 1),
    "int16": st.integers(-(1 << 15), (1 << 15) - 1),
    "uint16": st.integers(0, (1 << 16) - 1),
    "int32": st.integers(-(1 << 31), (1 << 31) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
}
# Short ones mostly; some longer than one byte of varint can count.
TEXT = st.text(max_size=12) | st.integers(120, 20000).map(lambda size: "é" * (size // 2))
BYTES = st.binary(max_size=12) | st.integers(120, 20000).map(bytes)
PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    **INTEGERS,
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    "string": TEXT,
    "bytes": BYTES,
    "records": BYTES,
}


def messages(cls: type[Message], version: int) -> st.SearchStrategy[Any]:
    return structs(cls, version)


def structs(cls: type[Struct], version: int) -> st.SearchStrategy[Any]:
    return st.builds(
        cls, **{line.name: fields(line, version) for line in cls.TABLE if version in line.versions}
    )


def fields(line: Field, version: int) -> st.SearchStrategy[Any]:
    if line.kind == "array":
        element = PRIMITIVES[line.of] if isinstance(line.of, str) else structs(line.struct, version)
        values: st.SearchStrategy[Any] = st.lists(element, max_size=3)
    elif line.kind == "struct":
        values = structs(line.struct, version)
    else:
        values = PRIMITIVES[line.kind]
    return st.none() | values if version in line.nullable else values
