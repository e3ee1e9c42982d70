"""A table with the last row of each key: merged once however often a batch comes again, tombstones, records without a key."""

import json
import math
import os
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from odradek.client.sync import SyncClient
from odradek.model.errors import ConfigurationError
from odradek.model.ids import TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.spark import tables, upsert
from odradek.spark.arrow_schema import rows_schema
from odradek.spark.cannot_write import CannotWrite, NotShared
from odradek.spark.dead_letters import dead_letters, keep_shape
from odradek.spark.evolution import Evolve
from odradek.spark.growth import columns_of
from odradek.spark.jobs.tables import TablesJob, followed, planned
from odradek.spark.kill_switch import OFF, STEPS
from odradek.spark.object_store import StoreError
from odradek.spark.options import parse
from odradek.spark.parquet import TableFile, file_name
from odradek.spark.ranges import OffsetRange
from odradek.spark.replay import replay
from odradek.spark.shape import COLUMNS, META, BadValue, Shape
from odradek.spark.sink import DeltaWriter
from odradek.spark.source import schema_of
from odradek.spark.verify import CannotVerify, verify
from odradek.spark.writing import TableOptions, Written, _write_changes, dead_letters_of, write_ranges
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import create_topic
from tests.spark.formats.registry_server import framed, registry
from tests.spark.formats.test_avro import written
from tests.spark.power_cuts import PowerCuts
from tests.support import full_disk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeTopic = Callable[..., str]
# Batches of (key, value): b comes and goes, c goes before it ever came, a changes twice in a batch.
BATCHES: list[list[tuple[bytes | None, bytes | None]]] = [
    [(b"a", b'{"id":1}'), (b"b", b'{"id":2}'), (b"a", b'{"id":3}')],
    [(b"b", None), (b"c", None), (b"d", b'{"id":4}')],
    [(b"nobody", None)],
    [(b"a", b'{"id":5}'), (b"d", None), (b"e", b"{}")],
]
LAST = {b"a": 5, b"e": None}


class Died(Exception):
    pass


