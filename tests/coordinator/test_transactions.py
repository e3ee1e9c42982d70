"""The pure transaction coordinator where appends are held, fail or come late, and where it takes over from another."""

from typing import Any

import pytest

from odradek.coordinator import adding, transaction_timeouts
from odradek.coordinator.append_errors import UNDECIDED
from odradek.coordinator.events import AppendFailed, Asked, Committed, Tick, Unloaded
from odradek.coordinator.kept_memory import KeptMemory, memory_of_transactions, of_transaction
from odradek.coordinator.later import Later
from odradek.coordinator.loading import Loaded
from odradek.coordinator.member import Client
from odradek.coordinator.stored_transactions import StoredTransactions
from odradek.coordinator.transaction_checks import told_of_transaction
from odradek.coordinator.transaction_coordinator import TransactionCoordinator
from odradek.coordinator.transaction_effects import Markers, MarkersWritten, TransactionAppend
from odradek.coordinator.transaction_records import (
    StoredTransaction,
    TransactionRecord,
    decode,
    encode,
    size_bytes_of,
)
from odradek.coordinator.transaction_room import Completed
from odradek.coordinator.transaction_settings import (
    COMPLETE_AGAIN_MS,
    LAST_EPOCH,
    MOST_IN_A_TRANSACTION,
    MOST_PARTITIONS_AT_ONCE,
    MOST_TAKEN_OVER,
    TransactionSettings,
)
from odradek.coordinator.transaction_states import TransactionState
from odradek.coordinator.transaction_waiting import MOST_OF_ONE_ID, MOST_PARTITIONS, MOST_WAITING, Waiting
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.messages.end_txn import EndTxnRequest
from odradek.protocol.messages.init_producer_id import InitProducerIdRequest
from odradek.protocol.schema import Request
from odradek.records.builder import NewRecord, build_batch

START_MS = 1_800_000_000_000
ID = "tx"
TOPICS = {"t": 4, "u": 4, "__consumer_offsets": 1}
Stored = TransactionState


class Bench:
    """A coordinator with a log of its own: what it appends is committed when the test says so."""

    def __init__(
        self,
        *,
        held: bool = False,
        transaction_version: int = 0,
        kept: KeptMemory | None = None,
        **settings: int,
    ) -> None:
        self.kept = memory_of_transactions() if kept is None else kept
        self.settings = TransactionSettings(**settings)
        self.transaction_version = transaction_version
        self.now_ms = START_MS
        self.held = held
        self.log: list[tuple[bytes, bytes | None]] = []
        self.waiting: list[TransactionAppend] = []
        self.answers: dict[int, Any] = {}
        self.markers: list[Markers] = []
        self.lines: list[str] = []
        self.calls = 0
        self.ids = [1_000]
        self.coordinator = self.load()

    def load(self) -> TransactionCoordinator:
        loaded = Loaded(StoredTransactions(), decode)
        for position, (key, value) in enumerate(self.log):
            loaded.record(key, value, position, -1)
        return TransactionCoordinator(
            self.settings,
            TOPICS,
            self.take_id,
            loaded.stored,
            self.now_ms,
            lambda: self.transaction_version,
            self.kept,
        )

    def take_id(self) -> int | None:
        return self.ids.pop(0) if self.ids else None

    def move(self) -> None:
        self.step(Unloaded())
        self.waiting.clear()
        self.markers.clear()
        self.coordinator.tables()
        self.coordinator = self.load()
        self.step(Tick())

    def step(self, event: Any) -> None:
        effects = self.coordinator.step(event, self.now_ms)
        for answer in effects.answers:
            assert answer.call not in self.answers, "answered twice"
            self.answers[answer.call] = answer.response
        self.lines += effects.lines
        self.markers += effects.markers
        self.waiting += effects.appends
        room = self.coordinator.room
        found = sum(of_transaction(name, len(one.partitions)) for name, one in room.stored.by_id.items())
        assert room.kept_bytes == found + sum(one.kept_bytes for one in room._in_flight.values())
        while self.waiting and not self.held:
            self.commit()

    def commit(self) -> None:
        append = self.waiting.pop(0)
        base_offset = len(self.log)
        version = 1 if self.transaction_version else 0
        self.log += [encode(record, version) for record in append.records]
        self.step(Committed(append.append_id, base_offset))

    def fail(self, error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> None:
        append = self.waiting[0] if error in UNDECIDED else self.waiting.pop(0)
        self.step(AppendFailed(append.append_id, error))

    def wait(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while True:
            due_ms = self.coordinator.next_deadline_ms()
            if due_ms is None or due_ms > end_ms:
                break
            self.now_ms = max(due_ms, self.now_ms)
            self.step(Tick())
        self.now_ms = end_ms

    def ask(self, request: Request, version: int) -> int:
        self.calls += 1
        self.step(Asked(self.calls, version, Client("c", "/"), request, ""))
        return self.calls

    def init(self, name: str = ID, **known: int) -> int:
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000, **known)
        return self.ask(request, 4)

    def add(self, producer: int = 1_000, epoch: int = 0, *indexes: int, name: str = ID) -> int:
        return self.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(indexes or (0,)))],
            ),
            3,
        )

    def end(self, *, is_commit: bool = True, producer: int = 1_000, epoch: int = 0, version: int = 3) -> int:
        request = EndTxnRequest(
            transactional_id=ID, producer_id=producer, producer_epoch=epoch, committed=is_commit
        )
        return self.ask(request, version)

    def written(self, markers: Markers) -> None:
        self.step(
            MarkersWritten(
                markers.transactional_id, markers.producer_id, markers.producer_epoch, markers.partitions
            )
        )

    def error(self, call: int) -> int:
        answer = self.answers[call]
        if isinstance(answer, Later):
            answer = answer.make()
        if hasattr(answer, "results_by_topic_v3_and_below"):
            rows = answer.results_by_topic_v3_and_below[0].results_by_partition
            return int(rows[0].partition_error_code)
        return int(answer.error_code)

    @property
    def state(self) -> TransactionState | None:
        value = self.coordinator.room.stored.by_id.get(ID)
        return None if value is None else value.state


