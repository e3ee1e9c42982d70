"""Headers, stamps and checksums: what a batch says without being opened."""

import zlib
from importlib.machinery import ModuleSpec
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.records.batch import (
    BATCH_OVERHEAD,
    MAX_SEQUENCE,
    check_crc,
    first_batches,
    header_bytes,
    iter_batches,
    iter_whole_batches,
    read_header,
    stamp,
    stamp_max_timestamp,
    stamp_producer,
)
from odradek.records.builder import NewRecord, append_varint, build_batch
from odradek.records.checksum import _load, crc32c
from odradek.records.errors import CorruptBatch, OldMessageFormat
from odradek.records.reader import decode_batch


def batch(count: int = 3, **fields: int) -> bytes:
    return build_batch([NewRecord(b"k", b"value", 1000 + n) for n in range(count)], **fields)


def test_the_checksum_is_crc_32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(memoryview(b"0123456789")[1:]) == 0xE3069283, "of a view, without a copy"
    assert crc32c(b"") == 0


def test_the_checksum_comes_from_the_package_also_the_slow_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing_found(*names: object) -> None:
        return None

    monkeypatch.setattr("odradek.records.checksum.PathFinder", SimpleNamespace(find_spec=nothing_found))
    assert _load()(b"123456789") == 0xE3069283


def test_an_extension_that_computes_something_else_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def other_bits(data: bytes) -> int:
        return zlib.crc32(data)

    loader = SimpleNamespace(
        create_module=lambda spec: SimpleNamespace(crc32c=other_bits), exec_module=lambda module: None
    )
    spec = ModuleSpec("crc32c._crc32c", loader, is_package=True)
    spec.submodule_search_locations = ["somewhere"]
    monkeypatch.setattr(
        "odradek.records.checksum.PathFinder", SimpleNamespace(find_spec=lambda name, path=None: spec)
    )
    loaded = _load()
    assert loaded is not other_bits and loaded(b"123456789") == 0xE3069283


def test_a_stamp_changes_offset_and_epoch_and_the_checksum_still_fits() -> None:
    data = bytearray(batch() + batch())
    second = len(batch())
    stamp(data, second, 2**62, 77)
    header = read_header(data, second)
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (2**62, 77, 2**62 + 2)
    assert check_crc(data, second, header)
    assert data[:second] == batch() and data[second + 16 :] == batch()[16:]


@pytest.mark.parametrize("log_append_time", [False, True])
def test_a_new_max_timestamp_makes_a_new_checksum(log_append_time: bool) -> None:
    data = bytearray(batch())
    stamp_max_timestamp(data, 0, len(data), max_timestamp=5000, log_append_time=log_append_time)
    header = read_header(data)
    assert header.max_timestamp == 5000 and header.is_log_append_time is log_append_time
    assert header.crc != read_header(batch()).crc and check_crc(data, 0, header)
    assert {r.timestamp for r in decode_batch(data)} == ({5000} if log_append_time else {1000, 1001, 1002})


