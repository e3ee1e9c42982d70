"""The word count of Kafka Streams with exactly_once_v2, while it and the coordinators are killed.

Every word counted makes a record with its count, so of each word exactly 1, 2, 3, ... must come out, in this order.
"""

from collections import Counter
from pathlib import Path

import confluent_kafka
import pytest

from odradek.testing.process_cluster import ProcessCluster
from tests.clients.exactly_once import GROUP, PARTITIONS, SOURCE, TARGET, Audit, running
from tests.clients.support import create_topic
from tests.interop import apache

LINES = 400  # between two kills
WORDS = ("ox", "bee", "crow", "newt", "mole", "lark", "moth")


def line(number: int) -> str:
    return " ".join(WORDS[(number * step) % len(WORDS)] for step in (1, 2, 5))


class Words(Audit):
    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, TARGET)
        self.counts: Counter[str] = Counter()

    def take(self, message: confluent_kafka.Message) -> None:
        word, count = message.key().decode(), int.from_bytes(message.value(), "big")
        self.counts[word] += 1
        assert count == self.counts[word], f"{word} is counted {count} where {self.counts[word]} is next"


@pytest.mark.parametrize("version", apache.VERSIONS)
def test_a_word_count_counts_each_word_once_whoever_is_killed(tmp_path: Path, version: str) -> None:
    apache.skip_without(version)
    program = str(apache.HERE / "tools" / "WordCount.java")
    with ProcessCluster(tmp_path / "cluster") as cluster:
        for topic in (SOURCE, TARGET):
            create_topic(cluster, topic, partitions=PARTITIONS)
        command = apache.java(
            "192m",
            program,
            *(cluster.bootstrap, SOURCE, TARGET, GROUP, str(tmp_path / "state")),
            version=version,
        )
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        wanted: Counter[str] = Counter()
        sent = 0
        with running(cluster, command, audit := Words(cluster.bootstrap)) as trial:

            def write() -> None:
                nonlocal sent
                for number in range(sent, sent + LINES):
                    producer.produce(SOURCE, line(number), partition=number % PARTITIONS)
                    wanted.update(line(number).split())
                assert producer.flush(60) == 0
                sent += LINES

            write()
            trial.comes_out(LINES // 4)
            for kill in (trial.kill_loop, trial.kill_leader, trial.kill_coordinator_of_group):
                write()
                trial.comes_out(LINES // 4)
                kill()
            trial.goes_on_until(lambda: audit.counts == wanted, "every word is counted")
            trial.goes_on_until(lambda: audit.is_at_end, "and none twice")
            assert audit.counts == wanted
