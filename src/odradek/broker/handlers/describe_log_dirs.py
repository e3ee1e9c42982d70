"""DescribeLogDirs (key 35), versions 1-4.

Every log directory of this broker with the replicas in it, their size, and how far each is behind the high watermark
it knows; an offline directory with KAFKA_STORAGE_ERROR and no replicas (KIP-113). Null topics: all. A replica that is
not hosted, left on the disk, has a lag of -1. A copy on its way here from another directory is a future one, and its
lag is what it lacks of the log in use.

v1 the response leaves before the client is throttled (KIP-219).
v2 flexible.
v3 top-level error code.
v4 total and usable bytes of the disk (KIP-827).
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.broker.log_moves import lag_of
from odradek.broker.slices import answer_in_slices
from odradek.log.errors import StorageError
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition, in_order
from odradek.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request
    from odradek.log.partition_log import PartitionLog

LAG_UNKNOWN = -1
# Segments whose sizes are added up in one turn, some five milliseconds where the disk is asked for them.
SEGMENTS_AT_ONCE = 1_000


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = DescribeLogDirsRequest.decode(version, request.body, budget=request.budget)
    wanted: set[TopicPartition] | None = None
    if asked.topics is not None:
        wanted = {TopicPartition(row.topic, index) for row in asked.topics for index in row.partitions}
    logs = broker.replicas.logs
    results: list[DescribeLogDirsResult] = []

    def reply() -> Reply:
        left_out = [
            DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
            for path in logs.left_out
        ]
        return Reply([DescribeLogDirsResponse(results=[*results, *left_out]).encode(version)])

    return answer_in_slices(broker.slices, _described(broker, wanted, results), reply)


def _described(
    broker: "Broker", wanted: set[TopicPartition] | None, results: list[DescribeLogDirsResult]
) -> Iterator[None]:
    """A step each SEGMENTS_AT_ONCE: the sizes of segments that nobody reads are asked of the disk. What comes or goes between two
    steps is there, or not."""
    logs = broker.replicas.logs
    partitions = broker.replicas.partitions
    found: dict[str, list[TopicPartition]] = {}
    for topic_partition in in_order(logs.logs if wanted is None else wanted.intersection(logs.logs)):
        found.setdefault(logs.directory_of(topic_partition) or "", []).append(topic_partition)
    seen = 0
    for directory in logs.directories:
        try:
            total_bytes, usable_bytes = directory.root.space()
        except StorageError:
            results.append(
                DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)
            )
            continue
        topics: dict[str, DescribeLogDirsTopic] = {}
        for topic_partition in found.get(directory.path, ()):
            log = logs.logs.get(topic_partition)
            if log is None or logs.home_of(log) is not directory or not (yield from _is_sized(log)):
                continue
            if logs.logs.get(topic_partition) is not log:
                continue
            hosted = partitions.get(topic_partition)
            lag = LAG_UNKNOWN if hosted is None else max(hosted.high_watermark - log.log_end_offset, 0)
            _add(topics, topic_partition, log, lag)
            seen += len(log.segments)
            if seen >= SEGMENTS_AT_ONCE:
                yield
                seen = 0
        for topic_partition, future in sorted(logs.futures.logs.items()):
            is_wanted = future.directory is directory and (wanted is None or topic_partition in wanted)
            if (
                is_wanted
                and (yield from _is_sized(future.log))
                and logs.futures.get(topic_partition) is future
            ):
                _add(
                    topics,
                    topic_partition,
                    future.log,
                    lag_of(future.log, partitions.get(topic_partition)),
                    is_future=True,
                )
        results.append(
            DescribeLogDirsResult(
                log_dir=directory.path,
                topics=list(topics.values()),
                total_bytes=total_bytes,
                usable_bytes=usable_bytes,
            )
        )


def _is_sized(log: "PartitionLog") -> Generator[None, None, bool]:
    """False: a file of it is missing, and it is as a log that was found damaged at the start: not here."""
    try:
        yield from log.segments.sizing()
    except StorageError as error:
        log.broken(error)
        return False
    return True


def _add(
    topics: dict[str, DescribeLogDirsTopic],
    topic_partition: TopicPartition,
    log: "PartitionLog",
    lag: int,
    *,
    is_future: bool = False,
) -> None:
    topic = topics.setdefault(topic_partition.topic, DescribeLogDirsTopic(name=topic_partition.topic))
    topic.partitions.append(
        DescribeLogDirsPartition(
            partition_index=topic_partition.partition,
            partition_size=log.size_bytes,
            offset_lag=lag,
            is_future_key=is_future,
        )
    )
