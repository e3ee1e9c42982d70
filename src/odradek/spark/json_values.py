"""Values that are JSON objects become columns: pyarrow parses thousands at once, and one that cannot be read spoils no other.

A value of eight fields and 105 bytes takes 1.4 to 2 us. A block that pyarrow refuses is taken apart until what is wrong
stands alone: 0.2 to 0.4 ms a value that is no JSON, up to 4 ms one with a field of another kind than its column.

pyarrow knows no lines: it reads objects off a stream, so two of them in one value, and none in the next, would shift
every row behind. So each value is wrapped as {"n": its number, "v": [[the value]]}, and the numbers must come back as
they went in, with one value each. In brackets `{"id":1}, "z":{}` is nothing; two of them, for what closes them itself has to
be looked for, and `}]]` is rare in JSON where `}` and `}]` are not.
"""

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from odradek.model.errors import ConfigurationError
from odradek.spark.ddl import type_text
from odradek.spark.evolution import MOST_COLUMNS
from odradek.spark.formats.decoded import Offer

# Values in one call of pyarrow: enough to make the call cheap, few enough to find a bad one soon.
BLOCK_VALUES = 4096
_LEVELS = 64  # of nesting that are looked at
_END_OF_THE_WRAPPING = r"\}\s*\]\s*\]"
_BEHIND = "something stands behind the JSON object"
_FIRST_VALUE = json.JSONDecoder(strict=False)
_NUMBERS = json.JSONDecoder(
    strict=False, parse_int=float, parse_constant=lambda _: None
)  # which are no words
_DECIMALS = json.JSONDecoder(
    strict=False, parse_float=Decimal, parse_int=lambda _: 0, parse_constant=lambda _: None
)
# In what may be a decimal with more digits behind the point than any has; the signs of one may be escaped.
_FINE = r"[\d.][eE]-\d\d|\.\d{29}|\\u00[2-6]"
_VAST = r"\d{30}|[eE]\+?\d\d"  # in what may be a number beyond FLOAT
_SIGNS = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}]', re.DOTALL)  # brackets, and texts that may have some
_MARK = "\ufeff"  # of the order of bytes, before a text of .NET's
_NANOSECONDS = re.compile(r"\.\d{7}")  # in a timestamp
_HALF_A_PAIR = re.compile("[\ud800-\udfff]")
_DIGITS_BEYOND = r"(\.\d{6})\d+"
_OF_A_MOMENT = r"^[-+0-9:.TZz ]*$"
_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32}
_LARGEST_FLOAT = 3.4028234663852886e38
_OF_ROOM = re.compile(r"decimal\d+\(\d+, (\d+)\)")  # what a decimal is read as, which is none of the column's
_LARGEST_DECIMAL = 38  # digits that 128 bits have room for
PIECES = 8  # into which a block is cut that has a value of another kind than its column
Rows = np.ndarray[Any, np.dtype[np.int64]]


class Decoded(NamedTuple):
    """`columns` has a row for each value in `good`; `bad` says of each other why it has none. Both count in values."""

    columns: pa.RecordBatch
    good: Rows
    bad: dict[int, str]


class _Grown(Exception):
    """The columns are others now."""


def decoded(values: pa.Array, schema: pa.Schema, offer: Offer | None = None) -> Decoded | None:
    """The fields that `schema` names, by name; a field that is missing is null, one that is not named is left out.

    A null value has no field, so its row is null throughout. Where there is an `offer`, it is told of the fields that are not
    named, and of numbers that their columns do not hold; None where it took some of them.
    """
    try:
        return _decoded(values, schema, offer)
    except _Grown:
        return None


def _decoded(values: pa.Array, schema: pa.Schema, offer: Offer | None) -> Decoded:
    kind = pa.struct(list(schema))
    bad: dict[int, str] = {}
    texts = _texts(values, bad)
    good: list[Rows] = []
    parts: list[pa.StructArray] = []
    candidates = np.setdiff1d(np.arange(len(values)), np.fromiter(bad, np.int64))
    for start in range(0, len(candidates), BLOCK_VALUES):
        block = candidates[start : start + BLOCK_VALUES]
        for rows, part in (
            _parsed(texts, block, kind, bad)
            if offer is None
            else _known_first(texts, block, kind, bad, offer)
        ):
            good.append(rows)
            parts.append(part)
    whole = pa.concat_arrays(parts) if parts else pa.array([], kind)
    columns = pa.RecordBatch.from_arrays(whole.flatten(), schema=schema)
    return Decoded(columns, np.concatenate([np.arange(0), *good]), bad)


