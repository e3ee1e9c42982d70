"""`odradek txn abort TOPIC PARTITION --producer N`: an abort marker for a transaction that nobody ends. Without --yes it is
shown and nothing is written.

Records of a transaction that its coordinator still has open would be half of it: such a one is not touched. Of one of another
transaction of the same producer, which does not hold this partition, nobody else will say how it ends.
"""

import sys

import click

from odradek.cli.outcomes import outcome, print_outcomes
from odradek.cli.output import bootstrap_option, fail, json_option, not_known


@click.command()
@click.argument("topic")
@click.argument("partition", type=int)
@click.option("--producer", type=int, required=True, help="The producer id, as find-hanging shows it.")
@click.option("--yes", "-y", is_flag=True, help="Do it. Without it nothing is written.")
@bootstrap_option
@json_option
def abort(topic: str, partition: int, producer: int, yes: bool, bootstrap: str, as_json: bool) -> None:
    """End a hanging transaction in one partition."""
    from odradek.cli.lookup import topic_or_fail
    from odradek.client import sync_transactions
    from odradek.client.sync import SyncClient
    from odradek.model.ids import TopicPartition

    place = TopicPartition(topic, partition)
    with SyncClient(bootstrap) as client:
        topic_or_fail(client, topic)
        found = [
            one
            for one in sync_transactions.producers(client, place)
            if one.producer_id == producer and one.current_txn_start_offset >= 0
        ]
        if not found:
            fail(
                f"producer {producer} has no transaction open in {place}; odradek txn find-hanging shows some"
            )
        open_, problems = sync_transactions.list_transactions(client, sync_transactions.OPEN_STATES)
        for listed in open_:
            one = listed.transaction
            if one.producer_id == producer and sync_transactions.holds(client, listed, place):
                fail(
                    f"{one.transactional_id} is {one.transaction_state} at broker {listed.coordinator}, which will end it: "
                    "nothing is written"
                )
        if problems:  # it may be one of theirs
            fail(f"{'; '.join(not_known('transactions', problems))}: nothing is written")
        if not sync_transactions.is_open_still(client, place, found[0]):
            fail(f"the transaction of producer {producer} in {place} has just ended: nothing is written")
        said = f"the transaction of producer {producer} in {place}, open since offset {found[0].current_txn_start_offset}"
        if yes:
            sync_transactions.abort(client, place, found[0])
    exit_code = 0 if yes else 1
    if as_json:
        start = found[0].current_txn_start_offset
        told = outcome(place, done=yes, producer_id=producer, start_offset=start)
        print_outcomes([told], exit_code=exit_code)
    else:
        print(f"aborted {said}" if yes else f"would abort {said}; --yes does it")
    sys.exit(exit_code)
