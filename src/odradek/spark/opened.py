"""The records of one batch, read out of its compression piece by piece: what is held follows from what is asked for.

gzip, lz4 and zstd are streams. Snappy is not: a block is opened whole, and a reader bounds how large it may be.
"""

from collections.abc import Iterator
from typing import Any, Protocol

import pyarrow as pa

from odradek.model.errors import OdradekError
from odradek.records.compression import (
    CODEC_NAMES,
    NONE,
    SNAPPY,
    SNAPPY_MOST_RATIO,
    XERIAL_HEADER,
    XERIAL_MAGIC,
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
        return _Pieces(_snappy_blocks(body, most_bytes))
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


def _snappy_blocks(body: memoryview, most_bytes: int) -> Iterator[memoryview]:
    """Of the Java clients' form (xerial) its blocks; else the one raw block of librdkafka."""
    if bytes(body[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        yield _snappy_block(body, most_bytes)
        return
    position = len(XERIAL_HEADER)
    while position < len(body):
        size = int.from_bytes(body[position : position + 4], "big")
        position += 4
        if size > len(body) - position:
            raise CorruptBatch(
                f"snappy: a block of {size} bytes where {max(0, len(body) - position)} are left"
            )
        yield _snappy_block(body[position : position + size], most_bytes)
        position += size


def _snappy_block(block: memoryview, most_bytes: int) -> memoryview:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(block)
        # The size is a claim, and would be allocated.
        if size > SNAPPY_MOST_RATIO * len(block):
            raise CorruptBatch(f"snappy: a block of {len(block)} bytes claims {size}")
        if size > most_bytes:
            raise TooLarge(f"a snappy block of {size} bytes, which can only be opened whole")
        output: Any = bytearray(size)
        cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy: {error}") from None
    return memoryview(output)
