"""The exhaustive search: nothing broken in what is searched, every known bug found, and the search itself."""

import gc
import os
import weakref
from itertools import permutations
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from odradek.broker.proposal_order import ProposalOrder
from odradek.sim import scenario
from odradek.sim.explore.as_scenario import played_as_broken
from odradek.sim.explore.controller_steps import Controllers
from odradek.sim.explore.invariants import Invariants, _eligible, anomalies
from odradek.sim.explore.model import Model, Scope, State
from odradek.sim.explore.scopes import SCOPES, parts
from odradek.sim.explore.search import explore
from odradek.sim.explore.values import ControllerValue, Leadership
from tests.mutants.mutant import Mutant
from tests.mutants.patching import applied
from tests.mutants.search import mutated_model
from tests.mutants.table.searched import CUT, DOUBT, QUIET, SEARCHED, TWO

STATES = int(os.environ.get("ODRADEK_EXPLORE_STATES", "10000"))

# Breadth first, so no shorter list of actions leads there within the scope.
LENGTHS = {
    "cut_to_high_watermark": 9,
    "mark_over_committed_isr": 6,
    "shrink_before_the_answer": 5,
    "no_epoch_in_fetch": 8,
    "counted_before_cut": 8,
    "elect_anybody": 6,
    "joins_below_the_epoch": 12,
    "rolls_back_on_doubt": 9,
    "any_incarnation_joins": 12,
    "names_the_next_life": 16,
    "shorter_is_a_prefix": 8,
    "writes_without_fence": 2,
    "bounced_is_as_before": 8,
    "eligible_in_its_next_life": 9,
    "commits_alone": 4,
    "takes_an_answer_twice": 9,
    # With the fourteen that lead to the question.
    "fewest_lead": 23,
    "one_answer_suffices": 20,
    "former_answers_count": 23,
    "not_asked_again": 23,
    "leads_without_the_isr": 24,
    "nobody_is_asked": 19,
    "leads_though_one_is_eligible": 9,
}
# The world exempts a broker that lost its disk from StrongIsr; the controller's own invariants see it first.
SEEN_OTHERWISE = {"any_incarnation_joins": ("OfflineReplicasAreNotInSync",)}
# A real log refuses records it has already. A broker that is told of a controller epoch it does not know reads the store, and
# a session sees its watches before what it reads: so the controller in that process has heard that it was deposed.
# And what a broker says it holds is not withheld: it arrives with the question. One that starts behind a kill flushes its logs, so that
# the power cut behind that takes nothing of them.
SEEN_NOWHERE_ELSE = {
    "fewest_lead",
    "nobody_is_asked",
    "takes_an_answer_twice",
    "writes_without_fence",
    "former_answers_count",
    "not_asked_again",
}