def _texts(values: pa.Array, bad: dict[int, str]) -> pa.Array:
    """As UTF-8, on one line, `{}` for null; what is none of that is noted as bad."""
    try:
        texts = values.cast(pa.string())
    except pa.ArrowInvalid:
        found: list[str | None] = []
        for row, value in enumerate(values.to_pylist()):
            try:
                found.append(None if value is None else value.decode())
            except UnicodeDecodeError:
                bad[row] = "no UTF-8"
                found.append(None)
        texts = pa.array(found, pa.string())
    texts = pc.fill_null(texts, "{}")
    if pc.any(pc.starts_with(texts, _MARK)).as_py():
        texts = pc.utf8_ltrim(texts, _MARK)
    # Between tokens a tab is the same. Within a string JSON has neither: a blank would pass there, as another value.
    texts = pc.replace_substring(pc.utf8_trim_whitespace(texts), "\n", "\t")
    is_object = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    for row in np.flatnonzero(~is_object.to_numpy(zero_copy_only=False)).tolist():
        bad.setdefault(row, "no JSON object")
    return texts


def _parsed(
    texts: pa.Array, rows: Rows, kind: pa.StructType, bad: dict[int, str]
) -> Iterator[tuple[Rows, pa.StructArray]]:
    try:
        rows, part = _whole(texts.take(pa.array(rows)), rows, kind, bad)
    except pa.ArrowInvalid as error:
        if len(rows) == 1:
            is_behind = _ends_early(texts[int(rows[0])].as_py())
            bad[int(rows[0])] = _BEHIND if is_behind else _reason(str(error))
            return
        for piece in _pieces(texts, rows):
            yield from _parsed(texts, piece, kind, bad)
        return
    yield rows, part


def _whole(
    taken: pa.Array, rows: Rows, kind: pa.StructType, bad: dict[int, str]
) -> tuple[Rows, pa.StructArray]:
    """Without those that end before their text does, and close the wrapping themselves."""
    may_end = pc.match_substring_regex(taken, _END_OF_THE_WRAPPING).to_numpy(zero_copy_only=False)
    if not may_end.any():
        return rows, _at_once(taken, kind)
    ends = np.array([may and _ends_early(text) for may, text in zip(may_end, taken.to_pylist(), strict=True)])
    bad.update(dict.fromkeys(rows[ends].tolist(), _BEHIND))
    return rows[~ends], _at_once(taken.filter(pa.array(~ends)), kind)


def _ends_early(text: str) -> bool:
    try:
        _, end = _FIRST_VALUE.raw_decode(text)
    except (ValueError, RecursionError):  # pyarrow, which takes Inf and any depth, judges what it is
        end = _closed_at(text)
    return end < len(text)


def _closed_at(text: str) -> int:
    """Where the first bracket of the text is closed; the end of the text if nowhere."""
    depth = 0
    for sign in _SIGNS.finditer(text):
        if sign[0] in "{[":
            depth += 1
        elif sign[0] in "}]":
            depth -= 1
            if not depth:
                return sign.end()
    return len(text)


def _known_first(
    texts: pa.Array, rows: Rows, kind: pa.StructType, bad: dict[int, str], offer: Offer
) -> Iterator[tuple[Rows, pa.StructArray]]:
    """As long as values have the fields that are named and no others, nothing has to be learnt of them."""
    taken = texts.take(pa.array(rows))
    try:
        yield rows, _at_once(taken, kind, "error")
        return
    except pa.ArrowInvalid:
        if offer(fields_of(taken.to_pylist(), kind)):
            raise _Grown from None
    yield from _parsed(texts, rows, kind, bad)


def fields_of(texts: Iterable[str], kind: pa.StructType) -> dict[str, pa.DataType]:
    """The fields that `kind` does not have, and columns that may be wider and are not enough for their values. Values that are no
    JSON object tell nothing, nor do fields that are always null, or of two kinds that no column holds."""
    narrow = {field.name: field.type for field in kind if field.type in (*_BITS, pa.float32())}
    known = {field.name for field in kind}
    found: dict[str, Any] = {}
    for text in texts:
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            continue
        for name, value in _fields(fields) if isinstance(fields, dict) else ():
            if name in known and not (name in narrow and _is_beyond(narrow[name], value)):
                continue
            if name not in found and len(found) >= MOST_COLUMNS:
                continue
            try:
                found[name] = _wider(found.get(name), _kind(value), name)
            except ConfigurationError:
                continue
    return dict(_known(found.items()))


