"""Rows of a query: counted and hashed, whatever a shuffle, a join or an explode has made of the records. No Spark needed."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.pandas.types import from_arrow_schema

from odradek.spark import tables
from odradek.spark.fingerprint import Fingerprint, of_rows
from odradek.spark.parts import Overlap
from odradek.spark.verify import verify
from odradek.spark.writing import TableOptions, Written, write_rows

RECORDS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)


def records(*offsets: int, value: object = b"v", schema: pa.Schema = RECORDS) -> pa.RecordBatch:
    found = [{"key": None, "value": value, "topic": "orders", "partition": 0, "offset": n} for n in offsets]
    return pa.RecordBatch.from_pylist(found, schema=schema)


def write(
    table: Path, batch_id: int, *tasks: list[pa.RecordBatch], are_records: bool = False
) -> list[Written]:
    options = TableOptions(str(table), "app", rows_are_records=are_records)
    return [write_rows(t, from_arrow_schema(t[0].schema), options, batch_id=batch_id) for t in tasks]


def commit(table: Path, batch_id: int, *tasks: list[pa.RecordBatch], are_records: bool = False) -> bool:
    done = write(table, batch_id, *tasks, are_records=are_records)
    rows = [w.rows for w in done if w.rows is not None]
    return tables.commit(
        str(table),
        app_id="app",
        batch_id=batch_id,
        files=[file for w in done for file in w.files],
        parts=[part for w in done for part in w.parts],
        schema=tasks[0][0].schema,
        rows=sum(rows, Fingerprint()) if rows else None,
    )


@pytest.mark.parametrize(
    "tasks",
    [
        ([records(0, 2, 4)], [records(1, 3, 5)]),  # repartition
        ([records(0, 1), records(1, 1, 2)], [records(2)]),  # explode, over the border of an Arrow batch
    ],
)
def test_rows_that_were_dealt_out_anew_are_taken(
    tmp_path: Path, tasks: tuple[list[pa.RecordBatch], ...]
) -> None:
    assert commit(tmp_path / "table", 0, *tasks)
    assert not commit(tmp_path / "table", 0, *reversed(tasks)), "the batch comes again, dealt out otherwise"

    report = verify(str(tmp_path / "table"), "nobody.is.asked:1")
    assert report.is_equal and report.rows is not None and report.rows.table.count == 6
    with pytest.raises(Overlap):
        commit(tmp_path / "other", 0, *tasks, are_records=True)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (7, pa.int32()),
        ({"a": 1, "b": ["x"]}, pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])),
        (1.5, pa.float64()),
    ],
)
def test_a_parsed_value_is_taken(tmp_path: Path, value: object, kind: pa.DataType) -> None:
    schema = RECORDS.set(1, pa.field("value", kind))

    assert commit(tmp_path / "table", 0, [records(0, 1, value=value, schema=schema)])
    assert verify(str(tmp_path / "table"), "nobody.is.asked:1").is_equal


def test_verify_notices_a_row_that_was_added_taken_or_changed(tmp_path: Path) -> None:
    table = tmp_path / "table"
    commit(table, 0, [records(0, 1, 2)], [records(3)])
    commit(table, 1, [records(4)])
    assert verify(str(table), "nobody.is.asked:1").is_equal

    DeltaTable(str(table)).optimize.compact()
    assert verify(str(table), "nobody.is.asked:1").is_equal, "others may rewrite the files"
    DeltaTable(str(table)).update(updates={"value": "X'7777'"}, predicate="offset = 2")
    assert not verify(str(table), "nobody.is.asked:1").is_equal
    DeltaTable(str(table)).delete("offset = 2")
    report = verify(str(table), "nobody.is.asked:1")
    assert "rows: table 4" in str(report.rows) and "commits 5" in str(report.rows) and not report.is_equal
    write_deltalake(str(table), pa.table(records(9).to_pydict(), schema=RECORDS), mode="append")
    assert not verify(str(table), "nobody.is.asked:1").is_equal


def test_a_fingerprint_of_rows_sees_swapped_values_and_neither_the_order_nor_a_new_empty_column() -> None:
    rows = pa.RecordBatch.from_pylist([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    swapped = pa.RecordBatch.from_pylist([{"a": 1, "b": "y"}, {"a": 2, "b": "x"}])

    assert of_rows(rows) != of_rows(swapped)
    assert of_rows(rows) == of_rows(
        pa.RecordBatch.from_pylist([{"b": "y", "a": 2, "c": None}, {"b": "x", "a": 1, "c": None}])
    )
    assert of_rows(rows) == of_rows(rows.slice(0, 1)) + of_rows(rows.slice(1))
    assert of_rows(rows) != of_rows(rows.rename_columns(["b", "a"]))
    assert of_rows(pa.RecordBatch.from_pylist([{"a": ""}])) != of_rows(
        pa.RecordBatch.from_pylist([{"a": None}])
    )
