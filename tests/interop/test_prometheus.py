"""Prometheus itself reads our brokers, with the configuration and the rule of docs/metrics.md."""

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from odradek.cli.up import taken_of
from odradek.testing.process_cluster import ProcessCluster, free_ports
from tests.support import eventually

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
USUAL_PORT = 9404

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None, reason="Prometheus is missing; Debian's package `prometheus` has it"
)


def row_of_ports(count: int) -> int:
    """The first of as many that are free, one behind the other."""
    while True:
        (first,) = free_ports(1)
        if taken_of(first, count) is None:
            return first


@contextmanager
def prometheus(directory: Path, first_port: int) -> Iterator[Callable[[str], dict[str, float]]]:
    """Asks it; the answer by topic, partition, or instance, whatever is left of the labels."""
    scrape, rules = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for at in range(3):
        scrape = scrape.replace(str(USUAL_PORT + at), str(first_port + at))
    every = "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\n"
    (directory / "prometheus.yml").write_text(every + scrape)
    (directory / "rules.yml").write_text(rules)
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def ask(expression: str) -> dict[str, float]:
        url = f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(expression)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                rows = json.load(answer)["data"]["result"]
        except urllib.error.URLError:
            return {}  # it is starting
        return {
            " ".join(
                value for name, value in sorted(row["metric"].items()) if not name.startswith("__")
            ): float(row["value"][1])
            for row in rows
        }

    try:
        yield ask
    finally:
        process.terminate()
        process.wait(30)


def test_lag_and_alerts_are_what_the_page_says(tmp_path: Path) -> None:
    first = row_of_ports(3)
    with (
        ProcessCluster(tmp_path / "cluster", metrics_port=first) as cluster,
        prometheus(tmp_path, first) as ask,
    ):
        cluster.create_topic(
            "orders", partitions=2, replication_factor=2, configs={"min.insync.replicas": "2"}
        )
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for at in range(100):
            producer.produce("orders", b"x", partition=at % 2)
        assert producer.flush(30) == 0
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        read = 0
        while read < 100:
            read += len(consumer.consume(100 - read, timeout=20))
        consumer.commit(asynchronous=False)
        for _ in range(30):
            producer.produce("orders", b"x", partition=0)
        assert producer.flush(30) == 0

        def lag() -> dict[str, float]:
            return ask("kafka_consumergroup_lag")

        eventually(lambda: lag() == {"billing 0 orders": 30.0, "billing 1 orders": 0.0}, deadline_s=60)
        assert list(ask("up").values()) == [1.0, 1.0, 1.0]
        assert ask("sum(kafka_controller_kafkacontroller_activecontrollercount) != 1") == {}
        short = "sum(kafka_server_replicamanager_underminisrpartitioncount) > 0"
        assert ask(short) == {}
        consumer.close()
        cluster.kill(cluster.leader("orders", 0))
        eventually(lambda: ask(short).get("", 0) >= 1, deadline_s=60)
