"""Replication throttles (KIP-73): a move may copy only so many bytes a second, and does not starve the clients.

Each broker has two: one for what it serves to followers, one for what it fetches itself. A rate counts only for
the replicas that their topic names (`leader.replication.throttled.replicas`, `follower. ...`: pairs of partition
and broker, or `*`), and only while they are not in sync: who has caught up is never held back, so a throttle that
was forgotten keeps no partition out of its ISR.

The rate is that of Kafka: bytes of the last `replication.quota.window.num` windows by the time they cover, one
window at least. A record batch is never cut, so the rate is kept on average and not by the byte; with a rate of 0
one answer goes through whenever nothing was copied for all these windows.
"""

from odradek.model.ids import BrokerId, TopicPartition
from odradek.replication.windowed_sum import WindowedSum

UNLIMITED = 2**63 - 1


class ReplicationThrottle:
    """One direction of one broker. `covered`: the replicas it is about; most brokers have none, at no cost."""

    __slots__ = ("_copied", "_listed", "_listed_as", "covered", "rate")

    def __init__(self, *, window_count: int = 11, window_ms: int = 1000) -> None:
        self.rate = UNLIMITED  # bytes a second
        self.covered: set[TopicPartition] = set()
        self._listed_as: tuple[str, ...] = ()
        self._listed: frozenset[str] = frozenset()
        self._copied = WindowedSum(window_count=window_count, window_ms=window_ms)

    def cover(self, topic_partition: TopicPartition, replicas: tuple[str, ...], broker: BrokerId) -> None:
        """What the topic's list says now of our replica."""
        if (
            replicas is not self._listed_as
        ):  # once a topic: it has thousands of partitions, and its list as many entries
            self._listed_as, self._listed = replicas, frozenset(replicas)
        listed = self._listed
        if "*" in listed or f"{topic_partition.partition}:{broker}" in listed:
            self.covered.add(topic_partition)
        else:
            self.covered.discard(topic_partition)

    def holds_back(self, topic_partition: TopicPartition, now_ms: int) -> bool:
        """Nothing more of this replica now. Whether it is in sync is the caller's to know."""
        return topic_partition in self.covered and self.is_exceeded(now_ms)

    def record(self, size_bytes: int, now_ms: int) -> None:
        self._copied.record(size_bytes, now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        if self.rate >= UNLIMITED:
            return False
        copied = self._copied
        copied.forget_old(now_ms)
        return copied.total * 1000 > self.rate * max(copied.covered_ms(now_ms), copied.window_ms)

    def free_at_ms(self, now_ms: int) -> int:
        """The earliest that it may let go, if nothing is copied until then."""
        if not self.is_exceeded(now_ms):
            return now_ms
        copied = self._copied
        end_of_oldest_ms = copied.oldest_ends_ms
        assert end_of_oldest_ms is not None, "nothing was copied, and it was too much"
        begin_ms = now_ms - copied.covered_ms(now_ms)
        paid_back_ms = begin_ms + -(-copied.total * 1000 // self.rate) if self.rate else end_of_oldest_ms
        return min(paid_back_ms, end_of_oldest_ms)
