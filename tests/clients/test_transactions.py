"""Consume, transform, produce, exactly once: offsets and records in one transaction, with the clients' default settings,
while the leader of a partition and the coordinator of the transactions are killed with `kill -9`."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import aiokafka
import confluent_kafka
import pytest
from aiokafka.errors import KafkaError

from odradek.client.sync import ANY, SyncClient
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest
from odradek.testing.process_cluster import ProcessCluster
from tests.clients.support import create_topic, leader_of, number_in, value_of
from tests.support import eventually

pytestmark = pytest.mark.process

SOURCE, TARGET, GROUP, ID = "orders", "invoices", "billing", "billing-1"
PARTITIONS = 3
RECORDS = 600
MOST_ROUNDS = 400
Done = Callable[[int], bool]  # told how many records this transaction had; whether all is done


class Transforms(Protocol):
    """Moves what is in SOURCE to TARGET, some records a transaction, until `done` says so."""

    def __call__(self, bootstrap: str, done: Done) -> None: ...


def confluent(bootstrap: str, done: Done) -> None:
    def begun() -> tuple[confluent_kafka.Consumer, confluent_kafka.Producer]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([SOURCE])
        producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": ID})
        producer.init_transactions(60)
        return consumer, producer

    consumer, producer = begun()
    for _ in range(MOST_ROUNDS):
        messages = [one for one in consumer.consume(20, timeout=1.0) if one.error() is None]
        try:
            if messages:
                producer.begin_transaction()
                for message in messages:
                    producer.produce(TARGET, message.value(), partition=message.partition())
                positions = consumer.position(consumer.assignment())
                producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
                producer.commit_transaction(60)
        except confluent_kafka.KafkaException:
            # Whatever it was: what is open is fenced by the next life, which reads on from what was committed.
            consumer.close()
            consumer, producer = begun()
            continue
        if done(len(messages)):
            consumer.close()
            return
    raise AssertionError("it never came to the end")


def aio(bootstrap: str, done: Done) -> None:
    async def one_life() -> bool:
        consumer = aiokafka.AIOKafkaConsumer(
            SOURCE,
            bootstrap_servers=bootstrap,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=ID)
        async with consumer:
            await producer.start()
            try:
                for _ in range(MOST_ROUNDS):
                    found = await consumer.getmany(timeout_ms=1_000, max_records=20)
                    messages = [one for some in found.values() for one in some]
                    if messages:
                        async with producer.transaction():
                            for message in messages:
                                await producer.send_and_wait(
                                    TARGET, message.value, partition=message.partition
                                )
                            offsets = {place: some[-1].offset + 1 for place, some in found.items()}
                            await producer.send_offsets_to_transaction(offsets, GROUP)
                    if done(len(messages)):
                        return True
            finally:
                await producer.stop()
        raise AssertionError("it never came to the end")

    async def lives() -> None:
        for _ in range(20):
            try:
                if await one_life():
                    return
            except KafkaError:
                continue
        raise AssertionError("no life came to the end")

    asyncio.run(lives())


def coordinator_of_transactions(cluster: ProcessCluster) -> int | None:
    with SyncClient(cluster.bootstrap) as client:
        answer = client.call(ANY, FindCoordinatorRequest(coordinator_keys=[ID], key_type=1))
    (row,) = answer.coordinators
    return None if row.error_code else int(row.node_id)


@pytest.mark.parametrize("transform", [confluent, aio])
@pytest.mark.parametrize("victim", ["leader", "coordinator"])
def test_each_record_comes_out_once_though_a_broker_is_killed_in_the_middle(
    cluster: ProcessCluster, transform: Transforms, victim: str
) -> None:
    for topic in (SOURCE, TARGET):
        create_topic(cluster, topic, partitions=PARTITIONS)
    source = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(RECORDS):
        source.produce(SOURCE, value_of(number), partition=number % PARTITIONS)
    assert source.flush(60) == 0
    moved = 0
    killed: list[int] = []

    def done(count: int) -> bool:
        nonlocal moved
        moved += count
        if not killed and moved >= RECORDS // 3:
            found = leader_of(cluster, TARGET) if victim == "leader" else coordinator_of_transactions(cluster)
            assert found is not None
            killed.append(found)
            cluster.kill(found)
        return moved >= RECORDS and count == 0

    transform(cluster.bootstrap, done)

    assert killed
    seen = Counter(_read_committed(cluster, RECORDS))
    assert sorted(seen) == list(range(RECORDS)), "none is lost"
    assert set(seen.values()) == {1}, "and none is there twice"


def _read_committed(cluster: ProcessCluster, count: int) -> list[int]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "auditors",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([TARGET])
    found: list[int] = []
    silent = 0

    def has_all() -> bool:
        nonlocal silent
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            found.append(number_in(message.value()))
            silent = 0
        elif len(found) >= count:
            silent += 1
        return silent >= 4  # what is too much would follow at once

    try:
        eventually(has_all, 90.0, "all of it is read")
    finally:
        consumer.close()
    return found
