"""The exactly-once protocol on a real Delta table, without Spark: every crash, two drivers, a lost checkpoint."""

import errno
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Barrier
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from odradek.spark import batch_notes, delta_log, tables
from odradek.spark.cannot_write import NotShared
from odradek.spark.fingerprint import of_records
from odradek.spark.kill_switch import STEPS
from odradek.spark.object_store import ConnectionBroken
from odradek.spark.parquet import batch_of, file_name
from odradek.spark.sink import DESCRIPTION, BatchWriter, DeltaSink, DeltaWriter, ParquetSink, table_options
from odradek.spark.storage import Directory
from odradek.spark.writing import TableOptions, Written, write_rows
from tests.spark.power_cuts import PowerCuts, data_of
from tests.support import full_disk

SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("leaderEpoch", IntegerType()),
    ]
)
ARROW = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("leaderEpoch", pa.int32()),
    ]
)


def rows(start: int, end: int, partition: int = 0) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "key": b"%d" % (offset % 7),
                "value": b"%d-%d" % (partition, offset),
                "topic": "orders",
                "partition": partition,
                "offset": offset,
                "leaderEpoch": 3,
            }
            for offset in range(start, end)
        ],
        schema=ARROW,
    )


def written(table: Path, batch_id: int, *batches: pa.RecordBatch, app_id: str = "app") -> Written:
    options = TableOptions(str(table), app_id, rows_are_records=True)
    return write_rows(iter(batches), SCHEMA, options, batch_id=batch_id)


def commit(table: Path, batch_id: int, *messages: Written, app_id: str = "app") -> bool:
    return tables.commit(
        str(table),
        app_id=app_id,
        batch_id=batch_id,
        files=[file for message in messages for file in message.files],
        parts=[part for message in messages for part in message.parts],
        schema=ARROW,
    )


def offsets_in(table: Path) -> list[int]:
    return sorted(DeltaTable(table).to_pyarrow_table().column("offset").to_pylist())


def files_in(table: Path) -> set[str]:
    return {file.name for file in table.glob("*.parquet")}


def named_files(table: Path) -> set[str]:
    return {uri.rsplit("/", 1)[-1] for uri in DeltaTable(table).file_uris()}


def test_a_batch_is_one_commit_with_everything_that_proves_it(tmp_path: Path) -> None:
    assert commit(
        tmp_path, 0, written(tmp_path, 0, rows(0, 5)), written(tmp_path, 0, rows(5, 9), rows(0, 2, 1))
    )

    table = DeltaTable(tmp_path)
    assert table.version() == 0
    assert table.transaction_version("app") == 0
    (batch,) = tables.committed_batches(table)
    assert batch.batch_id == 0
    told = {p.partition: (p.start, p.end, p.fingerprint, p.epochs) for p in batch.parts}
    records = {
        partition: [(row["key"], row["value"]) for row in found.to_pylist()]
        for partition, found in ((0, rows(0, 9)), (1, rows(0, 2, 1)))
    }
    assert told == {
        0: (0, 9, of_records(records[0]), ((3, 0),)),
        1: (0, 2, of_records(records[1]), ((3, 0),)),
    }


def test_a_batch_that_comes_again_adds_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    assert commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))
    again = written(tmp_path, 0, rows(0, 5))
    assert len(files_in(tmp_path)) == 2

    assert not commit(tmp_path, 0, again)

    assert offsets_in(tmp_path) == list(range(5))
    assert DeltaTable(tmp_path).version() == 0
    assert files_in(tmp_path) == named_files(tmp_path)


class Died(Exception):
    pass


def run(table: Path, checkpoint: list[int], die_at: tuple[str, int] | None, batches: int = 3) -> None:
    """What Spark does with our sink, one batch after the other; `checkpoint` holds the batches it noted."""

    def at(step: str, batch_id: int) -> None:
        if die_at == (step, batch_id):
            raise Died

    for batch_id in range(len(checkpoint), batches):
        messages = []
        for partition in (0, 1):
            at("before-write", batch_id)
            messages.append(written(table, batch_id, rows(batch_id * 10, batch_id * 10 + 10, partition)))
            at("after-write", batch_id)
        at("before-commit", batch_id)
        commit(table, batch_id, *messages)
        at("after-commit", batch_id)
        at("before-checkpoint", batch_id)
        checkpoint.append(batch_id)


@settings(max_examples=25, deadline=None)
@given(deaths=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 2)), max_size=6))
def test_whatever_dies_when_every_row_is_there_once(
    tmp_path_factory: pytest.TempPathFactory, deaths: list[tuple[str, int]]
) -> None:
    table = tmp_path_factory.mktemp("table")
    checkpoint: list[int] = []
    for death in deaths:
        try:
            run(table, checkpoint, death)
        except Died:
            continue
    run(table, checkpoint, None)

    assert offsets_in(table) == sorted([*range(30), *range(30)])
    assert files_in(table) == named_files(table)
    assert [batch.batch_id for batch in tables.committed_batches(DeltaTable(table))] == [0, 1, 2]


