"""The logs that a broker has, by partition, and in which directory each is: one owner of these tables."""

from odradek.log.duplicate_logs import DuplicateLog, topic_id_in
from odradek.log.errors import NoDescriptor, StorageError, said_again
from odradek.log.log_directory import Homes, LogDirectory
from odradek.log.partition_log import PartitionLog
from odradek.model.ids import TopicId, TopicPartition


class HostedLogs:
    """Invariants: what is in `logs` or `refused` has a home; what is `ambiguous` has none, and is in neither of them.

    A log that was found damaged while it was in use is in `logs` and in `refused`. What has a home and is in neither
    lies in a directory that could not be read.
    """

    __slots__ = ("ambiguous", "homes", "logs", "refused")

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.homes = Homes()
        # Logs on a good disk that cannot be used: a request for one is answered with its error.
        self.refused: dict[TopicPartition, StorageError] = {}
        # In different directories, of different topics or not: none is served before the controller says which is meant.
        self.ambiguous: dict[TopicPartition, list[DuplicateLog]] = {}

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """The log, if it is here; StorageError if it is here and cannot be used."""
        refused = self.refused.get(topic_partition)
        if refused is not None:
            raise said_again(refused)
        log = self.logs.get(topic_partition)
        if log is not None:
            log.check()  # it fails with its directory
        return log

    def put(self, topic_partition: TopicPartition, directory: LogDirectory, log: PartitionLog) -> None:
        """It is the log in use from now on; of a directory that has failed one that has failed, whichever of the two comes first."""
        self.logs[topic_partition] = log
        self.homes[topic_partition] = directory
        failure = directory.root.health.failure
        if failure is not None:  # by another thread perhaps, which told those logs that it found here
            log.fail(failure)

    def refuse(self, topic_partition: TopicPartition, directory: LogDirectory, error: StorageError) -> None:
        """It is here, and cannot be used."""
        self.refused[topic_partition] = error
        self.homes[topic_partition] = directory

    def take(self, topic_partition: TopicPartition, home: LogDirectory) -> DuplicateLog:
        """Out of service, and no longer known under its name; on the disk it stays as it is."""
        topic_id = self.topic_id_of(topic_partition, home)  # which may find no descriptor
        refused = self.refused.pop(topic_partition, None)
        log = self.logs.pop(topic_partition, None) or refused
        del self.homes[topic_partition]
        assert log is not None
        return DuplicateLog(home, topic_id, log)

    def is_unopened(self, topic_partition: TopicPartition) -> bool:
        """For want of a descriptor at the start: nobody knows yet what lies there."""
        return topic_partition not in self.logs and isinstance(
            self.refused.get(topic_partition), NoDescriptor
        )

    def topic_id_of(self, topic_partition: TopicPartition, home: LogDirectory) -> TopicId:
        log = self.logs.get(topic_partition)
        return topic_id_in(home.root, topic_partition) if log is None else log.topic_id
