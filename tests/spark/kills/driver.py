"""A driver that is killed: one topic into a Delta table, a directory of Parquet files and a topic, in one session, for ever.

    python -m tests.spark.kills.driver BOOTSTRAP SOURCE TO DIRECTORY

It starts a session and does what it is told on its standard input, a word a line:

    run      the three queries, and each anew that fails, as whoever looks after a job does
    once     the three queries, and none anew
    stop     none

What it did it tells on its standard output, a line of JSON each: {"sink": ..., "why": ...} of a query that failed, {"stopped": true}.
"""

import json
import os
import queue
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

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
RUN, ONCE, STOP = "run", "once", "stop"
_PAUSE_S = 0.3  # before a query is started anew


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
    bootstrap, source, to, place = sys.argv[1:]
    directory = Path(place)
    log = directory / "logs" / f"spark-{os.getpid()}.log"
    spark = local_session("kills", master=MASTER, memory="512m", log=log)
    writers = to_be_started(spark, bootstrap, source, to, directory)
    words = _words()
    word, running = STOP, {}
    while True:
        with suppress(queue.Empty):
            word = words.get(timeout=_PAUSE_S)
            if word == STOP:
                for query in running.values():
                    query.stop()
                running = {}
                _tell({"stopped": True})
            else:
                running = {name: writer.start() for name, writer in writers.items()}
                _follow(spark, running, bootstrap)
        for name, query in list(running.items()):
            if query.isActive:
                continue
            _tell({"sink": name, "why": _why(query)})
            del running[name]
            if word == RUN:
                running[name] = writers[name].start()
                _follow(spark, {name: running[name]}, bootstrap)


def _words() -> "queue.Queue[str]":
    """What is told; whoever tells is gone at the end of it, and so are we."""
    found: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            found.put(line.strip())
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()
    return found


def _follow(spark: "SparkSession", running: "dict[str, StreamingQuery]", bootstrap: str) -> None:
    if "topic" in running:
        commit_group(spark, running["topic"], bootstrap=bootstrap, group=GROUP)


def _tell(what: dict[str, object]) -> None:
    print(json.dumps(what), flush=True)


def _why(query: "StreamingQuery") -> str:
    error = query.exception()
    return "ended" if error is None else sentence_of(error)


if __name__ == "__main__":
    main()