def prepared(**settings: int) -> Bench:
    bench = Bench(**settings)
    bench.init()
    bench.add()
    bench.end()
    return bench


@pytest.mark.behaviour("T5")
def test_while_there_is_no_producer_id_a_client_comes_again() -> None:
    bench = Bench()
    bench.ids.clear()
    assert bench.error(bench.init()) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert bench.state is None

    bench.ids.append(7)

    assert bench.answers[bench.init()].producer_id == 7


def test_an_owner_that_raises_its_epoch_is_told_the_same_however_often_it_asks() -> None:
    """KIP-360: it goes on asking with the epoch it has until an answer comes through."""
    bench = Bench()
    bench.init()

    told = [bench.answers[bench.init(producer_id=1_000, producer_epoch=0)] for _ in range(3)]

    assert [(one.error_code, one.producer_epoch) for one in told] == [(0, 1)] * 3


@pytest.mark.behaviour("T10")
def test_a_decision_is_told_when_it_is_committed_and_its_markers_follow() -> None:
    bench = Bench()
    bench.init()
    bench.add()
    bench.held = True

    call = bench.end()
    assert call not in bench.answers and not bench.markers
    assert bench.add() not in bench.answers
    bench.commit()

    assert bench.error(call) == 0
    assert [(one.is_commit, one.partitions) for one in bench.markers] == [
        (True, frozenset((TopicPartition("t", 0),)))
    ]


def test_nothing_is_remembered_of_a_record_that_could_not_be_written() -> None:
    bench = Bench(held=True)
    call = bench.init()
    bench.fail()
    assert bench.error(call) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.state is None
    bench.held = False
    bench.ids.append(1_000)
    bench.init()
    bench.held = True
    call = bench.add()
    bench.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    assert bench.error(call) == ErrorCode.NOT_COORDINATOR
    assert bench.state is Stored.EMPTY
    assert bench.coordinator.room.stored.by_id == bench.load().room.stored.by_id


@pytest.mark.parametrize("error", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
def test_a_record_that_comes_late_counts_and_until_then_the_id_is_not_touched(error: ErrorCode) -> None:
    bench = Bench()
    bench.init()
    bench.held = True
    call = bench.add()
    bench.fail(error)
    assert bench.error(call) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    again, other = bench.add(), bench.init()
    assert bench.error(other) == ErrorCode.CONCURRENT_TRANSACTIONS
    bench.wait(bench.settings.markers_wait_ms)
    assert bench.error(again) == ErrorCode.CONCURRENT_TRANSACTIONS

    bench.commit()

    assert bench.state is Stored.ONGOING
    assert bench.error(bench.add()) == 0, "it is in it"


@pytest.mark.behaviour("T17")
def test_an_epoch_whose_fencing_failed_is_not_raised_twice() -> None:
    bench = Bench()
    bench.init()
    bench.add()
    bench.held = True
    call = bench.init()
    bench.fail()
    assert bench.error(call) == ErrorCode.COORDINATOR_NOT_AVAILABLE

    bench.held = False
    assert bench.error(bench.init()) == ErrorCode.CONCURRENT_TRANSACTIONS

    assert bench.markers[-1].producer_epoch == 1


@pytest.mark.behaviour("T12")
def test_whoever_takes_over_sends_the_markers_again() -> None:
    bench = prepared()
    before = list(bench.markers)

    bench.move()

    assert bench.markers == before
    bench.written(bench.markers[0])
    assert bench.state is Stored.COMPLETE_COMMIT


def test_many_decisions_are_taken_over_some_in_a_turn() -> None:
    bench = Bench()
    for number in range(2 * MOST_TAKEN_OVER + 1):
        bench.ids.append(number)
        bench.init(f"id-{number}")
        value = bench.coordinator.room.stored.by_id[f"id-{number}"]
        decided = value._replace(state=Stored.PREPARE_ABORT, partitions=frozenset((TopicPartition("t", 0),)))
        bench.log.append(encode(TransactionRecord(f"id-{number}", decided), 0))

    bench.move()
    assert len(bench.markers) == MOST_TAKEN_OVER
    bench.wait(0)

    assert len({one.transactional_id for one in bench.markers}) == 2 * MOST_TAKEN_OVER + 1


def test_of_decisions_with_very_many_partitions_fewer_are_taken_over_in_a_turn() -> None:
    bench = Bench()
    partitions = frozenset(TopicPartition("t", index) for index in range(MOST_PARTITIONS_AT_ONCE))
    for name in ("a", "b"):
        bench.ids.append(len(name))
        bench.init(name)
        value = bench.coordinator.room.stored.by_id[name]
        decided = value._replace(state=Stored.PREPARE_ABORT, partitions=partitions)
        bench.log.append(encode(TransactionRecord(name, decided), 0))

    bench.move()
    assert [one.transactional_id for one in bench.markers] == ["a"]
    bench.step(Tick())
    assert [one.transactional_id for one in bench.markers] == ["a", "b"]


def test_of_overdue_transactions_with_very_many_partitions_fewer_are_aborted_in_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transaction_timeouts, "MOST_PARTITIONS_AT_ONCE", 2)
    bench = Bench()
    for producer, name in enumerate(("a", "b", "c")):
        bench.ids = [producer]
        bench.init(name)
        bench.add(producer, 0, 0, 1, name=name)
    bench.now_ms = START_MS + 120_000
    for names in (["a"], ["a", "b"], ["a", "b", "c"]):
        bench.step(Tick())
        assert [one.transactional_id for one in bench.markers] == names


