"""Jobs whose tables grow: newer schemas of a registry, letters fed again, and one whole run with everything that is new."""

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import StructType

from odradek.client.sync import SyncClient
from odradek.model.errors import ConfigurationError
from odradek.model.ids import TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.spark.dead_letters import dead_letters
from odradek.spark.evolution import Evolve
from odradek.spark.formats import registry as registry_module
from odradek.spark.formats.declared import Format
from odradek.spark.job_file import jobs_of
from odradek.spark.jobs.tables import Plan, TablesJob, followed, planned
from odradek.spark.kill_switch import OFF
from odradek.spark.options import parse
from odradek.spark.ranges import OffsetRange
from odradek.spark.replay import replay
from odradek.spark.sentence import sentence_of
from odradek.spark.sink import DeltaWriter
from odradek.spark.source import schema_of
from odradek.spark.tables import WrongTable
from odradek.spark.verify import verify
from odradek.spark.writing import TableOptions, Written, write_ranges
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import fill
from tests.spark.formats.registry_server import framed, registry
from tests.spark.formats.test_avro import SIMPLE, written
from tests.spark.test_data_loss import made_again

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeTopic = Callable[..., str]
NARROW: dict[str, Any] = {**SIMPLE, "fields": [{"name": "id", "type": "int"}]}
NEWER: dict[str, Any] = {
    **SIMPLE,
    "fields": [*SIMPLE["fields"], {"name": "more", "type": ["null", "double"]}],
}
OTHER: dict[str, Any] = {**SIMPLE, "fields": [{"name": "id", "type": "string"}]}


@pytest.fixture
def job(cluster: ProcessCluster, make_topic: MakeTopic, tmp_path: Path) -> TablesJob:
    return TablesJob(
        cluster.bootstrap,
        (make_topic(partitions=2),),
        str(tmp_path / "table"),
        format="json",
        schema="id INT",
        evolve="add,widen,relax",
        is_once=True,
    )


def run(plan: Plan, batch_id: int, *ranges: tuple[int, int, int], fetch_max_bytes: int = 1 << 20) -> None:
    """What Spark does with a batch; a task for each range of a partition."""
    job = plan.job
    source = parse(job.source_options())
    options = TableOptions(
        job.table, job.name, OFF, shape=plan.shape, layout=plan.layout, evolve=Evolve.of(job.evolve)
    )
    done = [
        Written.from_text(
            write_ranges(
                [OffsetRange(job.topics[0], *one)],
                source.connection._replace(fetch_max_bytes=fetch_max_bytes),
                schema_of(source),
                options,
                batch_id=batch_id,
            ).to_text()
        )
        for one in ranges
    ]
    DeltaWriter(options, StructType()).commit(done, batch_id)


def kinds_in(table: str) -> dict[str, str]:
    fields = DeltaTable(table).schema().fields
    return {field.name: str(field.type.type) for field in fields if not field.name.startswith("__")}


def test_a_schema_that_is_registered_while_a_job_runs_brings_its_columns(
    job: TablesJob, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_module, "BELIEVED_S", 0.0)
    (topic,) = job.topics
    with registry() as server:
        server.has(1, NARROW, subject=f"{topic}-value")
        fill(client, topic, 0, [framed(1, written(NARROW, {"id": n})) for n in range(3)])
        plan = planned(job._replace(format="avro", registry=server.url, schema=""))
        run(plan, 0, (0, 0, 3))
        assert kinds_in(job.table) == {"id": "integer"}
        for number, schema in ((2, NEWER), (3, OTHER)):
            server.has(number, schema)
        newer = {"id": 2**40, "n": "ink", "more": 1.5}
        fill(client, topic, 0, [framed(2, written(NEWER, newer)), framed(1, written(NARROW, {"id": 4}))])
        fill(
            client, topic, 1, [framed(3, written(OTHER, {"id": "x"})), framed(1, written(NARROW, {"id": 5}))]
        )

        run(plan, 1, (0, 3, 5), (1, 0, 2))

    assert kinds_in(job.table) == {"id": "long", "n": "string", "more": "double"}
    rows = DeltaTable(job.table).to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in rows) == [0, 1, 2, 4, 5, 2**40]
    (letter,) = dead_letters(job.table)
    assert (letter.stage, letter.schema_id) == ("schema", 3) and "is STRING by the schema" in letter.error
    assert verify(job.table, job.bootstrap).is_equal


