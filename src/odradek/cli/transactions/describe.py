"""`odradek txn describe ID`"""

import click

from odradek.cli.output import bootstrap_option, fail, json_option, not_known, print_json
from odradek.model.printable import printable


@click.command()
@click.argument("transactional_id", metavar="ID")
@bootstrap_option
@json_option
def describe(transactional_id: str, bootstrap: str, as_json: bool) -> None:
    """State, producer, time-out, since when, and the partitions it writes to or whose marker it waits for."""
    from odradek.client import sync_transactions
    from odradek.client.sync import SyncClient

    with SyncClient(bootstrap) as client:
        found, problems = sync_transactions.list_transactions(client)
        listed = {one.transactional_id: coordinator for coordinator, one in found}
        if transactional_id not in listed and problems:
            silent = "; ".join(not_known("transactions", problems))
            fail(f"no broker that answers knows transactional id {transactional_id}; {silent}")
        if transactional_id not in listed:
            fail(f"there is no transactional id {transactional_id}; odradek txn list shows those there are")
        row = sync_transactions.describe(client, listed[transactional_id], transactional_id)
    told = {
        "transactional_id": transactional_id,
        "state": row.transaction_state,
        "coordinator": listed[transactional_id],
        "producer_id": row.producer_id,
        "producer_epoch": row.producer_epoch,
        "timeout_ms": row.transaction_timeout_ms,
        "started_at_ms": row.transaction_start_time_ms,
        "partitions": [f"{topic.topic}-{index}" for topic in row.topics for index in topic.partitions],
    }
    if as_json:
        print_json(told)
        return
    for name, value in told.items():
        shown = ", ".join(value) or "-" if isinstance(value, list) else value
        print(f"{name.replace('_', ' ')}: {printable(str(shown))}")