@given(
    values=st.lists(st.binary(max_size=2000), min_size=1, max_size=60),
    producer_id=st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(0, 2**15 - 1),
    base_sequence=st.integers(0, 2**31 - 1),
)
def test_a_producer_is_stamped_into_the_header_alone(
    values: list[bytes], producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    records = [NewRecord(None, value) for value in values]
    batch = build_batch(records, is_transactional=True)
    header = bytearray(batch[:BATCH_OVERHEAD])

    stamp_producer(
        header, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
    )

    assert header + batch[BATCH_OVERHEAD:] == build_batch(
        records,
        is_transactional=True,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def test_batches_follow_each_other_and_a_cut_one_is_an_error_or_the_end() -> None:
    data = batch(1, base_offset=0) + batch(2, base_offset=1) + batch(3, base_offset=3)
    assert [h.base_offset for _, h in iter_batches(data)] == [0, 1, 3]
    assert [p for p, _ in iter_batches(data)] == [0, len(batch(1)), len(batch(1)) + len(batch(2))]
    for cut in range(len(batch(1)) + len(batch(2)) + 1, len(data)):
        assert [h.base_offset for _, h in iter_whole_batches(data[:cut])] == [0, 1]
        with pytest.raises(ProtocolError) as caught:
            list(iter_batches(data[:cut]))
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert list(iter_batches(b"")) == [] == list(iter_whole_batches(b"short"))


def test_a_batch_that_compaction_emptied_is_one_also_where_it_is_the_last() -> None:
    emptied = build_batch([], base_offset=3)
    header = read_header(emptied)
    assert len(emptied) == BATCH_OVERHEAD and (header.record_count, header.last_offset) == (0, 3)
    for batches in (iter_batches, iter_whole_batches):
        assert [h.base_offset for _, h in batches(batch(3) + emptied)] == [0, 3]


def test_the_bytes_of_a_header_are_those_it_was_read_from() -> None:
    data = batch(3, base_offset=7, producer_id=1, producer_epoch=2, base_sequence=3)
    header = read_header(data)
    assert header_bytes(header) == data[:BATCH_OVERHEAD]
    assert header_bytes(header._replace(crc=-1))[17:21] == bytes(4), "a CRC that none can be"


@pytest.mark.parametrize("length", [-1, 0, 48, -(2**31)])
def test_a_length_no_batch_can_have_is_refused(length: int) -> None:
    data = bytearray(batch())
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(ProtocolError, match=f"batch length {length}"):
        read_header(data)


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "00"), (-1, "01"), (63, "7e"), (-64, "7f"), (64, "8001"), (-8192, "ff7f"), (8192, "808001")],
)
def test_a_varint_has_a_byte_for_each_seven_bits_and_none_more(value: int, written: str) -> None:
    target = bytearray()
    append_varint(target, value)
    assert target.hex() == written


@pytest.mark.parametrize("magic", [3, 127, -1, -128])
def test_a_magic_from_the_future_is_refused(magic: int) -> None:
    data = bytearray(batch())
    data[16] = magic % 256
    with pytest.raises(ProtocolError, match=f"magic {magic}") as caught:
        read_header(data)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_zeros_are_no_batch_of_any_magic() -> None:
    with pytest.raises(ProtocolError) as caught:
        read_header(bytes(100))
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_last_sequences_wrap() -> None:
    header = read_header(batch(3, producer_id=1, producer_epoch=0, base_sequence=MAX_SEQUENCE))
    assert header.last_sequence == 1
    assert read_header(batch(3)).last_sequence == -1


@pytest.mark.parametrize("magic", [0, 1])
def test_the_smallest_old_message_is_told_from_garbage(magic: int) -> None:
    """Of magic 0: CRC, magic, attributes, no key, no value."""
    data = bytearray(100)
    data[16] = magic
    for length, kind in ((14, OldMessageFormat), (13, CorruptBatch)):
        data[8:12] = length.to_bytes(4, "big")
        with pytest.raises(kind):
            read_header(data)


@given(st.binary(max_size=200))
def test_random_bytes_are_read_or_refused_and_nothing_else(data: bytes) -> None:
    try:
        headers = list(iter_batches(data))
    except ProtocolError as error:
        assert error.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    else:
        assert sum(h.size_bytes for _, h in headers) == len(data)
        assert all(h.size_bytes >= BATCH_OVERHEAD for _, h in headers)


def test_the_first_batches_are_counted_without_a_look_at_what_they_are() -> None:
    one = build_batch([NewRecord(None, b"v")])
    size = len(one)
    assert first_batches(one * 3, 2) == (2 * size, 2)
    assert first_batches(one * 3, 3) == first_batches(one * 3, 9) == (3 * size, 3)
    assert first_batches(one * 2 + one[:-1], 9) == (3 * size - 1, 2), (
        "whoever reads sees that it is cut short"
    )
    assert first_batches(one + bytes(100), 9) == (size + 100, 1), "and what is none"
    assert first_batches(one, 0) == first_batches(b"", 9) == (0, 0)
