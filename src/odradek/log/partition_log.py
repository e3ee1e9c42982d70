"""One log: the segments of one partition in one directory, and what is known of its epochs and producers.

Appending: check, stamp offset and epoch in place, one write, then memory follows. Memory never runs ahead of the
file: after a failed write nothing has happened. Reading gives slices of files, not bytes. Opening and recovering a
log is in `recovery`, flushing in `flushing`, what is asked by timestamp or transaction in `lookups`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from odradek.log import flushing, lookups, reading, scrubbing, truncation
from odradek.log.checkpoints import (
    LEADER_EPOCHS,
    OFFSET_GAPS,
    PARTITION_METADATA,
    epochs_to_bytes,
    partition_metadata_to_bytes,
)
from odradek.log.cleaned_segment import CleanedSegment
from odradek.log.config import LogConfig
from odradek.log.errors import CorruptLog, MissingFile, StorageError
from odradek.log.files import Directory, File
from odradek.log.indexes import AbortedTransaction, TimestampOffset
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.prepared_files import PreparedFiles
from odradek.log.producers import Producer, Producers
from odradek.log.segment import SNAPSHOT_SUFFIX, Segment, file_name
from odradek.log.segments import Segments
from odradek.log.validation import STALE_CRC, leader_batches, recompressed
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import NO_TOPIC_ID, TopicId, TopicPartition
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
from odradek.records.checksum import crc32c
from odradek.records.control import EndTransaction, end_marker_of
from odradek.records.errors import CorruptBatch


class AppendResult(NamedTuple):
    """`base_offset` to `last_offset` are the records' own, also when they were there already (`duplicate`)."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool


PRODUCER_MARK_BYTES = 16 << 20
PRODUCER_MARKS = 8
LAST_EPOCH = 2**31 - 1


