"""Offsets that nobody needs any more: out of time, or of a topic that was deleted; and groups that have nothing left.

A pass checks every offset, a bounded number in one turn. What it finds is written as tombstones; memory follows
when they are committed.
"""

from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_group import ConsumerGroup
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.offsets import Place
from odradek.coordinator.records import NEVER_EXPIRES, CommittedOffset
from odradek.coordinator.removing import (
    Deletion,
    most_tombstones,
    offset_tombstones,
    remove_consumer_group,
    remove_group,
    why_no_removal,
)
from odradek.coordinator.shard import Shard
from odradek.coordinator.subscription import CONSUMER
from odradek.model.error_codes import ErrorCode
from odradek.model.values import dataclass, field

Group = ClassicGroup | ConsumerGroup
Topics = frozenset[str] | None  # None: any may be
# Of one turn: a few milliseconds.
MOST_OFFSETS = 2_000
MOST_GROUPS = 500
# Topics that a consumer group subscribes to are put together in the time of one offset.
TOPICS_OF_AN_OFFSET = 16
# Until offsets of a deleted topic that were still on their way are looked at again.
AGAIN_MS = 1_000


@dataclass(slots=True)
class Pass:
    """Where a pass stands. Plain data: it can be stopped between two turns, and printed."""

    groups: list[str]  # still to be checked, the next one last
    left_over: dict[str, set[Place]] | None = (
        None  # group -> what is looked at again; None: a pass over everything
    )
    places: list[Place] = field(default_factory=list)  # of the group under way, the next one last
    group_id: str | None = None


class Expiry:
    def __init__(self, shard: Shard, now_ms: int) -> None:
        self._shard = shard
        self._pass: Pass | None = None
        self._deleted_topics: dict[
            str, int
        ] = {}  # topic -> when: what was committed later is of another topic
        # Group -> places of deleted topics whose fate was open: a commit, a tombstone or a transaction was under way.
        self._left_over: dict[str, set[Place]] = {}
        self._is_wanted = False
        self._everything_at_ms = now_ms + shard.settings.offsets_retention_check_interval_ms
        shard.expiry_at_ms = self._everything_at_ms

    def topics_deleted(self, topics: frozenset[str], now_ms: int) -> None:
        self._deleted_topics.update(dict.fromkeys(topics, now_ms))
        self._is_wanted = True  # a pass under way has been at some groups already
        self._shard.expiry_at_ms = now_ms

    def tick(self, now_ms: int) -> None:
        """One turn of a pass, if it is time for one."""
        shard = self._shard
        if shard.expiry_at_ms is None or shard.expiry_at_ms > now_ms:
            return
        if self._pass is None:
            self._pass = self._begun(now_ms)
        groups_left, offsets_left = MOST_GROUPS, MOST_OFFSETS
        under_way = self._pass
        while groups_left > 0 and offsets_left > 0:
            if under_way.group_id is None:
                if not under_way.groups:
                    return self._done(now_ms)
                under_way.group_id = under_way.groups.pop()
                under_way.places = self._places(under_way, under_way.group_id)
            group = shard.consumer_groups.get(under_way.group_id) or shard.groups.get(under_way.group_id)
            some = under_way.places[-offsets_left:]
            del under_way.places[-offsets_left:]
            offsets_left -= len(some) + (_read_with(group) if some else 0)
            groups_left -= 1
            is_last = not under_way.places
            if group is not None:
                self._expire(group, some[::-1], now_ms, is_last=is_last)
            if is_last:
                under_way.group_id = None
        shard.expiry_at_ms = now_ms  # there is more
        return None

    def _begun(self, now_ms: int) -> Pass:
        left_over, self._left_over = self._left_over, {}
        if not self._is_wanted and now_ms < self._everything_at_ms:
            return Pass(sorted(left_over, reverse=True), left_over)
        self._is_wanted = False
        return Pass(sorted({*self._shard.groups, *self._shard.consumer_groups}, reverse=True))

    def _places(self, under_way: Pass, group_id: str) -> list[Place]:
        if under_way.left_over is not None:
            return sorted(under_way.left_over[group_id], reverse=True)
        offsets = self._shard.offsets
        committed = offsets.by_group.get(group_id, {})
        places: set[Place] = set()
        if self._deleted_topics:
            places = {one for one in offsets.unsettled(group_id) if one[0] in self._deleted_topics}
        # Not all of them in order: to sort a hundred thousand takes longer than a turn may.
        return [*sorted(places.difference(committed), reverse=True), *reversed(committed)]

    def _done(self, now_ms: int) -> None:
        if self._pass is not None and self._pass.left_over is None:
            self._everything_at_ms = now_ms + self._shard.settings.offsets_retention_check_interval_ms
        self._pass = None
        if self._is_wanted:
            self._shard.expiry_at_ms = now_ms
        elif self._left_over:
            self._shard.expiry_at_ms = now_ms + AGAIN_MS
        else:
            self._deleted_topics.clear()
            self._shard.expiry_at_ms = self._everything_at_ms

    def _expire(self, group: Group, places: list[Place], now_ms: int, *, is_last: bool) -> None:
        shard, group_id = self._shard, group.group_id
        in_use = _in_use(group) if places else None
        held = {place for place in places if self._is_held(group_id, place)}
        expired = [
            place for place in places if place not in held and self._is_out(group, place, in_use, now_ms)
        ]
        left_over = {place for place in (*held, *expired) if place[0] in self._deleted_topics}
        if left_over:
            self._left_over.setdefault(group_id, set()).update(left_over)
        is_dead = group.is_dead if isinstance(group, ConsumerGroup) else group.state is GroupState.DEAD
        if is_dead:
            return None
        if (
            is_last
            and not shard.offsets.has_more_than(len(expired), group_id)
            and set(shard.offsets.to_remove(group_id)) <= set(expired)
        ):
            if isinstance(group, ConsumerGroup):
                if not why_no_removal(shard, group):
                    return remove_consumer_group(shard, group, Deletion(None), now_ms)
            elif group.state is GroupState.EMPTY and not group.pending_ids:
                return remove_group(shard, group, Deletion(None), now_ms)
        most = most_tombstones(shard, group_id)
        for at in range(0, len(expired), most):
            shard.append(offset_tombstones(group_id, expired[at : at + most]), Expired(group_id))
        return None

    def _is_held(self, group_id: str, place: Place) -> bool:
        """A tombstone behind it in the log would take it away."""
        offsets = self._shard.offsets
        return offsets.is_pending(group_id, place) or offsets.is_in_flight(group_id, place)

    def _is_out(self, group: Group, place: Place, in_use: Topics, now_ms: int) -> bool:
        stood = self._shard.offsets.by_group.get(group.group_id, {}).get(place)
        if stood is None:
            return False
        committed = stood.committed
        deleted_at_ms = self._deleted_topics.get(place[0])
        # What was loaded is older than the news of the deletion, whatever the clock of who wrote it said.
        if deleted_at_ms is not None and (
            committed.committed_at_ms <= deleted_at_ms or self._shard.was_loaded(stood.position)
        ):
            return True
        since_ms = _idle_since_ms(group, place[0], in_use, committed)
        if since_ms is None:
            return False
        if committed.expires_at_ms != NEVER_EXPIRES:
            return committed.expires_at_ms <= now_ms
        return since_ms + self._shard.settings.offsets_retention_ms <= now_ms


