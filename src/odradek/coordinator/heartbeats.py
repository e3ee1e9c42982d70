"""Heartbeat: keeps a session, and tells whether the members have to join again."""

from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.classic_members import heartbeat_in_consumer_group
from odradek.coordinator.events import Asked
from odradek.coordinator.group_states import HEARTBEAT, GroupState
from odradek.coordinator.shard import Shard
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def heartbeat(shard: Shard, asked: Asked, request: HeartbeatRequest, now_ms: int) -> None:
    consumers = shard.consumer_groups.get(request.group_id)
    if consumers is not None:
        return heartbeat_in_consumer_group(shard, consumers, asked, request, now_ms)
    group = shard.groups.get(request.group_id)
    error = _why_not(group, request)
    if group is not None and not error:
        shard.renew_session(group, group.members[request.member_id], now_ms)
        error = HEARTBEAT[group.state]
    shard.answer(asked.call, HeartbeatResponse(error_code=error))
    return None


def _why_not(group: ClassicGroup | None, request: HeartbeatRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.DEAD:
        return HEARTBEAT[group.state]
    return group.why_not_of_generation(request.member_id, request.group_instance_id, request.generation_id)
