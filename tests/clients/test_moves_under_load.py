"""Row 170 (S3): before maintenance, a partition with a single copy is moved away, while it is written and read.

Nobody may notice: no error, nothing lost, doubled or out of order. After that the old broker may die at any time.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition
from kafka import KafkaAdminClient
from kafka import TopicPartition as Partition

from odradek.client.sync import CONTROLLER, SyncClient
from odradek.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from odradek.testing.process_cluster import ProcessCluster
from tests.clients.support import Books, leader_of, number_in, retrying, value_of

pytestmark = pytest.mark.process

TOPIC = "single"
EACH = 400  # records before, during and after


def create_single_copy(cluster: ProcessCluster, broker: int) -> None:
    assignment = [CreatableReplicaAssignment(partition_index=0, broker_ids=[broker])]
    topic = CreatableTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=assignment)
    with SyncClient(cluster.bootstrap) as client:
        (answer,) = client.call(CONTROLLER, CreateTopicsRequest(topics=[topic], timeout_ms=30_000)).topics
        assert answer.error_code == 0, answer


class Traffic:
    """A producer and a consumer that do not stop: one record after the other, in threads of their own."""

    def __init__(self, bootstrap: str) -> None:
        self.books = Books()
        self.read: list[tuple[int, int]] = []
        self.read_errors: list[str] = []
        self._is_over = threading.Event()
        self._produced = 0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0}
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                # An offset that is not there is an error, not a reason to begin elsewhere.
                "auto.offset.reset": "error",
            }
        )

    def produce(self) -> None:
        while not self._is_over.is_set():
            number = self._produced
            self._produced += 1

            def told(error: KafkaError | None, message: Message, number: int = number) -> None:
                if error is not None:
                    self.books.fail(str(error))
                else:
                    self.books.acknowledge(message.partition(), message.offset(), number)

            self._producer.produce(TOPIC, value_of(number), partition=0, on_delivery=told)
            self._producer.poll(0.001)
        self._producer.flush(60)

    def consume(self) -> None:
        self._consumer.assign([ClientPartition(TOPIC, 0, 0)])
        while not self._is_over.is_set() or len(self.read) < self.books.count:
            for message in self._consumer.consume(100, timeout=0.05):
                if message.error() is not None:
                    self.read_errors.append(str(message.error()))
                else:
                    self.read.append((message.offset(), number_in(message.value())))
        self._consumer.close()

    @contextmanager
    def flowing(self) -> Iterator[None]:
        threads = [threading.Thread(target=work, daemon=True) for work in (self.produce, self.consume)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join(90)
        assert not any(thread.is_alive() for thread in threads), "everything acknowledged was read"

    def goes_on(self, count: int = EACH) -> None:
        """That many more records are acknowledged, and that many more are read."""
        acknowledged, read = self.books.count, len(self.read)
        retrying(
            lambda: self.books.count >= acknowledged + count and len(self.read) >= read + count,
            f"{count} more records go through",
        )


@pytest.mark.behaviour(170)
def test_a_single_copy_moves_under_load_and_then_its_old_broker_may_die(cluster: ProcessCluster) -> None:
    with SyncClient(cluster.bootstrap) as client:
        controller = client.cluster([]).controller_id
    old, new = (b for b in sorted(cluster.brokers) if b != controller)
    create_single_copy(cluster, old)
    traffic = Traffic(cluster.bootstrap)
    with traffic.flowing():
        traffic.goes_on()
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        assert list(admin.alter_partition_reassignments({Partition(TOPIC, 0): [new]}).values()) == [None]
        retrying(lambda: not admin.list_partition_reassignments(), "the partition has moved")
        admin.close()
        retrying(lambda: leader_of(cluster, TOPIC) == new, "whoever is asked has heard of it")
        traffic.goes_on()
        cluster.kill(old)
        traffic.goes_on()
    assert traffic.books.failed == [] and traffic.read_errors == []
    traffic.books.compare({0: traffic.read}, exactly_once=True)
