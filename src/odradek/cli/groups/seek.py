"""`odradek group seek GROUP --topic orders --to-earliest`: sets where a group goes on.

The choices are those of `kafka-consumer-groups --reset-offsets` (--to-earliest, --to-latest, --to-datetime, --to-offset,
--shift-by), and as there nothing is done unless told: that tool shows by default and moves with --execute, this one with
--yes or --execute. An offset outside of what the partition holds becomes its start or its end, with a word, as there.
A group with members is refused: they would commit over it, and its coordinator takes no such commit.
"""

import sys
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.outcomes import outcome, print_outcomes
from odradek.cli.output import bootstrap_option, fail, json_option, print_table
from odradek.model.counted import counted, numbered
from odradek.model.printable import named

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient
    from odradek.model.ids import TopicPartition


@click.command()
@click.argument("name", metavar="GROUP")
@click.option(
    "--topic", "-t", "topics", multiple=True, metavar="TOPIC[:0,2]", help="A topic, or some partitions."
)
@click.option("--all-topics", is_flag=True, help="Every partition the group has committed.")
@click.option("--to-earliest", is_flag=True, help="The first record.")
@click.option("--to-latest", is_flag=True, help="The end: only new records.")
@click.option(
    "--to-timestamp",
    metavar="TIME",
    help="The first record from then on: 1h (ago), 2026-01-31T12:00 (UTC), or ms since 1970.",
)
@click.option("--to-offset", type=click.IntRange(0), help="This offset, in each partition.")
@click.option("--by", type=int, help="So many records after the committed offset; before it if negative.")
@click.option("--yes", "--execute", "-y", "yes", is_flag=True, help="Do it. Without it nothing is moved.")
@bootstrap_option
@json_option
def seek(
    name: str,
    topics: tuple[str, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_timestamp: str | None,
    to_offset: int | None,
    by: int | None,
    yes: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Set the committed offsets of a group without members. Without --yes it only shows what would change."""
    from odradek.cli.groups.descriptions import describe_groups
    from odradek.cli.sources import now_ms
    from odradek.cli.topic.offsets import timestamp_ms
    from odradek.client import sync_groups
    from odradek.client.sync import SyncClient
    from odradek.model.error_codes import ErrorCode

    if bool(topics) == all_topics:
        raise click.UsageError("say which partitions: --topic orders, --topic orders:0,2, or --all-topics")
    given = (to_earliest or None, to_latest or None, to_timestamp, to_offset, by)
    if sum(choice is not None for choice in given) != 1:
        raise click.UsageError("say one of --to-earliest, --to-latest, --to-timestamp, --to-offset, --by")
    time = None
    if to_timestamp is not None:
        try:
            time = timestamp_ms(to_timestamp, now_ms())
        except ValueError:
            raise click.UsageError(
                f"--to-timestamp {to_timestamp}: there is no such time; expected 1h (ago), "
                "2026-01-31T12:00 (UTC), or ms since 1970"
            ) from None
    with SyncClient(bootstrap) as client:
        group = describe_groups(client, [name]).get(name)
        if group is not None and group.is_active:
            fail(
                f"{named(name)} is {group.state}, with {counted(len(group.members), 'member')}: stop them first, they "
                "would commit over what is set"
            )
        committed = sync_groups.committed(client, name) if group is not None else {}
        chosen = sorted(committed) if all_topics else partitions_named(client, topics)
        if not chosen:
            fail(f"{named(name)} has committed nothing, so there is nothing to move; name a --topic")
        wanted, notes = targets(
            client,
            chosen,
            committed,
            earliest=to_earliest,
            latest=to_latest,
            time=time,
            offset=to_offset,
            by=by,
        )
        codes = sync_groups.commit(client, name, wanted) if yes else {}
    report = []
    for where, offset in wanted.items():
        code = codes.get(where, ErrorCode.NONE)
        refusal = None if code == ErrorCode.NONE else f"{code.name}{_meaning(code)}"
        report.append(
            outcome(
                where,
                done=yes and refusal is None,
                error=refusal,
                topic=where.topic,
                partition=where.partition,
                before=committed.get(where),
                after=offset,
                note=notes.get(where),
            )
        )
    exit_code = 0 if yes and not any(entry["error"] for entry in report) else 1
    if as_json:
        print_outcomes(report, exit_code=exit_code)
    else:
        show(name, report, yes)
    sys.exit(exit_code)


def partitions_named(client: "SyncClient", topics: tuple[str, ...]) -> "list[TopicPartition]":
    from odradek.cli.lookup import topic_or_fail
    from odradek.model.ids import TopicPartition, number_in

    found = set()
    for text in topics:
        topic, colon, numbers = text.partition(":")  # no topic has a colon in its name
        there = topic_or_fail(client, topic).partitions
        if not colon:
            found |= {TopicPartition(topic, index) for index in there}
            continue
        for piece in numbers.split(","):
            number = number_in(piece)
            if number is None:
                raise click.UsageError(f"--topic {text}: expected partitions by number, as in {topic}:0,2")
            if number not in there:
                fail(f"{topic} has {numbered(len(there), 'partition')}; there is no {number}")
            found.add(TopicPartition(topic, number))
    return sorted(found)


def targets(
    client: "SyncClient",
    chosen: "list[TopicPartition]",
    committed: "dict[TopicPartition, int]",
    *,
    earliest: bool,
    latest: bool,
    time: int | None,
    offset: int | None,
    by: int | None,
) -> "tuple[dict[TopicPartition, int], dict[TopicPartition, str]]":
    """Where each is to go on, always within what it holds; and what there is to say of some."""
    from odradek.cli.groups.descriptions import borders

    starts, ends, problems = borders(client, chosen)
    for where, why in problems.items():
        fail(f"{where}: where it begins and ends is not known, so nothing is moved: {why}")
    if earliest or latest:
        return {where: starts[where] if earliest else ends[where] for where in chosen}, {}
    notes: dict[TopicPartition, str] = {}
    if time is not None:
        found = client.list_offsets(dict.fromkeys(chosen, time))
        late = [where for where in chosen if found[where].offset < 0]
        notes = dict.fromkeys(late, "no record that late: its end")
        return {where: ends[where] if where in late else found[where].offset for where in chosen}, notes
    wanted = {}
    for where in chosen:
        if by is not None and where not in committed:
            fail(f"{where}: nothing is committed, so there is nothing to count --by from")
        asked = committed[where] + by if by is not None else offset
        assert asked is not None, "one of the choices was given"
        wanted[where] = min(max(asked, starts[where]), ends[where])
        if wanted[where] != asked:
            notes[where] = f"{asked} is {'below its start' if asked < starts[where] else 'beyond its end'}"
    return wanted, notes


def _meaning(code: int) -> str:
    from odradek.model.error_codes import ErrorCode

    joined = code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
    return ": a member has joined the group meanwhile" if joined else ""


def show(name: str, report: list[dict[str, Any]], yes: bool) -> None:
    print(f"{named(name)}: {'moved' if yes else 'nothing is moved yet; --yes moves'}")
    print_table(
        ("partition", "committed", "new", ""),
        [
            (
                entry["target"],
                "-" if entry["before"] is None else entry["before"],
                entry["after"],
                entry["error"] or entry["note"],
            )
            for entry in report
        ],
    )
