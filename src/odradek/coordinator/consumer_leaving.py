"""Members that go, by themselves or because a deadline passed; with the last of the new protocol the group is classic again."""

from collections.abc import Sequence

from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_group import ConsumerGroup
from odradek.coordinator.downgrading import downgrade, may_downgrade
from odradek.coordinator.draft import Draft
from odradek.coordinator.effects import RECORD_OVERHEAD_BYTES
from odradek.coordinator.shard import Shard
from odradek.coordinator.timers import Kind, Timer
from odradek.coordinator.turns import Turn, take_turn

# Of a member that goes: itself, its target, and what it has.
TOMBSTONES = 3


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


def how_many_leave(shard: Shard, group_id: str, member_ids: Sequence[str]) -> int:
    """Of these, so many that a batch holds what is written of them: one at least."""
    members = shard.consumer_groups[group_id].image.members
    size_bytes, group_bytes = 0, RECORD_OVERHEAD_BYTES + len(group_id.encode())
    for count, member_id in enumerate(member_ids):
        size_bytes += TOMBSTONES * (group_bytes + len(member_id.encode()))
        regex = members[member_id].regex
        size_bytes += group_bytes + len(regex.encode()) if regex else 0  # it goes with the last who has it
        if size_bytes > shard.settings.max_append_bytes:
            return max(count, 1)
    return len(member_ids)


def deadlines_passed(shard: Shard, timers: Sequence[Timer], now_ms: int) -> None:
    """The sessions of members of one group ended, or they did not do in time what they were told: all of them one or the other.
    Together, for a turn of a group looks at each of its members."""
    group_id, kind = timers[0].group_id, timers[0].kind
    group = shard.consumer_groups.get(group_id)
    if group is None:
        return
    # A deadline that was looked at while the group had its turn, and was moved since, has two.
    passed = {one.key: one for one in timers if _is_overdue(group, one, now_ms)}
    if not passed:
        return
    members = list(passed)
    count = how_many_leave(shard, group_id, members)
    gone, later = members[:count], members[count:]
    for member_id in later:
        shard.wait(group_id, passed[member_id])
    is_session = kind is Kind.CONSUMER_SESSION
    if len(gone) == 1:
        why = (
            "its session has ended"
            if is_session
            else "it did not do what it was told within its rebalance timeout"
        )
        shard.say(f"group {group_id!r}: member {gone[0]!r} is removed, {why}")
    else:
        why = (
            "their sessions have ended"
            if is_session
            else "they did not do what they were told within their rebalance timeouts"
        )
        shard.say(f"group {group_id!r}: {len(gone)} members are removed, {why}; {gone[0]!r} is one of them")
    draft, becomes = draft_of_leave(shard, group, gone, now_ms)
    overdue = [(kind, member_id) for member_id in gone]
    take_turn(draft, Turn(group_id, draft.records, becomes=becomes, overdue=overdue))


def _is_overdue(group: ConsumerGroup, timer: Timer, now_ms: int) -> bool:
    due_ms = group.deadlines.get((timer.kind, timer.key))
    return due_ms is not None and due_ms <= now_ms and timer.key in group.image.members
