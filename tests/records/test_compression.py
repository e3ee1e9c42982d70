"""Five codecs, both forms of snappy, and senders who lie about sizes."""

import contextlib
import gzip
import os
import zlib

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.records.compression import (
    CODEC_NAMES,
    FREE_OPENED_BYTES,
    GZIP,
    LZ4,
    LZ4_MAGIC,
    MOST_GZIP_MEMBERS,
    MOST_OPENED_BYTES,
    SNAPPY,
    XERIAL_HEADER,
    XERIAL_MAGIC,
    ZSTD,
    ZSTD_SKIPPABLE,
    begins_as,
    compress,
    decompress,
    decompress_prefix,
    most_opened_bytes,
)
from odradek.records.errors import CorruptBatch

CODECS = range(5)
COMPRESSING = range(1, 5)
SAMPLES = [b"", b"x", b"abc" * 10_000, bytes(range(256)) * 300, bytes(1_000_000)]


@pytest.mark.parametrize("codec", CODECS, ids=CODEC_NAMES)
def test_bytes_come_back(codec: int) -> None:
    for sample in SAMPLES:
        assert bytes(decompress(codec, compress(codec, sample))) == sample
        view = memoryview(b"--" + sample + b"--")[2:-2]
        assert bytes(decompress(codec, compress(codec, view))) == sample


@pytest.mark.parametrize(("codec", "levels"), [(GZIP, (1, 9)), (LZ4, (1, 9)), (ZSTD, (-5, 3, 19))])
def test_levels_change_the_size_and_not_the_bytes(codec: int, levels: tuple[int, ...]) -> None:
    sample = b"".join(b"%d %d," % (n, n * n % 1013) for n in range(3000))
    packed = [bytes(compress(codec, sample, level)) for level in levels]
    assert all(bytes(decompress(codec, data)) == sample for data in packed)
    assert len(set(map(len, packed))) == len(levels), "each level packs as closely as it says"


def test_snappy_is_written_framed_and_read_in_both_forms() -> None:
    sample = b"some bytes " * 10_000
    framed = bytes(compress(SNAPPY, sample))
    assert framed.startswith(XERIAL_HEADER)
    blocks = 0
    at = len(XERIAL_HEADER)
    while at < len(framed):
        size = int.from_bytes(framed[at : at + 4], "big")
        assert cramjam.snappy.decompress_raw_len(framed[at + 4 : at + 4 + size]) <= 32 * 1024
        at += 4 + size
        blocks += 1
    assert blocks == 4
    raw = bytes(cramjam.snappy.compress_raw(sample))
    assert decompress(SNAPPY, raw) == decompress(SNAPPY, framed) == sample


@pytest.mark.parametrize("level", [None, 1, 9])
def test_every_block_of_lz4_stands_alone(level: int | None) -> None:
    """Java's clients, Apache's brokers and Spark's own connector read no other frame (`Lz4BlockOutputStream.FLG.validate`)."""
    for sample in (b"", b"some bytes", b"some bytes " * 50_000):
        magic, flags = bytes(compress(LZ4, sample, level))[:4], bytes(compress(LZ4, sample, level))[4]
        assert magic == LZ4_MAGIC
        version, is_independent, reserved = flags >> 6, flags >> 5 & 1, flags & 3
        assert (version, is_independent, reserved) == (1, 1, 0)


def test_several_gzip_members_are_one_stream() -> None:
    data = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(GZIP, data) == b"one two"


def test_several_xerial_streams_are_one() -> None:
    """So snappy-java reads them (`SnappyInputStream.hasNextChunk`)."""
    data = bytes(compress(SNAPPY, b"one ")) + XERIAL_HEADER + bytes(compress(SNAPPY, b"two"))
    assert bytes(decompress(SNAPPY, data)) == b"one two"


@pytest.mark.parametrize("codec", COMPRESSING, ids=CODEC_NAMES[1:])
def test_more_than_was_allowed_never_comes_out(codec: int) -> None:
    sample = bytes(3_000_000)
    data = bytes(compress(codec, sample))
    assert len(data) < 200_000
    assert len(decompress(codec, data, max_bytes=len(sample))) == len(sample)
    for limit in (0, 1, 4096, len(sample) - 1):
        with pytest.raises(CorruptBatch, match="more than"):
            decompress(codec, data, max_bytes=limit)


