"""`odradek group lag GROUP`"""

import click

from odradek.cli.output import bootstrap_option, json_option, print_json, print_table
from odradek.model.counted import counted
from odradek.model.printable import named


@click.command()
@click.argument("name", metavar="GROUP")
@bootstrap_option
@json_option
def lag(name: str, bootstrap: str, as_json: bool) -> None:
    """Committed offset, lag and member of each partition. Lag: records from the committed offset to the high watermark."""
    from odradek.cli.groups.descriptions import describe_or_fail, name_of, positions, total_lag
    from odradek.cli.topic.describe import grouped
    from odradek.client.sync import SyncClient

    with SyncClient(bootstrap) as client:
        (group,) = describe_or_fail(client, [name]).values()
        read, problems = positions(client, group)
    total = total_lag(read)
    unknown = [f"end of {which}: {why}" for which, why in grouped(problems)]
    if as_json:
        print_json(
            {
                "group": name,
                "state": group.state,
                "lag": total,
                "partitions": [
                    {
                        "topic": one.partition.topic,
                        "partition": one.partition.partition,
                        "committed": one.committed,
                        "log_start_offset": one.start,
                        "high_watermark": one.end,
                        "lag": one.lag,
                        "member": None if one.owner is None else one.owner.member_id,
                        "client": None if one.owner is None else one.owner.client_id,
                    }
                    for one in read
                ],
                "unknown": unknown,
            }
        )
        return
    behind = "lag not known" if total is None else f"lag {total}"
    print(f"{named(name)} is {group.state}: {counted(len(read), 'partition')}, {behind}")
    if read:
        print_table(
            ("partition", "committed", "high watermark", "lag", "member", "client"),
            [
                (
                    one.partition,
                    "-" if one.committed is None else one.committed,
                    "?" if one.end is None else one.end,
                    "-" if one.lag is None else one.lag,
                    "" if one.owner is None else name_of(one.owner),
                    "" if one.owner is None else one.owner.client_id,
                )
                for one in read
            ],
        )
    for note in unknown:
        print(f"not known: {note}")
