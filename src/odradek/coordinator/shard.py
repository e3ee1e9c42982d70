"""The memory of one coordinator: groups, offsets, what is being appended, and what is to be told.

`stored` is what the records say; they alone change it, by the same `replay` while loading and after a commit. An append is kept
with what follows from it until its fate is known: nobody hears of it, and nothing stored changes, before.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.effects import Answer, Append, Effects, Producer
from odradek.coordinator.group_states import GroupState
from odradek.coordinator.member import Member, Parked
from odradek.coordinator.offsets import NO_PRODUCER
from odradek.coordinator.records import CoordinatorRecord, OffsetRecord
from odradek.coordinator.settings import GroupSettings
from odradek.coordinator.stored import Stored
from odradek.coordinator.timers import Kind, Timer, Timers
from odradek.model.error_codes import ErrorCode
from odradek.protocol.schema import Response


class After(Protocol):
    """What an append was for: called once, when its records are in memory, or when it failed."""

    def committed(self, shard: "Shard", now_ms: int) -> None: ...
    def failed(self, shard: "Shard", error: ErrorCode, now_ms: int) -> None: ...


class Shard:
    def __init__(self, settings: GroupSettings, topics: Mapping[str, int], stored: Stored) -> None:
        self.settings = settings
        self.topics = topics  # topic -> how many partitions it has
        self.groups: dict[str, ClassicGroup] = {}
        self.stored = stored
        self.offsets = stored.offsets
        self.timers = Timers(self._due_of)
        self.expiry_at_ms: int | None = None
        self.pending_ids = 0
        self.pending_bytes = 0
        self._in_flight: dict[int, tuple[Append, After]] = {}
        self._late: dict[int, Append] = {}  # whoever waited was told so; the records may be committed yet
        self._append_count = 0
        self._appends: list[Append] = []
        self._answers: list[Answer] = []
        self._lines: list[str] = []

    # ---------------------------------------------------------------------------------------------- effects

    def answer(self, call: int, response: Response) -> None:
        self._answers.append(Answer(call, response))

    def say(self, line: str) -> None:
        self._lines.append(line)

    def append(
        self, records: Iterable[CoordinatorRecord], after: After, producer: Producer | None = None
    ) -> int:
        self._append_count += 1
        append = Append(self._append_count, tuple(records), producer)
        assert append.records, "an append without records would never be committed"
        for record in append.records:
            if isinstance(record, OffsetRecord):
                self.offsets.went(record.key)
        self._in_flight[append.append_id] = append, after
        self._appends.append(append)
        return append.append_id

    def take_effects(self) -> Effects:
        effects = Effects(tuple(self._appends), tuple(self._answers), tuple(self._lines))
        self._appends, self._answers, self._lines = [], [], []
        return effects

    # ---------------------------------------------------------------------------------------------- records

    def committed(self, append_id: int, base_offset: int, now_ms: int) -> None:
        late = self._late.pop(append_id, None)
        append, after = (late, None) if late is not None else self._in_flight.pop(append_id)
        producer_id = append.producer.producer_id if append.producer is not None else NO_PRODUCER
        for position, record in enumerate(append.records, base_offset):
            self.stored.replay(record, position, producer_id)
        self._came(append)
        if after is not None:
            after.committed(self, now_ms)

    def failed(self, append_id: int, error: ErrorCode, now_ms: int) -> None:
        """After REQUEST_TIMED_OUT the append is still under way, and its fate comes as a second event."""
        late = self._late.pop(append_id, None)
        if late is not None:
            return self._came(late)
        append, after = self._in_flight.pop(append_id)
        if error == ErrorCode.REQUEST_TIMED_OUT:
            self._late[append_id] = append
        else:
            self._came(append)
        after.failed(self, error, now_ms)
        return None

    def _came(self, append: Append) -> None:
        for record in append.records:
            if isinstance(record, OffsetRecord):
                self.offsets.came(record.key)

    def fail_all(self, error: ErrorCode, now_ms: int) -> None:
        for append_id in sorted(self._in_flight):
            self.failed(append_id, error, now_ms)

    @property
    def is_appending(self) -> bool:
        return bool(self._in_flight)

    # ----------------------------------------------------------------------------------------------- groups

    def group(self, group_id: str, now_ms: int) -> ClassicGroup:
        found = self.groups.get(group_id)
        if found is None:
            found = self.groups[group_id] = ClassicGroup(group_id, now_ms)
        return found

    def forget(self, group: ClassicGroup) -> None:
        """The group is gone, with every id it had given."""
        for member_id in list(group.pending_ids):
            self.forget_id(group, member_id)
        if self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]

    def remember_id(self, group: ClassicGroup, member_id: str, until_ms: int) -> None:
        group.pending_ids[member_id] = until_ms
        self.pending_ids += 1
        self.pending_bytes += len(group.group_id) + len(member_id)
        self.timers.arm(until_ms, Kind.PENDING_ID, group.group_id, member_id)

    def forget_id(self, group: ClassicGroup, member_id: str) -> None:
        del group.pending_ids[member_id]
        self.pending_ids -= 1
        self.pending_bytes -= len(group.group_id) + len(member_id)

    # ----------------------------------------------------------------------------------------------- timers

    def renew_session(
        self, group: ClassicGroup, member: Member, now_ms: int, length_ms: int | None = None
    ) -> None:
        ends_at_ms = now_ms + (member.session_timeout_ms if length_ms is None else length_ms)
        member.session_ends_at_ms = ends_at_ms
        if member.session_timer_at_ms is None or ends_at_ms < member.session_timer_at_ms:
            member.session_timer_at_ms = ends_at_ms
            self.timers.arm(ends_at_ms, Kind.SESSION, group.group_id, member.member_id)

    def _due_of(self, timer: Timer) -> int | None:
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
        due = [at for at in (self.timers.next_ms, self.expiry_at_ms) if at is not None]
        return min(due, default=None)


def is_gone(group: ClassicGroup) -> bool:
    return group.state is GroupState.DEAD


def parked_of(member: Member) -> tuple[Parked | None, Parked | None]:
    """What a member has parked, which is not parked any more."""
    parked = member.join, member.sync
    member.join = member.sync = None
    return parked