class PartitionLog:
    def __init__(
        self,
        directory: Directory,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: LogConfig,
        *,
        segments: list[Segment],
        epochs: LeaderEpochs,
        producers: Producers,
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        has_gaps: bool = False,
    ) -> None:
        assert log_start_offset <= log_end_offset
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.epochs = epochs
        self.producers = producers
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.flushed = flushing.FlushState(min(recovery_point, log_end_offset))
        self.segments = Segments(directory, segments, self.flushed)
        self.failure: StorageError | None = None
        # Told once, perhaps by a thread: this log is damaged, and the disk under it is not (`broken`).
        self.on_broken: Callable[[PartitionLog, StorageError], None] | None = None
        self.is_without_epochs = False  # a new log: no leader-epoch-checkpoint was ever written
        # Told before the log is cut: what the checkpoints may still say of flushed point and log start at most.
        self.before_cut_below: Callable[[PartitionLog, int, int], None] | None = None
        # The directory above, until it has made this log's own directory durable.
        self.parent: Directory | None = None
        # Producers as they were at some offsets of the active segment, so that a cut near the end is no long walk.
        self.producer_marks: list[tuple[int, bytes]] = []
        self._marked_bytes = self.segments.active.file.size_bytes
        # Offsets may be missing between batches, and the file `offset-gaps` says so: cleanup.policy may change any day.
        self.has_gaps = has_gaps
        self._suspect_gap = -1  # the end of this log when a leader had nothing there

    # --------------------------------------------------------------------------------------------- appending

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
        records are allowed, and sequences are not looked at. `from_client`: see `leader_batches`. `headers`: of records that were `checked` already.
        """
        if self.failure is not None:
            raise self.failure
        config = self.config
        if headers is None:
            headers = leader_batches(
                records,
                config,
                now_ms=now_ms,
                from_coordinator=from_coordinator,
                from_client=from_client,
            )
            if config.compression_type is not None:
                records, headers = recompressed(
                    records, headers, config.compression_type, config.compression_level
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
                        known.first_offset, known.last_offset, time_ms, self.log_start_offset, True
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
        if self._must_roll(size_bytes, offset - 1, largest, now_ms):
            self.roll(now_ms)
        self._write(records, headers, base_offset, marker, now_ms, from_leader=False)
        return AppendResult(
            base_offset,
            offset - 1,
            now_ms if config.log_append_time else NO_TIMESTAMP,
            self.log_start_offset,
            False,
        )

    def append_as_follower(
        self, records: memoryview, *, now_ms: int, leader_epoch: int = LAST_EPOCH
    ) -> AppendResult:
        """Appends what a leader has, offsets and epochs as they are; a last batch cut short is left for later.

        A batch whose CRC is wrong, whose offsets do not go on where this log ends, or whose epoch is above the
        leader's, is CORRUPT_MESSAGE, and what came before it in `records` is appended.
        """
        if self.failure is not None:
            raise self.failure
        base_offset = self.log_end_offset
        pending: list[BatchHeader] = []
        begin = end = 0  # of the pending batches in `records`
        for position, header in iter_whole_batches(records):
            expected = self.log_end_offset if not pending else pending[-1].next_offset
            if header.base_offset < expected:
                if not (self._is_empty() and header.last_offset >= expected and not pending):
                    self._write_pending(records[begin:end], pending, now_ms)
                    raise CorruptBatch(
                        f"{self.topic_partition}: batch at offset {header.base_offset} from the leader, "
                        f"{expected} expected"
                    )
                # The log starts inside a batch: DeleteRecords may cut anywhere, and batches are not split.
                start = self.log_start_offset
                self.truncate_fully_and_start_at(header.base_offset, now_ms)
                self.log_start_offset = start
                base_offset = header.base_offset
            if header.base_offset > expected:
                if not self._accepts_gap(expected):
                    self._write_pending(records[begin:end], pending, now_ms)
                    raise CorruptBatch(
                        f"{self.topic_partition}: batch at offset {header.base_offset} from the leader where {expected} "
                        "was expected; believed if it sends that again"
                    )
                if not self.has_gaps:
                    self._write_pending(records[begin:end], pending, now_ms)
                    pending = []
                    begin = end
                    self.note_gaps()
            if header.last_offset_delta < 0 or not check_crc(records, position, header):
                self._write_pending(records[begin:end], pending, now_ms)
                raise CorruptBatch(
                    f"{self.topic_partition}: batch at offset {header.base_offset} from the leader is damaged"
                )
            size_bytes = header.size_bytes
            # A fetch answer may span segments of the leader; ours are cut where ours are full.
            if self._must_roll(
                end - begin + size_bytes, header.last_offset, header.max_timestamp, now_ms, pending
            ):
                self._write_pending(records[begin:end], pending, now_ms)
                pending = []
                begin = end
                self.roll(now_ms, header.base_offset)
            if header.leader_epoch > self.epochs.latest:
                if header.leader_epoch > leader_epoch:
                    self._write_pending(records[begin:end], pending, now_ms)
                    raise CorruptBatch(
                        f"{self.topic_partition}: batch at offset {header.base_offset} from the leader has epoch "
                        f"{header.leader_epoch}, above the leader's own, {leader_epoch}"
                    )
                self.assign_epoch(header.leader_epoch, header.base_offset)
            pending.append(header)
            end += size_bytes
        self._write_pending(records[begin:end], pending, now_ms)
        time_ms = NO_TIMESTAMP
        return AppendResult(base_offset, self.log_end_offset - 1, time_ms, self.log_start_offset, False)

    def _accepts_gap(self, expected: int) -> bool:
        """Compaction leaves gaps, and what was compacted once may be so no longer. A base offset that is not what was
        written looks the same, and no checksum covers it: so where nothing compacts, the leader is asked twice, and
        then it has looked at that batch itself (`check_batch`).
        """
        if self.config.is_compacted or self._suspect_gap == expected:
            return True
        self._suspect_gap = expected
        return False

    @property
    def may_have_gaps(self) -> bool:
        """Of a log compacted before `offset-gaps` was written, only its configuration tells."""
        return self.has_gaps or self.config.is_compacted

    def note_gaps(self) -> None:
        """Before the first gap is written: a start would otherwise take it for records that a power cut took, and a read
        for damage, once the topic is not compacted any more.
        """
        if self.has_gaps:
            return
        try:
            self.directory.open(OFFSET_GAPS, create=True)
        except StorageError as error:
            raise self.broken(error) from None
        self.flushed.name_changed(OFFSET_GAPS)
        self.has_gaps = True

    def _is_empty(self) -> bool:
        return self.log_start_offset == self.log_end_offset and self.segments.active.file.size_bytes == 0

    def _write_pending(self, records: memoryview, headers: list[BatchHeader], now_ms: int) -> None:
        if headers:
            self._write(records, headers, headers[0].base_offset, None, now_ms, from_leader=True)

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
        if position - self._marked_bytes >= PRODUCER_MARK_BYTES:
            self._mark_producers()

    def _mark_producers(self) -> None:
        self._marked_bytes = self.segments.active.file.size_bytes
        self.producer_marks = [
            *self.producer_marks[1 - PRODUCER_MARKS :],
            (self.log_end_offset, self.producers.to_bytes()),
        ]

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

    # ---------------------------------------------------------------------------------------------- rolling

    def _must_roll(
        self,
        size_bytes: int,
        last_offset: int,
        largest_timestamp: int,
        now_ms: int,
        pending: list[BatchHeader] | None = None,
    ) -> bool:
        """Whether these bytes belong into a new segment: size, time, index full, offsets too far apart."""
        active = self.segments.active
        config = self.config
        size = active.file.size_bytes
        if size == 0 and not pending:
            return not active.can_hold(last_offset)
        if size + size_bytes > config.segment_bytes:
            return True
        if size == 0:
            return not active.can_hold(last_offset)
        first = active.rolling_timestamp()
        waited_ms = largest_timestamp - first if first >= 0 else now_ms - active.created_ms
        return (
            waited_ms > config.segment_ms - active.jitter_ms
            or active.is_index_full(config.segment_index_bytes)
            or not active.can_hold(last_offset)
        )

    def roll(self, now_ms: int, base_offset: int | None = None) -> None:
        """Begins a new segment at the end of the log (or at a later offset, where the leader has a gap).

        First the producers' snapshot, then the new segment: a crash in between leaves a snapshot too many, which
        nobody minds; the other way round a segment would lack the one it is replayed from.
        """
        base_offset = self.log_end_offset if base_offset is None else max(base_offset, self.log_end_offset)
        old = self.segments.active
        is_empty = old.file.size_bytes == 0
        if is_empty and base_offset == old.base_offset:
            return
        files = PreparedFiles(self.directory)
        try:
            if not is_empty:
                old.prepare_indexes(files)
            following = self.prepare_segment(files, base_offset, now_ms, self.producers)
        except StorageError as error:
            raise self.broken(error) from None
        try:
            self.segments.roll(files, following)
        except StorageError as error:
            raise self.give_up(error) from None
        self.forget_marks()

    def prepare_segment(
        self, files: PreparedFiles, base_offset: int, now_ms: int, producers: Producers
    ) -> Segment:
        """The segment the log is about to go on in; it is empty, and its files are among `files`."""
        files.write(file_name(base_offset, SNAPSHOT_SUFFIX), producers.to_bytes())
        segment = Segment.prepare(self.directory, base_offset, now_ms, files)
        segment.jitter_ms = self._jitter(base_offset)
        return segment

    def forget_marks(self) -> None:
        """They are of the active segment, and that is a new one now."""
        self.producer_marks = []
        self._marked_bytes = 0

    def _jitter(self, base_offset: int) -> int:
        """Off segment.ms, so that partitions made together do not roll together; the same whenever asked."""
        limit = min(self.config.segment_jitter_ms, self.config.segment_ms)
        if limit <= 0:
            return 0
        return crc32c(f"{self.topic_partition}@{base_offset}".encode()) % limit

    def take_snapshot(self, offset: int) -> None:
        name = file_name(offset, SNAPSHOT_SUFFIX)
        try:
            self.directory.replace(name, self.producers.to_bytes(), durable=False)
        except StorageError as error:
            raise self.broken(error) from None
        self.flushed.name_changed(name)

    # ---------------------------------------------------------------------------------------------- reading

    def read(
        self, offset: int, *, max_bytes: int, upper_bound_offset: int, min_one_batch: bool = False
    ) -> reading.LogRead:
        """Slices that begin with the batch holding `offset` and end below `upper_bound_offset`.

        The last batch may be cut by `max_bytes`, as Kafka's is. If not even the first fits: all of it with
        `min_one_batch` (KIP-74), else nothing. OFFSET_OUT_OF_RANGE outside the log.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise ProtocolError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: offset {offset} asked, the log holds {self.log_start_offset} to "
                f"{self.log_end_offset}",
            )
        if self.failure is not None:
            raise self.failure
        try:
            return reading.read(
                self.segments,
                self.log_end_offset,
                offset,
                max_bytes,
                upper_bound_offset,
                min_one_batch,
                self.may_have_gaps,
            )
        except StorageError as error:
            raise self.broken(error) from None

    def check_batch(self, offset: int) -> None:
        """Somebody was sent the batch that holds `offset` and does not take it. CorruptLog if the fault is ours."""
        if self.failure is not None:
            raise self.failure
        scrubbing.check_batch(self, offset)

    # ------------------------------------------------------------------------------------------------ epochs

    @property
    def latest_epoch(self) -> int:
        """-1 while nothing was appended and nobody became leader."""
        return self.epochs.latest

    def epoch_start_offset(self, epoch: int) -> int:
        return self.epochs.start_offset(epoch)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The leader's answer of KIP-279: see `LeaderEpochs.end_offset`."""
        return self.epochs.end_offset(epoch, self.log_end_offset)

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """Written before it returns, so that a killed process knows it again (KAFKA-7415); synced at the next
        flush, because an fsync here would hold up every partition a broker takes over (KAFKA-15046). What a power
        cut takes is rebuilt from the batches.
        """
        epochs = LeaderEpochs(self.epochs.entries)
        if epochs.assign(epoch, start_offset):
            self.write_epochs(epochs)

    def write_epochs(self, epochs: LeaderEpochs) -> None:
        """They are this log's from now on: once they are in the file, not before."""
        data = epochs_to_bytes(epochs.entries)
        try:
            if self.is_without_epochs:
                # Not replaced: of a new log the batches say the same, and a torn file is worth what none is.
                self.is_without_epochs = False
                self.directory.open(LEADER_EPOCHS, create=True).append(data)
            else:
                self.directory.replace(LEADER_EPOCHS, data, durable=False)
        except StorageError as error:
            raise self.broken(error) from None
        self.flushed.name_changed(LEADER_EPOCHS)
        self.epochs = epochs

    def assign_topic_id(self, topic_id: TopicId) -> None:
        """For a log that has none: made by an old broker, or its file was lost to a power cut."""
        if self.topic_id not in (NO_TOPIC_ID, topic_id):
            raise ProtocolError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"{self.topic_partition}: the log belongs to another topic of that name",
            )
        if self.topic_id != topic_id:
            try:
                self.directory.replace(
                    PARTITION_METADATA, partition_metadata_to_bytes(topic_id), durable=False
                )
            except StorageError as error:
                raise self.broken(error) from None
            self.topic_id = topic_id
            self.flushed.name_changed(PARTITION_METADATA)

    # ------------------------------------------------------------------------------------ both ends of the log

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Cuts the log so that it ends at `offset`, or below if that lies inside a batch. Returns the new end."""
        try:
            return truncation.truncate_to(self, offset, now_ms)
        except StorageError as error:
            raise self.broken(error) from None

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """An empty log that begins at `offset`: the leader no longer has what we would need in between."""
        try:
            truncation.truncate_fully_and_start_at(self, offset, now_ms)
        except StorageError as error:
            raise self.broken(error) from None

    def delete_records_before(self, offset: int) -> int:
        """Moves the log's start up (DeleteRecords, or the leader's start told to a follower); whole segments below
        it go. Returns the new start. The caller keeps it at or below the high watermark.
        """
        try:
            return truncation.delete_records_before(self, offset)
        except StorageError as error:
            raise self.broken(error) from None

    def replace_segments(self, old: Sequence[Segment], cleaned: CleanedSegment) -> bool:
        """`cleaned`, made from `old`, takes their place; renames only. False: they are not what they were, nothing has
        happened, and `cleaned` is thrown away.
        """
        return truncation.replace_segments(self, old, cleaned)

    def drop_segments_below(self, offset: int) -> None:
        """Takes the segments out that end at `offset` or before it. The active one stays."""
        try:
            truncation.drop_segments_below(self, offset)
        except StorageError as error:
            raise self.broken(error) from None

    def renamed(self, name: str) -> None:
        """The directory of this log has another name now: files are opened there, and named so in messages."""
        self.directory.renamed(name)
        self.segments.directory_renamed()

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    # -------------------------------------------------------------------------------------------- questions

    @property
    def first_base_offset(self) -> int:
        """What the name of the first segment says; in the moment of beginning anew, the log's start."""
        segments = self.segments
        return segments[0].base_offset if segments else self.log_start_offset

    @property
    def recovery_point(self) -> int:
        """Everything below is flushed."""
        return self.flushed.recovery_point

    @property
    def active_producers(self) -> list[Producer]:
        return self.producers.all()

    def last_stable_offset(self, high_watermark: int) -> int:
        return self.producers.last_stable_offset(high_watermark)

    def aborted_transactions(self, offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        try:
            return lookups.aborted_transactions(self.segments, offset, upper_bound_offset)
        except StorageError as error:
            raise self.broken(error) from None

    def offset_for_timestamp(self, timestamp: int) -> lookups.FoundOffset | None:
        """The first record with this timestamp or a later one."""
        return lookups.offset_for_timestamp(self, timestamp)

    def offset_of_max_timestamp(self) -> lookups.FoundOffset | None:
        """The first record with the largest timestamp of all (KIP-734)."""
        try:
            return lookups.offset_of_max_timestamp(self)
        except StorageError as error:
            raise self.broken(error) from None

    def max_timestamp(self) -> TimestampOffset:
        try:
            return lookups.max_timestamp(self.segments)
        except StorageError as error:
            raise self.broken(error) from None

    # --------------------------------------------------------------------------------------- flush and close

    def flush_is_due(self, now_ms: int) -> bool:
        """After a roll, and as flush.messages and flush.ms say."""
        return self.flushed.is_due(self.log_end_offset, now_ms, self.config)

    def plan_flush(self) -> flushing.FlushPlan:
        """What has to be synced now; `plan.run()` blocks and may run in a thread, `commit_flush` ends it."""
        try:
            return flushing.plan(
                self.flushed, self.directory, self.parent, self.segments, self.log_end_offset
            )
        except StorageError as error:
            raise self.broken(error) from None

    def commit_flush(self, plan: flushing.FlushPlan, now_ms: int = -1) -> int:
        return flushing.commit(self.flushed, plan, now_ms)

    def flush(self, now_ms: int = -1) -> int:
        """All three in one; returns the recovery point. Blocks; safe from a thread while the log is appended to."""
        plan = self.plan_flush()
        try:
            plan.run()
        except MissingFile as error:
            raise self.broken(error) from None
        return self.commit_flush(plan, now_ms)

    def close(self) -> None:
        """A clean stop: everything on disk, index files cut to their entries, producers as of the end."""
        if self.failure is None and self.directory.health.failure is None:
            for name in self.segments.active.write_indexes():
                self.flushed.name_changed(name)
            self.take_snapshot(self.log_end_offset)
            self.flush()
        self.fail(StorageError(f"{self.topic_partition}: the log is closed"))

    def fail(self, error: StorageError) -> StorageError:
        """This log answers nothing but `error` from now on. Returns it, to be raised."""
        if self.failure is None:
            self.failure = error
        return error

    def broken(self, error: StorageError) -> StorageError:
        """What lies here is not what was written: as `fail`, and whoever knows the other copies is told.

        For want of a descriptor, or of whatever else the disk has nothing to do with, only this one operation fails:
        whoever gets here has not changed anything yet.
        """
        if isinstance(error, CorruptLog | MissingFile) or self.directory.health.failure is not None:
            return self.give_up(error)
        return error

    def give_up(self, error: StorageError) -> StorageError:
        """As `broken`, whatever the fault: what lies here may be half of a change."""
        if self.directory.health.failure is not None:
            return self.fail(error)
        if self.failure is None:
            self.failure = error
            if self.on_broken is not None:
                self.on_broken(self, error)
        return error

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"
