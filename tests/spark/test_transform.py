"""Topics into a topic through Spark: batch, stream, the job, and what verify says of it."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from odradek.cli.spark import spark as spark_commands
from odradek.client.partitioning import partition_of
from odradek.client.sync import LATEST, SyncClient
from odradek.client.sync_records import records
from odradek.client.sync_transaction import Transaction
from odradek.model.errors import ConfigurationError
from odradek.model.ids import TopicId, TopicPartition, topic_id_to_text
from odradek.records.builder import NewRecord, build_batch
from odradek.records.reader import Record
from odradek.spark.dead_letters import NoTable, ReadOtherwise, dead_letters
from odradek.spark.job_file import jobs_of
from odradek.spark.jobs import tables as tables_module
from odradek.spark.jobs.tables import Batch, followed
from odradek.spark.jobs.transform import TransformJob, TransformPlan, planned
from odradek.spark.on_error import TooManyLetters
from odradek.spark.sentence import sentence_of
from odradek.spark.source import OdradekSource
from odradek.spark.topic_options import PROGRESS_TOPIC, parse_topic_options
from odradek.spark.topic_sink import check_columns
from odradek.spark.topic_writing import staged_directory
from odradek.spark.verify_topic import NothingNoted, SinkReport, verify_topics
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import fill
from tests.spark.task_context import Context, of_values
from tests.spark.test_verify import delete_below
from tests.support import each, eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MakeTopic = Callable[..., str]


def read(client: SyncClient, topic: str, partitions: int) -> dict[int, list[Record]]:
    found = {}
    for number in range(partitions):
        where = TopicPartition(topic, number)
        end = client.list_offsets({where: LATEST}, read_committed=True)[where].offset
        found[number] = list(records(client, where, 0, end, read_committed=True))
    return found


@pytest.fixture
def job(cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path) -> TransformJob:
    source, to = make_topic(partitions=2), make_topic(partitions=3)
    fill(client, source, 0, [b"a%d" % n for n in range(30)])
    fill(client, source, 1, [b"b%d" % n for n in range(12)])
    return TransformJob(cluster.bootstrap, (source,), to, str(tmp_path / "job"), is_once=True)


def run(spark: "SparkSession", job: TransformJob) -> list[Batch]:
    plan = planned(job)
    return [batch for batch in followed(plan.start(spark), plan, lambda: False, spark) if batch is not None]


def verified(job: TransformJob) -> SinkReport:
    return verify_topics(job.directory, job.bootstrap, progress_topic=PROGRESS_TOPIC)


@pytest.mark.spark
def test_a_job_copies_a_topic_and_goes_on_where_it_stood_and_verify_proves_it(
    spark: "SparkSession", job: TransformJob, client: SyncClient
) -> None:
    first = run(spark, job._replace(max_offsets_per_trigger=30))
    (source,) = job.topics
    fill(client, source, 1, [b"later"])
    second = run(spark, job)

    assert [batch.rows for batch in [*first, *second]] == [30, 12, 1]
    found = read(client, job.to, 3)
    values = sorted(bytes(r.value or b"") for rows in found.values() for r in rows)
    assert values == sorted([b"a%d" % n for n in range(30)] + [b"b%d" % n for n in range(12)] + [b"later"])
    for partition, rows in found.items():
        assert {partition_of(bytes(row.key or b""), 3) for row in rows} <= {partition}
    copied = next(r for rows in found.values() for r in rows if bytes(r.value or b"") == b"b7")
    assert (copied.key, copied.timestamp, list(copied.headers)) == (b"k2", 1_700_000_000_007, [])
    report = verified(job)
    assert (report.is_equal, report.batches, report.records) == (True, 3, 43)


@pytest.mark.spark
def test_a_job_whose_checkpoint_is_lost_does_not_take_its_first_batch_for_the_one_that_is_there(
    spark: "SparkSession", job: TransformJob, client: SyncClient
) -> None:
    assert [batch.rows for batch in run(spark, job)] == [42]
    shutil.rmtree(job.checkpoint_directory)
    fill(client, job.topics[0], 1, [b"later"])

    with pytest.raises(Exception, match="from a query of another checkpoint") as caught:
        run(spark, job)
    assert sentence_of(caught.value).startswith(
        f"application {job.name!r} has written batch 0 into its topics"
    )
    assert sum(map(len, read(client, job.to, 3).values())) == 42


@pytest.mark.spark
def test_a_job_with_sql_writes_what_the_query_gives(
    spark: "SparkSession", job: TransformJob, client: SyncClient
) -> None:
    loud = job._replace(sql="SELECT upper(string(value)) AS value FROM records WHERE value LIKE 'b%'")
    assert dict(planned(loud).lines())["between"] == loud.sql

    (batch,) = run(spark, loud)

    values = [bytes(r.value or b"") for rows in read(client, job.to, 3).values() for r in rows]
    assert sorted(values) == sorted(b"B%d" % n for n in range(12)) and batch.rows == 12
    plan = planned(job._replace(sql="SELECT key FROM records", directory=f"{job.directory}-other"))
    with pytest.raises(Exception, match="there is no column value") as caught:
        for _ in followed(plan.start(spark), plan, lambda: False, spark):
            pass
    assert sentence_of(caught.value).startswith("there is no column value, which becomes")


@pytest.mark.spark
def test_a_batch_write_is_one_transaction_and_one_of_an_application_is_there_once(
    spark: "SparkSession", cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    to, other = make_topic(partitions=2), make_topic()
    frame = spark.createDataFrame(
        [
            ("k", f"v{n}", to if n % 2 else other, [("h", bytearray(b"x"))] if n < 3 else None)
            for n in range(50)
        ],
        "key STRING, value STRING, topic STRING, headers ARRAY<STRUCT<key: STRING, value: BINARY>>",
    ).repartition(3)

    def write(**options: str) -> None:
        writer = frame.write.format("odradek").mode("append").options(**options, directory=str(tmp_path))
        writer.option("kafka.bootstrap.servers", cluster.bootstrap).save()

    write(appId="batches", batchId="7")
    write(appId="batches", batchId="7")
    found = [*read(client, to, 2)[partition_of(b"k", 2)], *read(client, other, 1)[0]]
    assert sorted(bytes(r.value or b"") for r in found) == sorted(b"v%d" % n for n in range(50))
    told = {bytes(r.value or b""): list(r.headers) for r in found}
    assert told[b"v2"] == [("h", b"x")] and told[b"v3"] == []
    write(topic=to)
    assert len(read(client, to, 2)[partition_of(b"k", 2)]) == 25 + 50, "without an id it is another batch"
    with pytest.raises(Exception, match="a topic cannot be overwritten"):
        frame.write.format("odradek").mode("overwrite").option("topic", to).option(
            "kafka.bootstrap.servers", cluster.bootstrap
        ).save()


def test_verify_notices_what_is_lost_doubled_or_gone(job: TransformJob, client: SyncClient) -> None:
    import pyarrow as pa

    from odradek.spark import batch_notes, left_out
    from odradek.spark.topic_commit import commit
    from odradek.spark.topic_writing import stage

    with pytest.raises(NothingNoted):
        verified(job)
    options = parse_topic_options(job.sink_options(), is_stream=True)
    for batch_id in range(2):
        rows = pa.record_batch({"key": [b"k"] * 5, "value": [b"%d" % n for n in range(5)]})
        commit(options, [stage([rows], options, batch_id=batch_id)], batch_id)
    fill(client, job.to, partition_of(b"k", 3), [b"somebody else's"] * 4)
    assert "4 of others: equal" in str(verified(job).partitions[0])

    for batch_id in range(2):  # the topic begins with the first, and has all of it
        note = batch_notes.find(job.directory, PROGRESS_TOPIC, job.name, batch_id)
        assert note is not None
        part = note["parts"][0]
        batch_notes.keep(job.directory, PROGRESS_TOPIC, {**note, "parts": [[*part[:3], 6, part[4]]]})
        assert verified(job).partitions[0].different == (batch_id,)
        batch_notes.keep(job.directory, PROGRESS_TOPIC, note)
    for batch_id in (1, 2):  # its driver died behind the note of the one, and before that of the other
        # SQL reads the topic twice, and deals it out otherwise.
        for start, end in ((10, 13), (11, 12), (12, 13)):
            left_out.leave(job.directory, job.name, batch_id, TopicPartition("from", 0), start, end)
    batch_notes.keep(job.directory, PROGRESS_TOPIC, {**note, "lost": 3})
    assert verified(job).lost == 6, "each once"
    batch_notes.keep(job.directory, PROGRESS_TOPIC, {**note, "parts": []})
    assert verified(job).partitions[0].unknown == 5 and not verified(job).is_equal


SPEC = StructType([StructField("value", StringType())])


@pytest.mark.parametrize(
    ("schema", "topic", "sentence"),
    [
        (StructType([StructField("key", StringType())]), "t", "there is no column value"),
        (SPEC, None, "neither the option topic nor a column topic"),
        (
            StructType([StructField("value", IntegerType())]),
            "t",
            "column value is int; expected binary or string",
        ),
        (
            StructType([*SPEC.fields, StructField("headers", StringType())]),
            "t",
            "column headers is string; expected array",
        ),
    ],
)
def test_columns_that_make_no_records_are_refused(
    schema: StructType, topic: str | None, sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        check_columns(schema, topic)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topic": "t"}, "kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": "a:1"}, "appId is missing"),
        ({"appId": "x", "kafka.bootstrap.servers": "a:1"}, "the option directory is missing"),
        (
            {"appId": "x", "checkpointLocation": "s3://b/c", "kafka.bootstrap.servers": "a:1"},
            "directory is missing",
        ),
        (
            {"appId": "x", "directory": "d", "kafka.bootstrap.servers": "a:1", "kafka.acks": "1"},
            "needs all of them",
        ),
        ({"kafka.bootstrap.servers": "a:1", "kafka.compression.type": "br"}, "there are none, gzip"),
        (
            {"kafka.bootstrap.servers": "a:1", "appid": "x", "batchId": "1", "directory": "d"},
            "batchId is for batch",
        ),
        ({"kafka.bootstrap.servers": "a:1", "apId": "x"}, "did you mean appId"),
        (
            {
                "appId": "x",
                "directory": "d",
                "kafka.bootstrap.servers": "a:1",
                "kafka.transaction.timeout.ms": "3000000000",
            },
            "expected a whole number above 0, up to 2147483647",
        ),
        ({"kafka.bootstrap.servers": "a:1", "kafka.ssl.ca": "x"}, "only PLAINTEXT"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        parse_topic_options(options, is_stream=True)


# Option -> what is given, where it is found, and what it is there.
EACH: dict[str, tuple[str, str, object]] = {
    "topic": ("u", "topic", "u"),
    "appId": ("another", "app_id", "another"),
    "directory": ("/elsewhere", "directory", "/elsewhere"),
    "progressTopic": ("notes", "progress_topic", "notes"),
    "checkpointLocation": ("file:/c", "checkpoint", "/c"),
    "kafka.client.id": ("me", "connection.client_id", "me"),
    "kafka.request.timeout.ms": ("45000", "connection.request_timeout_s", 45.0),
    "kafka.compression.type": ("ZSTD", "codec", "zstd"),
    "kafka.transaction.timeout.ms": ("1500", "timeout_ms", 1500),
}


@each(EACH)
def test_each_option_of_a_sink_changes_what_it_is_about_and_nothing_else(option: str) -> None:
    needed = {"kafka.bootstrap.servers": "a:1", "topic": "t", "appId": "x", "directory": "/d"}
    given, place, expected = EACH[option]
    default = parse_topic_options(needed, is_stream=True)
    group, _, name = place.rpartition(".")
    inner = getattr(default, group) if group else default
    assert getattr(inner, name) != expected
    changed = inner._replace(**{name: expected})
    assert parse_topic_options({**needed, option: given}, is_stream=True) == (
        default._replace(**{group: changed}) if group else changed
    )


def test_a_batch_write_of_an_application_has_a_number() -> None:
    """Without one each would have the same: the second would be taken for the first that comes again, and be nowhere."""
    given = {"kafka.bootstrap.servers": "a:1", "topic": "t", "directory": "/d"}

    assert not parse_topic_options({**given, "appId": ""}, is_stream=False).is_named
    named = parse_topic_options({**given, "appId": "x", "batchId": "7"}, is_stream=False)
    assert (named.is_named, named.batch_id) == (True, 7)
    with pytest.raises(
        ConfigurationError, match=r"the option batchId is missing: its number: .* written once"
    ):
        parse_topic_options({**given, "appId": "x"}, is_stream=False)


def test_a_batch_write_leaves_its_files_where_nobody_else_can_change_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    given = {"kafka.bootstrap.servers": "a:1", "topic": "t"}

    made = Path(parse_topic_options(given, is_stream=False).directory)
    assert made.parent == tmp_path and made.stat().st_mode & 0o777 == 0o700
    made.rmdir()
    made.symlink_to(tmp_path)
    with pytest.raises(
        ConfigurationError, match="belongs to another process; name another with the option directory"
    ):
        parse_topic_options(given, is_stream=False)


def test_a_sink_looks_at_topic_and_columns_before_a_task_starts(cluster: ProcessCluster) -> None:
    source = OdradekSource({"kafka.bootstrap.servers": cluster.bootstrap, "topic": "nobody-has-made-it"})
    with pytest.raises(ConfigurationError, match="topic names the topic nobody-has-made-it"):
        source.writer(schema=SPEC, overwrite=False)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"to": "orders"}, "--to orders: the job reads that topic"),
        ({"to": "odradek-sinks"}, "--to odradek-sinks: sinks note their progress in that topic"),
        ({"compression": "br"}, "--compression br: there are none"),
        ({"trigger": "soon"}, "--trigger soon: expected a duration"),
        ({"cores": "many"}, "--cores many: expected a number"),
        ({"memory": "many"}, "--memory many: expected a size with its unit"),
        ({"directory": ""}, "--directory is empty"),
        ({"directory": "/tmp/a[b"}, r"^--directory /tmp/a\[b: the library of Delta tables takes"),
        ({"format": "string", "registry": "http://h:1"}, "--registry is for --format avro or protobuf$"),
        (
            {"format": "json", "schema": "__key INT"},
            "the name of a column of ours; give a --schema without it$",
        ),
        ({"master": "yarn"}, r"--master yarn: expected local\[4\], local\[\*\], spark://HOST:PORT or sc://"),
        ({"master": "spark://a"}, "--master spark://a: expected"),
    ],
)
def test_a_job_that_cannot_be_meant_is_refused(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        TransformJob("a:1", ("orders",), "loud", "d")._replace(**changed).check()


def test_jobs_of_both_kinds_stand_in_a_file_and_what_is_wrong_is_said_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    text = """bootstrap = "a:1"
[[tables]]
topic = "orders"
table = "./orders"
[[transform]]
topic = "orders"
to = "loud"
directory = "./loud"
sql = "SELECT value FROM records"
[[transform]]
topic = "clicks"
to = "quiet"
directory = "./quiet"
"""
    file.write_text(text)

    tables, *transforms = jobs_of(file)
    assert tables.target == "./orders"
    assert [(job.target, job.topics) for job in transforms] == [("loud", ("orders",)), ("quiet", ("clicks",))]
    for wrong, line, why in (
        (text.replace('to = "quiet"', 'too = "quiet"'), 12, "no key too; did you mean to"),
        (text.replace('to = "quiet"', 'to = "clicks"'), 12, "the job reads that topic"),
        (text.replace("./quiet", "./loud"), 13, "that of another job of this file"),
        (text.replace('directory = "./loud"\n', ""), 5, "directory is missing"),
    ):
        file.write_text(wrong)
        with pytest.raises(ConfigurationError, match=f"line {line}: .*{why}"):
            jobs_of(file)


def test_two_jobs_of_a_file_have_tables_of_their_own_in_a_store(tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    job = '[[tables]]\ntopic = "orders"\ncheckpoint = "./%s"\ntable = "s3://lake/orders%s"\n'
    file.write_text('bootstrap = "localhost:9092"\n' + job % ("a", "") + job % ("b", "-2"))
    assert len(jobs_of(file)) == 2

    file.write_text('bootstrap = "localhost:9092"\n' + job % ("a", "") + job % ("b", "/"))
    with pytest.raises(ConfigurationError, match="that of another job of this file"):
        jobs_of(file)


JSON = [b'{"id":%d}' % n for n in range(8)]
BAD = [b"no json", b'{"id":"seven"}']


@pytest.fixture
def decoding(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> TransformJob:
    source, to = make_topic(partitions=2), make_topic(partitions=2)
    fill(client, source, 0, [*JSON[:5], BAD[0]])
    fill(client, source, 1, [BAD[1], *JSON[5:]])
    job = TransformJob(cluster.bootstrap, (source,), to, str(tmp_path / "job"), is_once=True)
    return job._replace(format="json", schema="id INT")


@pytest.mark.spark
def test_what_cannot_be_read_is_a_letter_and_the_rest_is_copied_as_it_is(
    spark: "SparkSession", decoding: TransformJob, client: SyncClient, tmp_path: Path
) -> None:
    told = dict(planned(decoding).lines())
    assert told["columns"] == "id INT (as given)" and told["errors"].startswith(
        "values that do not fit: dead"
    )

    (batch,) = run(spark, decoding)
    fill(client, decoding.topics[0], 1, [b"still none"])
    run(spark, decoding)

    assert (batch.rows, batch.dead_letters, batch.lag_records) == (8, 2, 0)
    assert str(batch).startswith("batch 0: 8 rows  lag 0 records, 0.0 s  2 dead letters")
    copied = [r for rows in read(client, decoding.to, 2).values() for r in rows]
    assert sorted(bytes(r.value or b"") for r in copied) == JSON
    letters = [(x.topic, x.partition, x.offset, x.value) for x in dead_letters(decoding.directory)]
    source = decoding.topics[0]
    assert letters == [
        (source, 0, 5, BAD[0]),
        (source, 1, 0, BAD[1]),
        (source, 1, 4, b"still none"),
    ]
    assert verified(decoding).is_equal
    assert not list((Path(decoding.directory) / "_odradek" / "decoded").iterdir())

    strict = decoding._replace(max_dead_letters="10%", directory=str(tmp_path / "strict"), app_id="strict")
    with pytest.raises(Exception, match="3 of 11 records in this batch become no row") as caught:
        run(spark, strict)
    assert "--max-dead-letters allows 10 %" in sentence_of(caught.value)
    with pytest.raises(NoTable):
        dead_letters(strict.directory)
    assert len([r for rows in read(client, decoding.to, 2).values() for r in rows]) == 8


@pytest.mark.spark
def test_sql_finds_the_fields_of_values_and_a_query_that_reads_twice_has_each_letter_once(
    spark: "SparkSession", decoding: TransformJob, client: SyncClient
) -> None:
    sql = "SELECT __key AS key, string(id * 2) AS value FROM records UNION ALL SELECT __key, 'again' FROM records WHERE id = 3"

    (batch,) = run(spark, decoding._replace(sql=sql))

    values = [bytes(r.value or b"") for rows in read(client, decoding.to, 2).values() for r in rows]
    assert sorted(values) == sorted([b"%d" % (2 * n) for n in range(8)] + [b"again"])
    assert batch.dead_letters == 2 and len(dead_letters(decoding.directory)) == 2


@pytest.mark.spark
def test_records_may_be_joined_with_themselves(
    spark: "SparkSession", job: TransformJob, client: SyncClient
) -> None:
    """To Spark these are two sources, and each tells how far it is."""
    sql = "SELECT one.key, one.value FROM records AS one JOIN records AS other ON one.value = other.value"

    batches = run(spark, job._replace(sql=sql))

    assert sum(batch.rows for batch in batches) == 42
    assert batches[-1].lag_records == batches[-1].skipped == 0
    assert sum(map(len, read(client, job.to, 3).values())) == 42


def test_letters_are_in_before_the_rows_and_a_crash_between_doubles_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What two tasks of a batch left, one of which ran twice; the driver dies, and the batch comes again."""
    import pyarrow as pa
    from pyspark import TaskContext

    from odradek.spark import decoding as decodings
    from odradek.spark.shape import Shape

    context = Context()
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    monkeypatch.setattr(decodings, "current_batch_id", lambda: 4)
    decode = decodings.Decoding(Shape(pa.schema([("id", pa.int32())])), str(tmp_path), "app")
    both = of_values(b'{"id":1}', b"none", b'{"id":2}', b"either")

    def tasks() -> None:
        for partition in (0, 0, 1, 2):
            context.partition = partition
            piece = both.slice(2 * (partition % 2), 2)  # the third reads again what the first did
            assert sum(rows.num_rows for rows in decode(iter([piece]))) == 1

    tasks()
    assert decodings.commit_letters(str(tmp_path), "app", 4, "", run_id="a") == 2
    tasks()
    assert decodings.commit_letters(str(tmp_path), "app", 4, "50%", run_id="a") == 2
    decodings.forget(str(tmp_path), "app", 4)

    assert [letter.offset for letter in dead_letters(str(tmp_path))] == [1, 3]
    assert not list((tmp_path / "_odradek" / "decoded").iterdir())
    letters = tmp_path / "_odradek" / "dead_letters"
    assert len(list(letters.glob("*.parquet"))) == 2, "orphans are gone"
    monkeypatch.setattr(decodings, "current_batch_id", lambda: 5)
    tasks()
    with pytest.raises(
        TooManyLetters,
        match=r"2 of 4 records in this batch become no row, .*: nothing of the batch is written",
    ):
        decodings.commit_letters(str(tmp_path), "app", 5, "1", run_id="a")


