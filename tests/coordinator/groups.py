"""A coordinator with a log of its own, for tests: what it appends is committed when the test says so."""

from typing import Any

from odradek.coordinator.asides import AsideWork
from odradek.coordinator.consumer_protocol import FIRST_WITH_OWNED, Subscription, write_subscription
from odradek.coordinator.effects import Append
from odradek.coordinator.events import AppendFailed, Asked, Committed, Event, Tick, TransactionEnded, Unloaded
from odradek.coordinator.group_coordinator import GroupCoordinator
from odradek.coordinator.kept_memory import KeptMemory, memory_of_groups
from odradek.coordinator.loading import Loaded
from odradek.coordinator.member import Client
from odradek.coordinator.member_memory import MemberMemory
from odradek.coordinator.offsets import NO_PRODUCER
from odradek.coordinator.records import decode, encode
from odradek.coordinator.settings import GroupSettings
from odradek.coordinator.stored import Stored
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.protocol.schema import Request, Response
from tests.coordinator.topics import Topics

START_MS = 1_800_000_000_000
TOPICS = {"t": 4, "u": 4}
GROUP = "g"
LAST_SYNC_WITHOUT_PROTOCOL = 4
READS_T = write_subscription(Subscription(FIRST_WITH_OWNED, ("t",), {}))


