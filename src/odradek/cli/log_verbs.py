"""`odradek log`: logs as they lie on disks."""

import click

from odradek.cli.group import LazyGroup

VERBS = {
    "dump": ("odradek.cli.log_dump", "dump", "Print segment files, indexes, snapshots."),
    "dirs": ("odradek.cli.log_dirs", "dirs", "The log directories of the brokers."),
}


@click.group(cls=LazyGroup, verbs=VERBS)
def log() -> None:
    """Read segment files; see log directories."""
