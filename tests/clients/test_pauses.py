"""A leader that is stopped and goes on later believes that it leads. It must not acknowledge what it cannot keep."""

import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer

from odradek.testing.process_cluster import ProcessCluster
from tests.clients.support import (
    Books,
    create_topic,
    is_fully_replicated,
    leader_of,
    retrying,
    value_of,
)
from tests.clients.test_confluent_kafka import read_all

pytestmark = [pytest.mark.process, pytest.mark.slow]

SETTINGS = {"zookeeper.session.timeout.ms": "2000"}
PARTITIONS = 3


def test_a_leader_paused_beyond_its_session_loses_nothing(tmp_path: Path) -> None:
    books = Books()
    with ProcessCluster(tmp_path, brokers=3, settings=SETTINGS) as cluster:
        create_topic(cluster, "orders", partitions=PARTITIONS)
        stop = threading.Event()
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                # Learns of the new leader though the old one still holds its connection.
                "topic.metadata.refresh.interval.ms": 300,
                "request.timeout.ms": 3000,
                "socket.timeout.ms": 5000,
            }
        )

        def told(number: int) -> Any:
            def on_delivery(error: KafkaError | None, message: Message) -> None:
                if error is not None:
                    books.fail(str(error))
                else:
                    books.acknowledge(message.partition(), message.offset(), number)

            return on_delivery

        def load() -> None:
            number = 0
            while not stop.is_set():
                for partition in range(PARTITIONS):
                    producer.produce(
                        "orders", value_of(number), partition=partition, on_delivery=told(number)
                    )
                number += 1
                producer.poll(0.005)

        thread = threading.Thread(target=load, name="load")
        thread.start()
        try:
            cluster.wait_until(lambda: books.count > 500, "acknowledgements flow")
            paused = leader_of(cluster, "orders")
            cluster.brokers[paused].signal(signal.SIGSTOP)
            begun = time.monotonic()
            try:
                alive = ",".join(b.address for b in cluster.brokers.values() if b.broker_id != paused)
                cluster.wait_until(
                    lambda: leader_beside(alive, paused) not in (-1, paused), "another one leads", 30
                )
                elected_after_s = time.monotonic() - begun
                before = books.count
                cluster.wait_until(lambda: books.count > before + 500, "acknowledgements flow again", 60)
            finally:
                cluster.brokers[paused].signal(signal.SIGCONT)
            cluster.wait_until(lambda: is_fully_replicated(cluster, "orders"), "every ISR is full again", 60)
        finally:
            stop.set()
            thread.join()
        retrying(lambda: producer.flush(1.0) == 0, "every record is answered")

        assert elected_after_s >= 1.0, "a paused process holds its session until the timeout"
        assert books.failed == []
        books.compare(read_all(cluster.bootstrap, "orders", PARTITIONS), exactly_once=True)


def leader_beside(bootstrap: str, paused: int) -> int:
    from odradek.client.sync import SyncClient
    from odradek.model.errors import OdradekError

    try:
        with SyncClient(bootstrap, bootstrap_timeout_s=2, request_timeout_s=2) as client:
            view = client.cluster(["orders"]).topics["orders"]
    except (OdradekError, KeyError):
        return -1
    leaders = {p.leader for p in view.partitions.values()}
    return paused if paused in leaders else next(iter(leaders))
