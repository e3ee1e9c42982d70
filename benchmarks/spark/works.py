"""What is measured: each work, and how each peer does it.

A run prepares, does the work with the stopwatch running, and compares what came of it with what was asked for: one
that lost or doubled a record raises, and has no figure.
"""

import itertools
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.figures import Cell
from benchmarks.spark import topics
from benchmarks.spark.processor_time import Stopwatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS = 6
OURS, TUNED, DEFAULTS = "odradek", "tuned", "defaults"
PEERS = {OURS: "odradek", TUNED: "connector, tuned", DEFAULTS: "connector, defaults"}
# At its defaults the connector waits half a second at the end of every task, and takes 500 records at a time.
READS_TUNED = {
    "kafka.fetch.max.wait.ms": "10",
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.receive.buffer.bytes": str(1 << 20),
}
# As large as the batches that ours writes (`odradek.spark.encode.BATCH_BYTES`).
WRITES_TUNED = {
    "kafka.batch.size": str(512 << 10),
    "kafka.linger.ms": "100",
    "kafka.buffer.memory": str(64 << 20),
}
KEYS = ("B1", "B2", "B3", "B4", "Q1", "M1", "A0", "A1", "A2", "D1", "D2", "J1", "K1", "K2", "K3", "L1")
IN_DELTA = ("D1", "D2", "J1")
QUERIES = 5  # of a few rows, in a run
BATCHES, BATCH_ROWS = 20, 100
TOPICS, PARTITIONS_EACH = 200, 5

Run = Callable[[Stopwatch], float | None]


class Work(NamedTuple):
    """`units` are what a run does: rows, queries, batches. A run returns milliseconds where the stopwatch is not its figure."""

    cell: Cell
    units: int
    runs: Mapping[str, Run]


class Place(NamedTuple):
    """Where the works find their topics and leave what they write."""

    bootstrap: str
    directory: Path
    numbers: "itertools.count[int]"
    filled: set[str]  # the topics that are there

    def new(self, name: str) -> str:
        return str(self.directory / f"{name}-{next(self.numbers)}")


def rate(key: str, title: str, reach: float) -> Cell:
    return Cell(key, key, title, "rows/s", True, reach, cost_unit="CPU us/row")


def wait(
    key: str, title: str, unit: str, *, at_most: float | None = None, limit: float | None = None
) -> Cell:
    """`at_most` so many times what the peer takes."""
    return Cell(
        key,
        key,
        title,
        "ms",
        False,
        None if at_most is None else 1 / at_most,
        limit,
        cost_unit=f"CPU ms/{unit}",
    )


