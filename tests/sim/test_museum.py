"""Every bug of the museum, put back: the story or the search that is known to see it sees it.

The whole of it, with many seeds: `python -m odradek.sim.museum`; the table as measured: docs/museum.md.
"""

from pathlib import Path

import pytest

from odradek.replication import truncation
from odradek.replication.replica import Replica
from odradek.sim import scenario
from odradek.sim.explore.mutations import MUTATIONS, mutated_model
from odradek.sim.explore.search import explore
from odradek.sim.museum import collection, shown
from odradek.sim.museum.catch import by_text
from odradek.sim.museum.exhibit import Exhibit
from odradek.sim.museum.mutation import Change, Outdated, applied

STORIES = Path(__file__).parents[1] / "scenarios"
BY_NUMBER = {exhibit.number: exhibit for exhibit in collection.EXHIBITS}


@pytest.mark.parametrize(("number", "story"), shown.STORIES.items())
def test_a_story_sees_the_bug(number: str, story: str) -> None:
    """That it comes out as written without the bug is test_scenarios.py's."""
    text = (STORIES / f"{story}.txt").read_text(encoding="utf-8")
    assert by_text(BY_NUMBER[number], text) != ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "exhibit",
    [e for e in collection.EXHIBITS if e.searched and not e.story and e.number not in shown.STORIES],
    ids=lambda exhibit: exhibit.number,
)
def test_the_exhaustive_search_sees_the_bug(exhibit: Exhibit) -> None:
    """That it finds nothing without the bug is test_explore.py's."""
    mutation = next(m for m in MUTATIONS if m.name == exhibit.searched)
    with applied(exhibit.changes):
        found = explore(mutated_model(mutation), most_states=100_000).counter_example
    assert found is not None and mutation.breaks in found.broken


def test_everything_is_shown_or_known_to_be_harmless() -> None:
    searched = {mutation.name for mutation in MUTATIONS}
    for exhibit in collection.EXHIBITS:
        ways = [
            exhibit.number in shown.STORIES,
            bool(exhibit.story),
            exhibit.searched in searched,
        ]
        assert any(ways) != (exhibit.number in shown.HARMLESS), exhibit.number
    assert len(BY_NUMBER) == len(collection.EXHIBITS)
    assert len(collection.EXHIBITS) - len(shown.HARMLESS) >= 50


@pytest.mark.parametrize(
    "exhibit", [e for e in collection.EXHIBITS if e.story], ids=lambda exhibit: exhibit.number
)
def test_its_own_story_sees_the_bug_and_breaks_nothing_without_it(exhibit: Exhibit) -> None:
    unharmed = scenario.play(exhibit.story)
    assert not [line for line in unharmed.splitlines() if line.startswith("!")]
    assert by_text(exhibit, unharmed) != ""
    assert by_text(None, unharmed) == ""


@pytest.mark.parametrize("exhibit", collection.EXHIBITS, ids=lambda exhibit: exhibit.number)
def test_the_line_is_still_there_and_comes_back(exhibit: Exhibit) -> None:
    with applied(exhibit.changes):
        pass  # Outdated, if a line is not in the production code any more


def test_who_imported_the_function_runs_the_changed_line_and_afterwards_the_old_one() -> None:
    from odradek.replication.truncation import plan_truncation

    class Empty:
        log_end_offset = 5
        latest_epoch = 0

        def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
            return epoch, 5

    def cut() -> int:
        return plan_truncation(Empty(), leader_epoch=0, leader_end_offset=3, high_watermark=1).offset

    change = Change(
        truncation, "plan_truncation", "min(own_end, leader_end_offset, end)", "min(own_end, high_watermark)"
    )
    assert cut() == 3
    with applied([change]):
        assert cut() == 1
    assert cut() == 3


def test_a_line_that_is_not_there_is_an_error() -> None:
    with pytest.raises(Outdated), applied([Change(Replica, "is_diverging", "no such line", "")]):
        pass


@pytest.mark.parametrize("function", ["is_diverging", "no_such_function"])
def test_a_change_that_cannot_be_made_is_not_taken_for_a_bug_that_shows(function: str) -> None:
    exhibit = Exhibit("outdated", "-", "nothing", (Change(Replica, function, "no such line", ""),))
    with pytest.raises(Outdated):
        by_text(exhibit, (STORIES / "a_long_poll.txt").read_text(encoding="utf-8"))
