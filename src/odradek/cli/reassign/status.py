"""`odradek reassign status`: what runs, at which of the twelve steps, and what it waits for.

With FILE also those of its moves that are done, or never began. Exit code 0 when nothing of it is left to do.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.controller_calls import poll
from odradek.cli.output import bootstrap_option, fail, json_option, print_json, print_table, write_picture
from odradek.cli.reassign.files import read_proposal
from odradek.cli.reassign.rows import Row

if TYPE_CHECKING:
    from odradek.client.sync import ClusterView, SyncClient
    from odradek.model.cluster import ReplicaAssignment
    from odradek.model.ids import TopicPartition

WATCH_S = 1.0
MEASURING_S = 10.0
STEPS = 12


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--watch", is_flag=True, help="Again every second, until nothing runs or Ctrl-C.")
@click.option("--remove-throttle", is_flag=True, help="Remove the throttle when no move runs any more.")
@click.option("--svg", type=click.Path(path_type=Path), help="Draw the steps into this file.")
@click.option("--html", type=click.Path(path_type=Path), help="The same as a page.")
@bootstrap_option
@json_option
def status(
    file: Path | None,
    watch: bool,
    remove_throttle: bool,
    svg: Path | None,
    html: Path | None,
    bootstrap: str,
    as_json: bool,
) -> None:
    """What runs, at which of its twelve steps, and what it waits for."""
    from odradek.client.sync import SyncClient

    targets = read_proposal(file) if file is not None else None
    is_again = False  # the first time it is said at once that nobody answers
    with SyncClient(bootstrap) as client:
        while True:
            rows = (
                poll(lambda: status_rows(client, targets, measured=True))
                if is_again
                else status_rows(client, targets, measured=True)
            )
            is_again = watch
            if as_json:
                print_json([as_dict(row) for row in rows])
            else:
                if watch and sys.stdout.isatty():
                    click.clear()
                show(rows)
                sys.stdout.flush()  # of a pipe, too, which is written by the block
            running = [row for row in rows if row.is_running]
            if not watch or not running:
                break
            time.sleep(WATCH_S)
        if remove_throttle:
            take_away(client, rows, as_json)
    if svg is not None or html is not None:
        from odradek.pictures.steps import status_page, status_svg

        write_picture(svg, lambda: status_svg(rows) + "\n")
        write_picture(html, lambda: status_page(rows))
    sys.exit(0 if all(row.is_done for row in rows) else 1)


def status_rows(
    client: "SyncClient", targets: "Mapping[TopicPartition, Any] | None" = None, *, measured: bool = False
) -> list[Row]:
    """Everything that runs, or what became of `targets`. `measured` also asks newcomers how far behind they are, for some seconds:
    after those it is not known of the others."""
    from odradek.cli.sources import running_reassignments

    unknown: list[str] = []
    running = running_reassignments(client, unknown)
    if unknown:
        fail(f"{unknown[0]}; the running reassignments are not known")
    wanted = sorted(running) if targets is None else sorted(targets)
    view = client.cluster({where.topic for where in wanted})
    end_s = time.monotonic() + MEASURING_S
    with client.waiting_once():
        return [
            _row(
                client,
                view,
                where,
                running.get(where),
                tuple((targets or {}).get(where, ())),
                is_measured=measured and time.monotonic() < end_s,
            )
            for where in wanted
        ]


def _row(
    client: "SyncClient",
    view: "ClusterView",
    where: "TopicPartition",
    node: "ReplicaAssignment | None",
    target: tuple[int, ...],
    *,
    is_measured: bool,
) -> Row:
    from odradek.advisor.reassignment_steps import progress
    from odradek.model.cluster import LeaderAndIsr
    from odradek.model.ids import BrokerId, LeaderEpoch

    topic = view.topics.get(where.topic)
    found = topic.partitions.get(where.partition) if topic is not None else None
    if found is None:
        return Row(where, (), target, (), (), -1, (), 0, f"there is no partition {where} any more")
    if node is None:
        sentence = "done" if target == found.replicas else f"does not run; it is on {list(found.replicas)}"
        return Row(where, found.replicas, target, (), (), found.leader, found.isr, 0, sentence)
    isr = tuple(BrokerId(b) for b in found.isr)
    state = LeaderAndIsr(BrokerId(found.leader), LeaderEpoch(max(0, found.leader_epoch)), isr)
    open_step = progress(where, node, state, [BrokerId(b) for b in view.brokers], found.replicas)
    return Row(
        where,
        node.replicas,
        node.target_replicas,
        node.adding_replicas,
        node.removing_replicas,
        found.leader,
        found.isr,
        open_step.step,
        open_step.sentence,
        _behind(client, where, node, found.leader, found.isr) if is_measured else None,
    )


def _behind(
    client: "SyncClient", where: "TopicPartition", node: "ReplicaAssignment", leader: int, isr: Sequence[int]
) -> int | None:
    from odradek.cli.elect.replica_ends import replica_ends

    copying = [b for b in node.target_replicas if b not in isr]
    if not copying or leader < 0:
        return None
    ends = {e.broker: e.log_end_offset for e in replica_ends(client, where, [leader, *copying])}
    lead = ends.get(leader)
    known = [end for broker, end in ends.items() if broker != leader and end is not None]
    if lead is None or not known:
        return None
    return max(0, lead - min(known))


def take_away(client: "SyncClient", rows: Sequence[Row], as_json: bool) -> None:
    from odradek.cli.reassign.throttle import remove_throttle, still_running

    why = still_running(client)
    if why is not None:
        fail(f"the throttle stays: {why}")
    topics = {row.partition.topic for row in rows} or set(client.cluster().topics)
    problems = remove_throttle(client, topics, sorted(client.cluster([]).brokers))
    if problems:
        fail(f"the throttle could not be removed everywhere: {problems[0]}")
    if not as_json:
        print("the throttle is removed")


def progress_line(done: int, all_: int, running: Sequence[Row]) -> str:
    text = f"{done} of {all_} done"
    return (
        f"{text}; {running[0].partition} at step {running[0].step} of {STEPS}: {running[0].sentence}"
        if running
        else text
    )


def as_dict(row: Row) -> dict[str, Any]:
    return {
        "partition": str(row.partition),
        "running": row.is_running,
        "done": row.is_done,
        "step": row.step or None,
        "sentence": row.sentence,
        "replicas": list(row.replicas),
        "target": list(row.target),
        "adding": list(row.adding),
        "removing": list(row.removing),
        "leader": row.leader,
        "isr": list(row.isr),
        "records_behind": row.behind,
    }


def show(rows: Sequence[Row]) -> None:
    running = [row for row in rows if row.is_running]
    if not rows:
        print("No reassignment runs.")
        return
    done = sum(row.is_done for row in rows)
    print(f"{len(running)} running, {done} done, {len(rows) - len(running) - done} neither.")
    print_table(
        ("partition", "step", "replicas", "target", "leader", "isr", "behind", "it waits for"),
        [
            (
                str(row.partition),
                f"{row.step}/{STEPS}" if row.is_running else "done" if row.is_done else "-",
                ",".join(map(str, row.replicas)),
                ",".join(map(str, row.target)),
                row.leader if row.leader >= 0 else "none",
                ",".join(map(str, row.isr)),
                "" if row.behind is None else row.behind,
                "" if row.is_done else row.sentence,
            )
            for row in rows
        ],
    )
