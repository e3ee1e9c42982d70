"""The records of one batch, read out of its compression piece by piece: what is held follows from what is asked for.

gzip, lz4 and zstd are streams, and pyarrow's are as fast as opening at once (cramjam has none: a broker, which looks at
beginnings only, does without pyarrow by `records.compression.decompress_prefix`). Snappy is no stream: a block is opened
whole, and a reader bounds how large it may be.
"""

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from odradek.model.errors import OdradekError
from odradek.records.compression import (
    CODEC_NAMES,
    NONE,
    SNAPPY,
    open_snappy,
    snappy_blocks,
    snappy_size,
    unknown_codec,
)
from odradek.records.errors import CorruptBatch


class TooLarge(OdradekError):
    """What would have to be held at once is above the bound."""


class Opened(Protocol):
    def readinto(self, target: memoryview) -> int:
        """Fills the target as far as there is something left; fewer bytes than it holds mean the end."""


def opened(codec: int, body: memoryview, *, most_bytes: int) -> Opened:
    """What comes out of `body`, the records of a batch. Nothing larger than `most_bytes` is opened in one piece."""
    if codec == NONE:
        return _Pieces(iter([body]))
    if codec == SNAPPY:
        return _Pieces(_snappy_pieces(body, most_bytes))
    if codec >= len(CODEC_NAMES):
        raise unknown_codec(codec)
    return _Stream(CODEC_NAMES[codec], body)


class _Stream:
    def __init__(self, codec: str, body: memoryview) -> None:
        self._codec = codec
        self._stream = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(body)), codec)

    def readinto(self, target: memoryview) -> int:
        filled = 0
        try:
            while filled < len(target):
                count = self._stream.readinto(target[filled:])
                if not count:
                    break
                filled += count
        except OSError as error:
            raise CorruptBatch(f"{self._codec}: {error}") from None
        return filled


class _Pieces:
    def __init__(self, pieces: Iterator[memoryview]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")

    def readinto(self, target: memoryview) -> int:
        filled = 0
        while filled < len(target):
            if not len(self._piece):
                try:
                    self._piece = next(self._pieces)
                except StopIteration:
                    break
            count = min(len(self._piece), len(target) - filled)
            target[filled : filled + count] = self._piece[:count]
            self._piece = self._piece[count:]
            filled += count
        return filled


def _snappy_pieces(body: memoryview, most_bytes: int) -> Iterator[memoryview]:
    for block in snappy_blocks(body):
        size = snappy_size(block)
        if size > most_bytes:
            raise TooLarge(f"a snappy block of {size} bytes, which can only be opened whole")
        piece = bytearray(size)
        open_snappy(block, piece)
        yield memoryview(piece)
