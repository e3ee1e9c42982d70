"""The order-independent hash: the fast form equals its definition, and it notices what it is there to notice."""

import random
from itertools import combinations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.spark import fingerprint
from odradek.spark.fingerprint import EMPTY, Fingerprint, hash_of_record, of_arrow, of_records, of_rows
from tests.spark.both_ways import WAYS, both_ways, drawn_once, going  # noqa: F401

field = st.none() | st.binary(max_size=40) | st.binary(min_size=41, max_size=300)
rows = st.lists(st.tuples(field, field), max_size=40)


def slowly(records: list[tuple[bytes | None, bytes | None]]) -> Fingerprint:
    return Fingerprint(len(records), sum(hash_of_record(k, v) for k, v in records) % 2**128)


@drawn_once
@settings(max_examples=300, deadline=None)
@given(rows, st.integers(0, 5), st.integers(0, 5))
def test_whole_columns_hash_as_the_definition_says(
    records: list[tuple[bytes | None, bytes | None]], skip: int, cut: int
) -> None:
    key = pa.array([k for k, _ in records], pa.binary())
    value = pa.array([v for _, v in records], pa.binary())

    kept = records[skip : max(skip, len(records) - cut)]
    parts = pa.chunked_array([key, key], pa.binary()), pa.chunked_array([value, value], pa.binary())
    every, some = slowly(records), slowly(kept)

    for way in WAYS:
        with going(way):
            assert of_arrow(key, value) == every, way
            assert of_records(records) == every, way
            assert of_arrow(key.slice(skip, len(kept)), value.slice(skip, len(kept))) == some, way
            assert of_arrow(*parts) == every + every, way


def test_the_definition_is_what_it_was() -> None:
    """Stored fingerprints live as long as the tables: the definition may not move under them."""
    assert f"{hash_of_record(b'N14228', b'2013,1,1,517'):032x}" == "54d064bbd421324610af3394c0deade0"
    assert f"{hash_of_record(None, b''):032x}" == "246c8fcf394c9758d6ee855970edca90"
    assert f"{hash_of_record(None, None):032x}" == "3f31093c38a2015de2986e7ae8118579"


def test_the_order_and_the_grouping_do_not_matter() -> None:
    records = [(b"k%d" % (i % 7), b"value %d" % i) for i in range(20_000)]
    shuffled = random.Random(1).sample(records, len(records))

    assert of_records(shuffled) == of_records(records)
    assert of_records(records[:333]) + of_records(records[333:]) == of_records(records)
    assert of_records(records) + EMPTY == of_records(records)


@drawn_once
def test_long_values_hash_as_the_definition_says_and_not_word_by_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = random.Random(2)
    most = 8 * fingerprint._MOST_WORDS
    sizes = [0, 7, most - 1, most, most + 1, 2 * most + 5, 3]
    records: list[tuple[bytes | None, bytes | None]] = [
        (chance.randbytes(size), chance.randbytes(n)) for n, size in enumerate(sizes)
    ]
    records += [(None, chance.randbytes(size)) for size in sizes]
    wanted = slowly(records)
    asked: list[int] = []
    multiplier = fingerprint._multiplier

    def counted(lane: int, field: int, index: int) -> int:
        asked.append(index)
        return multiplier(lane, field, index)

    monkeypatch.setattr(fingerprint, "_multiplier", counted)

    for way in WAYS:
        asked.clear()
        with going(way):
            assert of_records(records) == wanted, way
        assert set(asked) == {-1}, "a word costs a turn of Python"


@pytest.mark.parametrize("piece_bytes", [1, 100, 1 << 18])
def test_short_and_long_values_beside_each_other_hash_as_the_definition_says(
    monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    """Padded to the longest they would be hundreds of times as large."""
    monkeypatch.setattr(fingerprint, "_PIECE_BYTES", piece_bytes)
    chance = random.Random(3)
    records = [
        (
            chance.randbytes(int(1.5 ** chance.randrange(10))),
            chance.randbytes(int(1.4 ** chance.randrange(28))),
        )
        for _ in range(300)
    ]
    key = pa.array([None if n % 9 == 0 else k for n, (k, _) in enumerate(records)], pa.binary())
    value = pa.array([None if n % 11 == 0 else v for n, (_, v) in enumerate(records)], pa.binary())

    assert of_arrow(key, value) == slowly(list(zip(key.to_pylist(), value.to_pylist(), strict=True)))


A_RECORD = (b"key", bytes(range(64)))


@pytest.mark.parametrize(
    "changed",
    [
        (b"kez", A_RECORD[1]),
        (None, A_RECORD[1]),
        (b"", A_RECORD[1]),
        (A_RECORD[1], A_RECORD[0]),
        (b"key", A_RECORD[1] + b"\x00"),
        (b"key", A_RECORD[1][:-1]),
        (b"key", A_RECORD[1][8:16] + A_RECORD[1][:8] + A_RECORD[1][16:]),
        (b"key" + A_RECORD[1][:1], A_RECORD[1][1:]),
    ],
)
def test_a_change_shows(changed: tuple[bytes | None, bytes | None]) -> None:
    assert of_records([changed]) != of_records([A_RECORD])


def test_two_flipped_bits_show() -> None:
    """Also the top bits of two words, which a product alone would hide."""
    data = bytes(24)
    seen = set()
    bits = [64 * word + bit for word in range(3) for bit in (31, 32, 62, 63)]
    for one, other in combinations(bits, 2):
        changed = bytearray(data)
        changed[one // 8] ^= 1 << one % 8
        changed[other // 8] ^= 1 << other % 8
        seen.add(hash_of_record(None, bytes(changed)))
    assert len(seen) == 66
    assert hash_of_record(None, data) not in seen


def test_a_fingerprint_survives_being_written_down() -> None:
    found = of_records([A_RECORD])

    assert Fingerprint.from_hex(found.count, found.hex) == found
    assert len(EMPTY.hex) == 32


def test_moments_beyond_what_python_can_tell_are_hashed_within_values_too() -> None:
    """Of each row by itself: what stands beside it changes nothing."""
    seen = [0, -62_135_596_800_000_001, 253_402_300_800_000_000, 253_402_300_800_000_001, None]
    at = pa.array(seen, pa.timestamp("us", "UTC"))
    days = pa.array([0, -800_000, 2_932_897, 2_932_898, None], pa.int32()).cast(pa.date32())
    lists = pa.ListArray.from_arrays(pa.array(range(6), pa.int32()), at)
    maps = pa.MapArray.from_arrays(pa.array(range(6), pa.int32()), pa.array(["k"] * 5), at)
    structs = pa.StructArray.from_arrays([at, days, lists], ["at", "day", "deep"])

    for column in (lists, maps, structs, pa.StructArray.from_arrays([days], ["day"])):
        rows = pa.RecordBatch.from_arrays([column], ["v"])
        each = [of_rows(rows.slice(n, 1)) for n in range(5)]
        assert sum(each, EMPTY) == of_rows(rows)
        assert len({one.total for one in each}) == 5, column.type


def test_rows_that_have_changed_the_values_of_a_column_show() -> None:
    def of(*ids: int) -> Fingerprint:
        return of_rows(pa.record_batch({"id": ids, "name": ["a", "b"]}))

    assert of(1, 2) != of(2, 1)
