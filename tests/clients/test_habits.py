"""Habits of clients that a coordinator has to bear: transactions without a record, members that leave before they have
joined, and one group of clients that speak different versions."""

import asyncio
import logging
import re
import socket
import threading
from collections.abc import Callable
from functools import partial

import aiokafka
import confluent_kafka
import kafka
import pytest

from odradek.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from odradek.testing.process_cluster import ProcessCluster
from tests.client.support import ScriptedBroker
from tests.clients.support import create_topic, value_of
from tests.clients.test_groups import TOPIC, Reads, aio, confluent, kafka_python
from tests.support import eventually

pytestmark = pytest.mark.process

PARTITIONS = 6
# Long enough for a member to leave before it has joined.
SETTINGS = {"group.initial.rebalance.delay.ms": "1000"}


# ------------------------------------------------------------------------- transactions without a record


def confluent_transactions(bootstrap: str, topic: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "idle-confluent"}
    )
    producer.init_transactions(60)
    for end in (producer.abort_transaction, producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        end(30)
    producer.begin_transaction()
    producer.produce(topic, b"after", partition=0)
    producer.commit_transaction(30)


def kafka_python_transactions(bootstrap: str, topic: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap.split(","), transactional_id="idle-python")
    producer.init_transactions()
    for end in (producer.abort_transaction, producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        end()
    producer.begin_transaction()
    producer.send(topic, b"after", partition=0)
    producer.commit_transaction()
    producer.close(30)


def aio_transactions(bootstrap: str, topic: str) -> None:
    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="idle-aio")
        async with producer:
            for end in (producer.abort_transaction, producer.commit_transaction, producer.abort_transaction):
                await producer.begin_transaction()
                await end()
            async with producer.transaction():
                await producer.send(topic, b"after", partition=0)

    asyncio.run(run())


@pytest.mark.parametrize(
    "transactions", [confluent_transactions, kafka_python_transactions, aio_transactions]
)
def test_transactions_without_a_record_end_and_the_next_one_counts(
    cluster: ProcessCluster, transactions: Callable[[str, str], None]
) -> None:
    topic = transactions.__name__
    create_topic(cluster, topic, partitions=1)
    transactions(cluster.bootstrap, topic)
    options = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "none",
        "isolation.level": "read_committed",
    }
    consumer = confluent_kafka.Consumer(options)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    message = eventually(lambda: consumer.poll(0.5), 30.0, "the record is committed")
    assert message is not None and message.error() is None and message.value() == b"after"
    consumer.close()


# --------------------------------------------------------------------------------- groups and their members


class AfterOnePoll(threading.Event):
    """Set when it is looked at for the second time."""

    def __init__(self) -> None:
        super().__init__()
        self._is_over = False

    def is_set(self) -> bool:
        self._is_over, was_over = True, self._is_over
        return was_over


LONG_MS = 240_000  # of a session; clients allow what is shorter than max.poll.interval.ms


@pytest.mark.parametrize(
    "read",
    [
        partial(confluent, more={"session.timeout.ms": LONG_MS}),
        partial(kafka_python, session_timeout_ms=LONG_MS),
        partial(aio, session_timeout_ms=LONG_MS),
    ],
    ids=["confluent", "kafka_python", "aio"],
)
def test_a_member_that_leaves_before_it_has_joined_keeps_nobody_waiting(
    cluster: ProcessCluster, read: Reads
) -> None:
    """Its id is pending until it leaves or its session ends, and a join waits for pending ids: here for longer than any machine is
    slow."""
    create_topic(cluster, TOPIC, partitions=PARTITIONS)
    for _ in range(3):
        read(cluster.bootstrap, lambda partition, offset, number: None, AfterOnePoll())
    _reads_all(cluster, [read], within_s=LONG_MS / 1000 / 2)


