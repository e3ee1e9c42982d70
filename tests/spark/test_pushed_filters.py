"""What a batch read leaves out by the conditions of its query, and that it leaves out nothing else."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from odradek.client.sync import SyncClient
from odradek.model.errors import ConfigurationError
from odradek.model.ids import TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.spark.pushed_filters import Wanted, wanted_by
from odradek.spark.source import OdradekSource
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import fill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MakeTopic = Callable[..., str]
BEGAN = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)  # 1.7e12 ms
COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    EqualTo: lambda one, other: bool(one == other),
    EqualNullSafe: lambda one, other: bool(one == other),
    GreaterThan: lambda one, other: bool(one > other),
    GreaterThanOrEqual: lambda one, other: bool(one >= other),
    LessThan: lambda one, other: bool(one < other),
    LessThanOrEqual: lambda one, other: bool(one <= other),
    In: lambda one, others: one in others,
}
AGES = (0, 4, 1, 3, 2, 0, 5)  # of the records of a partition, in milliseconds
VALUES: dict[str, list[Any]] = {
    "topic": ["a", "b", "c"],
    "partition": [-1, 0, 1, 2],
    "offset": [-1, 0, 3, 6, 7],
    "timestamp": [BEGAN + timedelta(microseconds=us) for us in (-1, 0, 999, 1000, 3000, 3001, 5000, 5001)],
}


def conditions() -> Iterator[Filter]:
    for column, values in VALUES.items():
        for value in values:
            for kind in COMPARISONS:
                condition: Filter = kind((column,), (value, values[1]) if kind is In else value)
                yield condition
                yield Not(condition)


def meets(record: dict[str, Any], condition: Filter) -> bool:
    if isinstance(condition, Not):
        return not meets(record, condition.child)
    (column,) = condition.attribute  # type: ignore[attr-defined]
    return COMPARISONS[type(condition)](record[column], condition.value)  # type: ignore[attr-defined]


def test_nothing_is_left_out_that_meets_all_conditions() -> None:
    records: list[dict[str, Any]] = [
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": BEGAN + timedelta(milliseconds=ms),
        }
        for topic in ("a", "b")
        for partition in (0, 1)
        for offset, ms in enumerate(AGES)
    ]
    every = list(conditions())
    met = {id(one): {n for n, record in enumerate(records) if meets(record, one)} for one in every}
    for asked in combinations(every, 2):
        wanted = wanted_by(asked)
        late = [n for n, ms in enumerate(AGES) if ms + 1_700_000_000_000 >= wanted.since_ms]
        first = max(wanted.first, late[0] if late else len(AGES))
        for number in met[id(asked[0])] & met[id(asked[1])]:
            record = records[number]
            assert wanted.has(TopicPartition(record["topic"], record["partition"])), asked
            assert first <= record["offset"] <= wanted.last, asked


def test_conditions_narrow_each_other() -> None:
    asked = [
        In(("topic",), ("a", "b")),
        EqualTo(("topic",), "b"),
        In(("topic",), ("b", "c")),
        In(("partition",), (2, 3)),
        GreaterThanOrEqual(("offset",), 7),
        GreaterThan(("offset",), 5),
        LessThan(("offset",), 20),
        GreaterThan(("timestamp",), BEGAN + timedelta(microseconds=1_999)),
    ]

    assert wanted_by(asked) == Wanted(frozenset("b"), frozenset({2, 3}), 7, 20, 1_700_000_000_001)


def test_what_says_nothing_of_the_place_of_a_record_leaves_all_of_them() -> None:
    asked = [
        IsNotNull(("offset",)),
        EqualTo(("value",), b"v"),
        StringStartsWith(("topic",), "a"),
        EqualTo(("offset",), None),
        Not(EqualTo(("partition",), 1)),
        LessThan(("timestamp",), BEGAN),
        GreaterThan(("timestamp",), BEGAN.replace(tzinfo=None)),
        EqualTo(("headers", "key"), "offset"),
    ]

    assert wanted_by(asked) == wanted_by([]) == Wanted()


def planned(cluster: ProcessCluster, topics: str, *asked: Filter, **options: str) -> dict[str, int]:
    """Partition and first offset of what is read, with how many offsets that are."""
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topics, "pushFilters": "true"}
    source = OdradekSource({**given, **options})
    reader = source.reader(source.schema())
    assert list(reader.pushFilters(list(asked))) == list(asked), "Spark is to apply all of them itself"
    return {
        f"{piece.partition}@{piece.start}": piece.size
        for task in reader.partitions()
        for piece in task.value
        if piece.size
    }


def test_what_no_record_can_meet_is_not_read(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic, other = make_topic(partitions=3), make_topic()
    for partition in range(3):
        fill(client, topic, partition, [b"%d" % n for n in range(50)], batch=7)
    both = f"{topic},{other}"

    assert planned(cluster, both) == {"0@0": 50, "1@0": 50, "2@0": 50}
    assert planned(cluster, both, EqualTo(("topic",), other)) == {}
    assert planned(cluster, both, In(("partition",), (0, 2))) == {"0@0": 50, "2@0": 50}
    of_one = EqualTo(("partition",), 1)
    assert planned(cluster, topic, of_one, GreaterThanOrEqual(("offset",), 45)) == {"1@45": 5}
    assert planned(cluster, topic, of_one, LessThanOrEqual(("offset",), 9)) == {"1@0": 10}
    since = GreaterThanOrEqual(("timestamp",), BEGAN + timedelta(milliseconds=48))
    assert planned(cluster, topic, of_one, since) == {"1@48": 2}
    assert planned(cluster, topic, GreaterThan(("timestamp",), BEGAN + timedelta(hours=1))) == {}
    assert planned(cluster, topic, EqualTo(("offset",), 50), of_one) == {}
    begins = f'{{"{topic}":{{"1":47,"0":50,"2":50}}}}'
    assert planned(cluster, topic, since, startingOffsets=begins) == {"1@48": 2}
    assert planned(cluster, topic, GreaterThan(("offset",), 3), startingOffsets=begins) == {"1@47": 3}


def test_a_stream_has_no_conditions_to_push() -> None:
    source = OdradekSource({"kafka.bootstrap.servers": "a:1", "subscribe": "t", "pushFilters": "true"})

    with pytest.raises(
        ConfigurationError, match=r"pushFilters=true: Spark passes conditions to batch reads only"
    ):
        source.streamReader(source.schema()).initialOffset()


@pytest.mark.spark
def test_a_query_with_conditions_reads_less_and_finds_the_same(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic
) -> None:
    """A batch that cannot be read shows who reads it. Timestamps fall and rise: not the first that is late ends a search."""
    topic = make_topic(partitions=2)
    ages = [0, 40, 10, 30, 20, 0]
    records = [NewRecord(None, b"%d" % ms, 1_700_000_000_000 + ms) for ms in ages]
    client.produce(TopicPartition(topic, 0), build_batch(records))
    fill(client, topic, 1, [b"damaged"])
    (log,) = cluster.brokers[1].directory.glob(f"data/{topic}-1/*.log")
    with open(log, "r+b") as file:
        file.seek(-3, 2)
        file.write(b"\xff")

    def values(condition: str, **options: str) -> list[int]:
        reader = spark.read.format("odradek").option("kafka.bootstrap.servers", cluster.bootstrap)
        frame: DataFrame = reader.options(subscribe=topic, **options).load()
        return sorted(int(row.value) for row in frame.where(condition).select("value").collect())

    in_zero = "partition = 0"
    with pytest.raises(Exception, match="wrong CRC"):
        values(in_zero)
    with pytest.raises(Exception, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
        values(in_zero, pushFilters="true")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert values(in_zero, pushFilters="true") == sorted(ages)
        assert values(f"topic = '{topic}' AND partition < 1 AND partition IN (0, 7)", pushFilters="true")
        for condition in (
            "timestamp >= timestamp_millis(1700000000020)",
            "timestamp < timestamp_millis(1700000000020)",
            "timestamp = timestamp_millis(1700000000030)",
            "offset > 1 AND offset <= 4 AND timestamp > timestamp_micros(1700000000029999)",
            "offset = 3 OR offset = 5",
            "offset <> 1",
        ):
            told = values(f"{in_zero} AND ({condition})", pushFilters="true")
            ends = f'{{"{topic}":{{"1":0}}}}'
            assert told == values(f"{in_zero} AND ({condition})", endingOffsets=ends), condition
            assert told, condition
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
