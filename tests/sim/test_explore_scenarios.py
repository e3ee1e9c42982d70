"""Walks of the exhaustive search, told as scenarios: whole brokers go the same ways, and nothing is broken on them.

That counter-examples of known bugs break as much in whole brokers is test_explore.py's.
"""

import gc
import random
import re

import pytest
from click.testing import CliRunner

from odradek.sim.explore.__main__ import BROKEN, explore
from odradek.sim.explore.as_scenario import NO_COUNTERPART, scenarios_of
from odradek.sim.explore.model import Model, State
from odradek.sim.explore.scopes import SCOPES
from odradek.sim.scenario import play
from odradek.sim.scenario.__main__ import main as play_files
from tests.mutants.search import search

WALKS, STEPS = 6, 16


def walk(model: Model, seed: int) -> tuple[list[str], list[State]]:
    """Each kind of action is as likely as another: there are many more fetches than crashes to choose from."""
    chooser = random.Random(seed)
    actions, states = model.beginning()
    most = len(actions) + STEPS
    while len(actions) < most:
        ways: dict[str, list[tuple[str, State]]] = {}
        for action, after in model.successors(states[-1]):
            ways.setdefault(action.partition("(")[0], []).append((action, after))
        if not ways:
            break
        action, after = chooser.choice(ways[chooser.choice(sorted(ways))])
        actions.append(action)
        states.append(after)
    return actions, states


def played(model: Model, seed: int) -> tuple[str, int, int]:
    """The scenario as it came out, and who leads at the end of the walk: in the search and in the cluster."""
    with model.keeping_names():
        actions, states = walk(model, seed)
        retold = scenarios_of(model, actions, states, ["nothing"])[0]
    steps, _, ending = retold.rpartition("\n\n# Whatever came of it")
    text = play(f"{steps}\n\nstate t-0\n----\n\n# Whatever came of it{ending}")
    leader = re.findall(r"^t-0: leader (-?\d+)", text, re.MULTILINE)[-1]
    return text, model.controller_values.of[states[-1].controller].stored.leader, int(leader)


@pytest.mark.parametrize("name", list(SCOPES))
def test_whole_brokers_go_the_same_ways_and_break_nothing(name: str) -> None:
    model = Model(SCOPES[name])
    alike = 0
    for seed in range(WALKS):
        text, expected, leader = played(model, seed)
        assert [line for line in text.splitlines() if line.startswith("!")] == [], text
        assert "at rest" in text.splitlines()
        alike += leader == (expected + 2 if expected >= 0 else -1)
    # Not all: time passes in a cluster, and who is first in its assignment cannot change as freely.
    assert alike > WALKS // 2


def test_what_has_no_counterpart_is_marked_and_the_scenario_goes_on() -> None:
    model = Model(SCOPES["faults"])
    state = model.first()
    retold = scenarios_of(model, ["BrokerDreams(1)", "LeaderWrite(1, record=0)"], [state] * 3, ["nothing"])[0]
    text = play(retold)
    assert f"{NO_COUNTERPART}BrokerDreams." in text
    assert "r0@0" in text or "r0: NOT_LEADER_OR_FOLLOWER" in text


def test_the_command_writes_a_counter_example_that_plays_otherwise_without_the_bug(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "found.txt"
    result = CliRunner().invoke(search, ["elect_anybody", "--scenario", str(path)])
    assert result.exit_code == BROKEN
    assert "broken StrongIsr" in result.output and f"{path}: the same in whole brokers" in result.output
    assert "\n! StrongIsr: " in path.read_text(encoding="utf-8")
    assert CliRunner().invoke(play_files, [str(path)]).exit_code == 1
    assert CliRunner().invoke(play_files, ["--rewrite", str(path)]).exit_code == 0
    assert "\n!" not in path.read_text(encoding="utf-8")


def test_every_scope_is_searched_unless_one_is_named() -> None:
    result = CliRunner().invoke(explore, ["--states", "500"])
    assert result.exit_code == 0
    assert [line.split(":")[0] for line in result.output.splitlines()] == [
        *SCOPES,
        "transactions",
        "transactions-2",
    ]
    result = CliRunner().invoke(explore, ["--states", "300", "--scope", "power-cut", "--records", "2"])
    assert result.exit_code == 0 and "no invariant broken" in result.output


def test_what_a_search_would_not_look_at_is_refused() -> None:
    """They were left out without a word, and the search told of a cluster with no broker by a traceback."""
    for options in ("--brokers 2", "--records 1", "--calm", "--second-fetches", "--scenario found.txt"):
        result = CliRunner().invoke(explore, ["--states", "10", "--scope", "transactions", *options.split()])
        assert result.exit_code == 2
        assert f"{options.split()[0]} says nothing of --scope transactions" in result.output
    result = CliRunner().invoke(explore, ["--states", "10", "--brokers", "0"])
    assert (result.exit_code, "0 is not in the range x>=1" in result.output) == (2, True)


def test_the_collector_is_as_it_was_when_the_command_has_ended() -> None:
    before, others = gc.get_threshold(), (701, 11, 12)
    gc.set_threshold(*others)
    try:
        assert CliRunner().invoke(explore, ["--states", "10", "--scope", "transactions"]).exit_code == 0
        assert gc.get_threshold() == others
    finally:
        gc.set_threshold(*before)
