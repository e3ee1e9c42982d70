"""Rows per second from a topic into a Spark aggregate: our source, and Spark's own JVM connector beside it.

    python -m benchmarks.spark_source                    # 3 M records of 100 B, 6 partitions, one broker of ours
    python -m benchmarks.spark_source --bootstrap h:p    # against a cluster that runs already

One session, one topic; the readers take turns, so that whatever else the machine does hits all alike. The
connector runs at its defaults and tuned (`kafka.fetch.max.wait.ms=10`): its defaults wait half a second at the
end of every task, and a comparison that hides this would flatter us. Its jars come from Maven Central by `mvn`;
without them its column says so. The sum of the lengths is compared with what was produced: a reader that
lost or doubled a record has no figure.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.spark.jars import CONNECTOR, NoJars, fetched
from benchmarks.spark.topics import fill, noise
from odradek.spark.session import find_java, local_session
from odradek.testing.process_cluster import ProcessCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connector_jars(directory: Path) -> list[str]:
    """The four jars of the connector; none, and why, if Maven is missing or does not serve them."""
    try:
        return fetched(CONNECTOR, directory)
    except NoJars as error:
        print(f"no jars of the connector: {error}", file=sys.stderr)
        return []


def reader(
    spark: "SparkSession", name: str, bootstrap: str, topic: str, **options: str
) -> Callable[[], tuple[int, int]]:
    """Counts the rows and adds up the lengths of the values."""

    def read() -> tuple[int, int]:
        frame = (
            spark.read.format(name)
            .option("kafka.bootstrap.servers", bootstrap)
            .options(subscribe=topic, startingOffsets="earliest", **options)
            .load()
            .selectExpr("count(*) AS rows", "sum(length(value)) AS bytes")
        )
        row = frame.collect()[0]
        return int(row["rows"]), int(row["bytes"])

    return read


def measure(arguments: argparse.Namespace, directory: Path) -> dict[str, Any]:
    jars = [] if arguments.no_connector else connector_jars(arguments.jars or directory / "connector")
    with ExitStack() as stack:
        bootstrap = arguments.bootstrap
        if not bootstrap:
            bootstrap = stack.enter_context(ProcessCluster(directory / "cluster", brokers=1)).bootstrap
        topic = f"bench-{int(time.time())}"
        settings = {"compression.type": arguments.codec}
        fill(bootstrap, topic, noise(arguments.size), arguments.records, arguments.partitions, **settings)
        spark = local_session(
            "benchmark", cores=arguments.cores, memory="2g", settings={"spark.jars": ",".join(jars)}
        )
        stack.callback(spark.stop)
        tuned = {"kafka.fetch.max.wait.ms": "10"}
        readers = {
            "odradek": reader(spark, "odradek", bootstrap, topic),
            "odradek, columns=value": reader(spark, "odradek", bootstrap, topic, columns="value"),
        }
        if jars:
            readers["connector, defaults"] = reader(spark, "kafka", bootstrap, topic)
            readers["connector, tuned"] = reader(spark, "kafka", bootstrap, topic, **tuned)
        expected = (arguments.records, arguments.records * arguments.size)
        seconds: dict[str, list[float]] = {name: [] for name in readers}
        for turn in range(arguments.repeats + 1):
            for name, read in readers.items():
                began = time.perf_counter()
                found = read()
                took = time.perf_counter() - began
                assert found == expected, f"{name} read {found} instead of {expected}"
                if turn:  # the first turn warms up
                    seconds[name].append(took)
    return {
        "records": arguments.records,
        "size_bytes": arguments.size,
        "codec": arguments.codec,
        "partitions": arguments.partitions,
        "cores": arguments.cores,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "java": str(find_java()),
        "rows_per_s": {
            name: {
                "median": arguments.records / statistics.median(found),
                "min": arguments.records / max(found),
                "max": arguments.records / min(found),
            }
            for name, found in seconds.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--bootstrap", help="a cluster that runs already; default: one broker of ours")
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--codec", default="none", help="the producer's compression.type")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--no-connector", action="store_true")
    parser.add_argument("--jars", type=Path, help="keep the connector's jars here")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-bench-") as directory:
        result = measure(arguments, Path(directory))
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"{result['records']:,} records of {result['size_bytes']} B (codec {result['codec']}), {result['partitions']} partitions, "
          f"local[{result['cores']}] on {result['machine']}, {result['java']}")  # fmt: skip
    for name, rows in result["rows_per_s"].items():
        print(f"{name:26} {rows['median']:12,.0f} rows/s   ({rows['min']:,.0f} to {rows['max']:,.0f})")
    if not any(name.startswith("connector") for name in result["rows_per_s"]):
        print("connector                  not run")


if __name__ == "__main__":
    main()
