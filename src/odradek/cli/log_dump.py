"""`odradek log dump`: what is in a segment, an index, or a whole partition directory.

The text is that of Apache's DumpLogSegments, so that either output can be compared with the other.
"""

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from odradek.log.dump import Item


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--records", "with_records", is_flag=True, help="Also the records in each batch.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with the name of its file.")
def dump(paths: tuple[str, ...], with_records: bool, as_json: bool) -> None:
    """Print segment files, their indexes and producer snapshots; a directory stands for all files in it.

    Exit code 1 if a file holds bytes that are no batches, or a batch with a wrong CRC.
    """
    import json
    import os

    from odradek.log.checkpoints import LEADER_EPOCHS, PARTITION_METADATA
    from odradek.log.dump import dump_file, dump_names, is_of_a_segment, lines
    from odradek.log.files import OsDirectory

    is_sound = True

    def watched(items: "Iterator[Item]") -> "Iterator[Item]":
        """As they come: a segment with its records is many times its size."""
        nonlocal is_sound
        for item in items:
            is_sound = is_sound and "error" not in item and bool(item.get("isvalid", True))
            yield item

    for path in paths:
        path = path.rstrip("/") or path
        if os.path.isdir(path):
            directory = OsDirectory(path)
            files = [(name, f"{path}/{name}") for name in dump_names(directory)]
            if not files:
                raise click.ClickException(
                    f"{path}: no segment files; a partition's directory is <topic>-<partition>"
                )
        else:
            directory = OsDirectory(os.path.dirname(path) or ".")
            files = [(os.path.basename(path), path)]
            if not is_of_a_segment(files[0][0]) and files[0][0] not in (LEADER_EPOCHS, PARTITION_METADATA):
                raise click.UsageError(
                    f"{path} is no file of a partition; those are named by an offset, as 00000000000000000000.log"
                )
        for name, shown_as in files:
            items = watched(dump_file(directory, name, with_records=with_records))
            if as_json:
                for item in items:
                    click.echo(json.dumps({"file": shown_as, **item}))
            else:
                for line in lines(name, shown_as, items):
                    click.echo(line)
    if not is_sound:
        sys.exit(1)
