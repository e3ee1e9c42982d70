"""`python -m odradek.sim.explore --states 1000000`: exit code 0, or 129 with a shortest counter-example."""

import gc
import sys
from functools import partial
from pathlib import Path

import click

from odradek.sim.explore.as_scenario import played_as_broken
from odradek.sim.explore.model import Model, Scope
from odradek.sim.explore.scopes import OTHERS_SHARE, SCOPES, parts
from odradek.sim.explore.search import Exploration
from odradek.sim.explore.search import explore as search
from odradek.sim.explore.transaction_model import TransactionModel
from odradek.sim.explore.transaction_search import explore_transactions
from odradek.sim.explore.transaction_values import TransactionScope

BROKEN = 129
# What is found stays to the end, millions of tuples; what production makes for one step is gone after it.
GC_THRESHOLDS = (50_000, 50, 1_000_000)
# A model of their own.
TRANSACTIONS: dict[str, TransactionScope] = {
    "transactions": TransactionScope(),
    "transactions-2": TransactionScope(bumps=True),
}
NUMBERS = (
    "brokers",
    "records",
    "leader-epochs",
    "partition-epochs",
    "min-insync-replicas",
    "controller-crashes",
    "broker-crashes",
    "session-expirations",
    "lost-connections",
    "lost-disks",
    "deposals",
    "power-cuts",
)


def _numbers(command: click.Command) -> click.Command:
    command.params += [
        click.Option([f"--{name}"], type=click.IntRange(min=int(name == "brokers")), default=None)
        for name in NUMBERS
    ]
    return command


@_numbers
@click.command()
@click.option(
    "--states",
    type=click.IntRange(min=1),
    default=1_000_000,
    show_default=True,
    help="Stop after so many distinct states; of every scope but the first after a twenty-fifth of them.",
)
@click.option(
    "--scope",
    "name",
    type=click.Choice([*SCOPES, *TRANSACTIONS]),
    default=None,
    help="Search this one alone. Else all, or the first with the numbers that are given.",
)
@click.option("--calm", is_flag=True, help="No crashes, no lost sessions and connections: goes deeper.")
@click.option("--second-fetches", is_flag=True, help="Followers send another fetch behind the first.")
@click.option(
    "--scenario",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where a counter-example is written as a scenario of whole brokers (python -m odradek.sim.scenario FILE).",
)
def explore(
    states: int,
    name: str | None,
    calm: bool,
    second_fetches: bool,
    scenario: Path | None,
    **numbers: int | None,
) -> None:
    """Every state of a small cluster that the production code can reach, breadth first."""
    click.get_current_context().call_on_close(partial(gc.set_threshold, *gc.get_threshold()))
    gc.set_threshold(*GC_THRESHOLDS)
    changed = {key: value for key, value in numbers.items() if value is not None}
    if name is None and not (changed or calm or second_fetches):
        for part, scope, most in parts(states):
            click.echo(f"{part}: ", nl=False)
            code = told(search(Model(scope), most_states=most), scenario)
            if code:
                sys.exit(code)
        for part, among in TRANSACTIONS.items():
            click.echo(f"{part}: ", nl=False)
            code = told(
                explore_transactions(TransactionModel(among), most_states=-(-states // OTHERS_SHARE)), None
            )
            if code:
                sys.exit(code)
        return
    if name in TRANSACTIONS:
        named = {"calm": calm, "second_fetches": second_fetches, "scenario": scenario is not None, **changed}
        for option in (option for option, value in named.items() if value is not False):
            raise click.UsageError(f"--{option.replace('_', '-')} says nothing of --scope {name}")
        sys.exit(told(explore_transactions(TransactionModel(TRANSACTIONS[name]), most_states=states), None))
    scope = SCOPES[name or "faults"]
    if calm:
        scope = scope._replace(
            broker_crashes=0, session_expirations=0, lost_connections=0, controller_crashes=0
        )
    if second_fetches:
        scope = scope._replace(second_fetches=True)
    scope = Scope(**{**scope._asdict(), **changed})
    sys.exit(told(search(Model(scope), most_states=states), scenario))


def told(result: Exploration, scenario: Path | None) -> int:
    if result.counter_example is not None:
        click.echo(result.counter_example.text)
        if scenario is not None:
            from odradek.sim.scenario import play  # whole brokers, which nothing else here needs

            _, played = played_as_broken(result.counter_example.scenarios, play)
            scenario.write_text(played, encoding="utf-8")
            click.echo(f"{scenario}: the same in whole brokers")
    click.echo(result.line)
    return 0 if result.counter_example is None else BROKEN


if __name__ == "__main__":
    explore()
