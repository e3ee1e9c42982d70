"""Java's consumers in groups of ours, by both protocols, and Apache's tool that describes such a group."""

import json
import subprocess
from collections import defaultdict
from pathlib import Path

import confluent_kafka
import pytest

from odradek.testing.process_cluster import ProcessCluster
from tests.clients.exactly_once import Supervised
from tests.clients.support import coordinator_of, create_topic, value_of
from tests.interop import apache
from tests.support import eventually

TOPIC, GROUP, RECORDS, PARTITIONS = "orders", "java", 300, 3
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
VERIFIABLE = "org.apache.kafka.tools.VerifiableConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def printed(version: str, tool: str, *arguments: str) -> str:
    command = apache.java("256m", tool, *arguments, version=version)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def produce(cluster: ProcessCluster, first: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(first, first + RECORDS):
        producer.produce(TOPIC, value_of(number), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("version", apache.VERSIONS)
def test_a_java_consumer_joins_by_the_new_protocol_and_goes_on_where_it_was(
    tmp_path: Path, version: str
) -> None:
    apache.skip_without(version)
    with ProcessCluster(tmp_path) as cluster:
        create_topic(cluster, TOPIC, partitions=PARTITIONS)
        read: list[str] = []
        for first in (0, RECORDS):
            produce(cluster, first)
            place = ("--bootstrap-server", cluster.bootstrap, "--topic", TOPIC, "--group", GROUP)
            until = ("--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "60000")
            read += printed(
                version, CONSUMER, *place, *until, "--consumer-property", "group.protocol=consumer"
            ).split()

        assert sorted(read) == sorted(value_of(number).decode() for number in range(2 * RECORDS))
        described = printed(
            version,
            GROUPS,
            "--bootstrap-server",
            cluster.bootstrap,
            "--describe",
            "--group",
            GROUP,
            "--state",
            *("--timeout", "60000"),  # 5 s by default
        )
        assert "uniform" in described and "Empty" in described


class Verifiable:
    """A VerifiableConsumer: it commits what it has read, and tells of both in lines of JSON."""

    def __init__(self, cluster: ProcessCluster, name: str, version: str, protocol: str) -> None:
        self._log = cluster.directory / f"{name}.log"
        command = apache.java(
            "128m",
            VERIFIABLE,
            *("--bootstrap-server", cluster.bootstrap, "--topic", TOPIC, "--group-id", GROUP),
            *("--reset-policy", "earliest", "--group-protocol", protocol),
            version=version,
        )
        self.process = Supervised(command, self._log)
        self.process.keep()

    def events(self, name: str) -> list[dict[str, object]]:
        rows = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
        return [row for row in rows if row["name"] == name]

    def has_partitions(self) -> bool:
        """Assignments are told as what is added: the first is of nothing where another member has yet to give some up."""
        return any(event["partitions"] for event in self.events("partitions_assigned"))

    def read(self) -> dict[int, set[int]]:
        """Partition -> offsets."""
        found = defaultdict(set)
        for event in self.events("records_consumed"):
            for part in event["partitions"]:
                found[part["partition"]].update(range(part["minOffset"], part["maxOffset"] + 1))
        return found


@pytest.mark.parametrize("version", apache.VERSIONS)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_verifiable_consumers_skip_nothing_when_their_coordinator_is_killed(
    tmp_path: Path, version: str, protocol: str
) -> None:
    apache.skip_without(version)
    with ProcessCluster(tmp_path) as cluster:
        create_topic(cluster, TOPIC, partitions=PARTITIONS)
        members = [Verifiable(cluster, name, version, protocol) for name in ("first", "second")]

        def has_read(count: int) -> bool:
            read = defaultdict(set)
            for member in members:
                for partition, offsets in member.read().items():
                    read[partition] |= offsets
            return all(read[partition] == set(range(count // PARTITIONS)) for partition in range(PARTITIONS))

        try:
            eventually(
                lambda: all(member.has_partitions() for member in members), 60.0, "both have partitions"
            )
            produce(cluster, 0)
            eventually(lambda: has_read(RECORDS), 60.0, "the first half is read")
            cluster.kill(coordinator_of(cluster, GROUP))
            produce(cluster, RECORDS)
            eventually(lambda: has_read(2 * RECORDS), 90.0, "all of it is read")
            committed = members[0].events("offsets_committed") + members[1].events("offsets_committed")
            assert committed and all(len(member.read()) > 0 for member in members)
        finally:
            for member in members:
                member.process.kill()
