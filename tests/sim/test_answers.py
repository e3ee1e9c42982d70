"""What brokers answer at rest: wrong answers made by hand, each named; and a world in which one is planted."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from odradek.log.leader_epochs import EpochEntry
from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from odradek.sim.checkers.answers import REFUSED, Shown, Told, end_of_epoch, offsets_as_held, shown_as_stored
from odradek.sim.checkers.replicas import BatchView, PartitionView, ReplicaView
from odradek.sim.observed.answers import _asked_epochs, wrong_at_rest
from odradek.sim.plan import Fault
from odradek.sim.run import CORRECTNESS, LIVENESS, OK, describe, run
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.test_beliefs import HOST, T, connected_to, healthy_world
from tests.sim.test_further_faults import plan_with
from tests.support import each

ONE, TWO = map(BrokerId, (1, 2))
BATCHES = (BatchView(2, 3, 1, 11), BatchView(4, 4, 1, 12), BatchView(5, 6, 3, 13))


def held(broker: BrokerId) -> ReplicaView:
    return ReplicaView(broker, True, broker == ONE, 3, 2, 7, 7, batches=BATCHES)


STORED = LeaderAndIsr(ONE, LeaderEpoch(3), (ONE, TWO), PartitionEpoch(5))
STATE = PartitionView((held(ONE), held(TWO)), STORED, assignment=(TWO, ONE))
SHOWN = Shown(1, 3, (1, 2), (2, 1))
U = TopicPartition("u", 0)

WRONG_METADATA: dict[str, tuple[list[int], dict[TopicPartition, Shown]]] = {
    "another leader": ([1, 2], {T: SHOWN._replace(leader=2)}),
    "an older epoch": ([1, 2], {T: SHOWN._replace(leader_epoch=2)}),
    "another ISR": ([1, 2], {T: SHOWN._replace(isr=(1,))}),
    "other replicas": ([1, 2], {T: SHOWN._replace(replicas=(1, 2, 3))}),
    "one that is offline": ([1, 2], {T: SHOWN._replace(offline=(2,))}),
    "no such partition": ([1, 2], {}),
    "one that is gone": ([1, 2], {T: SHOWN, U: SHOWN}),
    "a broker that is dead": ([1, 2, 3], {T: SHOWN}),
    "too few brokers": ([1], {T: SHOWN}),
}


@each(WRONG_METADATA)
def test_metadata_that_is_not_as_stored_is_named(why: str) -> None:
    live, shown = WRONG_METADATA[why]
    assert [a.name for a in shown_as_stored(TWO, live, shown, {T: STATE}, [1, 2])] == ["AnswersAtRest"]


def test_metadata_that_is_as_stored_passes() -> None:
    assert list(shown_as_stored(TWO, [2, 1], {T: SHOWN}, {T: STATE}, [1, 2])) == []


TRUE = Told(2, 7, {0: 2, 1: 5, 3: 7})
NOTHING = Told(REFUSED, REFUSED, {0: REFUSED, 1: REFUSED, 3: REFUSED})
WRONG_OFFSETS: dict[str, tuple[BrokerId, Told]] = {
    "it begins earlier": (ONE, TRUE._replace(earliest=0)),
    "it ends earlier": (ONE, TRUE._replace(latest=6)),
    "the end is refused": (ONE, TRUE._replace(latest=REFUSED)),
    "an epoch ends later": (ONE, TRUE._replace(epoch_ends={0: 2, 1: 6, 3: 7})),
    "one that is deleted ends nowhere": (ONE, TRUE._replace(epoch_ends={0: -1, 1: 5, 3: 7})),
    "the last one ends before the log": (ONE, TRUE._replace(epoch_ends={0: 2, 1: 5, 3: 5})),
    "a follower tells all": (TWO, TRUE),
    "a follower tells where epochs end": (TWO, NOTHING._replace(epoch_ends={1: 5})),
    "a follower tells where it begins": (TWO, NOTHING._replace(earliest=2)),
}


@each(WRONG_OFFSETS)
def test_offsets_that_are_not_as_held_are_named(why: str) -> None:
    broker, told = WRONG_OFFSETS[why]
    assert [a.name for a in offsets_as_held(broker, T, told, STATE)] == ["AnswersAtRest"]


def test_offsets_as_held_pass_and_so_do_refusals_of_whoever_does_not_lead() -> None:
    assert list(offsets_as_held(ONE, T, TRUE, STATE)) == []
    assert list(offsets_as_held(TWO, T, NOTHING, STATE)) == []


def test_an_epoch_ends_where_the_next_one_that_brought_a_record_begins() -> None:
    assert [end_of_epoch(epoch, held(ONE)) for epoch in range(5)] == [2, 5, 5, 7, 7]


def test_the_ends_of_the_latest_epochs_are_asked_for_and_of_one_before() -> None:
    def with_records_of(*epochs: int) -> ReplicaView:
        return replace(held(ONE), batches=tuple(BatchView(n, n, epoch, 1) for n, epoch in enumerate(epochs)))

    assert _asked_epochs(PartitionView((with_records_of(1, 3, 5), with_records_of(3, 7)))) == [2, 3, 5, 7]
    assert _asked_epochs(PartitionView((with_records_of(0, 2),))) == [0, 2]
    assert _asked_epochs(PartitionView((with_records_of(),))) == []


def _another_leader(broker: Any) -> None:
    known = broker.metadata.topics["t"][0]
    broker.metadata.topics["t"][0] = known._replace(leader_epoch=known.leader_epoch + 1)
    broker.metadata.epoch += 1


def _an_epoch_that_never_was(broker: Any) -> None:
    broker.replicas.partitions[T].log.epochs.entries.append(EpochEntry(1, 0))


PLANTED: dict[str, Callable[[Any], None]] = {
    "in metadata": _another_leader,
    "in epochs": _an_epoch_that_never_was,
}


@each(PLANTED)
def test_every_broker_is_asked_and_what_is_planted_is_found(why: str) -> None:
    with healthy_world() as (world, leader):
        assert wrong_at_rest(world, connected_to(world), HOST) == []
        PLANTED[why](leader)
        assert {anomaly.name for anomaly in wrong_at_rest(world, connected_to(world), HOST)} == {
            "AnswersAtRest"
        }


def test_a_topic_is_made_and_deleted_at_rest_and_that_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_with(Fault(1.0, "list_offsets", 0.3, 0.5), duration_s=3.0)
    outcome = run(plan)
    assert outcome.code == OK, describe(outcome)
    monkeypatch.setattr("odradek.sim.clients.administration.PROMPTLY_S", 0.0)
    late = run(plan)
    assert late.code == LIVENESS and late.reason.startswith("a topic is made: NONE at rest"), late.reason


NOT_WOKEN = Edit(
    "replication.partition:Partition._resign",
    "self._outbox.purgatory.wake_key(self.topic_partition)",
    "pass",
)


def test_who_deletes_records_at_a_leader_that_leads_no_more_is_answered_at_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_with(Fault(1.0, "delete_records", 0.3, 0.5), duration_s=3.0)
    with applied([NOT_WOKEN]):
        seen = run(plan)
        assert (seen.code, {anomaly.name for anomaly in seen.anomalies}) == (CORRECTNESS, {"NobodyWaits"}), (
            seen.reason
        )
        monkeypatch.setattr("odradek.sim.observed.watch.Watch.check", lambda watch, *, after_a_step=False: [])
        late = run(plan)
    assert late.code == LIVENESS and late.reason.startswith("a deletion at a leader"), late.reason