def test_columns_are_learnt_behind_offsets_that_have_no_record(
    job: TransformJob, client: SyncClient, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compaction leaves as many at the beginning of a topic, and so do transactions that were aborted."""
    monkeypatch.setattr(tables_module, "SAMPLE", 2)
    topic = make_topic(partitions=1)
    where = TopicPartition(topic, 0)
    aborted = Transaction(client, topic, timeout_ms=60_000)
    aborted.begin()
    gone = [NewRecord(None, b'{"aborted":1}', 1_700_000_000_000)] * 5
    aborted.send({where: [build_batch(gone, is_transactional=True)]})
    aborted.abort()
    fill(client, topic, 0, [b'{"id":1}', b'{"name":"x"}', b'{"third":1}'])
    eventually(lambda: client.end_offsets([where], read_committed=True) == {where: 9}, 30.0, "the marker")

    plan = planned(job._replace(topics=(topic,), format="json"))

    assert plan.values is not None and plan.values.shape is not None
    assert plan.values.shape.columns.names == ["id", "name"]


def test_columns_are_learnt_from_committed_records_only(job: TransformJob, client: SyncClient) -> None:
    """As the job reads no others."""
    (source,) = job.topics
    where = TopicPartition(source, 1)
    decided, open_one = (Transaction(client, f"{source}-{n}", timeout_ms=60_000) for n in range(2))
    for transaction, value in ((decided, b'{"aborted":1}'), (open_one, b'{"undecided":1}')):
        transaction.begin()
        batch = build_batch([NewRecord(None, value, 1_700_000_000_000)], is_transactional=True)
        transaction.send({where: [batch]})
        if transaction is decided:
            transaction.abort()
            fill(client, source, 1, [b'{"id":1}'])
    stable = {where: 15}  # behind the marker of the first
    eventually(lambda: client.end_offsets([where], read_committed=True) == stable, 30.0, "the marker")

    plan = planned(job._replace(format="json"))
    open_one.abort()

    assert plan.values is not None and plan.values.shape is not None
    assert plan.values.shape.columns.names == ["id"]
    assert plan.end[where] == stable[where]


def test_a_job_reads_up_to_a_transaction_that_is_undecided(job: TransformJob, client: SyncClient) -> None:
    """What is written of it could not be taken back."""
    (source,) = job.topics
    where = TopicPartition(source, 1)
    decided = client.end_offsets([where])[where]
    transaction = Transaction(client, source, timeout_ms=60_000)
    transaction.begin()
    transaction.send({where: [build_batch([NewRecord(None, b"undecided")], is_transactional=True)]})
    of_job = OdradekSource(job.source_options())
    stream = of_job.streamReader(of_job.schema())

    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    transaction.abort()

    assert end[source]["offsets"]["1"] == decided
    stream.stop()


def test_a_batch_that_comes_again_and_is_read_otherwise_loses_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job dies between letters and transaction, and begins again with other columns. What is in the topic is looked at no more."""
    import pyarrow as pa
    from pyspark import TaskContext

    from odradek.spark import decoding
    from odradek.spark.shape import Shape

    monkeypatch.setattr(TaskContext, "get", Context)
    values = of_values(b'{"id":1}', b"none")

    def committed(column: pa.DataType, *, is_there: bool = False) -> int:
        list(decoding.Decoding(Shape(pa.schema([("id", column)])), str(tmp_path), "app")(iter([values])))
        return decoding.commit_letters(str(tmp_path), "app", 4, "", run_id="a", check=lambda: is_there)

    assert committed(pa.int32()) == 1
    with pytest.raises(ReadOtherwise, match=r"1 record of batch 4 .*, as at offset 0 of orders-0"):
        committed(pa.string())
    assert committed(pa.string(), is_there=True) == 2
    assert committed(pa.int32()) == 1

    assert [letter.offset for letter in dead_letters(str(tmp_path))] == [1]


def test_a_letter_whose_record_is_read_when_its_batch_comes_again_stays_in_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no table whose commit could note it, as docs/spark.md says."""
    import pyarrow as pa
    from pyspark import TaskContext

    from odradek.spark import decoding
    from odradek.spark.shape import Shape

    monkeypatch.setattr(TaskContext, "get", Context)
    for column, letters in ((pa.string(), 2), (pa.int32(), 1)):
        decode = decoding.Decoding(Shape(pa.schema([("id", column)])), str(tmp_path), "app")
        list(decode(iter([of_values(b'{"id":1}', b"none")])))
        counted = decoding.commit_letters(str(tmp_path), "app", 4, "", run_id="a", check=lambda: False)
        assert counted == letters

    assert [(x.offset, x.is_replayed) for x in dead_letters(str(tmp_path))] == [(0, False), (1, False)]


def test_a_batch_that_comes_again_with_more_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plan was taken out of the checkpoint: the options are those of before."""
    import pyarrow as pa
    from pyspark import TaskContext

    from odradek.spark import decoding
    from odradek.spark.shape import Shape

    monkeypatch.setattr(TaskContext, "get", Context)
    values = of_values(b"none", b'{"id":1}', b"either", b"other")

    def committed(count: int) -> int:
        decode = decoding.Decoding(Shape(pa.schema([("id", pa.int32())])), str(tmp_path), "app")
        list(decode(iter([values.slice(0, count)])))
        return decoding.commit_letters(str(tmp_path), "app", 4, "", run_id="a", check=lambda: False)

    assert committed(2) == 1
    with pytest.raises(
        ReadOtherwise, match=r"has read more now .* and 2 records of that are dead letters.*2 of"
    ):
        committed(4)
    assert committed(1) == 1


def test_a_batch_of_a_topic_that_was_made_again_meanwhile_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoint tells; who has none, or one of a source without ids, is told what is known."""
    import pyarrow as pa
    from pyspark import TaskContext

    from odradek.spark import decoding
    from odradek.spark.shape import Shape

    monkeypatch.setattr(TaskContext, "get", Context)
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)

    def committed(topic_id: int, *values: bytes) -> int:
        entry = {"offsets": {"0": len(values)}, "id": topic_id_to_text(TopicId(topic_id.to_bytes(16)))}
        (offsets / "4").write_text(f"v1\n{{}}\n{json.dumps({'orders': entry})}")
        decode = decoding.Decoding(Shape(pa.schema([("id", pa.int32())])), str(tmp_path), "app")
        list(decode(iter([of_values(*values)])))
        return decoding.commit_letters(
            str(tmp_path), "app", 4, "", run_id="a", checkpoint=str(tmp_path / "checkpoint")
        )

    assert committed(1, b'{"id":1}', b"none") == 1
    with pytest.raises(
        ReadOtherwise,
        match=r"topic orders was deleted and .* and 1 record of the new .* at offset 0 of orders-0",
    ):
        committed(2, b"either", b"none")
    for topic_id in (0, 1):
        with pytest.raises(ReadOtherwise, match=r"1 record of batch 4 .* cannot be read now and could be"):
            committed(topic_id, b"either", b"none")
    assert committed(1, b'{"id":1}', b"none") == 1


def test_a_batch_that_comes_again_in_other_tasks_has_each_letter_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is killed before its commit; started again, one task reads what two had read, as when other bytes are on disk."""
    import pyarrow as pa
    from pyspark import TaskContext

    from odradek.spark import decoding
    from odradek.spark.shape import Shape

    context = Context()
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    decode = decoding.Decoding(Shape(pa.schema([("id", pa.int32())])), str(tmp_path), "app")
    both = of_values(b'{"id":1}', b"none", b'{"id":2}', b"either")
    tasks = [("a", 0, both.slice(0, 2)), ("a", 1, both.slice(2, 2)), ("b", 0, both)]
    for context.run, context.partition, piece in tasks:
        list(decode(iter([piece])))

    assert decoding.commit_letters(str(tmp_path), "app", 4, "50%", run_id="b") == 2
    decoding.forget(str(tmp_path), "app", 4)

    assert [letter.offset for letter in dead_letters(str(tmp_path))] == [1, 3]
    assert not list((tmp_path / "_odradek" / "decoded").iterdir())
    assert len(list((tmp_path / "_odradek" / "dead_letters").glob("*.parquet"))) == 1


def test_who_ends_a_batch_late_leaves_what_tasks_have_said_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To another driver: nobody would miss their letters."""
    import pyarrow as pa
    from pyspark import TaskContext

    from odradek.spark import decoding
    from odradek.spark.shape import Shape

    context = Context()
    context.batch = 5
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    decode = decoding.Decoding(Shape(pa.schema([("id", pa.int32())])), str(tmp_path), "app")
    list(decode(iter([of_values(b"none")])))

    decoding.forget(str(tmp_path), "app", 4)

    assert decoding.commit_letters(str(tmp_path), "app", 5, "", run_id="a") == 1


def test_of_a_query_that_reads_twice_each_letter_is_there_once_whatever_ends_the_two_readings_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark asks for the end of the topics once for each reading: the second finds more, which the first reads in the next batch."""
    import pyarrow as pa
    from pyspark import TaskContext

    from odradek.spark import decoding
    from odradek.spark.shape import Shape

    context = Context()
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    decode = decoding.Decoding(Shape(pa.schema([("id", pa.int32())])), str(tmp_path), "app")
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    values = of_values(*[b"none"] * 6)
    ends = {4: (2, 3), 5: (5, 5), 6: (6, 6)}  # of the readings, by batch
    before = (0, 0)
    counts = []
    for batch, (first, second) in ends.items():
        lines = [json.dumps({"orders": {"offsets": {"0": end}}}) for end in (first, second)]
        (offsets / str(batch)).write_text("\n".join(["v1", "{}", *lines]), encoding="utf-8")
        monkeypatch.setattr(decoding, "current_batch_id", lambda batch=batch: batch)
        for context.stage, (begin, end) in enumerate(zip(before, (first, second), strict=True)):
            list(decode(iter([values.slice(begin, end - begin)])))
        before = (first, second)
        for _ in range(2):  # it comes again
            counts.append(
                decoding.commit_letters(
                    str(tmp_path), "app", batch, "3", run_id="a", checkpoint=str(tmp_path / "checkpoint")
                )
            )

    assert [letter.offset for letter in dead_letters(str(tmp_path))] == [0, 1, 2, 3, 4, 5]
    assert counts[::2] == [2, 3, 1]
    decoding.forget(str(tmp_path), "app", 6)
    letters = tmp_path / "_odradek" / "dead_letters"
    assert len(list(letters.glob("*.parquet"))) == 3, "what is in no commit is gone"


def test_one_record_that_a_query_reads_twice_is_one_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins and ends what either reading has."""
    import pyarrow as pa
    from pyspark import TaskContext

    from odradek.spark import decoding
    from odradek.spark.shape import Shape

    context = Context()
    monkeypatch.setattr(TaskContext, "get", lambda: context)
    decode = decoding.Decoding(Shape(pa.schema([("id", pa.int32())])), str(tmp_path), "app")
    for context.stage in range(2):
        list(decode(iter([of_values(b"none")])))

    assert decoding.commit_letters(str(tmp_path), "app", 4, "1", run_id="a") == 1
    assert [letter.offset for letter in dead_letters(str(tmp_path))] == [0]


def test_a_task_ends_though_another_driver_has_committed_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa
    from pyspark import TaskContext

    from odradek.spark import decoding
    from odradek.spark.shape import Shape

    monkeypatch.setattr(TaskContext, "get", Context)
    decode = decoding.Decoding(Shape(pa.schema([("id", pa.int32())])), str(tmp_path), "app")
    replace, taken = os.replace, []

    def replaced(source: Any, target: Any) -> None:
        if not taken:
            taken.append(True)
            decoding.forget(str(tmp_path), "app", 4)
        replace(source, target)

    monkeypatch.setattr(decoding.os, "replace", replaced)

    list(decode(iter([of_values(b"none")])))

    assert taken and decoding.commit_letters(str(tmp_path), "app", 4, "", run_id="a") == 1


def test_a_batch_of_which_nothing_can_be_read_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa
    from pyspark import TaskContext

    from odradek.spark import decoding
    from odradek.spark.shape import Shape

    monkeypatch.setattr(TaskContext, "get", Context)
    decode = decoding.Decoding(Shape(pa.schema([("id", pa.int32())])), str(tmp_path), "app")
    list(decode(iter([of_values(b"none", b"either")])))
    decoding.commit_letters(str(tmp_path), "app", 4, "", run_id="a")
    job = TransformJob("a:1", ("orders",), "loud", str(tmp_path), format="json", app_id="app")
    plan = TransformPlan(job, {}, {}, 1)

    noted = plan.noted(4)

    assert noted is not None and (noted["records"], noted["letters"]) == (0, 2)
    assert plan.noted(3) is None and plan.noted(5) is None
    assert TransformPlan(job._replace(app_id="other"), {}, {}, 1).noted(4) is None


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"format": "xml"}, "--format xml: there are raw, string, json"),
        ({"format": "raw", "schema": "id INT"}, "--schema is for values with fields"),
        ({"max_dead_letters": "many"}, "--max-dead-letters many: expected a number"),
        ({"on_error": "panic"}, "--on-error panic: there are dlq"),
        ({"format": "avro"}, "expected either --registry or --schema-file"),
    ],
)
def test_values_of_a_topic_job_are_checked_as_those_of_a_table(
    changed: dict[str, Any], sentence: str
) -> None:
    job = TransformJob("a:1", ("orders",), "loud", "d", format="json")
    with pytest.raises(ConfigurationError, match=sentence):
        job._replace(**changed).check()


def threads_of(spark: "SparkSession", query: "StreamingQuery") -> list[str]:
    """Of the JVM, those that work for the query."""
    names = [thread.getName() for thread in spark._jvm.Thread.getAllStackTraces().keySet()]
    return [name for name in names if str(query.id) in name]


@pytest.mark.spark
@pytest.mark.parametrize("step", ["after-begin", "before-end"])
def test_what_a_query_leaves_that_failed_within_its_transaction_is_no_hindrance_to_the_next(
    spark: "SparkSession", job: TransformJob, client: SyncClient, step: str
) -> None:
    """Nothing of it but the transaction, which the next start ends, or the coordinator after a minute."""
    job = job._replace(max_offsets_per_trigger=14)
    fails = spark.readStream.format("odradek").options(**job.source_options()).load()
    query = (
        fails.writeStream.format("odradek")
        .options(**job.sink_options(), killSwitch=f"{step}:1:")  # of the process that commits
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match=r"EOF|Python worker"):
        query.awaitTermination()
    query.stop()

    assert not threads_of(spark, query)
    assert list(staged_directory(parse_topic_options(job.sink_options(), is_stream=True)).iterdir()) == []
    written = [TopicPartition(job.to, number) for number in range(3)]
    highest = client.end_offsets(written)
    is_open = client.end_offsets(written, read_committed=True) != highest
    assert is_open == (step == "before-end"), "the transaction, where it has records"
    assert sum(map(len, read(client, job.to, 3).values())) == 14

    assert [batch.rows for batch in run(spark, job)] == [14, 14]
    values = [bytes(row.value or b"") for rows in read(client, job.to, 3).values() for row in rows]
    assert sorted(values) == sorted([b"a%d" % n for n in range(30)] + [b"b%d" % n for n in range(12)])
    assert client.end_offsets(written, read_committed=True) == client.end_offsets(written)
    report = verified(job)
    assert (report.is_equal, report.batches, report.records) == (True, 3, 42)


@pytest.mark.spark
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"format": "string"},
        {"sql": "SELECT key, value FROM records UNION ALL SELECT key, value FROM records WHERE value = 'no'"},
    ],
    ids=["as they are", "decoded", "read twice"],
)
def test_offsets_that_are_lost_are_counted_by_the_line_of_their_batch_and_by_verify(
    spark: "SparkSession", job: TransformJob, client: SyncClient, more: dict[str, Any]
) -> None:
    job = job._replace(**more)
    (source,) = job.topics
    assert [(batch.rows, batch.skipped) for batch in run(spark, job)] == [(42, 0)]
    fill(client, source, 0, [b"later"] * 20)
    delete_below(client, source, 40)
    with pytest.raises(Exception, match="offsets 30 to 50 were asked for, but the log now holds 40 to 50"):
        run(spark, job)

    lenient = job._replace(fails_on_data_loss=False)
    assert [(batch.rows, batch.skipped) for batch in run(spark, lenient)] == [(10, 10)]
    fill(client, source, 0, [b"gone"] * 5)
    delete_below(client, source, 55)
    (nothing_left,) = run(spark, lenient)
    fill(client, source, 1, [b"behind"])
    assert [(batch.rows, batch.skipped) for batch in run(spark, lenient)] == [(1, 0)]

    assert (nothing_left.rows, nothing_left.skipped) == (0, 5)
    assert str(nothing_left).endswith("  5 offsets lost")
    told = [place.name[-10:] for place in Path(job.directory, "_odradek", "lost").iterdir()]
    assert told == [f"{nothing_left.number:010d}"], "of the others their notes tell"
    report = verified(job)
    assert (report.is_equal, report.records, report.lost) == (True, 53, 15)
    said = CliRunner().invoke(
        spark_commands, ["verify", "--directory", job.directory, "--bootstrap", job.bootstrap]
    )
    assert said.output.rstrip().endswith("3 batches, 53 records; 15 offsets lost before they were read")
