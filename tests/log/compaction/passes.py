"""Both passes over segments that are bytes, as the cleaner makes them over files."""

from collections.abc import Mapping
from typing import NamedTuple

from odradek.log.compaction.map_building import note_keys
from odradek.log.compaction.offset_map import OffsetMap
from odradek.log.compaction.rewriting import LastEntry, Rewriting
from odradek.log.compaction.transactions import MetTransactions
from odradek.log.indexes import AbortedTransaction
from odradek.records.batch import iter_batches

NOBODY: Mapping[int, LastEntry] = {}
EVERYWHERE = 2**63 - 1


class Cleaned(NamedTuple):
    data: bytes
    end_offset: int  # what is below it was cleaned
    still_aborted: list[AbortedTransaction]


def clean(
    data: bytes,
    *,
    first_dirty: int = 0,
    now_ms: int = 0,
    delete_retention_ms: int = 1000,
    last_entries: Mapping[int, LastEntry] = NOBODY,
    droppable_below: int = EVERYWHERE,
    overdue_before_ms: int = -1,
    aborted: list[AbortedTransaction] | None = None,
    offsets: OffsetMap | None = None,
) -> Cleaned:
    """What is left of the batches of one segment, which may all be cleaned, as far as the map reaches."""
    offsets = OffsetMap(24 * 1000, 0.9) if offsets is None else offsets
    seen = MetTransactions()
    seen.add(aborted or [])
    end_offset = first_dirty
    last_below: dict[int, int] = {}
    for position, header in iter_batches(data):
        if header.next_offset <= first_dirty:
            continue
        if not note_keys(offsets, seen, header, data[position : position + header.size_bytes]):
            break
        end_offset = header.next_offset
        if header.producer_id in last_entries:
            last_below[header.producer_id] = header.last_offset
    rewriting = Rewriting(
        offsets,
        end_offset=end_offset,
        now_ms=now_ms,
        delete_retention_ms=delete_retention_ms,
        last_entries=last_entries,
        last_below=last_below,
        droppable_below=droppable_below,
        overdue_before_ms=overdue_before_ms,
    )
    rewriting.segment_end = max((header.next_offset for _, header in iter_batches(data)), default=0)
    rewriting.transactions.add(aborted or [])
    left = [
        bytes(rewriting.rewritten(header, data[position : position + header.size_bytes]))
        for position, header in iter_batches(data)
    ]
    return Cleaned(b"".join(left), end_offset, rewriting.transactions.take_still_aborted())
