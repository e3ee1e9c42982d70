"""Who writes to the ledger and reads it: producers with transactional ids, two of them with one, and a reader of each partition.

Zombies take the id from each other: who was fenced waits, and takes it over again. A transaction may be abandoned, aborted, or
stand still in its midst until it has timed out.
"""

import asyncio
import random
from collections.abc import Iterator

from odradek.model.features import TRANSACTION_VERSION
from odradek.model.ids import TopicPartition
from odradek.sim.checkers.deliveries import FINAL
from odradek.sim.checkers.history import Value
from odradek.sim.checkers.transactions import (
    Attempt,
    Position,
    Repeat,
    TransactionHistory,
)
from odradek.sim.clients.client import RETRY_S, SimClient
from odradek.sim.clients.client_process import ClientProcess, Workplace
from odradek.sim.clients.group_member import GroupClient
from odradek.sim.clients.ledger import (
    LEDGER,
    PARTITIONS,
    POSITION,
    TIMEOUT_MS,
    BatchReader,
    CommittedReader,
    group_of,
)
from odradek.sim.clients.transactional_producer import Fenced, Refused, TransactionalProducer
from odradek.sim.loop import Host
from odradek.sim.world import World

OWNERS = ("pay-0", "pay-0", "pay-1")  # of each process
IDS = tuple(dict.fromkeys(OWNERS))
# Of ten transactions one is aborted by its application, and of twenty one stands still for longer than it may be open.
ABORTS, STANDS_STILL = 0.1, 0.05
STANDS_STILL_S = 1.5 * TIMEOUT_MS / 1000
# From a cluster at rest: to take an id over and commit, with a client that has heard of nobody yet.
PROMPT_S = 10.0
BUMPING_LEVEL = 2  # of `transaction.version`


class LedgerProcess(ClientProcess):
    """`t0`; each of its lives is another producer of the same id."""

    def __init__(self, workload: Workplace, ledger: "Ledger", number: int) -> None:
        super().__init__(workload)
        self.number = number
        self._ledger = ledger
        self.transactional_id = OWNERS[number]
        self._is_done = False

    @property
    def is_busy(self) -> bool:
        """It has not ended what it had begun."""
        return self.is_running and not self._is_done

    async def live(self, host: Host) -> None:
        self._is_done = False
        draws = random.Random(f"ledger-{self.workload.plan.seed}-{self.number}-{self.lives}")
        client = await self._ledger.connected()
        while not self.workload.is_over:
            try:
                await self._own(client, draws)
            except Fenced:
                await asyncio.sleep(draws.uniform(0.2, 2.5))
        self._is_done = True

    async def _own(self, client: SimClient, draws: random.Random) -> None:
        """Until another one takes it."""
        ledger, name = self._ledger, self.transactional_id
        producer = ledger.producer(client, name)
        knows_version_2 = self.number < self.workload.plan.bumping_owners
        while not self.workload.is_over:
            await self._take_over(producer)
            number = await ledger.position(client, name)
            while not (self.workload.is_over or producer.is_in_doubt or self._repeats(producer)):
                if knows_version_2 and not producer.bumps:
                    producer.bumps = await is_version_2_in_force(client)
                number += 1
                drawn = draws.sample(PARTITIONS, draws.choice((1, 2, 3)))
                adds_every_s = ledger.take_adds_every_s() if self._is_alone else 0.0
                attempt = ledger.begin(name, number, PARTITIONS if adds_every_s else drawn)
                stands_still = draws.random() < STANDS_STILL or adds_every_s > 0.0
                await carry_out(
                    producer,
                    attempt,
                    ledger.world,
                    is_commit=draws.random() >= ABORTS,
                    stands_still_s=STANDS_STILL_S if stands_still else 0.0,
                    adds_every_s=adds_every_s,
                )
                if attempt.fate != "committed":
                    number -= 1
                await asyncio.sleep(max(self.workload.plan.pause_between_sends_s, 0.1))

    def _repeats(self, producer: TransactionalProducer) -> bool:
        """Whether its next InitProducerId is to be repeated: of who has its id for itself, and asks for its own next epoch."""
        return self._ledger.repeats > 0 and self._is_alone and producer.has_an_epoch

    @property
    def _is_alone(self) -> bool:
        """It has its id for itself."""
        return OWNERS.count(self.transactional_id) == 1

    async def _take_over(self, producer: TransactionalProducer) -> None:
        ledger, name = self._ledger, self.transactional_id
        if not self._repeats(producer):
            await producer.take_over()
            return
        repeats, ledger.repeats = ledger.repeats, 0
        world, asked_s = ledger.world, ledger.world.loop.time()
        before = world.term_of_transactions(producer.coordinator, name)
        told = await producer.take_over(repeats=repeats)
        if before is not None and before == world.term_of_transactions(producer.coordinator, name):
            ledger.history.repeats.append(Repeat(name, asked_s, tuple(told)))