def test_of_two_drivers_with_the_same_batch_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))
    first, second = (written(tmp_path, 1, rows(5, 9)) for _ in range(2))
    looked: list[DeltaTable | None] = []
    plain = tables.open_table

    def look(path: str) -> DeltaTable | None:
        """The other driver commits between this one's look at the table and its own commit."""
        table = plain(path)
        looked.append(table)
        if len(looked) == 1:
            monkeypatch.setattr(tables, "open_table", plain)
            assert commit(tmp_path, 1, second)
        return table

    monkeypatch.setattr(tables, "open_table", look)

    assert not commit(tmp_path, 1, first)
    assert offsets_in(tmp_path) == list(range(9))
    assert files_in(tmp_path) == named_files(tmp_path)


def test_two_drivers_may_create_the_table_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (written(tmp_path, 0, rows(0, 5)) for _ in range(2))
    plain = tables.open_table

    def look(path: str) -> DeltaTable | None:
        monkeypatch.setattr(tables, "open_table", plain)
        found = plain(path)
        assert commit(tmp_path, 0, second)
        return found

    monkeypatch.setattr(tables, "open_table", look)

    assert not commit(tmp_path, 0, first)
    assert offsets_in(tmp_path) == list(range(5))


@pytest.mark.parametrize("turn", range(6))
def test_of_two_drivers_that_create_the_table_in_the_same_moment_one_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: int
) -> None:
    """Of a table that did not exist as both looked, delta-rs would make the loser's commit the next version."""
    messages = [written(tmp_path, 0, rows(0, 5)) for _ in range(2)]
    plain, both_looked = tables.open_table, Barrier(2)

    def look(path: str) -> DeltaTable | None:
        found = plain(path)
        if found is None:
            both_looked.wait(60)
        return found

    monkeypatch.setattr(tables, "open_table", look)
    with ThreadPoolExecutor(2) as drivers:
        won = sorted(drivers.map(lambda message: commit(tmp_path, 0, message), messages))

    assert won == [False, True], turn
    assert offsets_in(tmp_path) == list(range(5))
    assert files_in(tmp_path) == named_files(tmp_path)


def test_another_application_commits_beside_us(tmp_path: Path) -> None:
    commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))
    other = written(tmp_path, 0, rows(5, 9), app_id="other")

    assert commit(tmp_path, 0, other, app_id="other")
    assert offsets_in(tmp_path) == list(range(9))
    assert {b.app_id for b in tables.committed_batches(DeltaTable(tmp_path))} == {"app", "other"}


def test_an_abort_after_a_commit_that_landed_deletes_nothing(tmp_path: Path) -> None:
    """Spark calls abort when commit raises, and a commit can raise after it has landed."""
    message = written(tmp_path, 0, rows(0, 5))
    commit(tmp_path, 0, message)

    assert not tables.abort(str(tmp_path), app_id="app", batch_id=0, files=message.files)
    assert offsets_in(tmp_path) == list(range(5))


def test_an_abort_of_a_batch_that_never_comes_again_deletes_what_killed_tasks_have_left(
    tmp_path: Path,
) -> None:
    written(tmp_path, 0, rows(0, 5))  # and nobody heard of it
    message = written(tmp_path, 0, rows(5, 9))

    assert tables.abort(str(tmp_path), app_id="app", batch_id=0, files=message.files, comes_again=False)
    assert files_in(tmp_path) == set()


def test_an_abort_before_the_commit_deletes_what_was_written(tmp_path: Path) -> None:
    commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))
    message = written(tmp_path, 1, rows(5, 9))

    assert tables.abort(str(tmp_path), app_id="app", batch_id=1, files=message.files)
    assert files_in(tmp_path) == named_files(tmp_path)


def test_an_abort_leaves_what_tasks_of_another_driver_have_written_for_the_batch(tmp_path: Path) -> None:
    mine, others = (written(tmp_path, 0, rows(0, 5)) for _ in range(2))

    DeltaWriter(TableOptions(str(tmp_path), "app"), SCHEMA).abort([mine], 0)

    assert files_in(tmp_path) == {file.name for file in others.files}
    assert commit(tmp_path, 0, others)


def test_the_orphans_of_a_task_that_ran_twice_go_with_the_commit(tmp_path: Path) -> None:
    speculative = written(tmp_path, 0, rows(0, 5))

    commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))

    assert speculative.files[0].name not in files_in(tmp_path)
    assert offsets_in(tmp_path) == list(range(5))


@pytest.mark.parametrize("first", [0, 20_261_129_173_500])  # the other one as a batch write may have it
def test_files_of_a_batch_still_in_work_and_of_others_are_never_touched(tmp_path: Path, first: int) -> None:
    commit(tmp_path, first, written(tmp_path, first, rows(0, 5)))
    in_work = written(tmp_path, first + 2, rows(20, 25)).files[0].name
    of_another = written(tmp_path, first, rows(0, 5), app_id="other").files[0].name
    (tmp_path / "part-made-by-somebody-else.parquet").write_bytes(b"x")

    commit(tmp_path, first + 1, written(tmp_path, first + 1, rows(5, 9)))
    assert tables.delete_orphans(str(tmp_path), app_id="app", batch_id=first + 1) == []

    kept = files_in(tmp_path) - named_files(tmp_path)
    assert kept == {in_work, of_another, "part-made-by-somebody-else.parquet"}


