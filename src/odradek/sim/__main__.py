"""`python -m odradek.sim --seed 42`: one seed, or many.

Exit code: 0 ok, 127 crash, 128 liveness, 129 correctness. The last line of a run says what it was.
"""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import click

from odradek.sim.plan import draw
from odradek.sim.run import OK, Outcome, describe
from odradek.sim.run import run as run_plan


@click.command()
@click.option("--seed", type=int, default=None, help="Run this seed and tell what happened.")
@click.option(
    "--seeds", type=str, default=None, metavar="FIRST:LAST", help="Run all seeds from FIRST to LAST - 1."
)
@click.option("--twice", is_flag=True, help="Run each seed twice and compare the traces.")
@click.option("--jobs", type=int, default=2, show_default=True, help="Processes for --seeds.")
@click.option("--shrink", is_flag=True, help="Leave out faults one by one while the seed still fails.")
def sim(seed: int | None, seeds: str | None, twice: bool, jobs: int, shrink: bool) -> None:
    """Whole clusters on a deterministic loop, with faults, each from one seed."""
    _fix_hashes()
    if (seed is None) == (seeds is None):
        raise click.UsageError("one of --seed and --seeds is wanted, e.g. --seed 42 or --seeds 0:100")
    if seed is not None:
        sys.exit(_one(seed, twice=twice, shrink=shrink))
    assert seeds is not None
    first, _, last = seeds.partition(":")
    sys.exit(_many(range(int(first), int(last)), jobs=jobs, twice=twice))


def _fix_hashes() -> None:
    """Hashes of strings are random from process to process; a trace must not be."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "odradek.sim", *sys.argv[1:]])


def _one(seed: int, *, twice: bool, shrink: bool) -> int:
    outcome = run_plan(draw(seed))
    if twice and run_plan(draw(seed)).trace_hash != outcome.trace_hash:
        click.echo(f"seed {seed}: two runs differ")
        return 129
    if shrink and outcome.code != OK:
        outcome = shrunk(seed, outcome)
    click.echo(describe(outcome))
    return outcome.code


def shrunk(seed: int, outcome: Outcome) -> Outcome:
    """The same failure with as few faults as possible: each is left out once, as long as the code stays."""
    plan = draw(seed)
    dropped: set[int] = set()
    for number in range(len(plan.faults)):
        attempt = run_plan(plan.without(dropped | {number}))
        if attempt.code == outcome.code:
            dropped.add(number)
            outcome = attempt
    return outcome


def _work(seed: int, twice: bool) -> Outcome:
    outcome = run_plan(draw(seed))
    if twice:
        again = run_plan(draw(seed))
        if again.trace_hash != outcome.trace_hash:
            outcome.code, outcome.reason = 129, "two runs differ"
    outcome.history.events.clear()
    return outcome


def _many(seeds: range, *, jobs: int, twice: bool) -> int:
    begun = time.perf_counter()
    outcomes: list[Outcome] = []
    failed: list[Outcome] = []
    with ProcessPoolExecutor(jobs) as pool:
        for outcome in pool.map(_work, seeds, [twice] * len(seeds), chunksize=4):
            outcomes.append(outcome)
            if outcome.code != OK:
                failed.append(outcome)
                click.echo(f"{outcome.line}: {outcome.reason}")
    took = time.perf_counter() - begun
    events = sum(o.events for o in outcomes)
    click.echo(
        f"{len(outcomes)} seeds, {events} events, {sum(o.faults for o in outcomes)} faults, "
        f"{sum(o.acked_batches for o in outcomes)} acknowledged batches, "
        f"{sum(o.simulated_s for o in outcomes) / 3600:.2f} logical hours, {len(failed)} failed; "
        f"{took:.1f} s, {events / took / jobs:.0f} events/s a process"
    )
    return failed[0].code if failed else OK


if __name__ == "__main__":
    sim()
