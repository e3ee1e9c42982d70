"""Opening a log: found as a clean stop left it, or recovered.

The recovery point divides. Below it everything was flushed: what is wrong there was not left by a crash, and the
log is refused (CorruptLog) until a peer or a person repairs it. From it on, the first batch that is not whole is
where the log ends. Each step leaves a log that the next start recovers to the same end, so a crash in the middle
of recovery costs only time.

After a clean stop nothing is scanned but the few batches behind the last index entry.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import NamedTuple

from odradek.log.checkpoints import (
    DIRECTORY_MOVES,
    LEADER_EPOCHS,
    OFFSET_GAPS,
    PARTITION_METADATA,
    TRANSACTION_INDEX_SIZES,
    MalformedCheckpoint,
    epochs_to_bytes,
    read_epochs,
    read_index_sizes,
    read_partition_metadata,
)
from odradek.log.cleaned_segment import CLEANED_SUFFIX, SWAP_SUFFIX
from odradek.log.config import LogConfig
from odradek.log.errors import CorruptLog, DiskFault, MissingFile
from odradek.log.files import TEMPORARY_SUFFIX, Directory, Mark
from odradek.log.indexes import MAX_RELATIVE_OFFSET, TRANSACTION_ENTRY, AbortedTransaction, TransactionIndex
from odradek.log.leader_epochs import EpochEntry, LeaderEpochs
from odradek.log.lookups import replay
from odradek.log.partition_log import PartitionLog
from odradek.log.producers import MalformedSnapshot, Producers
from odradek.log.scan import scan_batches
from odradek.log.segment import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
    file_name,
    is_offset,
)
from odradek.log.steps import all_at_once
from odradek.log.transaction_rebuilding import learn_aborted
from odradek.model.ids import NO_TOPIC_ID, TopicId, TopicPartition
from odradek.records.batch import ATTRIBUTES_OFFSET, BatchHeader
from odradek.records.checksum import crc32c

_BASE_OFFSET = attrgetter("base_offset")

# What a crash left on its way in or out.
_LEFT_OVER = (SWAP_SUFFIX, DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)


def _contradicts(entry: EpochEntry, behind: BatchHeader, log_start_offset: int) -> bool:
    """Whether the first batch at or behind its start is not of this epoch. Of a gap, which compaction leaves, it may be a later one."""
    if behind.leader_epoch < 0:
        return False
    if behind.base_offset < entry.start_offset and entry.start_offset > log_start_offset:
        return True  # an epoch begins with a batch
    is_in_gap = entry.start_offset < behind.base_offset
    return behind.leader_epoch < entry.epoch or (behind.leader_epoch > entry.epoch and not is_in_gap)


def _is_of_a_segment(name: str) -> bool:
    """A person's `00000000000000000042.bad.log` is not."""
    stem, dot, suffix = name.partition(".")
    return is_offset(stem) and dot + suffix in SUFFIXES


def _is_swap(name: str) -> bool:
    """A file of a cleaned segment: a person's `notes.log.swap` is none."""
    return name.endswith(SWAP_SUFFIX) and _is_of_a_segment(name.removesuffix(SWAP_SUFFIX))


class Recovered(NamedTuple):
    """A log, and what its opening did beyond opening, in words for the log file."""

    log: PartitionLog
    notes: list[str]
    # Should the life before have been killed: the kernel has had all files that are not flushed ever since, they can be flushed, and
    # nothing of them was cut off.
    kept_all: bool = True