def test_of_very_many_ends_that_could_not_be_written_so_many_are_written_again_in_a_turn() -> None:
    bench = Bench()
    for number in range(MOST_TAKEN_OVER + 1):
        bench.ids.append(number)
        bench.init(f"id-{number}")
        value = bench.coordinator.room.stored.by_id[f"id-{number}"]
        decided = value._replace(state=Stored.PREPARE_ABORT, partitions=frozenset((TopicPartition("t", 0),)))
        bench.log.append(encode(TransactionRecord(f"id-{number}", decided), 0))
    bench.move()
    bench.wait(0)
    bench.held = True
    for one in bench.markers:
        bench.written(one)
    while bench.waiting:
        bench.fail()
    bench.now_ms += COMPLETE_AGAIN_MS

    bench.step(Tick())
    assert len(bench.waiting) == MOST_TAKEN_OVER
    bench.held = False
    bench.wait(0)

    assert {one.state for one in bench.coordinator.room.stored.by_id.values()} == {Stored.COMPLETE_ABORT}


def test_markers_of_a_transaction_before_end_nothing_of_this_one() -> None:
    bench = prepared()
    old = bench.markers[0]

    bench.written(old._replace(producer_epoch=5))
    bench.written(old._replace(producer_id=5))
    bench.written(old._replace(transactional_id="nobody"))
    assert bench.state is Stored.PREPARE_COMMIT
    bench.written(old)
    bench.written(old)

    assert bench.state is Stored.COMPLETE_COMMIT


def test_markers_that_are_told_twice_complete_their_transaction_once() -> None:
    bench = prepared()
    bench.held = True
    for _ in range(2):
        bench.written(bench.markers[0])

    assert len(bench.waiting) == 1
    bench.commit()
    assert bench.state is Stored.COMPLETE_COMMIT


@pytest.mark.behaviour("T13")
def test_a_transaction_is_complete_when_its_last_partition_has_the_marker() -> None:
    bench = Bench()
    bench.init()
    bench.add(1_000, 0, 0, 1, 2)
    bench.end(is_commit=False)
    (markers,) = bench.markers
    for partition in sorted(markers.partitions):
        assert bench.state is Stored.PREPARE_ABORT
        bench.written(markers._replace(partitions=frozenset((partition,))))
    assert bench.state is Stored.COMPLETE_ABORT


def test_an_end_that_could_not_be_written_is_written_again() -> None:
    bench = prepared()
    bench.held = True
    bench.written(bench.markers[0])
    bench.fail()
    assert bench.state is Stored.PREPARE_COMMIT
    assert "'tx' is complete, and that could not be written (NOT_ENOUGH_REPLICAS)" in bench.lines[-1]
    bench.held = False

    bench.wait(1_000)

    assert bench.state is Stored.COMPLETE_COMMIT


def test_an_end_whose_fate_came_late_is_not_written_again_when_another_record_fails() -> None:
    bench = prepared()
    bench.held = True
    bench.written(bench.markers[0])
    bench.fail(ErrorCode.REQUEST_TIMED_OUT)
    bench.commit()
    assert bench.state is Stored.COMPLETE_COMMIT
    bench.add()
    bench.fail()

    bench.wait(1_000)

    assert bench.state is Stored.COMPLETE_COMMIT and not bench.waiting


@pytest.mark.behaviour("T10")
def test_who_begins_the_next_transaction_waits_for_the_markers_of_the_one_before() -> None:
    bench = prepared()

    call = bench.add(1_000, 0, 1)
    assert call not in bench.answers
    bench.written(bench.markers[0])

    assert bench.error(call) == 0
    assert bench.coordinator.room.stored.by_id[ID].partitions == {TopicPartition("t", 1)}
    assert bench.state is Stored.ONGOING
    due_ms = bench.coordinator.next_deadline_ms()
    assert due_ms is not None and due_ms > bench.now_ms + 1_000, "nobody waits any more"


def test_who_waited_long_for_markers_comes_again() -> None:
    bench = prepared(markers_wait_ms=50)
    call = bench.add()
    bench.wait(49)
    assert call not in bench.answers

    bench.wait(1)
    assert bench.error(call) == ErrorCode.CONCURRENT_TRANSACTIONS
    bench.written(bench.markers[0])

    assert bench.state is Stored.COMPLETE_COMMIT, "what was refused is not done later"


def test_who_waits_for_markers_is_sent_to_the_next_coordinator_and_told_of_nothing_else() -> None:
    bench = prepared()
    call = bench.add()

    bench.move()

    assert bench.error(call) == ErrorCode.NOT_COORDINATOR
    bench.written(bench.markers[0])
    assert bench.state is Stored.COMPLETE_COMMIT


