"""`kill -9` of the driver at every step of the exactly-once protocol, and at any moment, by real signals.

Each run of the job is both: the restart after the last death, and the next one to die. So seven runs of the
JVM tell the whole story.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from odradek.client.sync import SyncClient
from odradek.spark import tables
from odradek.spark.kill_switch import STEPS
from odradek.spark.verify import verify
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import fill
from tests.support import SHORT_LIVED_JAVA, eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RECORDS = 4_000
A_BATCH = 250
# In the order in which they happen, and the batch whose step it is. The first two leave batch 1 to be done again.
DEATHS = (
    ("before-write", 1),
    ("after-write", 1),
    ("before-commit", 2),
    ("after-commit", 3),
    ("before-checkpoint", 4),
)


class Pipeline:
    def __init__(self, bootstrap: str, topic: str, directory: Path) -> None:
        self.table = directory / "table"
        self.checkpoint = directory / "checkpoint"
        self.directory = directory
        self.runs = 0
        self._command = [
            *(sys.executable, "-m", "odradek.spark.jobs.topic_to_table", "--memory", "512m"),
            *("--bootstrap", bootstrap, "--topic", topic, "--max-offsets-per-trigger", str(A_BATCH)),
            *("--table", str(self.table), "--checkpoint", str(self.checkpoint)),
        ]

    def begin(self, *more: str) -> subprocess.Popen[bytes]:
        # Files of its own for each run: the JVM of a killed driver may still be writing to the last ones.
        self.runs += 1
        with open(self.directory / f"out-{self.runs}", "wb") as out, open(self.log, "wb") as log:
            environment = {**os.environ, **SHORT_LIVED_JAVA}
            return subprocess.Popen([*self._command, *more], stdout=out, stderr=log, env=environment)

    def run(self, *more: str) -> int:
        process = self.begin(*more)
        try:
            return process.wait(600)
        finally:
            process.kill()

    @property
    def log(self) -> Path:
        return self.directory / f"log-{self.runs}"

    @property
    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    @property
    def batches_in_table(self) -> list[int]:
        if not DeltaTable.is_deltatable(str(self.table)):
            return []
        return [batch.batch_id for batch in tables.committed_batches(DeltaTable(self.table))]

    @property
    def batches_in_checkpoint(self) -> list[int]:
        names = [file.name for file in (self.checkpoint / "commits").glob("[0-9]*")]
        return sorted(int(name) for name in names)

    @property
    def unnamed_files(self) -> set[str]:
        named = {uri.rsplit("/", 1)[-1] for uri in DeltaTable(self.table).file_uris()}
        return {file.name for file in self.table.glob("*.parquet")} - named


@pytest.mark.timeout(3000)
def test_no_row_is_lost_or_doubled_whenever_the_driver_is_killed(
    cluster: ProcessCluster, client: SyncClient, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    for partition in (0, 1):
        values = [b"%d-%05d" % (partition, n) for n in range(RECORDS // 2)]
        fill(client, topic, partition, values)
    pipeline = Pipeline(cluster.bootstrap, topic, tmp_path)
    assert tuple(step for step, _ in DEATHS) == STEPS

    for step, batch_id in DEATHS:
        code = pipeline.run("--die-at", step, "--die-batch", str(batch_id))

        told = f"{step} of batch {batch_id}: {pipeline.last_words}"
        assert code == -signal.SIGKILL, told
        is_committed = step in ("after-commit", "before-checkpoint")
        assert pipeline.batches_in_table == list(range(batch_id + is_committed)), told
        assert pipeline.batches_in_checkpoint == list(range(batch_id)), told
        if step in ("after-write", "before-commit"):
            assert pipeline.unnamed_files, f"{told}: files nobody has committed"

    # From outside, at no step in particular, and the Python driver alone: its JVM lives on for a moment, and
    # the next driver starts beside it.
    process = pipeline.begin()
    try:
        # Then most of it is still to be done: it does not end before it is killed.
        eventually(lambda: len(pipeline.batches_in_table) >= 6, 600, "one more batch in the table")
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.kill()
        process.wait(60)
    assert process.returncode == -signal.SIGKILL

    assert pipeline.run() == 0, pipeline.last_words

    summary = json.loads((tmp_path / f"out-{pipeline.runs}").read_text())
    assert summary["records"] == RECORDS
    assert pipeline.batches_in_table == list(range(RECORDS // A_BATCH))
    rows = DeltaTable(pipeline.table).to_pyarrow_table()
    expected = sorted(b"%d-%05d" % (p, n) for p in (0, 1) for n in range(RECORDS // 2))
    assert sorted(rows.column("value").to_pylist()) == expected
    report = verify(str(pipeline.table), cluster.bootstrap)
    assert report.is_equal and report.is_complete, report
    assert pipeline.unnamed_files == set()
