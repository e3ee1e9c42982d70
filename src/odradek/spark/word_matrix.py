"""A column of bytes as a matrix of words: a row for each value, padded with zeros to the length of the longest.

What numpy does with a word of all values at a time costs a fraction of what it costs value by value.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Rows = npt.NDArray[np.intp]


def as_text(column: pa.Array) -> pa.Array:
    """The same bytes (binary or string). Arrow pads nothing but text, and does not look whether it is some."""
    return pa.Array.from_buffers(pa.string(), len(column), column.buffers(), offset=column.offset)


def word_matrix(texts: pa.Array, width: int, word: Any) -> Any:
    """Of values without a null, none longer than `width` words of this numpy type: an array of (values, width), read only."""
    size_bytes = width * np.dtype(word).itemsize
    padded = pc.ascii_rpad(texts, width=size_bytes, padding="\0")
    return np.frombuffer(padded.buffers()[2], word, len(padded) * width).reshape(len(padded), width)


def short_and_long(length: npt.NDArray[Any]) -> tuple[Rows, Rows]:
    """Which values are no longer than their mean, and which are: for a matrix each, where padding would be most of one."""
    is_short = length <= int(length.sum(dtype=np.int64)) // len(length)
    return np.flatnonzero(is_short), np.flatnonzero(~is_short)
