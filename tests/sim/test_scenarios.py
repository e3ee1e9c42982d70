"""Every scenario of tests/scenarios comes out as written, whatever order the loop runs its callbacks in.

Refresh them with `python -m odradek.sim.scenario --rewrite tests/scenarios/*.txt`, and read the difference.
"""

from pathlib import Path

import pytest

from odradek.model.ids import TopicPartition
from odradek.sim import scenario
from odradek.sim.checkers.history import Polled
from odradek.sim.scenario.stage import Stage

SCENARIOS = sorted((Path(__file__).parents[1] / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_scenario_comes_out_as_written(path: Path, seed: int) -> None:
    text = path.read_text(encoding="utf-8")
    assert scenario.play(text, seed=seed) == text


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_says_why_it_is_told_and_breaks_no_invariant(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert not [line for line in text.splitlines() if line.startswith("!")]


def test_there_are_enough_of_them() -> None:
    assert len(SCENARIOS) >= 25


def test_a_command_nobody_knows_is_an_error_and_not_an_outcome() -> None:
    with pytest.raises(scenario.Wrong, match="no command 'explode'"):
        scenario.play("cluster brokers=1\nexplode 1\n----\n")


def test_a_condition_nobody_knows_is_an_error_and_not_fulfilled_at_once() -> None:
    text = "cluster brokers=1\ntopic t replicas=1\nwait t-0 laeder=2\n----\n"
    with pytest.raises(scenario.Wrong, match="wait t-0: nobody knows 'laeder'"):
        scenario.play(text)


def test_what_was_read_once_and_is_gone_at_the_end_of_a_scenario_is_named() -> None:
    stage = Stage()
    try:
        for command in ("cluster", "topic t replicas=1,2,3", "produce t-0 a b"):
            stage.does(command)
        assert stage.end() == []
        stage.history.events.append(Polled("r", TopicPartition("t", 0), ((7, b"z"),)))
        assert [line.partition(":")[0] for line in stage.end()] == ["! lost-read"]
    finally:
        stage.close()


def test_what_was_deleted_on_purpose_is_not_missed_at_the_end_of_a_scenario_with_two_topics() -> None:
    stage = Stage()
    try:
        for command in (
            "cluster",
            "topic t replicas=1,2,3",
            "topic u replicas=1,2,3",
            "produce t-0 a b c",
            "produce u-0 x",
            "read t-0",
            "delete-records t-0 2",
        ):
            stage.does(command)
        assert stage.end() == []
        # What is left is asked for all the same.
        stage.history.events.append(Polled("r", TopicPartition("t", 0), ((7, b"z"),)))
        assert [line.partition(":")[0] for line in stage.end()] == ["! lost-read"]
    finally:
        stage.close()
