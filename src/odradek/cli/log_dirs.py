"""`odradek log dirs`: what lies in the log directories of the brokers, and what is on its way between them (KIP-113)."""

import sys
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.broker_lists import broker_ids
from odradek.cli.output import bootstrap_option, fail, json_option, not_known, print_json, print_table
from odradek.cli.quantities import shown_bytes

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient


@click.command()
@click.option("--broker", "brokers", multiple=True, help="Only these: 1,2 or the option twice.")
@click.option("--topic", "-t", "topics", multiple=True, help="Only replicas of these topics.")
@bootstrap_option
@json_option
def dirs(brokers: tuple[str, ...], topics: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """The log directories of each broker, how full they are, and which replicas are on their way to another one. Exit code 1
    if a broker does not answer, which is said on standard error."""
    from odradek.cli.lookup import topic_or_fail
    from odradek.client.sync import SyncClient
    from odradek.client.sync_brokers import of_every_broker
    from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest

    wanted = broker_ids(brokers, "--broker")
    with SyncClient(bootstrap) as client:
        for topic in topics:
            topic_or_fail(client, topic)
        live = sorted(client.cluster([]).brokers)
        for broker in wanted:
            if broker not in live:
                fail(f"broker {broker} is not alive; brokers alive: {', '.join(map(str, live))}")
        found: list[dict[str, Any]] = []
        unknown: list[str] = []
        if wanted:
            for asked in wanted:
                found += directories_of(client, asked, topics)
        else:
            told, problems = of_every_broker(client, DescribeLogDirsRequest(topics=None), brokers=live)
            for teller, answer in told.items():
                found += rows_of(teller, answer, topics)
            unknown = not_known("log directories", problems)
    if as_json:
        print_json(found)
    else:
        show(found)
    for note in unknown:
        print(f"odradek: {note}", file=sys.stderr)
    sys.exit(1 if unknown else 0)


def show(found: list[dict[str, Any]]) -> None:
    print_table(
        ("broker", "directory", "state", "replicas", "bytes", "free"),
        [
            (
                row["broker"],
                row["directory"],
                row["error"] or "online",
                sum(not replica["is_future"] for replica in row["replicas"]),
                shown_bytes(sum(replica["bytes"] for replica in row["replicas"])),
                "" if row["usable_bytes"] is None else shown_bytes(row["usable_bytes"]),
            )
            for row in found
        ],
    )
    moving = [(row, replica) for row in found for replica in row["replicas"] if replica["is_future"]]
    if moving:
        print()
        print_table(
            ("on its way", "broker", "to", "bytes", "records behind"),
            [
                (
                    replica["partition"],
                    row["broker"],
                    row["directory"],
                    shown_bytes(replica["bytes"]),
                    "unknown" if replica["lag"] < 0 else replica["lag"],
                )
                for row, replica in moving
            ],
        )
    unserved = [(row, replica) for row in found for replica in row["replicas"] if is_unserved(replica)]
    if unserved:
        print()
        print_table(
            ("not served", "broker", "directory", "bytes"),
            [
                (replica["partition"], row["broker"], row["directory"], shown_bytes(replica["bytes"]))
                for row, replica in unserved
            ],
        )
        print(
            "What no topic assigns to its broker stays until somebody removes it (the store may be an older copy). A broker that has just "
            "started may not have been told yet."
        )


def is_unserved(replica: dict[str, Any]) -> bool:
    """It lies there, and its broker knows nothing of such a replica: then its lag is not known (KIP-113)."""
    return replica["lag"] < 0 and not replica["is_future"]


def directories_of(client: "SyncClient", broker: int, topics: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    from odradek.client.sync import answered
    from odradek.model.error_codes import ErrorCode
    from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest

    answer = client.call(broker, DescribeLogDirsRequest(topics=None))
    if answer.error_code != ErrorCode.NONE:
        raise answered(answer.error_code, f"broker {broker}")
    return rows_of(broker, answer, topics)


def rows_of(broker: int, answer: Any, topics: tuple[str, ...]) -> list[dict[str, Any]]:
    from odradek.client.sync import code_of
    from odradek.model.error_codes import ErrorCode

    return [
        {
            "broker": broker,
            "directory": result.log_dir,
            "error": None if result.error_code == ErrorCode.NONE else code_of(result.error_code).name,
            "total_bytes": result.total_bytes if result.total_bytes >= 0 else None,
            "usable_bytes": result.usable_bytes if result.usable_bytes >= 0 else None,
            "replicas": [
                {
                    "partition": f"{topic.name}-{row.partition_index}",
                    "bytes": row.partition_size,
                    "lag": row.offset_lag,
                    "is_future": row.is_future_key,
                }
                for topic in result.topics
                if not topics or topic.name in topics
                for row in topic.partitions
            ],
        }
        for result in answer.results
    ]
