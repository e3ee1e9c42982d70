"""The five codecs of a record batch: none, gzip, snappy, lz4, zstd (attribute bits 0-2).

Decompression takes the most bytes that may come out, because the sender chose both sizes: a kilobyte can
claim to be a gigabyte. Compressed bytes are never compared with another encoder's; the records inside are.

Snappy has two forms in the wild: the Java clients' (xerial: a 16-byte header, then blocks of length and
bytes) and the raw block of librdkafka. We write the first and read both.
"""

from collections.abc import Iterator
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

# What the broker opens of a batch: see `most_opened_bytes`.
MOST_OPENED_BYTES = 32 << 20
FREE_OPENED_BYTES = 1 << 20
MOST_OPENED_RATIO = 100
# Everybody writes one; each costs a copy of what is behind it.
MOST_GZIP_MEMBERS = 16
# Everybody's blocks but the last hold a KiB at least; each costs some microseconds whatever is in it.
FREE_SNAPPY_BLOCKS = 16
SNAPPY_BLOCK_BYTES = 1 << 10
SNAPPY_MOST_RATIO = 32  # a copy of 64 bytes takes three: nothing is packed closer than 22:1

GZIP_MAGIC = b"\x1f\x8b\x08"
LZ4_MAGIC = b"\x04\x22\x4d\x18"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # behind a first byte of 0x50 to 0x5f
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
        # By default a block goes on in the one before it; Java's clients refuse that ("Dependent block stream is unsupported").
        frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        frame.compress(bytes(data))
        return memoryview(frame.finish())
    if codec == ZSTD:
        return memoryview(
            cramjam.zstd.compress(data) if level is None else cramjam.zstd.compress(data, level)
        )
    raise unknown_codec(codec)


def decompress(codec: int, data: Buffer, max_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES) -> Buffer:
    """CorruptBatch if the bytes are not the codec's, or if more than `max_bytes` come out."""
    output, is_whole = decompress_prefix(codec, data, max_bytes)
    if not is_whole:
        raise CorruptBatch(f"{CODEC_NAMES[codec]}: more than {max_bytes} bytes come out of this batch")
    return output


def decompress_prefix(codec: int, data: Buffer, max_bytes: int) -> tuple[Buffer, bool]:
    """What comes out of `data`, at most its first `max_bytes`, and whether that is all of it.

    Memory and work are bounded by `max_bytes`, whatever the data claims; a block of snappy is opened whole, is at most 32
    times its input, and of very small ones no more are opened than `max_bytes` would fill with larger ones. A longer prefix
    of the same data begins with the same bytes. CorruptBatch if the bytes are not the codec's, as far as was looked.
    """
    if codec == NONE:
        return memoryview(data)[:max_bytes], len(data) <= max_bytes
    if codec == GZIP:
        return _gzip_prefix(data, max_bytes)
    if codec == SNAPPY:
        return _snappy_prefix(data, max_bytes)
    cramjam = _cramjam()
    if codec == LZ4:
        return _growing_prefix("lz4", cramjam.lz4.decompress_into, data, max_bytes)
    if codec == ZSTD:
        return _growing_prefix("zstd", cramjam.zstd.decompress_into, data, max_bytes)
    raise unknown_codec(codec)


def begins_as(codec: int, data: Buffer) -> bool:
    """Whether the data begins as everything does that this codec's encoders write. Opens nothing."""
    head = bytes(data[:8])
    if codec == GZIP:
        return head[:3] == GZIP_MAGIC
    if codec == LZ4:
        return head[:4] == LZ4_MAGIC
    if codec == ZSTD:
        # A skippable frame (RFC 8878, 3.1.2) may come first.
        return head[:4] == ZSTD_MAGIC or (head[1:4] == ZSTD_SKIPPABLE and head[0] & 0xF0 == 0x50)
    if codec == SNAPPY and head != XERIAL_MAGIC:
        cramjam = _cramjam()
        try:
            return bool(cramjam.snappy.decompress_raw_len(data) <= SNAPPY_MOST_RATIO * len(data))
        except cramjam.DecompressionError:
            return False
    return True


def snappy_blocks(data: Buffer) -> Iterator[memoryview]:
    """Of the Java clients' form (xerial) its blocks; else the one raw block of librdkafka."""
    view = memoryview(data)
    if bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        yield view
        return
    position = 0
    while position < len(view):
        if bytes(view[position : position + len(XERIAL_MAGIC)]) == XERIAL_MAGIC:
            # Of one stream, or of one behind another: Java's reader goes on with that.
            position += len(XERIAL_HEADER)
            continue
        if len(view) - position < 4:
            raise CorruptBatch("snappy: a block's length is cut short")
        size = int.from_bytes(view[position : position + 4], "big")
        position += 4
        if size > len(view) - position:
            raise CorruptBatch(f"snappy: a block of {size} bytes where {len(view) - position} are left")
        yield view[position : position + size]
        position += size


