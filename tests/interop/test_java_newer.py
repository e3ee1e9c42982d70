"""What Apache Kafka 4's clients ask that 3.9's do not: `transaction.version`, and topics described page by page."""

import subprocess
from pathlib import Path

import pytest

from odradek.client.sync import SyncClient
from odradek.testing.process_cluster import ProcessCluster
from tests.clients.support import create_topic
from tests.clients.version_2 import finalised_level
from tests.interop import apache
from tests.support import eventually

PARTITIONS = 7


def tool(name: str, cluster: ProcessCluster, *arguments: str) -> str:
    command = apache.java(
        "96m",
        f"org.apache.kafka.tools.{name}",
        "--bootstrap-server",
        cluster.bootstrap,
        *arguments,
        version=apache.NEWER_VERSION,
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr


@pytest.fixture
def cluster(tmp_path: Path) -> "ProcessCluster":  # type: ignore[misc]
    apache.skip_without(apache.NEWER_VERSION)
    with ProcessCluster(tmp_path, brokers=3) as running:
        yield running


def test_topics_are_described_page_by_page(cluster: ProcessCluster) -> None:
    for topic in ("orders", "invoices"):
        create_topic(cluster, topic, partitions=PARTITIONS)

    said = tool("TopicCommand", cluster, "--describe", "--partition-size-limit-per-response", "3")

    for topic in ("orders", "invoices"):
        rows = [line.split() for line in said.splitlines() if line.startswith(f"\tTopic: {topic}\t")]
        assert [int(row[3]) for row in rows] == list(range(PARTITIONS)), said


def test_a_level_of_transactions_is_lowered_and_raised(cluster: ProcessCluster) -> None:
    with SyncClient(cluster.bootstrap) as client:

        def levels() -> set[int]:
            return {finalised_level(client, broker) for broker in cluster.brokers}

        eventually(lambda: levels() == {2}, 30.0, "a new cluster begins with it")
        assert "transaction.version" in tool("FeatureCommand", cluster, "describe")

        said = tool("FeatureCommand", cluster, "downgrade", "--feature", "transaction.version=0")
        eventually(lambda: levels() == {0}, 30.0, f"it is taken out: {said}")

        said = tool("FeatureCommand", cluster, "upgrade", "--feature", "transaction.version=2")
        eventually(lambda: levels() == {2}, 30.0, f"it is in force again: {said}")
        assert "not supported" in tool("FeatureCommand", cluster, "upgrade", "--feature", "group.version=1")
