"""`odradek elect unclean PARTITION...`: a leader from outside the ISR, after saying what it would lose.

Every live replica is asked what it holds (last epoch, log end offset) and priced against the best; what the dead members
of the ISR had beyond that nobody alive knows. Without --yes nothing is elected and the exit code is 1.
"""

import sys
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.elect.elections import UNCLEAN, elect_leaders, partitions_of
from odradek.cli.outcomes import outcome, print_outcomes
from odradek.cli.output import bootstrap_option, json_option, print_table
from odradek.cli.quantities import shown_bytes
from odradek.model.counted import counted

if TYPE_CHECKING:
    from odradek.cli.elect.replica_ends import ReplicaEnd
    from odradek.client.sync import PartitionView, SyncClient
    from odradek.model.ids import TopicPartition

LEADER_TIMEOUT_S = 10.0


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TOPIC|PARTITION...")
@click.option("--yes", "-y", is_flag=True, help="Elect. Without it only the candidates are shown.")
@bootstrap_option
@json_option
def unclean(targets: tuple[str, ...], yes: bool, bootstrap: str, as_json: bool) -> None:
    """Elect a leader from outside the ISR if no member of the ISR is live; shows what is lost."""
    from odradek.client.sync import SyncClient
    from odradek.model.error_codes import ErrorCode

    with SyncClient(bootstrap) as client:
        view = client.cluster()
        partitions = partitions_of(client, view, targets)
        views = {w: view.topics[w.topic].partitions[w.partition] for w in partitions}
        offline = [w for w in partitions if views[w].leader not in view.brokers]
        polls = polled(client, {w: views[w] for w in offline})
        possible = [w for w in offline if polls[w]["best"] is not None]
        elected = elect_leaders(client, UNCLEAN, possible) if yes and possible else []
        ok = {answer.partition for answer in elected if answer.code == ErrorCode.NONE}
        errors = {e.partition: e.message or e.code.name for e in elected if e.partition not in ok}
        leaders = {w: views[w].leader for w in partitions} | {w: new_leader(client, w) for w in sorted(ok)}
    exit_code = 0 if all(w in ok for w in offline) else 1
    if as_json:
        print_outcomes(
            [
                outcome(w, done=w in ok, error=errors.get(w), leader=leaders[w], quote=polls.get(w))
                for w in partitions
            ],
            exit_code=exit_code,
        )
    else:
        words = errors | {w: f"broker {leaders[w]} leads" for w in ok}
        show(partitions, views, polls, words, yes)
    sys.exit(exit_code)


def new_leader(client: "SyncClient", where: "TopicPartition") -> int:
    """Whoever is asked may hear of it a moment after the controller has answered."""
    return client.retrying(lambda: client.leader(where, refresh=True)[0], timeout_s=LEADER_TIMEOUT_S)


def polled(
    client: "SyncClient", views: "dict[TopicPartition, PartitionView]"
) -> "dict[TopicPartition, dict[str, Any]]":
    with client.waiting_once():
        return {where: poll(client, where, view) for where, view in views.items()}


def poll(client: "SyncClient", where: "TopicPartition", view: "PartitionView") -> dict[str, Any]:
    """What each replica holds, and what choosing it would cost against the best of them."""
    from odradek.cli.elect.replica_ends import replica_ends

    epoch = max(0, view.leader_epoch)
    ends = replica_ends(client, where, view.replicas, leader_epoch=epoch, with_sizes=True)
    alive = [end for end in ends if end.log_end_offset is not None]
    # As the controller ranks them: where of one only the log end is known (a broker of Apache's), all are compared by that.
    only_ends = any(e.last_epoch < 0 < (e.log_end_offset or 0) for e in alive)
    best = max(alive, key=lambda e: (0 if only_ends else e.last_epoch, e.log_end_offset or 0), default=None)
    return {
        "isr": list(view.isr),
        "best": None if best is None else best.broker,
        "candidates": [_priced(end, best) for end in ends],
        "not_known": [b for b in view.isr if b not in {end.broker for end in alive}],
    }


def _priced(end: "ReplicaEnd", best: "ReplicaEnd | None") -> dict[str, Any]:
    lost = lost_bytes = None
    if end.log_end_offset is not None and best is not None and best.log_end_offset is not None:
        # Where the epochs part, everything after the common prefix goes; at least this many records.
        lost = max(0, best.log_end_offset - end.log_end_offset)
        if end.size_bytes is not None and best.size_bytes is not None:
            lost_bytes = max(0, best.size_bytes - end.size_bytes)
    return {
        "broker": end.broker,
        "last_epoch": end.last_epoch,
        "log_end_offset": end.log_end_offset,
        "bytes": end.size_bytes,
        "fewer_records_than_best": lost,
        "fewer_bytes_than_best": lost_bytes,
        "problem": end.problem,
    }


def show(
    partitions: "list[TopicPartition]",
    views: "dict[TopicPartition, PartitionView]",
    polls: "dict[TopicPartition, dict[str, Any]]",
    words: "dict[TopicPartition, str]",
    yes: bool,
) -> None:
    for where in partitions:
        if where not in polls:
            print(f"{where} is led by broker {views[where].leader}: no unclean election is needed")
            continue
        found = polls[where]
        print(headline(where, found))
        print_table(
            ("broker", "last epoch", "log end offset", "bytes", "fewer than the best", ""),
            [
                (
                    c["broker"],
                    "" if c["last_epoch"] < 0 else c["last_epoch"],
                    "" if c["log_end_offset"] is None else c["log_end_offset"],
                    "" if c["bytes"] is None else shown_bytes(c["bytes"]),
                    ""
                    if c["fewer_records_than_best"] is None
                    else counted(c["fewer_records_than_best"], "record"),
                    c["problem"] or ("best" if c["broker"] == found["best"] else ""),
                )
                for c in found["candidates"]
            ],
        )
        if where in words:
            print(f"{where}: {words[where]}")
    if not yes and any(found["best"] is not None for found in polls.values()):
        print("Nothing is elected yet; --yes elects, and what only the dead had is lost.")


def headline(where: "TopicPartition", found: dict[str, Any]) -> str:
    if found["best"] is None:
        return f"{where} has no replica that can lead: none is alive. Start any broker that has one."
    best = next(c for c in found["candidates"] if c["broker"] == found["best"])
    text = f"{where} would be led by broker {found['best']}, which holds it up to offset {best['log_end_offset']}"
    if found["not_known"]:
        who = ",".join(map(str, found["not_known"]))
        text += (
            f"; records that only broker {who} of the ISR holds beyond that are lost; how many is not known"
        )
    return text + "."
