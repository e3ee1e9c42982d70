"""Turns: of one group of KIP-848 one event at a time is written, and the next is looked at when that is committed.

So nobody is answered by what may still be undone, and nothing has to be undone. Who comes meanwhile waits, in order; while
an append has timed out and its fate is open, whoever asks is told to come again.
"""

from collections.abc import Callable
from typing import Any

from odradek.coordinator.answers import join_refused, sync_refused
from odradek.coordinator.append_errors import told_of_consumer_group
from odradek.coordinator.asides import Assign, Resolve
from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_group import ConsumerGroup, Owner
from odradek.coordinator.consumer_image import ConsumerImage
from odradek.coordinator.consumer_records import CurrentRecord, MemberRecord, MemberState
from odradek.coordinator.draft import Draft
from odradek.coordinator.later import Later
from odradek.coordinator.rebalance import prepare
from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.shard import MindsLate, Shard, parked_of
from odradek.coordinator.timers import Kind, Timer
from odradek.model.error_codes import ErrorCode
from odradek.model.values import dataclass, field
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest
from odradek.protocol.schema import Request, Response

IN_TURN = (
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
)
# After a member could not be removed.
FENCE_AGAIN_MS = 1_000


@dataclass(slots=True)
class Turn(MindsLate):
    group_id: str
    records: list[CoordinatorRecord]
    call: int | None = None
    response: Response | Later | None = None
    refused: Callable[[ErrorCode], Response] | None = None
    # A classic group that it becomes.
    becomes: ClassicGroup | None = None
    # Deadlines that have passed, and come again if this fails.
    overdue: list[Owner] = field(default_factory=list)
    then: Callable[[], Any] | None = None
    # Asked for when the records they follow from are committed.
    asides: list[Assign | Resolve] = field(default_factory=list)

    def committed(self, shard: Shard, now_ms: int) -> None:
        settle(shard, self, now_ms)
        if self.then is not None:
            self.then()
        if self.call is not None and self.response is not None:
            shard.answer(self.call, self.response)

    def failed(self, shard: Shard, error: ErrorCode, now_ms: int) -> None:
        group = shard.consumer_groups.get(self.group_id)
        for kind, member_id in self.overdue:
            if group is not None:
                group.set_deadline(kind, member_id, now_ms + FENCE_AGAIN_MS)
        if self.call is not None and self.refused is not None:
            shard.answer(self.call, self.refused(told_of_consumer_group(error)))

    def came_late(self, shard: Shard, now_ms: int) -> None:
        settle(shard, self, now_ms)


def waits_for(shard: Shard, request: Request) -> str | None:
    """The group whose turn must be over before this can be looked at; None: none."""
    if not isinstance(request, IN_TURN):
        return None
    group_id: str = request.group_id
    if group_id in shard.turns:
        return group_id
    # A turn of its own begins when nothing of the group is being written, a classic assignment for one.
    is_of_turn = isinstance(request, ConsumerGroupHeartbeatRequest) or group_id in shard.consumer_groups
    return group_id if is_of_turn and group_id in shard.busy else None


def take_over(shard: Shard, group_id: str, image: ConsumerImage, now_ms: int) -> None:
    """A group that was loaded: sessions begin anew, and so does the time of who has to let go."""
    group = shard.consumer_groups[group_id] = ConsumerGroup(group_id, image, shard.timers)
    for member_id in image.members:
        renew_session(shard, group, member_id, now_ms)
        mind_revocation(group, member_id, now_ms)


def take_turn(draft: Draft, turn: Turn) -> None:
    """Append what the draft made; without records all that follows, follows at once."""
    shard = draft.shard
    turn.asides = draft.asides
    if draft.records:
        shard.append(draft.records, turn, brought_bytes=draft.grown_bytes)
        shard.turns.add(draft.group_id)
    else:
        turn.committed(shard, draft.now_ms)