def test_more_than_was_allowed_never_comes_out_of_several_gzip_members() -> None:
    """Each of which alone is below the limit."""
    data = MOST_GZIP_MEMBERS * gzip.compress(bytes(1_000))
    assert len(decompress(GZIP, data, max_bytes=MOST_GZIP_MEMBERS * 1_000)) == MOST_GZIP_MEMBERS * 1_000
    with pytest.raises(CorruptBatch, match="more than"):
        decompress(GZIP, data, max_bytes=MOST_GZIP_MEMBERS * 1_000 - 1)


def test_more_than_was_allowed_never_comes_out_of_many_snappy_blocks() -> None:
    data = bytes(compress(SNAPPY, bytes(100_000)))
    with pytest.raises(CorruptBatch, match="more than"):
        decompress(SNAPPY, data, max_bytes=99_999)


@pytest.mark.parametrize("codec", COMPRESSING, ids=CODEC_NAMES[1:])
def test_every_cut_is_seen(codec: int) -> None:
    sample = b"the quick brown fox " * 20
    data = bytes(compress(codec, sample))
    for size in range(1, len(data)):
        if codec == SNAPPY and len(XERIAL_MAGIC) <= size <= len(XERIAL_HEADER):
            assert bytes(decompress(codec, data[:size])) == b""  # the form without a block
        else:
            with pytest.raises(CorruptBatch):
                decompress(codec, data[:size])


@pytest.mark.parametrize("data", [b"\x00", b"garbage garbage garbage", b"\xff" * 50], ids=range(3))
@pytest.mark.parametrize("codec", COMPRESSING, ids=CODEC_NAMES[1:])
def test_other_bytes_are_refused(codec: int, data: bytes) -> None:
    try:
        assert bytes(decompress(codec, data)) == b""  # snappy's one zero byte says "nothing"
    except ProtocolError as error:
        assert error.code == ErrorCode.CORRUPT_MESSAGE and CODEC_NAMES[codec] in error.message


@pytest.mark.parametrize(
    "rest", [b"\0", b"\0\0\0", b"\x7f\xff\xff\xff", b"\0\0\0\x05\0", b"\0\0\0\x01\xff"], ids=range(5)
)
def test_broken_snappy_blocks_are_refused(rest: bytes) -> None:
    with pytest.raises(CorruptBatch, match="snappy"):
        decompress(SNAPPY, XERIAL_HEADER + rest)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_named(codec: int) -> None:
    for call in (compress, decompress):
        with pytest.raises(ProtocolError, match=f"codec {codec}") as caught:
            call(codec, b"x")
        assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_gzip_is_what_everybody_reads() -> None:
    assert gzip.decompress(bytes(compress(GZIP, b"abc" * 100))) == b"abc" * 100
    assert zlib.decompress(bytes(compress(GZIP, b"abc")), wbits=31) == b"abc"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(list(COMPRESSING)))
def test_any_bytes_decompress_within_the_limit_or_are_refused(data: bytes, codec: int) -> None:
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, data, max_bytes=10_000)) <= 10_000


@pytest.mark.parametrize("codec", CODECS, ids=CODEC_NAMES)
def test_a_prefix_is_the_beginning_of_what_comes_out(codec: int) -> None:
    sample = b"".join(b"%d %d," % (n, n * n % 1013) for n in range(60_000))
    data = bytes(compress(codec, sample))
    for size in (1, 255, 4096, 65_537, len(sample) - 1):
        prefix, is_whole = decompress_prefix(codec, data, size)
        assert bytes(prefix) == sample[:size]
        assert not is_whole
    for size in (len(sample), len(sample) + 1):
        prefix, is_whole = decompress_prefix(codec, data, size)
        assert bytes(prefix) == sample
        assert is_whole


def test_a_prefix_of_librdkafkas_snappy_is_one_too() -> None:
    sample = b"some bytes " * 10_000
    raw = bytes(cramjam.snappy.compress_raw(sample))
    assert decompress_prefix(SNAPPY, raw, 100) == (sample[:100], False)
    assert decompress_prefix(SNAPPY, raw, len(sample)) == (sample, True)