def test_what_a_driver_committed_that_died_right_behind_it_is_no_orphan_of_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are in work still, and its batch need not come again: whoever numbers batches by the table begins the next one."""

    def dies(*_: Any, **__: Any) -> None:
        raise Died

    orphan = written(tmp_path, 0, rows(0, 3))  # of a task that ran twice
    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(tables, "delete_orphans", dies)
        commit(tmp_path, 0, written(tmp_path, 0, rows(0, 3)))
    assert len(list((tmp_path / "_odradek" / "in_work").rglob("*.parquet"))) == 2

    assert commit(tmp_path, 1, written(tmp_path, 1, rows(3, 5)))

    assert offsets_in(tmp_path) == [0, 1, 2, 3, 4]
    assert files_in(tmp_path) == named_files(tmp_path) and orphan.files[0].name not in files_in(tmp_path)
    assert list((tmp_path / "_odradek" / "in_work").rglob("*.parquet")) == []


def test_a_file_that_only_an_earlier_version_names_is_no_orphan(tmp_path: Path) -> None:
    commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))
    commit(tmp_path, 1, written(tmp_path, 1, rows(5, 9)))
    DeltaTable(tmp_path).optimize.compact()

    assert tables.delete_orphans(str(tmp_path), app_id="app", batch_id=1) == []
    assert DeltaTable(tmp_path, version=1).to_pyarrow_table().num_rows == 9


def test_a_commit_of_which_nobody_heard_is_known_as_ones_own_and_that_of_another_driver_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who feeds letters again says how many have become rows; by the table alone it would be none of them."""
    add = tables._add

    def unheard(*given: Any) -> Any:
        monkeypatch.setattr(tables, "_add", add)
        add(*given)
        raise ConnectionBroken("the answer is lost")

    def another_is_faster(*given: Any) -> Any:
        monkeypatch.setattr(tables, "_add", add)
        assert commit(tmp_path, 1, of_another)
        raise ConnectionBroken("the answer is lost")

    monkeypatch.setattr(tables, "_add", unheard)
    assert commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))
    of_another = written(tmp_path, 1, rows(5, 9))
    monkeypatch.setattr(tables, "_add", another_is_faster)
    assert not commit(tmp_path, 1, written(tmp_path, 1, rows(5, 9)))
    assert offsets_in(tmp_path) == list(range(9))


def test_a_lost_checkpoint_is_noticed_and_adds_nothing(tmp_path: Path) -> None:
    for batch_id in range(3):
        commit(tmp_path, batch_id, written(tmp_path, batch_id, rows(batch_id * 5, batch_id * 5 + 5)))

    with pytest.raises(
        tables.WrongCheckpoint, match=r"already has batch 2 of application 'app'.*only at batch 0"
    ):
        commit(tmp_path, 0, written(tmp_path, 0, rows(0, 15)))
    with pytest.raises(tables.WrongCheckpoint, match=r"orders-0\[10, 15\) there, orders-0\[10, 16\) now"):
        commit(tmp_path, 2, written(tmp_path, 2, rows(10, 16)))
    assert offsets_in(tmp_path) == list(range(15))


def test_two_queries_of_one_id_are_told_apart_where_their_rows_are_not(tmp_path: Path) -> None:
    """Rows of queries have no offsets to tell a batch that comes again from one of another checkpoint."""
    from odradek.spark.fingerprint import of_rows

    def of_query(query_id: str, batch_id: int) -> bool:
        done = written(tmp_path, batch_id, rows(0, 5))
        who = {"app_id": "app", "batch_id": batch_id, "query_id": query_id}
        return tables.commit(
            str(tmp_path),
            files=done.files,
            parts=(),
            schema=ARROW,
            rows=of_rows(rows(0, 5)),
            **who,  # type: ignore[arg-type]
        )

    assert of_query("one", 0) and not of_query("one", 0) and of_query("one", 1)
    for batch_id in (1, 2):
        with pytest.raises(
            tables.WrongCheckpoint,
            match="has batch 1 of application 'app' from a query of another checkpoint",
        ):
            of_query("other", batch_id)
    assert len(offsets_in(tmp_path)) == 10 and of_query("one", 2)


