"""Records out of batches, and what is no record."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.model.errors import ProtocolError
from odradek.records import control
from odradek.records.batch import ATTRIBUTES_OFFSET, BATCH_OVERHEAD, HEADER, LOG_OVERHEAD, read_header
from odradek.records.builder import NewRecord, build_batch
from odradek.records.checksum import crc32c
from odradek.records.compression import CODEC_NAMES
from odradek.records.errors import InvalidRecord
from odradek.records.reader import Record, decode_batch

optional_bytes = st.none() | st.binary(max_size=300)
new_records = st.builds(
    NewRecord,
    key=optional_bytes,
    value=optional_bytes,
    timestamp=st.integers(0, 2**62),
    offset_delta=st.none(),
    headers=st.lists(st.tuples(st.text(max_size=10), optional_bytes), max_size=4).map(tuple),
)


@settings(max_examples=150, deadline=None)
@given(
    records=st.lists(new_records, min_size=1, max_size=20),
    codec=st.sampled_from(CODEC_NAMES),
    base=st.integers(0, 2**60),
)
@example(records=[NewRecord(None, b"x" * 100_000, 5)], codec="zstd", base=0)
def test_any_records_come_out_as_they_went_in(records: list[NewRecord], codec: str, base: int) -> None:
    data = build_batch(records, codec=codec, base_offset=base)
    assert decode_batch(data) == [
        Record(base + n, r.timestamp, r.key, r.value, tuple(r.headers)) for n, r in enumerate(records)
    ]


def with_block(block: bytes, count: int, attributes: int = 0) -> bytes:
    """A batch with these bytes for records, under a CRC that fits."""
    size = BATCH_OVERHEAD + len(block)
    data = (
        bytearray(
            HEADER.pack(
                0, size - LOG_OVERHEAD, 0, 2, 0, attributes, max(count - 1, 0), 0, 0, -1, -1, -1, count
            )
        )
        + block
    )
    data[17:21] = crc32c(data[ATTRIBUTES_OFFSET:]).to_bytes(4, "big")
    return bytes(data)


GOOD = build_batch([NewRecord(b"key", b"value", 0, (("h", b"1"),))])[BATCH_OVERHEAD:]


def test_the_helper_makes_a_good_batch() -> None:
    assert decode_batch(with_block(GOOD, 1)) == [Record(0, 0, b"key", b"value", (("h", b"1"),))]


@pytest.mark.parametrize(
    ("block", "count"),
    [
        (GOOD, 2),
        (GOOD, 0),
        (GOOD + b"\0", 1),
        (GOOD[:-1], 1),
        (b"\x00", 1),  # a record of no bytes
        (b"\x01" + GOOD[1:], 1),  # length -1
        (b"\xff\xff\xff\xff\x0f" + GOOD[1:], 1),  # longer than the batch
        (b"\xff" * 11, 1),  # a varint without an end
        (b"\x80" * 9 + b"\x7f" + GOOD[1:], 1),  # one beyond 64 bits
        (b"\x0c\x00\x00\x00\x03\x01\x00", 1),  # a key of length -2
        (b"\x0c\x00\x00\x00\x7e\x01\x00", 1),  # a key longer than the record
        (b"\x0c\x00\x00\x00\x01\x01\x7e", 1),  # more headers than bytes
        (b"\x0c\x00\x00\x00\x01\x01\x01", 1),  # -1 headers
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1),  # a header key that is null
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", 1),  # a byte left over
    ],
    ids=range(15),
)
def test_what_is_no_record_is_refused(block: bytes, count: int) -> None:
    with pytest.raises(InvalidRecord):
        decode_batch(with_block(block, count))


def test_a_header_key_that_is_no_utf_8_is_read_as_javas_clients_read_it() -> None:
    block = b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01"
    assert decode_batch(with_block(block, 1))[0].headers == (("\ufffd", None),)


def test_a_timestamp_beyond_64_bits_wraps() -> None:
    """As in Java. A broker that answers with it must be able to write it down."""
    block = b"\x0c\x00\x01\x00\x01\x01\x00"  # a delta of -1
    batch = bytearray(with_block(block, 1))
    batch[27:35] = (-(2**63)).to_bytes(8, "big", signed=True)
    assert decode_batch(batch, verify_crc=False)[0].timestamp == 2**63 - 1


def test_a_record_that_would_go_on_behind_its_block_is_told_by_its_length() -> None:
    with pytest.raises(InvalidRecord, match=f"{len(GOOD)} bytes long where {len(GOOD) - 1} are left"):
        decode_batch(with_block(bytes([2 * len(GOOD)]) + GOOD[1:], 1))


@pytest.mark.parametrize(
    ("delta", "reason"),
    [
        (b"\x80" * 9 + b"\x02", "record 0: a varint does not fit into 64 bits"),
        (b"\x80" * 10 + b"\x01", "record 0: a varint has more than ten bytes"),
    ],
)
def test_a_delta_beyond_64_bits_is_told_as_such(delta: bytes, reason: str) -> None:
    """Wrapped, it would be the timestamp of another record, or none that can be written down."""
    rest = b"\x00\x01\x01\x00"  # offset delta 0, neither key nor value, no headers
    size = 1 + len(delta) + len(rest)
    with pytest.raises(InvalidRecord, match=reason):
        decode_batch(with_block(bytes([2 * size]) + b"\x00" + delta + rest, 1))


def test_the_index_of_the_broken_record_is_told() -> None:
    records = [NewRecord(None, b"v", 0)] * 3
    block = bytearray(build_batch(records)[BATCH_OVERHEAD:])
    block[len(block) // 3] = 0  # the second record's length
    with pytest.raises(InvalidRecord) as caught:
        decode_batch(with_block(bytes(block), 3))
    assert caught.value.record_index == 1


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80), st.integers(0, 5), st.integers(0, 4))
def test_any_block_decodes_or_is_refused_and_nothing_else(block: bytes, count: int, codec: int) -> None:
    try:
        records = decode_batch(with_block(block, count, codec))
    except ProtocolError:
        return
    assert len(records) == count


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from(CODEC_NAMES))
def test_any_flipped_bit_is_seen(data: st.DataObject, codec: str) -> None:
    batch = bytearray(build_batch([NewRecord(b"key", b"value" * 9, n) for n in range(4)], codec=codec))
    bit = data.draw(st.integers(8 * 16, 8 * len(batch) - 1))
    batch[bit // 8] ^= 1 << (bit % 8)
    with pytest.raises(ProtocolError):
        decode_batch(batch)


@pytest.mark.parametrize("is_commit", [False, True])
def test_end_markers_say_what_they_end(is_commit: bool) -> None:
    data = control.build_end_marker(
        producer_id=5, producer_epoch=1, is_commit=is_commit, coordinator_epoch=9, timestamp=77
    )
    (record,) = decode_batch(data)
    assert control.end_transaction(record) == (is_commit, 9)
    # Version 0 of both, as Kafka's coordinator writes them (ControlRecordType, EndTxnMarker).
    assert (record.key, record.value) == (b"\0\0\0" + bytes([is_commit]), b"\0\0\0\0\0\x09")
    assert control.type_name(control.control_type(record)) == ("COMMIT" if is_commit else "ABORT")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0\0\0", b""),
        (b"\xff\xff\0\0", b"\0\0\0\0\0\0"),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0\0\0"),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\0"),
    ],
)
def test_what_is_no_control_record_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        control.end_transaction(Record(0, 0, key, value))


def test_control_records_of_other_kinds_end_nothing() -> None:
    assert control.end_transaction(Record(0, 0, b"\0\0\0\2", b"whatever")) is None
    assert control.type_name(2) == "LEADER_CHANGE" and control.type_name(99) == "UNKNOWN"
    # A later version of the key keeps its first two fields.
    assert control.end_transaction(Record(0, 0, b"\0\5\0\1more", b"\0\5\0\0\0\7more")) == (True, 7)


def test_of_a_control_batch_the_first_record_alone_is_asked() -> None:
    """Whoever wrote it: what stands behind the marker, even bytes that are no record, ends nothing."""
    marker = NewRecord(b"\0\0\0\1", b"\0\0\0\0\0\x09", 77)
    for block in (
        build_batch([marker, marker], is_control=True)[BATCH_OVERHEAD:],
        build_batch([marker], is_control=True)[BATCH_OVERHEAD:] + b"no record",
    ):
        header = read_header(with_block(block, 2, attributes=0x30))
        assert control.end_marker_of(header, block) == (True, 9)
