"""What a broker tells about itself: the table of its metrics, and who reads each.

Names are those that jmx_exporter makes of Apache's MBeans, in Strimzi's configuration of it, and those of kafka_exporter: dashboards and
alerts written for them load as they are. What kafka_exporter tells of a whole cluster each broker tells of its part (the partitions
it leads, the groups it coordinates; the controller of brokers and topics), so that the sum over all brokers is the same.

A page is made in pieces of a millisecond, and other callbacks run in between: it is of no single moment. Nothing is read unless somebody
asks.
"""

from collections.abc import Iterator

from odradek.server.exporter import broker, controller, groups, partitions, process, topics
from odradek.server.exporter.families import Family
from odradek.server.exporter.seen import Seen


def page(seen: Seen) -> Iterator[str]:
    """All of it, in pieces; between two of them the loop may do something else. An empty one is a pause."""
    yield from process.collect()
    yield from broker.collect(seen)
    yield from topics.collect(seen)
    yield from partitions.collect(seen)
    yield from groups.collect(seen)
    yield from controller.collect(seen)


def families() -> list[Family]:
    """The table: all there are."""
    return [
        *broker.FAMILIES.values(),
        *topics.FAMILIES,
        *partitions.FAMILIES,
        *groups.FAMILIES.values(),
        *controller.FAMILIES.values(),
        *process.FAMILIES.values(),
    ]
