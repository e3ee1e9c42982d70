"""Transactions in simulated worlds: what is wrong on purpose is named, and transactions outlive whoever makes, coordinates and
stores them."""

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.model.ids import TopicPartition
from odradek.protocol.flat.produce_request import decode as decode_produce
from odradek.protocol.headers import decode_request_header
from odradek.records.batch import iter_batches
from odradek.records.builder import batch_bytes
from odradek.records.control import build_end_marker
from odradek.sim.checkers.history import History, Polled
from odradek.sim.checkers.transactions import (
    ABORT,
    COMMIT,
    DATA,
    EMPTIED,
    Attempt,
    Fate,
    Position,
    TransactionHistory,
    Written,
    check_transactions,
)
from odradek.sim.clients.ledger import BatchReader
from odradek.sim.clients.ledger_workload import OWNERS, Ledger
from odradek.sim.clients.workload import MACHINE
from odradek.sim.network import SimTransport
from odradek.sim.observed.answers_heard import frames
from odradek.sim.plan import LEDGER_OWNERS, TRANSACTION_KINDS, Fault, Plan, _of_transactions, draw
from odradek.sim.run import OK, describe, run
from odradek.sim.world import World
from tests.sim.plans import three_brokers

T, OTHER = TopicPartition("ledger", 0), TopicPartition("ledger", 1)
Records = dict[TopicPartition, tuple[bytes, ...]]


def attempt(number: int, fate: Fate, values: Records, told_s: float = 1.0) -> Attempt:
    return Attempt("pay", number, values, fate, told_s)


def read(consumer: str, partition: TopicPartition, *records: tuple[int, bytes]) -> Polled:
    return Polled(consumer, partition, records)


def found(*events: Attempt | Position | Polled | Written) -> list[str]:
    history = TransactionHistory()
    for event in events:
        if isinstance(event, Attempt):
            history.attempts.append(event)
        elif isinstance(event, Position):
            history.positions.append(event)
        elif isinstance(event, Polled):
            history.reads.events.append(event)
        else:
            history.written.append(event)
    return [anomaly.name for anomaly in check_transactions(history)]


ZERO: Records = {T: (b"pay:0:0:0",), OTHER: (b"pay:0:0:1",)}
AGAIN: Records = {T: (b"pay:0:1:0",)}
ONE: Records = {T: (b"pay:1:2:0",)}
BOTH = read("final-0", T, (0, b"pay:0:0:0")), read("final-1", OTHER, (0, b"pay:0:0:1"))


def test_what_is_committed_is_read_as_a_whole_and_once() -> None:
    committed = attempt(0, "committed", ZERO)
    assert found(committed, *BOTH) == []
    assert found(committed, BOTH[0]) == ["lost-transaction"]
    assert found(committed) == ["lost-transaction"]
    assert found(committed, read("final-0", T, (0, b"pay:0:0:0"), (4, b"pay:0:0:0")), BOTH[1]) == [
        "doubled-record"
    ]


def test_what_is_aborted_is_never_read_and_what_is_in_doubt_all_or_not_at_all() -> None:
    assert found(attempt(0, "aborted", ZERO)) == []
    assert found(attempt(0, "aborted", ZERO), *BOTH) == ["aborted-read", "aborted-read"]
    assert found(attempt(0, "aborted", AGAIN), read("committed-0", T, (0, b"pay:0:1:0"))) == [
        "aborted-read",
        "reader-skipped",
    ]
    assert found(attempt(0, "unknown", ZERO)) == []
    assert found(attempt(0, "unknown", ZERO), *BOTH) == []
    assert found(attempt(0, "unknown", ZERO), BOTH[1]) == ["torn-transaction"]


def test_of_every_number_one_attempt_counts() -> None:
    first, again = attempt(0, "unknown", ZERO), attempt(0, "committed", AGAIN)
    places = (0, b"pay:0:0:0"), (1, b"pay:0:1:0")
    assert found(first, again, read("final-0", T, places[1])) == []
    assert found(first, again, read("final-0", T, *places), BOTH[1]) == ["number-twice"]
    assert found(attempt(1, "committed", ONE), read("final-0", T, (0, b"pay:1:2:0"))) == ["number-skipped"]


