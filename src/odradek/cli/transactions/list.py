"""`odradek txn list`"""

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

STATES = (
    *("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"),
    *("Dead", "PrepareEpochFence"),
)


@click.command(name="list")
@state_option(STATES, "Ongoing")
@bootstrap_option
@json_option
def list_transactions(states: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Ids, states, producers, coordinators. Exit code 1 if a broker does not tell its transactions, which is said on standard error."""
    from odradek.client import sync_transactions
    from odradek.client.sync import SyncClient

    with SyncClient(bootstrap) as client:
        found, problems = sync_transactions.list_transactions(client, states)
    names = ("transactional_id", "state", "producer_id", "coordinator")
    rows = [
        (one.transactional_id, one.transaction_state, one.producer_id, coordinator)
        for coordinator, one in found
    ]
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table([name.replace("_", " ") for name in names], rows)
    say_not_known("transactions", problems)
    sys.exit(1 if problems else 0)
