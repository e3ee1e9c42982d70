"""The first pass: of every key in the dirty part of a log, the offset of its last record."""

from odradek.log.compaction.offset_map import OffsetMap
from odradek.log.compaction.records import PIECE, Pause, no_pause, opened, places
from odradek.log.compaction.transactions import MetTransactions
from odradek.records.batch import BatchHeader, Buffer


def note_keys(
    offsets: OffsetMap,
    transactions: MetTransactions,
    header: BatchHeader,
    batch: Buffer,
    pause: Pause = no_pause,
    *,
    first_offset: int = 0,
) -> bool:
    """Puts the keys of a whole batch, or of its records from `first_offset` on: a log may begin within a batch. False: the map might
    not hold them, nothing was put, and the dirty part ends before it.

    Markers, records of aborted transactions and records without a key take no place of anything. CorruptBatch,
    InvalidRecord: the batch cannot be read.
    """
    if header.is_control:
        transactions.met_marker(header, batch)
        return True
    if transactions.met_batch(header) or not header.record_count:
        return True
    base_offset = header.base_offset
    if not offsets.has_room_for(min(header.record_count, header.next_offset - first_offset)):
        return False
    first_delta = first_offset - base_offset
    put = offsets.put
    for number, place in enumerate(places(opened(header, batch), header.record_count, pause)):
        if not number % PIECE:
            pause()
        key = place.key
        if key is not None and place.offset_delta >= first_delta:
            put(key, base_offset + place.offset_delta)
    return True
