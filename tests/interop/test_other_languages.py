"""Clients in Go and in JavaScript: franz-go, Sarama and KafkaJS, while leaders, coordinators and they are killed."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek.testing.process_cluster import ProcessCluster
from tests.clients.exactly_once import arguments, comes_out_once
from tests.clients.programs import reader, write
from tests.clients.support import PARTITIONS, Books, create_topic, killed_in_the_middle
from tests.clients.test_confluent_kafka import read_all
from tests.clients.test_groups import GROUP, TOPIC, goes_on_where_it_was
from tests.interop.languages import franz_go, kafkajs, sarama

Program = Callable[[], list[str]]
RECORDS = 6_000
KILLS = int(os.environ.get("ODRADEK_KILLS", "3"))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path) as running:
        yield running


@pytest.mark.parametrize(("program", "is_idempotent"), [(franz_go, True), (sarama, False), (kafkajs, False)])
def test_nothing_acknowledged_is_lost_when_a_leader_is_killed(
    cluster: ProcessCluster, program: Program, is_idempotent: bool
) -> None:
    command = [*program(), "produce", cluster.bootstrap, TOPIC, str(PARTITIONS), str(RECORDS // PARTITIONS)]
    create_topic(cluster, TOPIC)
    books = Books()

    with killed_in_the_middle(cluster, TOPIC, books, after=RECORDS // 3):
        write(command, books)

    assert books.count == RECORDS
    books.compare(read_all(cluster.bootstrap, TOPIC), exactly_once=is_idempotent)


@pytest.mark.parametrize(
    ("program", "protocol"),
    [(franz_go, "classic"), (franz_go, "consumer"), (sarama, "classic"), (kafkajs, "classic")],
)
def test_a_group_goes_on_where_it_was_when_its_coordinator_is_killed(
    cluster: ProcessCluster, program: Program, protocol: str
) -> None:
    command = program()
    goes_on_where_it_was(
        cluster, reader(lambda bootstrap: [*command, "member", bootstrap, TOPIC, GROUP, protocol])
    )


@pytest.mark.parametrize("program", [franz_go, sarama, kafkajs])
def test_each_record_comes_out_once_whoever_is_killed(cluster: ProcessCluster, program: Program) -> None:
    lives = comes_out_once(cluster, [*program(), "transform", *arguments(cluster.bootstrap)], kills=KILLS)
    assert lives >= 2
