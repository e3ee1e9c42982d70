"""Opening a log: made new, found as a clean stop left it, or recovered.

The recovery point divides. Below it everything was flushed: what is wrong there was not left by a crash, and the
log is refused (CorruptLog) until a peer or a person repairs it. From it on, the first batch that is not whole is
where the log ends. Each step leaves a log that the next start recovers to the same end, so a crash in the middle
of recovery costs only time.

After a clean stop nothing is scanned but the few batches behind the last index entry.
"""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.log.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    MalformedCheckpoint,
    epochs_to_bytes,
    partition_metadata_to_bytes,
    read_epochs,
    read_partition_metadata,
)
from odradek.log.config import LogConfig
from odradek.log.errors import CorruptLog
from odradek.log.files import TEMPORARY_SUFFIX, Directory
from odradek.log.indexes import AbortedTransaction
from odradek.log.leader_epochs import EpochEntry, LeaderEpochs
from odradek.log.lookups import replay
from odradek.log.partition_log import PartitionLog
from odradek.log.producers import MalformedSnapshot, Producers
from odradek.log.scan import scan_batches
from odradek.log.segment import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SUFFIXES,
    Segment,
    file_name,
)
from odradek.model.ids import NO_TOPIC_ID, TopicId, TopicPartition
from odradek.records.batch import ATTRIBUTES_OFFSET
from odradek.records.checksum import crc32c

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"


def create_log(
    parent: Directory,
    topic_partition: TopicPartition,
    topic_id: TopicId,
    config: LogConfig,
    *,
    now_ms: int,
    log_start_offset: int = 0,
) -> PartitionLog:
    """A new, empty log in its own directory. Nothing is synced yet: the first flush does it, names included."""
    directory = parent.make(str(topic_partition))
    if topic_id != NO_TOPIC_ID:
        directory.replace(PARTITION_METADATA, partition_metadata_to_bytes(topic_id), durable=False)
    segment = Segment.create(directory, log_start_offset, now_ms)
    log = PartitionLog(
        directory,
        topic_partition,
        topic_id,
        config,
        segments=[segment],
        epochs=LeaderEpochs(),
        producers=Producers(),
        log_start_offset=log_start_offset,
        log_end_offset=log_start_offset,
        recovery_point=log_start_offset,
    )
    log.parent = parent
    log.flushed.created()
    log.write_epochs()
    if topic_id != NO_TOPIC_ID:
        log.flushed.name_changed(PARTITION_METADATA)
    return log


class Recovered(NamedTuple):
    """A log, and what its opening did beyond opening, in words for the log file."""

    log: PartitionLog
    notes: list[str]


def open_log(
    parent: Directory,
    topic_partition: TopicPartition,
    config: LogConfig,
    *,
    now_ms: int,
    was_clean: bool,
    recovery_point: int = 0,
    log_start_offset: int = 0,
) -> Recovered:
    """The log in `parent`'s directory of that name. CorruptLog, or what the disk says, if it cannot be used."""
    directory = parent.child(str(topic_partition))
    return _Opening(
        directory, topic_partition, config, now_ms, was_clean, recovery_point, log_start_offset
    ).open()


