"""`odradek spark run job.toml`: the jobs of a file, in one session; all of it checked before Spark starts."""

from pathlib import Path

import click

from odradek.cli.output import json_option
from odradek.cli.spark.job_options import explain_option
from odradek.cli.spark.running import explain_or_run


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--once", "is_once", is_flag=True, help="Stop when all that is there now is in.")
@explain_option
@json_option
def run(file: Path, is_once: bool, is_explained: bool, as_json: bool) -> None:
    """The jobs of a TOML file: [[tables]] and [[transform]], with the options of `odradek spark tables` and `transform` as keys."""
    from odradek.spark.session import require_pyspark

    require_pyspark()
    from odradek.spark.job_file import plans_of

    plans = plans_of(file, is_once=is_once)
    explain_or_run(plans, is_explained=is_explained, as_json=as_json)
