"""What the production code does with one message, asked once and remembered: the coordinator's `step`, a partition's memory of
its producers, and a leader's questions to the coordinator."""

from copy import deepcopy
from types import SimpleNamespace
from typing import Any, NamedTuple

from odradek.broker.verifications import Admission, Verification, Verifications, Writer
from odradek.coordinator.events import Asked, Committed, Tick
from odradek.coordinator.member import Client
from odradek.coordinator.stored_transactions import StoredTransactions
from odradek.coordinator.transaction_coordinator import TransactionCoordinator
from odradek.coordinator.transaction_effects import MarkersWritten, TransactionEffects
from odradek.coordinator.transaction_records import StoredTransaction, TransactionRecord
from odradek.coordinator.transaction_settings import TransactionSettings
from odradek.log.producers import Producers
from odradek.model.errors import ProtocolError
from odradek.model.ids import NO_TOPIC_ID, TopicPartition
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.records.batch import BATCH_OVERHEAD, MAGIC, TRANSACTIONAL, BatchHeader
from odradek.records.builder import NewRecord, build_batch
from odradek.records.control import EndTransaction
from odradek.sim.explore.transaction_values import (
    ABORT,
    COMMIT,
    DATA,
    NONE,
    PARTITIONS,
    Entry,
    Marker,
    Place,
    Question,
    Request,
    Tail,
    Verified,
)

ID, TOPIC, PRODUCER_ID = "pay", "ledger", 7
NOW_MS, TIMEOUT_MS = 1_000, 5_000
LATER_MS = NOW_MS + 100_000  # when everything that is open has timed out
INIT, ADD, VERIFY = 4, 3, 4
END = (3, 5)  # by `bumps`
BUMPING_LEVEL = 2
SETTINGS = TransactionSettings(markers_wait_ms=0)
IN_ALL = [AddPartitionsToTxnTopic(name=TOPIC, partitions=list(PARTITIONS))]


class Coordinators:
    """Coordinators as numbers: each is kept as it was, and a copy of it acts."""

    def __init__(self, *, bumps: bool = False) -> None:
        self._bumps = bumps
        self.of: list[TransactionCoordinator] = []
        self._askers: list[int] = []
        self._number: dict[Any, int] = {}
        self._steps: dict[Any, tuple[int, TransactionEffects]] = {}

    def loaded(self, stored: StoredTransaction | None) -> tuple[int, TransactionEffects]:
        """One that has read its log, and goes on with what it found decided."""
        memory = StoredTransactions()
        if stored is not None:
            memory.replay(TransactionRecord(ID, stored), 0, NONE)
        level = BUMPING_LEVEL if self._bumps else 0
        made = TransactionCoordinator(
            SETTINGS, {TOPIC: len(PARTITIONS)}, lambda: PRODUCER_ID, memory, NOW_MS, lambda: level
        )
        effects = made.step(Tick(), NOW_MS)
        return self._kept(made, NONE), effects

    def step(self, number: int, event: Any, call: int = NONE) -> tuple[int, TransactionEffects]:
        key = number, repr(event), call
        found = self._steps.get(key)
        if found is None:
            acting = deepcopy(self.of[number])
            before = set(acting.room._in_flight)
            effects = acting.step(event, LATER_MS if isinstance(event, Tick) else NOW_MS)
            is_same = before == set(acting.room._in_flight)
            found = self._kept(acting, self._askers[number] if is_same else call), effects
            self._steps[key] = found
        return found

    def _kept(self, coordinator: TransactionCoordinator, asker: int) -> int:
        """`asker`: who is told when what is being written is committed."""
        room = coordinator.room
        if not room._in_flight:
            room._append_count, asker = 0, NONE
        writing = [
            (append_id, one.records, one.last_epoch, type(one.after).__name__)
            for append_id, one in room._in_flight.items()
        ]
        key = repr(
            (
                room.stored.by_id,
                room.last_epochs,
                sorted(room.unmarked.items()),
                room.incomplete,
                writing,
                asker,
                coordinator._again_at_ms,
                coordinator.time_outs.due_ms,
            )
        )
        number = self._number.get(key)
        if number is None:
            number = self._number[key] = len(self.of)
            self.of.append(coordinator)
            self._askers.append(asker)
        return number

    def asked(self, number: int, request: Request, call: int) -> tuple[int, TransactionEffects]:
        return self.step(number, Asked(call, *_message(request, bumps=self._bumps), ""), call)

    def questioned(self, number: int, question: Question, call: int) -> tuple[int, TransactionEffects]:
        """A leader's question; one that adds nothing changes nothing."""
        one = AddPartitionsToTxnTransaction(
            transactional_id=ID,
            producer_id=PRODUCER_ID,
            producer_epoch=question.batch.epoch,
            verify_only=not self._bumps,
            topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[question.batch.place])],
        )
        message = AddPartitionsToTxnRequest(transactions=[one])
        after, effects = self.step(number, Asked(call, VERIFY, Client("", ""), message, ""), call)
        assert after == number or self._bumps, "whoever only asks changes nothing"
        return after, effects

    def committed(self, number: int, tail: Tail) -> tuple[int, TransactionEffects]:
        return self.step(number, Committed(tail.append_id, 0))

    def marked(self, number: int, marker: Marker) -> tuple[int, TransactionEffects]:
        partitions = frozenset((TopicPartition(TOPIC, marker.place),))
        return self.step(number, MarkersWritten(ID, PRODUCER_ID, marker.epoch, partitions))

    def timed_out(self, number: int) -> tuple[int, TransactionEffects]:
        return self.step(number, Tick())


