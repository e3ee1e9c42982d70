"""What numba compiles of decoding and of fingerprints, where it is installed (`pip install 'odradek[fast]'`).

Each kernel gives what the numpy code beside its caller gives, or says that it found something wrong; then numpy, which knows
the sentence for it, is asked. No kernel reads outside of what it is given. Compiled code is kept on disk beside this file, or where numba finds a place.

Imported by `compiled` alone: numba costs a third of a second of a processor.
"""

from typing import Any

import numba
import numpy as np
from numba import types

_BYTES, _LONGS = (types.Array(kind, 1, "C", readonly=True) for kind in (types.uint8, types.int64))
_BORDERS = types.Array(types.int32, 1, "C", readonly=True)
_WORDS = types.Array(types.uint64, 2, "C", readonly=True)
_NONE = -1
_MOST = 2**63 - 1


@numba.njit(cache=True, nogil=True)
def varint(data: Any, at: int, limit: int) -> Any:
    """The zigzag varint at a position, and the position after it: -1 where there is none of 64 bits below the limit."""
    value = np.int64(0)  # signed all through: numba makes floats of what is of both kinds
    shift = np.int64(0)
    while at < limit and shift < 64:
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == 63 and byte > 1:
                return np.int64(0), np.int64(_NONE)
            return ((value >> 1) & _MOST) ^ -(value & 1), at
        shift += 7
    return np.int64(0), np.int64(_NONE)


@numba.njit(cache=True, nogil=True)
def short_varint(data: Any, at: int, limit: int) -> Any:
    """As `varint`; nearly all have one byte."""
    if at < limit:
        byte = np.int64(data[at])
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), at + 1
    return varint(data, at, limit)


@numba.njit((_BYTES, _LONGS, _LONGS, _LONGS, types.int64[::1]), cache=True, nogil=True)
def record_starts(data: Any, begins: Any, ends: Any, counts: Any, starts: Any) -> bool:
    """Of each record in its batch; False if a batch does not end with its last record."""
    found = 0
    for batch in range(len(begins)):
        at, end = begins[batch], ends[batch]
        if at < 0 or end > len(data):
            return False
        for _ in range(counts[batch]):
            starts[found] = at
            found += 1
            length, at = short_varint(data, at, end)
            if at < 0 or length < 0 or length > end - at:
                return False
            at += length
        if at != end:
            return False
    return True


@numba.njit((_BYTES, _LONGS, _LONGS, types.int64[:, ::1]), cache=True, nogil=True)
def record_fields(data: Any, starts: Any, ends: Any, fields: Any) -> bool:
    """A row of `fields` each: timestamp delta, offset delta, key, its length, value, its length, headers, how many."""
    for record in range(len(starts)):
        at, end = starts[record], ends[record]
        if at < 0 or end > len(data):
            return False
        length, at = short_varint(data, at, end)
        if at < 0 or length != end - at:
            return False
        time, at = short_varint(data, at + 1, end)  # behind the attributes
        if at < 0:
            return False
        delta, at = short_varint(data, at, end)
        if at < 0:
            return False
        key_length, key = short_varint(data, at, end)
        if key < 0 or key_length < -1 or key_length > end - key:
            return False
        at = key + key_length if key_length > 0 else key
        value_length, value = short_varint(data, at, end)
        if value < 0 or value_length < -1 or value_length > end - value:
            return False
        at = value + value_length if value_length > 0 else value
        count, at = short_varint(data, at, end)
        if at < 0 or count < 0 or count > end - at or (count == 0 and at != end):
            return False
        fields[0, record] = time
        fields[1, record] = delta
        fields[2, record] = key
        fields[3, record] = key_length
        fields[4, record] = value
        fields[5, record] = value_length
        fields[6, record] = at
        fields[7, record] = count
    return True


@numba.njit(
    (_BYTES, _BORDERS, _LONGS, _WORDS, types.uint64[::1], types.uint64[::1]),
    cache=True,
    nogil=True,
)
def hashed_words(data: Any, borders: Any, lengths: Any, multipliers: Any, low: Any, high: Any) -> None:
    """Adds to both lanes of each text what its words add (`fingerprint`). The texts lie within `data`, and none has more words than there are multipliers."""
    half = np.uint64(32)
    for text in range(len(lengths)):
        begin = np.int64(borders[text])
        end = begin + max(lengths[text], 0)
        whole = (end - begin) >> 3
        words = data[begin : begin + 8 * whole].view(np.uint64)
        one, upper, lower = np.uint64(0), np.uint64(0), np.uint64(0)
        for word in range(whole):
            one += words[word] * multipliers[0, word]
            upper += words[word] * multipliers[1, word]
            lower += (words[word] >> half) * multipliers[1, word]
        rest, shift = np.uint64(0), np.uint64(0)
        for at in range(begin + 8 * whole, end):
            rest |= np.uint64(data[at]) << shift
            shift += np.uint64(8)
        if shift:
            one += rest * multipliers[0, whole]
            upper += rest * multipliers[1, whole]
            lower += (rest >> half) * multipliers[1, whole]
        low[text] += one
        high[text] += (upper << half) + lower
