"""The order-independent hash by which files, a topic and a table are compared: 128 bits a record, summed.

    fingerprint of a set of records = (how many there are, the sum of their hashes modulo 2**128)

A sum does not ask in which order the records come or how they are dealt out to partitions, files and tasks,
and sums of parts add up. A lost, doubled or changed record changes it. It guards against accidents, not
against somebody who constructs collisions.

`hash_of_record` is the definition. `of_arrow` computes the same for whole columns, as products of matrices of words with
numpy; a test holds the two equal.

The hash of a record has two lanes of 64 bits. In each, the 8-byte words of a field (little-endian, the last
padded with zeros) are multiplied by an odd number of their own and added to a seed; that sum, with the
field's length (null is -1), goes through the finalizer of splitmix64, and so do the two fields together. The
second lane turns every word by 32 bits first: a product hides changes of a factor's top bits, and what is on
top in one lane is in the middle of the other.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from odradek.spark.compiled import kernels
from odradek.spark.word_matrix import as_text, short_and_long, word_matrix

Words = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]

_MASK = 2**64 - 1
_MASK_128 = 2**128 - 1
_GAMMA = 0x9E3779B97F4A7C15  # splitmix64's step: 2**64 / golden ratio
_KEY, _VALUE = 0, 1  # fields
# Where the multipliers of each lane begin, and how far the value's lie from the key's.
_LANES = (0x0D7ADEC000000001, 0x51DECA5E00000001)
_FIELD_DISTANCE = 0x6A09E667F3BCC909
# Records whose words are worked on at once: their state stays in the second-level cache.
_BLOCK = 8192
# Bytes of padded values that are worked on at once, for the same reason.
_PIECE_BYTES = 1 << 18
# Words of a value that have their multipliers at the same time.
_MOST_WORDS = 1 << 15


@dataclass(frozen=True, slots=True, order=True)
class Fingerprint:
    count: int = 0
    total: int = 0

    def __add__(self, other: "Fingerprint") -> "Fingerprint":
        return Fingerprint(self.count + other.count, (self.total + other.total) & _MASK_128)

    def __sub__(self, other: "Fingerprint") -> "Fingerprint":
        """Of what is left where `other` is a part of it; where it is none the count may be negative."""
        return Fingerprint(self.count - other.count, (self.total - other.total) & _MASK_128)

    @property
    def hex(self) -> str:
        """32 hexadecimal digits: the sum as it is printed and stored."""
        return f"{self.total:032x}"

    @classmethod
    def from_hex(cls, count: int, text: str) -> "Fingerprint":
        return cls(count, int(text, 16))


EMPTY = Fingerprint()


def hash_of_record(key: bytes | None, value: bytes | None) -> int:
    """The definition: 128 bits, lane 1 above lane 0."""
    lanes = []
    for lane in (0, 1):
        parts = []
        for field, data in ((_KEY, key), (_VALUE, value)):
            total = _multiplier(lane, field, -1)
            for index in range(0, len(data or b""), 8):
                word = int.from_bytes((data or b"")[index : index + 8], "little")
                if lane == 1:
                    word = (word >> 32) | (word << 32) & _MASK
                total += word * _multiplier(lane, field, index // 8)
            length = -1 if data is None else len(data)
            parts.append(_mix((total + (length + 1) * _GAMMA) & _MASK))
        lanes.append(_mix((parts[0] * _GAMMA + parts[1]) & _MASK))
    return lanes[1] << 64 | lanes[0]


def of_records(records: Iterable[tuple[bytes | None, bytes | None]]) -> Fingerprint:
    """Of (key, value) pairs from anywhere, in chunks through `of_arrow`."""
    total = EMPTY
    rest = iter(records)
    while chunk := list(islice(rest, 8 * _BLOCK)):
        keys, values = zip(*chunk, strict=True)
        total += of_arrow(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
    return total


def of_arrow(key: pa.Array | pa.ChunkedArray, value: pa.Array | pa.ChunkedArray) -> Fingerprint:
    """Of two columns of binary (or strings, as UTF-8) with a row per record."""
    if isinstance(key, pa.ChunkedArray) or isinstance(value, pa.ChunkedArray):
        table = pa.table({"key": key, "value": value})
        return sum((of_arrow(*batch.columns) for batch in table.to_batches()), EMPTY)
    count = len(key)
    assert count == len(value), "a key and a value to each record"
    total = 0
    for start in range(0, count, _BLOCK):
        low, high = hashes(key.slice(start, _BLOCK), value.slice(start, _BLOCK))
        total += _sum(low) + (_sum(high) << 64)
    return Fingerprint(count, total & _MASK_128)


def of_rows(batch: pa.RecordBatch) -> Fingerprint:
    """Of rows of any columns: by name, whatever their order. A null counts as no column at all, so that a column that
    was added later changes nothing. Nested values are hashed as JSON, row by row, and not some 70 ns a column."""
    total = 0
    for start in range(0, batch.num_rows, _BLOCK):
        piece = batch.slice(start, _BLOCK)
        count = piece.num_rows
        low, high = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
        for name, column in zip(piece.schema.names, piece.columns, strict=True):
            if column.null_count == count:
                continue
            texts = _texts(column)
            lanes = hashes(pa.repeat(pa.scalar(name.encode(), pa.binary()), count), texts)
            is_there = texts.is_valid().to_numpy(zero_copy_only=False)
            low += np.where(is_there, lanes[0], np.uint64(0))
            high += np.where(is_there, lanes[1], np.uint64(0))
        # Mixed once more, so that two rows cannot swap the values of a column.
        total += _sum(_mix_all(low)) + (_sum(_mix_all(high)) << 64)
    return Fingerprint(batch.num_rows, total & _MASK_128)


def _texts(column: pa.Array) -> pa.Array:
    """One text a value, the same whoever wrote the file: OPTIMIZE of others may change Arrow's type, not the value."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(pa.string())
    if pa.types.is_nested(kind):
        values = [None if v is None else json.dumps(v, default=str) for v in _values(column)]
        return pa.array(values, pa.string())
    is_text = (
        pa.types.is_large_binary(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)
    )
    return column.cast(pa.binary() if is_text else pa.string())


