"""`odradek spark pack`: what travels to workers that do not have this package."""

from pathlib import Path

import click

from odradek.cli.output import json_option, print_json
from odradek.model.counted import counted


@click.command()
@click.option(
    "--to",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The archive, as in odradek.tar.gz; with --pure a .zip.",
)
@click.option(
    "--pure", "is_pure", is_flag=True, help="This package's own modules only, for spark-submit --py-files."
)
@json_option
def pack(to: Path, is_pure: bool, as_json: bool) -> None:
    """An environment for workers that do not have this package: it travels with the job, by --archive.

    They need the same minor version of Python, and nothing else.
    """
    from odradek.spark.pack import pack as packed
    from odradek.spark.pack import pack_pure

    done = pack_pure(to) if is_pure else packed(to)
    if as_json:
        print_json(done._asdict())
        return
    packages = f", with {', '.join(done.packages)}" if done.packages else ""
    print(f"{to}: {counted(done.files, 'file')}, {done.size_bytes / 1e6:.1f} MB{packages}")
