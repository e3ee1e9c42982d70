"""What a log is: its segments, epochs and producers in memory, how it goes on in a new segment, and how it fails.

Memory never runs ahead of the files: what can fail comes first, and behind it memory follows.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from odradek.log import flushing
from odradek.log.checkpoints import (
    LEADER_EPOCHS,
    OFFSET_GAPS,
    TRANSACTION_INDEX_SIZES,
    epochs_to_bytes,
    index_sizes_to_bytes,
)
from odradek.log.config import LogConfig
from odradek.log.errors import CorruptLog, MissingFile, StorageError, said_again, to_be_kept
from odradek.log.files import Directory
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.prepared_files import PreparedFiles
from odradek.log.producers import Producers
from odradek.log.segment import SNAPSHOT_SUFFIX, IndexPending, Segment, file_name
from odradek.log.segments import Segments
from odradek.log.steps import Work
from odradek.model.ids import TopicId, TopicPartition
from odradek.records.batch import BatchHeader
from odradek.records.checksum import crc32c

PRODUCER_MARK_BYTES = 16 << 20
PRODUCER_MARKS = 8


class LogState:
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
        """Invariants, whenever no method is running:

        `segments[0].base_offset` <= `log_start_offset` <= `log_end_offset`; `log_start_offset` never falls but in a full
        truncation. `recovery_point` <= `log_end_offset`. The active segment ends at `log_end_offset`. Epochs and their start
        offsets both rise, and none starts above `log_end_offset`. What `producers` knows is what the batches say.
        """
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
        self.segments.active.jitter_ms = self._jitter(self.segments.active.base_offset)
        # The end of the log that the last life stopped in order, and left so; -1: it did not.
        self.stopped_at = -1
        self.failure: StorageError | None = None  # once set, for good: see `check`
        # Told once, perhaps by a thread: this log is damaged, and the disk under it is not (`broken`).
        self.on_broken: Callable[[LogState, StorageError], None] | None = None
        # Told of a segment whose indexes a thread has to build; None: whoever asks builds them.
        self._on_pending_index: Callable[[LogState, IndexPending], None] | None = None
        # What the file `transaction-index-sizes` says; empty: there may be none.
        self.index_sizes = b""
        self.is_without_epochs = False  # a new log: no leader-epoch-checkpoint was ever written
        # Told before the log is cut: what the checkpoints may still say of flushed point and log start at most.
        self.before_cut_below: Callable[[LogState, int, int], None] | None = None
        # The same ahead of it, for a thread; None: there is nothing that would wait for the disk.
        self.lowering: Callable[[LogState, int, int], Work | None] | None = None
        self.cut_at = 0  # the number of its last cut among those of all logs: see `LogCheckpoints.cut`
        # The directory above, until it has made this log's own directory durable.
        self.parent: Directory | None = None
        # Producers as they were at some offsets of the active segment, so that a cut near the end is no long walk.
        # Always rising, at most PRODUCER_MARKS of them, the last at `marked_bytes` <= size of the active segment's file.
        self.producer_marks: list[tuple[int, bytes]] = []
        self.marked_bytes = self.segments.active.file.size_bytes
        # Offsets of producers' snapshots that may be in the directory beside those at the beginning of a segment.
        self.other_snapshots: set[int] = set()
        # Offsets may be missing between batches, and the file `offset-gaps` says so: cleanup.policy may change any day.
        self.has_gaps = has_gaps
        # Where this log ended when a leader had nothing there, and in which generation: another cut, another leader.
        self._suspect_gap: tuple[int, int] | None = None

    # ---------------------------------------------------------------------------------------------- rolling

    def must_roll(
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
        """Begins a new segment at the end of the log, so that a segment ends with a batch and gaps are within segments: between
        two of them a start takes a gap for records that a power cut took. Only behind a gap that is wider than the offsets
        of a segment it begins later, at `base_offset`.

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
            sizes = self.prepare_index_sizes(files, self.segments) if old.aborted_count else self.index_sizes
        except StorageError as error:
            raise self.broken(error) from None
        with self.changing():
            self.segments.roll(files, following)
        self.index_sizes = sizes
        if is_empty:
            self.other_snapshots.add(old.base_offset)  # its own is still there
        self.forget_marks()

    def prepare_segment(
        self, files: PreparedFiles, base_offset: int, now_ms: int, producers: Producers
    ) -> Segment:
        """The segment the log is about to go on in; it is empty, and its files are among `files`."""
        files.write(file_name(base_offset, SNAPSHOT_SUFFIX), producers.to_bytes())
        segment = Segment.prepare(self.directory, base_offset, now_ms, files)
        segment.jitter_ms = self._jitter(base_offset)
        return segment

    def mark_producers(self) -> None:
        self.marked_bytes = self.segments.active.file.size_bytes
        self.producer_marks = [
            *self.producer_marks[1 - PRODUCER_MARKS :],
            (self.log_end_offset, self.producers.to_bytes()),
        ]

    def forget_marks(self) -> None:
        """They are of the active segment, and that is a new one now."""
        self.producer_marks = []
        self.marked_bytes = 0

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
        self.other_snapshots.add(offset)

    def remove_snapshots(self, offsets: list[int]) -> None:
        for offset in offsets:
            self.directory.remove(file_name(offset, SNAPSHOT_SUFFIX))
        self.other_snapshots.difference_update(offsets)

    # ------------------------------------------------------------------------------------------------- epochs

    @property
    def latest_epoch(self) -> int:
        """-1 while nothing was appended and nobody became leader."""
        return self.epochs.latest

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

    # --------------------------------------------------------------------------------------------------- gaps

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

    # ------------------------------------------------------------------------------------------------ indexes

    def rebuild_indexes_by(self, ask: "Callable[[LogState, IndexPending], None]") -> None:
        """Whoever uses this log must not wait while all batches of a segment are walked over: IndexPending, and `ask` hears of it."""
        self._on_pending_index = ask
        self.segments.rebuild_elsewhere()

    def prepare_index_sizes(
        self, files: PreparedFiles, segments: Iterable[Segment], last: tuple[int, int] | None = None
    ) -> bytes:
        """What the file will say of these segments, and of `last`; among `files` if it says something else now.

        A `.txnindex` that is taken away looks like that of a segment without aborted transactions, and one that is shortened
        like any other: this file tells them apart. Where it says less than there is, as after a kill, the batches behind the
        producers' snapshot are read anyway; where it says more, batches are read in vain.
        """
        sizes = [(one.base_offset, one.aborted_count) for one in segments if one.aborted_count]
        if last is not None and last[1]:
            sizes.append(last)
        data = index_sizes_to_bytes(sorted(sizes)) if sizes else b""
        if data != self.index_sizes:
            files.write(TRANSACTION_INDEX_SIZES, data)
        return data

    def note_index_sizes(self) -> None:
        files = PreparedFiles(self.directory)
        try:
            self.put_index_sizes(files, self.prepare_index_sizes(files, self.segments))
        except StorageError as error:
            raise self.broken(error) from None

    def put_index_sizes(self, files: PreparedFiles, sizes: bytes) -> None:
        for name in files.put():
            self.flushed.name_changed(name)
        self.index_sizes = sizes

    # ------------------------------------------------------------------------------------------------ failing

    def fail(self, error: StorageError) -> StorageError:
        """This log answers nothing but `error` from now on. Returns one that says the same, to be raised."""
        if self.failure is None:
            self.failure = to_be_kept(error)
        return said_again(error)

    def check(self) -> None:
        """StorageError once this log has failed."""
        if self.failure is not None:
            raise said_again(self.failure)

    def broken(self, error: StorageError) -> StorageError:
        """What lies here is not what was written: as `fail`, and whoever knows the other copies is told.

        For want of a descriptor, or of whatever else the disk has nothing to do with, only this one operation fails:
        whoever gets here has not changed anything yet.
        """
        if isinstance(error, IndexPending):
            if self._on_pending_index is not None:
                self._on_pending_index(self, error)
            return error
        if isinstance(error, CorruptLog | MissingFile) or self.directory.health.failure is not None:
            return self.give_up(error)
        return error

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Around what changes files and memory in turn: in the midst of it whatever comes up has the log given up."""
        try:
            yield
        except StorageError as error:
            raise self.give_up(error) from None
        except Exception as mistake:
            self.interrupted(mistake)
            raise

    def interrupted(self, mistake: Exception) -> None:
        """A mistake of ours, or a want of memory, in the midst of a change: what the memory says and what the files hold may differ
        from now on, and the next batch would get offsets that one in the file has. A start reads the files again."""
        self.give_up(
            StorageError(f"{self.topic_partition}: {mistake!r} came in the midst of a change of this log")
        )

    def give_up(self, error: StorageError) -> StorageError:
        """As `broken`, whatever the fault: what lies here may be half of a change."""
        if self.directory.health.failure is not None:
            return self.fail(error)
        if self.failure is None:
            self.failure = to_be_kept(error)
            if self.on_broken is not None:
                self.on_broken(self, error)
        return said_again(error)
