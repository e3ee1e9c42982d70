"""What operators do beside the topics themselves: replicas moved between the directories of a broker (KIP-113), quotas of
clients, and looks at offsets, epochs, directories and configuration. Mixed into `administration`.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
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
from odradek.sim.clients.client import EPOCH_MS, Address, RequestFailed, SimClient
from odradek.sim.clients.group_member import GROUP
from odradek.sim.faults.targets import serving, start_again
from odradek.sim.plan import Fault
from odradek.sim.world import PORT, World

TOPIC_RESOURCE = 2
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
DIES_MOVING = 0.5  # how often its broker dies while a replica is on its way
CLIENTS = "c1"  # the client id of every producer and consumer (`workload.MACHINE`)


class Operations:
    if TYPE_CHECKING:
        world: World
        _client: SimClient

    _partition: Callable[[Fault], TopicPartition | None]
    _ask: Callable[..., Any]
    _leader: Callable[[TopicPartition], Any]
    _offset_at: Callable[[Address, TopicPartition, int], Any]

    async def _move_log_dir(self, fault: Fault) -> str:
        """One replica, into the other directory of its broker. Now and then it is called back on its way; and now and then a
        broker is asked that does not host it, which is to keep in mind where the replica belongs should it come."""
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
        wanted = [there, here] if is_hosting and fault.target * 1_000 % 1.0 < 0.4 else [there]
        try:
            codes = [await self._moved(broker.name, partition, path) for path in wanted]
            seen = await self._client.ask(
                (broker.name, PORT), describe_log_dirs.DescribeLogDirsRequest(topics=None)
            )
        except RequestFailed:
            return "no answer"
        moving = sum(row.is_future_key for d in seen.results for t in d.topics for row in t.partitions)
        said = (
            f"{partition} of {broker.name} to {', '.join(wanted)}: {', '.join(codes)}, {moving} on their way"
        )
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

    async def _set_quota(self, fault: Fault) -> str:
        """Of all clients together, for a while. It is taken away again, however long that takes."""
        key, value = (
            ("producer_byte_rate", float(2_000 + int(40_000 * fault.amount))),
            ("consumer_byte_rate", float(2_000 + int(40_000 * fault.amount))),
            ("request_percentage", 1.0 + 50.0 * fault.amount),
        )[int(fault.target * 3)]
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