class Works:
    """All of one session. `small` and `large` are how many records of 100 B and of 1 KB there are."""

    def __init__(self, spark: "SparkSession", place: Place, small: int, large: int) -> None:
        self.spark = spark
        self.place = place
        self.small, self.large = small, large

    def named(self, key: str) -> Work:
        made: dict[str, Callable[[], Work]] = {
            "B1": lambda: self.read(
                rate("B1", "batch, 100 B, all columns summed", 1.5), *self.of_small(), ALL_SUMMED
            ),
            "B2": lambda: self.read(
                rate("B2", "batch, 100 B, value only, `columns=value`", 2.5),
                *self.of_small(),
                VALUES,
                columns="value",
            ),
            "B3": lambda: self.read(rate("B3", "batch, 1 KB, value only", 1.6), *self.of_large(), VALUES),
            "B4": lambda: self.read(
                rate("B4", "batch, 1 KB, value only, `columns=value`", 1.8),
                *self.of_large(),
                VALUES,
                columns="value",
            ),
            "Q1": self.few,
            "M1": self.micro_batches,
            "A0": self.start,
            "A1": lambda: self.stream(
                rate("A1", "stream, AvailableNow, 100 B, start included", 1.5), *self.of_small()
            ),
            "A2": lambda: self.stream(
                rate("A2", "stream, AvailableNow, 1 KB, start included", 1.1), *self.of_large()
            ),
            "D1": lambda: self.to_delta(rate("D1", "topic -> Delta, 100 B, as it is", 4), *self.of_small()),
            "D2": lambda: self.to_delta(rate("D2", "topic -> Delta, 1 KB, as it is", 2), *self.of_large()),
            "J1": self.json_to_delta,
            "K1": lambda: self.sink(rate("K1", "DataFrame -> topic, 100 B", 1.3), self.small // 3, 100),
            "K2": lambda: self.sink(
                rate("K2", "DataFrame -> topic, 100 B, keyed", 1.3), self.small // 3, 100, is_keyed=True
            ),
            "K3": lambda: self.sink(rate("K3", "DataFrame -> topic, 1 KB", 1.3), self.large // 2, 1024),
            "L1": self.planning,
        }
        return made[key]()

    # Topics, made when the first work asks for them ---------------------------------------------------------

    def of_small(self) -> tuple[str, int, int]:
        return self._filled("small", topics.noise(100), self.small), self.small, 100

    def of_large(self) -> tuple[str, int, int]:
        return self._filled("large", topics.noise(1024), self.large), self.large, 1024

    def _filled(self, name: str, values: list[bytes], records: int, partitions: int = PARTITIONS) -> str:
        if name not in self.place.filled:
            settings = {"batch.size": str(topics.JAVA_BATCH_BYTES)}
            topics.fill(self.place.bootstrap, name, values, records, partitions, **settings)
            self.place.filled.add(name)
        return name

    # Reading ------------------------------------------------------------------------------------------------

    def _load(self, reader: Any, peer: str, topic: str, **options: str) -> "DataFrame":
        of_peer = READS_TUNED if peer == TUNED else {}
        frame: DataFrame = (
            reader.format("odradek" if peer == OURS else "kafka")
            .option("kafka.bootstrap.servers", self.place.bootstrap)
            .options(subscribe=topic, startingOffsets="earliest", **of_peer, **options)
            .load()
        )
        return frame

    def read(
        self, cell: Cell, topic: str, records: int, size: int, summed: tuple[str, ...], **ours: str
    ) -> Work:
        def run_of(peer: str) -> Run:
            def run(stopwatch: Stopwatch) -> None:
                with stopwatch:
                    options = ours if peer == OURS else {}
                    row = self._load(self.spark.read, peer, topic, **options).selectExpr(*summed).collect()[0]
                expect((row["rows"], row["bytes"]), (records, records * size))

            return run

        return Work(cell, records, {peer: run_of(peer) for peer in PEERS})

    def few(self) -> Work:
        topic = self._filled("six", topics.noise(100), PARTITIONS)

        def run_of(peer: str) -> Run:
            def run(stopwatch: Stopwatch) -> float:
                with stopwatch:
                    for _ in range(QUERIES):
                        row = self._load(self.spark.read, peer, topic).selectExpr(*VALUES).collect()[0]
                        expect(row["rows"], PARTITIONS)
                return stopwatch.seconds / QUERIES * 1000

            return run

        cell = wait("Q1", "a query of six records, warm", "query", at_most=0.7)
        return Work(cell, QUERIES, {peer: run_of(peer) for peer in PEERS})

    def _streamed(self, peer: str, topic: str, **options: str) -> "StreamingQuery":
        """To its end, into nothing."""
        query = (
            self._load(self.spark.readStream, peer, topic, **options)
            .writeStream.format("noop")
            .option("checkpointLocation", self.place.new("checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query

    def stream(self, cell: Cell, topic: str, records: int, _: int) -> Work:
        def run_of(peer: str) -> Run:
            def run(stopwatch: Stopwatch) -> None:
                with stopwatch:
                    query = self._streamed(peer, topic)
                expect(sum(progress["numInputRows"] for progress in query.recentProgress), records)

            return run

        return Work(cell, records, {peer: run_of(peer) for peer in PEERS})

    def start(self) -> Work:
        topic = self._filled("six", topics.noise(100), PARTITIONS)
        work = self.stream(
            wait("A0", "start of a stream: six records, to its end", "stream", at_most=1.3),
            topic,
            PARTITIONS,
            100,
        )
        return work._replace(units=1)

    def micro_batches(self) -> Work:
        topic = self._filled("batches", topics.noise(100), BATCHES * BATCH_ROWS)

        def run_of(peer: str) -> Run:
            def run(stopwatch: Stopwatch) -> float:
                with stopwatch:
                    query = self._streamed(peer, topic, maxOffsetsPerTrigger=str(BATCH_ROWS))
                done = [p for p in query.recentProgress if p["numInputRows"]]
                expect(sum(progress["numInputRows"] for progress in done), BATCHES * BATCH_ROWS)
                return statistics.median(p["durationMs"]["triggerExecution"] for p in done[1:])

            return run

        cell = wait("M1", f"micro-batch of {BATCH_ROWS} records, median", "batch", at_most=1.15)
        return Work(cell, BATCHES, {peer: run_of(peer) for peer in PEERS})

    # Into Delta: ours fused, by delta-rs; theirs by delta-spark -----------------------------------------------

    def to_delta(self, cell: Cell, topic: str, records: int, _: int) -> Work:
        from odradek.spark.jobs import topic_to_table

        def ours(stopwatch: Stopwatch) -> None:
            table, checkpoint = self.place.new("table"), self.place.new("checkpoint")
            job = topic_to_table.Job(self.place.bootstrap, (topic,), table, checkpoint)
            with stopwatch:
                topic_to_table.start(self.spark, job).awaitTermination()
            expect(topic_to_table.summary(job)["records"], records)

        return Work(cell, records, {OURS: ours, **self._delta_spark(topic, records, lambda frame: frame)})

    def json_to_delta(self) -> Work:
        from pyspark.sql import functions as F

        from odradek.spark.jobs import tables

        records = self.small // 6
        topic = self._filled("orders", topics.orders(), records)

        def ours(stopwatch: Stopwatch) -> None:
            table = self.place.new("table")
            job = tables.TablesJob(
                self.place.bootstrap,
                (topic,),
                table,
                "json",
                topics.JSON_SCHEMA,
                has_meta=False,
                is_once=True,
            )
            with stopwatch:
                tables.planned(job).start(self.spark).awaitTermination()
            expect(rows_of(table), records)

        def parsed(frame: "DataFrame") -> "DataFrame":
            text = F.col("value").cast("string")
            return frame.select(F.from_json(text, topics.JSON_SCHEMA).alias("order")).select("order.*")

        cell = rate("J1", "topic -> Delta, JSON to 8 columns", 2)
        return Work(cell, records, {OURS: ours, **self._delta_spark(topic, records, parsed)})

    def _delta_spark(
        self, topic: str, records: int, shaped: "Callable[[DataFrame], DataFrame]"
    ) -> dict[str, Run]:
        def run_of(peer: str) -> Run:
            def run(stopwatch: Stopwatch) -> None:
                table = self.place.new("table")
                with stopwatch:
                    (
                        shaped(self._load(self.spark.readStream, peer, topic))
                        .writeStream.format("delta")
                        .option("checkpointLocation", self.place.new("checkpoint"))
                        .trigger(availableNow=True)
                        .start(table)
                        .awaitTermination()
                    )
                expect(rows_of(table), records)

            return run

        return {peer: run_of(peer) for peer in (TUNED, DEFAULTS)}

    # Into topics: ours one transaction a write, theirs idempotent ---------------------------------------------

    def sink(self, cell: Cell, records: int, size: int, *, is_keyed: bool = False) -> Work:
        # Hexadecimal digits of a hash, as many as the value has bytes; held in memory, so that only writing is measured.
        value = f"substring(repeat(sha2(string(id), 512), {-(-size // 128)}), 1, {size}) AS value"
        columns = (["string(id) AS key"] if is_keyed else []) + [value]
        frame = self.spark.range(records, numPartitions=2).selectExpr(*columns).cache()
        expect(frame.count(), records)

        def run_of(peer: str) -> Run:
            def run(stopwatch: Stopwatch) -> None:
                topic = Path(self.place.new("sink")).name
                topics.create(self.place.bootstrap, topic, PARTITIONS)
                of_peer = WRITES_TUNED if peer == TUNED else {}
                with stopwatch:
                    (
                        frame.write.format("odradek" if peer == OURS else "kafka")
                        .mode("append")
                        .option("kafka.bootstrap.servers", self.place.bootstrap)
                        .options(topic=topic, **of_peer)
                        .save()
                    )
                markers = PARTITIONS if peer == OURS else 0
                expect(topics.held(self.place.bootstrap, topic, PARTITIONS), records + markers)

            return run

        return Work(cell, records, {peer: run_of(peer) for peer in PEERS})

    # Planning, of ours alone ----------------------------------------------------------------------------------

    def planning(self) -> Work:
        """What a trigger asks the source for: how far it can go, which tasks, what is left. In this process, without Spark."""
        from pyspark.sql.streaming.datasource import ReadAllAvailable

        from odradek.spark.source import StreamReader, schema_of, stream_options

        names = [f"of-{TOPICS}-{number}" for number in range(TOPICS)]
        topics.create_many(self.place.bootstrap, names, PARTITIONS_EACH)
        given = {
            "kafka.bootstrap.servers": self.place.bootstrap,
            "subscribe": ",".join(names),
            "startingOffsets": "earliest",
        }
        options = stream_options(given)
        reader = StreamReader(options, schema_of(options))
        begin = reader.initialOffset()

        def ours(stopwatch: Stopwatch) -> None:
            with stopwatch:
                end = reader.latestOffset(begin, ReadAllAvailable())
                tasks = reader.partitions(begin, end)
                reader.reportLatestOffset()
            expect(sum(r.size for task in tasks for r in task.value), TOPICS * PARTITIONS_EACH)

        title = f"a trigger planned: {TOPICS} topics, {TOPICS * PARTITIONS_EACH:,} partitions"
        return Work(wait("L1", title, "trigger", limit=50), 1, {OURS: ours})


ALL_SUMMED = (
    "count(*) AS rows",
    "sum(length(value)) AS bytes",
    "sum(length(key))",
    "sum(length(topic))",
    "sum(partition)",
    "sum(offset)",
    "sum(unix_seconds(timestamp))",
    "sum(timestampType)",
)
VALUES = ALL_SUMMED[:2]


def rows_of(table: str) -> int:
    from deltalake import DeltaTable

    return sum(DeltaTable(table).get_add_actions(flatten=True).column("num_records").to_pylist())


def expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise WrongResult(f"{found} instead of {wanted}")


class WrongResult(Exception):
    """What came of the work is not what was asked for."""