def test_a_snappy_block_that_claims_what_it_cannot_hold_is_refused_unopened() -> None:
    for data in (b"\xff\xff\xff\xff\x0f" + bytes(20), XERIAL_HEADER + b"\0\0\0\x05\xff\xff\xff\xff\x0f"):
        with pytest.raises(CorruptBatch, match="claims"):
            decompress(SNAPPY, data)


@pytest.mark.parametrize(("claimed", "words"), [(32 * 24, "snappy: "), (32 * 24 + 1, "24 bytes claims 769")])
def test_a_snappy_block_may_claim_32_times_its_bytes_and_no_more(claimed: int, words: str) -> None:
    block = (bytes([claimed & 0x7F | 0x80, claimed >> 7]) + bytes(22))[:24]
    with pytest.raises(CorruptBatch, match=words) as caught:
        decompress(SNAPPY, block)
    assert ("claims" in caught.value.message) is ("claims" in words)


@pytest.mark.parametrize("first", [0x50, 0x51, 0x5F])
def test_zstd_may_begin_with_a_frame_to_be_skipped(first: int) -> None:
    """RFC 8878, 3.1.2: one of sixteen magic numbers, a length, and bytes that say nothing."""
    skipped = bytes([first]) + ZSTD_SKIPPABLE + b"\2\0\0\0ab"
    data = skipped + bytes(compress(ZSTD, b"some bytes"))
    assert begins_as(ZSTD, data) and bytes(decompress(ZSTD, data)) == b"some bytes"
    assert not begins_as(ZSTD, bytes([first ^ 0x20]) + data[1:])


def bomb(codec: int) -> bytes:
    """Opens to 100 MB; made piece by piece, so that making it takes no memory."""
    if codec == GZIP:
        deflate = zlib.compressobj(9, wbits=31)
        return b"".join([deflate.compress(bytes(1_000_000)) for _ in range(100)]) + deflate.flush()
    return bytes(compress(codec, bytes(1_000_000))) * 100


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="no peak of memory to reset")
@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD], ids=["gzip", "lz4", "zstd"])
def test_a_prefix_of_a_bomb_takes_no_more_memory_than_was_asked_for(codec: int) -> None:
    data = bomb(codec)
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")
    before = peak_kib()
    prefix, is_whole = decompress_prefix(codec, data, FREE_OPENED_BYTES)
    assert (len(prefix), is_whole) == (FREE_OPENED_BYTES, False)
    assert peak_kib() - before < 16 << 10  # codecs have buffers of their own


def peak_kib() -> int:
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1])


def test_very_many_empty_gzip_members_are_not_read() -> None:
    data = gzip.compress(b"") * MOST_GZIP_MEMBERS + gzip.compress(b"one")
    with pytest.raises(CorruptBatch, match="members"):
        decompress(GZIP, data)


def test_what_may_come_out_is_a_free_mebibyte_then_a_hundredfold_then_no_more() -> None:
    assert most_opened_bytes(0) == FREE_OPENED_BYTES
    assert most_opened_bytes(1000) == FREE_OPENED_BYTES + 100_000
    assert most_opened_bytes(1 << 30) == MOST_OPENED_BYTES


def test_very_many_small_snappy_blocks_are_not_all_opened_for_a_prefix() -> None:
    """Each costs a few microseconds whatever is in it: 800 empty ones in 4 KiB, five milliseconds for nothing."""
    end = bytes(compress(SNAPPY, b"end"))[len(XERIAL_HEADER) :]
    data = XERIAL_HEADER + b"\x00\x00\x00\x01\x00" * 800 + end
    assert decompress_prefix(SNAPPY, data, 64 << 10) == (b"", False)
    assert decompress_prefix(SNAPPY, data, most_opened_bytes(len(data))) == (b"end", True)
    records = bytes(compress(SNAPPY, b"v"))[len(XERIAL_HEADER) :] * 10
    assert decompress_prefix(SNAPPY, XERIAL_HEADER + records, 64) == (b"v" * 10, True)
