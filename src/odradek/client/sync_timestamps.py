"""How old what stands at an offset is, asked through a `SyncClient`."""

from collections.abc import Mapping

from odradek.client.sync import SyncClient
from odradek.client.sync_fetch import whole_batches
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from odradek.records.batch import DELETE_HORIZON, LOG_APPEND_TIME, read_header

_LAST_VERSION_BY_NAME = 12


def timestamps_at(client: SyncClient, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The timestamp, in milliseconds, of the batch that holds the offset; its first record's, where records have their own.

    A question a partition, each answered with one batch: for a few of them. Those of which nothing is learnt are left out, and
    so are records without a timestamp (-1) or with one before 1970.
    """
    found = {}
    for partition, offset in sorted(offsets.items()):
        leader, view = client.leader(partition)
        wanted = FetchPartition(
            partition=partition.partition,
            current_leader_epoch=view.leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=1,
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            topics=[FetchTopic(topic=partition.topic, partitions=[wanted])],
        )
        answer = client.call(leader, request, max_version=_LAST_VERSION_BY_NAME)
        for topic in answer.responses:
            for of_partition in topic.partitions:
                if of_partition.error_code != ErrorCode.NONE:
                    client.forget(partition.topic)
                    continue
                batches, _ = whole_batches(of_partition.records)
                if len(batches):
                    header = read_header(batches, 0)
                    # A batch with a delete horizon has that in the place of its first record's timestamp.
                    is_first = not header.attributes & (LOG_APPEND_TIME | DELETE_HORIZON)
                    timestamp = header.base_timestamp if is_first else header.max_timestamp
                    if timestamp >= 0:
                        found[partition] = timestamp
    return found