def test_who_waits_for_markers_goes_on_when_their_end_is_committed_late() -> None:
    bench = prepared(markers_wait_ms=500)
    bench.held = True
    bench.written(bench.markers[0])
    call = bench.add()
    bench.fail(ErrorCode.REQUEST_TIMED_OUT)
    assert call not in bench.answers
    bench.held = False

    bench.commit()

    assert bench.error(call) == 0


def test_who_waits_for_markers_begins_in_the_append_that_ends_the_transaction_before() -> None:
    bench = prepared()
    calls = [bench.add(1_000, 0, 1), bench.add(1_000, 0, 2)]
    bench.held = True
    appends = len(bench.log)

    bench.written(bench.markers[0])

    (append,) = bench.waiting
    assert [record.value.state for record in append.records if record.value] == [
        Stored.COMPLETE_COMMIT,
        Stored.ONGOING,
    ]
    assert not set(calls) & set(bench.answers), "it is not committed"
    bench.commit()
    assert len(bench.log) == appends + 2
    assert [bench.error(call) for call in calls if call in bench.answers] == [0], (
        "the other waits for that record"
    )
    bench.commit()
    assert [bench.error(call) for call in calls] == [0, 0]
    loaded = bench.load().room.stored
    assert loaded.by_id[ID].partitions == {TopicPartition("t", 1), TopicPartition("t", 2)}
    assert loaded.by_id[ID].state is Stored.ONGOING and not loaded.prepared


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, *sorted(UNDECIDED)])
def test_an_end_that_fails_with_the_beginning_behind_it_is_told_and_both_may_be_written_again(
    error: ErrorCode,
) -> None:
    bench = prepared()
    call = bench.add(1_000, 0, 1)
    bench.held = True
    bench.written(bench.markers[0])

    bench.fail(error)

    assert bench.error(call) == told_of_transaction(error)
    bench.held = False
    if error in UNDECIDED:
        bench.commit()
    else:
        assert bench.state is Stored.PREPARE_COMMIT
        bench.wait(COMPLETE_AGAIN_MS)
        assert bench.state is Stored.COMPLETE_COMMIT
    assert bench.error(bench.add(1_000, 0, 1)) == 0
    assert bench.coordinator.room.stored.by_id[ID].partitions == {TopicPartition("t", 1)}


def test_a_beginning_that_leaves_no_room_for_an_end_beside_it_is_an_append_of_its_own() -> None:
    """Each fits into a batch of the transactions' topic; both would not, and neither would be written."""
    bench = prepared(max_append_bytes=1_000)
    bench.coordinator.room.topics = {"t": 150}
    bench.held = True
    call = bench.add(1_000, 0, *range(150))
    bench.written(bench.markers[0])

    assert [len(append.records) for append in bench.waiting] == [1]
    bench.held = False
    bench.commit()
    assert bench.error(call) == 0 and bench.state is Stored.ONGOING


def test_who_is_fenced_by_the_end_does_not_begin_with_it() -> None:
    bench = Bench(transaction_version=2)
    bench.init()
    bench.add()
    bench.held = True
    bench.end(version=5)
    call = bench.add(1_000, 0, 1)
    assert call not in bench.answers, "a record of the id is on its way"
    bench.held = False
    bench.commit()

    bench.written(bench.markers[0])

    assert bench.state is Stored.COMPLETE_COMMIT
    assert bench.error(call) == ErrorCode.PRODUCER_FENCED


