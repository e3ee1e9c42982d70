"""ConsumerGroupDescribe: a group of KIP-848 as it stands, member by member."""

from collections.abc import Mapping
from typing import NamedTuple

from odradek.coordinator.consumer_group import ConsumerGroup, assignor_of
from odradek.coordinator.consumer_image import ConsumerImage
from odradek.coordinator.consumer_records import Assignment
from odradek.coordinator.describing import ALL_OPERATIONS, NOT_ASKED
from odradek.coordinator.events import Asked
from odradek.coordinator.later import MOST_AT_ONCE, made, rows_of
from odradek.coordinator.shard import Shard
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.consumer_group_describe import (
    Assignment as AssignmentMessage,
)
from odradek.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def describe_consumer_groups(
    shard: Shard, asked: Asked, request: ConsumerGroupDescribeRequest, now_ms: int
) -> None:
    operations = ALL_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    found = [shard.consumer_groups.get(name) for name in request.group_ids]
    images = [group.image for group in found if group is not None]
    rows = rows_of(sum(len(one.members) for one in images), sum(one.held_bytes for one in images))
    seen = [
        _why_not(shard, name) if group is None else _seen(shard, group, is_copy=rows > MOST_AT_ONCE)
        for name, group in zip(request.group_ids, found, strict=True)
    ]

    def make() -> ConsumerGroupDescribeResponse:
        return ConsumerGroupDescribeResponse(
            groups=[one if isinstance(one, DescribedGroup) else _described(one, operations) for one in seen]
        )

    shard.answer(asked.call, made(make, rows))


def _why_not(shard: Shard, group_id: str) -> DescribedGroup:
    if not group_id:
        return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id)
    found = "not found" if group_id not in shard.groups else "is not a consumer group"
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} {found}.",
        group_id=group_id,
    )


class _Seen(NamedTuple):
    """A group in one moment. Topics that are gone have no name."""

    group_id: str
    state: str
    image: ConsumerImage
    assignors: tuple[str, ...]
    names: Mapping[bytes, str | None]


def _seen(shard: Shard, group: ConsumerGroup, *, is_copy: bool) -> _Seen:
    image = group.image
    assigned = (current.assigned for current in image.current.values())
    topics: set[bytes] = set().union(*assigned, *image.targets.values())
    names = {topic: shard.ids.name_of(topic) for topic in topics}
    return _Seen(
        group.group_id,
        group.state.value,
        image.copy() if is_copy else image,
        shard.settings.consumer_assignors,
        names,
    )


def _described(seen: _Seen, operations: int) -> DescribedGroup:
    image = seen.image
    return DescribedGroup(
        group_id=seen.group_id,
        group_state=seen.state,
        group_epoch=image.epoch,
        assignment_epoch=image.assignment_epoch,
        assignor_name=assignor_of(image, seen.assignors),
        members=[_member(seen, member_id) for member_id in image.members],
        authorized_operations=operations,
    )


def _member(seen: _Seen, member_id: str) -> Member:
    image = seen.image
    subscriber, current = image.members[member_id], image.current_of(member_id)
    return Member(
        member_id=member_id,
        instance_id=subscriber.instance_id,
        rack_id=subscriber.rack_id,
        member_epoch=current.epoch,
        client_id=subscriber.client_id,
        client_host=subscriber.client_host,
        subscribed_topic_names=list(subscriber.topics),
        subscribed_topic_regex=subscriber.regex,
        assignment=_assignment(seen, current.assigned),
        target_assignment=_assignment(seen, image.target_of(member_id)),
        member_type=CONSUMER_MEMBER if subscriber.classic is None else CLASSIC_MEMBER,
    )


def _assignment(seen: _Seen, assignment: Assignment) -> AssignmentMessage:
    """Topics that are gone are not shown."""
    named = ((topic, seen.names[topic], at) for topic, at in assignment.items())
    return AssignmentMessage(
        topic_partitions=[
            TopicPartitions(topic_id=topic, topic_name=name, partitions=list(at))
            for topic, name, at in named
            if name is not None
        ]
    )
