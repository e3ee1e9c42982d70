"""`odradek spark tables`: a topic becomes a Delta table, exactly once, and stays fresh until Ctrl-C."""

from typing import Any

import click

from odradek.cli.output import bootstrap_option, json_option
from odradek.cli.spark.formats import format_options
from odradek.cli.spark.job_options import (
    batch_options,
    error_options,
    explain_option,
    schema_option,
    topic_option,
)
from odradek.cli.spark.running import explain_or_run
from odradek.cli.spark.session import session_options


@click.command()
@topic_option
@click.option(
    "--table",
    required=True,
    type=click.Path(),
    help="Directory of the Delta table, or s3://BUCKET/PREFIX; created if it does not exist.",
)
@click.option(
    "--format",
    "form",
    default="raw",
    show_default=True,
    help="raw: the records as they are. string, json, avro, protobuf: columns.",
)
@schema_option
@format_options
@click.option(
    "--meta",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    help="Columns __topic, __offset, ...",
)
@error_options
@click.option(
    "--upsert-by",
    default="",
    metavar="key",
    help="One row per key, of its last record; a null value deletes it.",
)
@click.option(
    "--evolve",
    default="none",
    show_default=True,
    metavar="add,widen,relax",
    help="How columns of the table may change with the values.",
)
@click.option(
    "--partition-by",
    default="",
    metavar="COLUMN,...",
    help="Of a new table: columns, day(COLUMN), bucket(N, COLUMN).",
)
@click.option("--target-file-size", default="", metavar="SIZE", help="As 128MB: a larger file is ended.")
@click.option("--sort-by", default="", metavar="COLUMN,...", help="Within each file.")
@batch_options
@click.option(
    "--from-checkpoint",
    default="",
    type=click.Path(),
    help="Checkpoint of a query of Spark's own connector; a new job begins at its position.",
)
@click.option(
    "--checkpoint",
    default="",
    type=click.Path(),
    help="Its directory; else below the table. Needed for a table in a store.",
)
@session_options
@explain_option
@bootstrap_option
@json_option
def tables(
    topic: str,
    table: str,
    form: str,
    schema: str,
    meta: str,
    upsert_by: str,
    evolve: str,
    partition_by: str,
    target_file_size: str,
    sort_by: str,
    allow_data_loss: bool,
    from_checkpoint: str,
    checkpoint: str,
    is_explained: bool,
    bootstrap: str,
    as_json: bool,
    **others: Any,
) -> None:
    """A topic becomes a table, and the table stays fresh: a line a batch, until Ctrl-C. The same command resumes.

    After a kill at any point no row is lost or doubled. `odradek spark verify` proves it.
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
        **others,
        upsert_by=upsert_by,
        evolve=evolve,
        partition_by=partition_by,
        target_file_size=target_file_size,
        sort_by=sort_by,
        fails_on_data_loss=not allow_data_loss,
        from_checkpoint=from_checkpoint,
        checkpoint=checkpoint,
    )
    plans = [planned(job)]
    explain_or_run(plans, is_explained=is_explained, as_json=as_json)
