"""What a leader takes and what it refuses; what a follower copies."""

from pathlib import Path
from typing import Any

import pytest

from odradek.log.partition_log import PartitionLog
from odradek.log.validation import checked
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.records.batch import (
    BATCH_OVERHEAD,
    MAGIC_OFFSET,
    BatchHeader,
    read_header,
    stamp,
    stamp_max_timestamp,
)
from odradek.records.builder import NewRecord, build_batch
from odradek.records.compression import CODEC_NAMES, GZIP, SNAPPY, compress
from odradek.records.errors import InvalidRecord
from odradek.records.reader import decode_batch
from tests.log.logs import (
    NOW,
    Disk,
    batch,
    config,
    contents,
    follow,
    headers,
    idempotent,
    marker,
    offsets,
    produce,
)
from tests.support import golden_lines


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return Disk(tmp_path).create()


def refused(log: PartitionLog, data: bytes, **options: Any) -> ProtocolError:
    """The error; the log is as it was."""
    before = (log.log_end_offset, log.segments.active.file.size_bytes, log.producers.to_bytes())
    with pytest.raises(ProtocolError) as caught:
        produce(log, data, **options)
    assert (log.log_end_offset, log.segments.active.file.size_bytes, log.producers.to_bytes()) == before
    return caught.value


def test_offsets_and_epoch_are_stamped_and_the_rest_is_left_as_it_came(log: PartitionLog) -> None:
    first, second = batch(3), batch(2, codec="lz4")
    one = produce(log, first, epoch=4)
    two = produce(log, second, epoch=5)
    assert (one.base_offset, one.last_offset, one.duplicate) == (0, 2, False)
    assert (two.base_offset, two.last_offset, two.log_append_time_ms) == (3, 4, -1)
    found = headers(log)
    assert [(h.base_offset, h.leader_epoch) for h in found] == [(0, 4), (3, 5)]
    assert [h.crc for h in found] == [read_header(first).crc, read_header(second).crc]
    assert log.log_end_offset == 5 and log.latest_epoch == 5
    assert log.epochs.entries == [(4, 0), (5, 3)]


def test_the_stamp_goes_into_the_callers_buffer_and_a_read_only_one_is_copied(log: PartitionLog) -> None:
    produce(log, batch(3))
    mine = bytearray(batch(1))
    log.append_as_leader(memoryview(mine), leader_epoch=0, now_ms=NOW)
    assert read_header(mine).base_offset == 3
    constant = batch(1)
    log.append_as_leader(memoryview(constant), leader_epoch=0, now_ms=NOW)
    assert read_header(constant).base_offset == 0 and offsets(log) == [0, 3, 4]


