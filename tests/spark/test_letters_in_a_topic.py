"""Dead letters of a job from topics into a topic: records of a topic of their own, in the transaction of the good rows."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import deltalake
import pyarrow as pa
import pytest
from pyspark import TaskContext

from odradek.client.sync import SyncClient
from odradek.model.errors import ConfigurationError
from odradek.model.ids import TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.records.reader import Record
from odradek.spark import batch_notes, tables
from odradek.spark.dead_letters import NoTable, TakenByAnother, dead_letters
from odradek.spark.decoding import Decoding
from odradek.spark.functions import dead_letters as letters_of
from odradek.spark.functions import decoded, readable
from odradek.spark.job_file import jobs_of
from odradek.spark.jobs.tables import TablesJob, followed
from odradek.spark.jobs.tables import planned as planned_tables
from odradek.spark.jobs.transform import AS_THEY_ARE, TransformJob, planned
from odradek.spark.kill_switch import TOPIC_STEPS
from odradek.spark.letter_records import PREFIX, letter_records
from odradek.spark.options import parse
from odradek.spark.parquet import TableFile
from odradek.spark.parts import Part
from odradek.spark.ranges import OffsetRange
from odradek.spark.replay import replay
from odradek.spark.shape import KEPT_LETTERS, LETTERS, Shape
from odradek.spark.sink import DESCRIPTION, DeltaWriter
from odradek.spark.source import schema_of as columns_of_source
from odradek.spark.topic_commit import AheadOfCheckpoint
from odradek.spark.topic_options import TopicOptions, parse_topic_options
from odradek.spark.topic_sink import TopicStreamWriter
from odradek.spark.topic_writing import stage, staged_directory
from odradek.spark.writing import TableOptions, Written, dead_letters_of, together, write_ranges
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import fill
from tests.spark.task_context import Context, of_values
from tests.spark.test_transform import BAD, JSON, read, run, verified
from tests.support import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeTopic = Callable[..., str]
SHAPE = Shape(pa.schema([("id", pa.int32())]))


class Died(BaseException):
    """As a process that is killed, which nobody hears of: a commit that fails otherwise ends its transaction."""


def reasons(record: Record) -> dict[str, str]:
    """The headers that say why, without their prefix."""
    found = [(name, value) for name, value in record.headers if name.startswith(PREFIX)]
    return {name.removeprefix(PREFIX): bytes(value or b"").decode() for name, value in found}


@pytest.fixture
def job(cluster: ProcessCluster, make_topic: MakeTopic, tmp_path: Path) -> TransformJob:
    source, to, letters = make_topic(partitions=2), make_topic(partitions=2), make_topic(partitions=2)
    return TransformJob(
        cluster.bootstrap,
        (source,),
        to,
        str(tmp_path / "job"),
        format="json",
        schema="id INT",
        dead_letters_topic=letters,
        is_once=True,
    )


@pytest.mark.spark
def test_letters_are_in_the_topic_as_they_were_with_the_reason_and_in_the_table_too(
    spark: "SparkSession", job: TransformJob, client: SyncClient
) -> None:
    (source,) = job.topics
    fill(client, source, 0, [*JSON[:5], BAD[0]])
    many = [("n", b"%d" % n) for n in range(10_000)]
    odd = [NewRecord(None, BAD[1], -5_000, many), NewRecord(b"tomb", b"", 1, [("h", None)])]
    client.produce(TopicPartition(source, 1), build_batch(odd))
    told = dict(planned(job).lines())
    assert told["letters"] == f"{job.dead_letters_topic}, too: 2 partitions; in the transaction of the batch"

    (batch,) = run(spark, job)
    fill(client, source, 1, [b"still none"])
    (alone,) = run(spark, job)

    assert (batch.rows, batch.dead_letters) == (5, 3)
    assert (alone.rows, alone.dead_letters) == (0, 1), "a batch of letters alone is a transaction, too"
    rows = [bytes(r.value or b"") for rows in read(client, job.to, 2).values() for r in rows]
    assert sorted(rows) == JSON[:5]
    found = [r for rows in read(client, job.dead_letters_topic, 2).values() for r in rows]
    by_place = {(reasons(r)["partition"], reasons(r)["offset"]): r for r in found}
    assert len(found) == len(by_place) == 4
    one, null_key, tomb = by_place["0", "5"], by_place["1", "0"], by_place["1", "1"]
    assert (one.key, one.value) == (b"k0", BAD[0]) and one.timestamp > 1_700_000_000_005
    assert reasons(one) == {
        "topic": source,
        "partition": "0",
        "offset": "5",
        "timestamp": "1700000000005",
        "stage": "value",
        "message": "no JSON object",
    }
    assert (null_key.key, null_key.value) == (None, BAD[1])
    assert list(null_key.headers)[:10_000] == many and reasons(null_key)["timestamp"] == "-5000"
    assert next(iter(tomb.headers)) == ("h", None) and tomb.value == b""
    assert [(x.partition, x.offset) for x in dead_letters(job.directory)] == [(0, 5), (1, 0), (1, 1), (1, 2)]
    table = tables.open_table(dead_letters_of(job.directory))
    assert table is not None
    headers = {
        row["offset"]: row["headers"] for row in table.to_pyarrow_table().to_pylist() if row["partition"]
    }
    assert len(headers[0]) == 10_000 and headers[1] == [{"key": "h", "value": None}]
    report = verified(job)
    assert report.is_equal and report.records == 9
    assert list(staged_directory(parse_topic_options(job.sink_options(), is_stream=True)).iterdir()) == []


@pytest.fixture
def options(job: TransformJob) -> TopicOptions:
    return parse_topic_options(job.sink_options(), is_stream=True)


FOUR = (b'{"id":1}', b"none", b'{"id":2}', b"either")


def batch_4(
    options: TopicOptions,
    *,
    dies_at: str = "",
    run_id: str = "a",
    values: tuple[bytes, ...] = FOUR,
    of_first: int = 2,
    query_id: str = "",
    batch_id: int = 4,
) -> None:
    """Of two tasks, the first of which has so many records: what Spark does with the batch, without Spark."""

    class Switch:
        def at(self, step: str, batch_id: int) -> None:
            if step == dies_at:
                raise Died

        def when_gone(self, step: str, batch_id: int, holder: Any) -> None:
            self.at(step, batch_id)

    options = options._replace(kill_switch=Switch())  # type: ignore[arg-type]
    context = Context()
    context.run, context.query, context.batch = run_id, query_id, batch_id
    messages = []
    both = of_values(*values)
    tasks = both.slice(0, of_first), both.slice(of_first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TaskContext, "get", lambda: context)
        for context.partition in (0, 1):
            decode = Decoding(SHAPE, options.directory, options.app_id, AS_THEY_ARE)
            rows = decode(iter([tasks[context.partition]]))
            messages.append(stage(rows, options, batch_id=batch_id))
    TopicStreamWriter(options).commit(messages, batch_id)


def values(client: SyncClient, topic: str) -> list[bytes]:
    return sorted(bytes(r.value or b"") for rows in read(client, topic, 2).values() for r in rows)


ALL = ([b'{"id":1}', b'{"id":2}'], [b"either", b"none"])


@pytest.mark.parametrize("step", TOPIC_STEPS)
def test_letters_are_in_the_topic_once_and_with_their_rows_wherever_the_driver_dies(
    step: str, job: TransformJob, options: TopicOptions, client: SyncClient
) -> None:
    def both() -> tuple[list[bytes], list[bytes]]:
        return values(client, job.to), values(client, job.dead_letters_topic)

    with pytest.raises(Died):
        batch_4(options, dies_at=step)
    is_there = step in ("after-commit", "before-checkpoint")
    eventually(lambda: both() == (ALL if is_there else ([], [])), 30.0, "rows with their letters, or none")

    batch_4(options, run_id="b")

    eventually(lambda: both() == ALL, 30.0, "both are committed everywhere")
    assert [x.offset for x in dead_letters(job.directory)] == [1, 3]
    assert list(staged_directory(options).iterdir()) == []


def test_a_batch_notes_its_rows_and_its_letters_apart(job: TransformJob, options: TopicOptions) -> None:
    batch_4(options, values=(b"none", b'{"id":1}', b"neither", b"either"))

    note = batch_notes.find(job.directory, options.progress_topic, job.name, 4)

    assert note is not None and (note["records"], note["letters"]) == (1, 3)


def test_a_commit_that_fails_leaves_no_file_of_letters_and_those_of_tasks_to_spark(
    options: TopicOptions,
) -> None:
    """Which gives it the names of these: `abort` takes them away."""
    with pytest.raises(Died):
        batch_4(options, dies_at="before-commit")

    assert len(list(staged_directory(options).iterdir())) == 2


def test_letters_of_a_partition_are_in_the_order_of_their_offsets(
    job: TransformJob, options: TopicOptions, client: SyncClient
) -> None:
    """Whichever task read more of it. All have one key."""
    batch_4(options, values=(b"first", b"second", b'{"id":1}', b"third"), of_first=1)

    def found() -> list[bytes]:
        every = read(client, job.dead_letters_topic, 2).values()
        return [bytes(r.value or b"") for rows in every for r in rows]

    eventually(lambda: found() == [b"first", b"second", b"third"], 30.0, "the letters, in order")


def test_a_driver_whose_letters_another_has_taken_commits_no_rows_without_them(
    job: TransformJob, options: TopicOptions, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odradek.spark import decoding

    commit = decoding.commit_letters

    def taken(*args: Any, **given: Any) -> int:
        for file in Path(dead_letters_of(job.directory)).rglob("*.parquet"):
            file.unlink()
        return commit(*args, **given)

    monkeypatch.setattr(decoding, "commit_letters", taken)

    with pytest.raises(TakenByAnother, match=r"batch 4 of application .* belongs to another driver by now"):
        batch_4(options)

    assert values(client, job.to) == values(client, job.dead_letters_topic) == []


def test_a_checkpoint_that_is_not_the_topics_leaves_no_letters_which_those_of_the_right_one_would_meet(
    job: TransformJob, options: TopicOptions, client: SyncClient
) -> None:
    batch_4(options, values=(b'{"id":1}', b'{"id":2}'), query_id="one")

    with pytest.raises(AheadOfCheckpoint, match="a query of another checkpoint"):
        batch_4(options, query_id="other", batch_id=7)
    with pytest.raises(AheadOfCheckpoint, match="a query of another checkpoint"):
        batch_4(options._replace(letters_topic=""), values=(b"none", b"either"), query_id="other", batch_id=7)
    assert tables.open_table(dead_letters_of(job.directory)) is None
    batch_4(options, values=(b"none", b"either"), query_id="one", batch_id=5)

    assert [x.offset for x in dead_letters(job.directory)] == [0, 1]
    eventually(lambda: (values(client, job.to), values(client, job.dead_letters_topic)) == ALL, 30.0, "once")


def test_a_table_of_letters_of_before_gets_their_headers(
    job: TransformJob, options: TopicOptions, client: SyncClient
) -> None:
    deltalake.write_deltalake(dead_letters_of(job.directory), LETTERS.empty_table())

    batch_4(options)

    table = tables.open_table(dead_letters_of(job.directory))
    assert table is not None and table.to_pyarrow_table().column("headers").null_count == 2
    eventually(lambda: values(client, job.dead_letters_topic) == ALL[1], 30.0, "the letters")


def test_a_schema_id_is_a_header_where_one_is_known_and_the_last_reason_stands_last() -> None:
    before = {"key": f"{PREFIX}stage", "value": b"schema"}
    row = {"topic": "orders", "partition": 1, "offset": 2, "timestamp": -2_000, "key": None, "value": None}
    why = {"stage": "schema", "error": "\u00fcber", "leaderEpoch": 0}
    rows = [
        {**row, **why, "schemaId": 7, "headers": [before]},
        {**row, **why, "schemaId": None, "headers": None},
    ]

    first, second = letter_records(pa.RecordBatch.from_pylist(rows, KEPT_LETTERS)).to_pylist()

    names = [header["key"].removeprefix(PREFIX) for header in first["headers"]]
    assert names == ["stage", "topic", "partition", "offset", "timestamp", "stage", "message", "schema.id"]
    found = {header["key"].removeprefix(PREFIX): header["value"] for header in second["headers"]}
    assert (
        "schema.id" not in found and found["message"] == "\u00fcber".encode() and found["timestamp"] == b"-2"
    )
    assert letter_records(pa.RecordBatch.from_pylist([], KEPT_LETTERS)).num_rows == 0


def test_a_topic_of_dead_letters_that_is_missing_is_told_of_before_spark_starts(
    job: TransformJob, client: SyncClient
) -> None:
    with pytest.raises(ConfigurationError, match="--dead-letters-topic names the topic nobody-has-made-it"):
        planned(job._replace(dead_letters_topic="nobody-has-made-it"))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"dead_letters_topic": "orders"}, "orders: the job reads that topic; dead letters need a topic of"),
        ({"dead_letters_topic": "loud"}, "loud: rows go to that topic"),
        ({"dead_letters_topic": "odradek-sinks"}, "odradek-sinks: sinks note their progress in that topic"),
        ({"format": "raw"}, "--dead-letters-topic is for values with fields"),
        ({"on_error": "skip"}, "with --on-error skip there are no dead letters; dlq makes them"),
    ],
)
def test_a_topic_of_dead_letters_that_cannot_be_meant_is_refused(
    changed: dict[str, Any], sentence: str
) -> None:
    job = TransformJob("a:1", ("orders",), "loud", "d", format="json", dead_letters_topic="letters")
    with pytest.raises(ConfigurationError, match=sentence):
        job._replace(**changed).check()


@pytest.fixture
def to_table(job: TransformJob, client: SyncClient, tmp_path: Path) -> TablesJob:
    (source,) = job.topics
    odd = [NewRecord(None, BAD[1], 1, [("h", b"x")]), NewRecord(b"k", b'{"id":7}', 1, [])]
    fill(client, source, 0, [*JSON[:5], BAD[0]])
    client.produce(TopicPartition(source, 1), build_batch(odd))
    return TablesJob(
        job.bootstrap,
        job.topics,
        str(tmp_path / "table"),
        format="json",
        schema="id INT",
        dead_letters_topic=job.dead_letters_topic,
        is_once=True,
    )


@pytest.mark.spark
def test_letters_of_a_table_are_in_the_topic_too_also_of_rows_that_are_upserted(
    spark: "SparkSession", to_table: TablesJob, client: SyncClient
) -> None:
    upserted = to_table._replace(table=f"{to_table.table}-upserted", upsert_by="key", app_id="upserts")
    told = dict(planned_tables(to_table).lines())
    assert told["letters"].endswith("too: in a transaction of their own before the commit of the batch")

    for job in (to_table, upserted):
        plan = planned_tables(job)
        (batch,) = [b for b in followed(plan.start(spark), plan, lambda: False, spark) if b is not None]

        assert batch.dead_letters == 2 and batch.rows >= 2
        assert [letter.value for letter in dead_letters(job.table)] == BAD
    letters = to_table.dead_letters_topic
    eventually(lambda: values(client, letters) == sorted([*BAD, *BAD]), 30.0, "the letters of both jobs")
    found = [r for rows in read(client, letters, 2).values() for r in rows]
    odd = [r for r in found if r.value == BAD[1]]
    assert [(r.key, next(iter(r.headers))) for r in odd] == [(None, ("h", b"x"))] * 2
    assert sorted(reasons(r)["stage"] for r in odd) == ["key", "value"]


@pytest.mark.spark
def test_a_program_writes_rows_and_letters_with_their_headers_in_one_transaction(
    spark: "SparkSession", to_table: TablesJob, job: TransformJob, client: SyncClient, tmp_path: Path
) -> None:
    given = {"kafka.bootstrap.servers": job.bootstrap, "subscribe": job.topics[0], "includeHeaders": "true"}
    frame = spark.read.format("odradek").options(**given).load()
    found = decoded(frame, "json", schema="id INT", on_error="dlq")
    rows = readable(found).selectExpr(
        "__key AS key",
        "encode(string(id), 'UTF-8') AS value",
        "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
        f"'{job.to}' AS topic",
    )

    both = rows.unionByName(letters_of(found, topic=job.dead_letters_topic))
    sink = {"kafka.bootstrap.servers": job.bootstrap, "directory": str(tmp_path / "staged")}
    both.write.format("odradek").mode("append").options(**sink).save()

    eventually(lambda: values(client, job.dead_letters_topic) == sorted(BAD), 30.0, "the letters")
    eventually(lambda: len(values(client, job.to)) == 6, 30.0, "the rows")
    assert values(client, job.to) == [b"0", b"1", b"2", b"3", b"4", b"7"]
    letters = [r for of_one in read(client, job.dead_letters_topic, 2).values() for r in of_one]
    (odd,) = [r for r in letters if r.value == BAD[1]]
    assert odd.key is None and next(iter(odd.headers)) == ("h", b"x")
    assert reasons(odd)["offset"] == "0" and reasons(odd)["stage"] == "value"


class Batch(NamedTuple):
    """A batch of a job, the first one if nothing else is said, without Spark."""

    job: TablesJob
    query_id: str = "a"
    has_topic: bool = True  # of letters

    def run(
        self, dies_at: str = "", batch_id: int = 0, ranges: tuple[tuple[int, int], ...] = ((0, 6), (0, 2))
    ) -> None:
        class Switch:
            def at(self, step: str, batch_id: int) -> None:
                if step == dies_at:
                    raise Died

        job = self.job
        shape, source = planned_tables(job).shape, parse(job.source_options())
        options = TableOptions(job.table, job.name, shape=shape)
        reads = [OffsetRange(job.topics[0], partition, *offsets) for partition, offsets in enumerate(ranges)]
        done = write_ranges(reads, source.connection, columns_of_source(source), options, batch_id=batch_id)
        done.query_id = self.query_id
        given = {
            "kafka.bootstrap.servers": job.bootstrap,
            "topic": job.dead_letters_topic,
            "appId": f"{job.name}:dead-letters",
            "checkpointLocation": job.checkpoint_directory,
        }
        to = parse_topic_options(given, is_stream=True)
        if self.has_topic:
            options = options._replace(letters_to=to._replace(kill_switch=Switch()))  # type: ignore[arg-type]
        DeltaWriter(options, DESCRIPTION).commit([done], batch_id)

    @property
    def rows(self) -> list[int]:
        table = tables.open_table(self.job.table)
        return [] if table is None else sorted(table.to_pyarrow_table().column("id").to_pylist())


STEPS_OF_LETTERS = [step for step in TOPIC_STEPS if step not in ("after-write", "before-checkpoint")]


@pytest.mark.parametrize("step", STEPS_OF_LETTERS)
def test_letters_of_a_table_are_sent_once_before_its_rows_wherever_the_driver_dies(
    step: str, to_table: TablesJob, client: SyncClient
) -> None:
    batch = Batch(to_table)
    with pytest.raises(Died):
        batch.run(dies_at=step)
    staged = Path(to_table.checkpoint_directory, "odradek-sink", "staged")
    assert list(staged.glob("*")) == [], (
        "Spark knows nothing of these, and where the batch does not come again nobody"
    )
    sent = sorted(BAD) if step == "after-commit" else []
    eventually(lambda: values(client, to_table.dead_letters_topic) == sent, 30.0, "letters, or none")
    assert batch.rows == []

    batch.run()
    batch.run()  # as where the driver dies behind the commit

    eventually(lambda: values(client, to_table.dead_letters_topic) == sorted(BAD), 30.0, "each letter once")
    assert batch.rows == [0, 1, 2, 3, 4, 7] and len(dead_letters(to_table.table)) == 2
    assert list(staged.iterdir()) == []


@pytest.mark.process
def test_letters_of_a_table_in_a_store_are_sent_out_of_their_files_there(
    to_table: TablesJob, client: SyncClient, url: str, tmp_path: Path
) -> None:
    batch = Batch(to_table._replace(table=url, checkpoint=str(tmp_path / "checkpoint")))
    with pytest.raises(Died):
        batch.run(dies_at="after-commit")

    batch.run()

    eventually(lambda: values(client, to_table.dead_letters_topic) == sorted(BAD), 30.0, "each letter once")
    assert batch.rows == [0, 1, 2, 3, 4, 7] and len(dead_letters(url)) == 2


def test_letters_of_a_table_are_in_the_order_of_their_offsets_whichever_task_is_heard_first() -> None:
    def told(partition: int, start: int) -> Written:
        letters = [TableFile(f"{partition}-{start}", 1, 1, "")]
        return Written(DESCRIPTION, (), [Part("orders", partition, start, start + 5)], letters=letters)

    whole = together([told(10, 0), told(2, 5), told(2, 0)], DESCRIPTION)

    assert [file.name for file in whole.letters] == ["2-0", "2-5", "10-0"]


@pytest.mark.parametrize("has_topic", [False, True])
def test_a_checkpoint_that_is_not_the_tables_leaves_no_letters_which_those_of_the_right_one_would_meet(
    to_table: TablesJob, has_topic: bool
) -> None:
    Batch(to_table, has_topic=has_topic).run(ranges=((0, 5), (0, 0)))
    with pytest.raises(tables.WrongCheckpoint, match="a query of another checkpoint"):
        Batch(to_table, query_id="another", has_topic=has_topic).run(batch_id=7)
    assert dead_letters(to_table.table) == []

    Batch(to_table, has_topic=has_topic).run(batch_id=1, ranges=((5, 6), (0, 2)))

    assert [(x.partition, x.offset) for x in dead_letters(to_table.table)] == [(0, 5), (1, 0)]


def test_a_checkpoint_that_is_not_the_tables_sends_no_letters_and_a_table_made_anew_sends_them_anew(
    to_table: TablesJob, client: SyncClient
) -> None:
    Batch(to_table).run()
    with pytest.raises(tables.WrongCheckpoint):
        Batch(to_table, query_id="another").run()
    eventually(lambda: values(client, to_table.dead_letters_topic) == sorted(BAD), 30.0, "each letter once")

    shutil.rmtree(to_table.table)
    Batch(to_table, query_id="another").run()

    eventually(lambda: len(values(client, to_table.dead_letters_topic)) == 4, 30.0, "the letters of both")


def test_who_asks_a_topic_for_its_letters_is_told_where_they_are(job: TransformJob) -> None:
    with pytest.raises(
        NoTable, match="those that go to a topic are in a table, too: below that of the job, or"
    ):
        dead_letters(job.dead_letters_topic)
    with pytest.raises(NoTable, match="dead letters of a job that writes a topic are not fed again"):
        replay(job.directory)


def test_a_topic_of_letters_of_a_table_that_is_missing_is_told_of_before_spark_starts(
    to_table: TablesJob,
) -> None:
    with pytest.raises(ConfigurationError, match="--dead-letters-topic names the topic nobody-has-made-it"):
        planned_tables(to_table._replace(dead_letters_topic="nobody-has-made-it"))


def test_the_topic_of_dead_letters_stands_in_a_file_of_jobs(tmp_path: Path) -> None:
    given = {"topic": "orders", "to": "loud", "directory": "./loud", "format": "json"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in given.items()]
    file = tmp_path / "job.toml"
    file.write_text(
        "\n".join(['bootstrap = "a:1"', "[[transform]]", *lines, 'dead-letters-topic = "letters"'])
    )

    (job,) = jobs_of(file)

    assert isinstance(job, TransformJob) and job.dead_letters_topic == "letters"
