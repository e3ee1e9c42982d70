"""Members of a group that is converted from one protocol to the other and back: a classic group becomes one of KIP-848 when a member
of that protocol joins, and is classic again when the last of these has gone. What they were told stands in a `MixedHistory`.

Members of both kinds own partitions as `holdings` has it, fetch the offset of each that they have taken, and commit what is larger.
After a commit without an answer a member goes on as another one: what it was is fenced before anybody else has its partitions. One
that `is_strict` does so after any request without an answer, so that all it owns is judged.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from odradek.coordinator.consumer_protocol import (
    FIRST_WITH_OWNED,
    NO_GENERATION,
    Partitions,
    Subscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.sim.checkers.groups import Committed, Fetched, Tried
from odradek.sim.checkers.mixed import MixedHistory
from odradek.sim.checkers.sharers import MemberAnswer, Shared, Taken
from odradek.sim.clients.client import Pauses, RequestFailed, SimClient
from odradek.sim.clients.group_member import GroupClient
from odradek.sim.clients.holdings import Holdings
from odradek.sim.clients.sharer import JOIN, LEAVE, Sharer

GROUP = "mixed"
STAYERS, GUESTS = 2, 2  # all classic; those that come and go
PROTOCOL_TYPE = "consumer"
EAGER, COOPERATIVE = "range", "cooperative-sticky"
SESSION_MS, REBALANCE_MS, INTERVAL_S = 2_000, 2_000, 0.3
LEAVE_TO_RETURN = -2
VERSION = FIRST_WITH_OWNED
IS_NONE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})  # a member
NOT_THIS_TIME = frozenset({*IS_NONE, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID})
AS_OF_ANOTHER_EPOCH = frozenset(
    {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH}
)


class _Again(Exception):
    """The member joins again."""


def shared_out(
    claims: Mapping[str, Partitions], partitions: Iterable[TopicPartition]
) -> dict[str, Partitions]:
    """What the leader of a classic group gives to each member. Nobody has what another one has said to own: that one lets go first."""
    members = sorted(claims)
    owners: dict[tuple[str, int], set[str]] = {}
    for member, owned in claims.items():
        for topic, numbers in owned.items():
            for number in numbers:
                owners.setdefault((topic, number), set()).add(member)
    shares: dict[str, dict[str, list[int]]] = {member: {} for member in members}
    for index, partition in enumerate(sorted(partitions)):
        member = members[index % len(members)]
        if owners.get((partition.topic, partition.partition), set()) <= {member}:
            shares[member].setdefault(partition.topic, []).append(partition.partition)
    return {m: {topic: tuple(at) for topic, at in share.items()} for m, share in shares.items()}


class Progress:
    """Of one member: the offsets of what it owns."""

    def __init__(
        self, client: SimClient, group: GroupClient, holdings: Holdings, history: MixedHistory
    ) -> None:
        self._client = client
        self._group = group
        self._holdings = holdings
        self._history = history
        self._at: dict[Shared, tuple[float, int]] = {}  # since when it is owned, and the last offset
        self._last = "", NO_GENERATION  # with which id and epoch it committed
        self._turns = 0

    async def step(self, member: str, member_id: str, epoch: int, instance: str | None) -> None:
        """One partition of those that are certainly its own, in a new epoch first with the one before, which is refused. RequestFailed:
        nobody knows whether it was committed."""
        names = {topic_id: name for name, topic_id in self._client.topic_ids.items()}
        own = [shared for shared in self._holdings.sure if shared[0] in names]
        if not own or self._holdings.is_in_doubt:
            return
        self._turns += 1
        shared = own[self._turns % len(own)]
        partition = TopicPartition(names[shared[0]], shared[1])
        since_s = self._holdings.since_s(shared)
        known_s, offset = self._at.get(shared, (-1.0, -1))
        if known_s != since_s:
            fetched = await self._fetched(partition)
            if fetched is None:
                return
            offset = fetched
        offset = max(offset, 0) + 1
        row = OffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=offset, committed_metadata=member
        )

        async def commit(named_epoch: int) -> int:
            self._history.offsets.tried.append(Tried(partition, offset, self._group.now_s))
            request = OffsetCommitRequest(
                group_id=GROUP,
                generation_id_or_member_epoch=named_epoch,
                member_id=member_id,
                group_instance_id=instance,
                topics=[OffsetCommitRequestTopic(name=partition.topic, partitions=[row])],
            )
            answer = await self._group.ask(request)
            return int(answer.topics[0].partitions[0].error_code)

        (last_id, last_epoch), self._last = self._last, (member_id, epoch)
        if last_id == member_id and last_epoch < epoch:
            asked_s = self._group.now_s
            if await commit(last_epoch) == ErrorCode.NONE:
                self._history.in_former_epochs.append((member, asked_s, last_epoch))
        asked_s = self._group.now_s
        code = await commit(epoch)
        if code == ErrorCode.NONE:
            self._at[shared] = since_s, offset
            told_s = self._group.now_s
            self._history.offsets.events.append(Committed(partition, offset, asked_s, told_s))
            self._history.sharing.taken.append(Taken(member, epoch, shared, asked_s))
        elif code not in AS_OF_ANOTHER_EPOCH | NOT_THIS_TIME:
            self._group.moved()

    async def _fetched(self, partition: TopicPartition) -> int | None:
        asked_s = self._group.now_s
        found = await self._group.offsets([partition])
        if found is None:
            return None
        offset = found[partition]
        self._history.offsets.events.append(Fetched(partition, offset, asked_s, self._group.now_s))
        return offset


class MixedSharer(Sharer):
    """A member of the protocol of KIP-848."""

    def __init__(
        self,
        client: SimClient,
        name: str,
        history: MixedHistory,
        topics: list[str],
        is_over: Callable[[], bool],
        *,
        instance: str | None = None,
        is_strict: bool = False,
        leaves: bool = True,
    ) -> None:
        """`leaves`: at its end, for ever; else it is silent from then on, or says that it will be back if it is static."""
        spoke_s = history.offsets.spoke_s
        super().__init__(
            client, name, history.sharing, topics, is_over, group=GROUP, instance=instance, spoke_s=spoke_s
        )
        self._mixed = history
        self._first_name = name
        self._lives = 0
        self._is_strict = is_strict
        self.leaves = leaves
        by_classic = GroupClient(client, GROUP, spoke_s)
        self._progress = Progress(client, by_classic, self._holdings, history)

    @property
    def epoch(self) -> int:
        return self._epoch

    def _begin_as_another(self) -> None:
        self._lives += 1
        self._name = f"{self._first_name}.{self._lives}"
        self._label = self._instance or self._name
        self._holdings.go_on_as(self._label)
        self._epoch = JOIN

    def _heard_nothing(self) -> None:
        if self._is_strict:
            self._begin_as_another()
        else:
            super()._heard_nothing()

    def _was_sent_off(self, code: int) -> None:
        super()._was_sent_off(code)
        if code in IS_NONE:
            self._mixed.is_none(self._label, self._group.now_s)

    async def _commit(self) -> None:
        if self._epoch == JOIN:
            return
        try:
            await self._progress.step(self._label, self._name, self._epoch, self._instance)
        except RequestFailed:
            self._begin_as_another()

    def _told(self, answer: ConsumerGroupHeartbeatResponse, asked_s: float, *, is_join: bool) -> None:
        super()._told(answer, asked_s, is_join=is_join)
        now_s = self._group.now_s
        self._mixed.was_of(answer.member_epoch, now_s, is_of_kip_848=True)
        self._mixed.was_there(self._label, now_s, asked_s + SESSION_MS / 1000)

    async def _leave(self, epoch: int = LEAVE) -> None:
        if self.leaves:
            self._mixed.left(self._label, self._group.now_s)
        elif self._instance is None:
            return
        await super()._leave(LEAVE if self.leaves else LEAVE_TO_RETURN)


class ClassicMember:
    """A member of the classic protocol, of an eager assignor or a cooperative one (KIP-429)."""

    def __init__(
        self,
        client: SimClient,
        name: str,
        history: MixedHistory,
        topics: list[str],
        partitions: list[TopicPartition],
        is_over: Callable[[], bool],
        *,
        protocol: str,
        instance: str | None = None,
        is_strict: bool = False,
        leaves: bool = True,
    ) -> None:
        """`partitions`: what it shares out as the leader, of which there may be more from time to time. `leaves`: at its end; else its
        session ends later, as that of every static one."""
        self._client = client
        self._group = GroupClient(client, GROUP, history.offsets.spoke_s)
        self._first_name = name
        self._name = instance or name  # in the history
        self._lives = 0
        self._history = history
        self._topics = topics
        self._partitions = partitions
        self._is_over = is_over
        self._protocol = protocol
        self._instance = instance
        self._is_strict = is_strict
        self._leaves = leaves
        self._holdings = Holdings(self._name, history.sharing, SESSION_MS, client.loop.time)
        self._progress = Progress(client, self._group, self._holdings, history)
        self._member_id = ""
        self._generation = NO_GENERATION
        self._is_new = True  # nobody was told anything as who it is now
        self._pauses = Pauses()
        self.commits_next = False

    @property
    def owned(self) -> frozenset[Shared]:
        return self._holdings.owned

    @property
    def epoch(self) -> int:
        return self._generation

    def give_up(self) -> None:
        self._holdings.give_up()

    async def live(self) -> None:
        while not self._is_over():
            try:
                await self._take_part()
            except _Again:
                await self._pauses.pause()
        self.give_up()
        if self._leaves and self._instance is None and self._member_id:
            self._history.left(self._name, self._group.now_s)
            leaving = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=self._member_id)])
            try:
                await self._group.ask(leaving)
            except RequestFailed:
                return  # its session ends by itself

    async def _take_part(self) -> None:
        """From one share to the next."""
        if await self._has_to_join_at_once():
            return
        self._pauses.succeeded()
        while not self._is_over():
            if not self.commits_next and await self._has_to_learn():
                return
            self.commits_next = False
            try:
                await self._progress.step(self._name, self._member_id, self._generation, self._instance)
            except RequestFailed:
                self._begin_as_another()
                raise _Again from None
            await asyncio.sleep(INTERVAL_S)

    async def _has_to_join_at_once(self) -> bool:
        """After it has joined and was told its share: whether partitions may wait for it to do so once more."""
        if self._protocol == EAGER:
            self.give_up()
        asked_s = self._group.now_s
        joined = await self._joined()
        if joined is None:
            return True
        synced_s = self._group.now_s
        try:
            synced = await self._group.ask(
                SyncGroupRequest(
                    group_id=GROUP,
                    generation_id=self._generation,
                    member_id=self._member_id,
                    group_instance_id=self._instance,
                    protocol_type=PROTOCOL_TYPE,
                    protocol_name=joined.protocol_name,
                    assignments=self._assignments(joined),
                )
            )
        except RequestFailed:
            raise _Again from None
        self._judge(synced.error_code)
        assigned = self._by_id(read_assignment(bytes(synced.assignment)) or {})
        now_s = self._group.now_s
        answer = MemberAnswer(self._name, self._generation, asked_s, now_s, self._is_new, assigned)
        self._is_new = False
        self._history.sharing.told.append(answer)
        # A group of KIP-848 has no leader.
        self._history.was_of(self._generation, now_s, is_of_kip_848=not joined.leader)
        self._renewed(synced_s)
        has_let_go = not self.owned <= assigned
        self._holdings.assigned(assigned)
        # The leader that it takes the place of (KIP-814) may have kept partitions back until others had let go of them.
        takes_over = joined.skip_assignment and self._protocol == COOPERATIVE
        return has_let_go or takes_over

    async def _joined(self) -> JoinGroupResponse | None:
        """None: with the id that it was given."""
        owned: dict[str, list[int]] = {}
        names = {topic_id: name for name, topic_id in self._client.topic_ids.items()}
        for topic_id, number in sorted(self.owned):
            if topic_id in names:
                owned.setdefault(names[topic_id], []).append(number)
        has = {topic: tuple(at) for topic, at in owned.items()}
        metadata = write_subscription(Subscription(VERSION, tuple(self._topics), has))
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._member_id,
            group_instance_id=self._instance,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=self._protocol, metadata=metadata)],
        )
        try:
            joined: JoinGroupResponse = await self._group.ask(request)
        except RequestFailed:
            if self._is_strict:
                self._begin_as_another()
            else:
                self._holdings.no_answer()
            raise _Again from None
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = joined.member_id
            return None
        self._judge(joined.error_code)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        return joined

    def _assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        if joined.leader != self._member_id or joined.skip_assignment:
            return []
        claims: dict[str, Partitions] = {}
        for member in joined.members:
            subscription = read_subscription(bytes(member.metadata))
            claims[member.member_id] = {} if subscription is None else subscription.owned
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=write_assignment(share, VERSION))
            for member, share in shared_out(claims, self._partitions).items()
        ]

    async def _has_to_learn(self) -> bool:
        asked_s = self._group.now_s
        try:
            answer = await self._group.ask(
                HeartbeatRequest(
                    group_id=GROUP,
                    generation_id=self._generation,
                    member_id=self._member_id,
                    group_instance_id=self._instance,
                )
            )
        except RequestFailed:
            return False
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return True
        self._judge(answer.error_code)
        self._renewed(asked_s)
        return False

    def _renewed(self, asked_s: float) -> None:
        self._holdings.renewed(asked_s)
        self._history.was_there(self._name, self._group.now_s, asked_s + SESSION_MS / 1000)

    def _judge(self, code: int) -> None:
        if code == ErrorCode.NONE:
            return
        if code in IS_NONE:
            self._history.is_none(self._name, self._group.now_s)
        if code == ErrorCode.UNRELEASED_INSTANCE_ID:
            self._history.refused.append((self._name, self._group.now_s))
        if code in NOT_THIS_TIME:
            self._begin_as_another()
        elif code == ErrorCode.ILLEGAL_GENERATION:
            self.give_up()
        elif code != ErrorCode.REBALANCE_IN_PROGRESS:
            self._group.moved()
        raise _Again

    def _begin_as_another(self) -> None:
        self._lives += 1
        self._name = self._instance or f"{self._first_name}.{self._lives}"
        self._holdings.go_on_as(self._name)
        self._member_id, self._generation = "", NO_GENERATION
        self._is_new = True

    def _by_id(self, named: Partitions) -> frozenset[Shared]:
        ids = self._client.topic_ids
        return frozenset(
            (ids[topic], number) for topic, numbers in named.items() if topic in ids for number in numbers
        )
