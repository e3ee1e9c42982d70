"""Making a log."""

from odradek.log.checkpoints import PARTITION_METADATA, partition_metadata_to_bytes
from odradek.log.config import LogConfig
from odradek.log.files import Directory
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.partition_log import PartitionLog
from odradek.log.producers import Producers
from odradek.log.segment import Segment
from odradek.model.ids import NO_TOPIC_ID, TopicId, TopicPartition


def create_log(
    parent: Directory,
    topic_partition: TopicPartition,
    topic_id: TopicId,
    config: LogConfig,
    *,
    now_ms: int,
    log_start_offset: int = 0,
    name: str | None = None,
) -> PartitionLog:
    """A new, empty log in its own directory. Nothing is synced yet: the first flush does it, names included.

    `name`: of the directory, where it is not the partition's (`future_logs`).
    """
    directory = parent.make(name or str(topic_partition))
    if topic_id != NO_TOPIC_ID:
        # Not replaced: where there is nothing yet, a torn file is worth what none is, and the controller tells the id.
        metadata = directory.open(PARTITION_METADATA, create=True)
        if metadata.size_bytes:  # of an attempt that got no further
            metadata.truncate(0)
        metadata.append(partition_metadata_to_bytes(topic_id))
    segment = Segment.create(directory, log_start_offset, now_ms, is_fresh=True)
    log = PartitionLog(
        directory,
        topic_partition,
        topic_id,
        config,
        segments=[segment],
        epochs=LeaderEpochs(),
        producers=Producers(),
        log_start_offset=log_start_offset,
        log_end_offset=log_start_offset,
        recovery_point=log_start_offset,
    )
    log.parent = parent
    log.is_without_epochs = True
    log.flushed.created()
    if topic_id != NO_TOPIC_ID:
        log.flushed.name_changed(PARTITION_METADATA)
    return log
