"""Consumers that read by replica, whoever leads (KIP-392): one from any copy of its partition, one from where the leader says.

Each copy serves up to the high watermark it knows itself, so what one has given, none may ever give otherwise.
"""

from typing import Any

from odradek.model.ids import TopicPartition
from odradek.sim.clients.client import Address, SimClient
from odradek.sim.clients.consumer import SimConsumer

# So many polls from one, then the next. An odd number, so that partitions do not go round in step.
POLLS_FROM_ONE = 3
# Then the leader is asked again, as Java's clients do after metadata.max.age.ms.
POLLS_FROM_PREFERRED = 20
RACKS = ("even", "odd")


def rack_of(broker_id: int) -> str:
    return RACKS[broker_id % len(RACKS)]


class ReplicaConsumer(SimConsumer):
    _polls = 0

    async def _source(self) -> tuple[Address, int]:
        while not self.client.brokers:
            await self.client.refresh([self.partition.topic])
        brokers = [address for _, address in sorted(self.client.brokers.items())]
        turn = self._polls // POLLS_FROM_ONE + self.partition.partition
        self._polls += 1
        _, epoch = self.client.leaders.get(self.partition, (-1, -1))
        return brokers[turn % len(brokers)], epoch

    async def _refused(self) -> None:
        """By one that has no copy, or has not heard of the epoch yet: the next is asked."""
        self._polls += POLLS_FROM_ONE - self._polls % POLLS_FROM_ONE
        await super()._refused()


class RackConsumer(SimConsumer):
    """Says its rack, and reads from the replica that the leader names until that refuses, or for some polls."""

    _replica = -1
    _polls_left = 0
    replicas: list[int]  # to which it was sent, in this order

    def __init__(
        self, client: SimClient, name: str, partition: TopicPartition, *rest: Any, **options: Any
    ) -> None:
        super().__init__(client, name, partition, *rest, **options)
        self.rack = RACKS[partition.partition % len(RACKS)]
        self.replicas = []

    async def _source(self) -> tuple[Address, int]:
        address, known = self.client.brokers.get(self._replica), self.client.leaders.get(self.partition)
        # Its topic may be gone, as far as the one knows that was asked.
        if address is None or known is None or not self._polls_left:
            self._replica = -1
            return await super()._source()
        self._polls_left -= 1
        return address, known[1]

    @property
    def _is_judge(self) -> bool:
        """A follower may lag: what it calls out of range the leader may have."""
        return self._replica < 0

    def _sent_to(self, replica: int) -> None:
        assert self._replica < 0, f"{self._replica}, which the leader named, names {replica}"
        assert rack_of(replica) == self.rack, f"{replica} is not in rack {self.rack}"
        self._replica, self._polls_left = replica, POLLS_FROM_PREFERRED
        self.replicas.append(replica)

    async def poll(self, *, max_wait_ms: int = 500) -> int:
        found = await super().poll(max_wait_ms=max_wait_ms)
        if found < 0:
            self._replica = -1
        return found
