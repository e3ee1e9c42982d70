"""confluent-kafka (librdkafka), unmodified, against three processes one of which is killed."""

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

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
PASSING = (
    *(KafkaError._UNKNOWN_PARTITION, KafkaError._TRANSPORT, KafkaError._TIMED_OUT),
    *(KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION),
)


def produce(producer: Producer, topic: str, books: Books, partitions: int = PARTITIONS) -> None:
    def told(number: int) -> Any:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                books.fail(str(error))
            else:
                books.acknowledge(message.partition(), message.offset(), number)

        return on_delivery

    for number in range(RECORDS // partitions):
        while number == 2 * RECORDS // 3 // partitions and not books.may_end.is_set():
            producer.poll(0.01)
        for partition in range(partitions):
            producer.produce(topic, value_of(number), partition=partition, on_delivery=told(number))
        producer.poll(0.001 if number % 4 == 0 else 0)
    retrying(lambda: producer.flush(1.0) == 0, "every record is answered")


def read_all(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> dict[int, list[tuple[int, int]]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    try:
        ends: dict[int, int] = {}

        def ask() -> bool:
            for p in set(range(partitions)) - set(ends):
                try:
                    ends[p] = consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=20)[1]
                except KafkaException as error:
                    # A broker that has just started has not heard of any topic yet, and one may still name a leader
                    # that is gone.
                    assert error.args[0].code() in PASSING, error
                    return False
            return True

        retrying(ask, "the ends of all partitions are told")
        consumer.assign([TopicPartition(topic, p, 0) for p in ends])
        read: dict[int, list[tuple[int, int]]] = {p: [] for p in ends}

        def take() -> bool:
            for message in consumer.consume(500, timeout=0.5):
                assert message.error() is None, message.error()
                read[message.partition()].append((message.offset(), number_in(message.value())))
            return all(len(read[p]) >= end for p, end in ends.items())

        retrying(take, f"everything up to {ends} is read")
        return read
    finally:
        consumer.close()


@pytest.mark.parametrize("idempotent", [False, True])
def test_nothing_acknowledged_is_lost_when_a_leader_is_killed(
    cluster: ProcessCluster, idempotent: bool
) -> None:
    create_topic(cluster, "orders")
    options: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap}
    if idempotent:
        options["enable.idempotence"] = True
    books = Books()

    with killed_in_the_middle(cluster, "orders", books, after=RECORDS // 3):
        produce(Producer(options), "orders", books)

    assert books.failed == []
    assert books.count == RECORDS
    books.compare(read_all(cluster.bootstrap, "orders"), exactly_once=idempotent)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_come_back_as_they_were_sent(cluster: ProcessCluster, codec: str) -> None:
    create_topic(cluster, "packed")
    books = Books()
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": codec, "linger.ms": 20})

    produce(producer, "packed", books)

    books.compare(read_all(cluster.bootstrap, "packed"), exactly_once=True)