@pytest.mark.parametrize("kind", [DeltaSink, ParquetSink])
def test_a_batch_of_a_checkpoint_that_was_put_back_is_not_taken_for_one_that_comes_again(
    tmp_path: Path, kind: type[DataSource]
) -> None:
    """Or of a copy: it lacks the last batch, and plans one of that number anew, with other rows, which are nowhere yet."""
    checkpoint, path = tmp_path / "checkpoint", str(tmp_path / "table")
    (checkpoint / "offsets").mkdir(parents=True)
    given = {"appId": "app", "checkpointLocation": str(checkpoint)}
    given["path" if kind is ParquetSink else "table"] = path

    def runs(batch_id: int, begin: int, end: int, epoch: int = 0) -> None:
        text = f'v1\n{{}}\n{{"orders":{{"offsets":{{"0":{end}}},"leaderEpochs":{{"0":{epoch}}}}}}}'
        (checkpoint / "offsets" / str(batch_id)).write_text(text)
        writer = kind(given).streamWriter(SCHEMA, overwrite=False)
        assert isinstance(writer, DeltaWriter)
        writer.commit([writer.written(iter([rows(begin, end)]), batch_id)], batch_id)

    runs(0, 0, 5)
    runs(0, 0, 5, epoch=1)
    with pytest.raises(tables.WrongCheckpoint, match="has batch 0 of application 'app' with other r"):
        runs(0, 0, 7)
    # So is the batch behind one that has no rows this time, as of a query with a filter.
    runs(0, 3, 3)
    with pytest.raises(tables.WrongCheckpoint, match="has batch 0 of application 'app' with other r"):
        runs(1, 3, 7)
    seen = map(unquote, DeltaTable(path).file_uris()) if kind is DeltaSink else Path(path).glob("*/*.parquet")
    assert [pq.read_metadata(file).num_rows for file in seen] == [5]


@pytest.mark.parametrize("kind", [DeltaSink, ParquetSink])
def test_of_records_that_come_again_some_may_be_gone_meanwhile(
    tmp_path: Path, kind: type[DataSource]
) -> None:
    """Retention has taken the first ones, where that is allowed, or compaction any: by the word of its checkpoint it is that batch."""
    checkpoint, path = tmp_path / "checkpoint", str(tmp_path / "table")
    (checkpoint / "offsets").mkdir(parents=True)
    given = {"appId": "app", "checkpointLocation": f"file://{checkpoint}", "rowsAreRecords": "true"}
    given["path" if kind is ParquetSink else "table"] = path

    def runs(begin: int, end: int, upto: int = 5, without: int | None = None) -> None:
        (checkpoint / "offsets" / "0").write_text(f'v1\n{{}}\n{{"orders":{{"0":{upto}}}}}')
        writer = kind(given).streamWriter(SCHEMA, overwrite=False)
        assert isinstance(writer, DeltaWriter)
        found = rows(begin, end)
        found = found.filter(pc.not_equal(found.column("offset"), -1 if without is None else without))
        writer.commit([writer.written(iter([found]), 0)], 0)

    runs(0, 5)
    runs(2, 5)
    runs(0, 5, without=3)
    runs(0, 5, without=4)
    for begin, end, upto in ((0, 7, 7), (2, 4, 4), (0, 7, 5)):
        with pytest.raises(tables.WrongCheckpoint, match="has batch 0 of application 'app' with other r"):
            runs(begin, end, upto)
    seen = map(unquote, DeltaTable(path).file_uris()) if kind is DeltaSink else Path(path).glob("*/*.parquet")
    assert [pq.read_metadata(file).num_rows for file in seen] == [5]


def test_a_range_that_comes_again_may_be_compacted_meanwhile(tmp_path: Path) -> None:
    """Where nobody knows a checkpoint, too: the offsets tell that it is that batch."""
    assert commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))
    found = rows(0, 5)

    assert not commit(
        tmp_path, 0, written(tmp_path, 0, found.filter(pc.not_equal(found.column("offset"), 2)))
    )
    with pytest.raises(tables.WrongCheckpoint, match=r"orders-0\[0, 5\) there, orders-0\[1, 5\) now"):
        commit(tmp_path, 0, written(tmp_path, 0, rows(1, 5)))
    assert offsets_in(tmp_path) == list(range(5))


def test_a_checkpoint_of_another_table_is_noticed_and_adds_nothing(tmp_path: Path) -> None:
    """Or of this one, which was put back to how it was before: what is fused commits every batch."""
    writer = DeltaWriter(TableOptions(str(tmp_path), "app"), DESCRIPTION)
    done = written(tmp_path, 3, rows(15, 20))

    with pytest.raises(
        tables.WrongCheckpoint, match="has no batch of application 'app', and this checkpoint is at batch 3"
    ):
        writer.commit([done], 3)
    writer.commit([written(tmp_path, 0, rows(0, 5))], 0)
    with pytest.raises(
        tables.WrongCheckpoint,
        match="has batch 0 as the last one of application 'app', and this checkpoint is at batch 2",
    ):
        writer.commit([written(tmp_path, 2, rows(10, 15))], 2)
    writer.commit([written(tmp_path, 1, rows(5, 10))], 1)

    assert len(offsets_in(tmp_path)) == 10


def test_batches_that_have_read_nothing_are_missed_by_nobody(tmp_path: Path) -> None:
    """An older release committed none of them: of a topic that was empty, or had got another partition."""
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    for batch_id, end in enumerate(
        ({"0": 0}, {"0": 5}, {"0": 5, "1": 0}, {"0": 9, "1": 0}, {"0": 9, "1": 2})
    ):
        line = json.dumps({"orders": {"offsets": end, "leaderEpochs": {"0": batch_id}}})
        (offsets / str(batch_id)).write_text(f"v1\n{{}}\n{line}")
    table = tmp_path / "table"
    writer = DeltaWriter(
        TableOptions(str(table), "app", checkpoint=str(tmp_path / "checkpoint")), DESCRIPTION
    )

    with pytest.raises(tables.WrongCheckpoint, match="has no batch"):
        writer.commit([written(table, 2, rows(5, 9))], 2)
    writer.commit([written(table, 1, rows(0, 5))], 1)
    with pytest.raises(tables.WrongCheckpoint, match="has batch 1 as the last one of"):
        writer.commit([written(table, 4, rows(9, 11))], 4)
    writer.commit([written(table, 3, rows(5, 9))], 3)

    assert len(offsets_in(table)) == 9


