"""The end of a log: where batches are appended, by a leader or as a follower.

Check, stamp offset and epoch in place, one write, then memory follows. Memory never runs ahead of the file: after a
failed write nothing has happened.
"""

from collections.abc import Generator, Iterator
from typing import NamedTuple

from odradek.log import truncation
from odradek.log.errors import StorageError
from odradek.log.files import File
from odradek.log.indexes import MAX_RELATIVE_OFFSET
from odradek.log.log_state import PRODUCER_MARK_BYTES, LogState
from odradek.log.steps import all_at_once
from odradek.log.validation import STALE_CRC, leader_batches, recompressed
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.records.batch import (
    BATCH_OVERHEAD,
    CONTROL,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    BatchHeader,
    check_crc,
    iter_whole_batches,
    stamp,
    stamp_max_timestamp,
)
from odradek.records.control import EndTransaction, end_marker_of
from odradek.records.errors import CorruptBatch

LAST_EPOCH = 2**31 - 1


class AppendResult(NamedTuple):
    """`base_offset` to `last_offset` are the records' own, also when they were there already (`duplicate`). `size_bytes` is what was
    appended."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    size_bytes: int


class AppendableLog(LogState):
    def append_as_leader(
        self,
        records: memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        from_coordinator: bool = False,
        from_client: bool = False,
        headers: list[BatchHeader] | None = None,
    ) -> AppendResult:
        """Gives the batches the next offsets and writes them with one write.

        Offsets and epoch are stamped into `records` itself where it is writable. `from_coordinator`: control
        records are allowed, and sequences are not looked at. `from_client`: see `leader_batches`; TakesLong where it has to be `checked`
        elsewhere first. `headers`: of records that were `checked` already.
        """
        self.check()
        config = self.config
        if headers is None:
            headers = leader_batches(
                records,
                config,
                now_ms=now_ms,
                from_coordinator=from_coordinator,
                from_client=from_client,
                at_once=from_client,
            )
            if config.compression_type is not None:
                records, headers = recompressed(
                    records, headers, config.compression_type, config, at_once=from_client
                )
        first = headers[0]
        marker: EndTransaction | None = None
        if first.producer_id >= 0:
            if first.attributes & CONTROL:
                marker = end_marker_of(first, records[BATCH_OVERHEAD : first.size_bytes])
                if marker is not None:
                    self.producers.check_marker(first, marker)
            elif not from_coordinator:
                known = self.producers.check(first, now_ms)
                if known is not None:
                    time_ms = known.timestamp if config.log_append_time else NO_TIMESTAMP
                    return AppendResult(
                        known.first_offset, known.last_offset, time_ms, self.log_start_offset, True, 0
                    )
        if records.readonly:
            records = memoryview(bytearray(records))
        size_bytes = len(records)
        if size_bytes > config.segment_bytes:
            # The whole request goes into one segment: it is one write.
            raise ProtocolError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size_bytes} bytes; segment.bytes is {config.segment_bytes}",
            )
        if leader_epoch > self.epochs.latest:
            self.assign_epoch(leader_epoch, self.log_end_offset)

        base_offset = offset = self.log_end_offset
        position = 0
        largest = -1
        for at, header in enumerate(headers):
            stamp(records, position, offset, leader_epoch)
            if config.log_append_time or header.crc == STALE_CRC:
                if config.log_append_time:
                    headers[at] = header = header._replace(
                        max_timestamp=now_ms, attributes=header.attributes | LOG_APPEND_TIME
                    )
                stamp_max_timestamp(
                    records,
                    position,
                    header.size_bytes,
                    max_timestamp=header.max_timestamp,
                    log_append_time=config.log_append_time,
                )
            if header.max_timestamp > largest:
                largest = header.max_timestamp
            position += header.size_bytes
            offset += header.last_offset_delta + 1
        if self.must_roll(size_bytes, offset - 1, largest, now_ms):
            self.roll(now_ms)
        self._write(records, headers, base_offset, marker, now_ms, from_leader=False)
        return AppendResult(
            base_offset,
            offset - 1,
            now_ms if config.log_append_time else NO_TIMESTAMP,
            self.log_start_offset,
            False,
            size_bytes,
        )

    def append_as_follower(
        self, records: memoryview, *, now_ms: int, leader_epoch: int = LAST_EPOCH
    ) -> AppendResult:
        """Appends what a leader has, offsets and epochs as they are; a last batch cut short is left for later.

        What is no batch, or one whose CRC is wrong, whose offsets do not go on where this log ends, or whose epoch is above
        the leader's, is CORRUPT_MESSAGE, and what came before it in `records` is appended.
        """
        self.check()
        base_offset = self.log_end_offset
        pending: list[BatchHeader] = []
        begin = end = 0  # of the pending batches in `records`
        try:
            for position, header in self._sent(records):
                expected = self.log_end_offset if not pending else pending[-1].next_offset
                # Before the log is begun anew for it, or rolled.
                if header.last_offset_delta < 0 or not check_crc(records, position, header):
                    raise self._refused(header, "is damaged")
                if header.leader_epoch > leader_epoch:
                    raise self._refused(
                        header,
                        f"has epoch {header.leader_epoch}, above the leader's own, {leader_epoch}",
                    )
                if header.base_offset < expected:
                    if not (self._is_empty() and header.last_offset >= expected and not pending):
                        raise self._refused(header, f"where {expected} was expected")
                    # The log starts inside a batch: DeleteRecords may cut anywhere, and batches are not split.
                    start = self.log_start_offset
                    self.truncate_fully_and_start_at(header.base_offset, now_ms)
                    self.log_start_offset = start
                    base_offset = header.base_offset
                if header.base_offset > expected:
                    if not self._accepts_gap(expected):
                        raise self._refused(
                            header, f"where {expected} was expected; believed if it sends that again"
                        )
                    if not self.has_gaps:
                        self._write_pending(records[begin:end], pending, now_ms)
                        pending = []
                        begin = end
                        self.note_gaps()
                size_bytes = header.size_bytes
                # A fetch answer may span segments of the leader; ours are cut where ours are full.
                if self.must_roll(
                    end - begin + size_bytes, header.last_offset, header.max_timestamp, now_ms, pending
                ):
                    self._write_pending(records[begin:end], pending, now_ms)
                    pending = []
                    begin = end
                    # The leader's gap comes into the new segment: see `roll`.
                    is_too_wide = header.last_offset - self.log_end_offset > MAX_RELATIVE_OFFSET
                    self.roll(now_ms, header.base_offset if is_too_wide else None)
                pending.append(header)
                end += size_bytes
        except CorruptBatch:
            self._write_pending(records[begin:end], pending, now_ms)
            raise
        self._write_pending(records[begin:end], pending, now_ms)
        time_ms = NO_TIMESTAMP
        return AppendResult(base_offset, self.log_end_offset - 1, time_ms, self.log_start_offset, False, end)

    def _sent(self, records: memoryview) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch of a leader; CorruptBatch at what is none, or of an old format."""
        try:
            yield from iter_whole_batches(records)
        except ProtocolError as error:
            raise CorruptBatch(
                f"{self.topic_partition}: a batch from the leader is none: {error.message}"
            ) from None

    def _refused(self, header: BatchHeader, why: str) -> CorruptBatch:
        return CorruptBatch(
            f"{self.topic_partition}: batch at offset {header.base_offset} from the leader {why}"
        )

    def _accepts_gap(self, expected: int) -> bool:
        """Compaction leaves gaps, and what was compacted once may be so no longer. A base offset that is not what was
        written looks the same, and no checksum covers it: so where nothing compacts, the leader is asked twice for the
        first, and then it has looked at that batch itself (`check_batch`).
        """
        suspect = self.flushed.generation, expected
        if self.may_have_gaps or self._suspect_gap == suspect:
            return True
        self._suspect_gap = suspect
        return False

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """An empty log that begins at `offset`: the leader no longer has what we would need in between."""
        all_at_once(self.restarting_at(offset, now_ms))

    def restarting_at(self, offset: int, now_ms: int) -> Generator[None, None, None]:
        """`truncate_fully_and_start_at` in steps of some milliseconds; after each the log is whole."""
        try:
            yield from truncation.truncate_fully_and_start_at(self, offset, now_ms)
        except StorageError as error:
            raise self.broken(error) from None

    def _is_empty(self) -> bool:
        return self.log_start_offset == self.log_end_offset and self.segments.active.file.size_bytes == 0

    def _write_pending(self, records: memoryview, headers: list[BatchHeader], now_ms: int) -> None:
        """Batches of a leader, and before them the epochs that begin with them."""
        if not headers:
            return
        before = self.epochs
        try:
            for header in headers:
                if header.leader_epoch > self.epochs.latest:
                    self.assign_epoch(header.leader_epoch, header.base_offset)
            self._write(records, headers, headers[0].base_offset, None, now_ms, from_leader=True)
        except Exception:
            # The file says it still: the next epoch is written over it, or a start cuts it off at the log's end.
            self.epochs = before
            raise

    def _write(
        self,
        records: memoryview,
        headers: list[BatchHeader],
        base_offset: int,
        marker: EndTransaction | None,
        now_ms: int,
        *,
        from_leader: bool,
    ) -> None:
        """The one write, then what follows from it. Headers of a leader's batches say their offsets; those of a
        producer's were read before the stamp, and their batches follow each other from `base_offset` on.
        """
        active = self.segments.active
        file = active.file
        position = file.size_bytes
        # Whatever can fail beside the write itself comes before it: behind it memory has to follow.
        markers: dict[int, EndTransaction | None] = {}
        aborts: File | None = None
        for at, header in enumerate(headers):
            if header.attributes & CONTROL and header.producer_id >= 0:
                markers = self._markers(records, headers, marker, at)
                if any(ended is not None and not ended.is_commit for ended in markers.values()):
                    aborts = self._open_transactions()
                break
        file.append(records)
        interval = self.config.index_interval_bytes
        offset = base_offset
        try:
            for at, header in enumerate(headers):
                if from_leader:
                    offset = header.base_offset
                size_bytes = header.size_bytes
                next_offset = offset + header.last_offset_delta + 1
                active.note_batch(position, size_bytes, next_offset, header.largest_timestamp, interval)
                if header.producer_id >= 0:
                    if header.attributes & CONTROL:
                        self._note_marker(header, markers[at], offset, now_ms, aborts)
                    else:
                        self.producers.note_batch(header, offset, now_ms)
                position += size_bytes
                offset = next_offset
            self.log_end_offset = offset
        except Exception as mistake:
            self.interrupted(mistake)
            raise
        if self.flushed.is_settled:
            self.flushed.came()
        if position - self.marked_bytes >= PRODUCER_MARK_BYTES:
            self.mark_producers()

    def _markers(
        self, records: memoryview, headers: list[BatchHeader], known: EndTransaction | None, first: int
    ) -> dict[int, EndTransaction | None]:
        """What the control batches among `headers`, from `first` on, say; of one that was read already, `known`."""
        markers: dict[int, EndTransaction | None] = {}
        position = sum(header.size_bytes for header in headers[:first])
        for at, header in enumerate(headers[first:], first):
            if header.attributes & CONTROL and header.producer_id >= 0:
                if known is None:
                    block = records[position + BATCH_OVERHEAD : position + header.size_bytes]
                    markers[at] = end_marker_of(header, block)
                else:
                    markers[at], known = known, None
            position += header.size_bytes
        return markers

    def _open_transactions(self) -> File:
        try:
            return self.segments.active.open_transactions()
        except StorageError as error:
            raise self.broken(error) from None

    def _note_marker(
        self,
        header: BatchHeader,
        marker: EndTransaction | None,
        offset: int,
        now_ms: int,
        aborts: File | None,
    ) -> None:
        if marker is None:
            return
        ended = self.producers.note_marker(header, marker, offset, now_ms)
        if ended is not None and ended.is_aborted and aborts is not None:
            self.flushed.name_changed(
                self.segments.active.add_transaction(self.producers.aborted(ended), aborts)
            )
