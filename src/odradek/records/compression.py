"""The five codecs of a record batch: none, gzip, snappy, lz4, zstd (attribute bits 0-2).

Decompression takes the most bytes that may come out, because the sender chose both sizes: a kilobyte can
claim to be a gigabyte. Compressed bytes are never compared with another encoder's; the records inside are.

Snappy has two forms in the wild: the Java clients' (xerial: a 16-byte header, then blocks of length and
bytes) and the raw block of librdkafka. We write the first and read both.
"""

from typing import Any

from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.records.errors import CorruptBatch

Buffer = bytes | bytearray | memoryview

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
# The setting compression.type says "uncompressed" where the wire says none.
CODEC_NUMBERS = {name: number for number, name in enumerate(CODEC_NAMES)} | {"uncompressed": NONE}

# Above the largest request a broker reads by default (socket.request.max.bytes), so no honest batch meets it.
DEFAULT_MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version 1, readable since 1
XERIAL_BLOCK_BYTES = 32 * 1024


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """`level` is the codec's own scale; None takes its default."""
    if codec == NONE:
        return data
    if codec == SNAPPY:
        return _compress_xerial(data)
    if codec == GZIP:
        import zlib

        deflate = zlib.compressobj(-1 if level is None else level, wbits=31)
        return deflate.compress(data) + deflate.flush()
    cramjam = _cramjam()
    if codec == LZ4:
        return memoryview(cramjam.lz4.compress(data) if level is None else cramjam.lz4.compress(data, level))
    if codec == ZSTD:
        return memoryview(
            cramjam.zstd.compress(data) if level is None else cramjam.zstd.compress(data, level)
        )
    raise unknown_codec(codec)


def decompress(codec: int, data: Buffer, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> Buffer:
    """CorruptBatch if the bytes are not the codec's, or if more than `max_bytes` come out."""
    if codec == NONE:
        return data
    if codec == GZIP:
        return _decompress_gzip(data, max_bytes)
    if codec == SNAPPY:
        if bytes(data[:8]) == XERIAL_MAGIC:
            return _decompress_xerial(memoryview(data), max_bytes)
        return _decompress_snappy_block(data, max_bytes)
    cramjam = _cramjam()
    if codec == LZ4:
        return _decompress_growing("lz4", cramjam.lz4.decompress_into, data, max_bytes)
    if codec == ZSTD:
        return _decompress_growing("zstd", cramjam.zstd.decompress_into, data, max_bytes)
    raise unknown_codec(codec)


def unknown_codec(codec: int) -> ProtocolError:
    return ProtocolError(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        f"compression codec {codec}: known are 0 (none) to 4 (zstd)",
    )


def _cramjam() -> Any:
    import cramjam  # only batches that are opened pay for it; the broker's path opens none

    return cramjam


def _too_large(codec: str, max_bytes: int) -> CorruptBatch:
    return CorruptBatch(f"{codec}: more than {max_bytes} bytes come out of this batch")


def _compress_xerial(data: Buffer) -> bytes:
    cramjam = _cramjam()
    view = memoryview(data)
    parts: list[bytes] = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


def _decompress_xerial(data: memoryview, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    total = 0
    position = len(XERIAL_HEADER)
    while position < len(data):
        if len(data) - position < 4:
            raise CorruptBatch("snappy: a block's length is cut short")
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if size > len(data) - position:
            raise CorruptBatch(f"snappy: a block of {size} bytes where {len(data) - position} are left")
        block = _decompress_snappy_block(data[position : position + size], max_bytes - total)
        total += len(block)
        parts.append(block)
        position += size
    return b"".join(parts)


def _decompress_snappy_block(data: Buffer, max_bytes: int) -> bytes:
    cramjam = _cramjam()
    try:
        # The block begins with its uncompressed length, which no decoder exceeds.
        if cramjam.snappy.decompress_raw_len(data) > max_bytes:
            raise _too_large("snappy", max_bytes)
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy: {error}") from None


def _decompress_gzip(data: Buffer, max_bytes: int) -> bytes:
    import zlib

    parts: list[bytes] = []
    total = 0
    rest: Buffer = data
    while len(rest):  # several members may follow each other
        inflate = zlib.decompressobj(wbits=31)
        try:
            part = inflate.decompress(rest, max_bytes - total + 1)
        except zlib.error as error:
            raise CorruptBatch(f"gzip: {error}") from None
        total += len(part)
        if total > max_bytes:
            raise _too_large("gzip", max_bytes)
        if not inflate.eof:
            raise CorruptBatch("gzip: the stream is cut short")
        parts.append(part)
        rest = inflate.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_growing(codec: str, decompress_into: Any, data: Buffer, max_bytes: int) -> memoryview:
    """Into a buffer that grows until the output fits: the frame may not say its size, or lie about it."""
    size = min(max_bytes, max(4096, 8 * len(data)))
    while True:
        output = bytearray(size)
        try:
            written = decompress_into(data, output)
            return memoryview(output)[:written]
        except Exception as error:
            if "whole buffer" not in str(error):
                raise CorruptBatch(f"{codec}: {error}") from None
        if size >= max_bytes:
            raise _too_large(codec, max_bytes)
        size = min(max_bytes, 4 * size)
