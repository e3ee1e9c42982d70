"""`odradek spark verify`: topic, table and commits, compared batch by batch."""

import click

from odradek.cli.output import bootstrap_option, fail, json_option, print_json
from odradek.model.counted import counted


@click.command()
@click.option("--table", type=click.Path(), help="Directory of the Delta table, or s3://BUCKET/PREFIX.")
@click.option(
    "--directory",
    type=click.Path(),
    help="In place of a table: of a job that writes topics, or of that sink.",
)
@click.option("--app-id", help="Of this writer only; else of all.")
@click.option(
    "--read-committed", is_flag=True, help="If the table was read so: without what transactions took back."
)
@click.option("--progress-topic", help="With --directory: of a sink with this option progressTopic.")
@bootstrap_option
@json_option
def verify(
    table: str | None,
    directory: str | None,
    app_id: str | None,
    read_committed: bool,
    progress_topic: str | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Is the table what the topic says, or are topics what a sink has written into them? Exit code 0 only if so.

    Reads both whole, and needs no Spark.
    """
    if (table is None) == (directory is None):
        raise click.UsageError("one of --table and --directory says what to verify")
    if directory is not None:
        _verify_topics(directory, app_id, progress_topic, bootstrap, as_json=as_json)
        return
    assert table is not None
    from odradek.spark.verify import verify as verified

    report = verified(table, bootstrap, app_id=app_id, read_committed=read_committed)
    if as_json:
        print_json(report.to_json())
    else:
        for partition in report.partitions:
            print(partition)
        if report.rows is not None:
            print(report.rows)
        gone = (
            f"; {counted(report.gone.count, 'record')} gone from the topic, proved by the commits"
            if report.gone.count
            else ""
        )
        print(
            f"{table} at version {report.version}: {counted(report.table_side.count, 'row')}{gone}{_lost(report.lost)}"
        )
    if not report.is_equal:
        fail(f"{table} is not what the topic says")


def _lost(offsets: int) -> str:
    """What --allow-data-loss has allowed, beside which all may be equal."""
    return f"; {counted(offsets, 'offset')} lost before they were read" if offsets else ""


def _verify_topics(
    directory: str, app_id: str | None, progress_topic: str | None, bootstrap: str, *, as_json: bool
) -> None:
    from odradek.spark.topic_options import PROGRESS_TOPIC
    from odradek.spark.verify_topic import verify_topics

    report = verify_topics(
        directory, bootstrap, progress_topic=progress_topic or PROGRESS_TOPIC, app_id=app_id
    )
    if as_json:
        print_json(report.to_json())
    else:
        for partition in report.partitions:
            print(partition)
        print(
            f"{directory}: {counted(report.batches, 'batch', 'batches')}, "
            f"{counted(report.records, 'record')}{_lost(report.lost)}"
        )
    if not report.is_equal:
        fail(f"the topics are not what {directory} has written into them")
