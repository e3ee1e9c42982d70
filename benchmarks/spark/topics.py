"""Topics to read, filled by librdkafka."""

import json
import os
from collections.abc import Sequence

from benchmarks import raw_frames
from odradek.client.sync import CONTROLLER, SyncClient
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.records.builder import NewRecord, build_batch

KINDS = 1000
# What a Java producer fills before it sends; librdkafka would send up to a megabyte.
JAVA_BATCH_BYTES = 16_384
JSON_SCHEMA = (
    "id BIGINT, name STRING, city STRING, price DOUBLE, count INT, paid BOOLEAN, sku STRING, note STRING"
)


def noise(size: int) -> list[bytes]:
    """So many bytes each, and no two alike."""
    return [os.urandom(size) for _ in range(KINDS)]


def orders() -> list[bytes]:
    """JSON of eight fields, of some 150 B."""
    return [
        json.dumps(
            {
                "id": number,
                "name": f"customer {number * 7919 % 1000}",
                "city": ("Oslo", "Lima", "Turin", "Ghent")[number % 4],
                "price": number * 1.25,
                "count": number % 9,
                "paid": number % 3 == 0,
                "sku": f"{number:06d}-{number * 31 % 97}",
                "note": "leave it at the door" if number % 5 else None,
            }
        ).encode()
        for number in range(KINDS)
    ]


def create(bootstrap: str, topic: str, partitions: int) -> None:
    raw_frames.create_topic(bootstrap.split(","), topic, partitions=partitions, replication=1)


def create_many(bootstrap: str, names: Sequence[str], partitions: int) -> None:
    """With a record in each partition."""
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    batch = build_batch([NewRecord(None, b"x")])
    with SyncClient(bootstrap) as client:
        for made in client.call(CONTROLLER, CreateTopicsRequest(topics=topics, timeout_ms=30_000)).topics:
            assert made.error_code == 0, made
        for name in names:
            for partition in range(partitions):
                client.produce(TopicPartition(name, partition), batch)


def fill(
    bootstrap: str, topic: str, values: Sequence[bytes], records: int, partitions: int, **settings: str
) -> None:
    """A new topic; its records have the values in turn, no key, and a partition after the other. `settings` are librdkafka's."""
    from confluent_kafka import Producer

    create(bootstrap, topic, partitions)
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 500_000, **settings})
    for number in range(records):
        while True:
            try:
                producer.produce(topic, values[number % len(values)], partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()
    found = held(bootstrap, topic, partitions)
    assert found == records, f"{topic} holds {found} of {records} records"


def held(bootstrap: str, topic: str, partitions: int) -> int:
    """How many offsets there are, those of markers with them."""
    with SyncClient(bootstrap) as client:
        return sum(client.end_offsets([TopicPartition(topic, p) for p in range(partitions)]).values())
