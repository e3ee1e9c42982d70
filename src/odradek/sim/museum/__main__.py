"""`python -m odradek.sim.museum`: puts every bug back, one after the other, and prints who catches it.

Exit code 1 if one of them passes unseen.
"""

import os
import sys
from pathlib import Path
from typing import IO

import click

from odradek.sim.museum import collection, shown
from odradek.sim.museum.catch import Caught, Counted, by_seeds, by_stories
from odradek.sim.museum.exhibit import Exhibit
from odradek.sim.museum.page import read_counts, tables


@click.command()
@click.option("--only", multiple=True, help="A number of the table; may be given several times.")
@click.option(
    "--seeds", default=200, show_default=True, help="Most seeds from each of three starting points."
)
@click.option("--seeds-for", type=click.Choice(["all", "unseen"]), default="all", show_default=True)
@click.option("--stories", default="tests/scenarios", show_default=True, help="Folder of the stories.")
@click.option(
    "--page", type=click.File(), default=None, help="Print the tables of docs/museum.md with these counts."
)
def main(only: tuple[str, ...], seeds: int, seeds_for: str, stories: str, page: IO[str] | None) -> None:
    """Puts known bugs back one by one and shows each caught by a story or a seed."""
    if page is not None:
        for line in tables(read_counts(page.read())):
            click.echo(line)
        return
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"  # seeds are only the same runs with fixed hashes
        os.execv(sys.executable, [sys.executable, "-m", "odradek.sim.museum", *sys.argv[1:]])
    paths = sorted(Path(stories).glob("*.txt"))
    unseen = 0
    click.echo("| KAFKA | commit | what users met | changed | first story | seeds, median of three | as |")
    click.echo("|---|---|---|---|---|---|---|")
    for exhibit in collection.EXHIBITS:
        if only and exhibit.number not in only:
            continue
        caught = by_stories(exhibit, paths)
        is_to_be_counted = seeds and (seeds_for == "all" or caught is None)
        counted = by_seeds(exhibit, seeds) if is_to_be_counted else None
        is_seen = caught is not None or (counted is not None and any(counted.seeds)) or exhibit.searched
        if not is_seen and exhibit.number not in shown.HARMLESS:
            unseen += 1
        click.echo(_row(exhibit, caught, counted))
    if unseen:
        click.echo(f"{unseen} passed unseen", err=True)
    sys.exit(1 if unseen else 0)


def _row(exhibit: Exhibit, caught: Caught | None, counted: Counted | None) -> str:
    cells = [
        exhibit.number,
        exhibit.commit,
        exhibit.met,
        exhibit.what,
        f"{caught.by}: `{caught.how}`" if caught else "-",
        "-" if counted is None else _median(counted),
        (counted.how if counted else "") or (f"explore: {exhibit.searched}" if exhibit.searched else "-"),
    ]
    return "| " + " | ".join(cell.replace("|", "/")[:200] for cell in cells) + " |"


def _median(counted: Counted) -> str:
    each = ", ".join("-" if n is None else str(n) for n in counted.seeds)
    return f"{counted.median or 'none'} ({each})"


if __name__ == "__main__":
    main()
