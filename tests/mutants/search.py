"""`python -m tests.mutants.search NAME`: the exhaustive search with a mutant put in, and its shortest counter-example."""

import sys
from pathlib import Path

import click

from odradek.sim.explore.__main__ import told
from odradek.sim.explore.model import Model
from odradek.sim.explore.search import explore
from tests.mutants.mutant import Mutant
from tests.mutants.patching import applied
from tests.mutants.table.searched import SEARCHED

BY_NAME = {mutant.name: mutant for mutant in SEARCHED}


def mutated_model(mutant: Mutant) -> Model:
    """To be made and used while the mutant is applied."""
    assert mutant.search is not None
    model = Model(mutant.search.scope)
    # Without epochs in fetches, those of an older epoch are heard as well.
    model.fences_fetches = mutant.name != "no_epoch_in_fetch"
    return model


@click.command()
@click.argument("name", type=click.Choice(list(BY_NAME)))
@click.option("--states", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="At most.")
@click.option(
    "--scenario",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the counter-example is written as a scenario of whole brokers.",
)
def search(name: str, states: int, scenario: Path | None) -> None:
    """Every state that the production code can reach with this mutant in it, breadth first, until one is broken."""
    mutant = BY_NAME[name]
    with applied(mutant.edits):
        sys.exit(told(explore(mutated_model(mutant), most_states=states), scenario))


if __name__ == "__main__":
    search()
