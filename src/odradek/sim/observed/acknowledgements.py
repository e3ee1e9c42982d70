"""Acknowledgements of producers in the moment in which they leave a broker, for `checkers.acknowledgements`.

Listens on the wire: a Produce with acks=all of a client is noted, and the world is looked at when its answer is written, before
another event of the world. What a broker has written may be delivered late, or never; it was promised all the same.
"""

from collections.abc import Callable
from typing import NamedTuple

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, TopicPartition
from odradek.protocol.flat.produce_request import decode as decode_request
from odradek.protocol.headers import decode_request_header, decode_response_header
from odradek.protocol.messages.produce import ProduceResponse
from odradek.records.batch import read_header
from odradek.sim.checkers.acknowledgements import Acknowledgement, acknowledged, flushed, refused, timed_out
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.replicas import PartitionView
from odradek.sim.loop import Host
from odradek.sim.network import SimTransport
from odradek.sim.observed.answers_heard import AnswersHeard, frames
from odradek.sim.world import SimBroker, World

PRODUCE, ALL = 0, -1

# Which topic of its name it is, and how many unclean elections there were.
Era = tuple[int, int]
Lives = dict[BrokerId, Host | None]


class SentBatch(NamedTuple):
    producer: tuple[int, int, int]  # its id, its epoch, and the base sequence of this batch
    was_known: bool  # to the broker that is asked, when this request was sent
    last_offset_delta: int
    era: Era  # in which this request was sent
    lives: Lives  # of brokers, when the batch was sent for the first time


class Asked(NamedTuple):
    """One Produce with acks=all that was not answered yet."""

    version: int
    batches: dict[TopicPartition, SentBatch]
    timeout_ms: int
    sent_ms: tuple[float, float]  # when, by the world's clock and by that of the broker that is asked


class Acknowledgements(AnswersHeard[Asked]):
    """`found` holds what was broken first; listening goes on only as long as nothing is."""

    def __init__(
        self,
        world: World,
        client: str,
        *,
        is_min_isr_fixed: bool,
        is_flushed: bool = False,
        on_broken: Callable[[], None] | None = None,
    ) -> None:
        """`client`: the host of the producers. `is_flushed`: their topics have flush.messages=1."""
        self.found: list[Anomaly] = []
        self.judged = 0  # acknowledgements
        self._client = client
        self._is_min_isr_fixed = is_min_isr_fixed
        self._is_flushed = is_flushed
        self._on_broken = on_broken
        self._first_lives: dict[tuple[TopicPartition, int], Lives] = {}  # by the checksum of the batch
        super().__init__(world, "acknowledgements", PRODUCE)

    def answered(self, transport: SimTransport, data: bytes) -> None:
        if self.found:
            return
        for broker, asked, frame in self.answers(transport, data):
            self._judge_answer(broker, asked, frame)

    def heard(self, transport: SimTransport, data: bytes) -> None:
        if transport.host.name != self._client:
            return
        for frame in frames(data):
            if frame[:2] != self._key:
                continue
            header = decode_request_header(frame)
            _, acks, timeout_ms, topics = decode_request(header.api_version, frame, header.body_offset)
            if acks != ALL:
                continue
            broker = self._named(transport.remote_name)
            batches = {
                partition: self._sent(broker, partition, records)
                for topic, rows in topics
                for index, records in rows
                if records is not None and (partition := TopicPartition(topic, index))
            }
            asked = Asked(header.api_version, batches, timeout_ms, self._now_ms(broker))
            self.expect(transport, header.correlation_id, asked)

    def _now_ms(self, broker: SimBroker | None) -> tuple[float, float]:
        runtime = None if broker is None else broker.runtime
        now_ms = self._world.loop.time() * 1000
        return now_ms, now_ms if runtime is None else runtime.now_ms()

    def _named(self, name: str) -> SimBroker | None:
        return next((b for b in self._world.brokers.values() if b.name == name), None)

    def _sent(self, broker: SimBroker | None, partition: TopicPartition, records: memoryview) -> SentBatch:
        header = read_header(records)
        lives: Lives = {}
        if self._is_flushed:
            now = {broker.broker_id: broker.host for broker in self._world.brokers.values()}
            lives = self._first_lives.setdefault((partition, header.crc), now)
        producer = header.producer_id, header.producer_epoch, header.base_sequence
        was_known = broker is not None and header.base_sequence in _sequences(broker, partition, producer)
        return SentBatch(producer, was_known, header.last_offset_delta, self._era(partition), lives)

    def _judge_answer(self, broker: SimBroker, asked: Asked, frame: memoryview) -> None:
        _, offset = decode_response_header(PRODUCE, asked.version, frame)
        response = ProduceResponse.decode(asked.version, frame[offset:])
        told: dict[TopicPartition, int] = {}
        for topic in response.responses:
            for row in topic.partition_responses:
                partition = TopicPartition(topic.name, row.index)
                if row.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                    self._judge_refusal(broker, partition, asked.batches[partition])
                elif row.error_code == ErrorCode.REQUEST_TIMED_OUT:
                    passed_ms = max(
                        now - sent for now, sent in zip(self._now_ms(broker), asked.sent_ms, strict=True)
                    )
                    self.found += timed_out(broker.broker_id, partition, asked.timeout_ms, passed_ms)
                elif not row.error_code and row.base_offset >= 0:
                    told[partition] = row.base_offset
        for partition, base_offset in told.items():
            batch = asked.batches[partition]
            state = self._world.view_of(partition)
            if state is None or _era_of(state) != batch.era:
                continue  # that topic is gone, or lost records with everybody's consent
            self.judged += 1
            answer = Acknowledgement(broker.broker_id, partition, base_offset + batch.last_offset_delta + 1)
            self.found += acknowledged(answer, state, is_min_isr_fixed=self._is_min_isr_fixed)
            if self._is_flushed:
                self.found += flushed(answer, state, self._recovery_points(partition, batch.lives))
        if self.found and self._on_broken is not None:
            self._on_broken()

    def _judge_refusal(self, broker: SimBroker, partition: TopicPartition, batch: SentBatch) -> None:
        """Only of a batch that was known already when the request was sent: what is refused first, and taken a moment later
        from another connection, was out of order."""
        if batch.was_known:
            known = _sequences(broker, partition, batch.producer)
            self.found += refused(broker.broker_id, partition, batch.producer[2], known)

    def _recovery_points(self, partition: TopicPartition, lives: Lives) -> dict[BrokerId, int]:
        found = {}
        for broker in self._world.brokers.values():
            replica = broker.replica(partition) if broker.host is lives.get(broker.broker_id) else None
            if replica is not None:
                found[broker.broker_id] = replica.log.recovery_point
        return found

    def _era(self, partition: TopicPartition) -> Era:
        topics = self._world.topics
        found = topics.assignment(partition.topic)
        number = -1 if found is None else topics.incarnation_of(partition.topic, found.topic_id)
        return number, topics.unclean_elections_of(partition)


def _sequences(broker: SimBroker, partition: TopicPartition, producer: tuple[int, int, int]) -> list[int]:
    """The base sequences of the batches that the log of `broker` knows of this producer, in its epoch."""
    producer_id, producer_epoch, _ = producer
    replica = broker.replica(partition)
    known = None if replica is None else replica.log.producers.get(producer_id)
    if known is None or known.producer_epoch != producer_epoch:
        return []
    return [batch.first_sequence for batch in known.batches]


def _era_of(state: PartitionView) -> Era:
    return state.incarnation, state.unclean_elections
