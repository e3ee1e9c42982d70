"""Which values a table wants of each row: columns that are NOT NULL, and fields that are so within columns.

A path has the names from the column down: ("at", "street"). What a list holds is called `element` and what a map has for a key
`value`, as in Delta. A field is wanting only where that which holds it is there.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Path = tuple[str, ...]
ELEMENT, VALUE = "element", "value"


def as_nullable(kind: pa.DataType) -> pa.DataType:
    """The same with fields that may be null: Arrow's readers and writers go by it, each in another way."""
    if pa.types.is_struct(kind):
        return pa.struct([field_as_nullable(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, field_as_nullable(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(field_as_nullable(kind.value_field))
    return kind


def field_as_nullable(field: pa.Field) -> pa.Field:
    return field.with_type(as_nullable(field.type)).with_nullable(True)


def paths_of(schema: pa.Schema) -> tuple[Path, ...]:
    """All that must have a value."""
    return tuple(path for field in schema for path in _paths(field, (field.name,)))


def _paths(field: pa.Field, path: Path) -> Iterator[Path]:
    if not field.nullable:
        yield path
    for name, inner in _fields(field.type):
        yield from _paths(inner, (*path, name))


def _fields(kind: pa.DataType) -> list[tuple[str, pa.Field]]:
    if pa.types.is_struct(kind):
        return [(field.name, field) for field in kind]
    if pa.types.is_map(kind):
        return [(VALUE, kind.item_field)]
    return [(ELEMENT, kind.value_field)] if pa.types.is_list(kind) else []


def wanting(column: pa.Array, path: Path) -> Any:
    """Of each row whether something at the path, which begins below the column, is null: an array of bool."""
    is_null = column.is_null().to_numpy(zero_copy_only=False)
    if not path:
        return is_null
    found = wanting(_inner(column, path[0]), path[1:])
    if pa.types.is_struct(column.type):
        return found & ~is_null
    bad = np.zeros(len(column), bool)
    bad[_rows_of(column)[found]] = True
    return bad


def key_of(path: Path) -> str:
    """Not with dots: a column may be called `a.b` beside one `a` that has a field `b`."""
    return "\0".join(path)


def nulls_within(column: pa.Array, path: Path) -> Iterator[tuple[str, int]]:
    """(`key_of` the path, how many are null) of whatever is within a column, at whatever depth."""
    of_none = column.null_count if pa.types.is_struct(column.type) else 0
    for name, _ in _fields(column.type):
        inner = _inner(column, name)
        own = (*path, name)
        yield key_of(own), inner.null_count - of_none
        yield from nulls_within(inner, own)


def _inner(column: pa.Array, name: str) -> pa.Array:
    """What is within: of a struct a value for each row, null where there is no struct; else the values of all rows."""
    kind = column.type
    if pa.types.is_struct(kind):
        # By its place: of a name that begins with a dot Arrow takes the rest.
        return pc.struct_field(column, kind.get_field_index(name))
    values = _as_list(column).flatten()
    return pc.struct_field(values, 1) if pa.types.is_map(kind) else values


def _rows_of(column: pa.Array) -> Any:
    """The row of each value that `flatten` gives: none of a list that is null, whatever lies below it."""
    lengths = pc.fill_null(pc.list_value_length(_as_list(column)), 0).to_numpy(zero_copy_only=False)
    return np.repeat(np.arange(len(column)), lengths)


def _as_list(column: pa.Array) -> pa.Array:
    kind = column.type
    if not pa.types.is_map(kind):
        return column
    return column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
