"""The Java client's murmur2 for a whole column of keys, four bytes of all of them at a time.

`odradek.client.partitioning` is the definition; a test holds the two equal.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from odradek.client.partitioning import MULTIPLIER, SEED

Hashes = np.ndarray[Any, np.dtype[np.uint32]]
_M = np.uint32(MULTIPLIER)
_KEPT = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)  # of the last, broken word


def murmur2_of(keys: pa.Array) -> Hashes:
    """Of each key (binary, none null), as `murmur2` gives it."""
    count = len(keys)
    _, borders_buffer, data_buffer = keys.buffers()
    borders = np.frombuffer(borders_buffer, np.int32)[keys.offset : keys.offset + count + 1].astype(np.int64)
    length = np.diff(borders)
    hashes: Hashes = np.uint32(SEED) ^ length.astype(np.uint32)
    if count == 0 or borders[-1] == borders[0]:
        return _finished(hashes)
    first, last = int(borders[0]), int(borders[-1])
    data = np.zeros(last - first + 4, np.uint8)
    data[: last - first] = np.frombuffer(data_buffer, np.uint8)[first:last]
    begin = borders[:-1] - first
    # The longest first: those that have ended are cut off behind.
    order = np.argsort(-length, kind="stable")
    words = (length >> 2)[order]
    at, mixed = begin[order], hashes[order]
    for _ in range(int(words[0])):
        still = int(np.searchsorted(-words, 0))  # words left: those with none stand behind
        k = _word(data, at[:still]) * _M
        k = (k ^ (k >> np.uint32(24))) * _M
        mixed[:still] = (mixed[:still] * _M) ^ k
        at[:still] += 4
        words[:still] -= 1
    rest = (length & 3)[order]
    is_broken = np.flatnonzero(rest)
    tail = _word(data, at[is_broken]) & _KEPT[rest[is_broken]]
    mixed[is_broken] = (mixed[is_broken] ^ tail) * _M
    hashes[order] = mixed
    return _finished(hashes)


def partitions_of(keys: pa.Array, partitions: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The partition that a Java producer sends each key to."""
    return (murmur2_of(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


def _word(data: np.ndarray[Any, np.dtype[np.uint8]], at: np.ndarray[Any, np.dtype[np.int64]]) -> Hashes:
    """Four bytes at each place, little-endian."""
    word: Hashes = data[at].astype(np.uint32)
    for byte in (1, 2, 3):
        word |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def _finished(hashes: Hashes) -> Hashes:
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _M
    return hashes ^ (hashes >> np.uint32(15))
