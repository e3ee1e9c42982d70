"""The fast decoder against the slow, readable one of `odradek.records`, and against damaged bytes."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.model.ids import TopicPartition
from odradek.records.batch import BATCH_OVERHEAD, CRC_OFFSET, iter_batches
from odradek.records.builder import NewRecord, build_batch
from odradek.records.checksum import crc32c
from odradek.records.compression import CODEC_NAMES, compress
from odradek.records.control import ABORT, build_end_marker, control_type
from odradek.records.reader import decode_batch
from odradek.spark import decode as decode_module
from odradek.spark import slices as slices_module
from odradek.spark.decode import DEFAULT_LIMITS, CorruptRange, RecordTooLarge, decode
from odradek.spark.opened import opened
from odradek.spark.slices import Limits
from tests.spark.both_ways import WAYS, both_ways, drawn_once, going  # noqa: F401
from tests.support import golden_lines

PARTITION = TopicPartition("orders", 3)
HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.field("element", HEADER))),
        ("leaderEpoch", pa.int32()),
    ]
)


def slowly(
    data: bytes, start: int, end: int, aborted: Iterable[tuple[int, int]] = ()
) -> list[dict[str, Any]]:
    """What `decode` promises, one record after the other."""
    rows = []
    hidden: set[int] = set()
    for position, header in iter_batches(data):
        hidden |= {
            producer for producer, first in aborted if header.base_offset <= first <= header.last_offset
        }
        records = decode_batch(data, position)
        if header.is_control:
            if records and control_type(records[0]) == ABORT:
                hidden.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in hidden:
            continue
        for record in records:
            if start <= record.offset < end:
                rows.append(
                    {
                        "key": record.key,
                        "value": record.value,
                        "topic": "orders",
                        "partition": 3,
                        "offset": record.offset,
                        "timestamp": record.timestamp * 1000,
                        "timestampType": int(header.is_log_append_time),
                        "headers": [{"key": key, "value": value} for key, value in record.headers] or None,
                        "leaderEpoch": header.leader_epoch,
                    }
                )
    return rows


def quickly(
    data: bytes,
    start: int,
    end: int,
    aborted: Iterable[tuple[int, int]] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> list[dict[str, Any]]:
    rows = []
    for read_to, batch in decode(
        data, partition=PARTITION, start=start, end=end, schema=SCHEMA, aborted=aborted, limits=limits
    ):
        batch.validate(full=True)
        place = batch.schema.get_field_index("timestamp")
        rows += batch.set_column(place, "timestamp", batch.column(place).cast(pa.int64())).to_pylist()
        assert 0 < batch.num_rows <= limits.slice_records and rows[-1]["offset"] == read_to - 1
    return rows


# Smaller than most records: every batch goes through a window, every record makes it grow.
NARROW = Limits(slice_bytes=16, slice_records=3, record_bytes=1 << 20)
field = st.none() | st.binary(max_size=200)
record = st.builds(
    NewRecord,
    key=field,
    value=field,
    timestamp=st.integers(0, 2**41),
    headers=st.lists(st.tuples(st.text(max_size=5), field), max_size=3),
    offset_delta=st.none(),
)
batch_content = st.fixed_dictionaries(
    {
        "records": st.lists(record, min_size=1, max_size=8),
        "codec": st.sampled_from(["none", "none", "none", "gzip", "snappy", "lz4", "zstd"]),
        "leader_epoch": st.integers(0, 1000),
        "log_append_time_ms": st.none() | st.integers(0, 2**41),
    }
)


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, int, list[tuple[int, int]]]:
    """A stretch of a log with gaps, its next offset, and the transactions of it that were aborted."""
    offset = draw(st.integers(0, 2**40))
    parts = []
    aborted = []
    for content in draw(st.lists(batch_content, max_size=6)):
        # 0 plain, 1 a committed transaction of one batch, 2 an aborted one
        kind = draw(st.integers(0, 2))
        producer = draw(st.integers(1, 3)) if kind else -1
        offset += draw(st.integers(0, 3))
        parts.append(
            build_batch(
                base_offset=offset,
                producer_id=producer,
                producer_epoch=0,
                is_transactional=bool(kind),
                **content,
            )
        )
        if kind == 2:
            aborted.append((producer, offset))
        offset += len(content["records"])
        if kind:
            parts.append(
                build_end_marker(
                    producer_id=producer,
                    producer_epoch=0,
                    is_commit=kind == 1,
                    coordinator_epoch=0,
                    timestamp=5,
                    base_offset=offset,
                )
            )
            offset += 1
    return b"".join(parts), offset, aborted


# From windows smaller than most records to such that hold a batch or two.
narrow_limits = st.builds(
    Limits, slice_bytes=st.integers(8, 1500), slice_records=st.integers(1, 10), record_bytes=st.just(1 << 20)
)


@drawn_once
@settings(max_examples=150, deadline=None)
@given(logs(), st.booleans(), st.integers(0, 30), st.integers(0, 30), narrow_limits)
def test_the_fast_decoder_says_what_the_slow_one_says(
    log: tuple[bytes, int, list[tuple[int, int]]],
    read_committed: bool,
    back: int,
    length: int,
    narrow: Limits,
) -> None:
    data, next_offset, aborted = log
    start = max(0, next_offset - back)
    hidden = aborted if read_committed else []

    some, every = slowly(data, start, start + length, hidden), slowly(data, 0, next_offset, hidden)
    for way in WAYS:
        with going(way):
            assert quickly(data, start, start + length, hidden) == some, way
            assert quickly(data, 0, next_offset, hidden) == every, way
            assert quickly(data, 0, next_offset, hidden, narrow) == every, way


def a_log(batches: int = 3, records: int = 5, codec: str = "none") -> bytes:
    return b"".join(
        build_batch(
            [NewRecord(b"k%d" % i, b"value %d" % (number * records + i), 1000 + i) for i in range(records)],
            base_offset=number * records,
            codec=codec,
        )
        for number in range(batches)
    )


def test_nothing_in_range_gives_a_batch_without_rows() -> None:
    assert quickly(a_log(), 100, 200) == []
    assert quickly(b"", 0, 10) == []


def test_only_the_columns_of_the_schema_are_built() -> None:
    schema = pa.schema([("offset", pa.int64()), ("value", pa.binary())])

    ((_, batch),) = decode(a_log(), partition=PARTITION, start=4, end=6, schema=schema)

    assert batch.to_pylist() == [{"offset": 4, "value": b"value 4"}, {"offset": 5, "value": b"value 5"}]


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("place", [21, 40, 61, -1])
def test_a_flipped_bit_is_an_error_that_names_the_offsets(codec: str, place: int) -> None:
    one = a_log(batches=1, codec=codec)
    damaged = bytearray(one + a_log(batches=1, codec=codec))
    damaged[len(one) + place if place > 0 else place] ^= 0x10

    with pytest.raises(CorruptRange, match=r"orders-3, offsets 0 to 10: the batch of offsets .* wrong CRC"):
        list(decode(bytes(damaged), partition=PARTITION, start=0, end=10, schema=SCHEMA))


def test_a_damaged_marker_before_the_range_is_an_error_too() -> None:
    """Taken for another one, it would hide what its producer wrote behind it."""
    of_producer = {"producer_id": 7, "producer_epoch": 0}
    aborted, committed = (
        build_batch([NewRecord(None, b"x")], base_offset=offset, is_transactional=True, **of_producer)
        for offset in (0, 2)
    )
    abort, commit = (
        build_end_marker(is_commit=is_commit, coordinator_epoch=0, timestamp=0, base_offset=1, **of_producer)
        for is_commit in (False, True)
    )
    hidden = [(7, 0)]

    assert [row["offset"] for row in quickly(aborted + abort + committed, 2, 3, hidden)] == [2]
    with pytest.raises(CorruptRange, match="the batch of offsets 1 to 1 has a wrong CRC"):
        quickly(aborted + abort[:BATCH_OVERHEAD] + commit[BATCH_OVERHEAD:] + committed, 2, 3, hidden)


def test_a_damaged_batch_outside_the_range_is_not_looked_into() -> None:
    data = bytearray(a_log())
    data[-1] ^= 1

    assert [row["offset"] for row in quickly(bytes(data), 0, 10)] == list(range(10))


@drawn_once
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_nonsense_with_a_right_crc_is_refused_or_read_as_the_slow_decoder_reads_it(
    data: st.DataObject,
) -> None:
    from odradek.model.errors import ProtocolError

    damaged = bytearray(a_log(batches=1, records=data.draw(st.integers(1, 6))))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(57, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged[CRC_OFFSET : CRC_OFFSET + 4] = crc32c(memoryview(damaged)[21:]).to_bytes(4, "big")
    try:
        expected: list[dict[str, Any]] | None = slowly(bytes(damaged), 0, 10**9)
    except ProtocolError:
        expected = None

    for way in WAYS:
        with going(way):
            if expected is None:
                with pytest.raises(ProtocolError):
                    quickly(bytes(damaged), 0, 10**9)
                # A record that claims to be long is refused before anybody looks whether it is there.
                with pytest.raises((ProtocolError, RecordTooLarge)):
                    quickly(bytes(damaged), 0, 10**9, limits=NARROW)
            else:
                assert quickly(bytes(damaged), 0, 10**9) == expected, way
                assert quickly(bytes(damaged), 0, 10**9, limits=NARROW) == expected, way


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_of_many_slices_says_up_to_where_each_has_read(codec: str) -> None:
    data = a_log(batches=2, records=50, codec=codec)
    limits = Limits(slice_bytes=200, slice_records=7)

    found = list(decode(data, partition=PARTITION, start=5, end=90, schema=SCHEMA, limits=limits))

    assert [offset for _, batch in found for offset in batch["offset"].to_pylist()] == list(range(5, 90))
    assert all(read_to == batch["offset"][-1].as_py() + 1 and batch.num_rows <= 7 for read_to, batch in found)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_no_batch_is_opened_twice(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one that proves too large for what is left of a slice, or for a whole one."""
    data = b"".join(
        build_batch([NewRecord(None, b"x" * 90)] * count, base_offset=base, codec=codec)
        for base, count in ((0, 3), (100, 8), (200, 40), (300, 2))
    )
    came_out = 0

    class Counting:
        def __init__(self, codec: int, body: memoryview, *, most_bytes: int) -> None:
            self._opened = opened(codec, body, most_bytes=most_bytes)

        def readinto(self, target: memoryview) -> int:
            nonlocal came_out
            count = self._opened.readinto(target)
            came_out += count
            return count

    monkeypatch.setattr(slices_module, "opened", Counting)
    limits = Limits(slice_bytes=1_000, slice_records=30)

    assert len(quickly(data, 0, 1_000, limits=limits)) == 53
    plain = build_batch([NewRecord(None, b"x" * 90)])
    assert came_out == 53 * (len(plain) - 61)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_a_batch_of_no_records_that_is_compressed_is_none(codec: str) -> None:
    """Nothing takes bytes when it is compressed."""
    empty = bytearray(build_batch([NewRecord(None, b"v")], codec=codec)[:61])
    empty += compress(CODEC_NAMES.index(codec), b"")
    empty[8:12] = (len(empty) - 12).to_bytes(4, "big")
    empty[57:61] = bytes(4)
    empty[CRC_OFFSET : CRC_OFFSET + 4] = crc32c(memoryview(empty)[21:]).to_bytes(4, "big")
    full = build_batch([NewRecord(None, b"v")], base_offset=1, codec=codec)

    for data, offsets in ((empty, []), (empty + full, [1]), (full + empty, [1])):
        assert [row["offset"] for row in slowly(bytes(data), 0, 9)] == offsets
        assert [row["offset"] for row in quickly(bytes(data), 0, 9)] == offsets


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_window_sees_a_batch_that_is_cut_short_or_has_something_behind_its_records(codec: str) -> None:
    whole = bytearray(a_log(batches=1, records=50, codec=codec))
    for count, why in ((51, "beyond the end"), (49, "more bytes than the records")):
        whole[57:61] = count.to_bytes(4, "big")
        whole[CRC_OFFSET : CRC_OFFSET + 4] = crc32c(memoryview(whole)[21:]).to_bytes(4, "big")
        with pytest.raises(CorruptRange, match=f"orders-3, offsets 0 to 100: .*{why}"):
            quickly(bytes(whole), 0, 100, limits=NARROW)
    cut = bytearray(a_log(batches=1, records=50, codec=codec)[:-6])
    cut[8:12] = (len(cut) - 12).to_bytes(4, "big")
    cut[CRC_OFFSET : CRC_OFFSET + 4] = crc32c(memoryview(cut)[21:]).to_bytes(4, "big")
    with pytest.raises(CorruptRange):
        quickly(bytes(cut), 0, 100, limits=NARROW)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_record_above_the_bound_is_refused_by_its_offset(codec: str) -> None:
    records = [NewRecord(None, b"small"), NewRecord(None, b"x" * 5_000)]
    data = build_batch(records, base_offset=70, codec=codec)
    limits = Limits(slice_bytes=1_000, record_bytes=5_100)

    assert [len(row["value"]) for row in quickly(data, 0, 100, limits=limits)] == [5, 5_000]
    what = "batch of offsets 70 to 71" if codec == "snappy" else "record at offset 71"
    with pytest.raises(
        RecordTooLarge, match=rf"orders-3, .* the {what} has .*; 5000 is the most that is read"
    ):
        quickly(data, 0, 100, limits=limits._replace(record_bytes=5_000))


