"""The clients of a run: producers and consumers, each a process of its own on the clients' machine.

They live until the run heals. `faults.clients` kills them, lets others take their place, and breaks their connections.
"""

import asyncio
import math
import random
from collections.abc import Callable
from typing import Any

from odradek.model.ids import TopicPartition
from odradek.sim.checkers.deliveries import FINAL
from odradek.sim.checkers.groups import GroupHistory
from odradek.sim.checkers.history import History
from odradek.sim.checkers.mixed import MixedHistory
from odradek.sim.checkers.sharers import Shared, SharingHistory
from odradek.sim.clients import states
from odradek.sim.clients.client import SimClient
from odradek.sim.clients.client_process import ClientProcess
from odradek.sim.clients.consumer import SimConsumer
from odradek.sim.clients.group_member import GROUP, GroupMember
from odradek.sim.clients.ledger_workload import Ledger
from odradek.sim.clients.mixed_group import GUESTS, STAYERS, ClassicMember, MixedSharer
from odradek.sim.clients.pipelined_producer import PipelinedProducer
from odradek.sim.clients.producer import SimProducer, by_its_name
from odradek.sim.clients.replica_consumer import RackConsumer, ReplicaConsumer
from odradek.sim.clients.sharer import Sharer
from odradek.sim.loop import Host
from odradek.sim.plan import COMPACTED, MOVE_THE_LOG_START, PACE, UNCLEAN, Plan
from odradek.sim.world import World

MACHINE, NUMBER = "c1", 101
STATES = TopicPartition(COMPACTED, 0)
STATE_PRODUCERS = 2  # of the same keys
MEMBERS = 3
SHARERS = 3  # of a group of KIP-848
# Of guests of a group of both protocols: how long they stay, and how long they are away.
STAYS_S, AWAY_S = (1.0 * PACE, 5.0 * PACE), (1.0 * PACE, 6.0 * PACE)
STEALS_AWAY = 0.25  # of the times that it goes, without a word
WHOLE_LOG = 1 << 20  # bytes
BETWEEN_BURSTS_S = 0.2  # a seed with 300 batches a second takes as long as ten others, and shows no more
BY_REPLICA = "replica-"  # names of consumers that read from any copy


class ProducerProcess(ClientProcess):
    """`p0`; who takes its place is `p0.1`, another producer with another producer id."""

    workload: "Workload"
    prefix = "p"
    least_pause_s = 0.0

    def __init__(self, workload: "Workload", number: int) -> None:
        super().__init__(workload)
        self.number = number
        self._is_sending = False
        # What its application does not know the fate of, and sends again in its next life.
        self.to_send_again: list[tuple[TopicPartition, list[bytes]]] = []
        self.on_next_send: Callable[[], None] | None = None
        self._producer: SimProducer | None = None
        self._count = 0

    def kill(self) -> None:
        if self.is_running and self._producer is not None:
            self._producer.abandon()
        self._is_sending = False
        super().kill()

    async def live(self, host: Host) -> None:
        workload = self.workload
        plan = workload.plan
        client = await workload.connected()
        producer = self._producer = self._new_producer(client)
        await producer.open()
        batches = 0
        while not workload.is_over:
            if self.to_send_again:
                partition, values = self.to_send_again.pop()
            else:
                partition, values = self._next(plan.records_per_batch)
                self._count += plan.records_per_batch
            self._is_sending = True
            if self.on_next_send is not None:
                happens, self.on_next_send = self.on_next_send, None
                happens()
            if isinstance(producer, PipelinedProducer):
                await producer.produce(partition, values)
            else:
                await producer.send(partition, values)
            self._is_sending = False
            batches += 1
            if batches % plan.in_flight == 0:  # who has several in flight sends them together
                least_s = self.least_pause_s if plan.in_flight == 1 else BETWEEN_BURSTS_S
                await asyncio.sleep(max(plan.pause_between_sends_s, least_s))

    def _next(self, count: int) -> tuple[TopicPartition, list[bytes]]:
        """The next batch, of so many values."""
        partitions = self.workload.partitions
        batches = self._count // count
        partition = partitions[(batches + self.number) % len(partitions)]
        return partition, [f"{self.number}-{self._count + n}".encode() for n in range(count)]

    def _options(self) -> dict[str, Any]:
        workload, plan = self.workload, self.workload.plan
        return {
            "acks": plan.acks,
            "is_idempotent": plan.is_idempotent,
            "named": workload.world.topics.now if plan.is_administered else by_its_name,
            "codec": plan.codec,
        }

    def _new_producer(self, client: SimClient) -> SimProducer:
        workload, plan = self.workload, self.workload.plan
        name = f"{self.prefix}{self.number}" + (f".{self.lives - 1}" if self.lives > 1 else "")
        options = self._options()
        if plan.in_flight == 1:
            return SimProducer(client, name, workload.history, **options)
        gaps = random.Random(f"gaps-{plan.seed}-{name}") if plan.leaves_gaps else None
        return PipelinedProducer(client, name, workload.history, gaps=gaps, **options)

    @property
    def is_sending(self) -> bool:
        """Something waits for an answer; of a producer with several in flight also when there is room for more."""
        return self._is_sending or (self._producer is not None and self._producer.is_busy)

    @property
    def in_flight(self) -> tuple[TopicPartition, list[bytes]] | None:
        return None if self._producer is None else self._producer.in_flight


