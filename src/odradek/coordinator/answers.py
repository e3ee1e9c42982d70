"""Answers of the group requests, one function each, in the shape every version of them can carry."""

from collections.abc import Iterable

from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.member import Member
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from odradek.protocol.messages.sync_group import SyncGroupResponse

NO_GENERATION = -1
FIRST_WITH_NULL_PROTOCOL = 7


def join_refused(version: int, error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error,
        generation_id=NO_GENERATION,
        protocol_name=None if version >= FIRST_WITH_NULL_PROTOCOL else "",
        member_id=member_id,
    )


def joined(
    group: ClassicGroup,
    member_id: str,
    *,
    with_members: bool,
    leader: str | None = None,
    skip_assignment: bool = False,
) -> JoinGroupResponse:
    """Of the present generation. Only its leader is told the members, with the metadata of the chosen protocol."""
    members: Iterable[Member] = group.members.values() if with_members else ()
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol or "",
        leader=(group.leader if leader is None else leader) or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata_of(group.protocol),
            )
            for member in members
        ],
    )


def sync_refused(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)


def synced(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )
