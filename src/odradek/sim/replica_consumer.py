"""A consumer that reads by replica: from any copy of its partition, whoever leads (KIP-392).

Each copy serves up to the high watermark it knows itself, so what one has given, none may ever give otherwise.
"""

from odradek.sim.client import Address
from odradek.sim.consumer import SimConsumer

# So many polls from one, then the next. An odd number, so that partitions do not go round in step.
POLLS_FROM_ONE = 3


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
