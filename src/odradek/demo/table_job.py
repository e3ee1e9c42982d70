"""The topic becomes a Delta table by PySpark, its driver killed once on the way; then it is aggregated."""

import json
import signal
import sys
import time
from pathlib import Path

from odradek.demo.inputs import InputFile
from odradek.demo.result import Aggregate, DemoResult, Group
from odradek.demo.screen import Screen
from odradek.demo.sessions import session
from odradek.model.errors import OdradekError

# Several batches, so that there is a middle to be killed in.
BATCHES = 6
KILLED_BATCH = 2
KILLED_AT = "after-write"
KILLED_WORDS = "its files written, its commit not begun"


class JobFailed(OdradekError):
    """The Spark job ended in a way it should not; the end of its log is in the message."""


def run(bootstrap: str, files: list[InputFile], place: Path, result: DemoResult, screen: Screen) -> None:
    log = place / "spark.log"
    per_batch = max(1, -(-result.records // BATCHES))
    killed_batch = min(KILLED_BATCH, -(-result.records // per_batch) - 1)
    common = [
        *("--bootstrap", bootstrap, "--topic", result.topic),
        *("--table", str(place / "table"), "--checkpoint", str(place / "checkpoint")),
        *("--max-offsets-per-trigger", str(per_batch)),
    ]
    begun = time.monotonic()
    with (
        screen.working("PySpark writes the table; its driver will be killed"),
        session(
            [
                *(sys.executable, "-m", "odradek.spark.jobs.topic_to_table", *common),
                *("--die-at", KILLED_AT, "--die-batch", str(killed_batch)),
            ],
            stderr=log,
        ) as process,
    ):
        process.communicate()
    if process.returncode != -signal.SIGKILL:
        raise JobFailed(
            f"the driver should have died by SIGKILL in batch {killed_batch}, and ended with code "
            f"{process.returncode}; {log} ends with\n{last_lines(log)}"
        )
    result.driver_killed_at = f"kill -9 in batch {killed_batch}, {KILLED_WORDS}"
    screen.say(f"PySpark driver killed in batch {killed_batch}: {KILLED_WORDS}")

    shape = json.dumps(columns_of(files))
    with (
        screen.working("PySpark goes on from its checkpoint and aggregates"),
        session(
            [*(sys.executable, "-m", "odradek.demo.spark_job", *common), "--columns", shape], stderr=log
        ) as process,
    ):
        output, _ = process.communicate()
    if process.returncode != 0:
        raise JobFailed(f"the job ended with code {process.returncode}; {log} ends with\n{last_lines(log)}")
    answer = json.loads(output.splitlines()[-1])
    result.batches = answer["batches"]
    result.java = answer["java"]
    result.table_s = time.monotonic() - begun
    result.aggregate = aggregate_of(answer["aggregate"])
    screen.say(
        f"PySpark job done from its checkpoint: {answer['records']:,} rows in {result.batches} batches; aggregated"
    )


def columns_of(files: list[InputFile]) -> list[str]:
    """The columns all inputs share, or none: then records are counted by key."""
    first = files[0].columns
    return list(first) if all(file.columns == first for file in files) else []


def aggregate_of(answer: dict[str, object]) -> Aggregate:
    rows = answer["groups"]
    assert isinstance(rows, list)
    measure = answer["measure"]
    return Aggregate(
        str(answer["row"]),
        str(answer["column"]),
        None if measure is None else str(measure),
        tuple(
            Group(str(row), str(column), int(n), int(measured), float(total))
            for row, column, n, measured, total in rows
        ),
    )


def last_lines(log: Path, count: int = 15) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])