@pytest.mark.slow
def test_no_invariant_is_broken_with_every_fault_once() -> None:
    result = explore(Model(Scope()), most_states=STATES)
    assert result.counter_example is None, result.counter_example.text
    assert result.states >= STATES


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCOPES)[1:])
def test_no_invariant_is_broken_in_the_other_scopes(name: str) -> None:
    result = explore(Model(SCOPES[name]), most_states=STATES // 3)
    assert result.counter_example is None, result.counter_example.text
    assert result.states >= STATES // 3


@pytest.mark.slow
def test_a_proposal_that_is_heard_after_its_repeat_was_refused_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whole brokers: tests/scenarios/a_refused_proposal_arrives_late.txt."""
    monkeypatch.setattr(ProposalOrder, "is_late", lambda self, *told: False)
    result = explore(Model(SCOPES["two-brokers"]), most_states=STATES)
    assert result.counter_example is not None and "StrongIsr" in result.counter_example.text
    assert result.depth == 11


def test_a_proposal_that_was_refused_is_not_read_again_where_a_controller_may_be_deposed() -> None:
    """Found by `two-controllers` with two brokers where nobody was deposed: whole brokers refuse the copy by its number."""
    scope = SCOPES["two-brokers"]._replace(deposals=1, leader_epochs=1, partition_epochs=3)
    result = explore(Model(scope), most_states=20_000)
    assert result.counter_example is None, result.counter_example.text
    assert result.is_complete


def test_what_is_searched_by_default_has_every_scope_and_most_states_of_the_first() -> None:
    asked = {name: most for name, _, most in parts(1_000_000)}
    assert list(asked) == list(SCOPES)
    assert asked.pop("faults") == 1_000_000
    assert set(asked.values()) == {40_000}


def test_the_deposed_controller_acts_and_is_fenced() -> None:
    """It answers and tells what needs no write; where it would write, it is stopped."""
    model = Model(TWO._replace(deposals=1))
    labels = {label for state in some_states(model, 1_500) for label, _ in model.successors(state)}
    whole = {label.partition("(")[0] for label in labels if label.startswith("Old")}
    assert whole == {"OldControllerElectsLeader, fenced", "OldControllerAlterPartition"}
    assert any(label.endswith(", fenced") for label in labels if "AlterPartition" in label)


def test_power_is_cut_only_while_all_are_well_and_takes_any_end_of_the_log() -> None:
    model = Model(TWO._replace(power_cuts=1))
    cuts = {
        label
        for state in some_states(model, 1_500)
        for label, _ in model.successors(state)
        if label.startswith("PowerCut")
    }
    assert {label.partition(", ")[2] for label in cuts} == {"keeps=0)", "keeps=1)"}


def test_what_those_in_doubt_are_asked_is_searched_to_the_end() -> None:
    """From the question on: a power cut, and a broker dies or is back at once, at every moment of it."""
    model = Model(DOUBT)
    result = explore(model, most_states=20_000)
    assert result.counter_example is None, result.counter_example.text
    assert result.is_complete
    actions = {
        label.partition("(")[0]
        for state in some_states(model, 20_000)
        for label, _ in model.successors(state)
    }
    assert actions >= {
        "BrokerAnswersEndOffset", "ControllerHearsEndOffset", "PatienceEnds", "PowerCut", "BrokerCrash",
        "BrokerBounces", "ControllerElectLeader", "ControllerAlterPartition",
    }  # fmt: skip


def test_two_brokers_without_faults_are_searched_to_the_end() -> None:
    result = explore(Model(TWO), most_states=1_000_000)
    assert result.counter_example is None, result.counter_example.text
    assert result.is_complete and result.states > 5_000


@pytest.mark.slow
def test_two_brokers_with_second_fetches_are_searched_to_the_end() -> None:
    result = explore(Model(TWO._replace(second_fetches=True)), most_states=100_000)
    assert result.counter_example is None, result.counter_example.text
    assert result.is_complete and result.states > 10_000


def test_a_lost_disk_is_not_taken_back_into_the_isr() -> None:
    """H1: AlterPartition delayed until after the follower has come back empty."""
    scope = TWO._replace(broker_crashes=1, lost_disks=1, records=1)
    result = explore(Model(scope), most_states=60_000)
    assert result.counter_example is None, result.counter_example.text
    assert result.is_complete


@pytest.mark.slow
@pytest.mark.parametrize("mutant", SEARCHED, ids=[m.name for m in SEARCHED])
def test_a_known_bug_has_a_shortest_counter_example(mutant: Mutant) -> None:
    with applied(mutant.edits):
        result = explore(mutated_model(mutant), most_states=100_000)
        found = result.counter_example
        assert found is not None, result.line
        retold, played = played_as_broken(found.scenarios, scenario.play)
    assert mutant.search.breaks in found.broken
    assert len(found.actions) == LENGTHS[mutant.name], found.text
    assert found.text.count("\n") >= len(found.actions)
    # The same in whole brokers: something is broken with the bug, nothing without it.
    broken = {mutant.search.breaks, *SEEN_OTHERWISE.get(mutant.name, ())} & set(broken_in(played))
    assert bool(broken) != (mutant.name in SEEN_NOWHERE_ELSE), played
    assert broken_in(scenario.play(retold)) == []


def broken_in(retold: str) -> list[str]:
    return [line.removeprefix("! ").split(":")[0] for line in retold.splitlines() if line.startswith("!")]


def test_a_mutation_is_gone_afterwards() -> None:
    for mutant in SEARCHED:
        with applied(mutant.edits):
            pass
    assert explore(Model(QUIET), most_states=1_000).counter_example is None


def some_states(model: Model, most: int) -> list[State]:
    """The first `most` that a search finds, and the last one's other successors."""
    seen = {model.first(): None}
    queue = list(seen)
    for state in queue:
        if len(queue) > most:
            break
        for _, after in model.successors(state):
            if after not in seen:
                seen[after] = None
                queue.append(after)
    return queue


class Searched(NamedTuple):
    model: Model
    states: list[State]


OF_SCOPES = {**SCOPES, "lost disk": TWO._replace(broker_crashes=1, lost_disks=1)}


@pytest.fixture(scope="module", params=OF_SCOPES)
def searched(request: pytest.FixtureRequest) -> Searched:
    """A model remembers what it was asked, and nothing that changes what it answers."""
    model = Model(OF_SCOPES[request.param])
    return Searched(model, some_states(model, 2_000))


NOTHING_BROKEN = {"three brokers": QUIET, "the power may be cut": CUT}
SOON_BROKEN = (
    "mark_over_committed_isr",
    "shrink_before_the_answer",
    "no_epoch_in_fetch",
    "writes_without_fence",
    "commits_alone",
    "nobody_is_asked",
)


@pytest.mark.parametrize("name", [*NOTHING_BROKEN, *SOON_BROKEN])
def test_pairs_of_replicas_say_what_the_checkers_say_of_the_whole(name: str) -> None:
    """Also where something is broken: the remembered answers are those of the simulator's checkers."""
    mutant = next((m for m in SEARCHED if m.name == name), None)
    if mutant is not None:
        with applied(mutant.edits):
            model = mutated_model(mutant)
            states = some_states(model, 2_000)
    else:
        model = Model(NOTHING_BROKEN[name])
        states = some_states(model, 2_000)
    invariants = Invariants(model)
    broken: set[str] = set()
    for state in states:
        found = set(invariants.broken(state))
        assert found == {a.name for a in anomalies(model, state)}
        broken |= found
    assert bool(broken) == (mutant is not None)


def test_who_lost_records_in_a_life_before_the_one_in_which_it_is_eligible_is_judged() -> None:
    stored = SimpleNamespace(isr=(0,), elr=(1, 2), elr_broker_epochs=(5, 5))
    model: Any = SimpleNamespace(
        controller_values=SimpleNamespace(of=[SimpleNamespace(stored=stored)]),
        replica_values=SimpleNamespace(of=[SimpleNamespace(lost_life=life) for life in (0, 3, 5)]),
        scope=SimpleNamespace(min_insync_replicas=2),
    )
    state: Any = SimpleNamespace(controller=0, replicas=(0, 1, 2))
    assert _eligible(model, state) == [1]
    model.scope.min_insync_replicas = 1
    assert _eligible(model, state) == []


def test_renamed_states_are_one_state() -> None:
    model = Model(Scope())
    for state in some_states(model, 500)[:500]:
        for names in permutations(model.brokers):
            assert model.canonical(model.renamed(state, names)) == state


def test_numbers_of_states_lead_to_the_states_that_are_told(searched: Searched) -> None:
    """What a search follows is what its counter-example is retold by."""
    model = searched.model
    for state in searched.states[::4]:
        number = model.number_of(state)
        assert model.state_of(number) == state
        told = [model.number_of(after) for _, after in model.successors(state)]
        assert list(model.reached(number)) == told


def test_a_remembered_move_is_what_would_be_found_anew(searched: Searched) -> None:
    """What a broker may do is remembered by a part of the state: the rest must not matter."""
    model = searched.model
    for state in searched.states[::4]:
        moves = [list(some) for some in model._moves(state)]
        model._known_moves.clear()
        assert [list(some) for some in model._moves(state)] == moves


def test_what_was_searched_is_gone_with_its_model() -> None:
    """Millions of values that only the collector could free would stay for the search after it."""
    model = Model(TWO)
    gc.disable()
    try:
        explore(model, most_states=1_000)
        alive = weakref.ref(model)
        del model
        assert alive() is None
    finally:
        gc.enable()


def test_whoever_has_the_smaller_id_is_left_open() -> None:
    """Of two that come back at once the controller judges one after the other; renamed, it decides alike."""
    stored = Leadership(0, 0, (0, 1), 0, isr_broker_epochs=(1, 1))
    value, there = ControllerValue(True, 1, ((0, 1, -1), (1, 1, -1)), stored), ((0, 2, -1), (1, 2, -1))
    controllers, names = Controllers(2, 1), (1, 0)
    decided = controllers.brokers_changed(value, there)
    assert {d.renamed(names) for d in controllers.brokers_changed(value.renamed(names), there)} == decided
    assert {d.after.stored.isr for d in decided} == {(0,), (1,)}, "the one whose turn comes last stays"


def test_two_searches_find_the_same() -> None:
    first, second = (explore(Model(Scope()), most_states=1_500) for _ in range(2))
    assert (first.states, first.transitions, first.depth) == (second.states, second.transitions, second.depth)
