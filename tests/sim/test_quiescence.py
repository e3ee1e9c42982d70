"""I12: every reason not to be quiescent is named, and the run says it when its patience is over."""

from dataclasses import replace

import pytest

from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from odradek.sim.checkers.leading import Leading
from odradek.sim.checkers.quiescence import Quiescence, not_quiescent, pending, unsettled
from odradek.sim.checkers.replicas import ClusterView, PartitionView, ReplicaView
from odradek.sim.plan import Fault, Plan, draw
from odradek.sim.run import LIVENESS, OK, describe, run
from odradek.sim.shrink import signature
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.mutants.table import EXHIBITS
from tests.sim.plans import three_brokers

T = TopicPartition("t", 0)
A, B = BrokerId(1), BrokerId(2)


def replica(broker: BrokerId, end: int = 3, mark: int = 3) -> ReplicaView:
    return ReplicaView(broker, True, broker == A, 0, 0, end, mark)


def view(
    *replicas: ReplicaView, leader: int = 1, isr: tuple[BrokerId, ...] = (A, B), **more: object
) -> ClusterView:
    stored = LeaderAndIsr(BrokerId(leader), LeaderEpoch(0), isr, PartitionEpoch(0))
    state = PartitionView(replicas or (replica(A), replica(B)), stored, stored, (A, B))
    known = {
        "controllers": ((A, 1),),
        "live_brokers": (A, B),
        "metadata": {(broker, T): (leader, 0) for broker in (A, B)},
        **more,
    }
    return ClusterView({T: state}, **known)  # type: ignore[arg-type]


GOOD = Quiescence(view())
BAD: list[tuple[str, Quiescence, str]] = [
    ("one has left the ISR", Quiescence(view(isr=(A,))), "ISR is [1] of [1, 2]"),
    ("nobody leads", Quiescence(view(replica(A), leader=-1)), "no leader"),
    ("a follower is behind", Quiescence(view(replica(A), replica(B, end=2, mark=2))), "differ"),
    ("a follower does not know that all is committed", Quiescence(view(replica(A), replica(B, mark=2))), "differ"),
    ("the last record is not committed", Quiescence(view(replica(A, mark=2), replica(B, mark=2))), "differ"),
    ("a replica has no log", Quiescence(view(replica(A))), "no replica at [2]"),
    ("a broker stays away", GOOD._replace(not_running=["b2 (None)"]), "b2 (None) does not run"),
    ("a disk stays away", GOOD._replace(directories_offline=["/b2/d0 of b2"]), "/b2/d0 of b2 is offline"),
    ("two have not met", GOOD._replace(is_acquainted=False), "knows the others"),
    ("nobody is controller", Quiescence(view(controllers=())), "nobody acts as controller"),
    ("a send hangs", GOOD._replace(unfinished=["1 sends are"]), "1 sends are not finished"),
    ("records are in doubt", GOOD._replace(in_doubt=[(B, T)]), "counts on broker 2"),
    ("a topic is not gone", Quiescence(view(topics_to_delete=("x",))), "topic x is still to be deleted"),
    ("a follower has kept what was deleted", Quiescence(view(replace(replica(A), log_start_offset=2), replica(B))), "begin before that of leader 1"),
    ("a leader does not know its follower", GOOD._replace(unknown=["b1 believes t-0 of broker 2 to end at 2: that"]), "believes t-0"),
    ("a broker has not stopped yet", GOOD._replace(stopping=["b1"]), "shutdown of b1 is not finished"),
    ("a broker tells of an old leader", Quiescence(view(metadata={(A, T): (1, 0), (B, T): (2, 0)})), "broker 2 tells"),
]  # fmt: skip


def test_a_topic_that_is_deleted_is_gone_from_what_brokers_tell() -> None:
    outlived = [(A, TopicPartition("gone", 0)), (B, TopicPartition("gone", 0)), (B, T._replace(partition=7))]
    found = list(pending(GOOD._replace(outlived=outlived)))

    assert [(anomaly.name, anomaly.topic_partition) for anomaly in found] == [
        ("TopicIsGone", partition) for _, partition in outlived
    ]


@pytest.mark.parametrize(("why", "state", "says"), BAD, ids=[why for why, *_ in BAD])
def test_what_keeps_it_from_quiescence_is_named(why: str, state: Quiescence, says: str) -> None:
    found = list(pending(state))

    assert {anomaly.name for anomaly in found} == {"I12"}
    assert any(says in str(anomaly) for anomaly in found), found


def test_a_cluster_at_rest_waits_for_nothing() -> None:
    assert list(pending(GOOD)) == []


def test_a_follower_may_begin_later_than_its_leader() -> None:
    """The leader was elected before it heard of the deletion."""
    assert list(pending(Quiescence(view(replica(A), replace(replica(B), log_start_offset=2))))) == []


