"""The exhaustive search of transactions: nothing is broken, and a bug of each invariant is found."""

import os

import pytest

from odradek.sim.explore.transaction_model import TransactionModel
from odradek.sim.explore.transaction_search import explore_transactions
from odradek.sim.explore.transaction_values import TransactionScope
from tests.mutants.patching import applied
from tests.mutants.table.transactions import ONE, SEARCHED_TRANSACTIONS, TransactionMutant

STATES = int(os.environ.get("ODRADEK_EXPLORE_STATES", "10000"))


@pytest.mark.slow
@pytest.mark.parametrize("bumps", [False, True])
def test_no_invariant_is_broken(bumps: bool) -> None:
    result = explore_transactions(TransactionModel(TransactionScope(bumps=bumps)), most_states=STATES)
    assert result.counter_example is None, result.counter_example.text
    assert result.states >= STATES


@pytest.mark.slow
def test_one_producer_is_searched_to_the_end() -> None:
    result = explore_transactions(TransactionModel(ONE), most_states=1_000_000)
    assert result.counter_example is None, result.counter_example.text
    assert result.is_complete
    assert result.states > 20_000


@pytest.mark.slow
@pytest.mark.parametrize("mutant", SEARCHED_TRANSACTIONS, ids=lambda mutant: mutant.name)
def test_it_finds_the_bug(mutant: TransactionMutant) -> None:
    with applied(mutant.edits):
        found = explore_transactions(TransactionModel(mutant.scope), most_states=60_000).counter_example
    assert found is not None
    assert found.broken == (mutant.breaks,)


def test_every_invariant_has_been_seen_red() -> None:
    assert {mutant.breaks for mutant in SEARCHED_TRANSACTIONS} == {
        "DecisionKept",
        "FencedWrite",
        "MarkersBeforeComplete",
        "OneFate",
        "Stuck",
    }


def test_a_producer_that_hears_nothing_asks_again_and_two_take_the_id_from_each_other() -> None:
    model = TransactionModel(TransactionScope(attempts=(1, 1)))
    level, labels = [model.first()], set()
    for _ in range(9):
        moves = [move for state in level for move in model.successors(state)]
        labels |= {label.partition("(")[0] for label, _, _ in moves}
        level = list({move.state for move in moves})
    assert {"InitProducerId of producer 0", "InitProducerId of producer 1"} <= labels
    assert {"producer 0 loses its connection", "BrokerCrash", "Commits", "TimesOut"} <= labels
    assert any(label.endswith("arrives late") for label in labels)