def _values(column: pa.Array) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError:
        numbers = column.cast(_in_numbers(column.type))
        values = [_value(column[n], numbers[n]) for n in range(len(column))]
    return values


def _value(value: pa.Scalar, in_numbers: pa.Scalar) -> Any:
    """With numbers for its moments where one of them is beyond what Python can tell, the years 1 to 9999."""
    try:
        return value.as_py()
    except OverflowError:
        return in_numbers.as_py()


def _in_numbers(kind: pa.DataType) -> pa.DataType:
    """The type with whole numbers for moments and days, also within it."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_numbers(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_in_numbers(kind.key_type), _in_numbers(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        of = kind.value_field.with_type(_in_numbers(kind.value_type))
        return pa.large_list(of) if pa.types.is_large_list(kind) else pa.list_(of)
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.int32() if pa.types.is_date32(kind) else kind


def hashes(key: pa.Array, value: pa.Array) -> tuple[Words, Words]:
    """The lower and the upper 64 bits of each record's hash."""
    keys = _field(key, _KEY)
    values = _field(value, _VALUE)
    gamma = np.uint64(_GAMMA)
    low = _mix_all(_mix_all(keys[0]) * gamma + _mix_all(values[0]))
    high = _mix_all(_mix_all(keys[1]) * gamma + _mix_all(values[1]))
    return low, high


