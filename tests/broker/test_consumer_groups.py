"""Groups of KIP-848 at a broker: who is offered them, targets and expressions that threads find, coordinators that move."""

from pathlib import Path
from typing import Any

import pytest

from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError
from odradek.model.settings import BrokerSettings
from odradek.model.topic_names import GROUPS_TOPIC
from odradek.protocol.messages import api_versions as av
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.broker.world import World

KEYS = {68, 69}


def led_by(world: World, broker: int) -> None:
    world.lead(1)
    world.lead(broker, topic=GROUPS_TOPIC, topic_id=b"o" * 16)


def join(member: str, **options: Any) -> ConsumerGroupHeartbeatRequest:
    names = None if "subscribed_topic_regex" in options else ["t"]
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member,
        rebalance_timeout_ms=5_000,
        topic_partitions=[],
        **{"subscribed_topic_names": names, **options},
    )


def beat(member: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch)


def partitions(answer: Any) -> int:
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    return sum(len(topic.partitions) for topic in answer.assignment.topic_partitions)


def listed(world: World) -> set[int]:
    answer = world.call(1, av.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
    return {row.api_key for row in answer.api_keys}


@pytest.mark.parametrize(
    ("given", "is_offered"),
    [
        ({}, True),
        ({"zookeeper.connect": "z:2181"}, False),
        ({"zookeeper.connect": "z:2181", "group.coordinator.rebalance.protocols": "classic,consumer"}, True),
        ({"group.coordinator.rebalance.protocols": "classic"}, False),
    ],
)
def test_they_are_offered_where_no_broker_of_another_kind_can_lead_their_topic(
    given: dict[str, str], is_offered: bool
) -> None:
    assert BrokerSettings({"broker.id": "1", **given}).offers_consumer_groups is is_offered


def test_where_they_are_not_offered_they_are_not_listed_and_refused(tmp_path: Path) -> None:
    world = World(tmp_path, **{"group.coordinator.rebalance.protocols": "classic"})
    led_by(world, 1)

    assert not listed(world) & KEYS
    assert world.call(1, join("A"), 1).error_code == ErrorCode.UNSUPPORTED_VERSION
    (group,) = world.call(1, ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert group.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(
    "given",
    [
        {"group.consumer.assignors": "uniform,mine"},
        {"group.consumer.assignors": ""},
        {"group.consumer.session.timeout.ms": "61000"},
        {"group.consumer.heartbeat.interval.ms": "4000"},
        {
            "group.consumer.min.session.timeout.ms": "1000",
            "group.consumer.session.timeout.ms": "5000",
        },
    ],
)
def test_settings_that_cannot_be_meant_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"group\.consumer\."):
        BrokerSettings({"broker.id": "1", **given})


def test_a_member_has_its_partitions_when_that_is_committed_and_goes_on_at_the_next_leader(
    world: World,
) -> None:
    led_by(world, 1)
    assert listed(world) >= KEYS
    pending = world.send(1, join("A"), 1)
    assert not pending.is_answered, "its followers do not have it yet"
    world.settle()
    assert partitions(pending.message) == 1

    led_by(world, 2)
    world.now_ms += 10
    world[2].broker.tick(world.now_ms)
    world.settle()

    assert world.call(1, beat("A", 1), 1).error_code == ErrorCode.NOT_COORDINATOR
    assert world.call(2, beat("A", 1), 1).member_epoch == 1


def test_an_expression_and_the_target_of_a_large_group_are_found_by_a_thread(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.coordinator.draft.MOST_AT_ONCE", 0)
    led_by(world, 1)
    joined = world.call(1, join("A", subscribed_topic_regex="t"), 1)
    assert (joined.member_epoch, partitions(joined)) == (1, 0)
    epoch = world.call(1, beat("A", 1), 1).member_epoch

    assert partitions(world.call(1, beat("A", epoch), 1)) == 1


def test_where_a_thread_fails_as_nobody_foresaw_the_group_goes_on_and_asks_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.coordinator.draft.MOST_AT_ONCE", 0)
    led_by(world, 1)
    with monkeypatch.context() as broken:
        broken.setattr("odradek.coordinator.asides.Assign.run", lambda work: None)
        world.call(1, join("A"), 1)

    world.call(1, beat("A", 1), 1)

    assert partitions(world.call(1, beat("A", 1), 1)) == 1
