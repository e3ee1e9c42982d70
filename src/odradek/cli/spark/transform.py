"""`odradek spark transform`: topics into a topic, exactly once, by SQL or as they are, until Ctrl-C."""

from typing import Any

import click

from odradek.cli.output import bootstrap_option, json_option
from odradek.cli.spark.formats import value_format_options
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
@schema_option
@value_format_options
@error_options
@click.option(
    "--compression",
    default="zstd",
    show_default=True,
    help="Of what is written: none, gzip, snappy, lz4, zstd.",
)
@batch_options
@session_options
@explain_option
@bootstrap_option
@json_option
def transform(
    topic: str,
    to: str,
    directory: str,
    sql: str,
    form: str,
    schema: str,
    compression: str,
    allow_data_loss: bool,
    is_explained: bool,
    bootstrap: str,
    as_json: bool,
    **others: Any,
) -> None:
    """Topics into a topic: a transaction a batch, and a line of each, until Ctrl-C. The same command resumes.

    After a kill at any point read_committed consumers find each batch once and whole. `odradek spark verify --directory` proves it.
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
        compression=compression,
        fails_on_data_loss=not allow_data_loss,
    )
    plans = [planned(job)]
    explain_or_run(plans, is_explained=is_explained, as_json=as_json)
