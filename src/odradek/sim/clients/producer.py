"""A well-behaved producer. It keeps what it did as a `History`, and knows when it does not know: a send whose answer
never came is `unknown`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from odradek.model.error_codes import INVALID_METADATA, RETRIABLE, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.api_keys import APIS
from odradek.protocol.headers import encode_request
from odradek.protocol.messages import init_producer_id, produce
from odradek.records.builder import NewRecord, build_batch
from odradek.sim.checkers.history import History, Outcome, Sent
from odradek.sim.clients.client import EPOCH_MS, Address, Pauses, RequestFailed, SimClient

GIVE_UP_S = 120.0
# Which topic of that name it is now, as the history calls it; None: being deleted, so nobody can say.
Named = Callable[[TopicPartition], TopicPartition | None]


# What was refused so may have been appended, and may be on the followers.
MAY_BE_THERE = (
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
)


def by_its_name(partition: TopicPartition) -> TopicPartition | None:
    return partition


# The record of a value, sent at this time.
RecordOf = Callable[[bytes, int], NewRecord]


def without_key(value: bytes, timestamp_ms: int) -> NewRecord:
    return NewRecord(None, value, timestamp_ms)


def produce_request(partition: TopicPartition, batch: bytes, acks: int) -> produce.ProduceRequest:
    return produce_together({partition: batch}, acks)


def produce_together(
    batches: Mapping[TopicPartition, bytes], acks: int, transactional_id: str | None = None
) -> produce.ProduceRequest:
    """One request, as clients send what one broker leads."""
    topics: dict[str, list[produce.PartitionProduceData]] = {}
    for partition, batch in batches.items():
        row = produce.PartitionProduceData(index=partition.partition, records=batch)
        topics.setdefault(partition.topic, []).append(row)
    return produce.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=3_000,
        topic_data=[
            produce.TopicProduceData(name=topic, partition_data=rows) for topic, rows in topics.items()
        ],
    )


class SimProducer:
    """One producer: one batch in flight a partition, retried with its sequence until it is known or given up."""

    def __init__(
        self,
        client: SimClient,
        name: str,
        history: History,
        *,
        acks: int = -1,
        is_idempotent: bool = True,
        named: Named = by_its_name,
        codec: str = "none",
        record_of: RecordOf = without_key,
    ) -> None:
        self._record_of = record_of
        self._codec = codec
        self._named = named
        self.client = client
        self.name = name
        self.history = history
        self.acks = acks
        self.is_idempotent = is_idempotent and acks == -1
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[TopicPartition, int] = {}
        self.in_flight: tuple[TopicPartition, list[bytes]] | None = None  # one at a time
        self._sent_to: TopicPartition | None = None  # what is in flight, as the history calls it

    async def open(self) -> None:
        """Gets a producer id, however often it takes."""
        if not self.is_idempotent:
            return
        request = init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        pauses = Pauses()
        while True:
            addresses = list(self.client.brokers.values())
            for address in addresses:
                try:
                    answer = await self.client.ask(address, request)
                except RequestFailed:
                    continue
                if answer.error_code == ErrorCode.NONE:
                    self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
                    self._sequences.clear()
                    return
            await pauses.pause()
            await self.client.refresh([])

    async def send(self, partition: TopicPartition, values: list[bytes]) -> Sent:
        """Retries until the outcome is known or `GIVE_UP_S` have passed; what it says stands in the history."""
        loop = self.client.loop
        sequence = self._sequences.get(partition, 0)
        batch = build_batch(
            self._records(values),
            producer_id=self._producer_id if self.is_idempotent else -1,
            producer_epoch=self._epoch if self.is_idempotent else -1,
            base_sequence=sequence if self.is_idempotent else -1,
            codec=self._codec,
        )
        end = loop.time() + GIVE_UP_S
        pauses = Pauses()
        named = self._sent_to = self._named(partition)
        self.in_flight = partition, values
        is_in_doubt = False
        outcome: Outcome = "unknown"
        offsets: tuple[int, ...] = ()
        while loop.time() < end:
            address, _ = await self.client.leader_of(partition, end)
            if address is None:
                break
            request = produce_request(partition, batch, self.acks)
            if self.acks == 0:
                self._send_and_forget(address, request)
                break
            try:
                answer = await self.client.ask(address, request)
            except RequestFailed:
                is_in_doubt = True
                await pauses.pause()
                await self.client.refresh([partition.topic])
                if not self.is_idempotent:
                    break  # sending it again could write it twice
                continue
            part = answer.responses[0].partition_responses[0]
            error = ErrorCode(part.error_code)
            if error == ErrorCode.NONE:
                outcome = "ok"
                base = part.base_offset
                offsets = tuple(range(base, base + len(values))) if base >= 0 else ()
                break
            if error in MAY_BE_THERE:
                is_in_doubt = True
                if not self.is_idempotent:
                    break
            if error not in RETRIABLE:
                outcome = "unknown" if is_in_doubt else "failed"
                break
            if not self.is_idempotent and error in (ErrorCode.NETWORK_EXCEPTION,):
                break
            if error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                is_in_doubt = True  # it may have been appended and leadership lost while it waited
                if not self.is_idempotent:
                    await self.client.refresh([partition.topic])
                    break
            await pauses.pause()
            if error in INVALID_METADATA:
                await self.client.refresh([partition.topic])
        self.in_flight = None
        if outcome == "ok":
            self._sequences[partition] = sequence + len(values)
        elif self.is_idempotent:
            # The sequence is spent or not: only a new producer id can go on without a doubt.
            await self.open()
        return self._note(partition, named, values, outcome, offsets)

    def _records(self, values: Sequence[bytes]) -> list[NewRecord]:
        at_ms = EPOCH_MS + int(self.client.loop.time() * 1000)
        return [self._record_of(value, at_ms) for value in values]

    @property
    def is_busy(self) -> bool:
        """Something of it is neither answered nor given up."""
        return self.in_flight is not None

    def abandon(self) -> None:
        """This process is killed: nobody will ever know what became of what it has in flight."""
        if self.in_flight is not None:
            partition, values = self.in_flight
            self.in_flight = None
            self._note(partition, self._sent_to, values, "unknown", ())

    def _note(
        self,
        partition: TopicPartition,
        named: TopicPartition | None,
        values: Sequence[bytes],
        outcome: Outcome,
        offsets: tuple[int, ...],
        *,
        producer: str = "",
    ) -> Sent:
        at_ms = int(self.client.loop.time() * 1000)
        sent = Sent(
            producer or self.name,
            partition,
            tuple(values),
            outcome,
            offsets,
            self.acks,
            self.is_idempotent,
            at_ms,
        )
        if named is not None and self._named(partition) == named:
            self.history.events.append(replace(sent, topic_partition=named))
        else:
            self.history.adrift.append(sent)
        return sent

    def _send_and_forget(self, address: Address, request: produce.ProduceRequest) -> None:
        """acks=0 has no answer, so it goes over a connection of its own that nobody reads."""

        async def send() -> None:
            version = APIS[0].last_version
            try:
                async with asyncio.timeout(2.0):
                    transport, _ = await self.client.loop.create_connection(asyncio.Protocol, *address)
            except (OSError, TimeoutError):
                return
            transport.write(encode_request(0, version, 1, self.name, request.encode(version)))  # type: ignore[attr-defined]
            transport.close()

        self.client.loop.create_task(send())
