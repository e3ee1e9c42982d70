"""What operators do beside the topics themselves: replicas moved between the directories of a broker (KIP-113), quotas of
clients, and looks at offsets, epochs, directories and configuration. Mixed into `administration`.
"""

import asyncio
import errno
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.log.memory_files import MemoryDisk
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, TopicPartition
from odradek.protocol.messages import (
    alter_client_quotas,
    alter_replica_log_dirs,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    list_groups,
    offset_for_leader_epoch,
)
from odradek.records.builder import NewRecord, build_batch
from odradek.sim.checkers.history import Anomaly
from odradek.sim.clients.client import EPOCH_MS, Address, RequestFailed, SimClient
from odradek.sim.clients.group_member import GROUP
from odradek.sim.clients.producer import produce_request
from odradek.sim.faults.disks import fails_alone, has_all_directories
from odradek.sim.faults.targets import controller, cut, serving, start_again
from odradek.sim.plan import Fault
from odradek.sim.world import PORT, SimBroker, World

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
ALL_BROKERS = ""
THROTTLED_LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
THROTTLED_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LOW_RATES = ("0", "1", "1", "100", "1000")  # bytes a second
HIGH_RATE = "1000000"
THROTTLED, MADE_LATER, MOVED_AWAY = "throttled-at-rest", "made-later", "moved-away"
# A broker that could not make a log tries again after one second, two and four, and registers anew then.
MADE_S = 5.0
OFFLINE_S = 6.0  # high watermarks are written every five seconds: then at the latest it is noticed that a directory fails
# Several answers, of what a seed with a throttle fetches at most (`plan.draw`); and as long as a turn or two of the configuration, and
# less than the windows of a throttle, which last eleven seconds.
BATCHES_TO_COPY, HEARD_S, HELD_S = 8, 0.2, 1.5
# A window of a throttle, and a fetch that waits at a leader which is throttled: `replica.fetch.wait.max.ms` is two seconds at most.
CAUGHT_UP_S = 4.0
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
MOST_BEHIND = 3  # of the same directory, behind the one that is moved
DIES_MOVING = 0.5  # how often its broker dies while a replica is on its way
CLIENTS = "c1"  # the client id of every producer and consumer (`workload.MACHINE`)


