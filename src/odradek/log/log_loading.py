"""Opening the logs of a log directory at the start of a broker, and what to make of two of one name."""

from collections.abc import Callable
from typing import Protocol

from odradek.log import checkpoints
from odradek.log.duplicate_logs import DuplicateLog, topic_id_in, why_both_cannot_be
from odradek.log.errors import StorageError, to_be_kept
from odradek.log.hosted_logs import HostedLogs
from odradek.log.log_directory import FUTURE_SUFFIX, LogDirectory, moves_of, parse_directory_name
from odradek.log.partition_log import PartitionLog
from odradek.log.recovery import Recovered
from odradek.log.retired_logs import DELETE_SUFFIX, STRAY_SUFFIX, RetiredLogs, is_unique_name
from odradek.model.ids import TopicPartition

LEFTOVER_SUFFIXES = (DELETE_SUFFIX, STRAY_SUFFIX, FUTURE_SUFFIX)


class Opens(Protocol):
    """What the manager of the logs does for whoever loads them."""

    directories: list[LogDirectory]

    def open_log(
        self, directory: LogDirectory, topic_partition: TopicPartition, was_clean: bool, now_ms: int
    ) -> Recovered: ...

    def adopt(self, topic_partition: TopicPartition, directory: LogDirectory, log: PartitionLog) -> None: ...

    def retire(
        self, topic_partition: TopicPartition, found: DuplicateLog, suffix: str, now_ms: int
    ) -> str: ...


