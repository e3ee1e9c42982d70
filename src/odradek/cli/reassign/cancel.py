"""`odradek reassign cancel`: partitions go back to the replicas they had.

The controller refuses a cancel that would leave nobody live in the ISR (Apache does not check: KAFKA-14424).
Exit code 1 when one was refused.
"""

import sys
from pathlib import Path

import click

from odradek.cli.output import bootstrap_option, fail, json_option, print_json, print_table
from odradek.cli.reassign.apply import alter
from odradek.cli.reassign.files import read_proposal


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--partition", "-p", "texts", multiple=True, metavar="TOPIC-P", help="This one; repeatable.")
@click.option("--all", "everything", is_flag=True, help="Everything that runs.")
@click.option("--keep-throttle", is_flag=True, help="Leave the throttle as it is.")
@bootstrap_option
@json_option
def cancel(
    file: Path | None,
    texts: tuple[str, ...],
    everything: bool,
    keep_throttle: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Cancel moves: those of FILE, of single partitions, or all that run."""
    from odradek.cli.reassign.throttle import remove_or_say
    from odradek.cli.sources import running_reassignments
    from odradek.cli.what_if import partition_named
    from odradek.client.sync import SyncClient

    if (file is not None) + bool(texts) + everything != 1:
        raise click.UsageError("cancel what? Say one of FILE, --partition orders-0, --all")
    if file is not None and str(file) != "-" and not file.exists():
        raise click.UsageError(f"there is no file {file}; a partition is named by --partition {file}")
    with SyncClient(bootstrap) as client:
        unknown: list[str] = []
        running = running_reassignments(client, unknown)
        if unknown:
            fail(f"{unknown[0]}; the running reassignments are not known")
        if file is not None:
            named = sorted(read_proposal(file))
            wanted = [where for where in named if where in running]
        elif texts:
            wanted = named = sorted({partition_named(text, "--partition") for text in texts})
        else:
            wanted = named = sorted(running)
        refused = alter(client, dict.fromkeys(wanted)) if wanted else {}
        left = set(running) - set(wanted) | set(running) & set(refused)
        if not left and not keep_throttle:
            # Also of what ran no more: its throttle is left over, as of an `apply` whose wait was interrupted.
            view = client.cluster(None if everything and not named else {where.topic for where in named})
            remove_or_say(client, view.topics, sorted(view.brokers))
    back = {where: list(running[where].origin_replicas) for where in wanted if where in running}
    if as_json:
        print_json(
            {
                "cancelled": {str(w): back.get(w) for w in wanted if w not in refused},
                "refused": {str(w): why for w, why in refused.items()},
            }
        )
    elif not wanted:
        whose = f"of those of {file} " if running else ""
        print(f"No reassignment {whose}runs, so none was cancelled.")
    else:
        print(f"{len(wanted) - len(refused)} of {len(wanted)} cancelled.")
        print_table(
            ("partition", "back to", "answer"),
            [
                (str(w), ",".join(map(str, back.get(w, []))) or "-", refused.get(w, "cancelled"))
                for w in sorted(wanted)
            ],
        )
    sys.exit(1 if refused else 0)
