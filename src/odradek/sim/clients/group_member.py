"""Members of a group of consumers (the classic protocol): they join, share the partitions out, commit and leave, and find
their coordinator again when it moves. What they were told stands in a `GroupHistory`.

A member asks for the offset of a partition before it goes on from there, and commits only what is larger. After a commit of
which nobody told how it ended it joins anew: the next generation fences what may still be on its way. One that stood still
commits before it asks whether it still is a member (`commits_next`), as one does whose heartbeats are another thread's.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages import (
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from odradek.sim.checkers.groups import (
    Committed,
    Fetched,
    GroupHistory,
    HandedOut,
    Joined,
    SentOff,
    Term,
    Tried,
)
from odradek.sim.clients.client import RETRY_S, Address, Pauses, RequestFailed, SimClient
from odradek.sim.clients.coordinator_client import OF_GROUPS, CoordinatorClient

GROUP = "readers"
PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
SESSION_MS, REBALANCE_MS = 2_000, 2_000
# Of a group of slow members. A client gives up on a JoinGroup after five seconds, and then does not see that nobody ends its wait.
SLOW = 1_000, 4_000
BETWEEN_COMMITS_S = 0.3
IDENTIFIER = len("-00000000-0000-0000-0000-000000000000")  # behind the instance in a static member's id


class _Anew(Exception):
    """The member has to join again."""


class _Replaced(Exception):
    """Another process has its instance."""


class GroupClient(CoordinatorClient):
    def __init__(
        self, client: SimClient, group: str = GROUP, spoke_s: dict[str, float] | None = None
    ) -> None:
        """`spoke_s`: when a member, by its instance or else its id, asked something last, or was answered."""
        super().__init__(client, group, OF_GROUPS)
        self._group = group
        self._spoke_s = {} if spoke_s is None else spoke_s

    async def ask(self, message: Any, version: int | None = None) -> Any:
        await self.found()
        instance: str | None = getattr(message, "group_instance_id", None) or getattr(
            message, "instance_id", None
        )
        name = instance or str(getattr(message, "member_id", None) or "")
        self._spoke_s[name] = self.now_s
        answer = await super().ask(message, version)
        self._spoke_s[name] = self.now_s
        return answer

    async def offsets(
        self, partitions: list[TopicPartition], *, are_stable: bool = False
    ) -> dict[TopicPartition, int] | None:
        """As committed, -1 where nothing was; `are_stable`: and no open transaction may change them. None: not now."""
        topics = [
            offset_fetch.OffsetFetchRequestTopics(name=p.topic, partition_indexes=[p.partition])
            for p in partitions
        ]
        request = offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup(group_id=self._group, topics=topics)],
            require_stable=are_stable,
        )
        try:
            group = (await self.ask(request)).groups[0]
        except RequestFailed:
            return None
        if group.error_code or any(row.error_code for topic in group.topics for row in topic.partitions):
            self.moved()
            return None
        return {
            TopicPartition(topic.name, row.partition_index): row.committed_offset
            for topic in group.topics
            for row in topic.partitions
        }


class GroupMember:
    """One process of the group, from its start to its end."""

    def __init__(
        self,
        client: SimClient,
        name: str,
        history: GroupHistory,
        partitions: list[TopicPartition],
        is_over: Callable[[], bool],
        term_of: Callable[[Address | None], Term | None],
        *,
        instance: str | None = None,
        is_slow: bool = False,
        takes_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`partitions`: what the group reads, of which there may be more from time to time. Until `is_over`. `term_of`: of the
        coordinator at an address, for the history alone. `instance`: it is static (KIP-345), and the history names it by that.
        `is_slow`: its group waits for several sessions. `takes_s`: to share out, as the leader, who heartbeats meanwhile."""
        self._session_ms, self._rebalance_ms = SLOW if is_slow else (SESSION_MS, REBALANCE_MS)
        self._takes_s = takes_s
        self._instance = instance
        self._term_of = term_of
        self.commits_next = False
        self._partitions = partitions
        self._is_over = is_over
        self._group = GroupClient(client, spoke_s=history.spoke_s)
        self._name = name
        self._history = history
        self._parked_s: float | None = None  # since when it waits for the others; None: it does not
        self._member = ""
        self._generation = -1
        self._last: tuple[int, TopicPartition, int] | None = (
            None  # acknowledged: generation, partition, offset
        )
        self._session_until_s = 0.0  # at least, in a generation that is stored
        self._pauses = Pauses()

    async def live(self) -> None:
        while not self._is_over():
            try:
                await self._take_part()
            except _Anew:
                await self._pauses.pause()
            except _Replaced:
                return
        if self._instance is None:  # the others go when their session ends
            await self._leave()

    async def _ask(self, message: Any) -> Any:
        try:
            return await self._group.ask(message)
        except RequestFailed:
            self._parked_s = None
            raise _Anew from None

    async def _ask_in_term(self, message: Any) -> tuple[Any, Term | None]:
        """And the term of the coordinator that answered; None: it may have been another one."""
        before = self._term_of(await self._group.found())
        answer = await self._ask(message)
        return answer, before if before == self._term_of(self._group.coordinator) else None

    def _judge(self, code: int) -> None:
        if code == ErrorCode.NONE:
            return
        if code == ErrorCode.FENCED_INSTANCE_ID:
            raise _Replaced
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            if self._instance is None:
                told = SentOff(self._named(self._member), self._group.now_s, self._session_until_s)
                self._history.sent_off.append(told)
            self._member, self._session_until_s = "", 0.0
        elif code not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._group.moved()
        raise _Anew

    async def _take_part(self) -> None:
        """One generation."""
        share = await self._share()
        await self._commit_late()
        positions = None
        while positions is None:
            asked_s = self._group.now_s
            positions = await self._group.offsets(share)
            if positions is None:
                await self._beat()
                await asyncio.sleep(RETRY_S)
        self._pauses.succeeded()
        for partition, offset in positions.items():
            self._history.events.append(Fetched(partition, offset, asked_s, self._group.now_s))
        while not self._is_over():
            if not self.commits_next:
                await self._beat()
            self.commits_next = False
            for partition in share:
                positions[partition] = max(positions[partition], 0) + 1
                await self._commit(partition, positions[partition])
            await asyncio.sleep(BETWEEN_COMMITS_S)

    async def _share(self) -> list[TopicPartition]:
        """Joined, and the partitions that are this member's in the new generation."""
        asked_s = self._parked_s = self._group.now_s
        joined, term = await self._ask_in_term(self._join())
        self._parked_s = None
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member = joined.member_id
            raise _Anew
        self._judge(joined.error_code)
        self._member, self._generation = joined.member_id, joined.generation_id
        # Of the leader alone. One that took its place in a generation that stands is told them, and shares nothing out (KIP-814).
        members = sorted(member.member_id for member in joined.members)
        to_share_out = [] if joined.skip_assignment else members
        if term is not None:
            handed_out = HandedOut(
                term,
                joined.generation_id,
                self._named(joined.leader),
                self._named(joined.member_id),
                frozenset(map(self._named, members)),
                asked_s,
                self._group.now_s,
            )
            self._history.handed_out.append(handed_out)
        if len(to_share_out) > 1:
            await self._take(self._takes_s())
        synced_s = self._parked_s = self._group.now_s
        synced = await self._ask(self._sync(to_share_out))
        self._parked_s = None
        self._judge(synced.error_code)
        known = self._partitions
        of, *given = bytes(synced.assignment) or bytes(1)
        share = [known[number] for number in given if number < len(known)]
        self._history.events.append(
            Joined(
                joined.generation_id,
                self._named(joined.leader),
                self._named(joined.member_id),
                asked_s,
                self._group.now_s,
                synced_s,
                frozenset(share),
            )
        )
        if joined.skip_assignment and of < len(known):
            raise _Anew  # as one whose metadata say that there are more partitions
        return share

    def _join(self) -> join_group.JoinGroupRequest:
        return join_group.JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self._session_ms,
            rebalance_timeout_ms=self._rebalance_ms,
            member_id=self._member,
            group_instance_id=self._instance,
            protocol_type=PROTOCOL_TYPE,
            protocols=[join_group.JoinGroupRequestProtocol(name=PROTOCOL, metadata=self._name.encode())],
        )

    def _sync(self, members: list[str]) -> sync_group.SyncGroupRequest:
        """`members`: to whom it shares out; none: another one is the leader."""
        numbers = range(len(self._partitions))
        return sync_group.SyncGroupRequest(
            group_id=GROUP,
            generation_id=self._generation,
            member_id=self._member,
            group_instance_id=self._instance,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=[
                sync_group.SyncGroupRequestAssignment(
                    member_id=member,
                    # First of how many: a leader that comes back has no other way to know.
                    assignment=bytes([len(numbers), *numbers[index :: len(members)]]),
                )
                for index, member in enumerate(members)
            ],
        )

    async def _take(self, seconds: float) -> None:
        """Of a process that computes, and whose heartbeats are another thread's."""
        until_s = self._group.now_s + seconds
        while (left_s := until_s - self._group.now_s) > 0:
            await asyncio.sleep(min(BETWEEN_COMMITS_S, left_s))
            await self._beat(is_stored=False)

    @property
    def waits_s(self) -> float:
        """How long for an answer to JoinGroup or SyncGroup, by now; 0: for none."""
        return 0.0 if self._parked_s is None else self._group.now_s - self._parked_s

    async def _beat(self, *, is_stored: bool = True) -> None:
        """`is_stored`: its generation is; the next coordinator knows no other."""
        asked_s = self._group.now_s
        answer = await self._ask(
            heartbeat.HeartbeatRequest(
                group_id=GROUP,
                generation_id=self._generation,
                member_id=self._member,
                group_instance_id=self._instance,
            )
        )
        self._judge(answer.error_code)
        if is_stored:
            self._session_until_s = asked_s + self._session_ms / 1000

    async def _commit_late(self) -> None:
        """The application's thread is still at what it read in the generation before, and commits that as of then."""
        if self._last is None or self._last[0] == self._generation:
            return
        generation, partition, offset = self._last
        await self._try_to_commit(partition, offset, generation)

    async def _commit(self, partition: TopicPartition, offset: int) -> None:
        code = await self._try_to_commit(partition, offset, self._generation)
        if code == ErrorCode.NONE:
            self._last = self._generation, partition, offset
        self._judge(code)

    async def _try_to_commit(self, partition: TopicPartition, offset: int, generation: int) -> int:
        asked_s = self._group.now_s
        self._history.tried.append(Tried(partition, offset, asked_s))
        row = offset_commit.OffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=offset, committed_metadata=self._name
        )
        answer, term = await self._ask_in_term(
            offset_commit.OffsetCommitRequest(
                group_id=GROUP,
                generation_id_or_member_epoch=generation,
                member_id=self._member,
                group_instance_id=self._instance,
                topics=[offset_commit.OffsetCommitRequestTopic(name=partition.topic, partitions=[row])],
            )
        )
        code = int(answer.topics[0].partitions[0].error_code)
        if code == ErrorCode.NONE:
            told_s = self._group.now_s
            self._history.events.append(
                Committed(partition, offset, asked_s, told_s, generation, self._named(self._member), term)
            )
        return code

    def _named(self, member_id: str) -> str:
        """As the history names it. Who takes a static member's place has another id behind the same instance."""
        return member_id if self._instance is None else member_id[:-IDENTIFIER]

    async def _leave(self) -> None:
        """Once, whether it is heard or not: else its session ends later."""
        leaving = leave_group.MemberIdentity(member_id=self._member)
        try:
            await self._group.ask(leave_group.LeaveGroupRequest(group_id=GROUP, members=[leaving]))
        except RequestFailed:
            return
