"""`odradek reassign apply FILE`: start the moves of a file, throttled if asked for; with --wait until they are done.

Ctrl-C while it waits leaves the moves running, as does whatever else ends the wait. Exit code 1 when a partition was refused;
the others have started. So too when one that was waited for ended elsewhere: cancelled, or its topic deleted.
"""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli import terminal
from odradek.cli.controller_calls import ask_controller, poll
from odradek.cli.output import address_option, fail, json_option, print_json, print_table
from odradek.cli.quantities import RATE, shown_bytes
from odradek.cli.reassign.files import proposal, read_proposal, write_way_back
from odradek.cli.reassign.status import progress_line, status_rows
from odradek.model.counted import counted, numbered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from odradek.client.sync import ClusterView, SyncClient
    from odradek.model.cluster import ReplicaAssignment
    from odradek.model.ids import BrokerId, TopicPartition

WAIT_PAUSE_S = 0.2
SETTLED_S = 5.0  # a broker that is asked for metadata has heard by then what the controller has finished
STAYS = "stays until odradek reassign status --remove-throttle"


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--throttle", type=RATE, help="Bytes a second each broker may copy, as in 10MB.")
@click.option(
    "--wait", is_flag=True, help="Until every move is done; then, if no other runs, the throttle goes again."
)
@click.option(
    "--rollback",
    type=click.Path(path_type=Path),
    help="Write the way back here, before it starts; never over an earlier one.",
)
@address_option
@json_option
def apply(
    file: Path, throttle: int | None, wait: bool, rollback: Path | None, bootstrap: str, as_json: bool
) -> None:
    """Start the moves of FILE, as `reassign plan` or Apache's tool wrote it; - is standard input."""
    from odradek.cli.reassign.throttle import put_back, remove_or_say, set_throttle, still_running
    from odradek.cli.sources import running_reassignments
    from odradek.cli.waiting import wait_for_cluster
    from odradek.client.sync import SyncClient

    directories: dict[tuple[TopicPartition, int], str] = {}
    targets = read_proposal(file, directories)
    if wait:
        wait_for_cluster(bootstrap, quiet=as_json)
    with SyncClient(bootstrap) as client:
        view = client.cluster({where.topic for where in targets})
        unknown: list[str] = []
        running = running_reassignments(client, unknown)
        before = current(view, targets, running)
        for asked, what in ((rollback, "the way back is written"), (throttle, "a throttle is set")):
            if unknown and asked is not None:
                fail(f"{unknown[0]}; what runs must be known before {what}; nothing was started")
        if rollback is not None:
            write_way_back(rollback, before, plan=file)
        undo = set_throttle(client, before, targets, running, throttle) if throttle is not None else {}
        try:
            send_to(client, directories)
        except BaseException:
            put_back(client, undo)
            raise
        try:
            refused = alter(client, dict(targets))
        except BaseException:
            if undo:
                # Nobody knows what has started: a throttle on nothing costs less than a copy without one.
                print(f"odradek: the throttle {STAYS}", file=sys.stderr)
            raise
        started = [where for where in targets if where not in refused]
        if not started:
            put_back(client, undo)
        if not as_json:
            show(started, refused, before, targets, throttle, rollback)
        done = False
        not_done: dict[TopicPartition, str] = {}
        if wait and started:
            go_on = ["the moves go on"]
            try:
                not_done = wait_for(client, {where: targets[where] for where in started}, quiet=as_json)
                done = not not_done
                arrived = [where for where in started if where not in not_done]
                arriving = {key: path for key, path in directories.items() if key[0] in arrived}
                wait_for_directories(client, arriving, quiet=as_json)
                go_on = []
                if throttle is not None:
                    others = poll(lambda: still_running(client))
                    if others is None:
                        remove_or_say(client, {where.topic for where in targets}, sorted(view.brokers))
                    else:
                        print(f"odradek: {others}; the throttle {STAYS}", file=sys.stderr)
            except BaseException:  # whoever reads standard output may be gone, too
                words = ", and ".join(go_on + ([] if throttle is None else [f"the throttle {STAYS}"]))
                how = f"; odradek reassign status {shlex.quote(str(file))}" if go_on else ""
                if words:
                    print(f"\nodradek: {words}{how}", file=sys.stderr)
                raise
            for where, what in () if as_json else not_done.items():
                print(f"odradek: {where}: {what}", file=sys.stderr)
        if as_json:
            print_json(
                {
                    "started": [str(where) for where in started],
                    "refused": {str(where): why for where, why in refused.items()},
                    "throttle": throttle,
                    "done": done,
                    "not_done": {str(where): what for where, what in not_done.items()},
                    "rollback": proposal(before) if not unknown else None,
                }
            )
    sys.exit(1 if refused or not_done else 0)


def current(
    view: "ClusterView",
    targets: "Mapping[TopicPartition, Any]",
    running: "Mapping[TopicPartition, ReplicaAssignment]",
) -> "dict[TopicPartition, tuple[int, ...]]":
    """Replicas as they are now, and of what moves already as they were before; Metadata has those that are being added among
    them. A partition that is not there is said before anything starts."""
    before = {}
    for where in sorted(targets):
        topic = view.topics.get(where.topic)
        if topic is None:
            fail(
                f"there is no topic {where.topic}; odradek topic list shows all of them; nothing was started"
            )
        if where.partition not in topic.partitions:
            count = len(topic.partitions)
            fail(
                f"{where.topic} has {numbered(count, 'partition')}; there is no {where.partition}; nothing was started"
            )
        moving = running.get(where)
        replicas = topic.partitions[where.partition].replicas
        before[where] = replicas if moving is None else moving.origin_replicas
    return before


