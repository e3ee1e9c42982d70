"""`python -m odradek.sim.scenario [--rewrite] FILES`."""

import difflib
import sys
from pathlib import Path

import click

from odradek.sim.scenario import Wrong, play


@click.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--rewrite", is_flag=True, help="Write what came of it into the files.")
def main(files: tuple[Path, ...], rewrite: bool) -> None:
    """Plays scenarios (tests/scenarios) and shows where something else came of them than is written there.

    Exit code: 0 as written, 1 otherwise.
    """
    failed = 0
    for path in files:
        before = path.read_text(encoding="utf-8")
        try:
            after = play(before)
        except Wrong as wrong:
            raise click.ClickException(f"{path}: {wrong}") from wrong
        if after == before:
            continue
        if rewrite:
            path.write_text(after, encoding="utf-8")
            click.echo(f"{path}: rewritten")
        else:
            failed += 1
            lines = difflib.unified_diff(
                before.splitlines(), after.splitlines(), str(path), "played", lineterm=""
            )
            click.echo("\n".join(lines))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
