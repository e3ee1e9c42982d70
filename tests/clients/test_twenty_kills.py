"""Twenty leaders killed in a row under load: every acknowledged record is there, in order, once."""

from pathlib import Path

import pytest

from odradek.testing.process_cluster import ProcessCluster
from tests.clients.load import Load
from tests.clients.support import Books, create_topic, is_fully_replicated, leader_of
from tests.clients.test_confluent_kafka import read_all

pytestmark = [pytest.mark.process, pytest.mark.slow]

KILLS = 20
PARTITIONS = 6
RECORDS_PER_SECOND = 3000
BETWEEN_KILLS = 500  # acknowledgements: how fast they come is the machine's
MOST_AHEAD = 30_000  # records without an answer; librdkafka holds 100,000


def test_twenty_leaders_killed_in_a_row_lose_nothing(tmp_path: Path) -> None:
    books = Books()
    with ProcessCluster(tmp_path, brokers=3) as cluster:
        create_topic(cluster, "orders", partitions=PARTITIONS, min_insync_replicas=2)
        load = Load(
            cluster.bootstrap,
            "orders",
            books,
            partitions=PARTITIONS,
            records_per_second=RECORDS_PER_SECOND,
            may_go_on=lambda: load.in_flight < MOST_AHEAD,
        )
        load.start()
        try:
            for kill in range(KILLS):
                wanted = books.count + BETWEEN_KILLS
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
        assert books.count == load.sent >= KILLS * BETWEEN_KILLS
        books.compare(read_all(cluster.bootstrap, "orders", PARTITIONS), exactly_once=True)
