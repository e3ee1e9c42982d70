"""A request that names the same thing thousands of times is answered about it once: a row of a few bytes may stand for ten
thousand members, fifty thousand producers or a million offsets.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.handlers import describe_producers as describing
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from odradek.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.broker.configs import BROKER, TOPIC, Store, describe
from tests.broker.world import World, batch

TIMES = 2_000


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, brokers=(1,), offsets_topic_replication_factor="1")
    world.coordinate_alone(1)
    world.advance(20)
    return world


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        (lambda names: DescribeGroupsRequest(groups=names), 5),
        (lambda names: ConsumerGroupDescribeRequest(group_ids=names), 0),
    ],
    ids=["classic", "consumer"],
)
def test_a_group_that_is_named_often_is_described_once(
    world: World, asked: Callable[[list[str]], Any], version: int
) -> None:
    answer = world.call(1, asked(["g", "other"] * TIMES), version)

    assert [group.group_id for group in answer.groups] == ["g", "other"]


def test_the_offsets_of_a_group_that_is_named_often_are_told_once(world: World) -> None:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name="big", partitions=[row])]
    world.call(1, OffsetCommitRequest(group_id="g", topics=topics), 8)

    groups = [OffsetFetchRequestGroup(group_id="g", topics=None) for _ in range(3)]
    first, *again = world.call(1, OffsetFetchRequest(groups=groups), 8).groups

    assert not first.error_code and first.topics[0].partitions[0].committed_offset == 7
    assert [(one.group_id, one.error_code, one.topics) for one in again] == [
        ("g", ErrorCode.INVALID_REQUEST, [])
    ] * 2


def test_producers_of_a_partition_that_is_named_often_are_told_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for producer_id in range(3):
        world.produce(1, records=batch(b"v", producer_id=producer_id, producer_epoch=0, base_sequence=0))
    topics = [TopicRequest(name="t", partition_indexes=[0, 0, 9, 9])] * 2
    for most in (describing.MOST_AT_ONCE, 2):
        monkeypatch.setattr(describing, "MOST_AT_ONCE", most)
        answer = world.call(1, DescribeProducersRequest(topics=topics), 0)

        rows = [row for topic in answer.topics for row in topic.partitions]
        assert [row.partition_index for row in rows] == [0, 9]
        assert [one.producer_id for one in rows[0].active_producers] == [0, 1, 2]


def test_settings_of_a_resource_that_is_named_often_are_told_once(world: World) -> None:
    store = Store(world)
    results = describe(world, store, *[(BROKER, "1", None), (TOPIC, "t", None)] * 3)

    assert [len(result.configs) > 0 for result in results] == [True, True] + [False] * 4
    assert {(result.error_code, result.error_message) for result in results[2:]} == {
        (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    }


@pytest.mark.parametrize("version", [1, 12])
def test_partitions_of_a_topic_that_is_named_often_are_told_once(world: World, version: int) -> None:
    wanted = [MetadataRequestTopic(name="big"), MetadataRequestTopic(name="none")] * TIMES
    asked = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    answer = world.call(1, asked, version)

    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("big", 1), ("none", 0)]
