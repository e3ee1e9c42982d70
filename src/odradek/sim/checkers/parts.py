"""What the parts of a broker keep to in every moment, as their own docstrings have it: an index that is the other side of a table, a
count, a timer that goes off when something is due. What breaks it harms nobody before it is used, or for long after."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.history import Anomaly


class Broken(NamedTuple):
    """What is not so, of which part."""

    broker: BrokerId
    part: str
    what: str
    topic_partition: TopicPartition | None = None


def parts_are_whole(broken: Iterable[Broken]) -> Iterator[Anomaly]:
    """PartsAreWhole: what a part of a broker says of itself is so between two turns."""
    for one in broken:
        yield Anomaly("PartsAreWhole", one.topic_partition, f"{one.part} of broker {one.broker}: {one.what}")
