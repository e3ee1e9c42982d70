"""`odradek spark`: topics become tables, and tables are compared with their topics."""

import click

from odradek.cli.group import LazyGroup

VERBS = {
    "tables": ("odradek.cli.spark.tables", "tables", "A topic becomes a table, and the table stays fresh."),
    "transform": (
        "odradek.cli.spark.transform",
        "transform",
        "Topics into a topic, by SQL, exactly once.",
    ),
    "run": ("odradek.cli.spark.run", "run", "The jobs of a TOML file."),
    "verify": (
        "odradek.cli.spark.verify",
        "verify",
        "Is the table what the topic says, or a topic what was written?",
    ),
    "pack": ("odradek.cli.spark.pack", "pack", "An archive for workers that do not have this package."),
    "dlq": ("odradek.cli.spark.dlq", "dlq", "What could not become a row, and why."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def spark() -> None:
    """Topics as tables, and into topics, exactly once, with Spark as the engine."""
