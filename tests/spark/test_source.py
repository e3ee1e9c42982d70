"""The data source in a real Spark session, on a real broker."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from odradek.client.sync import SyncClient
from odradek.model.ids import TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import KEEP, create_topic, fill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
MakeTopic = Callable[..., str]
LONG_S = 240  # longer than any machine is slow


def batch(spark: "SparkSession", cluster: ProcessCluster, topic: str, **options: Any) -> "DataFrame":
    reader = spark.read.format("odradek").option("kafka.bootstrap.servers", cluster.bootstrap)
    return reader.options(**{"subscribe": topic, **options}).load()


def values(frame: "DataFrame") -> list[bytes]:
    return sorted(bytes(row.value) for row in frame.select("value").collect())


def available(
    spark: "SparkSession", cluster: ProcessCluster, topic: str, checkpoint: Path, **options: Any
) -> list[tuple[int, list[bytes]]]:
    """One AvailableNow run; the values of each batch."""
    seen: list[tuple[int, list[bytes]]] = []

    def keep(frame: "DataFrame", batch_id: int) -> None:
        seen.append((batch_id, values(frame)))

    reader = spark.readStream.format("odradek").option("kafka.bootstrap.servers", cluster.bootstrap)
    (
        # None takes one away; PySpark 4.2 fails over an option that is None.
        reader.options(
            **{
                name: value
                for name, value in {"subscribe": topic, "startingOffsets": "earliest", **options}.items()
                if value is not None
            }
        )
        .load()
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
    return seen


def numbered(start: int, end: int, letter: bytes = b"v") -> list[bytes]:
    return [letter + b"%05d" % n for n in range(start, end)]


def test_a_batch_read_gives_every_record_with_all_its_fields(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    headers = [("trace", b"\x00\x01"), ("none", None), ("trace", b"")]
    record = NewRecord(None, b"with headers", 1_700_000_000_123, headers)
    client.produce(TopicPartition(topic, 0), build_batch([record, NewRecord(b"k", None, 1_700_000_000_124)]))
    fill(client, topic, 1, [b"other"], codec="zstd")

    rows = [
        row.asDict(recursive=True)
        for row in batch(spark, cluster, topic, includeHeaders="true").orderBy("timestamp").collect()
    ]

    from datetime import UTC, datetime

    def at(milliseconds: int) -> datetime:
        return datetime.fromtimestamp(1_700_000_000 + milliseconds / 1000, UTC).replace(tzinfo=None)

    common = {"topic": topic, "timestampType": 0, "leaderEpoch": 0}
    assert rows == [
        {
            "key": b"k0",
            "value": b"other",
            "partition": 1,
            "offset": 0,
            "timestamp": at(0),
            "headers": None,
            **common,
        },
        {
            "key": None,
            "value": b"with headers",
            "partition": 0,
            "offset": 0,
            "timestamp": at(123),
            "headers": [{"key": name, "value": value} for name, value in headers],
            **common,
        },
        {
            "key": b"k",
            "value": None,
            "partition": 0,
            "offset": 1,
            "timestamp": at(124),
            "headers": None,
            **common,
        },
    ]


def test_the_columns_are_those_of_sparks_own_connector_and_the_leader_epoch(
    spark: "SparkSession", cluster: ProcessCluster, make_topic: MakeTopic
) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    from odradek.spark.arrow_schema import rows_schema

    frame = batch(spark, cluster, make_topic(), includeHeaders="true")

    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>,leaderEpoch:int>"
    )
    assert to_arrow_schema(frame.schema, timezone="UTC").equals(rows_schema())


def test_an_empty_topic_has_no_rows(
    spark: "SparkSession", cluster: ProcessCluster, make_topic: MakeTopic
) -> None:
    assert batch(spark, cluster, make_topic(partitions=3)).count() == 0


def test_columns_can_be_chosen(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    fill(client, topic, 0, numbered(0, 3))

    frame = batch(spark, cluster, topic, columns="offset,value")

    assert [(r.offset, bytes(r.value)) for r in frame.orderBy("offset").collect()] == [
        (n, value) for n, value in enumerate(numbered(0, 3))
    ]


def test_offsets_and_timestamps_border_a_batch_read(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    for partition in (0, 1):
        fill(client, topic, partition, numbered(0, 50, b"%d-" % partition), batch=7)

    by_offset = batch(
        spark,
        cluster,
        topic,
        startingOffsets=f'{{"{topic}":{{"0":10,"1":-2}}}}',
        endingOffsets=f'{{"{topic}":{{"0":20,"1":3}}}}',
    )
    by_time = batch(spark, cluster, topic, startingTimestamp="1700000000045", endingTimestamp="1700000000048")

    assert values(by_offset) == numbered(10, 20, b"0-") + numbered(0, 3, b"1-")
    assert values(by_time) == numbered(45, 48, b"0-") + numbered(45, 48, b"1-")


def test_large_ranges_are_split_and_small_ones_packed(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=3)
    for partition in range(3):
        fill(client, topic, partition, numbered(0, 100, b"%d-" % partition), batch=30)
    expected = sorted(value for p in range(3) for value in numbered(0, 100, b"%d-" % p))

    packed = batch(spark, cluster, topic)
    split = batch(spark, cluster, topic, minPartitions="10")
    limited = batch(spark, cluster, topic, maxRecordsPerPartition="40")

    assert packed.rdd.getNumPartitions() == 1
    assert split.rdd.getNumPartitions() >= 10
    assert limited.rdd.getNumPartitions() == 9
    assert values(packed) == values(split) == values(limited) == expected


@pytest.mark.parametrize(
    ("servers", "cause"),
    [
        ("127.0.0.1:1", "no broker answers at 127.0.0.1:1: connection refused"),
        ("no-such-host.invalid:9092", "no broker answers at no-such-host.invalid:9092: the name"),
    ],
)
def test_a_wrong_bootstrap_address_fails_in_time_and_in_a_sentence(
    spark: "SparkSession", servers: str, cause: str
) -> None:
    def read() -> None:
        reader = spark.read.format("odradek").option("kafka.bootstrap.servers", servers)
        reader.options(
            **{"subscribe": "orders", "kafka.request.timeout.ms": str(LONG_S * 1000)}
        ).load().count()

    # The first query of a session pays for Spark's own start, which is not what is measured here.
    with pytest.raises(Exception, match="no broker answers"):
        read()
    began = time.monotonic()
    with pytest.raises(Exception) as caught:
        read()

    assert cause in str(caught.value)
    assert time.monotonic() - began < LONG_S / 2, "not as long as a request may take"


def test_a_damaged_batch_fails_the_read_and_says_where(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    fill(client, topic, 0, numbered(0, 20), batch=10)
    (log,) = cluster.brokers[1].directory.glob(f"data/{topic}-0/*.log")
    with open(log, "r+b") as file:
        file.seek(-3, 2)
        file.write(b"\xff")

    with pytest.raises(
        Exception, match=rf"{topic}-0, offsets 0 to 20: the batch of offsets 10 to 19 has a wrong CRC"
    ):
        batch(spark, cluster, topic).count()
    assert batch(spark, cluster, topic, endingOffsets=f'{{"{topic}":{{"0":10}}}}').count() == 10


def test_offsets_that_are_not_there_fail_loudly_or_are_left_out(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    fill(client, topic, 0, numbered(0, 20))
    beyond = {"startingOffsets": f'{{"{topic}":{{"0":100}}}}', "endingOffsets": f'{{"{topic}":{{"0":200}}}}'}

    with pytest.raises(
        Exception, match=f"endingOffsets asks for {topic}-0 up to offset 200, but its log ends at 20"
    ):
        batch(spark, cluster, topic, **beyond).count()
    assert batch(spark, cluster, topic, failOnDataLoss="false", **beyond).count() == 0


def test_a_stream_reads_what_is_there_in_limited_batches_and_then_only_what_is_new(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    for partition in (0, 1):
        fill(client, topic, partition, numbered(0, 50, b"%d-" % partition), batch=7)

    first = available(spark, cluster, topic, tmp_path, maxOffsetsPerTrigger="30")
    nothing_new = available(spark, cluster, topic, tmp_path)
    fill(client, topic, 1, numbered(50, 60, b"1-"))
    second = available(spark, cluster, topic, tmp_path)

    assert [len(found) for _, found in first] == [30, 30, 30, 10]
    assert sorted(value for _, found in first for value in found) == sorted(
        value for p in (0, 1) for value in numbered(0, 50, b"%d-" % p)
    )
    assert [found for _, found in nothing_new if found] == []
    assert [found for _, found in second if found] == [numbered(50, 60, b"1-")]


def test_a_stream_over_a_pattern_takes_in_new_topics_from_their_beginning(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    fill(client, make_topic("sensors.a"), 0, numbered(0, 5, b"a"))

    def run() -> list[bytes]:
        seen = available(spark, cluster, "", tmp_path, subscribe=None, subscribePattern=r"sensors\..*")
        return sorted(value for _, found in seen for value in found)

    before = run()
    fill(client, make_topic("sensors.b"), 0, numbered(0, 5, b"b"))

    assert before == numbered(0, 5, b"a")
    assert run() == numbered(0, 5, b"b")


def test_a_topic_that_was_created_again_is_an_error_that_says_so(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """The same name on a cluster that was set up anew: another topic id, and offsets that mean other records."""
    topic = make_topic()
    fill(client, topic, 0, numbered(0, 5))
    available(spark, cluster, topic, tmp_path / "checkpoint")

    with (
        ProcessCluster(tmp_path / "anew", brokers=1, settings=KEEP) as anew,
        SyncClient(anew.bootstrap) as other,
    ):
        create_topic(other, topic)
        fill(other, topic, 0, numbered(0, 50))
        with pytest.raises(Exception, match=f"{topic} was deleted and created again: .* new checkpoint"):
            available(spark, anew, topic, tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("form", "options", "sentence"),
    [
        ("odradek", {"endingOffsets": "latest"}, "a stream has no end: endingOffsets"),
        ("odradek-fused", {}, "the option table is missing: the directory of the table"),
    ],
)
def test_the_last_line_of_a_stream_that_cannot_be_is_the_sentence_of_what_is_wrong(
    spark: "SparkSession",
    cluster: ProcessCluster,
    make_topic: MakeTopic,
    tmp_path: Path,
    form: str,
    options: dict[str, str],
    sentence: str,
) -> None:
    """And not that of PySpark, which stops a reader that it has not got."""
    reader = spark.readStream.format(form).option("kafka.bootstrap.servers", cluster.bootstrap)
    with pytest.raises(Exception, match=sentence) as caught:
        frame = reader.options(subscribe=make_topic(), **options).load()
        query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
        query.awaitTermination(LONG_S)

    said = str(caught.value)
    assert "UnboundLocalError" not in said
    (last,) = [line for line in said.splitlines() if line.startswith("odradek.")]
    assert last.startswith(f"odradek.model.errors.ConfigurationError: {sentence}")
