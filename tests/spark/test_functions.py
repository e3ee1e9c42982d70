"""The functions of the library, by their own examples and in a stream."""

import doctest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException

from odradek.client.sync import SyncClient
from odradek.model.errors import ConfigurationError
from odradek.spark import functions
from odradek.spark.functions import (
    applied_changes,
    dead_letters,
    decoded,
    deduplicated,
    fingerprinted,
    lag_of,
    latest_by_key,
    readable,
    windows_of,
)
from odradek.spark.verify import verify
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import fill
from tests.spark.formats.registry_server import framed, registry
from tests.spark.formats.test_avro import SIMPLE, written

pytestmark = pytest.mark.spark
MakeTopic = Callable[..., str]


def records(spark: Any, *values: bytes) -> Any:
    """As the source gives them: of one partition of `orders`, a second apart."""
    from pyspark.sql import functions as F

    rows = [(None, bytearray(value), "orders", 0, n, 1_700_000_000 + n) for n, value in enumerate(values)]
    frame = spark.createDataFrame(
        rows, "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, at BIGINT"
    )
    return frame.withColumn("timestamp", F.timestamp_seconds("at")).drop("at")


def test_every_example_runs_and_every_function_has_one(spark: Any) -> None:
    found = doctest.DocTestFinder().find(functions, extraglobs={"spark": spark, "records": records})
    public = set(functions.__all__)
    runner = doctest.DocTestRunner()
    for example in found:
        runner.run(example)

    assert {test.name.rsplit(".", 1)[1] for test in found if test.examples} >= public
    assert runner.summarize().failed == 0
    for query in spark.streams.active:
        query.stop()


def test_a_row_without_what_orders_it_is_before_all_others_of_its_key(spark: Any) -> None:
    rows = records(spark, b"a", b"b", b"a").selectExpr(
        "value AS key",
        "offset",
        "if(offset = 2, NULL, offset) AS changed",
        "if(value = 'b', NULL, 1) AS many",
    )

    of_one = latest_by_key(rows, by="changed").collect()
    alone = latest_by_key(rows, by="many").collect()

    assert sorted((bytes(row.key), row.offset) for row in of_one) == [(b"a", 0), (b"b", 1)]
    assert sorted(bytes(row.key) for row in alone) == [b"a", b"b"]


def test_names_and_aggregates_may_have_a_point(spark: Any) -> None:
    from pyspark.sql import functions as F

    rows = records(spark, b"a", b"b", b"a").withColumn("a.b", F.col("value"))
    rows = rows.withColumn("at", F.struct(F.col("offset").alias("n")))

    windows = windows_of(rows, "1 minute", F.sum("at.n"), F.sum(F.col("offset") * 0.5), by=["a.b"])

    assert windows.columns == ["windowStart", "windowEnd", "a.b", "sum(at.n)", "sum((offset * 0.5))"]
    assert sorted((bytes(row["a.b"]), *row[3:]) for row in windows.collect()) == [
        (b"a", 2, 1),
        (b"b", 1, 0.5),
    ]
    assert sorted(row.offset for row in latest_by_key(rows, "a.b").collect()) == [1, 2]
    one = rows.where("offset = 0")
    assert sorted(row.offset for row in applied_changes(one, "a.b", onto=rows).collect()) == [0, 1]


@pytest.mark.parametrize("by", ["", "changed"])
def test_the_last_rows_in_a_stream_go_on_from_a_checkpoint_of_before(
    spark: Any, tmp_path: Path, by: str
) -> None:
    """Spark keeps the state of `max_by` with its types, and starts no query whose types are others."""
    from pyspark.sql import functions as F

    def run(last: Callable[[Any], Any], *lines: str) -> None:
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{lines[0][9]}.json").write_text("\n".join(lines))
        rows = spark.readStream.schema("key STRING, offset BIGINT, changed BIGINT").json(str(tmp_path / "in"))
        sink = (
            last(rows)
            .writeStream.outputMode("update")
            .foreachBatch(lambda batch, _: found.extend(batch.collect()))
        )
        query = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query.start().awaitTermination()

    def of_before(rows: Any) -> Any:
        last = F.max_by(F.struct(*(F.col(f"`{name}`") for name in rows.columns)), F.col(by or "offset"))
        return rows.dropna(subset=["key"]).groupBy("key").agg(last.alias("last")).select("last.*")

    found: list[Any] = []
    run(of_before, '{"key": "a", "offset": 0, "changed": 5}')
    found.clear()
    run(
        lambda rows: latest_by_key(rows, by=by),
        '{"key": "b", "offset": 1}',
        '{"key": "a", "offset": 2, "changed": 6}',
    )

    without_any = [] if by else [("b", 1)]
    assert sorted((row.key, row.offset) for row in found) == [("a", 2), *without_any]


def topic_of(spark: Any, cluster: ProcessCluster, topic: str, *, stream: bool = False) -> Any:
    reader = spark.readStream if stream else spark.read
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
    }
    return reader.format("odradek").options(**options).load()


