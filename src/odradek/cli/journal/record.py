"""`odradek journal record FILE`: keep a journal of any Kafka cluster by looking at it, until Ctrl-C.

`journal show`, `why --journal` and `what-if --journal` then answer about any moment since. What happened between two
looks is seen as one change, and nobody but a controller of ours knows why.
"""

import json
import math
import os
import shlex
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from odradek.cli.journal.words import change_words
from odradek.cli.output import bootstrap_option, fail, json_option, print_json
from odradek.model.counted import counted
from odradek.pictures.figures import clock

if TYPE_CHECKING:
    from odradek.model.facts import MetadataLoaded


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--every",
    type=click.FloatRange(0.05, 86_400),
    default=1.0,
    show_default=True,
    help="Seconds between polls.",
)
@click.option("--looks", type=click.IntRange(min=1), help="Stop after so many; without it, at Ctrl-C.")
@bootstrap_option
@json_option
def record(file: Path, every: float, looks: int | None, bootstrap: str, as_json: bool) -> None:
    """Record a journal of any Kafka cluster by polling its metadata, until Ctrl-C."""
    if math.isnan(every):  # of all comparisons with it none is true
        raise click.UsageError("--every nan: expected seconds, as in 0.5")
    from odradek.cli.observations import first_line, lines_between
    from odradek.cli.sources import now_ms, refreshed_source
    from odradek.client.sync import SyncClient
    from odradek.model.errors import OdradekError

    before: MetadataLoaded | None = None
    written = done = 0
    was_lost = False
    not_known: tuple[str, ...] = ()
    try:
        with SyncClient(bootstrap) as client, _opened(file) as out:
            while looks is None or done < looks:
                if done:
                    time.sleep(every)
                done += 1
                try:
                    seen = refreshed_source(client, bootstrap, before)
                except OdradekError as error:
                    if before is None:
                        raise
                    if not was_lost:
                        print(
                            f"odradek: {clock(now_ms())} the cluster cannot be asked: {error}",
                            file=sys.stderr,
                        )
                    was_lost = True
                    continue
                was_lost = False
                for note in seen.unknown:
                    if note not in not_known:
                        print(f"odradek: {clock(seen.now_ms)} not known: {note}", file=sys.stderr)
                not_known = seen.unknown
                controller = -1 if seen.controller is None else seen.controller
                lines = (
                    [first_line(seen.snapshot, controller, seen.now_ms)]
                    if before is None
                    else lines_between(before, seen.snapshot, controller, seen.now_ms)
                )
                before = seen.snapshot
                for line in lines:
                    out.write(json.dumps(line, separators=(",", ":")) + "\n")
                    out.flush()
                    written += len(line["changes"])
                    for change in line["changes"] if not as_json else ():
                        what = f"{change_words(change)}: {change['source']} -> {change['to']}"
                        print(f"{clock(line['at_ms'])} {what}", flush=True)
    except KeyboardInterrupt:
        pass  # that is how it ends; every line is written
    if as_json:
        print_json({"file": str(file), "looks": done, "changes": written})
    else:
        print(
            f"{counted(written, 'change')} in {counted(done, 'look')} in {file}; odradek journal show {shlex.quote(str(file))}"
        )


def _opened(file: Path) -> IO[str]:
    """To go on behind what was recorded before. A line that was cut short, as by a full disk, stays one of its own."""
    from odradek.cli.journal.files import is_a_line

    ends_short = False
    if file.is_file() and file.stat().st_size:
        with file.open("rb") as before:
            first = before.readline()
            before.seek(-1, os.SEEK_END)
            ends_short = before.read() != b"\n"
        if not is_a_line(first):
            fail(f"{file}: there is something else than a journal in it; name a new file")
    out = file.open("a", encoding="utf-8")
    if ends_short:
        out.write("\n")
    return out