def test_who_waits_to_write_to_a_partition_that_is_gone_does_not_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = prepared()
    call = bench.add(1_000, 0, 3)
    monkeypatch.setitem(TOPICS, "t", 3)

    bench.written(bench.markers[0])

    assert bench.state is Stored.COMPLETE_COMMIT
    assert bench.error(call) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_that_is_gone_is_told_as_gone_though_the_transaction_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its topic was deleted, and made again with fewer: told that it is in, a client would go on sending there."""
    bench = Bench()
    bench.init()
    assert bench.error(bench.add(1_000, 0, 3)) == 0
    assert bench.error(bench.add(1_000, 0, 3)) == 0
    monkeypatch.setitem(TOPICS, "t", 3)
    assert bench.error(bench.add(1_000, 0, 3)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert bench.error(bench.add(1_000, 0, 2)) == 0


def test_requests_of_an_id_wait_for_markers_so_many_and_who_is_fenced_does_not() -> None:
    bench = prepared()
    calls = [bench.add(1_000, 0, number % 4) for number in range(MOST_OF_ONE_ID)]

    assert bench.error(bench.add()) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.error(bench.add(1_000, 7)) == ErrorCode.PRODUCER_FENCED
    assert bench.error(bench.add(9_999, 0)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    bench.written(bench.markers[0])
    assert {bench.error(call) for call in calls} == {0}
    assert len(bench.coordinator.room.stored.by_id[ID].partitions) == 4


@pytest.mark.behaviour("T22")
def test_leaders_that_add_at_once_are_served_one_after_the_other() -> None:
    bench = Bench(transaction_version=2)
    bench.init()
    bench.held = True
    calls = [bench.add(1_000, 0, partition) for partition in range(3)]
    assert not set(calls) & set(bench.answers), "the record of the first is not committed"

    bench.commit()
    assert [bench.error(call) for call in calls if call in bench.answers] == [0]
    bench.commit()
    bench.commit()

    assert [bench.error(call) for call in calls] == [0, 0, 0]
    assert len(bench.coordinator.room.stored.by_id[ID].partitions) == 3


def test_who_waits_for_a_record_that_fails_comes_again() -> None:
    bench = Bench(markers_wait_ms=50)
    bench.init()
    bench.held = True
    first, second = bench.add(1_000, 0, 0), bench.add(1_000, 0, 1)
    bench.fail()
    assert bench.error(first) == ErrorCode.COORDINATOR_NOT_AVAILABLE

    bench.wait(50)

    assert bench.error(second) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.state is Stored.EMPTY


def test_markers_are_waited_for_by_some_with_some_partitions() -> None:
    after = Completed("nobody")
    many: Waiting[Completed] = Waiting(50)
    wide: Waiting[Completed] = Waiting(50)
    nobody: Waiting[Completed] = Waiting(0)

    assert [many.add(f"id-{n}", 1, after, START_MS) for n in range(MOST_WAITING + 1)].count(False) == 1
    assert wide.add("a", MOST_PARTITIONS - 1, after, START_MS)
    assert not wide.add("b", 2, after, START_MS)
    assert wide.add("c", 1, after, START_MS)
    wide.take("a")
    assert wide.add("b", 2, after, START_MS), "there is room again"
    assert not nobody.add("a", 1, after, START_MS)


def test_whoever_waits_is_sent_to_the_next_coordinator() -> None:
    bench = Bench(held=True)
    call = bench.init()

    bench.move()

    assert bench.error(call) == ErrorCode.NOT_COORDINATOR


@pytest.mark.behaviour("T18")
def test_an_open_transaction_is_aborted_after_its_time_out_and_not_before() -> None:
    bench = Bench()
    bench.init()
    bench.add()
    bench.wait(60_000)
    assert bench.state is Stored.ONGOING

    bench.wait(10_000)

    assert bench.state is Stored.PREPARE_ABORT
    assert (bench.markers[0].producer_epoch, bench.markers[0].is_commit) == (1, False)


@pytest.mark.behaviour("T18")
def test_a_partition_that_is_added_gives_an_open_transaction_no_more_time() -> None:
    bench = Bench()
    bench.init()
    bench.add()
    bench.wait(50_000)
    bench.add(1_000, 0, 1)

    bench.wait(20_000)

    assert bench.state is Stored.PREPARE_ABORT


def test_one_that_ends_while_others_are_looked_at_is_not_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass over many takes several turns."""
    monkeypatch.setattr(transaction_timeouts, "MOST_CHECKED", 1)
    bench = Bench()
    bench.init("earlier")
    bench.add(name="earlier")
    bench.ids.append(1_001)
    bench.init()
    bench.add(1_001)
    bench.now_ms += 70_000
    bench.step(Tick())
    assert bench.lines == ["transaction of 'earlier' was open for longer than its time-out: aborted"]
    bench.end(producer=1_001)
    assert bench.state is Stored.PREPARE_COMMIT
    bench.step(Tick())
    assert bench.state is Stored.PREPARE_COMMIT and len(bench.lines) == 1


def test_of_very_many_transactions_that_are_overdue_so_many_are_aborted_in_a_turn() -> None:
    """Each is an append and its markers, a tenth of a millisecond: of two thousand 260 ms."""
    bench = Bench()
    bench.ids = [1_000 + number for number in range(250)]
    for number in range(250):
        bench.init(f"id{number}")
        bench.add(1_000 + number, name=f"id{number}")
    bench.held = True
    bench.now_ms += 70_000
    aborted = []
    while bench.coordinator.next_deadline_ms() == bench.now_ms or not aborted:
        before = len(bench.waiting)
        bench.step(Tick())
        aborted.append(len(bench.waiting) - before)

    assert aborted == [100, 100, 50]


def test_what_is_aborted_for_its_time_out_is_said_and_tried_again_where_it_failed() -> None:
    bench = Bench()
    bench.init()
    bench.add()
    bench.held = True
    bench.wait(70_000)
    bench.fail()
    assert bench.state is Stored.ONGOING
    (line,) = bench.lines
    assert "could not be aborted: NOT_ENOUGH_REPLICAS" in line
    bench.held = False

    bench.wait(10_000)

    assert bench.state is Stored.PREPARE_ABORT
    assert "'tx' was open for longer than its time-out: aborted" in bench.lines[-1]


def test_an_open_transaction_is_not_aborted_while_a_record_of_it_is_on_its_way() -> None:
    bench = Bench()
    bench.init()
    bench.add()
    bench.held = True
    call = bench.add(1_000, 0, 1)
    bench.wait(75_000)
    bench.held = False
    bench.commit()
    assert bench.error(call) == 0

    bench.wait(10_000)

    assert bench.state is Stored.PREPARE_ABORT
    assert bench.markers[0].partitions == {TopicPartition("t", 0), TopicPartition("t", 1)}


def test_a_decision_that_could_not_be_written_is_told_and_may_be_made_again() -> None:
    bench = Bench()
    bench.init()
    bench.add()
    bench.held = True
    call = bench.end()
    bench.fail()
    assert bench.error(call) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.state is Stored.ONGOING
    bench.held = False

    assert bench.error(bench.end(is_commit=False)) == 0

    assert bench.state is Stored.PREPARE_ABORT


@pytest.mark.parametrize(("version", "fenced"), [(0, 47), (1, 47), (2, 90), (3, 90)])
def test_who_is_fenced_hears_it_in_the_words_of_his_version_and_others_are_not(
    version: int, fenced: int
) -> None:
    bench = Bench()
    bench.init()

    def add(producer: int, epoch: int) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=producer,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        return bench.error(bench.ask(request, version))

    assert add(1_000, 1) == fenced
    assert add(999, 0) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert add(1_000, 0) == 0


