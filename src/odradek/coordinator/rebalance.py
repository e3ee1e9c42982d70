"""A rebalance from its beginning to the moment every member knows its generation.

prepare        members must join again, a deadline runs
try_complete   everybody is here: the generation begins
join_is_due    the deadline passed: it begins without those who did not come
sync_is_due    a member that never asked for its assignment is removed
"""

from collections.abc import Collection
from functools import partial

from odradek.coordinator.answers import generation_of, join_refused, joined, sync_refused
from odradek.coordinator.append_errors import told_of_group
from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.later import Later, Make
from odradek.coordinator.member import Member, Parked
from odradek.coordinator.records import GroupKey, GroupRecord
from odradek.coordinator.shard import Shard, parked_of
from odradek.coordinator.timers import Kind
from odradek.model.error_codes import ErrorCode
from odradek.model.values import dataclass, field
from odradek.protocol.schema import Response

# Nobody of the members joined, and none may be removed for that: look again no sooner than this.
LEAST_WAIT_MS = 1_000
LARGEST_GENERATION = 2**31 - 1


@dataclass(slots=True)
class Emptied:
    """The record of a group that lost its last member. Who removed that member hears of it when the record stands."""

    waiting: list[tuple[int, Response | Later, Response]] = field(
        default_factory=list
    )  # call, answer, answer if it failed

    def committed(self, shard: Shard, now_ms: int) -> None:
        for call, response, _ in self.waiting:
            shard.answer(call, response)

    def failed(self, shard: Shard, error: ErrorCode, now_ms: int) -> None:
        """The group stays empty here. What is stored still has the members; should it be loaded, their sessions end."""
        for call, _, refusal in self.waiting:
            refusal.error_code = told_of_group(error)  # type: ignore[attr-defined]
            shard.answer(call, refusal)