def test_several_batches_of_one_request_follow_each_other_in_one_write(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.assign_epoch(0, 0)  # writes a file of its own
    writes = []
    append = type(log.segments.active.file).append
    monkeypatch.setattr(
        type(log.segments.active.file), "append", lambda f, d: (writes.append(len(d)), append(f, d))
    )
    data = batch(3) + batch(2) + batch(4)
    # The second batch names an offset of its own: it is not asked for its opinion.
    forged = bytearray(data)
    stamp(forged, len(batch(3)), 5_000_000, 9)
    result = produce(log, bytes(forged))
    assert (result.base_offset, result.last_offset) == (0, 8)
    assert offsets(log) == [0, 3, 5] and writes == [len(data)]


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_every_codec_is_taken_as_it_is(log: PartitionLog, codec: str) -> None:
    data = batch(5, codec=codec)
    produce(log, data)
    assert contents(log)[16:] == data[16:]


# ------------------------------------------------------------------------------------------ refused by a leader


def edited(data: bytes, **changes: Any) -> bytes:
    """A batch whose header says something else, with a CRC that fits."""
    header = read_header(data)._replace(**changes)
    built = bytearray(data)
    from odradek.records.batch import HEADER
    from odradek.records.checksum import crc32c

    fields = BatchHeader(*header)
    HEADER.pack_into(built, 0, fields.base_offset, len(data) - 12, *fields[2:4], 0, *fields[5:])
    built[17:21] = crc32c(built[21:]).to_bytes(4, "big")
    return bytes(built)


def test_edited_leaves_a_valid_batch_valid(log: PartitionLog) -> None:
    assert edited(batch(3)) == batch(3)
    assert produce(log, edited(batch(3))).last_offset == 2


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"last_offset_delta": 5}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": -1, "record_count": 0}, ErrorCode.INVALID_RECORD),
        ({"record_count": 2}, ErrorCode.INVALID_RECORD),
        ({"record_count": -1}, ErrorCode.INVALID_RECORD),
        ({"base_offset": 17}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x10}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x07}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"producer_id": 5, "producer_epoch": 0}, ErrorCode.INVALID_RECORD),
        ({"producer_id": 5, "base_sequence": 0}, ErrorCode.INVALID_RECORD),
    ],
    ids=str,
)
def test_a_header_that_breaks_a_rule_is_refused(
    log: PartitionLog, changes: dict[str, Any], code: ErrorCode
) -> None:
    data = edited(batch(3), **changes)
    error = refused(log, data)
    assert error.code == code and error.message
    with pytest.raises(ProtocolError) as aside:
        checked(memoryview(data), log.config, now_ms=NOW, is_transactional=True)
    assert (aside.value.code, aside.value.message) == (code, error.message), "where it is checked before"


def test_every_cut_of_a_batch_is_refused(log: PartitionLog) -> None:
    data = batch(2, value=b"v")
    for size in range(1, len(data)):
        assert refused(log, data[:size]).code == ErrorCode.CORRUPT_MESSAGE
    assert refused(log, b"").code == ErrorCode.INVALID_RECORD


def test_bytes_behind_the_last_batch_are_refused(log: PartitionLog) -> None:
    for rest in (b"\0", b"\0" * 30, b"\xff" * 200):
        assert refused(log, batch() + rest).code == ErrorCode.CORRUPT_MESSAGE


