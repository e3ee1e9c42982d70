"""`python -m tests.mutants.museum`: puts every bug back, one after the other, and prints who catches it.

Exit code 1 if one of them passes unseen.
"""

import os
import sys
from pathlib import Path
from typing import IO

import click

from odradek.model.settings import nearest
from tests.mutants.museum import counting
from tests.mutants.museum.catch import Caught, by_scenarios
from tests.mutants.museum.counting import Counted
from tests.mutants.museum.page import tables
from tests.mutants.mutant import Mutant
from tests.mutants.table import EXHIBITS


@click.command()
@click.option(
    "--only", multiple=True, help="Names in the table, as in 1483,7152; may be given several times."
)
@click.option("--seeds", default=60, show_default=True, help="Most seeds from each of three starting points.")
@click.option("--seeds-for", type=click.Choice(["all", "unseen"]), default="all", show_default=True)
@click.option(
    "--scenarios",
    default="tests/scenarios",
    show_default=True,
    help="Folder of the scenarios.",
)
@click.option(
    "--counts", type=click.Path(path_type=Path), default=None, help="A file: what is counted is kept in it."
)
@click.option(
    "--page", type=click.File(), default=None, help="Print the tables of docs/museum.md with these counts."
)
def main(
    only: tuple[str, ...],
    seeds: int,
    seeds_for: str,
    scenarios: str,
    counts: Path | None,
    page: IO[str] | None,
) -> None:
    """Puts known bugs back one by one and shows each caught by a scenario or a seed."""
    if page is not None:
        for line in tables(counting.read(page)):
            click.echo(line)
        return
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"  # seeds are only the same runs with fixed hashes
        os.execv(sys.executable, [sys.executable, "-m", "tests.mutants.museum", *sys.argv[1:]])
    names = [exhibit.name for exhibit in EXHIBITS]
    wanted = [name for some in only for name in some.split(",")]
    for name in wanted:
        if name not in names:
            guess = nearest(name, dict.fromkeys(names))
            hint = f"did you mean {guess}?" if guess else "docs/museum.md lists all of them"
            raise click.BadParameter(f"no exhibit {name}; {hint}", param_hint="--only")
    paths = sorted(Path(scenarios).glob("*.txt"))
    exhibits = [exhibit for exhibit in EXHIBITS if not wanted or exhibit.name in wanted]
    told: dict[str, Caught | None] = {}
    click.echo("| KAFKA | what users met | first scenario | as |")
    click.echo("|---|---|---|---|")
    for exhibit in exhibits:
        caught = told[exhibit.name] = by_scenarios(exhibit, paths)
        click.echo(_row(exhibit, "-" if caught is None else caught.by, "" if caught is None else caught.how))
    to_count = [
        e
        for e in exhibits
        if not e.harmless and (seeds_for == "all" or (told[e.name] is None and not e.searched))
    ]
    counted = counting.count_all(to_count, seeds, counts) if seeds else {}
    if counted:
        click.echo("\n| KAFKA | seeds | median | as |\n|---|---|---|---|")
    for exhibit in to_count:
        if exhibit.name in counted:
            found = counted[exhibit.name]
            seeds_of = ", ".join(map(str, found.counts))
            click.echo(f"| {exhibit.name} | {seeds_of} | {found.median_in_words} | {found.how} |")
    unseen = [e.name for e in exhibits if not _is_seen(e, told[e.name], counted.get(e.name))]
    if unseen:
        click.echo(f"passed unseen: {', '.join(unseen)}", err=True)
    sys.exit(1 if unseen else 0)


def _is_seen(exhibit: Mutant, caught: Caught | None, counted: Counted | None) -> bool:
    is_counted = counted is not None and any(count.is_caught for count in counted.counts)
    return caught is not None or is_counted or bool(exhibit.searched) or bool(exhibit.harmless)


def _row(exhibit: Mutant, by: str, how: str) -> str:
    return (
        "| "
        + " | ".join(cell.replace("|", "/")[:200] for cell in (exhibit.name, exhibit.what, by, how))
        + " |"
    )


if __name__ == "__main__":
    main()
