"""A small client of the simulated cluster: what a well-behaved producer and consumer do, on the same loop.

It speaks the real wire over the simulated network, keeps what it did as a `History`, and knows when it does not
know: a send whose answer never came is `unknown`.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from odradek.client.connection import BrokerLink
from odradek.client.receive_buffers import BufferPool
from odradek.model.error_codes import INVALID_METADATA, RETRIABLE, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.api_keys import APIS
from odradek.protocol.headers import encode_request
from odradek.protocol.messages import (
    create_partitions,
    create_topics,
    fetch,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
    response_class,
)
from odradek.records.batch import iter_batches
from odradek.records.builder import NewRecord, build_batch
from odradek.records.reader import decode_batch
from odradek.sim.checkers.history import History, Polled, Sent
from odradek.sim.loop import Host, SimLoop

RETRY_S = 0.1
# Clients and the store have the same clock; brokers' clocks may jump.
EPOCH_MS = 1_767_225_600_000
EARLIEST = -2
REQUEST_TIMEOUT_MS = 5_000
# What a producer cannot know: the request may have been carried out.
UNKNOWN = None

Address = tuple[str, int]


class RequestFailed(Exception):
    """No answer came; whether the request was carried out is not known."""


class SimClient:
    """Connections of one client host, and its idea of who leads what."""

    def __init__(
        self,
        loop: SimLoop,
        host: Host,
        bootstrap: list[Address],
        *,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        self._request_timeout_ms = request_timeout_ms
        self.loop = loop
        self.host = host
        self._bootstrap = bootstrap
        self._links: dict[Address, BrokerLink] = {}
        self._pool = BufferPool()
        self._next_bootstrap = 0
        self.brokers: dict[int, Address] = {}
        self.controller: int = -1
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}  # leader, leader epoch
        self.topic_ids: dict[str, bytes] = {}

    async def ask(self, address: Address, message: Any, version: int | None = None) -> Any:
        """The decoded answer; RequestFailed if none came."""
        link = self._links.get(address)
        if link is None or link.is_closed:
            link = self._links[address] = BrokerLink(
                self.loop,
                host=address[0],
                port=address[1],
                client_id=self.host.name,
                pool=self._pool,
                after_turn=lambda: None,
                request_timeout_ms=self._request_timeout_ms,
                connect_timeout_ms=2_000,
            )
        key = message.KEY
        if version is None:
            version = APIS[key].last_version
        answered: asyncio.Future[Any] = self.loop.create_future()

        def on_answer(body: memoryview | None, reason: str) -> None:
            if answered.done():
                return
            if body is None:
                answered.set_exception(RequestFailed(reason))
            else:
                answered.set_result(response_class(key).decode(version, bytes(body)))

        link.send(key, version, message.encode(version), on_answer)
        return await answered

    async def refresh(self, topics: list[str] | None = None) -> None:
        """Asks one broker after the other until one answers."""
        request = metadata.MetadataRequest(
            topics=None if topics is None else [metadata.MetadataRequestTopic(name=t) for t in topics],
            allow_auto_topic_creation=False,
        )
        while True:
            addresses = list(self.brokers.values()) or self._bootstrap
            self._next_bootstrap += 1
            try:
                answer = await self.ask(addresses[self._next_bootstrap % len(addresses)], request)
            except RequestFailed:
                self.brokers = {}
                await asyncio.sleep(RETRY_S)
                continue
            self.brokers = {b.node_id: (b.host, b.port) for b in answer.brokers}
            self.controller = answer.controller_id
            for topic in answer.topics:
                if topic.error_code == ErrorCode.NONE:
                    if self.topic_ids.get(topic.name, topic.topic_id) != topic.topic_id:
                        # Another topic of this name: its leader epochs begin anew.
                        for known_partition in [p for p in self.leaders if p.topic == topic.name]:
                            del self.leaders[known_partition]
                    self.topic_ids[topic.name] = topic.topic_id
                for p in topic.partitions:
                    known = self.leaders.get(TopicPartition(topic.name, p.partition_index), (-1, -1))
                    if p.leader_epoch >= known[1]:
                        self.leaders[TopicPartition(topic.name, p.partition_index)] = (
                            p.leader_id,
                            p.leader_epoch,
                        )
            return

    async def leader_of(
        self, partition: TopicPartition, until: float = math.inf
    ) -> tuple[Address | None, int]:
        """None once the loop's time is past `until`."""
        while True:
            leader, epoch = self.leaders.get(partition, (-1, -1))
            address = self.brokers.get(leader)
            if address is not None or self.loop.time() >= until:
                return address, epoch
            await asyncio.sleep(RETRY_S)
            await self.refresh([partition.topic])

    async def ask_controller(self, message: Any) -> Any:
        while True:
            address = self.brokers.get(self.controller)
            if address is not None:
                return await self.ask(address, message)
            await asyncio.sleep(RETRY_S)
            await self.refresh([])

    # --- administration

    async def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        configs: dict[str, str] | None = None,
        *,
        assignments: Sequence[Sequence[int]] = (),
    ) -> ErrorCode:
        """NONE also when a retry finds that the first attempt had worked."""
        request = create_topics.CreateTopicsRequest(
            topics=[
                create_topics.CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replication_factor,
                    assignments=[
                        create_topics.CreatableReplicaAssignment(partition_index=n, broker_ids=list(replicas))
                        for n, replicas in enumerate(assignments)
                    ],
                    configs=[
                        create_topics.CreatableTopicConfig(name=k, value=v)
                        for k, v in sorted((configs or {}).items())
                    ],
                )
            ],
            timeout_ms=3_000,
        )
        attempts = 0
        while True:
            attempts += 1
            try:
                answer = await self.ask_controller(request)
            except RequestFailed:
                await asyncio.sleep(RETRY_S)
                await self.refresh([])
                continue
            error = ErrorCode(answer.topics[0].error_code)
            if error == ErrorCode.TOPIC_ALREADY_EXISTS and attempts > 1:
                error = ErrorCode.NONE
            if error == ErrorCode.NONE:
                await self.refresh([name])
                return error
            if error not in RETRIABLE and error not in (
                ErrorCode.NOT_CONTROLLER,
                ErrorCode.INVALID_REPLICATION_FACTOR,
            ):
                return error
            await asyncio.sleep(RETRY_S)
            await self.refresh([])

    async def add_partitions(self, name: str, count: int) -> ErrorCode | None:
        request = create_partitions.CreatePartitionsRequest(
            topics=[create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=None)],
            timeout_ms=3_000,
            validate_only=False,
        )
        try:
            answer = await self.ask_controller(request)
        except RequestFailed:
            return UNKNOWN
        return ErrorCode(answer.results[0].error_code)


