"""The coordinator of all groups of one partition of `__consumer_offsets`: `step(event, now_ms) -> Effects`.

Decides, never waits. A request is answered at once, or with the commit of the records it made, or - parked in its
member - when others have come; exactly once in each case. Memory of what is stored changes by records alone
(`Stored.replay`), after they are committed, and the same function loads it again.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from odradek.coordinator.answers import join_refused, sync_refused
from odradek.coordinator.asides import Assigned, Resolved
from odradek.coordinator.committing import offset_commit, txn_offset_commit
from odradek.coordinator.consumer_asides import assigned, resolved
from odradek.coordinator.consumer_describing import describe_consumer_groups
from odradek.coordinator.consumer_group import MEMBER_DEADLINES
from odradek.coordinator.consumer_heartbeats import consumer_heartbeat
from odradek.coordinator.consumer_leaving import deadlines_passed
from odradek.coordinator.describing import describe_groups, list_groups
from odradek.coordinator.effects import Effects
from odradek.coordinator.events import (
    AppendFailed,
    Asked,
    Committed,
    Event,
    Tick,
    TopicsDeleted,
    TransactionEnded,
    Unloaded,
)
from odradek.coordinator.expiry import Expiry
from odradek.coordinator.fetching import offset_fetch
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.heartbeats import heartbeat
from odradek.coordinator.joining import join_group
from odradek.coordinator.kept_memory import KeptMemory, memory_of_groups
from odradek.coordinator.leaving import leave_group
from odradek.coordinator.member_memory import MemberMemory
from odradek.coordinator.rebalance import (
    join_is_due,
    pending_id_is_due,
    prepare,
    session_is_due,
    sync_is_due,
)
from odradek.coordinator.records import IN_NO_STATE
from odradek.coordinator.refusals import refuse
from odradek.coordinator.removing import delete_groups, offset_delete
from odradek.coordinator.settings import MOST_WAITING, GroupSettings
from odradek.coordinator.shard import Shard, Waiting
from odradek.coordinator.stored import Stored
from odradek.coordinator.syncing import sync_group
from odradek.coordinator.timers import Kind, Timer
from odradek.coordinator.topic_ids import NoTopicIds, TopicIds
from odradek.coordinator.turns import put_off, renew_refused, take_over, waits_for
from odradek.model.error_codes import ErrorCode
from odradek.model.values import replace
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.offset_delete import OffsetDeleteRequest
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest
from odradek.protocol.messages.sync_group import SyncGroupRequest
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from odradek.protocol.schema import Request

# Of one step, so that no turn is held up; what is left is due at once.
MOST_TIMERS = 500
MOST_AFTER_A_TURN = 500
# Members of one group whose deadlines have passed: removed by one turn of it.
MOST_TOGETHER = 200

_REQUESTS: dict[type[Request], Callable[[Shard, Asked, Any, int], None]] = {
    JoinGroupRequest: join_group,
    SyncGroupRequest: sync_group,
    HeartbeatRequest: heartbeat,
    LeaveGroupRequest: leave_group,
    OffsetCommitRequest: offset_commit,
    TxnOffsetCommitRequest: txn_offset_commit,
    OffsetFetchRequest: offset_fetch,
    OffsetDeleteRequest: offset_delete,
    DeleteGroupsRequest: delete_groups,
    DescribeGroupsRequest: describe_groups,
    ListGroupsRequest: list_groups,
    ConsumerGroupHeartbeatRequest: consumer_heartbeat,
    ConsumerGroupDescribeRequest: describe_consumer_groups,
}


class GroupCoordinator:
    def __init__(
        self,
        settings: GroupSettings,
        topics: Mapping[str, int],
        stored: Stored,
        now_ms: int,
        ids: TopicIds | None = None,
        memory: MemberMemory | None = None,
        kept: KeptMemory | None = None,
    ) -> None:
        """`topics`: how many partitions each has, as it is known at any moment. `stored`: what the log holds. `memory`, `kept`: of
        all coordinators of a broker."""
        self.shard = Shard(
            settings,
            topics,
            stored,
            NoTopicIds() if ids is None else ids,
            memory or MemberMemory(),
            kept or memory_of_groups(),
        )
        self._take_over(now_ms)
        self.expiry = Expiry(self.shard, now_ms)

    def step(self, event: Event, now_ms: int) -> Effects:
        shard = self.shard
        match event:
            case Asked():
                self._ask(event, now_ms)
            case Committed():
                shard.committed(event.append_id, event.base_offset, now_ms)
            case AppendFailed():
                shard.failed(event.append_id, event.error, now_ms)
            case TransactionEnded():
                shard.stored.end_transaction(event.producer_id, is_commit=event.is_commit)
            case TopicsDeleted():
                self.expiry.topics_deleted(event.topics, now_ms)
            case Assigned() | Resolved():
                self._came_aside(event, now_ms)
            case Tick():
                self._tick(now_ms)
            case Unloaded():
                self._unload(now_ms)
        self._go_on(now_ms)
        shard.tell_memory(shard.held_bytes, shard.kept_bytes)
        return shard.take_effects()

    def next_deadline_ms(self) -> int | None:
        """When a `Tick` is wanted."""
        return self.shard.next_deadline_ms()

    @property
    def size(self) -> int:
        """Groups, and members of those of KIP-848: who describes the state of one looks at each."""
        consumers = self.shard.consumer_groups.values()
        return len(self.shard.groups) + sum(1 + len(one.image.members) for one in consumers)

    def tables(self) -> list[dict[Any, Any]]:
        """What is to be emptied when others coordinate these: a million offsets go in more than a second, and forty thousand groups of
        three members in 70 ms. Nothing is asked of them any more."""
        shard = self.shard
        shard.is_forgotten = True
        shard.tell_memory(0, 0)
        groups: list[dict[Any, Any]] = [shard.groups, shard.consumer_groups]
        stored: list[dict[Any, Any]] = [shard.stored.groups, shard.stored.consumer_groups]
        return [*groups, *stored, *shard.offsets.by_group.values()]

    def limit_appends(self, most_bytes: int) -> None:
        """What one batch of the topic may have, from now on."""
        self.shard.settings = replace(self.shard.settings, max_append_bytes=most_bytes)

    # ---------------------------------------------------------------------------------------------- private

    def _take_over(self, now_ms: int) -> None:
        """Sessions begin anew: members could not reach us before."""
        shard = self.shard
        for group_id, image in shard.stored.consumer_groups.items():
            if image.is_there:
                take_over(shard, group_id, image, now_ms)
        for group_id in shard.stored.group_ids():
            if group_id not in shard.consumer_groups:
                shard.group(group_id, now_ms)
        for group_id, found in shard.stored.groups.items():
            if group_id in shard.consumer_groups:
                continue  # its tombstone was compacted away, and it may be read once more
            group = shard.groups[group_id]
            group.adopt(found)
            for member in group.members.values():
                shard.renew_session(group, member, now_ms)
            is_too_large = len(group.members) > shard.settings.max_size  # the surplus is refused then
            if is_too_large or (group.members and found.state_since_ms == IN_NO_STATE):
                prepare(shard, group, now_ms)

    def _tick(self, now_ms: int) -> None:
        together: list[Timer] = []
        for _ in range(MOST_TIMERS):
            timer = self.shard.timers.pop_due(now_ms)
            if timer is None:
                break
            if together and not _is_of_these(timer, together):
                self._pass(together, now_ms)
                together = []
            if timer.kind in MEMBER_DEADLINES:
                together.append(timer)
            else:
                self._fire(timer, now_ms)
        if together:
            self._pass(together, now_ms)
        self.expiry.tick(now_ms)

    def _ask(self, asked: Asked, now_ms: int) -> None:
        shard = self.shard
        group_id = waits_for(shard, asked.request)
        if group_id is None:
            _REQUESTS[type(asked.request)](shard, asked, asked.request, now_ms)
        elif group_id in shard.stalled or len(shard.waiting.get(group_id, ())) >= MOST_WAITING:
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            renew_refused(shard, asked.request, now_ms)
            shard.answer(asked.call, refuse(asked.request, asked.version, error))
        else:
            shard.wait(group_id, asked)

    def _came_aside(self, came: Assigned | Resolved, now_ms: int) -> None:
        if came.group_id in self.shard.busy:
            self.shard.wait(came.group_id, came)
        elif isinstance(came, Assigned):
            assigned(self.shard, came, now_ms)
        else:
            resolved(self.shard, came, now_ms)

    def _go_on(self, now_ms: int) -> None:
        """With whoever waited for a group whose turn is over; a bounded number, the others at the next step."""
        shard = self.shard
        left = MOST_AFTER_A_TURN
        for group_id in [one for one in shard.waiting if one not in shard.busy or one in shard.stalled]:
            waiting = shard.waiting.pop(group_id)
            while waiting and left > 0 and (group_id not in shard.busy or group_id in shard.stalled):
                left -= self._take_up(waiting, now_ms)
            if waiting:
                # Who came meanwhile comes behind those that were here.
                waiting.extend(shard.waiting.pop(group_id, ()))
                shard.waiting[group_id] = waiting

    def _take_up(self, waiting: deque[Waiting], now_ms: int) -> int:
        """The first of them, and with a deadline those behind it that are of its kind; how many."""
        one = waiting.popleft()
        match one:
            case Asked():
                self._ask(one, now_ms)
            case Timer():
                together = [one]
                while waiting and isinstance(behind := waiting[0], Timer) and _is_of_these(behind, together):
                    together.append(behind)
                    waiting.popleft()
                self._pass(together, now_ms)
                return len(together)
            case _:
                self._came_aside(one, now_ms)
        return 1

    def _pass(self, timers: Sequence[Timer], now_ms: int) -> None:
        """Deadlines of members of one group of KIP-848, all of one kind."""
        shard = self.shard
        group_id = timers[0].group_id
        consumers = shard.consumer_groups.get(group_id)
        if consumers is not None:
            for timer in timers:
                consumers.has_fired(timer)
        is_session = timers[0].kind is Kind.CONSUMER_SESSION
        if consumers is not None and group_id in shard.stalled and not is_session:
            for timer in timers:
                put_off(shard, consumers, timer, now_ms)
        elif group_id in shard.busy:
            for timer in timers:
                shard.wait(group_id, timer)
        else:
            deadlines_passed(shard, timers, now_ms)

    def _fire(self, timer: Timer, now_ms: int) -> None:
        """Of a classic group."""
        shard = self.shard
        group = shard.groups[timer.group_id]
        match timer.kind:
            case Kind.SESSION:
                session_is_due(shard, group, timer.key, now_ms)
            case Kind.PENDING_ID:
                pending_id_is_due(shard, group, timer.key, now_ms)
            case Kind.JOIN:
                if group.state is GroupState.PREPARING:
                    join_is_due(shard, group, now_ms)
            case Kind.SYNC:
                sync_is_due(shard, group, now_ms)

    def _unload(self, now_ms: int) -> None:
        """Whoever waits is sent to the next coordinator. What follows from an append that fails now is not looked at."""
        shard = self.shard
        for waiting in shard.waiting.values():
            for one in waiting:
                if isinstance(one, Asked):
                    refusal = refuse(one.request, one.version, ErrorCode.NOT_COORDINATOR)
                    shard.answer(one.call, refusal)
        shard.waiting.clear()
        shard.fail_all(ErrorCode.NOT_LEADER_OR_FOLLOWER, now_ms)
        for group in shard.groups.values():
            for member in group.members.values():
                if member.join is not None:
                    refusal = join_refused(member.join.version, ErrorCode.NOT_COORDINATOR, member.member_id)
                    shard.answer(member.join.call, refusal)
                if member.sync is not None:
                    shard.answer(member.sync.call, sync_refused(ErrorCode.NOT_COORDINATOR))
                member.join = member.sync = None


def _is_of_these(timer: Timer, together: Sequence[Timer]) -> bool:
    """Whether it may be one more deadline of this group and kind."""
    first = together[0]
    return len(together) < MOST_TOGETHER and (timer.group_id, timer.kind) == (first.group_id, first.kind)