def test_positions_go_with_the_records() -> None:
    committed = attempt(0, "committed", ZERO)
    assert found(committed, *BOTH, Position("pay", 0, 2.0), Position("pay", 0, 9.0, is_final=True)) == []
    assert found(committed, *BOTH, Position("pay", -1, 2.0)) == ["lost-offset"]
    assert found(committed, *BOTH, Position("pay", -1, 0.5)) == [], "asked before it was told"
    assert found(committed, *BOTH, Position("pay", 1, 2.0)) == ["offset-apart"]
    assert found(attempt(0, "unknown", ZERO), *BOTH, Position("pay", -1, 9.0, is_final=True)) == [
        "offset-apart"
    ]
    assert found(attempt(0, "aborted", ZERO), Position("pay", 0, 9.0)) == ["offset-apart"]


def test_a_reader_sees_what_is_read_in_the_end_as_far_as_it_comes() -> None:
    one = attempt(0, "committed", AGAIN), attempt(1, "committed", ONE)
    final = read("final-0", T, (0, b"pay:0:1:0"), (2, b"pay:1:2:0"))
    assert found(*one, final, read("committed-0", T, (0, b"pay:0:1:0"))) == []
    assert found(*one, final, read("committed-0", T, (2, b"pay:1:2:0"))) == ["reader-skipped"]
    assert found(*one, final, read("committed-0", T, (0, b"pay:0:1:0"), (1, b"pay:1:2:0"))) == [
        "reader-skipped"
    ]


def test_logs_hold_one_decision_of_each_transaction_and_nothing_behind_a_fence() -> None:
    data = Written(T, 0, 7, 0, DATA, (b"pay:0:0:0",))
    elsewhere = Written(OTHER, 0, 7, 0, DATA, (b"pay:0:0:1",))
    assert found(data, Written(T, 1, 7, 0, COMMIT), elsewhere, Written(OTHER, 1, 7, 0, COMMIT)) == []
    assert found(data, Written(T, 1, 7, 0, COMMIT), elsewhere, Written(OTHER, 1, 7, 0, ABORT)) == [
        "both-markers"
    ]
    assert found(data) == ["hanging-transaction"]
    later = data._replace(epoch=1)
    assert found(later, Written(T, 1, 7, 0, COMMIT)) == ["fenced-write"], "a marker is fenced too"
    assert found(
        data,
        Written(T, 1, 7, 1, ABORT),
        Written(T, 2, 7, 0, DATA, (b"pay:0:1:0",)),
        Written(T, 3, 7, 1, ABORT),
    ) == ["fenced-write"]


def plan_with(*faults: Fault, bumping_owners: int = 0, duration_s: float = 8.0) -> Plan:
    return three_brokers(
        duration_s=duration_s,
        partitions=1,
        acks=-1,
        has_transactions=True,
        bumping_owners=bumping_owners,
        settings=_of_transactions(3, 2),
        faults=faults,
    )


def attempts_of(plan: Plan) -> list[Attempt]:
    told: list[Attempt] = []

    def observe(world: World) -> None:
        told[:] = world.clients.ledger.history.attempts

    outcome = run(plan, observe=observe)
    assert outcome.code == OK, describe(outcome)
    assert len(outcome.injected) == len(plan.faults)
    return told


# How many of the processes are clients of `transaction.version` 2: none, one of two with the same id, all.
BUMPING = (0, 1, LEDGER_OWNERS)


def test_where_each_end_gives_the_next_epoch_no_two_transactions_end_in_one() -> None:
    def ends(*written: Written) -> list[str]:
        return [a.name for a in check_transactions(TransactionHistory(written=list(written), all_bump=True))]

    first, second = Written(T, 0, 7, 0, DATA), Written(T, 3, 7, 1, DATA)
    end = Written(T, 1, 7, 1, COMMIT)
    assert ends(first, end, Written(T, 2, 7, 1, COMMIT), second, Written(T, 4, 7, 2, ABORT)) == []
    assert ends(first, end, second, Written(T, 4, 7, 1, COMMIT)) == ["epoch-twice"]
    assert ends(first, end, Written(T, 2, 7, 1, ABORT)) == ["epoch-twice"]
    assert found(first, end, second, Written(T, 4, 7, 1, COMMIT)) == [], "of clients below version 2"


def test_a_control_batch_that_compaction_has_emptied_ends_nothing() -> None:
    def names(*written: Written) -> list[str]:
        return [a.name for a in check_transactions(TransactionHistory(written=list(written), all_bump=True))]

    end, emptied = Written(T, 1, 7, 1, COMMIT), Written(T, 4, 7, 1, EMPTIED)
    data, behind = Written(T, 0, 7, 0, DATA, (b"pay:0:0:0",)), Written(T, 5, 7, 0, DATA, (b"pay:0:1:0",))
    assert names(data, end, emptied) == [], "the commit, sent again, and cleaned away"
    assert names(data, emptied) == ["hanging-transaction"], "its marker may not go as long as it is there"
    assert names(data, end, emptied, behind, Written(T, 6, 7, 1, COMMIT)) == ["fenced-write", "epoch-twice"]