def error_of(response: Any) -> int:
    """Of an answer to a question, about the one partition that it was about."""
    rows = response.results_by_transaction
    return int(rows[0].topic_results[0].results_by_partition[0].partition_error_code)


def _message(request: Request, *, bumps: bool) -> tuple[int, Client, Any]:
    client = Client("", "")
    if request.kind == "init":
        known = request.epoch != NONE
        return (
            INIT,
            client,
            InitProducerIdRequest(
                transactional_id=ID,
                transaction_timeout_ms=TIMEOUT_MS,
                producer_id=PRODUCER_ID if known else NONE,
                producer_epoch=request.epoch,
            ),
        )
    if request.kind == "add":
        return (
            ADD,
            client,
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=ID,
                v3_and_below_producer_id=PRODUCER_ID,
                v3_and_below_producer_epoch=request.epoch,
                v3_and_below_topics=IN_ALL,
            ),
        )
    return (
        END[bumps],
        client,
        EndTxnRequest(
            transactional_id=ID,
            producer_id=PRODUCER_ID,
            producer_epoch=request.epoch,
            committed=request.is_commit,
        ),
    )


# --- partitions


class Appended(NamedTuple):
    """`error` 0: it is in the log, where `place` is what that is now; or it was there already."""

    place: Place
    error: int


