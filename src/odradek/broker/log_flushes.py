"""Logs that must be on disk before something is acknowledged, and disks and logs that turn out to be broken."""

from odradek.broker.effects import Effect, Flushed, FlushLog, LogDirectoryFailed, LogLine
from odradek.broker.pending_calls import PendingCalls
from odradek.broker.replica_manager import ReplicaManager
from odradek.log.errors import StorageError
from odradek.model.ids import TopicPartition
from odradek.replication.waiting import Flushing, Outbox


class LogFlushes:
    def __init__(
        self, replicas: ReplicaManager, outbox: Outbox, effects: list[Effect], calls: PendingCalls
    ) -> None:
        self._replicas = replicas
        self._outbox = outbox
        self._effects = effects
        self._calls = calls
        # Filled by whoever notices, perhaps a thread that flushes; emptied at the end of the next turn.
        self.failed_directories: list[tuple[str, StorageError]] = []
        self.broken_logs: list[tuple[TopicPartition, StorageError]] = []
        logs = replicas.logs
        logs.on_directory_failure = lambda path, fault: self.failed_directories.append((path, fault))
        logs.on_broken_log = lambda broken, fault: self.broken_logs.append((broken, fault))

    def plan(self) -> list[FlushLog]:
        """A log of which not even that can be said is given up: somebody waits for it."""
        planned = []
        held = []
        # It may stand there twice: it was asked for, and then the log has moved.
        for partition in dict.fromkeys(self._outbox.flushes):
            if self._replicas.moves.holds_flushes_of(partition.topic_partition):
                held.append(partition)
                continue
            try:
                planned.append(self._flush_of(partition))
            except StorageError as error:
                partition.log.give_up(error)
        self._outbox.flushes[:] = held
        return planned

    def _flush_of(self, partition: Flushing) -> FlushLog:
        topic_partition, log, plan = partition.topic_partition, partition.log, partition.log.plan_flush()

        def flushed(done: Flushed, now_ms: int) -> None:
            self._flushed(effect, done, now_ms)

        effect = FlushLog(self._calls.expect(flushed), topic_partition, log, plan)
        return effect

    def _flushed(self, effect: FlushLog, done: Flushed, now_ms: int) -> None:
        log = effect.log
        partition = self._replicas.partitions.get(effect.topic_partition)
        if partition is None or partition.log is not log:
            return  # it was deleted meanwhile, and perhaps made anew
        if done.error is None:
            log.commit_flush(done.plan, now_ms)
            partition.flushed(now_ms)
            self._replicas.wake_fetcher_of(partition)
        elif log.failure is not None and log.directory.health.failure is None:
            return  # it was given up alone, and whoever that concerns has been told
        else:
            # There is no second try: whoever waits hears so now, and the controller finds another leader.
            self._replicas.take_offline([effect.topic_partition], StorageError(done.error))
            if not self.failed_directories:
                self._effects.append(LogDirectoryFailed(log.directory.path))

    def take_faults(self) -> None:
        """What was noticed since the last turn: those replicas are offline."""
        if self.failed_directories:
            self._take_directories_offline()
        if self.broken_logs:
            broken, self.broken_logs[:] = self.broken_logs[:], []
            self._replicas.logs_broken(broken)

    def _take_directories_offline(self) -> None:
        failed, self.failed_directories[:] = self.failed_directories[:], []
        replicas = self._replicas
        for path, fault in failed:
            here = [tp for tp in replicas.partitions if replicas.logs.directory_of(tp) == path]
            replicas.take_offline(here, fault)
            replicas.moves.directory_failed(path)
            replicas.logs.let_go(path)
            self._effects.append(LogLine("error", f"log directory {path} is offline: {fault.message}"))
            self._effects.append(LogDirectoryFailed(path))