def snappy_size(block: Buffer) -> int:
    """What comes out of a block: it begins with that, and no decoder exceeds it. CorruptBatch if it could not be that long."""
    cramjam = _cramjam()
    try:
        size = int(cramjam.snappy.decompress_raw_len(block))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy: {error}") from None
    if size > SNAPPY_MOST_RATIO * len(block):
        raise CorruptBatch(f"snappy: a block of {len(block)} bytes claims {size}")
    return size


def open_snappy(block: Buffer, output: bytearray) -> None:
    """Opens the block into `output`, which is `snappy_size` bytes long."""
    cramjam = _cramjam()
    try:
        cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"snappy: {error}") from None


def most_opened_bytes(compressed_bytes: int) -> int:
    """How much may come out of the records of one batch that somebody else wrote, before it counts as a bomb.

    A MiB is free, so that small batches of equal records pass whatever their ratio; beyond it a hundredfold, and
    32 MiB in all. No producer's batch comes near: they are cut at a MiB before they are compressed, or little above.
    """
    return min(MOST_OPENED_BYTES, FREE_OPENED_BYTES + MOST_OPENED_RATIO * compressed_bytes)


def unknown_codec(codec: int) -> ProtocolError:
    return ProtocolError(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        f"compression codec {codec}: known are 0 (none) to 4 (zstd)",
    )


def _cramjam() -> Any:
    import cramjam  # only batches that are opened pay for it; the broker's path opens none

    return cramjam


def _compress_xerial(data: Buffer) -> bytes:
    cramjam = _cramjam()
    view = memoryview(data)
    parts: list[bytes] = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


def _snappy_prefix(data: Buffer, max_bytes: int) -> tuple[Buffer, bool]:
    parts: list[bytearray] = []
    left = max_bytes
    most_blocks = FREE_SNAPPY_BLOCKS + max_bytes // SNAPPY_BLOCK_BYTES
    for block in snappy_blocks(data):
        if len(parts) == most_blocks:
            return b"".join(parts), False
        opened, size = _snappy_block(block, left)
        parts.append(opened)
        if size > len(opened):
            return b"".join(parts), False
        left -= size
    return parts[0] if len(parts) == 1 else b"".join(parts), True


def _snappy_block(data: Buffer, max_bytes: int) -> tuple[bytearray, int]:
    """The block's first `max_bytes`, and the size of all of it.

    A block can only be opened whole. Nothing comes out of one above `MOST_OPENED_BYTES` that was not asked for whole.
    """
    size = snappy_size(data)
    if size > max(max_bytes, MOST_OPENED_BYTES):
        return bytearray(), size
    output = bytearray(size)
    open_snappy(data, output)
    return output if size <= max_bytes else output[:max_bytes], size


def _gzip_prefix(data: Buffer, max_bytes: int) -> tuple[bytes, bool]:
    import zlib

    parts: list[bytes] = []
    left = max_bytes
    rest: Buffer = data
    while len(rest):  # several members may follow each other
        if len(parts) == MOST_GZIP_MEMBERS:
            raise CorruptBatch(f"gzip: more than {MOST_GZIP_MEMBERS} members")
        inflate = zlib.decompressobj(wbits=31)
        try:
            part = inflate.decompress(rest, left + 1)  # 0 would be no limit
        except zlib.error as error:
            raise CorruptBatch(f"gzip: {error}") from None
        parts.append(part[:left])
        if len(part) > left:
            return b"".join(parts), False
        left -= len(part)
        if not inflate.eof:
            raise CorruptBatch("gzip: the stream is cut short")
        rest = inflate.unused_data
    return parts[0] if len(parts) == 1 else b"".join(parts), True


def _growing_prefix(codec: str, decompress_into: Any, data: Buffer, max_bytes: int) -> tuple[bytearray, bool]:
    """Into a buffer that grows until the output fits: the frame may not say its size, or lie about it.

    A buffer that is too small is full when the decoder gives up, so what is in it is the output's beginning.
    """
    size = min(max_bytes, max(4096, 8 * len(data)))
    while True:
        output = bytearray(size)
        try:
            written = decompress_into(data, output)
            del output[written:]
            return output, True
        except Exception as error:
            if "whole buffer" not in str(error):
                raise CorruptBatch(f"{codec}: {error}") from None
        if size >= max_bytes:
            return output, False
        del output
        size = min(max_bytes, 4 * size)
