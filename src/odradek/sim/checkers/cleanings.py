"""What compaction takes up: nothing that is not decided, nothing too young, and what is dirty enough."""

from collections.abc import Iterator
from typing import NamedTuple

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.history import Anomaly


class Cleaned(NamedTuple):
    """A log in the moment in which its cleaning begins."""

    topic_partition: TopicPartition
    broker: BrokerId
    end: int  # of what is to be cleaned
    last_stable_offset: int
    active: int  # where the active segment begins
    newest_ms: int  # of the records that were not cleaned before; -1: they have no time
    now_ms: int  # by the broker's clock, when the log was chosen
    min_lag_ms: int


def cleaned_as_asked(seen: Cleaned) -> Iterator[Anomaly]:
    """CleaningIsAsked: neither what is behind the last stable offset is cleaned, nor the active segment, nor a record that is younger
    than min.compaction.lag.ms."""

    def wrong(why: str) -> Anomaly:
        return Anomaly(
            "CleaningIsAsked", seen.topic_partition, f"broker {seen.broker} cleans up to {seen.end}: {why}"
        )

    if seen.end > seen.last_stable_offset:
        yield wrong(f"its last stable offset is {seen.last_stable_offset}")
    if seen.end > seen.active:
        yield wrong(f"its active segment begins at {seen.active}")
    age_ms = seen.now_ms - seen.newest_ms
    if seen.min_lag_ms > 0 and seen.newest_ms >= 0 and age_ms < seen.min_lag_ms:
        yield wrong(f"a record there is {age_ms} ms old, of {seen.min_lag_ms}")


def dirty_is_cleaned(broker: BrokerId, topic_partition: TopicPartition, why: str) -> Anomaly:
    """DirtyIsCleaned."""
    return Anomaly("DirtyIsCleaned", topic_partition, f"broker {broker}: {why}")