def test_a_run_that_never_comes_to_rest_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that joins no ISR any more: nobody asks for its return."""
    from odradek.replication.partition import Partition

    monkeypatch.setattr("odradek.sim.run.LIVENESS_S", 5.0)
    monkeypatch.setattr(Partition, "is_in_sync", lambda self, follower, *more: False)
    seed = next(n for n in range(40) if {"kill_leader", "bounce"} & {f.kind for f in draw(n).faults})
    plan = replace(
        draw(seed), acks=1, is_idempotent=False, has_transactions=False, has_sharers=False, mixed_group=""
    )
    outcome = run(plan)

    assert outcome.code == LIVENESS
    assert "5 s after everything was healed: I12: orders-" in outcome.reason
    assert "ISR is" in outcome.reason
    assert signature(outcome) == (LIVENESS, "I12")


# A fetcher waits ten times as long after each failure in its broker's life.
BACK_OFF = "RECONNECT_MS / 1000 * 10**self._metrics.fetcher_failures"


def test_a_retry_whose_back_off_grows_without_bound_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster comes to rest in the end, later than anything that is right ever did."""
    resets = tuple(Fault(1.0 + at, "resets", 0.1 + 0.2 * at, 0.9, 4.0) for at in range(4))
    plan = replace(
        without_faults(7), duration_s=10.0, faults=resets, has_sharers=False, has_group=False, mixed_group=""
    )
    edits = [
        Edit("server.fetchers:Fetching._connect", "RECONNECT_MS / 1000", BACK_OFF),
        Edit("server.fetchers:Fetching.failed", "RECONNECT_MS / 1000", BACK_OFF),
    ]
    assert run(plan).code == OK
    with applied(edits):
        outcome = run(plan)
        monkeypatch.setattr("odradek.sim.run.LIVENESS_S", 180.0)
        patient = run(plan)

    assert outcome.code == LIVENESS
    assert "60 s after everything was healed: I12: orders-" in outcome.reason
    assert patient.code == OK, "so long nobody has to wait"


def without_faults(seed: int, **settings: str) -> Plan:
    plan = draw(seed)
    quick = {"replica.lag.time.max.ms": "1500", **settings}
    return replace(plan, acks=-1, is_idempotent=True, duration_s=3.0, faults=(), settings=quick)


def test_a_cluster_that_does_not_stay_at_rest_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """KAFKA-7152 put back: where nothing is produced any more followers leave the ISR, and nobody would mend it. LeaverLags, which
    says so at once, does not look."""
    monkeypatch.setattr(Leading, "observe", lambda *seen: [])
    assert run(without_faults(4)).code == OK
    bug = next(exhibit for exhibit in EXHIBITS if exhibit.name == "7152")
    with applied(bug.edits):
        outcome = run(without_faults(4))

    assert outcome.code == LIVENESS
    assert "times while nothing happened" in outcome.reason
    text = describe(outcome)
    assert "every replica of orders-" in text
    assert "high watermark" in text and "and believes" in text


def test_a_follower_that_hears_of_the_high_watermark_by_a_deadline_is_missed() -> None:
    late = Edit(
        "broker.fetch_sessions:WantedPartition.on_high_watermark", "session.parked is not None", "False"
    )
    with applied([late]):
        outcome = run(three_brokers(duration_s=2.0))

    assert outcome.code == LIVENESS
    assert "every follower hears of the high watermark" in outcome.reason


def test_a_reader_that_is_not_woken_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look sees that it was not told; and should none do, a poll does that waits at rest."""
    bug = Edit("replication.replica:Replica._wake_readers", "reader.wake()", "pass")
    worse = Edit("replication.partition:Partition._advance_high_watermark", "self.consumer_readers", "()")
    with applied([bug, worse]):
        seen = run(without_faults(4))
        monkeypatch.setattr("odradek.sim.observed.watch.readers_are_told", lambda reading: [])
        outcome = run(without_faults(4))

    assert seen.reason.startswith("ReaderIsTold")
    assert outcome.code == LIVENESS
    assert "a poll that waits sees a record of" in outcome.reason


def test_a_cluster_that_takes_no_write_is_missed() -> None:
    bug = Edit(
        "replication.partition:Partition.append",
        "if acks == -1 and self.is_under_min_isr: ...",
        "if b'last-' in bytes(records): ...",
    )
    with applied([bug]):
        outcome = run(without_faults(4))

    assert outcome.code == LIVENESS
    assert "did not finish within 5 simulated seconds" in outcome.reason


@pytest.mark.parametrize(
    ("epochs", "is_right"),
    [((0, 0), True), ((0, 1), False), ((0, 2), False), ((1, 1), True)],
    ids=["as it was", "one has left", "one has left and is back", "another epoch"],
)
def test_an_isr_that_changes_while_nothing_happens_is_named(epochs: tuple[int, int], is_right: bool) -> None:
    before, after = view().partitions, view().partitions
    epoch, writes = epochs
    state = LeaderAndIsr(A, LeaderEpoch(epoch), (A, B), PartitionEpoch(writes))
    after = {T: replace(after[T], stored=state)}
    found = list(unsettled(before, after))

    assert [anomaly.name for anomaly in found] == ([] if is_right else ["I12"])
    assert list(unsettled({}, after)) == []


@pytest.mark.parametrize(
    ("events", "seconds", "brokers", "is_right"),
    [
        (600, 1.0, 3, True),
        (601, 1.0, 3, False),
        (1_201, 2.0, 3, False),
        (1_200, 2.0, 3, True),
        (7_000, 1.0, 5, False),
    ],
)
def test_who_is_busy_with_nothing_is_named(events: int, seconds: float, brokers: int, is_right: bool) -> None:
    found = [anomaly.name for anomaly in not_quiescent(events, seconds, brokers)]
    assert found == ([] if is_right else ["I12"])


def test_a_seed_whose_fetches_are_answered_at_once_for_ever_does_not_pass() -> None:
    """The bug put back: a leader without room for fetch sessions, and nothing to say."""
    plan = replace(
        draw(26),
        settings={
            "max.incremental.fetch.session.cache.slots": "0",
            "replica.lag.time.max.ms": "2000",
        },
        duration_s=2.0,
        faults=(),
        states={},
        has_group=False,
        has_sharers=False,
        has_transactions=False,
    )
    bug = Edit("broker.handlers.fetch:FetchWait._read_partition", "session.id == NO_SESSION", "False")
    assert run(plan).code == OK
    with applied([bug]):
        outcome = run(plan)
    assert outcome.code == LIVENESS
    assert "in which nothing happened" in outcome.reason
