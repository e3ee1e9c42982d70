"""Opening the logs of a log directory at the start of a broker, and what to make of two of one name."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from odradek.log import checkpoints
from odradek.log.duplicate_logs import DuplicateLog, topic_id_in, was_never_used
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


class _Claim(NamedTuple):
    """Of two logs of one topic the one with the larger is meant: see `future_logs` and `duplicate_logs`."""

    moves: int
    was_used: bool


def _claim(directory: LogDirectory, topic_partition: TopicPartition) -> _Claim:
    own = directory.root.child(str(topic_partition))
    return _Claim(moves_of(own), not was_never_used(own))


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

    def load_directory(self, directory: LogDirectory, now_ms: int, notes: list[str]) -> bool:
        root = directory.root
        names = root.names()
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
        try:
            count = self._load_logs(directory, names, was_clean, now_ms, notes)
        except StorageError:
            # What was not opened is here all the same, beside the log of that name in another directory perhaps.
            directory.may_come_back.update(filter(None, map(parse_directory_name, names)))
            raise
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

    def _load_logs(
        self, directory: LogDirectory, names: list[str], was_clean: bool, now_ms: int, notes: list[str]
    ) -> int:
        """How many there are."""
        count = 0
        for name in names:
            if name.endswith(LEFTOVER_SUFFIXES):
                if is_unique_name(name, DELETE_SUFFIX):
                    self._retired.found(directory, name, now_ms)
                elif is_unique_name(name, FUTURE_SUFFIX):
                    self._on_future(directory, name, was_clean)
                continue
            topic_partition = parse_directory_name(name)
            if topic_partition is None or not directory.root.is_directory(name):
                continue
            count += 1
            if topic_partition in self._hosted.homes or topic_partition in self._hosted.ambiguous:
                self._load_duplicate(directory, topic_partition, was_clean, now_ms, notes)
                continue
            self._load_log(directory, topic_partition, was_clean, now_ms, notes)
        return count

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
        if first is not None and topic_id_in(first.root, topic_partition) == topic_id:
            here, there = _claim(directory, topic_partition), _claim(first, topic_partition)
            if here != there or not here.was_used:
                why = "it has moved" if here.moves != there.moves else "it was never used"
                former = DuplicateLog(directory, topic_id, StorageError(f"{topic_partition}: {why}"))
                if here > there:
                    former = self._hosted.take(topic_partition, first)
                    self._load_log(directory, topic_partition, was_clean, now_ms, notes)
                line = self._manager.retire(topic_partition, former, STRAY_SUFFIX, now_ms)
                notes.append(f"{line}, for {why}")
                return
        if first is not None:
            self._hosted.ambiguous[topic_partition] = [self._hosted.take(topic_partition, first)]
        others = [other.directory.path for other in self._hosted.ambiguous[topic_partition]]
        try:
            self._load_log(directory, topic_partition, was_clean, now_ms, notes)
            found = self._hosted.take(topic_partition, directory)
        except StorageError:
            del self._hosted.homes[topic_partition]
            self._hosted.refused.pop(topic_partition, None)
            raise
        self._hosted.ambiguous[topic_partition].append(found)
        notes.append(
            f"{topic_partition} is in {directory.path} and in {' and in '.join(others)}: none is served before the controller has "
            "said which topic is meant"
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
