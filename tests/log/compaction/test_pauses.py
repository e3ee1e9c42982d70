"""In the midst of a batch of many records whoever cleans lets others have the processor."""

from collections.abc import Callable

import pytest

from odradek.log.compaction.map_building import note_keys
from odradek.log.compaction.offset_map import OffsetMap
from odradek.log.compaction.records import PIECE, Pause, places
from odradek.log.compaction.rewriting import Rewriting
from odradek.log.compaction.transactions import MetTransactions
from odradek.records.batch import BATCH_OVERHEAD, read_header
from odradek.records.builder import NewRecord, build_batch

COUNT = 20 * PIECE
BATCH = memoryview(build_batch([NewRecord(b"key-%d" % (number % 50), b"v", 5) for number in range(COUNT)]))
HEADER = read_header(BATCH)


def _places(pause: Pause) -> None:
    places(bytes(BATCH[BATCH_OVERHEAD:]), COUNT, pause)


def _noted(pause: Pause) -> None:
    note_keys(OffsetMap(1 << 16, 0.9), MetTransactions(), HEADER, BATCH, pause)


def _rewritten(pause: Pause) -> None:
    offsets = OffsetMap(1 << 16, 0.9)
    note_keys(offsets, MetTransactions(), HEADER, BATCH)
    rewriting = Rewriting(
        offsets,
        end_offset=COUNT,
        now_ms=9,
        delete_retention_ms=1,
        last_entries={},
        last_below={},
        droppable_below=0,
        overdue_before_ms=0,
        pause=pause,
    )
    assert len(rewriting.rewritten(HEADER, BATCH)) < len(BATCH)


@pytest.mark.parametrize(("work", "loops"), [(_places, 1), (_noted, 2), (_rewritten, 2)])
def test_each_loop_over_the_records_of_a_batch_pauses_after_every_piece(
    work: Callable[[Pause], None], loops: int
) -> None:
    pauses = 0

    def pause() -> None:
        nonlocal pauses
        pauses += 1

    work(pause)

    assert pauses == loops * COUNT // PIECE
