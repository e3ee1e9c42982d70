"""`python -m odradek.sim --seed 42`, and `odradek sim`: one seed, many, or a plan in a file.

Exit code: 0 ok, 127 crash, 128 liveness, 129 correctness. The last line of a run says what it was.
"""

import json
import os
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from odradek.sim.plan import Plan
    from odradek.sim.run import Outcome


def run_plan(plan: "Plan", **options: Any) -> "Outcome":
    """Imported when something runs: for a look at --help a whole cluster is too much."""
    from odradek.sim.run import run

    return run(plan, **options)


class _Reproducible(click.Command):
    """Hashes of strings are random from process to process; what is told of a seed must not be. And much of what is checked
    are assertions, of which `python -O` has none."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asks_only = ctx.resilient_parsing or not args or "--help" in args or "-h" in args
        hash_seed = os.environ.get("PYTHONHASHSEED", "random")
        if (hash_seed == "random" or not __debug__) and not asks_only:
            os.environ["PYTHONHASHSEED"] = "0" if hash_seed == "random" else hash_seed
            os.environ.pop("PYTHONOPTIMIZE", None)
            name = ["odradek.sim"] if ctx.parent is None else ["odradek", "sim"]
            os.execv(sys.executable, [sys.executable, "-m", *name, *args])
        return super().parse_args(ctx, args)


def _numbers(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    if value == NO_FAULTS:
        return ()
    numbers = [number.strip() for number in value.split(",")]
    if not all(number.isdigit() for number in numbers):
        raise click.BadParameter(f"{value!r} is no list of numbers, as in --only 3,7, and not {NO_FAULTS}")
    return tuple(map(int, numbers))


def _range(ctx: click.Context, parameter: click.Parameter, value: str | None) -> range | None:
    if value is None:
        return None
    first, colon, last = value.partition(":")
    if not colon or not first.isdecimal() or not last.isdecimal() or int(first) >= int(last):
        raise click.BadParameter(
            f"{value!r} names no seeds; FIRST:LAST runs FIRST to LAST - 1, as in --seeds 0:2000"
        )
    if int(last) - int(first) > MOST_SEEDS:
        raise click.BadParameter(f"{value} are too many; up to {MOST_SEEDS} at once")
    return range(int(first), int(last))


def _kinds(ctx: click.Context, parameter: click.Parameter, value: str | None) -> frozenset[str]:
    kinds = frozenset((value or "").split(",")) - {""}
    if not kinds:
        return kinds
    from odradek.sim.plan import RUDE_KINDS

    unknown = sorted(kinds - RUDE_KINDS.keys())
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(RUDE_KINDS)}")
    return kinds


def _writable(ctx: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Said before the run, not after it."""
    if value is not None and not value.parent.is_dir():
        raise click.BadParameter(f"there is no folder {value.parent}")
    return value


NO_FAULTS = "none"
MOST_JOBS = 64  # processes of about 100 MB
MOST_SEEDS = 20_000  # what came of each is kept until the last is done, some 10 KB
OUTPUT = click.Path(dir_okay=False, writable=True, path_type=Path)
FOR_ONE = (
    "only",
    "duration",
    "partitions",
    "producers",
    "shrink",
    "trace",
    "html",
    "profile",
    "as_json",
    "save_plan",
)
FOR_MANY = ("jobs", "count_faults", "coverage", "again")


