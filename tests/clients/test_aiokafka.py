"""aiokafka, unmodified, against three processes one of which is killed."""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from odradek.testing.process_cluster import ProcessCluster
from tests.clients.support import (
    PARTITIONS,
    Books,
    create_topic,
    killed_in_the_middle,
    number_in,
    value_of,
)

pytestmark = pytest.mark.process

RECORDS = 6000


async def produce(bootstrap: str, topic: str, books: Books, **options: Any) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **options) as producer:
        sent = []
        for number in range(RECORDS // PARTITIONS):
            if number == 2 * RECORDS // 3 // PARTITIONS:
                await asyncio.to_thread(books.may_end.wait)
            for partition in range(PARTITIONS):
                future = await producer.send(topic, value_of(number), partition=partition)
                future.add_done_callback(lambda done, n=number: _note(books, done, n))
                sent.append(future)
            if number % 4 == 0:
                await asyncio.sleep(0.001)
        await asyncio.gather(*sent, return_exceptions=True)


def _note(books: Books, done: "asyncio.Future[Any]", number: int) -> None:
    error = done.exception()
    if error is not None:
        books.fail(repr(error))
    else:
        metadata = done.result()
        books.acknowledge(metadata.partition, metadata.offset, number)


async def read_all(bootstrap: str, topic: str) -> dict[int, list[tuple[int, int]]]:
    # Not `seek_to_beginning`: the reset to `latest` that assign() has begun may come behind it and win.
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(topic, p) for p in range(PARTITIONS)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        read: dict[int, list[tuple[int, int]]] = {p: [] for p in range(PARTITIONS)}
        async with asyncio.timeout(60):
            while any(len(read[tp.partition]) < end for tp, end in ends.items()):
                for messages in (await consumer.getmany(timeout_ms=500)).values():
                    for message in messages:
                        read[message.partition].append((message.offset, number_in(message.value)))
        return read


@pytest.mark.parametrize(
    "options", [{"acks": "all"}, {"enable_idempotence": True}], ids=["all", "idempotent"]
)
def test_nothing_acknowledged_is_lost_when_a_leader_is_killed(
    cluster: ProcessCluster, options: dict[str, Any]
) -> None:
    create_topic(cluster, "orders")
    books = Books()

    with killed_in_the_middle(cluster, "orders", books, after=RECORDS // 3):
        asyncio.run(produce(cluster.bootstrap, "orders", books, **options))

    assert books.failed == []
    assert books.count == RECORDS
    read = asyncio.run(read_all(cluster.bootstrap, "orders"))
    books.compare(read, exactly_once="enable_idempotence" in options)
