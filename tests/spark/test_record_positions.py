"""Where records begin: the fast walk equals the plain one, and neither believes what it is told."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.records.batch import BATCH_OVERHEAD, iter_batches
from odradek.records.builder import NewRecord, build_batch
from odradek.records.errors import CorruptBatch
from odradek.spark import record_positions
from odradek.spark.record_positions import (
    Bytes,
    Positions,
    record_starts,
    starts_in_lockstep,
    starts_one_by_one,
)
from tests.spark.both_ways import WAYS, both_ways, drawn_once, going  # noqa: F401

Batches = tuple[Bytes, Positions, Positions, Positions]


def borders(log: bytes) -> Batches:
    found = list(iter_batches(log))
    return (
        np.frombuffer(log, np.uint8),
        np.array([position + BATCH_OVERHEAD for position, _ in found], dtype=np.int64),
        np.array([position + header.size_bytes for position, header in found], dtype=np.int64),
        np.array([header.record_count for _, header in found], dtype=np.int64),
    )


def a_log(sizes: list[int], value_of: object) -> bytes:
    return b"".join(build_batch([NewRecord(None, value_of(n)) for n in range(size)]) for size in sizes)  # type: ignore[operator]


values = st.binary(max_size=30) | st.binary(min_size=60, max_size=300) | st.sampled_from([b"", b"\x00" * 20])
batches = st.lists(st.lists(values, max_size=30), min_size=1, max_size=8)


@drawn_once
@settings(max_examples=200, deadline=None)
@given(batches)
def test_the_fast_walk_finds_what_the_plain_one_finds(content: list[list[bytes]]) -> None:
    log = borders(b"".join(build_batch([NewRecord(None, v) for v in batch]) for batch in content))
    expected = starts_one_by_one(*log).tolist()

    for way in WAYS:
        with going(way), pytest.MonkeyPatch.context() as patch:
            for chain_records in (1, 3, 100):
                patch.setattr(record_positions, "CHAIN_RECORDS", chain_records)
                found = starts_in_lockstep(*log)
                # A guess may be wrong with chains this short; then nothing is claimed.
                assert found is None or found.tolist() == expected, way
            assert found is not None and found.tolist() == expected, "no batch is long enough for a guess"


@pytest.mark.parametrize("sizes", [[9000], [1000, 3, 2500, 0, 1], [150] * 60])
@pytest.mark.parametrize("kind", ["random", "text", "same"])
def test_long_batches_are_walked_in_lockstep(sizes: list[int], kind: str) -> None:
    chance = random.Random(5)
    value_of = {
        "random": lambda n: chance.randbytes(chance.randint(50, 150)),
        "text": lambda n: b"2013,1,%d,517,515,UA,N14228,EWR" % n * chance.randint(1, 3),
        "same": lambda n: b"x" * 100,
    }[kind]
    log = borders(a_log(sizes, value_of))

    found = starts_in_lockstep(*log)

    assert found is not None, "no guess was wrong"
    assert found.tolist() == starts_one_by_one(*log).tolist() == record_starts(*log).tolist()


@drawn_once
@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([8, 9, 40, 57, 200]), max_size=4), min_size=1, max_size=6), st.randoms()
)
def test_runs_of_records_of_one_size_are_found_as_the_plain_walk_finds_them(
    content: list[list[int]], chance: random.Random
) -> None:
    """Up to 70 of a size: more than a step looks at, and beyond a delta of two bytes."""
    runs = [[b"x" * size for size in sizes for _ in range(chance.randint(1, 70))] for sizes in content]
    log = borders(b"".join(build_batch([NewRecord(None, v) for v in batch]) for batch in runs))

    expected = starts_one_by_one(*log).tolist()

    for way in WAYS:
        with going(way):
            found = starts_in_lockstep(*log)
            assert found is not None and found.tolist() == expected, way


def test_records_of_one_size_are_passed_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    log = borders(a_log([150] * 60, lambda n: b"x" * 100))
    steps: list[int] = []
    varints = record_positions.varints

    def counting(data: Bytes, at: Positions, *, strict: bool = True) -> tuple[Positions, Positions]:
        steps.append(len(at))
        return varints(data, at, strict=strict)

    monkeypatch.setattr(record_positions, "varints", counting)
    found = starts_in_lockstep(*log)

    assert found is not None and len(found) == 150 * 60
    assert len(steps) <= 8, "one by one it would be 150"


def test_records_that_differ_are_looked_at_in_advance_once(monkeypatch: pytest.MonkeyPatch) -> None:
    log = borders(a_log([150] * 60, lambda n: b"x" * (50 + n % 7)))
    looked: list[int] = []
    past_runs = record_positions._past_runs

    def counting(data: Bytes, position: Positions, *rest: Positions) -> tuple[Positions, Positions]:
        looked.append(len(position))
        return past_runs(data, position, *rest)

    monkeypatch.setattr(record_positions, "_past_runs", counting)
    found = starts_in_lockstep(*log)

    assert found is not None and len(looked) == 1


def test_values_that_look_like_records_do_not_mislead() -> None:
    """Each value is a batch of its own, so what looks like a start of a record often is one, of another log."""
    inner = a_log([40], lambda n: b"inner %d" % n)
    log = borders(a_log([300] * 4, lambda n: inner[n % 50 :] if n % 3 else b"plain"))

    assert record_starts(*log).tolist() == starts_one_by_one(*log).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_positions, "LARGEST_RECORDS", 10**6)
        assert record_starts(*log).tolist() == starts_one_by_one(*log).tolist()


def test_offset_gaps_as_compaction_leaves_them_do_not_matter() -> None:
    records = [NewRecord(None, b"%d" % n * 10, offset_delta=3 * n) for n in range(8000)]
    log = borders(build_batch(records))

    assert record_starts(*log).tolist() == starts_one_by_one(*log).tolist()


@pytest.mark.parametrize("sizes", [[20], [150] * 60])
@pytest.mark.parametrize("wrong", [-1, 1])
def test_a_count_that_is_not_met_is_corrupt(sizes: list[int], wrong: int) -> None:
    data, begins, ends, counts = borders(a_log(sizes, lambda n: b"x" * 30))
    counts[len(counts) // 2] += wrong

    with pytest.raises(CorruptBatch):
        record_starts(data, begins, ends, counts)


def test_a_count_is_met_by_its_own_batch_and_not_by_another() -> None:
    """A record that is counted with the batch before would have an offset of that."""
    data, begins, ends, counts = borders(a_log([2] * 200, lambda n: b"x" * 30))
    counts[5], counts[6] = 3, 1

    with pytest.raises(CorruptBatch):
        record_starts(data, begins, ends, counts)


@pytest.mark.parametrize("sizes", [[20, 3], [150] * 60])
def test_a_batch_that_claims_to_be_empty_and_is_not_is_corrupt(sizes: list[int]) -> None:
    data, begins, ends, counts = borders(a_log(sizes, lambda n: b"x" * 30))
    counts[1] = 0

    with pytest.raises(CorruptBatch, match="more bytes than the records its header counts"):
        record_starts(data, begins, ends, counts)


@pytest.mark.parametrize("count", [-1, 10**9])
def test_an_absurd_count_is_refused_before_anything_is_allocated(count: int) -> None:
    data, begins, ends, _ = borders(a_log([3], lambda n: b"x"))

    with pytest.raises(CorruptBatch, match="more records than its bytes can hold"):
        record_starts(data, begins, ends, np.array([count]))


def test_a_wrong_guess_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven bytes that are a whole record stand at the end of one: from there the walk meets the next start too."""
    false_record = b"\x0c\x00\x00\x00\x01\x01"  # its last byte is the outer record's number of headers
    log = a_log([9000], lambda n: b"x" * 40 + false_record if n == 4000 else b"x" * 40)
    data, begins, ends, counts = borders(log)
    guess = log.index(false_record)
    monkeypatch.setattr(record_positions, "_guesses", lambda *_: np.array([guess]))

    assert starts_in_lockstep(data, begins, ends, counts) is None
    assert starts_in_lockstep(data, begins, ends, counts + 1) is None, "although the numbers would be right"


