import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol import primitives
from odradek.protocol.errors import MalformedMessage


# Protocol buffers' own examples, and the borders of each length.
@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2097151, "ffff7f"),
        (2097152, "80808001"),
        (268435456, "8080808001"),
        ((1 << 31) - 1, "ffffffff07"),
        ((1 << 32) - 1, "ffffffff0f"),
    ],
)
def test_unsigned_varints(value: int, encoded: str) -> None:
    raw = bytes.fromhex(encoded)
    assert primitives.uvarint(value) == raw
    assert primitives.read_uvarint(b"x" + raw + b"x", 1) == (value, 1 + len(raw))
    assert primitives.read_uvarlong(raw, 0) == (value, len(raw))


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (-1, "01"), (1, "02"), (-2, "03"), (-64, "7f"), (64, "8001")]
)
def test_signed_varints_are_zigzag(value: int, encoded: str) -> None:
    assert primitives.varint(value).hex() == encoded
    assert primitives.read_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_signed_varlongs_come_back(value: int) -> None:
    raw = primitives.varint(value)
    assert len(raw) <= 10
    assert primitives.read_varlong(raw, 0) == (value, len(raw))


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_signed_varints_come_back(value: int) -> None:
    raw = primitives.varint(value)
    assert len(raw) <= 5
    assert primitives.read_varint(raw, 0) == (value, len(raw))


def test_a_varint_longer_than_its_type_is_malformed() -> None:
    with pytest.raises(MalformedMessage):
        primitives.read_uvarint(b"\x80" * 5 + b"\0", 0)
    with pytest.raises(MalformedMessage):
        primitives.read_uvarint(b"\xff\xff\xff\xff\x10", 0)
    with pytest.raises(MalformedMessage):
        primitives.read_uvarlong(b"\x80" * 10 + b"\0", 0)
    with pytest.raises(MalformedMessage):
        primitives.read_uvarlong(b"\xff" * 9 + b"\x02", 0)
    with pytest.raises(MalformedMessage):
        primitives.read_uvarlong(b"\x80" * 9 + b"\x02", 0)  # 2^64, one too many
    assert primitives.read_uvarlong(b"\xff" * 9 + b"\x01", 0) == ((1 << 64) - 1, 10)


def test_a_varint_that_ends_too_early_is_an_index_error_for_the_codec_to_translate() -> None:
    for raw in (b"", b"\x80", b"\xff\xff\xff\xff"):
        with pytest.raises(IndexError):
            primitives.read_uvarint(raw, 0)


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        primitives.uvarint(-1)
    assert len(primitives.compact_string("x" * 32767)) == 32767 + 3
    with pytest.raises(ValueError, match="32768"):
        primitives.compact_string("x" * 32768)


def test_a_string_that_must_be_there_is_not_null() -> None:
    with pytest.raises(MalformedMessage, match="topic"):
        primitives.read_compact_string(b"\x00", 0, "topic")
    assert primitives.read_compact_string(b"\x03ab", 0, "topic") == ("ab", 3)
