"""How large logs are on their brokers' disks, asked through a `SyncClient`."""

from collections.abc import Iterable

from odradek.client.sync import SyncClient
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest


def log_sizes(
    client: SyncClient, broker: int, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """Bytes on disk there, by DescribeLogDirs; empty where the broker does not serve it (then they are unknown)."""
    by_topic: dict[str, list[int]] = {}
    for partition in sorted(partitions):
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    request = DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=name, partitions=members) for name, members in by_topic.items()]
    )
    try:
        results = client.call(broker, request).results
    except ProtocolError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION:
            raise
        return {}
    return {
        TopicPartition(topic.name, p.partition_index): p.partition_size
        for result in results
        if result.error_code == ErrorCode.NONE
        for topic in result.topics
        for p in topic.partitions
        if not p.is_future_key
    }