def test_one_group_of_three_clients_shares_the_partitions_by_the_protocol_all_of_them_know(
    cluster: ProcessCluster,
) -> None:
    """Each speaks JoinGroup and SyncGroup in a version of its own and brings its own list of assignors."""
    create_topic(cluster, TOPIC, partitions=PARTITIONS)
    readers = _reads_all(cluster, [confluent, kafka_python, aio], within_s=90.0)
    assert sorted(len(partitions) for partitions in readers) == [2, 2, 2]


def _reads_all(cluster: ProcessCluster, reads: list[Reads], *, within_s: float) -> list[set[int]]:
    """Each member's partitions, when each has its share and every record was read."""
    stop = threading.Event()
    shares = [set[int]() for _ in reads]
    numbers: set[int] = set()
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    sent = 0

    def seen_by(share: set[int]) -> Callable[[int, int, int], None]:
        def seen(partition: int, offset: int, number: int) -> None:
            share.add(partition)
            numbers.add(number)

        return seen

    def write() -> None:
        nonlocal sent
        for number in range(sent, sent + 10 * PARTITIONS):
            producer.produce(TOPIC, value_of(number), partition=number % PARTITIONS)
        assert producer.flush(60) == 0
        sent += 10 * PARTITIONS

    threads = [
        threading.Thread(target=read, args=(cluster.bootstrap, seen_by(share), stop))
        for read, share in zip(reads, shares, strict=True)
    ]

    def is_shared() -> bool:
        """From one look to the next: who had all partitions before the others came has fewer now."""
        for share in shares:
            share.clear()
        write()
        try:
            eventually(lambda: sum(map(len, shares)) >= PARTITIONS, 10.0)
        except AssertionError:
            return False
        return all(len(share) == PARTITIONS // len(reads) for share in shares)

    for thread in threads:
        thread.start()
    try:
        eventually(is_shared, within_s, "each has its share")
        eventually(lambda: numbers == set(range(sent)), 30.0, "every record is read")
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    return shares


# ------------------------------------------------------------------------- pauses before the next connection


class OfAGoneLeader(ScriptedBroker):
    """Says that broker 2 leads, whose address refuses every connection."""

    def __init__(self, port_of_leader: int) -> None:
        super().__init__()
        self.partitions["orders"] = [2]
        self._port_of_leader = port_of_leader

    def metadata(self) -> MetadataResponse:
        answer = super().metadata()
        answer.brokers.append(MetadataResponseBroker(node_id=2, host="127.0.0.1", port=self._port_of_leader))
        return answer


def pauses_of_a_producer(options: dict[str, object], is_enough: Callable[[list[int]], bool]) -> list[int]:
    """Milliseconds that librdkafka says it waits before it connects again to a leader that refuses it."""
    pauses: list[int] = []

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            pauses.extend(map(int, re.findall(r"Delaying next reconnect by (\d+)ms", record.getMessage())))

    logger = logging.Logger("librdkafka", logging.DEBUG)
    logger.addHandler(Heard())
    with socket.socket() as refuses:  # bound, and nobody listens
        refuses.bind(("127.0.0.1", 0))
        with OfAGoneLeader(refuses.getsockname()[1]) as broker:
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": broker.address, "debug": "broker", "logger": logger, **options}
            )
            producer.produce("orders", b"one", partition=0)

            def enough() -> bool:
                producer.poll(0.05)  # what it has to say it says here
                return is_enough(pauses)

            eventually(enough, 60, "pauses before the next connection")
            producer.purge()
    return pauses


def test_librdkafka_waits_for_seconds_before_it_tries_a_broker_that_was_gone_unless_told_otherwise() -> None:
    """A broker that is back and leads again is out of reach for its clients for so long, whoever's broker it is."""
    pauses_of_a_producer({}, lambda pauses: max(pauses, default=0) > 1_000)
    pauses = pauses_of_a_producer({"reconnect.backoff.max.ms": 500}, lambda pauses: len(pauses) >= 5)
    assert max(pauses) <= 500