def test_a_snappy_block_is_opened_up_to_the_same_bound() -> None:
    """librdkafka writes one block, which can only be opened whole."""
    import cramjam

    plain = build_batch([NewRecord(None, b"x" * 5_000)] * 3, base_offset=70)
    block = bytes(cramjam.snappy.compress_raw(plain[61:]))
    data = bytearray(plain[:61] + block)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[22] |= 2
    data[CRC_OFFSET : CRC_OFFSET + 4] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")

    assert len(quickly(bytes(data), 0, 100, limits=Limits(slice_bytes=1_000, record_bytes=16_000))) == 3
    with pytest.raises(
        RecordTooLarge,
        match=r"orders-3, .* batch of offsets 70 to 72 has a snappy block of 15\d+ bytes, .* 9000 is",
    ):
        quickly(bytes(data), 0, 100, limits=Limits(slice_bytes=1_000, record_bytes=9_000))


def test_headers_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 1_000
    monkeypatch.setattr(decode_module, "SLICE_HEADERS", most)
    many = NewRecord(None, b"v", headers=[("h", b"")] * (most // 2))
    data = build_batch([many, many, many])
    schema = SCHEMA.remove(SCHEMA.get_field_index("key"))

    found = [batch for _, batch in decode(data, partition=PARTITION, start=0, end=9, schema=schema)]

    assert [batch.num_rows for batch in found] == [2, 1]
    assert all(len(headers) == most // 2 for batch in found for headers in batch["headers"])
    one = build_batch([NewRecord(None, b"v", headers=[("h", b"")] * (most + 1))], base_offset=5)
    with pytest.raises(CorruptRange, match=f"the record at offset 5 has {most + 1} headers"):
        list(decode(one, partition=PARTITION, start=0, end=9, schema=schema))
    without = pa.schema([("offset", pa.int64())])
    assert [b.num_rows for _, b in decode(one, partition=PARTITION, start=0, end=9, schema=without)] == [1]


def test_a_headers_name_that_is_no_utf_8_is_read_with_other_letters_as_java_does() -> None:
    """Brokers do not look at it, and producers that are not Java's write what they like."""
    headers = [("good", b"1"), ("bad1", b"2"), ("good", None)]
    data = bytearray(build_batch([NewRecord(None, b"v", headers=headers), NewRecord(None, b"w")]))
    data[data.index(b"bad1")] = 0xFF
    data[CRC_OFFSET : CRC_OFFSET + 4] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")

    rows = quickly(bytes(data), 0, 9)

    assert [row["headers"] and [header["key"] for header in row["headers"]] for row in rows] == [
        ["good", "\ufffdad1", "good"],
        None,
    ]
    assert rows == slowly(bytes(data), 0, 9)


def test_the_golden_batches_decode_as_apache_reads_them() -> None:
    seen = 0
    for line in golden_lines("records.jsonl.gz"):
        parts = line.get("batches") or [line]
        if line["name"] == "v2-bad-crc" or parts[0]["batch"]["magic"] != 2:
            continue
        expected = [
            (record["offset"], record["timestamp"] * 1000, record["key_hex"], record["value_hex"])
            for part in parts
            if not part["batch"]["is_control"]
            for record in part["records"]
        ]
        rows = quickly(bytes.fromhex(line["hex"]), 0, 2**62)

        assert [
            (row["offset"], row["timestamp"], as_hex(row["key"]), as_hex(row["value"])) for row in rows
        ] == expected, line["name"]
        seen += len(rows)
    assert seen > 4000


def as_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()
