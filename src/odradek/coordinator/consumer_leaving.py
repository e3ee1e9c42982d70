"""Members that go, by themselves or because a deadline passed; with the last of the new protocol the group is classic again."""

from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_group import ConsumerGroup
from odradek.coordinator.downgrading import downgrade, may_downgrade
from odradek.coordinator.draft import Draft
from odradek.coordinator.shard import Shard
from odradek.coordinator.timers import Kind, Timer
from odradek.coordinator.turns import Turn, take_turn


def draft_of_leave(
    shard: Shard, group: ConsumerGroup, member_ids: list[str], now_ms: int
) -> tuple[Draft, ClassicGroup | None]:
    """And the classic group that it becomes, if it does."""
    draft = Draft(shard, group.group_id, now_ms)
    draft.remove(member_ids)
    if not may_downgrade(shard, group.image, draft.image):
        return draft, None
    # Not one by one and then all of them.
    draft = Draft(shard, group.group_id, now_ms)
    return draft, downgrade(draft, frozenset(member_ids))


def deadline_passed(shard: Shard, timer: Timer, now_ms: int) -> None:
    """The session of a member ended, or it did not do in time what it was told."""
    group = shard.consumer_groups.get(timer.group_id)
    if group is None:
        return
    due_ms = group.deadlines.get((timer.kind, timer.key))
    if due_ms is None or due_ms > now_ms or timer.key not in group.image.members:
        return
    group.drop_deadline(timer.kind, timer.key)
    if timer.kind is Kind.CONSUMER_SESSION:
        reason = "its session has ended"
    else:
        reason = "it did not do what it was told within its rebalance timeout"
    shard.say(f"group {group.group_id!r}: member {timer.key!r} is removed, {reason}")
    draft, becomes = draft_of_leave(shard, group, [timer.key], now_ms)
    overdue = [(timer.kind, timer.key)]
    take_turn(draft, Turn(group.group_id, draft.records, becomes=becomes, overdue=overdue))
