"""What observers read of a simulated disk."""

from types import SimpleNamespace

import pytest

from odradek.records.batch import MAGIC_OFFSET
from odradek.records.builder import NewRecord, build_batch
from odradek.records.errors import CorruptBatch
from odradek.sim.observed.log_files import newest_ms

FILE = build_batch([NewRecord(None, b"v", 7)]) + build_batch([NewRecord(None, b"v", 3)], base_offset=1)


def test_the_newest_record_of_a_segment_is_that_with_the_largest_timestamp() -> None:
    assert newest_ms(SimpleNamespace(data=FILE)) == 7
    assert newest_ms(None) == newest_ms(SimpleNamespace(data=b"")) == -1


@pytest.mark.parametrize("damaged", [MAGIC_OFFSET, len(FILE) - 1], ids=["the magic", "a record"])
def test_whatever_a_disk_has_damaged_it_is_damage(damaged: int) -> None:
    """A magic of 0 is that of an old format elsewhere: here the observer fell over it, and its broker with it (seed 2457)."""
    data = bytearray(FILE)
    data[damaged] = 0 if damaged == MAGIC_OFFSET else data[damaged] ^ 1
    with pytest.raises(CorruptBatch):
        newest_ms(SimpleNamespace(data=data))
