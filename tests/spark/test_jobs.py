"""Topic to table, exactly once, in one session: both ways, the proof, and the aggregation on top."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from odradek.client.sync import SyncClient
from odradek.model.ids import TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.spark import session
from odradek.spark.fingerprint import of_records
from odradek.spark.jobs.delays import HEADER, Delays, aggregate_delays
from odradek.spark.jobs.topic_to_table import Job, main, start, summary
from odradek.spark.verify import CannotVerify, Report, verify
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import create_topic, fill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
MakeTopic = Callable[..., str]


def numbered(start: int, end: int, letter: bytes = b"v") -> list[bytes]:
    return [letter + b"%05d" % n for n in range(start, end)]


def job_for(cluster: ProcessCluster, directory: Path, topic: str, *, is_fused: bool = True) -> Job:
    return Job(
        bootstrap=cluster.bootstrap,
        topics=(topic,),
        table=str(directory / "table"),
        checkpoint=str(directory / "checkpoint"),
        max_offsets_per_trigger=100,
        is_fused=is_fused,
    )


def run(spark: "SparkSession", job: Job) -> dict[str, object]:
    start(spark, job).awaitTermination()
    return summary(job)


def test_a_wrong_address_or_topic_is_one_sentence_and_starts_no_spark(
    cluster: ProcessCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "local_session", None)
    where = ["--table", str(tmp_path / "table"), "--checkpoint", str(tmp_path / "checkpoint")]

    assert main(["--bootstrap", "127.0.0.1:1", "--topic", "orders", *where]) == 1
    _, said = capsys.readouterr().err.splitlines()
    assert said == "topic_to_table: no broker answers at 127.0.0.1:1: connection refused"

    assert main(["--bootstrap", cluster.bootstrap, "--topic", "no-such-topic", *where]) == 1
    _, said = capsys.readouterr().err.splitlines()
    assert said.startswith("topic_to_table: ") and "no-such-topic" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_fused", [True, False])
def test_a_topic_becomes_a_table_and_later_what_is_new_of_it(
    spark: "SparkSession",
    cluster: ProcessCluster,
    client: SyncClient,
    make_topic: MakeTopic,
    tmp_path: Path,
    is_fused: bool,
) -> None:
    topic = make_topic(partitions=2)
    fill(client, topic, 0, numbered(0, 150), batch=40)
    fill(client, topic, 1, numbered(150, 200), batch=40, codec="lz4")
    job = job_for(cluster, tmp_path, topic, is_fused=is_fused)

    first = run(spark, job)
    fill(client, topic, 1, numbered(200, 210))
    second = run(spark, job)

    assert (first["records"], first["batches"]) == (200, 2)
    assert second["records"] == 210
    assert second["partitions"] == {f"{topic}-0": [0, 150], f"{topic}-1": [0, 60]}
    rows = DeltaTable(job.table).to_pyarrow_table()
    assert sorted(rows.column("value").to_pylist()) == numbered(0, 210)
    pairs = zip(rows.column("key").to_pylist(), rows.column("value").to_pylist(), strict=True)
    assert of_records(pairs).hex == second["hash"]
    report = verify(job.table, cluster.bootstrap)
    assert report.is_equal and report.is_complete, report
    named = {uri.rsplit("/", 1)[-1] for uri in DeltaTable(job.table).file_uris()}
    assert {file.name for file in Path(job.table).glob("*.parquet")} == named


def test_offsets_without_records_are_covered_too(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """An empty partition, and one whose records came first, in the same batch."""
    topic = make_topic(partitions=3)
    fill(client, topic, 1, numbered(0, 3))
    job = job_for(cluster, tmp_path, topic)

    assert run(spark, job)["partitions"] == {f"{topic}-1": [0, 3]}
    assert verify(job.table, cluster.bootstrap).is_complete


def test_a_failed_query_tells_the_reason_and_adds_nothing(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    import pyarrow as pa

    topic = make_topic()
    fill(client, topic, 0, numbered(0, 3))
    job = job_for(cluster, tmp_path, topic)
    write_deltalake(job.table, pa.table({"value": ["text"]}))

    with pytest.raises(Exception, match="has column value as STRING; the rows have BINARY"):
        run(spark, job)

    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 1
    named = {uri.rsplit("/", 1)[-1] for uri in DeltaTable(job.table).file_uris()}
    assert {file.name for file in Path(job.table).glob("*.parquet")} == named


@pytest.fixture(scope="module")
def untouched(
    spark: "SparkSession",
    cluster: ProcessCluster,
    client: SyncClient,
    tmp_path_factory: pytest.TempPathFactory,
) -> Job:
    create_topic(client, "proved", partitions=2)
    fill(client, "proved", 0, numbered(0, 20))
    fill(client, "proved", 1, numbered(20, 30))
    job = job_for(cluster, tmp_path_factory.mktemp("proved"), "proved")
    run(spark, job)
    return job


@pytest.fixture
def proved(untouched: Job, tmp_path: Path) -> Job:
    """A table of its own to do harm to."""
    copy = untouched._replace(table=str(tmp_path / "table"))
    shutil.copytree(untouched.table, copy.table)
    assert reported(copy).is_equal
    return copy


def reported(job: Job) -> Report:
    return verify(job.table, job.bootstrap)


def test_verify_notices_rows_that_are_there_twice(proved: Job) -> None:
    table = DeltaTable(proved.table)
    write_deltalake(table, table.to_pyarrow_table().slice(0, 2), mode="append")

    report = reported(proved)

    assert not report.is_equal
    assert report.doubled == 2
    assert report.table_side.count == 32


def test_verify_notices_rows_that_are_missing(proved: Job) -> None:
    DeltaTable(proved.table).delete("partition = 1 AND offset = 3")

    report = reported(proved)

    assert [p.is_equal for p in report.partitions] == [True, False]
    assert "DIFFERENT" in str(report.partitions[1])


def test_verify_notices_one_changed_byte(proved: Job) -> None:
    uri = DeltaTable(proved.table).file_uris()[0]
    rows = pq.read_table(uri)
    values = rows.column("value").to_pylist()
    values[0] = values[0][:-1] + b"!"
    place = rows.schema.get_field_index("value")
    pq.write_table(rows.set_column(place, rows.schema.field(place), [values]), uri)

    assert not reported(proved).is_equal


def test_verify_sees_what_the_topic_has_beyond_the_table(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    fill(client, topic, 0, numbered(0, 20))
    job = job_for(cluster, tmp_path, topic)
    run(spark, job)
    fill(client, topic, 0, numbered(20, 25))

    report = reported(job)

    assert report.is_equal and not report.is_complete
    assert json.loads(json.dumps(report.to_json()))["complete"] is False


def test_verify_says_when_there_is_nothing_to_compare(tmp_path: Path, cluster: ProcessCluster) -> None:
    import pyarrow as pa

    with pytest.raises(CannotVerify, match="there is no Delta table"):
        verify(str(tmp_path), cluster.bootstrap)
    write_deltalake(tmp_path, pa.table({"value": ["text"]}))
    with pytest.raises(CannotVerify, match="tells of no batch"):
        verify(str(tmp_path), cluster.bootstrap)


def test_delays_are_counted_by_carrier_and_hour(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    lines = [
        "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z",
        "2013,1,1,533,529,4,850,830,20,UA,1714,N24211,LGA,IAH,227,1416,5,29,2013-01-01T10:00:00Z",
        "2013,1,1,,1630,,,1815,,EV,4308,N18120,EWR,RDU,,416,16,30,2013-01-01T21:00:00Z",
        "2013,1,1,NA,1631,NA,NA,1815,NA,EV,4309,N18120,EWR,RDU,NA,416,16,31,2013-01-01T21:00:00Z\r",
    ]
    assert all(line.count(",") == HEADER.count(",") for line in lines)
    topic = make_topic()
    records = [NewRecord(line.split(",")[11].encode(), line.encode()) for line in lines]
    client.produce(TopicPartition(topic, 0), build_batch(records))
    job = job_for(cluster, tmp_path, topic)
    run(spark, job)

    assert aggregate_delays(job.table, spark) == [
        Delays("EV", 16, 2, 0, None, None, 0),
        Delays("UA", 5, 2, 2, 3.0, 15.5, 1),
    ]
