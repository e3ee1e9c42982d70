"""Topics into tables with columns: what is known before Spark starts, what tasks and driver do, and one whole run."""

import json
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from py4j.protocol import Py4JNetworkError
from pyspark.logger import PySparkLogger
from pyspark.sql.types import StructType

from odradek.cli.main import main
from odradek.cli.output import Failed
from odradek.cli.spark.running import _asked_to_stop, run_until_stopped
from odradek.client.sync import SyncClient
from odradek.model.errors import ConfigurationError, OdradekError
from odradek.model.ids import NO_TOPIC_ID, TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.spark import dead_letters as letters_module
from odradek.spark import replay as replay_module
from odradek.spark import session as session_module
from odradek.spark import tables
from odradek.spark.arrow_schema import rows_schema
from odradek.spark.data_loss import DataLoss
from odradek.spark.ddl import schema_of as schema_of_text
from odradek.spark.ddl import text_of
from odradek.spark.dead_letters import (
    NoTable,
    ReadOtherwise,
    TakenByAnother,
    dead_letters,
    keep_shape,
    replayed,
)
from odradek.spark.evolution import Evolve
from odradek.spark.job_file import jobs_of
from odradek.spark.jobs import tables as tables_module
from odradek.spark.jobs.tables import Batch, TablesJob, _batch, followed, planned, run, start
from odradek.spark.kill_switch import OFF
from odradek.spark.on_error import TooManyLetters
from odradek.spark.options import parse
from odradek.spark.parts import Overlap
from odradek.spark.ranges import OffsetRange
from odradek.spark.replay import replay
from odradek.spark.sentence import is_of_a_dead_jvm, sentence_of
from odradek.spark.session import _said_into
from odradek.spark.shape import BadValue, Shape
from odradek.spark.sink import DESCRIPTION, DeltaWriter
from odradek.spark.source import schema_of
from odradek.spark.table_files import Layout
from odradek.spark.verify import verify
from odradek.spark.writing import TableOptions, Written, dead_letters_of, write_ranges
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import fill
from tests.spark.test_data_loss import made_again
from tests.spark.test_verify import delete_below

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeTopic = Callable[..., str]
GOOD = [b'{"id":%d,"name":"n%d"}' % (n, n) for n in range(6)]
BAD = [b"no json", b'{"id":"seven"}']


def job_of(cluster: ProcessCluster, client: SyncClient, topic: str, table: str, **more: str) -> TablesJob:
    """Of a topic of two partitions, which gets six values that fit and two that do not."""
    fill(client, topic, 0, [*GOOD[:4], BAD[0]])
    fill(client, topic, 1, [*GOOD[4:], BAD[1]])
    return TablesJob(
        cluster.bootstrap,
        (topic,),
        table,
        format="json",
        schema="id BIGINT, name STRING",
        is_once=True,
        **more,
    )


@pytest.fixture
def job(cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path) -> TablesJob:
    return job_of(cluster, client, make_topic(partitions=2), str(tmp_path / "table"))


def task(
    job: TablesJob,
    shape: Shape,
    partition: int,
    end: int,
    *,
    batch_id: int = 0,
    begin: int = 0,
    topic_id: bytes = NO_TOPIC_ID,
) -> Written:
    options = parse(job.source_options())
    table = writer(job, shape).options
    wanted = OffsetRange(job.topics[0], partition, begin, end, topic_id)
    done = write_ranges([wanted], options.connection, schema_of(options), table, batch_id=batch_id)
    return Written.from_text(done.to_text())


def writer(job: TablesJob, shape: Shape) -> DeltaWriter:
    layout = Layout.of(job.partition_by, "", "")
    return DeltaWriter(TableOptions(job.table, job.name, OFF, shape=shape, layout=layout), StructType())


def columns_of(job: TablesJob) -> Shape:
    shape = planned(job).shape
    assert shape is not None
    return shape


def test_a_batch_is_rows_and_dead_letters_each_once_and_verify_proves_it(job: TablesJob) -> None:
    shape = columns_of(job)
    done = [task(job, shape, 0, 5), task(job, shape, 1, 3)]
    again = [task(job, shape, 0, 5), task(job, shape, 1, 3)]

    writer(job, shape).commit(done, 0)
    writer(job, shape).commit(again, 0)  # as after a crash behind the commit

    rows = sorted(DeltaTable(job.table).to_pyarrow_table().to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["name"]) for row in rows] == [(n, f"n{n}") for n in range(6)]
    assert [(row["__partition"], row["__offset"]) for row in rows] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 0),
        (1, 1),
    ]
    topic = job.topics[0]
    assert [(x.topic, x.partition, x.offset, x.value) for x in dead_letters(job.table)] == [
        (topic, 0, 4, BAD[0]),
        (topic, 1, 2, BAD[1]),
    ]
    assert dead_letters(job.table)[1].error == "field (id) changed from number to string"
    note = tables.noted(job.table, job.name, 0)
    assert note is not None and (note["records"], note["letters"], note["files"]) == (6, 2, 2)
    assert note["newestMs"] == 1_700_000_000_004
    report = verify(job.table, job.bootstrap)
    assert report.is_equal and report.rows is not None and report.topic_side.count == 8
    every = {path.name for path in Path(job.table).rglob("*.parquet") if "_odradek" not in path.parts}
    assert every == {uri.rsplit("/", 1)[-1] for uri in DeltaTable(job.table).file_uris()}


def test_how_many_letters_are_too_many_counts_those_of_all_tasks(job: TablesJob) -> None:
    shape = columns_of(job)._replace(most_letters="1")

    with pytest.raises(TooManyLetters, match="2 of 8 records in this batch become no row"):
        writer(job, shape).commit([task(job, shape, 0, 5), task(job, shape, 1, 3)], 0)


def test_offsets_that_retention_took_from_a_batch_are_counted_where_that_is_allowed(
    job: TablesJob, client: SyncClient
) -> None:
    """The part of the batch begins where the batch before ended, so what is lost within it does not show there."""
    lenient = job._replace(fails_on_data_loss=False)
    shape, topic = columns_of(job), job.topics[0]
    writer(job, shape).commit([task(lenient, shape, 0, 1), task(lenient, shape, 1, 1)], 0)
    delete_below(client, topic, 3)

    with pytest.raises(DataLoss, match="offsets 1 to 5 were asked for, but the log now holds 3 to 5"):
        task(job, shape, 0, 5, begin=1, batch_id=1)
    with pytest.warns(UserWarning, match="this query leaves out the offsets below 3"):
        read = task(lenient, shape, 0, 5, begin=1, batch_id=1)
    writer(job, shape).commit([read], 1)

    note = tables.noted(job.table, job.name, 1)
    assert note is not None and note["lost"] == 2
    began, ended = (json.dumps({topic: {"offsets": {"0": n, "1": 1}}}) for n in (1, 5))
    progress: Any = {
        "batchId": 1,
        "sources": [{"startOffset": began, "endOffset": ended, "latestOffset": ended}],
        "durationMs": {"triggerExecution": 1},
    }
    assert str(_batch(progress, note)).endswith("  2 offsets lost")
    del note["lost"]  # as of an older release
    assert str(_batch(progress, note)).endswith(" s)")


def test_a_row_names_the_batch_that_brought_it(job: TablesJob) -> None:
    shape = columns_of(job)
    writer(job, shape).commit([task(job, shape, 0, 5, batch_id=7)], 7)
    writer(job, shape).commit([task(job, columns_of(job), 1, 3, batch_id=8)], 8)

    found = DeltaTable(job.table).to_pyarrow_table().sort_by([("__partition", "ascending")])
    assert (found.column_names[-1], found.column("__batch").to_pylist()) == ("__batch", [7] * 4 + [8] * 2)
    assert verify(job.table, job.bootstrap).is_equal


def test_a_table_of_an_older_release_does_not_get_the_column_of_batches(job: TablesJob) -> None:
    """Its own field of that name stays what values have."""
    fields = schema_of_text("id BIGINT, name STRING, `__batch` BIGINT")
    old = columns_of(job)._replace(columns=fields, has_batch=False)
    writer(job, old).commit([task(job, old, 0, 5)], 0)

    goes_on = columns_of(job._replace(schema=""))
    writer(job, goes_on).commit([task(job, goes_on, 1, 3, batch_id=1)], 1)

    assert (goes_on.has_batch, goes_on.columns.names) == (False, fields.names)
    found = DeltaTable(job.table).to_pyarrow_table()
    assert found.column("__batch").null_count == found.num_rows == 6
    with pytest.raises(
        ConfigurationError, match=r"the values have a field __batch, .* --meta off leaves ours out"
    ):
        planned(job._replace(table=f"{job.table}-new", schema="id BIGINT, `__batch` BIGINT"))


