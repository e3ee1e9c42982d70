"""Answers of the group requests, one function each, in the shape every version of them can carry."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.later import Later, made, rows_of
from odradek.coordinator.member import Member, metadata_of
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from odradek.protocol.messages.sync_group import SyncGroupResponse
from odradek.protocol.schema import Response

NO_GENERATION = -1
FIRST_WITH_NULL_PROTOCOL = 7
FIRST_WITH_MEMBERS = 3  # of LeaveGroup (KIP-345)

Leaver = tuple[str, str | None]  # member id, instance


def join_refused(version: int, error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error,
        generation_id=NO_GENERATION,
        protocol_name=None if version >= FIRST_WITH_NULL_PROTOCOL else "",
        member_id=member_id,
    )


class Generation(NamedTuple):
    """What every member is told of a generation that begins."""

    generation: int
    protocol_type: str | None
    protocol: str
    leader: str

    def told_to(self, member_id: str) -> JoinGroupResponse:
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.leader,
            member_id=member_id,
        )


def generation_of(group: ClassicGroup) -> Generation:
    return Generation(group.generation, group.protocol_type, group.protocol or "", group.leader or "")


def joined(
    group: ClassicGroup,
    member_id: str,
    *,
    with_members: bool,
    leader: str | None = None,
    skip_assignment: bool = False,
) -> Response | Later:
    """Of the present generation. Only its leader is told the members, with the metadata of the chosen protocol."""
    generation = generation_of(group)
    members: Iterable[Member] = group.members.values() if with_members else ()
    protocol = group.protocol
    rows = [(one.member_id, one.instance_id, one.protocols) for one in members]

    def make() -> JoinGroupResponse:
        response = generation.told_to(member_id)
        if leader is not None:
            response.leader = leader
        response.skip_assignment = skip_assignment
        response.members = [
            JoinGroupResponseMember(
                member_id=one, group_instance_id=instance, metadata=metadata_of(protocols, protocol)
            )
            for one, instance, protocols in rows
        ]
        return response

    return made(make, rows_of(len(rows), group.size_bytes if with_members else 0))


def sync_refused(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)


def synced(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    return synced_with(group.protocol_type, group.protocol, member.assignment)


def synced_with(protocol_type: str | None, protocol: str | None, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(protocol_type=protocol_type, protocol_name=protocol, assignment=assignment)


def leavers_of(version: int, request: LeaveGroupRequest) -> list[Leaver]:
    if version < FIRST_WITH_MEMBERS:
        return [(request.member_id, None)]
    return [(one.member_id, one.group_instance_id) for one in request.members]


def leavers_told(version: int, leavers: Sequence[Leaver], errors: Sequence[ErrorCode]) -> Response | Later:
    """`errors`: one for each of `leavers`; neither changes any more."""

    def make() -> LeaveGroupResponse:
        if version < FIRST_WITH_MEMBERS:
            return LeaveGroupResponse(error_code=errors[0])
        return LeaveGroupResponse(
            members=[
                MemberResponse(member_id=member_id, group_instance_id=instance_id, error_code=error)
                for (member_id, instance_id), error in zip(leavers, errors, strict=True)
            ]
        )

    return made(make, len(leavers))