class Upserts:
    """What Spark does with a job of this kind, without Spark."""

    def __init__(self, job: TablesJob, on_null: str = "dlq") -> None:
        self.job = job
        self.shape: Shape | None = planned(job).shape
        self.on_null = on_null

    def options(self, switch: Any = OFF) -> TableOptions:
        return TableOptions(self.job.table, self.job.name, switch, shape=self.shape, upserts=self.on_null)

    def run(self, batch_id: int, ranges: list[tuple[int, int]], switch: Any = OFF) -> None:
        """A task a range."""
        tasks = [[OffsetRange(self.job.topics[0], 0, begin, end)] for begin, end in ranges]
        self.run_tasks(batch_id, tasks, switch)

    def run_tasks(self, batch_id: int, tasks: Iterable[list[OffsetRange]], switch: Any = OFF) -> None:
        source = parse(self.job.source_options())
        done = []
        for wanted in tasks:
            written = write_ranges(
                wanted, source.connection, schema_of(source), self.options(switch), batch_id=batch_id
            )
            done.append(Written.from_text(written.to_text()))
        DeltaWriter(self.options(switch), StructType()).commit(done, batch_id)

    def run_of(self, checkpoint: Path, query_id: str, batch_id: int, begin: int, end: int) -> None:
        """A task of the query whose checkpoint that is."""
        self.plan(checkpoint, batch_id, end)
        source, options = (
            parse(self.job.source_options()),
            self.options()._replace(checkpoint=str(checkpoint)),
        )
        wanted = [OffsetRange(self.job.topics[0], 0, begin, end)]
        done = write_ranges(wanted, source.connection, schema_of(source), options, batch_id=batch_id)
        done.query_id = query_id
        DeltaWriter(options, StructType()).commit([done], batch_id)

    def plan(self, checkpoint: Path, batch_id: int, end: int) -> None:
        (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        plan = f'v1\n{{}}\n{{"{self.job.topics[0]}":{{"0":{end}}}}}'
        (checkpoint / "offsets" / str(batch_id)).write_text(plan)

    def rows(self) -> dict[bytes, Any]:
        found = DeltaTable(self.job.table).to_pyarrow_table().to_pylist()
        assert len({row["__key"] for row in found}) == len(found), "a key is there once"
        return {row["__key"]: row["id"] for row in found}


Batch = Sequence[tuple[bytes | None, bytes | None]]


def job_of(
    cluster: ProcessCluster,
    client: SyncClient,
    topic: str,
    table: Path,
    batches: Iterable[Batch],
    **more: str,
) -> TablesJob:
    for batch in batches:
        produce(client, topic, *batch)
    return TablesJob(
        cluster.bootstrap,
        (topic,),
        str(table),
        format="json",
        schema="id BIGINT",
        upsert_by="key",
        is_once=True,
        **more,
    )


@pytest.fixture
def job(cluster: ProcessCluster, make_topic: MakeTopic, client: SyncClient, tmp_path: Path) -> TablesJob:
    return job_of(cluster, client, make_topic(), tmp_path / "table", BATCHES)


def produce(
    client: SyncClient, topic: str, *records: tuple[bytes | None, bytes | None], partition: int = 0
) -> None:
    batch = [NewRecord(key, value, 1_700_000_000_000 + n) for n, (key, value) in enumerate(records)]
    client.produce(TopicPartition(topic, partition), build_batch(batch))


def ranges_of(batch_id: int) -> list[tuple[int, int]]:
    first = sum(len(batch) for batch in BATCHES[:batch_id])
    middle, last = first + 1, first + len(BATCHES[batch_id])
    return [(start, end) for start, end in ((first, middle), (middle, last)) if start < end]


def test_a_power_cut_takes_nothing_of_a_merge_once_the_checkpoint_goes_on(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts, upserts = PowerCuts(monkeypatch), Upserts(job)
    for batch_id in (0, 1):
        upserts.run(batch_id, ranges_of(batch_id))
        opened = DeltaTable(job.table)
        files = [Path(job.table, name) for name in opened.to_pyarrow_dataset().files]
        log = Path(job.table, "_delta_log")
        assert files and cuts.would_take([*files, log, *log.iterdir(), Path(job.table)]) == []

    synced: list[bool] = []
    monkeypatch.setattr(os, "sync", lambda: synced.append(True))
    upserts.run(1, ranges_of(1))  # comes again
    assert synced


def left_behind(table: str) -> list[Path]:
    return [*Path(upsert.changes_directory(table)).glob("*")]


def test_a_table_has_the_last_row_of_each_key_and_verify_proves_it(job: TablesJob) -> None:
    told = dict(planned(job).lines())
    assert told["upserts"] == (
        "one row a key, of its last record; a null value deletes it; where a batch has a key in several partitions, the one of the "
        "greater offset"
    )
    upserts = Upserts(job)
    seen = []
    for batch_id in range(len(BATCHES)):
        upserts.run(batch_id, ranges_of(batch_id))
        done = DeltaTable(job.table).transaction_version(job.name)
        assert done == batch_id, "also of a batch that changes nothing"
        upserts.run(batch_id, ranges_of(batch_id))  # comes again
        seen.append(upserts.rows())

    assert seen == [{b"a": 3, b"b": 2}, {b"a": 3, b"d": 4}, {b"a": 3, b"d": 4}, LAST]
    assert left_behind(job.table) == []
    opened = DeltaTable(job.table)
    assert [batch.batch_id for batch in tables.committed_batches(opened)] == [0, 1, 2, 3]
    report = verify(job.table, job.bootstrap)
    assert report.is_equal and report.rows is not None and report.rows.table.count == 2
    opened.optimize.compact()
    assert verify(job.table, job.bootstrap).is_equal
    opened.delete("id = 5")
    assert not verify(job.table, job.bootstrap).is_equal


@pytest.mark.parametrize("days", [2_932_897, -719_163])
def test_a_table_can_be_read_though_a_record_has_a_day_that_delta_has_no_text_of(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path, days: int
) -> None:
    """As of seconds since 1970 in a DATE: MERGE notes it as the greatest day of a file, and of that nobody makes a date."""
    value = b'{"id":3,"day":%d,"at":{"day":%d}}' % (days, days)
    job = job_of(cluster, client, make_topic(), tmp_path / "table", [[(b"a", value)]])
    columns = "id BIGINT, `odd.name` STRING, day DATE, at STRUCT<day: DATE>"
    Upserts(job._replace(schema=columns)).run(0, [(0, 1)])

    (row,) = (
        DeltaTable(job.table)
        .to_pyarrow_table()
        .select(["id", "day"])
        .cast(pa.schema([("id", pa.int64()), ("day", pa.int32())]))
        .to_pylist()
    )
    assert row == {"id": 3, "day": days}
    log = Path(job.table, "_delta_log", f"{1:020d}.json").read_text(encoding="utf-8")
    (add,) = [json.loads(line)["add"] for line in log.splitlines() if '"add"' in line]
    noted = json.loads(add["stats"])["maxValues"]
    assert (noted["id"], noted["__offset"]) == (3, 0) and not {"day", "at"} & noted.keys()


@pytest.fixture(scope="module")
def merged(
    cluster: ProcessCluster, client: SyncClient, tmp_path_factory: pytest.TempPathFactory
) -> dict[int, TablesJob]:
    """By number of batches a job that has merged as many: whoever goes on does so with a copy of its table."""
    create_topic(client, "merged")
    directory = tmp_path_factory.mktemp("merged")
    job = job_of(cluster, client, "merged", directory / "table", BATCHES)
    found = {}
    for batch_id in range(3):
        Upserts(job).run(batch_id, ranges_of(batch_id))
        copy = shutil.copytree(job.table, directory / f"behind {batch_id}")
        found[batch_id + 1] = job._replace(table=str(copy))
    return found


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("dying", [1, 3])
def test_wherever_the_driver_dies_the_batch_is_merged_once(
    merged: dict[int, TablesJob], tmp_path: Path, step: str, dying: int
) -> None:
    class Switch:
        @staticmethod
        def at(at: str, batch: int) -> None:
            if (at, batch) == (step, dying):
                raise Died

        when_gone = staticmethod(lambda at, batch, holder: Switch.at(at, batch))

    job = merged[dying]._replace(table=str(shutil.copytree(merged[dying].table, tmp_path / "table")))
    upserts = Upserts(job)
    with pytest.raises(Died):
        upserts.run(dying, ranges_of(dying), Switch())
    for batch_id in range(dying, len(BATCHES)):
        first, last = ranges_of(batch_id)[0][0], ranges_of(batch_id)[-1][1]
        upserts.run(batch_id, [(first, last)])  # with other tasks than before

    assert upserts.rows() == LAST
    assert left_behind(job.table) == []
    assert verify(job.table, job.bootstrap).is_equal


@pytest.mark.parametrize(
    ("checkpoint", "query_id", "why"),
    [
        ("other", "other", "from a query of another checkpoint"),
        ("put back", "own", "it ends elsewhere in what the query reads"),
    ],
)
def test_a_checkpoint_that_is_behind_other_records_is_noticed_and_merges_nothing(
    job: TablesJob, client: SyncClient, tmp_path: Path, checkpoint: str, query_id: str, why: str
) -> None:
    """It is right behind the number of the table's last batch, but not behind its records: these would be in no batch."""
    jobs = Upserts(job)
    produce(client, job.topics[0], (b"f", b"no json"))
    jobs.plan(tmp_path / checkpoint, 0, 6)
    jobs.run_of(tmp_path / "own", "own", 0, 0, 3)
    with pytest.raises(tables.WrongCheckpoint, match=why):
        jobs.run_of(tmp_path / checkpoint, query_id, 1, 6, 11)
    assert tables.open_table(dead_letters_of(job.table)) is None, "nor has it letters"
    jobs.run_of(tmp_path / "own", "own", 0, 0, 3)
    jobs.run_of(tmp_path / "own", "own", 1, 3, 6)

    assert jobs.rows() == {b"a": 3, b"d": 4}


def test_a_batch_that_does_not_tell_its_query_is_gone_on_from(job: TablesJob, tmp_path: Path) -> None:
    """As release 0.2.0 noted it, or where the checkpoint was in no directory that is mounted."""
    jobs = Upserts(job)
    jobs.run(0, [(0, 3)])
    jobs.run_of(tmp_path / "own", "own", 0, 0, 3)
    jobs.run_of(tmp_path / "own", "own", 1, 3, 6)

    assert jobs.rows() == {b"a": 3, b"d": 4}
    assert [note["parts"][0]["end"] for note in tables.notes(DeltaTable(job.table))] == [3, 6]


@pytest.mark.parametrize("where", ["last_changes", "_merge"])
def test_of_two_drivers_one_merges_and_the_other_finds_it_done(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Which takes the changes away, of the other as well."""
    upserts = Upserts(job)
    upserts.run(0, ranges_of(0))
    goes_on = getattr(upsert, where)
    others = []

    def late(*given: Any) -> Any:
        if not others:
            others.append(1)
            upserts.run(1, ranges_of(1))
        return goes_on(*given)

    monkeypatch.setattr(upsert, where, late)
    upserts.run(1, ranges_of(1))

    assert upserts.rows() == {b"a": 3, b"d": 4}
    history = [note for note in DeltaTable(job.table).history() if tables.METADATA in note]
    assert sorted(note[tables.METADATA]["batchId"] for note in history) == [0, 1]


def test_a_task_that_fails_leaves_no_changes_of_the_columns_before_nor_of_those_since(tmp_path: Path) -> None:
    files = upsert.ChangeFiles(str(tmp_path), "app", 0)
    for names in (["id"], ["id", "name"]):
        files.write(pa.RecordBatch.from_pydict({name: [1] for name in names}))
    assert len(left_behind(str(tmp_path))) == 2

    files.discard()

    assert left_behind(str(tmp_path)) == []


def test_changes_that_the_driver_does_not_see_are_said(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a worker with a disk of its own."""
    upserts = Upserts(job)
    upserts.run(0, ranges_of(0))
    goes_on = upsert.last_changes

    def without_files(path: str, files: Sequence[TableFile], schema: pa.Schema) -> pa.Table:
        upsert.discard(path, files)
        return goes_on(path, files, schema)

    monkeypatch.setattr(upsert, "last_changes", without_files)
    with pytest.raises(NotShared, match="executors and driver have to share the directory of the table"):
        upserts.run(1, ranges_of(1))


def test_a_batch_meets_another_writer_and_is_merged_into_what_that_left(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    upserts = Upserts(job)
    upserts.run(0, ranges_of(0))
    merge = upsert._merge
    others = []

    def late(*given: Any) -> None:
        if not others:
            others.append(DeltaTable(job.table).optimize.compact())
            DeltaTable(job.table).delete("id = 2")
        merge(*given)

    monkeypatch.setattr(upsert, "_merge", late)
    upserts.run(1, ranges_of(1))

    assert upserts.rows() == {b"a": 3, b"d": 4}


def test_records_without_a_key_are_letters_or_left_out_or_stop_the_job(
    job: TablesJob, client: SyncClient
) -> None:
    end = sum(len(batch) for batch in BATCHES)
    produce(client, job.topics[0], (None, b'{"id":9}'), (b"z", b'{"id":10}'), (b"a", b"no json"))
    span = [(0, end + 3)]

    with pytest.raises(
        BadValue, match=f"offset {end}: no key, and the table has one row a key; the job stops"
    ):
        Upserts(job, "pause").run(0, span)
    assert left_behind(job.table) == []
    Upserts(job).run(0, span)
    assert Upserts(job).rows() == {**LAST, b"z": 10}, "a letter changes nothing"
    letters = [(x.offset, x.stage, x.error) for x in dead_letters(job.table)]
    assert letters[0] == (end, "key", "no key, and the table has one row a key")
    assert [x[0] for x in letters] == [end, end + 2]
    assert verify(job.table, job.bootstrap).is_equal

    with pytest.raises(ConfigurationError, match="a letter would take the place of what came after it"):
        replay(job.table)

    skipping = job._replace(table=f"{job.table}-2")
    Upserts(skipping, "skip").run(0, [(0, end + 2)])
    assert Upserts(skipping).rows() == {**LAST, b"z": 10}
    with pytest.raises(CannotVerify, match="dropped by --on-error skip"):
        verify(skipping.table, job.bootstrap)


@pytest.mark.parametrize("batches", [[ranges_of(0)], [[(0, 2)], [(2, 3)]]])
def test_a_letter_whose_record_a_later_attempt_has_merged_is_a_row_to_verify(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch, batches: list[list[tuple[int, int]]]
) -> None:
    """Or a later batch, where the attempt that left it had read more than the batch that came again."""

    def dies(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(upsert, "merge", dies)
        Upserts(job._replace(schema="id STRING")).run(0, ranges_of(0))
    for batch_id, ranges in enumerate(batches):
        Upserts(job).run(batch_id, ranges)

    assert Upserts(job).rows() == {b"a": 3, b"b": 2}
    assert [x.is_replayed for x in dead_letters(job.table)] == [True] * 3
    assert verify(job.table, job.bootstrap).is_equal


def test_a_tombstone_deletes_the_row_where_a_column_is_not_null(job: TablesJob) -> None:
    """It has no value, and wants no row."""
    first = planned(job).shape
    assert first is not None
    fields = [pa.field("id", pa.int64(), nullable=False), *list(first.schema)[1:]]
    write_deltalake(job.table, pa.schema(fields).empty_table())
    upserts = Upserts(job._replace(schema=""))

    for batch_id in range(3):
        upserts.run(batch_id, ranges_of(batch_id))

    assert upserts.rows() == {b"a": 3, b"d": 4}
    assert dead_letters(job.table) == []
    assert verify(job.table, job.bootstrap).is_equal


@pytest.mark.parametrize("name", ["__deleted", "a`b", 'a"b', "a.b", "s", "T"])
def test_a_field_may_have_any_name_that_a_column_has(
    cluster: ProcessCluster, make_topic: MakeTopic, client: SyncClient, tmp_path: Path, name: str
) -> None:
    """`__deleted` is what Debezium adds to each value where it is told to keep those that are deleted."""
    batches = [[(b"a", json.dumps({name: n}).encode()), (b"b", b"{}")] for n in range(2)]
    given = job_of(cluster, client, make_topic(), tmp_path / "table", batches)
    upserts = Upserts(given._replace(schema=""))

    upserts.run(0, [(0, 2)])
    upserts.run(1, [(2, 4)])

    found = DeltaTable(given.table).to_pyarrow_table()
    assert found.column_names == [name, *META, "__batch"]
    assert dict(zip(*(found.column(n).to_pylist() for n in ("__key", name)), strict=True)) == {
        b"a": 1,
        b"b": None,
    }
    assert verify(given.table, given.bootstrap).is_equal


def test_the_newest_record_of_a_task_is_that_of_all_its_ranges(job: TablesJob) -> None:
    """How far the table is behind would be told by whatever came last."""
    source, (topic,) = parse(job.source_options()), job.topics
    wanted = [OffsetRange(topic, 0, 0, 3), OffsetRange(topic, 0, 6, 7)]

    done = write_ranges(wanted, source.connection, schema_of(source), Upserts(job).options(), batch_id=0)

    assert done.newest_ms == 1_700_000_000_002, "of the last record it is ..._000"


def test_records_as_they_are_are_upserted_too(job: TablesJob) -> None:
    raw = Upserts(job._replace(format="raw", schema=""))
    for batch_id in range(len(BATCHES)):
        raw.run(batch_id, ranges_of(batch_id))

    found = DeltaTable(job.table).to_pyarrow_table().to_pylist()
    assert {row["key"]: row["value"] for row in found} == {b"a": b'{"id":5}', b"e": b"{}"}
    assert verify(job.table, job.bootstrap).is_equal


def test_of_a_key_in_several_partitions_the_greater_offset_of_a_batch_is_the_last(
    cluster: ProcessCluster, make_topic: MakeTopic, client: SyncClient, tmp_path: Path
) -> None:
    """Where partitions were added, say. `verify` takes the same for the last as the merge."""
    topic = make_topic(partitions=2)
    produce(client, topic, (b"a", b'{"id":1}'), (b"b", b'{"id":2}'), (b"a", b'{"id":3}'), (b"c", None))
    produce(client, topic, (b"a", b'{"id":4}'), (b"b", None), (b"d", b'{"id":5}'), partition=1)
    produce(client, topic, (b"c", b'{"id":6}'), partition=1)
    upserts = Upserts(job_of(cluster, client, topic, tmp_path / "table", []))

    upserts.run_tasks(0, [[OffsetRange(topic, 0, 0, 4)], [OffsetRange(topic, 1, 0, 4)]])

    # At the same offset (of b and c) it is the greater partition.
    assert upserts.rows() == {b"a": 3, b"d": 5, b"c": 6}
    assert verify(upserts.job.table, cluster.bootstrap).is_equal


def test_of_a_key_at_one_offset_of_two_topics_the_later_topic_has_the_last(
    cluster: ProcessCluster, make_topic: MakeTopic, client: SyncClient, tmp_path: Path
) -> None:
    """By its name: in which order tasks end decides nothing."""
    topics = sorted([make_topic(), make_topic()])
    for n, topic in enumerate(topics):
        produce(client, topic, (b"a", b'{"id":%d}' % n), (b"b", b'{"id":2}' if n == 0 else None))
    job = job_of(cluster, client, topics[0], tmp_path / "table", [])
    upserts = Upserts(job._replace(topics=tuple(topics)))

    upserts.run_tasks(0, [[OffsetRange(topic, 0, 0, 2)] for topic in reversed(topics)])

    assert upserts.rows() == {b"a": 1}
    assert verify(job.table, cluster.bootstrap).is_equal


def test_records_between_two_batches_that_none_tells_of_are_missed_by_verify(job: TablesJob) -> None:
    """A table that was put back to how it was, and went on: in the topic b is deleted."""
    upserts = Upserts(job)
    for batch_id in (0, 3):
        upserts.run(batch_id, ranges_of(batch_id))

    assert upserts.rows() == {b"a": 5, b"b": 2, b"e": None}
    assert not verify(job.table, job.bootstrap).is_equal


def test_of_one_application_the_rows_of_others_are_not_held_against_it(
    job: TablesJob, cluster: ProcessCluster, make_topic: MakeTopic, client: SyncClient
) -> None:
    """Each reads a topic of its own, with keys of its own."""
    other = job_of(
        cluster, client, make_topic(), Path(job.table), [[(b"x", b'{"id":7}'), (b"y", b'{"id":8}')]]
    )
    for batch_id in range(len(BATCHES)):
        Upserts(job).run(batch_id, ranges_of(batch_id))
    Upserts(other).run(0, [(0, 2)])

    assert verify(job.table, job.bootstrap).is_equal
    for one, rows in ((job, 2), (other, 2)):
        found = verify(job.table, job.bootstrap, app_id=one.name)
        assert found.is_equal and found.table_side.count == rows
    DeltaTable(job.table).delete("__key = X'79'")
    assert verify(job.table, job.bootstrap, app_id=job.name).is_equal
    assert not verify(job.table, job.bootstrap, app_id=other.name).is_equal


def test_what_one_application_has_dropped_is_not_held_against_another(
    job: TablesJob, cluster: ProcessCluster, make_topic: MakeTopic, client: SyncClient
) -> None:
    """Nor do its dead letters stand for what the other has dropped."""
    other = job_of(
        *(cluster, client, make_topic(), Path(job.table), [[(b"x", b"no JSON"), (b"y", b'{"id":8}')]]),
        on_error="skip",
    )
    produce(client, job.topics[0], (b"z", b"no JSON"))
    for batch_id in range(len(BATCHES)):
        Upserts(job).run(batch_id, ranges_of(batch_id))
    end = sum(map(len, BATCHES))
    Upserts(job).run(len(BATCHES), [(end, end + 1)])
    Upserts(other).run(0, [(0, 2)])

    assert verify(job.table, job.bootstrap, app_id=job.name).is_equal
    for one in (other.name, None):
        with pytest.raises(CannotVerify, match="dropped by --on-error skip"):
            verify(job.table, job.bootstrap, app_id=one)


def test_a_letter_of_two_applications_stands_for_what_each_has_refused(
    job: TablesJob, client: SyncClient
) -> None:
    """The checkpoint was lost, and the job goes on under another id, as it is told to."""
    produce(client, job.topics[0], (b"z", b"no JSON"))
    end = sum(map(len, BATCHES)) + 1
    anew = job._replace(app_id="anew")
    for one in (job, anew):
        Upserts(one).run(0, [(0, end)])

    for app_id in (job.name, "anew", None):
        assert verify(job.table, job.bootstrap, app_id=app_id).is_equal
    Upserts(anew._replace(app_id="skips", on_error="skip")).run(0, [(0, end - 1)])
    produce(client, job.topics[0], (b"z", b"no JSON"))
    Upserts(anew._replace(app_id="skips", on_error="skip")).run(1, [(end - 1, end + 1)])
    for app_id in ("skips", None):
        with pytest.raises(CannotVerify, match="dropped by --on-error skip"):
            verify(job.table, job.bootstrap, app_id=app_id)


def test_of_a_key_that_two_applications_have_merged_the_later_commit_has_the_last(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint was lost, and the job goes on under another id, which comes first in the order of names."""
    old, new = Upserts(job), Upserts(job._replace(app_id="anew"))
    old.run(0, ranges_of(0))
    for batch_id in range(len(BATCHES)):
        new.run(batch_id, ranges_of(batch_id))

    assert new.rows() == LAST and verify(job.table, job.bootstrap).is_equal
    monkeypatch.setattr(tables, "_in_log", lambda _: iter(()))
    with pytest.raises(
        CannotVerify, match=r"applications 'tables:.*' and 'anew', and Delta's log does not reach back"
    ):
        verify(job.table, job.bootstrap)
    assert verify(job.table, job.bootstrap, app_id="anew").is_equal


def test_a_full_disk_is_a_sentence_and_leaves_no_file(tmp_path: Path) -> None:
    schema = rows_schema(("key", "value", "topic", "partition", "offset"))
    values = [str(n * 7919).encode() * 50 for n in range(3_000)]
    columns = [[b"k"] * 3_000, values, ["t"] * 3_000, [0] * 3_000, list(range(3_000))]
    rows = pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )
    options = TableOptions(str(tmp_path / "table"), "app", upserts="dlq")

    with (
        pytest.raises(
            CannotWrite, match=r"changes: .*; nothing of batch 4 is in the table, .* there is room"
        ),
        full_disk(20_000),
    ):
        _write_changes([(rows, [])], from_arrow_schema(schema), options, 4)

    assert not [path for path in (tmp_path / "table").rglob("*") if path.is_file()]


def test_of_a_task_that_fails_neither_changes_nor_letters_are_left(tmp_path: Path) -> None:
    schema = rows_schema((*COLUMNS, "headers"))
    records = pa.RecordBatch.from_pylist(
        [
            {"key": key, "value": b"v", "topic": "t", "partition": 0, "offset": n}
            for n, key in enumerate((None, b"k"))
        ],
        schema,
    )
    options = TableOptions(str(tmp_path / "table"), "app", upserts="dlq")

    def files() -> list[Path]:
        """Without their marks, which go with the next commit."""
        return [path for path in (tmp_path / "table").rglob("*.parquet") if "in_work" not in path.parts]

    def read() -> Iterator[tuple[pa.RecordBatch, list[Any]]]:
        yield records, []
        assert files(), "one of letters is begun"
        raise Died

    with pytest.raises(Died):
        _write_changes(read(), from_arrow_schema(schema), options, 4)

    assert files() == []


def test_what_went_wrong_in_a_task_is_said_though_the_store_does_not_delete_its_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: str) -> None:
        raise StoreError("the store cannot be reached")

    def read() -> Iterator[tuple[pa.RecordBatch, list[Any]]]:
        monkeypatch.setattr(upsert, "storage_of", away)
        raise Died
        yield

    schema = rows_schema(COLUMNS)
    options = TableOptions(str(tmp_path / "table"), "app", upserts="dlq")
    with pytest.raises(Died):
        _write_changes(read(), from_arrow_schema(schema), options, 4)


def test_changes_and_letters_of_a_batch_that_fails_are_deleted_and_others_are_not(
    job: TablesJob, client: SyncClient
) -> None:
    """By the driver, for its tasks have ended."""
    upserts = Upserts(job)
    produce(client, job.topics[0], (None, b"{}"))
    end = sum(len(batch) for batch in BATCHES) + 1
    source = parse(job.source_options())

    def task(batch_id: int) -> Written:
        wanted = [OffsetRange(job.topics[0], 0, 0, end)]
        return write_ranges(
            wanted, source.connection, schema_of(source), upserts.options(), batch_id=batch_id
        )

    failed, other = task(0), task(1)
    DeltaWriter(upserts.options(), StructType()).abort([failed, None], 0)

    assert [path.name for path in left_behind(job.table)] == [file.name for file in other.files]
    letters = {path.name for path in Path(upserts.options().letters).glob("*.parquet")}
    assert letters == {file.name for file in other.letters} != set()


def test_changes_up_to_a_batch_are_forgotten_and_those_behind_it_are_not(tmp_path: Path) -> None:
    """Another driver may be at the next batch already."""
    table = str(tmp_path)
    changes = Path(upsert.changes_directory(table))
    changes.mkdir(parents=True)
    names = [file_name("app", batch) for batch in (0, 1, 2)]
    others = [file_name("another", 0), "notes.txt"]
    for name in (*names, *others):
        (changes / name).touch()

    upsert.forget(table, "app", 1)

    assert sorted(path.name for path in changes.iterdir()) == sorted([names[2], *others])


def test_a_key_that_was_written_with_two_schemas_is_one_to_verify_too(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    """As where a producer has registered a schema with another documentation: the bytes before the key are others."""
    with registry() as server:
        topic = make_topic()
        for schema_id in (7, 8):
            server.has(schema_id, {"type": "string", "doc": str(schema_id)}, subject=f"{topic}-key")
        keys = [framed(schema_id, written("string", "a")) for schema_id in (7, 8)]
        batch = [(key, b'{"id":%d}' % n) for n, key in enumerate(keys)]
        job = job_of(
            cluster, client, topic, tmp_path / "table", [batch], key_format="avro", registry=server.url
        )
        upserts = Upserts(job)
        assert upserts.shape is not None
        keep_shape(job.table, upserts.shape)
        upserts.run(0, [(0, 2)])

    assert upserts.rows() == {"a": 1}
    assert verify(job.table, job.bootstrap).is_equal


@pytest.mark.parametrize("on_null", ["dlq", "skip", "pause"])
def test_a_key_that_is_null_once_it_is_decoded_is_none(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path, on_null: str
) -> None:
    """No key is equal to null in a MERGE: each batch had a row more of them."""
    with registry() as server:
        topic = make_topic()
        server.has(7, ["null", "string"], subject=f"{topic}-key")
        keys = [framed(7, b"\x00"), framed(7, b"\x02\x02a"), framed(7, b"\x00")]
        batches = [[(key, b'{"id":%d}' % n)] for n, key in enumerate(keys)]
        job = job_of(
            cluster, client, topic, tmp_path / "table", batches, key_format="avro", registry=server.url
        )
        upserts = Upserts(job, on_null)
        assert upserts.shape is not None
        keep_shape(job.table, upserts.shape)
        if on_null == "pause":
            with pytest.raises(
                BadValue, match=f"{topic}-0, offset 0: no key, and the table has one row a key"
            ):
                upserts.run(0, [(0, 1)])
            return
        for batch_id in range(3):
            upserts.run(batch_id, [(batch_id, batch_id + 1)])

    assert upserts.rows() == {"a": 1}
    letters = [(letter.offset, letter.stage, letter.key) for letter in dead_letters(job.table)]
    assert letters == ([(0, "key", keys[0]), (2, "key", keys[2])] if on_null == "dlq" else [])
    if on_null == "dlq":
        assert verify(job.table, job.bootstrap).is_equal
    else:
        with pytest.raises(CannotVerify, match="dropped by --on-error skip"):
            verify(job.table, job.bootstrap)


@pytest.mark.parametrize("kind", ["float", "double"])
def test_keys_are_the_same_where_their_bytes_are(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path, kind: str
) -> None:
    """As to compaction, and to `verify`. To SQL 0.0 is -0.0: one took the place of both, and was there twice."""
    numbers = [0.0, -0.0, math.nan, 0.0, -0.0, math.nan]
    with registry() as server:
        topic = make_topic()
        server.has(7, {"type": kind}, subject=f"{topic}-key")
        form = "<f" if kind == "float" else "<d"
        keys = [framed(7, struct.pack(form, number)) for number in numbers]
        records = [(key, b'{"id":%d}' % n) for n, key in enumerate(keys)]
        job = job_of(
            cluster,
            client,
            topic,
            tmp_path / "table",
            [[*records, (keys[1], None)]],
            key_format="avro",
            registry=server.url,
        )
        upserts = Upserts(job)
        assert upserts.shape is not None
        keep_shape(job.table, upserts.shape)
        for batch_id, ends in enumerate([(0, 3), (3, 4), (4, 6), (6, 7)]):
            upserts.run(batch_id, [ends])

    found = DeltaTable(job.table).to_pyarrow_table().select(["__key", "id"]).to_pylist()
    assert sorted((str(row["__key"]), row["id"]) for row in found) == [("0.0", 3), ("nan", 5)]
    assert verify(job.table, job.bootstrap).is_equal


def test_a_table_that_is_partitioned_is_refused_before_spark_is_started(job: TablesJob) -> None:
    """The sentence of its first batch said to run the same line again."""
    columns = planned(job).shape
    assert columns is not None
    DeltaTable.create(job.table, Schema.from_arrow(columns.schema), partition_by=["id"])

    with pytest.raises(ConfigurationError, match=r"--upsert-by key: .* is partitioned by id"):
        planned(job)


def test_who_upserts_goes_on_upserting(job: TablesJob, tmp_path: Path) -> None:
    Upserts(job).run(0, ranges_of(0))
    of_lists = tmp_path / "lists.avsc"
    of_lists.write_text('{"type": "array", "items": "long"}')

    with pytest.raises(ConfigurationError, match="was written with --upsert-by so far"):
        planned(job._replace(upsert_by=""))
    with pytest.raises(ConfigurationError, match=r"one row a key, as application 'tables:.*' has merged it"):
        planned(job._replace(upsert_by="", app_id="another"))
    assert planned(job._replace(app_id="another")).version == 1
    for changed, sentence in (
        ({"upsert_by": "id"}, "--upsert-by id: expected key"),
        ({"has_meta": False}, "needs the columns of ours"),
        ({"key_format": "json", "key_schema": "id BIGINT"}, "keys of one value"),
        ({"key_format": "avro", "key_schema_file": str(of_lists)}, "keys of one value"),
    ):
        with pytest.raises(ConfigurationError, match=sentence):
            planned(job._replace(table=f"{job.table}-2", **changed))  # type: ignore[arg-type]


def test_a_table_of_other_columns_is_not_merged_into(job: TablesJob) -> None:
    import pyarrow as pa

    write_deltalake(job.table, pa.table({"other": [1]}))
    with pytest.raises(tables.WrongTable):
        Upserts.run(_of_no_plan(job), 0, ranges_of(0))


def _of_no_plan(job: TablesJob) -> Upserts:
    upserts = Upserts(job._replace(table=f"{job.table}-none"))
    upserts.job = job
    return upserts


@pytest.mark.spark
def test_a_job_upserts(spark: "SparkSession", job: TablesJob) -> None:
    plan = planned(job._replace(max_offsets_per_trigger=5))
    batches = [b for b in followed(plan.start(spark), plan, lambda: False, spark) if b is not None]

    assert [batch.rows for batch in batches] == [5, 5]
    assert Upserts(job).rows() == LAST
    assert verify(job.table, job.bootstrap).is_equal


GROWING: list[list[tuple[bytes | None, bytes | None]]] = [
    [(b"a", b'{"id":1}'), (b"b", b'{"id":2}')],
    [(b"a", b'{"id":3,"name":"ink"}'), (b"c", b'{"id":4}'), (b"d", b'{"id":5,"at":{"street":"x"}}')],
    [(b"b", None), (b"d", b'{"id":6,"name":7}'), (b"e", b'{"id":8,"name":"pen"}')],
]
GROWN = {
    b"a": (3, "ink", None),
    b"c": (4, None, None),
    b"d": (5, None, {"street": "x"}),  # what came later is a letter: its name is no text
    b"e": (8, "pen", None),
}


@pytest.fixture
def growing(
    cluster: ProcessCluster, make_topic: MakeTopic, client: SyncClient, tmp_path: Path
) -> "GrowingUpserts":
    job = job_of(cluster, client, make_topic(), tmp_path / "table", GROWING, evolve="add")
    return GrowingUpserts(job)


class GrowingUpserts(Upserts):
    def options(self, switch: Any = OFF) -> TableOptions:
        evolve, there = Evolve.of(self.job.evolve), columns_of(self.job.table)
        return super().options(switch)._replace(evolve=evolve, there=there)

    def run_batch(self, batch_id: int, switch: Any = OFF) -> None:
        first = sum(len(batch) for batch in GROWING[:batch_id])
        last = first + len(GROWING[batch_id])
        self.run(batch_id, [(first, last - 1), (last - 1, last)], switch)

    def found(self) -> dict[bytes, Any]:
        rows = DeltaTable(self.job.table).to_pyarrow_table().to_pylist()
        assert len({row["__key"] for row in rows}) == len(rows), "a key is there once"
        return {row["__key"]: (row["id"], row["name"], row["at"]) for row in rows}


@pytest.mark.parametrize("step", ["", *STEPS])
def test_columns_are_added_by_the_merge_that_has_the_rows_wherever_the_driver_dies(
    growing: GrowingUpserts, step: str
) -> None:
    class Switch:
        @staticmethod
        def at(at: str, batch: int) -> None:
            if (at, batch) == (step, 1):
                raise Died

        when_gone = staticmethod(lambda at, batch, holder: Switch.at(at, batch))

    growing.run_batch(0)
    if step:
        with pytest.raises(Died):
            growing.run_batch(1, Switch())
        is_there = step in ("after-commit", "before-checkpoint")
        names = {field.name for field in DeltaTable(growing.job.table).schema().fields}
        assert ({"name", "at"} <= names) is is_there, "columns and rows, or neither"
    for batch_id in (1, 2):
        growing.run_batch(batch_id)

    table = DeltaTable(growing.job.table)
    assert growing.found() == GROWN
    assert upsert.DELETED not in {field.name for field in table.schema().fields}
    (changed,) = (note["schema"] for note in tables.notes(table) if "schema" in note)
    assert set(changed.split("; ")) == {"adds name STRING", "adds at STRUCT<street: STRING>"}
    assert [(x.offset, x.stage) for x in dead_letters(growing.job.table)] == [(6, "value")]
    assert verify(growing.job.table, growing.job.bootstrap).is_equal
    assert left_behind(growing.job.table) == []
    assert [*(Path(growing.job.table) / "_odradek" / "columns").glob("*")] == []


def test_of_two_drivers_that_add_the_same_columns_one_merges(
    growing: GrowingUpserts, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing.run_batch(0)
    merge = upsert._merge
    others = []

    def late(*given: Any) -> None:
        if not others:
            others.append(1)
            growing.run_batch(1)
        merge(*given)

    monkeypatch.setattr(upsert, "_merge", late)
    growing.run_batch(1)
    growing.run_batch(2)

    assert growing.found() == GROWN
    history = [note for note in DeltaTable(growing.job.table).history() if tables.METADATA in note]
    assert sorted(note[tables.METADATA]["batchId"] for note in history) == [0, 1, 2]


def test_columns_that_another_writer_has_added_first_are_not_noted_as_the_batchs_own(
    growing: GrowingUpserts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first attempt would have added them, and lost against that one."""
    growing.run_batch(0)
    merge = upsert._merge
    others: list[Any] = []

    def late(table: DeltaTable, *given: Any) -> None:
        if not others:
            added = [("name", pa.string()), ("at", pa.struct([("street", pa.string())]))]
            others.append(added)
            DeltaTable(growing.job.table).alter.add_columns(
                [Field.from_arrow(pa.field(name, kind)) for name, kind in added]
            )
        merge(table, *given)

    monkeypatch.setattr(upsert, "_merge", late)
    growing.run_batch(1)
    growing.run_batch(2)

    assert growing.found() == GROWN
    assert [note for note in tables.notes(DeltaTable(growing.job.table)) if "schema" in note] == []


@pytest.mark.parametrize("is_chosen", [False, True])
def test_a_column_of_days_that_came_later_makes_no_table_unreadable_either(
    cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path, is_chosen: bool
) -> None:
    """As where a schema in a registry gets one: the table was made without such a column, and so with bounds of all columns, or those
    that somebody has chosen, who keeps them."""
    day = {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]}
    schemas = [
        {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}, *more]}
        for more in ([], [day])
    ]
    values = [{"id": 1}, {"id": 3, "day": 3_000_000}]
    with registry() as server:
        topic = make_topic()
        for schema_id, schema in enumerate(schemas, 7):
            server.has(schema_id, schema, subject=f"{topic}-value")
        batches: list[Batch] = [
            [(b"a", framed(schema_id, written(schema, value)))]
            for schema_id, (schema, value) in enumerate(zip(schemas, values, strict=True), 7)
        ]
        job = job_of(cluster, client, topic, tmp_path / "table", batches)._replace(
            format="avro", schema="id BIGINT", registry=server.url, evolve="add"
        )
        upserts = GrowingUpserts(job)
        for batch_id in range(2):
            upserts.run(batch_id, [(batch_id, batch_id + 1)])
            if is_chosen and not batch_id:
                chosen = {"delta.dataSkippingStatsColumns": "`id`"}
                DeltaTable(job.table).alter.set_table_properties(chosen)

    found = DeltaTable(job.table).to_pyarrow_table().select(["id", "day"])
    bounded = DeltaTable(job.table).metadata().configuration["delta.dataSkippingStatsColumns"]
    assert bounded == "`id`" if is_chosen else "`__offset`" in bounded.split(",")
    assert found.cast(pa.schema([("id", pa.int64()), ("day", pa.int32())])).to_pylist() == [values[1]]
    assert verify(job.table, job.bootstrap).is_equal


def test_what_merge_cannot_change_is_refused(growing: GrowingUpserts) -> None:
    for evolve in ("widen", "add,relax"):
        with pytest.raises(
            ConfigurationError, match=f"--evolve {evolve}: with --upsert-by columns can be added"
        ):
            growing.job._replace(evolve=evolve).check()
    growing.run_batch(0)
    growing.job = growing.job._replace(evolve="none")
    growing.run_batch(1)
    assert {field.name for field in DeltaTable(growing.job.table).schema().fields} & {"name", "at"} == set()


@pytest.mark.spark
def test_a_job_upserts_into_columns_that_grow(spark: "SparkSession", growing: GrowingUpserts) -> None:
    plan = planned(growing.job._replace(max_offsets_per_trigger=3))
    assert dict(plan.lines())["evolves"] == "add: in the same commit as the rows that ask for it"
    batches = [b for b in followed(plan.start(spark), plan, lambda: False, spark) if b is not None]

    assert [batch.rows for batch in batches] == [3, 3, 1]
    assert growing.found() == GROWN
    assert verify(growing.job.table, growing.job.bootstrap).is_equal
