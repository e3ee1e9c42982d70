"""SyncGroup: the leader's assignment is stored, and then handed to everybody."""

from functools import partial

from odradek.coordinator.answers import sync_refused, synced, synced_with
from odradek.coordinator.append_errors import told_of_group
from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.classic_members import sync_consumer_group
from odradek.coordinator.events import Asked
from odradek.coordinator.group_states import SYNC, GroupState
from odradek.coordinator.member import Parked
from odradek.coordinator.rebalance import prepare
from odradek.coordinator.records import GroupKey, GroupRecord
from odradek.coordinator.shard import Shard
from odradek.model.error_codes import ErrorCode
from odradek.model.values import dataclass
from odradek.protocol.messages.sync_group import SyncGroupRequest

# From it on the member says which group it believes to be in (KIP-559).
FIRST_WITH_PROTOCOL = 5


def sync_group(shard: Shard, asked: Asked, request: SyncGroupRequest, now_ms: int) -> None:
    if asked.version >= FIRST_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        return shard.answer(asked.call, sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    consumers = shard.consumer_groups.get(request.group_id)
    if consumers is not None:
        return sync_consumer_group(shard, consumers, asked, request, now_ms)
    group = shard.groups.get(request.group_id)
    error = _why_not(group, request)
    if group is None or error:
        return shard.answer(asked.call, sync_refused(error))
    member = group.members[request.member_id]
    is_to_assign = group.is_leader(member.member_id) and group.storing is None
    is_assigned = group.state is GroupState.STABLE
    assignments: dict[str, bytes] = {}
    if is_to_assign and not is_assigned:
        # Who is left out gets an empty assignment; who is not a member gets none.
        assignments = {
            one.member_id: bytes(one.assignment)
            for one in request.assignments
            if one.member_id in group.members
        }
        more_bytes = group.size_bytes_with(assignments) - group.size_bytes
        if not shard.has_room(more_bytes, now_ms, is_new=False):
            return shard.answer(asked.call, sync_refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    group.unsynced.discard(member.member_id)
    if not group.unsynced:
        group.sync_ends_at_ms = None
    if is_assigned:
        shard.renew_session(group, member, now_ms)
        return shard.answer(asked.call, synced(group, member))
    if member.sync is not None:  # as with a second JoinGroup: the first is nobody's any more
        shard.answer(member.sync.call, sync_refused(ErrorCode.NOT_COORDINATOR))
    member.sync = Parked(asked.call, asked.version)
    request.assignments = []  # of whoever waits the request is kept, to be refused
    if is_to_assign:
        after = AssignmentStored(group.group_id, group.generation, assignments)
        record = GroupRecord(GroupKey(group.group_id), group.as_stored(now_ms, assignments))
        brought = sum(map(len, assignments.values()))
        group.storing = shard.append([record], after, brought_bytes=brought)
    return None


def _why_not(group: ClassicGroup | None, request: SyncGroupRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.DEAD:
        return SYNC[group.state]
    error = group.why_not_of_generation(request.member_id, request.group_instance_id, request.generation_id)
    if error:
        return error
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name is not None and request.protocol_name != group.protocol:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return SYNC[group.state]


@dataclass(frozen=True, slots=True)
class AssignmentStored:
    group_id: str
    generation: int
    assignments: dict[str, bytes]

    def committed(self, shard: Shard, now_ms: int) -> None:
        group = self._still_waits(shard)
        if group is None:
            return
        group.move_to(GroupState.STABLE, now_ms)
        group.assign(self.assignments)
        told = [member for member in group.members.values() if member.sync is not None]
        for member in told:
            assert member.sync is not None
            answer = partial(synced_with, group.protocol_type, group.protocol, member.assignment)
            shard.answer(member.sync.call, answer)
            member.sync = None
        shard.renew_sessions(group, told, now_ms)

    def failed(self, shard: Shard, error: ErrorCode, now_ms: int) -> None:
        group = self._still_waits(shard)
        if group is None:
            return
        for member in group.members.values():
            if member.sync is not None:
                shard.answer(member.sync.call, sync_refused(told_of_group(error)))
                member.sync = None
                shard.renew_session(group, member, now_ms)
        prepare(shard, group, now_ms)

    def _still_waits(self, shard: Shard) -> ClassicGroup | None:
        """Whoever joined, left or was removed meanwhile started another generation: then this is nobody's any more."""
        group = shard.groups.get(self.group_id)
        if group is None or group.state is not GroupState.COMPLETING or group.generation != self.generation:
            return None
        return group