async def is_version_2_in_force(client: SimClient) -> bool:
    return await client.finalised(TRANSACTION_VERSION) >= BUMPING_LEVEL


async def carry_out(
    producer: TransactionalProducer,
    attempt: Attempt,
    world: World,
    *,
    is_commit: bool = True,
    stands_still_s: float = 0.0,
    adds_every_s: float = 0.0,
) -> None:
    """Fenced: somebody else has the id; the attempt says what became of it in any case. `adds_every_s`: a partition, one after the
    other; else all at once."""
    together = [attempt.values]
    if adds_every_s:
        together = [{partition: values} for partition, values in attempt.values.items()]
    try:
        for values in together:
            await producer.add(values)
            await producer.send_all(values)
            if adds_every_s:
                await asyncio.sleep(adds_every_s)
        await asyncio.sleep(stands_still_s)
        await producer.send_offset(POSITION, attempt.number)
    except Refused:
        is_commit = False
    if is_commit:
        attempt.fate = "unknown"
    fate = await producer.end(is_commit=is_commit)
    attempt.fate, attempt.told_s = fate, world.loop.time()


class ReaderProcess(ClientProcess):
    """Reads what is committed; its next life goes on where it was."""

    def __init__(self, workload: Workplace, ledger: "Ledger", partition: TopicPartition) -> None:
        super().__init__(workload)
        self._ledger = ledger
        self._partition = partition
        self._reader: CommittedReader | None = None

    async def live(self, host: Host) -> None:
        client = await self._ledger.connected()
        if self._reader is None:
            self._reader = self._ledger.reader(client, "committed-", self._partition)
        self._reader.client = client
        while not self.workload.is_over:
            await self._reader.poll()


