"""`kill -9` of a job that writes a topic, at any moment, by real signals: each batch is in the topic once, and whole."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from odradek.client.sync import LATEST, SyncClient
from odradek.client.sync_records import records
from odradek.model.ids import TopicPartition
from odradek.spark import batch_notes
from odradek.spark.topic_options import PROGRESS_TOPIC
from odradek.spark.verify_topic import verify_topics
from odradek.testing.process_cluster import ProcessCluster
from tests import forked_drivers
from tests.spark.conftest import fill
from tests.spark.versions import OTHER_SPARK
from tests.support import SHORT_LIVED_JAVA, eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDS = 1_200
A_BATCH = 300


def begin(arguments: list[str], log: Path, python: str = sys.executable) -> forked_drivers.Started:
    with open(log, "ab") as file:
        return forked_drivers.start(
            [python, "-m", "odradek", "spark", "transform", *arguments],
            stdout=file,
            stderr=file,
            env={**os.environ, **SHORT_LIVED_JAVA},
        )


@pytest.mark.timeout(1500)
def test_no_record_is_lost_or_doubled_whenever_the_job_is_killed(
    cluster: ProcessCluster, client: SyncClient, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    kill_again_and_again(
        cluster.bootstrap, client, make_topic(partitions=2), make_topic(partitions=3), tmp_path
    )


@pytest.mark.timeout(1500)
@pytest.mark.skipif(
    OTHER_SPARK not in os.environ, reason="needs a second PySpark, as `make test-spark-versions` has it"
)
def test_no_record_is_lost_or_doubled_where_another_version_of_spark_goes_on(
    cluster: ProcessCluster, client: SyncClient, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    other = os.environ[OTHER_SPARK]
    assert version_of(other) != version_of(sys.executable)
    kill_again_and_again(
        cluster.bootstrap,
        client,
        make_topic(partitions=2),
        make_topic(partitions=3),
        tmp_path,
        runs=[(sys.executable, 1), (other, 2), (sys.executable, 2)],
    )


def version_of(python: str) -> str:
    command = [python, "-c", "import pyspark; print(pyspark.__version__)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def kill_again_and_again(
    bootstrap: str,
    client: SyncClient,
    source: str,
    to: str,
    tmp_path: Path,
    runs: Sequence[tuple[str, int]] = ((sys.executable, 2), (sys.executable, 1), (sys.executable, 2)),
) -> None:
    """`source` has two partitions, `to` three. `runs`: interpreter and number of cores of each; all but the last are killed."""
    for partition in (0, 1):
        fill(client, source, partition, [b"%d-%05d" % (partition, n) for n in range(RECORDS // 2)])
    directory = tmp_path / "job"
    arguments = [
        *("--bootstrap", bootstrap, "--topic", source, "--to", to, "--directory", str(directory)),
        *("--memory", "512m", "--max-offsets-per-trigger", str(A_BATCH), "--app-id", to),
    ]
    log = tmp_path / "log"

    def written() -> int:
        return len(list(batch_notes.every(str(directory), PROGRESS_TOPIC, to)))

    *killed, (last, cores_of_last) = runs
    for kill, (python, cores) in enumerate(killed):
        # Without an end of its own: it may have done all there is before it is seen, and is killed all the same.
        process = begin([*arguments, "--trigger", "100ms", "--master", f"local[{cores}]"], log, python)
        try:
            eventually(lambda least=kill + 1: written() >= least, 400, "a batch in the topic")  # type: ignore[misc]
        finally:
            process.kill()
            process.wait(60)
        assert process.returncode == -signal.SIGKILL, log.read_text()
    process = begin([*arguments, "--once", "--master", f"local[{cores_of_last}]"], log, last)
    try:
        assert process.wait(400) == 0, log.read_text()
    finally:
        process.kill()

    values = []
    for number in range(3):
        where = TopicPartition(to, number)
        end = client.list_offsets({where: LATEST}, read_committed=True)[where].offset
        values += [bytes(r.value or b"") for r in records(client, where, 0, end, read_committed=True)]
    assert sorted(values) == sorted(b"%d-%05d" % (p, n) for p in (0, 1) for n in range(RECORDS // 2))
    report = verify_topics(str(directory), bootstrap, progress_topic=PROGRESS_TOPIC)
    assert (report.is_equal, report.batches) == (True, RECORDS // A_BATCH)