def settle(shard: Shard, turn: Turn, now_ms: int) -> None:
    """The records are in memory: what is not stored follows them."""
    group_id = turn.group_id
    image = shard.stored.consumer_groups.get(group_id)
    if image is None or not image.is_there:
        shard.consumer_groups.pop(group_id, None)
        if turn.becomes is not None:
            _begin_classic(shard, turn.becomes, now_ms)
        elif shard.offsets.count(group_id) or shard.offsets.unsettled(group_id):
            # Whoever it ended for may be refused; its offsets are still those of a group without members.
            shard.group(group_id, now_ms)
        return
    classic = shard.groups.get(group_id)
    if classic is not None:
        _end_classic(shard, classic)
    group = shard.consumer_groups.get(group_id)
    if group is None:
        group = shard.consumer_groups[group_id] = ConsumerGroup(group_id, image, shard.timers)
    group.image = image
    for record in turn.records:
        match record:
            case CurrentRecord(_, member_id, None):
                group.forget_member(member_id)
            case CurrentRecord(_, member_id, current) if current is not None:
                mind_revocation(group, member_id, now_ms)
            case MemberRecord(_, member_id, subscriber) if subscriber is not None:
                if (Kind.CONSUMER_SESSION, member_id) not in group.deadlines:
                    renew_session(shard, group, member_id, now_ms)
    for work in turn.asides:
        shard.ask_aside(group, work)


def renew_session(shard: Shard, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    subscriber = group.image.members.get(member_id)
    if subscriber is None:
        return
    classic = subscriber.classic
    length_ms = (
        shard.settings.consumer_session_timeout_ms if classic is None else max(classic.session_timeout_ms, 0)
    )
    group.set_deadline(Kind.CONSUMER_SESSION, member_id, now_ms + length_ms)


def renew_refused(shard: Shard, request: Request, now_ms: int) -> None:
    """Of a member that is told to come again, for its group cannot be written now: its session does not end by that."""
    group = shard.consumer_groups.get(request.group_id)  # type: ignore[attr-defined]
    if group is None:
        return
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        member_id, epoch = request.member_id, request.member_epoch
    elif isinstance(request, HeartbeatRequest):
        member_id, epoch = request.member_id, request.generation_id
    else:
        return
    current = group.image.current_of(member_id)
    if epoch in (current.epoch, current.previous_epoch):
        renew_session(shard, group, member_id, now_ms)


def put_off(shard: Shard, group: ConsumerGroup, timer: Timer, now_ms: int) -> None:
    """A deadline that passes while the group cannot be written: whoever has done what it was to do could not tell. It has a
    session's time more; who is silent meanwhile goes with its session."""
    due_ms = group.deadlines.get((timer.kind, timer.key))
    if due_ms is not None and due_ms <= now_ms:
        group.set_deadline(timer.kind, timer.key, now_ms + shard.settings.consumer_session_timeout_ms)


def mind_revocation(group: ConsumerGroup, member_id: str, now_ms: int) -> None:
    """Whoever is to let go of partitions has its rebalance timeout for it."""
    subscriber, current = group.image.members.get(member_id), group.image.current_of(member_id)
    # A static member that is away has let go, and keeps its state: its session decides.
    is_to_let_go = current.state is MemberState.UNREVOKED_PARTITIONS and bool(current.revoking)
    if subscriber is None or not is_to_let_go:
        group.drop_deadline(Kind.REVOCATION, member_id)
    else:
        due_ms = now_ms + max(subscriber.rebalance_timeout_ms, 0)
        group.set_deadline(Kind.REVOCATION, member_id, due_ms)


def _end_classic(shard: Shard, group: ClassicGroup) -> None:
    """Whoever is parked joins again, in the group that it has become."""
    for member in group.members.values():
        join, sync = parked_of(member)
        if join is not None:
            refusal = join_refused(join.version, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            shard.answer(join.call, refusal)
        if sync is not None:
            shard.answer(sync.call, sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))
    shard.forget(group)


def _begin_classic(shard: Shard, group: ClassicGroup, now_ms: int) -> None:
    shard.take_in(group)
    for member in group.members.values():
        shard.renew_session(group, member, now_ms)
    if group.members:
        prepare(shard, group, now_ms)