def prepare(shard: Shard, group: ClassicGroup, now_ms: int) -> Emptied | None:
    """Every member has to join again. Those parked in SyncGroup are told so."""
    was_empty = group.state is GroupState.EMPTY
    for member in group.members.values():
        if member.sync is not None:
            shard.answer(member.sync.call, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
            member.sync = None
            shard.renew_session(group, member, now_ms)
    group.unsynced.clear()
    group.sync_ends_at_ms = None
    group.move_to(GroupState.PREPARING, now_ms)
    wait_ms = max(group.rebalance_timeout_ms, 0)
    group.somebody_came = False
    group.initial_wait_left_ms = None
    if was_empty:
        delay_ms = max(shard.settings.initial_rebalance_delay_ms, 0)
        group.initial_wait_left_ms = max(wait_ms - delay_ms, 0)
        wait_ms = delay_ms
    _wait(shard, group, now_ms + wait_ms)
    return try_complete(shard, group, now_ms)


def try_complete(shard: Shard, group: ClassicGroup, now_ms: int) -> Emptied | None:
    """Of a group that prepares: begin the generation if there is nobody to wait for."""
    if group.state is not GroupState.PREPARING:
        return None
    assert group.join_ends_at_ms is not None, "a group that prepares has a deadline"
    if group.members and group.initial_wait_left_ms is not None:
        return join_is_due(shard, group, now_ms) if group.join_ends_at_ms <= now_ms else None
    # Ids that were given and never used hold up a join of members, but not the end of a group without any.
    if not group.members or group.has_joined_all:
        return _begin_generation(shard, group, now_ms)
    return None


def join_is_due(shard: Shard, group: ClassicGroup, now_ms: int) -> Emptied | None:
    left_ms = group.initial_wait_left_ms
    if left_ms and group.somebody_came:
        delay_ms = min(shard.settings.initial_rebalance_delay_ms, left_ms)
        group.initial_wait_left_ms = left_ms - delay_ms
        group.somebody_came = False
        _wait(shard, group, now_ms + delay_ms)
        return None
    for member in list(group.members.values()):
        if member.join is None and member.instance_id is None:
            group.remove(member.member_id)
    if group.members and not group.elect_joined_leader():
        # Static members are only removed by their sessions (KIP-345).
        _wait(shard, group, now_ms + max(group.rebalance_timeout_ms, LEAST_WAIT_MS))
        return None
    return _begin_generation(shard, group, now_ms)


def _wait(shard: Shard, group: ClassicGroup, until_ms: int) -> None:
    group.join_ends_at_ms = until_ms
    shard.timers.arm(until_ms, Kind.JOIN, group.group_id)


def _begin_generation(shard: Shard, group: ClassicGroup, now_ms: int) -> Emptied | None:
    group.join_ends_at_ms = group.initial_wait_left_ms = None
    # The coordinator before us may have told members a generation that it could not store any more.
    step = 2 if group.is_adopted else 1
    group.is_adopted = False
    group.generation = group.generation + step if group.generation <= LARGEST_GENERATION - step else 1
    if not group.members:
        return _empty(shard, group, now_ms)
    group.elect_joined_leader()
    group.protocol = group.elected_protocol()
    group.move_to(GroupState.COMPLETING, now_ms)
    generation = generation_of(group)
    # A static member that is still away is left out: its session decides.
    here = [member for member in group.members.values() if member.join is not None]
    told_to, leader = generation.told_to, group.leader
    for member in here:
        member_id, join = member.member_id, member.join
        assert join is not None
        answer: Response | Later | Make = partial(told_to, member_id)
        if member_id == leader:
            answer = joined(group, member_id, with_members=True)
        shard.answer(join.call, answer)
        member.join = None
        member.is_new = False
    group.unsynced.update(member.member_id for member in here)
    shard.renew_sessions(group, here, now_ms)
    group.sync_ends_at_ms = now_ms + max(group.rebalance_timeout_ms, 0)
    shard.timers.arm(group.sync_ends_at_ms, Kind.SYNC, group.group_id)
    return None


def _empty(shard: Shard, group: ClassicGroup, now_ms: int) -> Emptied:
    group.protocol = group.leader = None
    group.move_to(GroupState.EMPTY, now_ms)
    after = Emptied()
    shard.append([GroupRecord(GroupKey(group.group_id), group.as_stored(now_ms, {}))], after)
    return after


def sync_is_due(shard: Shard, group: ClassicGroup, now_ms: int) -> None:
    """Told of this generation, and silent about it: removed, and the others join again."""
    group.sync_ends_at_ms = None
    overdue = [one for one in group.members if one in group.unsynced]
    for member_id in overdue:
        group.remove(member_id)
    if overdue:
        prepare(shard, group, now_ms)


def park_join(shard: Shard, member: Member, parked: Parked) -> None:
    """A second JoinGroup takes the place of the first, whose sender has given up on it or has another connection."""
    if member.join is not None:
        shard.answer(
            member.join.call, join_refused(member.join.version, ErrorCode.NOT_COORDINATOR, member.member_id)
        )
    member.join = parked


def remove_member(shard: Shard, group: ClassicGroup, member_id: str, now_ms: int) -> Emptied | None:
    return remove_members(shard, group, (member_id,), now_ms)


def remove_members(
    shard: Shard, group: ClassicGroup, member_ids: Collection[str], now_ms: int
) -> Emptied | None:
    """They left, or their session ended. What they had parked is answered; the others join again, once."""
    for member in group.remove_all(member_ids):
        join, sync = parked_of(member)
        if join is not None:
            shard.answer(join.call, join_refused(join.version, ErrorCode.UNKNOWN_MEMBER_ID))
        if sync is not None:
            shard.answer(sync.call, sync_refused(ErrorCode.UNKNOWN_MEMBER_ID))
    if group.state in (GroupState.COMPLETING, GroupState.STABLE):
        return prepare(shard, group, now_ms)
    return try_complete(shard, group, now_ms)


def session_is_due(shard: Shard, group: ClassicGroup, member_id: str, now_ms: int) -> None:
    member = group.members[member_id]
    member.session_timer_at_ms = None
    # Who is parked cannot heartbeat; but a first join that nobody stands behind is not waited for without end.
    if member.is_parked and not member.is_new:
        return
    remove_member(shard, group, member_id, now_ms)


def pending_id_is_due(shard: Shard, group: ClassicGroup, member_id: str, now_ms: int) -> None:
    shard.forget_id(group, member_id)
    try_complete(shard, group, now_ms)
    forget_unused(shard, group)


def forget_unused(shard: Shard, group: ClassicGroup) -> None:
    """A group for which ids were given, and none was ever used. Its name may be long, and names cost nothing."""
    is_used = group.generation or group.members or group.pending_ids
    offsets = shard.offsets
    if not is_used and not offsets.count(group.group_id) and not offsets.unsettled(group.group_id):
        shard.forget(group)
