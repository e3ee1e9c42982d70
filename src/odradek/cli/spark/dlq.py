"""`odradek spark dlq show | replay`: the dead letters of a table, and feeding them again."""

import click

from odradek.cli.group import LazyGroup
from odradek.cli.output import json_option, print_json, print_table
from odradek.model.printable import shown

VERBS = {
    "show": ("odradek.cli.spark.dlq", "show", "Which records, and why."),
    "replay": ("odradek.cli.spark.dlq", "replay", "Feed them again: what can be read now becomes rows."),
}
SHOWN = 20


@click.group(cls=LazyGroup, verbs=VERBS)
def dlq() -> None:
    """What could not become a row, and why."""


@click.command()
@click.option(
    "--table",
    required=True,
    type=click.Path(),
    help="The Delta table, not its dead letters: a directory or s3://BUCKET/PREFIX.",
)
@click.option(
    "--count", "-n", type=click.IntRange(min=1), default=SHOWN, show_default=True, help="At most so many."
)
@click.option("--all", "is_all", is_flag=True, help="Also those that were replayed.")
@json_option
def show(table: str, count: int, is_all: bool, as_json: bool) -> None:
    """The dead letters of a table, oldest offsets first."""
    from odradek.model.counted import counted
    from odradek.spark.dead_letters import dead_letters
    from odradek.spark.object_store import check_listens

    check_listens(table)
    every = dead_letters(table, count, has_replayed=is_all)
    letters = [letter for letter in every if is_all or not letter.is_replayed]
    if as_json:
        print_json([letter.to_json() for letter in letters[:count]])
        return
    rows = [
        (f"{x.topic}-{x.partition}", x.offset, x.stage, _id(x.schema_id), x.error, shown(x.value_text))
        for x in letters[:count]
    ]
    if rows:
        print_table(("PARTITION", "OFFSET", "STAGE", "SCHEMA", "WHY", "VALUE"), rows)
    more = f", the first {count} of them shown" if len(letters) > count else ""
    again = sum(letter.is_replayed for letter in every)
    print(f"{counted(len(letters), 'dead letter')}{more}{f'; {again} replayed' if again else ''}")


def _id(schema_id: int | None) -> str:
    return "-" if schema_id is None else str(schema_id)


@click.command()
@click.option(
    "--table", required=True, type=click.Path(), help="Directory of the Delta table, or s3://BUCKET/PREFIX."
)
@click.option("--format", "form", default="", help="How values are read now; else as the job reads them.")
@click.option("--registry", default="", metavar="URL", help="Where the schemas are now.")
@click.option("--schema-file", default="", type=click.Path(), help="Instead: a schema that fits the letters.")
@click.option("--message", default="", metavar="NAME", help="Of the Protobuf file; else its first.")
@click.option("--framed", "is_framed", is_flag=True, help="Values have a schema id before them.")
@click.option(
    "--given-up",
    multiple=True,
    metavar="APP_ID",
    help="An application that never comes again, and has begun a batch: also its letters.",
)
@json_option
def replay(
    table: str,
    form: str,
    registry: str,
    schema_file: str,
    message: str,
    is_framed: bool,
    given_up: tuple[str, ...],
    as_json: bool,
) -> None:
    """Feed the dead letters again, say after a schema was registered: what can be read now becomes rows, each once."""
    from odradek.model.counted import counted
    from odradek.spark.dead_letters import kept_shape
    from odradek.spark.formats.declared import Format
    from odradek.spark.object_store import check_listens
    from odradek.spark.replay import replay as replayed

    check_listens(table)

    given = None
    if form or registry or schema_file:
        kept = kept_shape(table)
        name = form or ("" if kept is None else kept.format.name)
        given = Format(name, registry, schema_file, message, is_framed)
    elif message or is_framed:
        option = "--message" if message else "--framed"
        raise click.UsageError(f"{option} says how values of a --schema-file are read; name it")
    done = replayed(table, given, given_up)
    if as_json:
        print_json(done._asdict())
        return
    print(f"{counted(done.rows, 'row')} added, {counted(done.waiting, 'dead letter')} left")
    for error in done.errors[:SHOWN]:
        print(f"  {error}")
