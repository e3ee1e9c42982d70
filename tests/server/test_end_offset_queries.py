"""What a survivor holds: an answer that says nothing is none, and is asked for another way."""

from odradek.controller.broker_requests import AskEndOffsets
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, TopicPartition
from odradek.protocol.messages import list_offsets as lo
from odradek.protocol.messages import offset_for_leader_epoch as ofle
from odradek.server.end_offset_queries import (
    EPOCH_UNKNOWN,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    VERSIONS,
    decode_end_offsets,
    decode_log_ends,
    second_question,
)

BROKER = BrokerId(2)
KNOWN, UNDEFINED, REFUSED = (TopicPartition("t", index) for index in range(3))


def test_who_knows_no_such_epoch_or_refuses_is_asked_where_its_log_ends() -> None:
    rows = [
        ofle.EpochEndOffset(partition=0, leader_epoch=3, end_offset=10),
        ofle.EpochEndOffset(partition=1, leader_epoch=-1, end_offset=-1),
        ofle.EpochEndOffset(
            partition=2, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_epoch=3, end_offset=7
        ),
    ]
    answer = ofle.OffsetForLeaderEpochResponse(
        topics=[ofle.OffsetForLeaderTopicResult(topic="t", partitions=rows)]
    )
    told = decode_end_offsets(BROKER, memoryview(answer.encode(VERSIONS[OFFSET_FOR_LEADER_EPOCH])))
    assert told.ends == {KNOWN: (3, 10)}
    asked = AskEndOffsets(
        BROKER, BrokerEpoch(25), tuple((tp, LeaderEpoch(3)) for tp in (KNOWN, UNDEFINED, REFUSED)), 7
    )
    again = second_question(asked, told)
    assert again is not None and again.partitions == (UNDEFINED, REFUSED)
    assert (again.broker, again.broker_epoch) == (BROKER, 25)
    assert again.number == 7, "of a later election's question this says nothing"
    assert second_question(again, told) is None, "asked once"


def test_a_log_end_says_nothing_of_its_epoch() -> None:
    rows = [
        lo.ListOffsetsPartitionResponse(partition_index=0, offset=10, leader_epoch=5),
        lo.ListOffsetsPartitionResponse(partition_index=1, offset=-1, leader_epoch=5),
        lo.ListOffsetsPartitionResponse(
            partition_index=2, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, offset=7
        ),
    ]
    answer = lo.ListOffsetsResponse(topics=[lo.ListOffsetsTopicResponse(name="t", partitions=rows)])
    told = decode_log_ends(BROKER, memoryview(answer.encode(VERSIONS[LIST_OFFSETS])))
    assert told.ends == {KNOWN: (EPOCH_UNKNOWN, 10)}
