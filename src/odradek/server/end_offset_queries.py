"""What a survivor holds, asked before an unclean election: OffsetForLeaderEpoch, and ListOffsets where that is refused.

Ours answer whoever asks as replica -2. Apache's brokers answer OffsetForLeaderEpoch on leaders only, and a survivor
is none; but ListOffsets they answer to -2 on any replica, with the log end. So of theirs the end alone is known
(docs/mixing.md).
"""

from itertools import groupby
from typing import NamedTuple

from odradek.controller.broker_requests import AskEndOffsets
from odradek.controller.events import EndOffsetsAnswered
from odradek.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicPartition
from odradek.protocol.messages import list_offsets as lo
from odradek.protocol.messages import offset_for_leader_epoch as ofle

LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH = 2, 23
VERSIONS = {LIST_OFFSETS: 9, OFFSET_FOR_LEADER_EPOCH: 4}
# A reader that may look beyond the high watermark: not a consumer, not a replica either.
DEBUGGING_REPLICA_ID = -2
LATEST = -1
EPOCH_UNKNOWN = LeaderEpoch(-1)


class AskLogEnds(NamedTuple):
    """The second question, about those of which the first brought nothing."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    partitions: tuple[TopicPartition, ...]
    number: int | None = None  # as of AskEndOffsets


def second_question(request: object, answered: object) -> AskLogEnds | None:
    if not isinstance(request, AskEndOffsets) or not isinstance(answered, EndOffsetsAnswered):
        return None
    unknown = tuple(tp for tp, _ in request.partitions if tp not in answered.ends)
    return AskLogEnds(request.broker, request.broker_epoch, unknown, request.number) if unknown else None


def encode_end_offsets(request: AskEndOffsets) -> bytes:
    message = ofle.OffsetForLeaderEpochRequest(
        replica_id=DEBUGGING_REPLICA_ID,
        topics=[
            ofle.OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    # No current leader epoch: the survivor asked is not a leader, and may know an older one.
                    ofle.OffsetForLeaderPartition(
                        partition=tp.partition, current_leader_epoch=-1, leader_epoch=epoch
                    )
                    for tp, epoch in asked
                ],
            )
            for topic, asked in groupby(sorted(request.partitions), key=lambda pair: pair[0].topic)
        ],
    )
    return message.encode(VERSIONS[OFFSET_FOR_LEADER_EPOCH])


def encode_log_ends(request: AskLogEnds) -> bytes:
    message = lo.ListOffsetsRequest(
        replica_id=DEBUGGING_REPLICA_ID,
        topics=[
            lo.ListOffsetsTopic(
                name=topic,
                partitions=[
                    lo.ListOffsetsPartition(partition_index=tp.partition, timestamp=LATEST) for tp in asked
                ],
            )
            for topic, asked in groupby(sorted(request.partitions), key=lambda tp: tp.topic)
        ],
    )
    return message.encode(VERSIONS[LIST_OFFSETS])


def decode_end_offsets(broker: BrokerId, body: memoryview, number: int | None = None) -> EndOffsetsAnswered:
    ends = ofle.OffsetForLeaderEpochResponse.decode(VERSIONS[OFFSET_FOR_LEADER_EPOCH], body)
    return EndOffsetsAnswered(
        broker,
        {
            TopicPartition(topic.topic, p.partition): (LeaderEpoch(p.leader_epoch), Offset(p.end_offset))
            for topic in ends.topics
            for p in topic.partitions
            if p.error_code == 0 and p.end_offset >= 0
        },
        number,
    )


def decode_log_ends(broker: BrokerId, body: memoryview, number: int | None = None) -> EndOffsetsAnswered:
    """The epoch in the answer is that of the leadership it knows, not of its last record: unknown."""
    ends = lo.ListOffsetsResponse.decode(VERSIONS[LIST_OFFSETS], body)
    return EndOffsetsAnswered(
        broker,
        {
            TopicPartition(topic.name, p.partition_index): (EPOCH_UNKNOWN, Offset(p.offset))
            for topic in ends.topics
            for p in topic.partitions
            if p.error_code == 0 and p.offset >= 0
        },
        number,
    )
