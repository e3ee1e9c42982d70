"""A directory of Parquet files has each batch once, and no reader ever sees half of one."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from odradek.client.sync import SyncClient
from odradek.spark import in_work, parquet_directory
from odradek.spark.cannot_write import NotShared
from odradek.spark.checkpoints import starting_offsets
from odradek.spark.fingerprint import of_rows
from odradek.spark.kill_switch import OFF
from odradek.spark.parquet import FileWriter, file_name
from odradek.spark.partitioning import Spec
from odradek.spark.sink import ParquetSink, ParquetWriter
from odradek.spark.table_files import Layout
from odradek.spark.tables import WrongCheckpoint
from odradek.spark.writing import TableOptions, Written, write_rows
from odradek.testing.process_cluster import ProcessCluster
from tests.spark.conftest import fill
from tests.support import full_disk

MakeTopic = Callable[..., str]
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)


def rows(begin: int, end: int, partition: int = 0) -> pa.RecordBatch:
    found = [
        {"key": None, "value": b"%d" % n, "topic": "orders", "partition": partition, "offset": n}
        for n in range(begin, end)
    ]
    return pa.RecordBatch.from_pylist(found, SCHEMA)


class Directory:
    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.options = TableOptions(self.path, "app", OFF, rows_are_records=True)
        self.writer = ParquetWriter(self.path, self.options, StructType())

    def task(self, batch_id: int, batch: pa.RecordBatch) -> Written:
        return write_rows([batch], from_arrow_schema(SCHEMA), self.writer.options, batch_id=batch_id)

    def tasks(self, batch_id: int, end: int = 10) -> list[Written]:
        return [
            self.task(batch_id, rows(10 * batch_id, 10 * batch_id + end)),
            self.task(batch_id, rows(0, 5, batch_id + 1)),
        ]

    def seen(self) -> int:
        """As a reader that knows nothing of us."""
        files = sorted(Path(self.path).glob("*/*.parquet"))
        return sum(pq.read_metadata(file).num_rows for file in files)

    def left(self) -> list[str]:
        own = Path(self.path) / "_odradek"
        return sorted(
            str(p.relative_to(own)) for p in own.rglob("*") if p.is_file() and "last-" not in p.name
        )


def asked_of_duckdb(query: str) -> Any:
    """In a process of its own: DuckDB 2.0 tells of leaks at its end."""
    text = "import duckdb, json, sys; print(json.dumps(duckdb.sql(sys.argv[1]).fetchall(), default=int))"
    done = subprocess.run([sys.executable, "-c", text, query], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    return Directory(tmp_path / "files")


def test_a_batch_that_comes_again_is_there_once(directory: Directory) -> None:
    for batch_id in (0, 1):
        directory.writer.commit(directory.tasks(batch_id), batch_id)
        directory.writer.commit(directory.tasks(batch_id), batch_id)

    assert directory.seen() == 30 and directory.left() == []
    found = asked_of_duckdb(
        f"SELECT batch, count(*), min(\"offset\") FROM read_parquet('{directory.path}/*/*.parquet') GROUP BY 1 ORDER BY 1"
    )
    assert [(name.split("-")[1], count, first) for name, count, first in found] == [
        ("0000000000", 15, 0),
        ("0000000001", 15, 0),
    ]


def test_a_batch_notes_what_it_is_and_what_proves_it(tmp_path: Path) -> None:
    path = str(tmp_path / "files")

    def note(batch_id: int, options: TableOptions) -> dict[str, Any]:
        writer = ParquetWriter(path, options, StructType())
        done = write_rows([rows(0, 5)], from_arrow_schema(SCHEMA), writer.options, batch_id=batch_id)
        writer.commit([done], batch_id)
        directory = parquet_directory.batch_directory(path, options.app_id, batch_id)
        found: dict[str, Any] = json.loads((directory / parquet_directory.NOTE).read_text())
        return found

    as_they_are = note(3, TableOptions(path, "records", rows_are_records=True))
    assert (as_they_are["appId"], as_they_are["batchId"], as_they_are["records"]) == ("records", 3, 5)
    assert [(part["start"], part["end"], part["records"]) for part in as_they_are["parts"]] == [(0, 5, 5)]
    assert "rows" not in as_they_are

    of_query = note(0, TableOptions(path, "query"))
    assert (of_query["records"], of_query["parts"]) == (5, [])
    assert of_query["rows"] == {"count": 5, "hash": of_rows(rows(0, 5)).hex}


def test_files_of_a_divided_directory_are_shown_below_their_values(tmp_path: Path) -> None:
    path = str(tmp_path / "files")
    options = TableOptions(path, "app", layout=Layout(Spec.of("partition")))
    writer = ParquetWriter(path, options, StructType())
    done = [
        write_rows([rows(0, 5, number)], from_arrow_schema(SCHEMA), writer.options, batch_id=0)
        for number in (0, 7)
    ]

    writer.commit(done, 0)

    shown = parquet_directory.batch_directory(path, "app", 0)
    assert sorted(file.parent.name for file in shown.rglob("*.parquet")) == ["partition=0", "partition=7"]
    assert Directory(tmp_path / "files").left() == []


def renames(monkeypatch: pytest.MonkeyPatch, dies_at: int, then: Callable[[], None]) -> list[str]:
    """What is renamed, with something done before each, and the power gone before number `dies_at`."""
    real, told = os.rename, []

    def rename(source: Any, target: Any) -> None:
        then()
        if len(told) == dies_at:
            raise OSError("power is gone")
        told.append(str(target))
        real(source, target)

    monkeypatch.setattr(parquet_directory.os, "rename", rename)
    return told


@pytest.mark.parametrize("step", ["rename 0", "rename 1", "note", "rename 2"])
def test_of_two_drivers_of_one_batch_the_later_finds_it_there(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The other shows the batch, and takes away what is left of it, before a step of the one that loses."""
    mine, others = directory.tasks(0), directory.tasks(0)
    steps: list[str] = []

    def at(name: str) -> None:
        steps.append(name)
        if name == step and steps.count(name) == 1:
            with monkeypatch.context() as patch:
                patch.setattr(parquet_directory.os, "rename", rename)
                directory.writer.commit(others, 0)

    rename, write_text = os.rename, Path.write_text

    def renamed(source: Any, target: Any) -> None:
        at(f"rename {sum(name.startswith('rename') for name in steps)}")
        rename(source, target)

    def noted(path: Path, *given: Any, **named: Any) -> int:
        if path.name == parquet_directory.NOTE:
            at("note")
        return write_text(path, *given, **named)

    monkeypatch.setattr(parquet_directory.os, "rename", renamed)
    monkeypatch.setattr(Path, "write_text", noted)

    directory.writer.commit(mine, 0)

    assert step in steps and directory.seen() == 15 and directory.left() == []


