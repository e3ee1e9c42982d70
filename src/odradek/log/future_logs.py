"""Logs on their way into another log directory of their broker (KIP-113), and the moment in which they arrive.

Such a log lies in `<topic>-<partition>.<32 hex digits>-future`, as Apache's does, and is a follower of the one in use
(`broker.log_moves`). Once it holds as much it takes the place of that one (`swap`), and nothing is appended meanwhile:

1. what of the log in use is flushed is flushed here as well, so a power cut takes nothing that was safe;
2. the directory gets the plain name, and that is synced. Now two directories have a log of that name, and both hold
   the same;
3. the former log is renamed to `-delete`, and that is synced. Only then something may be appended.

A crash between 2 and 3 leaves both. Which one is meant says `log-directory-moves` in the partition's directory: how
often this replica has moved. The larger number counts, the other log is set aside (`-stray`). Should the new directory
fail in 2, whether it has the plain name nobody can tell; so the log that stays in use gets a number beyond it before it
is appended to, and a directory that comes back repaired does not take its place.

When the directory of the log in use fails, the future log stays where it is: it may be the last copy of what is in it.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from odradek.log.checkpoints import DIRECTORY_MOVES, moves_to_bytes
from odradek.log.duplicate_logs import DuplicateLog
from odradek.log.errors import DirectoryOffline, MissingFile, StorageError
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.log_directory import FUTURE_SUFFIX, LogDirectory, moves_of, parse_directory_name
from odradek.log.log_state import LogState
from odradek.log.new_log import create_log
from odradek.log.partition_log import PartitionLog
from odradek.log.prepared_files import PreparedFiles
from odradek.log.recovery import Recovered
from odradek.log.retired_logs import DELETE_SUFFIX, LONGEST_NAME, STRAY_SUFFIX, unique_name
from odradek.log.truncated_tails import TAILS
from odradek.model.ids import NO_TOPIC_ID, TopicPartition

UNIQUE_LENGTH = len(".") + 32


class FutureLog(NamedTuple):
    directory: LogDirectory
    name: str  # of its directory
    log: PartitionLog


class LogsInUse(Protocol):
    """What future logs ask of those in whose place they come: a LogManager."""

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]: ...
    @property
    def ambiguous(self) -> Mapping[TopicPartition, object]: ...
    def home_of(self, log: LogState) -> LogDirectory: ...
    def open_log(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        was_clean: bool,
        now_ms: int,
        *,
        name: str | None = None,
    ) -> Recovered: ...
    def look_after(self, log: LogState) -> None: ...
    def adopt(self, topic_partition: TopicPartition, directory: LogDirectory, log: PartitionLog) -> None: ...
    def retire(
        self,
        topic_partition: TopicPartition,
        found: DuplicateLog,
        suffix: str,
        now_ms: int,
        *,
        name: str | None = None,
    ) -> str: ...


def _is_of_another_topic(future: PartitionLog, current: PartitionLog) -> bool:
    return NO_TOPIC_ID not in (future.topic_id, current.topic_id) and future.topic_id != current.topic_id


def is_too_long(topic_partition: TopicPartition) -> bool:
    """The name of a future log is found again by what it begins with, so none of it may be left out (KAFKA-4893)."""
    return len(str(topic_partition)) + UNIQUE_LENGTH + len(FUTURE_SUFFIX) > LONGEST_NAME


class FutureLogs:
    """Those of one broker. At most one for each partition."""

    def __init__(self, manager: LogsInUse) -> None:
        self._manager = manager
        self.logs: dict[TopicPartition, FutureLog] = {}
        # Of replicas that are not here yet: into which directory, when they are made.
        self.preferred: dict[TopicPartition, str] = {}
        self.found: list[tuple[LogDirectory, str, bool]] = []  # at the start: where, name, stopped in order

    def note_found(self, directory: LogDirectory, name: str, was_clean: bool) -> None:
        """At the start: see `load`."""
        self.found.append((directory, name, was_clean))

    def get(self, topic_partition: TopicPartition) -> FutureLog | None:
        return self.logs.get(topic_partition)

    def is_one(self, log: PartitionLog) -> bool:
        future = self.logs.get(log.topic_partition)
        return future is not None and future.log is log

    # ------------------------------------------------------------------------------------------ made and found

    def create(self, topic_partition: TopicPartition, directory: LogDirectory, now_ms: int) -> FutureLog:
        """Empty, and to be filled with what the log in use holds. StorageError: it could not be begun, for want of a descriptor,
        say, and what there is of it goes: else it would be filled behind the next start, unasked."""
        manager = self._manager
        current = manager.logs[topic_partition]
        assert topic_partition not in self.logs, f"{topic_partition} is on its way already"
        assert manager.home_of(current) is not directory, f"{topic_partition} is in {directory.path}"
        if directory.root.is_directory(
            str(topic_partition)
        ):  # for want of memory a swap has left it: see `swap`
            left_over = DuplicateLog(directory, NO_TOPIC_ID, StorageError(f"{topic_partition} has moved"))
            manager.retire(topic_partition, left_over, STRAY_SUFFIX, now_ms)
        name = unique_name(directory.root, topic_partition, FUTURE_SUFFIX, now_ms)
        directory.forget_former(topic_partition)
        try:
            log = create_log(
                directory.root,
                topic_partition,
                current.topic_id,
                current.config,
                now_ms=now_ms,
                log_start_offset=current.log_start_offset,
                name=name,
            )
            future = self._keep(topic_partition, directory, name, log)
            self._number(future, current)
        except StorageError:
            begun = self.logs.pop(topic_partition, None)
            left = None if begun is None else begun.log
            self._remove(topic_partition, directory, name, left, DELETE_SUFFIX, now_ms)
            raise
        return future

    def _keep(
        self, topic_partition: TopicPartition, directory: LogDirectory, name: str, log: PartitionLog
    ) -> FutureLog:
        self._manager.look_after(log)
        future = self.logs[topic_partition] = FutureLog(directory, name, log)
        return future

    def _number(self, future: FutureLog, current: PartitionLog) -> None:
        """Synced with the first flush, and so before it is in use."""
        moves = moves_of(current.directory) + 1
        if moves_of(future.log.directory) != moves:
            future.log.directory.replace(DIRECTORY_MOVES, moves_to_bytes(moves), durable=False)
        future.log.flushed.name_changed(DIRECTORY_MOVES)

    def load(self, now_ms: int, notes: list[str]) -> None:
        """What was on its way when the broker stopped goes on. After all logs in use were opened."""
        found, self.found = self.found, []
        for directory, name, was_clean in found:
            if directory.is_online:
                try:
                    self._load_one(directory, name, was_clean, now_ms, notes)
                except StorageError as error:
                    notes.append(f"{directory.path}/{name}: {error.message}")

    def _load_one(
        self, directory: LogDirectory, name: str, was_clean: bool, now_ms: int, notes: list[str]
    ) -> None:
        manager = self._manager
        topic_partition = parse_directory_name(name[: -len(FUTURE_SUFFIX) - UNIQUE_LENGTH])
        if topic_partition is None or not directory.root.is_directory(name):
            return
        if topic_partition in manager.ambiguous:
            return  # of which of them it is a copy nobody knows yet
        current = manager.logs.get(topic_partition)
        if topic_partition in self.logs or (current is not None and manager.home_of(current) is directory):
            self._remove(topic_partition, directory, name, None, DELETE_SUFFIX, now_ms)
            return
        try:
            recovered = manager.open_log(directory, topic_partition, was_clean, now_ms, name=name)
        except StorageError as error:
            if not directory.is_online or current is None:
                raise
            self._remove(topic_partition, directory, name, None, DELETE_SUFFIX, now_ms)
            self.create(topic_partition, directory, now_ms)
            notes.append(f"{topic_partition}: its copy in {directory.path} is begun again: {error.message}")
            return
        log = recovered.log
        notes += [f"{topic_partition}, on its way to {directory.path}: {note}" for note in recovered.notes]
        if current is None:
            self._keep(topic_partition, directory, name, log)
        elif _is_of_another_topic(log, current):
            self._remove(topic_partition, directory, name, log, DELETE_SUFFIX, now_ms)
        else:
            self._number(self._keep(topic_partition, directory, name, log), current)

    def opened_late(self, topic_partition: TopicPartition, now_ms: int) -> list[str]:
        """The log in use was not open yet when its copy was found, which may be one of another topic, or in the same directory, as in
        `_load_one`. Lines for the log file."""
        future, current = self.logs.get(topic_partition), self._manager.logs[topic_partition]
        if future is None:
            return []
        is_of_another = _is_of_another_topic(future.log, current)
        if not is_of_another and self._manager.home_of(current) is not future.directory:
            return []
        try:
            line = self.drop(topic_partition, now_ms)
        except StorageError as error:  # it is dropped all the same, and looked at again at the next start
            line = error.message
        what = "is of another topic" if is_of_another else "is where the log is"
        return [f"a copy on its way to {future.directory.path} {what}: {line}"]

    # ------------------------------------------------------------------------------------------------ dropped

    def drop(self, topic_partition: TopicPartition, now_ms: int, suffix: str = DELETE_SUFFIX) -> str:
        """It is not wanted any more: cancelled, or its topic is gone. A line that says where it lies."""
        directory, name, log = self.logs.pop(topic_partition)
        return self._remove(topic_partition, directory, name, log, suffix, now_ms)

    def lose(self, topic_partition: TopicPartition) -> None:
        """Its directory failed: what is there stays there, and goes on when the directory is back."""
        future = self.logs.pop(topic_partition)
        future.log.fail(DirectoryOffline(f"log directory {future.directory.path} is offline"))

    def _remove(
        self,
        topic_partition: TopicPartition,
        directory: LogDirectory,
        name: str,
        log: PartitionLog | None,
        suffix: str,
        now_ms: int,
    ) -> str:
        found = DuplicateLog(
            directory, NO_TOPIC_ID, log or StorageError(f"{topic_partition}: the move was cancelled")
        )
        return self._manager.retire(topic_partition, found, suffix, now_ms, name=name)

    # ------------------------------------------------------------------------------------------------ arrived

    def prepare(self, topic_partition: TopicPartition) -> None:
        """Before the flush that comes before the swap, so that it syncs this as well: what batches alone do not tell."""
        current, future = self._manager.logs[topic_partition], self.logs[topic_partition].log
        if current.topic_id != NO_TOPIC_ID:
            future.assign_topic_id(current.topic_id)
        self._take_epochs(future, current)

    @staticmethod
    def _take_epochs(future: PartitionLog, current: PartitionLog) -> None:
        """An epoch that has brought no record yet is known to the log in use alone, which may begin below the copy: a kill takes
        the start that DeleteRecords gave it, and the name of the copy's first segment still says it.
        """
        wanted = LeaderEpochs(
            entry for entry in current.epochs.entries if entry.start_offset <= future.log_end_offset
        )
        wanted.truncate_from_start(future.log_start_offset)
        if future.epochs.entries != wanted.entries:
            future.write_epochs(wanted)

    def swap(self, topic_partition: TopicPartition, high_watermark: int, now_ms: int) -> list[str]:
        """The future log is the one in use when this returns: see the module. Lines for the log file.

        StorageError: its directory failed, it is lost, and the log in use is the one that was; for want of a descriptor, or
        MemoryError, it goes on as a copy. Blocks for two syncs of directories, so that nothing is appended in between.
        """
        manager = self._manager
        current, home = manager.logs[topic_partition], manager.home_of(manager.logs[topic_partition])
        directory, name, log = self.logs[topic_partition]
        assert log.log_end_offset == current.log_end_offset, "it does not hold as much yet"
        assert log.recovery_point >= current.recovery_point, "less of it is flushed"
        assert log.flushed.is_in_place, "its name was never synced"
        number = moves_of(current.directory) + 1
        # Should the copy get the name and not keep it, the log in use has to count as the one that moved last.
        beyond = PreparedFiles(current.directory)
        try:
            beyond.write(DIRECTORY_MOVES, moves_to_bytes(number + 1))
        except StorageError as error:
            if home.is_online and not isinstance(error, MissingFile):
                raise  # no descriptor: another time. Where the source is gone nothing is in use that could count
        has_name = False
        copied = log.producers
        try:
            log.delete_records_before(current.log_start_offset)
            # Else a power cut brings back the names of the segments below its start.
            first_base_offset = log.first_base_offset if log.flushed.names_are_synced else 0
            self._take_epochs(log, current)
            # Of records that are deleted by now the log in use still knows the producers.
            log.producers = current.producers
            log.take_snapshot(log.log_end_offset)
            log.producer_marks = []
            directory.expect(
                topic_partition,
                high_watermark=min(high_watermark, log.flushed.unsynced_cut),
                log_start_offset=log.log_start_offset,
                first_base_offset=first_base_offset,
            )
            if moves_of(log.directory) != number:
                # An attempt for which there was no descriptor has raised that of the log in use since.
                log.directory.replace(DIRECTORY_MOVES, moves_to_bytes(number))
            if not directory.root.rename(name, str(topic_partition)):
                raise MissingFile(f"{directory.path}/{name} is not there any more")
            has_name = True
            directory.root.sync()
            log.renamed(str(topic_partition))
            manager.adopt(topic_partition, directory, log)
        except (StorageError, MemoryError):
            log.producers = copied  # the copy goes on as a follower, and those of the log in use are told of each batch by that
            if directory.root.health.failure is not None:
                directory.may_come_back.add(topic_partition)
                current.directory.replace(DIRECTORY_MOVES, moves_to_bytes(number + 1))
            elif has_name and home.is_online:  # for want of a descriptor; these take none
                for changed in beyond.put():
                    current.flushed.name_changed(changed)
                directory.root.rename(str(topic_partition), name)
                log.renamed(name)
            raise
        del self.logs[topic_partition]
        lines: list[str] = []
        try:
            lines.append(f"{topic_partition} has moved from {home.path} to {directory.path}")
            # Tails that an unclean election cut off are for a person to look at: they do not go with the log.
            has_tails = home.is_online and home.root.child(str(topic_partition)).is_directory(TAILS)
            suffix = STRAY_SUFFIX if has_tails else DELETE_SUFFIX
            former = DuplicateLog(home, current.topic_id, current)
            line = manager.retire(topic_partition, former, suffix, now_ms)
            if has_tails:
                lines.append(f"{line}, for what was cut off it")
            home.sync_deletions()
        except (StorageError, MemoryError) as error:  # the log has moved, and nothing more may go to this one
            why = str(error) or "no memory"
            lines.append(
                f"{topic_partition}: its former log could not be taken away from {home.path}, and is set aside at the next start: {why}"
            )
        return lines