class StateProducerProcess(ProducerProcess):
    """`s0` keeps the state of a few keys in the compacted topic."""

    prefix = "s"
    least_pause_s = 0.15

    def _next(self, count: int) -> tuple[TopicPartition, list[bytes]]:
        return STATES, [states.text_of(self.number, self._count + n) for n in range(count)]

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "acks": -1, "is_idempotent": True, "record_of": states.record_of}


class GroupProcess(ClientProcess):
    """Whoever is a member of some group in each of its lives, one after another."""

    workload: "Workload"
    _member: GroupMember | Sharer | MixedSharer | ClassicMember | None = None

    def __init__(self, workload: "Workload", number: int) -> None:
        super().__init__(workload)
        self.number = number

    def pause(self, seconds: float) -> None:
        super().pause(seconds)
        if self._member is not None:
            self._member.commits_next = True


class MemberProcess(GroupProcess):
    """`m0` is a member of the group; who takes its place is another one."""

    _member: GroupMember | None = None

    async def live(self, host: Host) -> None:
        workload = self.workload
        client = await workload.connected()
        name = f"m{self.number}.{self.lives}"
        self._member = GroupMember(
            client,
            name,
            workload.group_history,
            workload.partitions,
            lambda: workload.are_groups_over,
            lambda address: workload.world.term_of_group(address, GROUP),
            instance=f"i{self.number}" if workload.plan.has_static_members else None,
            is_slow=workload.plan.has_slow_members,
            takes_s=workload.take_sharing_out_s,
        )
        await self._member.live()

    @property
    def waits_s(self) -> float:
        """For an answer to JoinGroup or SyncGroup; 0: for none."""
        return 0.0 if self._member is None or not self.is_running else self._member.waits_s


class SharerProcess(GroupProcess):
    """`n0` is a member of the group of KIP-848; who takes its place is another one."""

    _member: Sharer | None = None

    @property
    def owned(self) -> frozenset[Shared]:
        return frozenset() if self._member is None else self._member.owned

    def kill(self) -> None:
        if self.is_running and self._member is not None:
            self._member.give_up()
        super().kill()

    async def live(self, host: Host) -> None:
        workload = self.workload
        client = await workload.connected()
        self._member = Sharer(
            client,
            f"n{self.number}.{self.lives}",
            workload.sharing_history,
            list(workload.plan.topics),
            lambda: workload.are_groups_over,
        )
        await self._member.live()


