"""Every bug of the museum, put back: the scenario or the search that is known to see it sees it.

The whole of it, with many seeds: `python -m tests.mutants.museum`; the table as measured: docs/museum.md.
"""

from pathlib import Path

import pytest

from odradek.sim import scenario
from odradek.sim.explore.search import explore
from tests.mutants.edit import Edit, Outdated
from tests.mutants.museum.catch import by_text, shows
from tests.mutants.mutant import Mutant
from tests.mutants.patching import applied
from tests.mutants.search import BY_NAME, mutated_model
from tests.mutants.table import EXHIBITS
from tests.mutants.table.searched import SEARCHED

NOTHING = Mutant("nothing", "nothing is changed", ())
STORIES = Path(__file__).parents[2] / "scenarios"


@pytest.mark.parametrize("mutant", [m for m in EXHIBITS if m.scenario], ids=lambda mutant: mutant.name)
def test_a_scenario_sees_the_bug(mutant: Mutant) -> None:
    """That it comes out as written without the bug is test_scenarios.py's."""
    text = (STORIES / f"{mutant.scenario}.txt").read_text(encoding="utf-8")
    assert shows(mutant, text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutant",
    [
        m
        for m in EXHIBITS
        if m.searched
        and not m.own_scenario
        and not m.scenario
        and m.edits not in [searched.edits for searched in SEARCHED]
    ],
    ids=lambda mutant: mutant.name,
)
def test_the_exhaustive_search_sees_the_bug(mutant: Mutant) -> None:
    """That it finds nothing without the bug is test_explore.py's, and those that are put in there as they are here."""
    like = BY_NAME[mutant.searched]
    assert like.search is not None
    with applied(mutant.edits):
        found = explore(mutated_model(like), most_states=100_000).counter_example
    assert found is not None and like.search.breaks in found.broken


def test_everything_is_shown_or_known_to_be_harmless() -> None:
    for mutant in EXHIBITS:
        ways = [mutant.scenario, mutant.own_scenario, mutant.searched in BY_NAME]
        assert any(ways) != bool(mutant.harmless), mutant.name
    assert sum(not mutant.harmless for mutant in EXHIBITS) >= 50


@pytest.mark.parametrize("mutant", [m for m in EXHIBITS if m.own_scenario], ids=lambda mutant: mutant.name)
def test_its_own_scenario_sees_the_bug_and_breaks_nothing_without_it(mutant: Mutant) -> None:
    unharmed = scenario.play(mutant.own_scenario)
    assert not [line for line in unharmed.splitlines() if line.startswith("!")]
    assert shows(mutant, unharmed)
    assert not shows(NOTHING, unharmed)


@pytest.mark.parametrize("function", ["divergence_point", "no_such_function"])
def test_a_change_that_cannot_be_made_is_not_taken_for_a_bug_that_shows(function: str) -> None:
    edit = Edit(f"replication.replica:Replica.{function}", "no_such_line()", "pass")
    with pytest.raises(Outdated):
        by_text(
            Mutant("outdated", "nothing", (edit,)), (STORIES / "a_long_poll.txt").read_text(encoding="utf-8")
        )
