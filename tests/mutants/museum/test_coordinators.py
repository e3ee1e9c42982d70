"""The museum of coordinators: each bug that a small world shows, put back; those of the search are test_explore_transactions.py's."""

import pytest

from odradek.sim.run import OK, describe, run
from tests.mutants.patching import applied
from tests.mutants.table.shown_by_worlds import SHOWN_BY_WORLDS, WorldMutant
from tests.mutants.table.transactions import SEARCHED_TRANSACTIONS
from tests.mutants.worlds import WORLDS


@pytest.mark.slow
@pytest.mark.parametrize("mutant", SHOWN_BY_WORLDS, ids=lambda mutant: mutant.name)
def test_a_world_sees_the_bug(mutant: WorldMutant) -> None:
    with applied(mutant.edits):
        outcome = run(WORLDS[mutant.world][mutant.plan])
    assert [anomaly.name for anomaly in outcome.anomalies][:1] == [mutant.breaks]


@pytest.mark.slow
@pytest.mark.parametrize("world", list(WORLDS))
def test_it_is_right_without_a_bug(world: str) -> None:
    for plan in WORLDS[world]:
        outcome = run(plan)
        assert outcome.code == OK, describe(outcome)


def test_there_are_enough() -> None:
    assert len(SHOWN_BY_WORLDS) + len(SEARCHED_TRANSACTIONS) >= 15