def _in_use(group: Group) -> Topics:
    """What the members subscribe to, read once for however many offsets: of each member it is parsed."""
    if isinstance(group, ConsumerGroup):
        return frozenset(group.image.subscribed_topics())
    return group.subscribed_topics if _is_read(group) else None


def _is_read(group: ClassicGroup) -> bool:
    return group.state is GroupState.STABLE and group.protocol_type == CONSUMER


def _read_with(group: Group | None) -> int:
    """What `_in_use` costs, in offsets: a member's subscription about one, so many topics of a consumer group as well."""
    if isinstance(group, ConsumerGroup):
        matched = sum(len(one.topics) for one in group.image.regexes.values())
        return (len(group.image.names) + matched) // TOPICS_OF_AN_OFFSET
    return len(group.members) if group is not None and _is_read(group) else 0


def _idle_since_ms(group: Group, topic: str, in_use: Topics, committed: CommittedOffset) -> int | None:
    """Since when nobody uses the offset; None: somebody does."""
    if group.state is GroupState.EMPTY and isinstance(group, ClassicGroup):
        # Groups without a protocol only commit; others count from when their last member went.
        if group.protocol_type:
            return max(group.state_since_ms, committed.committed_at_ms)
        return committed.committed_at_ms
    return None if in_use is None or topic in in_use else committed.committed_at_ms


@dataclass(frozen=True, slots=True)
class Expired:
    group_id: str

    def committed(self, shard: Shard, now_ms: int) -> None:
        return None

    def failed(self, shard: Shard, error: ErrorCode, now_ms: int) -> None:
        """The next pass finds them again."""
        shard.say(f"offsets of group {self.group_id!r} have expired and could not be removed: {error.name}")
