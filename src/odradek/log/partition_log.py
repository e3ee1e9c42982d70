"""One log: the segments of one partition in one directory, and what is known of its epochs and producers.

Its fields, rolling and failing are in `log_state`, appending in `appending`. Reading gives slices of files, not bytes.
Opening and recovering a log is in `recovery`, flushing in `flushing`, cutting in `truncation`, what is asked by timestamp
or transaction in `lookups`.
"""

from collections.abc import Generator, Sequence

from odradek.log import flushing, lookups, reading, scrubbing, transaction_rebuilding, truncation
from odradek.log.appending import AppendableLog
from odradek.log.checkpoints import PARTITION_METADATA, partition_metadata_to_bytes
from odradek.log.cleaned_segment import CleanedSegment
from odradek.log.config import LogConfig
from odradek.log.errors import MissingFile, StorageError
from odradek.log.indexes import AbortedTransaction, TimestampOffset
from odradek.log.segment import SNAPSHOT_SUFFIX, Segment, TransactionsPending, file_name
from odradek.log.steps import Steps, all_at_once
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import NO_TOPIC_ID, TopicId


class PartitionLog(AppendableLog):
    # ---------------------------------------------------------------------------------------------- reading

    def read(
        self,
        offset: int,
        *,
        max_bytes: int,
        upper_bound_offset: int,
        min_one_batch: bool = False,
        most_segments: int = reading.ALL,
    ) -> reading.LogRead:
        """Slices that begin with the batch holding `offset` and end below `upper_bound_offset`, of so many segments at most.

        The last batch may be cut by `max_bytes`, as Kafka's is. If not even the first fits: all of it with
        `min_one_batch` (KIP-74), else nothing. OFFSET_OUT_OF_RANGE outside the log.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise ProtocolError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: offset {offset} asked, the log holds {self.log_start_offset} to "
                f"{self.log_end_offset}",
            )
        self.check()
        try:
            return reading.read(
                self.segments,
                self.log_end_offset,
                offset,
                max_bytes,
                upper_bound_offset,
                min_one_batch,
                self.may_have_gaps,
                most_segments,
            )
        except StorageError as error:
            raise self.broken(error) from None

    def check_batch(self, offset: int) -> None:
        """Somebody was sent the batch that holds `offset` and does not take it. CorruptLog if the fault is ours."""
        self.check()
        scrubbing.check_batch(self, offset)

    # ------------------------------------------------------------------------------------------------ epochs

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """The leader's answer of KIP-279: see `LeaderEpochs.end_offset`."""
        return self.epochs.end_offset(epoch, self.log_end_offset)

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
        return all_at_once(self.truncating_to(offset, now_ms))

    def truncating_to(self, offset: int, now_ms: int) -> Generator[None, None, int]:
        """`truncate_to` in steps of some milliseconds; after each the log is whole."""
        try:
            return (yield from truncation.truncate_to(self, offset, now_ms))
        except StorageError as error:
            raise self.broken(error) from None

    def preparing_cut(self, offset: int, log_start_offset: int) -> Steps[None]:
        """What has to be on the disk before a cut to `offset` is put there by a thread, and the cut itself has nothing left to wait
        for, unless it takes more than was said. Should it be given up, more is flushed, or read by a start, than needs be.
        """
        work = self.lowering and self.lowering(self, offset, log_start_offset)
        if work is not None:
            self.flushed.cut(offset)  # else the next checkpoint would say what this one takes back
            came = yield work
            if isinstance(came, StorageError):
                raise self.broken(came)

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
        """Takes segments out that end at `offset` or before it. The active one stays."""
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
        """What the name of the first segment says; in the moment of beginning anew, the log's start. A thread may ask."""
        first = next(iter(self.segments), None)
        return self.log_start_offset if first is None else first.base_offset

    @property
    def recovery_point(self) -> int:
        """Everything below is flushed."""
        return self.flushed.recovery_point

    def note_high_watermark(self, high_watermark: int) -> None:
        """It has moved up to here."""
        self.producers.forget_ended_before(high_watermark)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Not below the log's start, though an open transaction may have begun there: whoever went to it would be out of
        range, and be told to go to it again.
        """
        stable = self.producers.last_stable_offset(high_watermark)
        return max(stable, min(self.log_start_offset, high_watermark))

    def aborted_transactions(self, offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        while True:
            try:
                return lookups.aborted_transactions(self.segments, offset, upper_bound_offset)
            except TransactionsPending as pending:
                if self._on_pending_index is not None:
                    raise self.broken(pending) from None
                transaction_rebuilding.rebuild(self, pending.segment)
            except StorageError as error:
                raise self.broken(error) from None

    def aborted_apart(self, offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        """As `aborted_transactions`, for a thread: it changes nothing of the log, and reads batches where an index is not right."""
        return lookups.aborted_transactions(
            self.segments,
            offset,
            upper_bound_offset,
            lambda segment: transaction_rebuilding.transactions_of(self, segment),
        )

    def aborted_in(self, read: reading.LogRead, offset: int) -> list[AbortedTransaction]:
        """Those with records in what was read from `offset` on, and perhaps some that begin soon behind it."""
        last = read.last
        if last is None:
            return []
        piece = read.slices[-1]
        try:
            end = last.offset_behind(piece.position + piece.size_bytes, self.log_end_offset)
        except StorageError as error:
            raise self.broken(error) from None
        return self.aborted_transactions(offset, end)

    def offset_for_timestamp(self, timestamp: int) -> lookups.FoundOffset | None:
        """The first record with this timestamp or a later one."""
        return lookups.offset_for_timestamp(self, timestamp)

    def offset_of_max_timestamp(self) -> lookups.FoundOffset | None:
        """The first record with the largest timestamp of all (KIP-734)."""
        try:
            return lookups.offset_of_max_timestamp(self)
        except StorageError as error:
            raise self.broken(error) from None

    def knows_max_timestamp(self, allowance: lookups.Allowance) -> bool:
        """False: to know it, more segments have to be looked at than the allowance goes for; ask again."""
        try:
            return lookups.knows_max_timestamp(self, allowance)
        except StorageError as error:
            raise self.broken(error) from None

    def max_timestamp(self) -> TimestampOffset:
        try:
            return lookups.max_timestamp(self)
        except StorageError as error:
            raise self.broken(error) from None

    def epoch_in_header(self, offset: int) -> int:
        """The leader epoch of the batch that holds `offset`, which may lie below the start of the log."""
        try:
            return lookups.epoch_in_header(self, offset)
        except StorageError as error:
            raise self.broken(error) from None

    # --------------------------------------------------------------------------------------- flush and close

    def configure(self, config: LogConfig) -> None:
        """As the topic's settings are by now: it is asked again whether it is to be flushed."""
        self.config = config
        self.flushed.came()

    def flush_is_due(self, now_ms: int) -> bool:
        """After a roll, for a cut that may not be on the disk, and as flush.messages and flush.ms say."""
        return self.flushed.is_due(self.log_end_offset, now_ms, self.config)

    def flush_is_due_later(self) -> bool:
        """Without anything that comes to it: it has to be asked again."""
        return self.failure is None and self.flushed.is_due_later(self.log_end_offset, self.config)

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
        while True:
            plan = self.plan_flush()
            try:
                plan.run()
            except MissingFile as error:
                raise self.broken(error) from None
            self.commit_flush(plan, now_ms)
            if not plan.is_partial:
                return self.recovery_point

    def close(self) -> None:
        """A clean stop: everything on disk, index files cut to their entries, producers as of the end, no descriptor kept."""
        if self.failure is None and self.directory.health.failure is None:
            self.note_index_sizes()
            if not self._is_as_it_was_stopped():
                for name in self.segments.active.write_indexes():
                    self.flushed.name_changed(name)
                self.take_snapshot(self.log_end_offset)
            self.flush()
        self.fail(StorageError(f"{self.topic_partition}: the log is closed"))
        self.segments.close_handles()

    def _is_as_it_was_stopped(self) -> bool:
        """What a stop in order wrote is on the disk, and whatever was written since stands in `flushed`: a log that nobody writes to
        costs the next stop nothing."""
        if self.log_end_offset != self.stopped_at:
            return False
        snapshot = self.directory.read(file_name(self.log_end_offset, SNAPSHOT_SUFFIX))
        return snapshot == self.producers.to_bytes() and self.segments.active.indexes_are_written

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic_partition}, {self.log_start_offset}..{self.log_end_offset})"