def test_who_ends_a_batch_late_leaves_what_another_driver_puts_together_for_the_next(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, again = directory.tasks(0), directory.tasks(0)
    directory.writer.commit(first, 0)

    def late() -> None:
        monkeypatch.undo()
        directory.writer.commit(again, 0)

    steps = renames(monkeypatch, 99, lambda: late() if len(steps) == 2 else None)
    directory.writer.commit(directory.tasks(1), 1)

    assert len(steps) == 3 and directory.seen() == 30 and directory.left() == []


def test_a_task_ends_though_another_driver_has_taken_its_file_away(directory: Directory) -> None:
    table, name = directory.writer.options.table, file_name("app", 0)
    writer = FileWriter(table, name, SCHEMA, before=lambda: in_work.note(table, name))
    writer.write(rows(0, 10))
    directory.writer.commit(directory.tasks(0), 0)
    assert not (Path(table) / name).exists()

    file = writer.close()

    assert file is not None and file.records == 10 and file.size_bytes > 4


@pytest.mark.parametrize("dies_at", range(4))
def test_a_driver_that_dies_at_any_step_shows_all_or_nothing_and_again_once(
    directory: Directory, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    counts: list[int] = []
    with monkeypatch.context() as patch:
        told = renames(patch, dies_at, lambda: counts.append(directory.seen()))
        if dies_at < 3:
            with pytest.raises(OSError, match="power is gone"):
                directory.writer.commit(directory.tasks(0), 0)
        else:  # behind the last step: the note which batch was last is not written
            patch.setattr(
                parquet_directory, "_remember", lambda *_: (_ for _ in ()).throw(OSError("power is gone"))
            )
            with pytest.raises(OSError, match="power is gone"):
                directory.writer.commit(directory.tasks(0), 0)
    assert set(counts) == {0} and len(told) == min(dies_at, 3)
    assert directory.seen() == (15 if dies_at == 3 else 0)

    directory.writer.commit(directory.tasks(0), 0)

    assert directory.seen() == 15 and directory.left() == []


def test_a_batch_is_on_disk_before_it_is_seen_and_its_name_before_the_checkpoint_goes_on(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: dict[
        int, tuple[int, int]
    ] = {}  # inode: its size and its last change of names, as they were synced
    seen: list[str] = []
    fsync, rename = os.fsync, os.rename

    def noted_fsync(fd: int) -> None:
        fsync(fd)
        status = os.fstat(fd)
        synced[status.st_ino] = (status.st_size, status.st_mtime_ns)

    def not_synced(path: Path) -> bool:
        status = path.stat()
        return synced.get(status.st_ino) != (status.st_size, status.st_mtime_ns)

    def noted_rename(source: Path, target: Path) -> None:
        if Path(target).name.startswith("batch="):
            everything = [Path(source), *Path(source).rglob("*")]
            assert len(everything) == 4, "a directory, two files of tasks and the note"
            assert [str(path) for path in everything if not_synced(path)] == []
            synced.clear()
            seen.append(Path(target).name)
        rename(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    directory.writer.commit(directory.tasks(0), 0)
    assert len(seen) == 1
    assert Path(directory.path).stat().st_ino in synced
    assert Path(directory.path).parent.stat().st_ino in synced, "which has its own name"
    (last,) = (Path(directory.path) / "_odradek").glob("last-*")
    assert last.stat().st_ino in synced, "what the next batch reads first"


def test_of_two_drivers_of_one_batch_one_wins(directory: Directory, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = directory.tasks(0), Directory(Path(directory.path))
    committed: Iterator[bool] = iter([True])

    def another_is_faster() -> None:
        if next(committed, False):
            monkeypatch.undo()
            other.writer.commit(other.tasks(0), 0)

    renames(monkeypatch, 99, another_is_faster)
    try:
        directory.writer.commit(mine, 0)
    except FileNotFoundError:  # its files were tidied away, because the batch was there
        directory.writer.abort(mine, 0)

    assert directory.seen() == 15 and directory.left() == []


def test_a_failed_batch_and_an_old_checkpoint_leave_nothing(directory: Directory) -> None:
    directory.writer.abort(directory.tasks(0), 0)
    assert directory.left() == [] and directory.seen() == 0
    for batch_id in (0, 1):
        directory.writer.commit(directory.tasks(batch_id), batch_id)

    with pytest.raises(
        WrongCheckpoint, match=r"already has batch 1 of application 'app', but this .* only at batch 0"
    ):
        directory.writer.commit(directory.tasks(0), 0)
    with pytest.raises(WrongCheckpoint, match="has batch 1 of application 'app' with other records"):
        directory.writer.commit(directory.tasks(1, end=9), 1)

    assert directory.seen() == 30


def test_a_batch_that_cannot_be_shown_leaves_nothing_of_its_files(directory: Directory) -> None:
    """The disk is full once they are put together."""
    done = directory.tasks(0)
    with full_disk(16), pytest.raises(OSError, match="File too large"):
        directory.writer.commit(done, 0)
    directory.writer.abort(done, 0)

    assert directory.left() == [] and directory.seen() == 0


def test_a_file_that_the_driver_does_not_see_is_said(directory: Directory) -> None:
    done = directory.tasks(0)
    directory.writer.abort(done, 0)

    with pytest.raises(NotShared, match="executors and driver have to share the directory"):
        directory.writer.commit(done, 0)


def test_a_directory_may_have_any_name(tmp_path: Path) -> None:
    """The library of Delta tables takes some for others, and has no part in this."""
    given = {"path": str(tmp_path / "50%20[a]"), "partitionBy": "partition"}
    writer = ParquetSink(given).writer(from_arrow_schema(SCHEMA), overwrite=False)

    writer.commit([writer.write(iter([rows(0, 5)]))])

    found = [*(tmp_path / "50%20[a]").rglob("*.parquet")]
    assert [pq.read_metadata(file).num_rows for file in found] == [5]


def test_a_batch_write_without_an_id_that_fails_leaves_nothing_of_tasks_that_were_killed(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "files")
    for is_named, left in ((False, 0), (True, 1)):
        options = TableOptions(path, f"app {is_named}", is_named=is_named)
        writer = ParquetWriter(path, options, StructType())
        done = [
            write_rows([rows(0, 5)], from_arrow_schema(SCHEMA), writer.options, batch_id=0) for _ in range(2)
        ]

        writer.abort(done[:1], 0)  # of the other nobody heard

        assert len(list(Path(parquet_directory.staged(path)).glob("*.parquet"))) == left


def test_a_batch_write_without_an_id_leaves_nothing_that_would_be_one_more_each_time(tmp_path: Path) -> None:
    path = tmp_path / "files"
    for number in range(2):
        writer = ParquetWriter(
            str(path), TableOptions(str(path), f"anew {number}", is_named=False), StructType()
        )
        done = write_rows([rows(0, 5)], from_arrow_schema(SCHEMA), writer.options, batch_id=0)
        writer.commit([done], 0)

    assert [file for file in (path / "_odradek").rglob("*") if file.is_file()] == []


def test_two_queries_of_one_id_are_told_apart_where_their_rows_are_not(tmp_path: Path) -> None:
    path = str(tmp_path / "files")
    table = TableOptions(parquet_directory.staged(path), "app")

    def of_query(query_id: str, batch_id: int) -> bool:
        done = write_rows([rows(0, 5)], from_arrow_schema(SCHEMA), table, batch_id=batch_id)
        return parquet_directory.commit(
            path,
            app_id="app",
            batch_id=batch_id,
            files=done.files,
            parts=(),
            rows=done.rows,
            query_id=query_id,
        )

    assert of_query("one", 0) and not of_query("one", 0)
    with pytest.raises(WrongCheckpoint, match=r"has batch 0 of .* from a query of another checkpoint"):
        of_query("other", 1)
    with pytest.raises(WrongCheckpoint, match=r"with other records, or from another query: .*another appId"):
        of_query("other", 0)


def test_a_checkpoint_that_was_put_back_to_before_the_last_batch_is_noticed_by_the_next(
    tmp_path: Path,
) -> None:
    """Each batch ends elsewhere; what counts is where the one before ended."""
    path, offsets = str(tmp_path / "files"), tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    table = TableOptions(parquet_directory.staged(path), "app")

    def ended(batch_id: int, end: int) -> bool:
        line = json.dumps({"orders": {"0": end}})
        (offsets / str(batch_id)).write_text(f"v1\n{{}}\n{line}")
        done = write_rows([rows(0, 5)], from_arrow_schema(SCHEMA), table, batch_id=batch_id)
        return parquet_directory.commit(
            path,
            app_id="app",
            batch_id=batch_id,
            files=done.files,
            parts=(),
            rows=done.rows,
            checkpoint=str(offsets.parent),
        )

    assert all(ended(batch_id, 5 * batch_id + 5) for batch_id in range(3))
    (offsets / "2").write_text((offsets / "1").read_text())
    with pytest.raises(WrongCheckpoint, match="has batch 2 of application 'app' with other records"):
        ended(3, 20)


def test_a_task_that_ran_twice_leaves_nothing(directory: Directory) -> None:
    directory.task(0, rows(0, 10))  # and nobody heard of it

    directory.writer.commit([directory.task(0, rows(0, 10))], 0)

    assert directory.seen() == 10 and directory.left() == []


@pytest.mark.spark
def test_a_stream_into_files_that_others_read(
    spark: Any, cluster: ProcessCluster, client: SyncClient, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=2)
    fill(client, topic, 0, [b"%d" % n for n in range(50)])

    def run(**options: str) -> None:
        (
            spark.readStream.format("odradek")
            .options(**{"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": topic})
            .option("startingOffsets", "earliest")
            .load()
            .selectExpr("offset", "int(string(value)) AS n")
            .writeStream.format("odradek-parquet")
            .options(appId="app", checkpointLocation=str(tmp_path / "checkpoint"), **options)
            .trigger(availableNow=True)
            .start(str(tmp_path / "files"))
            .awaitTermination()
        )

    run()
    fill(client, topic, 1, [b"7"])
    run()

    total = asked_of_duckdb(f"SELECT count(*), sum(n) FROM read_parquet('{tmp_path}/files/*/*.parquet')")
    assert total == [[51, 7 + sum(range(50))]]
    assert spark.read.parquet(str(tmp_path / "files")).count() == 51
    assert starting_offsets(str(tmp_path / "checkpoint"), [topic]) == f'{{"{topic}": {{"0": 50, "1": 1}}}}'
    fill(client, topic, 1, [b"8"])
    with pytest.raises(Exception, match="odradek-parquet has no option colour"):
        run(colour="red")
    for kind in ("offsets", "commits"):
        for file in (tmp_path / "checkpoint" / kind).iterdir():
            if file.name not in ("0", ".0.crc"):
                file.unlink()
    with pytest.raises(Exception, match="was put back to before that batch"):
        run()
    assert spark.read.parquet(str(tmp_path / "files")).count() == 51


@pytest.mark.spark
def test_a_batch_write_is_seen_whole_or_not_at_all_and_one_of_an_application_is_there_once(
    spark: Any, tmp_path: Path
) -> None:
    frame = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 3 AS country")
    target = str(tmp_path / "files")

    def write(rows: Any = frame, form: str = "odradek-parquet", **options: str) -> None:
        place = {"path": target} if form == "odradek-parquet" else {}
        rows.write.format(form).mode("append").options(**place, **options).save()

    write(partitionBy="country", sortBy="id", targetFileSize="1MB")
    write(appId="app", batchId="7", partitionBy="country")
    write(appId="app", batchId="7", partitionBy="country")

    query = f"SELECT count(*), count(DISTINCT id), count(DISTINCT batch) FROM read_parquet('{target}/batch=*/**/*.parquet')"
    assert asked_of_duckdb(query) == [[2000, 1000, 2]]
    of_country = f"SELECT sum(id) FROM read_parquet('{target}/batch=*/country=1/*.parquet')"
    assert asked_of_duckdb(of_country) == [[2 * sum(range(1, 1000, 3))]]
    assert spark.read.parquet(target).where("country = 1").count() == 2 * 333
    failing = frame.selectExpr("id", "IF(id = 990, raise_error('broken row'), 1) AS x")
    with pytest.raises(Exception, match="broken row"):
        write(failing)
    assert asked_of_duckdb(query) == [[2000, 1000, 2]]
    for options, why in (
        ({"appId": "app"}, "the option batchId is missing: its number"),
        ({"batchId": "7"}, "batchId='7': expected a whole number, beside an appId"),
        ({"appId": "app", "batchId": "seven"}, "batchId='seven': expected a whole number"),
        ({"appId": "app", "batchId": "²"}, "batchId='²': expected a whole number"),
        ({"colour": "red"}, "odradek-parquet has no option colour; it has appId, batchId, partitionBy"),
        ({"partitionBy": "colour"}, "partitioned by colour: there is no column colour"),
        ({"appId": "app", "batchId": "6"}, "already has batch 7 of application 'app'"),
    ):
        with pytest.raises(Exception, match=why):
            write(**options)
    with pytest.raises(Exception, match="odradek-parquet only appends"):
        frame.write.format("odradek-parquet").mode("overwrite").save(target)

    table = str(tmp_path / "table")
    for batch in ("0", "0", "1"):
        write(
            frame,
            "odradek-delta",
            table=table,
            appId="app",
            batchId=batch,
            partitionBy="bucket(2, id)" if batch == "0" else "",
        )
    write(frame.selectExpr("id", "country", "'x' AS more"), "odradek-delta", table=table, evolve="add")
    found = DeltaTable(table)
    assert (found.to_pyarrow_table().num_rows, found.metadata().partition_columns) == (3000, ["id_bucket"])
    from odradek.spark.tables import read_table

    assert read_table(spark, table).selectExpr("count(more)", "count(id_bucket)").first() == (1000, 3000)
