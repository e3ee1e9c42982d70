"""Connect in distributed mode: two workers copy a file to a topic and the topic to a file, while the coordinator of their
group and the worker with the source are killed."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from odradek.testing.process_cluster import ProcessCluster, free_ports
from tests.clients.exactly_once import OF_GROUPS, Audit, Supervised
from tests.clients.support import coordinator_of, create_topic
from tests.interop import apache

TOPIC, GROUP, LINES = "lines", "connect", 200
PACKAGE = "org.apache.kafka.connect.file"


class Lines(Audit):
    """Of the one partition: the lines in their order, none twice, for the source is exactly once."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, TOPIC, 1)

    def take(self, message: confluent_kafka.Message) -> None:
        assert message.value().decode() == f"line {self.count}", f"where line {self.count} is next"


class Worker(Supervised):
    def __init__(self, directory: Path, bootstrap: str, port: int, version: str) -> None:
        directory.mkdir(parents=True)
        self.port = port
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "listeners": f"http://127.0.0.1:{port}",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "exactly.once.source.support": "enabled",
            "scheduled.rebalance.max.delay.ms": "0",
            "offset.flush.interval.ms": "500",
            "plugin.discovery": "service_load",
        }
        for kind in ("offset", "config", "status"):
            settings[f"{kind}.storage.topic"] = f"connect-{kind}s"
            settings[f"{kind}.storage.replication.factor"] = "3"
        file = directory / "worker.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        super().__init__(apache.java("256m", main, str(file), version=version), directory / "worker.log")

    def ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        """None: it does not answer now, or not with what was asked for."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return json.load(answer)
        except (OSError, urllib.error.HTTPError):
            return None


@contextmanager
def workers_of(cluster: ProcessCluster, directory: Path, version: str) -> Iterator[list[Worker]]:
    ports = free_ports(2)
    workers = [
        Worker(directory / f"worker-{index}", cluster.bootstrap, port, version)
        for index, port in enumerate(ports)
    ]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.kill()


@pytest.mark.parametrize("version", apache.VERSIONS)
def test_files_are_copied_by_connectors_though_a_worker_and_the_coordinator_are_killed(
    tmp_path: Path, version: str
) -> None:
    apache.skip_without(version)
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    connectors = {
        "reader": {"connector.class": f"{PACKAGE}.FileStreamSourceConnector", "topic": TOPIC, "file": source},
        "writer": {"connector.class": f"{PACKAGE}.FileStreamSinkConnector", "topics": TOPIC, "file": sink},
    }
    written = 0

    def write() -> None:
        nonlocal written
        with open(source, "a") as file:
            file.writelines(f"line {number}\n" for number in range(written, written + LINES))
        written += LINES

    with ProcessCluster(tmp_path / "cluster") as cluster, workers_of(cluster, tmp_path, version) as workers:
        create_topic(cluster, TOPIC, partitions=1)
        audit = Lines(cluster.bootstrap)

        def until(holds: Any, what: str) -> None:
            def looked() -> bool:
                for worker in workers:
                    worker.keep()
                audit.read()
                return bool(holds())

            try:
                cluster.wait_until(looked, what, deadline_s=180, pause_s=0.2)
            except BaseException:
                print("\n".join(worker.last_words(40) for worker in workers))
                raise

        def is_copied() -> bool:
            return audit.count == written and len(set(sink.read_text().splitlines())) == written

        def has_task(worker: Worker, connector: str) -> bool:
            status = next(
                filter(None, (one.ask("GET", f"/connectors/{connector}/status") for one in workers)), {}
            )
            here = f"127.0.0.1:{worker.port}"
            return any(
                task["worker_id"] == here and task["state"] == "RUNNING" for task in status.get("tasks", ())
            )

        try:
            sink.touch()
            write()
            until(lambda: all(worker.ask("GET", "/connectors") == [] for worker in workers), "both are up")
            for name, settings in connectors.items():
                body = {"tasks.max": "1", **{key: str(value) for key, value in settings.items()}}
                until(
                    lambda name=name, body=body: workers[0].ask("PUT", f"/connectors/{name}/config", body),
                    f"{name} is made",
                )
            until(is_copied, "the first lines are copied")

            write()
            killed = coordinator_of(cluster, GROUP, OF_GROUPS)
            cluster.kill(killed)
            write()
            until(is_copied, "the group goes on without its coordinator")
            cluster.restart(killed)

            write()
            next(worker for worker in workers if has_task(worker, "reader")).kill()
            write()
            until(is_copied, "the other worker goes on where it was, or itself does")
        finally:
            audit.close()
