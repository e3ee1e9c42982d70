"""Where the records of a batch that is to be rewritten stand; what none of them can be."""

import pytest

from odradek.log.compaction.records import places
from odradek.records.errors import InvalidRecord

# Size, attributes, timestamp and offset delta, key of one byte, no value, no headers; lengths in zigzag.
RECORD = bytes([14, 0, 0, 0, 2, ord("k"), 1, 0])


def test_records_fill_their_block() -> None:
    assert [(place.begin, place.end, place.key) for place in places(RECORD * 2, 2)] == [
        (0, 8, b"k"),
        (8, 16, b"k"),
    ]
    with pytest.raises(InvalidRecord, match="8 bytes behind the last of 1"):
        places(RECORD * 2, 1)


def test_a_record_whose_key_ends_behind_it_is_none_also_where_the_next_one_begins_at_its_end() -> None:
    cut_short = bytes([8, 0, 0, 0, 2])  # four bytes, and a key of one more

    with pytest.raises(InvalidRecord, match="record 0 of 2: 4 bytes long where 13 are left"):
        places(cut_short + RECORD, 2)
