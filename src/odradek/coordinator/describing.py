"""DescribeGroups and ListGroups: what a group looks like at this moment."""

from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.events import Asked
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.shard import Shard
from odradek.coordinator.subscription import CONSUMER
from odradek.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC_TYPE, CONSUMER_TYPE = "classic", "consumer"
NOT_ASKED = -2147483648
# READ, DELETE and DESCRIBE, as bits by Kafka's numbers of operations: nobody here is refused any.
ALL_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8


def describe_groups(shard: Shard, asked: Asked, request: DescribeGroupsRequest, now_ms: int) -> None:
    operations = ALL_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    groups = [_described(shard.groups.get(name), name, operations) for name in request.groups]
    shard.answer(asked.call, DescribeGroupsResponse(groups=groups))


def _described(group: ClassicGroup | None, group_id: str, operations: int) -> DescribedGroup:
    if group is None:
        state = GroupState.DEAD.value
        return DescribedGroup(group_id=group_id, group_state=state, authorized_operations=operations)
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client.client_id,
                client_host=member.client.host,
                # What a rebalance is about to change is not shown.
                member_metadata=member.metadata_of(group.protocol) if is_stable else b"",
                member_assignment=member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ],
        authorized_operations=operations,
    )


def list_groups(shard: Shard, asked: Asked, request: ListGroupsRequest, now_ms: int) -> None:
    """Filters know no case, and names nobody has match nothing."""
    states = {name.lower() for name in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    rows = []
    if not types or CLASSIC_TYPE in types:
        rows += [
            (group.group_id, group.protocol_type or "", group.state.value, CLASSIC_TYPE)
            for group in shard.groups.values()
        ]
    if not types or CONSUMER_TYPE in types:
        rows += [
            (name, CONSUMER, consumers.state.value, CONSUMER_TYPE)
            for name, consumers in shard.consumer_groups.items()
        ]
    groups = [
        ListedGroup(group_id=name, protocol_type=protocol, group_state=state, group_type=kind)
        for name, protocol, state, kind in rows
        if not states or state.lower() in states
    ]
    shard.answer(asked.call, ListGroupsResponse(groups=groups))
