"""What goes into and out of each topic."""

from collections.abc import Callable, Iterator
from itertools import chain

from odradek.replication.traffic import TopicTraffic
from odradek.server.exporter.families import ROWS_AT_ONCE, Family, pieces
from odradek.server.exporter.seen import Seen


def _of_topics(name: str, text: str) -> Family:
    return Family(
        f"kafka_server_brokertopicmetrics_{name.lower()}_total",
        "counter",
        f"{text} Without a topic: of all, also of those that are not here any more.",
        ("topic",),
        f"kafka.server:type=BrokerTopicMetrics,name={name}PerSec",
    )


READ: tuple[tuple[Family, Callable[[TopicTraffic], int]], ...] = (
    (_of_topics("MessagesIn", "Records that producers have appended here."), lambda t: t.messages_in),
    (
        _of_topics("BytesIn", "Bytes of record batches that producers have appended here."),
        lambda t: t.bytes_in,
    ),
    (_of_topics("BytesOut", "Bytes of record batches that went to consumers."), lambda t: t.bytes_out),
    (
        _of_topics("ReplicationBytesIn", "Bytes of record batches that came from leaders."),
        lambda t: t.replicated_bytes_in,
    ),
    (
        _of_topics("ReplicationBytesOut", "Bytes of record batches that went to followers."),
        lambda t: t.replicated_bytes_out,
    ),
    (
        _of_topics("TotalProduceRequests", "Partitions that Produce requests named."),
        lambda t: t.produce_requests,
    ),
    (
        _of_topics("TotalFetchRequests", "Partitions that Fetch requests were answered about."),
        lambda t: t.fetch_requests,
    ),
    (
        _of_topics(
            "FailedProduceRequests",
            "Those of a Produce that were refused for another reason than a moved leader or wrong records.",
        ),
        lambda t: t.failed_produce_requests,
    ),
    (
        _of_topics(
            "FailedFetchRequests",
            "Those of a Fetch that were refused for another reason than a moved leader or an offset out of range.",
        ),
        lambda t: t.failed_fetch_requests,
    ),
)
FAMILIES = [family for family, _ in READ]


def collect(seen: Seen) -> Iterator[str]:
    everything = TopicTraffic()
    everything.add(seen.broker.replicas.former_traffic)
    topics = list(seen.broker.replicas.traffic.items())
    for at, (_, traffic) in enumerate(topics):
        everything.add(traffic)
        if not at % ROWS_AT_ONCE:
            yield ""
    for family, read in READ:
        of_each = (((topic,), read(traffic)) for topic, traffic in topics)
        yield from pieces(family, chain([(("",), read(everything))], of_each))
