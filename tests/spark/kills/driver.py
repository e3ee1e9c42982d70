"""A driver that is killed: one topic into a Delta table, a directory of Parquet files and a topic, in one session, for ever.

    python -m tests.spark.kills.driver BOOTSTRAP SOURCE TO DIRECTORY first|all

A query that fails is told of on a line of JSON. With `first` the driver then ends, with `all` when the last of the three has failed.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from odradek.spark.group_offsets import commit_group
from odradek.spark.sentence import sentence_of
from odradek.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SINKS = ("delta", "parquet", "topic")
GROUP = "spark-kills"
A_BATCH = 60
# Four attempts a task, as on a cluster: a worker process that dies is no end of a query.
MASTER = "local[2,4]"
# What Spark says of a query whose Python process took more than ten seconds to start. No setting of Spark's changes that time.
TOO_BUSY = "failed to connect back"


def to_be_started(
    spark: "SparkSession", bootstrap: str, source: str, to: str, directory: Path
) -> "dict[str, DataStreamWriter]":
    brokers = {"kafka.bootstrap.servers": bootstrap}
    read = {
        **brokers,
        "subscribe": source,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(A_BATCH),
    }
    table = {"table": str(directory / "delta"), "appId": "delta"}
    fused = spark.readStream.format("odradek-fused").options(**read, **table).load()
    plain = spark.readStream.format("odradek").options(**read).load()
    frames = {
        "delta": fused.writeStream.format("odradek-delta").options(**table, rowsAreRecords="true"),
        "parquet": plain.writeStream.format("odradek-parquet").options(
            path=str(directory / "parquet"), appId="parquet", rowsAreRecords="true"
        ),
        "topic": plain.select("key", "value")
        .writeStream.format("odradek")
        .options(**brokers, topic=to, appId="topic", directory=str(directory / "topic")),
    }
    return {
        name: writer.option("checkpointLocation", str(directory / "checkpoints" / name)).trigger(
            processingTime="100 milliseconds"
        )
        for name, writer in frames.items()
    }


def main() -> None:
    bootstrap, source, to, place, until = sys.argv[1:]
    directory = Path(place)
    log = directory / "logs" / f"spark-{os.getpid()}.log"
    spark = local_session("kills", master=MASTER, memory="512m", log=log)
    writers = to_be_started(spark, bootstrap, source, to, directory)
    running = {}
    for name, writer in writers.items():
        running[name] = writer.start()
        # One after the other: a busy machine starts one process of Python faster than three.
        while running[name].isActive and running[name].lastProgress is None:
            a_moment_of(running[name])
    commit_group(spark, running["topic"], bootstrap=bootstrap, group=GROUP)
    failed = False
    while running and not (failed and until == "first"):
        for name, query in list(running.items()):
            a_moment_of(query)
            if query.isActive:
                continue
            why = _why(query)
            if TOO_BUSY in why:
                running[name] = writers[name].start()
                continue
            failed = True
            del running[name]
            print(json.dumps({"sink": name, "why": why}), flush=True)
    spark.stop()
    # A daemon thread of Spark's that writes while the interpreter ends aborts it, once in a few runs.
    os._exit(1)


def a_moment_of(query: "StreamingQuery") -> None:
    with suppress(StreamingQueryException):  # of one that failed: told of by `_why`
        query.awaitTermination(0.1)  # type: ignore[arg-type]  # takes a part of a second, too


def _why(query: "StreamingQuery") -> str:
    error = query.exception()
    return "ended" if error is None else sentence_of(error)


if __name__ == "__main__":
    main()