def _is_beyond(column: pa.DataType, value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    if column == pa.float32():
        return _LARGEST_FLOAT < abs(value) < math.inf
    least = -(2 ** (_BITS[column] - 1))
    return isinstance(value, float) or not least <= value < -least


def _pieces(texts: pa.Array, rows: Rows) -> Sequence[Rows]:
    """Those that are no JSON at all each by itself, the others together; if that tells nothing, in pieces.

    A call of pyarrow costs as much as seventy values, the standard library's a microsecond or two.
    """
    is_json = np.array([_is_json(text) for text in texts.take(pa.array(rows)).to_pylist()])
    if not is_json.all() and is_json.any():
        return [rows[is_json], *np.split(rows[~is_json], int((~is_json).sum()))]
    return np.array_split(rows, min(PIECES, len(rows)))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _at_once(texts: pa.Array, kind: pa.StructType, unexpected: str = "ignore") -> pa.StructArray:
    """A date is text, which pyarrow takes for none; or days since 1970, as Debezium writes it. Columns need not have one form.
    Nor does it take a timestamp with more digits than the column keeps, as Go and Java write them. What it makes of a decimal has
    to have room for it."""
    of_text = _as_read(kind)
    try:
        return _as(kind, _read(texts, of_text, unexpected))
    except pa.ArrowInvalid:
        if not _has_times(kind):
            raise
        as_found = _times_as_found(kind, list(_loaded(texts)))
        if as_found == of_text:
            raise
    return _as(kind, _read(texts, as_found, unexpected))


def _as(kind: pa.DataType, found: pa.Array) -> pa.Array:
    if found.type == kind:
        return found
    if pa.types.is_struct(kind):
        columns = [_as(field.type, found.field(n)) for n, field in enumerate(kind)]
        return pa.StructArray.from_arrays(columns, fields=list(kind), mask=found.is_null())
    if pa.types.is_list(kind):
        lengths = pc.fill_null(pc.list_value_length(found), 0).to_numpy(zero_copy_only=False)
        ends = pa.array(np.append(0, np.cumsum(lengths)), pa.int32())
        items = _as(kind.value_type, found.flatten())
        return pa.ListArray.from_arrays(ends, items, type=kind, mask=found.is_null())
    if pa.types.is_timestamp(kind):
        return _moments(found, kind)
    try:
        return found.cast(kind)
    except pa.ArrowInvalid:
        if pa.types.is_decimal(kind):
            raise pa.ArrowInvalid("a number is beyond DECIMAL") from None
        raise


def _moments(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Timestamps, without the digits that their column does not keep."""
    is_other = pc.fill_null(pc.invert(pc.match_substring_regex(texts, _OF_A_MOMENT)), False)
    if pc.any(is_other).as_py():
        raise pa.ArrowInvalid(f"couldn't parse:{texts.filter(is_other)[0].as_py()}")
    short = pc.replace_substring_regex(texts, _DIGITS_BEYOND, r"\1")
    objects = pc.fill_null(pc.binary_join_element_wise('{"at":"', short, '"}', ""), "{}")
    return _read(objects, pa.struct([("at", kind)]), "ignore").field(0)


def _has_times(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_times(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _has_times(kind.value_type)
    return bool(pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def _loaded(texts: pa.Array) -> Iterator[Any]:
    for text in texts.to_pylist():
        with suppress(ValueError, RecursionError):
            yield json.loads(text)


def _times_as_found(kind: pa.DataType, values: Sequence[Any]) -> pa.DataType:
    """Dates are days where the first of the values at that place is a number, else text; timestamps are text where any has nanoseconds."""
    if pa.types.is_date32(kind):
        first = next((value for value in values if value is not None), None)
        return kind if isinstance(first, int | float) and not isinstance(first, bool) else pa.string()
    if pa.types.is_timestamp(kind):
        is_finer = any(isinstance(value, str) and _NANOSECONDS.search(value) for value in values)
        return pa.string() if is_finer else kind
    if pa.types.is_struct(kind):
        objects = [value for value in values if isinstance(value, dict)]
        return pa.struct(
            [
                field.with_type(_times_as_found(field.type, [one.get(field.name) for one in objects]))
                for field in kind
            ]
        )
    if pa.types.is_list(kind):
        items = [item for value in values if isinstance(value, list) for item in value]
        return pa.list_(kind.value_field.with_type(_times_as_found(kind.value_type, items)))
    return _as_read(kind)


def _as_read(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_date32(kind):
        return pa.string()
    if pa.types.is_decimal128(kind):
        return _roomy(kind)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_read(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_as_read(kind.value_type)))
    return kind


def _roomy(kind: pa.Decimal128Type) -> pa.DataType:
    """pyarrow counts the digits that are written, zeros behind the point as well; it multiplies what they are by ten for each digit
    that the column adds, and looks at what is left in 128 bits."""
    room = _LARGEST_DECIMAL - kind.scale
    if kind.precision <= room:
        return pa.decimal128(room, kind.scale)
    return pa.decimal256(_LARGEST_DECIMAL + room, kind.scale)


def _check_no_too_fine(texts: pa.Array, kind: pa.StructType) -> None:
    """pyarrow looks up by which power of ten it has to divide, far behind the end of its table for 1e-999999999: that ends the
    process, or finds some other number there."""
    may_be = texts.filter(pc.match_substring_regex(texts, _FINE)).to_pylist()
    if any(_is_too_fine(text, kind) for text in may_be):
        raise pa.ArrowInvalid("a number has too many digits behind the point for DECIMAL")


def _is_too_fine(text: str, kind: pa.StructType) -> bool:
    try:
        return _is_fine_beyond(_DECIMALS.decode(text), kind)
    except (ValueError, ArithmeticError, RecursionError):  # which pyarrow might read all the same
        return True


def _is_fine_beyond(value: Any, kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        number = Decimal(value) if isinstance(value, str) else value
        exponent = number.as_tuple().exponent if isinstance(number, Decimal) else 0
        return isinstance(exponent, int) and -exponent > kind.scale + _LARGEST_DECIMAL
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return any(_is_fine_beyond(value.get(field.name), field.type) for field in kind)
    if pa.types.is_list(kind) and isinstance(value, list):
        return any(_is_fine_beyond(item, kind.value_type) for item in value)
    return False


def _read(texts: pa.Array, kind: pa.StructType, unexpected: str) -> pa.StructArray:
    has_decimals = _has_decimals(kind)
    if has_decimals:
        _check_no_too_fine(texts, kind)
    count = len(texts)
    numbers = pa.array(np.arange(count)).cast(pa.string())
    lines = pc.binary_join_element_wise('{"n":', numbers, ',"v":[[', texts, "]]}\n", "")
    size = int(np.frombuffer(lines.buffers()[1], np.int32)[count])
    table = pj.read_json(
        pa.BufferReader(lines.buffers()[2].slice(0, size)),
        read_options=pj.ReadOptions(use_threads=False, block_size=size + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema([("n", pa.int64()), ("v", pa.list_(pa.list_(kind)))]),
            unexpected_field_behavior=unexpected,
        ),
    ).combine_chunks()
    if not np.array_equal(table.column("n").to_numpy(), np.arange(count)):
        raise pa.ArrowInvalid("more than one JSON object")
    column = table.column("v")
    lists = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
    inner = lists.flatten()
    found = inner.flatten()
    if len(found) != count or len(inner) != count:
        raise pa.ArrowInvalid("more than one JSON object")
    if _has_infinity(found):
        may_be = texts.filter(pc.match_substring_regex(texts, _VAST)).to_pylist()
        of_each = (_beyond(text, found.type) for text in may_be)
        if beyond := next(filter(None, of_each), ""):
            raise pa.ArrowInvalid(f"a number is beyond {beyond}")
    if has_decimals:
        try:
            found.validate(full=True)
        except pa.ArrowInvalid:
            raise pa.ArrowInvalid("a number is beyond DECIMAL") from None
    return found


def _has_decimals(kind: pa.DataType) -> bool:
    """pyarrow takes 99999 for a DECIMAL(5, 2), which then has other digits in a file."""
    if pa.types.is_struct(kind):
        return any(_has_decimals(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _has_decimals(kind.value_type)
    return bool(pa.types.is_decimal(kind))


def _has_infinity(found: pa.Array) -> bool:
    """pyarrow reads a number that is too large for FLOAT as infinity, and one for DOUBLE where its exponent is below 309."""
    if pa.types.is_floating(found.type):
        return bool(pc.any(pc.is_inf(found)).as_py())
    if pa.types.is_struct(found.type) or pa.types.is_list(found.type):
        inner = found.flatten()
        return any(map(_has_infinity, inner if isinstance(inner, list) else [inner]))
    return False


def _beyond(text: str, kind: pa.DataType) -> str:
    """The type of a column that does not hold a number of the value; "" where each does. The word Infinity is a number as well, and
    none beyond; pyarrow takes Inf for it."""
    try:
        value = _NUMBERS.decode(text)
    except (ValueError, RecursionError):  # pyarrow has read it
        return "" if "Inf" in text else "FLOAT or DOUBLE"
    return _beyond_of(value, kind)


def _beyond_of(value: Any, kind: pa.DataType) -> str:
    if pa.types.is_floating(kind):
        largest = _LARGEST_FLOAT if pa.types.is_float32(kind) else sys.float_info.max
        return type_text(kind) if isinstance(value, float) and abs(value) > largest else ""
    inner: Iterable[str] = ()
    if pa.types.is_struct(kind) and isinstance(value, dict):
        inner = (_beyond_of(value.get(field.name), field.type) for field in kind)
    elif pa.types.is_list(kind) and isinstance(value, list):
        inner = (_beyond_of(item, kind.value_type) for item in value)
    return next(filter(None, inner), "")


def _reason(error: str) -> str:
    """pyarrow's sentence without the wrapping that it speaks of."""
    text = error.removeprefix("JSON parse error: ").split(" in row ")[0]
    text = _OF_ROOM.sub(r"DECIMAL of scale \1", text)
    return text.replace("Column(/v/[]/[]/", "field (").replace("Column(/v/[]/[])", "the value")


def inferred(values: Iterable[bytes | None]) -> tuple[pa.Schema, int]:
    """The fields of all the values that are JSON objects, in the order in which they came, and how many were none.

    A field that was always null is left out: nothing is known of it. ConfigurationError where a field is of two kinds
    that no column holds.
    """
    found: dict[str, Any] = {}
    refused = 0
    for value in values:
        if value is None:
            continue
        try:
            fields = json.loads(value)
        except (ValueError, RecursionError):
            refused += 1
            continue
        if not isinstance(fields, dict):
            refused += 1
            continue
        for name, of_field in _fields(fields):
            found[name] = _wider(found.get(name), _kind(of_field), name)
    return pa.schema([(name, kind) for name, kind in _known(found.items())]), refused


def _kind(value: Any, room: int = _LEVELS) -> Any:
    """A pyarrow type; None for null, dicts for objects and one-element lists for arrays while more may be learnt.

    None, too, for what is nested deeper than any column.
    """
    if not room:
        return None
    match value:
        case None:
            return None
        case bool():
            return pa.bool_()
        case int():
            return pa.int64() if -(2**63) <= value < 2**63 else pa.float64()
        case float():
            return pa.float64()
        case str():
            return pa.string()
        case list():
            inner: Any = None
            for item in value:
                inner = _wider(inner, _kind(item, room - 1), "[]")
            return [inner]
    return {name: _kind(of_field, room - 1) for name, of_field in _fields(value)}


def _fields(found: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """But for those whose names are in no text: JSON may escape half of a surrogate pair, and pyarrow refuses such a value."""
    return (field for field in found.items() if field[0].isascii() or not _HALF_A_PAIR.search(field[0]))


def _wider(one: Any, other: Any, name: str) -> Any:
    if one is None or other is None:
        return one if other is None else other
    if isinstance(one, dict) and isinstance(other, dict):
        names = dict.fromkeys([*one, *other])
        return {n: _wider(one.get(n), other.get(n), f"{name}.{n}") for n in names}
    if isinstance(one, list) and isinstance(other, list):
        return [_wider(one[0], other[0], f"{name}[]")]
    if one == other:
        return one
    if {str(one), str(other)} == {"int64", "double"}:
        return pa.float64()
    raise ConfigurationError(
        f"field {name} is {_said(one)} in one value and {_said(other)} in another; give the columns with --schema, "
        f"and values that do not fit become dead letters"
    )


def _said(kind: Any) -> str:
    if isinstance(kind, dict | list):
        return "an object" if isinstance(kind, dict) else "an array"
    return {"bool": "true or false", "int64": "a number", "double": "a number", "string": "a string"}[
        str(kind)
    ]


def _known(fields: Iterable[tuple[str, Any]]) -> Sequence[tuple[str, pa.DataType]]:
    return [(name, kind) for name, kind in ((n, _final(k)) for n, k in fields) if kind is not None]


def _final(kind: Any) -> pa.DataType | None:
    if isinstance(kind, dict):
        fields = _known(kind.items())
        return pa.struct(fields) if fields else None
    if isinstance(kind, list):
        inner = _final(kind[0])
        return None if inner is None else pa.list_(inner)
    return kind
