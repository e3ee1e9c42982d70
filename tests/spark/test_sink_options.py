"""The options of the sinks into tables and directories: what becomes of each, its bounds, and what is said of a wrong one. No JVM."""

import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from odradek.model.errors import ConfigurationError
from odradek.spark import object_store, store_probe
from odradek.spark import sink as sink_module
from odradek.spark.evolution import FIXED, Evolve
from odradek.spark.kill_switch import OFF, KillSwitch
from odradek.spark.partitioning import By, Spec
from odradek.spark.shape import Shape
from odradek.spark.sink import DESCRIPTION, BatchWriter, DeltaSink, DeltaWriter, ParquetSink, ParquetWriter
from odradek.spark.writing import TableOptions
from tests.spark.test_tables import commit as committed
from tests.spark.test_tables import rows, written

SCHEMA = StructType([StructField("id", LongType()), StructField("country", StringType())])


def stream(schema: StructType = SCHEMA, *, overwrite: bool = False, **given: str) -> TableOptions:
    writer = DeltaSink(given).streamWriter(schema, overwrite)
    assert isinstance(writer, DeltaWriter)
    return writer.options


def batch(schema: StructType = SCHEMA, *, overwrite: bool = False, **given: str) -> TableOptions:
    writer = DeltaSink(given).writer(schema, overwrite)
    assert isinstance(writer, BatchWriter)
    return writer._writer.options


def test_what_is_not_asked_for_is_as_it_always_was(tmp_path: Path) -> None:
    table = str(tmp_path / "table")

    assert stream(table=table, appId="a") == TableOptions(table, "a")
    assert batch(table=table, appId="a", batchId="7") == TableOptions(table, "a", batch_id=7)
    assert not Path(table).exists(), "nothing is made before there are rows"


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"rowsAreRecords": "true"}, "rows_are_records", True),
        ({"rowsAreRecords": "TRUE"}, "rows_are_records", True),
        ({"rowsAreRecords": "false"}, "rows_are_records", False),
        ({"evolve": "add,relax"}, "evolve", Evolve(adds=True, relaxes=True)),
        ({"evolve": "none"}, "evolve", FIXED),
        ({"killSwitch": "before-commit:3:17,18"}, "kill_switch", KillSwitch("before-commit", 3, (17, 18))),
        ({"killSwitch": ""}, "kill_switch", OFF),
        ({}, "shape", None),
        ({}, "is_named", True),
        ({}, "letters_to", None),
    ],
)
def test_each_option_has_its_effect_in_any_case(
    tmp_path: Path, given: dict[str, str], field: str, value: object
) -> None:
    table = str(tmp_path / "table")
    for spelled in (given, {name.lower(): text for name, text in given.items()}):
        assert getattr(stream(table=table, appId="a", **spelled), field) == value


def test_how_the_table_is_cut_travels_with_the_options(tmp_path: Path) -> None:
    cut = {"partitionBy": "country", "targetFileSize": "8MB", "sortBy": "id"}

    layout = stream(table=str(tmp_path / "table"), appId="a", **cut).layout

    assert layout.spec == Spec((By("country"),))
    assert (layout.target_bytes, layout.sort_by) == (8_000_000, ("id",))


def test_a_job_gives_what_becomes_of_values_and_where_letters_go(tmp_path: Path) -> None:
    import pyarrow as pa

    shape = Shape(pa.schema([("id", pa.int64())]))
    letters = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "letters", "directory": str(tmp_path)}
    given = {
        "table": str(tmp_path / "table"),
        "appId": "a",
        "shape": shape.to_text(),
        "upserts": "dlq",
        "deadLetters": json.dumps(letters),
        "checkpointLocation": str(tmp_path / "checkpoint"),
    }

    found = stream(DESCRIPTION, **given)

    assert (found.shape, found.upserts) == (shape, "dlq")
    assert found.letters_to is not None
    assert (found.letters_to.topic, found.letters_to.app_id) == ("letters", "a:dead-letters")
    assert found.letters_to.checkpoint == given["checkpointLocation"]
    with pytest.raises(ConfigurationError, match="upserts is for odradek-fused: which row of a query"):
        stream(SCHEMA, **given)


def test_of_a_batch_without_a_name_each_is_another(tmp_path: Path) -> None:
    table = str(tmp_path / "table")

    one, other = batch(table=table), batch(table=table, appId="")

    assert not one.is_named and not other.is_named and one.batch_id == other.batch_id == 0
    assert len({one.app_id, other.app_id, ""}) == 3
    with pytest.raises(ConfigurationError, match="batchId='1': expected a whole number, beside an appId"):
        batch(table=table, batchId="1")


