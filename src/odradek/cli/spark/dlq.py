"""`odradek spark dlq show`: the dead letters of a table."""

import click

from odradek.cli.group import LazyGroup
from odradek.cli.output import json_option, print_json, print_table
from odradek.model.printable import shown

VERBS = {"show": ("odradek.cli.spark.dlq", "show", "Which records, and why.")}
SHOWN = 20


@click.group(cls=LazyGroup, verbs=VERBS)
def dlq() -> None:
    """What could not become a row, and why."""


@click.command()
@click.option(
    "--table", required=True, type=click.Path(), help="Directory of the Delta table, not of its dead letters."
)
@click.option(
    "--count", "-n", type=click.IntRange(min=1), default=SHOWN, show_default=True, help="At most so many."
)
@json_option
def show(table: str, count: int, as_json: bool) -> None:
    """The dead letters of a table, oldest offsets first."""
    from odradek.model.counted import counted
    from odradek.spark.dead_letters import dead_letters

    letters = dead_letters(table)
    if as_json:
        print_json([letter.to_json() for letter in letters[:count]])
        return
    rows = [(f"{x.topic}-{x.partition}", x.offset, x.error, shown(x.value_text)) for x in letters[:count]]
    if rows:
        print_table(("PARTITION", "OFFSET", "WHY", "VALUE"), rows)
    more = f", the first {count} of them shown" if len(letters) > count else ""
    print(f"{counted(len(letters), 'dead letter')}{more}")