def alter(
    client: "SyncClient", targets: "Mapping[TopicPartition, tuple[BrokerId, ...] | None]"
) -> "dict[TopicPartition, str]":
    """AlterPartitionReassignments, None cancels; what was refused, with the controller's sentence."""
    from odradek.client.sync import answered, code_of
    from odradek.model.error_codes import ErrorCode
    from odradek.model.ids import TopicPartition
    from odradek.protocol.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )

    by_topic: dict[str, list[ReassignablePartition]] = {}
    for where, replicas in sorted(targets.items(), key=lambda item: item[0]):
        by_topic.setdefault(where.topic, []).append(
            ReassignablePartition(
                partition_index=where.partition, replicas=None if replicas is None else list(replicas)
            )
        )
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=30_000,
        topics=[ReassignableTopic(name=name, partitions=members) for name, members in by_topic.items()],
    )
    answer = ask_controller(
        client, request, lambda a: (a.error_code, *(p.error_code for t in a.responses for p in t.partitions))
    )
    if answer.error_code != ErrorCode.NONE:
        raise answered(answer.error_code, "reassignment", answer.error_message)
    return {
        TopicPartition(topic.name, p.partition_index): (
            f"{code_of(p.error_code).name}: {p.error_message}"
            if p.error_message
            else code_of(p.error_code).name
        ).rstrip(".")
        for topic in answer.responses
        for p in topic.partitions
        if p.error_code != ErrorCode.NONE
    }


def wait_for(
    client: "SyncClient", targets: "Mapping[TopicPartition, tuple[BrokerId, ...]]", *, quiet: bool
) -> "dict[TopicPartition, str]":
    """Until none of them runs any more; what became of those that are not where they were to go. Says how far it is; on a
    terminal in one line."""
    import time

    told = ""
    settled_s: float | None = None  # when what does not run and is not done is no matter of metadata
    while True:
        every = poll(lambda: status_rows(client, targets))
        rows = [row for row in every if row.is_running]
        others = {row.partition: row.sentence for row in every if not row.is_running and not row.is_done}
        now_s = time.monotonic()
        if rows:
            settled_s = None
        elif others and settled_s is None:
            settled_s = now_s + SETTLED_S
        if settled_s is not None and others and now_s < settled_s:
            time.sleep(WAIT_PAUSE_S)
            continue
        line = progress_line(len(targets) - len(rows) - len(others), len(targets), rows)
        if not quiet and line != told:
            told = line
            if sys.stdout.isatty():
                _print_over(line)
            else:
                print(line, flush=True)
        if not rows:
            if not quiet and sys.stdout.isatty():
                print()
            return others
        time.sleep(WAIT_PAUSE_S)


def _print_over(line: str) -> None:
    """In the place of the line before, on a terminal; as much of it as a line has room for, or the rest would stay."""
    print(f"\r\033[K{line[: terminal.columns()]}", end="", flush=True)


def send_to(client: "SyncClient", wanted: "Mapping[tuple[TopicPartition, int], str]") -> None:
    """Before any partition is reassigned: a directory that a broker does not have is a mistake in the file."""
    from odradek.cli.reassign.directories import ask

    for (where, broker), why in ask(client, wanted).items():
        path = wanted[where, broker]
        there = "odradek log dirs lists those there are"
        fail(
            f"{where} cannot go to {path} of broker {broker}: {why}; no partition was reassigned, and {there}"
        )


def wait_for_directories(
    client: "SyncClient", wanted: "Mapping[tuple[TopicPartition, int], str]", *, quiet: bool
) -> None:
    """Until every replica is in its directory. A broker that is not there is waited for as any move is."""
    import time

    from odradek.cli.reassign.directories import still_coming

    if not wanted:
        return
    while coming := poll(lambda: still_coming(client, wanted)):
        time.sleep(WAIT_PAUSE_S)
        if not quiet and sys.stdout.isatty():
            _print_over(f"{counted(len(coming), 'replica')} on the way to a log directory")
    if not quiet:
        if sys.stdout.isatty():
            _print_over("")
        print(f"{len(wanted)} of {counted(len(wanted), 'replica')} in place in the log directories")


def show(
    started: "list[TopicPartition]",
    refused: "dict[TopicPartition, str]",
    before: "Mapping[TopicPartition, tuple[int, ...]]",
    targets: "Mapping[TopicPartition, tuple[int, ...]]",
    throttle: int | None,
    rollback: Path | None,
) -> None:
    slow = f", at most {shown_bytes(throttle)}/s a broker" if throttle is not None and started else ""
    print(f"{len(started)} of {counted(len(targets), 'move')} started{slow}.")
    print_table(
        ("partition", "from", "to", "answer"),
        [
            (
                str(where),
                ",".join(map(str, before[where])),
                ",".join(map(str, targets[where])),
                refused.get(where, "started"),
            )
            for where in sorted(targets)
        ],
    )
    if rollback is not None:
        print(f"the way back is in {rollback}")
