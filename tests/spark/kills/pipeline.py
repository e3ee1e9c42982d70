"""A job that is killed at a step of the exactly-once protocol and run again: each run is both the restart after the last death,
and the next one to die."""

import json
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from odradek.client.sync import SyncClient
from odradek.spark import tables
from odradek.spark.storage import storage_of
from odradek.spark.table_rows import files_of
from odradek.spark.verify import verify
from tests import forked_drivers
from tests.spark.conftest import fill
from tests.support import SHORT_LIVED_JAVA

A_BATCH = 250


class Pipeline:
    def __init__(
        self, bootstrap: str, topic: str, directory: Path, records: int, table: str | None = None
    ) -> None:
        """`topic` has two partitions and no records yet; the table is in the directory, where no other place is named."""
        self.bootstrap = bootstrap
        self.records = records
        with SyncClient(bootstrap) as client:
            for partition in (0, 1):
                fill(client, topic, partition, self._values(partition))
        self.table = table or str(directory / "table")
        self.checkpoint = directory / "checkpoint"
        self.directory = directory
        self.runs = 0
        self._command = [
            *(sys.executable, "-m", "odradek.spark.jobs.topic_to_table", "--memory", "512m"),
            *("--bootstrap", bootstrap, "--topic", topic, "--max-offsets-per-trigger", str(A_BATCH)),
            *("--table", self.table, "--checkpoint", str(self.checkpoint)),
        ]

    def begin(self, *more: str) -> forked_drivers.Started:
        # Files of its own for each run: the JVM of a killed driver may still be writing to the last ones.
        self.runs += 1
        with open(self.directory / f"out-{self.runs}", "wb") as out, open(self.log, "wb") as log:
            environment = {**os.environ, **SHORT_LIVED_JAVA}
            return forked_drivers.start([*self._command, *more], stdout=out, stderr=log, env=environment)

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
        table = tables.open_table(self.table)
        return [] if table is None else [batch.batch_id for batch in tables.committed_batches(table)]

    @property
    def batches_in_checkpoint(self) -> list[int]:
        names = [file.name for file in (self.checkpoint / "commits").glob("[0-9]*")]
        return sorted(int(name) for name in names)

    @property
    def unnamed_files(self) -> set[str]:
        table = tables.open_table(self.table)
        named = set() if table is None else {placed.name for placed in files_of(table)}
        return {name for name in storage_of(self.table).listed("", "part-")} - named

    def _values(self, partition: int) -> list[bytes]:
        return [b"%d-%05d" % (partition, n) for n in range(self.records // 2)]

    def die(self, deaths: Iterable[tuple[str, int]]) -> None:
        """At the step, of the batch; and table and checkpoint are where they are to be then."""
        for step, batch_id in deaths:
            code = self.run("--die-at", step, "--die-batch", str(batch_id))

            told = f"{step} of batch {batch_id}: {self.last_words}"
            assert code == -signal.SIGKILL, told
            is_committed = step in ("after-commit", "before-checkpoint")
            assert self.batches_in_table == list(range(batch_id + is_committed)), told
            assert self.batches_in_checkpoint == list(range(batch_id)), told
            if step in ("after-write", "before-commit"):
                assert self.unnamed_files, f"{told}: files nobody has committed"

    def end(self) -> None:
        """Runs until all is in: each record once, and nothing beside it."""
        assert self.run() == 0, self.last_words
        summary = json.loads((self.directory / f"out-{self.runs}").read_text())
        assert summary["records"] == self.records
        assert self.batches_in_table == list(range(self.records // A_BATCH))
        rows = tables.opened(self.table).to_pyarrow_table()
        assert sorted(rows.column("value").to_pylist()) == sorted(self._values(0) + self._values(1))
        report = verify(self.table, self.bootstrap)
        assert report.is_equal and report.is_complete, report
        assert self.unnamed_files == set()
