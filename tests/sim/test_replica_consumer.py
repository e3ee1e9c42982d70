"""Consumers by replica (KIP-392): they read all there is, from every copy, and what a copy may not give is seen."""

from dataclasses import replace

import pytest

from odradek.model.settings import RACK_AWARE_SELECTOR
from odradek.sim.checkers.history import Polled
from odradek.sim.clients import workload
from odradek.sim.clients.replica_consumer import RackConsumer
from odradek.sim.clients.workload import BY_REPLICA
from odradek.sim.plan import Fault, Plan, draw
from odradek.sim.run import CORRECTNESS, OK, describe, run
from tests.mutants.patching import applied
from tests.mutants.table import EXHIBITS
from tests.sim.test_further_faults import plan_with

PLAN = replace(plan_with(), reads_from_replicas=True, duration_s=6.0)
IN_RACKS = replace(PLAN, settings={**PLAN.settings, "replica.selector.class": RACK_AWARE_SELECTOR})


def by_replica(polls: list[Polled]) -> list[Polled]:
    return [poll for poll in polls if poll.consumer.startswith(BY_REPLICA)]


def test_every_partition_is_read_from_its_copies() -> None:
    outcome = run(PLAN)
    polls = by_replica(outcome.history.polls())

    assert outcome.code == OK, describe(outcome)
    assert {poll.topic_partition.partition for poll in polls} == set(range(PLAN.partitions))
    read = {value for poll in polls for _, value in poll.records}
    sent = {value for send in outcome.history.sends() for value in send.values}
    assert len(read) > 0.7 * len(sent)


@pytest.mark.parametrize("base", [PLAN, IN_RACKS], ids=["anywhere", "in racks"])
@pytest.mark.parametrize("is_broken", [True, False])
def test_a_copy_that_gives_what_is_not_committed_is_seen(is_broken: bool, base: Plan) -> None:
    """The leader is cut off and deposed: what only it had is gone, and whoever has read it has read too much."""
    cut_off = [
        Fault(2.0, "cut_leader_from_followers", 0.0, 0.0, 9.0),
        Fault(2.1, "cut_leader_from_store", 0.0, 0.0, 9.0),
    ]
    plan = replace(
        base,
        seed=2,
        brokers=3,
        partitions=1,
        duration_s=14.0,
        acks=1,
        is_idempotent=False,
        faults=tuple(cut_off),
    )
    exhibit = next(e for e in EXHIBITS if e.name == "9196")
    with applied(exhibit.edits if is_broken else ()):
        outcome = run(plan)

    assert outcome.code == (CORRECTNESS if is_broken else OK), describe(outcome)


def test_in_racks_consumers_are_sent_to_replicas_and_read_all_there_is_from_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`RackConsumer` itself asserts that none is sent out of its rack, nor by a follower."""
    sent: list[int] = []

    class Noting(RackConsumer):
        def _sent_to(self, replica: int) -> None:
            super()._sent_to(replica)
            sent.append(replica)

    monkeypatch.setattr(workload, "RackConsumer", Noting)
    outcome = run(IN_RACKS)

    assert outcome.code == OK, describe(outcome)
    read = {value for poll in by_replica(outcome.history.polls()) for _, value in poll.records}
    assert len(read) > 0.7 * len({value for send in outcome.history.sends() for value in send.values})
    assert sent


def test_some_seeds_read_so() -> None:
    plans = [draw(seed) for seed in range(200)]
    assert 30 < sum(plan.reads_from_replicas for plan in plans) < 90
    in_racks = [plan for plan in plans if "replica.selector.class" in plan.settings]
    assert 15 < len(in_racks) < 45
    assert all(plan.reads_from_replicas for plan in in_racks)
