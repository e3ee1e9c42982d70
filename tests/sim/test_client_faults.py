"""Faults of clients: what a killed process leaves behind is judged as what it is, and whoever takes its place goes on.

That each acts and is survived is test_further_faults.py's.
"""

from itertools import pairwise

import pytest

from odradek.model.ids import TopicPartition
from odradek.sim.checkers.history import Polled
from odradek.sim.plan import CLIENT_KINDS, Fault, draw
from odradek.sim.run import OK, Outcome, describe, run
from tests.sim.test_further_faults import notes, plan_with


def run_with(*chosen: Fault, duration_s: float) -> Outcome:
    outcome = run(plan_with(*chosen, duration_s=duration_s))
    assert outcome.code == OK, describe(outcome)
    return outcome


@pytest.mark.parametrize("amount", [0.02, 0.2, 0.6])
def test_what_a_killed_producer_had_in_flight_is_unknown_and_not_sent_again(amount: float) -> None:
    outcome = run_with(Fault(1.0, "producer_killed", 0.0, amount, 1.0), duration_s=3.0)

    (in_doubt,) = [send for send in outcome.history.sends() if send.outcome == "unknown"]
    successors = [send for send in outcome.history.sends() if send.producer == f"{in_doubt.producer}.1"]
    assert notes(outcome, "dies with")
    assert successors
    assert in_doubt.values not in [send.values for send in successors]


def test_what_a_restarted_producer_had_in_flight_is_sent_again_by_another_producer() -> None:
    twice = 0
    for amount in (0.0, 0.0001, 0.2, 0.6):
        outcome = run_with(Fault(1.0, "producer_restarts", 0.0, amount, 0.5), duration_s=2.0)
        (in_doubt,) = [send for send in outcome.history.sends() if send.outcome == "unknown"]
        (again,) = [s for s in outcome.history.sends() if s.values == in_doubt.values and s is not in_doubt]
        assert (again.producer, again.outcome) == (f"{in_doubt.producer}.1", "ok")
        final = [p for p in outcome.history.polls() if p.consumer.startswith("final-")]
        places = [offset for p in final for offset, value in p.records if value in in_doubt.values]
        assert again.offsets[0] in places
        twice += len(places) == 2

    assert 0 < twice < 4, "killed before it was written, and killed after"


def test_a_killed_consumer_goes_on_behind_the_last_record_it_has_seen() -> None:
    outcome = run_with(Fault(1.0, "consumer_killed", 0.0, 0.0, 2.0), duration_s=4.0)

    orders = TopicPartition("orders", 0)
    polls = [p for p in outcome.history.polls() if p.consumer == "follow-0" and p.records]
    polls = [p for p in polls if p.topic_partition == orders]
    gaps = [(b.at_ms - a.at_ms, a, b) for a, b in pairwise(polls)]
    _, before, after = max(gaps, key=lambda gap: gap[0])
    assert after.at_ms - before.at_ms >= 2_000
    assert after.records[0][0] == before.records[-1][0] + 1
    assert len(after.records) > 10, "it catches up"


def test_many_newcomers_read_from_the_beginning_while_everybody_reconnects() -> None:
    outcome = run_with(Fault(1.0, "clients_reconnect", 0.0, 0.5, 2.0), duration_s=4.0)

    newcomers: dict[str, Polled] = {}
    for poll in outcome.history.polls():
        if poll.consumer.startswith("new-"):
            newcomers.setdefault(poll.consumer, poll)
    assert len(newcomers) == 17
    assert {poll.records[0][0] for poll in newcomers.values()} == {0}


def test_a_quarter_of_the_seeds_has_them() -> None:
    with_them = sum(draw(seed).has(frozenset(CLIENT_KINDS)) for seed in range(400))

    assert 60 <= with_them <= 120
