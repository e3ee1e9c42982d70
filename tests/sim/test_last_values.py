"""A compacted topic: each checker is fed what is wrong on purpose, and worlds in which cleaners die are right."""

from dataclasses import replace

import pytest

from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from odradek.sim.checkers import replicas as r
from odradek.sim.checkers.deliveries import check
from odradek.sim.checkers.history import Anomaly, History, Polled, Sent, is_deletion, key_of
from odradek.sim.checkers.keys import Keys
from odradek.sim.checkers.last_values import LastValues
from odradek.sim.plan import CLEANER_KINDS, Fault, draw
from odradek.sim.run import OK, describe, run
from odradek.sim.world import World

T = TopicPartition("states", 0)
STORED = LeaderAndIsr(BrokerId(1), LeaderEpoch(0), (BrokerId(1), BrokerId(2)), PartitionEpoch(0))


def keys(**last: tuple[int, str | None]) -> Keys:
    found = Keys()
    for key, (offset, value) in last.items():
        found.put(key.encode(), offset, None if value is None else value.encode())
    return found


def view(leader: Keys, follower: Keys, *, mark: int = 10, start: int = 0, unclean: int = 0) -> r.ClusterView:
    def replica(broker: int, held: Keys) -> r.ReplicaView:
        return r.ReplicaView(BrokerId(broker), True, broker == 1, 0, start, 20, mark, keys=held)

    state = r.PartitionView(
        (replica(1, leader), replica(2, follower)),
        STORED,
        assignment=(BrokerId(1), BrokerId(2)),
        unclean_elections=unclean,
    )
    return r.ClusterView({T: state})


def judged(*views: r.ClusterView) -> list[str]:
    checker = LastValues()
    return [anomaly.name for one in views for anomaly in checker.observe(one)]


WHOLE = keys(a=(3, "a:1"), b=(5, "b:1"))


def test_replicas_that_were_compacted_apart_are_right_while_the_last_values_are_the_same() -> None:
    assert judged(view(WHOLE, WHOLE), view(keys(a=(9, "a:2"), b=(5, "b:1")), WHOLE, mark=9)) == []


@pytest.mark.parametrize(
    ("held", "count"),
    [
        (keys(b=(5, "b:1")), 1),  # gone
        (keys(a=(2, "a:0"), b=(5, "b:1")), 1),  # an older one is left
        (keys(a=(3, "a:9"), b=(5, "b:1")), 1),  # another value at its offset
        (keys(a=(3, "a:1"), b=(3, "b:7")), 2),  # its offset is another key's, and its own value is gone
        (keys(), 2),
    ],
)
def test_a_last_value_that_was_committed_and_is_missed_is_named(held: Keys, count: int) -> None:
    assert judged(view(WHOLE, held)) == ["LastValue"] * count


def test_what_was_not_committed_was_deleted_or_lies_below_the_start_is_not_missed() -> None:
    assert judged(view(WHOLE, keys(b=(5, "b:1")), mark=3)) == []
    assert judged(view(keys(a=(3, None)), keys(a=(1, "a:0")))) == [], "a tombstone it never had"
    assert judged(view(WHOLE, keys(b=(5, "b:1")), start=4)) == []


def test_after_an_unclean_election_it_begins_anew() -> None:
    assert judged(view(WHOLE, WHOLE), view(keys(), keys(), unclean=1)) == []
    assert judged(view(WHOLE, WHOLE), view(keys(), keys())) == ["LastValue"] * 4


def test_who_is_eligible_outside_an_isr_that_is_too_small_has_the_last_values_too() -> None:
    lacks = view(WHOLE, keys(b=(5, "b:1")))
    alone = replace(STORED, isr=STORED.isr[:1], elr=STORED.isr[1:])
    for needed, names in ((2, ["LastValue"]), (1, [])):
        state = replace(lacks.partitions[T], stored=alone, min_insync_replicas=needed)
        assert judged(replace(lacks, partitions={T: state})) == names


def test_batches_that_overlap_are_named() -> None:
    held = keys(a=(3, "a:1"), b=(5, "b:1"))
    held.note(0, 4)
    held.note(3, 6)
    assert judged(view(WHOLE, held)) == ["TypeOk"]


