"""The museum of coordinators: each bug that a small world or a test shows, put back; those of the search are
test_explore_transactions.py's."""

from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest

from odradek.sim.run import OK, describe, run
from tests.broker.test_transaction_version_2 import made
from tests.coordinator.test_traces import test_a_trace_is_answered_as_it_was_recorded as play
from tests.coordinator.traces import traces
from tests.mutants.museum.page import of_coordinators
from tests.mutants.patching import applied
from tests.mutants.table.shown_by_tests import SHOWN_BY_TESTS, TRACE, SeenByTest
from tests.mutants.table.shown_by_worlds import SHOWN_BY_WORLDS, WorldMutant
from tests.mutants.table.transactions import SEARCHED_TRANSACTIONS
from tests.mutants.worlds import MIXED, WORLDS


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worlds without a bug come to rest by then, and to wait a minute for one with a bug costs more than all else of it."""
    monkeypatch.setattr("odradek.sim.run.LIVENESS_S", 15.0)


@pytest.mark.slow
@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("mutant", SHOWN_BY_WORLDS, ids=lambda mutant: mutant.name)
def test_a_world_sees_the_bug(mutant: WorldMutant) -> None:
    with applied(mutant.edits):
        outcome = run(WORLDS[mutant.world][mutant.plan])
    assert [anomaly.name for anomaly in outcome.anomalies][:1] == [mutant.breaks]


@pytest.mark.slow
@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("world", [world for world in WORLDS if world != MIXED])
def test_it_is_right_without_a_bug(world: str) -> None:
    """Those with a mixed group are run in tests/sim/test_mixed_groups.py, which asks more of them."""
    for plan in WORLDS[world]:
        outcome = run(plan)
        assert outcome.code == OK, describe(outcome)


def shown(mutant: SeenByTest, path: Path) -> None:
    module, _, name = mutant.shown_by.partition(":")
    if module == TRACE:
        folder, _, trace = name.partition("/")
        return play(traces(folder)[trace])
    test = getattr(import_module(module), name)
    worlds = [made(path)] if "world" in signature(test).parameters else []
    return test(*worlds, *mutant.arguments)


@pytest.mark.parametrize("mutant", SHOWN_BY_TESTS, ids=lambda mutant: mutant.name)
def test_a_test_sees_the_bug(mutant: SeenByTest, tmp_path: Path) -> None:
    shown(mutant, tmp_path / "without")
    with applied(mutant.edits), pytest.raises((AssertionError, LookupError)):
        shown(mutant, tmp_path / "with")


def test_the_page_names_each() -> None:
    text = (Path(__file__).parents[3] / "docs" / "museum.md").read_text(encoding="utf-8")
    assert "\n".join(of_coordinators()) in text, (
        "python -m tests.mutants.museum --page docs/museum-counts.txt"
    )
    in_all = len(SHOWN_BY_WORLDS) + len(SHOWN_BY_TESTS) + len(SEARCHED_TRANSACTIONS)
    for number in (
        f"{in_all} more, put back in a coordinator",
        f"A small world shows {len(SHOWN_BY_WORLDS)} ",
        f"a test or a recorded trace shows {len(SHOWN_BY_TESTS)} ",
        f"shows {len(SEARCHED_TRANSACTIONS)}\n",
    ):
        assert number in text, number
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    assert f"has {in_all} more, of coordinators" in readme


def test_there_are_enough() -> None:
    """Of Apache Kafka's own, and in all."""
    sources = [mutant.source for mutant in (*SHOWN_BY_WORLDS, *SHOWN_BY_TESTS)]
    assert sum(not source.startswith("KIP") for source in sources) >= 15
    assert len(sources) + len(SEARCHED_TRANSACTIONS) >= 40
