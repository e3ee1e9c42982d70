"""Compaction of the brokers of a world: what it takes up, when it begins, and which logs of a cluster at rest it should have taken up,
by their files and the cleaner's checkpoint."""

from collections.abc import Iterator
from typing import Any

from odradek.log.checkpoints import CLEANER
from odradek.log.compaction.cleaner import NO_LIMIT
from odradek.log.compaction.passes import CleaningJob
from odradek.log.partition_log import PartitionLog
from odradek.model.ids import BrokerId, TopicPartition
from odradek.records.errors import CorruptBatch
from odradek.sim.checkers.cleanings import Cleaned, cleaned_as_asked
from odradek.sim.observed.log_files import entries_of, newest_ms, offsets_in, segment_files
from odradek.sim.world import SimBroker, World


class Cleanings:
    """What is found goes to `World.let_in`, which is judged at the next look."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.advanced_s = 0.0  # when a log was taken up further on than ever before
        self._furthest: dict[tuple[BrokerId, TopicPartition], int] = {}
        world.on_cleaning.append(self._begins)

    def _begins(self, broker: SimBroker, job: CleaningJob, directory: Any) -> None:
        assert broker.runtime is not None
        logs = broker.runtime.logs.logs
        log = next((log for log in logs.values() if log.directory.path == directory.path), None)
        replica = None if log is None else broker.replica(log.topic_partition)
        if log is None or replica is None or replica.log is not log or log.log_end_offset < job.end:
            return  # it was moved, deleted or cut since it was chosen; the cleaning will find out
        replica_id = (broker.broker_id, log.topic_partition)
        if job.first_dirty > self._furthest.get(replica_id, -1):
            self._furthest[replica_id], self.advanced_s = job.first_dirty, self._world.loop.time()
        dirty = [one for group in job.groups for one in group if one.end_offset > job.first_dirty]
        files = dict(segment_files(log))
        try:
            newest = max((newest_ms(files.get(one.base_offset)) for one in dirty), default=-1)
        except CorruptBatch:
            return  # a disk has damaged it, and the cleaning will find out (seed 1205)
        self._world.let_in += cleaned_as_asked(
            Cleaned(
                log.topic_partition,
                broker.broker_id,
                job.end,
                log.last_stable_offset(replica.high_watermark),
                log.segments.active.base_offset,
                newest,
                job.now_ms,
                log.config.min_compaction_lag_ms,
            )
        )


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
            root = runtime.logs.home_of(log).root
            clean_bytes, dirty_bytes = _sizes(root, log, log.last_stable_offset(replica.high_watermark))
            if dirty_bytes > config.min_cleanable_dirty_ratio * (clean_bytes + dirty_bytes):
                yield (
                    broker.broker_id,
                    partition,
                    f"{dirty_bytes} of {clean_bytes + dirty_bytes} bytes in closed segments are not cleaned",
                )


def _sizes(root: Any, log: PartitionLog, last_stable_offset: int) -> tuple[int, int]:
    """Bytes of its closed segments that were cleaned, and of those that were not. `root`: the log directory it is in."""
    cleaned_to = offsets_in(entries_of(root), CLEANER).get(log.topic_partition, -1)
    if not log.log_start_offset <= cleaned_to <= log.segments.active.base_offset:
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