# Which topic of that name it is now, as the history calls it; None: being deleted, so nobody can say.
Named = Callable[[TopicPartition], TopicPartition | None]


def by_its_name(partition: TopicPartition) -> TopicPartition | None:
    return partition


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
    ) -> None:
        self._named = named
        self.client = client
        self.name = name
        self.history = history
        self.acks = acks
        self.is_idempotent = is_idempotent and acks == -1
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[TopicPartition, int] = {}

    async def open(self) -> None:
        """Gets a producer id, however often it takes."""
        if not self.is_idempotent:
            return
        request = init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
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
            await asyncio.sleep(RETRY_S)
            await self.client.refresh([])

    async def send(self, partition: TopicPartition, values: list[bytes], *, give_up_s: float = 120.0) -> Sent:
        """Retries until the outcome is known or `give_up_s` have passed; what it says stands in the history."""
        loop = self.client.loop
        sequence = self._sequences.get(partition, 0)
        batch = build_batch(
            [NewRecord(None, value, EPOCH_MS + int(loop.time() * 1000)) for value in values],
            producer_id=self._producer_id if self.is_idempotent else -1,
            producer_epoch=self._epoch if self.is_idempotent else -1,
            base_sequence=sequence if self.is_idempotent else -1,
        )
        end = loop.time() + give_up_s
        named = self._named(partition)
        is_in_doubt = False
        outcome, offsets = "unknown", tuple[int, ...]()
        while loop.time() < end:
            address, _ = await self.client.leader_of(partition, end)
            if address is None:
                break
            request = produce.ProduceRequest(
                transactional_id=None,
                acks=self.acks,
                timeout_ms=3_000,
                topic_data=[
                    produce.TopicProduceData(
                        name=partition.topic,
                        partition_data=[
                            produce.PartitionProduceData(index=partition.partition, records=batch)
                        ],
                    )
                ],
            )
            if self.acks == 0:
                self._send_and_forget(address, request)
                break
            try:
                answer = await self.client.ask(address, request)
            except RequestFailed:
                is_in_doubt = True
                await asyncio.sleep(RETRY_S)
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
            if error in (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.REQUEST_TIMED_OUT):
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
            await asyncio.sleep(RETRY_S)
            if error in INVALID_METADATA:
                await self.client.refresh([partition.topic])
        if outcome == "ok":
            self._sequences[partition] = sequence + len(values)
        elif self.is_idempotent:
            # The sequence is spent or not: only a new producer id can go on without a doubt.
            await self.open()
        sent = Sent(
            self.name,
            partition,
            tuple(values),
            outcome,  # type: ignore[arg-type]
            offsets,
            self.acks,
            self.is_idempotent,
            int(loop.time() * 1000),
        )
        if named is not None and self._named(partition) == named:
            self.history.events.append(replace(sent, topic_partition=named))
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


