"""Rows per second from a topic into a Spark aggregate: our source, and Spark's own JVM connector beside it.

    python benchmarks/spark_source.py                    # 3 M records of 100 B, 6 partitions, one broker of ours
    python benchmarks/spark_source.py --bootstrap h:p    # against a cluster that runs already

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
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odradek.client.sync import CONTROLLER, SyncClient
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.spark.session import find_java, local_session
from odradek.testing.process_cluster import ProcessCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The newest the connector was published for (it runs on pyspark 4.3 too), and all that it needs. Named one by
# one: Spark's own POM would send Maven to a mirror that not every network reaches.
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",  # 4.2.0 of it is not served
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>x</groupId><artifactId>x</artifactId><version>1</version><dependencies>{}</dependencies></project>"""
_DEPENDENCY = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><exclusions>
<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"""


def connector_jars(directory: Path) -> list[str]:
    """The four jars of the connector; none if Maven is missing or does not serve them."""
    if not shutil.which("mvn"):
        return []
    directory.mkdir(parents=True, exist_ok=True)
    dependencies = "".join(_DEPENDENCY.format(*jar.split(":")) for jar in CONNECTOR)
    (directory / "pom.xml").write_text(_POM.format(dependencies))
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"]
    if len(list(directory.glob("jars/*.jar"))) < len(CONNECTOR):
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"no jars of the connector: {done.stdout.strip().splitlines()[:1]}", file=sys.stderr)
            return []
    return [str(path) for path in sorted(directory.glob("jars/*.jar"))]


def fill(bootstrap: str, topic: str, records: int, size: int, partitions: int, codec: str) -> None:
    """As librdkafka produces by default; no two values within a thousand are alike."""
    from confluent_kafka import Producer

    with SyncClient(bootstrap) as client:
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
        (answer,) = client.call(CONTROLLER, CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics
        assert answer.error_code == 0, answer
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "queue.buffering.max.messages": 500_000,
            "compression.type": codec,
        }
    )
    noise = os.urandom(size * 1000)
    for number in range(records):
        start = number % 1000 * size
        while True:
            try:
                producer.produce(topic, noise[start : start + size], partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()
    with SyncClient(bootstrap) as client:
        ends = client.end_offsets([TopicPartition(topic, p) for p in range(partitions)])
        assert sum(ends.values()) == records, ends


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
        fill(bootstrap, topic, arguments.records, arguments.size, arguments.partitions, arguments.codec)
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
