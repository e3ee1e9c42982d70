"""What is told of records without making them, held against the reader that makes them."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.model.errors import ProtocolError
from odradek.records.batch import BATCH_OVERHEAD, read_header
from odradek.records.builder import NewRecord, build_batch
from odradek.records.compression import CODEC_NAMES, decompress
from odradek.records.errors import InvalidRecord, TakesLong
from odradek.records.opened import opened_records
from odradek.records.reader import decode_batch, decode_records
from odradek.records.search import FIRST_BYTES, first_record_at
from odradek.records.survey import _plain_starts, is_plain, survey, survey_first
from tests.records.test_reader import with_block

optional_bytes = st.none() | st.binary(max_size=200)
new_records = st.builds(
    NewRecord,
    key=optional_bytes,
    value=optional_bytes,
    timestamp=st.integers(0, 2**40),
    offset_delta=st.none(),
    headers=st.lists(st.tuples(st.text(max_size=5), optional_bytes), max_size=2).map(tuple),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(new_records, min_size=1, max_size=6), st.data())
def test_a_survey_takes_what_the_reader_takes(records: list[NewRecord], data: st.DataObject) -> None:
    """One byte may be another. Gaps between offsets are for the reader to take, not for a leader."""
    batch = bytearray(build_batch(records))
    at = data.draw(st.integers(BATCH_OVERHEAD, len(batch) - 1))
    batch[at] = data.draw(st.integers(0, 255) | st.just(batch[at]))
    header = read_header(batch)
    block = bytes(batch[BATCH_OVERHEAD:])
    try:
        read = decode_records(header, block)
    except InvalidRecord:
        read = []
    deltas = [record.offset for record in read]
    if read and deltas == list(range(len(records))):
        found = survey(block, len(records))
        times = [record.timestamp - header.base_timestamp for record in read]
        assert found.smallest_timestamp_delta == min(times)
        assert found.largest_timestamp_delta == max(times)
        keyless = [index for index, record in enumerate(read) if record.key is None]
        assert found.first_without_key == (keyless[0] if keyless else -1)
        survey_first(block, len(records))
    else:
        with pytest.raises(InvalidRecord):
            survey(block, len(records))
        if len(records) == 1:
            assert not is_plain(memoryview(batch), BATCH_OVERHEAD, len(batch), 1)


@settings(max_examples=300, deadline=None)
@given(st.binary(min_size=7, max_size=60))
@example(b"\x0c\0\0\0\1\1\0")
def test_what_looks_like_one_plain_record_is_one(block: bytes) -> None:
    if is_plain(memoryview(block), 0, len(block), 1):
        survey(block, 1)


def test_a_key_whose_length_takes_two_bytes_is_not_measured_by_one_of_them() -> None:
    """By its first byte alone the key would be 65 bytes that begin too early, with a value of one byte behind them."""
    begins = b"\x90\x01\x00\x00\x00"  # 72 bytes, no attributes, no deltas
    block = begins + b"\x82\x01" + bytes(64) + b"\x02" + b"\x02\x00"
    assert not is_plain(memoryview(block), 0, len(block), 1)
    with pytest.raises(InvalidRecord):
        survey(block, 1)


def test_a_search_wraps_a_timestamp_as_the_reader_does() -> None:
    """A delta of -1 from the smallest timestamp there is: the largest."""
    batch = bytearray(with_block(b"\x0c\x00\x01\x00\x01\x01\x00", 1))
    batch[27:35] = (-(2**63)).to_bytes(8, "big", signed=True)
    block = memoryview(batch)[BATCH_OVERHEAD:]
    assert first_record_at(read_header(batch), block, timestamp=5, offset=0) == (0, 2**63 - 1)


def test_a_search_looks_at_so_many_records_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.records.search.MOST_OPENED_RECORDS", 3)
    for count in (3, 4):
        batch = build_batch([NewRecord(b"k", b"v", 1000 + number) for number in range(count)])
        header, block = read_header(batch), memoryview(batch)[BATCH_OVERHEAD:]
        assert first_record_at(header, block, timestamp=1002, offset=0) == (2, 1002)
        if count == 3:
            assert first_record_at(header, block, timestamp=2000, offset=0) is None
        else:
            with pytest.raises(InvalidRecord, match="batch of 4 records; 3 are looked at"):
                first_record_at(header, block, timestamp=2000, offset=0)


def test_so_many_headers_are_read_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all records together; a record of 600,000 empty headers is packed into a kilobyte."""
    monkeypatch.setattr("odradek.records.survey.MOST_HEADERS", 3)
    for counts in ((2, 1), (2, 0, 2)):
        records = [NewRecord(b"k", b"v", 1000, [("h", b"v")] * count) for count in counts]
        block = build_batch(records)[BATCH_OVERHEAD:]
        with pytest.raises(TakesLong):
            survey(block, len(counts), headers_at_once=2)
        survey_first(block, len(counts), headers_at_once=2)
        if sum(counts) == 3:
            survey(block, len(counts))
        else:
            with pytest.raises(
                InvalidRecord, match="record 2 of 3: 4 headers up to here; 3 are read"
            ) as error:
                survey(block, len(counts))
            assert error.value.record_index == 2
    first = build_batch([NewRecord(b"k", b"v", 1000, [("h", b"v")] * 3), NewRecord(b"k", b"v", 1000)])
    with pytest.raises(TakesLong):
        survey_first(first[BATCH_OVERHEAD:], 2, headers_at_once=2)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_so_many_records_are_opened_and_no_more(monkeypatch: pytest.MonkeyPatch, codec: str) -> None:
    monkeypatch.setattr("odradek.records.opened.MOST_OPENED_RECORDS", 3)
    records = [NewRecord(b"k", b"v", 1000)] * 4
    for count in (3, 4):
        batch = build_batch(records[:count], codec=codec)
        header, block = read_header(batch), memoryview(batch)[BATCH_OVERHEAD:]
        if count == 3:
            assert opened_records(header, block) == build_batch(records[:3])[BATCH_OVERHEAD:]
        else:
            with pytest.raises(InvalidRecord, match="batch of 4 records; 3 are opened"):
                opened_records(header, block)