def test_a_guess_that_meets_nonsense_is_no_fault_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    nonsense = b"\xff" * 20
    log = a_log([9000], lambda n: nonsense if n == 4000 else b"x" * 40)
    monkeypatch.setattr(record_positions, "_guesses", lambda *_: np.array([log.index(nonsense)]))
    monkeypatch.setattr(record_positions, "FEWEST_CHAINS", 1)

    assert len(record_starts(*borders(log))) == 9000


@pytest.mark.parametrize(
    "length", [b"\xfe" + b"\xff" * 8 + b"\x01", b"\xff" * 12, b"\xfe" + b"\xff" * 7 + b"\x7f"]
)
def test_a_length_that_overflows_is_corrupt_and_ends_the_walk(length: bytes) -> None:
    """A position that wraps around would begin again at the front, for ever."""
    log = a_log([12_000], lambda n: b"x" * 30)[BATCH_OVERHEAD:]
    data, begins, ends = np.frombuffer(log, np.uint8), np.array([0]), np.array([len(log)])
    starts = starts_one_by_one(data, begins, ends, np.array([12_000]))
    damaged = bytearray(log)
    damaged[starts[6_000] : starts[6_000] + len(length)] = length

    with pytest.raises(CorruptBatch):
        record_starts(np.frombuffer(bytes(damaged), np.uint8), begins, ends, np.array([12_000]))


