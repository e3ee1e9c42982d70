"""DescribeTopicPartitions: pages of partitions, and where the next one begins."""

from pathlib import Path
from typing import Any

import pytest

from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages import api_versions as av
from odradek.protocol.messages import describe_topic_partitions as dtp
from tests.broker.world import World

SIZES = {"a": 3, "b": 1, "c": 4, "t": 1}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return made(tmp_path)


def made(path: Path, **settings: str) -> World:
    world = World(path, **settings)
    for number, (topic, partitions) in enumerate(SIZES.items()):
        for index in range(partitions):
            world.lead(1, topic=topic, index=index, topic_id=bytes([number + 1] * 16), settle=False)
    world.settle()
    return world


def page(world: World, *names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None) -> Any:
    request = dtp.DescribeTopicPartitionsRequest(
        topics=[dtp.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else dtp.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return world.call(1, request, 0)


def shown(answer: Any) -> list[tuple[str, int]]:
    return [
        (topic.name, partition.partition_index) for topic in answer.topics for partition in topic.partitions
    ]


def pages(world: World, *names: str, limit: int) -> list[list[tuple[str, int]]]:
    """As an administrator's client asks: the topics again, and the cursor of the answer before."""
    found = []
    cursor = None
    while True:
        answer = page(world, *names, limit=limit, cursor=cursor)
        found.append(shown(answer))
        if answer.next_cursor is None:
            return found
        cursor = answer.next_cursor.topic_name, answer.next_cursor.partition_index


def test_a_topic_is_described_whole(world: World) -> None:
    world.kill(3)
    world.notify_metadata()
    world.lead(2, isr=(1, 2), topic="b", topic_id=b"\2" * 16)

    (topic,) = page(world, "b").topics

    assert (topic.error_code, topic.name, topic.topic_id, topic.is_internal) == (0, "b", b"\2" * 16, False)
    (row,) = topic.partitions
    assert (row.error_code, row.leader_id, row.leader_epoch) == (0, 2, 1)
    assert (row.replica_nodes, row.isr_nodes, row.offline_replicas) == ([1, 2, 3], [1, 2], [3])
    # Not null: Java's AdminClient reads them as lists, and ends every description of a topic with an exception else.
    assert (row.eligible_leader_replicas, row.last_known_elr) == ([], [])
    assert topic.topic_authorized_operations > 0


@pytest.mark.parametrize("names", [(), ("t", "c", "a", "b", "a")])
@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 8, 9, 100])
def test_pages_hold_so_many_and_leave_none_out(world: World, names: tuple[str, ...], limit: int) -> None:
    everything = [(topic, index) for topic, count in SIZES.items() for index in range(count)]

    found = pages(world, *names, limit=limit)

    assert [one for some in found for one in some] == everything
    assert all(len(some) == limit for some in found[:-1])
    assert 0 < len(found[-1]) <= limit


def test_no_client_gets_more_than_the_setting_allows_and_each_gets_one(tmp_path: Path) -> None:
    world = made(tmp_path, max_request_partition_size_limit="2")

    assert shown(page(world, limit=100)) == [("a", 0), ("a", 1)]
    assert shown(page(world, limit=0)) == shown(page(world, limit=-7)) == [("a", 0)]


def test_topics_that_do_not_exist_are_named_and_take_no_room(world: World) -> None:
    answer = page(world, "none", "bad name", "a", limit=4)

    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("a", 0),
        ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_a_cursor_in_a_topic_that_went_goes_on_behind_it(world: World) -> None:
    assert shown(page(world, cursor=("bb", 7)))[0] == ("c", 0)
    assert shown(page(world, cursor=("c", 99))) == [("t", 0)]
    answer = page(world, "bb", "c", cursor=("bb", 7))
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("bb", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("c", 0),
    ]


@pytest.mark.parametrize("cursor", [("a", -1), ("other", 0)])
def test_a_cursor_that_cannot_be_meant_is_refused(world: World, cursor: tuple[str, int]) -> None:
    answer = page(world, "a", "b", cursor=cursor)

    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("a", ErrorCode.INVALID_REQUEST),
        ("b", ErrorCode.INVALID_REQUEST),
    ]
    assert answer.next_cursor is None


def test_a_broker_that_was_told_of_nobody_says_of_no_topic_that_it_is_not_there(world: World) -> None:
    world[1].broker.metadata.brokers = {}

    assert page(world, "none").topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE


@pytest.mark.parametrize(("given", "is_offered"), [({}, True), ({"zookeeper.connect": "z:2181"}, False)])
def test_it_is_offered_where_no_apache_broker_can_be_a_neighbour(
    tmp_path: Path, given: dict[str, str], is_offered: bool
) -> None:
    """Its tools print what they heard by it otherwise, and would print now this and now that."""
    world = World(tmp_path, **given)
    world.lead(1)

    answer = world.call(1, av.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)

    assert (75 in {row.api_key for row in answer.api_keys}) is is_offered


def test_thousands_of_names_are_looked_at_some_in_a_turn(world: World) -> None:
    names = sorted(f"none-{number}" for number in range(2_500))
    request = dtp.DescribeTopicPartitionsRequest(
        topics=[dtp.TopicRequest(name=name) for name in [*names, "a", "t"]], response_partition_limit=4
    )
    asked = world.send(1, request, 0)
    assert not asked.is_answered
    world.settle()
    assert [topic.name for topic in asked.message.topics] == ["a", *names, "t"]
    assert shown(asked.message) == [("a", 0), ("a", 1), ("a", 2), ("t", 0)]
    assert {topic.error_code for topic in asked.message.topics[1:-1]} == {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }


def test_a_page_in_which_a_topic_went_meanwhile_still_says_where_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.broker.handlers.describe_topic_partitions.NAMES_AT_ONCE", 2)
    world = World(tmp_path)
    for number in range(5):
        world.lead(1, topic=f"p{number}", topic_id=bytes([number + 1] * 16), settle=False)
    world.settle()
    request = dtp.DescribeTopicPartitionsRequest(topics=[], response_partition_limit=3)
    asked = world.send(1, request, 0)
    assert not asked.is_answered
    del world[1].broker.metadata.topics["p2"]

    world.settle()

    assert shown(asked.message) == [("p0", 0), ("p1", 0), ("p3", 0)]
    assert asked.message.next_cursor == dtp.Cursor(topic_name="p4", partition_index=0)


def test_a_page_that_begins_behind_the_partitions_of_its_first_topic_leaves_none_out(world: World) -> None:
    answer = page(world, limit=1, cursor=("b", 1))

    assert shown(answer) == [("c", 0)]
    assert answer.next_cursor == dtp.Cursor(topic_name="c", partition_index=1)
    answer = page(world, limit=1, cursor=("a", 3))
    assert shown(answer) == [("b", 0)]
    assert answer.next_cursor == dtp.Cursor(topic_name="c", partition_index=0)