def test_of_a_checkpoint_that_cannot_be_looked_at_nobody_knows_that_it_has_read_nothing(
    tmp_path: Path,
) -> None:
    where = TableOptions(str(tmp_path / "table"), "app", checkpoint="hdfs://host/checkpoint")

    with pytest.raises(tables.WrongCheckpoint, match="has no batch of application 'app'"):
        DeltaWriter(where, DESCRIPTION).commit([written(tmp_path / "table", 3, rows(15, 20))], 3)


def test_offsets_that_several_tasks_have_left_out_as_lost_are_noted_together(tmp_path: Path) -> None:
    done = [written(tmp_path, 0, rows(0, 5)), written(tmp_path, 0, rows(7, 9))]
    for one, lost in zip(done, (2, 3), strict=True):
        one.gone = (("topic", 0, 9, 9 + lost),)

    DeltaWriter(TableOptions(str(tmp_path), "app"), DESCRIPTION).commit(done, 0)

    assert [note["lost"] for note in tables.notes(DeltaTable(tmp_path))] == [5]


def test_who_is_refused_for_a_checkpoint_is_told_what_helps(tmp_path: Path) -> None:
    """With a checkpoint of its own alone the job would be at batch 0, which the table has: that is refused as well."""
    writer = DeltaWriter(TableOptions(str(tmp_path), "app"), DESCRIPTION)
    with pytest.raises(tables.WrongCheckpoint, match=r"begin with a checkpoint of its own \(--checkpoint\)$"):
        writer.commit([written(tmp_path, 3, rows(15, 20))], 3)
    writer.commit([written(tmp_path, 0, rows(0, 5))], 0)
    with pytest.raises(
        tables.WrongCheckpoint,
        match=r"a checkpoint and an id of its own \(--checkpoint, --app-id\), at the first offsets that the table lacks \(--starting-offsets\)",
    ):
        writer.commit([written(tmp_path, 3, rows(15, 20))], 3)


def test_a_table_that_forgets_its_transactions_knows_its_batches_all_the_same(tmp_path: Path) -> None:
    """Delta drops the number of an application that was quiet for so long; a batch that comes again would be there twice, and a
    checkpoint be taken for that of another table."""
    commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))
    DeltaTable(tmp_path).alter.set_table_properties(
        {"delta.setTransactionRetentionDuration": "interval 0 days"}
    )
    assert DeltaTable(tmp_path).transaction_version("app") is None

    assert not commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))
    writer = DeltaWriter(TableOptions(str(tmp_path), "app"), DESCRIPTION)
    writer.commit([written(tmp_path, 1, rows(5, 10))], 1)
    forget_history(tmp_path)
    assert not commit(tmp_path, 1, written(tmp_path, 1, rows(5, 10)))

    assert offsets_in(tmp_path) == list(range(10))


@pytest.mark.parametrize("is_new", [True, False])
def test_a_file_that_the_driver_does_not_see_is_in_no_commit(tmp_path: Path, is_new: bool) -> None:
    """Of a worker with a disk of its own, or deleted by a VACUUM without its retention: nobody could read the table any more."""
    if not is_new:
        commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))
    done = written(tmp_path, 1, rows(5, 10))
    (tmp_path / done.files[0].name).unlink()

    with pytest.raises(
        NotShared, match=f"{done.files[0].name} is not there, .*; nothing of batch 1 is in the table"
    ):
        commit(tmp_path, 1, done)
    if not is_new:
        assert offsets_in(tmp_path) == list(range(5))


def test_an_existing_table_is_appended_to(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.Table.from_batches([rows(0, 5)]))

    assert commit(tmp_path, 0, written(tmp_path, 0, rows(5, 9)))
    assert offsets_in(tmp_path) == list(range(9))


def test_where_no_table_is_nothing_is_read(tmp_path: Path) -> None:
    nobody: Any = None  # it is not asked

    with pytest.raises(tables.WrongTable, match=f"^there is no Delta table at {tmp_path}/none$"):
        tables.read_table(nobody, f"{tmp_path}/none")


def test_a_table_with_other_columns_is_refused_in_a_sentence(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"key": ["text"], "value": [b"x"]}))

    with pytest.raises(tables.WrongTable, match=r"has column key as STRING; the rows have BINARY"):
        commit(tmp_path, 0, written(tmp_path, 0, rows(5, 9)))


def test_a_partitioned_table_is_refused_in_a_sentence(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.Table.from_batches([rows(0, 5)]), partition_by=["topic"])

    with pytest.raises(tables.WrongTable, match="is partitioned by topic"):
        commit(tmp_path, 0, written(tmp_path, 0, rows(5, 9)))


