"""The consumer of Java in a group of KIP-848 of ours, and Apache's tool that describes such a group."""

import subprocess
from pathlib import Path

import confluent_kafka

from odradek.testing.process_cluster import ProcessCluster
from tests.clients.support import create_topic, value_of
from tests.interop import apache

TOPIC, GROUP, RECORDS, PARTITIONS = "orders", "java", 300, 3
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def printed(tool: str, *arguments: str) -> str:
    command = apache.java("256m", tool, *arguments)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_java_consumer_joins_by_the_new_protocol_and_goes_on_where_it_was(tmp_path: Path) -> None:
    with ProcessCluster(tmp_path) as cluster:
        create_topic(cluster, TOPIC, partitions=PARTITIONS)
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        read: list[str] = []
        for first in (0, RECORDS):
            for number in range(first, first + RECORDS):
                producer.produce(TOPIC, value_of(number), partition=number % PARTITIONS)
            assert producer.flush(60) == 0
            place = ("--bootstrap-server", cluster.bootstrap, "--topic", TOPIC, "--group", GROUP)
            until = ("--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "60000")
            read += printed(
                CONSUMER, *place, *until, "--consumer-property", "group.protocol=consumer"
            ).split()

        assert sorted(read) == sorted(value_of(number).decode() for number in range(2 * RECORDS))
        described = printed(
            GROUPS, "--bootstrap-server", cluster.bootstrap, "--describe", "--group", GROUP, "--state"
        )
        assert "uniform" in described and "Empty" in described