def test_rows_from_before_a_column_came_are_in_the_table_beside_those_from_behind(
    job: TablesJob, client: SyncClient
) -> None:
    """Of one task, which fetches them one after the other."""
    fill(client, job.topics[0], 0, [b'{"id":1}', b'{"id":2,"name":"ink"}', b'{"id":3}'], batch=1)

    run(planned(job), 0, (0, 0, 3), fetch_max_bytes=1)

    rows = DeltaTable(job.table).to_pyarrow_table().to_pylist()
    assert {row["id"]: row["name"] for row in rows} == {1: None, 2: "ink", 3: None}
    assert verify(job.table, job.bootstrap).is_equal


def test_without_evolve_the_newer_fields_are_left_out_and_what_is_too_wide_is_a_letter(
    job: TablesJob, client: SyncClient
) -> None:
    fill(client, job.topics[0], 0, [b'{"id":1,"name":"ink"}', b'{"id":3000000000}'])

    run(planned(job._replace(evolve="none")), 0, (0, 0, 2))

    assert kinds_in(job.table) == {"id": "integer"}
    assert [letter.offset for letter in dead_letters(job.table)] == [1]


def test_letters_that_were_too_wide_are_fed_again_once_the_column_is_wider(
    job: TablesJob, client: SyncClient
) -> None:
    fill(client, job.topics[0], 0, [b'{"id":1}', b'{"id":3000000000}', b'{"id":5000000000}'])
    fixed = job._replace(evolve="none", partition_by="bucket(2, id)")
    run(planned(fixed), 0, (0, 0, 2))

    run(planned(job._replace(schema="")), 1, (0, 2, 3))
    done = replay(job.table, Format("json"))

    assert (done.rows, done.waiting) == (1, 0)
    rows = DeltaTable(job.table).to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in rows) == [1, 3_000_000_000, 5_000_000_000]
    assert DeltaTable(job.table).metadata().partition_columns == ["id_bucket"]


def test_a_letter_of_a_topic_that_was_made_again_is_not_taken_for_one_of_the_topic_before(
    job: TablesJob, client: SyncClient
) -> None:
    """At the same offset: the one that was fed again says nothing of the other."""
    (topic,) = job.topics
    fixed, batch = job._replace(schema="id INT, n INT", evolve="none"), count()

    def takes(job: TablesJob, begin: int, value: bytes) -> None:
        client.produce(TopicPartition(topic, 0), build_batch([NewRecord(None, value, next(moments))]))
        run(planned(job), next(batch), (0, begin, begin + 1))

    moments = count(1_700_000_000_000)
    takes(fixed, 0, b'{"id":3000000000}')
    takes(job._replace(schema=""), 1, b'{"id":4000000000}')
    assert replay(job.table, Format("json")).rows == 1
    made_again(client, topic)
    takes(fixed._replace(schema=""), 0, b'{"n":5000000000}')
    takes(job._replace(schema=""), 1, b'{"n":6000000000}')

    assert [(x.offset, x.is_replayed) for x in dead_letters(job.table)] == [(0, True), (0, False)]
    assert replay(job.table, Format("json")).rows == 1
    rows = DeltaTable(job.table).to_pyarrow_table().to_pylist()
    assert sorted(row["id"] or row["n"] for row in rows) == [n * 10**9 for n in (3, 4, 5, 6)]


def test_a_schema_that_is_given_may_be_wider_than_that_of_the_table(
    job: TablesJob, client: SyncClient
) -> None:
    fill(client, job.topics[0], 0, [b'{"id":1}', b'{"id":2}'])
    run(planned(job), 0, (0, 0, 1))

    plan = planned(job._replace(schema="id BIGINT, name STRING"))
    run(plan, 1, (0, 1, 2))

    assert kinds_in(job.table) == {"id": "long", "name": "string"}
    for schema, evolve in (
        ("id STRING", "add,widen"),
        ("id DOUBLE, name STRING", "add,widen"),
        ("id BIGINT, name STRING, x INT", "widen"),
    ):
        with pytest.raises(
            ConfigurationError, match=r"--schema is not what .* has, which is id BIGINT, name STRING"
        ):
            planned(job._replace(schema=schema, evolve=evolve))


