"""`odradek spark transform`: topics into a topic, exactly once, by SQL or as they are, until Ctrl-C."""

from typing import Any

import click

from odradek.cli.output import bootstrap_option, json_option
from odradek.cli.spark.formats import value_format_options
from odradek.cli.spark.running import explain_or_run
from odradek.cli.spark.session import session_options


@click.command()
@click.option("--topic", required=True, metavar="NAME,...", help="One topic, or several separated by commas.")
@click.option("--to", required=True, metavar="NAME", help="The topic that is written.")
@click.option(
    "--directory",
    required=True,
    type=click.Path(),
    help="Of the job: its checkpoint, its proofs, Spark's log.",
)
@click.option(
    "--sql",
    default="",
    metavar="SELECT",
    help='As "SELECT key, upper(string(value)) AS value FROM records"; else the records as they are.',
)
@click.option(
    "--format",
    "form",
    default="raw",
    show_default=True,
    help="string, json, avro, protobuf: SQL finds columns, and values that do not fit are dead letters.",
)
@click.option(
    "--schema", default="", metavar="COLUMNS", help='As "id BIGINT, name STRING"; else learnt from the topic.'
)
@value_format_options
@click.option(
    "--on-error",
    default="dlq",
    show_default=True,
    help="A value that does not fit: dlq keeps it aside, skip, pause stops; or by kind, as value=dlq,schema=pause.",
)
@click.option(
    "--max-dead-letters",
    default="",
    metavar="N|N%",
    help="More in a batch stop the job before any of it is in the topic.",
)
@click.option(
    "--compression",
    default="zstd",
    show_default=True,
    help="Of what is written: none, gzip, snappy, lz4, zstd.",
)
@click.option("--trigger", default="10s", show_default=True, help="How often a batch is begun.")
@click.option("--once", "is_once", is_flag=True, help="Stop when all that is there now is in.")
@click.option("--starting-offsets", default="earliest", show_default=True, help="earliest, latest, or JSON.")
@click.option(
    "--max-offsets-per-trigger", type=click.IntRange(min=1), help="At most so many records a batch."
)
@click.option("--allow-data-loss", is_flag=True, help="Go on where records are gone, and count them.")
@click.option("--app-id", default="", help="Name of this writer; else by its topics.")
@click.option(
    "--commit-group", default="", metavar="GROUP", help="A consumer group that shows where the job stands."
)
@session_options
@click.option("--explain", "is_explained", is_flag=True, help="Say what would happen, and start nothing.")
@bootstrap_option
@json_option
def transform(
    topic: str,
    to: str,
    directory: str,
    sql: str,
    form: str,
    schema: str,
    on_error: str,
    max_dead_letters: str,
    compression: str,
    trigger: str,
    is_once: bool,
    starting_offsets: str,
    max_offsets_per_trigger: int | None,
    allow_data_loss: bool,
    app_id: str,
    commit_group: str,
    is_explained: bool,
    bootstrap: str,
    as_json: bool,
    **others: Any,
) -> None:
    """Topics into a topic: a transaction a batch, and a line of each, until Ctrl-C. The same line again goes on.

    Killed at any point, who reads committed finds each batch once and whole. `odradek spark verify --directory` proves it.
    """
    from odradek.spark.session import require_pyspark

    require_pyspark()
    from odradek.spark.jobs.transform import TransformJob, planned

    job = TransformJob(
        bootstrap=bootstrap,
        topics=tuple(name.strip() for name in topic.split(",")),
        to=to,
        directory=directory,
        sql=sql,
        format=form,
        schema=schema,
        **others,
        on_error=on_error,
        max_dead_letters=max_dead_letters,
        compression=compression,
        trigger=trigger,
        is_once=is_once,
        starting_offsets=starting_offsets,
        max_offsets_per_trigger=max_offsets_per_trigger,
        fails_on_data_loss=not allow_data_loss,
        app_id=app_id,
        commit_group=commit_group,
    )
    plans = [planned(job)]
    explain_or_run(plans, is_explained=is_explained, as_json=as_json)
