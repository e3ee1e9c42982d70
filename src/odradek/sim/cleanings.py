"""Logs of a cluster at rest that compaction should have taken up, by their files and the cleaner's checkpoint."""

from collections.abc import Iterator
from typing import Any

from odradek.log import checkpoints
from odradek.log.checkpoints import CLEANER
from odradek.log.compaction.cleaner import NO_LIMIT
from odradek.log.partition_log import PartitionLog
from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.world import World


def uncleaned(world: World) -> Iterator[tuple[BrokerId, TopicPartition, str]]:
    """And how much of them is dirty. Of logs whose records may be cleaned at any age; not of those that a cleaner has given up until
    its next start."""
    for broker in world.brokers.values():
        if not broker.is_serving or broker.runtime is None:
            continue
        runtime: Any = broker.runtime
        given_up = runtime.parts.disk._cleaning.cleaner.uncleanable
        for partition, log in runtime.logs.logs.items():
            config, replica = log.config, broker.replica(partition)
            if (
                not config.is_compacted
                or config.min_compaction_lag_ms > 0
                or config.max_compaction_lag_ms < NO_LIMIT
                or log.failure is not None
                or log in given_up
                or replica is None
                or replica.log is not log
            ):
                continue
            clean_bytes, dirty_bytes = _sizes(log, log.last_stable_offset(replica.high_watermark))
            if dirty_bytes > config.min_cleanable_dirty_ratio * (clean_bytes + dirty_bytes):
                yield (
                    broker.broker_id,
                    partition,
                    f"{dirty_bytes} of {clean_bytes + dirty_bytes} bytes in closed segments are not cleaned",
                )


def _sizes(log: PartitionLog, last_stable_offset: int) -> tuple[int, int]:
    """Bytes of its closed segments that were cleaned, and of those that were not."""
    directory: Any = log.directory
    disk, active = directory.disk, log.segments.active.base_offset
    file = disk._node(directory._parts[:-1]).entries.get(CLEANER)
    cleaned_to = -1
    if file is not None:
        cleaned_to = checkpoints.read_offsets(bytes(file.data), CLEANER).get(log.topic_partition, -1)
    if not log.log_start_offset <= cleaned_to <= active:
        cleaned_to = log.log_start_offset
    clean = dirty = 0
    for segment in log.segments[:-1]:
        if segment.end_offset > last_stable_offset:
            break
        if segment.end_offset <= cleaned_to:
            clean += segment.size_bytes
        else:
            dirty += segment.size_bytes
    return clean, dirty
