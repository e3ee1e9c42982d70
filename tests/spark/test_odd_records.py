"""Records that are legal and that nobody expects: without a timestamp, of any year, and with very many headers."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from deltalake import DeltaTable

from odradek.client.sync import SyncClient
from odradek.client.sync_timestamps import timestamps_at
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from odradek.records.builder import NewRecord, build_batch
from odradek.spark.dead_letters import dead_letters
from odradek.spark.formats.declared import Format
from odradek.spark.jobs.tables import TablesJob, planned
from odradek.spark.jobs.topic_to_table import Job, start
from odradek.spark.replay import replay
from odradek.spark.verify import verify
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.test_jobs_of_tables import task, writer
from tests.spark.test_stream_reader import EVERYTHING, reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeTopic = Callable[..., str]
MANY = 10_000
LAST_MS = (2**63 - 1) // 1000  # the last millisecond that microseconds can tell
# None, the second before 1970, before the year 1, after 9999, and later than a column can tell.
MOMENTS = [-1, -1000, -62_135_596_800_001, 253_402_300_800_000, 2**62]


@pytest.fixture
def topic(client: SyncClient, make_topic: MakeTopic) -> str:
    """A record of each moment, and one with many headers; three are no JSON."""
    name = make_topic()
    values = [b"no json" if n in (2, 3) else b'{"id": %d}' % n for n in range(len(MOMENTS))]
    of_moments = [NewRecord(b"key", value, ms) for value, ms in zip(values, MOMENTS, strict=True)]
    headers = [(f"h{n}", b"%d" % n) for n in range(MANY)]
    for record in [*of_moments, NewRecord(b"key", b"no json", 1_700_000_000_000, headers)]:
        client.produce(TopicPartition(name, 0), build_batch([record]))
    return name


def test_a_tables_job_takes_them_and_keeps_letters_of_them(
    cluster: ProcessCluster, topic: str, tmp_path: Path
) -> None:
    job = TablesJob(cluster.bootstrap, (topic,), str(tmp_path / "table"), format="json", is_once=True)
    shape = planned(job).shape
    assert shape is not None

    writer(job, shape).commit([task(job, shape, 0, 6)], 0)

    found = DeltaTable(job.table).to_pyarrow_table().sort_by("__offset")
    times = found.column("__timestamp").cast("int64").to_pylist()
    assert times == [min(MOMENTS[n], LAST_MS) * 1000 for n in (0, 1, 4)]
    assert [(letter.offset, letter.value) for letter in dead_letters(job.table)] == [
        (n, b"no json") for n in (2, 3, 5)
    ]
    assert replay(job.table, Format("json")).waiting == 3
    assert verify(job.table, cluster.bootstrap).is_equal


def test_a_record_without_a_timestamp_has_no_age(
    cluster: ProcessCluster, client: SyncClient, topic: str
) -> None:
    where = TopicPartition(topic, 0)

    assert timestamps_at(client, {where: 0}) == timestamps_at(client, {where: 2}) == {}
    assert timestamps_at(client, {where: 5}) == {where: 1_700_000_000_000}
    stream = reader(cluster, topic, startingOffsets="earliest", maxOffsetsPerTrigger="1")
    stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    assert stream.reportLatestOffset() is not None
    ages: dict[str, Any] = (stream.reportLatestOffset() or {})[topic]
    assert "behindMs" not in ages, "of 1969 it is not"
    assert stream.latestOffset(stream.initialOffset(), EVERYTHING)
    stream.stop()


def test_a_delete_horizon_is_no_age() -> None:
    """Compaction puts it where the timestamp of the first record was."""
    batch = build_batch([NewRecord(b"k", None, 1_700_000_000_000)], delete_horizon_ms=1_800_000_000_000)
    answer = FetchResponse(
        responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=batch)])]
    )
    client = SimpleNamespace(
        leader=lambda _: (1, SimpleNamespace(leader_epoch=0)), call=lambda *_, **__: answer
    )

    assert timestamps_at(cast("SyncClient", client), {TopicPartition("t", 0): 0}) == {
        TopicPartition("t", 0): 1_700_000_000_000
    }


@pytest.mark.spark
@pytest.mark.parametrize("is_fused", [True, False])
def test_spark_takes_them_all(
    spark: "SparkSession", cluster: ProcessCluster, topic: str, tmp_path: Path, is_fused: bool
) -> None:
    frame = (
        spark.read.format("odradek")
        .option("kafka.bootstrap.servers", cluster.bootstrap)
        .options(subscribe=topic, includeHeaders="true")
        .load()
        .selectExpr(
            "offset", "unix_millis(timestamp) AS ms", "size(headers) AS count", "headers[9999] AS last"
        )
    )
    rows = frame.orderBy("offset").collect()
    job = Job(
        cluster.bootstrap, (topic,), str(tmp_path / "table"), str(tmp_path / "checkpoint"), is_fused=is_fused
    )
    start(spark, job).awaitTermination()

    assert [row.ms for row in rows[:5]] == [min(ms, LAST_MS) for ms in MOMENTS]
    assert (rows[5]["count"], rows[5]["last"].key, bytes(rows[5]["last"].value)) == (MANY, "h9999", b"9999")
    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 6
    report = verify(job.table, cluster.bootstrap)
    assert report.is_equal and report.is_complete, json.dumps([str(part) for part in report.partitions])
