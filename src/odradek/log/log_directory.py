"""One of `log.dirs`: what is kept of it beside its logs, and whose it is (`meta.properties`)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

from odradek.log import checkpoints
from odradek.log.checkpoints import DIRECTORY_MOVES, MalformedCheckpoint, Running, read_moves
from odradek.log.errors import DirectoryOffline, NoDescriptor, StorageError, WrongDirectory
from odradek.log.files import Directory, File, Mark
from odradek.log.files import Lock as DirectoryLock
from odradek.log.offset_checkpoint import OffsetCheckpoint
from odradek.model.ids import TopicPartition, number_in
from odradek.model.topic_names import problem_with

MOST_NOTE_BYTES = 1 << 16
FUTURE_SUFFIX = "-future"  # of the directory of a log on its way into this one: see `future_logs`


class LogDirectory:
    """One of `log.dirs`, and the state we keep per directory."""

    def __init__(self, root: Directory) -> None:
        self.root = root
        self.lock: DirectoryLock | None = None
        # Broker epoch of the life that lost nothing here when it ended: it stopped in order and flushed all, or it was killed and the
        # kernel has kept all; -1: nobody knows
        self.clean_epoch = -1
        # This life, as long as it has lost nothing, and the note of it, which has a mark.
        self._life: Running | None = None
        self._note: File | None = None
        # Checkpoints are written by a thread, and by whoever cuts a log: who reads and changes them holds this.
        self.checkpointing = Lock()
        self.recovery_points = OffsetCheckpoint(root, checkpoints.RECOVERY_POINT)
        self.high_watermarks = OffsetCheckpoint(root, checkpoints.HIGH_WATERMARK)
        self.log_starts = OffsetCheckpoint(root, checkpoints.LOG_START)
        # Where the dirty part of a compacted log begins.
        self.cleaned_to = OffsetCheckpoint(root, checkpoints.CLEANER)
        self._checkpoints = (self.recovery_points, self.log_starts, self.high_watermarks, self.cleaned_to)
        self.log_count = 0  # see `Homes`
        self.unsynced_deletions: list[TopicPartition] = []  # renamed, and a power cut may take that back
        # Should this directory fail, logs of these may be back with it: those, what could not be renamed, a copy that had just
        # arrived, and what lies here where it failed before all of that was opened.
        self.may_come_back: set[TopicPartition] = set()

    @property
    def path(self) -> str:
        return self.root.path

    @property
    def is_online(self) -> bool:
        return self.root.health.failure is None

    def offline_with(self, topic_partition: TopicPartition) -> DirectoryOffline:
        """Of one that lies here."""
        return DirectoryOffline(f"{topic_partition} is in log directory {self.path}, which is offline")

    def sync_deletions(self) -> None:
        """What was renamed stays so when this returns. Blocks."""
        self.root.sync()
        self.may_come_back.difference_update(self.unsynced_deletions)
        self.unsynced_deletions = []  # another one: see `LogCheckpoints.write_recovery_points`

    # ------------------------------------------------------------------------------------------- a life that is killed

    def is_run_by(self, broker_epoch: int, directories: int) -> None:
        """Should the process be killed from here on, the next one may know that nothing was lost (decisions/0074). Where that cannot be
        written it will not; that is no reason to go without the log directory."""
        root = self.root.apart()
        life = self._life = Running(broker_epoch, root.boot_id(), directories, self.log_count)
        try:
            with self.checkpointing:
                self.high_watermarks.be_marked()
            root.replace(checkpoints.RUNNING, checkpoints.running_to_bytes(life), durable=False)
            note = self._note = root.open(checkpoints.RUNNING)
        except StorageError:
            self.has_lost()
            return
        note.set_mark(Mark.LAST)
        if self._life is not life:  # since a moment ago, by another thread
            self.has_lost()

    def count(self, more: int) -> None:
        """So many logs more are here, or less: who comes next is told, for a log that somebody removes leaves no trace."""
        self.log_count += more
        life, note = self._life, self._note
        if life is None or note is None:
            return
        try:
            if note.size_bytes > MOST_NOTE_BYTES:
                note.truncate(0)
            note.append(b"\n" + checkpoints.running_to_bytes(life._replace(logs=self.log_count)))
        except StorageError:
            self.has_lost()

    def has_lost(self) -> None:
        """Or may have: who comes next is not to count on anything here. Asks nothing of the disk, which may be the one that failed."""
        self._life = None
        note, self._note = self._note, None
        if note is not None:
            note.set_mark(Mark.NONE)

    def take_note(self) -> Running | None:
        """At the start: what a life said that was killed under this kernel while it had lost nothing. Said once, for this life writes on:
        StorageError where that cannot be made sure of."""
        running = None
        with suppress(StorageError):  # then nobody knows
            note = self.root.apart().open(checkpoints.RUNNING, read_only=True)
            if note.mark is Mark.LAST:
                running = checkpoints.read_running(note.read_at(0, note.size_bytes))
        self.root.remove(checkpoints.RUNNING)
        return running if running is not None and running.boot_id == self.root.boot_id() != "" else None

    # ----------------------------------------------------------------------------------------------- checkpoints

    def read_checkpoints(self, notes: list[str]) -> None:
        for checkpoint in self._checkpoints:
            checkpoint.read(notes)

    def end_is_known(self, topic_partition: TopicPartition, log_end_offset: int) -> None:
        """Of a log that was found damaged. Should the process die now, the next one must not take the damage for the torn
        tail of a crash and cut it off: all of the log was here, and the checkpoint says so."""
        with self.checkpointing:
            # With the next checkpoint, should this one fail.
            self.recovery_points.offsets[topic_partition] = log_end_offset
            self.recovery_points.set(topic_partition, log_end_offset)

    def ends_are_known(self, log_end_offsets: Mapping[TopicPartition, int]) -> bool:
        """Of logs that were opened just now; whether none ends before where it was committed. One that lost its end, by a power cut say, is not committed beyond it: what will be
        appended there would else look as if it were, should the process die before high watermarks are written again. Nor was it
        cleaned up to where it does not reach: what will stand there never was, and a loss among it is no gap of a cleaner."""
        with self.checkpointing:
            written = self.high_watermarks.offsets
            lower = {key: end for key, end in log_end_offsets.items() if written.get(key, 0) > end}
            if lower:
                self.high_watermarks.write({**written, **lower})
            cleaned = self.cleaned_to.offsets
            shorter = {key for key, end in log_end_offsets.items() if cleaned.get(key, 0) > end}
            if shorter:
                self.cleaned_to.write({key: offset for key, offset in cleaned.items() if key not in shorter})
        return not lower

    def before_cut_below(self, topic_partition: TopicPartition, offset: int, log_start_offset: int) -> None:
        """Lowers the recovery point on disk before records below it are cut: after a crash in between, the log
        would else look as if flushed records were missing. And the log start, where a log begins anew below the
        old one: what is appended there would else look as if it had been deleted. And the high watermark: what is
        appended there would else look as if it were committed. And up to where it was cleaned: what will stand above the cut
        never was.
        """
        with self.checkpointing:
            for checkpoint, limit in self._limits(offset, log_start_offset):
                checkpoint.lower(topic_partition, limit)

    def lowering(
        self, topic_partition: TopicPartition, offset: int, log_start_offset: int
    ) -> "Lowering | None":
        """`before_cut_below`, for a thread, and ahead of it. None: nothing has to be written."""
        with self.checkpointing:
            too_high = [
                (checkpoint, limit)
                for checkpoint, limit in self._limits(offset, log_start_offset)
                if checkpoint.says_more(topic_partition, limit)
            ]
        return Lowering(topic_partition, too_high, self.checkpointing) if too_high else None

    def _limits(self, offset: int, log_start_offset: int) -> list[tuple[OffsetCheckpoint, int]]:
        return [
            (checkpoint, log_start_offset if checkpoint is self.log_starts else offset)
            for checkpoint in self._checkpoints
        ]

    def expect(
        self,
        topic_partition: TopicPartition,
        *,
        high_watermark: int,
        log_start_offset: int,
        first_base_offset: int,
    ) -> None:
        """A log of this name is about to be in use here. What its files do not say stands in the checkpoints, unless what
        is there does as well: the mark as it was a moment ago, but not as it was before the log in use was cut."""
        with self.checkpointing:
            written = self.high_watermarks.offsets.get(topic_partition)
            if written is None or written > high_watermark:
                self.high_watermarks.set(topic_partition, high_watermark)
            if (
                log_start_offset > first_base_offset
                and self.log_starts.offsets.get(topic_partition) != log_start_offset
            ):
                self.log_starts.set(topic_partition, log_start_offset)

    def leave_out(self, topic_partition: TopicPartition) -> None:
        """The log is retired: nothing is said of it any more, from the next time on that the files are written."""
        with self.checkpointing:
            for checkpoint in self._checkpoints:
                checkpoint.offsets.pop(topic_partition, None)

    def forget_former(self, topic_partition: TopicPartition) -> None:
        """What was flushed or deleted of an earlier log of that name says nothing about a new one.

        Written before the new one is made: after a crash it would else look as if flushed records of it were
        missing, or as if it began where the old one did.
        """
        with self.checkpointing:
            for checkpoint in self._checkpoints:
                checkpoint.forget(topic_partition)


class Lowering(NamedTuple):
    """Work for a thread: True, or what went wrong, as a value."""

    topic_partition: TopicPartition
    limits: Sequence[tuple[OffsetCheckpoint, int]]
    lock: Lock

    def run(self) -> StorageError | bool:
        try:
            for checkpoint, limit in self.limits:
                checkpoint.lower_beside(self.topic_partition, limit, self.lock)
        except StorageError as error:
            return error
        return True


class Homes(dict[TopicPartition, LogDirectory]):
    """Where each log is; and, so that a new one need not count them all, how many are where."""

    def __setitem__(self, key: TopicPartition, directory: LogDirectory) -> None:
        former = self.get(key)
        super().__setitem__(key, directory)
        directory.count(1)
        if former is not None:
            former.count(-1)

    def __delitem__(self, key: TopicPartition) -> None:
        former = self[key]
        super().__delitem__(key)
        former.count(-1)


def claim(directories: Sequence[LogDirectory], broker_id: int, cluster_id: str | None) -> str | None:
    """Locks every directory and checks whose it is; returns the cluster id found, if any directory has one. One whose lock cannot be
    had, for its disk is full, say, is offline.

    DirectoryInUse or WrongDirectory before anything was changed. `cluster_id` None: not known yet; call
    `write_meta_properties` once it is.
    """
    found: str | None = None
    for directory in directories:
        if directory.lock is None and directory.is_online:
            try:
                directory.lock = directory.root.lock()
            except NoDescriptor:
                raise
            except StorageError as error:
                directory.root.health.fail(error)
    for directory in directories:
        if not directory.is_online:
            continue
        try:
            data = directory.root.read(checkpoints.META_PROPERTIES)
        except StorageError:
            continue  # told through its health; the others go on
        if data is None:
            continue
        try:
            meta = checkpoints.read_meta_properties(data)
        except MalformedCheckpoint as error:
            raise WrongDirectory(f"log directory {directory.path}: {error}") from None
        if meta.broker_id not in (None, broker_id):
            raise WrongDirectory(
                f"log directory {directory.path} belongs to broker {meta.broker_id}, this is broker {broker_id}: "
                f"set broker.id={meta.broker_id}, or give this broker another log.dirs"
            )
        wanted = cluster_id or found
        if meta.cluster_id is not None and wanted is not None and meta.cluster_id != wanted:
            raise WrongDirectory(
                f"log directory {directory.path} belongs to cluster {meta.cluster_id}, this is cluster {wanted}: "
                "point the broker at that cluster's store, or give it another log.dirs"
            )
        found = found or meta.cluster_id
    return found


def write_meta_properties(directories: Sequence[LogDirectory], broker_id: int, cluster_id: str) -> None:
    """Where it is missing or does not name the cluster yet. A directory that fails at that is offline."""
    for directory in directories:
        try:
            data = directory.root.read(checkpoints.META_PROPERTIES)
            if data is None or checkpoints.read_meta_properties(data).cluster_id is None:
                directory.root.replace(
                    checkpoints.META_PROPERTIES, checkpoints.meta_properties_to_bytes(broker_id, cluster_id)
                )
        except StorageError:
            if directory.is_online:
                raise


def parse_directory_name(name: str) -> TopicPartition | None:
    """`topic-partition`; topics may have dashes themselves. None where no topic has that name: `copy of orders-0` is a person's."""
    topic, _, partition = name.rpartition("-")
    number = number_in(partition)
    if problem_with(topic) or number is None or (len(partition) > 1 and partition[0] == "0"):
        return None
    return TopicPartition(topic, number)


def moves_of(directory: Directory) -> int:
    """How often the log in this directory went from one log directory to another."""
    try:
        return read_moves(directory.read(DIRECTORY_MOVES))
    except MalformedCheckpoint:
        return 0  # never synced before the power went: then it was not in use under its plain name
