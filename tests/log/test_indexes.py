"""Index files as bytes."""

from struct import Struct

from hypothesis import given
from hypothesis import strategies as st

from odradek.log.indexes import TimeIndex
from tests.executed_lines import lines_of

ENTRY = Struct(">qi")


@given(
    st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**31 - 1)), max_size=20),
    st.binary(max_size=11),
)
def test_a_time_index_is_its_entries_one_behind_the_other(
    entries: list[tuple[int, int]], torn: bytes
) -> None:
    data = b"".join(ENTRY.pack(*entry) for entry in entries)
    index = TimeIndex.from_bytes(data + torn)
    assert index.to_bytes() == data
    assert index.last() == (entries[-1] if entries else (-1, 0))


def test_a_full_time_index_is_read_and_written_by_no_step_an_entry() -> None:
    """A segment of a gigabyte has 262,144, written in the turn in which it is rolled."""
    few, many = (b"".join(ENTRY.pack(n, n) for n in range(count)) for count in (10, 1_000))
    assert lines_of(lambda: TimeIndex.from_bytes(few)) == lines_of(lambda: TimeIndex.from_bytes(many))
    assert TimeIndex.from_bytes(many).to_bytes() == many
