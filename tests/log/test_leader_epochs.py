"""Where each epoch began, and the answer of KIP-279."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.leader_epochs import EpochEntry, LeaderEpochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(*entry) for entry in entries)


def test_an_epoch_is_assigned_once() -> None:
    known = epochs((0, 0), (2, 10))
    assert not known.assign(2, 10) and not known.assign(2, 15)
    assert known.assign(3, 15) and known.latest == 3
    assert not known.assign(-1, 20) and known.entries == [(0, 0), (2, 10), (3, 15)]


def test_an_epoch_with_no_records_gives_way_to_the_next() -> None:
    known = epochs((0, 0), (1, 10))
    assert known.assign(2, 10)
    assert known.entries == [(0, 0), (2, 10)]


def test_entries_that_contradict_a_new_one_go() -> None:
    known = epochs((0, 0), (2, 10), (5, 20))
    assert known.assign(3, 15)
    assert known.entries == [(0, 0), (2, 10), (3, 15)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),  # our own first epoch
        (1, (0, 10)),  # unknown between two: the one below
        (2, (2, 20)),
        (4, (2, 20)),
        (5, (5, 30)),  # the latest ends where the log does
        (6, (-1, -1)),  # larger than any
    ],
)
def test_the_leaders_answer(asked: int, answer: tuple[int, int]) -> None:
    assert epochs((0, 0), (2, 10), (5, 20)).end_offset(asked, 30) == answer


def test_an_epoch_from_before_the_log_begins_ends_where_the_log_begins() -> None:
    assert epochs((3, 100), (4, 120)).end_offset(1, 130) == (1, 100)
    assert epochs().end_offset(0, 130) == (-1, -1)


def test_cuts_at_both_ends() -> None:
    known = epochs((0, 0), (2, 10), (5, 20))
    assert known.truncate_from_end(20) and known.entries == [(0, 0), (2, 10)]
    assert not known.truncate_from_end(11)
    assert known.truncate_from_start(4) and known.entries == [(0, 4), (2, 10)]
    assert not known.truncate_from_start(4)
    assert known.truncate_from_start(10) is True and known.entries == [(2, 10)]
    assert known.truncate_from_start(15) and known.entries == [(2, 15)]


@pytest.mark.parametrize("start", range(32))
def test_what_is_deleted_from_the_start_changes_no_epoch_of_what_is_left(start: int) -> None:
    whole = epochs((0, 2), (2, 10), (5, 20), (6, 30))
    known = LeaderEpochs(whole.entries)

    assert known.truncate_from_start(start) is (start > 2)

    first = max(start, 2)
    assert known.entries == [
        (whole.epoch_at(first), first),
        *(entry for entry in whole.entries if entry.start_offset > first),
    ]


@pytest.mark.parametrize("end", range(32))
def test_what_is_cut_off_changes_no_epoch_of_what_is_left(end: int) -> None:
    whole = epochs((0, 2), (2, 10), (5, 20), (6, 30))
    known = LeaderEpochs(whole.entries)

    assert known.truncate_from_end(end) is (end <= 30)

    assert known.entries == [entry for entry in whole.entries if entry.start_offset < end]


def test_the_epoch_at_an_offset() -> None:
    known = epochs((0, 5), (2, 10))
    assert [known.epoch_at(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 0, 0, 2, 2]


class Counted(list[EpochEntry]):
    """Counts the entries that are looked at."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        self.looks += 1
        return super().__getitem__(at)

    def __reversed__(self) -> Iterator[EpochEntry]:
        for at in range(len(self) - 1, -1, -1):
            yield self[at]


@pytest.mark.parametrize("asked", [0, 1, 49_999, 99_998])
def test_of_many_epochs_few_are_looked_at(asked: int) -> None:
    """A request asks this of each of its partitions."""
    known = LeaderEpochs()
    known.entries = Counted(EpochEntry(2 * n, 10 * n) for n in range(50_000))
    expected = (asked // 2 * 2, 10 * (asked // 2 + 1) if asked < 99_998 else 600_000)

    assert known.end_offset(asked, 600_000) == expected
    assert known.epoch_at(5 * asked) == asked // 2 * 2
    assert known.entries.looks < 50


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), max_size=20))
def test_epochs_and_offsets_always_rise_together(assigned: list[tuple[int, int]]) -> None:
    known = LeaderEpochs()
    for epoch, offset in assigned:
        known.assign(epoch, offset)
        assert all(
            a.epoch < b.epoch and a.start_offset < b.start_offset
            for a, b in zip(known.entries, known.entries[1:], strict=False)
        )
        assert known.latest == known.entries[-1].epoch
