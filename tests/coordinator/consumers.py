"""Requests of members of groups of KIP-848, for tests."""

from typing import Any

from odradek.coordinator.consumer_protocol import (
    FIRST_WITH_OWNED,
    FIRST_WITH_RACK,
    Subscription,
    write_subscription,
)
from odradek.coordinator.later import Later
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from tests.coordinator.groups import GROUP, Bench
from tests.coordinator.topics import topic_id

Owned = dict[str, list[int]]


def beat(
    member: str, epoch: int, *, owned: Owned | None = None, **options: Any
) -> ConsumerGroupHeartbeatRequest:
    rows = None
    if owned is not None:
        rows = [TopicPartitions(topic_id=topic_id(name), partitions=list(at)) for name, at in owned.items()]
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id=member, member_epoch=epoch, topic_partitions=rows, **options
    )


def join(member: str, topics: tuple[str, ...] = ("t",), **options: Any) -> ConsumerGroupHeartbeatRequest:
    names = list(topics) if "subscribed_topic_regex" not in options else None
    return beat(
        member,
        0,
        owned={},
        **{"rebalance_timeout_ms": 5_000, "subscribed_topic_names": names, **options},
    )


def told(response: Any) -> Owned | None:
    """Topic -> partitions, or None where nothing was said."""
    assert response.error_code == ErrorCode.NONE, (response.error_code, response.error_message)
    if response.assignment is None:
        return None
    return {name_of(one.topic_id): list(one.partitions) for one in response.assignment.topic_partitions}


def name_of(wanted: bytes) -> str:
    return bytes(wanted).rstrip(b"\0").decode()


def described(bench: Bench) -> Any:
    answer = bench.call(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1)
    (group,) = (answer.make() if isinstance(answer, Later) else answer).groups
    return group


def subscription(topics: tuple[str, ...] = ("t",), owned: Owned | None = None, rack: str = "") -> bytes:
    """As a classic member sends it, in the least version that has a place for what it says."""
    has = {name: tuple(at) for name, at in (owned or {}).items()}
    version = FIRST_WITH_RACK if rack else FIRST_WITH_OWNED
    return write_subscription(Subscription(version, topics, has, rack=rack))
