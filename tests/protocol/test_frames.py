import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.frames import frame, split_frames

LIMIT = 1000


@given(bodies=st.lists(st.binary(max_size=20), max_size=5), cut=st.integers(0, 200))
def test_frames_come_out_as_they_went_in_however_the_bytes_arrive(bodies: list[bytes], cut: int) -> None:
    stream = b"".join(map(frame, bodies))
    cut = min(cut, len(stream))
    first = split_frames(memoryview(stream[:cut]), LIMIT)
    second = split_frames(memoryview(stream[first.consumed :]), LIMIT)
    assert [bytes(body) for body in first.frames + second.frames] == bodies
    assert first.consumed + second.consumed == len(stream)
    assert second.missing == 0


def test_what_is_missing_is_told() -> None:
    assert split_frames(memoryview(b""), LIMIT) == ([], 0, 0)
    assert split_frames(memoryview(b"\0\0"), LIMIT) == ([], 0, 2)
    assert split_frames(memoryview(b"\0\0\0\5ab"), LIMIT) == ([], 0, 3)
    assert split_frames(memoryview(b"\0\0\0\1x\0\0\0\5"), LIMIT) == ([b"x"], 5, 5)


@pytest.mark.parametrize("size", [-1, -(1 << 31), LIMIT + 1, (1 << 31) - 1])
def test_a_size_nobody_may_send_is_malformed_before_anything_is_kept(size: int) -> None:
    with pytest.raises(MalformedMessage, match=str(size)):
        split_frames(memoryview(size.to_bytes(4, "big", signed=True)), LIMIT)


def test_the_largest_size_is_accepted_and_so_is_none() -> None:
    assert split_frames(memoryview(frame(bytes(LIMIT))), LIMIT).frames == [bytes(LIMIT)]
    assert split_frames(memoryview(frame(b"")), LIMIT).frames == [b""]


def test_frames_are_slices_not_copies() -> None:
    buffer = bytearray(frame(b"abc"))
    [body] = split_frames(memoryview(buffer), LIMIT).frames
    assert body.obj is buffer
