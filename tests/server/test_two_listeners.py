"""Brokers that talk over a listener of their own, and clients over another, as where an address is behind NAT."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.model.ids import TopicPartition
from odradek.testing.running_cluster import LocalCluster, RunningCluster, running_cluster

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    settings = {
        "listeners": "OUTSIDE://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "listener.security.protocol.map": "OUTSIDE:PLAINTEXT,INSIDE:PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    with running_cluster(brokers=2, settings=settings, directory=tmp_path) as running:
        yield running


def ports(cluster: LocalCluster, listener: str) -> dict[int, int]:
    return {
        broker: endpoint.port
        for broker, runtime in cluster.runtimes.items()
        for endpoint in runtime.endpoints
        if endpoint.listener == listener
    }


async def is_in_sync(cluster: LocalCluster, *, isr: int) -> None:
    def holds() -> bool:
        partitions = [r.broker.replicas.partitions.get(ORDERS) for r in cluster.runtimes.values()]
        return any(p is not None and p.is_leader and len(p.isr) == isr for p in partitions)

    await cluster.until(holds, f"{isr} replicas are in sync")


@pytest.mark.parametrize("listener", ["OUTSIDE", "INSIDE"])
def test_clients_are_told_the_addresses_of_the_listener_they_came_over(
    cluster: RunningCluster, listener: str
) -> None:
    here = ports(cluster.cluster, listener)
    bootstrap = f"127.0.0.1:{here[1]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("orders", 1, 2)])["orders"].result(30)
    assert {broker.id: broker.port for broker in admin.list_topics(timeout=30).brokers.values()} == here
    nodes = admin.describe_cluster().result(30).nodes
    assert {node.id: node.port for node in nodes} == here

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(100):
        producer.produce("orders", str(number).encode())
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    seen = []
    while len(seen) < 100:
        message = consumer.poll(30)
        assert message is not None and message.error() is None, message and message.error()
        seen.append(int(message.value()))
    consumer.close()
    assert seen == list(range(100))
    cluster.call(is_in_sync(cluster.cluster, isr=2))


def test_clients_that_take_every_place_keep_no_follower_away(cluster: RunningCluster) -> None:
    """KIP-402. The follower dies, clients take all that may be open, and it comes back into the ISR all the same."""
    outside = ports(cluster.cluster, "OUTSIDE")
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{outside[1]}"})
    admin.create_topics([NewTopic("orders", 1, replica_assignment=[[1, 2]])])["orders"].result(30)
    cluster.call(is_in_sync(cluster.cluster, isr=2))
    cluster.kill(2)
    leader = cluster.cluster.runtimes[1]

    async def limit() -> None:
        assert leader.parts is not None
        limited = cluster.cluster.settings_of(1).with_changes({"max.connections": "20"})
        leader.parts.gateway.settings_changed(limited)

    async def one_is_refused() -> None:
        await cluster.cluster.until(lambda: leader.metrics.connections_refused >= 1, "every place is taken")

    cluster.call(limit())
    with ExitStack() as clients:
        for _ in range(30):
            clients.enter_context(socket.create_connection(("127.0.0.1", outside[1])))
        cluster.call(one_is_refused())
        cluster.start(2)
        cluster.call(is_in_sync(cluster.cluster, isr=2))
