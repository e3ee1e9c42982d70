"""`odradek elect preferred`: the first replica of the list leads again, where it is live and in sync.

Exit code 1 when one of the partitions asked for could not be given back.
"""

import sys
from collections.abc import Container
from typing import TYPE_CHECKING

import click

from odradek.cli.elect.elections import PREFERRED, Elected, elect_leaders, partitions_of
from odradek.cli.outcomes import outcome, print_outcomes
from odradek.cli.output import bootstrap_option, json_option, print_table
from odradek.model.counted import counted

if TYPE_CHECKING:
    from odradek.client.sync import PartitionView

SHOWN_PARTITIONS = 20


@click.command()
@click.argument("targets", nargs=-1, metavar="[TOPIC|PARTITION]...")
@click.option("--all", "-a", "everything", is_flag=True, help="Every partition of the cluster.")
@bootstrap_option
@json_option
def preferred(targets: tuple[str, ...], everything: bool, bootstrap: str, as_json: bool) -> None:
    """Make preferred replicas the leaders again."""
    from odradek.client.sync import SyncClient
    from odradek.model.error_codes import ErrorCode

    if bool(targets) == everything:
        raise click.UsageError("elect for whom? Say topics or partitions, or --all")
    with SyncClient(bootstrap) as client:
        view = client.cluster()
        partitions = partitions_of(client, view, sorted(view.topics) if everything else targets)
        before = {w: view.topics[w.topic].partitions[w.partition] for w in partitions}
        # Those that lead already need not be asked for.
        idle = [w for w in partitions if before[w].leader != before[w].replicas[0]]
        elected = elect_leaders(client, PREFERRED, idle) if idle else []
    moved = [e for e in elected if e.code == ErrorCode.NONE]
    failed = [e for e in elected if e.code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)]
    if as_json:
        leaders = {w: p.leader for w, p in before.items()}
        leaders |= {e.partition: before[e.partition].replicas[0] for e in moved}
        errors = {e.partition: _why(e, before[e.partition], view.brokers) for e in failed}
        done = {e.partition for e in moved}
        print_outcomes(
            [outcome(w, done=w in done, error=errors.get(w), leader=leaders[w]) for w in partitions],
            exit_code=1 if failed else 0,
        )
    else:
        print(
            f"{counted(len(moved), 'partition')} led by the preferred replica again, "
            f"{len(partitions) - len(moved) - len(failed)} already, {len(failed)} could not be."
        )
        rows = [
            (str(e.partition), _leader(before[e.partition]), before[e.partition].replicas[0], words)
            for e, words in [
                *((e, _why(e, before[e.partition], view.brokers)) for e in failed),
                *((e, "elected") for e in moved),
            ]
        ]
        if rows:
            print_table(("partition", "led by", "preferred", "answer"), rows[:SHOWN_PARTITIONS])
        if len(rows) > SHOWN_PARTITIONS:
            print(f"and {len(rows) - SHOWN_PARTITIONS} more; --json lists all")
    sys.exit(1 if failed else 0)


def _leader(view: "PartitionView") -> int | str:
    return view.leader if view.leader >= 0 else "none"


def _why(elected: Elected, before: "PartitionView", alive: Container[int]) -> str:
    """What the preferred replica lacks, where metadata shows it; else the controller's own words."""
    preferred = before.replicas[0]
    if preferred not in alive:
        return f"broker {preferred} is not alive; start it"
    if preferred in before.offline_replicas:
        # Of a broker that has just died Metadata may say so before it leaves the list of brokers.
        return f"its replica at broker {preferred} is offline: mend the disk and restart broker {preferred}, or start it"
    if preferred not in before.isr:
        return f"broker {preferred} is not in the ISR {list(before.isr)} yet; it must catch up first"
    return elected.message or elected.code.name
