"""`odradek group describe [GROUP...]`"""

import sys

import click

from odradek.cli.output import bootstrap_option, json_option, print_json, print_table, say_not_known
from odradek.model.printable import named


@click.command()
@click.argument("names", nargs=-1, metavar="[GROUP]...")
@bootstrap_option
@json_option
def describe(names: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """State, coordinator, members and lag of groups; of all of them when none is named. Exit code 1 if a broker does not tell its
    groups then, which is said on standard error."""
    from odradek.cli.groups.descriptions import (
        describe_groups,
        describe_or_fail,
        positions_of,
        total_lag,
    )
    from odradek.client import sync_groups
    from odradek.client.sync import SyncClient

    rows = []
    problems: dict[int, str] = {}
    with SyncClient(bootstrap) as client:
        if names:
            groups = describe_or_fail(client, names).values()
        else:
            listed = sync_groups.list_groups(client)
            groups, problems = describe_groups(client, listed.groups).values(), listed.problems
        every, _ = positions_of(client, groups)
        for group, read in zip(groups, every, strict=True):
            rows.append(
                {
                    "group": group.name,
                    "state": group.state,
                    "type": group.kind,
                    "protocol_type": group.protocol_type,
                    "assignor": group.assignor,
                    "coordinator": group.coordinator,
                    "members": len(group.members),
                    "partitions": len(read),
                    "lag": total_lag(read),
                }
            )
    if as_json:
        print_json(rows)
    else:
        columns = ("group", "state", "type", "assignor", "coordinator", "members", "partitions", "lag")
        shown = [{**row, "group": named(str(row["group"]))} for row in rows]
        print_table(columns, [["?" if row[name] is None else row[name] for name in columns] for row in shown])
    say_not_known("groups", problems)
    sys.exit(1 if problems else 0)
