"""What an operator does to the offsets of a group that has no members, as tools do: they are committed, reset amid a transaction, deleted,
and the group with them, while its coordinator moves or is alone. Mixed into `administration`.

The group is this operator's alone, and one thing is asked after the other. So what is fetched is what was done last: either of two
values where nobody said whether it was done, or what a request without an answer asked for, which may come at any time.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.sim.checkers.history import Anomaly
from odradek.sim.clients.client import RETRY_S, RequestFailed, SimClient
from odradek.sim.clients.coordinator_client import OF_GROUPS
from odradek.sim.clients.group_member import GroupClient
from odradek.sim.clients.ledger import TIMEOUT_MS
from odradek.sim.clients.ledger_workload import BUMPING_LEVEL, is_version_2_in_force
from odradek.sim.clients.transactional_producer import Fenced, Refused, TransactionalProducer
from odradek.sim.faults.targets import both_ways, controller, cut
from odradek.sim.observed.beliefs import at_work
from odradek.sim.observed.described import partition_that_coordinates
from odradek.sim.plan import Fault, Plan
from odradek.sim.world import SimBroker, World

NOTHING = -1
KEPT = TopicPartition(GROUPS_TOPIC, 0)  # whose offset; nobody makes that topic again
RESET = "reset"  # groups and transactional ids of this operator
JOIN, LEAVE = 0, -1
LEAST_PAUSE_S, MOST_PAUSE_S = 0.05, 0.2
LEAST_STEPS = 6
NAMES_TRIED = 8  # there are four partitions
IS_ALONE = 0.7  # how often the coordinator is, for a while
GONE = frozenset({ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND})


class KeptOffset:
    """Of one partition, in one group: `may_be`, by what its owner was told; or of `late`, which may still come."""

    def __init__(
        self, client: SimClient, group: str, partition: TopicPartition, leads: Callable[["KeptOffset"], bool]
    ) -> None:
        """`leads`: whoever was asked last coordinates the group. One that was deposed may answer that nothing is left, of what it had."""
        self.may_be = {NOTHING}
        self.late: set[int] = set()
        self._may_be_fenced = False
        self._leads = leads
        self._next = 0
        self._client = client
        self.name = group
        self._partition = partition
        self.group = GroupClient(client, group)

    async def commit(self) -> int:
        self._next += 1
        row = OffsetCommitRequestPartition(
            partition_index=self._partition.partition, committed_offset=self._next
        )
        request = OffsetCommitRequest(
            group_id=self.name,
            topics=[OffsetCommitRequestTopic(name=self._partition.topic, partitions=[row])],
        )
        answer = await self._ask(request)
        code = ErrorCode.NETWORK_EXCEPTION if answer is None else answer.topics[0].partitions[0].error_code
        return self._told(code, self._next)

    async def delete(self) -> int:
        row = OffsetDeleteRequestPartition(partition_index=self._partition.partition)
        topic = OffsetDeleteRequestTopic(name=self._partition.topic, partitions=[row])
        answer = await self._ask(OffsetDeleteRequest(group_id=self.name, topics=[topic]))
        code = ErrorCode.NETWORK_EXCEPTION
        if answer is not None:
            code = answer.error_code or answer.topics[0].partitions[0].error_code
        return self._gone(code)

    async def delete_group(self) -> int:
        answer = await self._ask(DeleteGroupsRequest(groups_names=[self.name]))
        code = ErrorCode.NETWORK_EXCEPTION if answer is None else answer.results[0].error_code
        return self._gone(code)

    async def visit(self) -> None:
        """A member of KIP-848 comes and goes: from then on the group is of that kind."""
        for epoch in (JOIN, LEAVE):
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.name,
                member_id=f"{self.name}-visitor",
                member_epoch=epoch,
                rebalance_timeout_ms=1_000,
                subscribed_topic_names=[self._partition.topic],
                topic_partitions=[],
            )
            answer = await self._ask(request)
            if answer is None or answer.error_code:
                self.group.moved()

    async def in_a_transaction(self, plain: Callable[[], Awaitable[int]] | None, *, is_commit: bool) -> None:
        """`plain`: what is done to the offset while the transaction is open, by nobody of it; it comes later, and so it stays."""
        before = self.may_be
        producer = await self._opened(bumps=False)
        if producer is None:
            return
        value = self._next
        self.may_be = {NOTHING}
        code = ErrorCode.NONE if plain is None else await plain()
        by_plain = self.may_be
        fate = await producer.end(is_commit=is_commit)
        if producer.is_in_doubt:
            self.late.add(value)
        ended = {"committed": {value}, "aborted": before, "unknown": {value, *before}}[fate]
        if plain is None:
            self.may_be = ended
        else:
            self.may_be = by_plain if code == ErrorCode.NONE else {*by_plain, *ended}

    async def begun_anew(self, room_of: Callable[[str], object]) -> bool:
        """Its owner takes its id to the next epoch amid a transaction (KIP-360), which is aborted so. False: the id was taken from it, by
        nobody, and at one coordinator."""
        producer = await self._opened(bumps=True)
        if producer is None:
            return True
        room = room_of(self.name)
        try:
            await producer.take_over()
        except (Fenced, Refused):
            return self._may_be_fenced or room is None or room_of(self.name) is not room
        return True

    async def _opened(self, *, bumps: bool) -> TransactionalProducer | None:
        """A transaction with the next offset. None: it was refused, and what it sent may still come."""
        producer = TransactionalProducer(self._client, self.name, self.name, TIMEOUT_MS)
        self._next += 1
        try:
            await producer.take_over()
            # One more InitProducerId may come, and takes the id from this producer.
            self._may_be_fenced = self._may_be_fenced or producer.is_unheard
            producer.bumps = bumps
            await producer.send_offset(self._partition, self._next)
        except (Fenced, Refused):
            self.late.add(self._next)
            return None
        return producer

    async def fetched(self) -> int | None:
        """None: not now."""
        found = await self.group.offsets([self._partition], are_stable=True)
        return None if found is None else found[self._partition]

    async def _ask(self, request: Any) -> Any:
        try:
            return await self.group.ask(request)
        except RequestFailed:
            return None

    def _gone(self, code: int) -> int:
        is_certain = code != ErrorCode.NONE or self._leads(self)
        return self._told(code if is_certain else ErrorCode.NOT_COORDINATOR, NOTHING)

    def _told(self, code: int, value: int) -> int:
        self.may_be = {value} if code == ErrorCode.NONE else {*self.may_be, value}
        if code == ErrorCode.NETWORK_EXCEPTION:
            self.late.add(value)
        if code != ErrorCode.NONE:
            self.group.moved()
        return code


class OffsetKeeping:
    if TYPE_CHECKING:
        world: World
        plan: Plan
        _new_client: Any
        _client: SimClient

    _groups = 0

    async def _reset_offsets(self, fault: Fault) -> str:
        """In the end the group is deleted, however long that takes."""
        client = self._new_client()
        await GroupClient(client, RESET).found()  # coordinators are made for whoever asks first
        kept = KeptOffset(client, self._new_group(), KEPT, self._leads)
        rng = random.Random(fault.amount)
        has_visitors = self.plan.has_sharers or bool(self.plan.mixed_group)
        if has_visitors and rng.random() < 0.5:
            await kept.visit()
        while await kept.commit() != ErrorCode.NONE:
            await asyncio.sleep(RETRY_S)
        said: list[str] = []
        alone_s = self._leave_alone(kept, fault)
        alone_until_s = self.world.loop.time() + alone_s
        until_s = alone_until_s + fault.lasts_s
        while ((now_s := self.world.loop.time()) < until_s and not self.world.is_healed) or len(
            said
        ) < LEAST_STEPS:
            said.append(
                await self._step(kept, rng, has_visitors=has_visitors, is_alone=now_s < alone_until_s)
            )
            await self._judge_kept(kept)
            await asyncio.sleep(rng.uniform(LEAST_PAUSE_S, MOST_PAUSE_S))
        while await kept.commit() != ErrorCode.NONE:
            await asyncio.sleep(RETRY_S)
        await self._judge_kept(kept)
        while await kept.delete_group() not in GONE:
            await asyncio.sleep(RETRY_S)
        await self._judge_kept(kept)
        return (
            f"{kept.name}, alone for {alone_s:g} s: {', '.join(said)}, and it is deleted"
            + ", in doubt" * bool(kept.late)
        )

    def _new_group(self) -> str:
        """One whose coordinator may be alone, if there is any."""
        for _ in range(NAMES_TRIED):
            self._groups += 1
            group = f"{RESET}-{self._groups}"
            if self._followers(group):
                break
        return group

    def _followers(self, group: str) -> list[SimBroker]:
        """Of its partition. Nobody, if the controller is one of them, for the leader asks that to take them out of the ISR."""
        state = self.world.view_of(partition_that_coordinates(self.world, OF_GROUPS, group))
        if state is None or state.stored is None:
            return []
        followers = [self.world.brokers[b] for b in state.assignment if b != state.stored.leader]
        return [] if controller(self.world) in followers else followers

    def _leave_alone(self, kept: KeptOffset, fault: Fault) -> float:
        """For how long nobody follows the coordinator; 0: not at all."""
        coordinator, followers = self._coordinates(kept), self._followers(kept.name)
        if coordinator is None or not followers or fault.target >= IS_ALONE or self.world.is_healed:
            return 0.0
        lasts_s: float = coordinator.settings().replica_lag_time_max_ms / 1000 + fault.lasts_s
        cut(self.world, both_ways(coordinator, followers), lasts_s)
        return lasts_s

    async def _step(self, kept: KeptOffset, rng: random.Random, *, has_visitors: bool, is_alone: bool) -> str:
        steps: list[Callable[[], Awaitable[int | None]]] = [
            kept.commit,
            kept.commit,
            kept.delete,
            kept.delete_group,
        ]
        steps += [kept.visit] * has_visitors
        if self.plan.has_transactions and not is_alone and rng.random() < 0.5:
            if rng.random() < 0.3 and await is_version_2_in_force(self._client):
                await self._judge_owner(kept)
                return "a transaction that its owner gives up"
            plain, is_commit = rng.choice((None, kept.commit, kept.delete)), rng.random() < 0.7
            await kept.in_a_transaction(plain, is_commit=is_commit)
            return "a transaction" + (f" with {plain.__name__} in it" if plain else "")
        step = rng.choice(steps)
        code = await step()
        return f"{step.__name__}: {ErrorCode(code).name}" if code else step.__name__

    async def _judge_owner(self, kept: KeptOffset) -> None:
        """OwnerIsNotFenced: who has a transactional id for itself gets its next epoch, whatever is open."""
        if not await kept.begun_anew(self._room_of) and not self._may_be_lost():
            said = f"{kept.name} was taken from its owner, and nobody else has it"
            self.world.let_in.append(Anomaly("OwnerIsNotFenced", None, said))

    def _room_of(self, transactional_id: str) -> object:
        """Of the coordinator that has it and knows that owners are kept; None: of several, or of none."""
        rooms = [
            shard.coordinator.room
            for _, core in at_work(self.world).brokers.values()
            for shard in core.transactions.shards.values()
            if shard.coordinator is not None and transactional_id in shard.coordinator.room.stored.by_id
        ]
        return rooms[0] if len(rooms) == 1 and rooms[0].transaction_version() >= BUMPING_LEVEL else None

    async def _judge_kept(self, kept: KeptOffset) -> None:
        """OffsetIsKept: what a coordinator that is one says of an offset is what was done last."""
        found = await kept.fetched()
        if found is None or self._may_be_lost() or not self._leads(kept):
            return
        if found not in kept.may_be | kept.late:
            self.world.let_in.append(
                Anomaly(
                    "OffsetIsKept",
                    None,
                    f"{kept.name} has the offset {found}, and by what was done last it is one of {sorted(kept.may_be | kept.late)}",
                )
            )

    def _may_be_lost(self) -> bool:
        """By an unclean election."""
        return any(one.topic in (GROUPS_TOPIC, TRANSACTIONS_TOPIC) for one in self.world.topics.lossy())

    def _coordinates(self, kept: KeptOffset) -> SimBroker | None:
        """Whoever was asked, if it leads the group's partition, in the epoch of now: one that was deposed may not know it yet."""
        partition = partition_that_coordinates(self.world, OF_GROUPS, kept.name)
        state, address = self.world.view_of(partition), kept.group.coordinator
        if state is None or state.stored is None or address is None:
            return None
        broker = next(b for b in self.world.brokers.values() if b.name == address[0])
        replica = broker.replica(partition)
        leads = (
            replica is not None and replica.is_leader and replica.leader_epoch == state.stored.leader_epoch
        )
        return broker if leads else None

    def _leads(self, kept: KeptOffset) -> bool:
        return self._coordinates(kept) is not None