class MixedProcess(GroupProcess):
    """`x0` and `x1` are classic members of a group. `x2` comes, for a while each time, as one of KIP-848, and `x3` as one of each kind
    in turns: the group is converted when they come and when they have gone. Whoever else comes stays until it is killed."""

    _member: MixedSharer | ClassicMember | None = None

    def __init__(self, workload: "Workload", number: int) -> None:
        super().__init__(workload, number)
        self._visits = 0
        self._goes_at_s = math.inf
        self._away_until_s = 0.0
        self.is_asked_to_stay = False  # as one of KIP-848, until it is sent away

    @property
    def owned(self) -> frozenset[Shared]:
        return frozenset() if self._member is None else self._member.owned

    @property
    def epoch(self) -> int:
        """Of the group, as far as it was told; a generation of a classic member."""
        return 0 if self._member is None else self._member.epoch

    @property
    def is_guest(self) -> bool:
        return STAYERS <= self.number < STAYERS + GUESTS

    def kill(self) -> None:
        if self.is_running and self._member is not None:
            self._member.give_up()
        super().kill()

    def send_away(self, seconds: float = 0.0) -> None:
        """For so long at least, and it says so."""
        self._goes_at_s = 0.0
        if seconds and isinstance(self._member, MixedSharer):
            self._member.leaves = True
        self._away_until_s = self.workload.world.loop.time() + seconds

    @property
    def is_visiting_by_kip_848(self) -> bool:
        return self.is_guest and isinstance(self._member, MixedSharer)

    def stay_for(self, seconds: float) -> None:
        self._goes_at_s = max(self._goes_at_s, self.workload.world.loop.time() + seconds)

    async def live(self, host: Host) -> None:
        workload = self.workload
        client = await workload.connected()
        rng = random.Random(f"mixed-{workload.plan.seed}-{self.number}-{self.lives}")
        self._goes_at_s = math.inf
        if not self.is_guest:
            of_kip_848 = self.number >= STAYERS and self.number % 2 == 0
            await self._visit(client, is_of_kip_848=of_kip_848, leaves=True)
        elif self.is_asked_to_stay:
            await self._visit(client, is_of_kip_848=True, leaves=True)
        else:
            while not workload.are_groups_over:
                await asyncio.sleep(rng.uniform(*AWAY_S))
                while (left_s := self._away_until_s - workload.world.loop.time()) > 0:
                    await asyncio.sleep(left_s)
                self._goes_at_s = workload.world.loop.time() + rng.uniform(*STAYS_S)
                of_kip_848 = self.number == STAYERS or self._visits % 2 == 1
                await self._visit(client, is_of_kip_848=of_kip_848, leaves=rng.random() >= STEALS_AWAY)

    async def _visit(self, client: SimClient, *, is_of_kip_848: bool, leaves: bool) -> None:
        workload = self.workload
        plan, history = workload.plan, workload.mixed_history
        self._visits += 1
        name, topics = f"x{self.number}.{self._visits}", list(plan.topics)
        options: dict[str, Any] = {
            "instance": f"i{self.number}" if plan.has_static_members else None,
            "is_strict": self.number % 4 != 0 or workload.is_over,
            "leaves": leaves,
        }

        def is_over() -> bool:
            return workload.are_groups_over or workload.world.loop.time() >= self._goes_at_s

        if is_of_kip_848:
            self._member = MixedSharer(client, name, history, topics, is_over, **options)
        else:
            protocol = plan.mixed_group
            self._member = ClassicMember(
                client, name, history, topics, workload.partitions, is_over, protocol=protocol, **options
            )
        await self._member.live()
        self._member = None


class ConsumerProcess(ClientProcess):
    """Reads one partition by assignment; its next life goes on behind the last record it has seen."""

    workload: "Workload"

    def __init__(self, workload: "Workload", partition: TopicPartition, name: str) -> None:
        super().__init__(workload)
        self.partition = partition
        self.name = name
        self._consumer: SimConsumer | None = None

    async def live(self, host: Host) -> None:
        workload = self.workload
        client = await workload.connected()
        if self._consumer is None:
            self._consumer = workload.consumer(client, self.name, self.partition)
        self._consumer.client = client
        while not workload.is_over:
            await self._consumer.poll()


