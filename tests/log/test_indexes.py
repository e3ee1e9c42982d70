"""The index files by themselves, each question held to a walk over all entries."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log import indexes
from odradek.log.files import File
from odradek.log.indexes import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    TRANSACTION_ENTRY,
    AbortedTransaction,
    OffsetIndex,
    TimeIndex,
    TransactionIndex,
    ceiling_in_file,
    floor_in_file,
    floor_offset_in_file,
    last_in_file,
    transaction_to_bytes,
)
from odradek.log.memory_files import MemoryDisk
from tests.executed_lines import lines_of

Entries = list[tuple[int, int]]
NOTHING = (-1, 0)
EVEN = [(n * 10 + 9, n * 100) for n in range(1, 40)]
UNEVEN = [(9, 100), (10, 101), (11, 102), (900, 103), (901, 5000), (905, 5001), (1000, 9000)]
MANY = [EVEN, UNEVEN, EVEN[:1], []]


def of(entries: Entries) -> OffsetIndex:
    index = OffsetIndex()
    for entry in entries:
        index.append(*entry)
    return index


def times(entries: Entries) -> TimeIndex:
    index = TimeIndex()
    for entry in entries:
        index.maybe_append(*entry)
    return index


def file_with(data: bytes) -> File:
    file = MemoryDisk().root.open("x", create=True)
    file.append(data)
    return file


def floor(entries: Entries, key: int) -> tuple[int, int]:
    return max((entry for entry in entries if entry[0] <= key), default=NOTHING)


def ceiling(entries: Entries, position: int) -> tuple[int, int]:
    return min((entry for entry in entries if entry[1] >= position), default=NOTHING)


def around(numbers: list[int]) -> list[int]:
    return sorted({near for number in numbers for near in (number - 1, number, number + 1)} | {0, 1 << 30})


@pytest.mark.parametrize("entries", MANY, ids=len)
def test_offsets_and_positions_are_found_as_by_a_walk(entries: Entries) -> None:
    index = of(entries)
    for offset in around([entry[0] for entry in entries]):
        assert index.floor(offset) == floor(entries, offset)
    for position in around([entry[1] for entry in entries]):
        assert index.ceiling(position) == ceiling(entries, position)
    assert index.last() == (entries[-1] if entries else NOTHING)
    assert len(index) == len(entries)


@pytest.mark.parametrize("block", [1, 2, 3, 512])
@pytest.mark.parametrize("entries", MANY, ids=len)
def test_a_file_answers_as_the_index_in_memory(
    monkeypatch: pytest.MonkeyPatch, entries: Entries, block: int
) -> None:
    """However many entries are read at once, and whether offsets rise evenly or not."""
    monkeypatch.setattr(indexes, "BLOCK_ENTRIES", block)
    data = b"".join(OFFSET_ENTRY.pack(*entry) for entry in entries)
    assert of(entries).to_bytes() == data
    file = file_with(data)
    for offset in around([entry[0] for entry in entries]):
        for end in (0, 1, 400, 1001):
            assert floor_offset_in_file(file, offset, end) == floor(entries, offset)
        assert floor_in_file(file, OFFSET_ENTRY, offset) == floor(entries, offset)
    for position in around([entry[1] for entry in entries]):
        assert ceiling_in_file(file, position) == ceiling(entries, position)
    assert last_in_file(file, OFFSET_ENTRY) == (entries[-1] if entries else NOTHING)


def test_an_even_index_is_asked_with_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "BLOCK_ENTRIES", 8)
    file = file_with(of(EVEN).to_bytes())
    reads: list[tuple[int, int]] = []
    read_at = type(file).read_at
    monkeypatch.setattr(
        type(file), "read_at", lambda f, at, size: (reads.append((at, size)), read_at(f, at, size))[1]
    )
    for offset, _ in EVEN:
        reads.clear()
        floor_offset_in_file(file, offset, EVEN[-1][0] + 1)
        assert len(reads) == 1 and reads[0][1] == 8 * OFFSET_ENTRY.size


@pytest.mark.parametrize("rest", [b"", b"\0", b"\xff" * 7])
def test_what_is_less_than_an_entry_is_left_out(rest: bytes) -> None:
    assert OffsetIndex.from_bytes(of(UNEVEN).to_bytes() + rest).to_bytes() == of(UNEVEN).to_bytes()
    known = times(UNEVEN)
    assert TimeIndex.from_bytes(known.to_bytes() + rest).to_bytes() == known.to_bytes()


def test_a_cut_takes_the_entries_from_a_position_or_an_offset_on() -> None:
    for position in around([entry[1] for entry in UNEVEN]):
        index = of(UNEVEN)
        index.truncate(position)
        assert index.to_bytes() == of([entry for entry in UNEVEN if entry[1] < position]).to_bytes()
    for offset in around([entry[1] for entry in UNEVEN]):
        known, left = times(UNEVEN), times([entry for entry in UNEVEN if entry[1] < offset])
        known.truncate(offset)
        for one in (known, left):
            one.maybe_append(2000, 20_000)
        assert known.to_bytes() == left.to_bytes() and known.last() == (2000, 20_000)


@pytest.mark.parametrize(
    ("entries", "is_sane"),
    [
        ([], True),
        ([(0, 1)], True),
        ([(5, 100), (6, 200)], True),
        ([(0, 0)], False),  # the first batch has no entry
        ([(-1, 1)], False),
        ([(5, 100), (5, 200)], False),
        ([(6, 100), (5, 200)], False),
        ([(5, 100), (6, 100)], False),
        ([(5, 200), (6, 100)], False),
        ([(5, 100), (0, 0)], False),
    ],
)
def test_an_offset_index_rises_strictly(entries: Entries, is_sane: bool) -> None:
    assert of(entries).is_sane() is is_sane


@pytest.mark.parametrize(
    ("entries", "is_sane"),
    [
        ([], True),
        ([(0, 0)], True),
        ([(5, 0), (6, 1)], True),
        ([(-1, 0)], False),
        ([(0, -1)], False),
        ([(5, 0), (5, 1)], False),
        ([(6, 0), (5, 1)], False),
        ([(5, 1), (6, 1)], False),
        ([(5, 2), (6, 1)], False),
    ],
)
def test_a_time_index_rises_strictly(entries: Entries, is_sane: bool) -> None:
    data = b"".join(TIME_ENTRY.pack(*entry) for entry in entries)

    assert TimeIndex.from_bytes(data).is_sane() is is_sane


@given(st.lists(st.tuples(st.integers(-2, 20), st.integers(0, 20)), max_size=6))
def test_a_time_index_takes_what_moves_time_on_and_no_more(batches: Entries) -> None:
    index = times(batches)

    entries = list(TIME_ENTRY.iter_unpack(index.to_bytes()))
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(entries)) and index.is_sane()
    assert set(entries) <= {batch for batch in batches if batch[0] >= 0}
    if [offset for _, offset in batches] == sorted({offset for _, offset in batches}):
        newest = max((timestamp for timestamp, _ in batches), default=-1)
        assert index.last()[0] == max(newest, -1), "where offsets rise it knows the largest"
    assert index.last() == (entries[-1] if entries else NOTHING)
    for timestamp in range(-1, 22):
        assert index.floor(timestamp) == floor(entries, timestamp)  # type: ignore[arg-type]


def test_aborted_transactions_are_read_as_they_were_written_and_a_torn_last_one_is_left_out() -> None:
    written = [AbortedTransaction(7, 10, 20, 15), AbortedTransaction(1 << 40, 30, 40, 35)]
    data = b"".join(map(transaction_to_bytes, written))

    assert list(TransactionIndex.from_bytes(data)) == written
    assert len(data) == 2 * TRANSACTION_ENTRY.size and data[:2] == b"\0\0"
    for cut in range(1, TRANSACTION_ENTRY.size):
        assert list(TransactionIndex.from_bytes(data[:-cut])) == written[:1]


def aborts(producers: list[int]) -> list[AbortedTransaction]:
    """A record or the end of each producer's transaction, one after the other, as a log would note them."""
    begun: dict[int, int] = {}
    entries = []
    for offset, producer in enumerate(producers):
        if producer not in begun:
            begun[producer] = offset
        else:
            first = begun.pop(producer)
            entries.append(
                AbortedTransaction(producer, first, offset, next(iter(begun.values()), offset + 1))
            )
    return entries