@pytest.mark.parametrize("number", ["0", "1", str(2**63 - 1)])
def test_a_batch_has_a_number_that_delta_can_note(tmp_path: Path, number: str) -> None:
    assert batch(table=str(tmp_path), appId="a", batchId=number).batch_id == int(number)


WRONG_OF_BOTH: list[tuple[dict[str, str], str]] = [
    ({"table": ""}, "the option table is missing: the directory of the table"),
    ({"table": "gs://b/t"}, "the option table"),
    ({"rowsAreRecords": "yes"}, "rowsAreRecords='yes': expected true or false"),
    ({"evolve": "grow"}, "evolve=grow: there are add, widen, relax"),
    ({"partitionBy": "nothing"}, "there is no column nothing; there are id, country"),
    ({"sortBy": "nothing"}, "sortBy=nothing: there is no such column; there are id, country"),
    ({"sortBy": "--evolve x"}, "sortBy=--evolve x: there is no such column; there are id, country"),
    ({"targetFileSize": "8 apples"}, "targetFileSize=8 apples: expected a size as in 128MB"),
    ({"partitionBy": "day("}, "partitionBy=day(: day( is no column, day(COLUMN)"),
    ({"mergeSchema": "true"}, "odradek-delta has no option mergeschema; it has appId, "),
    ({"storage.AWS_SECRET_ACCESS_KEY": "x"}, "odradek-delta has no options storage.*: address and cred"),
    ({"STORAGE.x": "y"}, "odradek-delta has no options storage.*"),
    ({"killSwitch": "at-noon:1:2"}, "the kill switch knows before-write"),
]