@drawn_once
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_lengths_are_corrupt_or_walked_alike(data: st.DataObject) -> None:
    damaged = bytearray(a_log([60] * 3, lambda n: b"%d" % n * 5))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(BATCH_OVERHEAD, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    log = borders(a_log([60] * 3, lambda n: b"%d" % n * 5))
    log = (np.frombuffer(bytes(damaged), np.uint8), *log[1:])
    try:
        expected: list[int] | None = starts_one_by_one(*log).tolist()
    except CorruptBatch:
        expected = None

    for way in WAYS:
        with going(way), pytest.MonkeyPatch.context() as patch:
            patch.setattr(record_positions, "CHAIN_RECORDS", 10)
            found = starts_in_lockstep(*log)
            assert found is None or found.tolist() == expected, way


@pytest.mark.parametrize("kind", [b"%d", b"x" * 40, b"{'n': %d, 'text': 'some of the same'}"])
@pytest.mark.parametrize("most", [10**9, 150, 7_777])
def test_the_whole_records_of_a_part_of_a_batch_are_found_in_lockstep_too(
    kind: bytes, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = a_log([9_000], lambda n: kind % n if b"%" in kind else kind)
    expected = starts_one_by_one(*borders(log)).tolist()
    walked_one_by_one: list[int] = []
    whole_one_by_one = record_positions._whole_one_by_one

    def counting(data: bytearray, begin: int, end: int, most: int) -> tuple[Positions, int]:
        found = whole_one_by_one(data, begin, end, most)
        walked_one_by_one.append(len(found[0]))
        return found

    monkeypatch.setattr(record_positions, "_whole_one_by_one", counting)
    for end in (len(log), len(log) - 10, expected[8_000]):
        walked_one_by_one.clear()
        starts, after = record_positions.whole_records(bytearray(log), BATCH_OVERHEAD, end, most)

        borders_of_all = [*expected, len(log)]
        count = min(most, sum(1 for b in borders_of_all[1:] if b <= end))
        assert starts.tolist() == expected[:count]
        assert after == borders_of_all[count]
        if most > 7_000:
            assert sum(walked_one_by_one) < 500, "all but the first and the last few are walked in lockstep"


def test_a_guess_that_is_none_costs_no_record_of_a_part_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    log = a_log([9_000], lambda n: b"x" * 30)
    expected = starts_one_by_one(*borders(log)).tolist()
    monkeypatch.setattr(record_positions, "_guesses", lambda *_: np.array([expected[4_000] + 1]))

    starts, after = record_positions.whole_records(bytearray(log), BATCH_OVERHEAD, len(log), 10**9)

    assert (starts.tolist(), after) == (expected, len(log))