class _Opening:
    def __init__(
        self,
        directory: Directory,
        topic_partition: TopicPartition,
        config: LogConfig,
        now_ms: int,
        was_clean: bool,
        recovery_point: int,
        log_start_offset: int,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.config = config
        self.now_ms = now_ms
        self.was_clean = was_clean
        self.recovery_point = recovery_point
        self.log_start_offset = log_start_offset
        self.notes: list[str] = []
        self.snapshots: list[int] = []
        self.segments: list[Segment] = []
        self.epochs = LeaderEpochs()
        self.changed_names = False
        self.written_names: list[str] = []

    def open(self) -> Recovered:
        names = self._clear_leftovers(self.directory.names())
        self._list_segments(names)
        topic_id = self._topic_id()
        log_end_offset = self._clean_end() if self.was_clean else -1
        epochs_were_good = self._read_epochs()
        if log_end_offset < 0:
            log_end_offset = self._recover()
        if self.log_start_offset > log_end_offset:
            log_end_offset = self._start_anew()
        first = self.segments[0].base_offset
        self.log_start_offset = max(self.log_start_offset, first)
        self._settle_epochs(log_end_offset, epochs_were_good)
        producers = self._producers(log_end_offset)
        log = PartitionLog(
            self.directory,
            self.topic_partition,
            topic_id,
            self.config,
            segments=self.segments,
            epochs=self.epochs,
            producers=producers,
            log_start_offset=self.log_start_offset,
            log_end_offset=log_end_offset,
            # After a clean stop all of it was flushed, whatever an old checkpoint says.
            recovery_point=log_end_offset if self.was_clean else min(self.recovery_point, log_end_offset),
        )
        if self.changed_names:
            log.flushed.names_dirty()
        for name in self.written_names:
            log.flushed.name_changed(name)
        return Recovered(log, self.notes)

    # ----------------------------------------------------------------------------------------- what is there

    def _clear_leftovers(self, names: list[str]) -> list[str]:
        """Files a crash left on their way in or out. `.cleaned` is unfinished work, its originals are in place."""
        kept = []
        swapped = [name for name in names if name.endswith(SWAP_SUFFIX)]
        for name in names:
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)):
                self.directory.remove(name)
                self.changed_names = True
            elif not name.endswith(SWAP_SUFFIX):
                kept.append(name)
        if swapped:
            kept = self._finish_swap(swapped, kept)
        return kept

    def _finish_swap(self, swapped: list[str], names: list[str]) -> list[str]:
        """A compacted segment that was complete and about to take the place of those it was made from."""
        for name in swapped:
            if not name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
                continue
            base_offset = int(name[: -len(LOG_SUFFIX + SWAP_SUFFIX)])
            end_offset = self._end_of_swapped(name, base_offset)
            for old in list(names):
                stem, dot, _ = old.partition(".")
                if (
                    dot
                    and stem.isdigit()
                    and base_offset <= int(stem) < end_offset
                    and old.endswith(SUFFIXES)
                ):
                    self.directory.remove(old)
                    names.remove(old)
        for name in swapped:
            self.directory.rename(name, name[: -len(SWAP_SUFFIX)])
            names.append(name[: -len(SWAP_SUFFIX)])
        self.directory.sync()
        self.changed_names = True
        self.notes.append(f"finished the swap of {len(swapped)} compacted files")
        return sorted(set(names))

    def _end_of_swapped(self, name: str, base_offset: int) -> int:
        file = self.directory.open(name)
        end_offset = base_offset
        for position, header, _ in scan_batches(file, 0, file.size_bytes):
            if isinstance(header, str):
                raise CorruptLog(f"{file.name} at {position}: {header}")
            end_offset = header.next_offset
        return end_offset

    def _list_segments(self, names: list[str]) -> None:
        bases: list[int] = []
        others: list[tuple[int, str]] = []
        for name in names:
            stem, dot, suffix = name.partition(".")
            if not dot or len(stem) != 20 or not stem.isdigit():
                continue
            base = int(stem)
            if suffix == "log":
                bases.append(base)
            elif suffix == "snapshot":
                self.snapshots.append(base)
            else:
                others.append((base, name))
        known = set(bases)
        for base, name in others:
            if base not in known:
                self.directory.remove(name)  # an index whose segment is gone
                self.changed_names = True
        for at, base in enumerate(bases):
            end_offset = bases[at + 1] if at + 1 < len(bases) else -1
            self.segments.append(Segment(self.directory, base, self.now_ms, end_offset))
        if not self.segments:
            # Its name was not synced before the power went, or the directory had just been made.
            self.segments.append(Segment.create(self.directory, self.log_start_offset, self.now_ms))
            self.was_clean = False
            self.changed_names = True

    def _topic_id(self) -> TopicId:
        data = self.directory.read(PARTITION_METADATA)
        if data is None:
            return NO_TOPIC_ID
        try:
            return read_partition_metadata(data)
        except MalformedCheckpoint as error:
            # Never synced before the power went. The controller tells the id again.
            self.notes.append(f"{error}; the topic id will be taken from the controller")
            self.directory.remove(PARTITION_METADATA)
            self.changed_names = True
            return NO_TOPIC_ID

    # --------------------------------------------------------------------------------------- after a clean stop

    def _clean_end(self) -> int:
        """The log end offset, from the batches behind the last index entry; -1 if the stop was not clean after all
        (KAFKA-10471: the marker is only a claim).
        """
        segment = self.segments[-1]
        file = segment.file
        try:
            segment.load_indexes(self.config.index_interval_bytes)
            assert segment.offset_index is not None
            position = segment.offset_index.last()[1]
            end_offset = segment.base_offset
            for at, header in segment.headers(position):
                if at == position and position and not segment.base_offset <= header.base_offset:
                    raise CorruptLog(f"{file.name}: the index points at no batch")
                end_offset = header.next_offset
                segment.positions[end_offset] = at + header.size_bytes
        except CorruptLog as error:
            self.notes.append(f"marked as cleanly stopped, but {error.message}; recovering")
            self.was_clean = False
            return -1
        if end_offset < self.recovery_point:
            self.notes.append(f"marked as cleanly stopped at {self.recovery_point}, but ends at {end_offset}")
            self.was_clean = False
            return -1
        if end_offset not in self.snapshots and self.snapshots:
            self.notes.append(
                f"marked as cleanly stopped, but no producer snapshot at {end_offset}; recovering"
            )
            self.was_clean = False
            return -1
        return end_offset

    # ------------------------------------------------------------------------------------------------ recovery

    def _recover(self) -> int:
        """Scans from the segment that holds the recovery point. Returns the log end offset."""
        # A snapshot behind the recovery point was perhaps never synced, or belongs to records that were cut off.
        for offset in [offset for offset in self.snapshots if offset > self.recovery_point]:
            self.directory.remove(file_name(offset, SNAPSHOT_SUFFIX))
            self.snapshots.remove(offset)
            self.changed_names = True
        # Which epoch began where is learnt again from the batches that are left.
        self.epochs.truncate_from_end(self.recovery_point)
        at = len(self.segments) - 1
        while at > 0 and self.segments[at].base_offset > self.recovery_point:
            at -= 1
        expected = self.segments[at].base_offset
        while at < len(self.segments):
            segment = self.segments[at]
            if segment.base_offset != expected and not (
                segment.base_offset > expected and self.config.is_compacted
            ):
                # The end of the segment before was lost, and this one's beginning was not.
                self._cut_before(at, segment.base_offset, expected, "the records before it are missing")
                break
            expected, reason = self._scan(segment)
            if reason:
                self._cut_behind(at, expected, reason)
                break
            at += 1
        last = self.segments[-1]
        if expected < self.recovery_point:
            raise CorruptLog(
                f"{self.topic_partition}: flushed up to offset {self.recovery_point}, but the log ends at "
                f"{expected}: records that were safe are missing"
            )
        last.end_offset = -1
        for segment in self.segments[:-1]:
            if segment.offset_index is not None:
                self.written_names += segment.become_inactive(segment.end_offset)
        return expected

    def _scan(self, segment: Segment) -> tuple[int, str]:
        """Walks over the whole segment and builds its indexes. (end offset, why it ends before the file does)."""
        file = segment.file
        segment.make_index_in_memory()
        expected = segment.base_offset
        epoch = -1
        compacted = self.config.is_compacted
        recovery_point = self.recovery_point
        interval = self.config.index_interval_bytes
        for position, header, batch in scan_batches(file, 0, file.size_bytes):
            reason = ""
            if isinstance(header, str):
                reason = header
            elif header.base_offset != expected and (
                header.base_offset < expected
                # Below the recovery point a gap may be compaction's; behind it only a compacted leader's.
                or (header.base_offset >= recovery_point and not compacted)
            ):
                reason = f"offset {header.base_offset} where {expected} was expected"
            elif header.last_offset_delta < 0:
                reason = f"last offset delta {header.last_offset_delta}"
            elif header.leader_epoch < epoch:
                reason = f"leader epoch {header.leader_epoch} after {epoch}"
            elif crc32c(batch[ATTRIBUTES_OFFSET:]) != header.crc:
                reason = f"the CRC of the batch at offset {header.base_offset} is not {header.crc}"
            if reason:
                reason = f"{file.name} at {position}: {reason}"
                if expected < recovery_point:
                    raise CorruptLog(f"{reason}; everything below offset {recovery_point} was flushed")
                file.truncate(position)
                return expected, reason
            assert not isinstance(header, str)
            expected = header.next_offset
            epoch = header.leader_epoch
            segment.note_batch(position, header.size_bytes, expected, header.max_timestamp, interval)
            if epoch > self.epochs.latest and header.base_offset >= recovery_point:
                self.epochs.assign(epoch, header.base_offset)
        return expected, ""

    def _cut_before(self, at: int, base_offset: int, expected: int, why: str) -> None:
        if expected < self.recovery_point:
            raise CorruptLog(
                f"{self.topic_partition}: the segment at {base_offset} should begin at {expected}; {why}, "
                f"though everything below {self.recovery_point} was flushed"
            )
        self.notes.append(f"cut at offset {expected}: segment {base_offset}: {why}")
        self._drop_segments_from(at)

    def _cut_behind(self, at: int, end_offset: int, reason: str) -> None:
        self.notes.append(f"cut at offset {end_offset}: {reason}")
        self._drop_segments_from(at + 1)

    def _drop_segments_from(self, at: int) -> None:
        """From the last to the first: a crash in between leaves a shorter log, never one with a hole."""
        while len(self.segments) > at:
            for suffix in SUFFIXES:
                self.directory.remove(self.segments[-1].name(suffix))
            self.segments.pop()
        self.changed_names = True

    def _start_anew(self) -> int:
        """The records up to the log's start were deleted on request, and its end was lost: nothing is left."""
        self.notes.append(f"empty: everything below offset {self.log_start_offset} was deleted")
        self._drop_segments_from(0)
        self.segments.append(Segment.create(self.directory, self.log_start_offset, self.now_ms))
        return self.log_start_offset

    # ------------------------------------------------------------------------------------------ epochs, producers

    def _read_epochs(self) -> bool:
        data = self.directory.read(LEADER_EPOCHS)
        if data is None:
            return False
        try:
            self.epochs = LeaderEpochs(read_epochs(data))
        except MalformedCheckpoint as error:
            self.notes.append(f"{error}; rebuilt from the batches")
            return False
        return bool(data)

    def _settle_epochs(self, log_end_offset: int, were_good: bool) -> None:
        """The file may be ahead of the log (cut, then crashed), behind it, or of no use: the batches know."""
        before = list(self.epochs.entries)
        self.epochs.truncate_from_start(self.log_start_offset)
        self.epochs.truncate_from_end(log_end_offset)
        last_epoch = self._last_epoch()
        if not were_good or last_epoch > self.epochs.latest or self._epoch_contradicts(last_epoch):
            self.epochs = LeaderEpochs(self._epochs_of_batches())
        if self.epochs.entries != before or not were_good:
            self.directory.replace(LEADER_EPOCHS, epochs_to_bytes(self.epochs.entries), durable=False)
            self.written_names.append(LEADER_EPOCHS)

    def _epoch_contradicts(self, last_epoch: int) -> bool:
        """An entry above the last batch's epoch would begin before the end of the log, where that batch is."""
        return last_epoch >= 0 and self.epochs.latest > last_epoch

    def _last_epoch(self) -> int:
        """Of the last batch; -1 in an empty log. Looks no further than the last index entry of a segment."""
        for segment in reversed(self.segments):
            if segment.size_bytes:
                epoch = -1
                for _, header in segment.headers(segment.last_indexed_position()):
                    epoch = header.leader_epoch
                return epoch
        return -1

    def _epochs_of_batches(self) -> list[EpochEntry]:
        entries: list[EpochEntry] = []
        for segment in self.segments:
            for _, header in segment.headers():
                if header.leader_epoch >= 0 and (not entries or header.leader_epoch > entries[-1].epoch):
                    entries.append(
                        EpochEntry(header.leader_epoch, max(header.base_offset, self.log_start_offset))
                    )
        return entries

    def _producers(self, log_end_offset: int) -> Producers:
        """From the newest snapshot that can be read, and the batches behind it."""
        producers, start = self._best_snapshot(log_end_offset)
        if start == log_end_offset:
            return producers
        for at, segment in enumerate(self.segments):
            end_offset = self.segments[at + 1].base_offset if at + 1 < len(self.segments) else log_end_offset
            if end_offset <= start:
                continue
            aborted: list[AbortedTransaction] = []
            for position, header in segment.headers(segment.position_of(max(start, segment.base_offset))):
                if header.producer_id >= 0 and header.base_offset >= start:
                    entry = replay(producers, segment, position, header, self.now_ms)
                    if entry is not None:
                        aborted.append(entry)
            if not self.was_clean:
                self._settle_transactions(segment, start, aborted)
        return producers

    def _best_snapshot(self, log_end_offset: int) -> tuple[Producers, int]:
        for offset in sorted(self.snapshots, reverse=True):
            if self.segments[0].base_offset <= offset <= log_end_offset:
                data = self.directory.read(file_name(offset, SNAPSHOT_SUFFIX))
                try:
                    return Producers.from_bytes(data or b"", self.now_ms), offset
                except MalformedSnapshot as error:
                    self.notes.append(f"{error} at offset {offset}; replayed from the batches")
            self.directory.remove(file_name(offset, SNAPSHOT_SUFFIX))
            self.changed_names = True
        return Producers(), self.segments[0].base_offset

    def _settle_transactions(
        self, segment: Segment, start: int, replayed: Sequence[AbortedTransaction]
    ) -> None:
        """The transaction index says what the log says: entries from before the replay, then those it gave."""
        kept = [entry for entry in segment.transactions if entry.last_offset < start]
        if kept + list(replayed) != segment.transactions:
            segment.replace_transactions(kept + list(replayed))
            self.changed_names = True
