"""`odradek reassign plan`: the fewest moves that drain, fill, resize or rebalance; nothing is started.

The file it writes is that of Apache's ReassignPartitionsCommand; `odradek reassign apply` and Apache's tool take it.
"""

import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.broker_lists import broker_ids
from odradek.cli.output import fail, json_option, print_json, print_table
from odradek.cli.quantities import RATE, shown_bytes
from odradek.cli.reassign.files import check_way_back, proposal, read_topics, write_proposal
from odradek.cli.sources import open_source, source_options
from odradek.model.counted import counted, first_of
from odradek.pictures.figures import shown_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from odradek.advisor.move_plan import MovePlan
    from odradek.model.ids import TopicPartition

SHOWN_MOVES = 20


@click.command()
@click.option("--drain", multiple=True, metavar="ID[,ID]", help="Brokers that all replicas leave.")
@click.option("--add", multiple=True, metavar="ID[,ID]", help="New brokers that take their share.")
@click.option(
    "--replication-factor",
    "-r",
    type=click.IntRange(min=1),
    help="So many replicas of each; of those that have more, the plan names which lose copies.",
)
@click.option("--rebalance", is_flag=True, help="Even out replicas, racks and preferred leaders.")
@click.option("--topic", "-t", "topics", multiple=True, help="Only these topics; repeatable.")
@click.option(
    "--topics-file",
    type=click.Path(path_type=Path),
    help="Topics as Apache's --topics-to-move-json-file has them.",
)
@click.option("--throttle", type=RATE, help="Bytes a second, as in 10MB: how long would it take?")
@click.option("--out", type=click.Path(path_type=Path), help="Write the plan here, for `reassign apply`.")
@click.option(
    "--rollback", type=click.Path(path_type=Path), help="Write the way back here; never over another one."
)
@source_options
@json_option
def plan(
    drain: tuple[str, ...],
    add: tuple[str, ...],
    replication_factor: int | None,
    rebalance: bool,
    topics: tuple[str, ...],
    topics_file: Path | None,
    throttle: int | None,
    out: Path | None,
    rollback: Path | None,
    bootstrap: str,
    place: Path | None,
    journal: Path | None,
    at: str | None,
    as_json: bool,
) -> None:
    """The fewest moves that reach a goal; nothing is started."""
    from odradek.advisor.move_plan import MoveGoal, move_plan

    if out is not None and rollback is not None and out.resolve() == rollback.resolve():
        raise click.UsageError("--out and --rollback name one file; the plan and the way back need one each")
    if not (drain or add or replication_factor or rebalance):
        raise click.UsageError("no goal is given: say --drain, --add, --replication-factor or --rebalance")
    names = [*topics, *(read_topics(topics_file) if topics_file is not None else ())]
    goal = MoveGoal(
        drain=frozenset(broker_ids(drain, "--drain")),
        fill=frozenset(broker_ids(add, "--add")),
        replication_factor=replication_factor,
        rebalance=rebalance,
        topics=frozenset(names) if names else None,
    )
    source = open_source(bootstrap=bootstrap, place=place, journal=journal, at=at)
    try:
        found = move_plan(source.observed(), goal)
    except ValueError as error:
        fail(str(error))
    is_live = place is None and journal is None
    unknown = source.not_known(source.silent.keys() - goal.drain)
    sizes = sizes_of(source.answering, found, unknown) if is_live and found.moves else {}
    if rollback is not None:
        check_way_back(rollback, found.rollback, "nothing was written")
    if out is not None:
        write_proposal(out, found.targets)
    if rollback is not None:
        write_proposal(rollback, found.rollback)
    report = as_dict(found, sizes, throttle)
    if as_json:
        print_json({**report, "unknown": unknown, "source": source.where})
    else:
        show(report, throttle, out)
        for note in unknown:
            print(f"not known: {note}")
    sys.exit(1 if report["left_out"] else 0)


def sizes_of(bootstrap: str, plan: "MovePlan", unknown: list[str]) -> "dict[TopicPartition, int]":
    """Bytes of each partition that would be copied, as its leader has it on disk; unknown ones are left out, and of a leader that does
    not answer `unknown` has the reason."""
    from odradek.client.sync import SyncClient
    from odradek.client.sync_log_sizes import log_sizes
    from odradek.model.errors import OdradekError

    by_leader: dict[int, list[TopicPartition]] = {}
    sizes: dict[TopicPartition, int] = {}
    with SyncClient(bootstrap) as client:
        view = client.cluster({move.topic_partition.topic for move in plan.moves})
        for move in plan.moves:
            where = move.topic_partition
            topic = view.topics.get(where.topic)
            found = topic.partitions.get(where.partition) if topic is not None else None  # deleted meanwhile
            if move.adding and found is not None and found.leader in view.brokers:
                by_leader.setdefault(found.leader, []).append(where)
        for leader, partitions in sorted(by_leader.items()):
            try:
                sizes.update(log_sizes(client, leader, partitions))
            except OdradekError as error:
                unknown.append(f"how large the logs are that broker {leader} leads: {error}")
    return sizes


