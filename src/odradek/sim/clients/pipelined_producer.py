"""A producer with five requests in flight a partition, as Java's and librdkafka's have them with idempotence on.

What is not acknowledged is sent again with its sequence, in order. Where that leads nowhere (the broker has forgotten what came
before, or remembers something else) the epoch is raised by the producer itself, and sequences begin anew (KIP-360); what was
in doubt stays so. Now and then it leaves a gap in its sequence, which the broker must refuse.
"""

import asyncio
import random
from collections import deque
from typing import Any

from odradek.model.error_codes import INVALID_METADATA, RETRIABLE, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.records.builder import build_batch
from odradek.sim.checkers.history import Outcome
from odradek.sim.clients.client import Pauses, RequestFailed
from odradek.sim.clients.producer import GIVE_UP_S, SimProducer, produce_request

MOST_IN_FLIGHT = 5
GAP = 7
# The batch may have been written.
IN_DOUBT = frozenset(
    {
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,  # the disk may have failed while it waited for its followers, and they have it
    }
)


class _Batch:
    __slots__ = ("epoch", "is_in_doubt", "named", "offsets", "outcome", "sequence", "until", "values")

    def __init__(self, values: list[bytes], named: TopicPartition | None, until: float) -> None:
        self.values = values
        self.named = named
        self.until = until
        self.sequence = self.epoch = -1  # not sent yet
        self.is_in_doubt = False
        self.outcome: Outcome | None = None
        self.offsets: tuple[int, ...] = ()


