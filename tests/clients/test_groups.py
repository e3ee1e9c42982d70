"""`subscribe`, with the clients' default settings: groups on three processes, whose coordinator is killed in the middle."""

import asyncio
import threading
from collections.abc import Callable
from typing import Protocol

import aiokafka
import confluent_kafka
import kafka
import pytest

from odradek.client.sync import ANY, SyncClient
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.testing.process_cluster import ProcessCluster
from tests.clients.support import create_topic, number_in, value_of
from tests.support import eventually

pytestmark = pytest.mark.process

TOPIC, GROUP = "orders", "readers"
PARTITIONS = 3
RECORDS = 3_000
Seen = Callable[[int, int, int], None]  # partition, offset, number


class Reads(Protocol):
    """Subscribes with `GROUP`, tells each record, commits now and then, and stops in order when `stop` is set."""

    def __call__(self, bootstrap: str, seen: Seen, stop: threading.Event) -> None: ...


def confluent(bootstrap: str, seen: Seen, stop: threading.Event) -> None:
    options = {"bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**options, "auto.commit.interval.ms": 200})
    consumer.subscribe([TOPIC])
    while not stop.is_set():
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            seen(message.partition(), message.offset(), number_in(message.value()))
    consumer.close()


def kafka_python(bootstrap: str, seen: Seen, stop: threading.Event) -> None:
    consumer = kafka.KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=200,
    )
    while not stop.is_set():
        for messages in consumer.poll(timeout_ms=200).values():
            for message in messages:
                seen(message.partition, message.offset, number_in(message.value))
    consumer.close()


def aio(bootstrap: str, seen: Seen, stop: threading.Event) -> None:
    async def read() -> None:
        options = {"bootstrap_servers": bootstrap, "group_id": GROUP, "auto_offset_reset": "earliest"}
        async with aiokafka.AIOKafkaConsumer(TOPIC, auto_commit_interval_ms=200, **options) as consumer:
            while not stop.is_set():
                for messages in (await consumer.getmany(timeout_ms=200)).values():
                    for message in messages:
                        seen(message.partition, message.offset, number_in(message.value))

    asyncio.run(read())


def coordinator_of(cluster: ProcessCluster, group: str) -> int | None:
    with SyncClient(cluster.bootstrap) as client:
        answer = client.call(ANY, FindCoordinatorRequest(coordinator_keys=[group]))
    (row,) = answer.coordinators
    return None if row.error_code else int(row.node_id)


@pytest.mark.parametrize("read", [confluent, kafka_python, aio])
def test_a_group_goes_on_where_it_was_when_its_coordinator_is_killed(
    cluster: ProcessCluster, read: Reads
) -> None:
    create_topic(cluster, TOPIC, partitions=PARTITIONS)
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    lock, places = threading.Lock(), dict[tuple[int, int], int]()

    def seen(partition: int, offset: int, number: int) -> None:
        with lock:
            assert places.setdefault((partition, offset), number) == number

    def produce(first: int) -> None:
        for number in range(first, first + RECORDS // 2):
            producer.produce(TOPIC, value_of(number), partition=number % PARTITIONS)
            producer.poll(0)
        assert producer.flush(60) == 0

    stops = [threading.Event(), threading.Event()]
    readers = [threading.Thread(target=read, args=(cluster.bootstrap, seen, stop)) for stop in stops]
    for reader in readers:
        reader.start()
    try:
        produce(0)
        eventually(lambda: len(places) >= RECORDS // 2, 60.0, "the first half is read")
        killed = coordinator_of(cluster, GROUP)
        assert killed is not None
        cluster.kill(killed)
        produce(RECORDS // 2)
        eventually(lambda: len(places) >= RECORDS, 90.0, "all of it is read")
    finally:
        for stop in stops:
            stop.set()
        for reader in readers:
            reader.join(60)
    assert sorted(places.values()) == list(range(RECORDS))
    assert _committed(cluster) == RECORDS, "what was read was committed, and its new coordinator knows"


def _committed(cluster: ProcessCluster) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP})
    partitions = [confluent_kafka.TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    try:
        return sum(one.offset for one in consumer.committed(partitions, timeout=30))
    finally:
        consumer.close()