class SimConsumer:
    """Reads one partition by assignment from where it is, and never past what the leader calls committed."""

    def __init__(
        self,
        client: SimClient,
        name: str,
        partition: TopicPartition,
        history: History,
        offset: int = 0,
        *,
        named: Callable[[TopicPartition, Any], TopicPartition] | None = None,
        may_start_over: bool = False,
    ) -> None:
        """`named` tells what the history calls the topic with this id. `may_start_over`: out of range is no bug,
        because somebody deletes records or elects from outside the ISR: go on at the log start."""
        self._named = named
        self._may_start_over = may_start_over
        self._topic_id: Any = None
        self._times_started_over = 0
        self._first_name = name
        self.client = client
        self.name = name
        self.partition = partition
        self.history = history
        self.offset = offset
        self.high_watermark = -1

    async def poll(self, *, max_wait_ms: int = 500) -> int:
        """One fetch; how many records came, or -1 when nothing could be learnt."""
        address, epoch = await self.client.leader_of(self.partition)
        assert address is not None
        topic_id = self.client.topic_ids.get(self.partition.topic)
        if topic_id is None:
            await self.client.refresh([self.partition.topic])
            return -1
        if self._named is not None and self._topic_id not in (None, topic_id):
            self._start_over(0)
        self._topic_id = topic_id
        request = fetch.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[
                fetch.FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        fetch.FetchPartition(
                            partition=self.partition.partition,
                            current_leader_epoch=epoch,
                            fetch_offset=self.offset,
                            partition_max_bytes=1 << 20,
                        )
                    ],
                )
            ],
        )
        try:
            answer = await self.client.ask(address, request)
        except RequestFailed:
            await asyncio.sleep(RETRY_S)
            await self.client.refresh([self.partition.topic])
            return -1
        if answer.error_code or not answer.responses:
            await asyncio.sleep(RETRY_S)
            return -1
        part = answer.responses[0].partitions[0]
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self._may_start_over:
            await self._go_to_log_start(address)
            return -1
        if part.error_code:
            await asyncio.sleep(RETRY_S)
            await self.client.refresh([self.partition.topic])
            return -1
        self.high_watermark = part.high_watermark
        records, epochs = self._records(part.records)
        if records:
            self.offset = records[-1][0] + 1
            partition = self.partition if self._named is None else self._named(self.partition, topic_id)
            at_ms = int(self.client.loop.time() * 1000)
            self.history.events.append(Polled(self.name, partition, tuple(records), at_ms, tuple(epochs)))
        return len(records)

    def _start_over(self, offset: int) -> None:
        """From now on another consumer, as far as the order of its polls goes."""
        self._times_started_over += 1
        self.name = f"{self._first_name}.{self._times_started_over}"
        self.offset, self.high_watermark = offset, -1

    async def _go_to_log_start(self, address: Address) -> None:
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                list_offsets.ListOffsetsTopic(
                    name=self.partition.topic,
                    partitions=[
                        list_offsets.ListOffsetsPartition(
                            partition_index=self.partition.partition, timestamp=EARLIEST
                        )
                    ],
                )
            ],
        )
        try:
            answer = await self.client.ask(address, request)
        except RequestFailed:
            await asyncio.sleep(RETRY_S)
            return
        part = answer.topics[0].partitions[0]
        if part.error_code == ErrorCode.NONE:
            self._start_over(part.offset)
        await asyncio.sleep(RETRY_S)

    def _records(self, data: Any) -> tuple[list[tuple[int, bytes]], list[int]]:
        found: list[tuple[int, bytes]] = []
        epochs: list[int] = []
        if not data:
            return found, epochs
        view = memoryview(data)
        for position, header in iter_batches(view):
            for record in decode_batch(view[position : position + header.size_bytes]):
                if record.offset >= self.offset:
                    found.append((record.offset, record.value or b""))
                    epochs.append(header.leader_epoch)
        return found, epochs
