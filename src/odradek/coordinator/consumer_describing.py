"""ConsumerGroupDescribe: a group of KIP-848 as it stands, member by member."""

from odradek.coordinator.consumer_group import ConsumerGroup, assignor_of
from odradek.coordinator.consumer_records import Assignment
from odradek.coordinator.describing import ALL_OPERATIONS, NOT_ASKED
from odradek.coordinator.events import Asked
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
    groups = [_described(shard, name, operations) for name in request.group_ids]
    shard.answer(asked.call, ConsumerGroupDescribeResponse(groups=groups))


def _described(shard: Shard, group_id: str, operations: int) -> DescribedGroup:
    if not group_id:
        return DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id)
    group = shard.consumer_groups.get(group_id)
    if group is None:
        found = "not found" if group_id not in shard.groups else "is not a consumer group"
        return DescribedGroup(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} {found}.",
            group_id=group_id,
        )
    image = group.image
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=image.epoch,
        assignment_epoch=image.assignment_epoch,
        assignor_name=assignor_of(image, shard.settings.consumer_assignors),
        members=[_member(shard, group, member_id) for member_id in image.members],
        authorized_operations=operations,
    )


def _member(shard: Shard, group: ConsumerGroup, member_id: str) -> Member:
    image = group.image
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
        assignment=_assignment(shard, current.assigned),
        target_assignment=_assignment(shard, image.target_of(member_id)),
        member_type=CONSUMER_MEMBER if subscriber.classic is None else CLASSIC_MEMBER,
    )


def _assignment(shard: Shard, assignment: Assignment) -> AssignmentMessage:
    """Topics that are gone have no name and are not shown."""
    named = ((topic, shard.ids.name_of(topic), at) for topic, at in assignment.items())
    return AssignmentMessage(
        topic_partitions=[
            TopicPartitions(topic_id=topic, topic_name=name, partitions=list(at))
            for topic, name, at in named
            if name is not None
        ]
    )