class Bench:
    """`held`: appends are kept until `commit` or `fail`; else they are committed at once."""

    def __init__(
        self,
        *,
        held: bool = False,
        memory: MemberMemory | None = None,
        kept: KeptMemory | None = None,
        **settings: Any,
    ) -> None:
        self.memory = MemberMemory() if memory is None else memory
        self.kept = memory_of_groups() if kept is None else kept
        self.settings = GroupSettings(**{"initial_rebalance_delay_ms": 0, **settings})
        self.now_ms = START_MS
        self.log: list[tuple[bytes, bytes | None, int]] = []
        self.held = held
        self.waiting: list[tuple[Append, int]] = []  # and where its records begin in the log
        self.answers: dict[int, Response] = {}
        self.calls = 0
        self.lines: list[str] = []
        self.topics = Topics(TOPICS)
        self.asides: list[AsideWork] = []  # asked of a thread, and not done yet
        self.coordinator = self._coordinator(Stored())

    # ------------------------------------------------------------------------------------------------ events

    def ask(self, request: Request, version: int, client: str = "c") -> int:
        self.calls += 1
        unique = f"id{self.calls}"
        self.step(Asked(self.calls, version, Client(client, "/127.0.0.1"), request, unique))
        return self.calls

    def call(self, request: Request, version: int, client: str = "c") -> Any:
        """The answer, which must be there at once."""
        return self.answers.pop(self.ask(request, version, client))

    def step(self, event: Event) -> None:
        effects = self.coordinator.step(event, self.now_ms)
        for answer in effects.answers:
            assert answer.call not in self.answers, "answered twice"
            self.answers[answer.call] = given(answer.response)
        self.lines += effects.lines
        self.asides += effects.asides
        for append in effects.appends:
            self.waiting.append((append, len(self.log)))
            producer_id = append.producer.producer_id if append.producer else NO_PRODUCER
            self.log += [(*encode(record), producer_id) for record in append.records]
        if not self.held:
            while self.waiting:
                self.commit()

    def commit(self) -> None:
        append, base_offset = self.waiting.pop(0)
        self.step(Committed(append.append_id, base_offset))

    def fail(self, error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        """The oldest, and it is not in the log; those behind it are, for each is its own batch."""
        self.fail_late(self.waiting.pop(0), error)

    def fail_late(self, late: tuple[Append, int], error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        append, base_offset = late
        del self.log[base_offset : base_offset + len(append.records)]
        self.waiting = [(one, at - len(append.records)) for one, at in self.waiting]
        self.step(AppendFailed(append.append_id, error))

    def step_late(self) -> None:
        """The oldest has run out of time; its records are in the log, and its fate comes later."""
        append, _ = self.waiting.pop(0)
        self.step(AppendFailed(append.append_id, ErrorCode.REQUEST_TIMED_OUT))

    def commit_late(self, late: tuple[Append, int]) -> None:
        append, base_offset = late
        self.step(Committed(append.append_id, base_offset))

    def do_asides(self) -> None:
        while self.asides:
            self.step(self.asides.pop(0).run())

    def wait(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while True:
            due_ms = self.coordinator.next_deadline_ms()
            if due_ms is None or due_ms > end_ms:
                break
            self.now_ms = max(due_ms, self.now_ms)
            self.step(Tick())
        self.now_ms = end_ms

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        self.step(TransactionEnded(producer_id, is_commit))

    def loaded(self) -> Stored:
        loaded = Loaded(Stored(), decode)
        for position, (key, value, producer_id) in enumerate(self.log):
            loaded.record(key, value, position, producer_id)
        return loaded.stored

    def move(self) -> None:
        """Another broker takes over, with what the log holds."""
        self.step(Unloaded())
        self.waiting.clear()
        self.asides.clear()
        self.coordinator.tables()
        stored = self.loaded()
        self.coordinator = self._coordinator(stored)

    def _coordinator(self, stored: Stored) -> GroupCoordinator:
        return GroupCoordinator(
            self.settings, self.topics, stored, self.now_ms, self.topics, self.memory, self.kept
        )

    # ---------------------------------------------------------------------------------------------- requests

    def join(self, member: str = "", *, instance: str | None = None, version: int = 9, **options: Any) -> int:
        return self.ask(join_request(member, instance=instance, **options), version)

    def new_member(self, **options: Any) -> tuple[str, int]:
        """An id, and the call of the JoinGroup with it."""
        given = self.answers.pop(self.join(**options))
        assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return given.member_id, self.join(given.member_id, **options)

    def sync(self, member: str, generation: int, assignments: dict[str, bytes] | None = None) -> int:
        rows = [
            SyncGroupRequestAssignment(member_id=one, assignment=two)
            for one, two in (assignments or {}).items()
        ]
        request = SyncGroupRequest(
            group_id=GROUP, generation_id=generation, member_id=member, assignments=rows
        )
        return self.ask(request, LAST_SYNC_WITHOUT_PROTOCOL)

    def stable(self, count: int = 1, **options: Any) -> list[str]:
        """A stable group of so many members, in the order they joined; its generation is `group.generation`."""
        members: list[str] = []
        while len(members) < count:
            member, call = self.new_member(**options)
            rejoins = [self.join(one, **options) for one in members]
            members.append(member)
            for one in (call, *rejoins):
                self.answers.pop(one)
        generation = self.group.generation
        syncs = [self.sync(one, generation) for one in members[1:]]
        syncs.append(self.sync(members[0], generation, {one: one.encode() for one in members}))
        if self.held:
            self.commit()
        for call in syncs:
            assert self.answers.pop(call).error_code == 0
        return members

    def heartbeat(self, member: str, generation: int | None = None) -> int:
        at = self.group.generation if generation is None else generation
        return int(self.answers.pop(self.heartbeat_call(member, at)).error_code)  # type: ignore[attr-defined]

    def heartbeat_call(self, member: str, generation: int) -> int:
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member)
        return self.ask(request, 4)

    def leave(self, *members: str) -> int:
        return self.ask(
            LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=one) for one in members]), 5
        )

    def commit_offset(
        self,
        offset: int,
        *,
        member: str = "",
        generation: int = -1,
        topic: str = "t",
        partition: int = 0,
        group: str = GROUP,
    ) -> int:
        return self.ask(commit_request(offset, member, generation, topic, partition, group), 8)

    @property
    def group(self) -> Any:
        return self.coordinator.shard.groups[GROUP]

    def state(self) -> str:
        found = self.coordinator.shard.groups.get(GROUP)
        return "none" if found is None else str(found.state.value)


def given(response: Any) -> Any:
    """As whoever asked gets it: what was put off until then is made."""
    return response() if callable(response) else response


def join_request(
    member: str = "",
    *,
    instance: str | None = None,
    protocols: dict[str, bytes] | None = None,
    session_ms: int = 10_000,
    rebalance_ms: int = 20_000,
    kind: str = "consumer",
    group: str = GROUP,
) -> JoinGroupRequest:
    offered = {"range": READS_T} if protocols is None else protocols
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member,
        group_instance_id=instance,
        protocol_type=kind,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in offered.items()],
    )


def commit_request(
    offset: int, member: str, generation: int, topic: str, partition: int, group: str
) -> OffsetCommitRequest:
    row = OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[row])],
    )
