"""All logs of a broker, in one or more log directories (`log.dirs`).

A directory that fails goes offline alone, with its logs; a log that cannot be recovered is refused alone. What is
written per directory: the checkpoints, the marker of a clean stop, and whose directory it is.

Nothing here waits for time: the shell calls `checkpoint_*`, `apply_retention` and `purge` when their intervals
have passed, the blocking ones in a thread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from odradek.log import checkpoints, log_directory
from odradek.log.config import LogConfig
from odradek.log.duplicate_logs import DuplicateLog, pick
from odradek.log.errors import DirectoryOffline, StorageError, said_again
from odradek.log.files import Directory
from odradek.log.future_logs import FutureLogs
from odradek.log.hosted_logs import HostedLogs
from odradek.log.late_loading import LateLoad, open_of
from odradek.log.log_checkpoints import LogCheckpoints
from odradek.log.log_directory import LogDirectory as LogDirectory
from odradek.log.log_directory import parse_directory_name as parse_directory_name
from odradek.log.log_loading import LogLoading
from odradek.log.log_state import LogState
from odradek.log.new_log import create_log
from odradek.log.partition_log import PartitionLog
from odradek.log.recovery import Recovered
from odradek.log.retention import drop_expired_segments
from odradek.log.retired_logs import DELETE_SUFFIX, STRAY_SUFFIX, RetiredLogs
from odradek.log.scrubbing import Scrubber
from odradek.log.segment import IndexPending
from odradek.log.segments import SIZES_AT_ONCE
from odradek.log.steps import Work
from odradek.model.ids import NO_TOPIC_ID, TopicId, TopicPartition
from odradek.model.settings import BrokerSettings, TopicSettings


class LoadReport(NamedTuple):
    logs: int
    clean_directories: list[str]
    notes: list[str]  # lines for the log file


class LogManager:
    def __init__(
        self,
        directories: Sequence[Directory],
        settings: BrokerSettings,
        *,
        topic_settings: Callable[[str], TopicSettings] | None = None,
        left_out: Mapping[str, StorageError] | None = None,
    ) -> None:
        """`topic_settings` gives a topic's settings; without it every topic has the broker's. `left_out`: directories
        of `log.dirs` that could not even be opened, and why: what is on them is not known.
        """
        self.settings = settings
        self._topic_settings = topic_settings or (lambda topic: TopicSettings(settings))
        self._configs: dict[str, LogConfig] = {}
        self.directories = [LogDirectory(directory) for directory in directories]
        self._hosted = HostedLogs()
        # Its tables, one object for ever: for whoever reads them.
        self.logs, self.refused, self.ambiguous = (
            self._hosted.logs,
            self._hosted.refused,
            self._hosted.ambiguous,
        )
        self._homes = self._hosted.homes
        # Of logs that could not be made, for want of a descriptor, say: where something of them may lie.
        self._begun: dict[TopicPartition, LogDirectory] = {}
        self._loading: set[TopicPartition] = set()  # a thread opens them
        # As the topics of those that were not opened were configured at the start, for their recovery: see `TopicConfigs.at_start`.
        self._unopened: dict[TopicPartition, LogConfig] = {}
        self.futures = FutureLogs(self)  # copies of some of these, on their way into other directories
        self.left_out: dict[str, StorageError] = dict(left_out or {})
        self._loaded: set[str] = set()  # directories of which every log is known
        self.on_directory_failure: Callable[[str, StorageError], None] | None = None
        self.on_broken_log: Callable[[TopicPartition, StorageError], None] | None = None
        self._on_pending_index: Callable[[LogState, IndexPending], None] | None = None
        # Of which a flush may be due, or become so: something came to them since they were asked. By their names, for a log that
        # knew itself would wait for the collector of cycles when it is deleted.
        self.to_flush: dict[TopicPartition, None] = {}
        self.scrubber = Scrubber(lambda: list(self.logs.values()))
        self._retired = RetiredLogs(lambda topic: self.config_of(topic).file_delete_delay_ms)
        self._checkpoints = LogCheckpoints(
            self._hosted, online=self._online, logs_in=self._logs_in, future=self.futures.get
        )
        for directory in self.directories:
            directory.root.health.on_failure = self._failure_of(directory)

    # ------------------------------------------------------------------------------------------- whose directory

    def claim(self, broker_id: int, cluster_id: str | None = None) -> str | None:
        """Locks every directory and checks whose it is; returns the cluster id found, if any directory has one.

        DirectoryInUse or WrongDirectory before anything was changed. `cluster_id` None: not known yet; call
        `write_meta_properties` once it is.
        """
        return log_directory.claim(self.directories, broker_id, cluster_id)

    def write_meta_properties(self, broker_id: int, cluster_id: str) -> None:
        """Where it is missing or does not name the cluster yet. Claims first, so a wrong directory stays as it is."""
        self.claim(broker_id, cluster_id)
        log_directory.write_meta_properties(self._online(), broker_id, cluster_id)

    # --------------------------------------------------------------------------------------------------- loading

    def load(self, now_ms: int) -> LoadReport:
        """Opens every log. O(partitions) after a clean stop, else what was not flushed is scanned."""
        notes: list[str] = []
        clean: list[str] = []
        loading = LogLoading(self._hosted, self._retired, self, self.futures.note_found)
        for directory in self._online():
            try:
                was_clean = loading.load_directory(directory, now_ms, notes)
            except StorageError as error:
                # Whatever the fault, if only the want of a descriptor: an online directory is one of which every log is known,
                # and of those that are not an empty one would be begun over the files.
                directory.root.health.fail(error)
                notes.append(f"log directory {directory.path} is offline: {error.message}")
                continue
            self._loaded.add(directory.path)
            if was_clean:
                clean.append(directory.path)
        self._unopened = {key: self.config_of(key.topic) for key in self.refused if self.is_unopened(key)}
        self.futures.load(now_ms, notes)
        for path in self.offline_directories:
            self.let_go(path)
        return LoadReport(len(self.logs), clean, notes)

    def open_log(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        was_clean: bool,
        now_ms: int,
        *,
        name: str | None = None,
    ) -> Recovered:
        """See `open_of`."""
        config = self.config_of(topic_partition.topic)
        return open_of(directory, topic_partition, config, was_clean=was_clean, now_ms=now_ms, name=name)

    def is_damaged(self, topic_partition: TopicPartition) -> bool:
        """It is refused for what lies there, and not for want of a descriptor alone."""
        return topic_partition in self.refused and not self.is_unopened(topic_partition)

    def is_unopened(self, topic_partition: TopicPartition) -> bool:
        """It was here at the start, and there was no descriptor to open it: nobody knows yet what lies there."""
        return self._hosted.is_unopened(topic_partition)

    def load_late(self, topic_partition: TopicPartition, now_ms: int) -> LateLoad:
        """Of one that `is_unopened`: what a thread does. Until `loaded_late` it is not taken away, by whomever."""
        config = self._unopened.get(topic_partition) or self.config_of(topic_partition.topic)
        load = LateLoad(topic_partition, self._homes[topic_partition], config, now_ms)
        self._loading.add(topic_partition)
        return load

    def loaded_late(self, load: LateLoad) -> tuple[list[str], StorageError | None]:
        """Lines for the log file, and why it cannot be used; None: it is in use from now on."""
        topic_partition, directory = load.topic_partition, load.directory
        self._loading.discard(topic_partition)
        if load.recovered is None or not directory.is_online:
            offline = directory.offline_with(topic_partition)
            if load.recovered is not None:
                load.recovered.log.segments.close_handles()
            refusal = self.refused[topic_partition] = load.refusal if directory.is_online else offline
            return [], refusal
        self._unopened.pop(topic_partition, None)
        with directory.checkpointing:  # whoever writes them finds it in one of these tables
            self.adopt(topic_partition, directory, load.recovered.log)
            del self.refused[topic_partition]
        return load.recovered.notes + self.futures.opened_late(topic_partition, load.now_ms), None

    def _refuse_while_it_is_opened(self, topic_partition: TopicPartition) -> None:
        if topic_partition in self._loading:
            raise said_again(self.refused[topic_partition])

    def adopt(self, topic_partition: TopicPartition, directory: LogDirectory, log: PartitionLog) -> None:
        """It is the log in use from now on."""
        self.look_after(log)
        self._checkpoints.cut(log)
        self._ask_for_flushes(log)
        log.on_broken = self._log_broken
        # Last: after a want of memory before, the one in use is the one that was.
        self._hosted.put(topic_partition, directory, log)

    def _ask_for_flushes(self, log: PartitionLog) -> None:
        log.flushed.when_something_comes(partial(self.to_flush.setdefault, log.topic_partition))
        if not log.flushed.has_nothing(log.log_end_offset):
            log.flushed.came()

    def rebuild_indexes_by(self, ask: "Callable[[LogState, IndexPending], None]") -> None:
        """Of all logs, those to come too: see `LogState.rebuild_indexes_by`."""
        self._on_pending_index = ask
        for log in self._every_log():
            log.rebuild_indexes_by(ask)

    def look_after(self, log: LogState) -> None:
        """Of a log in use, or of a copy: its checkpoints are lowered before it is cut, and its indexes built again by whoever does."""
        log.before_cut_below = self.before_cut_below
        log.lowering = self.lowering
        if self._on_pending_index is not None:
            log.rebuild_indexes_by(self._on_pending_index)

    # ----------------------------------------------------------------------------------------------- single logs

    def config_of(self, topic: str) -> LogConfig:
        config = self._configs.get(topic)
        if config is None:
            config = self._configs[topic] = LogConfig(self._topic_settings(topic))
        return config

    def update_config(self, topic: str, here: Iterable[TopicPartition]) -> None:
        """The topic's settings changed, and were forgotten: these logs of it go on with the new ones."""
        config = self.config_of(topic)
        for topic_partition in here:
            log = self.logs.get(topic_partition)
            if log is not None:
                log.configure(config)
            future = self.futures.get(topic_partition)
            if future is not None:
                future.log.config = config

    def forget_config(self, topic: str) -> None:
        """Its settings changed; or nothing of it is here any more, and a topic made later under that name has its own."""
        self._configs.pop(topic, None)

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The log, if it is here; StorageError if it is here and cannot be used."""
        return self._hosted.get(topic_partition)

    def get_or_create(
        self, topic_partition: TopicPartition, topic_id: TopicId = NO_TOPIC_ID, *, now_ms: int
    ) -> PartitionLog:
        """INCONSISTENT_TOPIC_ID if the log on disk belongs to another topic of that name: see `settle`."""
        log = self.get(topic_partition)
        if log is None:
            home = self._homes.get(topic_partition)
            if home is not None:
                # It may be in sync and ahead of everybody: an empty one in its place would lose what it holds.
                raise home.offline_with(topic_partition)
            wanted = self.futures.preferred.get(topic_partition)
            directory = self._directory_for_new_log(topic_partition)
            if topic_partition in self.futures.logs:
                # A copy of a log that is gone with its disk. It may be the last one, so a person decides; what is
                # fetched anew goes at once where this one was to go.
                directory = self.futures.logs[topic_partition].directory
                self.futures.drop(topic_partition, now_ms, STRAY_SUFFIX)
            begun = self._begun.get(topic_partition)
            if begun is not None and begun.is_online and begun is not directory:
                # Else the next start would find two of that name.
                if directory.path == wanted:
                    self._begun[topic_partition] = directory
                    self._take_away_begun(topic_partition, begun, now_ms)
                    begun.sync_deletions()
                else:
                    directory = begun
            elif begun is not None and begun is not directory:
                begun.may_come_back.add(topic_partition)
            config = self.config_of(topic_partition.topic)
            directory.forget_former(topic_partition)
            self._begun[topic_partition] = directory
            log = create_log(directory.root, topic_partition, topic_id, config, now_ms=now_ms)
            self.adopt(topic_partition, directory, log)
            del self._begun[topic_partition]
        elif topic_id != NO_TOPIC_ID:
            log.assign_topic_id(topic_id)
        return log

    def _take_away_begun(self, topic_partition: TopicPartition, begun: LogDirectory, now_ms: int) -> None:
        """What there is of a log that could not be made, and that nobody wants, or wants in another directory since."""
        never_made = DuplicateLog(begun, NO_TOPIC_ID, StorageError(f"{topic_partition}: it was never made"))
        self.retire(topic_partition, never_made, DELETE_SUFFIX, now_ms)

    def resolve_topic_id(
        self, topic_partition: TopicPartition, topic_id: TopicId, now_ms: int, *, is_counted_on: bool = True
    ) -> list[str]:
        """The controller means this topic by that name: logs of others are strays. A line for each set aside.

        Before the partition is hosted. Of one that is hosted the controller meant that log already in this life of
        the broker, and what says otherwise may be late (INCONSISTENT_TOPIC_ID). StorageError where several are here
        and it does not say which topic it means, or two are of that one. `is_counted_on`: this replica may be the only one
        that has all that is committed, and it is not enough to follow.
        """
        self._refuse_while_it_is_opened(topic_partition)
        duplicates = self.ambiguous.get(topic_partition)
        if duplicates is None:
            home = self._homes.get(topic_partition)
            if home is None or topic_id == NO_TOPIC_ID:
                return []
            if topic_partition not in self.logs and topic_partition not in self.refused:
                return []  # its directory could not be read
            if self._hosted.topic_id_of(topic_partition, home) in (NO_TOPIC_ID, topic_id):
                return []
            duplicates = [self._hosted.take(topic_partition, home)]
        elif topic_id == NO_TOPIC_ID:
            paths = " and in ".join(duplicate.directory.path for duplicate in duplicates)
            raise StorageError(f"{topic_partition} is in {paths}, and the controller names no topic id")
        found, strays = pick(topic_partition, duplicates, topic_id, is_counted_on=is_counted_on)
        self.ambiguous.pop(topic_partition, None)
        if found is not None:
            if isinstance(found.log, StorageError):
                self._hosted.refuse(topic_partition, found.directory, found.log)
            else:
                self._hosted.put(topic_partition, found.directory, found.log)
                self._ask_for_flushes(found.log)
        return [self.retire(topic_partition, stray, STRAY_SUFFIX, now_ms) for stray in strays]

    def recreate(self, topic_partition: TopicPartition, now_ms: int) -> str:
        """Sets a log that is refused aside, so that an empty one can take its place. For whoever knows that nobody
        counts on what is in it. A line that says where it lies.
        """
        assert topic_partition in self.refused
        return self.retire(
            topic_partition,
            self._hosted.take(topic_partition, self._homes[topic_partition]),
            STRAY_SUFFIX,
            now_ms,
        )

    def _log_broken(self, log: LogState, error: StorageError) -> None:
        """May be called from a thread."""
        self.refused[log.topic_partition] = error
        try:
            self.has_lost()
            # For want of a descriptor: then it is written with the next checkpoint.
            with suppress(StorageError):
                self._homes[log.topic_partition].end_is_known(log.topic_partition, log.log_end_offset)
        finally:  # nor for want of memory
            if self.on_broken_log is not None:
                self.on_broken_log(log.topic_partition, error)

    def _directory_for_new_log(self, topic_partition: TopicPartition) -> LogDirectory:
        """Where it was asked to be, else where the fewest are."""
        online = self._online()
        if not online:
            raise DirectoryOffline("no log directory is online")
        wanted = self.futures.preferred.pop(topic_partition, None)
        for directory in online:
            if directory.path == wanted:
                return directory
        if len(online) == 1:
            return online[0]
        coming = [future.directory for future in self.futures.logs.values()]
        return min(online, key=lambda directory: directory.log_count + coming.count(directory))

    def delete(self, topic_partition: TopicPartition, now_ms: int) -> bool:
        """Takes the log away by renaming its directory; its files go with `purge` after file.delete.delay.ms.

        A power cut may bring it back until `sync_deletions`.
        """
        return self._retire_partition(topic_partition, DELETE_SUFFIX, now_ms)

    def _retire_partition(self, topic_partition: TopicPartition, suffix: str, now_ms: int) -> bool:
        self._refuse_while_it_is_opened(topic_partition)
        home = self._homes.get(topic_partition)
        if topic_partition in self.futures.logs:
            self.futures.drop(topic_partition, now_ms, suffix)
        self.futures.preferred.pop(topic_partition, None)
        if home is None and self.may_be_lost(topic_partition):
            paths = ", ".join(self.offline_directories)
            raise DirectoryOffline(
                f"{topic_partition}: not known here, and perhaps in {paths}, which is offline"
            )
        if home is None:
            # Namesakes: the request names no topic id, so which one it means nobody knows.
            duplicates = self.ambiguous.pop(topic_partition, ())
            for duplicate in duplicates:
                self.retire(topic_partition, duplicate, STRAY_SUFFIX, now_ms)
            begun = self._begun.pop(topic_partition, None)
            if begun is not None:  # else the next start would find it
                self._take_away_begun(topic_partition, begun, now_ms)
            return bool(duplicates) or begun is not None
        if not home.is_online:
            # Said to be gone, it would be back with its directory, in the way of the next topic of that name
            # (KAFKA-16157).
            raise home.offline_with(topic_partition)
        self.retire(topic_partition, self._hosted.take(topic_partition, home), suffix, now_ms)
        for other in self._that_may_bring_back(topic_partition):
            raise DirectoryOffline(
                f"{topic_partition}: its copy may be back with {other.path}, which is offline"
            )
        return True

    def _that_may_bring_back(self, topic_partition: TopicPartition) -> list[LogDirectory]:
        return [one for one in self.directories if topic_partition in one.may_come_back and not one.is_online]

    def retire(
        self,
        topic_partition: TopicPartition,
        found: DuplicateLog,
        suffix: str,
        now_ms: int,
        *,
        name: str | None = None,
    ) -> str:
        """See `RetiredLogs.retire`. `name`: of its directory, where that is not the partition's: a future log."""
        return self._retired.retire(
            topic_partition,
            found,
            suffix,
            now_ms,
            name=name or str(topic_partition),
            # They are of the log in use, if that is here as well.
            keeps_checkpoints=name is not None and self._homes.get(topic_partition) is found.directory,
        )

    def sync_deletions(self) -> dict[TopicPartition, StorageError]:
        """What was deleted stays so when this returns: one sync for each directory; what could not be synced, and why.

        A log that came back after its broker had said that it is gone would refuse the next topic of that name
        (KAFKA-16157). Blocks.
        """
        failed: dict[TopicPartition, StorageError] = {}
        for home in self.directories:
            if not home.unsynced_deletions:
                continue
            try:
                home.sync_deletions()
            except StorageError as error:
                failed.update(dict.fromkeys(home.unsynced_deletions, error))
                # Else there is no descriptor, and whoever asks for them again finds nothing left to rename.
                if not home.is_online:
                    home.unsynced_deletions = []
        return failed

    # ------------------------------------------------------------------------------------------------ checkpoints

    def high_watermark_of(self, topic_partition: TopicPartition) -> int:
        """As last written, never above the log's end nor below its start (behaviour 136)."""
        return self._checkpoints.high_watermark_of(topic_partition)

    @property
    def cuts(self) -> int:
        """How many there were so far, of whatever log: see `checkpoint_high_watermarks`."""
        return self._checkpoints.cuts

    def checkpoint_high_watermarks(
        self, high_watermarks: Mapping[TopicPartition, int], said_at: int | None = None
    ) -> None:
        """Writes the given ones over those known; logs not named keep theirs, and so do those cut since `cuts` was `said_at`."""
        self._checkpoints.write_high_watermarks(high_watermarks, self.cuts if said_at is None else said_at)

    def checkpoint_recovery_points(self) -> None:
        self._checkpoints.write_recovery_points()

    def checkpoint_log_start_offsets(self) -> None:
        self._checkpoints.write_log_starts()

    def cleaned_to(self, log: PartitionLog) -> int | None:
        """Where its dirty part begins, by the checkpoint; None: it was never cleaned, or is not in use here any more."""
        return self._checkpoints.cleaned_to(log)

    def is_cleaned_to(self, log: PartitionLog, offset: int, generation: int) -> None:
        """Blocks. After a crash before, the same is cleaned again, to the same end. `generation`: of the log then."""
        self._checkpoints.is_cleaned_to(log, offset, generation)

    def before_cut_below(self, log: LogState, offset: int, log_start_offset: int) -> None:
        self._checkpoints.cut(log)
        self.home_of(log).before_cut_below(log.topic_partition, offset, log_start_offset)

    def lowering(self, log: LogState, offset: int, log_start_offset: int) -> Work | None:
        self._checkpoints.cut(log)
        return self.home_of(log).lowering(log.topic_partition, offset, log_start_offset)

    # ---------------------------------------------------------------------------------------- retention, removal

    def retention(
        self,
        now_ms: int,
        high_watermark_of: Callable[[PartitionLog], int | None],
        start_moved: Callable[[PartitionLog], None] = lambda log: None,
    ) -> Iterator[tuple[list[str], int]]:
        """Takes out the segments that retention.ms and retention.bytes let go, and expires producers, log by log: what the loop
        does between two of them may be anything. Gives a line for each reason there was to change a log, and the number of
        segments that were looked at. `start_moved` hears of each log that begins later than before.

        Logs without a high watermark are left alone.
        """
        for topic_partition, log in list(self.logs.items()):
            is_left = True
            while is_left:
                high_watermark = high_watermark_of(log)
                is_here = self.logs.get(topic_partition) is log and log.failure is None
                if high_watermark is None or not is_here:
                    yield [], 1
                    break
                log.producers.expire(now_ms, log.config.producer_id_expiration_ms)
                try:
                    if log.config.retention_bytes >= 0:
                        for _ in log.segments.sizing():
                            yield [], SIZES_AT_ONCE
                    before = log.log_start_offset
                    lines = drop_expired_segments(log, now_ms, high_watermark)
                    is_left = bool(lines)
                    if log.log_start_offset > before:
                        start_moved(log)
                except StorageError as error:
                    log.broken(error)
                    lines, is_left = [error.message], False
                looked_at = len(log.segments) if log.config.retention_bytes >= 0 else 1
                yield [f"{topic_partition}: {line}" for line in lines], looked_at

    def apply_retention(
        self,
        now_ms: int,
        high_watermarks: Mapping[TopicPartition, int],
        start_moved: Callable[[PartitionLog], None] = lambda log: None,
    ) -> list[str]:
        """All of it at once."""
        steps = self.retention(now_ms, lambda log: high_watermarks.get(log.topic_partition), start_moved)
        return [line for lines, _ in steps for line in lines]

    def maintain(self, now_ms: int, scrub_bytes: int) -> None:
        """About once a second, in a thread: see `purge` and `scrubbing`."""
        self.purge(now_ms)
        if scrub_bytes:
            self.scrubber.scrub(scrub_bytes)

    def purge(self, now_ms: int) -> int:
        """Removes files and directories whose time has come; returns how many. Blocks: for a thread."""
        count = 0
        for log in [*self.logs.values(), *self._future_logs()]:
            if log.segments.pending_removal and log.failure is None:
                count += log.segments.purge()
        return count + self._retired.purge(now_ms)

    # ----------------------------------------------------------------------------------------------------- ending

    def close(self, high_watermarks: Mapping[TopicPartition, int], *, broker_epoch: int = -1) -> None:
        """A clean stop: every log closed, checkpoints written, and only then the marker. Releases the locks.

        StorageError of the first log that could not be closed; by then the others are.
        """
        failed: list[tuple[str, StorageError]] = []
        ambiguous = [duplicate for duplicates in self.ambiguous.values() for duplicate in duplicates]
        damaged_copies = [one.directory for one in self.futures.logs.values() if one.log.failure is not None]
        for log in self._every_log():
            if log.failure is None:
                try:
                    log.segments.purge()
                    log.close()
                except StorageError as error:
                    failed.append((log.directory.health.path, log.fail(error)))
        self.checkpoint_recovery_points()
        self.checkpoint_log_start_offsets()
        self.checkpoint_high_watermarks(high_watermarks)
        self._checkpoints.forget_cleanings_of_others()
        unclean = {path for path, _ in failed}
        for directory in self._online():
            broken = [*damaged_copies, *(self._homes[key] for key in self.refused)]
            broken += [
                duplicate.directory for duplicate in ambiguous if isinstance(duplicate.log, StorageError)
            ]
            if directory not in broken and directory.path not in unclean:
                # With a log refused, the next start has to look at it again.
                directory.root.replace(
                    checkpoints.CLEAN_SHUTDOWN, checkpoints.clean_shutdown_to_bytes(broker_epoch)
                )
        self.release()
        if failed:
            raise failed[0][1]

    def is_run_by(self, broker_epoch: int) -> None:
        """This life is registered, as that: see `LogDirectory.is_run_by`."""
        if self.is_whole:
            for directory in self.directories:
                directory.is_run_by(broker_epoch, len(self.directories))
        if not self.is_whole:  # since a moment ago, by another thread
            self.has_lost()

    def has_lost(self) -> None:
        """Something, somewhere: see `LogDirectory.has_lost`. In all of them, for the next life may have others of them."""
        for directory in self.directories:
            directory.has_lost()

    def release(self) -> None:
        """Gives locks and descriptors back; for a stop that is not clean. A process may have other brokers to come."""
        for directory in self.directories:
            self.let_go(directory.path)

    def let_go(self, path: str) -> None:
        """Of a directory that failed, or is used no more: its lock and all descriptors, so that it can be unmounted."""
        for directory in self.directories:
            if directory.path == path:
                directory.has_lost()
                if directory.lock is not None:
                    directory.lock.release()
                    directory.lock = None
        for log in self._every_log():
            if log.directory.health.path == path:
                log.segments.close_handles()

    def _every_log(self) -> list[PartitionLog]:
        """Those that are used, those that nobody knows whether to use, and those on their way to another directory."""
        duplicates = [duplicate.log for found in self.ambiguous.values() for duplicate in found]
        unused = [log for log in duplicates if not isinstance(log, StorageError)]
        return [*self.logs.values(), *unused, *self._future_logs()]

    # ------------------------------------------------------------------------------------------------- directories

    @property
    def clean_epoch(self) -> int:
        """The broker epoch of the last life, if nothing was lost with it anywhere; else -1 (KIP-966)."""
        epochs = {directory.clean_epoch for directory in self.directories}
        return epochs.pop() if len(epochs) == 1 and self.is_whole else -1

    @property
    def is_whole(self) -> bool:
        """Nothing that lies here is known to be damaged, or out of reach."""
        return not self.refused and not self.offline_directories

    @property
    def offline_directories(self) -> dict[str, StorageError]:
        """Path and reason. Those left out at the start as well: what lies there nobody knows."""
        return self.left_out | {
            directory.path: directory.root.health.failure
            for directory in self.directories
            if directory.root.health.failure is not None
        }

    def may_be_lost(self, topic_partition: TopicPartition) -> bool:
        """Whether it may lie in a directory that is offline: it did when that failed, or nobody knows whether what was done to take it
        away there, or to make it, is on the disk, or nobody could look."""
        home = self._homes.get(topic_partition)
        if home is not None:
            return not home.is_online
        places = [one.directory for one in self.ambiguous.get(topic_partition, ())]
        places += self._that_may_bring_back(topic_partition)
        if topic_partition in self._begun:
            places.append(self._begun[topic_partition])
        return not all(one.is_online for one in places) or not self.offline_directories.keys() <= self._loaded

    def directory_of(self, topic_partition: TopicPartition) -> str | None:
        home = self._homes.get(topic_partition)
        return None if home is None else home.path

    def home_of(self, log: LogState) -> LogDirectory:
        """Of a log in use, or of one on its way."""
        future = self.futures.get(log.topic_partition)
        if future is not None and future.log is log:
            return future.directory
        return self._homes[log.topic_partition]

    def directory_at(self, path: str) -> LogDirectory | None:
        """None: no directory of `log.dirs` that could be opened."""
        return next((directory for directory in self.directories if directory.path == path), None)

    def _future_logs(self) -> list[PartitionLog]:
        return [future.log for future in list(self.futures.logs.values())]

    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.is_online]

    def _logs_in(self, directory: LogDirectory) -> Iterable[tuple[TopicPartition, PartitionLog]]:
        """A copy: the loop may make and delete logs while a thread writes checkpoints."""
        in_use = [(key, log) for key, log in list(self.logs.items()) if self._homes.get(key) is directory]
        futures = list(self.futures.logs.items())
        return in_use + [(key, future.log) for key, future in futures if future.directory is directory]

    def _failure_of(self, directory: LogDirectory) -> Callable[[StorageError], None]:
        def failed(error: StorageError) -> None:
            self.has_lost()
            for _, log in self._logs_in(directory):
                log.fail(error)
            if self.on_directory_failure is not None:
                self.on_directory_failure(directory.path, error)

        return failed
