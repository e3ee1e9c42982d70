"""Rows into record batches and back; partitions as the Java client chooses them."""

from collections import Counter
from itertools import groupby
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.client.partitioning import murmur2, partition_of
from odradek.model.ids import TopicPartition
from odradek.records.batch import check_crc, read_header
from odradek.records.compression import CODEC_NAMES
from odradek.records.reader import decode_batch
from odradek.spark import encode
from odradek.spark.encode import BadRow, Encoded, Places, encoded, records_of, slices_of
from odradek.spark.fingerprint import EMPTY, Fingerprint, of_records
from odradek.spark.murmur2 import murmur2_of, partitions_of

BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "key": BYTES,
            "value": st.none() | st.binary(max_size=300),
            "headers": HEADERS,
            "partition": st.none() | st.integers(0, 3),
            "topic": st.sampled_from(["a", "b"]),
            "timestamp": st.none() | st.just(-1_000) | st.integers(0, 4_000_000_000_000_000),
        }
    ),
    min_size=1,
    max_size=60,
)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("partition", pa.int32()),
        ("topic", pa.string()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
NOW = 1_700_000_000_000


BORDERS = sorted({1 << bits >> less for bits in range(0, 64, 7) for less in (0, 1)} | {0, (1 << 64) - 1})


def test_the_sizes_of_varints_are_those_that_are_written_whatever_stands_beside_them() -> None:
    """Each pair of numbers at a border of a size, and just below it: sizes are counted from those of the least and the greatest."""
    numbers = sorted({number - less for number in BORDERS for less in (0, 1) if number >= less})
    for one in numbers:
        for other in numbers:
            both = np.array([one, other], np.uint64)
            sizes = encode._varint_sizes(both).tolist()
            assert sizes == [max(1, -(-number.bit_length() // 7)) for number in (one, other)], (one, other)
            whole = encode._varints([both]).to_pylist()
            assert [_number_in(data) for data in whole] == [one, other]
            assert [len(data) for data in whole] == sizes
    assert encode._varint_sizes(np.zeros(0, np.uint64)).tolist() == []


def _number_in(data: bytes) -> int:
    assert [byte >= 0x80 for byte in data] == [True] * (len(data) - 1) + [False]
    return sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(data))


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    shaped = [
        {
            **row,
            "headers": None
            if row["headers"] is None
            else [{"key": k, "value": v} for k, v in row["headers"]],
        }
        for row in rows
    ]
    return pa.Table.from_pylist(shaped, schema=SCHEMA)


def decoded(found: list[Encoded]) -> dict[TopicPartition, list[Any]]:
    records: dict[TopicPartition, list[Any]] = {}
    for batch in (batch for some in found for batch in some.batches):
        data = batch.header + bytes(batch.body)
        header = read_header(data)
        assert check_crc(data, 0, header)
        of_batch = list(decode_batch(data, 0))
        assert header.record_count == len(of_batch)
        assert [record.offset for record in of_batch] == list(range(header.record_count))
        assert header.max_timestamp == max(record.timestamp for record in of_batch)
        records.setdefault(batch.partition, []).extend(of_batch)
    return records


def proofs_of(found: list[Encoded]) -> dict[TopicPartition, Fingerprint]:
    proofs: dict[TopicPartition, Fingerprint] = {}
    for where, proof in (proof for some in found for proof in some.proofs):
        proofs[where] = proofs.get(where, EMPTY) + proof
    return proofs


@settings(max_examples=80, deadline=None)
@given(
    rows=ROWS,
    codec=st.sampled_from(CODEC_NAMES),
    batch_bytes=st.sampled_from([1, 100, 1 << 19]),
    cut=st.integers(0, 60),
)
def test_what_is_encoded_is_decoded_as_it_was(
    rows: list[dict[str, Any]], codec: str, batch_bytes: int, cut: int
) -> None:
    places = Places(None, lambda topic: 4)
    table = table_of(rows)
    chunks = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    found = list(encoded(records_of(chunks, None), places, codec=codec, now_ms=NOW, batch_bytes=batch_bytes))

    told = Counter(
        (where.topic, record.key, record.value, record.timestamp, tuple(record.headers))
        for where, records in decoded(found).items()
        for record in records
    )
    assert told == Counter(
        (
            row["topic"],
            row["key"],
            row["value"],
            NOW if row["timestamp"] is None else row["timestamp"] // 1000,
            tuple(row["headers"] or ()),
        )
        for row in rows
    )
    for where, records in decoded(found).items():
        pairs = [(record.key, record.value) for record in records]
        assert proofs_of(found)[where] == of_records(pairs)
        for row in rows:
            if row["partition"] is None and row["key"] is not None and row["topic"] == where.topic:
                is_here = (row["key"], row["value"]) in pairs
                assert is_here or partition_of(row["key"], 4) != where.partition


def test_rows_of_a_partition_keep_their_order() -> None:
    rows = [
        {"key": b"k%d" % (n % 7), "value": b"%d" % n, "headers": None, "partition": None, "topic": "a"}
        for n in range(1000)
    ]
    places = Places("a", lambda topic: 3)
    table = pa.Table.from_pylist(rows, schema=SCHEMA)

    found = decoded(list(encoded(records_of(table, "a"), places, codec="none", now_ms=NOW, batch_bytes=500)))

    assert sum(len(records) for records in found.values()) == 1000
    for where, records in found.items():
        numbers = [int(record.value) for record in records]
        assert numbers == sorted(numbers)
        assert {partition_of(bytes(record.key), 3) for record in records} == {where.partition}


KEY = st.binary(max_size=12) | st.binary(max_size=70) | st.binary(min_size=1000, max_size=1010)


@pytest.mark.parametrize("padded_bytes", [0, 1 << 20])
@given(keys=st.lists(KEY, max_size=50), skipped=st.integers(0, 3))
def test_a_column_of_keys_is_hashed_as_each_of_them(
    padded_bytes: int, keys: list[bytes], skipped: int
) -> None:
    with patch("odradek.spark.murmur2._PADDED_BYTES", padded_bytes):
        _compare_hashes(keys, skipped)


def _compare_hashes(keys: list[bytes], skipped: int) -> None:
    column = pa.array(keys, pa.binary()).slice(min(skipped, len(keys)))

    assert murmur2_of(column).tolist() == [murmur2(key) for key in keys[skipped:]]
    assert partitions_of(column, 7).tolist() == [partition_of(key, 7) for key in keys[skipped:]]


@given(runs=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(1, 3)), max_size=12))
def test_rows_are_gathered_only_where_those_of_a_partition_do_not_stand_together(
    runs: list[tuple[int, int, int]],
) -> None:
    places = [(topic, partition) for topic, partition, count in runs for _ in range(count)]
    of_topic, partition = np.array(places, np.int64).reshape(-1, 2).T
    groups = [place for place, _ in groupby(places)]

    order = encode._order(of_topic, partition)

    assert (order is None) == (len(set(groups)) == len(groups))
    if order is not None:
        assert order.tolist() == sorted(range(len(places)), key=lambda row: (places[row], row))


def test_no_batch_is_larger_than_a_topic_takes_where_each_record_alone_is_not() -> None:
    """Records of half a megabyte and more, among small ones: `max.message.bytes` is 1,048,588 where nobody has changed it."""
    sizes = [300, 500_000, 600_000, 100, 1_000_000, 200, 400_000, 1_000_000]
    rows = [{"value": b"x" * size, "topic": "a"} for size in sizes]
    table = records_of(pa.Table.from_pylist(rows, schema=SCHEMA), "a")

    found = list(encoded(table, Places("a", lambda topic: 1), codec="none", now_ms=NOW))

    whole = [len(batch.header) + len(batch.body) for some in found for batch in some.batches]
    assert max(whole) <= 1_048_588
    assert [len(record.value) for record in decoded(found)[TopicPartition("a", 0)]] == sizes


def test_rows_without_a_key_are_dealt_out_to_all_partitions() -> None:
    rows = [{"key": None, "value": b"%d" % n, "headers": None, "topic": "a"} for n in range(100)]
    table = records_of(pa.Table.from_pylist(rows, schema=SCHEMA), "a")

    found = list(encoded(table, Places("a", lambda topic: 4), codec="none", now_ms=NOW, keyless_from=2))

    assert {where.partition: proof.count for where, proof in proofs_of(found).items()} == dict.fromkeys(
        range(4), 25
    )


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"partition": 4}, "partition 4 of a, which has partitions 0 to 3"),
        ({"partition": -7}, "partition -7 of a, which has partitions 0 to 3"),
        ({"partition": -1}, "partition -1 of a, which has partitions 0 to 3"),
        ({"topic": None}, "a row has no topic"),
        ({"timestamp": -1_001}, r"a timestamp before 1970 .*; null becomes the time of writing"),
        ({"headers": [{"key": None, "value": b"x"}]}, "a header has no key"),
        ({"headers": [None]}, "a header has no key"),
    ],
)
def test_a_row_that_can_be_no_record_is_refused_in_a_sentence(row: dict[str, Any], sentence: str) -> None:
    rows = [{"key": b"k", "value": b"v", "topic": "a"}, {"key": b"k", "value": b"v", "topic": "a", **row}]
    table = records_of(pa.Table.from_pylist(rows, schema=SCHEMA), None)

    with pytest.raises(BadRow, match=sentence):
        list(encoded(table, Places(None, lambda topic: 4), codec="none", now_ms=NOW))


def test_slices_are_of_about_the_size_and_lose_nothing() -> None:
    batches = [pa.record_batch({"value": [b"x" * 100] * count}) for count in (0, 1, 10, 5_000, 3)]

    slices = list(slices_of(iter(batches), 50_000))

    assert sum(batch.num_rows for batch in slices) == 5_014
    assert 5 <= len(slices) <= 12 and max(batch.nbytes for batch in slices) < 110_000