class Places:
    def __init__(self, *, is_adding: bool = False) -> None:
        self._is_adding = is_adding
        self._memory: dict[Any, Any] = {}

    def asks(self, place: Place, batch: Request) -> Verified | None:
        """None: the log has the transaction open, and nobody is asked. Else what the leader remembers of its question."""
        key = "asks", place, batch
        if key not in self._memory:
            partition, verifications = self._production(place)
            writer = Writer(PRODUCER_ID, batch.epoch, batch.sequence)
            needs_none = verifications.needs_none(partition, writer, is_adding=self._is_adding)
            self._memory[key] = None if needs_none else self.begun(place, batch)
        return self._memory[key]  # type: ignore[no-any-return]

    def begun(self, place: Place, batch: Request) -> Verified:
        """What the leader remembers of a question about this batch."""
        key = "begun", place, batch
        if key not in self._memory:
            partition, verifications = self._production(place)
            before = verifications._open.get((partition.topic_partition, PRODUCER_ID))
            writer = Writer(PRODUCER_ID, batch.epoch, batch.sequence)
            found = verifications.begin(partition, writer, is_adding=self._is_adding)
            is_known = found is before and place.verified is not None
            begun_at = place.verified.begun_at if is_known and place.verified else len(place.log)
            self._memory[key] = Verified(begun_at, found.epoch, found.leader_epoch, found.lowest_sequence)
        return self._memory[key]  # type: ignore[no-any-return]

    def append(self, place: Place, batch: Request, verified: Verified | None) -> Appended:
        """`verified`: the coordinator has said that the transaction is open, to this question."""
        key = "append", place, batch, verified
        if key not in self._memory:
            self._memory[key] = self._append(place, batch, verified)
        return self._memory[key]  # type: ignore[no-any-return]

    def _append(self, place: Place, batch: Request, verified: Verified | None) -> Appended:
        partition, verifications = self._production(place)
        header = _header(batch.epoch, batch.sequence)
        if verified is None:
            question = Verification(
                batch.epoch, place.leader_epoch, batch.sequence, is_adding=self._is_adding
            )
        else:
            question = self._verification(place, verifications, verified)
        questions = {partition.topic_partition: question}
        admission = Admission(verifications, {}, questions, asks=True, is_adding=self._is_adding)
        try:
            admission.check(partition, _batch(batch))
            known = partition.log.producers.check(header, NOW_MS)
        except ProtocolError as refusal:
            return Appended(place, int(refusal.code))
        if known is not None:
            return Appended(place, 0)
        entry = Entry(DATA, batch.epoch, batch.producer, batch.attempt, batch.sequence)
        admission.appended(partition, header)
        return Appended(_with(place, entry, verifications), 0)

    def mark(self, place: Place, marker: Marker) -> Appended:
        key = "mark", place, marker
        if key not in self._memory:
            partition, verifications = self._production(place)
            header = _header(marker.epoch, NONE)
            told = EndTransaction(marker.is_commit, marker.coordinator_epoch)
            try:
                partition.log.producers.check_marker(header, told)
            except ProtocolError as refusal:
                self._memory[key] = Appended(place, int(refusal.code))
            else:
                verifications.ended(partition.topic_partition, PRODUCER_ID)
                kind = COMMIT if marker.is_commit else ABORT
                entry = Entry(kind, marker.epoch, coordinator_epoch=marker.coordinator_epoch)
                self._memory[key] = Appended(_with(place, entry, verifications), 0)
        return self._memory[key]  # type: ignore[no-any-return]

    def still_holds(self, place: Place, batch: Request, verified: Verified) -> bool:
        """Whether what the coordinator said to this question counts for what is appended now."""
        key = "holds", place, batch, verified
        if key not in self._memory:
            partition, verifications = self._production(place)
            writer = Writer(PRODUCER_ID, batch.epoch, batch.sequence)
            standing = self._verification(place, verifications, verified)
            self._memory[key] = verifications.still_holds(partition, writer, standing)
        return bool(self._memory[key])

    def is_open(self, place: Place) -> bool:
        key = "open", place.log
        if key not in self._memory:
            self._memory[key] = _replayed(place.log).first_undecided_offset is not None
        return bool(self._memory[key])

    def _verification(self, place: Place, verifications: Verifications, verified: Verified) -> Verification:
        """The very question, if it stands; else one that nobody remembers."""
        standing = next(iter(verifications._open.values()), None)
        if standing is not None and verified.is_same(place.verified):
            return standing
        return Verification(*verified[1:], is_adding=self._is_adding)

    def _production(self, place: Place) -> tuple[Any, Verifications]:
        partition = SimpleNamespace(
            topic_partition=TopicPartition(TOPIC, 0),
            topic_id=NO_TOPIC_ID,
            leader_epoch=place.leader_epoch,
            log=SimpleNamespace(producers=_replayed(place.log)),
        )
        key = partition.topic_partition, PRODUCER_ID
        verifications = Verifications()
        if place.verified is not None:
            verifications._open[key] = Verification(*place.verified[1:], is_adding=self._is_adding)
        if place.added is not None:
            verifications._added[key] = *place.added, NO_TOPIC_ID
        return partition, verifications


def _with(place: Place, entry: Entry, verifications: Verifications) -> Place:
    kept = place.verified if verifications._open else None
    added = next(iter(verifications._added.values()), None)
    return place._replace(log=(*place.log, entry), verified=kept, added=None if added is None else added[:2])


def _replayed(log: tuple[Entry, ...]) -> Producers:
    producers = Producers()
    for offset, entry in enumerate(log):
        header = _header(entry.epoch, entry.sequence)
        if entry.kind == DATA:
            producers.note_batch(header, offset, NOW_MS)
        else:
            told = EndTransaction(entry.kind == COMMIT, entry.coordinator_epoch)
            producers.note_marker(header, told, offset, NOW_MS)
    return producers


def _header(epoch: int, sequence: int) -> BatchHeader:
    return BatchHeader(
        0, BATCH_OVERHEAD, 0, MAGIC, 0, TRANSACTIONAL, 0, NOW_MS, NOW_MS, PRODUCER_ID, epoch, sequence, 1
    )


def _batch(batch: Request) -> memoryview:
    return memoryview(
        build_batch(
            [NewRecord(None, b"", NOW_MS)],
            producer_id=PRODUCER_ID,
            producer_epoch=batch.epoch,
            base_sequence=batch.sequence,
            is_transactional=True,
        )
    )
