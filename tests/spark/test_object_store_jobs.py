"""Whole jobs of Spark into an object store: as the documentation prints them, refused, and killed; and where secrets are not."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.client.sync import SyncClient
from odradek.model.ids import TopicPartition
from odradek.spark import tables
from odradek.spark.verify import verify
from odradek.testing.process_cluster import ProcessCluster
from tests import forked_drivers
from tests.spark.conftest import fill
from tests.spark.kills.pipeline import A_BATCH, Pipeline
from tests.spark.store_server import DATA, SECRET, Front, Rule, Store
from tests.support import SHORT_LIVED_JAVA, eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]
MakeTopic = Callable[..., str]
PAGE = Path("docs/spark.md").read_text(encoding="utf-8")
VALUES = [b'{"id":%d,"name":"n%d"}' % (n, n) for n in range(20)]


def odradek(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "odradek", *arguments]


def test_the_commands_run_as_they_are_printed_also_after_a_store_has_refused_a_task(
    cluster: ProcessCluster,
    client: SyncClient,
    make_topic: MakeTopic,
    before: Front,
    tmp_path: Path,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the store refuses is told in one sentence, and the same line goes on. Spark's checkpoint is written without `readlink`,
    of which each call costs milliseconds (decision 0078)."""
    calls = _note_calls("readlink", tmp_path, monkeypatch)
    topic = make_topic()
    fill(client, topic, 0, VALUES)
    printed = re.findall(
        r"^\$ odradek (.*)$", PAGE.split("## In an object store")[1].split("##")[0], re.MULTILINE
    )
    lines = [
        line.replace("s3://lake/orders", url).replace("--topic orders", f"--topic {topic}")
        for line in printed
    ]
    job, verified = (odradek(*shlex.split(line), "--bootstrap", cluster.bootstrap) for line in lines)

    before.obeys(Rule(403, DATA))
    refused = _run(job, tmp_path)
    before.obeys(None)
    done = [_run(command, tmp_path) for command in (job, verified)]

    sentences = [line for line in refused.stderr.splitlines() if "refuses" in line]
    assert refused.returncode == 1 and len(sentences) == 1, refused.stderr
    told = f"{url}: the store at {before.url} refuses the credentials of this process (403"
    assert told in sentences[0]
    assert "Traceback" not in refused.stderr
    assert [one.returncode for one in done] == [0, 0], done
    said = [one.stdout + one.stderr for one in (refused, *done)]
    assert "batch 0: 20 rows" in said[1]
    assert f"{url} at version 0: 20 rows" in said[2]
    assert verify(url, cluster.bootstrap).is_complete
    assert (tmp_path / "orders-checkpoint.log").exists()
    assert calls.read_text() == ""
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert [file for file in files if SECRET.encode() in file.read_bytes()] == []
    assert SECRET not in "".join(said)


def test_no_row_is_lost_or_doubled_where_the_driver_is_killed(
    cluster: ProcessCluster, make_topic: MakeTopic, tmp_path: Path, url: str
) -> None:
    pipeline = Pipeline(cluster.bootstrap, make_topic(partitions=2), tmp_path, 4 * A_BATCH, url)

    pipeline.die((("after-write", 1), ("after-commit", 2)))
    pipeline.end()


def test_a_job_goes_on_where_the_server_of_the_store_was_killed_under_it(
    cluster: ProcessCluster,
    client: SyncClient,
    make_topic: MakeTopic,
    store: Store,
    tmp_path: Path,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = make_topic()
    fill(client, topic, 0, VALUES)
    servers = [Front(store)]
    monkeypatch.setenv("AWS_ENDPOINT_URL", servers[0].url)
    command = odradek(
        *("spark", "tables", "--bootstrap", cluster.bootstrap, "--topic", topic, "--format", "json"),
        *("--table", url, "--checkpoint", str(tmp_path / "checkpoint"), "--trigger", "200ms"),
    )
    with open(tmp_path / "out", "wb") as out:
        job = forked_drivers.start(command, cwd=tmp_path, env=_environment(), stdout=out, stderr=out)

    def holds(batches: int) -> bool:
        assert job.poll() is None, (tmp_path / "out").read_text()
        return _rows(url) == batches * len(VALUES)

    try:
        for n in range(1, 4):
            eventually(lambda n=n: holds(n), 300, f"{n} batches of rows")
            servers[-1].process.kill()
            servers[-1].process.wait(60)
            fill(client, topic, 0, VALUES)
            servers.append(Front(store, servers[0].port))
        eventually(lambda: holds(4), 300, "4 batches of rows")
        job.send_signal(signal.SIGINT)
        assert job.wait(300) == 0, (tmp_path / "out").read_text()

        report = verify(url, cluster.bootstrap)
        assert report.is_equal and report.is_complete, report
        assert client.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 80}
    finally:
        job.kill()
        job.wait(60)
        for server in servers:
            server.stop()


def _rows(url: str) -> int:
    table = tables.open_table(url)
    return (
        0
        if table is None
        else sum(batch.rows.count for batch in tables.committed_batches(table) if batch.rows)
    )


def _environment() -> dict[str, str]:
    return {**os.environ, **SHORT_LIVED_JAVA}


def _note_calls(program: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that has a line for each time the program is started from now on."""
    real, calls = shutil.which(program), directory / f"{program}.calls"
    calls.touch()
    noting = directory / "noting" / program
    noting.parent.mkdir()
    noting.write_text(f'#!/bin/sh\necho "$*" >> {calls}\nexec {real} "$@"\n')
    noting.chmod(0o755)
    monkeypatch.setenv("PATH", f"{noting.parent}:{os.environ['PATH']}")
    return calls


def _run(command: list[str], directory: Path) -> "subprocess.CompletedProcess[str]":
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as told:
        process = forked_drivers.start(command, cwd=directory, env=_environment(), stdout=out, stderr=told)
        try:
            code = process.wait(600)
        finally:
            process.kill()
        said = [os.pread(file.fileno(), 1 << 20, 0).decode() for file in (out, told)]
        return subprocess.CompletedProcess(command, code, *said)