class Workload:
    def __init__(self, world: World, plan: Plan, history: History, topic: str) -> None:
        self.world = world
        self.plan = plan
        self.history = history
        self.topic = topic
        self.is_over = self.are_groups_over = False
        self.partitions = [TopicPartition(topic, n) for n in range(plan.partitions)]
        self.partitions += [TopicPartition(other, 0) for other in plan.topics[1:]]
        self.producers = [ProducerProcess(self, number) for number in range(plan.producers)]
        if plan.has_states:
            self.producers += [StateProducerProcess(self, number) for number in range(STATE_PRODUCERS)]
        self.consumers: list[ConsumerProcess] = []
        self.members = [MemberProcess(self, number) for number in range(MEMBERS if plan.has_group else 0)]
        self.sharers = [SharerProcess(self, number) for number in range(SHARERS if plan.has_sharers else 0)]
        mixed = STAYERS + GUESTS if plan.mixed_group else 0
        self.mixed = [MixedProcess(self, number) for number in range(mixed)]
        self.group_history = GroupHistory()
        self.sharing_out_takes_s = 0.0  # the next leader of the group, once
        self.sharing_history = SharingHistory()
        self.mixed_history = MixedHistory()
        self.ledger = Ledger(self) if plan.has_transactions else None
        self._processes = 0

    def start(self) -> None:
        for producer in self.producers:
            producer.start()
        for member in (*self.members, *self.sharers, *self.mixed):
            member.start()
        if self.ledger is not None:
            self.ledger.start()
        for partition in self.partitions:
            self._follow(partition)
        if self.plan.has_states:
            self._follow(STATES)

    @property
    def processes(self) -> list[ClientProcess]:
        return [*self.producers, *self.consumers]

    def go_on(self) -> None:
        """Nobody stands still any more, or takes long."""
        self.sharing_out_takes_s = 0.0
        transactional = [] if self.ledger is None else self.ledger.producers
        for process in (*self.members, *self.sharers, *self.mixed, *transactional):
            process.go_on()

    def take_sharing_out_s(self) -> float:
        seconds, self.sharing_out_takes_s = self.sharing_out_takes_s, 0.0
        return seconds

    @property
    def all_partitions(self) -> list[TopicPartition]:
        return [*self.partitions, STATES] if self.plan.has_states else self.partitions

    @property
    def sends_under_way(self) -> int:
        return sum(producer.is_sending for producer in self.producers)

    def partitions_are(self, count: int) -> None:
        """Partitions that were added get their consumer; producers find them by themselves."""
        known = sum(partition.topic == self.topic for partition in self.partitions)
        for number in range(known, count):
            self.partitions.append(TopicPartition(self.topic, number))
            if not self.is_over:
                self._follow(self.partitions[-1])

    def _follow(self, partition: TopicPartition) -> None:
        names = ["follow-", BY_REPLICA] if self.plan.reads_from_replicas else ["follow-"]
        for name in names:
            if partition == STATES and name == BY_REPLICA:
                continue  # each copy is compacted by itself: from another one the last record of a key is read again
            self.consumers.append(ConsumerProcess(self, partition, f"{name}{partition.partition}"))
            self.consumers[-1].start()

    # --- what every process needs

    def new_host(self) -> Host:
        self._processes += 1
        return Host(MACHINE, NUMBER, self._processes)

    def client(self) -> SimClient:
        return SimClient(self.world.loop, Host(MACHINE, NUMBER), self.world.addresses)

    async def connected(self) -> SimClient:
        client = self.client()
        await client.refresh(list(self.plan.all_topics))
        return client

    def consumer(self, client: SimClient, name: str, partition: TopicPartition) -> SimConsumer:
        plan = self.plan
        kind: type[SimConsumer] = SimConsumer
        if name.startswith(BY_REPLICA):
            kind = RackConsumer if self.world.has_racks else ReplicaConsumer
        if partition == STATES:
            kind = states.StateConsumer
        return kind(
            client,
            name,
            partition,
            self.history,
            named=self.world.topics.named if plan.is_administered else None,
            may_start_over=plan.has(UNCLEAN | MOVE_THE_LOG_START) or plan.forgets_states,
            fetch_bytes=WHOLE_LOG if name.startswith(FINAL) else plan.fetch_bytes,
        )