def test_a_table_of_an_older_release_gets_no_field_in_the_place_of_the_column_of_batches(
    job: TablesJob,
) -> None:
    old = columns_of(job)._replace(has_batch=False)
    writer(job, old).commit([task(job, old, 0, 5)], 0)
    wanted = f"{text_of(old.columns)}, `__batch` BIGINT"

    with pytest.raises(
        ConfigurationError, match=r"the values have a field __batch, .* --meta off leaves ours out"
    ):
        planned(job._replace(schema=wanted, evolve="add"))


def test_a_batch_that_fails_leaves_neither_rows_nor_letters(job: TablesJob) -> None:
    shape = columns_of(job)
    done = [task(job, shape, 0, 5)]

    writer(job, shape).abort(done, 0)

    assert not list(Path(job.table).rglob("*.parquet"))


def dies_behind_the_letters(
    job: TablesJob, shape: Shape, monkeypatch: pytest.MonkeyPatch, tasks: list[Written], batch_id: int = 0
) -> None:
    """A driver that has committed the letters of the batch and not its rows."""
    commit = tables.commit

    def dies_at_the_rows(path: str, **more: Any) -> bool:
        if path == job.table:
            raise OSError("power is gone")
        return commit(path, **more)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="power"):
        patch.setattr(tables, "commit", dies_at_the_rows)
        writer(job, shape).commit(tasks, batch_id)