def _field(column: pa.Array, field: int) -> tuple[Words, Words]:
    """Both lanes of one field, lengths included, not mixed yet."""
    count = len(column)
    seeds = [np.uint64(_multiplier(lane, field, -1)) for lane in (0, 1)]
    if pa.types.is_null(column.type) or column.null_count == count:
        return np.full(count, seeds[0]), np.full(count, seeds[1])
    if not (pa.types.is_binary(column.type) or pa.types.is_string(column.type)):
        column = column.cast(pa.binary())
    borders = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + count + 1]
    length = np.diff(borders).astype(np.int64)
    if column.null_count:
        length[column.is_null().to_numpy(zero_copy_only=False)] = -1
    low = (length + 1).view(np.uint64) * np.uint64(_GAMMA)
    high = low + seeds[1]
    low += seeds[0]
    compiled = kernels()
    longest = -(-int(length.max(initial=0)) // 8)  # in words
    if compiled is not None and 0 < longest <= _MOST_WORDS:
        data = np.frombuffer(column.buffers()[2], np.uint8)
        compiled.hashed_words(data, borders, length, _lanes_of(field, longest), low, high)
    elif longest:
        texts = as_text(column)
        if column.null_count:
            texts = pc.fill_null(texts, "")
        words = _words(texts, np.maximum(length, 0), field)
        low += words[0]
        high += words[1]
    return low, high


def _words(texts: pa.Array, length: Positions, field: int) -> tuple[Words, Words]:
    """What the words of each text add to both lanes.

    The texts are padded with zeros, which add nothing, to the length of the longest: then they are a matrix of words, and
    each lane is its product with the multipliers. Where padding would be most of it, short and long texts have one each.
    """
    count, size = len(length), int(length.sum())
    width = -(-int(length.max(initial=0)) // 8)  # in words
    low, high = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    if 8 * width * count > max(2 * (size + 8 * count), _PIECE_BYTES):
        for rows in short_and_long(length):
            low[rows], high[rows] = _words(texts.take(pa.array(rows)), length[rows], field)
        return low, high
    if not width:
        return low, high
    step = max(1, _PIECE_BYTES // (8 * width))
    for start in range(0, count, step):
        words = word_matrix(texts.slice(start, step), width, np.uint64)
        here = slice(start, start + step)
        for first in range(0, width, _MOST_WORDS):
            some = words[:, first : first + _MOST_WORDS]
            one, other = (_multipliers_of(lane, field, first, some.shape[1]) for lane in (0, 1))
            low[here] += _product(some, one)
            # The second lane's words are turned by 32 bits: their lower halves go up, their upper halves down.
            high[here] += _product(some, other) << _HALF
            high[here] += _product(some >> _HALF, other)
    return low, high


def _product(words: Words, multipliers: Words) -> Words:
    """Of each row's words, modulo 2**64."""
    found: Words = np.einsum("ij,j->i", words, multipliers)
    return found


def _multipliers_of(lane: int, field: int, first: int, count: int) -> Words:
    if first:
        return _multipliers(lane, field, first, count)
    return _first_multipliers(lane, field, 1 << (count - 1).bit_length())[:count]


def _lanes_of(field: int, count: int) -> Words:
    """The multipliers of `count` words or more, a row for each lane."""
    return _both_lanes(field, 1 << (count - 1).bit_length())


@lru_cache(maxsize=64)
def _both_lanes(field: int, count: int) -> Words:
    return np.stack([_multipliers(lane, field, 0, count) for lane in (0, 1)])


@lru_cache(maxsize=64)
def _first_multipliers(lane: int, field: int, count: int) -> Words:
    return _multipliers(lane, field, 0, count)


def _multipliers(lane: int, field: int, first: int, count: int) -> Words:
    """`_multiplier` of `count` words from the first on."""
    seed = np.uint64((_LANES[lane] + field * _FIELD_DISTANCE) & _MASK)
    places = np.arange(first + 1, first + 1 + count, dtype=np.uint64)
    return _mix_all(seed + places * np.uint64(_GAMMA)) | _ONE


_ONE, _HALF = np.uint64(1), np.uint64(32)


@lru_cache(maxsize=1 << 16)
def _multiplier(lane: int, field: int, index: int) -> int:
    """Odd, and without any visible relation to its neighbours: the output of splitmix64 at a place of its own."""
    return _mix(_LANES[lane] + field * _FIELD_DISTANCE + (index + 1) * _GAMMA & _MASK) | 1


def _mix(x: int) -> int:
    """The finalizer of splitmix64 (Steele, Lea and Flood 2014): every bit in reaches every bit out."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _MASK
    return x ^ x >> 31


def _mix_all(x: Words) -> Words:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _sum(lane: Words) -> int:
    """Exact: the halves are added apart, because a sum of 64-bit words would lose its carries."""
    halves = int((lane & np.uint64(0xFFFFFFFF)).sum()), int((lane >> np.uint64(32)).sum())
    return halves[0] + (halves[1] << 32)
