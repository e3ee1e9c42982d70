"""What `verify` says of a table whose topic has lost what the table holds. A real broker, no Spark."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from odradek.client.sync import CONTROLLER, OffsetAndEpoch, SyncClient
from odradek.client.sync_connection import ConnectionLost
from odradek.client.sync_transaction import Transaction
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from odradek.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.records.builder import NewRecord, build_batch
from odradek.spark import table_rows, tables, verify_topic
from odradek.spark.compacted import is_compacted
from odradek.spark.fingerprint import EMPTY, of_records, of_rows
from odradek.spark.options import ConnectionOptions, parse
from odradek.spark.parts import Part
from odradek.spark.ranges import OffsetRange
from odradek.spark.sink import DESCRIPTION, DeltaWriter
from odradek.spark.source import schema_of
from odradek.spark.topic_commit import commit
from odradek.spark.topic_options import TopicOptions
from odradek.spark.topic_writing import stage
from odradek.spark.verify import CannotVerify, _gaps, _of_table, verify
from odradek.spark.verify_topic import SinkReport, verify_topics
from odradek.spark.writing import TableOptions, Written, write_ranges
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import KEEP, create_topic, fill
from tests.support import eventually

MakeTopic = Callable[..., str]


@pytest.fixture
def table(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> tuple[str, str]:
    """Three batches of ten records each, and the topic they are from."""
    topic = make_topic()
    fill(client, topic, 0, [b"%d" % n for n in range(30)], batch=10)
    path = str(tmp_path / "table")
    for batch_id in range(3):
        write(cluster, path, topic, OffsetRange(topic, 0, 10 * batch_id, 10 * batch_id + 10), batch_id)
    return path, topic


def write(
    cluster: ProcessCluster, path: str, topic: str, wanted: OffsetRange, batch_id: int, **given: str
) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    options = parse({"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, **given})
    done = write_ranges(
        [wanted], options.connection, schema_of(options), TableOptions(path, "app"), batch_id=batch_id
    )
    schema = to_arrow_schema(done.schema, timezone="UTC")
    tables.commit(path, app_id="app", batch_id=batch_id, files=done.files, parts=done.parts, schema=schema)


def delete_below(client: SyncClient, topic: str, offset: int) -> None:
    wanted = DeleteRecordsTopic(
        name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
    )
    leader = client.topic(topic).partitions[0].leader
    answer = client.call(leader, DeleteRecordsRequest(topics=[wanted], timeout_ms=30_000))
    assert answer.topics[0].partitions[0].error_code == 0
    assert client.begin_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): offset}


def test_what_retention_has_taken_is_counted_and_the_rest_compared_batch_by_batch(
    cluster: ProcessCluster, client: SyncClient, table: tuple[str, str]
) -> None:
    path, topic = table
    whole = verify(path, cluster.bootstrap)
    assert whole.is_equal and whole.is_complete and whole.gone.count == 0
    assert (whole.topic_side, whole.table_side.count) == (whole.table_side, 30)
    delete_below(client, topic, 13)

    report = verify(path, cluster.bootstrap)

    assert report.is_equal and report.is_complete
    assert (report.gone.count, report.topic_side.count, report.table_side.count) == (13, 17, 30)
    assert "13 of them gone from the topic" in str(report.partitions[0])
    DeltaTable(path).delete("offset = 4")
    harmed = verify(path, cluster.bootstrap)
    assert not harmed.is_equal, "the commits prove what the topic no longer holds"
    assert harmed.partitions[0].different == ((0, 10),)
    assert "DIFFERENT in [0, 10)" in str(harmed.partitions[0])


def test_what_a_batch_was_allowed_to_lose_is_not_gone_once_more(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """It noted the records that it found, and the topic holds all of them."""
    topic = make_topic()
    fill(client, topic, 0, [b"%d" % n for n in range(30)], batch=10)
    delete_below(client, topic, 13)
    path = str(tmp_path / "table")
    with pytest.warns(UserWarning, match="leaves out"):
        write(cluster, path, topic, OffsetRange(topic, 0, 10, 20), 0, failOnDataLoss="false")
    write(cluster, path, topic, OffsetRange(topic, 0, 20, 30), 1)

    report = verify(path, cluster.bootstrap)

    assert report.is_equal and report.is_complete
    assert (report.gone.count, report.topic_side, report.table_side.count) == (0, report.table_side, 17)


def test_a_batch_that_tells_of_fewer_records_than_the_topic_holds_of_it_is_different(
    cluster: ProcessCluster, client: SyncClient, table: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, topic = table
    delete_below(client, topic, 13)
    noted = tables.committed_batches

    def fewer(*of: Any) -> list[tables.CommittedBatch]:
        return [
            batch._replace(parts=[part._replace(fingerprint=EMPTY) for part in batch.parts])
            if batch.batch_id == 1
            else batch
            for batch in noted(*of)
        ]

    monkeypatch.setattr(tables, "committed_batches", fewer)
    report = verify(path, cluster.bootstrap)
    assert not report.is_equal and report.partitions[0].different == ((10, 20),)
    assert report.gone.count == 10


@pytest.mark.filterwarnings("ignore:.*leaves out the offsets below:UserWarning")
def test_what_was_lost_before_it_was_read_is_not_gone_since(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """With transactions that were aborted before and behind, as with --allow-data-loss of a job; and the batch may come again when
    more is lost by then."""
    topic = make_topic()
    where = TopicPartition(topic, 0)
    for n, is_kept in enumerate([True, False, True, False, True]):
        transaction = Transaction(client, topic, timeout_ms=60_000)
        transaction.begin()
        rows = [NewRecord(b"%d" % n, b"%d" % m) for m in range(9)]
        transaction.send({where: [build_batch(rows, is_transactional=True)]})
        (transaction.commit if is_kept else transaction.abort)()
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic, "failOnDataLoss": "false"}
    options = parse({**given, "kafka.isolation.level": "read_committed"})
    delete_below(client, topic, 13)  # within the first that was aborted
    path = str(tmp_path / "table")

    def write(batch_id: int, start: int, end: int) -> Written:
        wanted = OffsetRange(topic, 0, start, end)
        to = TableOptions(path, "app")
        done = write_ranges([wanted], options.connection, schema_of(options), to, batch_id=batch_id)
        DeltaWriter(to, DESCRIPTION).commit([done], batch_id)
        return done

    first = write(0, 0, 40)
    assert (first.lost, [(part.start, part.end) for part in first.parts]) == (13, [(13, 40)])
    write(1, 40, 50)
    fill(client, topic, 0, [b"behind"])

    report = verify(path, cluster.bootstrap, read_committed=True)

    assert report.is_equal and not report.is_complete, report
    assert (report.gone.count, report.topic_side.count, report.table_side.count) == (0, 18, 18)
    assert report.lost == report.to_json()["lost"] == 13
    delete_below(client, topic, 45)
    assert write(1, 40, 50).lost == 5, "it is there already"
    with pytest.raises(tables.WrongCheckpoint, match=r"\[45, 51\) now"):
        write(1, 40, 51)
    report = verify(path, cluster.bootstrap, read_committed=True)
    assert report.is_equal, report
    # Of the batch that the topic holds in part the rest is read, and is not gone.
    assert (report.gone.count, report.topic_side.count, report.table_side.count) == (14, 4, 18)


def without_batch(batch_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table tells of all batches but this one."""
    noted = tables.committed_batches

    def others(table: DeltaTable, app_id: str | None = None) -> list[tables.CommittedBatch]:
        return [batch for batch in noted(table, app_id) if batch.batch_id != batch_id]

    monkeypatch.setattr(tables, "committed_batches", others)


