"""What a follower asks its leader besides records: where an epoch ends, where the log begins and ends.

Bodies out, values in. Versions are those of inter.broker.protocol.version 3.9.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from odradek.model.ids import BrokerId, LeaderEpoch, TopicPartition
from odradek.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from odradek.replication.followed import LOCATING_END, LOCATING_START, TRUNCATING, FollowedPartition

LIST_OFFSETS = 2
LIST_OFFSETS_VERSION = 9
OFFSET_FOR_LEADER_EPOCH = 23
OFFSET_FOR_LEADER_EPOCH_VERSION = 4

LATEST = -1
EARLIEST = -2


# In which a partition is asked about before it is fetched, the most urgent first.
STATES = (TRUNCATING, LOCATING_END, LOCATING_START)


class EpochEnd(NamedTuple):
    error: int
    leader_epoch: int
    end_offset: int


def about(asked: Sequence[FollowedPartition], state: str, *, asks: BrokerId) -> tuple[int, int, bytes]:
    """Api key, version and body of the question that leads those in `state` out of it."""
    if state == TRUNCATING:
        ends = [(f.partition.topic_partition, f.leader_epoch, f.partition.log.latest_epoch) for f in asked]
        return OFFSET_FOR_LEADER_EPOCH, OFFSET_FOR_LEADER_EPOCH_VERSION, epoch_ends(asks, ends)
    offsets = [(f.partition.topic_partition, f.leader_epoch) for f in asked]
    timestamp = LATEST if state == LOCATING_END else EARLIEST
    return LIST_OFFSETS, LIST_OFFSETS_VERSION, log_offsets(asks, offsets, timestamp)


def epoch_ends(broker: BrokerId, asked: Iterable[tuple[TopicPartition, LeaderEpoch, int]]) -> bytes:
    """For each (partition, its current leader epoch, the last epoch of our log)."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for (topic, index), current_epoch, last_epoch in asked:
        topics.setdefault(topic, OffsetForLeaderTopic(topic=topic)).partitions.append(
            OffsetForLeaderPartition(
                partition=index, current_leader_epoch=current_epoch, leader_epoch=last_epoch
            )
        )
    request = OffsetForLeaderEpochRequest(replica_id=broker, topics=list(topics.values()))
    return request.encode(OFFSET_FOR_LEADER_EPOCH_VERSION)


def epoch_ends_answer(frame: memoryview, offset: int) -> dict[TopicPartition, EpochEnd]:
    response = OffsetForLeaderEpochResponse.decode(OFFSET_FOR_LEADER_EPOCH_VERSION, frame, offset)
    return {
        TopicPartition(topic.topic, row.partition): EpochEnd(row.error_code, row.leader_epoch, row.end_offset)
        for topic in response.topics
        for row in topic.partitions
    }


def log_offsets(
    broker: BrokerId, asked: Iterable[tuple[TopicPartition, LeaderEpoch]], timestamp: int
) -> bytes:
    """For each (partition, its current leader epoch): the offset LATEST or EARLIEST stands for."""
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, index), current_epoch in asked:
        topics.setdefault(topic, ListOffsetsTopic(name=topic)).partitions.append(
            ListOffsetsPartition(
                partition_index=index, current_leader_epoch=current_epoch, timestamp=timestamp
            )
        )
    return ListOffsetsRequest(replica_id=broker, topics=list(topics.values())).encode(LIST_OFFSETS_VERSION)


def log_offsets_answer(frame: memoryview, offset: int) -> dict[TopicPartition, tuple[int, int]]:
    """(error, offset) of each."""
    response = ListOffsetsResponse.decode(LIST_OFFSETS_VERSION, frame, offset)
    return {
        TopicPartition(topic.name, row.partition_index): (row.error_code, row.offset)
        for topic in response.topics
        for row in topic.partitions
    }