@settings(max_examples=200, deadline=None)
@given(
    records=st.lists(new_records, min_size=1, max_size=8),
    codec=st.sampled_from(CODEC_NAMES),
    timestamp=st.integers(0, 2**40),
    offset=st.integers(0, 9),
)
@example([NewRecord(None, bytes(FIRST_BYTES), 5), NewRecord(None, b"", 9)], "gzip", 6, 0)
@example([NewRecord(None, bytes(9 * FIRST_BYTES), 5), NewRecord(None, b"", 9)], "zstd", 6, 0)
@example([NewRecord(None, bytes(9 * FIRST_BYTES), 5), NewRecord(None, b"", 9)], "snappy", 6, 0)
@example([NewRecord(None, bytes(9 * FIRST_BYTES), 5), NewRecord(None, b"", 9)], "none", 6, 0)
def test_the_first_record_at_a_time_is_what_a_reader_finds(
    records: list[NewRecord], codec: str, timestamp: int, offset: int
) -> None:
    batch = build_batch(records, codec=codec)
    expected = next(
        (
            (record.offset, record.timestamp)
            for record in decode_batch(batch)
            if record.timestamp >= timestamp and record.offset >= offset
        ),
        None,
    )
    block = memoryview(batch)[BATCH_OVERHEAD:]
    assert first_record_at(read_header(batch), block, timestamp=timestamp, offset=offset) == expected


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=80), st.integers(0, 5), st.integers(0, 4), st.integers(0, 3))
def test_a_search_in_any_bytes_ends(block: bytes, count: int, codec: int, offset: int) -> None:
    batch = with_block(block, count, codec)
    try:
        first_record_at(read_header(batch), block, timestamp=0, offset=offset)
    except ProtocolError:
        pass
    else:
        assert count == 0 or len(decompress(codec, block)) or offset


def test_a_search_does_not_open_a_bomb_beyond_its_first_match() -> None:
    records = [NewRecord(b"k", b"v", 1000), NewRecord(b"k", bytes(50_000_000), 2000)]
    batch = build_batch(records, codec="gzip")
    header, block = read_header(batch), memoryview(batch)[BATCH_OVERHEAD:]
    assert first_record_at(header, block, timestamp=500, offset=0) == (0, 1000)
    assert first_record_at(header, block, timestamp=1500, offset=0) == (1, 2000)  # its beginning is enough
    with pytest.raises(InvalidRecord):
        first_record_at(header, block, timestamp=2500, offset=0)


@pytest.mark.parametrize("size", [1, 10, 56, 57, 62, 63, 64, 65, 100, 8_000])
def test_a_size_that_was_seen_before_is_looked_at_as_closely(size: int) -> None:
    """The only record of a batch, plain or with one byte changed: the start that is kept decides as reading it does."""
    good = build_batch([NewRecord(None, b"v" * size, 1_000)])[BATCH_OVERHEAD:]
    changed = [good]
    for at in [*range(min(12, len(good))), len(good) - 1]:
        for byte in (0, 1, 2, 0x7F, 0x80, 0x81, 0xFF):
            changed.append(good[:at] + bytes([byte]) + good[at + 1 :])
    verdicts = []
    for block in changed:
        _plain_starts.clear()
        read = is_plain(memoryview(block), 0, len(block), 1)
        assert is_plain(memoryview(good), 0, len(good), 1)
        assert (len(good) in _plain_starts) is (len(good) >= 8)
        assert is_plain(memoryview(block), 0, len(block), 1) is read
        verdicts.append(read)
    assert True in verdicts and False in verdicts


def test_the_starts_that_are_kept_take_a_bounded_room() -> None:
    _plain_starts.clear()
    for size in range(3_000):
        block = build_batch([NewRecord(None, b"v" * size, 1_000)])[BATCH_OVERHEAD:]
        assert is_plain(memoryview(block), 0, len(block), 1)
    assert len(_plain_starts) == 1_000
    _plain_starts.clear()