@click.command(cls=_Reproducible)
@click.option("--seed", type=int, help="Run this seed and print what happened.")
@click.option("--seeds", metavar="FIRST:LAST", callback=_range, help="Run all seeds from FIRST to LAST - 1.")
@click.option("--twice", is_flag=True, help="Run each seed twice and compare the traces.")
@click.option(
    "--again",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --seeds: run the first N twice and compare the traces.",
)
@click.option(
    "--jobs", type=click.IntRange(1, MOST_JOBS), default=2, show_default=True, help="With --seeds: processes."
)
@click.option("--count-faults", is_flag=True, help="With --seeds: how often each fault was injected.")
@click.option(
    "--shrink",
    is_flag=True,
    help="Leave out as much as possible while the seed still fails, and say how to run the rest.",
)
@click.option(
    "--only", metavar="N,N,...", callback=_numbers, help="With --seed: only these of its faults, or none."
)
@click.option("--duration", type=click.FloatRange(0.1, 600), help="With --seed: seconds with faults.")
@click.option("--partitions", type=click.IntRange(1, 200), help="With --seed: so many, not as drawn.")
@click.option("--producers", type=click.IntRange(1, 50), help="With --seed: so many, not as drawn.")
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    help="Run the plan in this file, in place of the one that a seed draws.",
)
@click.option(
    "--save-plan",
    type=OUTPUT,
    callback=_writable,
    help="Write the plan that ran, or the shrunk one, as JSON for --plan.",
)
@click.option(
    "--trace",
    type=OUTPUT,
    callback=_writable,
    help="Every action as a line of JSON, in the names of hachikuji/kafka-specification.",
)
@click.option("--html", type=OUTPUT, callback=_writable, help="The run as a time line, in one file.")
@click.option("--profile", is_flag=True, help="With --seed: which share is loop, codec, log and so on.")
@click.option(
    "--hashes",
    type=OUTPUT,
    callback=_writable,
    help="A line for every seed: seed, events, hash of the trace. Equal files are equal runs.",
)
@click.option(
    "--also",
    metavar="KIND,KIND,...",
    callback=_kinds,
    help="Draw these kinds of fault too, which are not drawn yet.",
)
@click.option(
    "--coverage",
    is_flag=True,
    help="With --seeds: statements that the first 128 reach in the rooms that decide, and functions never entered.",
)
@click.option("--json", "as_json", is_flag=True, help="With --seed: what came of it as one JSON object.")
@click.pass_context
def sim(
    ctx: click.Context,
    seed: int | None,
    seeds: range | None,
    twice: bool,
    again: int | None,
    jobs: int,
    count_faults: bool,
    shrink: bool,
    only: tuple[int, ...] | None,
    duration: float | None,
    partitions: int | None,
    producers: int | None,
    plan_file: Path | None,
    save_plan: Path | None,
    trace: Path | None,
    html: Path | None,
    profile: bool,
    hashes: Path | None,
    also: frozenset[str],
    coverage: bool,
    as_json: bool,
) -> None:
    """Whole clusters on a deterministic loop, with faults, each from one seed.

    Exit code: 0 ok, 127 crash, 128 liveness, 129 correctness.
    """
    if [seed is None, seeds is None, plan_file is None].count(False) != 1:
        raise click.UsageError(
            "one of --seed, --seeds and --plan is wanted, e.g. --seed 42, --seeds 0:100 or --plan FILE"
        )
    _refuse(ctx, FOR_ONE if seeds is not None else FOR_MANY, "--seed" if seeds is not None else "--seeds")
    from odradek.sim.plan import ALSO

    ALSO.clear()
    ALSO.update(also)
    if seeds is not None:
        from odradek.sim.sweep import sweep

        sys.exit(
            sweep(
                seeds,
                jobs=jobs,
                again=len(seeds) if twice else again or 0,
                count_faults=count_faults,
                say=_say_at_once,
                hashes=hashes,
                coverage=coverage,
            )
        )
    from odradek.sim.run import CORRECTNESS, OK, describe

    whole, source = _whole(seed, plan_file)
    plan = _chosen(whole, source, only, duration, partitions, producers)
    outcome = _profiled(plan) if profile else run_plan(plan)
    if twice and run_plan(plan).trace_hash != outcome.trace_hash:
        outcome.code, outcome.reason = CORRECTNESS, "two runs of this seed differ"
    if hashes is not None:
        hashes.write_text(f"{outcome.hash_line}\n", encoding="utf-8")
    if shrink and outcome.code != OK:
        from odradek.sim.shrink import shrunk

        plan, outcome, _ = shrunk(plan, outcome)
        click.echo(f"left of it: {command_of(plan, whole, source)}\n", err=True)
    if save_plan is not None:
        from odradek.sim.plan_file import write

        write(plan, save_plan)
        click.echo(
            f"{save_plan}: the plan; odradek sim --plan {shlex.quote(str(save_plan))} runs it", err=True
        )
    if trace is not None or html is not None:
        _draw(plan, trace, html)
    if as_json:
        click.echo(json.dumps(outcome.as_dict()))
    else:
        changes = _changes(plan) if outcome.code != OK else ()
        click.echo(describe(outcome, faults=whole.faults, changes=changes))
    sys.exit(outcome.code)


def _refuse(ctx: click.Context, names: tuple[str, ...], belongs_to: str) -> None:
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if parameter.name in names and given:
            raise click.UsageError(f"{parameter.opts[0]} goes with {belongs_to}")


def _whole(seed: int | None, file: Path | None) -> "tuple[Plan, str]":
    """What the seed draws or the file says, and the words of the command for it."""
    if file is None:
        from odradek.sim.plan import draw

        assert seed is not None
        return draw(seed), f"--seed {seed}"
    from odradek.sim.plan_file import Unusable, read

    try:
        return read(file), f"--plan {file}"
    except Unusable as error:
        raise click.UsageError(f"--plan {file}: {error}") from error


def _chosen(
    whole: "Plan",
    source: str,
    only: tuple[int, ...] | None,
    duration: float | None,
    partitions: int | None,
    producers: int | None,
) -> "Plan":
    """The plan with what is given in place of its own."""
    plan = whole
    if only is not None:
        count = len(plan.faults)
        unknown = sorted(set(only) - set(range(count)))
        if unknown:
            raise click.UsageError(f"--only {unknown[0]}: {source} has {count} faults, numbered from 0")
        plan = plan.without(set(range(count)) - set(only))
    return replace(
        plan,
        duration_s=plan.duration_s if duration is None else duration,
        partitions=partitions or plan.partitions,
        producers=producers or plan.producers,
    )


def command_of(plan: "Plan", whole: "Plan", source: str) -> str:
    """What runs this plan again, which is `whole` but for what was left out."""
    from odradek.sim.plan import ALSO

    kept = [str(number) for number, fault in enumerate(whole.faults) if fault in plan.faults]
    words = ["odradek sim", source, "--only", ",".join(kept) or NO_FAULTS]
    for name in ("duration_s", "partitions", "producers"):
        value = getattr(plan, name)
        if value != getattr(whole, name):
            words += [f"--{name.removesuffix('_s')}", str(value)]
    if ALSO and source.startswith("--seed"):
        words += ["--also", ",".join(sorted(ALSO))]
    return " ".join(words)


def _say_at_once(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()


def _profiled(plan: "Plan") -> "Outcome":
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


def _changes(plan: "Plan") -> list[str]:
    """The run once more, written down: it is the same run."""
    from odradek.sim.trace import Recorder, folded, told

    recorders: list[Recorder] = []
    run_plan(plan, prepare=lambda world, history: recorders.append(Recorder(world, history)))
    changes = (action for action in recorders[0].actions if action["action"] not in _NO_STATE_CHANGE)
    return [told(action) for action in folded(changes)]


def _draw(plan: "Plan", trace: Path | None, html: Path | None) -> None:
    """Again, with somebody who writes it down: it is the same run."""
    from odradek.sim.timeline import page
    from odradek.sim.trace import Recorder

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