class LogLoading:
    def __init__(
        self,
        hosted: HostedLogs,
        retired: RetiredLogs,
        manager: Opens,
        on_future: Callable[[LogDirectory, str, bool], None],
    ) -> None:
        """`on_future`: where, name, stopped in order; future logs are opened after all logs in use."""
        self._hosted = hosted
        self._retired = retired
        self._manager = manager
        self._on_future = on_future
        # Of the logs of one directory, of those too that nobody knows whether to use.
        self._ends: dict[TopicPartition, int] = {}
        self._kept_all = True  # of the same directory, should the life before have been killed
        self.named: list[TopicPartition] = []  # what lies in the same directory, opened or not

    def load_directory(self, directory: LogDirectory, now_ms: int, notes: list[str]) -> bool:
        root = directory.root
        self.named = []
        names = root.names()
        parsed = [(name, parse_directory_name(name)) for name in names]
        self.named = [topic_partition for _, topic_partition in parsed if topic_partition is not None]
        was_clean = checkpoints.CLEAN_SHUTDOWN in names
        if was_clean:
            directory.clean_epoch = checkpoints.read_clean_shutdown(
                root.read(checkpoints.CLEAN_SHUTDOWN) or b""
            )
            # Gone before anything is loaded: a crash from here on is an unclean stop (KAFKA-10471).
            root.remove(checkpoints.CLEAN_SHUTDOWN)
            root.sync()
        note = directory.take_note()
        # Else one of another kind ran here since, of which nobody knows what it lost.
        self._kept_all = directory.high_watermarks.is_marked()
        directory.read_checkpoints(notes)
        self._ends = {}
        count = 0
        for name, topic_partition in parsed:
            if name.endswith(LEFTOVER_SUFFIXES):
                if is_unique_name(name, DELETE_SUFFIX):
                    self._retired.found(directory, name, now_ms)
                elif is_unique_name(name, FUTURE_SUFFIX):
                    self._on_future(directory, name, was_clean)
                continue
            if topic_partition is None or not root.is_directory(name):
                continue
            count += 1
            if topic_partition in self._hosted.homes or topic_partition in self._hosted.ambiguous:
                self._load_duplicate(directory, topic_partition, was_clean, now_ms, notes)
                continue
            self._load_log(directory, topic_partition, was_clean, now_ms, notes)
        self._kept_all &= directory.ends_are_known(self._ends)
        if (
            not was_clean
            and self._kept_all
            and note is not None
            and (note.directories, note.logs) == (len(self._manager.directories), count)
        ):
            directory.clean_epoch = note.broker_epoch
            notes.append(
                f"log directory {directory.path}: broker epoch {note.broker_epoch} was killed, and the kernel has kept all that it wrote"
            )
        return was_clean

    def _load_duplicate(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        was_clean: bool,
        now_ms: int,
        notes: list[str],
    ) -> None:
        """Another directory has a log of that name already: see `duplicate_logs`."""
        self._kept_all = False
        root = directory.root
        first = self._hosted.homes.get(topic_partition)
        if first is not None and not first.is_online:
            # Of which topic that one is cannot be read. This one is asked for by topic id, and serves if it is right.
            del self._hosted.homes[topic_partition]
            self._hosted.logs.pop(topic_partition, None)
            self._hosted.refused.pop(topic_partition, None)
            self._load_log(directory, topic_partition, was_clean, now_ms, notes)
            return
        topic_id = topic_id_in(root, topic_partition)
        is_flushed = directory.recovery_points.offsets.get(topic_partition, 0) > 0
        names = set(root.child(str(topic_partition)).names())
        if not is_flushed and names <= {checkpoints.PARTITION_METADATA}:
            never_made = DuplicateLog(
                directory, topic_id, StorageError(f"{topic_partition}: it was never made")
            )
            notes.append(self._manager.retire(topic_partition, never_made, DELETE_SUFFIX, now_ms))
            return
        if first is not None and topic_id_in(first.root, topic_partition) == topic_id:
            here, there = (
                moves_of(root.child(str(topic_partition))),
                moves_of(first.root.child(str(topic_partition))),
            )
            if here != there:  # a crash, or a failed disk, in the moment in which it moved: see `future_logs`
                former = DuplicateLog(directory, topic_id, StorageError(f"{topic_partition} has moved"))
                if here > there:
                    former = self._hosted.take(topic_partition, first)
                    self._load_log(directory, topic_partition, was_clean, now_ms, notes)
                notes.append(self._manager.retire(topic_partition, former, STRAY_SUFFIX, now_ms))
                return
            log = self._hosted.logs.get(topic_partition)
            if log is not None and log.log_end_offset == 0 and not log.epochs.entries:
                # Begun in a directory that failed then, and made in this one.
                former = self._hosted.take(topic_partition, first)
                notes.append(self._manager.retire(topic_partition, former, STRAY_SUFFIX, now_ms))
                self._load_log(directory, topic_partition, was_clean, now_ms, notes)
                return
        known = self._hosted.ambiguous.get(topic_partition, ())
        others = [(other.directory, other.topic_id) for other in known]
        if first is not None:
            others.append((first, topic_id_in(first.root, topic_partition)))
        for other, other_id in others:
            why = why_both_cannot_be(topic_partition, directory.path, topic_id, other.path, other_id)
            if why is not None:
                if first is not None:  # neither is served, and what its files say is kept
                    self._hosted.refused.setdefault(topic_partition, StorageError(why))
                raise root.health.fail(StorageError(why))
        if first is not None:
            self._hosted.ambiguous[topic_partition] = [self._hosted.take(topic_partition, first)]
        try:
            self._load_log(directory, topic_partition, was_clean, now_ms, notes)
            found = self._hosted.take(topic_partition, directory)
        except StorageError:
            del self._hosted.homes[topic_partition]
            self._hosted.refused.pop(topic_partition, None)
            raise
        self._hosted.ambiguous[topic_partition].append(found)
        named = " and in ".join(other.path for other, _ in others)
        notes.append(
            f"{topic_partition} is in {directory.path} and in {named}, of different topics: none is served before "
            "the controller has said which is meant"
        )

    def _load_log(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        was_clean: bool,
        now_ms: int,
        notes: list[str],
    ) -> None:
        self._hosted.homes[topic_partition] = directory
        try:
            recovered = self._manager.open_log(directory, topic_partition, was_clean, now_ms)
        except StorageError as error:
            if not directory.is_online:
                raise
            self._hosted.refused[topic_partition] = to_be_kept(error)
            notes.append(f"{topic_partition} is refused: {error.message}")
            return
        self._kept_all &= recovered.kept_all
        notes += [f"{topic_partition}: {note}" for note in recovered.notes]
        self._ends[topic_partition] = recovered.log.log_end_offset
        self._manager.adopt(topic_partition, directory, recovered.log)