def test_of_a_request_with_several_batches_none_is_looked_into(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request has room for a million of them, or for one behind a small one that takes a second to open."""
    seen: list[int] = []
    monkeypatch.setattr("odradek.log.validation.crc32c", lambda data: seen.append(len(data)) or 0)
    for rest in (batch(1) * 3, batch(5, codec="zstd"), b"\0" * 80):
        with pytest.raises(InvalidRecord, match=f"{len(rest)} bytes behind the first batch"):
            checked(memoryview(batch(1) + rest), log.config, now_ms=NOW)
    assert seen == []


def test_every_flipped_bit_behind_the_stamp_is_refused(log: PartitionLog) -> None:
    data = batch(1, value=b"v")
    for bit in range(8 * 16, 8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << (bit % 8)
        code = refused(log, bytes(damaged)).code
        assert code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT), bit


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 49, 2**31 - 1])
def test_an_absurd_length_is_refused(log: PartitionLog, length: int) -> None:
    data = bytearray(batch())
    data[8:12] = length.to_bytes(4, "big", signed=True)
    assert refused(log, bytes(data)).code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("name", ["v0-none-create", "v1-none-create", "v1-gzip-create"])
def test_old_message_formats_are_refused_by_name(log: PartitionLog, name: str) -> None:
    (vector,) = (v for v in golden_lines("records.jsonl.gz") if v["name"] == name)
    error = refused(log, bytes.fromhex(vector["hex"]))
    assert error.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_a_batch_above_max_message_bytes_is_too_large(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(max_message_bytes=200)).create()
    error = refused(log, batch(2))
    assert error.code == ErrorCode.MESSAGE_TOO_LARGE and "max.message.bytes is 200" in error.message
    assert produce(log, batch(1)).last_offset == 0
    # A follower takes what its leader took, whatever the setting says by now.
    follow(log, batch(2, base_offset=1, leader_epoch=0))
    assert log.log_end_offset == 3


def test_a_request_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(segment_bytes=1000)).create()
    error = refused(log, batch(5) + batch(5))
    assert error.code == ErrorCode.RECORD_LIST_TOO_LARGE


def test_two_batches_of_an_idempotent_producer_in_one_request_are_refused(log: PartitionLog) -> None:
    error = refused(log, idempotent(0) + idempotent(1))
    assert error.code == ErrorCode.INVALID_RECORD and "one is allowed" in error.message


# ------------------------------------------------------------------------------------------------- by settings


def test_log_append_time_is_the_brokers_clock_under_a_new_crc(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(message_timestamp_type="LogAppendTime")).create()
    result = produce(log, batch(3, at=5) + batch(2, at=9), now_ms=NOW + 77)
    assert result.log_append_time_ms == NOW + 77
    for header in headers(log):  # checks each CRC
        assert header.is_log_append_time and header.max_timestamp == NOW + 77
    assert {r.timestamp for r in decode_batch(contents(log))} == {NOW + 77}
    assert {r.timestamp for r in decode_batch(contents(log), created=True)} == {5, 6, 7}


def test_a_retry_is_answered_with_the_time_of_the_first_append(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(message_timestamp_type="LogAppendTime")).create()
    produce(log, idempotent(0), now_ms=NOW + 77)
    again = produce(log, idempotent(0), now_ms=NOW + 5_000)
    assert again.duplicate and again.log_append_time_ms == NOW + 77


def test_timestamps_out_of_the_allowed_range_are_refused(tmp_path: Path) -> None:
    log = Disk(
        tmp_path, config(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
    ).create()
    assert produce(log, batch(2, at=NOW - 1000), now_ms=NOW).last_offset == 1
    assert produce(log, batch(1, at=NOW + 500), now_ms=NOW).last_offset == 2
    assert refused(log, batch(1, at=NOW - 1001), now_ms=NOW).code == ErrorCode.INVALID_TIMESTAMP
    assert refused(log, batch(2, at=NOW + 500), now_ms=NOW).code == ErrorCode.INVALID_TIMESTAMP
    spread = build_batch([NewRecord(b"k", b"v", NOW - 1001), NewRecord(b"k", b"v", NOW)])
    assert refused(log, spread, now_ms=NOW).code == ErrorCode.INVALID_TIMESTAMP, "the first is too old"


@pytest.mark.parametrize("at", [NOW - 1001, NOW + 501])
def test_the_time_of_a_single_record_is_held_to_the_range_whatever_its_header_says(
    tmp_path: Path, at: int
) -> None:
    """Else one request would keep a segment from retention for as long as it likes."""
    limits = {"message_timestamp_before_max_ms": 1000, "message_timestamp_after_max_ms": 500}
    log = Disk(tmp_path, config(**limits)).create()
    for base_timestamp in (NOW, None):
        lying = build_batch([NewRecord(b"k", b"v", at)], base_timestamp=base_timestamp, max_timestamp=NOW)
        assert refused(log, lying, now_ms=NOW).code == ErrorCode.INVALID_TIMESTAMP
    log.config = config(message_timestamp_type="LogAppendTime", **limits)
    assert produce(log, lying, now_ms=NOW).last_offset == 0


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_a_record_without_a_key_is_refused_by_a_compacted_topic_with_its_index(
    tmp_path: Path, codec: str
) -> None:
    log = Disk(tmp_path, config(cleanup_policy="compact")).create()
    records = [NewRecord(b"k", b"v", NOW), NewRecord(None, b"v", NOW), NewRecord(b"k", None, NOW)]
    error = refused(log, build_batch(records, codec=codec))
    assert isinstance(error, InvalidRecord) and error.record_index == 1
    assert produce(log, build_batch([records[0], records[2]], codec=codec)).last_offset == 1


def test_a_compacted_topic_takes_control_records_as_they_are(tmp_path: Path) -> None:
    log = Disk(tmp_path, config(cleanup_policy="compact")).create()
    produce(log, marker(commit=True), from_coordinator=True)
    assert log.log_end_offset == 1


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_another_compression_type_is_applied_by_the_broker(tmp_path: Path, codec: str) -> None:
    log = Disk(tmp_path, config(compression_type="gzip")).create()
    data = idempotent(0, 5, codec=codec)
    produce(log, data, epoch=3)
    (header,) = headers(log)
    assert CODEC_NAMES[header.codec] == "gzip" and header.leader_epoch == 3
    assert (header.producer_id, header.base_sequence) == (7, 0)
    assert decode_batch(contents(log)) == decode_batch(data)


def test_a_marker_is_not_compressed(tmp_path: Path) -> None:
    """As Apache's brokers leave it; it would be larger, and need not fit into max.message.bytes any more."""
    end = marker(commit=True)
    log = Disk(tmp_path, config(compression_type="gzip", max_message_bytes=len(end))).create()
    produce(log, end, from_coordinator=True)
    assert contents(log)[16:] == end[16:]


@pytest.mark.parametrize("is_checked_before", [False, True])
def test_a_batch_that_the_topics_codec_makes_too_large_is_refused(
    tmp_path: Path, is_checked_before: bool
) -> None:
    """As Apache's brokers, which look at the size again behind their own compression."""
    log = Disk(tmp_path, config(compression_type="uncompressed", max_message_bytes=1000)).create()
    small = batch(codec="gzip", value=b"v" * 900)
    large = batch(codec="gzip", value=b"v" * 1000)
    assert len(large) < 200
    if is_checked_before:
        with pytest.raises(ProtocolError) as caught:
            checked(memoryview(large), log.config, now_ms=NOW)
        error = caught.value
    else:
        error = refused(log, large)
    assert error.code == ErrorCode.MESSAGE_TOO_LARGE and "max.message.bytes is 1000" in error.message
    produce(log, small)
    assert log.log_end_offset == 1


FULL = {"odradek.log.record.validation": "full"}


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("opens", [FULL, {"log.cleanup.policy": "compact"}])
def test_where_batches_are_opened_the_time_of_each_record_is_held_to_the_range(
    tmp_path: Path, opens: dict[str, str], codec: str
) -> None:
    """Its header names the first and, as the producer says, the largest."""
    limits = {"message_timestamp_before_max_ms": 1000, "message_timestamp_after_max_ms": 500}

    def records(*timestamps: int) -> bytes:
        return build_batch(
            [NewRecord(b"k", b"v", timestamp) for timestamp in timestamps], codec=codec, max_timestamp=NOW
        )

    log = Disk(tmp_path, config(opens, **limits)).create()
    for wrong in (NOW - 1001, NOW + 501, 0):
        error = refused(log, records(NOW, wrong, NOW), now_ms=NOW)
        assert error.code == ErrorCode.INVALID_TIMESTAMP
        assert f"timestamp {wrong} is not between {NOW} - 1000 and {NOW} + 500" in str(error)
    good = records(NOW, NOW - 1000, NOW + 500, -1)  # the last has none
    assert produce(log, good, now_ms=NOW).last_offset == 3

    log.config = config(opens, message_timestamp_type="LogAppendTime", **limits)
    assert produce(log, records(NOW, NOW - 1001, NOW + 501), now_ms=NOW).last_offset == 6


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("opens", [{}, FULL])
def test_a_time_before_1970_is_too_old_and_minus_one_is_none(
    tmp_path: Path, opens: dict[str, str], codec: str
) -> None:
    log = Disk(tmp_path, config(opens, message_timestamp_before_max_ms=1000)).create()
    for at in (-2, -(2**63)):
        old = build_batch([NewRecord(b"k", b"v", at)], codec=codec)
        assert refused(log, old, now_ms=NOW).code == ErrorCode.INVALID_TIMESTAMP
    assert produce(log, build_batch([NewRecord(b"k", b"v", -1)], codec=codec), now_ms=NOW).last_offset == 0


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_full_validation_opens_every_batch(tmp_path: Path, codec: str) -> None:
    log = Disk(tmp_path, config(FULL)).create()
    good = batch(4, codec=codec)
    assert produce(log, good).last_offset == 3
    gap = build_batch([NewRecord(b"k", b"v", NOW), NewRecord(b"k", b"v", NOW, offset_delta=2)], codec=codec)
    assert refused(log, edited(gap, last_offset_delta=1)).code == ErrorCode.INVALID_RECORD
    broken = bytearray(good)
    broken[70:] = b"\xff" * (len(good) - 70)
    assert refused(log, edited(bytes(broken))).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_full_validation_mends_the_largest_timestamp_as_apache_does(tmp_path: Path, codec: str) -> None:
    log = Disk(tmp_path, config(FULL)).create()
    for claimed in (2**63 - 1, -1, NOW + 2):
        produce(log, edited(batch(4, codec=codec), max_timestamp=claimed))
    assert {header.max_timestamp for header in headers(log)} == {NOW + 3}  # each CRC is checked


def test_the_largest_timestamp_of_a_single_record_is_its_own(log: PartitionLog) -> None:
    for claimed in (2**63 - 1, -5):
        produce(log, edited(batch(1), max_timestamp=claimed))
    assert [header.max_timestamp for header in headers(log)] == [NOW, NOW]


def test_a_producer_does_not_say_what_kind_of_time_a_topic_keeps(log: PartitionLog) -> None:
    """Apache's brokers clear the bit as well."""
    produce(log, edited(batch(3), attributes=0x08))
    (header,) = headers(log)
    assert not header.is_log_append_time and header.max_timestamp == NOW + 2
    assert [record.timestamp for record in decode_batch(contents(log))] == [NOW, NOW + 1, NOW + 2]


def test_header_validation_leaves_batches_closed(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*args: Any, **options: Any) -> None:
        raise AssertionError("a batch was opened on the fast path")

    monkeypatch.setattr("odradek.log.validation.opened_records", opened)
    monkeypatch.setattr("odradek.log.validation.survey", opened)
    monkeypatch.setattr("odradek.log.appending.end_marker_of", opened)
    produce(log, batch(5, codec="zstd"))
    produce(log, idempotent(0, 5))
    follow(log, batch(5, base_offset=10, leader_epoch=0))
    assert log.log_end_offset == 15


def lying(block: bytes, count: int = 1, **fields: Any) -> bytes:
    """A batch that holds this block, under a header and a CRC that fit it otherwise."""
    return edited(
        batch(1)[:BATCH_OVERHEAD] + block, record_count=count, last_offset_delta=count - 1, **fields
    )


ONE = build_batch([NewRecord(b"k", b"v", NOW)])[BATCH_OVERHEAD:]
NO_RECORD = {
    "no whole record": ONE[:-1],
    "two where one is promised": ONE + ONE,
    "bytes behind it": ONE + b"\0",
    "a length of -1": b"\x01" + ONE[1:],
    "a length beyond the batch": b"\xfe\xff\xff\xff\x0f" + ONE[1:],
    "a length without an end": b"\xff" * 20,
    "a length in eleven bytes": b"\x90" + b"\x80" * 10 + b"\0" + ONE[1:],
    "a key beyond the record": ONE[:4] + b"\x7e" + ONE[5:],
    "a key of length -2": ONE[:4] + b"\x03" + ONE[5:],
    "a value beyond the record": ONE[:6] + b"\x7e" + ONE[7:],
    "-1 headers": ONE[:-1] + b"\x01",
    "more headers than bytes": ONE[:-1] + b"\x7e",
    "an offset delta that is not 0": ONE[:3] + b"\x02" + ONE[4:],
    "a header without a key": b"\x14" + ONE[1:-1] + b"\x02\x01\x01",
    "nothing but zeros": bytes(40),
}


@pytest.mark.parametrize("block", NO_RECORD.values(), ids=NO_RECORD.keys())
def test_a_single_record_that_is_none_is_refused_under_a_right_crc(log: PartitionLog, block: bytes) -> None:
    assert refused(log, lying(block)).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("name", ["header", "full"])
def test_a_single_record_is_taken_as_it_is(tmp_path: Path, name: str) -> None:
    """Keys, values and headers of sizes around those at which a length takes another byte."""
    log = Disk(tmp_path, config({"odradek.log.record.validation": name})).create()
    sizes = (0, 1, 50, 63, 64, 65, 120, 8191, 8192, 70_000)
    parts = [None, *(b"x" * size for size in sizes)]
    records = [NewRecord(key, value, NOW) for key in parts for value in parts]
    records += [NewRecord(b"k", None, NOW, headers=[("h", value)]) for value in parts]
    for record in records:
        data = build_batch([record])
        produce(log, data)
        assert contents(log, log.log_end_offset - 1)[16:] == data[16:]


def test_more_records_than_fit_into_the_bytes_are_refused(log: PartitionLog) -> None:
    """Seven bytes is the least a record takes; of a compressed batch a hundredfold may come out, and a MiB."""
    assert refused(log, lying(ONE + ONE, 3)).code == ErrorCode.INVALID_RECORD
    assert refused(log, lying(ONE, 2**31 - 1)).code == ErrorCode.INVALID_RECORD
    empty = b"\x0c\0\0\0\x01\x01\0"
    for codec in (1, 3, 4):  # snappy packs nothing so tight
        bomb = bytes(compress(codec, empty * 444_000))
        error = refused(log, lying(bomb, 444_000, attributes=codec))
        assert error.code == ErrorCode.INVALID_RECORD and "444000 records in" in error.message


def test_a_first_record_that_leaves_no_room_for_the_others_is_refused(log: PartitionLog) -> None:
    assert refused(log, lying(ONE + ONE[:5], 2)).code == ErrorCode.INVALID_RECORD
    assert refused(log, lying(b"\x20" + ONE[1:] + ONE, 2)).code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", range(1, 5), ids=CODEC_NAMES[1:])
def test_what_no_codec_wrote_is_refused(log: PartitionLog, codec: int) -> None:
    for block in (b"garbage garbage", b"\xff\xff\xff\xff\x0f", b"\0"):
        if codec == SNAPPY and block[0] != 0xFF:
            continue  # a block of snappy says no more of itself than its length
        assert refused(log, lying(block, attributes=codec)).code == ErrorCode.INVALID_RECORD


def test_timestamps_beyond_64_bits_are_refused(log: PartitionLog) -> None:
    """One batch says 2^63 - 1 and a delta of 1, the other the like below."""
    above = b"\x10\0\x02\0\x02k\x02v\0"
    below = b"\x10\0\x01\0\x02k\x02v\0"
    assert refused(log, lying(above, base_timestamp=2**63 - 1)).code == ErrorCode.INVALID_RECORD
    assert refused(log, lying(below, base_timestamp=-(2**63))).code == ErrorCode.INVALID_RECORD


# What opens to more than may come out, by settings that open it.


@pytest.mark.parametrize(
    "settings", [{}, {"cleanup_policy": "compact"}, {"compression_type": "gzip"}], ids=str
)
@pytest.mark.parametrize("codec", [1, 3, 4], ids=["gzip", "lz4", "zstd"])
def test_a_bomb_is_refused_where_it_is_opened(tmp_path: Path, settings: dict[str, str], codec: int) -> None:
    log = Disk(tmp_path, config({} if settings else FULL, **settings)).create()
    value = build_batch([NewRecord(b"k", bytes(20_000_000), NOW)])[BATCH_OVERHEAD:]
    bomb = lying(bytes(compress(codec, value, 9)), attributes=codec)
    assert len(bomb) < 200_000
    if settings == {"compression_type": "gzip"} and codec == GZIP:
        produce(log, bomb)  # nothing to be done with it
        return
    error = refused(log, bomb)
    assert error.code == ErrorCode.INVALID_RECORD and "come out of" in error.message


# --------------------------------------------------------------------------------------------------- followers


def test_a_follower_keeps_offsets_and_epochs_and_leaves_a_cut_batch_for_later(log: PartitionLog) -> None:
    data = batch(2, base_offset=0, leader_epoch=1) + batch(3, base_offset=2, leader_epoch=4)
    for cut in range(1, len(batch(3))):
        fresh = data + batch(3, base_offset=5, leader_epoch=4)[:cut]
        log.truncate_fully_and_start_at(0, NOW)
        follow(log, fresh)
        assert log.log_end_offset == 5 and contents(log) == data
    assert log.epochs.entries == [(1, 0), (4, 2)]


def test_a_marker_that_cannot_be_read_ends_nothing_and_stops_nobody(tmp_path: Path) -> None:
    """Who follows stores what its leader has; so does who recovers it."""
    disk = Disk(tmp_path)
    log = disk.create()
    whole = marker(commit=True)
    broken = edited(whole[:BATCH_OVERHEAD] + b"\xff" * 12, base_offset=0, leader_epoch=1)
    follow(log, idempotent(0, base_offset=0, leader_epoch=1, is_transactional=True))
    follow(log, edited(broken, base_offset=1))
    assert log.log_end_offset == 2 and log.last_stable_offset(2) == 0
    log.flush()
    recovered = disk.open().log
    assert recovered.log_end_offset == 2 and recovered.last_stable_offset(2) == 0
    follow(recovered, edited(whole, base_offset=2, leader_epoch=1))
    assert recovered.last_stable_offset(3) == 3


def test_a_followers_gap_is_the_leaders_gap(log: PartitionLog) -> None:
    """The first is said twice, where nothing compacts: no checksum covers a base offset, and the leader looks at it in between.
    Behind it there are more, for the topic was compacted once: to wait for each would take days."""
    data = batch(1, base_offset=0, leader_epoch=1) + batch(2, base_offset=10, leader_epoch=1)
    with pytest.raises(ProtocolError, match="offset 10 from the leader where 1 was expected"):
        follow(log, data)
    assert offsets(log) == [0]
    follow(log, batch(2, base_offset=10, leader_epoch=1) + batch(1, base_offset=40, leader_epoch=1))
    assert offsets(log) == [0, 10, 40] and log.log_end_offset == 41
    read = log.read(3, max_bytes=1, upper_bound_offset=99, min_one_batch=True)
    assert read_header(read.slices[0].read()).base_offset == 10


def test_what_a_leader_said_before_the_log_was_cut_is_no_first_word_of_the_next(log: PartitionLog) -> None:
    """It has looked at its own batch, and the next leader has not looked at this one."""
    begin, behind_gap = batch(base_offset=0, leader_epoch=1), batch(base_offset=10, leader_epoch=1)
    with pytest.raises(ProtocolError, match="believed if it sends that again"):
        follow(log, begin + behind_gap)
    log.truncate_to(0, NOW)
    with pytest.raises(ProtocolError, match="believed if it sends that again"):
        follow(log, begin + behind_gap)
    assert offsets(log) == [0]
    follow(log, behind_gap)
    assert offsets(log) == [0, 10]


def test_a_compacted_leaders_gap_needs_no_second_word(log: PartitionLog) -> None:
    log.config = config(cleanup_policy="compact")
    follow(log, batch(1, base_offset=0, leader_epoch=1) + batch(2, base_offset=10, leader_epoch=1))
    assert offsets(log) == [0, 10]


def test_a_batch_of_an_epoch_above_the_leaders_is_not_what_it_wrote(log: PartitionLog) -> None:
    data = memoryview(batch(base_offset=0, leader_epoch=4) + batch(base_offset=1, leader_epoch=4 | 1 << 20))
    with pytest.raises(ProtocolError, match="above the leader's own, 4"):
        log.append_as_follower(data, now_ms=NOW, leader_epoch=4)
    assert offsets(log) == [0] and log.latest_epoch == 4


def test_a_batch_that_does_not_go_on_here_is_refused_and_what_came_before_it_is_kept(
    log: PartitionLog,
) -> None:
    with pytest.raises(ProtocolError, match="offset 1 from the leader where 2 was expected"):
        follow(log, batch(2, base_offset=0, leader_epoch=1) + batch(2, base_offset=1, leader_epoch=1))
    assert log.log_end_offset == 2 and offsets(log) == [0]


@pytest.mark.parametrize("is_flipped", [True, False], ids=["a bit", "it ends before it begins"])
def test_a_damaged_batch_from_the_leader_is_refused_and_what_came_before_it_is_kept(
    log: PartitionLog, is_flipped: bool
) -> None:
    whole = batch(2, base_offset=2, leader_epoch=1)
    damaged = whole[:-1] + bytes([whole[-1] ^ 1]) if is_flipped else edited(whole, last_offset_delta=-1)
    with pytest.raises(ProtocolError, match="damaged") as caught:
        follow(log, batch(2, base_offset=0, leader_epoch=1) + damaged)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 2 and offsets(log) == [0]


@pytest.mark.parametrize("magic", [0, 3])
def test_what_came_before_what_is_no_batch_is_kept(log: PartitionLog, magic: int) -> None:
    """No checksum covers the magic. The leader looks only at the batch that it is asked for again."""
    whole = bytearray(batch(2, base_offset=2, leader_epoch=1))
    whole[MAGIC_OFFSET] = magic
    with pytest.raises(ProtocolError, match="from the leader is none") as caught:
        follow(log, batch(2, base_offset=0, leader_epoch=1) + whole)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 2 and offsets(log) == [0]


def test_a_follower_that_starts_inside_a_batch_takes_the_whole_batch(tmp_path: Path) -> None:
    """DeleteRecords moved the leader's start to 105, inside the batch of 100 to 109."""
    log = Disk(tmp_path).create()
    log.truncate_fully_and_start_at(105, NOW)
    follow(log, batch(10, base_offset=100, leader_epoch=2) + batch(1, base_offset=110, leader_epoch=2))
    assert (log.log_start_offset, log.log_end_offset) == (105, 111)
    assert offsets(log) == [100, 110]


@pytest.mark.parametrize("wrong", ["damaged", "of a later epoch"])
def test_a_follower_that_starts_inside_a_batch_is_not_begun_anew_for_one_that_it_refuses(
    tmp_path: Path, wrong: str
) -> None:
    """It would end at 100, below its start."""
    log = Disk(tmp_path).create(log_start_offset=105)
    whole = batch(10, base_offset=100, leader_epoch=3)
    data, leader_epoch = (whole[:-1] + b"?", 3) if wrong == "damaged" else (whole, 2)
    with pytest.raises(ProtocolError, match=r"damaged|above the leader's own"):
        log.append_as_follower(memoryview(data), now_ms=NOW, leader_epoch=leader_epoch)
    assert (log.log_start_offset, log.log_end_offset) == (105, 105)


def test_what_a_leader_wrote_a_follower_has_byte_for_byte(tmp_path: Path) -> None:
    leader = Disk(tmp_path / "a", config(segment_bytes=2000))
    leader.path.mkdir()
    follower = Disk(tmp_path / "b", config(segment_bytes=1100))
    follower.path.mkdir()
    one, two = leader.create(), follower.create()
    for n in range(40):
        produce(one, idempotent(n * 3, 3, at=NOW + n), epoch=n // 10)
    while two.log_end_offset < one.log_end_offset:
        read = one.read(two.log_end_offset, max_bytes=1500, upper_bound_offset=1 << 40, min_one_batch=True)
        follow(two, b"".join(part.read() for part in read.slices))
    assert contents(two) == contents(one)
    assert two.epochs.entries == one.epochs.entries
    assert two.producers.to_bytes() == one.producers.to_bytes()
    assert all(segment.size_bytes <= 1100 for segment in two.segments)


def test_a_new_max_timestamp_has_a_new_crc() -> None:
    data = bytearray(batch(3))
    stamp_max_timestamp(data, 0, len(data), max_timestamp=99, log_append_time=True)
    assert decode_batch(data)[2].timestamp == 99
    stamp_max_timestamp(data, 0, len(data), max_timestamp=NOW + 2, log_append_time=False)
    assert bytes(data) == batch(3)
