"""kafka-python 3, unmodified, with its own defaults (acks=all, idempotent), one of three processes killed."""

import time

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from odradek.testing.process_cluster import ProcessCluster
from tests.clients.support import (
    PARTITIONS,
    Books,
    create_topic,
    killed_in_the_middle,
    number_in,
    retrying,
    value_of,
)

pytestmark = pytest.mark.process

RECORDS = 6000


def produce(bootstrap: str, topic: str, books: Books) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    try:
        for number in range(RECORDS // PARTITIONS):
            if number == 2 * RECORDS // 3 // PARTITIONS:
                books.may_end.wait()
            for partition in range(PARTITIONS):
                future = producer.send(topic, value_of(number), partition=partition)
                future.add_callback(lambda m, n=number: books.acknowledge(m.partition, m.offset, n))
                future.add_errback(lambda error: books.fail(repr(error)))
        producer.flush(120)
    finally:
        producer.close(10)


def read_all(bootstrap: str, topic: str) -> dict[int, list[tuple[int, int]]]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        consumer.seek_to_beginning(*partitions)
        read: dict[int, list[tuple[int, int]]] = {p: [] for p in range(PARTITIONS)}

        def take() -> bool:
            for messages in consumer.poll(timeout_ms=500).values():
                for message in messages:
                    read[message.partition].append((message.offset, number_in(message.value)))
            return all(len(read[tp.partition]) >= end for tp, end in ends.items())

        retrying(take, f"everything up to {ends} is read")
        return read
    finally:
        consumer.close()


def test_nothing_acknowledged_is_lost_when_a_leader_is_killed(cluster: ProcessCluster) -> None:
    create_topic(cluster, "orders")
    books = Books()
    begun = time.monotonic()

    with killed_in_the_middle(cluster, "orders", books, after=RECORDS // 3):
        produce(cluster.bootstrap, "orders", books)

    assert books.failed == []
    assert books.count == RECORDS, f"after {time.monotonic() - begun:.1f} s"
    books.compare(read_all(cluster.bootstrap, "orders"), exactly_once=True)