class PipelinedProducer(SimProducer):
    """As `SimProducer`, but that `send` returns as soon as there is room for another batch."""

    def __init__(self, *args: Any, gaps: random.Random | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        assert self.is_idempotent, "without idempotence five in flight promise no order"
        self._gaps = gaps  # None: it leaves none
        self._queues: dict[TopicPartition, deque[_Batch]] = {}
        self._being_emptied: set[TopicPartition] = set()
        self._epochs: dict[TopicPartition, int] = {}
        self._count = 0
        self._has_room = asyncio.Event()  # perhaps: some queue is shorter

    @property
    def is_busy(self) -> bool:
        return any(self._queues.values())

    async def produce(self, partition: TopicPartition, values: list[bytes]) -> None:
        """Returns when five wait for an answer at most."""
        queue = self._queues.setdefault(partition, deque())
        loop = self.client.loop
        queue.append(_Batch(values, self._named(partition), loop.time() + GIVE_UP_S))
        if partition not in self._being_emptied:
            self._being_emptied.add(partition)
            loop.create_task(self._empty(partition, queue))
        self._note_in_flight()
        while len(queue) > MOST_IN_FLIGHT:
            self._has_room.clear()
            await self._has_room.wait()

    def abandon(self) -> None:
        for partition, queue in self._queues.items():
            for batch in queue:
                if batch.epoch >= 0:
                    self._settled(partition, batch)
            queue.clear()
        self._has_room.set()
        self.in_flight = None

    # --- one partition

    async def _empty(self, partition: TopicPartition, queue: deque[_Batch]) -> None:
        try:
            await self._send_all(partition, queue)
        finally:
            self._being_emptied.discard(partition)
            self._note_in_flight()

    async def _send_all(self, partition: TopicPartition, queue: deque[_Batch]) -> None:
        pauses = Pauses()
        while queue:
            until = queue[0].until
            address, _ = await self.client.leader_of(partition, until)
            if address is None or self.client.loop.time() >= until:
                self._restart(partition, queue)
                continue
            window = [batch for batch in list(queue)[:MOST_IN_FLIGHT] if batch.outcome is None]
            asked = []
            for batch in window:
                self._place(partition, batch)
                request = produce_request(partition, self._bytes(batch), -1)
                asked.append(self.client.asked(address, request))
            if self._gaps is not None and self._gaps.random() < 0.05:
                await self._leave_a_gap(partition, window[-1], address)
            first_failure: _Batch | None = None
            for batch, answered in zip(window, asked, strict=True):
                is_well = await self._hear(batch, answered, is_behind_a_failure=first_failure is not None)
                if not is_well and first_failure is None:
                    first_failure = batch
            self._pop_settled(partition, queue)
            if first_failure is not None:
                if (
                    first_failure.outcome is not None
                ):  # its sequence is spent, and nothing behind it can follow
                    self._restart(partition, queue)
                await pauses.pause()
                await self.client.refresh([partition.topic])
            else:
                pauses.succeeded()

    def _place(self, partition: TopicPartition, batch: _Batch) -> None:
        if batch.epoch < 0:
            batch.epoch = self._epochs.setdefault(partition, self._epoch)
            batch.sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = batch.sequence + len(batch.values)

    def _bytes(self, batch: _Batch, gap: int = 0) -> bytes:
        return build_batch(
            self._records(batch.values),
            producer_id=self._producer_id,
            producer_epoch=batch.epoch,
            base_sequence=batch.sequence + gap,
            codec=self._codec,
        )

    async def _hear(
        self, batch: _Batch, answered: "asyncio.Future[Any]", *, is_behind_a_failure: bool
    ) -> bool:
        """False: it is to be sent again, or cannot be."""
        try:
            answer = await answered
        except RequestFailed:
            batch.is_in_doubt = True
            return False
        row = answer.responses[0].partition_responses[0]
        error = ErrorCode(row.error_code)
        if error == ErrorCode.NONE:
            batch.outcome = "ok"
            base = row.base_offset
            batch.offsets = tuple(range(base, base + len(batch.values))) if base >= 0 else ()
            return True
        batch.is_in_doubt = batch.is_in_doubt or error in IN_DOUBT
        # Behind one that failed in this round everything is out of order, and that says nothing.
        if error not in RETRIABLE and error not in INVALID_METADATA and not is_behind_a_failure:
            batch.outcome = "unknown" if batch.is_in_doubt else "failed"
        return False

    def _restart(self, partition: TopicPartition, queue: deque[_Batch]) -> None:
        """Another epoch. What was sent in the one before is settled as it stands; what was not goes on."""
        unsent = [batch for batch in queue if batch.epoch < 0]
        for batch in queue:
            if batch.epoch >= 0:
                self._settled(partition, batch)
        queue.clear()
        queue.extend(unsent)
        for batch in unsent:
            batch.until = self.client.loop.time() + GIVE_UP_S
        self._epochs[partition] = self._epochs.get(partition, self._epoch) + 1
        self._sequences[partition] = 0
        self._has_room.set()

    def _pop_settled(self, partition: TopicPartition, queue: deque[_Batch]) -> None:
        """In the order of their sequences, whatever the order of their answers."""
        while queue and queue[0].outcome is not None:
            self._settled(partition, queue.popleft())
            self._has_room.set()

    def _settled(self, partition: TopicPartition, batch: _Batch) -> None:
        self._note(partition, batch.named, batch.values, batch.outcome or "unknown", batch.offsets)

    async def _leave_a_gap(self, partition: TopicPartition, behind: _Batch, address: Any) -> None:
        self._count += 1
        gap = _Batch([f"{self.name}-gap-{self._count}".encode()], self._named(partition), 0.0)
        gap.epoch, gap.sequence = behind.epoch, behind.sequence + len(behind.values) + GAP
        request = produce_request(partition, self._bytes(gap), -1)
        await self._hear(gap, self.client.asked(address, request), is_behind_a_failure=False)
        outcome = gap.outcome or ("unknown" if gap.is_in_doubt else "failed")
        # Whoever knows nothing of a producer takes any sequence; in which order is then no matter.
        name = f"{self.name}-gap"
        self._note(partition, gap.named, gap.values, outcome, gap.offsets, producer=name)

    def _note_in_flight(self) -> None:
        """One of those that are under way, for whoever wants to send it once more."""
        sent = [(p, queue[0].values) for p, queue in self._queues.items() if queue]
        self.in_flight = sent[0] if sent else None
