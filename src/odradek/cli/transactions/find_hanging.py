"""`odradek txn find-hanging`: a transaction that is open in a log, for long, and that no coordinator has open there.

Nobody will ever send its marker, and who reads committed records stands before it. `odradek txn abort` ends it.
"""

import sys

import click

from odradek.cli.output import bootstrap_option, json_option, print_json, print_table


@click.command(name="find-hanging")
@click.option("--topic", "topics", multiple=True, help="Only in this topic.")
@click.option(
    "--older-than-ms",
    default=900_000,
    show_default=True,
    help="Only those whose last record is older: a younger one may have been opened since its coordinator was asked.",
)
@bootstrap_option
@json_option
def find_hanging(topics: tuple[str, ...], older_than_ms: int, bootstrap: str, as_json: bool) -> None:
    """Transactions that are open in a log and that no coordinator will end there. Exit code 1 if there are any, or a log or a
    coordinator cannot be asked, which is said on standard error."""
    import time

    from odradek.cli.lookup import topic_or_fail
    from odradek.cli.topic.describe import grouped
    from odradek.client import sync_transactions
    from odradek.client.sync import SyncClient
    from odradek.model.errors import OdradekError
    from odradek.model.ids import TopicPartition
    from odradek.protocol.messages.describe_producers import ProducerState

    rows = []
    unasked: dict[TopicPartition, str] = {}
    unknown: list[str] = []
    with SyncClient(bootstrap) as client:
        before_ms = int(time.time() * 1000) - older_than_ms
        suspects = []
        chosen = {name: topic_or_fail(client, name) for name in topics} or client.cluster().topics
        with client.waiting_once():
            for topic, view in sorted(chosen.items()):
                for index in sorted(view.partitions):
                    partition = TopicPartition(topic, index)
                    try:  # a partition in trouble does not keep back what the others hold
                        there = sync_transactions.producers(client, partition)
                    except OdradekError as error:
                        unasked[partition] = str(error)
                        continue
                    suspects += [
                        (partition, one)
                        for one in there
                        if one.current_txn_start_offset >= 0 and one.last_timestamp < before_ms
                    ]
        unknown += [f"{which}: {why}" for which, why in grouped(unasked)]
        # Asked behind the logs: what is open by then is somebody's. What a coordinator may have that does not say hangs perhaps.
        open_, problems = sync_transactions.list_transactions(client, sync_transactions.OPEN_STATES)
        unknown += [f"transactions of broker {broker}: {why}" for broker, why in problems.items()]
        known = {listed.transaction.producer_id: listed for listed in open_}

        def hangs(partition: TopicPartition, one: ProducerState) -> bool:
            listed = known.get(one.producer_id)
            if listed is None:
                if problems:
                    unknown.append(
                        f"{partition}: whether that of producer {one.producer_id} hangs, for a broker that does not tell may have it"
                    )
                return not problems
            try:
                return not sync_transactions.holds(
                    client, listed, partition
                ) and sync_transactions.is_open_still(client, partition, one)
            except OdradekError as error:
                unknown.append(f"{partition}: {error}")
                return False

        with client.waiting_once():
            rows = [
                {
                    "partition": str(partition),
                    "producer_id": one.producer_id,
                    "producer_epoch": one.producer_epoch,
                    "start_offset": one.current_txn_start_offset,
                    "last_timestamp": one.last_timestamp,
                }
                for partition, one in suspects
                if hangs(partition, one)
            ]
    if as_json:
        print_json(rows)
    else:
        columns = ("partition", "producer_id", "producer_epoch", "start_offset", "last_timestamp")
        print_table(
            [name.replace("_", " ") for name in columns], [[row[name] for name in columns] for row in rows]
        )
    for note in unknown:
        print(f"odradek: not known: {note}", file=sys.stderr)
    sys.exit(1 if rows or unknown else 0)
