"""A job on a cluster of Spark of its own: a master and a worker out of the installed pyspark, and tasks in the worker's processes."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyspark
import pytest

from odradek.client.sync import LATEST, SyncClient
from odradek.client.sync_records import records
from odradek.model.ids import TopicPartition
from odradek.spark.session import find_java
from odradek.testing.process_cluster import ProcessCluster, free_ports
from tests.spark.conftest import fill
from tests.support import SHORT_LIVED_JAVA, eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    (port,) = free_ports(1, "127.0.0.1")
    address = f"spark://127.0.0.1:{port}"
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        **SHORT_LIVED_JAVA,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }
    package = "org.apache.spark.deploy"
    roles = (
        [f"{package}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
        [
            *(f"{package}.worker.Worker", address, "--host", "127.0.0.1", "--webui-port", "0"),
            *("--cores", "2", "--memory", "1g", "--work-dir", str(tmp_path / "work")),
        ],
    )
    started = []
    try:
        for role in roles:
            log = tmp_path / f"{role[0].rsplit('.', 1)[1]}.log"
            with open(log, "wb") as file:
                command = [str(home / "bin" / "spark-class"), *role]
                started.append(subprocess.Popen(command, stdout=file, stderr=file, env=environment))
        worker = tmp_path / "Worker.log"
        eventually(
            lambda: "Successfully registered with master" in worker.read_text(errors="replace"),
            300,
            "a worker at its master",
        )
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(60)


@pytest.mark.timeout(1200)
def test_a_job_runs_on_a_standalone_cluster(
    master: str,
    cluster: ProcessCluster,
    client: SyncClient,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    source, to = make_topic(partitions=2), make_topic()
    for partition in (0, 1):
        fill(client, source, partition, [b"%d-%d" % (partition, n) for n in range(50)])
    command = [
        *(sys.executable, "-m", "odradek", "spark", "transform", "--bootstrap", cluster.bootstrap, "--once"),
        *("--topic", source, "--to", to, "--directory", str(tmp_path / "job"), "--master", master),
        *("--memory", "512m"),
    ]

    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **SHORT_LIVED_JAVA}, timeout=900
    )

    assert done.returncode == 0, done.stderr
    assert "100 rows" in done.stdout
    where = TopicPartition(to, 0)
    end = client.list_offsets({where: LATEST}, read_committed=True)[where].offset
    values = [bytes(r.value or b"") for r in records(client, where, 0, end, read_committed=True)]
    assert sorted(values) == sorted(b"%d-%d" % (p, n) for p in (0, 1) for n in range(50))
    assert list((tmp_path / "work").glob("app-*/*/stderr")), "the worker ran an executor"
