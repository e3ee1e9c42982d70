"""The Java client's murmur2 for a whole column of keys, which are padded to a matrix: four bytes of all of them at a time.

`odradek.client.partitioning` is the definition; a test holds the two equal.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from odradek.client.partitioning import MULTIPLIER, SEED
from odradek.spark.word_matrix import as_text, short_and_long, word_matrix

Hashes = np.ndarray[Any, np.dtype[np.uint32]]
_M = np.uint32(MULTIPLIER)
_PADDED_BYTES = 1 << 20


def murmur2_of(keys: pa.Array) -> Hashes:
    """Of each key (binary, none null), as `murmur2` gives it."""
    count = len(keys)
    borders = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + count + 1]
    length = np.diff(borders)
    longest, size = int(length.max(initial=0)), int(length.sum(dtype=np.int64))
    if longest * count > _PADDED_BYTES and longest * count > 4 * (size + count):
        # Padding would be most of it: the long ones apart.
        hashes = np.empty(count, np.uint32)
        for rows in short_and_long(length):
            hashes[rows] = murmur2_of(keys.take(pa.array(rows)))
        return hashes
    hashes = np.uint32(SEED) ^ length.astype(np.uint32)
    if not longest:
        return _finished(hashes)
    width = longest // 4 + 1
    words = word_matrix(as_text(keys), width, np.uint32)
    full = length >> 2
    least = int(full.min())
    for index in range(width - 1):
        k = words[:, index] * _M
        k = (k ^ (k >> np.uint32(24))) * _M
        mixed = (hashes * _M) ^ k
        hashes = mixed if index < least else np.where(full > index, mixed, hashes)
    is_broken = (length & 3) != 0
    # The last word of each: what is behind its key is zeros.
    tail = words[np.arange(count), full]
    return _finished(np.where(is_broken, (hashes ^ tail) * _M, hashes))


def partitions_of(keys: pa.Array, partitions: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The partition that a Java producer sends each key to."""
    return (murmur2_of(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


def _finished(hashes: Hashes) -> Hashes:
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _M
    return hashes ^ (hashes >> np.uint32(15))