def test_avro_of_a_registry_in_a_stream_with_its_letters(
    spark: Any, cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    good = [framed(7, written(SIMPLE, {"id": n, "n": f"n{n}"})) for n in range(3)]
    fill(client, topic, 0, [*good, b"no avro", framed(8, b"")])
    with registry() as server:
        server.has(7, SIMPLE, subject="orders-value")
        found = decoded(
            topic_of(spark, cluster, topic, stream=True),
            "avro",
            registry=server.url,
            subject="orders-value",
            on_error="dlq",
        )
        query = (
            found.writeStream.format("memory")
            .queryName("decoded_orders")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    table = spark.table("decoded_orders")
    assert [(r.id, r.n, r["__offset"]) for r in readable(table).orderBy("id").collect()] == [
        (0, "n0", 0),
        (1, "n1", 1),
        (2, "n2", 2),
    ]
    letters = dead_letters(table).orderBy("offset").collect()
    assert [(r.offset, r.stage, r.schemaId) for r in letters] == [(3, "schema", None), (4, "schema", 8)]
    assert [(x.topic, x.partition, x.records, x.seconds) for x in lag_of(query)] == [(topic, 0, 0, 0.0)]


def test_a_frame_of_another_source_lacks_what_is_ours(spark: Any) -> None:
    found = decoded(records(spark, b'{"id": 1}').drop("key"), schema="id BIGINT").collect()

    assert (found[0].id, found[0]["__key"], found[0]["__leaderEpoch"]) == (1, None, None)
    assert "__letter" not in found[0]
    with pytest.raises(
        ConfigurationError, match="decoded needs the column timestamp; there are value, topic"
    ):
        decoded(records(spark, b"").select("value", "topic", "partition", "offset"), schema="id BIGINT")
    with pytest.raises(ConfigurationError, match="decoded needs columns"):
        decoded(records(spark, b""))
    with pytest.raises(
        ConfigurationError, match=r"which wants what decoded\(.* gives, needs the column __letter"
    ):
        dead_letters(records(spark, b""))


def test_what_is_wrong_is_said_of_the_arguments_of_the_function(spark: Any, tmp_path: Path) -> None:
    frame = records(spark, b"no json")
    missing = str(tmp_path / "schema")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"form": "xml"}, "form xml: there are"),
        ({"on_error": "die"}, "on_error die: there are"),
        ({"form": "avro"}, "form avro: expected either registry or schema_file, where"),
        ({"form": "avro", "schema_file": missing, "schema": ""}, f"schema_file {tmp_path}/schema: No such"),
        ({"form": "avro", "schema_file": "f", "message": "M"}, "message is for a schema_file of Protobuf"),
        ({"schema": "__offset BIGINT"}, "has_meta=False leaves ours out"),
    ]
    for given, sentence in wrong:
        with pytest.raises(ConfigurationError) as raised:
            decoded(frame, **{"schema": "id BIGINT", **given})
        assert sentence in str(raised.value) and "--" not in str(raised.value), given
    with pytest.raises(PythonException, match=r"run it with schema that fits, or with on_error dlq or skip"):
        decoded(frame, schema="id BIGINT").collect()


def test_a_fingerprint_is_that_of_verify(
    spark: Any, cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    fill(client, topic, 0, [b"%d" % n for n in range(500)])
    fill(client, topic, 1, [b"%d" % n for n in range(30)])
    frame = topic_of(spark, cluster, topic)

    rows = fingerprinted(frame.repartition(3)).orderBy("partition").collect()
    (
        frame.sparkSession.readStream.format("odradek")
        .options(**{"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic})
        .option("startingOffsets", "earliest")
        .load()
        .writeStream.format("odradek-delta")
        .options(table=str(tmp_path / "table"), appId="a", rowsAreRecords="true")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    report = verify(str(tmp_path / "table"), cluster.bootstrap)

    assert [(r.partition, r.first, r.end, r.records) for r in rows] == [(0, 0, 500, 500), (1, 0, 30, 30)]
    assert [r.hash for r in rows] == [p.topic.hex for p in report.partitions]


def test_windows_and_duplicates_in_a_stream(
    spark: Any, cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F

    topic = make_topic()
    fill(client, topic, 0, [b"a", b"b", b"a", b"a"])
    frame = topic_of(spark, cluster, topic, stream=True)
    for name, result in (
        ("once", deduplicated(frame, "value")),
        ("windows", windows_of(frame, "1 minute", F.max("offset").alias("last"), by=["topic"])),
    ):
        query = (
            result.writeStream.format("memory")
            .queryName(name)
            .outputMode("append" if name == "once" else "update")
            .option("checkpointLocation", str(tmp_path / name))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    assert sorted(bytes(r.value) for r in spark.table("once").collect()) == [b"a", b"b"]
    (window,) = spark.table("windows").collect()
    assert (window.topic, window.last) == (topic, 3)
    with pytest.raises(ConfigurationError, match="fingerprinted wants a batch"):
        fingerprinted(frame)
    with pytest.raises(ConfigurationError, match="deduplicated needs the column colour"):
        deduplicated(frame, "colour")
