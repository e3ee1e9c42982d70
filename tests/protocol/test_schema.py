"""The notation: what a table turns into."""

import pytest

from odradek.protocol.fields import FIRST_OWN_TAG, VersionRange, fields_at
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from odradek.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData, ReplicaState
from odradek.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsPartitionResponse
from odradek.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from odradek.protocol.messages.offset_for_leader_epoch import EpochEndOffset, OffsetForLeaderPartition
from odradek.protocol.messages.produce import PartitionProduceData, PartitionProduceResponse
from tests.protocol.golden import message_classes, vectors
from tests.support import each


def test_a_version_range_is_one_or_some_or_all_from_one_on() -> None:
    assert VersionRange.parse("3") == (3, 3)
    assert VersionRange.parse("3-8") == (3, 8)
    assert 3 in VersionRange.parse("3+") and 2 not in VersionRange.parse("3+")


def test_an_instance_starts_with_the_defaults_of_the_table() -> None:
    request = FetchRequest(min_bytes=5)
    assert (request.min_bytes, request.max_bytes, request.replica_id, request.rack_id) == (
        5,
        0x7FFFFFFF,
        -1,
        "",
    )
    assert request.topics == [] and request.cluster_id is None
    assert request.replica_state == ReplicaState(replica_id=-1, replica_epoch=-1)
    assert DescribeTopicPartitionsRequest().cursor is None


def test_instances_share_nothing() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append("x")  # type: ignore[arg-type]
    first.replica_state.replica_id = 7
    assert second == FetchRequest()


def test_the_defaults_are_those_of_apache() -> None:
    compared = 0
    for vector in vectors():
        if vector.sample == "default":
            compared += 1
            assert vector.message().encode(vector.version) == vector.body, vector.name
    assert compared == len({(v.message, v.version) for v in vectors()})


def test_nested_defaults_that_mean_none_are_minus_one() -> None:
    """A default message has no nested structs, so the vectors do not show these."""
    partition = PartitionData()
    assert (partition.preferred_read_replica, partition.last_stable_offset, partition.log_start_offset) == (
        -1,
    ) * 3
    wanted = FetchPartition()
    assert (wanted.current_leader_epoch, wanted.last_fetched_epoch, wanted.log_start_offset) == (-1,) * 3
    answer = PartitionProduceResponse()
    assert (answer.log_append_time_ms, answer.log_start_offset, answer.error_message) == (-1, -1, None)
    listed = ListOffsetsPartitionResponse()
    assert (listed.timestamp, listed.offset, listed.leader_epoch) == (-1,) * 3
    ended = EpochEndOffset()
    assert (ended.leader_epoch, ended.end_offset) == (-1, -1)
    assert (
        ListOffsetsPartition().current_leader_epoch == OffsetForLeaderPartition().current_leader_epoch == -1
    )
    assert MetadataResponsePartition().leader_epoch == -1
    assert MetadataResponseTopic().topic_authorized_operations == -(1 << 31)


def test_a_misspelt_field_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="min_byte"):
        FetchRequest(min_byte=5)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        FetchRequest().min_byte = 5  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        FetchRequest(5)  # type: ignore[misc]


def test_equality_looks_at_every_field_and_at_the_kind() -> None:
    assert PartitionProduceData(index=1, records=b"r") == PartitionProduceData(
        index=1, records=memoryview(b"r")
    )
    assert PartitionProduceData(index=1) != PartitionProduceData(index=2)
    assert ReplicaState() != PartitionProduceData()
    with pytest.raises(TypeError, match="unhashable"):
        hash(ReplicaState())


def test_records_are_shown_by_their_size_and_the_rest_by_value() -> None:
    assert (
        repr(PartitionProduceData(index=4, records=b"secret"))
        == "PartitionProduceData(index=4, records=<6 bytes>)"
    )
    assert "records=None" in repr(PartitionData())
    assert repr(ReplicaState(replica_id=3)) == "ReplicaState(replica_id=3, replica_epoch=-1)"


def test_a_field_is_in_line_or_tagged_or_absent() -> None:
    inline, tagged, absent = fields_at(FetchRequest, 15)
    assert [line.name for line in tagged] == ["cluster_id", "replica_state"]
    assert [line.name for line in absent] == ["replica_id"]
    assert len(inline) + 3 == len(FetchRequest.TABLE)


@each(message_classes())
def test_tags_are_only_where_a_version_is_flexible_and_count_from_0(message: type) -> None:
    def check(cls: type) -> None:
        tags = sorted(line.tag for line in cls.TABLE if line.tag is not None)
        apaches = sum(tag < FIRST_OWN_TAG for tag in tags)
        own = range(FIRST_OWN_TAG, FIRST_OWN_TAG + len(tags) - apaches)
        assert tags == [*range(apaches), *own]
        for line in cls.TABLE:
            if line.tag is not None:
                assert line.versions.first >= message.FLEXIBLE.first
            if isinstance(line.of, type):
                check(line.of)

    check(message)