def test_a_commit_that_cannot_be_made_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise CommitFailedError("the log is full of others")

    monkeypatch.setattr(tables, "_add", refuse)

    with pytest.raises(CommitFailedError, match="full of others"):
        commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))


def test_a_batch_write_is_there_once_and_one_that_failed_leaves_nothing(tmp_path: Path) -> None:
    """What Spark does with a writer of a batch, without Spark."""
    options = TableOptions(str(tmp_path / "table"), "app", rows_are_records=True, batch_id=4)
    writer = BatchWriter(DeltaWriter(options, SCHEMA))
    table = tmp_path / "table"

    writer.abort([writer.write(iter([rows(0, 3)])), None])
    assert files_in(table) == set() and tables.open_table(str(table)) is None

    for _ in range(2):
        writer.commit([writer.write(iter([rows(0, 3)])), writer.write(iter([rows(3, 5)]))])
    assert offsets_in(table) == [0, 1, 2, 3, 4] and files_in(table) == named_files(table)
    assert DeltaTable(table).transaction_version("app") == 4


def test_a_first_batch_without_rows_makes_the_table_that_notes_it(tmp_path: Path) -> None:
    """In a directory that nobody has made: no task had a file to put there."""
    table = tmp_path / "not" / "there"

    assert commit(table, 0)
    assert not commit(table, 0)

    assert DeltaTable(table).transaction_version("app") == 0
    assert DeltaTable(table).to_pyarrow_table().num_rows == 0
    assert commit(table, 1, written(table, 1, rows(0, 2))) and offsets_in(table) == [0, 1]


def test_times_in_the_log_are_milliseconds_of_now(tmp_path: Path) -> None:
    """VACUUM and the log's own cleaning go by them, and time travel by the commit's."""
    before_ms = int(time.time() * 1000)
    for batch_id in range(2):
        commit(tmp_path, batch_id, written(tmp_path, batch_id, rows(batch_id, batch_id + 1)))
    after_ms = int(time.time() * 1000)

    found = []
    for log in sorted((tmp_path / "_delta_log").glob("*.json")):
        for action in map(json.loads, log.read_text().splitlines()):
            found += [action["add"]["modificationTime"]] if "add" in action else []
            found += [action["txn"]["lastUpdated"]] if "txn" in action else []
            found += [action["commitInfo"]["timestamp"]] if "commitInfo" in action else []
    assert len(found) == 6 and before_ms <= min(found) and max(found) <= after_ms


