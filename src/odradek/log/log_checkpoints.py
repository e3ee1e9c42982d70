"""What is known of all logs and written to a file for each log directory: flushed points, log starts, high watermarks,
and up to where compaction got.
"""

from collections.abc import Callable, Iterable, Mapping

from odradek.log.future_logs import FutureLog
from odradek.log.hosted_logs import HostedLogs
from odradek.log.log_directory import LogDirectory
from odradek.log.log_state import LogState
from odradek.log.partition_log import PartitionLog
from odradek.model.ids import TopicPartition

LogsIn = Callable[[LogDirectory], Iterable[tuple[TopicPartition, PartitionLog]]]


class LogCheckpoints:
    """Written by a thread while the loop goes on, which waits for its directory's lock (`checkpointing`), and not for its disk."""

    def __init__(
        self,
        hosted: HostedLogs,
        *,
        online: Callable[[], Iterable[LogDirectory]],
        logs_in: LogsIn,
        future: Callable[[TopicPartition], FutureLog | None],
    ) -> None:
        """`logs_in`: the logs in use there, and those on their way into it."""
        self._hosted = hosted
        self._online = online
        self._logs_in = logs_in
        self._future = future
        self.cuts = 0  # of whatever log; one that is new counts as cut

    def cut(self, log: LogState) -> None:
        """What was said before of the log of this name says nothing of it: it is about to be cut, or is a new one."""
        self.cuts += 1
        log.cut_at = self.cuts

    def high_watermark_of(self, topic_partition: TopicPartition) -> int:
        """As last written, never above the log's end nor below its start (behaviour 136)."""
        log = self._hosted.logs[topic_partition]
        written = self._hosted.homes[topic_partition].high_watermarks.offsets.get(topic_partition, 0)
        return max(log.log_start_offset, min(written, log.log_end_offset))

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int], said_at: int) -> None:
        """Writes the given ones over those known; logs not named keep theirs. So do those cut since: `said_at` is what
        `cuts` was when these were the high watermarks.

        None rises above a cut that is not on the disk: after a power cut it would stand over what was cut off and never committed,
        and consumers of a follower are served up to it (seed 905).
        """
        for directory in self._online():
            with directory.checkpointing:  # whoever cuts says so first (`cut`), and then waits for this
                values = directory.high_watermarks.offsets
                for topic_partition, high_watermark in high_watermarks.items():
                    log, future = self._hosted.logs.get(topic_partition), self._future(topic_partition)
                    if log is None or log.cut_at > said_at:
                        continue
                    if self._hosted.homes.get(topic_partition) is directory:
                        values[topic_partition] = min(high_watermark, log.flushed.unsynced_cut)
                    elif future is not None and future.directory is directory:
                        values[topic_partition] = min(high_watermark, future.log.flushed.unsynced_cut)
            directory.high_watermarks.write_beside(directory.checkpointing)

    def cleaned_to(self, log: PartitionLog) -> int | None:
        """Where its dirty part begins, by the checkpoint; None: it was never cleaned, or is not in use here any more."""
        directory = self._hosted.homes.get(log.topic_partition)
        if directory is None or self._hosted.logs.get(log.topic_partition) is not log:
            return None
        return directory.cleaned_to.offsets.get(log.topic_partition)

    def is_cleaned_to(self, log: PartitionLog, offset: int, generation: int) -> None:
        """Blocks. After a crash before, the same is cleaned again, to the same end. Said of `log` as it was in that generation:
        where it was cut since, or another log has its name, what is there now was never cleaned.
        """
        directory = self._hosted.homes.get(log.topic_partition)
        if directory is None:
            return
        with directory.checkpointing:  # whoever cuts it changes its generation, and then waits for this
            is_in_use = self._hosted.logs.get(log.topic_partition) is log
            if not is_in_use or log.flushed.generation != generation:
                return
            directory.cleaned_to.offsets[log.topic_partition] = offset
        directory.cleaned_to.write_beside(directory.checkpointing)

    def forget_cleanings_of_others(self) -> None:
        """Of logs that are gone: whoever makes one of the name here, with another program, would have it taken for cleaned."""
        for directory in self._online():
            with directory.checkpointing:
                is_wanted = directory.cleaned_to.speaks_of_others()
            if is_wanted:
                directory.cleaned_to.write_beside(directory.checkpointing)

    def write_recovery_points(self) -> None:
        for directory in self._online():
            unsynced = directory.unsynced_deletions
            renamed = tuple(unsynced)
            with directory.checkpointing:
                directory.recovery_points.offsets = {
                    topic_partition: log.recovery_point
                    for topic_partition, log in self._logs_in(directory)
                    if topic_partition not in self._hosted.refused
                } | self._kept(directory, directory.recovery_points.offsets)
            directory.recovery_points.write_beside(directory.checkpointing)
            # Which has synced their names as well; but not of those that were renamed again meanwhile, or that somebody else has synced,
            # after whom they may have been.
            if directory.unsynced_deletions is unsynced:
                directory.may_come_back.difference_update(set(renamed).difference(unsynced[len(renamed) :]))

    def write_log_starts(self) -> None:
        """Of logs that begin inside their first segment. For the others its name says it, once that is synced."""
        for directory in self._online():
            with directory.checkpointing:
                directory.log_starts.offsets = {
                    topic_partition: log.log_start_offset
                    for topic_partition, log in self._logs_in(directory)
                    if log.log_start_offset > (log.first_base_offset if log.flushed.names_are_synced else 0)
                } | self._kept(directory, directory.log_starts.offsets)
            directory.log_starts.write_beside(directory.checkpointing)

    def _kept(
        self, directory: LogDirectory, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """What was written of logs that are not served: whoever repairs them, or is told which is meant, needs it."""
        return {
            key: offset
            for key, offset in offsets.items()
            if (key in self._hosted.refused and self._hosted.homes.get(key) is directory)
            or any(duplicate.directory is directory for duplicate in self._hosted.ambiguous.get(key, ()))
        }
