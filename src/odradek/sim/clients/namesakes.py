"""Two topics of one name, and logs of both on one broker: a disk comes back that was out of the machine while the first was deleted and
the second made. Mixed into `administration`. As long as a broker owes a deletion its controller tells it of no namesake, so nothing but
hands brings this about.

Both are topics of this operator alone; the second stays to the end of the run, where it is judged like all others, and by
`namesakes_at_rest`.
"""

import asyncio
from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from odradek.log.memory_files import MemoryDisk
from odradek.log.retired_logs import STRAY_SUFFIX
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, TopicPartition
from odradek.protocol.messages import delete_topics
from odradek.records.builder import NewRecord, build_batch
from odradek.sim.checkers.history import Anomaly
from odradek.sim.clients.client import EPOCH_MS, RequestFailed, SimClient
from odradek.sim.clients.producer import produce_request
from odradek.sim.faults.disks import has_all_directories
from odradek.sim.faults.targets import serving, start_again
from odradek.sim.plan import Fault
from odradek.sim.world import SimBroker, World

NAMESAKE = "namesake"
FIRST, SECOND = 6, 3  # records
ATTEMPTS, PAUSE_S = 40, 0.1


class Namesakes:
    if TYPE_CHECKING:
        world: World
        _client: SimClient
        _namesakes: dict[TopicPartition, int]  # the last offset of the second one that was acknowledged
        _put_back: dict[TopicPartition, BrokerId]  # the first one, on whose disk

    _named = 0
    _leader: Callable[[TopicPartition], Any]
    _ask: Callable[..., Any]

    async def _two_of_a_name(self, fault: Fault) -> str:
        world = self.world
        brokers = [b for b in serving(world) if len(b.disks) > 1 and has_all_directories(b)]
        if len(brokers) < 2 or world.exempt or world.is_healed:
            return "nobody has two directories"
        at = int(fault.target * len(brokers))
        broker, other = brokers[at], brokers[(at + 1) % len(brokers)]
        ids = [int(broker.broker_id), int(other.broker_id)]
        self._named += 1
        partition = TopicPartition(f"{NAMESAKE}-{self._named}", 0)
        await self._made_with(partition, ids)
        await self._written(partition, FIRST)
        disk = _disk_of(broker, partition)
        if disk is None:
            return f"{partition} is not made"
        files = deepcopy(disk._top.entries[str(partition)])
        request = delete_topics.DeleteTopicsRequest(
            topics=[delete_topics.DeleteTopicState(name=partition.topic)], timeout_ms=2_000
        )
        while world.topics.assignment(partition.topic) is not None:
            await self._ask(request, lambda answer: answer.responses[0].error_code, attempts=1)
        await self._made_with(partition, ids if fault.amount < 0.5 else ids[::-1])
        self._namesakes[partition] = await self._written(partition, SECOND)
        here = _disk_of(broker, partition)
        if here is None or world.exempt or world.is_healed or not broker.is_running:
            return f"{partition} is made again, and no disk comes back"
        there = next(one for one in broker.disks if one is not here)
        broker.kill(at_once=True)
        there._top.entries[str(partition)] = files
        self._put_back[partition] = broker.broker_id
        start_again(world, broker, fault.lasts_s)
        return f"{partition} is in {here.path}, and the first one of its name is back in {there.path}"

    async def _made_with(self, partition: TopicPartition, brokers: list[int]) -> None:
        while self.world.topics.assignment(partition.topic) is None:
            await self._client.create_topic(partition.topic, -1, -1, assignments=[brokers])
            await asyncio.sleep(PAUSE_S)

    async def _written(self, partition: TopicPartition, count: int) -> int:
        """The offset of the last of so many records that was acknowledged, with acks=all; -1: none was."""
        last = -1
        for _ in range(ATTEMPTS):
            offset = await self._acknowledged(partition) if count else -1
            if offset >= 0:
                last, count = offset, count - 1
            if not count:
                break
            await asyncio.sleep(PAUSE_S)
        return last

    async def _acknowledged(self, partition: TopicPartition) -> int:
        """-1: a record was not, or nobody knows."""
        address = await self._leader(partition)
        if address is None:
            return -1
        records = build_batch([NewRecord(None, bytes(20), EPOCH_MS)])
        try:
            answer = await self._client.ask(address, produce_request(partition, records, -1))
        except RequestFailed:
            return -1
        row = answer.responses[0].partition_responses[0]
        return int(row.base_offset) if row.error_code == ErrorCode.NONE else -1

    def namesakes_at_rest(self) -> list[Anomaly]:
        """NamesakeIsMeant: each replica of the second topic is a log of that topic, with all that was acknowledged; and who had the first
        one put back has set that aside, and keeps it."""
        found = []
        for partition, last in self._namesakes.items():
            topic = self.world.topics.assignment(partition.topic)
            for number in () if topic is None else topic.partitions[partition.partition].replicas:
                broker = self.world.brokers[number]
                replica = broker.replica(partition)
                if replica is None:
                    said = "it has none"
                elif replica.log.topic_id != topic.topic_id:  # type: ignore[union-attr]
                    said = "it is of another topic"
                elif replica.log.log_end_offset <= last or replica.log.log_start_offset:
                    said = f"it goes from {replica.log.log_start_offset} to {replica.log.log_end_offset}, and {last} was acknowledged"
                elif self._put_back.get(partition) == number and _strays(broker, partition) != 1:
                    said = f"{_strays(broker, partition)} logs of its name were set aside"
                else:
                    continue
                found.append(
                    Anomaly("NamesakeIsMeant", partition, f"of the replica of broker {number}: {said}")
                )
        return found


def _disk_of(broker: SimBroker, partition: TopicPartition) -> MemoryDisk | None:
    return next((disk for disk in broker.disks if str(partition) in disk._top.entries), None)


def _strays(broker: SimBroker, partition: TopicPartition) -> int:
    names = [name for disk in broker.disks for name in disk._top.entries]
    return sum(name.startswith(f"{partition}.") and name.endswith(STRAY_SUFFIX) for name in names)