def open_log(
    parent: Directory,
    topic_partition: TopicPartition,
    config: LogConfig,
    *,
    now_ms: int,
    was_clean: bool,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    cleaned_to: int = 0,
    high_watermark: int = 0,
    name: str | None = None,
) -> Recovered:
    """The log in `parent`'s directory of that name. CorruptLog, or what the disk says, if it cannot be used.

    `high_watermark`: as written. `cleaned_to`: below it a cleaner may have left gaps, Apache's at the ends of segments too.
    """
    directory = parent.child(name or str(topic_partition))
    opening = _Opening(
        directory, topic_partition, config, now_ms, was_clean, recovery_point, log_start_offset, cleaned_to
    )
    recovered = opening.open()
    if not opening.was_clean:
        # The life before may have been killed before it synced the names of what it made, and what we find is
        # only in the page cache. So the first flush of this life makes all of it durable, this directory's name
        # included, before the recovery point moves.
        log = recovered.log
        log.parent = parent
        log.flushed.created()
        # These checkpoints are lowered before a cut, and rise above it when it is on the disk.
        log.flushed.may_have_been_cut(min(max(log.recovery_point, high_watermark), log.log_end_offset))
        for name in (
            LEADER_EPOCHS,
            OFFSET_GAPS,
            PARTITION_METADATA,
            TRANSACTION_INDEX_SIZES,
            DIRECTORY_MOVES,
        ):
            log.flushed.name_changed(name)
    return recovered


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
        cleaned_to: int,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.config = config
        self.now_ms = now_ms
        self.was_clean = was_clean
        self.recovery_point = recovery_point
        self.log_start_offset = log_start_offset
        self.cleaned_to = cleaned_to
        self.notes: list[str] = []
        self.snapshots: list[int] = []
        self.segments: list[Segment] = []
        self.without_index: set[int] = set()  # base offsets
        self.epochs = LeaderEpochs()
        self.changed_names = False
        self.written_names: list[str] = []
        self.last_epoch: int | None = None
        self.producers = Producers()
        self.replay_from = 0
        self.scanned_epoch = -1
        self.epochs_on_disk: list[EpochEntry] | None = None
        self.has_gaps = False
        self.kept_all = True
        self.index_sizes = b""

    def open(self) -> Recovered:
        names = self._clear_leftovers(self.directory.names())
        self._list_segments(names)
        if self.cleaned_to > self.segments[-1].base_offset:
            # Of a former topic of that name: no cleaner comes to the segment that is appended to.
            self.cleaned_to = 0
        has_noted_gaps = OFFSET_GAPS in names
        self.has_gaps = has_noted_gaps or self.cleaned_to > self.segments[0].base_offset
        topic_id = self._topic_id()
        log_end_offset = self._clean_end() if self.was_clean else -1
        self._read_epochs()
        self._tell_if_begun_before(self.segments[0].base_offset)
        if log_end_offset < 0:
            log_end_offset = self._recover()
        else:
            self.producers, self.replay_from = self._best_snapshot(log_end_offset)
            self._replay(self.segments)
        if self.log_start_offset > log_end_offset:
            log_end_offset = self._start_anew()
        first = self.segments[0].base_offset
        self.log_start_offset = max(self.log_start_offset, first)
        self._build_missing_indexes()
        self._read_last_transactions(log_end_offset)
        self._resolve_epochs(log_end_offset)
        self._remove_needless_snapshots()
        log = PartitionLog(
            self.directory,
            self.topic_partition,
            topic_id,
            self.config,
            segments=self.segments,
            epochs=self.epochs,
            producers=self.producers,
            log_start_offset=self.log_start_offset,
            log_end_offset=log_end_offset,
            # After a clean stop all of it was flushed, whatever an old checkpoint says.
            recovery_point=log_end_offset if self.was_clean else min(self.recovery_point, log_end_offset),
            has_gaps=has_noted_gaps,
        )
        if self.has_gaps:
            log.note_gaps()  # of a gap that was found; Apache's cleaner notes none
        log.index_sizes = self.index_sizes
        if self.was_clean:
            log.stopped_at = log_end_offset
        log.other_snapshots.add(self.replay_from)
        if self.changed_names:
            log.flushed.names_dirty()
        for name in self.written_names:
            log.flushed.name_changed(name)
        return Recovered(log, self.notes, self.kept_all)

    # ----------------------------------------------------------------------------------------- what is there

    def _clear_leftovers(self, names: list[str]) -> list[str]:
        """Files a crash left on their way in or out. `.cleaned` is unfinished work, its originals are in place."""
        if not [name for name in names if name.endswith(_LEFT_OVER)]:
            return names
        self._sync_what_was_cut(names)
        kept = []
        unfinished = {name.partition(".")[0] for name in names if name.endswith(LOG_SUFFIX + CLEANED_SUFFIX)}
        swapped = []
        for name in names:
            if _is_swap(name):
                if name.partition(".")[0] in unfinished:
                    # Before the `.cleaned` that says so: see `cleaned_segment`.
                    self._remove(name)
                else:
                    swapped.append(name)
        for name in names:
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)):
                if not self.directory.is_directory(name):  # of a person
                    self.directory.remove(name)
                    self.changed_names = True
            elif not _is_swap(name):
                kept.append(name)
        if swapped:
            kept = self._finish_swap(swapped, kept)
        return kept

    def _sync_what_was_cut(self, names: list[str]) -> None:
        """A prepared segment that is not in place: the life before was killed in a roll, or in a cut, whose file is the last one and
        would be appended to. A power cut could then leave old pages before new ones: see `truncation`.
        """
        if any(name.endswith(LOG_SUFFIX + TEMPORARY_SUFFIX) for name in names):
            logs = [name for name in names if name.endswith(LOG_SUFFIX) and _is_of_a_segment(name)]
            if logs:
                self.directory.sync_file(logs[-1])

    def _finish_swap(self, swapped: list[str], names: list[str]) -> list[str]:
        """A compacted segment that was complete and about to take the place of those it was made from."""
        for name in swapped:
            if not name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
                continue
            base_offset = int(name[: -len(LOG_SUFFIX + SWAP_SUFFIX)])
            end_offset = self._end_of_swapped(name, base_offset)
            for old in list(names):
                if _is_of_a_segment(old) and base_offset <= int(old.partition(".")[0]) < end_offset:
                    self._remove(old)
                    names.remove(old)
        for name in sorted(swapped, key=lambda name: not name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
            if not self.directory.rename(name, name[: -len(SWAP_SUFFIX)]):
                raise self._taken_away(name)
            names.append(name[: -len(SWAP_SUFFIX)])
        self.directory.sync()
        self.changed_names = True
        self.notes.append(f"finished the swap of {len(swapped)} compacted files")
        return sorted(set(names))

    def _end_of_swapped(self, name: str, base_offset: int) -> int:
        file = self.directory.open(name)
        end_offset = base_offset
        for position, header, batch in scan_batches(file, 0, file.size_bytes):
            if isinstance(header, str):
                raise CorruptLog(f"{file.name} at {position}: {header}")
            # What it was made from is removed in a moment: a recovery that finds this later has nothing to go back to.
            if crc32c(batch[ATTRIBUTES_OFFSET:]) != header.crc:
                raise CorruptLog(
                    f"{file.name} at {position}: the CRC of the batch at offset {header.base_offset} does not fit"
                )
            end_offset = header.next_offset
        return end_offset

    def _list_segments(self, names: list[str]) -> None:
        bases: list[int] = []
        others: list[tuple[int, str]] = []
        for name in names:
            stem, dot, suffix = name.partition(".")
            if not dot or len(stem) != 20 or not is_offset(stem):
                continue
            base = int(stem)
            if suffix == "log":
                bases.append(base)
            elif suffix == "snapshot":
                self.snapshots.append(base)
            elif _is_of_a_segment(name):
                others.append((base, name))
        known = set(bases)
        for base, name in others:
            if base not in known:
                self.directory.remove(name)  # an index whose segment is gone
                self.changed_names = True
        listed = set(names)
        self.without_index = {
            base
            for base in bases
            if not listed.issuperset((file_name(base, INDEX_SUFFIX), file_name(base, TIME_INDEX_SUFFIX)))
        }
        for at, base in enumerate(bases):
            end_offset = bases[at + 1] if at + 1 < len(bases) else -1
            segment = Segment(self.directory, base, self.now_ms, end_offset)
            segment.had_no_transaction_index = file_name(base, TRANSACTION_INDEX_SUFFIX) not in listed
            self.segments.append(segment)
        self._note_index_sizes(TRANSACTION_INDEX_SIZES in listed)
        if not self.segments:
            # Its name was not synced before the power went, or the directory had just been made.
            self.segments.append(Segment.create(self.directory, self.log_start_offset, self.now_ms))
            self.was_clean = False
            self.kept_all = False
            self.changed_names = True

    def _note_index_sizes(self, is_listed: bool) -> None:
        """Of a segment of which the file says nothing, as in a log of Apache's, its `.txnindex` is what there is now."""
        sizes: dict[int, int] = {}
        if is_listed:
            self.index_sizes = self.directory.read(TRANSACTION_INDEX_SIZES) or b""
            try:
                sizes = read_index_sizes(self.index_sizes)
            except MalformedCheckpoint as error:
                self.notes.append(f"{error}; the index files are what there is now")
        for segment in self.segments:
            known = sizes.get(segment.base_offset, 0)
            if not known and not segment.had_no_transaction_index:
                size = self.directory.size(segment.name(TRANSACTION_INDEX_SUFFIX)) or 0
                known = size // TRANSACTION_ENTRY.size
            segment.least_aborted = known

    def _build_missing_indexes(self) -> None:
        """Now, as Apache's broker does: whoever asks later is the loop, and a segment of a gigabyte takes two seconds."""
        for segment in self.segments[:-1]:
            names = segment.name(INDEX_SUFFIX), segment.name(TIME_INDEX_SUFFIX)
            if segment.base_offset in self.without_index and not all(map(self.directory.exists, names)):
                self.written_names += segment.rebuild_indexes(self.config.index_interval_bytes)
                segment.close_handles()

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
        try:
            last = segment.load_indexes(self.config.index_interval_bytes)
        except CorruptLog as error:
            self.notes.append(f"marked as cleanly stopped, but {error.message}; recovering")
            self.was_clean = False
            return -1
        segment.file.set_mark(Mark.LAST)
        end_offset = segment.base_offset
        if last is not None:
            end_offset = last.next_offset
            self.last_epoch = last.leader_epoch
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
        """Scans from the segment that holds the recovery point on. Returns the log end offset."""
        self.last_epoch = None
        # A snapshot behind the recovery point was perhaps never synced, or belongs to records that were cut off. But of what lay
        # below the first segment, and was deleted since, nothing else tells.
        believed = max(self.recovery_point, self.segments[0].base_offset)
        for offset in [offset for offset in self.snapshots if offset > believed]:
            self.directory.remove(file_name(offset, SNAPSHOT_SUFFIX))
            self.snapshots.remove(offset)
            self.changed_names = True
        # Which epoch began where is learnt again from the batches that are left.
        self.epochs.truncate_from_end(self.recovery_point)
        at = len(self.segments) - 1
        while at > 0 and self.segments[at].base_offset > self.recovery_point:
            at -= 1
        if at > 0:
            self._trim(self.segments[at - 1])
        self.producers, self.replay_from = self._best_snapshot(believed)
        self._replay(self.segments[:at])
        expected = self.segments[at].base_offset
        cut = False
        while at < len(self.segments) and not cut:
            segment = self.segments[at]
            if segment.base_offset != expected and not self._is_behind_a_gap(segment, expected):
                # The end of the segment before was lost, and this one's beginning was not.
                cut = True
                self._refuse_if_flushed(expected, f"segment {segment.base_offset} should begin at {expected}")
                self.notes.append(
                    f"cut at offset {expected}: the records before segment {segment.base_offset} are lost"
                )
                self._drop_segments_from(at)
                break
            self._flush_what_was_kept(segment)
            expected, position, reason = self._scan(segment)
            self._sync_with_first_flush(segment)
            if position < segment.file.size_bytes:
                if reason and segment.end_offset != expected:
                    cut = True
                    self._refuse_if_flushed(expected, reason)
                    self.notes.append(f"cut at offset {expected}: {reason}")
                    # Later segments first: were the file cut first, a crash in between could leave a hole.
                    self._drop_segments_from(at + 1)
                segment.file.truncate(position)
            segment.close_handles()  # a log may have more segments than there are descriptors
            at += 1
        if cut:
            self.kept_all = False
            self.segments[-1].file.set_mark(Mark.LAST)
            self.segments[-1].close_handles()
        self._refuse_if_flushed(expected, f"the log ends at {expected}")
        for segment in self.segments[:-1]:
            if segment.offset_index is not None:
                self.written_names += segment.become_inactive()
        self.segments[-1].end_offset = -1
        return expected

    def _flush_what_was_kept(self, segment: Segment) -> None:
        """Before it is read: pages that could not be written to the disk may be gone from memory at any time, and a sync tells of them,
        but only to one. So what is read then has to come from the disk. And the last segment has to be one that was the last."""
        file, is_last = segment.file, segment is self.segments[-1]
        mark = file.mark
        if mark:
            file.sync()
            file.drop_cached()
        self.kept_all &= mark is Mark.LAST if is_last else mark is not Mark.NONE
        file.set_mark(Mark.LAST if is_last else Mark.FOLLOWED)

    def _trim(self, segment: Segment) -> None:
        """A log that was cut goes on in a new segment. If the power went before the cut was synced, the older file
        still has what was cut off, and the newer one overlaps it: then the newer one is right.
        """
        limit = segment.end_offset
        expected = -1
        try:
            position = segment.position_of(limit - 1)
            for at, header in segment.headers(position):
                if header.base_offset >= limit:
                    break
                position = at + header.size_bytes
                expected = header.next_offset
        except CorruptLog:
            expected = -1
        if expected != limit:
            position = self._end_of_batches_below(segment, limit)
        if position < segment.file.size_bytes:
            segment.file.truncate(position)
        self._sync_with_first_flush(segment)

    def _sync_with_first_flush(self, segment: Segment) -> None:
        """Whether we changed it or not: what we find may be the work of a life that was killed before it synced."""
        self.written_names += [segment.name(), segment.name(TRANSACTION_INDEX_SUFFIX)]

    def _end_of_batches_below(self, segment: Segment, limit: int) -> int:
        """Where the batch that ends at `limit` ends. What is behind it was cut off; what is before it was flushed."""
        file = segment.file
        position = 0
        expected = segment.base_offset
        for at, header, _ in scan_batches(file, 0, file.size_bytes):
            if isinstance(header, str) or header.base_offset >= limit:
                break
            position = at + header.size_bytes
            expected = header.next_offset
        # Where there was a cut a batch ends at `limit`, in a gap too; where there was none, a gap at the end is the end of the file.
        if expected != limit and (position < file.size_bytes or not self._may_have_gaps):
            self._refuse_if_flushed(
                expected, f"{file.name}: no batch at {position}, where offset {expected} must be"
            )
        return position

    def _scan(self, segment: Segment) -> tuple[int, int, str]:
        """Walks over the segment and builds its indexes, as far as it makes sense.

        Returns the offset and the position behind the last good batch, and why it is the last.
        """
        file = segment.file
        segment.make_index_in_memory()
        expected = segment.base_offset
        end = 0
        aborted: list[AbortedTransaction] = []
        interval = self.config.index_interval_bytes
        replay_from, segment_end = self.replay_from, segment.end_offset
        reason = ""
        for position, header, batch in scan_batches(file, 0, file.size_bytes):
            if isinstance(header, str):
                reason = header
            elif 0 <= segment_end <= header.base_offset:
                if expected == segment_end:
                    break  # cut off, and the next segment has what came instead: see `_trim`
                reason = f"offset {header.base_offset} where {expected} was expected"
            elif header.base_offset != expected or header.leader_epoch < self.scanned_epoch:
                reason = self._why_not_next(header, expected)
            elif header.last_offset_delta < 0:
                reason = f"last offset delta {header.last_offset_delta}"
            if not reason and crc32c(batch[ATTRIBUTES_OFFSET:]) != header.crc:  # type: ignore[union-attr]
                reason = f"the CRC of the batch at offset {expected} does not fit"
            if reason:
                reason = f"{file.name} at {position}: {reason}"
                break
            assert not isinstance(header, str)
            if header.leader_epoch != self.scanned_epoch:
                self._learn_epochs(header, expected)
            if header.base_offset != expected and self.config.is_compacted:
                self.has_gaps = True  # and so it is noted, where a power cut took the name of the note
            expected = header.base_offset + header.last_offset_delta + 1
            size_bytes = header.size_bytes
            end = position + size_bytes
            segment.note_batch(position, size_bytes, expected, header.largest_timestamp, interval)
            if header.producer_id >= 0 and header.base_offset >= replay_from:
                entry = replay(self.producers, file, position, header, self.now_ms)
                if entry is not None:
                    aborted.append(entry)
        self._resolve_transactions(segment, replay_from, expected, aborted)
        return expected, end, reason

    def _learn_epochs(self, header: BatchHeader, expected: int) -> None:
        """Which epochs begin at this batch, or in the gap before it, which compaction left: of those only the file knows. An
        epoch that began later than it did would have a follower keep what its leader never had.
        """
        epoch = header.leader_epoch
        self.scanned_epoch = epoch
        if header.base_offset < self.recovery_point:
            return
        for entry in self.epochs_on_disk or ():
            is_in_gap = expected <= entry.start_offset < header.base_offset
            if is_in_gap and self.epochs.latest < entry.epoch <= epoch:
                self.epochs.assign(entry.epoch, entry.start_offset)
        if epoch > self.epochs.latest:
            self.epochs.assign(epoch, header.base_offset)

    def _why_not_next(self, header: BatchHeader, expected: int) -> str:
        """Offsets and epochs lie before the CRC, so only their order protects them. "" if it is kept."""
        # A gap may be compaction's below the recovery point; above it, only a compacted leader's.
        may_be_gap = header.base_offset < self.recovery_point or self._may_have_gaps
        if header.base_offset < expected or (header.base_offset > expected and not may_be_gap):
            return f"offset {header.base_offset} where {expected} was expected"
        if header.leader_epoch < self.scanned_epoch:
            return f"leader epoch {header.leader_epoch} after {self.scanned_epoch}"
        return ""

    def _is_behind_a_gap(self, segment: Segment, expected: int) -> bool:
        """Above the recovery point gaps are within segments, but for those that no segment is wide enough for, and those that
        Apache's cleaner left: it synced what it wrote, whatever the recovery point says."""
        if segment.base_offset < expected or not self._may_have_gaps:
            return False
        if segment.base_offset <= self.cleaned_to:
            return True
        for _, header, _ in scan_batches(segment.file, 0, segment.file.size_bytes):
            return not isinstance(header, str) and header.last_offset - expected > MAX_RELATIVE_OFFSET
        return False

    @property
    def _may_have_gaps(self) -> bool:
        return self.has_gaps or self.config.is_compacted

    def _refuse_if_flushed(self, end_offset: int, what: str) -> None:
        """Records below the log's start were deleted on request: those may be missing, and when the log is begun
        anew there (`_start_anew`) they are, one segment after the other.
        """
        if end_offset < self.recovery_point and self.recovery_point > self.log_start_offset:
            raise CorruptLog(
                f"{self.topic_partition}: flushed up to offset {self.recovery_point}, but {what}: records that "
                "were safe are missing or damaged"
            )

    def _tell_if_begun_before(self, first: int) -> None:
        """Not refused: of logs that nobody has touched a few look the same. Apache's broker lets go of a segment before it writes that,
        an empty log goes on behind a gap that is too wide for a segment, and the file of epochs has no checksum.

        Whoever moves the log's start here writes so into that file before a segment goes, and lowers the recovery point before all of
        them go.
        """
        if not self.epochs_on_disk:
            return
        began = max(self.epochs_on_disk[0].start_offset, self.log_start_offset)
        if began < first <= self.recovery_point:
            self.notes.append(
                f"its first segment begins at offset {first}, but by {LEADER_EPOCHS} the log began at {began}: segments that were "
                f"removed from outside this process are missing, if there were any. It begins at {first} from now on, and so do its "
                "followers once it leads. Where another replica leads and has them, take this one out of the partition's replicas and back "
                "in (odradek reassign): it is copied anew"
            )

    def _drop_segments_from(self, at: int) -> None:
        """From the last to the first: a crash in between leaves a shorter log, never one with a hole."""
        while len(self.segments) > at:
            for suffix in SUFFIXES:
                name = self.segments[-1].name(suffix)
                if not self.directory.remove(name) and suffix == LOG_SUFFIX:
                    raise self._taken_away(name)
            self.segments.pop()
        self.changed_names = True

    def _remove(self, name: str) -> None:
        """A file that this start has listed."""
        if not self.directory.remove(name):
            raise self._taken_away(name)
        self.changed_names = True

    def _taken_away(self, name: str) -> MissingFile:
        """As in `Segment.mark_deleted`: were the file put back, the next start would take it for a part of the log."""
        return MissingFile(
            f"{self.directory.path}/{name}: missing: it was removed or renamed from outside this process"
        )

    def _start_anew(self) -> int:
        """The records up to the log's start were deleted on request, and its end was lost: nothing is left."""
        self.notes.append(f"empty: everything below offset {self.log_start_offset} was deleted")
        self.kept_all = False
        self._drop_segments_from(0)
        self.producers = Producers()
        self.segments.append(Segment.create(self.directory, self.log_start_offset, self.now_ms))
        return self.log_start_offset

    # ------------------------------------------------------------------------------------------ epochs, producers

    def _read_epochs(self) -> None:
        """None of them where the file is of no use: the batches know."""
        data = self.directory.read(LEADER_EPOCHS)
        if data is None:
            return
        try:
            self.epochs_on_disk = read_epochs(data)
            self.epochs = LeaderEpochs(self.epochs_on_disk)
        except MalformedCheckpoint as error:
            self.notes.append(f"{error}; rebuilt from the batches")

    def _resolve_epochs(self, log_end_offset: int) -> None:
        """The file may be ahead of the log (cut, then crashed), behind it, or of no use: the batches know.

        Where it is of no use and a batch cannot be read, nobody knows, and the log is refused: it would tell followers to keep what
        their leader never had. A batch that is damaged costs the log its service anyway, once it is met (decisions/0010).
        """
        self.epochs.truncate_from_start(self.log_start_offset)
        self.epochs.truncate_from_end(log_end_offset)
        last_epoch = self._last_epoch() if self.last_epoch is None else self.last_epoch
        if (
            last_epoch > self.epochs.latest
            or self._epoch_contradicts(last_epoch)
            or (not self.was_clean and self._epochs_begin_too_late())
        ):
            self.epochs = LeaderEpochs(self._epochs_of_batches()[0])
        elif not self.was_clean and self._is_epoch_file_damaged():
            entries, fall = self._epochs_of_batches()
            if not fall:  # else it is a batch that is damaged: its epoch lies before the checksum
                self.epochs = LeaderEpochs(entries)
        if self.epochs.entries != self.epochs_on_disk:
            self.directory.replace(LEADER_EPOCHS, epochs_to_bytes(self.epochs.entries), durable=False)
            self.written_names.append(LEADER_EPOCHS)

    def _epoch_contradicts(self, last_epoch: int) -> bool:
        """An entry above the last batch's epoch would begin before the end of the log, where that batch is."""
        return last_epoch >= 0 and self.epochs.latest > last_epoch

    def _epochs_begin_too_late(self) -> bool:
        """The log's start was moved up and its epochs with it, and only the latter got to the disk."""
        if not self.epochs.entries:
            return False
        with self._comparing():
            for segment in map(self._apart, self.segments):
                for _, header in segment.headers(segment.position_of(self.log_start_offset)):
                    return self.epochs.entries[0].start_offset > max(
                        header.base_offset, self.log_start_offset
                    )
        return False

    def _is_epoch_file_damaged(self) -> bool:
        """Whether some entry contradicts the batches before it and behind it. The file has no checksum, and one bit makes another
        number of a number: what was scanned has been learnt from the batches, and the rest is compared here.

        The batches of an entry may have gone by compaction. Those that are damaged, or cannot be read, contradict nobody.
        """
        former = -1
        for entry in self.epochs.entries:
            if entry.start_offset >= self.recovery_point:
                break  # learnt from the batches
            before = behind = None
            with self._comparing():
                before, behind = self._batches_around(entry.start_offset)
            if behind is not None and _contradicts(entry, behind, self.log_start_offset):
                return True
            if (
                before is not None
                and before.leader_epoch > former
                and entry.start_offset > self.log_start_offset
            ):
                return True
            former = entry.epoch
        return False

    def _batches_around(self, offset: int) -> tuple[BatchHeader | None, BatchHeader | None]:
        """The last batch that ends before this offset, and the first that ends at it or behind it."""
        before: BatchHeader | None = None
        first = max(bisect_left(self.segments, offset, key=_BASE_OFFSET) - 1, 0)
        for segment in map(self._apart, self.segments[first:]):
            for _, header in segment.headers(segment.position_before(offset)):
                if header.last_offset >= offset:
                    return before, header
                before = header
        return before, None

    def _apart(self, segment: Segment) -> Segment:
        """To be compared with what a file says: of a closed segment nobody has asked for anything yet, and a start may do without. So a
        sector of it that cannot be read is no reason to go without the whole log directory (decisions/0070)."""
        if segment.end_offset < 0:
            return segment
        return Segment(self.directory.apart(), segment.base_offset, self.now_ms, segment.end_offset)

    @contextmanager
    def _comparing(self) -> Iterator[None]:
        """With batches that may be damaged, or cannot be read: who asks for them is told."""
        try:
            yield
        except CorruptLog as damage:
            reason = damage.message
        except DiskFault as fault:
            reason = fault.message
        else:
            return
        note = f"{LEADER_EPOCHS} is not compared with all batches: {reason}"
        if note not in self.notes:
            self.notes.append(note)

    def _last_epoch(self) -> int:
        """Of the last batch; -1 in an empty log. Looks no further than the last index entry of a segment."""
        for segment in reversed(self.segments):
            if segment.size_bytes:
                epoch = -1
                for _, header in segment.headers(segment.last_indexed_position()):
                    epoch = header.leader_epoch
                return epoch
        return -1

    def _epochs_of_batches(self) -> tuple[list[EpochEntry], bool]:
        """And whether one of them is less than one before it, which no log that is whole has."""
        entries: list[EpochEntry] = []
        fall = False
        for segment in map(self._apart, self.segments):
            for _, header in segment.headers():
                if header.leader_epoch >= 0 and (not entries or header.leader_epoch > entries[-1].epoch):
                    entries.append(
                        EpochEntry(header.leader_epoch, max(header.base_offset, self.log_start_offset))
                    )
                elif 0 <= header.leader_epoch < entries[-1].epoch:
                    fall = True
        return entries, fall

    def _replay(self, segments: Sequence[Segment]) -> None:
        """What the producers did in these segments, behind the snapshot they are known from."""
        for segment in segments:
            if segment.end_offset >= 0 and segment.end_offset <= self.replay_from:
                continue
            start = max(self.replay_from, segment.base_offset)
            for position, header in segment.headers(segment.position_of(start)):
                if header.producer_id >= 0 and header.base_offset >= start:
                    replay(self.producers, segment.file, position, header, self.now_ms)
            segment.close_handles()

    def _best_snapshot(self, at_most: int) -> tuple[Producers, int]:
        """The newest that can be read and is not ahead of `at_most`, and its offset."""
        for offset in sorted(self.snapshots, reverse=True):
            if self.segments[0].base_offset <= offset <= at_most:
                data = self.directory.read(file_name(offset, SNAPSHOT_SUFFIX))
                try:
                    return Producers.from_bytes(data or b"", self.now_ms), offset
                except MalformedSnapshot as error:
                    self.notes.append(f"{error} at offset {offset}; replayed from the batches")
                    self.directory.remove(file_name(offset, SNAPSHOT_SUFFIX))
                    self.changed_names = True
        return Producers(), self.segments[0].base_offset

    def _remove_needless_snapshots(self) -> None:
        """Each stop in order leaves one where the log ends. The one that was just read may be read again, and those at the
        beginning of a segment after a cut; what a power cut brings back goes at the next start.
        """
        needed = {self.replay_from, *(segment.base_offset for segment in self.segments)}
        for offset in self.snapshots:
            if offset not in needed:
                self.directory.remove(file_name(offset, SNAPSHOT_SUFFIX))

    def _resolve_transactions(
        self, segment: Segment, start: int, end: int, replayed: Sequence[AbortedTransaction]
    ) -> None:
        """The transaction index says what the log says: entries from before the replay, then those it gave."""
        found = segment.read_transactions(end)
        known = found
        if found is None and start > segment.base_offset:
            at = self.segments.index(segment)
            known = all_at_once(
                learn_aborted(
                    self.directory, self.segments[: at + 1], self.snapshots, min(start, end), self.now_ms
                )
            )
            self.notes.append(
                f"{segment.name(TRANSACTION_INDEX_SUFFIX)} is not what it was; built again from the batches"
            )
        right = [entry for entry in known or () if entry.last_offset < min(start, end)] + list(replayed)
        if found is None or right != list(found):
            segment.replace_transactions(right)
        else:
            segment.take_transactions(found)

    def _read_last_transactions(self, log_end_offset: int) -> None:
        """Those of the segment that is appended to are known from the start on: a marker that is to be appended does not wait."""
        segment = self.segments[-1]
        if segment.known_transactions is None:
            if segment.may_have_aborted:
                self._resolve_transactions(segment, log_end_offset, log_end_offset, ())
                self.written_names.append(segment.name(TRANSACTION_INDEX_SUFFIX))
            else:
                segment.take_transactions(TransactionIndex())
