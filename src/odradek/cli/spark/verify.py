"""`odradek spark verify`: topic, table and commits, compared batch by batch."""

import click

from odradek.cli.output import bootstrap_option, fail, json_option, print_json
from odradek.model.counted import counted


@click.command()
@click.option("--table", required=True, type=click.Path(), help="Directory of the Delta table.")
@click.option("--app-id", help="Of this writer only; else of all.")
@click.option(
    "--read-committed", is_flag=True, help="If the table was read so: without what transactions took back."
)
@bootstrap_option
@json_option
def verify(table: str, app_id: str | None, read_committed: bool, bootstrap: str, as_json: bool) -> None:
    """Is the table what the topic says? Exit code 0 only if it is. Reads both whole, and needs no Spark."""
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
        print(f"{table} at version {report.version}: {counted(report.table_side.count, 'row')}{gone}")
    if not report.is_equal:
        fail(f"{table} is not what the topic says")
