"""Files = topic = table: a comparison that can fail."""

import pyarrow as pa
import pyarrow.parquet
import pytest
from deltalake import write_deltalake

from odradek.demo.proof import Proof, census, census_of_table, difference

RECORDS = [(b"k%d" % (n % 7), b"value %d" % n) for n in range(1000)]


def proof_of(topic, table):
    places = census(RECORDS), census(topic), census(table)
    return Proof(*places, *difference(places[0], places[1]), *difference(places[1], places[2]))


def test_the_same_records_in_any_order_are_equal():
    proof = proof_of(RECORDS[::-1], RECORDS[500:] + RECORDS[:500])
    assert proof.holds
    assert (proof.lost, proof.doubled) == (0, 0)
    assert proof.files.count == 1000


@pytest.mark.parametrize(
    ("topic", "table", "lost", "doubled"),
    [
        (RECORDS[1:], RECORDS[1:], 1, 0),
        (RECORDS, RECORDS[:-2], 2, 0),
        (RECORDS + RECORDS[:3], RECORDS + RECORDS[:3], 0, 3),
        (RECORDS, RECORDS + RECORDS[7:8], 0, 1),
        # One lost and one doubled: the counts agree, the hashes do not.
        (RECORDS, RECORDS[1:] + RECORDS[5:6], 1, 1),
        # Another value, another key, a key that is null instead of empty.
        (RECORDS, [(b"k0", b"value X"), *RECORDS[1:]], 1, 1),
        (RECORDS, [(b"k1", b"value 0"), *RECORDS[1:]], 1, 1),
        (RECORDS, [(None, b"value 0"), *RECORDS[1:]], 1, 1),
    ],
)
def test_what_is_lost_and_what_is_doubled_is_counted_record_by_record(topic, table, lost, doubled):
    proof = proof_of(topic, table)
    assert not proof.holds
    assert (proof.lost, proof.doubled) == (lost, doubled)


def test_a_record_that_is_twice_in_the_files_may_be_twice_in_the_table():
    twice = [*RECORDS, RECORDS[0]]
    first, second = census(twice), census([RECORDS[0], *RECORDS])
    assert difference(first, second) == (0, 0)
    assert first.fingerprint == second.fingerprint


def test_nothing_equals_nothing():
    assert difference(census([]), census([])) == (0, 0)
    assert difference(census(RECORDS), census([])) == (1000, 0)


def test_a_delta_table_is_counted_by_its_own_list_of_files(tmp_path):
    keys, values = zip(*RECORDS, strict=True)
    table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
    write_deltalake(str(tmp_path / "t"), table)
    # A file nobody committed: what a killed driver leaves behind.
    pyarrow.parquet.write_table(table, tmp_path / "t" / "part-orphan.parquet")
    found = census_of_table(tmp_path / "t")
    assert found.count == 1000
    assert found.fingerprint == census(RECORDS).fingerprint