def test_letters_are_in_before_the_rows_and_a_crash_between_doubles_none(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = columns_of(job)
    dies_behind_the_letters(job, shape, monkeypatch, [task(job, shape, 0, 5)])
    writer(job, shape).commit([task(job, shape, 0, 5)], 0)

    assert len(dead_letters(job.table)) == 1
    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 4


def test_a_batch_that_comes_again_and_is_read_otherwise_loses_no_record(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies between letters and rows; then the job has other options, or its registry tells less. The letters of the
    batch are there, and would be all that it has."""
    shape, less = columns_of(job), columns_of(job._replace(schema="id BIGINT, name BIGINT"))
    dies_behind_the_letters(job, shape, monkeypatch, [task(job, shape, 0, 5)])

    with pytest.raises(ReadOtherwise, match=f"4 records of batch 0 .*, as at offset 0 of {job.topics[0]}-0"):
        writer(job, less).commit([task(job, less, 0, 5)], 0)
    writer(job, shape).commit([task(job, shape, 0, 5)], 0)
    writer(job, less).commit([task(job, less, 0, 5)], 0)  # it is there: nothing is looked at

    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 4
    assert [letter.offset for letter in dead_letters(job.table)] == [4]


def test_a_batch_that_comes_again_with_more_says_so_and_ends_with_what_it_had_or_less(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan was taken out of the checkpoint: not the options, nor a registry, are to blame."""
    shape = columns_of(job)
    writer(job, shape).commit([task(job, shape, 0, 3)], 0)
    dies_behind_the_letters(job, shape, monkeypatch, [task(job, shape, 1, 3, batch_id=1)], batch_id=1)

    with pytest.raises(ReadOtherwise) as caught:
        writer(job, shape).commit(
            [task(job, shape, 0, 5, batch_id=1, begin=3), task(job, shape, 1, 3, batch_id=1)], 1
        )
    assert str(caught.value) == (
        f"{dead_letters_of(job.table)}: batch 1 of application {job.name!r} has read more now than when it was begun, and 1 record of that "
        f"is a dead letter, as at offset 4 of {job.topics[0]}-0; its dead letters are those of then, so nobody would have it: put its "
        f"plan of then back into the checkpoint (offsets/1, with its .crc), or delete that of now and let it read less (--max-offsets-per-trigger, "
        f"option maxOffsetsPerTrigger)"
    )
    writer(job, shape).commit([task(job, shape, 1, 2, batch_id=1)], 1)
    writer(job, shape).commit(
        [task(job, shape, 0, 5, batch_id=2, begin=3), task(job, shape, 1, 3, batch_id=2, begin=2)], 2
    )
    assert [(x.partition, x.offset) for x in dead_letters(job.table)] == [(0, 4), (1, 2)]
    assert verify(job.table, job.bootstrap).is_equal


def test_a_table_that_was_restored_is_gone_on_with_and_verify_says_what_it_lacks(job: TablesJob) -> None:
    """Delta keeps the numbers of batches then, as docs/spark.md says."""
    shape = columns_of(job)
    writer(job, shape).commit([task(job, shape, 0, 3)], 0)
    writer(job, shape).commit([task(job, shape, 0, 5, batch_id=1, begin=3)], 1)
    DeltaTable(job.table).restore(0)

    writer(job, shape).commit([task(job, shape, 1, 3, batch_id=2)], 2)

    assert sorted(DeltaTable(job.table).to_pyarrow_table().column("id").to_pylist()) == [0, 1, 2, 4, 5]
    report = verify(job.table, job.bootstrap)
    assert report.rows is not None and not report.is_equal
    assert (report.rows.table.count, report.rows.commits.count) == (5, 6)


def test_of_letters_that_are_there_those_of_the_batch_are_looked_at_once(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = columns_of(job)
    opens, reads = tables.open_table, letters_module.in_files
    opened: list[str] = []
    read: list[str] = []

    def noted_open(path: str) -> DeltaTable | None:
        opened.append(path)
        return opens(path)

    def noted_read(place: str, files: Iterable[str], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        names = list(files)
        read.extend(names)
        return reads(place, names, columns)

    monkeypatch.setattr(tables, "open_table", noted_open)
    monkeypatch.setattr(letters_module, "in_files", noted_read)
    writer(job, shape).commit([task(job, shape, 0, 5)], 0)
    assert opened.count(dead_letters_of(job.table)) == 2, "to look, and to commit"
    begun = task(job, shape, 1, 3, batch_id=1)
    dies_behind_the_letters(job, shape, monkeypatch, [begun], batch_id=1)
    assert read == []
    again = task(job, shape, 1, 3, batch_id=1)
    writer(job, shape).commit([again], 1)

    assert set(read) == {file.name for file in (*begun.letters, *again.letters)}


def test_a_driver_whose_letters_another_has_taken_away_says_so(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same batch, between its letters and its rows: files of letters that were not committed are orphans by then."""
    shape = columns_of(job)
    faster, slower = ([task(job, shape, 0, 5)] for _ in range(2))
    dies_behind_the_letters(job, shape, monkeypatch, faster)

    with pytest.raises(TakenByAnother, match=r"batch 0 of .* belongs to another driver by now"):
        writer(job, shape).commit(slower, 0)


def test_letters_that_somebody_has_written_anew_are_still_those_of_the_batch(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OPTIMIZE gives files other names."""
    shape = columns_of(job)
    writer(job, shape).commit([task(job, shape, 0, 5)], 0)
    dies_behind_the_letters(job, shape, monkeypatch, [task(job, shape, 1, 3, batch_id=1)], batch_id=1)
    assert DeltaTable(dead_letters_of(job.table)).optimize.compact()["numFilesRemoved"] == 2

    writer(job, shape).commit([task(job, shape, 1, 3, batch_id=1)], 1)

    assert len(dead_letters(job.table)) == 2 and DeltaTable(job.table).to_pyarrow_table().num_rows == 6


@pytest.mark.parametrize("is_written_anew", [False, True])
def test_a_letter_of_an_attempt_before_whose_record_is_a_row_by_now_is_not_fed_again(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch, is_written_anew: bool
) -> None:
    """The driver dies between letters and rows; then the job has other columns, and reads what it could not. OPTIMIZE gives files
    other names."""
    shape, less = columns_of(job), columns_of(job._replace(schema="id BIGINT, name BIGINT"))
    dies_behind_the_letters(job, less, monkeypatch, [task(job, less, 0, 5)])
    if is_written_anew:
        letters = DeltaTable(dead_letters_of(job.table))
        write_deltalake(letters, letters.to_pyarrow_table(), mode="overwrite")
    writer(job, shape).commit([task(job, shape, 0, 5)], 0)
    keep_shape(job.table, shape)

    assert [(x.offset, x.is_replayed) for x in dead_letters(job.table)] == [
        *((n, True) for n in range(4)),
        (4, False),
    ]
    assert replay(job.table)[:2] == (0, 1)
    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 4
    assert verify(job.table, job.bootstrap).is_equal


@pytest.mark.filterwarnings("ignore:.*leaves out the offsets below:UserWarning")
def test_a_letter_whose_record_is_lost_before_its_batch_comes_again_is_still_fed_again(
    job: TablesJob, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for a row, for no letter of it comes again, and the letter was the last that was left of it."""
    shape, less = columns_of(job), columns_of(job._replace(schema="id BIGINT, name BIGINT"))
    dies_behind_the_letters(job, less, monkeypatch, [task(job, less, 0, 5)])
    delete_below(client, job.topics[0], 2)
    done = task(job._replace(fails_on_data_loss=False), shape, 0, 5)
    assert done.lost == 2
    writer(job, shape).commit([done], 0)
    keep_shape(job.table, shape)

    assert [x.is_replayed for x in dead_letters(job.table)] == [False, False, True, True, False]
    assert replay(job.table)[:2] == (2, 1)
    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 4


def test_letters_whose_records_are_all_lost_before_their_batch_comes_again_wait_for_nobody(
    job: TablesJob, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch has no part of them then. They were taken for what is to be read again, though nothing comes there."""
    shape, less = columns_of(job), columns_of(job._replace(schema="id BIGINT, name BIGINT"))
    dies_behind_the_letters(job, less, monkeypatch, [task(job, less, 0, 5)])
    delete_below(client, job.topics[0], 5)
    done = task(job._replace(fails_on_data_loss=False), shape, 0, 5)
    assert (done.lost, done.parts) == (5, ())
    DeltaWriter(writer(job, shape).options, DESCRIPTION).commit([done], 0)
    keep_shape(job.table, shape)

    assert replay(job.table) == (4, 1, ("no JSON object",))
    assert sorted(DeltaTable(job.table).to_pyarrow_table().column("id").to_pylist()) == list(range(4))


@pytest.mark.parametrize("is_ended", [True, False])
def test_a_letter_of_a_topic_that_is_made_again_is_no_row_of_what_has_its_offset_now(
    job: TablesJob, client: SyncClient, monkeypatch: pytest.MonkeyPatch, is_ended: bool
) -> None:
    """It is the last that is left of its record: of an attempt that had read more, or of one whose batch is planned anew."""
    less = columns_of(job._replace(schema="id BIGINT, name BIGINT"))
    options, topic = parse(job.source_options()), job.topics[0]

    def read(shape: Shape, begin: int, end: int, batch_id: int) -> Written:
        table = TableOptions(job.table, job.name, OFF, shape=shape)
        wanted = OffsetRange(topic, 0, begin, end, client.topic(topic).topic_id)
        return write_ranges([wanted], options.connection, schema_of(options), table, batch_id=batch_id)

    shape = columns_of(job)
    dies_behind_the_letters(job, less, monkeypatch, [read(less, 0, 5, 0)])
    if is_ended:
        writer(job, shape).commit([read(shape, 0, 2, 0)], 0)
    made_again(client, topic)
    fill(client, topic, 0, [b'{"id":%d}' % n for n in range(10, 15)])
    writer(job, shape).commit([read(shape, 0, 5, int(is_ended))], int(is_ended))
    keep_shape(job.table, shape)

    assert replay(job.table) == (2 if is_ended else 4, 1, ("no JSON object",))
    ids = sorted(DeltaTable(job.table).to_pyarrow_table().column("id").to_pylist())
    assert ids == [*range(4), *range(10, 15)]


def test_letters_of_a_topic_that_is_made_again_are_said_to_be_so_and_go_with_another_id(
    job: TablesJob, client: SyncClient, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch died between letters and rows, and the job begins anew, with a new checkpoint: not its options are to blame."""
    options, topic = parse(job.source_options()), job.topics[0]
    beside = make_topic(f"a-{topic}")  # which has more now, and is not to blame
    fill(client, beside, 0, [b"no"])

    def read(of: TablesJob, end: int, end_beside: int) -> list[Written]:
        table = TableOptions(of.table, of.name, OFF, shape=shape)
        wanted = [
            OffsetRange(name, 0, 0, upto, client.topic(name).topic_id)
            for name, upto in ((topic, end), (beside, end_beside))
        ]
        return [write_ranges(wanted, options.connection, schema_of(options), table, batch_id=0)]

    shape = columns_of(job)
    dies_behind_the_letters(job, shape, monkeypatch, read(job, 5, 0))
    made_again(client, topic)
    fill(client, topic, 0, [GOOD[0], b"neither", b"nor"])
    with pytest.raises(ReadOtherwise) as caught:
        writer(job, shape).commit(read(job, 3, 1), 0)
    assert str(caught.value) == (
        f"{dead_letters_of(job.table)}: topic {topic} was deleted and created again since batch 0 of application {job.name!r} was begun, "
        f"and 2 records of the new one are dead letters, as at offset 1 of {topic}-0; the dead letters of the batch are those of the old "
        f"one, so nobody would have them: begin with a new checkpoint and another id of the application (--app-id, option appId), "
        f"at the first offsets that no batch before has read (--starting-offsets)"
    )
    other = job._replace(app_id="other")
    writer(other, shape).commit(read(other, 3, 1), 0)
    assert [x.value for x in dead_letters(job.table)] == [b"no", b"neither", b"nor", BAD[0]]
    assert DeltaTable(job.table).to_pyarrow_table().column("id").to_pylist() == [0]


def test_a_letter_of_an_attempt_that_had_read_more_is_not_taken_for_a_row(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch was too large for the driver, so somebody has taken its plan out of the checkpoint, and it comes again with less: what
    it does not read any more is no letter of it now, and no row either. The letter would never be fed again."""
    shape = columns_of(job)
    dies_behind_the_letters(job, shape, monkeypatch, [task(job, shape, 0, 5)])

    writer(job, shape).commit([task(job, shape, 0, 4)], 0)
    writer(job, shape).commit([task(job, shape, 0, 5, batch_id=1, begin=4)], 1)

    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 4
    assert [(x.offset, x.is_replayed) for x in dead_letters(job.table)] == [(4, False)], "each once"
    assert verify(job.table, job.bootstrap).is_equal


def begun_with_more(job: TablesJob, monkeypatch: pytest.MonkeyPatch) -> Shape:
    """Of batch 0 there are letters of five records, and it has come again with two of them, which could be read. How values are read now."""
    shape, less = columns_of(job), columns_of(job._replace(schema="id BIGINT, name BIGINT"))
    dies_behind_the_letters(job, less, monkeypatch, [task(job, less, 0, 5)])
    writer(job, shape).commit([task(job, shape, 0, 2)], 0)
    keep_shape(job.table, shape)
    return shape


@pytest.mark.parametrize("is_fed_before", [False, True])
def test_a_letter_that_a_later_batch_reads_is_its_row_or_its_letter_and_is_not_fed_before(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch, is_fed_before: bool
) -> None:
    """It was left by an attempt that had read more; one batch behind the one that came again reads other partitions."""
    shape = begun_with_more(job, monkeypatch)
    writer(job, shape).commit([task(job, shape, 1, 3, batch_id=1)], 1)
    if is_fed_before:
        found = replay(job.table)
        assert found[:2] == (0, 4) and found.errors[0] == (
            f"application {job.name!r} has read records that it is to read again, for its batch came again with less: start its job "
            f"again, or give it up with --given-up"
        )

    writer(job, shape).commit([task(job, shape, 0, 5, batch_id=2, begin=2)], 2)

    assert [(x.partition, x.offset, x.is_replayed) for x in dead_letters(job.table)] == [
        *((0, n, True) for n in range(4)),
        (0, 4, False),
        (1, 2, False),
    ]
    assert replay(job.table) == (0, 2, ("no JSON object", "field (id) changed from number to string"))
    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 6
    assert verify(job.table, job.bootstrap).is_equal


def notes_of(job: TablesJob) -> list[dict[str, Any]]:
    return tables.notes(DeltaTable(job.table), job.name)


def test_letters_that_are_to_be_read_again_are_named_by_one_note_however_many_batches_come_first(
    job: TablesJob, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be as many as a batch has records, and the batches that come again may be small."""
    fill(client, job.topics[0], 0, [b"no json"] * 400)
    shape = columns_of(job)
    task_of = partial(task, job, shape, topic_id=client.topic(job.topics[0]).topic_id)
    dies_behind_the_letters(job, shape, monkeypatch, [task_of(0, 405)])
    writer(job, shape).commit([task_of(0, 4)], 0)
    keep_shape(job.table, shape)
    for batch_id, end in ((1, 104), (2, 204), (3, 204)):
        other = task_of(1, batch_id, batch_id=batch_id, begin=batch_id - 1)
        begin = {1: 4, 2: 104, 3: 204}[batch_id]
        writer(job, shape).commit([task_of(0, end, batch_id=batch_id, begin=begin), other], batch_id)

    first, *later = (len(json.dumps(note)) for note in notes_of(job))
    assert max(later) < first / 4
    for note in notes_of(job)[1:]:
        # As release 0.2.0 reads it, which stops: it would feed what it does not find.
        with pytest.raises(TypeError):
            [entry["letters"] for entry in note.get("ahead", ())]
    assert {one[2] for one in letters_module.ahead(job.table)[job.name]} == set(range(204, 405))
    assert replay(job.table)[:2] == (0, 402)
    writer(job, shape).commit([task_of(0, 405, batch_id=4, begin=204)], 4)
    assert letters_module.ahead(job.table) == {}
    assert "ahead" not in notes_of(job)[-1]
    assert len(dead_letters(job.table)) == 402
    assert verify(job.table, job.bootstrap).is_equal


def test_what_names_letters_that_are_to_be_read_again_outlives_its_commit(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows were taken back, and Delta's log begins behind it."""
    shape = begun_with_more(job, monkeypatch)
    writer(job, shape).commit([task(job, shape, 1, 2, batch_id=1)], 1)
    table = DeltaTable(job.table)
    table.restore(0)
    table.create_checkpoint()
    for version in range(table.version()):
        Path(job.table, "_delta_log", f"{version:020}.json").unlink()

    assert {one[1:3] for one in letters_module.ahead(job.table)[job.name]} == {(0, 2), (0, 3), (0, 4)}
    writer(job, shape).commit([task(job, shape, 0, 5, batch_id=2, begin=2)], 2)
    assert replay(job.table)[:2] == (0, 1)
    assert sorted(DeltaTable(job.table).to_pyarrow_table().column("id").to_pylist()) == [*range(4)]


def test_letters_that_are_to_be_read_again_are_fed_by_nobody_where_what_names_them_is_gone(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has removed its note, and Delta's log begins behind it; a later note only refers to it. Their rows would be there twice."""
    shape = begun_with_more(job, monkeypatch)
    writer(job, shape).commit([task(job, shape, 1, 2, batch_id=1)], 1)
    table = DeltaTable(job.table)
    assert notes_of(job)[-1]["ahead"]["batch"] == 0
    table.create_checkpoint()
    for version in range(table.version()):
        Path(job.table, "_delta_log", f"{version:020}.json").unlink()
    (note,) = Path(job.table, "_odradek", "batches").glob("*/*0.json")
    kept = note.read_bytes()
    note.unlink()

    said = f"application '{job.name}' is to read again .* its batch 0, which names them, is gone .* put the file back"
    for given_up in ((), [job.name]):
        with pytest.raises(letters_module.NoteGone, match=said):
            replay(job.table, given_up=given_up)
    with pytest.raises(letters_module.NoteGone):
        writer(job, shape).commit([task(job, shape, 0, 5, batch_id=2, begin=2)], 2)
    assert sorted(DeltaTable(job.table).to_pyarrow_table().column("id").to_pylist()) == [0, 1, 4, 5]

    note.write_bytes(kept)
    writer(job, shape).commit([task(job, shape, 0, 5, batch_id=2, begin=2)], 2)
    assert replay(job.table)[:2] == (0, 1)
    assert sorted(DeltaTable(job.table).to_pyarrow_table().column("id").to_pylist()) == [*range(6)]


def test_letters_of_several_attempts_that_are_to_be_read_again_are_all_kept(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the first some are read by then; the batch behind it dies behind its letters, and comes again with less as well."""
    shape = begun_with_more(job, monkeypatch)
    less = shape._replace(columns=schema_of_text("id BIGINT, name BIGINT"))
    writer(job, shape).commit([task(job, shape, 0, 3, batch_id=1, begin=2)], 1)
    dies_behind_the_letters(job, less, monkeypatch, [task(job, less, 1, 3, batch_id=2)], batch_id=2)
    writer(job, shape).commit([task(job, shape, 1, 1, batch_id=2)], 2)
    found = letters_module.ahead(job.table)[job.name]
    assert {one[1:3] for one in found} == {(0, 3), (0, 4), (1, 1), (1, 2)}
    writer(job, shape).commit([task(job, shape, 1, 2, batch_id=3, begin=1)], 3)

    assert {one[1:3] for one in letters_module.ahead(job.table)[job.name]} == {(0, 3), (0, 4), (1, 2)}
    assert replay(job.table, given_up=[job.name])[:2] == (1, 2)
    assert sorted(DeltaTable(job.table).to_pyarrow_table().column("id").to_pylist()) == list(range(6))


def test_letters_of_a_topic_that_was_made_again_do_not_wait_for_it_though_a_later_batch_reads_others(
    job: TablesJob, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    less, shape = columns_of(job._replace(schema="id BIGINT, name BIGINT")), columns_of(job)
    options, topic = parse(job.source_options()), job.topics[0]

    def read(of: Shape, batch_id: int, *ranges: tuple[int, int, int]) -> list[Written]:
        table, topic_id = TableOptions(job.table, job.name, OFF, shape=of), client.topic(topic).topic_id
        wanted = [OffsetRange(topic, *one, topic_id) for one in ranges]
        return [write_ranges(wanted, options.connection, schema_of(options), table, batch_id=batch_id)]

    dies_behind_the_letters(job, less, monkeypatch, read(less, 0, (0, 0, 5)))
    writer(job, shape).commit(read(shape, 0, (0, 0, 2)), 0)
    made_again(client, topic)
    fill(client, topic, 0, GOOD[4:])
    writer(job, shape).commit(read(shape, 1, (0, 0, 2)), 1)
    assert letters_module.ahead(job.table) == {}
    DeltaWriter(writer(job, shape).options, DESCRIPTION).commit(read(shape, 2), 2)
    assert letters_module.ahead(job.table) == {}


def test_letters_that_an_application_is_to_read_again_are_fed_where_it_is_given_up(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun_with_more(job, monkeypatch)

    assert replay(job.table, given_up=[job.name])[:2] == (2, 1)
    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 4


@pytest.mark.parametrize("divided_by", ["", "__topic,__partition"])
@pytest.mark.parametrize("is_ended", [True, False])
def test_where_records_are_skipped_letters_that_became_rows_are_told_all_the_same(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch, is_ended: bool, divided_by: str
) -> None:
    """The job goes on with --on-error skip: one record of the batch is neither row nor letter. The rows of all were there twice."""
    job = job._replace(partition_by=divided_by)
    shape, less = columns_of(job), columns_of(job._replace(schema="id BIGINT, name BIGINT"))
    skipping = columns_of(job._replace(on_error="skip"))
    dies_behind_the_letters(job, less, monkeypatch, [task(job, less, 0, 5)])
    if is_ended:
        writer(job, shape).commit([task(job, shape, 0, 2)], 0)
    begin, batch_id = (2, 1) if is_ended else (0, 0)
    writer(job, skipping).commit([task(job, skipping, 0, 5, batch_id=batch_id, begin=begin)], batch_id)
    keep_shape(job.table, shape)

    assert replay(job.table)[:2] == (0, 1)
    assert sorted(DeltaTable(job.table).to_pyarrow_table().column("id").to_pylist()) == list(range(4))


@pytest.mark.parametrize("is_ended", [True, False])
def test_where_records_are_skipped_and_rows_do_not_tell_where_they_are_from_none_is_added_twice(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch, is_ended: bool
) -> None:
    """With --meta off. What is skipped now stays so, as its option says."""
    shape, less, skipping = (
        columns_of(job._replace(**more))._replace(has_meta=False)
        for more in ({}, {"schema": "id BIGINT, name BIGINT"}, {"on_error": "skip"})
    )
    dies_behind_the_letters(job, less, monkeypatch, [task(job, less, 0, 5)])
    if is_ended:
        writer(job, shape).commit([task(job, shape, 0, 2)], 0)
    begin, batch_id = (2, 1) if is_ended else (0, 0)
    writer(job, skipping).commit([task(job, skipping, 0, 5, batch_id=batch_id, begin=begin)], batch_id)
    keep_shape(job.table, shape)

    assert replay(job.table) == (0, 0, ())
    assert sorted(DeltaTable(job.table).to_pyarrow_table().column("id").to_pylist()) == list(range(4))


def test_of_letters_that_are_all_fed_nobody_is_told_to_give_an_application_up(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was given up before."""
    shape, less = columns_of(job), columns_of(job._replace(schema="id BIGINT, name BIGINT"))
    dies_behind_the_letters(job, less, monkeypatch, [task(job, less, 0, 4)])
    writer(job, shape).commit([task(job, shape, 0, 2)], 0)
    keep_shape(job.table, shape)

    assert replay(job.table, given_up=[job.name]) == (2, 0, ())
    assert replay(job.table) == (0, 0, ())


def test_a_letter_whose_record_is_gone_before_a_later_batch_could_read_it_is_fed_again(
    job: TablesJob, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the last that is left of it."""
    shape = begun_with_more(job, monkeypatch)
    writer(job, shape).commit([task(job, shape, 0, 5, batch_id=1, begin=3)], 1)

    assert replay(job.table)[:2] == (1, 1)
    assert sorted(DeltaTable(job.table).to_pyarrow_table().column("id").to_pylist()) == list(range(4))


@pytest.mark.parametrize("where", ["not_ended", "ahead", "replayed", "batches"])
@pytest.mark.parametrize("what", ["comes again with less", "reads on"])
def test_what_is_to_be_read_again_is_fed_once_though_its_job_is_at_work_meanwhile(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch, where: str, what: str
) -> None:
    shape, less = columns_of(job), columns_of(job._replace(schema="id BIGINT, name BIGINT"))
    writer(job, shape).commit([task(job, shape, 1, 3)], 0)
    keep_shape(job.table, shape)
    dies_behind_the_letters(job, less, monkeypatch, [task(job, less, 0, 5, batch_id=1)], batch_id=1)
    steps = [(1, 0, 2), (2, 2, 5)]

    def goes_on() -> None:
        batch_id, begin, end = steps.pop(0)
        writer(job, shape).commit([task(job, shape, 0, end, batch_id=batch_id, begin=begin)], batch_id)

    if what == "reads on":
        goes_on()
    looks = getattr(replay_module, where)
    calls = count()

    def looks_later(table: str) -> Any:
        if not next(calls):
            goes_on()
        return looks(table)

    monkeypatch.setattr(replay_module, where, looks_later)
    replay(job.table)
    while steps:
        goes_on()

    assert sorted(DeltaTable(job.table).to_pyarrow_table().column("id").to_pylist()) == list(range(6))
    assert verify(job.table, job.bootstrap).is_equal
    assert replay(job.table)[:2] == (0, 2)


def begun_with_letters(job: TablesJob, monkeypatch: pytest.MonkeyPatch) -> Shape:
    """Batch 0 is in the table; of batch 1 there are letters, which could be rows. How values are read now."""
    shape = columns_of(job)
    writer(job, shape).commit([task(job, shape, 0, 5)], 0)
    less = shape._replace(columns=schema_of_text("id BIGINT, name BIGINT"))
    dies_behind_the_letters(job, less, monkeypatch, [task(job, less, 1, 3, batch_id=1)], batch_id=1)
    keep_shape(job.table, shape)
    return shape


@pytest.mark.parametrize("is_written_anew", [False, True])
def test_letters_of_a_batch_that_is_not_in_the_table_are_not_fed_again_before_it_is(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch, is_written_anew: bool
) -> None:
    """The batch comes again, and may read them by then: they would be rows of both. OPTIMIZE gives files other names."""
    shape = begun_with_letters(job, monkeypatch)
    if is_written_anew:
        assert DeltaTable(dead_letters_of(job.table)).optimize.compact()["numFilesRemoved"] == 2

    found = replay(job.table)

    assert (found.rows, found.waiting) == (0, 4)
    assert (
        found.errors[0]
        == f"batch 1 of '{job.name}' is not in the table yet: start its job again, or give it up with --given-up"
    )
    writer(job, shape).commit([task(job, shape, 1, 3, batch_id=1)], 1)
    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 6
    assert replay(job.table)[:2] == (0, 2)
    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 6


@pytest.mark.parametrize("where", ["not_ended", "replayed", "batches"])
@pytest.mark.parametrize("what", ["begins", "ends"])
def test_letters_are_fed_once_though_their_job_is_at_work_meanwhile(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch, where: str, what: str
) -> None:
    """A batch begins, or one that had died before its rows comes again and reads what it could not, while letters are looked at."""
    shape = columns_of(job)
    less = shape._replace(columns=schema_of_text("id BIGINT, name BIGINT"))
    writer(job, shape).commit([task(job, shape, 0, 5)], 0)
    keep_shape(job.table, shape)

    def begin() -> None:
        dies_behind_the_letters(job, less, monkeypatch, [task(job, less, 1, 3, batch_id=1)], batch_id=1)

    def end() -> None:
        writer(job, shape).commit([task(job, shape, 1, 3, batch_id=1)], 1)

    if what == "ends":
        begin()
    looks = getattr(replay_module, where)
    calls = count()

    def looks_later(table: str) -> Any:
        if not next(calls):
            end() if what == "ends" else begin()
        return looks(table)

    monkeypatch.setattr(replay_module, where, looks_later)
    replay(job.table)
    if what == "begins":
        end()

    assert sorted(DeltaTable(job.table).to_pyarrow_table().column("id").to_pylist()) == list(range(6))
    assert verify(job.table, job.bootstrap).is_equal


def test_letters_of_an_application_that_is_given_up_wait_for_no_batch(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoint is lost, and another application reads on: the batch that it had begun never comes."""
    shape = begun_with_letters(job, monkeypatch)

    with pytest.raises(ConfigurationError, match=f"'other' has begun no batch .*; these have: {job.name}"):
        replay(job.table, given_up=["other"])
    for rows in (2, 0):
        assert replay(job.table, given_up=[job.name])[:2] == (rows, 2)
    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 6
    assert verify(job.table, job.bootstrap).is_equal
    # It comes all the same.
    writer(job, shape).commit([task(job, shape, 1, 3, batch_id=1)], 1)
    report = verify(job.table, job.bootstrap)
    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 8
    assert not report.is_equal and report.doubled == 2 and "doubled 2: DIFFERENT" in str(report.partitions[1])


def test_letters_are_fed_again_though_a_column_of_the_table_becomes_wider_meanwhile(
    job: TablesJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job is at work, with --evolve widen: what replay has read by then is of the narrower type."""
    wide, narrow = columns_of(job), columns_of(job._replace(schema="id INT, name STRING"))
    less = columns_of(job._replace(schema="id BOOLEAN, name STRING"))
    writer(job, narrow).commit([task(job, narrow, 0, 5)], 0)
    dies_behind_the_letters(job, less, monkeypatch, [task(job, less, 1, 3, batch_id=1)], batch_id=1)
    keep_shape(job.table, narrow)
    looks, calls, other = replayed, count(), job._replace(app_id="other")

    def looks_later(table: str) -> Any:
        if not next(calls):
            options = TableOptions(job.table, other.name, OFF, shape=wide, evolve=Evolve(widens=True))
            DeltaWriter(options, StructType()).commit([task(other, wide, 0, 1)], 0)
        return looks(table)

    monkeypatch.setattr(replay_module, "replayed", looks_later)
    found = replay(job.table, given_up=[job.name])

    assert found[:2] == (2, 2)
    ids = DeltaTable(job.table).to_pyarrow_table().column("id")
    assert ids.type == pa.int64() and sorted(ids.to_pylist()) == [0, 0, 1, 2, 3, 4, 5]


def test_what_two_applications_have_read_is_there_twice_and_held_against_neither(job: TablesJob) -> None:
    """The checkpoint was lost, and the job goes on under another id, as it is told to."""
    shape, anew = columns_of(job), job._replace(app_id="anew")
    for one in (job, anew):
        writer(one, shape).commit([task(one, shape, 0, 5), task(one, shape, 1, 3)], 0)

    for one in (job, anew):
        report = verify(job.table, job.bootstrap, app_id=one.name)
        assert report.is_equal and report.table_side.count == 12
    with pytest.raises(Overlap):
        verify(job.table, job.bootstrap)


def test_an_empty_text_that_divides_a_table_which_wants_one_is_a_dead_letter(
    job: TablesJob, client: SyncClient
) -> None:
    """It is null there; the commit refused the whole batch for it, each time it came."""
    fill(client, job.topics[0], 0, [b'{"id":9,"name":""}'])
    there = pa.schema([pa.field(f.name, f.type, f.name != "name") for f in columns_of(job).schema])
    DeltaTable.create(job.table, Schema.from_arrow(there), partition_by=["name"])
    plan = planned(job._replace(schema=""))
    shape, source = plan.shape, parse(job.source_options())
    assert shape is not None
    how = TableOptions(job.table, job.name, OFF, shape=shape, layout=plan.layout)
    wanted = OffsetRange(job.topics[0], 0, 0, 6)

    done = write_ranges([wanted], source.connection, schema_of(source), how, batch_id=0)
    DeltaWriter(how, StructType()).commit([done], 0)

    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 4
    assert [(letter.offset, letter.error) for letter in dead_letters(job.table)] == [
        (4, "no JSON object"),
        (5, "column name is NOT NULL in the table, and the value has none"),
    ]
    keep_shape(job.table, shape)
    assert replay(job.table)[:2] == (0, 2)


@pytest.mark.spark
@pytest.mark.parametrize("upsert_by", ["", "key"])
def test_a_job_that_begins_on_an_empty_topic_goes_on_with_what_comes(
    spark: "SparkSession", client: SyncClient, job: TablesJob, make_topic: MakeTopic, upsert_by: str
) -> None:
    plan = planned(job._replace(topics=(make_topic(),), upsert_by=upsert_by, on_error="key=skip"))

    def run() -> list[Batch]:
        return [
            batch for batch in followed(start(spark, plan), plan, lambda: False, spark) if batch is not None
        ]

    (first,) = run()
    fill(client, plan.job.topics[0], 0, GOOD[:1])
    (second,) = run()

    assert [(one.number, one.rows, one.lag_records) for one in (first, second)] == [(0, 0, 0), (1, 1, 0)]
    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 1
    assert verify(job.table, job.bootstrap).is_equal


def test_columns_are_learnt_beside_a_value_that_is_too_large_to_be_parsed(
    job: TablesJob, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    fill(client, topic, 0, [GOOD[0], b'{"large": "%s"}' % (b"x" * (17 << 20)), GOOD[1]], codec="gzip")

    plan = planned(job._replace(schema="", topics=(topic,)))

    assert (plan.shape, plan.learnt_from, plan.refused) == (columns_of(job), 2, 0)


def test_a_job_may_skip_what_does_not_fit_or_stop_at_it(job: TablesJob) -> None:
    shape = columns_of(job)

    writer(job, shape).commit([task(job, shape._replace(on_error="skip"), 0, 5)], 0)
    assert dead_letters(job.table) == []
    with pytest.raises(
        BadValue, match=rf"{job.topics[0]}-1, offset 2: field \(id\) changed .* --on-error dlq or skip"
    ):
        task(job, shape._replace(on_error="pause"), 1, 3)


def test_columns_are_learnt_or_given_or_those_of_the_table(
    job: TablesJob, client: SyncClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    fill(client, topic, 1, [*GOOD, BAD[0]])
    learnt = planned(job._replace(schema="", topics=(topic,)))
    assert (learnt.shape, learnt.learnt_from, learnt.refused) == (columns_of(job), 7, 1)
    with pytest.raises(
        ConfigurationError, match=r"field id is a number in one value and a string .* --schema"
    ):
        planned(job._replace(schema=""))
    shape = columns_of(job._replace(has_meta=False))
    assert shape.schema.names == ["id", "name"]
    writer(job, shape).commit([task(job, shape, 0, 5)], 0)

    again = planned(job._replace(schema=""))
    assert again.shape == shape and again.version == 0
    said = dict(again.lines())
    assert said["columns"] == "id BIGINT, name STRING (as the table has them)"
    assert said["table"].endswith("version 0, appended to") and said["fused"].startswith("yes")
    with pytest.raises(
        ConfigurationError, match=r"--schema is not what .* has, which is id BIGINT, name STRING"
    ):
        planned(job._replace(schema="id INT"))
    with pytest.raises(ConfigurationError, match="has columns of values; --format json appends"):
        planned(job._replace(schema="", format="raw"))


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ({"format": "xml"}, "--format xml: there are raw, string, json"),
        ({"on_error": "panic"}, "--on-error panic: there are dlq, skip, pause"),
        ({"trigger": "soon"}, "--trigger soon: expected a duration"),
        ({"format": "raw"}, "--schema is for values with fields"),
        (
            {"schema": "__offset BIGINT"},
            "a field __offset, which is the name of a column of ours; --meta off",
        ),
        ({"schema": "by ARRAY<MAP<STRING, INT>>"}, "column by is ARRAY<MAP<STRING, INT>>: JSON is not read"),
        ({"key_format": "json", "key_schema": "k MAP<STRING, INT>"}, "column k is MAP<STRING, INT>: JSON"),
        ({"format": "raw", "schema": "", "message": "Order"}, "--message is for values with a schema"),
        ({"format": "raw", "schema": "", "is_framed": True}, "--framed is for values with a schema"),
        ({"subject": "orders-value"}, "--subject is for schemas of a --registry"),
        ({"key_format": "string", "key_subject": "k"}, "--key-subject is for schemas of a --registry"),
        ({"key_format": "string", "key_schema": "k INT"}, "--key-schema is for keys in JSON"),
        ({"key_subject": "k"}, "--key-subject .*are for a --key-format"),
        ({"cores": "0"}, "--cores 0: expected a number"),
        ({"memory": "much"}, "--memory much: expected a size with its unit"),
        ({"memory": "1024"}, "--memory 1024: expected a size with its unit"),
        ({"table": ""}, "--table is empty"),
        ({"topics": ("",)}, "--topic is missing"),
        ({"starting_offsets": "yesterday"}, "startingOffsets='yesterday' is no JSON"),
        ({"topics": ("no-such-topic",)}, "--topic names the topic no-such-topic, and the cluster has none"),
    ],
)
def test_what_cannot_work_is_said_before_spark_starts(
    job: TablesJob, fault: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        planned(job._replace(**fault))


def test_values_and_keys_have_each_a_registry_or_a_file() -> None:
    """One --registry for both; of what has a file it is not asked."""
    job = TablesJob("127.0.0.1:1", ("orders",), "table", registry="http://127.0.0.1:2")

    def found(**changed: Any) -> list[tuple[str, str, str]]:
        changed = {"format": "avro", "key_format": "protobuf", **changed}
        forms = (job._replace(**changed).value_format, job._replace(**changed).of_keys)
        return [(form.name, form.registry, form.schema_file) for form in forms]

    assert found() == [("avro", job.registry, ""), ("protobuf", job.registry, "")]
    assert found(key_schema_file="k") == [("avro", job.registry, ""), ("protobuf", "", "k")]
    assert found(schema_file="v") == [("avro", "", "v"), ("protobuf", job.registry, "")]
    assert found(format="json") == [("json", "", ""), ("protobuf", job.registry, "")]
    assert found(key_format="string") == [("avro", job.registry, ""), ("string", "", "")]
    with_names = job._replace(message="v", key_message="k", is_framed=True)
    assert (with_names.value_format.message, with_names.of_keys.message) == ("v", "k")
    assert with_names.value_format.is_framed and not with_names.of_keys.is_framed


def test_who_appends_goes_on_appending(job: TablesJob) -> None:
    """Of a key that has several rows a merge would change each."""
    writer(job, columns_of(job)).commit([task(job, columns_of(job), 0, 5)], 0)

    with pytest.raises(ConfigurationError, match="was written without --upsert-by so far"):
        planned(job._replace(upsert_by="key"))


def test_records_and_values_are_not_appended_to_one_table(job: TablesJob) -> None:
    raw = job._replace(format="raw", schema="")
    values = job._replace(table=f"{job.table}-of-values")
    write_deltalake(job.table, rows_schema().empty_table())
    writer(values, columns_of(values)).commit([task(values, columns_of(values), 0, 5)], 0)

    assert planned(raw).version == 0 and planned(values).version == 0
    with pytest.raises(ConfigurationError, match="holds records as they are; --format raw appends to it"):
        planned(job)
    with pytest.raises(ConfigurationError, match="has columns of values; --format json appends to it"):
        planned(raw._replace(table=values.table))


def test_values_may_have_fields_with_the_names_of_a_record(job: TablesJob) -> None:
    fields = pa.schema([(name, pa.string()) for name in ("topic", "partition", "offset", "value")])
    write_deltalake(job.table, fields.empty_table())

    assert columns_of(job._replace(schema="", has_meta=False)).columns.names == fields.names


def test_text_is_not_appended_to_a_table_of_other_columns(job: TablesJob) -> None:
    write_deltalake(job.table, pa.table({"id": [1], "name": ["ink"]}))

    with pytest.raises(ConfigurationError, match="one column of STRING; these are id BIGINT, name STRING"):
        planned(job._replace(format="string", schema=""))


@pytest.mark.parametrize(
    ("value", "columns", "left_out"),
    [
        (b'{"id":1,"ID":"x","Id":2}', "id BIGINT", "ID, Id"),
        (b'{"a":{"b":1,"B":2,"c d":3},"":1}', "a STRUCT<b: BIGINT>", "a in part, "),
        (b'{"id":1,"a\\u0000b":1,"a,b":2}', "id BIGINT", "a\0b, a,b"),
        (b'{"id":1,"a":' + b"[" * 50 + b"1" + b"]" * 50 + b"}", "id BIGINT", "a"),
        (
            b'{"topic":"t","partition":1,"offset":2,"value":"x"}',
            "topic STRING, partition BIGINT, offset BIGINT, value STRING",
            None,
        ),
    ],
    ids=["case", "nested", "signs", "depth", "as a record"],
)
def test_fields_that_delta_cannot_have_are_left_out_and_the_job_goes_on(
    job: TablesJob,
    client: SyncClient,
    make_topic: MakeTopic,
    value: bytes,
    columns: str,
    left_out: str | None,
) -> None:
    topic = make_topic()
    fill(client, topic, 0, [value] * 2)
    mine = job._replace(schema="", topics=(topic,))

    said = dict(planned(mine).lines())
    shape = columns_of(mine)
    writer(mine, shape).commit([task(mine, shape, 0, 1)], 0)
    again = columns_of(mine)
    writer(mine, again).commit([task(mine, again, 0, 2, batch_id=1, begin=1)], 1)

    assert text_of(shape.columns) == text_of(again.columns) == columns
    told = None if left_out is None else f"{left_out}: no column holds them"
    assert said.get("left out") == told
    assert DeltaTable(mine.table).to_pyarrow_table().num_rows == 2
    assert verify(mine.table, mine.bootstrap).is_equal


def test_a_topic_without_a_record_teaches_no_columns(job: TablesJob, make_topic: MakeTopic) -> None:
    with pytest.raises(
        ConfigurationError, match="there is no record to learn columns from; give them with --schema"
    ):
        planned(job._replace(topics=(make_topic(),), schema=""))
    with pytest.raises(NoTable, match="there is no Delta table at"):
        dead_letters(job.table)


def test_a_topic_without_json_is_said_to_have_none(job: TablesJob, make_topic: MakeTopic) -> None:
    """As of the README's three lines of text."""
    topic = make_topic()
    with SyncClient(job.bootstrap) as client:
        records = [NewRecord(b"alice", b"one"), NewRecord(b"bob", b"17"), NewRecord(b"carol", b"[]")]
        client.produce(TopicPartition(topic, 0), build_batch(records))
    with pytest.raises(
        ConfigurationError,
        match="--format json: of the 3 values that were looked at none is a JSON object; string takes text",
    ):
        planned(job._replace(topics=(topic,), schema=""))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no job in it"),
        ("tables = [1]", "there is no job in it"),
        ("bootstrap = ", "Invalid value"),
        ('[[tables]]\ntopic = "a"\ntable = "t"', "line 1: bootstrap is missing"),
        (
            'bootstrap = "h:1"\n[[tables]]\ntopic = "a"\ntable = "t"\nformt = "json"',
            "line 5: no key formt; did you mean format?",
        ),
        (
            'bootstrap = "h:1"\n[[tables]]\ntopic = "a"\ntable = "t"\nmeta = "off"',
            "line 5: meta = 'off': expected true or false",
        ),
        (
            'bootstrap = "h:1"\n[[tables]]\ntopic = "a"\ntable = "t"\nmax-offsets-per-trigger = true',
            "line 5: max-offsets-per-trigger = True: expected a whole number",
        ),
        (
            'bootstrap = "h:1"\n[[tables]]\ntopic = "a"\ntable = "t"\n[[tables]]\ntopic = "b"\n\ntable = "./t"',
            "line 8: table .* another job",
        ),
        (
            'bootstrap = "h:1"\n[[tables]]\ntopic = "a"\ntable = "t"\ntrigger = "soon"',
            "line 5: --trigger soon",
        ),
        (
            'bootstrap = "h:1"\n[[tables]]\ntopic = "a"\ntable = "t"\ncores = "2"',
            "line 5: cores stands above the jobs",
        ),
        (
            'bootstap = "h:1"\n[[tables]]\ntopic = "a"\ntable = "t"',
            "line 1: no key bootstap of all jobs; did you mean bootstrap?",
        ),
        (
            'bootstrap = "h:1"\n\n[[tabels]]\ntopic = "a"\ntable = "t"',
            r"line 3: no key tabels of all jobs; did you mean tables?",
        ),
        (
            'bootstrap = "h:1"\n[[tables]]\ntopic = "a"\ntable = "t"\nformat = "json"\nschema = "id BIGNT"',
            "line 6: schema 'id BIGNT'",
        ),
    ],
)
def test_a_job_file_is_refused_with_the_line(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "job.toml"
    file.write_text(text)

    with pytest.raises(ConfigurationError, match=f"job.toml.*{why}"):
        jobs_of(file)


def test_what_the_cluster_says_of_a_job_of_a_file_is_said_with_the_line(
    job: TablesJob, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(
        f'bootstrap = "{job.bootstrap}"\n[[tables]]\ntopic = "{job.topics[0]}"\ntable = "{tmp_path}/t"\n'
        f'[[tables]]\ntable = "{tmp_path}/u"\ntopic = "no-such-topic"\n'
    )

    assert main(["spark", "run", str(file), "--explain"]) == 2
    assert f"{file}, line 7: --topic names the topic no-such-topic" in capsys.readouterr().err


def test_a_job_file_is_in_utf8_as_toml_is(tmp_path: Path) -> None:
    file = tmp_path / "jobs.toml"
    text = 'bootstrap = "a:1"\n[[tables]]\ntopic = "é"\ntable = "t"\n'
    file.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigurationError, match=r"jobs\.toml, line 3: expected text in UTF-8"):
        jobs_of(file)

    file.write_text(text, encoding="utf-8-sig")  # as editors of Windows begin it
    assert [job.topics for job in jobs_of(file)] == [("é",)]


def test_a_job_file_has_the_options_of_the_command(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(
        'bootstrap = "h:1"\ncores = "*"\n[[tables]]\ntopic = "a, b"\ntable = "t"\nformat = "json"\nallow-data-loss = true\n'
        '[[tables]]\ntopic = "c"\ntable = "u"\nonce = true\nmax-offsets-per-trigger = 5\n'
    )

    assert jobs_of(file) == [
        TablesJob("h:1", ("a", "b"), "t", format="json", fails_on_data_loss=False, cores="*"),
        TablesJob("h:1", ("c",), "u", is_once=True, max_offsets_per_trigger=5, cores="*"),
    ]


def test_the_sentence_of_a_failure_is_ours_where_there_is_one() -> None:
    text = (
        "[STREAM_FAILED] Query [id = c3] terminated with exception: [PYTHON_EXCEPTION] An exception was thrown from the "
        "Python worker: Traceback (most recent call last):\n"
        '  File "worker.py", line 3, in main\n'
        "    process()\n"
        "odradek.spark.shape.BadValue: orders-0, offset 4: no JSON object\n"
        "\n"
        "\tat org.apache.spark.Task.run(Task.scala:1)\n"
        "Traceback (most recent call last):\n"
        "  File x\n"
        "RuntimeError: a worker has failed\n"
    )

    assert sentence_of(Exception(text)) == "orders-0, offset 4: no JSON object"
    assert (
        sentence_of(Exception(text.replace("odradek.spark.shape.", "")))
        == "RuntimeError: a worker has failed"
    )
    assert sentence_of(Exception("only this\nand that")) == "only this"
    # As Spark's parser says it, of --sql 'SELEC x'.
    unparsed = (
        "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. (line 1, pos 0)\n\n== SQL ==\nSELEC x\n^^^\n"
    )
    assert (
        sentence_of(Exception(unparsed))
        == "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. (line 1, pos 0)"
    )
    # As Spark says it to the one of two drivers with one checkpoint that comes second.
    two = (
        "[STREAM_FAILED] Query [id = c3, runId = d4] terminated with exception: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent "
        "update to the log. Multiple streaming jobs detected for 6.\nPlease make sure only one streaming job runs on a "
        "specific checkpoint location at a time. SQLSTATE: 40000 SQLSTATE: XXKST"
    )
    assert sentence_of(Exception(two)) == (
        "another driver goes on with the same checkpoint, and has come to batch 6 meanwhile: nothing is lost or doubled; let one "
        "of them run, and give the other a checkpoint and a name of its own where it is meant to be another job"
    )
    assert sentence_of(ValueError("\n")) == "ValueError"
    assert sentence_of(Exception("no such column; line 1 pos 7;\n'Project")) == "no such column; line 1 pos 7"


def test_a_jvm_that_has_ended_is_said_so_though_it_cannot_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a signal for the job reaches the JVM, too."""

    def gone(*_: object) -> Any:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(tables_module, "_session", lambda job: SimpleNamespace(stop=gone))
    plan: Any = SimpleNamespace(job=SimpleNamespace(target="./orders"), start=gone)
    failed = run([plan], lambda *_: None, lambda: False)
    assert failed == {
        "./orders": "Spark's JVM has ended: it was killed, or had no memory left. The same command resumes"
    }
    assert is_of_a_dead_jvm(Py4JNetworkError("Answer from Java side is empty"))


def test_of_two_jobs_into_one_topic_what_each_failed_of_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with a directory of its own, as a file of jobs may have them."""

    def failing(why: str) -> Any:
        def start(_: object) -> Any:
            raise ValueError(why)

        return SimpleNamespace(job=SimpleNamespace(target="orders"), start=start)

    monkeypatch.setattr(tables_module, "_session", lambda job: SimpleNamespace(stop=lambda: None))
    failed = run([failing("no column a"), failing("no column b")], lambda *_: None, lambda: False)
    assert failed == {"orders": "no column a; no column b"}


class JobInto(NamedTuple):
    target: str
    commit_group: str = ""


def test_a_job_that_fails_beside_others_is_told_at_once_and_goes_on_unseen_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where the store does not answer who asks what a batch has noted, while the others go on until Ctrl-C."""
    told: list[str] = []

    class Query:
        status: ClassVar[dict[str, bool]] = {"isTriggerActive": False}

        def __init__(self, name: str) -> None:
            self.name, self.isActive = name, True
            self.recentProgress = [Progress(batchId=0)] if name == "bad" else []

        def stop(self) -> None:
            self.isActive = False
            told.append(f"{self.name} ended")

        def awaitTermination(self, _: float) -> None: ...
        def exception(self) -> None: ...

    class Progress(dict[str, int]):
        numInputRows = 1

    def noted(_: int) -> Any:
        raise OdradekError("no answer")

    def plan(name: str) -> Any:
        return SimpleNamespace(job=JobInto(name), start=lambda _: Query(name), noted=noted)

    monkeypatch.setattr(tables_module, "_session", lambda job: SimpleNamespace(stop=lambda: None))
    failed = run(
        [plan("bad"), plan("good")],
        lambda *_: None,
        lambda: bool(told),
        lambda job, sentence: told.append(f"{job.target}: {sentence}"),
    )

    assert failed == {"bad": "no answer"}
    assert told == ["bad ended", "bad: no answer", "good ended"]


def test_a_server_that_is_gone_is_asked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark Connect's client asks for ten minutes before it says so, and would for ten more that the query ends."""

    class SparkConnectGrpcException(Exception):
        """PySpark's own wants packages of Spark Connect."""

    asked: list[str] = []

    class Query:
        @property
        def isActive(self) -> bool:
            raise SparkConnectGrpcException("failed to connect to all addresses")

        def stop(self) -> None:
            asked.append("to stop")

    monkeypatch.setattr(tables_module, "_session", lambda job: SimpleNamespace(stop=lambda: None))
    job = JobInto("orders")
    plan: Any = SimpleNamespace(job=job, start=lambda _: Query())
    failed = run([plan], lambda *_: None, lambda: False)

    assert failed == {"orders": "failed to connect to all addresses"}
    assert asked == []


def test_a_jvm_that_does_not_start_is_said_with_the_log_that_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As where --memory is more than the machine has."""

    def exits(*_: object, **__: object) -> Any:
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited.\nand more")

    monkeypatch.setattr(session_module, "local_session", exits)
    log = tmp_path / "spark.log"
    job = SimpleNamespace(target="./orders", master="", cores="2", memory="900000g", archive="", log=log)
    with pytest.raises(OdradekError) as failed:
        run([SimpleNamespace(job=job)], lambda *_: None, lambda: False)  # type: ignore[list-item]
    assert str(failed.value) == (
        f"Spark does not start: [JAVA_GATEWAY_EXITED] Java gateway process exited. (all that Spark says of it: {log})"
    )


@pytest.mark.spark
def test_what_stops_a_job_is_one_sentence(spark: "SparkSession", job: TablesJob) -> None:
    plan = planned(job._replace(on_error="pause"))

    with pytest.raises(Exception, match="STREAM_FAILED") as caught:
        list(followed(start(spark, plan), plan, lambda: False, spark))

    assert re.fullmatch(
        rf"{job.topics[0]}-\d, offset \d: .*; the job stops here: .* --on-error dlq or skip",
        sentence_of(caught.value),
    )


@pytest.mark.spark
def test_a_job_tells_of_every_batch_and_goes_on_with_what_is_new(
    spark: "SparkSession", client: SyncClient, job: TablesJob
) -> None:
    plan = planned(job)

    def run() -> list[Batch]:
        return [
            batch for batch in followed(start(spark, plan), plan, lambda: False, spark) if batch is not None
        ]

    (first,) = run()
    client.produce(TopicPartition(job.topics[0], 0), one_more())
    assert not plan.is_new, "the checkpoint stands below the table"
    (second,) = run()

    assert (first.rows, first.dead_letters, first.lag_records, first.lag_s, first.skipped) == (
        6,
        2,
        0,
        0.0,
        0,
    )
    assert str(first).startswith("batch 0: 6 rows  lag 0 records, 0.0 s  2 dead letters  ")
    assert (second.number, second.rows, second.dead_letters, second.files) == (1, 1, 0, 1)
    assert DeltaTable(job.table).to_pyarrow_table().num_rows == 7
    assert verify(job.table, job.bootstrap).is_complete


def one_more() -> bytes:
    from odradek.records.builder import NewRecord, build_batch

    return build_batch([NewRecord(None, json.dumps({"id": 9}).encode())])


def test_what_pyspark_logs_of_an_error_goes_to_sparks_log_and_the_sentence_alone_to_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where --sql names a column that is not there: it would be a page of JSON, with the trace of the JVM."""

    def failing(*_: object) -> dict[str, str]:
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).error("all of it", errorClass="UNRESOLVED_COLUMN")
        return {"./loud": "no such column"}

    monkeypatch.setattr(tables_module, "run", failing)
    log = tmp_path / "spark.log"
    plan: Any = SimpleNamespace(job=SimpleNamespace(target="./loud", master="local[1]", log=log))
    with pytest.raises(Failed, match=r"^no such column \(all that Spark says of it: "):
        run_until_stopped([plan], as_json=True)
    assert capfd.readouterr().err == ""
    assert log.read_text().count('"msg": "all of it"') == 2


def test_ctrl_c_while_a_session_starts_is_answered_on_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What is started then has Spark's log as its standard error."""
    log = tmp_path / "spark.log"
    with _asked_to_stop() as stop, _said_into(log):
        signal.raise_signal(signal.SIGTERM)
    assert stop.is_set()
    assert capfd.readouterr().err == "ends after this batch; once more ends at once\n"
    assert log.read_text() == ""
