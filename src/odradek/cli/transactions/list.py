"""`odradek txn list`"""

import sys

import click

from odradek.cli.output import bootstrap_option, json_option, print_json, print_table, state_option

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

    problems: dict[int, str] = {}
    with SyncClient(bootstrap) as client:
        found = sync_transactions.list_transactions(client, states, problems)
    names = ("transactional_id", "state", "producer_id", "coordinator")
    rows = [
        (one.transactional_id, one.transaction_state, one.producer_id, coordinator)
        for coordinator, one in found
    ]
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table([name.replace("_", " ") for name in names], rows)
    for broker, why in problems.items():
        print(f"odradek: {not_known(broker, why)}", file=sys.stderr)
    sys.exit(1 if problems else 0)


def not_known(broker: int, why: str) -> str:
    return f"transactions of broker {broker} are not known: {why}"