def as_dict(plan: "MovePlan", sizes: "dict[TopicPartition, int]", throttle: int | None) -> dict[str, Any]:
    from odradek.advisor.move_plan import bytes_by_broker

    total, received, unknown = bytes_by_broker(plan, sizes)
    busiest = max(received.values(), default=0)
    return {
        "moves": [
            {
                "partition": str(move.topic_partition),
                "before": list(move.before),
                "after": list(move.after),
                "adding": list(move.adding),
                "removing": list(move.removing),
                "bytes": sizes.get(move.topic_partition) if move.adding else 0,
            }
            for move in plan.moves
        ],
        "copies": plan.copies,
        "bytes": total if not unknown else None,
        "bytes_known": total,
        "copies_of_unknown_size": unknown,
        "bytes_by_receiver": {str(broker): size for broker, size in sorted(received.items())},
        "seconds": busiest / throttle if throttle and not unknown else None,
        "fewer_replicas": {
            str(move.topic_partition): {"before": len(move.before), "after": len(move.after)}
            for move in plan.moves
            if len(move.after) < len(move.before)
        },
        "left_out": {str(where): why for where, why in plan.left_out.items()},
        "waits_for": {str(where): list(brokers) for where, brokers in plan.waits_for.items()},
        "plan": proposal(plan.targets),
        "rollback": proposal(plan.rollback),
    }


def show(report: dict[str, Any], throttle: int | None, out: Path | None) -> None:
    moves = report["moves"]
    if not moves and report["left_out"]:
        print(f"No move reaches that: {_count(report)} left out, each with its reason below.")
    elif not moves:
        print("Nothing needs to move.")
    else:
        print(headline(report, throttle) + (f" {_count(report)} left out." if report["left_out"] else ""))
        print_table(
            ("partition", "from", "to", "copies to", "leaves", "bytes"),
            [
                (
                    move["partition"],
                    ",".join(map(str, move["before"])),
                    ",".join(map(str, move["after"])),
                    ",".join(map(str, move["adding"])) or "-",
                    ",".join(map(str, move["removing"])) or "-",
                    "unknown" if move["bytes"] is None else shown_bytes(move["bytes"]),
                )
                for move in moves[:SHOWN_MOVES]
            ],
        )
        if len(moves) > SHOWN_MOVES:
            print(f"and {len(moves) - SHOWN_MOVES} more; --json lists all")
        if report["fewer_replicas"]:
            print(fewer(report["fewer_replicas"]))
        where = shlex.quote(str(out)) if out is not None else "FILE"
        hint = "" if out is not None else " (--out FILE writes it)"
        print(f"start it with: odradek reassign apply {where}{hint}")
    for sentence in waiting(report["waits_for"]):
        print(sentence)
    for partition, why in list(report["left_out"].items())[:SHOWN_MOVES]:
        print(f"left out: {partition}: {why}")
    if len(report["left_out"]) > SHOWN_MOVES:
        print(f"and {len(report['left_out']) - SHOWN_MOVES} more left out; --json lists all")


def waiting(waits_for: "Mapping[str, Sequence[int]]") -> "Iterator[str]":
    """For each broker that is not available and holds up the end of moves."""
    held_up = Counter(broker for brokers in waits_for.values() for broker in brokers)
    for broker, moves in sorted(held_up.items()):
        first = next(where for where, brokers in waits_for.items() if broker in brokers)
        what = f"the move of {first} does" if moves == 1 else f"{moves} moves, first that of {first}, do"
        yield f"{what} not end before broker {broker} serves its replica again: start it, or drain it too"


def fewer(partitions: "Mapping[str, Mapping[str, int]]") -> str:
    """Whoever says how many replicas there are to be may not have known that some have more."""
    lost = sum(of["before"] - of["after"] for of in partitions.values())
    named = [f"{where} ({of['before']} -> {of['after']})" for where, of in partitions.items()]
    verb = "loses" if len(named) == 1 else "lose"
    return (
        f"{counted(len(named), 'partition')} {verb} {counted(lost, 'copy', 'copies')}, which are deleted: "
        f"{first_of(named, SHOWN_MOVES)}; to keep them leave them out of the plan (--topic, or edit its file)"
    )


def _count(report: dict[str, Any]) -> str:
    count = len(report["left_out"])
    return f"{counted(count, 'partition')} {'is' if count == 1 else 'are'}"


def headline(report: dict[str, Any], throttle: int | None) -> str:
    moves, copies = len(report["moves"]), report["copies"]
    verb = "changes" if moves == 1 else "change"
    text = f"{counted(moves, 'partition')} {verb} hands, {counted(copies, 'copy', 'copies')} to make"
    if not copies and report["fewer_replicas"]:
        return f"{text}: replicas go, no bytes."
    if not copies:
        return f"{text}: only the order of replicas changes, no bytes."
    if report["bytes"] is None:
        text += (
            f", {shown_bytes(report['bytes_known'])} and {report['copies_of_unknown_size']} of unknown size"
        )
    else:
        text += f", {shown_bytes(report['bytes'])}"
    if report["seconds"] is not None:
        text += (
            f"; about {shown_seconds(report['seconds'])} at {shown_bytes(throttle or 0)}/s for each receiver"
        )
    return f"{text}."