@given(st.lists(st.integers(0, 3), max_size=24))
def test_aborted_transactions_are_found_as_by_a_walk_until_one_says_that_all_was_decided(
    producers: list[int],
) -> None:
    entries = aborts(producers)
    index = TransactionIndex(entries)
    assert list(index) == entries and [index[at] for at in range(len(index))] == entries
    for offset in range(len(producers) + 2):
        assert list(index.below(offset)) == [entry for entry in entries if entry.last_offset < offset]
        for upper_bound in range(offset, len(producers) + 2):
            found, is_decided = [], False
            for entry in entries:
                if entry.last_offset >= offset and not is_decided:
                    if entry.first_offset < upper_bound:
                        found.append(entry)
                    is_decided = entry.last_stable_offset >= upper_bound
            assert index.between(offset, upper_bound) == (found, is_decided)


def test_no_python_code_runs_for_each_aborted_transaction_that_is_read() -> None:
    """A transactional index of a hundred thousand is read in the turn in which a reader asks for the first time."""
    few, many = (aborts([0] * count) for count in (20, 2000))
    lines = []
    for entries in (few, many):
        data = b"".join(map(transaction_to_bytes, entries))
        lines.append(lines_of(lambda data=data: TransactionIndex.from_bytes(data).between(0, 1)))
    assert lines[0] == lines[1]


@given(
    st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1)), max_size=20),
    st.binary(max_size=11),
)
def test_a_time_index_is_its_entries_one_behind_the_other(
    entries: list[tuple[int, int]], torn: bytes
) -> None:
    data = b"".join(TIME_ENTRY.pack(*entry) for entry in entries)
    index = TimeIndex.from_bytes(data + torn)
    assert index.to_bytes() == data
    assert index.last() == (entries[-1] if entries else (-1, 0))


def test_a_full_time_index_is_read_and_written_by_no_step_an_entry() -> None:
    """A segment of a gigabyte has 262,144, written in the turn in which it is rolled."""
    few, many = (b"".join(TIME_ENTRY.pack(n, n) for n in range(count)) for count in (10, 1_000))
    assert lines_of(lambda: TimeIndex.from_bytes(few)) == lines_of(lambda: TimeIndex.from_bytes(many))
    assert TimeIndex.from_bytes(many).to_bytes() == many
