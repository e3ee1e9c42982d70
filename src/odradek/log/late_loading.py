"""A log that could not be opened at the start of a broker for want of a descriptor, and is opened while the broker runs.

It may have to be recovered, so a thread does it. Until the loop has taken what came of it the log is neither served nor taken
away.
"""

from odradek.log.config import LogConfig
from odradek.log.errors import NoDescriptor, StorageError, to_be_kept
from odradek.log.log_directory import LogDirectory
from odradek.log.recovery import Recovered, open_log
from odradek.model.ids import TopicPartition


class LateLoad:
    """Work for a thread; then `recovered`, or `refusal` that says why not."""

    def __init__(
        self, topic_partition: TopicPartition, directory: LogDirectory, config: LogConfig, now_ms: int
    ) -> None:
        self.topic_partition = topic_partition
        self.directory = directory
        self.recovered: Recovered | None = None
        # Until it was run: a thread that fails as nobody foresaw is one of which there were too few.
        self.refusal: StorageError = NoDescriptor(f"{topic_partition} could not be opened by a thread")
        self._config = config
        self.now_ms = now_ms

    def run(self) -> bool:
        """Whatever the last life ended like, what was begun at the start may have been half done: so nothing is taken for
        synced but what is below the recovery point, as after a crash."""
        try:
            recovered = open_of(
                self.directory, self.topic_partition, self._config, was_clean=False, now_ms=self.now_ms
            )
            log = recovered.log
            # As `ends_are_known` at the start; the loop does not wait for this.
            lowering = self.directory.lowering(self.topic_partition, log.log_end_offset, log.log_start_offset)
            fault = None if lowering is None else lowering.run()
            if isinstance(fault, StorageError):
                raise fault
        except StorageError as error:
            self.refusal = to_be_kept(error)
            return False
        self.recovered = recovered
        return True


def open_of(
    directory: LogDirectory,
    topic_partition: TopicPartition,
    config: LogConfig,
    *,
    was_clean: bool,
    now_ms: int,
    name: str | None = None,
) -> Recovered:
    """As the checkpoints of its directory say; of one on its way, `name` is that of the log's own directory."""
    return open_log(
        directory.root,
        topic_partition,
        config,
        now_ms=now_ms,
        was_clean=was_clean,
        recovery_point=directory.recovery_points.offsets.get(topic_partition, 0),
        log_start_offset=directory.log_starts.offsets.get(topic_partition, 0),
        high_watermark=directory.high_watermarks.offsets.get(topic_partition, 0),
        cleaned_to=directory.cleaned_to.offsets.get(topic_partition, 0),
        name=name,
    )
