"""What a JVM has of Spark's classes once they are loaded and checked, kept in a file: a JVM that maps it starts in half the time.

    python -m tests.spark.class_archive      makes it, once for a Java and a PySpark (`make test` does)

It is the JVM's own class data sharing. A JVM of another Java or with other jars passes over the file without a word, and so does
one that finds none: tests take longer then, and are otherwise the same. Kept in ~/.cache/odradek-spark.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tests.support import JAVA_OF_TESTS, class_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = 200
_END_S = 300.0
_MOST_S = 600.0


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def use(spark: "SparkSession", bootstrap: str, directory: Path) -> None:
    """What most tests do: sources, sinks, SQL, Python between them."""
    from tests.spark.kills.driver import to_be_started

    running = to_be_started(spark, bootstrap, "orders", "copies", directory)
    for writer in running.values():
        writer.trigger(availableNow=True).start().awaitTermination()
    brokers = {"kafka.bootstrap.servers": bootstrap}
    frame = spark.read.format("odradek").options(**brokers, subscribe="orders").load()
    frame = frame.mapInArrow(_as_they_are, frame.schema)
    frame.createOrReplaceTempView("records")
    found = spark.sql(
        "SELECT a.partition, count(*) AS n, max(string(a.value)) AS last FROM records a JOIN records b USING (offset) "
        "GROUP BY a.partition ORDER BY n"
    )
    assert found.collect()
    assert spark.createDataFrame([(1, "one")], ["id", "name"]).toPandas().shape == (1, 2)
    frame.write.mode("overwrite").parquet(str(directory / "copy"))
    assert spark.read.parquet(str(directory / "copy")).count() == RECORDS


def record(file: Path) -> None:
    """In a process of its own: its JVM writes the file as it ends."""
    from odradek.client.sync import SyncClient
    from odradek.spark.session import local_session
    from odradek.testing.process_cluster import ProcessCluster
    from tests.spark.conftest import KEEP, create_topic, fill

    os.environ["JDK_JAVA_OPTIONS"] = JAVA_OF_TESTS
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={file} -Xlog:disable"
    with (
        tempfile.TemporaryDirectory() as place,
        ProcessCluster(Path(place) / "broker", brokers=1, settings=KEEP) as cluster,
        SyncClient(cluster.bootstrap) as client,
    ):
        for name in ("orders", "copies"):
            create_topic(client, name)
        fill(client, "orders", 0, [b"%d" % n for n in range(RECORDS)])
        (Path(place) / "logs").mkdir()
        spark = local_session("classes", memory="512m", log=Path(place) / "logs" / "spark.log")
        use(spark, cluster.bootstrap, Path(place))
        process = spark.sparkContext._gateway.proc
        spark.stop()
        spark.sparkContext._gateway.shutdown()
        process.stdin.close()
        process.wait(_END_S)


def main() -> int:
    file = class_archive()
    if file is None or file.exists():
        return 0
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as place:
        new = Path(place) / file.name
        code = f"from tests.spark.class_archive import record, Path; record(Path({str(new)!r}))"
        try:
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=_MOST_S
            )
            why_not = "" if done.returncode == 0 and new.exists() else done.stderr[-500:]
        except subprocess.TimeoutExpired:  # its JVM and its brokers end with it
            why_not = f"not done after {_MOST_S:.0f} s"
        if why_not or not new.exists():
            print(f"Spark's classes could not be kept, so tests take longer: {why_not}")
            return 0
        for old in file.parent.glob(f"{file.name.split('-')[0]}-*"):
            old.unlink(missing_ok=True)
        os.replace(new, file)
    print(f"Spark's classes are kept in {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
