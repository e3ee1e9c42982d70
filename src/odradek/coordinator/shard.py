"""The memory of one coordinator: groups, offsets, what is being appended, and what is to be told.

`stored` is what the records say; they alone change it, by the same `replay` while loading and after a commit. An append is kept
with what follows from it until its fate is known: nobody hears of it, and nothing stored changes, before.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Protocol

from odradek.coordinator.append_errors import UNDECIDED
from odradek.coordinator.asides import AsideWork, Assign, Assigned, Resolved
from odradek.coordinator.bounded_memory import Part, of_text
from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_group import MEMBER_DEADLINES, ConsumerGroup
from odradek.coordinator.effects import Answer, Append, Effects, Producer
from odradek.coordinator.events import Asked
from odradek.coordinator.kept_memory import KeptMemory, of_group
from odradek.coordinator.later import Later, Make
from odradek.coordinator.member import Member, Parked
from odradek.coordinator.member_memory import BYTES_OF_AN_ID, Held, MemberMemory
from odradek.coordinator.offsets import NO_PRODUCER
from odradek.coordinator.records import CoordinatorRecord, GroupRecord, OffsetKey, OffsetRecord
from odradek.coordinator.settings import GroupSettings
from odradek.coordinator.stored import Stored
from odradek.coordinator.timers import Kind, Timer, Timers
from odradek.coordinator.topic_ids import TopicIds
from odradek.model.error_codes import ErrorCode
from odradek.protocol.schema import Response

Waiting = Asked | Timer | Assigned | Resolved


class After(Protocol):
    """What an append was for: called once, when its records are in memory, or when it failed."""

    def committed(self, shard: "Shard", now_ms: int) -> None: ...
    def failed(self, shard: "Shard", error: ErrorCode, now_ms: int) -> None: ...


class MindsLate:
    """An `After` that is told as well when the records of an append that is `UNDECIDED` are committed after all."""

    def came_late(self, shard: "Shard", now_ms: int) -> None:
        raise NotImplementedError

    def failed_late(self, shard: "Shard", now_ms: int) -> None:
        """They never will be."""


class Shard:
    def __init__(
        self,
        settings: GroupSettings,
        topics: Mapping[str, int],
        stored: Stored,
        ids: TopicIds,
        memory: MemberMemory,
        kept: KeptMemory,
    ) -> None:
        self.settings = settings
        self.topics = topics  # topic -> how many partitions it has
        self.ids = ids
        self.groups: dict[str, ClassicGroup] = {}
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        # Groups of which a turn is being written; of which any record of state is, and how many; whose fate is open.
        self.turns: set[str] = set()
        self.busy: dict[str, int] = {}
        self.stalled: dict[str, int] = {}
        # Who comes for a group while its turn is being written, in order.
        self.waiting: dict[str, deque[Waiting]] = {}
        self.stored = stored
        self.offsets = stored.offsets
        self.is_forgotten = (
            False  # another broker coordinates these, and what was known of them goes piece by piece
        )
        self.timers = Timers(self._due_of)
        self.expiry_at_ms: int | None = None
        self.pending_ids = 0
        self.pending_bytes = 0
        self._memory = memory
        self._held = Held()  # by members of classic groups, ids that were given, and what is on its way
        self.brought: dict[int, int] = {}  # append -> bytes of memory that members brought with it
        self._members = Part(memory)
        # Of `kept_memory`: classic groups, and offsets on their way.
        self._kept_memory, self._kept = kept, Part(kept)
        self._bytes_of_groups = 0
        self._on_their_way = 0
        self.kept_by_append: dict[int, int] = {}
        self._in_flight: dict[int, tuple[Append, After]] = {}
        # Whoever waited was told so; the records may be committed yet.
        self._late: dict[int, tuple[Append, After]] = {}
        self._append_count = 0
        # Where the first record stands that was appended here: what lies before it was loaded. None: nothing was yet.
        self._first_position: int | None = None
        self._appends: list[Append] = []
        self._answers: list[Answer] = []
        self._lines: list[str] = []
        self._asides: list[AsideWork] = []

    # ---------------------------------------------------------------------------------------------- effects

    def answer(self, call: int, response: Response | Later | Make) -> None:
        self._answers.append(Answer(call, response))

    def say(self, line: str) -> None:
        self._lines.append(line)

    def wait(self, group_id: str, one: Waiting) -> None:
        self.waiting.setdefault(group_id, deque()).append(one)

    def ask_aside(self, group: ConsumerGroup, work: AsideWork) -> None:
        """For a thread; what comes of it is an event. Of each kind a group asks for one at a time."""
        if isinstance(work, Assign):
            group.is_assigning = True
        else:
            group.is_resolving = True
        self._asides.append(work)

    def append(
        self,
        records: Iterable[CoordinatorRecord],
        after: After,
        producer: Producer | None = None,
        *,
        brought_bytes: int = 0,
        kept_bytes: int = 0,
    ) -> int:
        """Bytes of memory that these will take: of members, and of offsets."""
        self._append_count += 1
        append = Append(self._append_count, tuple(records), producer)
        assert append.records, "an append without records would never be committed"
        self.offsets.went(append.append_id, _offset_keys(append))
        for group_id in _groups_of(append):
            self.busy[group_id] = self.busy.get(group_id, 0) + 1
        self._in_flight[append.append_id] = append, after
        if brought_bytes > 0:
            self.brought[append.append_id] = brought_bytes
            self._held.size_bytes += brought_bytes
        if kept_bytes > 0:
            self.kept_by_append[append.append_id] = kept_bytes
            self._on_their_way += kept_bytes
        self._appends.append(append)
        return append.append_id

    def begin_turn(self, group_id: str) -> None:
        """Whoever comes for it waits, until `end_turn`: more than one append belongs together."""
        self.turns.add(group_id)
        self.busy[group_id] = self.busy.get(group_id, 0) + 1

    def end_turn(self, group_id: str) -> None:
        _less(self.busy, group_id)
        if group_id not in self.busy:
            self.turns.discard(group_id)

    def take_effects(self) -> Effects:
        effects = Effects(tuple(self._appends), tuple(self._answers), tuple(self._lines), tuple(self._asides))
        self._appends, self._answers, self._lines, self._asides = [], [], [], []
        return effects

    # ---------------------------------------------------------------------------------------------- records

    def committed(self, append_id: int, base_offset: int, now_ms: int) -> None:
        is_late = append_id in self._late
        append, after = (self._late if is_late else self._in_flight).pop(append_id)
        producer_id = append.producer.producer_id if append.producer is not None else NO_PRODUCER
        if self._first_position is None or base_offset < self._first_position:
            self._first_position = base_offset
        self.stored.replay_all(append.records, base_offset, producer_id)
        self._came(append, is_late=is_late)
        if not is_late:
            after.committed(self, now_ms)
        elif isinstance(after, MindsLate):
            after.came_late(self, now_ms)

    def failed(self, append_id: int, error: ErrorCode, now_ms: int) -> None:
        """After an error of `UNDECIDED` the append is still under way, and its fate comes as a second event."""
        late = self._late.pop(append_id, None)
        if late is not None:
            self._came(late[0], is_late=True)
            if isinstance(late[1], MindsLate):
                late[1].failed_late(self, now_ms)
            return None
        append, after = self._in_flight.pop(append_id)
        if error in UNDECIDED:
            self._late[append_id] = append, after
            for group_id in _groups_of(append):
                self.stalled[group_id] = self.stalled.get(group_id, 0) + 1
        else:
            self._came(append)
        after.failed(self, error, now_ms)
        return None

    def _came(self, append: Append, *, is_late: bool = False) -> None:
        self._held.size_bytes -= self.brought.pop(append.append_id, 0)
        self._on_their_way -= self.kept_by_append.pop(append.append_id, 0)
        self.offsets.came(append.append_id, _offset_keys(append))
        for group_id in _groups_of(append):
            _less(self.busy, group_id)
            if is_late:
                _less(self.stalled, group_id)
            if group_id not in self.busy:
                self.turns.discard(group_id)

    def fail_all(self, error: ErrorCode, now_ms: int) -> None:
        for append_id in sorted(self._in_flight):
            self.failed(append_id, error, now_ms)

    def was_loaded(self, position: int) -> bool:
        """Another broker, or a former life of this one, appended the record that stands there."""
        return self._first_position is None or position < self._first_position

    # ----------------------------------------------------------------------------------------------- groups

    def group(self, group_id: str, now_ms: int) -> ClassicGroup:
        found = self.groups.get(group_id)
        if found is None:
            found = ClassicGroup(group_id, now_ms)
            self.take_in(found)
        return found

    def take_in(self, group: ClassicGroup) -> None:
        if self.groups.get(group.group_id) is group:
            return
        self.groups[group.group_id] = group
        self._bytes_of_groups += of_group(group.group_id)
        self._held.size_bytes += group.size_bytes
        group.held = self._held

    def forget(self, group: ClassicGroup) -> None:
        """The group is gone, with every id it had given."""
        for member_id in list(group.pending_ids):
            self.forget_id(group, member_id)
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
            self._bytes_of_groups -= of_group(group.group_id)
            self._held.size_bytes -= group.size_bytes
            group.held = Held()

    def remember_id(self, group: ClassicGroup, member_id: str, until_ms: int) -> None:
        group.pending_ids[member_id] = until_ms
        self.pending_ids += 1
        self.pending_bytes += len(group.group_id) + len(member_id)
        self._held.size_bytes += BYTES_OF_AN_ID + of_text(group.group_id, member_id)
        self.timers.arm(until_ms, Kind.PENDING_ID, group.group_id, member_id)

    def forget_id(self, group: ClassicGroup, member_id: str) -> None:
        del group.pending_ids[member_id]
        self.pending_ids -= 1
        self.pending_bytes -= len(group.group_id) + len(member_id)
        self._held.size_bytes -= BYTES_OF_AN_ID + of_text(group.group_id, member_id)

    # ----------------------------------------------------------------------------------------------- memory

    @property
    def held_bytes(self) -> int:
        """Memory of the members here, in groups of either kind."""
        return self._held.size_bytes + self.stored.held_bytes

    def has_room(self, more_bytes: int, now_ms: int, *, is_new: bool, group_bytes: int = 0) -> bool:
        """For what somebody brings to a group that holds so much: who brings no more than it had is not asked. If not, it is told
        so, and the operator."""
        if more_bytes <= 0:
            return True
        held_bytes = self._members.with_others(self.held_bytes)
        if self._memory.has_room(more_bytes, held_bytes, group_bytes, is_new=is_new):
            return True
        line = self._memory.refuse(now_ms)
        if line is not None:
            self.say(line)
        return False

    @property
    def kept_bytes(self) -> int:
        """Memory of groups and offsets."""
        stored = self.stored.bytes_of_consumer_groups + self.stored.offsets.size_bytes
        return self._bytes_of_groups + stored + self._on_their_way

    def would_keep(self, group_id: str, more_bytes: int) -> bool:
        """Whether there is room for a group, if it is not there yet, and for so much of its offsets."""
        if group_id not in self.groups and group_id not in self.consumer_groups:
            more_bytes += of_group(group_id)
        return self._kept_memory.has_room(more_bytes, self._kept.with_others(self.kept_bytes))

    def has_room_to_keep(self, group_id: str, more_bytes: int, now_ms: int) -> bool:
        """As `would_keep`. If not, the operator is told."""
        if self.would_keep(group_id, more_bytes):
            return True
        line = self._kept_memory.refuse(now_ms)
        if line is not None:
            self.say(line)
        return False

    def tell_memory(self, held_bytes: int, kept_bytes: int) -> None:
        """What others are to know of it."""
        self._kept.tell(kept_bytes)
        self._members.tell(held_bytes)

    # ----------------------------------------------------------------------------------------------- timers

    def renew_session(
        self, group: ClassicGroup, member: Member, now_ms: int, length_ms: int | None = None
    ) -> None:
        ends_at_ms = now_ms + (member.session_timeout_ms if length_ms is None else length_ms)
        if _wants_timer(member, ends_at_ms):
            self.timers.arm(ends_at_ms, Kind.SESSION, group.group_id, member.member_id)

    def renew_sessions(self, group: ClassicGroup, members: Iterable[Member], now_ms: int) -> None:
        """As `renew_session` of each."""
        due = []
        for member in members:
            ends_at_ms = now_ms + member.session_timeout_ms
            if _wants_timer(member, ends_at_ms):
                due.append((ends_at_ms, member.member_id))
        self.timers.arm_all(Kind.SESSION, group.group_id, due)

    def _due_of(self, timer: Timer) -> int | None:
        if timer.kind in MEMBER_DEADLINES:
            consumers = self.consumer_groups.get(timer.group_id)
            return consumers.due_of(timer) if consumers is not None else None
        group = self.groups.get(timer.group_id)
        if group is None:
            return None
        if timer.kind is Kind.JOIN:
            return group.join_ends_at_ms
        if timer.kind is Kind.SYNC:
            return group.sync_ends_at_ms
        if timer.kind is Kind.PENDING_ID:
            return group.pending_ids.get(timer.key)
        member = group.members.get(timer.key)
        if member is None:
            return None
        if member.session_timer_at_ms == timer.due_ms:
            member.session_timer_at_ms = member.session_ends_at_ms
        return member.session_ends_at_ms

    def next_deadline_ms(self) -> int | None:
        if any(group_id not in self.busy for group_id in self.waiting):
            return 0  # more than one step takes up
        due = [at for at in (self.timers.next_ms, self.expiry_at_ms) if at is not None]
        return min(due, default=None)


def _wants_timer(member: Member, ends_at_ms: int) -> bool:
    """Its session ends then. One that ends later than the timer it has is put off when that goes off."""
    member.session_ends_at_ms = ends_at_ms
    if member.session_timer_at_ms is not None and ends_at_ms >= member.session_timer_at_ms:
        return False
    member.session_timer_at_ms = ends_at_ms
    return True


def _offset_keys(append: Append) -> list[OffsetKey]:
    return [record.key for record in append.records if isinstance(record, OffsetRecord)]


def _groups_of(append: Append) -> set[str]:
    """Whose state its records change."""
    return {
        record.key.group if isinstance(record, GroupRecord) else record.group
        for record in append.records
        if not isinstance(record, OffsetRecord)
    }


def _less(counts: dict[str, int], name: str) -> None:
    counts[name] -= 1
    if not counts[name]:
        del counts[name]


def parked_of(member: Member) -> tuple[Parked | None, Parked | None]:
    """What a member has parked, which is not parked any more."""
    parked = member.join, member.sync
    member.join = member.sync = None
    return parked
