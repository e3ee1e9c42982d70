"""What administrators do to the topic of a seed, over the wire as their tools do it (F24-F27, F29 of the matrix).

An action is drawn in the plan like a fault, and shrunk like one. It asks whoever calls itself controller, goes on
asking while the answer says "later" or does not come, and gives up on a refusal. What it asked for and has not got
by the end of the faults has to come true once everything is healed: the run waits for `working` to be nothing.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from odradek.model.error_codes import RETRIABLE, ErrorCode
from odradek.model.ids import BrokerId, TopicPartition
from odradek.protocol.messages import alter_partition_reassignments as alter_reassignments
from odradek.protocol.messages import (
    create_partitions,
    delete_records,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    list_offsets,
    list_partition_reassignments,
)
from odradek.sim.checkers.beliefs import deleted_everywhere
from odradek.sim.clients.client import EPOCH_MS, Address, RequestFailed, SimClient
from odradek.sim.clients.kept_offsets import OffsetKeeping
from odradek.sim.clients.namesakes import Namesakes
from odradek.sim.clients.operations import EARLIEST, LATEST, MAX_TIMESTAMP, TOPIC_RESOURCE, Operations
from odradek.sim.faults.targets import both_ways, cut, later, start_again
from odradek.sim.loop import Host
from odradek.sim.plan import COMPACTED, Fault, Plan
from odradek.sim.world import NotInTime, SimBroker, World

SET, DELETE = 0, 1
PREFERRED, UNCLEAN = 0, 1
MOST_PARTITIONS = 4
ATTEMPTS = 8
PAUSE_S = 0.2
LAGGING_S = 3.0
# Of a member that died: its session, and some turns. And of a producer, until it waits for an answer.
SMALLER_S, WAIT_S = 4.0, 0.3
AT_REST = "made-at-rest"
# Of a cluster at rest, with writes to the store and a request or two to each broker. Whoever is not woken waits for two seconds.
PROMPTLY_S = 1.0


class Administration(Operations, Namesakes, OffsetKeeping):
    """One client that carries out actions one beside the other."""

    def __init__(self, world: World, plan: Plan, topic: str, configs: dict[str, str]) -> None:
        self.world = world
        self.plan = plan
        self.topic = topic
        self.working = 0
        self._configs = configs
        self._most_partitions = plan.partitions
        self._is_recreating = False
        self._namesakes: dict[TopicPartition, int] = {}
        self._put_back: dict[TopicPartition, BrokerId] = {}
        # Up to where records were to be deleted at most; no bound, where nobody knows.
        self.asked_to_delete: dict[TopicPartition, float] = {}
        self._host = Host("a1", 102)
        self._client = self._new_client()

    def _new_client(self) -> SimClient:
        return SimClient(self.world.loop, self._host, self.world.addresses)

    def begin(self, fault: Fault) -> bool:
        """False: there is nothing to do it to."""
        action: Callable[[Fault], Awaitable[str]] | None = getattr(self, f"_{fault.kind}")
        assert action is not None
        if self._partition(fault) is None or (fault.kind == "recreate_topic" and self._is_recreating):
            return False

        async def run() -> None:
            self.working += 1
            try:
                said = await action(fault)
            finally:
                self.working -= 1
            self.world.note(f"administrator: {fault.kind}: {said}")

        self._is_recreating = self._is_recreating or fault.kind == "recreate_topic"
        self.world.spawn(self._host, run())
        return True

    # --- asking

    def _topic(self, fault: Fault) -> str:
        topics = self.plan.all_topics
        return topics[int(fault.amount * 997) % len(topics)]

    def _partition(self, fault: Fault) -> TopicPartition | None:
        topic = self._topic(fault)
        found = self.world.topics.assignment(topic)
        if found is None or not found.partitions:
            return None
        numbers = sorted(found.partitions)
        return TopicPartition(topic, numbers[int(fault.target * len(numbers))])

    async def _ask(self, message: Any, code_of: Callable[[Any], int], *, attempts: int = ATTEMPTS) -> str:
        """The error of the last answer by name, or why there is none."""
        said = "not asked"
        for _ in range(attempts):
            await self._client.refresh([])
            address = self._client.brokers.get(self._client.controller)
            if address is None:
                said = "no controller"
            else:
                try:
                    answer = await self._client.ask(address, message)
                except RequestFailed:
                    said = "no answer"
                else:
                    code = ErrorCode(code_of(answer))
                    said = code.name
                    if code == ErrorCode.NONE or (
                        code not in RETRIABLE and code is not ErrorCode.NOT_CONTROLLER
                    ):
                        break
            await asyncio.sleep(PAUSE_S)
        return said

    async def _leader(self, partition: TopicPartition) -> Address | None:
        await self._client.refresh([partition.topic])
        return self._client.brokers.get(self._client.leaders.get(partition, (-1, -1))[0])

    # --- topics

    async def _delete(self, topic: str, *, attempts: int = ATTEMPTS) -> str:
        request = delete_topics.DeleteTopicsRequest(
            topics=[delete_topics.DeleteTopicState(name=topic)], timeout_ms=2_000
        )
        return await self._ask(request, lambda answer: answer.responses[0].error_code, attempts=attempts)

    async def _delete_for_good(self, topic: str) -> None:
        """Until the store has forgotten it."""
        while self.world.topics.assignment(topic) is not None:
            await self._delete(topic, attempts=1)

    async def _recreate_topic(self, fault: Fault) -> str:
        """Delete, wait until it is gone, make one of the same name (F25)."""
        topics, topic = self.world.topics, self._topic(fault)
        before = topics.assignment(topic)
        if before is not None:
            await self._delete_for_good(topic)
        await asyncio.sleep(fault.lasts_s)
        said = "not made again"
        count = self._most_partitions if topic == self.topic else 1
        while topics.assignment(topic) is None:
            configs = {**self._configs, **self.plan.states} if topic == COMPACTED else self._configs
            error = await self._client.create_topic(topic, count, self.plan.replication_factor, configs)
            said = error.name
            await asyncio.sleep(PAUSE_S)
        self._is_recreating = False
        return f"made again: {said}"

    async def _add_partition(self, fault: Fault) -> str:
        """F26."""
        found = self.world.topics.assignment(self.topic)
        count = 0 if found is None else len(found.partitions) + 1
        if not 1 < count <= MOST_PARTITIONS:
            return "there are enough"
        self._most_partitions = max(self._most_partitions, count)
        request = create_partitions.CreatePartitionsRequest(
            topics=[create_partitions.CreatePartitionsTopic(name=self.topic, count=count, assignments=None)],
            timeout_ms=2_000,
            validate_only=False,
        )
        said = await self._ask(request, lambda answer: answer.results[0].error_code)
        return f"{count}: {said}"

    # --- replicas and leaders

    async def _reassign(self, fault: Fault) -> str:
        """F24: as many replicas as there are, in any order, anywhere."""
        partition = self._partition(fault)
        found = None if partition is None else self.world.topics.assignment(partition.topic)
        if partition is None or found is None:
            return "no topic"
        count = len(found.partitions[partition.partition].origin_replicas)
        target = random.Random(fault.amount).sample(sorted(self.world.brokers), count)
        said = await self._alter(partition, [int(broker) for broker in target])
        listing = list_partition_reassignments.ListPartitionReassignmentsRequest(
            timeout_ms=2_000, topics=None
        )
        listed = await self._ask(listing, lambda answer: answer.error_code, attempts=1)
        return f"{partition} -> {list(map(int, target))}: {said}, listed: {listed}"

    async def _reassign_and_cancel(self, fault: Fault) -> str:
        started = await self._reassign(fault)
        await asyncio.sleep(fault.lasts_s)
        partition = self._partition(fault)
        return started if partition is None else f"{started}, cancelled: {await self._alter(partition, None)}"

    async def _alter(self, partition: TopicPartition, target: list[int] | None) -> str:
        request = alter_reassignments.AlterPartitionReassignmentsRequest(
            topics=[
                alter_reassignments.ReassignableTopic(
                    name=partition.topic,
                    partitions=[
                        alter_reassignments.ReassignablePartition(
                            partition_index=partition.partition, replicas=target
                        )
                    ],
                )
            ],
            timeout_ms=2_000,
        )
        return await self._ask(
            request, lambda answer: answer.error_code or answer.responses[0].partitions[0].error_code
        )

    async def _elect_preferred(self, fault: Fault) -> str:
        return await self._elect(fault, PREFERRED)

    async def _elect_unclean(self, fault: Fault) -> str:
        return await self._elect(fault, UNCLEAN)

    async def _elect(self, fault: Fault, kind: int) -> str:
        partition = self._partition(fault)
        if partition is None:
            return "no topic"
        return await self._elected(kind, None if fault.amount < 0.3 else partition)

    async def _elected(self, kind: int, partition: TopicPartition | None) -> str:
        """None: every one."""
        wanted = None
        if partition is not None:
            wanted = [elect_leaders.TopicPartitions(topic=partition.topic, partitions=[partition.partition])]
        request = elect_leaders.ElectLeadersRequest(
            election_type=kind, topic_partitions=wanted, timeout_ms=2_000
        )

        def code_of(answer: Any) -> int:
            rows = [row.error_code for t in answer.replica_election_results for row in t.partition_result]
            return int(answer.error_code or (rows[0] if rows else 0))

        return await self._ask(request, code_of, attempts=2)

    async def _leave_laggards(self, fault: Fault) -> str:
        """An unclean election with a choice: one replica may be all of the ISR, its followers stay behind, each elsewhere, and it dies.
        With the usual minimum one of them would be eligible, and no election of those is unclean."""
        world, partition = self.world, self._partition(fault)
        if partition is None:
            return "no topic"
        said = [
            await self._configure(fault, "min.insync.replicas", "1"),
            await self._configure(fault, "unclean.leader.election.enable", "true"),
        ]
        address = await self._leader(partition)
        first = None if address is None else next(b for b in world.brokers.values() if b.name == address[0])
        state = world.view_of(partition)
        if first is None or state is None:
            return f"{said}, no leader"
        others = [world.brokers[b] for b in state.assignment if b != first.broker_id]
        pairs = [pair for other in others for pair in ((other.name, first.name), (first.name, other.name))]
        for other in others:
            if world.is_healed or world.exempt or not other.is_running:
                return f"{said}, and then nothing"
            for source, target in pairs:
                if other.name in (source, target):
                    world.cut(source, target)
                    later(world, LAGGING_S, partial(world.heal, source, target))
            other.kill(at_once=True)
            start_again(world, other, 0.1)
            await asyncio.sleep(0.15)  # the next one stays behind elsewhere
        until = world.loop.time() + LAGGING_S / 2
        while not (is_alone := self._is_alone(first, others, partition)) and world.loop.time() < until:
            await asyncio.sleep(0.02)
        if is_alone and not (world.exempt or world.is_healed):
            first.kill(at_once=True)
            start_again(world, first, max(fault.lasts_s, 1.0))
        return f"{said}, {partition} of {first.name} alone: {is_alone}"

    def _is_alone(self, first: SimBroker, others: list[SimBroker], partition: TopicPartition) -> bool:
        """All of the ISR, and the others are back and would lead."""
        state, live = self.world.view_of(partition), self.world.registered()
        if state is None or state.stored is None or state.stored.isr != (first.broker_id,):
            return False
        return first.is_running and all(b.is_serving and b.broker_id in live for b in others)

    async def _depose(self, fault: Fault) -> str:
        """F12: the controller's node is removed by hand, which is how another election was always forced."""
        return "gone" if self.world.depose() else "there was none"

    # --- configuration

    async def _configure(self, fault: Fault, name: str, value: str) -> str:
        return (
            f"{name}={value}: {await self._alter_configs(TOPIC_RESOURCE, self._topic(fault), {name: value})}"
        )

    async def _alter_configs(self, kind: int, resource: str, configs: dict[str, str | None]) -> str:
        """None: as if it had never been set."""
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=kind,
                    resource_name=resource,
                    configs=[
                        incremental_alter_configs.AlterableConfig(
                            name=name, config_operation=DELETE if value is None else SET, value=value
                        )
                        for name, value in configs.items()
                    ],
                )
            ],
            validate_only=False,
        )
        return await self._ask(request, lambda answer: answer.responses[0].error_code)

    async def _allow_unclean(self, fault: Fault) -> str:
        return await self._configure(fault, "unclean.leader.election.enable", str(fault.amount < 0.8).lower())

    async def _set_min_isr(self, fault: Fault) -> str:
        return await self._configure(
            fault, "min.insync.replicas", str(1 + int(fault.amount * self.plan.replication_factor))
        )

    async def _raise_min_isr(self, fault: Fault) -> str:
        """Over an ISR that has lost a member just now, while producers wait for the others of it: they are to hear of that at once. Set back
        then, however long that takes."""
        world, partition = self.world, self._partition(fault)
        if partition is None:
            return "no topic"
        address = await self._leader(partition)
        state = world.view_of(partition)
        if address is None or state is None or world.exempt or world.is_healed:
            return "no leader"
        first = next(broker for broker in world.brokers.values() if broker.name == address[0])
        lost, *others = [world.brokers[b] for b in state.assignment if b != first.broker_id]
        if not lost.is_running:
            return f"{lost.name} is away"
        lost.kill(at_once=True)
        until = world.loop.time() + SMALLER_S
        while self._has_member(lost, partition) and world.loop.time() < until:
            await asyncio.sleep(0.05)
        said = "it is in sync" if self._has_member(lost, partition) else "it has left the ISR"
        if not world.is_healed:
            cut(world, both_ways(first, others), WAIT_S + fault.lasts_s)
        await asyncio.sleep(WAIT_S)  # by then somebody waits
        name = "min.insync.replicas"
        said += f", {await self._configure(fault, name, str(self.plan.replication_factor))}"
        await asyncio.sleep(fault.lasts_s)
        if not lost.is_running:
            lost.start()
        while ErrorCode.NONE.name not in await self._configure(fault, name, self._configs[name]):
            if world.topics.assignment(partition.topic) is None:
                break
            await asyncio.sleep(PAUSE_S)
        return f"{lost.name} of {partition} dies, {said}, and it is set back"

    def _has_member(self, broker: SimBroker, partition: TopicPartition) -> bool:
        state = self.world.view_of(partition)
        return state is None or state.stored is None or broker.broker_id in state.stored.isr

    async def _set_retention(self, fault: Fault) -> str:
        if fault.target < 0.5:
            return await self._configure(fault, "retention.ms", str(500 + int(4_000 * fault.amount)))
        return await self._configure(fault, "retention.bytes", str(int(4_000 * fault.amount)))

    # --- records

    def _judge_deleted(
        self, partition: TopicPartition, low_watermark: int, asked_of: TopicPartition | None
    ) -> None:
        """DeleteRecords is answered when every live replica has deleted. Who has restarted may begin where an old checkpoint says,
        and whom the leader does not know to live it does not wait for: so in a healthy cluster only. `asked_of`: its name in the
        history when it was asked; the answer may be of a topic that was deleted since, and made again (seed 5366)."""
        world = self.world
        if asked_of is None or asked_of != world.topics.now(partition):
            return
        state = world.view(with_batches=False).partitions.get(partition)
        # A leader that was told of the targets alone does not wait for a replica that leaves, in the ISR for one write more.
        if state is None or state.is_moving or not (world.is_everything_healthy() and world.is_ready()):
            return
        world.let_in += deleted_everywhere(partition, state, low_watermark)

    async def _delete_records(self, fault: Fault) -> str:
        """Up to somewhere below the high watermark, which ListOffsets tells; now and then up to it (-1), or up to records that are
        not committed perhaps, which is to be refused."""
        partition = self._partition(fault)
        address = None if partition is None else await self._leader(partition)
        if partition is None or address is None:
            return "no leader"
        try:
            end = await self._latest(address, partition)
            offset = -1 if fault.amount > 0.9 else int(end * fault.amount)
            if 0.75 < fault.amount <= 0.9:
                offset = end + 1
            row = await self._delete_up_to(address, partition, offset)
        except RequestFailed:
            return "no answer"
        return f"up to {offset}: {ErrorCode(row.error_code).name}, low watermark {row.low_watermark}"

    async def delete_at_rest(self) -> None:
        """In a cluster that is at rest: half of what each partition of the topic has. NotInTime, if that is not done at once."""
        found = self.world.topics.assignment(self.topic)
        for number in sorted(found.partitions if found is not None else ()):
            partition = TopicPartition(self.topic, number)
            address = await self._leader_at_rest(partition)
            half = await self._latest(address, partition) // 2
            row = await self._delete_up_to(address, partition, half)
            if row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                # The preferred leader took over just then (seed 1467).
                row = await self._delete_up_to(await self._leader_at_rest(partition), partition, half)
            if row.error_code != ErrorCode.NONE or row.low_watermark < half:
                said = f"{ErrorCode(row.error_code).name}, low watermark {row.low_watermark}"
                raise NotInTime(f"records of {partition} below {half} are not deleted at rest: {said}")

    async def topic_at_rest(self) -> None:
        """In a cluster that is at rest: a topic is made and deleted. NotInTime, if one of the two is not answered at once."""
        begun = self.world.loop.time()
        error = await self._client.create_topic(AT_REST, 2, self.plan.replication_factor, self._configs)
        self._was_prompt(f"a topic is made: {error.name}", begun, is_done=error == ErrorCode.NONE)
        begun = self.world.loop.time()
        said = await self._delete(AT_REST)
        self._was_prompt(f"a topic is deleted: {said}", begun, is_done=said == ErrorCode.NONE.name)

    async def leader_moves_at_rest(self) -> None:
        """In a cluster that is at rest: a record is deleted, of which a follower cannot tell that it has done so; then another replica
        leads. NotInTime, if the deletion is not answered at once."""
        world, partition = self.world, TopicPartition(self.topic, 0)
        address = await self._leader_at_rest(partition)
        leader = self._client.leaders[partition][0]
        found = world.topics.assignment(self.topic)
        others = [] if found is None else [b for b in found.partitions[0].replicas if b != leader]
        followers = [b for b in others if b != self._client.controller]  # that one has to tell who leads
        start = await self._offset_at(address, partition, EARLIEST)
        if not followers or start >= await self._latest(address, partition):
            return
        silent = world.brokers[followers[-1]].name
        world.cut(silent, address[0])
        answered: list[str] = []

        async def delete() -> None:
            other = self._new_client()  # on one connection everybody would wait for this
            try:
                row = await self._delete_up_to(address, partition, start + 1, other)
                answered.append(ErrorCode(row.error_code).name)
            except RequestFailed as failed:
                answered.append(str(failed))

        world.spawn(self._host, delete())
        await self._alter(partition, [int(others[0]), int(leader), *map(int, others[1:])])
        begun = world.loop.time()
        while not answered and world.loop.time() < begun + PROMPTLY_S:
            await self._elected(PREFERRED, partition)
            await self._client.refresh([self.topic])
        world.heal(silent, address[0])
        world.note(f"administrator: a record is deleted at a leader that is moved: {answered}")
        if not answered:
            raise NotInTime("a deletion at a leader that leads no more is not answered at rest")

    def _was_prompt(self, what: str, begun: float, *, is_done: bool) -> None:
        took = self.world.loop.time() - begun
        if not is_done or took > PROMPTLY_S:
            raise NotInTime(f"{what} at rest, and that took {took:.1f} s")

    async def _leader_at_rest(self, partition: TopicPartition) -> Address:
        address = await self._leader(partition)
        assert address is not None, f"{partition} has no leader, and the cluster is at rest"
        return address

    async def _delete_up_to(
        self, address: Address, partition: TopicPartition, offset: int, client: SimClient | None = None
    ) -> Any:
        """The row of the answer, which was judged."""
        before = self.asked_to_delete.get(partition, 0)
        self.asked_to_delete[partition] = max(before, math.inf if offset < 0 else offset)
        rows = [delete_records.DeleteRecordsPartition(partition_index=partition.partition, offset=offset)]
        request = delete_records.DeleteRecordsRequest(
            topics=[delete_records.DeleteRecordsTopic(name=partition.topic, partitions=rows)],
            timeout_ms=2_000,
        )
        asked_of = self.world.topics.now(partition)
        answer = await (client or self._client).ask(address, request)
        row = answer.topics[0].partitions[0]
        if row.error_code == ErrorCode.NONE:
            self._judge_deleted(partition, row.low_watermark, asked_of)
        return row

    async def _list_offsets(self, fault: Fault) -> str:
        partition = self._partition(fault)
        address = None if partition is None else await self._leader(partition)
        if partition is None or address is None:
            return "no leader"
        now_ms = int(self.world.loop.time() * 1000)
        asked = (LATEST, EARLIEST, MAX_TIMESTAMP, EPOCH_MS + int(now_ms * fault.amount))[
            int(fault.amount * 40) % 4
        ]
        try:
            return f"{asked}: {await self._offset_at(address, partition, asked)}"
        except RequestFailed:
            return "no answer"

    async def _latest(self, address: Address, partition: TopicPartition) -> int:
        return max(0, await self._offset_at(address, partition, LATEST))

    async def _offset_at(self, address: Address, partition: TopicPartition, timestamp: int) -> int:
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                list_offsets.ListOffsetsTopic(
                    name=partition.topic,
                    partitions=[
                        list_offsets.ListOffsetsPartition(
                            partition_index=partition.partition, timestamp=timestamp
                        )
                    ],
                )
            ],
        )
        answer = await self._client.ask(address, request)
        return int(answer.topics[0].partitions[0].offset)