@pytest.mark.parametrize("is_decoded", [False, True])
def test_records_between_two_batches_that_none_tells_of_are_missing(
    cluster: ProcessCluster,
    client: SyncClient,
    table: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    is_decoded: bool,
) -> None:
    """The table was put back to how it was, with what is kept below it, and the job went on."""
    path, topic = table
    DeltaTable(path).delete("offset >= 10 AND offset < 20")
    without_batch(1, monkeypatch)
    if is_decoded:
        noted = tables.committed_batches
        rows = of_rows(DeltaTable(path).to_pyarrow_table().combine_chunks().to_batches()[0])

        def as_rows(*of: Any) -> list[tables.CommittedBatch]:
            return [batch._replace(rows=EMPTY if batch.batch_id else rows) for batch in noted(*of)]

        monkeypatch.setattr(tables, "committed_batches", as_rows)

    report = verify(path, cluster.bootstrap)

    assert not report.is_equal and (report.rows is None or report.rows.is_equal)
    assert "10 of no batch: DIFFERENT in [10, 20)" in str(report.partitions[0])
    assert verify(path, cluster.bootstrap, app_id="app").is_equal, "others may have read them"
    delete_below(client, topic, 13)
    assert "7 of no batch: DIFFERENT in [13, 20)" in str(verify(path, cluster.bootstrap).partitions[0])
    delete_below(client, topic, 20)
    assert verify(path, cluster.bootstrap).is_equal, "as where the loss of data was allowed"


