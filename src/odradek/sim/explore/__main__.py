"""`python -m odradek.sim.explore --states 1000000`: exit code 0, or 129 with a shortest counter-example."""

import sys
from pathlib import Path

import click

from odradek.sim.explore.model import Model, Scope
from odradek.sim.explore.mutations import MUTATIONS, mutated_model
from odradek.sim.explore.search import Exploration
from odradek.sim.explore.search import explore as search
from odradek.sim.scenario import play

BROKEN = 129


@click.command()
@click.option(
    "--states", type=int, default=1_000_000, show_default=True, help="Stop after so many distinct states."
)
@click.option("--brokers", type=int, default=3, show_default=True)
@click.option("--records", type=int, default=2, show_default=True)
@click.option("--leader-epochs", type=int, default=3, show_default=True)
@click.option("--partition-epochs", type=int, default=4, show_default=True)
@click.option("--min-insync-replicas", type=int, default=1, show_default=True)
@click.option("--lost-disks", type=int, default=0, show_default=True)
@click.option(
    "--scenario",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where a counter-example is written as a story of whole brokers (python -m odradek.sim.scenario FILE).",
)
@click.option("--calm", is_flag=True, help="No crashes, no lost sessions and connections: goes deeper.")
@click.option(
    "--mutation", type=click.Choice([m.name for m in MUTATIONS]), default=None, help="With this bug put in."
)
def explore(
    states: int,
    brokers: int,
    records: int,
    leader_epochs: int,
    partition_epochs: int,
    min_insync_replicas: int,
    lost_disks: int,
    scenario: Path | None,
    calm: bool,
    mutation: str | None,
) -> None:
    """Every state of a small cluster that the production code can reach, breadth first."""
    if mutation is not None:
        chosen = next(m for m in MUTATIONS if m.name == mutation)
        with chosen.apply():
            sys.exit(told(search(mutated_model(chosen), most_states=states), scenario))
    scope = Scope(
        brokers=brokers,
        records=records,
        leader_epochs=leader_epochs,
        partition_epochs=partition_epochs,
        min_insync_replicas=min_insync_replicas,
        lost_disks=lost_disks,
    )
    if calm:
        scope = scope._replace(
            broker_crashes=0, session_expirations=0, lost_connections=0, controller_crashes=0
        )
    sys.exit(told(search(Model(scope), most_states=states), scenario))


def told(result: Exploration, scenario: Path | None) -> int:
    if result.counter_example is not None:
        click.echo(result.counter_example.text)
        if scenario is not None:
            scenario.write_text(play(result.counter_example.story), encoding="utf-8")
            click.echo(f"{scenario}: the same in whole brokers")
    click.echo(result.line)
    return 0 if result.counter_example is None else BROKEN


if __name__ == "__main__":
    explore()
