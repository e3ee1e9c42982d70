"""`odradek spark tables`: a topic becomes a Delta table, exactly once, and stays fresh until Ctrl-C."""

from typing import Any

import click

from odradek.cli.output import bootstrap_option, json_option
from odradek.cli.spark.formats import format_options
from odradek.cli.spark.running import explain_or_run
from odradek.cli.spark.session import session_options


@click.command()
@click.option("--topic", required=True, metavar="NAME,...", help="One topic, or several separated by commas.")
@click.option(
    "--table", required=True, type=click.Path(), help="Directory of the Delta table; made if it is not there."
)
@click.option(
    "--format",
    "form",
    default="raw",
    show_default=True,
    help="raw: the records as they are. string, json, avro, protobuf: columns.",
)
@click.option(
    "--schema", default="", metavar="COLUMNS", help='As "id BIGINT, name STRING"; else learnt from the topic.'
)
@format_options
@click.option(
    "--meta",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    help="Columns __topic, __offset, ...",
)
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
    help="More in a batch stop the job before any of it is in the table.",
)
@click.option(
    "--upsert-by",
    default="",
    metavar="key",
    help="One row a key, of its last record; a null value deletes it.",
)
@click.option(
    "--evolve",
    default="none",
    show_default=True,
    metavar="add,widen,relax",
    help="What may become of the table's columns where values ask for it.",
)
@click.option(
    "--partition-by",
    default="",
    metavar="COLUMN,...",
    help="Of a new table: columns, day(COLUMN), bucket(N, COLUMN).",
)
@click.option("--target-file-size", default="", metavar="SIZE", help="As 128MB: a larger file is ended.")
@click.option("--sort-by", default="", metavar="COLUMN,...", help="Within each file.")
@click.option("--trigger", default="10s", show_default=True, help="How often a batch is begun.")
@click.option("--once", "is_once", is_flag=True, help="Stop when all that is there now is in the table.")
@click.option("--starting-offsets", default="earliest", show_default=True, help="earliest, latest, or JSON.")
@click.option(
    "--max-offsets-per-trigger", type=click.IntRange(min=1), help="At most so many records a batch."
)
@click.option("--allow-data-loss", is_flag=True, help="Go on where records are gone, and count them.")
@click.option("--app-id", default="", help="Name of this writer in the table; else by its topics.")
@click.option(
    "--commit-group", default="", metavar="GROUP", help="A consumer group that shows where the job stands."
)
@click.option(
    "--from-checkpoint",
    default="",
    type=click.Path(),
    help="Of a query of Spark's own connector: a new job begins where it stands.",
)
@click.option("--checkpoint", default="", type=click.Path(), help="Its directory; else below the table.")
@session_options
@click.option("--explain", "is_explained", is_flag=True, help="Say what would happen, and start nothing.")
@bootstrap_option
@json_option
def tables(
    topic: str,
    table: str,
    form: str,
    schema: str,
    meta: str,
    on_error: str,
    max_dead_letters: str,
    upsert_by: str,
    evolve: str,
    partition_by: str,
    target_file_size: str,
    sort_by: str,
    trigger: str,
    is_once: bool,
    starting_offsets: str,
    max_offsets_per_trigger: int | None,
    allow_data_loss: bool,
    app_id: str,
    commit_group: str,
    from_checkpoint: str,
    checkpoint: str,
    is_explained: bool,
    bootstrap: str,
    as_json: bool,
    **others: Any,
) -> None:
    """A topic becomes a table, and the table stays fresh: a line a batch, until Ctrl-C. The same line again goes on.

    Killed at any point, no row is lost or doubled. `odradek spark verify` proves it.
    """
    from odradek.spark.session import require_pyspark

    require_pyspark()
    from odradek.spark.jobs.tables import TablesJob, planned

    job = TablesJob(
        bootstrap=bootstrap,
        topics=tuple(name.strip() for name in topic.split(",")),
        table=table,
        format=form,
        schema=schema,
        has_meta=meta == "on",
        on_error=on_error,
        max_dead_letters=max_dead_letters,
        **others,
        upsert_by=upsert_by,
        evolve=evolve,
        partition_by=partition_by,
        target_file_size=target_file_size,
        sort_by=sort_by,
        trigger=trigger,
        is_once=is_once,
        starting_offsets=starting_offsets,
        max_offsets_per_trigger=max_offsets_per_trigger,
        fails_on_data_loss=not allow_data_loss,
        app_id=app_id,
        commit_group=commit_group,
        from_checkpoint=from_checkpoint,
        checkpoint=checkpoint,
    )
    plans = [planned(job)]
    explain_or_run(plans, is_explained=is_explained, as_json=as_json)
