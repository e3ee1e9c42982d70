"""Rows as Python has them become Arrow: all at once where all fit, and what does not is taken apart until it stands alone."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odradek.model.errors import OdradekError
from odradek.spark.formats.decoded import SCHEMA, SIZE, VALUE, Bad, Decoded, RefusedSchema, Rows

# What pyarrow raises at a value of another kind, or of a size that its type does not hold.
UNFIT = (pa.ArrowException, ValueError, TypeError, OverflowError)
BLOCK_VALUES = 4096
# Python's objects take ten times the bytes of ordinary values, and of a list of records of one byte two hundred times.
BLOCK_BYTES = 256 << 10
# The largest value that is read: of a schema without lists, with lists of simple values, and of records (1 MiB is what a
# record has at most by Kafka's default).
LARGEST, LARGEST_OF_LISTS, LARGEST_OF_NESTED_LISTS = 16 << 20, 4 << 20, 1 << 20


class TooLarge(OdradekError):
    """A value above what is read of its schema."""

    def __init__(self, size: int, largest: int) -> None:
        super().__init__(f"a value of {size:,} bytes; {largest:,} is the most that is read of this schema")


class Reader(NamedTuple):
    """What reads a value of one schema into a row, and how large a value may be."""

    read: Callable[[bytes], Any]
    largest: int = LARGEST


def largest_of(columns: Iterable[pa.Field], left_out: Sequence[str] = ()) -> int:
    """Bytes of the largest value that is read of a schema, so that no value takes more than a quarter of a gigabyte."""
    if left_out:  # they are read as well
        return LARGEST_OF_NESTED_LISTS
    return min((_largest(field.type) for field in columns), default=LARGEST)


def _largest(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return largest_of(kind)
    if pa.types.is_map(kind):
        return LARGEST_OF_NESTED_LISTS
    if pa.types.is_list(kind):
        return LARGEST_OF_NESTED_LISTS if pa.types.is_nested(kind.value_type) else LARGEST_OF_LISTS
    return LARGEST


def read_rows(
    values: pa.Array,
    rows: Rows,
    columns: pa.Schema,
    reader: Reader,
    bad: dict[int, Bad],
    schema_id: int | None = None,
    begin: int = 0,
) -> Iterator[tuple[Rows, pa.StructArray]]:
    """The `rows` of `values`, each read from byte `begin` on into a dict by column. What cannot be is noted in `bad`."""
    kind = pa.struct(list(columns))
    sizes = pc.binary_length(values).to_numpy(zero_copy_only=False)[rows].astype(np.int64)
    for row in rows[sizes > reader.largest].tolist():
        bad[row] = _refused(TooLarge(len(values[row].as_buffer()), reader.largest), schema_id)
    is_read = sizes <= reader.largest
    for block in _blocks(rows[is_read], sizes[is_read]):
        numbers: list[int] = []
        found: list[Any] = []
        for row, value in zip(block.tolist(), values.take(pa.array(block)).to_pylist(), strict=True):
            try:
                found.append(reader.read(value[begin:]))
                numbers.append(row)
            except Exception as error:  # the bytes are anybody's, and so is what a library makes of them
                bad[row] = _refused(error, schema_id)
        yield from _built(found, np.array(numbers, np.int64), kind, bad, schema_id)


def _blocks(rows: Rows, sizes: Rows) -> Iterator[Rows]:
    """So many values and bytes at once; a larger value alone."""
    ends = np.cumsum(sizes)
    first = 0
    while first < len(rows):
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + BLOCK_BYTES, side="right"))
        last = min(max(last, first + 1), first + BLOCK_VALUES)
        yield rows[first:last]
        first = last


def whole(parts: Sequence[tuple[Rows, pa.StructArray]], columns: pa.Schema, bad: dict[int, Bad]) -> Decoded:
    """The parts as one, in the order of their rows."""
    kind = pa.struct(list(columns))
    good = np.concatenate([np.arange(0), *(rows for rows, _ in parts)])
    found = pa.concat_arrays([part for _, part in parts]) if parts else pa.array([], kind)
    if len(parts) > 1:
        order = np.argsort(good)
        good, found = good[order], found.take(pa.array(order))
    return Decoded(pa.RecordBatch.from_arrays(found.flatten(), schema=columns), good, bad)


def nulls(rows: Rows, columns: pa.Schema) -> tuple[Rows, pa.StructArray]:
    """A row of nulls for each."""
    return rows, pa.array([{}] * len(rows), pa.struct(list(columns)))


def _built(
    found: list[Any], rows: Rows, kind: pa.StructType, bad: dict[int, Bad], schema_id: int | None
) -> Iterator[tuple[Rows, pa.StructArray]]:
    try:
        yield rows, _array(found, kind)
    except UNFIT as error:
        if len(rows) == 1:
            bad[int(rows[0])] = _refused(error, schema_id)
            return
        half = len(rows) // 2
        for piece in (slice(half), slice(half, None)):
            yield from _built(found[piece], rows[piece], kind, bad, schema_id)


def _array(found: list[Any], kind: pa.StructType) -> pa.StructArray:
    try:
        return pa.array(found, kind)
    except UNFIT:
        if not _has_doubles(kind):
            raise
    return pa.array([_with_doubles(row, kind) for row in found], kind)


def _has_doubles(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_doubles(kind.field(number).type) for number in range(kind.num_fields))
    return bool(pa.types.is_float64(kind))


def _with_doubles(value: Any, kind: pa.DataType) -> Any:
    """With the doubles next to whole numbers: pyarrow takes none above 2**53 for one, whether it is exact or not."""
    if value is None or not _has_doubles(kind):
        return value
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return {field.name: _with_doubles(value.get(field.name), field.type) for field in kind}
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return [(key, _with_doubles(item, kind.item_type)) for key, item in pairs]
    if pa.types.is_list(kind):
        return [_with_doubles(item, kind.value_type) for item in value]
    return float(value) if type(value) is int else value


def _refused(error: Exception, schema_id: int | None) -> Bad:
    stages = {RefusedSchema: SCHEMA, TooLarge: SIZE}
    return Bad(_said(error), stages.get(type(error), VALUE), schema_id)


def _said(error: Exception) -> str:
    """A line of it; some libraries raise without a word."""
    if isinstance(error, IndexError):
        return "the value names a symbol or a branch that its schema does not have"
    text = str(error).strip().split("\n")[0]
    if isinstance(error, EOFError) or not text:
        return "the value ends before its last field" if isinstance(error, EOFError) else type(error).__name__
    return text