def sent(text: str, offset: int, outcome: str = "ok") -> Sent:
    return Sent("s0", T, (text.encode(),), outcome, (offset,) if outcome == "ok" else ())  # type: ignore[arg-type]


def polled(*records: tuple[int, str], consumer: str = "final-0") -> Polled:
    return Polled(consumer, T, tuple((offset, text.encode()) for offset, text in records))


def found(*events: Sent | Polled, log_start: int = 0) -> list[Anomaly]:
    return check(History(list(events)), compacted={"states"}, log_starts={T: log_start})


SENDS = sent("a:1", 0), sent("a:2", 1), sent("b:1", 2)


def test_a_reader_of_a_compacted_topic_sees_the_last_value_of_each_key() -> None:
    assert found(*SENDS, polled((1, "a:2"), (2, "b:1"))) == []
    assert [anomaly.name for anomaly in found(*SENDS, polled((0, "a:1"), (2, "b:1")))] == ["lost-write"]
    assert [anomaly.name for anomaly in found(*SENDS, polled((2, "b:1")))] == ["lost-write"]
    assert found(*SENDS, polled((2, "b:1")), log_start=2) == [], "retention took it"


def test_of_a_key_that_was_deleted_or_perhaps_was_nothing_is_missed() -> None:
    assert found(*SENDS, sent("a!3", 3), polled((2, "b:1"))) == []
    assert found(*SENDS, sent("a!3", 3, "unknown"), polled((2, "b:1"))) == []
    assert len(found(*SENDS, sent("b!3", 3, "unknown"), polled((2, "b:1")))) == 1, "that is of another key"


def test_offsets_are_used_once_and_polls_do_not_go_back() -> None:
    names = [anomaly.name for anomaly in found(*SENDS, polled((1, "a:9"), (2, "b:1")))]
    assert names == ["inconsistent-offsets"]
    names = [anomaly.name for anomaly in found(*SENDS, polled((2, "b:1"), (1, "a:2")))]
    assert names == ["int-nonmonotonic-poll"]


def test_a_text_says_its_key_and_whether_it_deletes() -> None:
    assert (key_of(b"k3:1-17"), is_deletion(b"k3:1-17")) == (b"k3", False)
    assert (key_of(b"k3!1-17"), is_deletion(b"k3!1-17")) == (b"k3", True)
    assert key_of(b"s0-gap-1") == b"s0-gap-1"


# --- worlds


def test_records_of_a_transaction_count_from_its_commit_marker_on() -> None:
    """The cleaner takes out those of an aborted one, on one replica sooner than on another."""
    held, cleaned = keys(a=(1, "a:1")), keys(a=(1, "a:1"))
    held.put_undecided(7, b"a", 3, b"a:2")
    held.decide(7, 4, is_commit=False)
    assert judged(view(held, cleaned), view(cleaned, held)) == []

    committed = keys(a=(1, "a:1"))
    committed.put_undecided(7, b"a", 3, b"a:2")
    committed.decide(7, 6, is_commit=True)
    assert judged(view(committed, cleaned, mark=6)) == [], "its marker may still be lost"
    assert judged(view(committed, cleaned, mark=7)) == ["LastValue"]
    assert committed.last == {b"a": (3, b"a:2")}


@pytest.mark.parametrize("kind", sorted(CLEANER_KINDS))
def test_a_fault_in_the_midst_of_a_compaction_is_survived(kind: str) -> None:
    struck: list[str] = []

    def observe(world: World) -> None:
        struck[:] = [text for _, text in world.notes if " dies in " in text or " fails: " in text]

    plan = replace(
        draw(1),
        brokers=3,
        replication_factor=3,
        min_insync_replicas=2,
        acks=-1,
        duration_s=12.0,
        flushes=False,
        states={
            "cleanup.policy": "compact",
            "segment.bytes": "400",
            "min.cleanable.dirty.ratio": "0.01",
            "delete.retention.ms": "0",
        },
        settings={"log.cleaner.backoff.ms": "500"},
        has_sharers=False,
        mixed_group="",
        has_transactions=False,
        faults=tuple(Fault(1.0 + n, kind, n / 10, n / 10, 0.7) for n in range(10)),
    )
    outcome = run(plan, observe=observe)

    assert outcome.code == OK, describe(outcome)
    assert len(outcome.injected) > 5
    assert len(struck) >= 2
