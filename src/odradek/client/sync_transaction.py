"""One transaction of one producer: record batches into many partitions, of which all or none are read (KIP-98).

    with SyncClient(bootstrap) as client:
        transaction = Transaction(client, "orders-sink", timeout_ms=60_000)
        transaction.begin()              # whoever had this transactional id before is fenced, and what it left is aborted
        transaction.send({partition: batches})
        transaction.commit()

Each batch has a sequence number, so that one whose answer was lost is sent again and stands in the log once. Up to five
requests a leader are on their way: as many batches as a leader remembers of a producer. Version 1 of the protocol of
transactions is spoken, which every broker knows.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from odradek.client.produce_pieces import FileSlice, Piece, produce_pieces
from odradek.client.sync import SyncClient, answered, code_of
from odradek.client.sync_connection import (
    ConnectionLost,
    DeadlineExceeded,
    PendingAnswer,
    SyncConnection,
    Unreachable,
    left_out,
)
from odradek.client.sync_groups import TRANSACTION_KEY, coordinators
from odradek.model.error_codes import RETRIABLE, ErrorCode
from odradek.model.errors import OdradekError, ProtocolError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from odradek.protocol.primitives import size_of
from odradek.protocol.schema import Request
from odradek.records.batch import BATCH_OVERHEAD, MAX_SEQUENCE, Buffer, read_header, stamp_producer

IN_FLIGHT = 5  # requests a leader; it remembers as many batches of each producer (KAFKA-4954)
REQUEST_BYTES = 4 << 20
_PAUSE_S = 0.05
# The last versions of these requests whose transactions are of version 1.
_LAST: dict[type[Request], int] = {
    InitProducerIdRequest: 4,
    AddPartitionsToTxnRequest: 3,
    EndTxnRequest: 4,
    ProduceRequest: 11,
}
_FENCED = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)


class BatchInFile(NamedTuple):
    """A record batch whose records lie in a file."""

    header: bytes
    records: FileSlice
    acknowledged: Callable[[], None]  # called once, when it is never read again


Batch = Buffer | BatchInFile


def _header_of(batch: Batch) -> Buffer:
    return batch.header if isinstance(batch, BatchInFile) else batch[:BATCH_OVERHEAD]


class Fenced(OdradekError):
    """The transaction is not ours any more: another producer of its id has begun, or its time was over."""


class Transaction:
    """Not for several threads. After an error it can only be aborted."""

    def __init__(self, client: SyncClient, transactional_id: str, *, timeout_ms: int) -> None:
        self._client = client
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self.producer_id = -1
        self.producer_epoch = -1
        self._next_sequence: dict[TopicPartition, int] = {}

    def begin(self) -> None:
        """Fences whoever had the transactional id; returns when what they left open is ended everywhere."""

        def ask(coordinator: int) -> None:
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
            )
            answer = self._call(coordinator, request)
            self._check(answer.error_code)
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

        self._at_coordinator(ask)

    def send(self, batches: Mapping[TopicPartition, Sequence[Batch]]) -> dict[TopicPartition, int]:
        """Appends the batches, those of a partition in their order; gives the offset of the first of each partition.

        Their checksums have to be right: they are carried over to the stamped headers, and records are not looked at.

        Fenced: nothing of the transaction will ever be read.
        """
        self._add_partitions([p for p in sorted(batches) if p not in self._next_sequence])
        ways = [
            _Way(partition, of_one, self._next_sequence.setdefault(partition, 0))
            for partition, of_one in sorted(batches.items())
            if of_one
        ]
        _Sending(self._client, self, ways).run()
        for way in ways:
            self._next_sequence[way.partition] = way.sequences[-1]
        return {way.partition: way.first_offset for way in ways}

    def commit(self) -> None:
        """Fenced says that somebody else knows by now whether it was committed: it was ours until the answer was lost."""
        self._end(is_commit=True)

    def abort(self) -> None:
        self._end(is_commit=False)

    def stamped(self, batch: Batch, sequence: int) -> list[Piece]:
        """The batch as this producer sends it: a header of its own, and the records where they are."""
        header = bytearray(_header_of(batch))
        stamp_producer(
            header,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
        )
        return [
            header,
            batch.records if isinstance(batch, BatchInFile) else memoryview(batch)[BATCH_OVERHEAD:],
        ]

    def fenced(self, code: ErrorCode) -> Fenced:
        return Fenced(
            f"transaction of {self.transactional_id!r}: {code.name}: another producer of this id has begun, or the "
            f"transaction was open for longer than {self._timeout_ms} ms; nothing that it wrote is read"
        )

    def _add_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        if not partitions:
            return
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()
            ],
        )

        def ask(coordinator: int) -> None:
            told = set()
            for topic in self._call(coordinator, request).results_by_topic_v3_and_below:
                for row in topic.results_by_partition:
                    told.add(TopicPartition(topic.name, row.partition_index))
                    # Of the others it says so while one is refused.
                    if row.partition_error_code != ErrorCode.OPERATION_NOT_ATTEMPTED:
                        self._check(row.partition_error_code, f"{topic.name}-{row.partition_index}")
            for partition in partitions:
                if partition not in told:
                    raise left_out(partition)

        self._at_coordinator(ask)

    def _end(self, *, is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=is_commit,
        )
        # May be sent twice: a transaction that ended so is said to have ended so.
        self._at_coordinator(lambda coordinator: self._check(self._call(coordinator, request).error_code))

    def _check(self, number: int, about: str = "") -> None:
        code = code_of(number)
        if code in _FENCED:
            raise self.fenced(code)
        if code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise answered(
                number,
                f"transaction of {self.transactional_id!r}",
                f"{self._timeout_ms} ms is above transaction.max.timeout.ms of the brokers",
            )
        if code:
            raise answered(number, about or f"transaction of {self.transactional_id!r}")

    def _call(self, broker: int, request: Request) -> Any:
        return self._client.call(broker, request, max_version=_LAST[type(request)])

    def _at_coordinator(self, ask: Callable[[int], None]) -> None:
        name = self.transactional_id

        def asked() -> None:
            ask(coordinators(self._client, [name], key_type=TRANSACTION_KEY)[name])

        self._client.retrying(asked)


class _Way:
    """The batches of one partition, and how far they are."""

    def __init__(self, partition: TopicPartition, batches: Sequence[Batch], sequence: int) -> None:
        self.partition = partition
        self.batches = batches
        self.sequences = [sequence]  # of each batch, and of what would come behind
        for batch in batches:
            count = read_header(_header_of(batch)).record_count
            self.sequences.append((self.sequences[-1] + count) & MAX_SEQUENCE)
        self.acknowledged = 0  # batches
        self.next = 0  # to be sent
        self.in_flight = 0
        self.first_offset = -1
        self.has_failed = False  # those on their way are waited for, and then sent again

    @property
    def is_done(self) -> bool:
        return self.acknowledged == len(self.batches)


class _Flight(NamedTuple):
    leader: int
    connection: SyncConnection
    answer: PendingAnswer
    ways: dict[TopicPartition, tuple[_Way, int]]  # and which of its batches
    deadline: float


class _Sending:
    """A window of requests to several leaders: what fails is sent again in order, once nothing of it is on its way."""

    def __init__(self, client: SyncClient, transaction: Transaction, ways: Sequence[_Way]) -> None:
        self._client = client
        self._transaction = transaction
        self._waiting = list(ways)  # for a leader
        self._ready: dict[int, deque[_Way]] = {}
        self._flights: deque[_Flight] = deque()
        self._flying: dict[int, int] = {}
        self._last_failure: Exception | None = None
        self._is_to_pause = False
        self._give_up = client.deadline()

    def run(self) -> None:
        try:
            self._send_all()
        except (Exception, KeyboardInterrupt):
            # Whoever aborts now must not be overtaken: what came to a leader behind the marker would begin a transaction that
            # nobody ends, and readers of committed records would wait there for ever.
            for flight in self._flights:
                with suppress(OdradekError):
                    flight.connection.receive(flight.answer, flight.deadline)
            raise

    def _send_all(self) -> None:
        while True:
            if self._is_to_pause and self._waiting and not self._flights:
                self._pause()
            self._find_leaders()
            for leader in list(self._ready):
                while self._ready[leader] and self._flying.get(leader, 0) < IN_FLIGHT:
                    self._depart(leader)
            if self._flights:
                self._land(self._flights.popleft())
            elif self._waiting:
                self._is_to_pause = True
            else:
                return

    def _find_leaders(self) -> None:
        waiting, self._waiting = self._waiting, []
        for way in waiting:
            try:
                leader, _ = self._client.leader(way.partition)
            except (ConnectionLost, Unreachable, ProtocolError) as error:
                if isinstance(error, ProtocolError) and error.code not in RETRIABLE:
                    raise
                self._last_failure = error
                self._waiting.append(way)
                continue
            self._ready.setdefault(leader, deque()).append(way)

    def _depart(self, leader: int) -> None:
        """One request: a batch of each partition that is ready, until it is full."""
        ready = self._ready[leader]
        ways: dict[TopicPartition, tuple[_Way, int]] = {}
        topics: dict[str, list[PartitionProduceData]] = {}
        records: dict[TopicPartition, list[Piece]] = {}
        size = 0
        again = []
        while ready and size < REQUEST_BYTES:
            way = ready.popleft()
            batch = self._transaction.stamped(way.batches[way.next], way.sequences[way.next])
            records[way.partition] = batch
            data = PartitionProduceData(index=way.partition.partition)
            topics.setdefault(way.partition.topic, []).append(data)
            ways[way.partition] = (way, way.next)
            way.next += 1
            way.in_flight += 1
            size += size_of(batch)
            if way.next < len(way.batches):
                again.append(way)
        ready.extend(again)
        timeout_s = self._client.request_timeout_s
        request = ProduceRequest(
            transactional_id=self._transaction.transactional_id,
            acks=-1,
            timeout_ms=int(timeout_s * 1000),
            topic_data=[TopicProduceData(name=name, partition_data=rows) for name, rows in topics.items()],
        )
        deadline = self._client.deadline()
        try:
            connection = self._client.connection_to(leader, deadline)
            version = connection.version_for(ProduceRequest, _LAST[ProduceRequest])
            pieces = produce_pieces(request, version, records)
            answer = connection.send_pieces(ProduceRequest, version, pieces, deadline)
        except (ConnectionLost, Unreachable) as error:
            for way, _ in ways.values():
                self._failed(way, error)
            return
        self._flights.append(_Flight(leader, connection, answer, ways, deadline))
        self._flying[leader] = self._flying.get(leader, 0) + 1

    def _land(self, flight: _Flight) -> None:
        self._flying[flight.leader] -= 1
        try:
            answer = flight.connection.receive(flight.answer, flight.deadline)
        except ConnectionLost as error:
            for way, _ in flight.ways.values():
                self._failed(way, error)
            return
        for topic in answer.responses:
            for row in topic.partition_responses:
                sent = flight.ways.pop(TopicPartition(topic.name, row.index), None)
                if sent is not None:
                    self._answered(*sent, row)
        for partition in flight.ways:
            raise left_out(partition)

    def _answered(self, way: _Way, number: int, row: Any) -> None:
        code = code_of(row.error_code)
        # A duplicate was appended before its answer was lost.
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            if number == way.acknowledged:
                way.acknowledged += 1
                batch = way.batches[number]
                if isinstance(batch, BatchInFile):
                    batch.acknowledged()
            if number == 0:
                way.first_offset = row.base_offset
            self._give_up = self._client.deadline()
            self._arrived(way)
            return
        if code in _FENCED:
            raise self._transaction.fenced(code)
        is_behind_a_failure = way.has_failed and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        failure = answered(row.error_code, str(way.partition), row.error_message)
        if code not in RETRIABLE and not is_behind_a_failure:
            raise failure
        self._failed(way, failure)

    def _failed(self, way: _Way, error: Exception) -> None:
        way.has_failed = True
        self._last_failure = error
        self._client.forget(way.partition.topic)
        self._arrived(way)

    def _arrived(self, way: _Way) -> None:
        """Of a request that ended, well or not."""
        way.in_flight -= 1
        if not way.has_failed:
            return
        for ready in self._ready.values():
            if way in ready:
                ready.remove(way)
        if not way.in_flight:
            way.has_failed = False
            way.next = way.acknowledged
            if not way.is_done:
                self._waiting.append(way)
                self._is_to_pause = True

    def _pause(self) -> None:
        if time.monotonic() > self._give_up:
            raise DeadlineExceeded(
                f"given up in the end; the last answer was: {self._last_failure}"
            ) from self._last_failure
        time.sleep(_PAUSE_S)
        self._is_to_pause = False
