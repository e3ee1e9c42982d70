"""Retention of the brokers of a world, for `checkers.retention`: each log as it was before, and as it is when its start has moved.

Both are looked at where the broker itself asks and tells (`LogManager.retention`): the high watermark is asked for in the turn in
which segments are let go, and whoever is interested is told in that turn. Files are read as they lie on the disk.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from odradek.log.partition_log import PartitionLog
from odradek.model.ids import TopicId, TopicPartition
from odradek.records.errors import CorruptBatch
from odradek.sim.checkers.beliefs import begins_as_asked
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.retention import Oldest, Retained, Segment, let_go_as_asked, old_is_let_go
from odradek.sim.observed.log_files import newest_ms, segment_files
from odradek.sim.world import SimBroker, World


class Retention:
    """What is found goes to `World.let_in`, which is judged at the next look."""

    def __init__(self, world: World) -> None:
        self._world = world
        # By topic id: how far the start of a replica was moved, of whichever.
        self.furthest: dict[tuple[TopicId, TopicPartition], int] = {}
        world.on_process_start.append(self._process_starts)

    def _process_starts(self, broker: SimBroker) -> None:
        runtime: Any = broker.runtime
        high_watermark_of: Callable[[PartitionLog], int | None] = runtime._high_watermark_of
        start_moved: Callable[[PartitionLog], None] = runtime._log_start_moved
        before: dict[PartitionLog, tuple[int | None, list[tuple[int, Any]]]] = {}

        def asked(log: PartitionLog) -> int | None:
            high_watermark = high_watermark_of(log)
            if log.config.is_deleted:
                before[log] = (
                    high_watermark,
                    segment_files(log),
                )  # which keep what is in them when they are renamed
            return high_watermark

        def told(log: PartitionLog) -> None:
            self._watched_with(broker, log, *before.pop(log))
            start_moved(log)

        runtime._high_watermark_of, runtime._log_start_moved = asked, told

    def _watched_with(
        self, broker: SimBroker, log: PartitionLog, high_watermark: int | None, files: list[tuple[int, Any]]
    ) -> None:
        key = log.topic_id, log.topic_partition
        self.furthest[key] = max(self.furthest.get(key, 0), log.log_start_offset)
        try:
            seen = Retained(
                log.topic_partition,
                broker.broker_id,
                tuple(_segment(base, file) for base, file in files),
                log.log_start_offset,
                log.segments[0].base_offset,
                -1 if high_watermark is None else high_watermark,
                broker.runtime.now_ms(),  # type: ignore[union-attr]
                log.config.retention_ms,
                log.config.retention_bytes,
            )
            self._world.let_in += let_go_as_asked(seen)
        except CorruptBatch:
            return  # a disk has damaged a segment, and the broker goes by what it knew before
        except Exception as error:  # a mistake of the simulator, of which the broker must not hear
            self._world.loop.call_exception_handler(
                {"message": "whoever watches retention", "exception": error}
            )
            self._world.loop.interrupt()


def deleted_unasked(
    world: World, retained: Mapping[tuple[TopicId, TopicPartition], int]
) -> Iterator[Anomaly]:
    """A log begins where an administrator has asked for, or where retention was at work, which is judged (`retained`), or before:
    of whatever topic, and whoever has a copy. Nobody misses a record below the start of a log, so what goes too far is missed by
    nobody else."""
    administration = world.administration
    asked = {} if administration is None else administration.asked_to_delete
    for partition, state in sorted(world.view(with_batches=False).partitions.items()):
        found = world.topics.assignment(partition.topic)
        if found is not None and found.topic_id is not None:
            kept = retained.get((found.topic_id, partition), 0)
            yield from begins_as_asked(partition, state, max(asked.get(partition, 0), kept))


def unretained(world: World) -> Iterator[Anomaly]:
    """Of the logs of a cluster at rest, by their files."""
    for broker in world.brokers.values():
        runtime = broker.runtime
        if not broker.is_serving or runtime is None:
            continue
        for partition, log in runtime.logs.logs.items():
            replica = broker.replica(partition)
            if (
                not log.config.is_deleted
                or log.failure is not None
                or replica is None
                or replica.log is not log
            ):
                continue
            files = segment_files(log)
            if len(files) < 2 or files[1][0] > replica.high_watermark:
                continue
            yield from old_is_let_go(
                Oldest(
                    partition,
                    broker.broker_id,
                    _segment(*files[0]),
                    sum(0 if file is None else len(file.data) for _, file in files[1:]),
                    runtime.now_ms(),
                    log.config.retention_ms,
                    log.config.retention_bytes,
                )
            )


def _segment(base_offset: int, file: Any) -> Segment:
    return Segment(base_offset, 0 if file is None else len(file.data), newest_ms(file))
