"""Topics into a Delta table, exactly once: what is there now, in batches, then it stops.

    python -m odradek.spark.jobs.topic_to_table --bootstrap localhost:9092 --topic flights \\
        --table ./flights-table --checkpoint ./flights-checkpoint

The table has a row per record: key, value, topic, partition, offset, timestamp, timestampType, leaderEpoch. Run
again, it goes on where its checkpoint stands; killed at any point and run again, no row is lost or doubled.

Nothing is computed on the way, so fetching and writing are fused (`odradek.spark.sink`); `--not-fused` sends the
rows through Spark instead and gives the same table.

`--die-at` and `--die-batch` are a test switch (`odradek.spark.kill_switch`): the driver kills itself with
SIGKILL at that step of that batch.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.model.errors import OdradekError
from odradek.spark.kill_switch import OFF, STEPS, KillSwitch
from odradek.spark.places import absolute, check_directory, check_table
from odradek.spark.sentence import sentence_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Job(NamedTuple):
    bootstrap: str
    topics: tuple[str, ...]
    table: str
    checkpoint: str
    app_id: str = ""
    starting_offsets: str = "earliest"
    max_offsets_per_trigger: int | None = None
    include_headers: bool = False
    is_fused: bool = True

    @property
    def name(self) -> str:
        """Without an id of its own the job is named by what it reads: a lost checkpoint is then noticed."""
        return self.app_id or f"topic_to_table:{','.join(sorted(self.topics))}"


def start(spark: "SparkSession", job: Job, kill_switch: KillSwitch = OFF) -> "StreamingQuery":
    """The running query; it ends by itself when all that was there at its start is in the table."""
    table = {"table": absolute(job.table), "appId": job.name, "killSwitch": kill_switch.to_text()}
    reader = spark.readStream.format("odradek-fused" if job.is_fused else "odradek").options(
        **{"kafka.bootstrap.servers": job.bootstrap},
        subscribe=",".join(job.topics),
        startingOffsets=job.starting_offsets,
        includeHeaders=str(job.include_headers).lower(),
        **(table if job.is_fused else {}),
    )
    if job.max_offsets_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", job.max_offsets_per_trigger)
    return (
        reader.load()
        .writeStream.format("odradek-delta")
        .options(**table, rowsAreRecords="true")
        .option("checkpointLocation", os.path.abspath(job.checkpoint))
        .outputMode("append")
        .trigger(availableNow=True)
        .start()
    )


def summary(job: Job) -> dict[str, Any]:
    """What the table holds now of this job's making, from the commits' own notes."""
    from odradek.spark import tables
    from odradek.spark.parts import merged

    table = tables.open_table(job.table)
    batches = [] if table is None else tables.committed_batches(table, job.name)
    parts = merged(part for batch in batches for part in batch.parts)
    return {
        "table": job.table,
        "version": None if table is None else table.version(),
        "batches": len(batches),
        "records": sum(part.fingerprint.count for part in parts),
        "hash": f"{sum(part.fingerprint.total for part in parts) % 2**128:032x}",
        "partitions": {f"{p.topic}-{p.partition}": [p.start, p.end] for p in parts},
    }


def check_topics(job: Job) -> None:
    """Before Spark is started: it would say of a wrong address or topic in a hundred lines what is one sentence."""
    from odradek.client.sync import SyncClient
    from odradek.spark.subscription import existing_topic

    with SyncClient(job.bootstrap) as client:
        for topic in job.topics:
            existing_topic(client, topic, "--topic")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    job = Job(
        bootstrap=options.bootstrap,
        topics=tuple(options.topic.split(",")),
        table=options.table,
        checkpoint=options.checkpoint,
        app_id=options.app_id,
        starting_offsets=options.starting_offsets,
        max_offsets_per_trigger=options.max_offsets_per_trigger,
        include_headers=options.include_headers,
        is_fused=not options.not_fused,
    )
    from odradek.spark.session import find_java, jvm_pid, local_session, require_pyspark

    try:
        require_pyspark()
        check_table(job.table, "--table")
        check_directory(job.checkpoint, "--checkpoint", "Spark keeps it, without access to object stores")
        print(f"{find_java()}", file=sys.stderr)
        check_topics(job)
        log = Path(os.path.abspath(job.checkpoint)).with_suffix(".log")
        spark = local_session("topic_to_table", cores=options.cores, memory=options.memory, log=log)
        switch = OFF
        if options.die_at:
            # The JVM first: it must not live to see that its Python is gone, and tidy up.
            jvm = jvm_pid(spark)
            switch = KillSwitch(
                options.die_at, options.die_batch, tuple(p for p in (jvm, os.getpid()) if p is not None)
            )
        query = start(spark, job, switch)
        try:
            query.awaitTermination()
        except Exception as error:  # whatever Spark made of it in its two hundred lines
            print(f"topic_to_table: {sentence_of(error)} (all that Spark says of it: {log})", file=sys.stderr)
            return 1
        print(json.dumps(summary(job)))
    except OdradekError as error:
        print(f"topic_to_table: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="topic_to_table", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--bootstrap", required=True, metavar="HOST:PORT,...")
    parser.add_argument("--topic", required=True, help="one topic, or several separated by commas")
    parser.add_argument("--table", required=True, help="directory of the Delta table")
    parser.add_argument("--checkpoint", required=True, help="directory of the checkpoint; one per table")
    parser.add_argument(
        "--app-id", default="", help="name of this writer in the table; default: by its topics"
    )
    parser.add_argument("--starting-offsets", default="earliest", help="earliest, latest, or JSON")
    parser.add_argument("--max-offsets-per-trigger", type=int, help="at most so many records a batch")
    parser.add_argument("--include-headers", action="store_true")
    parser.add_argument("--not-fused", action="store_true", help="send the rows through Spark")
    parser.add_argument("--cores", default="2")
    parser.add_argument("--memory", default="1g")
    parser.add_argument("--die-at", choices=STEPS, help="test switch: where the driver kills itself")
    parser.add_argument("--die-batch", type=int, default=0, help="test switch: in which batch")
    return parser


if __name__ == "__main__":
    sys.exit(main())
