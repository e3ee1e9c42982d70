"""Rows as Python has them become Arrow: all at once where all fit, and what does not is taken apart until it stands alone."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from odradek.spark.formats.decoded import SCHEMA, VALUE, Bad, Decoded, RefusedSchema, Rows

# What pyarrow raises at a value of another kind, or of a size that its type does not hold.
UNFIT = (pa.ArrowException, ValueError, TypeError, OverflowError)
BLOCK_VALUES = 4096  # Python's objects take some ten times the bytes of the values


def read_rows(
    values: pa.Array,
    rows: Rows,
    columns: pa.Schema,
    read: Callable[[bytes], Any],
    bad: dict[int, Bad],
    schema_id: int | None = None,
    begin: int = 0,
) -> Iterator[tuple[Rows, pa.StructArray]]:
    """The `rows` of `values`, each `read` from byte `begin` on into a dict by column. What cannot be is noted in `bad`."""
    kind = pa.struct(list(columns))
    for start in range(0, len(rows), BLOCK_VALUES):
        block = rows[start : start + BLOCK_VALUES]
        numbers: list[int] = []
        found: list[Any] = []
        for row, value in zip(block.tolist(), values.take(pa.array(block)).to_pylist(), strict=True):
            try:
                found.append(read(value[begin:]))
                numbers.append(row)
            except Exception as error:  # the bytes are anybody's, and so is what a library makes of them
                stage = SCHEMA if isinstance(error, RefusedSchema) else VALUE
                bad[row] = Bad(_said(error), stage, schema_id)
        yield from _built(found, np.array(numbers, np.int64), kind, bad, schema_id)


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
        yield rows, pa.array(found, kind)
    except UNFIT as error:
        if len(rows) == 1:
            bad[int(rows[0])] = Bad(_said(error), schema_id=schema_id)
            return
        half = len(rows) // 2
        for piece in (slice(half), slice(half, None)):
            yield from _built(found[piece], rows[piece], kind, bad, schema_id)


def _said(error: Exception) -> str:
    """A line of it; some libraries raise without a word."""
    text = str(error).strip().split("\n")[0]
    if isinstance(error, EOFError) or not text:
        return "the value ends before its last field" if isinstance(error, EOFError) else type(error).__name__
    return text
