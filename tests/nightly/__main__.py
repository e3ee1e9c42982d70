"""`python -m tests.nightly`: faults for most of the time, hostile input for the rest, then the table.

Ctrl-C, or SIGTERM, ends the fault that holds, stops every process that was started, and prints the table so far.
"""

import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import click

from tests.nightly.faults import FAULTS
from tests.nightly.hostile import Result, attack
from tests.nightly.report import report
from tests.nightly.storm import Round, Stopped, rounds

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
MARK = "<!-- written by `python -m tests.nightly --write` from here on -->\n"
# Of the whole time, for hostile input.
HOSTILE_SHARE = 0.1


@click.command()
@click.option("--minutes", default=60.0, show_default=True, help="How long in all.")
@click.option("--seed", default=1, show_default=True, help="Which faults and inputs are drawn.")
@click.option(
    "--faults-a-round", default=25, show_default=True, help="Faults between two looks at the books."
)
@click.option(
    "--fault",
    "kinds",
    multiple=True,
    type=click.Choice(sorted(FAULTS)),
    help="Only faults of this kind (may be repeated), and no hostile input.",
)
@click.option("--write", is_flag=True, help="Keep the table in docs/reliability.md.")
def nightly(minutes: float, seed: int, faults_a_round: int, kinds: tuple[str, ...], write: bool) -> None:
    """Real processes under faults, and hostile input beside a connection that watches."""
    done: list[Round] = []
    attacks: list[Result] = []
    begun = time.monotonic()
    is_whole = False
    scratch = tempfile.mkdtemp(prefix="odradek-nightly-")
    try:
        if not kinds:
            attacks.extend(attack(Path(scratch), seed=seed, seconds=60 * minutes * HOSTILE_SHARE))
        until = begun + 60 * minutes
        for one in rounds(
            Path(scratch) / "storm",
            seed=seed,
            until=until,
            faults_a_round=faults_a_round,
            kinds=kinds or FAULTS,
        ):
            done.append(one)
            click.echo(
                f"round {len(done)}: {len(one.injected)} faults, {one.acknowledged} acknowledged, "
                f"{len(one.wrong)} wrong",
                err=True,
            )
            for sentence in one.wrong:
                click.echo(f"WRONG: {sentence}", err=True)
        is_whole = True
    except KeyboardInterrupt as stop:
        if isinstance(stop, Stopped):
            done.append(stop.so_far)
        click.echo("stopped; the table so far:", err=True)
    except Exception:  # whatever ends the hour, what it found is told
        traceback.print_exc()
    is_right = not any(one.wrong for one in (*done, *attacks))
    if is_right:
        shutil.rmtree(scratch, ignore_errors=True)  # a broker that is ending may write still
    else:
        click.echo(f"the files and logs of the brokers: {scratch}", err=True)
    lines = report(done, attacks)
    click.echo("\n".join(lines))
    if write and is_whole:
        took = (time.monotonic() - begun) / 60
        head = f"One run of `make nightly`, seed {seed}, {took:.0f} minutes.\n\n"
        before = PAGE.read_text(encoding="utf-8").split(MARK)[0]
        PAGE.write_text(f"{before}{MARK}\n{head}" + "\n".join(lines) + "\n", encoding="utf-8")
    sys.exit(0 if is_whole and is_right else 1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    nightly()