@pytest.mark.parametrize(("is_commit", "kind"), [(True, COMMIT), (False, ABORT)])
def test_what_a_log_holds_is_told_from_what_compaction_has_emptied(is_commit: bool, kind: str) -> None:
    batch = build_end_marker(
        producer_id=7, producer_epoch=1, is_commit=is_commit, coordinator_epoch=0, timestamp=0, base_offset=4
    )
    header = next(iter_batches(memoryview(batch)))[1]
    emptied = batch_bytes(header._replace(base_offset=5, record_count=0), b"")
    reader = BatchReader(None, "batches-0", T, History())
    assert reader._records(batch + emptied, []) == ([], [], 6)
    assert reader.written == [Written(T, 4, 7, 1, kind), Written(T, 5, 7, 1, EMPTIED)]


def test_what_one_broker_leads_is_written_with_one_request_as_clients_do() -> None:
    named: set[tuple[int, bool]] = set()  # how many partitions by one request, and with which version

    def note(transport: SimTransport, data: bytes) -> None:
        for frame in frames(data) if transport.host.name == MACHINE else ():
            if frame[:2] == b"\0\0":
                header = decode_request_header(frame)
                name, _, _, topics = decode_produce(header.api_version, frame, header.body_offset)
                if name is not None:
                    named.add((sum(len(rows) for _, rows in topics), header.api_version > 11))

    run(
        plan_with(bumping_owners=1, duration_s=3.0),
        prepare=lambda world, history: world.network.taps.append(note),
    )

    assert {(1, False), (2, False), (1, True), (2, True)} <= named


def test_there_are_as_many_owners_as_a_plan_counts() -> None:
    assert len(OWNERS) == LEDGER_OWNERS
    assert {draw(seed).bumping_owners for seed in range(200)} == set(BUMPING)


@pytest.mark.parametrize("bumping_owners", BUMPING)
def test_zombies_take_an_id_from_each_other_and_both_get_on(bumping_owners: int) -> None:
    attempts = attempts_of(plan_with(bumping_owners=bumping_owners, duration_s=10.0))
    fates = [one.fate for one in attempts]
    assert fates.count("committed") > 50
    assert fates.count("aborted") > 5
    assert {one.transactional_id for one in attempts if one.fate == "committed"} == {"pay-0", "pay-1"}


@pytest.mark.parametrize("kind", sorted(TRANSACTION_KINDS))
@pytest.mark.parametrize("bumping_owners", BUMPING)
def test_transactions_outlive_it(kind: str, bumping_owners: int) -> None:
    lasts_s = 4.0 if kind == "transactional_producer_paused" else 1.0
    faults = tuple(Fault(2.0 * n - 1.0, kind, 0.3 * n - 0.3, 0.4, lasts_s) for n in range(1, 4))
    after = max(fault.at_s for fault in faults)
    duration_s = after + max(lasts_s, 2.5)
    attempts = attempts_of(plan_with(*faults, bumping_owners=bumping_owners, duration_s=duration_s))
    assert [one for one in attempts if one.fate == "committed" and one.told_s > after]


def test_a_log_without_its_marker_is_unfinished_unless_an_unclean_election_may_have_lost_it() -> None:
    """Seed 533: the marker was committed, its coordinator was told so, and the last replica that was elected had not got it."""
    hanging = SimpleNamespace(producer_id=1000, transaction_first_offset=17)
    ended = SimpleNamespace(producer_id=2000, transaction_first_offset=-1)
    log = SimpleNamespace(producers=SimpleNamespace(all=lambda: [hanging, ended]))
    leads = SimpleNamespace(is_leader=True, log=log)
    parts = SimpleNamespace(
        transactions=SimpleNamespace(shards={}), replicas=SimpleNamespace(partitions={T: leads, OTHER: leads})
    )
    broker = SimpleNamespace(is_serving=True, runtime=SimpleNamespace(broker=parts))
    topics = SimpleNamespace(unclean_elections_of=lambda partition: int(partition == T))
    ledger: Any = SimpleNamespace(
        producers=[], moves=0, world=SimpleNamespace(brokers={1: broker}, topics=topics)
    )
    assert list(Ledger.unfinished(ledger)) == [f"the transaction of producer 1000 in {OTHER} is"]