def test_what_the_rules_of_delta_forbid_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no table yet an error may mean that another has just made it; where there still is none, it does not."""
    tried = []

    def forbidden(*_: Any) -> None:
        tried.append(1)
        raise DeltaError("forbidden")

    monkeypatch.setattr(tables, "_add", forbidden)

    for is_there in (False, True):
        if is_there:
            write_deltalake(tmp_path, pa.table({"x": [1]}))
        tried.clear()
        with pytest.raises(DeltaError, match="forbidden"):
            commit(tmp_path, 0, written(tmp_path, 0, rows(0, 3)))
        assert len(tried) == 1


def test_a_task_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def broken() -> object:
        yield rows(0, 5)
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        write_rows(broken(), SCHEMA, TableOptions(str(tmp_path), "app"), batch_id=0)  # type: ignore[arg-type]

    assert files_in(tmp_path) == set()


def test_a_task_without_rows_writes_no_file_and_still_answers(tmp_path: Path) -> None:
    message = written(tmp_path, 0)

    assert message.files == () and message.parts == ()
    assert files_in(tmp_path) == set()


def test_the_statistics_are_those_of_the_rows(tmp_path: Path) -> None:
    (file,) = written(tmp_path, 0, rows(5, 9), rows(2, 4, 1)).files

    stats = json.loads(file.stats)
    assert file.records == stats["numRecords"] == 6
    assert (stats["minValues"]["offset"], stats["maxValues"]["offset"]) == (2, 8)
    assert (stats["minValues"]["partition"], stats["maxValues"]["partition"]) == (0, 1)
    assert stats["nullCount"]["value"] == 0


def test_a_file_name_tells_its_application_and_batch() -> None:
    assert batch_of(file_name("app", 17), "app") == 17
    assert batch_of(file_name("app", 17), "other") is None
    assert batch_of("part-00000.parquet", "app") is None


def test_a_commit_looks_at_what_is_in_work_and_never_lists_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))
    orphan = written(tmp_path, 1, rows(5, 9)).files[0].name
    message = written(tmp_path, 1, rows(5, 9))
    listed: set[Path] = set()
    for name in ("scandir", "listdir"):
        plain = getattr(os, name)
        monkeypatch.setattr(os, name, lambda path, plain=plain: listed.add(Path(path)) or plain(path))
    monkeypatch.setattr(tables, "_ever_named", lambda path: pytest.fail("reads the whole log"))

    assert commit(tmp_path, 1, message)

    assert listed and tmp_path not in listed and tmp_path / "_delta_log" not in listed
    assert orphan not in files_in(tmp_path)
    assert not list((tmp_path / "_odradek" / "in_work").iterdir()), "what is committed is in work no more"


def test_what_a_task_leaves_that_is_later_than_its_commit_goes_with_the_next(tmp_path: Path) -> None:
    commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))
    late = written(tmp_path, 0, rows(0, 5)).files[0].name

    commit(tmp_path, 1, written(tmp_path, 1, rows(5, 9)))

    assert late not in files_in(tmp_path)
    assert files_in(tmp_path) == named_files(tmp_path)
    assert offsets_in(tmp_path) == list(range(9))


def forget_history(table: Path) -> None:
    """What Delta does to a log after 30 days: the state stays, who added what is gone."""
    DeltaTable(table).create_checkpoint()
    for log in (table / "_delta_log").glob("*.json"):
        log.unlink()
    assert not [entry for entry in DeltaTable(table).history() if tables.METADATA in entry]


def test_what_proves_the_batches_outlives_the_log_of_the_table(tmp_path: Path) -> None:
    for batch_id in range(2):
        commit(tmp_path, batch_id, written(tmp_path, batch_id, rows(batch_id * 5, batch_id * 5 + 5)))
    before = tables.committed_batches(DeltaTable(tmp_path))
    forget_history(tmp_path)

    assert tables.committed_batches(DeltaTable(tmp_path)) == before
    assert [batch.batch_id for batch in before] == [0, 1]
    assert not commit(tmp_path, 1, written(tmp_path, 1, rows(5, 10)))
    with pytest.raises(tables.WrongCheckpoint, match=r"orders-0\[5, 10\) there, orders-0\[5, 11\) now"):
        commit(tmp_path, 1, written(tmp_path, 1, rows(5, 11)))


def test_a_driver_that_died_before_it_kept_the_proof_keeps_it_when_the_batch_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Died):

        def dies(*_: object) -> None:
            raise Died

        patch.setattr(batch_notes, "keep", dies)
        commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))

    assert not commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))
    forget_history(tmp_path)

    (batch,) = tables.committed_batches(DeltaTable(tmp_path))
    assert (batch.batch_id, batch.parts[0].end) == (0, 5)
    assert files_in(tmp_path) == named_files(tmp_path)


def test_a_table_made_anew_in_the_same_directory_has_no_batches_of_the_old_one(tmp_path: Path) -> None:
    commit(tmp_path, 0, written(tmp_path, 0, rows(0, 5)))
    for file in (tmp_path / "_delta_log").iterdir():
        file.unlink()

    write_deltalake(tmp_path, pa.Table.from_batches([rows(0, 5)]))

    assert tables.committed_batches(DeltaTable(tmp_path)) == []


def note(batch_id: int, app_id: str = "app") -> dict[str, object]:
    return {"appId": app_id, "batchId": batch_id, "records": batch_id}


def test_notes_of_batches_are_rolled_up_and_a_crash_on_the_way_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_notes, "ROLLED", 4)
    table = str(tmp_path)
    for batch_id in range(3):
        batch_notes.keep(table, "id", note(batch_id))
    unlink = Path.unlink
    deaths = iter([None, Died()])

    def dies_at_the_second(file: Path, missing_ok: bool = False) -> None:
        death = next(deaths)
        if death is not None:
            raise death
        unlink(file, missing_ok)

    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(Path, "unlink", dies_at_the_second)
        batch_notes.keep(table, "id", note(3))
    for batch_id in range(3, 10):
        batch_notes.keep(table, "id", note(batch_id))
    batch_notes.keep(table, "id", note(0, app_id="other"))

    assert [n["batchId"] for n in batch_notes.every(table, "id", "app")] == list(range(10))
    assert sum(1 for _ in batch_notes.every(table, "id")) == 11
    for batch_id in range(10):
        assert batch_notes.find(table, "id", "app", batch_id) == {**note(batch_id), "tableId": "id"}
    assert batch_notes.find(table, "id", "app", 10) is None
    assert batch_notes.find(table, "another", "app", 3) is None
    assert len(list((tmp_path / "_odradek" / "batches").rglob("*.json*"))) == 2 + 2 + 1


@pytest.mark.parametrize("asks", ["keep", "every"])
def test_whoever_rolls_notes_up_meanwhile_takes_none_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asks: str
) -> None:
    """Another driver of the batch does, or the job whose table is verified: between any two files that are read."""
    monkeypatch.setattr(batch_notes, "ROLLED", 4)
    lists, reads = Directory.listed, Directory.read

    def check(at: int) -> bool:
        """Whether there was a moment of this number."""
        table = str(tmp_path / f"{at}")
        for batch_id in range(3):
            batch_notes.keep(table, "id", note(batch_id))
        moments = count()
        moment = -1

        def rolls() -> None:
            nonlocal moment
            moment = next(moments)
            if moment == at:
                batch_notes.keep(table, "id", note(3))

        def listed_earlier(storage: Directory, *of: str) -> list[str]:
            found = lists(storage, *of)
            rolls()
            return found

        def read_later(storage: Directory, name: str) -> bytes:
            rolls()
            return reads(storage, name)

        with monkeypatch.context() as patch:
            patch.setattr(Directory, "listed", listed_earlier)
            patch.setattr(Directory, "read", read_later)
            if asks == "keep":
                batch_notes.keep(table, "id", note(3))
            else:
                seen = [n["batchId"] for n in batch_notes.every(table, "id")]
                assert seen[:3] == list(range(3)), at
        if asks == "keep":
            assert [n["batchId"] for n in batch_notes.every(table, "id")] == list(range(4)), at
        return moment >= at

    assert [check(at) for at in range(5)] == [True] * 5 and not check(50)


def notes_of(table: Path) -> list[Path]:
    """The notes of batches, and the directories that have their names."""
    own = table / "_odradek"
    return [own, own / "batches", *(own / "batches").rglob("*")]


@pytest.mark.parametrize("divided", [False, True])
def test_a_power_cut_takes_nothing_of_a_batch_once_the_checkpoint_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, divided: bool
) -> None:
    """Files of rows are on the disk before a commit names them, the commit before Spark notes that the batch is done."""
    table = tmp_path / "table"
    cuts = PowerCuts(monkeypatch)
    lands, appends = tables.create_table_with_add_actions, DeltaTable.create_write_transaction
    landed: list[list[str]] = []

    def created(*args: Any, **more: Any) -> None:
        landed.append(cuts.would_take(data_of(table)))
        lands(*args, **more, configuration={"delta.checkpointInterval": "10"})

    def appended(*args: Any, **more: Any) -> None:
        landed.append(cuts.would_take(data_of(table)))
        appends(*args, **more)

    monkeypatch.setattr(tables, "create_table_with_add_actions", created)
    monkeypatch.setattr(DeltaTable, "create_write_transaction", appended)
    for batch_id in range(21):  # the tenth version has a checkpoint of Delta's, the twentieth another
        options = {"table": str(table), "appId": "app", "partitionBy": "partition" if divided else ""}
        writer = DeltaWriter(table_options(options), SCHEMA)
        writer.commit([writer.written(iter([rows(batch_id, batch_id + 1)]), batch_id)], batch_id)
        assert cuts.would_take([table, *(table / "_delta_log").iterdir()]) == []
        assert cuts.would_take([table / "_delta_log"]) == []
        assert cuts.would_take(notes_of(table)) == [], "what proves the batch once Delta's log is cleared"
    assert len(landed) == 21 and not any(landed) and len(notes_of(table)) == 21 + 3
    assert json.loads((table / "_delta_log" / "_last_checkpoint").read_bytes())["version"] == 19


@pytest.mark.parametrize("form", [DeltaSink, ParquetSink])
def test_a_power_cut_takes_no_directory_that_was_made_above_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: type[DeltaSink] | type[ParquetSink]
) -> None:
    cuts = PowerCuts(monkeypatch)
    table = tmp_path / "warehouse" / "raw" / "orders"
    place = {"path" if form is ParquetSink else "table": str(table)}
    writer: Any = form({**place, "appId": "app", "batchId": "0"}).writer(SCHEMA, overwrite=False)

    writer.commit([writer.write(iter([rows(0, 3)]))])

    assert cuts.would_take([tmp_path, tmp_path / "warehouse", tmp_path / "warehouse" / "raw"]) == []


@pytest.mark.parametrize("step", [Directory.replace, Directory.settle])
def test_a_note_that_a_full_disk_does_not_take_leaves_no_file(
    tmp_path: Path, step: Callable[[Directory, str, bytes], object]
) -> None:
    with full_disk(20_000), pytest.raises(OSError, match="File too large"):
        step(Directory(str(tmp_path)), "notes/one.json", bytes(40_000))

    assert [*(tmp_path / "notes").iterdir()] == []


@pytest.mark.parametrize("form", [DeltaSink, ParquetSink])
def test_a_table_may_be_in_a_directory_that_its_writer_may_not_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: type[DeltaSink] | type[ParquetSink]
) -> None:
    opens, synced = os.open, []

    def opened(path: Any, *more: Any, **named: Any) -> int:
        if Path(path) == tmp_path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return opens(path, *more, **named)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "sync", lambda: synced.append(True))
    place = {"path" if form is ParquetSink else "table": str(tmp_path / "table")}
    writer: Any = form({**place, "appId": "app", "batchId": "0"}).writer(SCHEMA, overwrite=False)

    writer.commit([writer.write(iter([rows(0, 3)]))])

    assert synced == [True], "all that the machine writes, as what is named alone cannot be"


def test_a_batch_that_comes_again_because_its_driver_died_behind_the_commit_is_synced_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = str(tmp_path / "table")
    writer = DeltaWriter(table_options({"table": table, "appId": "app"}), SCHEMA)
    monkeypatch.setattr(delta_log, "sync", died)
    with pytest.raises(Died):
        writer.commit([writer.written(iter([rows(0, 1)]), 0)], 0)
    monkeypatch.undo()

    steps: list[str] = []
    monkeypatch.setattr(os, "sync", lambda: steps.append("synced"))
    writer.commit([writer.written(iter([rows(0, 1)]), 0)], 0)

    assert steps == ["synced"]
    assert DeltaTable(table).to_pyarrow_table().num_rows == 1


def died(*_: Any, **__: Any) -> None:
    raise Died
