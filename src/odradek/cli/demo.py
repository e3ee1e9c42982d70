"""`odradek demo`: files to a topic to a table, a leader killed on the way, and proof that all three are equal.

Exit code 0 only when every record is in the topic and in the table exactly once.
"""

import sys
from pathlib import Path

import click

from odradek.cli.output import json_option, print_json

DIRECTORY = Path("demo-report")


@click.command()
@click.option(
    "--input",
    "inputs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Files of your own, instead of the flights of 2013; repeatable. A line is a record.",
)
@click.option("--key", metavar="COLUMN", help="Column of a .csv input that is the key; else the first.")
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    default=DIRECTORY,
    show_default=True,
    help="Where it works and leaves its report; a directory of its own.",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The HTML file; else report.html in --dir.",
)
@click.option(
    "--rate", type=click.IntRange(min=1), default=20_000, show_default=True, help="Records a second."
)
@click.argument("more_inputs", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
def demo(
    inputs: tuple[Path, ...],
    key: str | None,
    directory: Path,
    report: Path | None,
    rate: int,
    more_inputs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Files to a topic to a table, a leader killed on the way, and proof."""
    from odradek.demo.page import page
    from odradek.demo.place import workplace
    from odradek.demo.report import as_dict, text_report
    from odradek.demo.run import Options, check_extras, run
    from odradek.demo.screen import Screen
    from odradek.testing.interruption import interruptible

    if more_inputs and not inputs:
        raise click.UsageError(
            f"{more_inputs[0]}: name the files with --input, as in --input {more_inputs[0]}"
        )
    if report is not None:
        report.parent.mkdir(parents=True, exist_ok=True)
    check_extras()
    screen = Screen(quiet=as_json)
    options = Options(inputs=(*inputs, *more_inputs), key=key, rate=rate)
    with interruptible(), workplace(directory.absolute(), options.inputs) as place:
        result = run(options, place, screen)
        target = (report or place / "report.html").absolute()
        target.write_text(page(result), encoding="utf-8")
        if as_json:
            print_json({**as_dict(result), "report": str(target)})
        else:
            screen.show(text_report(result))
            screen.show(f"\nThe report with plots: {target}")
    sys.exit(0 if result.ok else 1)
