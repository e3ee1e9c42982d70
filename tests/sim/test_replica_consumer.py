"""Consumers by replica (KIP-392): they read all there is, from every copy, and what a copy may not give is seen."""

from dataclasses import replace

import pytest

from odradek.sim.checkers.history import Polled
from odradek.sim.plan import Fault, draw
from odradek.sim.run import CORRECTNESS, OK, describe, run
from odradek.sim.workload import BY_REPLICA
from tests.mutants.patching import applied
from tests.mutants.table import EXHIBITS
from tests.sim.test_further_faults import plan_with

PLAN = replace(plan_with(), reads_from_replicas=True, duration_s=6.0)


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


@pytest.mark.parametrize("is_broken", [True, False])
def test_a_copy_that_gives_what_is_not_committed_is_seen(is_broken: bool) -> None:
    """The leader is cut off and deposed: what only it had is gone, and whoever has read it has read too much."""
    cut_off = [
        Fault(2.0, "cut_leader_from_followers", 0.0, 0.0, 9.0),
        Fault(2.1, "cut_leader_from_store", 0.0, 0.0, 9.0),
    ]
    plan = replace(
        PLAN, brokers=3, partitions=1, duration_s=14.0, acks=1, is_idempotent=False, faults=tuple(cut_off)
    )
    exhibit = next(e for e in EXHIBITS if e.name == "9196")
    with applied(exhibit.edits if is_broken else ()):
        outcome = run(plan)

    assert outcome.code == (CORRECTNESS if is_broken else OK), describe(outcome)


def test_some_seeds_read_so() -> None:
    assert 30 < sum(draw(seed).reads_from_replicas for seed in range(200)) < 90