def test_the_size_of_partitions_in_a_record_is_told_before_it_is_made() -> None:
    bench = Bench()
    bench.init()
    value = bench.coordinator.room.stored.by_id[ID]._replace(state=Stored.ONGOING)

    def size(partitions: frozenset[TopicPartition]) -> int:
        _, data = encode(TransactionRecord(ID, value._replace(partitions=partitions)), 0)
        assert data is not None
        return len(data)

    for topics, each in ((1, 1), (1, 500), (300, 1), (30, 20)):
        partitions = frozenset(
            TopicPartition(f"topic-{topic}", index) for topic in range(topics) for index in range(each)
        )
        more = size_bytes_of(partitions) - (size(partitions) - size(frozenset()))
        assert 0 <= more <= 4 * topics, "never too little"


@pytest.mark.behaviour("T20")
def test_an_idle_id_is_forgotten_and_an_open_one_never() -> None:
    bench = Bench(id_expiration_ms=1_000, remove_expired_interval_ms=1_000)
    bench.init()
    bench.wait(2_000)
    assert bench.state is None and bench.log[-1][1] is None

    bench.ids.append(1_000)
    bench.init()
    bench.add()
    bench.wait(20_000)

    assert bench.state is Stored.ONGOING


def test_an_idle_id_that_is_just_taken_up_again_is_not_forgotten() -> None:
    bench = Bench(id_expiration_ms=1_000, remove_expired_interval_ms=1_000)
    bench.init()
    bench.held = True
    call = bench.init()
    bench.wait(1_500)
    bench.held = False
    bench.commit()

    assert (bench.answers[call].producer_id, bench.answers[call].producer_epoch) == (1_000, 1)
    assert bench.state is Stored.EMPTY


@pytest.mark.parametrize(
    ("epoch", "error"),
    [(0, ErrorCode.PRODUCER_FENCED), (LAST_EPOCH, ErrorCode.NONE)],
    ids=["zombie", "owner"],
)
def test_of_the_producer_id_before_only_the_last_epoch_is_the_owners(epoch: int, error: ErrorCode) -> None:
    """Its owner may not have heard of the new one. A zombie of any epoch below that was fenced long ago."""
    bench = Bench(transaction_version=2)
    bench.log = [
        encode(
            TransactionRecord(
                ID,
                StoredTransaction(
                    1_000,
                    LAST_EPOCH,
                    60_000,
                    Stored.EMPTY,
                    frozenset(),
                    START_MS,
                ),
            ),
            1,
        )
    ]
    bench.move()
    bench.ids = [2_000]
    first = bench.answers[bench.init(producer_id=1_000, producer_epoch=LAST_EPOCH)]
    assert (first.producer_id, first.producer_epoch) == (2_000, 0)

    again = bench.answers[bench.init(producer_id=1_000, producer_epoch=epoch)]

    assert again.error_code == error
    if not error:
        assert (again.producer_id, again.producer_epoch) == (2_000, 0), "the same again"


def test_idle_ids_that_could_not_be_forgotten_are_told_of_and_forgotten_by_the_next_pass() -> None:
    bench = Bench(id_expiration_ms=1_000, remove_expired_interval_ms=1_000)
    bench.init()
    bench.held = True
    bench.wait(1_000)
    bench.fail()
    assert bench.lines == ["1 transactional ids have expired and could not be removed: NOT_ENOUGH_REPLICAS"]
    assert bench.state is Stored.EMPTY

    bench.held = False
    bench.wait(1_000)
    assert bench.state is None


def test_what_forgets_idle_ids_fits_into_batches_however_long_they_are() -> None:
    """Five hundred of 2,200 letters were refused as too large, together, in every pass."""
    bench = Bench(id_expiration_ms=1_000, remove_expired_interval_ms=1_000, max_append_bytes=2_000)
    for number in range(5):
        bench.ids.append(2_000 + number)
        bench.init(str(number) * 600)
    bench.held = True
    bench.now_ms += 2_000

    bench.step(Tick())

    sizes = [sum(len(encode(record, 0)[0]) for record in append.records) for append in bench.waiting]
    assert len(sizes) == 2 and all(size <= bench.settings.max_append_bytes for size in sizes)


def test_an_idle_id_that_is_longer_than_a_batch_is_tried_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic's batches were larger when it came. Whether it fits has the log to say."""
    bench = Bench(id_expiration_ms=1_000, remove_expired_interval_ms=1_000)
    bench.init("x" * 600)
    bench.coordinator.limit_appends(300)
    room = bench.coordinator.room
    tried: list[list[str]] = []

    def remove(names: list[str], after: object) -> None:
        assert names, "nothing was taken, and so nothing would ever be left"
        tried.append(list(names))

    monkeypatch.setattr(room, "remove", remove)
    bench.now_ms += 2_000
    bench.step(Tick())
    assert tried == [["x" * 600]]


def test_a_list_of_partitions_that_fits_no_record_is_refused() -> None:
    bench = Bench(max_append_bytes=1_000)
    bench.init()
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[0, 1, 2, 3])]
    one = AddPartitionsToTxnTransaction(
        transactional_id=ID, producer_id=1_000, producer_epoch=0, topics=topics
    )
    bench.coordinator.room.topics = {"t": 1_000}
    one.topics[0].partitions = list(range(1_000))

    call = bench.ask(AddPartitionsToTxnRequest(transactions=[one]), 4)

    rows = bench.answers[call].results_by_transaction[0].topic_results[0].results_by_partition
    assert {row.partition_error_code for row in rows} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert bench.state is Stored.EMPTY


