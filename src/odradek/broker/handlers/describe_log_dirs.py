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

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.broker.log_moves import lag_of
from odradek.log.errors import StorageError
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
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
    from odradek.log.log_manager import LogDirectory
    from odradek.log.partition_log import PartitionLog

LAG_UNKNOWN = -1


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = DescribeLogDirsRequest.decode(version, request.body, budget=request.budget)
    wanted: set[TopicPartition] | None = None
    if asked.topics is not None:
        wanted = {TopicPartition(row.topic, index) for row in asked.topics for index in row.partitions}
    logs = broker.replicas.logs
    results = [_result(broker, directory, wanted) for directory in logs.directories]
    results += [
        DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
        for path in logs.left_out
    ]
    return Reply([DescribeLogDirsResponse(results=results).encode(version)])


def _result(
    broker: "Broker", directory: "LogDirectory", wanted: set[TopicPartition] | None
) -> DescribeLogDirsResult:
    try:
        total_bytes, usable_bytes = directory.root.space()
    except StorageError:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)
    logs = broker.replicas.logs
    topics: dict[str, DescribeLogDirsTopic] = {}
    for topic_partition, log in sorted(logs.logs.items()):
        if logs.directory_of(topic_partition) == directory.path:
            hosted = broker.replicas.partitions.get(topic_partition)
            lag = LAG_UNKNOWN if hosted is None else max(hosted.high_watermark - log.log_end_offset, 0)
            _add(topics, topic_partition, log, lag, wanted)
    for topic_partition, future in sorted(logs.futures.logs.items()):
        if future.directory is directory:
            lag = lag_of(future.log, broker.replicas.partitions.get(topic_partition))
            _add(topics, topic_partition, future.log, lag, wanted, is_future=True)
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=list(topics.values()),
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )


def _add(
    topics: dict[str, DescribeLogDirsTopic],
    topic_partition: TopicPartition,
    log: "PartitionLog",
    lag: int,
    wanted: set[TopicPartition] | None,
    *,
    is_future: bool = False,
) -> None:
    if wanted is not None and topic_partition not in wanted:
        return
    topic = topics.setdefault(topic_partition.topic, DescribeLogDirsTopic(name=topic_partition.topic))
    topic.partitions.append(
        DescribeLogDirsPartition(
            partition_index=topic_partition.partition,
            partition_size=log.size_bytes,
            offset_lag=lag,
            is_future_key=is_future,
        )
    )
