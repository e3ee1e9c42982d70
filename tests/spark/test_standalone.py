"""Jobs on a standalone cluster of Spark: a master and two workers out of the installed pyspark, and tasks in the workers' processes."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from odradek.cli.main import main
from odradek.client.sync import LATEST, SyncClient
from odradek.client.sync_records import records
from odradek.model.ids import TopicPartition
from odradek.spark import pack
from odradek.spark.verify import verify
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import fill
from tests.spark.spark_processes import environment, standalone
from tests.support import SHORT_LIVED_JAVA

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]


class Spark:
    def __init__(self, master: str, directory: Path) -> None:
        self.master = master
        self.directory = directory

    def executors(self) -> set[Path]:
        """The directories that executors ran in, of whatever application."""
        return {log.parent for log in self.directory.glob("work-*/app-*/*/stderr")}

    def run(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "odradek", "spark", *arguments, "--once", "--master", self.master]
        done = subprocess.run(
            [*command, "--memory", "512m"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **SHORT_LIVED_JAVA},
            timeout=900,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    directory = tmp_path_factory.mktemp("standalone")
    with standalone(directory, workers=2) as master:
        yield Spark(master, directory)


def test_a_job_runs_on_a_standalone_cluster(
    spark_cluster: Spark,
    cluster: ProcessCluster,
    client: SyncClient,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    source, to = make_topic(partitions=2), make_topic()
    for partition in (0, 1):
        fill(client, source, partition, [b"%d-%d" % (partition, n) for n in range(50)])
    before = spark_cluster.executors()

    said = spark_cluster.run(
        *("transform", "--bootstrap", cluster.bootstrap, "--topic", source, "--to", to),
        *("--directory", str(tmp_path / "job"), "--cores", "1"),
    )

    assert "100 rows" in said
    where = TopicPartition(to, 0)
    end = client.list_offsets({where: LATEST}, read_committed=True)[where].offset
    values = [bytes(r.value or b"") for r in records(client, where, 0, end, read_committed=True)]
    assert sorted(values) == sorted(b"%d-%d" % (p, n) for p in (0, 1) for n in range(50))
    assert spark_cluster.executors() > before, "the workers ran executors"


def test_the_package_travels_to_workers_that_do_not_have_it(
    spark_cluster: Spark,
    cluster: ProcessCluster,
    client: SyncClient,
    make_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = shutil.which(python, path=str(Path(sys.base_prefix) / "bin"))
    assert base is not None, "the interpreter that the environment was made from"
    missing = subprocess.run([base, "-c", "import odradek"], check=False, env=environment(), cwd=tmp_path)
    assert missing.returncode != 0, "the workers' own Python has the package, so this would show nothing"
    archive = tmp_path / "odradek.tar.gz"
    monkeypatch.setattr(pack, "COMPRESSION", 0)  # driver and executors unpack it, each by itself
    assert main(["spark", "pack", "--to", str(archive)]) == 0
    packed = capsys.readouterr().out
    assert "pyarrow" in packed and "pyspark" not in packed
    topic = make_topic(partitions=2)
    for partition in (0, 1):
        fill(client, topic, partition, [b'{"id": %d}' % (50 * partition + n) for n in range(50)])
    before = spark_cluster.executors()
    table = tmp_path / "table"

    said = spark_cluster.run(
        *("tables", "--bootstrap", cluster.bootstrap, "--topic", topic, "--table", str(table)),
        *("--format", "json", "--archive", str(archive)),
    )

    assert "100 rows" in said
    assert sorted(DeltaTable(table).to_pyarrow_table().column("id").to_pylist()) == list(range(100))
    report = verify(str(table), cluster.bootstrap)
    assert report.is_equal and report.is_complete
    executors = spark_cluster.executors() - before
    assert {path.parents[1].name for path in executors} == {"work-0", "work-1"}, "tasks on both workers"
    for executor in executors:
        assert (executor / "odradek-packed" / "lib" / "odradek" / "spark" / "source.py").is_file()
