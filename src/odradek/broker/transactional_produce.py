"""A Produce with a transactional id: what opens a transaction in a log is appended only when the coordinator has the
partition in it (KIP-890). From version 12 on it is added there, if need be.

Nothing is asked where the log has the transaction open already, so most requests go on at once. The others wait for
the coordinator's answer, with records of their own.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park
from odradek.broker.produce_request import ProduceAsked
from odradek.broker.transaction_questions import Errors, Question, ask_coordinator, told_to_producer
from odradek.broker.verifications import Admission, Verification, Writer, writer_of
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.protocol.flat.produce_request import decode as decode_request
from odradek.replication.partition import Partition

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

FIRST_THAT_ADDS = 12
# Of questions, for markers that come in between.
ATTEMPTS = 3
Refused = dict[TopicPartition, ProtocolError]
Writers = dict[TopicPartition, Writer]
# What a Produce does with its records, once it is known what may be appended.
AppendAll = Callable[["Broker", "Request", ProduceAsked, Admission | None, int], Answer]


def handle(
    broker: "Broker", request: "Request", produce: ProduceAsked, append_all: AppendAll, now_ms: int
) -> Answer:
    is_adding = request.api_version >= FIRST_THAT_ADDS
    asks = is_adding or broker.settings.transaction_partition_verification_enable
    writers, refused = _writers(produce)
    verified: dict[TopicPartition, Verification] = {}
    known: dict[TopicPartition, Verification] = {}
    for place, writer in writers.items():
        partition = _led(broker, place)
        if not asks or partition is None:
            continue
        if broker.verifications.needs_none(partition, writer, is_adding=is_adding):
            known[place] = Verification(
                writer.epoch,
                partition.leader_epoch,
                writer.first_sequence,
                is_adding=is_adding,
                partition=partition,
            )
        else:
            verified[place] = broker.verifications.begin(partition, writer, is_adding=is_adding)
    if not verified:
        admission = Admission(broker.verifications, refused, known, asks=asks, is_adding=is_adding)
        return append_all(broker, request, produce, admission, now_ms)
    first = writers[next(iter(verified))]
    question = Question(
        produce.transactional_id or "", first.producer_id, first.epoch, frozenset(verified), is_adding
    )
    checked = _Checked(broker, request, append_all, writers, refused, known, verified, asks=asks)
    checked.ask(question, ATTEMPTS, now_ms)
    park = checked.park
    return park if park.result is None else park.result


class _Checked:
    """A Produce whose transaction the coordinator is asked about first. Nothing of it refers back to it: what is answered is let go
    at once, with all its records, and not when the collector of cycles comes."""

    def __init__(
        self,
        broker: "Broker",
        request: "Request",
        append_all: AppendAll,
        writers: Writers,
        refused: Refused,
        known: dict[TopicPartition, Verification],
        verified: dict[TopicPartition, Verification],
        *,
        asks: bool,
    ) -> None:
        self.park = Park()
        self._broker = broker
        self._own = request.kept()
        self._budget = request.budget
        self._append_all = append_all
        self._writers = writers
        self._refused = refused
        self._known = known
        self._verified = verified
        self._asks = asks

    def ask(self, question: Question, attempts: int, now_ms: int) -> None:
        ask_coordinator(self._broker, question, partial(self._told, question, attempts), now_ms)

    def _told(self, question: Question, attempts: int, errors: Errors, now_ms: int) -> None:
        broker, own, is_adding = self._broker, self._own, question.is_adding
        refused, verified = self._refused, self._verified
        for place, error in errors.items():
            if error:
                refused[place] = _refusal(error, own.api_version)
                if error == ErrorCode.INVALID_PRODUCER_ID_MAPPING:
                    broker.verifications.ended(place, self._writers[place].producer_id)
        lost = _overtaken(broker, errors, self._writers, verified) if is_adding else []
        if lost and attempts > 1:
            return self.ask(question._replace(partitions=frozenset(lost)), attempts - 1, now_ms)
        again = ProduceAsked(*decode_request(own.api_version, own.body, budget=self._budget))
        admission = Admission(
            broker.verifications, refused, self._known | verified, asks=self._asks, is_adding=is_adding
        )
        append_all = self._append_all
        return self.park.answer(lambda: append_all(broker, own, again, admission, now_ms))


def _led(broker: "Broker", place: TopicPartition) -> Partition | None:
    partition = broker.replicas.partitions.get(place)
    return partition if partition is not None and partition.is_leader else None


def _overtaken(
    broker: "Broker", errors: Errors, writers: Writers, verified: dict[TopicPartition, Verification]
) -> list[TopicPartition]:
    """Partitions that were added while a marker came into the log. As a rule that is the marker of the transaction before:
    the coordinator adds to the next one when it is there, and tells so afterwards. Asked once more it says whether they
    are in the open one; nothing is written for that."""
    lost = []
    for place, error in errors.items():
        partition = None if error else _led(broker, place)
        if partition and not broker.verifications.still_holds(partition, writers[place], verified[place]):
            verified[place] = broker.verifications.begin(partition, writers[place], is_adding=True)
            lost.append(place)
    return lost


def _writers(produce: ProduceAsked) -> tuple[Writers, Refused]:
    """Of the transactional batches; a request has one producer, and whoever is another is refused."""
    writers: Writers = {}
    refused: Refused = {}
    first: Writer | None = None
    for topic, partitions in produce.topics:
        for index, records in partitions:
            writer = writer_of(records)
            if writer is None:
                continue
            place = TopicPartition(topic, index)
            first = first or writer
            if writer[:2] == first[:2]:
                writers[place] = writer
            else:
                refused[place] = ProtocolError(
                    ErrorCode.INVALID_RECORD, "batches of several producers in one transactional request"
                )
    return writers, refused


def _refusal(error: ErrorCode, version: int) -> ProtocolError:
    told = told_to_producer(error, version)
    return ProtocolError(told, f"the coordinator of the transaction says {error.name}")