class Operations:
    if TYPE_CHECKING:
        world: World
        _client: SimClient

    _made = 0  # topics of `_made_on` and `_delete_amid_move`

    _partition: Callable[[Fault], TopicPartition | None]
    _ask: Callable[..., Any]
    _leader: Callable[[TopicPartition], Any]
    _offset_at: Callable[[Address, TopicPartition, int], Any]
    _topic: Callable[[Fault], str]
    _delete: Callable[[str], Any]
    _delete_for_good: Callable[[str], Any]
    _reassign: Callable[[Fault], Any]
    _alter: Callable[[TopicPartition, list[int] | None], Any]
    _alter_configs: Callable[[int, str, dict[str, str | None]], Any]

    async def _move_log_dir(self, fault: Fault) -> str:
        """One replica, into the other directory of its broker, and half of the time others after it. Now and then it is called back on
        its way; and now and then a broker is asked that does not host it, which is to keep in mind where the replica belongs should it
        come."""
        partition = self._partition(fault)
        is_hosting = fault.amount >= 0.2
        asked = [
            broker
            for broker in serving(self.world)
            if broker.runtime is not None
            and (partition in broker.runtime.broker.replicas.partitions) is is_hosting
        ]
        if partition is None or not asked:
            return "there is nobody to ask"
        broker = asked[int(fault.amount * len(asked))]
        assert broker.runtime is not None
        paths = [disk.path for disk in broker.disks]
        here = broker.runtime.logs.directory_of(partition) if is_hosting else paths[0]
        there = next((path for path in paths if path != here), None)
        if there is None or here is None:
            return "there is one directory"
        wanted = [(partition, there)]
        if is_hosting and fault.target * 10_000 % 1.0 < 0.5:
            hosted = sorted(broker.runtime.broker.replicas.partitions)
            others = [
                one for one in hosted if one != partition and broker.runtime.logs.directory_of(one) == here
            ]
            wanted += [(one, there) for one in others[:MOST_BEHIND]]
        if is_hosting and fault.target * 1_000 % 1.0 < 0.4:
            wanted.append((partition, here))
        try:
            codes = [await self._moved(broker.name, one, path) for one, path in wanted]
            seen = await self._client.ask(
                (broker.name, PORT), describe_log_dirs.DescribeLogDirsRequest(topics=None)
            )
        except RequestFailed:
            return "no answer"
        moving = sum(row.is_future_key for d in seen.results for t in d.topics for row in t.partitions)
        asked_for = ", ".join(f"{one} to {path}" for one, path in wanted)
        said = f"of {broker.name} {asked_for}: {', '.join(codes)}, {moving} on their way"
        world = self.world
        may_die = broker.is_running and not (world.exempt or world.is_healed)
        if moving and may_die and fault.amount * 1_000 % 1.0 < DIES_MOVING:
            broker.kill()
            start_again(world, broker, 1.0)
            return f"{said}, and it dies"
        return said

    async def _moved(self, broker: str, partition: TopicPartition, path: str) -> str:
        wanted = alter_replica_log_dirs.AlterReplicaLogDirTopic(
            name=partition.topic, partitions=[partition.partition]
        )
        request = alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            dirs=[alter_replica_log_dirs.AlterReplicaLogDir(path=path, topics=[wanted])]
        )
        answer = await self._client.ask((broker, PORT), request)
        return ErrorCode(answer.results[0].partitions[0].error_code).name

    async def _throttle(self, fault: Fault) -> str:
        """KIP-73, as an operator does: replicas of a topic are listed, of all brokers or of some, the rate is low, and then somebody
        has to copy: a new replica, or one whose broker was away. In the midst of it the rate is raised or lifted, or the replicas are
        taken off the list. All of it is gone in the end, however long that takes."""
        topic, rng = self._topic(fault), random.Random(fault.amount)
        sides = rng.choice(((0,), (1,), (1,), (0, 1)))
        lists: dict[str, str | None] = {THROTTLED_LISTS[side]: self._listed(topic, rng) for side in sides}
        rates: dict[str, str | None] = {THROTTLED_RATES[side]: rng.choice(LOW_RATES) for side in sides}
        said = [
            await self._alter_configs(TOPIC_RESOURCE, topic, lists),
            await self._alter_configs(BROKER_RESOURCE, ALL_BROKERS, rates),
        ]
        said.append(await self._reassign(fault) if rng.random() < 0.4 else self._away(fault, rng))
        await asyncio.sleep(fault.lasts_s * rng.random())
        change = rng.choice(("raised", "lifted", "off the list", "nothing"))
        if change == "raised":
            said.append(
                await self._alter_configs(BROKER_RESOURCE, ALL_BROKERS, dict.fromkeys(rates, HIGH_RATE))
            )
        elif change == "lifted":
            said.append(await self._alter_configs(BROKER_RESOURCE, ALL_BROKERS, dict.fromkeys(rates)))
        elif change == "off the list":
            said.append(await self._alter_configs(TOPIC_RESOURCE, topic, dict.fromkeys(lists)))
        await asyncio.sleep(fault.lasts_s * rng.random())
        gone = {ErrorCode.NONE.name}
        for kind, name, configs in ((BROKER_RESOURCE, ALL_BROKERS, rates), (TOPIC_RESOURCE, topic, lists)):
            while await self._alter_configs(kind, name, dict.fromkeys(configs)) not in gone:
                await asyncio.sleep(0.2)
            gone.add(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name)  # its configuration went with it
        return f"{lists} {rates}: {', '.join(said)}, {change} in between"

    async def throttle_at_rest(self) -> None:
        """In a cluster that is at rest: a replica that is made anew is throttled to a byte a second, and then no more. NotHeldBack, if it
        has not caught up soon."""
        world, rng = self.world, random.Random(f"throttle-at-rest-{self.world.seed}")
        leader, follower = rng.sample(sorted(world.brokers), 2)
        partition = TopicPartition(THROTTLED, 0)
        error = await self._client.create_topic(THROTTLED, -1, -1, assignments=[[int(leader)]])
        assert error == ErrorCode.NONE, f"a topic is made at rest: {error.name}"
        sides = rng.choice(((0,), (1,), (1,), (0, 1)))
        lists: dict[str, str | None] = {
            THROTTLED_LISTS[side]: f"0:{(leader, follower)[side]}" for side in sides
        }
        rates: dict[str, str | None] = {THROTTLED_RATES[side]: "1" for side in sides}
        records = build_batch([NewRecord(None, bytes(100), EPOCH_MS)])
        for _ in range(BATCHES_TO_COPY):
            await self._client.ask((world.brokers[leader].name, PORT), produce_request(partition, records, 1))
        await self._alter_configs(TOPIC_RESOURCE, THROTTLED, lists)
        await self._alter_configs(BROKER_RESOURCE, ALL_BROKERS, rates)
        await asyncio.sleep(HEARD_S)
        await self._alter(partition, [int(leader), int(follower)])
        await asyncio.sleep(HELD_S)
        assert not self._is_in_sync(follower, partition), (
            f"{follower} has caught up, at a byte a second: {lists}"
        )
        change, begun = rng.choice(("raised", "lifted", "off the list")), world.loop.time()
        if change == "off the list":
            await self._alter_configs(TOPIC_RESOURCE, THROTTLED, dict.fromkeys(lists))
        else:
            value = HIGH_RATE if change == "raised" else None
            await self._alter_configs(BROKER_RESOURCE, ALL_BROKERS, dict.fromkeys(rates, value))
        while not self._is_in_sync(follower, partition):
            if world.loop.time() > begun + CAUGHT_UP_S:
                said = f"{rates} for {lists} is {change} at rest, and broker {follower} has not caught up {CAUGHT_UP_S:g} s later"
                world.let_in.append(Anomaly("NotHeldBack", partition, said))
                break
            await asyncio.sleep(0.05)
        world.note(
            f"administrator: throttled at rest: {lists} {rates}, {change}, caught up after "
            f"{world.loop.time() - begun:.2f} s"
        )
        await self._alter_configs(BROKER_RESOURCE, ALL_BROKERS, dict.fromkeys(rates))
        await self._delete(THROTTLED)

    def _is_in_sync(self, broker: BrokerId, partition: TopicPartition) -> bool:
        state = self.world.view_of(partition)
        return state is not None and state.stored is not None and broker in state.stored.isr

    async def _one_directory_left(self, fault: Fault) -> str:
        """One directory of a broker fails, in the other nothing can be opened for want of a descriptor, and the broker is told to make
        a log. It can be made when there are descriptors again, though the first directory is still away."""
        brokers = [b for b in serving(self.world) if len(b.disks) > 1 and has_all_directories(b)]
        if not brokers or self.world.exempt or self.world.is_healed:
            return "nobody has two"
        broker = brokers[int(fault.target * len(brokers))]
        first = int(fault.amount * 2)
        return await self._made_on(broker, broker.disks[first], broker.disks[1 - first], fault.lasts_s)

    async def _made_on(self, broker: SimBroker, failed: MemoryDisk, left: MemoryDisk, lasts_s: float) -> str:
        """What became of the log by then."""
        fails_alone(self.world, broker, failed, OFFLINE_S + 2 * lasts_s + MADE_S)
        until = self.world.loop.time() + OFFLINE_S
        while broker.is_serving and has_all_directories(broker) and self.world.loop.time() < until:
            await asyncio.sleep(0.05)
        left.inject("open", errno.EMFILE)
        topic = f"{MADE_LATER}-{self._made}"
        self._made += 1
        error = await self._client.create_topic(topic, -1, -1, assignments=[[int(broker.broker_id)]])
        await asyncio.sleep(lasts_s)
        left.heal()
        partition, until = TopicPartition(topic, 0), self.world.loop.time() + MADE_S
        while broker.replica(partition) is None and self.world.loop.time() < until:
            await asyncio.sleep(0.05)
        is_made = broker.replica(partition) is not None
        await self._delete_for_good(topic)
        return f"{topic} on {broker.name}, made: {error.name}, hosted with {failed.path} away: {is_made}"

    async def one_directory_left_at_rest(self) -> None:
        """In a cluster that is at rest. LogIsMade is broken, if the log is not made in the directory that is left."""
        brokers = [broker for broker in self.world.brokers.values() if _tries_again_soon(broker)]
        if not brokers:
            return
        broker = brokers[self.world.seed % len(brokers)]
        said = await self._made_on(broker, broker.disks[0], broker.disks[1], 1.0)
        self.world.note(f"administrator: at rest: {said}")
        if said.endswith("False"):
            self.world.let_in.append(Anomaly("LogIsMade", None, f"at rest: {said}"))

    async def _delete_amid_move(self, fault: Fault) -> str:
        """A topic of this operator alone is deleted while the controller cannot tell a replica that it has left: what is owed to the
        move goes with the topic. Half of the time that broker dies meanwhile."""
        asked, brokers = controller(self.world), serving(self.world)
        leavers = [broker for broker in brokers if broker is not asked]
        if asked is None or not leavers:
            return "nobody can leave"
        leaver = leavers[int(fault.target * len(leavers))]
        stays = next(broker for broker in brokers if broker is not leaver)
        partition = TopicPartition(f"{MOVED_AWAY}-{self._made}", 0)
        self._made += 1
        ids = [int(stays.broker_id), int(leaver.broker_id)]
        error = await self._client.create_topic(partition.topic, -1, -1, assignments=[ids])
        if error is not ErrorCode.NONE or self.world.is_healed:
            await self._delete_for_good(partition.topic)
            return f"{partition} is made: {error.name}, and is deleted"
        cut(self.world, [(asked.name, leaver.name)], fault.lasts_s)
        said = await self._alter(partition, ids[:1])
        await asyncio.sleep(HEARD_S)
        if fault.amount < 0.5 and leaver.is_running and not (self.world.exempt or self.world.is_healed):
            leaver.kill()
            start_again(self.world, leaver, fault.lasts_s)
            said += ", and it dies"
        await self._delete_for_good(partition.topic)
        return f"{partition} is made, leaves {leaver.name}: {said}, and is deleted"

    def _listed(self, topic: str, rng: random.Random) -> str:
        found = self.world.topics.assignment(topic)
        if rng.random() < 0.5 or found is None:
            return "*"
        brokers = sorted(rng.sample(sorted(self.world.brokers), len(self.world.brokers) // 2))
        return ",".join(f"{number}:{broker}" for number in sorted(found.partitions) for broker in brokers)

    def _away(self, fault: Fault, rng: random.Random) -> str:
        """One replica is, for a moment: it has to copy what is written meanwhile, and is in sync no more."""
        partition = self._partition(fault)
        found = None if partition is None else self.world.topics.assignment(partition.topic)
        if partition is None or found is None or self.world.exempt or self.world.is_healed:
            return "nobody is away"
        replicas = found.partitions[partition.partition].replicas
        broker = self.world.brokers[replicas[int(rng.random() * len(replicas))]]
        if not (broker.is_running and broker.is_serving):
            return f"{broker.name} is away"
        broker.kill(at_once=True)
        start_again(self.world, broker, 0.5 + rng.random())
        return f"{broker.name} goes"

    async def _set_quota(self, fault: Fault) -> str:
        """Of all clients together, for a while: small, for a rate is that of eleven seconds, and worlds last no longer. It is taken
        away again, however long that takes."""
        key, value = (
            ("producer_byte_rate", float(5 + int(150 * fault.amount))),
            ("consumer_byte_rate", float(5 + int(150 * fault.amount))),
            ("request_percentage", 1.0 + 50.0 * fault.amount),
        )[int(fault.target * 3)]  # `plan.QUOTA_OF_TIME`
        said = await self._alter_quota(key, value, remove=False)
        await asyncio.sleep(fault.lasts_s)
        while (gone := await self._alter_quota(key, 0.0, remove=True)) != ErrorCode.NONE.name:
            await asyncio.sleep(0.2)
        return f"{key}={value:.0f}: {said}, taken away: {gone}"

    async def _alter_quota(self, key: str, value: float, *, remove: bool) -> str:
        request = alter_client_quotas.AlterClientQuotasRequest(
            entries=[
                alter_client_quotas.AlterClientQuotasRequestEntryData(
                    entity=[alter_client_quotas.EntityData(entity_type="client-id", entity_name=CLIENTS)],
                    ops=[alter_client_quotas.OpData(key=key, value=value, remove=remove)],
                )
            ],
            validate_only=False,
        )
        said: str = await self._ask(request, lambda answer: answer.entries[0].error_code)
        return said

    async def _look_around(self, fault: Fault) -> str:
        """Everything that only asks, of the leader of one partition."""
        partition = self._partition(fault)
        address = None if partition is None else await self._leader(partition)
        if partition is None or address is None:
            return "no leader"
        now_ms = EPOCH_MS + int(self.world.loop.time() * 1000)
        asked = (EARLIEST, LATEST, MAX_TIMESTAMP, now_ms - int(10_000 * fault.amount), now_ms - 2_000)
        epoch = self._client.leaders.get(partition, (-1, -1))[1]
        try:
            offsets = [await self._offset_at(address, partition, timestamp) for timestamp in asked]
            ends = [
                await self._epoch_end(address, partition, wanted) for wanted in (0, max(epoch - 1, 0), epoch)
            ]
            for message in _questions(partition.topic):
                await self._client.ask(address, message)
        except RequestFailed:
            return "no answer"
        return f"{partition}: offsets {offsets}, epochs end at {ends}"

    async def _epoch_end(self, address: Address, partition: TopicPartition, epoch: int) -> int:
        wanted = offset_for_leader_epoch.OffsetForLeaderPartition(
            partition=partition.partition, leader_epoch=epoch
        )
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[offset_for_leader_epoch.OffsetForLeaderTopic(topic=partition.topic, partitions=[wanted])],
        )
        answer = await self._client.ask(address, request)
        return int(answer.topics[0].partitions[0].end_offset)


def _questions(topic: str) -> list[Any]:
    resource = describe_configs.DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic)
    return [
        describe_configs.DescribeConfigsRequest(resources=[resource], include_synonyms=True),
        describe_client_quotas.DescribeClientQuotasRequest(components=[], strict=False),
        describe_log_dirs.DescribeLogDirsRequest(topics=None),
        describe_cluster.DescribeClusterRequest(),
        list_groups.ListGroupsRequest(states_filter=[], types_filter=[]),
        describe_groups.DescribeGroupsRequest(groups=[GROUP]),
    ]


def _tries_again_soon(broker: SimBroker) -> bool:
    """One that has wanted descriptors several times of late tries ever more rarely (`LogRetries`)."""
    assert broker.runtime is not None
    return broker.runtime.broker.replicas.retries.wait_ms < MADE_S * 1000