class Ledger:
    def __init__(self, workload: Workplace) -> None:
        self.world = workload.world
        self._workload = workload
        plan = workload.plan
        all_bump = plan.bumping_owners == len(OWNERS) and plan.first_level >= BUMPING_LEVEL
        self.history = TransactionHistory(all_bump=all_bump)
        self.producers = [LedgerProcess(workload, self, number) for number in range(len(OWNERS))]
        self.readers = [ReaderProcess(workload, self, partition) for partition in PARTITIONS]
        self.moves = 0  # of coordinators, under way
        self.repeats = 0  # of the next InitProducerId of an owner's own epoch
        self.adds_every_s = 0.0  # the next transaction of who has an id for itself, once

    def start(self) -> None:
        for process in (*self.producers, *self.readers):
            process.start()

    def new_host(self) -> Host:
        return self._workload.new_host()

    async def connected(self) -> SimClient:
        client = self._workload.client()
        await client.refresh([LEDGER])
        return client

    def producer(self, client: SimClient, transactional_id: str) -> TransactionalProducer:
        return TransactionalProducer(client, transactional_id, group_of(transactional_id), TIMEOUT_MS)

    def reader(self, client: SimClient, prefix: str, partition: TopicPartition) -> CommittedReader:
        return CommittedReader(client, f"{prefix}{partition.partition}", partition, self.history.reads)

    def take_adds_every_s(self) -> float:
        seconds, self.adds_every_s = self.adds_every_s, 0.0
        return seconds

    def begin(self, name: str, number: int, partitions: list[TopicPartition]) -> Attempt:
        attempt = len(self.history.attempts)
        values: dict[TopicPartition, tuple[Value, ...]] = {
            partition: (f"{name}:{number}:{attempt}:{partition.partition}".encode(),)
            for partition in sorted(partitions)
        }
        self.history.attempts.append(Attempt(name, number, values))
        self.history.begun_s[name] = self.world.loop.time()
        return self.history.attempts[-1]

    async def position(self, client: SimClient, name: str, *, is_final: bool = False) -> int:
        """Of the last transaction that counts, as the group says, when nothing open can change it."""
        group = GroupClient(client, group_of(name))
        asked_s = group.now_s
        while (found := await group.offsets([POSITION], are_stable=True)) is None:
            await asyncio.sleep(RETRY_S)
        self.history.positions.append(Position(name, found[POSITION], asked_s, is_final))
        return found[POSITION]

    # --- the end

    def unfinished(self) -> Iterator[str]:
        """What is open or not carried out yet, at whoever coordinates it and in the logs."""
        running = sum(process.is_busy for process in self.producers)
        if running:
            yield f"{running} transactional producers are"
        if self.moves:
            yield f"{self.moves} moves of coordinators are"
        for broker in self.world.brokers.values():
            if not broker.is_serving or broker.runtime is None:
                continue
            parts = broker.runtime.broker
            for shard in parts.transactions.shards.values():
                if shard.coordinator is None:
                    yield f"the load of {shard.partition.topic_partition} on {broker.name} is"
                    continue
                stored = shard.coordinator.room.stored
                for name in (*stored.ongoing, *stored.prepared):
                    yield f"the transaction of {name} ({stored.by_id[name].state.title}) is"
            for partition in PARTITIONS:
                # With an unclean election a marker may be lost that its coordinator knows to be written: it writes no other one.
                if self.world.topics.unclean_elections_of(partition):
                    continue
                replica = parts.replicas.partitions.get(partition)
                if replica is not None and replica.is_leader:
                    for one in replica.log.producers.all():
                        if one.transaction_first_offset >= 0:
                            yield f"the transaction of producer {one.producer_id} in {partition} is"

    def take_over_all(self, host: Host) -> None:
        """Where clocks were set, what is open may have begun an hour from now: its owner comes back and ends it."""

        async def take_over(name: str) -> None:
            try:
                await self.producer(await self.connected(), name).take_over()
            except Fenced:
                return  # by the other one that comes back

        for name in IDS:
            self.world.spawn(host, take_over(name))

    def goes_on(self, host: Host) -> None:
        """Every id commits once more; NotInTime if one does not."""

        async def commit(name: str) -> None:
            client = await self.connected()
            producer = self.producer(client, name)
            producer.bumps = self._workload.plan.bumping_owners > 0 and await is_version_2_in_force(client)
            await producer.take_over()
            attempt = self.begin(name, 1 + await self.position(client, name), PARTITIONS)
            await carry_out(producer, attempt, self.world)
            assert attempt.fate == "committed", f"{attempt}, in a cluster at rest"

        for name in IDS:
            self.world.call(host, commit(name), within_s=PROMPT_S)

    def read_everything(self, host: Host) -> None:
        async def read(reader: CommittedReader | BatchReader) -> None:
            while await reader.poll(max_wait_ms=0) > 0 or not reader.is_at_the_end:
                pass

        async def positions() -> None:
            client = await self.connected()
            for name in IDS:
                await self.position(client, name, is_final=True)

        client = self.world.call(host, self.connected())
        for partition in PARTITIONS:
            self.world.call(host, read(self.reader(client, FINAL, partition)))
            whole = BatchReader(client, f"batches-{partition.partition}", partition, self.history.reads)
            self.world.call(host, read(whole))
            self.history.written += whole.written
        self.world.call(host, positions())
