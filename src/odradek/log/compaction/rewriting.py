"""The second pass: one batch in, what stays of it out. It decides by the offset map, by transactions, and by the clock.

| what | what becomes of it |
|---|---|
| a record that is not the last of its key | goes |
| a record above the map's end | stays: what is there was not looked at |
| a record without a key | goes: it is from before the topic was compacted |
| a tombstone, the last of its key | stays until the horizon of its batch, which the first cleaning sets (KIP-534), and until every replica has passed it |
| a batch of an aborted transaction | goes at once |
| a marker | `transactions.py` |
| a batch with the last sequence of a producer that the log knows | stays, if need be without records |
| the last batch below the map's end of such a producer whose last sequence is behind it | stays alike: what is not committed may be cut off yet. None was met in what is cleaned for the first time: each of its batches |
| the last batch of a segment that is made | stays, if need be without records, or the log could end earlier (KAFKA-17076) |

Offsets, timestamps, producer, sequence and leader epoch of what stays never change. A batch in which all stays is copied byte for byte.
"""

from collections.abc import Mapping
from typing import NamedTuple

from odradek.log.compaction.offset_map import OffsetMap
from odradek.log.compaction.records import PIECE, Pause, Place, no_pause, opened, places
from odradek.log.compaction.transactions import MetTransactions
from odradek.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
)
from odradek.records.builder import append_varint, batch_bytes
from odradek.records.compression import compress
from odradek.records.reader import wrapped


class LastEntry(NamedTuple):
    """What the log knows of a producer; `last_data_offset` is -1 where its last entry is a marker."""

    last_data_offset: int
    producer_epoch: int


NO_END = -1  # the last batch comes later


class Rewriting:
    """One pass over the batches of a log, in their order, from its start on.

    `segment_end` is where the last batch ends of the segment that is being made: that batch stays.
    """

    __slots__ = (
        "_delete_retention_ms",
        "_droppable_below",
        "_end_offset",
        "_last_below",
        "_last_entries",
        "_map",
        "_now_ms",
        "_overdue_before_ms",
        "_pause",
        "segment_end",
        "transactions",
    )

    def __init__(
        self,
        offsets: OffsetMap,
        *,
        end_offset: int,
        now_ms: int,
        delete_retention_ms: int,
        last_entries: Mapping[int, LastEntry],
        last_below: Mapping[int, int],
        droppable_below: int,
        overdue_before_ms: int,
        pause: Pause = no_pause,
    ) -> None:
        """`end_offset` is the map's end: what is below was looked at. `last_below`: of the producers in `last_entries` that were met in
        what had not been cleaned yet, the last offset of the last batch of each. Tombstones and markers at or above `droppable_below` stay
        though their horizon has passed: not every replica has passed them yet, and one that leads without them would show a
        deleted key, or an aborted record, again. No longer, though, than until their horizon is `overdue_before_ms`."""
        self._map = offsets
        self._end_offset = end_offset
        self.segment_end = end_offset
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._last_entries = last_entries
        self._last_below = last_below
        self._droppable_below = droppable_below
        self._overdue_before_ms = overdue_before_ms
        self._pause = pause
        self.transactions = MetTransactions()

    def rewritten(self, header: BatchHeader, batch: Buffer) -> Buffer:
        """What stays of the whole `batch`: itself, a smaller batch, or nothing. CorruptBatch, InvalidRecord: it cannot be read."""
        if header.is_control:
            is_needless = self.transactions.met_marker(header, batch)
            if is_needless and self._has_passed_horizon(header):
                return self._emptied(header) if self._must_keep(header) else b""
            if header.record_count and is_needless and not header.attributes & DELETE_HORIZON:
                return self._with_fewer(header, opened(header, batch), None, sets_horizon=True)
            if header.record_count:
                return batch
            return self._emptied(header) if self._must_keep(header) else b""
        if self.transactions.met_batch(header) or not header.record_count:
            return self._emptied(header) if self._must_keep(header) else b""
        return self._rewritten_records(header, batch)

    def _rewritten_records(self, header: BatchHeader, batch: Buffer) -> Buffer:
        data = opened(header, batch)
        all_places = places(data, header.record_count, self._pause)
        base_offset = header.base_offset
        end_offset = self._end_offset
        drops_tombstones = self._has_passed_horizon(header)
        last_offset_of = self._map.get
        kept = []
        has_tombstone = False
        for number, place in enumerate(all_places):
            if not number % PIECE:
                self._pause()
            _, _, _, _, offset_delta, key, has_value = place
            offset = base_offset + offset_delta
            if offset < end_offset and (
                key is None or offset < last_offset_of(key) or (drops_tombstones and not has_value)
            ):
                continue
            kept.append(place)
            if not has_value:
                has_tombstone = True
        if not kept:
            return self._emptied(header) if self._must_keep(header) else b""
        sets_horizon = has_tombstone and not header.attributes & DELETE_HORIZON
        if len(kept) == len(all_places) and not sets_horizon:
            return batch
        return self._with_fewer(header, data, kept, sets_horizon=sets_horizon)

    def _has_passed_horizon(self, header: BatchHeader) -> bool:
        if not header.attributes & DELETE_HORIZON or header.base_timestamp > self._now_ms:
            return False
        is_passed = header.last_offset < self._droppable_below
        return is_passed or header.base_timestamp <= self._overdue_before_ms

    def _must_keep(self, header: BatchHeader) -> bool:
        if header.next_offset == self.segment_end:
            return True
        if header.producer_id == NO_PRODUCER_ID:
            return False
        last = self._last_entries.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset >= self._end_offset:
            return self._last_below.get(header.producer_id, header.last_offset) == header.last_offset
        if last.last_data_offset >= 0:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch

    def _emptied(self, header: BatchHeader) -> Buffer:
        """61 bytes: what the producer's state and the end of the log need, and no codec, because there is no block."""
        attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
        return batch_bytes(
            header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b""
        )

    def _with_fewer(
        self, header: BatchHeader, data: bytes, kept: list[Place] | None, *, sets_horizon: bool
    ) -> Buffer:
        """The batch with these of its records (None: all), and with a horizon if it has none and needs one now."""
        if kept is None:
            kept = places(data, header.record_count)
        attributes = header.attributes
        base = header.base_timestamp
        new_base = base
        if sets_horizon:
            attributes |= DELETE_HORIZON
            new_base = self._now_ms + self._delete_retention_ms
        elif not attributes & (DELETE_HORIZON | LOG_APPEND_TIME):
            new_base = wrapped(base + kept[0].timestamp_delta)  # the first record's, as in every batch
        max_timestamp = header.max_timestamp
        if not attributes & LOG_APPEND_TIME:
            max_timestamp = max(wrapped(base + place.timestamp_delta) for place in kept)
        moved = base - new_base
        body = _moved(data, kept, moved) if moved else b"".join([data[p.begin : p.end] for p in kept])
        new_header = header._replace(
            attributes=attributes,
            base_timestamp=new_base,
            max_timestamp=max_timestamp,
            record_count=len(kept),
        )
        return batch_bytes(new_header, compress(attributes & CODEC_MASK, body))


def _moved(data: bytes, kept: list[Place], moved: int) -> bytearray:
    """The records with timestamp deltas larger by `moved`."""
    body = bytearray()
    for place in kept:
        fields = bytearray(b"\x00")
        append_varint(fields, wrapped(place.timestamp_delta + moved))
        append_varint(fields, place.offset_delta)
        append_varint(body, len(fields) + place.end - place.body)
        body += fields
        body += data[place.body : place.end]
    return body