def test_a_transaction_has_no_more_partitions_than_a_turn_can_end() -> None:
    looked_at = 0

    class Topics(dict[str, int]):
        def get(self, topic: str, default: Any = None) -> Any:
            nonlocal looked_at
            looked_at += 1
            return super().get(topic, default)

    bench = Bench()
    bench.coordinator.room.topics = Topics(t=3 * MOST_IN_A_TRANSACTION)
    bench.init()

    assert (
        bench.error(bench.add(1_000, 0, *range(MOST_IN_A_TRANSACTION + 1))) == ErrorCode.UNKNOWN_SERVER_ERROR
    )
    assert looked_at == 0 and bench.state is Stored.EMPTY
    # And no more by several requests; what it has stands, and is ended.
    assert bench.error(bench.add(1_000, 0, *range(MOST_IN_A_TRANSACTION))) == 0
    assert bench.error(bench.add(1_000, 0, MOST_IN_A_TRANSACTION)) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert bench.error(bench.add(1_000, 0, 5)) == 0
    bench.held = True
    bench.end()
    bench.commit()
    assert len(bench.markers[0].partitions) == MOST_IN_A_TRANSACTION


def test_a_transaction_that_fits_a_batch_can_be_ended() -> None:
    """The record of the end has a few bytes more than that of the beginning: one that just fitted stayed open for ever."""
    limit = 1_000
    begun = 0
    for letters in range(1, 9):
        name = "x" * letters
        for count in range(170, 240):
            bench = Bench(transaction_version=2, max_append_bytes=limit)
            bench.coordinator.room.topics = {"t": count}
            bench.init(name)
            bench.held = True
            call = bench.add(1_000, 0, *range(count), name=name)
            if call in bench.answers or size_bytes(bench) > limit:
                continue  # refused here, or by the log
            begun += 1
            bench.commit()
            bench.now_ms += 120_000
            bench.step(Tick())

            assert size_bytes(bench) <= limit, (name, count)
    assert begun


def size_bytes(bench: Bench) -> int:
    """Of what is on its way to the log."""
    (append,) = bench.waiting
    return len(build_batch(NewRecord(*encode(record, 1)) for record in append.records))


def test_at_the_last_epoch_an_end_of_version_2_goes_on_under_another_producer_id() -> None:
    bench = Bench(transaction_version=2)
    bench.init()
    value = bench.coordinator.room.stored.by_id[ID]
    bench.log.append(encode(TransactionRecord(ID, value._replace(epoch=32_766)), 0))
    bench.move()
    bench.add(1_000, 32_766)
    bench.ids.append(2_000)

    told = bench.answers[bench.end(epoch=32_766, version=5)]

    assert (told.producer_id, told.producer_epoch) == (2_000, 0)
    assert bench.markers[0].producer_epoch == 32_767
    bench.written(bench.markers[0])
    again = bench.answers[bench.end(epoch=32_766, version=5)]
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, 2_000, 0)


def at_the_last_epoch(**settings: int) -> Bench:
    """Version 2, and a transaction is open in the last epoch that a client is given."""
    bench = Bench(transaction_version=2, **settings)
    bench.init()
    value = bench.coordinator.room.stored.by_id[ID]
    bench.log.append(encode(TransactionRecord(ID, value._replace(epoch=32_766)), 1))
    bench.move()
    assert bench.error(bench.add(1_000, 32_766)) == 0
    return bench


