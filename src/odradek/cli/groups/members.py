"""`odradek group members GROUP`"""

import click

from odradek.cli.output import bootstrap_option, json_option, print_json, print_table
from odradek.model.counted import counted
from odradek.model.printable import named


@click.command()
@click.argument("name", metavar="GROUP")
@bootstrap_option
@json_option
def members(name: str, bootstrap: str, as_json: bool) -> None:
    """The members of a group, and the partitions of each."""
    from odradek.cli.groups.descriptions import as_list, describe_or_fail
    from odradek.client.sync import SyncClient

    with SyncClient(bootstrap) as client:
        (group,) = describe_or_fail(client, [name]).values()
    if as_json:
        print_json(
            [
                {
                    "member": member.member_id,
                    "instance": member.instance_id,
                    "client": member.client_id,
                    "host": member.host,
                    "topics": None if member.topics is None else list(member.topics),
                    "partitions": None
                    if member.partitions is None
                    else [
                        {"topic": where.topic, "partition": where.partition} for where in member.partitions
                    ],
                }
                for member in group.members
            ]
        )
        return
    if not group.members:
        print(f"{named(name)} is {group.state} and has no members")
        return
    print(f"{named(name)} is {group.state}: {counted(len(group.members), 'member')}")
    print_table(
        ("member", "instance", "client", "host", "count", "partitions"),
        [
            (
                member.member_id,
                member.instance_id,
                member.client_id,
                member.host,
                "?" if member.partitions is None else len(member.partitions),
                "not shown" if member.partitions is None else as_list(member.partitions),
            )
            for member in group.members
        ],
    )
