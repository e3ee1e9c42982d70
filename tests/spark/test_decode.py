"""The fast decoder against the slow, readable one of `odradek.records`, and against damaged bytes."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.model.ids import TopicPartition
from odradek.records.batch import CRC_OFFSET, iter_batches
from odradek.records.builder import NewRecord, build_batch
from odradek.records.control import ABORT, build_end_marker, control_type
from odradek.records.reader import decode_batch
from odradek.spark.decode import DEFAULT_LIMITS, CorruptRange, decode
from odradek.spark.slices import Limits
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
                        "headers": [{"key": key, "value": value} for key, value in record.headers],
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

    assert quickly(data, start, start + length, hidden) == slowly(data, start, start + length, hidden)
    assert quickly(data, 0, next_offset, hidden) == slowly(data, 0, next_offset, hidden)
    assert quickly(data, 0, next_offset, hidden, narrow) == slowly(data, 0, next_offset, hidden)


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


def test_a_damaged_batch_outside_the_range_is_not_looked_into() -> None:
    data = bytearray(a_log())
    data[-1] ^= 1

    assert [row["offset"] for row in quickly(bytes(data), 0, 10)] == list(range(10))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_nonsense_with_a_right_crc_is_refused_or_read_as_the_slow_decoder_reads_it(
    data: st.DataObject,
) -> None:
    from odradek.model.errors import ProtocolError
    from odradek.records.checksum import crc32c

    damaged = bytearray(a_log(batches=1, records=data.draw(st.integers(1, 6))))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(57, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    damaged[CRC_OFFSET : CRC_OFFSET + 4] = crc32c(memoryview(damaged)[21:]).to_bytes(4, "big")
    try:
        expected: list[dict[str, Any]] | None = slowly(bytes(damaged), 0, 10**9)
    except ProtocolError:
        expected = None

    if expected is None:
        with pytest.raises(ProtocolError):
            quickly(bytes(damaged), 0, 10**9)
    else:
        assert quickly(bytes(damaged), 0, 10**9) == expected


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
