"""`odradek group list`"""

import sys

import click

from odradek.cli.output import (
    bootstrap_option,
    json_option,
    print_json,
    print_table,
    say_not_known,
    state_option,
)
from odradek.model.printable import named

# Of classic groups, and of those of KIP-848.
STATES = (
    *("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
    *("Assigning", "Reconciling"),
)


@click.command(name="list")
@state_option(STATES, "Stable")
@bootstrap_option
@json_option
def list_groups(states: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Names, states, coordinators. Exit code 1 if a broker does not tell its groups, which is said on standard error."""
    from odradek.client import sync_groups
    from odradek.client.sync import SyncClient

    with SyncClient(bootstrap) as client:
        found = sync_groups.list_groups(client)
    # Brokers before 2.6 do not tell the state of a group, those before 4.0 not its type.
    rows = [
        (name, told.group_state, told.group_type, told.protocol_type, broker)
        for name, (broker, told) in sorted(found.groups.items())
        if not states or told.group_state in states
    ]
    names = ("group", "state", "type", "protocol_type", "coordinator")
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table([name.replace("_", " ") for name in names], [(named(row[0]), *row[1:]) for row in rows])
    say_not_known("groups", found.problems)
    sys.exit(1 if found.problems else 0)
