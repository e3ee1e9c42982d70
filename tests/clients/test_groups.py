"""`subscribe`, with the clients' default settings: groups on three processes, whose coordinator is killed in the middle."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
import pytest

from odradek.client.sync import SyncClient
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.testing.process_cluster import ProcessCluster
from tests.clients.support import coordinator_of, create_topic, number_in, value_of
from tests.support import eventually

pytestmark = pytest.mark.process

TOPIC, GROUP = "orders", "readers"
PARTITIONS = 3
RECORDS = 3_000
Seen = Callable[[int, int, int], None]  # partition, offset, number


class Reads(Protocol):
    """Subscribes with `GROUP`, tells each record, commits now and then, and stops in order when `stop` is set."""

    def __call__(self, bootstrap: str, seen: Seen, stop: threading.Event) -> None: ...


def confluent(bootstrap: str, seen: Seen, stop: threading.Event, more: dict[str, Any] | None = None) -> None:
    options = {"bootstrap.servers": bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**options, "auto.commit.interval.ms": 200, **(more or {})})
    consumer.subscribe([TOPIC])
    while not stop.is_set():
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            seen(message.partition(), message.offset(), number_in(message.value()))
    consumer.close()


def confluent_of_kip_848(bootstrap: str, seen: Seen, stop: threading.Event) -> None:
    confluent(bootstrap, seen, stop, {"group.protocol": "consumer"})


def kafka_python(bootstrap: str, seen: Seen, stop: threading.Event, **more: Any) -> None:
    consumer = kafka.KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=200,
        **more,
    )
    while not stop.is_set():
        for messages in consumer.poll(timeout_ms=200).values():
            for message in messages:
                seen(message.partition, message.offset, number_in(message.value))
    consumer.close()


def aio(bootstrap: str, seen: Seen, stop: threading.Event, **more: Any) -> None:
    async def read() -> None:
        options = {"bootstrap_servers": bootstrap, "group_id": GROUP, "auto_offset_reset": "earliest"}
        async with aiokafka.AIOKafkaConsumer(
            TOPIC, auto_commit_interval_ms=200, **options, **more
        ) as consumer:
            while not stop.is_set():
                for messages in (await consumer.getmany(timeout_ms=200)).values():
                    for message in messages:
                        seen(message.partition, message.offset, number_in(message.value))

    asyncio.run(read())


@pytest.mark.parametrize("read", [confluent, confluent_of_kip_848, kafka_python, aio])
def test_a_group_goes_on_where_it_was_when_its_coordinator_is_killed(
    cluster: ProcessCluster, read: Reads
) -> None:
    goes_on_where_it_was(cluster, read)


def goes_on_where_it_was(cluster: ProcessCluster, read: Reads) -> None:
    """Two members read; their coordinator is killed; they skip nothing, and the next one knows what they committed."""
    create_topic(cluster, TOPIC, partitions=PARTITIONS)
    # A record that is sent again, since its answer took long, is there once.
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
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
        cluster.kill(coordinator_of(cluster, GROUP))
        produce(RECORDS // 2)
        eventually(lambda: len(places) >= RECORDS, 90.0, "all of it is read")
        # Before they stop: aiokafka asks for no coordinator any more once it closes, and records are read without one.
        eventually(
            lambda: _committed(cluster) == RECORDS,
            60.0,
            "what was read is committed, and its new coordinator knows",
        )
    finally:
        for stop in stops:
            stop.set()
        for reader in readers:
            reader.join(60)
    assert sorted(places.values()) == list(range(RECORDS))


def _committed(cluster: ProcessCluster) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP})
    partitions = [confluent_kafka.TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
    try:
        return sum(one.offset for one in consumer.committed(partitions, timeout=30))
    finally:
        consumer.close()


@pytest.mark.parametrize("classic", [confluent, kafka_python, aio])
def test_a_group_changes_its_protocol_while_it_reads_and_changes_back(
    cluster: ProcessCluster, classic: Reads
) -> None:
    create_topic(cluster, TOPIC, partitions=PARTITIONS)
    numbers: set[int] = set()
    sent = 0
    readers = {read: (threading.Event(), set[int]()) for read in (classic, confluent_of_kip_848)}
    threads = []

    def start(read: Reads) -> None:
        stop, partitions = readers[read]

        def seen(partition: int, offset: int, number: int) -> None:
            partitions.add(partition)
            numbers.add(number)

        threads.append(threading.Thread(target=read, args=(cluster.bootstrap, seen, stop)))
        threads[-1].start()

    def read_on(what: str) -> None:
        """Some more records, whoever reads them."""
        nonlocal sent
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        for number in range(sent, sent + 300):
            producer.produce(TOPIC, value_of(number), partition=number % PARTITIONS)
        assert producer.flush(60) == 0
        sent += 300
        eventually(lambda: len(numbers) == sent, 90.0, what)

    def both_read() -> bool:
        """A member that was not heard for a while, since the machine was slow, has nothing until it has joined again."""
        for _, partitions in readers.values():
            partitions.clear()
        read_on("both read")
        return all(partitions for _, partitions in readers.values())

    try:
        start(classic)
        read_on("a classic group reads")
        assert _type_of(cluster) == "classic"
        start(confluent_of_kip_848)
        eventually(lambda: _type_of(cluster) == "consumer", 60.0, "the group is converted")
        eventually(lambda: _owners(cluster) == [1, 2], 60.0, "each has some of the partitions")
        eventually(both_read, 90.0, "each reads some of the partitions")
        readers[confluent_of_kip_848][0].set()
        eventually(lambda: _type_of(cluster) == "classic", 60.0, "the group is classic again")
        read_on("the one that is left reads all")
    finally:
        for stop, _ in readers.values():
            stop.set()
        for thread in threads:
            thread.join(60)
    assert numbers == set(range(sent)) and sent >= 900


def test_a_group_subscribes_by_an_expression_and_reads_a_topic_that_comes_later(
    cluster: ProcessCluster,
) -> None:
    create_topic(cluster, "orders-1", partitions=1)
    options = {"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**options, "group.protocol": "consumer"})
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})

    def next_topic() -> str | None:
        message = consumer.poll(0.2)
        return None if message is None or message.error() else str(message.topic())

    try:
        consumer.subscribe(["^orders-[0-9]+$"])
        for topic in ("orders-1", "orders-2"):
            if topic != "orders-1":
                create_topic(cluster, topic, partitions=1)
            producer.produce(topic, b"x")
            assert producer.flush(60) == 0
            eventually(lambda: next_topic() == topic, 60.0, f"a record of {topic}")  # noqa: B023
    finally:
        consumer.close()


def _type_of(cluster: ProcessCluster) -> str | None:
    (group,) = [one for one in _groups(cluster) if one.group_id == GROUP] or [None]
    return None if group is None else str(group.group_type)


def _groups(cluster: ProcessCluster) -> list[Any]:
    found: list[Any] = []
    for broker in cluster.brokers:
        with SyncClient(cluster.bootstrap) as client:
            found += client.call(broker, ListGroupsRequest()).groups
    return found


def _owners(cluster: ProcessCluster) -> list[int]:
    """How many partitions each member of the group has."""
    coordinator = coordinator_of(cluster, GROUP)
    with SyncClient(cluster.bootstrap) as client:
        answer = client.call(coordinator, ConsumerGroupDescribeRequest(group_ids=[GROUP]))
    (group,) = answer.groups
    return sorted(
        sum(len(topic.partitions) for topic in member.assignment.topic_partitions) for member in group.members
    )
