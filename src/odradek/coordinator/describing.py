"""DescribeGroups and ListGroups: what a group looks like at this moment."""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_group import ConsumerGroupState
from odradek.coordinator.events import Asked
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.later import made, rows_of
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
# Filters of ListGroups that may match something, and one that matches nothing.
_STATES = frozenset(state.value.lower() for states in (GroupState, ConsumerGroupState) for state in states)
_TYPES = frozenset((CLASSIC_TYPE, CONSUMER_TYPE))
NOBODY = "nobody"


def describe_groups(shard: Shard, asked: Asked, request: DescribeGroupsRequest, now_ms: int) -> None:
    operations = ALL_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    found = [shard.groups.get(name) for name in request.groups]
    seen = [_seen(group, name) for group, name in zip(found, request.groups, strict=True)]
    size_bytes = sum(group.size_bytes for group in found if group is not None)

    def make() -> DescribeGroupsResponse:
        return DescribeGroupsResponse(groups=[_described(one, operations) for one in seen])

    shard.answer(asked.call, made(make, rows_of(sum(len(one.members) for one in seen), size_bytes)))


class _Seen(NamedTuple):
    """A group in one moment; of its members id, instance, client id, host, metadata, assignment."""

    group_id: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: Sequence[tuple[str, str | None, str, str, bytes, bytes]] = ()


def _seen(group: ClassicGroup | None, group_id: str) -> _Seen:
    if group is None:
        return _Seen(group_id, GroupState.DEAD.value)
    is_stable = group.state is GroupState.STABLE
    members = [
        (
            member.member_id,
            member.instance_id,
            member.client.client_id,
            member.client.host,
            # What a rebalance is about to change is not shown.
            member.metadata_of(group.protocol) if is_stable else b"",
            member.assignment if is_stable else b"",
        )
        for member in group.members.values()
    ]
    protocol = (group.protocol or "") if is_stable else ""
    return _Seen(group_id, group.state.value, group.protocol_type or "", protocol, members)


def _described(seen: _Seen, operations: int) -> DescribedGroup:
    return DescribedGroup(
        group_id=seen.group_id,
        group_state=seen.state,
        protocol_type=seen.protocol_type,
        protocol_data=seen.protocol,
        members=[
            DescribedGroupMember(
                member_id=member_id,
                group_instance_id=instance_id,
                client_id=client_id,
                client_host=host,
                member_metadata=metadata,
                member_assignment=assignment,
            )
            for member_id, instance_id, client_id, host, metadata, assignment in seen.members
        ],
        authorized_operations=operations,
    )


def with_known_filters(request: ListGroupsRequest) -> ListGroupsRequest:
    """The same question with each filter that may match something, once and in small letters: every coordinator reads them."""
    return ListGroupsRequest(
        states_filter=_known(request.states_filter, _STATES),
        types_filter=_known(request.types_filter, _TYPES),
    )


def _known(names: Sequence[str], known: frozenset[str]) -> list[str]:
    if not names:
        return []
    longest = max(map(len, known))
    small = {name.lower() for name in names if len(name) <= longest}
    return sorted(small & known) or [NOBODY]


def list_groups(shard: Shard, asked: Asked, request: ListGroupsRequest, now_ms: int) -> None:
    """Filters know no case, and names nobody has match nothing."""
    states = {name.lower() for name in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    # What a row is made of is copied in this turn, and the row by a thread.
    rows: list[tuple[str, str | None, GroupState | ConsumerGroupState, str]] = []
    if not types or CLASSIC_TYPE in types:
        rows += [
            (group.group_id, group.protocol_type, group.state, CLASSIC_TYPE)
            for group in shard.groups.values()
        ]
    if not types or CONSUMER_TYPE in types:
        rows += [
            (name, CONSUMER, consumers.state, CONSUMER_TYPE)
            for name, consumers in shard.consumer_groups.items()
        ]

    def make() -> ListGroupsResponse:
        groups = [
            ListedGroup(group_id=name, protocol_type=protocol or "", group_state=state.value, group_type=kind)
            for name, protocol, state, kind in rows
            if not states or state.value.lower() in states
        ]
        return ListGroupsResponse(groups=groups)

    shard.answer(asked.call, made(make, len(rows)))
