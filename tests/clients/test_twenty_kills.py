"""Twenty leaders killed in a row under load: every acknowledged record is there, in order, once."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer

from odradek.testing.process_cluster import ProcessCluster
from tests.clients.support import Books, create_topic, is_fully_replicated, leader_of, retrying, value_of
from tests.clients.test_confluent_kafka import read_all

pytestmark = [pytest.mark.process, pytest.mark.slow]

KILLS = 20
PARTITIONS = 6
RECORDS_PER_SECOND = 3000
AT_LEAST_PER_SECOND = 2000


class Load:
    """An idempotent producer at a steady pace, in a thread of its own, until it is told to stop."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        books: Books,
        *,
        partitions: int = PARTITIONS,
        records_per_second: int = RECORDS_PER_SECOND,
    ) -> None:
        self._partitions = partitions
        self._records_per_second = records_per_second
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2}
        )
        self._topic = topic
        self._books = books
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self.sent = 0
        self.sending_s = 0.0
        self.error: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        if self.error is not None:
            raise self.error
        retrying(lambda: self._producer.flush(1.0) == 0, "every record is answered")

    def abandon(self) -> None:
        """The test has failed: nobody waits for what is on its way."""
        self._stop.set()
        self._thread.join()
        self._producer.purge()

    @property
    def in_flight(self) -> int:
        return self.sent - self._books.count

    def _run(self) -> None:
        try:
            begun = time.monotonic()
            number = 0
            while not self._stop.is_set():
                due = int((time.monotonic() - begun) * self._records_per_second) // self._partitions
                while number < due:
                    for partition in range(self._partitions):
                        self._producer.produce(
                            self._topic,
                            value_of(number),
                            partition=partition,
                            on_delivery=self._told(number),
                        )
                        self.sent += 1
                    number += 1
                self._producer.poll(0.002)
            self.sending_s = time.monotonic() - begun
        except BaseException as error:
            self.error = error

    def _told(self, number: int) -> Any:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._books.fail(str(error))
            else:
                self._books.acknowledge(message.partition(), message.offset(), number)

        return on_delivery


def test_twenty_leaders_killed_in_a_row_lose_nothing(tmp_path: Path) -> None:
    books = Books()
    with ProcessCluster(tmp_path, brokers=3) as cluster:
        create_topic(cluster, "orders", partitions=PARTITIONS, min_insync_replicas=2)
        load = Load(cluster.bootstrap, "orders", books)
        load.start()
        try:
            for kill in range(KILLS):
                wanted = books.count + 500
                cluster.wait_until(
                    lambda wanted=wanted: books.count >= wanted,
                    "acknowledgements flow",
                    deadline_s=90,
                    pause_s=0.005,
                )
                victim = leader_of(cluster, "orders", kill % PARTITIONS)
                cluster.wait_until(lambda: load.in_flight > 0, "requests are in flight", pause_s=0)
                cluster.kill(victim)
                cluster.restart(victim, wait=False)
                cluster.wait_until(
                    lambda: is_fully_replicated(cluster, "orders"),
                    f"every ISR is full after kill {kill + 1}",
                    deadline_s=90,
                )
        finally:
            load.stop()

        assert books.failed == []
        assert books.count == load.sent
        assert load.sent / load.sending_s >= AT_LEAST_PER_SECOND
        books.compare(read_all(cluster.bootstrap, "orders", PARTITIONS), exactly_once=True)
