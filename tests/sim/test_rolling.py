"""All brokers give way to the next release: transactions go on, and the features of that come into force when all have."""

from dataclasses import replace

import pytest

from odradek.broker.handlers import update_features
from odradek.model.features import TRANSACTION_VERSION
from odradek.sim.checkers.transactions import Attempt
from odradek.sim.plan import Fault, Plan, draw
from odradek.sim.run import CORRECTNESS, OK, describe, run
from odradek.sim.world import World
from odradek.store import layout
from tests.sim.test_transactions import plan_with

ROLL = Fault(2.0, "roll", 0.0, 0.0)


def plan_from(level: int) -> Plan:
    return replace(plan_with(ROLL, bumping_owners=3, duration_s=15.0), first_level=level)


def level_of(world: World) -> int:
    _, node = next(iter(world.store.ensemble.tree.walk(layout.FEATURE)))
    return layout.decode_feature(node.data).get(TRANSACTION_VERSION, 0)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_transactions_go_on_and_the_features_come_into_force_behind_the_last_broker(level: int) -> None:
    levels: list[int] = []
    attempts: list[Attempt] = []
    of_before: set[str] = set()

    def observe(world: World) -> None:
        levels.append(level_of(world))
        attempts[:] = world.clients.ledger.history.attempts
        if levels[-1] == 2 and level < 2:
            of_before.update(b.name for b in world.brokers.values() if b.link and b.link.as_written)

    outcome = run(plan_from(level), observe=observe)

    assert outcome.code == OK, describe(outcome)
    assert (levels[0], levels[-1]) == (level, 2)
    assert of_before == set()
    assert [text for _, text in outcome.notes if "stopped in order" in text]
    assert [one for one in attempts if one.fate == "committed" and one.told_s > 10.0]


def test_a_level_that_a_registered_broker_does_not_know_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_features, "check_members", lambda name, level, members: None)
    outcome = run(plan_from(0))

    assert outcome.code == CORRECTNESS
    assert {anomaly.name for anomaly in outcome.anomalies} == {"FeatureTooSoon"}


def test_one_of_eight_seeds_rolls_and_most_of_these_begin_with_the_release_before() -> None:
    rolling = [plan for plan in map(draw, range(400)) if plan.has(frozenset({"roll"}))]

    assert 25 <= len(rolling) <= 80
    assert {plan.first_level for plan in rolling} == {0, 1, 2}
