"""`odradek topic list`"""

import click

from odradek.cli.output import bootstrap_option, json_option, print_json, print_table

OFFLINE = 3  # of the columns


@click.command(name="list")
@click.option("--internal", is_flag=True, help="Also the cluster's own topics.")
@bootstrap_option
@json_option
def list_topics(internal: bool, bootstrap: str, as_json: bool) -> None:
    """Names, partitions, replicas; how many partitions have no leader, and how many lack replicas."""
    from odradek.client.sync import SyncClient
    from odradek.model.ids import TopicId, topic_id_to_text

    with SyncClient(bootstrap) as client:
        view = client.cluster()
    found = view.topics
    rows: list[tuple[str | int, ...]] = []
    for name in sorted(found):
        topic = found[name]
        if topic.is_internal and not internal:
            continue
        partitions = topic.partitions.values()
        replicas = max((len(p.replicas) for p in partitions), default=0)
        offline = sum(1 for p in partitions if p.leader not in view.brokers)
        short = sum(1 for p in partitions if len(p.isr) < len(p.replicas))
        topic_id = topic_id_to_text(TopicId(topic.topic_id))
        rows.append((name, len(partitions), replicas, offline, short, topic_id))
    if as_json:
        names = ("topic", "partitions", "replicas", "offline", "under_replicated", "topic_id")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        headers = ["topic", "partitions", "replicas", "offline", "under replicated", "topic id"]
        if not any(row[OFFLINE] for row in rows):  # so that long names have the width
            headers.pop(OFFLINE)
            rows = [(*row[:OFFLINE], *row[OFFLINE + 1 :]) for row in rows]
        print_table(headers, rows)