@pytest.mark.parametrize(("wrong", "why"), WRONG_OF_BOTH)
def test_a_wrong_option_is_a_sentence_of_a_stream_and_of_a_batch(
    tmp_path: Path, wrong: dict[str, str], why: str
) -> None:
    given = {"table": str(tmp_path / "table"), "appId": "a"}
    for planned, more in ((stream, {}), (batch, {"batchId": "0"})):
        with pytest.raises(ConfigurationError) as caught:
            planned(**{**given, **more, **wrong})
        assert why in str(caught.value)
        assert caught.value.__cause__ is None and caught.value.__context__ is None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "the option appId is missing: a name for this writer"),
        ({"appId": ""}, "the option appId is missing: a name for this writer"),
        ({"appId": "a", "batchId": "0"}, "odradek-delta has no option batchid; it has appId, "),
    ],
)
def test_what_a_stream_is_asked_for(tmp_path: Path, given: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        stream(table=str(tmp_path), **given)
    assert str(caught.value).startswith(why)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"appId": "a"},
            "the option batchId is missing: its number: the same of the same appId is written once",
        ),
        ({"appId": "a", "batchId": "-1"}, "batchId='-1': expected a whole number, beside an appId"),
        ({"appId": "a", "batchId": "1.5"}, "batchId='1.5': expected a whole number"),
        ({"appId": "a", "batchId": str(2**63)}, f"batchId='{2**63}': expected a whole number"),
        (
            {"checkpointLocation": "/c"},
            "odradek-delta has no option checkpointlocation; it has appId, batchId, ",
        ),
    ],
)
def test_what_a_batch_is_asked_for(tmp_path: Path, given: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        batch(table=str(tmp_path), **given)
    assert str(caught.value).startswith(why)


def test_the_options_are_named_as_they_are_spelled_and_those_between_ours_are_not_named(
    tmp_path: Path,
) -> None:
    names = "appId, evolve, partitionBy, rowsAreRecords, sortBy, table, targetFileSize"
    with pytest.raises(ConfigurationError, match=f"; it has {names}$"):
        stream(table=str(tmp_path), appId="a", other="1")
    with pytest.raises(ConfigurationError, match=f"; it has {names.replace('appId,', 'appId, batchId,')}$"):
        batch(table=str(tmp_path), other="1")


@pytest.mark.parametrize("sink", [DeltaSink, ParquetSink])
def test_nothing_is_overwritten(tmp_path: Path, sink: Any) -> None:
    given = {"table" if sink is DeltaSink else "path": str(tmp_path), "appId": "a"}

    with pytest.raises(ConfigurationError, match=f"{sink.name()} only appends: outputMode must be append$"):
        sink(given).streamWriter(SCHEMA, True)
    with pytest.raises(ConfigurationError, match=f'{sink.name()} only appends: mode."append". adds to what'):
        sink({**given, "batchId": "0"}).writer(SCHEMA, True)


def test_a_table_that_must_not_be_appended_to_is_refused_before_the_query_runs(tmp_path: Path) -> None:
    table = tmp_path / "table"
    committed(table, 0, written(table, 0, rows(0, 3)))
    from deltalake import DeltaTable

    DeltaTable(table).alter.add_constraint({"small": "offset < 100"})

    for planned, more in ((stream, {}), (batch, {"batchId": "0"})):
        with pytest.raises(Exception, match="has the constraint small CHECK"):
            planned(table=str(table), appId="a", **more)


def test_a_store_is_asked_for_at_the_start_and_waited_for_by_who_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who mistyped its address wants to know now; a query that has ended a batch had the right one."""
    asked: list[str] = []
    monkeypatch.setattr(object_store, "check_listens", lambda table: asked.append(f"listens {table}"))
    monkeypatch.setattr(store_probe, "check", lambda table, option: asked.append(f"{option} {table}"))
    table, checkpoint = str(tmp_path / "table"), tmp_path / "checkpoint"
    probed = f"the option table {table}"

    def asked_by(planned: Callable[..., TableOptions], **more: str) -> list[str]:
        asked.clear()
        planned(table=table, appId="a", **more)
        return list(asked)

    (checkpoint / "commits").mkdir(parents=True)
    begins = {"checkpointLocation": str(checkpoint)}
    assert asked_by(stream, **begins) == [f"listens {table}", probed]
    assert asked_by(batch, batchId="0") == [f"listens {table}", probed]
    (checkpoint / "commits" / "0").touch()
    assert asked_by(stream, **begins) == [probed]
    monkeypatch.setattr(sink_module, "may_have_batches", lambda location: True)
    assert asked_by(batch, batchId="1") == [f"listens {table}", probed], "a batch has no checkpoint"


def test_a_directory_of_parquet_files_has_its_path_and_no_columns_that_change(tmp_path: Path) -> None:
    path = str(tmp_path / "files")
    writer = ParquetSink({"path": path, "appId": "a", "partitionBy": "country"}).streamWriter(SCHEMA, False)

    assert isinstance(writer, ParquetWriter)
    assert writer._path == path
    assert writer.options.table == f"{path}/_odradek/staged"
    assert writer.options.layout.spec == Spec((By("country"),))
    unnamed = ParquetSink({"path": path}).writer(SCHEMA, False)
    assert isinstance(unnamed, BatchWriter) and not unnamed._writer.options.is_named

    wrong: Mapping[str, tuple[dict[str, str], str]] = {
        "no path": ({"path": ""}, "the option path is missing: the directory of the files"),
        "a store": ({"path": "s3://b/p"}, "an object store has not; odradek-delta writes to s3://"),
        "evolve": ({"evolve": "add"}, "odradek-parquet has no option evolve; it has appId, "),
        "table": ({"table": path}, "odradek-parquet has no option table; it has appId, "),
        "column": ({"partitionBy": "nothing"}, "there is no column nothing; there are id, country"),
    }
    for (more, why), is_stream in itertools.product(wrong.values(), (True, False)):
        given = {"path": path, "appId": "a", **({} if is_stream else {"batchId": "0"}), **more}
        sink = ParquetSink(given)
        with pytest.raises(ConfigurationError) as caught:
            sink.streamWriter(SCHEMA, False) if is_stream else sink.writer(SCHEMA, False)
        assert why in str(caught.value)


@pytest.mark.parametrize("name", ["batch", "Batch"])
def test_files_have_no_column_of_the_name_of_their_directories(tmp_path: Path, name: str) -> None:
    """DuckDB and Spark give the directory's for it, whatever the rows have, and pyarrow gives up."""
    schema = StructType([*SCHEMA, StructField(name, LongType())])
    with pytest.raises(
        ConfigurationError, match=f"the rows have a column {name}, and readers take the one of that name"
    ):
        ParquetSink({"path": str(tmp_path), "appId": "a"}).streamWriter(schema, False)


def test_rows_go_to_the_option_table_and_nowhere_else(tmp_path: Path) -> None:
    """`start(PATH)` and `save(PATH)` give the option path: where it is another place, one of the two is not meant."""
    table = str(tmp_path / "table")
    assert stream(table=table, path=table, appId="a").table == table

    for planned, more in ((stream, {}), (batch, {"batchId": "0"})):
        with pytest.raises(ConfigurationError) as caught:
            planned(table=table, path=str(tmp_path / "other"), appId="a", **more)
        assert str(caught.value) == (
            f"path={tmp_path}/other, of start() or save(), is not table={table}: odradek-delta writes to the option table; "
            f"leave the path out"
        )