def test_a_table_of_others_is_appended_to_by_name_and_what_it_wants_of_rows_is_kept(
    job: TablesJob, client: SyncClient
) -> None:
    columns = pa.schema(
        [
            pa.field("name", pa.string()),
            pa.field("id", pa.int64(), nullable=False),
            pa.field("country", pa.string()),
        ]
    )
    write_deltalake(
        job.table,
        pa.table({"name": ["x"], "id": [0], "country": ["DE"]}, schema=columns),
        partition_by=["country"],
    )
    fill(
        client, job.topics[0], 0, [b'{"id":1,"country":"FR","name":"ink"}', b'{"country":"FR"}', b'{"id":2}']
    )
    plan = planned(job._replace(schema="", evolve="none", has_meta=False))
    told = dict(plan.lines())
    assert told["parts"] == "country, as the table is" and told["beside"] == "no columns of ours"

    run(plan, 0, (0, 0, 3))

    rows = sorted(DeltaTable(job.table).to_pyarrow_table().to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["name"], row["country"]) for row in rows] == [
        (0, "x", "DE"),
        (1, "ink", "FR"),
        (2, None, None),
    ]
    (letter,) = dead_letters(job.table)
    assert (letter.offset, letter.error) == (1, "column id is NOT NULL in the table, and the value has none")
    with pytest.raises(ConfigurationError, match="is partitioned by country, which stays"):
        planned(job._replace(schema="", partition_by="id"))
    DeltaTable(job.table).alter.add_constraint({"positive": "id >= 0"})
    with pytest.raises(WrongTable, match="has the constraint positive CHECK"):
        planned(job._replace(schema=""))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"evolve": "grow"}, "--evolve grow: there are add, widen, relax"),
        ({"evolve": "add", "format": "raw", "schema": ""}, "--evolve is for values with fields"),
        ({"evolve": "widen", "upsert_by": "key"}, "with --upsert-by columns can be added and nothing else"),
        (
            {"evolve": "none", "upsert_by": "key", "sort_by": "id"},
            "--sort-by is for tables that are appended to",
        ),
        ({"partition_by": "day(id"}, "--partition-by day.id: "),
        ({"target_file_size": "1KB"}, "--target-file-size 1KB: expected a size"),
        ({"partition_by": "colour"}, "partitioned by colour: there is no column colour"),
        (
            {"partition_by": "day(__timestamp)", "sort_by": "colour"},
            "--sort-by colour: there is no such column",
        ),
    ],
)
def test_what_cannot_be_meant_is_said_before_spark_starts(
    job: TablesJob, changed: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        planned(job._replace(**changed))


def test_a_job_file_has_them_too(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    text = '[[tables]]\nbootstrap = "h:1"\ntopic = "a"\ntable = "t"\nformat = "json"\nevolve = "add,widen"\npartition-by = "id, day(ts)"\ntarget-file-size = "128MB"\nsort-by = "id"\n'
    file.write_text(text)

    (job,) = jobs_of(file)

    assert isinstance(job, TablesJob)
    assert (job.evolve, job.partition_by, job.target_file_size, job.sort_by) == (
        "add,widen",
        "id, day(ts)",
        "128MB",
        "id",
    )
    file.write_text(text.replace("add,widen", "grow"))
    with pytest.raises(ConfigurationError, match="line 6: --evolve grow"):
        jobs_of(file)


@pytest.mark.spark
def test_a_table_grows_while_its_job_runs_and_goes_on_where_it_stood(
    spark: "SparkSession", job: TablesJob, client: SyncClient
) -> None:
    values = [{"id": n, "country": "DE" if n % 2 else "FR"} for n in range(8)]
    for partition in (0, 1):
        fill(client, job.topics[0], partition, [json.dumps(value).encode() for value in values])
    asked = job._replace(
        partition_by="country, day(__timestamp)",
        sort_by="id",
        target_file_size="64KiB",
        schema="id INT, country STRING",
    )

    def batches(one: TablesJob) -> list[int]:
        plan = planned(one)
        return [b.rows for b in followed(plan.start(spark), plan, lambda: False, spark) if b is not None]

    first = batches(asked)
    fill(client, job.topics[0], 0, [b'{"id":3000000000,"name":"ink","country":"DE"}', b"none"])
    second = batches(asked._replace(schema=""))

    assert (first, second) == ([16], [1])
    assert kinds_in(job.table) == {"id": "long", "country": "string", "name": "string"}
    opened = DeltaTable(job.table)
    assert opened.metadata().partition_columns == ["country", "__timestamp_day"]
    assert opened.to_pyarrow_table().num_rows == 17 and len(dead_letters(job.table)) == 1
    report = verify(job.table, job.bootstrap)
    assert report.is_equal and report.is_complete
    assert not list((Path(job.table) / "_odradek" / "columns").glob("*"))
    fill(client, job.topics[0], 0, [b'{"id":"text"}'])
    with pytest.raises(Exception, match="STREAM_FAILED") as caught:
        batches(asked._replace(schema="", on_error="pause"))
    assert "the job stops here" in sentence_of(caught.value)
    assert DeltaTable(job.table).version() == opened.version()
