"""Clients that say their rack read from the replica there (KIP-392), unmodified, and go on when it or the leader is killed."""

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

from odradek.model.settings import RACK_AWARE_SELECTOR
from odradek.testing.process_cluster import BrokerProcess, ProcessCluster
from tests.clients.support import (
    create_topic,
    is_fully_replicated,
    leader_of,
    number_in,
    retrying,
    value_of,
)

pytestmark = pytest.mark.process

TOPIC = "orders"
RECORDS = 500


def rack_of(broker_id: int) -> str:
    return f"rack-{broker_id}"


class Racks(ProcessCluster):
    """Each broker has a rack of its own."""

    def properties_of(self, broker: BrokerProcess) -> dict[str, str]:
        return {**super().properties_of(broker), "broker.rack": rack_of(broker.broker_id)}


@pytest.fixture
def racks(tmp_path: Path) -> Iterator[Racks]:
    with Racks(tmp_path, brokers=3, settings={"replica.selector.class": RACK_AWARE_SELECTOR}) as running:
        create_topic(running, TOPIC, partitions=1)
        yield running


def produce(cluster: Racks, numbers: range) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    for number in numbers:
        producer.produce(TOPIC, value_of(number), partition=0)
    retrying(lambda: producer.flush(1.0) == 0, "every record is answered")


def follower_of(cluster: Racks) -> int:
    leader = leader_of(cluster, TOPIC)
    return next(broker_id for broker_id in cluster.brokers if broker_id != leader)


class Reader:
    """librdkafka's consumer, and from which broker it fetches by its own statistics."""

    def __init__(self, cluster: Racks, rack: str) -> None:
        self.fetches_from = -1
        self.read: list[int] = []
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "none",
                "client.rack": rack,
                "statistics.interval.ms": 50,
                "stats_cb": self._told,
                "reconnect.backoff.max.ms": 500,
            }
        )
        self.consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])

    def _told(self, text: str) -> None:
        partitions = json.loads(text)["topics"].get(TOPIC, {"partitions": {}})["partitions"]
        self.fetches_from = partitions.get("0", {"broker": -1})["broker"]

    def read_from(self, broker: int | None, count: int) -> None:
        """Reads until it has that many, and then until it fetches from `broker`."""

        def is_there() -> bool:
            for message in self.consumer.consume(500, timeout=0.1):
                assert message.error() is None, message.error()
                self.read.append(number_in(message.value()))
            return len(self.read) >= count and broker in (None, self.fetches_from)

        retrying(is_there, f"{count} records, from broker {broker}")
        assert self.read == list(range(count))


def test_librdkafka_reads_from_the_replica_in_its_rack_and_goes_on_when_that_or_the_leader_is_killed(
    racks: Racks,
) -> None:
    near = follower_of(racks)
    produce(racks, range(RECORDS))
    reader = Reader(racks, rack_of(near))
    try:
        reader.read_from(near, RECORDS)

        racks.kill(near)
        produce(racks, range(RECORDS, 2 * RECORDS))
        reader.read_from(leader_of(racks, TOPIC), 2 * RECORDS)

        racks.restart(near)
        racks.wait_until(lambda: is_fully_replicated(racks, TOPIC), "every ISR is full", deadline_s=60)
        produce(racks, range(2 * RECORDS, 3 * RECORDS))
        reader.read_from(near, 3 * RECORDS)

        if leader_of(racks, TOPIC) != near:
            racks.kill(leader_of(racks, TOPIC))
        produce(racks, range(3 * RECORDS, 4 * RECORDS))
        reader.read_from(None, 4 * RECORDS)
    finally:
        reader.consumer.close()


def test_librdkafka_reads_from_the_leader_where_no_replica_is_in_its_rack(racks: Racks) -> None:
    produce(racks, range(RECORDS))
    reader = Reader(racks, "elsewhere")
    try:
        reader.read_from(leader_of(racks, TOPIC), RECORDS)
    finally:
        reader.consumer.close()


def test_kafka_python_reads_what_the_replica_in_its_rack_gives(
    racks: Racks, caplog: pytest.LogCaptureFixture
) -> None:
    """3.0.12 takes an answer that names no replica, as a follower's, for a word to go back to the leader, with any broker: it
    asks both in turn, and only the follower gives records."""
    near = follower_of(racks)
    produce(racks, range(RECORDS))
    caplog.set_level(logging.DEBUG, "kafka.consumer.fetcher")
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=racks.bootstrap, client_rack=rack_of(near), consumer_timeout_ms=30_000
    )
    try:
        partition = kafka.TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        read = [number_in(next(consumer).value) for _ in range(RECORDS)]
    finally:
        consumer.close()
    assert read == list(range(RECORDS))
    assert f"Updating preferred read replica for partition {partition} to {near}" in caplog.messages


def test_aiokafka_reads_from_the_replica_in_its_rack(racks: Racks) -> None:
    near = follower_of(racks)
    produce(racks, range(RECORDS))

    async def run() -> tuple[list[int], Any]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=racks.bootstrap, client_rack=rack_of(near))
        async with consumer:
            partition = aiokafka.TopicPartition(TOPIC, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            read = [number_in((await consumer.getone()).value) for _ in range(RECORDS)]
            return read, consumer._fetcher._select_read_replica(partition)

    assert asyncio.run(asyncio.wait_for(run(), 60)) == (list(range(RECORDS)), near)
