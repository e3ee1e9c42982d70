"""Writers that run while brokers die, and the books that are compared at the end."""

from typing import Self

from odradek.client.sync import SyncClient
from odradek.model.ids import TopicPartition
from tests.clients.load import Load
from tests.clients.support import Books
from tests.clients.test_confluent_kafka import read_all
from tests.interop.cluster import MixedCluster
from tests.interop.replicas import batches_of, difference, end_of

RECORDS_PER_SECOND = 400


class Writing:
    """An idempotent producer with acks=all on every partition of one topic, from `start` to `check`."""

    def __init__(self, cluster: MixedCluster, topic: str, partitions: int) -> None:
        self.topic = topic
        self.partitions = partitions
        self.books = Books()
        self._is_stopped = False
        self._cluster = cluster
        bootstrap = ",".join(broker.address for broker in cluster.brokers.values())
        self._load = Load(
            bootstrap, topic, self.books, partitions=partitions, records_per_second=RECORDS_PER_SECOND
        )

    def start(self) -> Self:
        self._load.start()
        return self

    def stop(self) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            self._load.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        if exc[0] is None:
            self.stop()
        elif not self._is_stopped:
            self._load.abandon()

    def wait_for_more(self, count: int = 100) -> None:
        """Until so many more records are acknowledged on every partition."""
        begun = len(self.books.acknowledged)

        def is_enough() -> bool:
            counts = [0] * self.partitions
            for record in self.books.acknowledged[begun:]:
                counts[record.partition] += 1
            return min(counts) >= count // self.partitions

        self._cluster.wait_until(is_enough, f"{count} more records are acknowledged on {self.topic}")

    def check(self) -> None:
        """Everything acknowledged is there, once and in order, and all replicas hold the same batches."""
        assert self.books.failed == []
        assert self.books.count == self._load.sent
        self._cluster.wait_full(self.topic)
        read = read_all(self._cluster.running, self.topic, self.partitions)
        self.books.compare(read, exactly_once=True)
        check_replicas(self._cluster, self.topic)


def check_replicas(cluster: MixedCluster, topic: str) -> None:
    """The log directories of all replicas agree batch by batch up to the high watermark."""
    view = cluster.view(topic)
    assert view is not None
    with SyncClient(cluster.running) as client:
        ends = client.end_offsets(TopicPartition(topic, index) for index in view.partitions)
    for index, partition in view.partitions.items():
        end = ends[TopicPartition(topic, index)]
        replicas = {broker: cluster.disk_of(broker, topic, index) for broker in partition.replicas}
        cluster.wait_until(
            lambda index=index, end=end, replicas=replicas: all(
                end_of(batches_of(data, topic, index)) >= end for data in replicas.values()
            ),
            f"every replica of {topic}-{index} holds {end} records",
        )
        assert difference(replicas, topic, index, end) is None