@pytest.mark.behaviour("T31")
def test_who_goes_on_under_another_producer_id_waits_for_the_markers_of_the_former_one() -> None:
    bench = at_the_last_epoch()
    bench.ids.append(2_000)
    assert bench.answers[bench.end(epoch=32_766, version=5)].producer_id == 2_000

    call = bench.add(2_000, 0)

    assert call not in bench.answers
    assert bench.error(bench.end(producer=2_000, version=5)) == ErrorCode.CONCURRENT_TRANSACTIONS
    for other in ((2_000, 1), (3_000, 0), (-1, 0)):
        assert bench.error(bench.add(*other)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    bench.written(bench.markers[0])
    assert bench.error(call) == 0
    assert bench.state is Stored.ONGOING


@pytest.mark.behaviour("T31", "T21")
@pytest.mark.parametrize("goes_on_by", ["InitProducerId", "EndTxn"])
def test_who_timed_out_in_the_last_epoch_goes_on_under_another_producer_id(goes_on_by: str) -> None:
    bench = at_the_last_epoch()
    bench.ids.append(2_000)
    bench.wait(75_000)
    assert bench.markers[0][1:4] == (1_000, 32_767, False)
    bench.written(bench.markers[0])

    if goes_on_by == "InitProducerId":
        told = bench.answers[bench.init(producer_id=1_000, producer_epoch=32_766)]
    else:
        told = bench.answers[bench.end(is_commit=False, epoch=32_766, version=5)]

    assert (told.error_code, told.producer_id, told.producer_epoch) == (0, 2_000, 0)
    assert bench.error(bench.add(2_000, 0)) == 0


@pytest.mark.behaviour("T31")
def test_the_epoch_behind_the_last_is_given_to_nobody() -> None:
    """Its transaction is aborted while the broker has no producer id to go on with."""
    bench = at_the_last_epoch()
    bench.wait(75_000)
    bench.written(bench.markers[0])
    assert bench.state is Stored.COMPLETE_ABORT

    again = bench.end(is_commit=False, epoch=32_766, version=5)
    assert bench.error(again) == ErrorCode.PRODUCER_FENCED
    known = {"producer_id": 1_000, "producer_epoch": 32_766}
    assert bench.error(bench.init(**known)) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.ids.append(2_000)
    told = bench.answers[bench.init(**known)]
    assert (told.error_code, told.producer_id, told.producer_epoch) == (0, 2_000, 0)
    told = bench.answers[bench.init(**known)]
    assert (told.error_code, told.producer_id, told.producer_epoch) == (0, 2_000, 0), "told again"


@pytest.mark.behaviour("T31")
@pytest.mark.parametrize("version", [4, 5])
def test_an_id_that_another_left_in_the_epoch_behind_the_last_can_be_ended(version: int) -> None:
    bench = at_the_last_epoch()
    value = bench.coordinator.room.stored.by_id[ID]._replace(epoch=32_767)
    bench.log.append(encode(TransactionRecord(ID, value), 1))
    bench.move()
    bench.ids.append(2_000)

    assert bench.error(bench.end(is_commit=False, epoch=32_767, version=version)) == 0
    assert bench.markers[0].producer_epoch == 32_767


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"", b""),
        (b"\xff\xff", b""),
        (b"\0\0", b""),
        (b"\0\0\0\1x", b"\0\2"),
        (b"\0\0\0\1x", b"\0\0"),
    ],
)
def test_what_is_no_record_is_malformed_and_not_a_crash(key: bytes | None, value: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode(key, value)


def test_a_status_that_is_none_is_malformed_and_a_later_kind_of_key_is_left_out() -> None:
    bench = Bench()
    bench.init()
    key, value = bench.log[0]
    assert value is not None
    with pytest.raises(MalformedMessage, match="status 99"):
        decode(key, value[:16] + bytes([99]) + value[17:])
    assert decode(b"\0\1x", value) is None
    assert decode(key, value) == TransactionRecord(ID, bench.coordinator.room.stored.by_id[ID])


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_that_comes_once_more_late_ends_nothing_of_the_next_transaction(is_commit: bool) -> None:
    """Its first answer came over another connection, and the producer has gone on since."""
    bench = Bench(transaction_version=2)
    bench.init()
    bench.add()
    assert bench.answers[bench.end(version=5)].producer_epoch == 1
    bench.written(bench.markers.pop())
    assert bench.error(bench.add(1_000, 1)) == 0

    assert bench.error(bench.end(is_commit=is_commit, version=5)) == ErrorCode.PRODUCER_FENCED
    assert bench.state is Stored.ONGOING and not bench.markers


def test_what_is_aborted_before_it_began_began_with_that() -> None:
    """And not with the transaction before, which would look as if it had hung for all the time between."""
    bench = Bench(transaction_version=2)
    bench.init()
    bench.add()
    bench.end(version=5)
    bench.written(bench.markers.pop())
    bench.now_ms += 50_000
    assert bench.error(bench.end(is_commit=False, epoch=1, version=5)) == 0

    described = bench.ask(DescribeTransactionsRequest(transactional_ids=[ID]), 0)
    (found,) = bench.answers[described].transaction_states
    assert found.transaction_start_time_ms == bench.now_ms


def test_a_partition_that_is_just_being_added_is_asked_for_again_and_another_is_not() -> None:
    def verified(bench: Bench, *indexes: int) -> list[int]:
        asked = AddPartitionsToTxnTransaction(
            transactional_id=ID,
            producer_id=1_000,
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(name="t", partitions=list(indexes))],
        )
        call = bench.ask(AddPartitionsToTxnRequest(transactions=[asked]), 4)
        (result,) = bench.answers[call].results_by_transaction
        return [one.partition_error_code for one in result.topic_results[0].results_by_partition]

    bench = Bench()
    bench.init()
    bench.add()
    bench.held = True
    bench.add(1_000, 0, 1)
    assert verified(bench, 0, 1) == [ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS]
    bench.commit()
    assert verified(bench, 0, 1, 2) == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]


def test_a_second_record_of_an_id_on_its_way_is_a_mistake_of_ours() -> None:
    bench = Bench(held=True)
    bench.init()
    assert bench.error(bench.init()) == ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_larger_record_that_is_allowed_while_the_coordinator_lives_counts_at_once() -> None:
    bench = Bench(max_append_bytes=10)
    bench.init()
    refused = bench.answers.pop(bench.add()).results_by_topic_v3_and_below[0].results_by_partition[0]
    assert refused.partition_error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    bench.coordinator.limit_appends(1_000)
    added = bench.answers.pop(bench.add()).results_by_topic_v3_and_below[0].results_by_partition[0]
    assert added.partition_error_code == ErrorCode.NONE


def test_the_answer_about_very_many_partitions_is_made_by_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "MOST_OFFSETS", 3)
    bench = Bench()
    bench.init()
    few = bench.answers.pop(bench.add(1_000, 0, 0, 1, 2))
    many = bench.answers.pop(bench.add(1_000, 0, 0, 1, 2, 9))
    assert isinstance(few, AddPartitionsToTxnResponse) and isinstance(many, Later)
    (topic,) = many.make().results_by_topic_v3_and_below
    errors = [one.partition_error_code for one in topic.results_by_partition]
    assert errors == [ErrorCode.OPERATION_NOT_ATTEMPTED] * 3 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