def test_a_part_begins_where_reading_began_though_no_record_stands_there(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """Behind the end of a transaction, say: what is no record is not lost."""
    topic = make_topic()
    transaction = Transaction(client, topic, timeout_ms=60_000)
    transaction.begin()
    transaction.send(
        {TopicPartition(topic, 0): [build_batch([NewRecord(None, b"0")], is_transactional=True)]}
    )
    transaction.commit()
    fill(client, topic, 0, [b"2"])
    options = parse({"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic})
    to = TableOptions(str(tmp_path), "app")

    done = write_ranges([OffsetRange(topic, 0, 1, 3)], options.connection, schema_of(options), to, batch_id=0)

    assert [(part.start, part.end, part.fingerprint.count) for part in done.parts] == [(1, 3, 1)]


def test_what_one_has_read_within_what_another_has_is_followed_by_no_gap() -> None:
    """The records behind it would count as those of a later batch, and be the last of their keys."""

    class Whole:
        def begin_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
            return dict.fromkeys(partitions, 0)

    parts = [Part("orders", 0, *ends) for ends in ((0, 10), (2, 5), (10, 12), (13, 15))]

    found = list(_gaps(Whole(), parts))  # type: ignore[arg-type]

    assert found == [(Part("orders", 0, 12, 13), parts[3])]


@pytest.mark.parametrize("is_decoded", [False, True])
def test_of_two_writers_of_a_table_one_may_be_verified(
    cluster: ProcessCluster, table: tuple[str, str], monkeypatch: pytest.MonkeyPatch, is_decoded: bool
) -> None:
    """Its rows are told from those of the other by their offsets, or the notes of both tell of all."""
    path, _ = table
    noted = tables.committed_batches
    rows = of_rows(DeltaTable(path).to_pyarrow_table().combine_chunks().to_batches()[0])

    def of_two(opened: DeltaTable, app_id: str | None = None) -> list[tables.CommittedBatch]:
        """As if the second batch were of another one."""
        found = [batch._replace(app_id="other") if batch.batch_id == 1 else batch for batch in noted(opened)]
        if is_decoded:
            found = [batch._replace(rows=rows if batch.batch_id == 1 else EMPTY) for batch in found]
        return [batch for batch in found if app_id in (None, batch.app_id)]

    monkeypatch.setattr(tables, "committed_batches", of_two)
    for app_id, count in (("app", 20), ("other", 10), (None, 30)):
        report = verify(path, cluster.bootstrap, app_id=app_id)
        assert report.is_equal, report
        assert report.topic_side.count == count
    DeltaTable(path).delete("offset = 14")
    assert not verify(path, cluster.bootstrap, app_id="other").is_equal


def test_what_others_have_read_twice_is_not_held_against_one(
    cluster: ProcessCluster, table: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = table
    noted = tables.committed_batches

    def of_two(opened: DeltaTable, app_id: str | None = None) -> list[tables.CommittedBatch]:
        """As if the last batch were of another one."""
        found = [batch._replace(app_id="other") if batch.batch_id == 2 else batch for batch in noted(opened)]
        return [batch for batch in found if app_id in (None, batch.app_id)]

    monkeypatch.setattr(tables, "committed_batches", of_two)
    last = DeltaTable(path).to_pyarrow_table().filter(pc.field("offset") >= 25)
    write_deltalake(path, last, mode="append")

    assert verify(path, cluster.bootstrap, app_id="app").is_equal
    for app_id in ("other", None):
        report = verify(path, cluster.bootstrap, app_id=app_id)
        assert not report.is_equal and report.doubled == 5


def test_where_there_is_nothing_to_compare_it_says_what_is_missing(
    cluster: ProcessCluster, table: tuple[str, str], tmp_path: Path
) -> None:
    path, _ = table

    with pytest.raises(CannotVerify, match=f"^there is no Delta table at {tmp_path}/none$"):
        verify(f"{tmp_path}/none", cluster.bootstrap)
    with pytest.raises(
        CannotVerify, match="tells of no batch of application 'other', so of no offsets to compare"
    ):
        verify(path, cluster.bootstrap, app_id="other")
    write_deltalake(f"{tmp_path}/foreign", pa.table({"x": [1]}))
    with pytest.raises(CannotVerify, match="tells of no batch of any odradek application"):
        verify(f"{tmp_path}/foreign", cluster.bootstrap)


def change_first_batch(path: str, monkeypatch: pytest.MonkeyPatch, **change: Any) -> None:
    """The table tells of its first batch so from now on."""
    first, *others = tables.committed_batches(DeltaTable(path))
    monkeypatch.setattr(tables, "committed_batches", lambda *_: [first._replace(**change), *others])


def test_batches_that_were_merged_and_others_are_not_compared_together(
    cluster: ProcessCluster, table: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append to a table with one row a key, which its job would have refused."""
    path, _ = table
    change_first_batch(path, monkeypatch, upserts=True)

    with pytest.raises(CannotVerify, match="has batches that were merged by key, and others"):
        verify(path, cluster.bootstrap)


def test_rows_of_queries_and_records_are_not_told_apart(
    cluster: ProcessCluster, table: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = table
    change_first_batch(path, monkeypatch, rows=EMPTY, app_id="of a query")

    for app_id in (None, "of a query"):
        with pytest.raises(
            CannotVerify,
            match=r"holds rows of queries and records as they are, .*; what application 'app' has written can be verified \(--app-id\)",
        ):
            verify(path, cluster.bootstrap, app_id=app_id)
    assert verify(path, cluster.bootstrap, app_id="app").is_equal


def test_a_batch_is_looked_at_once_and_not_with_each_piece_of_the_table(
    table: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that runs for a year has a million of them."""
    path, topic = table
    looks: list[int] = []

    class Looked(Part):
        @property
        def end(self) -> int:
            looks.append(self.start)
            return self[3]

    parts = [Looked(topic, 0, n, n + 1) for n in range(0, 30)]
    monkeypatch.setattr(table_rows, "_PIECE_ROWS", 1)

    found = _of_table(DeltaTable(path), {TopicPartition(topic, 0): parts})

    assert [one.count for one in found[TopicPartition(topic, 0)].by_part.values()] == [1] * 30
    assert len(looks) <= 60, "of 30 pieces"


def test_a_table_that_is_behind_the_topic_is_equal_as_far_as_it_goes(
    cluster: ProcessCluster, client: SyncClient, table: tuple[str, str]
) -> None:
    path, topic = table
    fill(client, topic, 0, [b"more"])

    report = verify(path, cluster.bootstrap)

    assert report.is_equal and not report.is_complete
    assert str(report.partitions[0]).endswith("equal, topic holds 0 to 31")


def test_all_of_a_topic_may_be_gone(
    cluster: ProcessCluster, client: SyncClient, table: tuple[str, str]
) -> None:
    path, topic = table
    delete_below(client, topic, 30)

    report = verify(path, cluster.bootstrap)

    assert report.is_equal and report.gone.count == 30
    assert report.to_json()["gone"] == 30


def test_what_the_topic_has_more_of_than_a_batch_noted_is_different_though_its_log_begins_within_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It counted as fewer than none that are gone, and as equal."""
    where, producer = TopicPartition("copies", 0), (7, 0)
    rows = [NewRecord(b"k", b"1"), NewRecord(b"k", b"2")]
    client: Any = SimpleNamespace(
        begin_offsets=lambda partitions: dict.fromkeys(partitions, 1),
        list_offsets=lambda wanted, read_committed: {where: OffsetAndEpoch(3, 0)},
    )
    header = SimpleNamespace(producer_id=7, producer_epoch=0)
    monkeypatch.setattr(verify_topic, "batches", lambda *_, **__: [(header, rows)])
    noted = {producer: verify_topic._Noted(0, 0, of_records([(b"k", b"1")]))}

    found = verify_topic._compared(client, where, noted, {producer})

    assert (found.gone, found.different) == (0, (0,))


def test_whether_a_topic_is_compacted_is_asked_again_where_the_connection_was_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As by a broker at which nothing was asked for ten minutes, while a large batch was read from others."""
    entry = DescribeConfigsResourceResult(name="cleanup.policy", value="compact,delete")
    answer = DescribeConfigsResponse(results=[DescribeConfigsResult(configs=[entry])])
    told: list[Any] = [ConnectionLost("closed"), answer]

    def call(*_: Any, **__: Any) -> Any:
        if isinstance(one := told.pop(0), Exception):
            raise one
        return one

    monkeypatch.setattr(SyncClient, "call", call)
    assert is_compacted(SyncClient("127.0.0.1:1"), "keyed")


def compact_from_now(client: SyncClient, topic: str) -> None:
    policy = AlterableConfig(name="cleanup.policy", config_operation=0, value="compact")
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[policy])
    (answer,) = client.call(CONTROLLER, IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert answer.error_code == 0, answer


def test_what_compaction_has_taken_is_counted_as_gone_of_a_table_and_of_a_topic(tmp_path: Path) -> None:
    """Whatever of a batch is left in the topic is read; the other batches are compared as before."""
    config = {"segment.bytes": "1000", "min.cleanable.dirty.ratio": "0.01"}
    settings = {**KEEP, "log.cleaner.backoff.ms": "50", "log.cleaner.dedupe.buffer.size": "1048577"}
    with (
        ProcessCluster(tmp_path / "one", brokers=1, settings=settings) as one,
        SyncClient(one.bootstrap) as client,
    ):
        where = TopicPartition("keyed", 0)
        create_topic(client, "keyed", config=config)
        create_topic(client, "kept")
        sink = TopicOptions(ConnectionOptions(one.bootstrap), "keyed", "sink", str(tmp_path / "sink"))
        for batch_id in range(10):
            rows = {"key": [b"k%d" % (n % 5) for n in range(20)], "value": [b"%010d" % n for n in range(20)]}
            commit(sink, [stage([pa.record_batch(rows)], sink, batch_id=batch_id)], batch_id)
        path = str(tmp_path / "table")
        to, connection = TableOptions(path, "app"), ConnectionOptions(one.bootstrap, read_committed=True)
        options = parse({"kafka.bootstrap.servers": one.bootstrap, "subscribe": "keyed"})

        def write(topic: str, batch_id: int, until: int) -> None:
            wanted = OffsetRange(topic, 0, 0, until)
            done = write_ranges([wanted], connection, schema_of(options), to, batch_id=batch_id)
            DeltaWriter(to, DESCRIPTION).commit([done], batch_id)

        def sink_report() -> SinkReport:
            return verify_topics(sink.directory, one.bootstrap, progress_topic=sink.progress_topic)

        write("keyed", 0, client.end_offsets([where])[where])
        fill(client, "kept", 0, [b"0", b"1"])
        write("kept", 1, 2)
        assert verify(path, one.bootstrap, read_committed=True).gone.count == 0
        compact_from_now(client, "keyed")
        eventually(lambda: sink_report().records < 100, 60.0, "what compaction has left")

        report, of_sink = verify(path, one.bootstrap, read_committed=True), sink_report()

        assert report.is_equal, report
        assert report.gone.count > 0 and report.gone.count + report.topic_side.count == 202
        assert of_sink.is_equal, of_sink
        (partition,) = of_sink.partitions
        assert partition.gone + partition.topic.count == 200
        DeltaTable(path).delete("topic = 'keyed' AND offset = 1")
        assert not verify(path, one.bootstrap, read_committed=True).is_equal
