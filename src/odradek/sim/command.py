"""`python -m odradek.sim --seed 42`, and `odradek sim`: one seed, or many.

Exit code: 0 ok, 127 crash, 128 liveness, 129 correctness. The last line of a run says what it was.
"""

import json
import os
import sys
import time
from pathlib import Path

import click

from odradek.sim.plan import Plan, draw
from odradek.sim.run import CORRECTNESS, OK, Outcome, describe
from odradek.sim.run import run as run_plan
from odradek.sim.shrink import shrunk
from odradek.sim.trace import Recorder, told


class _Reproducible(click.Command):
    """Hashes of strings are random from process to process; what is told of a seed must not be."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_only = ctx.resilient_parsing or not args or "--help" in args or "-h" in args
        if os.environ.get("PYTHONHASHSEED") is None and not asks_only:
            os.environ["PYTHONHASHSEED"] = "0"
            os.execv(sys.executable, [sys.executable, "-m", "odradek.sim", *args])
        return super().parse_args(ctx, args)


@click.command(cls=_Reproducible)
@click.option("--seed", type=int, help="Run this seed and tell what happened.")
@click.option("--seeds", metavar="FIRST:LAST", help="Run all seeds from FIRST to LAST - 1.")
@click.option("--twice", is_flag=True, help="Run each seed twice and compare the traces.")
@click.option("--jobs", type=int, default=2, show_default=True, help="Processes for --seeds.")
@click.option("--count-faults", is_flag=True, help="With --seeds: how often each fault was injected.")
@click.option(
    "--shrink", is_flag=True, help="Leave out as many faults as possible while the seed still fails."
)
@click.option("--only", metavar="N,N,...", help="With --seed: only these of its faults, as --shrink told.")
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Every action as a line of JSON, in the names of hachikuji/kafka-specification.",
)
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="The run as a time line, in one file."
)
@click.option("--profile", is_flag=True, help="With --seed: which share is loop, codec, log and so on.")
@click.option("--json", "as_json", is_flag=True, help="With --seed: what came of it as one JSON object.")
def sim(
    seed: int | None,
    seeds: str | None,
    twice: bool,
    jobs: int,
    count_faults: bool,
    shrink: bool,
    only: str | None,
    trace: Path | None,
    html: Path | None,
    profile: bool,
    as_json: bool,
) -> None:
    """Whole clusters on a deterministic loop, with faults, each from one seed.

    Exit code: 0 ok, 127 crash, 128 liveness, 129 correctness.
    """
    if (seed is None) == (seeds is None):
        raise click.UsageError("one of --seed and --seeds is wanted, e.g. --seed 42 or --seeds 0:100")
    if seeds is not None:
        from odradek.sim.sweep import sweep

        sys.exit(sweep(_range(seeds), jobs=jobs, twice=twice, count_faults=count_faults, say=_say_at_once))
    assert seed is not None
    plan = draw(seed)
    if only is not None:
        kept = {int(number) for number in only.split(",") if number}
        plan = plan.without(set(range(len(plan.faults))) - kept)
    outcome = _one(plan, twice=twice, shrink=shrink, trace=trace, html=html, profile=profile)
    if as_json:
        click.echo(json.dumps(outcome.as_dict()))
    else:
        click.echo(describe(outcome, changes=_changes(plan) if outcome.code != OK else ()))
    sys.exit(outcome.code)


def _range(text: str) -> range:
    first, colon, last = text.partition(":")
    if not colon or not first.isdigit() or not last.isdigit():
        raise click.UsageError(f"--seeds {text}: want FIRST:LAST, as in --seeds 0:2000")
    return range(int(first), int(last))


def _say_at_once(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()


def _one(
    plan: Plan, *, twice: bool, shrink: bool, trace: Path | None, html: Path | None, profile: bool
) -> Outcome:
    outcome = _profiled(plan) if profile else run_plan(plan)
    if twice and run_plan(plan).trace_hash != outcome.trace_hash:
        outcome.code, outcome.reason = CORRECTNESS, "two runs of this seed differ"
    if shrink and outcome.code != OK:
        plan, outcome, kept = shrunk(plan, outcome)
        click.echo(f"left: --only {','.join(map(str, kept))}, {len(kept)} of the faults; {plan}\n", err=True)
    if trace is not None or html is not None:
        _draw(plan, trace, html)
    return outcome


def _profiled(plan: Plan) -> Outcome:
    from odradek.sim.profile import sampled

    run_plan(plan)  # what is imported and compiled once is no part of it
    begun = time.process_time()
    with sampled() as shares:
        outcome = run_plan(plan)
    for line in shares.lines(outcome.events, time.process_time() - begun):
        click.echo(line, err=True)
    return outcome


# What clients did is told by the history; here it would leave no room for anything else.
_NO_STATE_CHANGE = frozenset({"ProducerSent", "ConsumerPolled"})


def _changes(plan: Plan) -> list[str]:
    """The run once more, written down: it is the same run."""
    recorders: list[Recorder] = []
    run_plan(plan, prepare=lambda world, history: recorders.append(Recorder(world, history)))
    return [told(action) for action in recorders[0].actions if action["action"] not in _NO_STATE_CHANGE]


def _draw(plan: Plan, trace: Path | None, html: Path | None) -> None:
    """Again, with somebody who writes it down: it is the same run."""
    from odradek.sim.timeline import page

    recorders: list[Recorder] = []
    outcome = run_plan(plan, prepare=lambda world, history: recorders.append(Recorder(world, history)))
    (recorder,) = recorders
    if trace is not None:
        with trace.open("w", encoding="utf-8") as file:
            recorder.write(file)
        click.echo(f"{trace}: {len(recorder.actions)} actions", err=True)
    if html is not None:
        html.write_text(page(plan, outcome, recorder.actions), encoding="utf-8")
        click.echo(f"{html}: the time line", err=True)
