"""A well-behaved consumer of one partition. What it polled stands in a `History`."""

from collections.abc import Callable
from typing import Any

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages import fetch, list_offsets
from odradek.records.batch import iter_whole_batches
from odradek.records.errors import CorruptBatch
from odradek.records.reader import Record, decode_batch
from odradek.sim.checkers.history import History, Polled, Value
from odradek.sim.clients.client import Address, Pauses, RequestFailed, SimClient

EARLIEST = -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class SimConsumer:
    """Reads one partition by assignment from where it is, and never past what the leader calls committed."""

    isolation_level = READ_UNCOMMITTED
    rack = ""  # none: read from the leader

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
        fetch_bytes: int = 1 << 20,
    ) -> None:
        """`named` tells what the history calls the topic with this id. `may_start_over`: out of range is no bug,
        because somebody deletes records or elects from outside the ISR: go on at the log start. `fetch_bytes`: of
        one answer, at most, but for a first batch that is larger."""
        self._named = named
        self._may_start_over = may_start_over
        self._fetch_bytes = fetch_bytes
        self._topic_id: Any = None
        self._times_started_over = 0
        self._first_name = name
        self.client = client
        self.name = name
        self.partition = partition
        self.history = history
        self.offset = offset
        self.high_watermark = self.last_stable_offset = -1
        self._pauses = Pauses()

    async def poll(self, *, max_wait_ms: int = 500) -> int:
        """One fetch; how many records came, or -1 when nothing could be learnt."""
        address, epoch = await self._source()
        topic_id = self.client.topic_ids.get(self.partition.topic)
        if topic_id is None:
            await self.client.refresh([self.partition.topic])
            return -1
        if self._named is not None and self._topic_id not in (None, topic_id):
            self._start_over(0)
        self._topic_id = topic_id
        try:
            answer = await self.client.ask(address, self._request(topic_id, epoch, max_wait_ms))
        except RequestFailed:
            await self._pauses.pause()
            await self.client.refresh([self.partition.topic])
            return -1
        if answer.error_code or not answer.responses:
            await self._pauses.pause()
            return -1
        part = answer.responses[0].partitions[0]
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self._may_start_over and self._is_judge:
            await self._go_to_log_start(address)
            return -1
        if part.error_code:
            await self._refused()
            return -1
        self._pauses.succeeded()
        if part.preferred_read_replica >= 0:
            self._sent_to(part.preferred_read_replica)
            return 0
        self.high_watermark, self.last_stable_offset = part.high_watermark, part.last_stable_offset
        try:
            records, epochs, next_offset = self._records(part.records, part.aborted_transactions or [])
        except CorruptBatch:  # as other clients do: what does not fit its checksum is nothing
            await self._pauses.pause()
            return -1
        if records and next_offset > part.high_watermark:
            self.history.uncommitted.append((self.name, self.partition, next_offset, part.high_watermark))
        self.offset = next_offset  # also behind a batch that compaction has emptied
        if records:
            partition = self.partition if self._named is None else self._named(self.partition, topic_id)
            at_ms = int(self.client.loop.time() * 1000)
            self.history.events.append(Polled(self.name, partition, tuple(records), at_ms, tuple(epochs)))
        return len(records)

    def _request(self, topic_id: bytes, leader_epoch: int, max_wait_ms: int) -> fetch.FetchRequest:
        row = fetch.FetchPartition(
            partition=self.partition.partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=self.offset,
            partition_max_bytes=self._fetch_bytes,
        )
        return fetch.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=self.isolation_level,
            session_id=0,
            session_epoch=-1,
            rack_id=self.rack,
            topics=[fetch.FetchTopic(topic_id=topic_id, partitions=[row])],
        )

    async def _source(self) -> tuple[Address, int]:
        """Whom to ask, and the leader epoch to name."""
        address, epoch = await self.client.leader_of(self.partition)
        assert address is not None
        return address, epoch

    @property
    def _is_judge(self) -> bool:
        """Whom it asks says where the log begins and ends."""
        return True

    def _sent_to(self, replica: int) -> None:
        """The leader gives no records, and says who does (KIP-392)."""
        raise AssertionError(f"{self.name} named no rack, and is sent to {replica}")

    async def _refused(self) -> None:
        await self._pauses.pause()
        await self.client.refresh([self.partition.topic])

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
            await self._pauses.pause()
            return
        part = answer.topics[0].partitions[0]
        if part.error_code == ErrorCode.NONE:
            self._start_over(part.offset)
        await self._pauses.pause()

    @property
    def is_at_the_end(self) -> bool:
        """Of what the leader told it last."""
        is_committed = self.isolation_level == READ_COMMITTED
        end = self.last_stable_offset if is_committed else self.high_watermark
        return end >= 0 and self.offset >= end

    @staticmethod
    def _text(record: Record) -> Value:
        """What the history calls it by."""
        return record.value or b""

    def _records(
        self, data: Any, aborted: list[fetch.AbortedTransaction]
    ) -> tuple[list[tuple[int, Value]], list[int], int]:
        """Offsets and texts, the leader epoch of each, and where the next fetch begins. `aborted` says what a consumer that
        reads committed records is to leave out."""
        found: list[tuple[int, Value]] = []
        epochs: list[int] = []
        next_offset = self.offset
        if not data:
            return found, epochs, next_offset
        view = memoryview(data)
        for position, header in iter_whole_batches(view):
            for record in decode_batch(view[position : position + header.size_bytes]):
                if record.offset >= self.offset:
                    found.append((record.offset, self._text(record)))
                    epochs.append(header.leader_epoch)
            next_offset = max(next_offset, header.next_offset)
        return found, epochs, next_offset
