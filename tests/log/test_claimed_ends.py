"""Batches whose last offset delta is not what was written: a reader hears of it, and is neither left waiting nor led past records."""

from itertools import product

from odradek.log.errors import CorruptLog
from odradek.log.partition_log import PartitionLog
from odradek.records.batch import ATTRIBUTES_OFFSET, check_crc, iter_batches
from tests.log.logs import TP, batch, follow
from tests.log.test_scrubbing import flip, log_of
from tests.support import each

LAST_OFFSET_DELTA_OFFSET = ATTRIBUTES_OFFSET + 2
BATCHES, RECORDS = 4, 2
END = BATCHES * RECORDS


def what_comes(log: PartitionLog, offset: int, upper: int) -> str:
    """Of a read of a record that lies below the upper bound."""
    try:
        read = log.read(offset, max_bytes=1 << 20, upper_bound_offset=upper)
    except CorruptLog:
        log.failure = None
        return "told"
    data = b"".join(piece.read() for piece in read.slices)
    if not data:
        return "nothing"
    _, header = next(iter_batches(data))
    if not check_crc(memoryview(data), 0, header):
        return "told by the checksum"
    return "it" if header.base_offset <= offset <= header.last_offset else "another"


@each(product([1 << 20, 450], [1, 1 << 20], [False, True]))
def test_whoever_asks_for_a_record_at_or_behind_a_damaged_batch_hears_of_it(
    segment_bytes: int, index_interval_bytes: int, may_have_gaps: bool
) -> None:
    """Seed 543: a batch that seemed to reach beyond all others hid them. And one that ended too early sent readers on."""
    disk, log = log_of(
        BATCHES, records=RECORDS, segment_bytes=segment_bytes, index_interval_bytes=index_interval_bytes
    )
    if may_have_gaps:
        log.note_gaps()
    files = [(f"{TP}/{segment.name()}", segment) for segment in log.segments]
    deltas = [
        (name.partition("/")[2], 8 * (position + LAST_OFFSET_DELTA_OFFSET))
        for name, _ in files
        for position, _ in iter_batches(bytes(disk.contents(name)))
    ]
    assert len(deltas) == BATCHES and len(files) == (1 if segment_bytes > 450 else 2)
    heard = set()
    for (name, first), bit in product(deltas, range(32)):
        flip(disk, name, first + bit)
        for offset in range(END):
            for upper in range((offset // RECORDS + 1) * RECORDS, END + 1, RECORDS):
                for _, segment in files:
                    segment.positions.clear()  # as behind a start
                heard.add(comes := what_comes(log, offset, upper))
                assert comes not in ("nothing", "another"), (name, first, bit, offset, upper)
        flip(disk, name, first + bit)
    assert heard == {"it", "told", "told by the checksum"}


def test_a_reader_in_a_gap_below_the_upper_bound_waits_and_hears_of_no_damage() -> None:
    _, log = log_of(0, cleanup_policy="compact", segment_bytes=1 << 20)
    follow(log, batch(2, base_offset=0, leader_epoch=0) + batch(2, base_offset=7, leader_epoch=0))
    log.segments.active.positions.clear()
    assert log.read(3, max_bytes=1 << 20, upper_bound_offset=5).slices == []
    assert log.read(3, max_bytes=1 << 20, upper_bound_offset=8).slices == []
    assert log.failure is None
