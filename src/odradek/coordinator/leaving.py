"""LeaveGroup: members that go on their own, several at once from version 3 on (KIP-345)."""

from odradek.coordinator.answers import Leaver, leavers_of, leavers_told
from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.classic_members import leave_consumer_group
from odradek.coordinator.events import Asked
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.rebalance import Emptied, forget_unused, remove_members, try_complete
from odradek.coordinator.shard import Shard
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def leave_group(shard: Shard, asked: Asked, request: LeaveGroupRequest, now_ms: int) -> None:
    consumers = shard.consumer_groups.get(request.group_id)
    if consumers is not None:
        return leave_consumer_group(shard, consumers, asked, request, now_ms)
    group = shard.groups.get(request.group_id)
    if not request.group_id:
        return shard.answer(asked.call, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
    if group is not None and group.state is GroupState.DEAD:
        return shard.answer(asked.call, LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    leavers = leavers_of(asked.version, request)
    errors = [ErrorCode.UNKNOWN_MEMBER_ID] * len(leavers)
    emptied: Emptied | None = None
    if group is not None:
        errors, emptied = _leave(shard, group, leavers, now_ms)

    response = leavers_told(asked.version, leavers, errors)
    if emptied is None:
        return shard.answer(asked.call, response)
    emptied.waiting.append((asked.call, response, LeaveGroupResponse()))
    return None


def _leave(
    shard: Shard, group: ClassicGroup, leavers: list[Leaver], now_ms: int
) -> tuple[list[ErrorCode], Emptied | None]:
    """All of them together: the others join again once, when the last has left."""
    errors: list[ErrorCode] = []
    gone: dict[str, None] = {}
    was_pending = False
    for member_id, instance_id in leavers:
        if member_id in group.pending_ids:  # whatever instance it names: it is not one yet
            shard.forget_id(group, member_id)
            was_pending = True
            errors.append(ErrorCode.NONE)
            continue
        leaver = member_id
        if instance_id is not None:
            known = group.static_members.get(instance_id, "")
            if known in gone:
                errors.append(ErrorCode.UNKNOWN_MEMBER_ID)
                continue
            leaver = member_id or known  # an administrator names the instance alone
        error = group.why_no_member(leaver, instance_id)
        if leaver in gone:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        if not error:
            gone[leaver] = None
        errors.append(error)
    if gone:
        return errors, remove_members(shard, group, gone, now_ms)
    emptied = try_complete(shard, group, now_ms) if was_pending else None
    forget_unused(shard, group)
    return errors, emptied
