"""Spark Connect: a real server, clients that have nothing of ours, and our jobs on a server elsewhere."""

import json
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from odradek.client.sync import LATEST, SyncClient
from odradek.client.sync_groups import committed
from odradek.client.sync_records import records
from odradek.model.errors import ConfigurationError
from odradek.model.ids import TopicPartition
from odradek.spark import connect, session
from odradek.spark.connect import NoServer
from odradek.spark.jobs.tables import TablesJob
from odradek.spark.verify import verify
from odradek.testing.process_cluster import ProcessCluster, free_ports
from tests.interop.python_packages import interpreter_with
from tests.spark.conftest import create_topic, fill
from tests.spark.spark_processes import connect_server, environment
from tests.support import eventually

CLIENT = "pyspark-client>=4.1,<4.4"
SERVED = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # As jobs start it: without compiling PySpark in every process.
    with connect_server(tmp_path_factory.mktemp("connect"), python=str(session._python())) as address:
        yield address


def job_python() -> Path:
    """With what `pip install 'odradek[connect]'` brings, but not with odradek itself."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    return interpreter_with(*project["optional-dependencies"]["connect"], *project["dependencies"])


def values_in(client: SyncClient, topic: str) -> list[bytes]:
    where = TopicPartition(topic, 0)
    end = client.list_offsets({where: LATEST}, read_committed=True)[where].offset
    return sorted(bytes(r.value or b"") for r in records(client, where, 0, end, read_committed=True))


class TestOverConnect:
    pytestmark = SERVED

    def test_a_client_that_has_nothing_of_ours_reads_and_writes_all(
        self,
        server: str,
        cluster: ProcessCluster,
        client: SyncClient,
        make_topic: Callable[..., str],
        tmp_path: Path,
    ) -> None:
        python = interpreter_with(CLIENT)
        topic, to = make_topic(partitions=2), make_topic()
        for partition in (0, 1):
            fill(client, topic, partition, [b"%d-%d" % (partition, n) for n in range(20)])
        every = sorted(b"%d-%d" % (p, n) for p in (0, 1) for n in range(20))
        script = Path(__file__).with_name("connect_client.py")

        # Not from here: this directory has a `src`, and the client is to find nothing of it.
        done = subprocess.run(
            [python, script, server, cluster.bootstrap, topic, to, tmp_path],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment(),
            timeout=600,
        )

        assert done.returncode == 0, done.stderr[-3_000:]
        found = json.loads(done.stdout)
        error = found.pop("error")
        assert "nobody-has-made-it" in error, error
        assert found == {
            "ours": False,
            "batch": [value.decode() for value in every],
            "sql": 20,
            "odradek-delta": 1,  # the last of the two: of the fused one a row is a file
            "odradek-parquet": 40,
            "odradek": 40,
            "read back": 40,
        }
        for table in ("delta", "fused"):
            rows = DeltaTable(tmp_path / table).to_pyarrow_table()
            assert sorted(rows.column("value").to_pylist()) == every, table
        assert values_in(client, to) == sorted(every * 2)

    def test_a_job_runs_on_a_server_elsewhere_goes_on_and_needs_no_java(
        self,
        server: str,
        cluster: ProcessCluster,
        client: SyncClient,
        make_topic: Callable[..., str],
        tmp_path: Path,
    ) -> None:
        topic = make_topic()
        table = tmp_path / "table"
        command = [
            *(job_python(), "-m", "odradek", "spark", "tables", "--bootstrap", cluster.bootstrap),
            *("--topic", topic, "--table", table, "--format", "json", "--master", server),
        ]
        # Neither a Java nor anything else that a command could start.
        bare = environment({"JAVA_HOME": "", "PATH": "/nowhere", "PYTHONPATH": str(Path("src").absolute())})

        def run(*more: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*command, "--once", *more],
                capture_output=True,
                text=True,
                check=False,
                env=bare,
                timeout=600,
            )

        def filled(first: int) -> None:
            fill(client, topic, 0, [b'{"id": %d}' % n for n in range(first, first + 10)])

        filled(0)
        done = run("--commit-group", "shown")
        assert done.returncode == 0, done.stderr[-3_000:]
        assert "batch 0: 10 rows  lag 0 records" in done.stdout
        assert committed(client, "shown") == {TopicPartition(topic, 0): 10}

        # It goes on, and the group with it. Killed, it leaves its query behind at the server; the same line takes over.
        filled(10)
        log = tmp_path / "killed"
        with open(log, "wb") as file:
            killed = subprocess.Popen(
                [*command, "--commit-group", "shown"], env=bare, stdout=file, stderr=file
            )
        try:
            eventually(
                lambda: "batch 1: 10 rows" in log.read_text(), 300, "a batch of the job that is killed"
            )
            eventually(
                lambda: committed(client, "shown") == {TopicPartition(topic, 0): 20}, 60, "its group goes on"
            )
        finally:
            killed.kill()
            killed.wait(60)
        filled(20)
        assert run().returncode == 0

        assert sorted(DeltaTable(table).to_pyarrow_table().column("id").to_pylist()) == list(range(30))
        report = verify(str(table), cluster.bootstrap)
        assert report.is_equal and report.is_complete
        fill(client, topic, 0, [b"no json"])
        stopped = run("--on-error", "pause")
        assert stopped.returncode == 1
        (sentence,) = (line for line in stopped.stderr.splitlines() if "no JSON object" in line)
        assert sentence.endswith("(all that Spark says of it: the log of the Spark Connect server)")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_server_whose_python_lacks_the_package_is_told_of_in_a_sentence(
    cluster: ProcessCluster, client: SyncClient, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic()
    fill(client, topic, 0, [b"x"])
    python = job_python()
    with connect_server(tmp_path, python=str(python)) as address:
        done = subprocess.run(
            [
                *(python, "-m", "odradek", "spark", "tables", "--bootstrap", cluster.bootstrap),
                *("--topic", topic, "--table", tmp_path / "table", "--once", "--master", address),
            ],
            capture_output=True,
            text=True,
            check=False,
            env=environment({"PYTHONPATH": str(Path("src").absolute())}),
            timeout=600,
        )

    assert done.returncode == 1
    assert "the Python that Spark starts does not have this package" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_is_not_there_is_told_of_at_once() -> None:
    (port,) = free_ports(1)
    with pytest.raises(
        NoServer, match=f"no Spark Connect server answers at 127.0.0.1:{port}: Connection refused"
    ):
        connect.remote_session(f"sc://127.0.0.1:{port}")


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_port_of_something_else_is_told_of(cluster: ProcessCluster, tmp_path: Path) -> None:
    with SyncClient(cluster.bootstrap) as client:
        create_topic(client, "read-over-a-broker")
    done = subprocess.run(
        [
            *(job_python(), "-m", "odradek", "spark", "tables", "--bootstrap", cluster.bootstrap, "--once"),
            *("--topic", "read-over-a-broker", "--table", tmp_path / "table"),
            *("--master", f"sc://{cluster.bootstrap}"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=environment({"PYTHONPATH": str(Path("src").absolute())}),
        timeout=600,
    )

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(
        f"what listens at {cluster.bootstrap} is no Spark Connect server"
    )


@pytest.mark.parametrize("master", ["sc://", "sc://a:b", "sc:a:1"])
def test_an_address_that_is_none_is_refused(master: str) -> None:
    with pytest.raises(ConfigurationError, match=f"--master {master}: expected"):
        TablesJob("a:1", ("orders",), "./orders", master=master).check()


@pytest.mark.parametrize("master", ["sc://a", "sc://a:15002", "sc://a:15002/;token=x"])
def test_an_address_of_a_server_is_taken_and_has_no_cores_of_ours(master: str) -> None:
    job = TablesJob("a:1", ("orders",), "./orders", master=master).check()

    from odradek.spark.jobs.tables import place_of, words_of

    told = master.removesuffix("/;token=x")
    assert (place_of(job), words_of(job)) == (told, "the log of the Spark Connect server")
