"""Tables that are divided by columns, days and buckets, in files of a size and an order: written, proved, and read by others."""

import base64
import datetime
import json
import random
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyspark.sql.pandas.types import from_arrow_schema

from odradek.client.partitioning import partition_of
from odradek.model.errors import ConfigurationError
from odradek.spark import table_files, tables
from odradek.spark.cannot_write import CannotWrite
from odradek.spark.evolution import Evolve
from odradek.spark.fingerprint import EMPTY
from odradek.spark.partitioning import By, Spec, directory_of
from odradek.spark.table_files import Layout, size_of
from odradek.spark.verify import CannotVerify, _of_all_rows, verify
from odradek.spark.writing import TableOptions, Written, write_rows
from tests.spark.test_parquet_directory import asked_of_duckdb
from tests.support import full_disk

UTC = datetime.UTC
DAYS = [
    datetime.datetime(2024, 1, 2, 23, 59, tzinfo=UTC),
    datetime.datetime(1969, 12, 31, 1, tzinfo=UTC),
    datetime.datetime(1, 1, 1, tzinfo=UTC),
    None,
]
ROWS = pa.table(
    {
        "id": [1, 2, 3, 4],
        "country": ["DE", "a/b =%c", None, ""],
        "at": pa.array(DAYS, pa.timestamp("us", "UTC")),
        "key": [b"k1", b"k2", None, b"k4"],
    }
)
SPEC = "country, day(at), bucket(16, key)"


def options(table: Path, spec: str = "", target: int = 0, sort_by: tuple[str, ...] = ()) -> TableOptions:
    return TableOptions(str(table), "app", layout=Layout(Spec.of(spec), target, sort_by))


def task(how: TableOptions, rows: pa.Table, batch_id: int = 0) -> Written:
    return write_rows(rows.to_batches(), from_arrow_schema(rows.schema), how, batch_id=batch_id)


def run(how: TableOptions, *tasks: pa.Table, batch_id: int = 0) -> list[Written]:
    done = [task(how, rows, batch_id) for rows in tasks]
    tables.commit(
        how.table,
        app_id=how.app_id,
        batch_id=batch_id,
        files=[file for one in done for file in one.files],
        parts=(),
        schema=tasks[0].schema,
        rows=sum((one.rows or EMPTY for one in done), EMPTY),
        spec=how.layout.spec,
    )
    return done


def files_in(table: Path) -> list[Path]:
    return [file for file in table.rglob("*.parquet") if "_odradek" not in file.parts]


def is_proved(table: Path) -> bool:
    opened = DeltaTable(table)
    return _of_all_rows(opened) == sum((b.rows or EMPTY for b in tables.committed_batches(opened)), EMPTY)


def test_a_table_is_divided_by_columns_days_and_buckets_and_others_read_it(tmp_path: Path) -> None:
    run(options(tmp_path, SPEC), ROWS, ROWS)
    run(options(tmp_path, SPEC), ROWS, batch_id=1)

    opened = DeltaTable(tmp_path)
    assert opened.metadata().partition_columns == ["country", "at_day", "key_bucket"]
    for read in (
        opened.to_pyarrow_table(),
        pa.table(QueryBuilder().register("t", opened).execute("SELECT * FROM t").read_all()),
    ):
        rows = sorted(pa.table(read).to_pylist(), key=lambda row: row["id"])[::3]
        assert [row["country"] for row in rows] == ["DE", "a/b =%c", None, None], (
            "Delta has no empty text here"
        )
        assert [row["at_day"] for row in rows] == [None if day is None else day.date() for day in DAYS]
        buckets = [None if key is None else partition_of(key, 16) for key in (b"k1", b"k2", None, b"k4")]
        assert [row["key_bucket"] for row in rows] == buckets, "as Java's producers choose partitions"
        assert [row["at"] for row in rows] == DAYS
    assert opened.to_pyarrow_table(filters=[("country", "=", "DE")]).num_rows == 3
    assert is_proved(tmp_path)
    opened.optimize.compact()
    opened.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert is_proved(tmp_path) and len(DeltaTable(tmp_path).file_uris()) == 4
    opened.delete("id = 1")
    assert not is_proved(tmp_path)


def test_duckdb_reads_the_directories_as_they_are(tmp_path: Path) -> None:
    run(options(tmp_path, "country"), ROWS)

    found = asked_of_duckdb(
        f"SELECT country, sum(id) FROM read_parquet('{tmp_path}/*/*.parquet', hive_partitioning=true) GROUP BY 1 ORDER BY 1"
    )

    assert found == [["DE", 1], ["a/b =%c", 2], [None, 7]]


def test_polars_reads_a_divided_table(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    if quote(str(tmp_path)) != str(tmp_path):
        pytest.skip("polars takes the address of a table for its path: %20 for a space (polars 1.40)")
    run(options(tmp_path, SPEC), ROWS)

    found = polars.read_delta(str(tmp_path)).sort("id")

    assert found["country"].to_list() == ["DE", "a/b =%c", None, None]


def test_a_table_that_is_there_keeps_how_it_is_divided_and_says_so(tmp_path: Path) -> None:
    run(options(tmp_path, SPEC), ROWS)

    assert tables.layout_of(str(tmp_path), "", "", "").spec == Spec.of(SPEC)
    assert tables.layout_of(str(tmp_path), SPEC, "1MB", "id") == Layout(Spec.of(SPEC), 10**6, ("id",))
    with pytest.raises(
        ConfigurationError,
        match=re.escape(
            "is partitioned by country, day(at), bucket(16, key), which stays; leave it out to append"
        ),
    ):
        tables.layout_of(str(tmp_path), "country", "", "")
    with pytest.raises(
        tables.WrongTable, match="is partitioned by country, at_day, key_bucket, and these files by nothing"
    ):
        run(options(tmp_path), ROWS, batch_id=1)
    plain = tmp_path / "plain"
    run(options(plain), ROWS)
    with pytest.raises(ConfigurationError, match="is partitioned by nothing, which stays"):
        tables.layout_of(str(plain), "country", "", "")


def test_tables_that_others_have_divided_are_appended_to_as_they_are(tmp_path: Path) -> None:
    kinds = {
        "flag": pa.array([True, False, None, True]),
        "day": pa.array(
            [datetime.date(2024, 1, 2), datetime.date(1960, 2, 3), None, datetime.date(9999, 12, 31)]
        ),
        "moment": pa.array(
            [*DAYS[:2], None, datetime.datetime(2024, 1, 2, 3, 4, 5, 678, tzinfo=UTC)],
            pa.timestamp("us", "UTC"),
        ),
        "number": pa.array([1, -2, None, 4]),
    }
    whole = ROWS.select(["id"])
    for name, column in kinds.items():
        whole = whole.append_column(name, column)
    for name in kinds:
        table = tmp_path / name
        write_deltalake(table, whole, partition_by=[name])
        layout = tables.layout_of(str(table), "", "", "")
        run(options(table)._replace(layout=layout), whole)
        found = DeltaTable(table).to_pyarrow_table().group_by(["id", name]).aggregate([([], "count_all")])
        assert found.num_rows == 4 and set(found.column("count_all").to_pylist()) == {2}, name


@pytest.mark.parametrize("name", ["n", "a.b", ".n", ".."])
def test_rows_are_sorted_by_a_column_of_any_name(tmp_path: Path, name: str) -> None:
    """Of one that begins with a dot Arrow takes the rest for what is meant."""
    files = table_files.TableFiles(str(tmp_path), "app", 0, Layout(sort_by=(name, "id")))

    files.write(pa.RecordBatch.from_pydict({"id": [4, 1, 2, 3], name: [2, 2, None, 1]}))

    (file,) = files.close()
    assert pq.read_table(tmp_path / file.name).column("id").to_pylist() == [3, 1, 4, 2]


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC")])
def test_a_day_that_delta_cannot_tell_is_null_and_the_table_can_be_read(
    tmp_path: Path, kind: pa.DataType
) -> None:
    """Of one value beyond the year 9999 in its log nobody could open the table any more."""
    days = pa.array([10_000_000, -1_000_000, 2_932_896, -719_162, None], pa.int32()).cast(pa.date32())
    table = pa.table({"id": list(range(5)), "day": days.cast(kind)})
    write_deltalake(tmp_path, table.slice(2), partition_by=["day"])

    run(options(tmp_path)._replace(layout=tables.layout_of(str(tmp_path), "", "", "")), table)

    found = (
        DeltaTable(tmp_path).to_pyarrow_table().sort_by("id").column("day").cast(pa.date32()).cast(pa.int32())
    )
    assert found.to_pylist() == [None, None, *[2_932_896] * 2, *[-719_162] * 2, None, None]


def test_a_column_that_is_never_null_divides_a_table_though_some_texts_are_empty(tmp_path: Path) -> None:
    """As of coalesce(country, ''): these are null in Delta, and it made no table of them."""
    never_null = pa.schema([pa.field("id", pa.int64(), False), pa.field("country", pa.string(), False)])
    rows = pa.table([[1, 2], ["DE", ""]], schema=never_null)
    run(options(tmp_path, "country"), rows)

    opened = DeltaTable(tmp_path)
    assert {(row["id"], row["country"]) for row in opened.to_pyarrow_table().to_pylist()} == {
        (1, "DE"),
        (2, None),
    }
    assert [field.nullable for field in opened.schema().fields] == [False, True]
    run(options(tmp_path, "country"), rows, batch_id=1)
    assert is_proved(tmp_path)


def test_many_partitions_hold_no_more_files_open_than_a_process_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "MOST_OPEN", 3)
    monkeypatch.setattr(table_files, "HELD_BYTES", 100)
    rows = pa.table({"id": list(range(60)), "n": [n % 20 for n in range(60)]})

    (done,) = run(options(tmp_path, "n"), rows)

    assert (
        sum(file.records for file in done.files) == 60 and len({file.partition for file in done.files}) == 20
    )
    assert is_proved(tmp_path)


def test_of_many_partitions_the_file_that_waited_longest_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "MOST_OPEN", 2)
    monkeypatch.setattr(table_files, "HELD_BYTES", 0)
    files = table_files.TableFiles(str(tmp_path), "app", 0, Layout.of("name", "", ""))
    for name in "abacaba":  # b and c take turns, and wait longer than a
        files.write(pa.RecordBatch.from_pydict({"name": [name], "id": [1]}))

    found = [(dict(file.partition)["name"], file.records) for file in files.close()]

    assert sorted(found) == [("a", 4), ("b", 1), ("b", 1), ("c", 1)]


def test_rows_with_other_columns_than_those_that_are_held_get_a_file_of_their_own(tmp_path: Path) -> None:
    """Columns may become more within a task (`--evolve add`), while earlier rows wait to be sorted."""
    files = table_files.TableFiles(str(tmp_path), "app", 0, Layout.of("", "", "id"))
    files.write(pa.RecordBatch.from_pydict({"id": [3, 1]}))
    files.write(pa.RecordBatch.from_pydict({"id": [2], "more": ["x"]}))

    found = [pq.read_table(tmp_path / file.name, partitioning=None).to_pylist() for file in files.close()]

    assert found == [[{"id": 1}, {"id": 3}], [{"id": 2, "more": "x"}]]


def test_a_partition_for_every_row_is_held_no_longer_than_its_memory_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of 16 bytes by itself takes hundreds a column."""
    monkeypatch.setattr(table_files, "HELD_BYTES", 100_000)
    files = table_files.TableFiles(str(tmp_path), "app", 0, options(tmp_path, "n").layout)

    files.write(pa.RecordBatch.from_pydict({"id": list(range(300)), "n": list(range(300))}))

    assert 0 < sum(len(held) for held in files._held.values()) * 500 <= 100_000
    assert sum(file.records for file in files.close()) == 300


def test_what_is_held_of_partitions_of_any_size_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "HELD_BYTES", 100_000)
    files = table_files.TableFiles(str(tmp_path), "app", 0, options(tmp_path, "n").layout)
    sizes = [1, 60_000, 1, 60_000, 30_000, 90_000, 200_000]
    for n, size in enumerate(sizes):
        files.write(pa.RecordBatch.from_pydict({"n": [n], "value": [b"x" * size]}))

        assert sum(rows.nbytes for held in files._held.values() for rows in held) <= 100_000
    assert sum(file.records for file in files.close()) == len(sizes)


def test_files_end_at_the_size_that_is_wanted(tmp_path: Path) -> None:
    values = [random.Random(n).randbytes(200) for n in range(4_000)]
    rows = pa.table({"id": list(range(4_000)), "value": values})
    pieces = pa.Table.from_batches(rows.to_batches(max_chunksize=100))

    (done,) = run(options(tmp_path, target=100_000), pieces)

    sizes = [file.size_bytes for file in done.files]
    assert len(sizes) > 3 and all(100_000 <= size < 150_000 for size in sizes[:-1])
    assert is_proved(tmp_path)


def test_rows_are_sorted_within_each_file_and_statistics_tell_its_borders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "HELD_BYTES", 5_000)
    rows = pa.table(
        {
            "name": [f"n{n * 7919 % 1000:03d}" for n in range(1000)],
            "id": [n * 31 % 1000 for n in range(1000)],
            "country": ["DE" if n % 3 else "FR" for n in range(1000)],
        }
    )

    (done,) = run(
        options(tmp_path, "country", sort_by=("name", "id")),
        *[pa.Table.from_batches(rows.to_batches(max_chunksize=70))],
    )

    assert len(done.files) > 2
    for file in done.files:
        found = pq.read_table(tmp_path / file.name)
        assert found.equals(found.sort_by([("name", "ascending"), ("id", "ascending")]))
        told = json.loads(file.stats)
        assert told["minValues"]["id"] == pc.min(found.column("id")).as_py()
        assert told["maxValues"]["name"] == pc.max(found.column("name")).as_py()
        assert pq.read_metadata(tmp_path / file.name).row_group(0).column(0).statistics.has_min_max
    assert is_proved(tmp_path)


def test_each_pair_of_values_is_a_partition(tmp_path: Path) -> None:
    """Whatever order they come in: rows of two of them in one file would have the values of the first."""
    pairs = [(country, n) for country in ("DE", None, "FR") for n in (2, None, 1)]
    pairs = pairs + pairs[::-1]
    rows = pa.table(
        {
            "id": range(len(pairs)),
            "country": [country for country, _ in pairs],
            "n": pa.array([n for _, n in pairs], pa.int64()),
        }
    )

    run(options(tmp_path, "country, n"), rows)

    found = DeltaTable(tmp_path).to_pyarrow_table().select(["id", "country", "n"]).sort_by("id")
    assert found.to_pylist() == rows.to_pylist()
    assert len(files_in(tmp_path)) == 9 and is_proved(tmp_path)


@pytest.mark.parametrize("most_open", [1, table_files.MOST_OPEN])
def test_a_task_that_fails_leaves_no_file_in_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_open: int
) -> None:
    """Neither of those that are open nor of those that it has ended."""
    monkeypatch.setattr(table_files, "MOST_OPEN", most_open)
    monkeypatch.setattr(table_files, "HELD_BYTES", 100)

    def broken() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        write_rows(broken(), from_arrow_schema(ROWS.schema), options(tmp_path, SPEC), batch_id=0)
    assert not files_in(tmp_path)
    task(options(tmp_path, SPEC), ROWS)  # and nobody hears of it
    orphans = files_in(tmp_path)
    run(options(tmp_path, SPEC), ROWS)
    assert len(orphans) == 4 and not any(file.exists() for file in orphans)


def test_a_file_that_only_an_earlier_version_names_is_no_orphan_whatever_its_directory_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta's log has names as in addresses. The driver died right behind its commit, and somebody has compacted the table since."""
    with monkeypatch.context() as patch:
        patch.setattr(tables, "delete_orphans", lambda *_, **__: [])
        run(options(tmp_path, SPEC), ROWS, ROWS)
    before = files_in(tmp_path)
    DeltaTable(tmp_path).optimize.compact()

    run(options(tmp_path, SPEC), ROWS, batch_id=1)

    assert len(before) == 8 and all(file.exists() for file in before)


@pytest.mark.parametrize("how", ["plain", "sorted", "divided"])
def test_a_full_disk_is_a_sentence_and_leaves_nothing(tmp_path: Path, how: str) -> None:
    rows = pa.table(
        {"id": list(range(3_000)), "value": [bytes(str(n * 7919), "ascii") * 50 for n in range(3_000)]}
    )
    rows = rows.append_column("country", pa.repeat("DE", 3_000))
    given = {
        "plain": options(tmp_path),
        "sorted": options(tmp_path, sort_by=("id",)),
        "divided": options(tmp_path, "country"),
    }[how]

    with (
        pytest.raises(
            CannotWrite,
            match=rf"{tmp_path}: .*; nothing of batch 4 is in the table, and the same line goes on once there is room",
        ),
        full_disk(20_000),
    ):
        task(given, rows, batch_id=4)

    assert not files_in(tmp_path)


def test_a_value_too_long_for_a_directory_is_told_of_with_what_helps(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "country": ["DE", "x" * 300]})

    with pytest.raises(
        CannotWrite, match=r"country is too long .*; nothing of batch 4 .* by bucket\(16, COL"
    ):
        task(options(tmp_path, "country"), rows, batch_id=4)

    assert not files_in(tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("day(at", "day(at is no column, day(COLUMN) or bucket(N, COLUMN)"),
        ("bucket(key, 16)", "is no column"),
        ("bucket(0, key)", "expected 1 to 10000 buckets"),
        ("id, id", "a column comes twice"),
        ("colour", "there is no column colour; there are id, country, at, key"),
        (
            "key",
            "key is BINARY; expected text, a whole number, a date or a boolean; day(ts) and bucket(16, key) make",
        ),
        ("at", "at is TIMESTAMP; expected text"),
        ("day(id)", "id is BIGINT; expected a timestamp or a date"),
        ("bucket(4, at)", "at is TIMESTAMP; expected text, bytes or a whole number"),
    ],
)
def test_what_cannot_divide_a_table_is_said(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        Spec.of(text).check(ROWS.schema)


def test_a_column_of_the_rows_may_not_have_the_name_of_one_that_is_made() -> None:
    columns = ROWS.schema.append(pa.field("at_day", pa.string()))
    with pytest.raises(ConfigurationError, match="there is a column at_day already"):
        Spec.of("day(at)").check(columns)
    with pytest.raises(ConfigurationError, match="these are all columns"):
        Spec.of("id").check(pa.schema([("id", pa.int64())]))


@pytest.mark.parametrize(
    ("layout", "why"),
    [
        (Layout(sort_by=("colour",)), "--sort-by colour: there is no such column"),
        (Layout(Spec.of("id"), sort_by=("id",)), "--sort-by id: it is the same in all rows of a file"),
        (Layout(sort_by=("s",)), "--sort-by s: STRUCT<a: INT> has no order"),
    ],
)
def test_what_cannot_sort_a_file_is_said(layout: Layout, why: str) -> None:
    columns = ROWS.schema.append(pa.field("s", pa.struct([("a", pa.int32())])))
    with pytest.raises(ConfigurationError, match=why):
        layout.check(columns)


def test_sizes_of_files_are_read_as_people_write_them() -> None:
    assert [size_of(text) for text in ("128MB", "1 GiB", "500000", "")] == [128 * 10**6, 2**30, 500_000, 0]
    for text in ("much", "1KB", "-5MB", "10 parsecs"):
        with pytest.raises(ConfigurationError, match="expected a size as in 128MB"):
            size_of(text)


def test_days_that_delta_cannot_tell_have_no_partition() -> None:
    years = pa.array([253_402_300_799_000_000, 253_402_300_800_000_000, -62_135_596_800_000_001], pa.int64())
    days = By("at", "day").made_of(years.cast(pa.timestamp("us", "UTC")))

    assert days.to_pylist() == [datetime.date(9999, 12, 31), None, None]


def test_moments_of_any_year_are_written_and_read_as_they_are(tmp_path: Path) -> None:
    after_9999 = 253_402_300_800_000_000
    moments = pa.array([-1, -62_135_596_800_000_000, after_9999, 2**62], pa.int64())
    rows = pa.table({"id": range(4), "at": moments.cast(pa.timestamp("us", "UTC"))})

    run(options(tmp_path, "day(at)", sort_by=("at",)), rows)

    found = DeltaTable(tmp_path).to_pyarrow_table().sort_by("id")
    assert found.column("at").cast(pa.int64()).to_pylist() == moments.to_pylist()
    assert [value is None for value in found.column("at_day").to_pylist()] == [False, False, True, True]
    assert is_proved(tmp_path)


def test_names_and_values_with_signs_of_their_own_are_told_in_a_path() -> None:
    assert directory_of({"a=b": "x/../y", "c": None}) == "a%3Db=x%2F..%2Fy/c=__HIVE_DEFAULT_PARTITION__/"
    assert directory_of({}) == ""


def foreign(table: Path, **more: Any) -> DeltaTable:
    write_deltalake(table, ROWS.select(["id", "country"]), **more)
    return DeltaTable(table)


def rewritten(table: Path, **protocol: Any) -> None:
    """The first commit with another protocol, as a newer writer would have it."""
    log = table / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            line["protocol"] = protocol
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_tables_that_ask_more_of_a_writer_are_refused_in_a_sentence(tmp_path: Path) -> None:
    newer, rows, checked = tmp_path / "newer", tmp_path / "rows", tmp_path / "checked"
    foreign(newer)
    features = ["rowTracking", "domainMetadata"]
    rewritten(newer, minReaderVersion=1, minWriterVersion=7, writerFeatures=features)
    foreign(checked).alter.add_constraint({"positive": "id > 0"})
    foreign(rows)
    future = tmp_path / "future"
    foreign(future)
    rewritten(future, minReaderVersion=9, minWriterVersion=9)

    for table, why in (
        (
            future,
            r"future wants more of Delta than is read here \(.*version 9\); append to a table of its own",
        ),
        (newer, "wants rowTracking of Delta, which is newer than what is written here"),
        (
            checked,
            r"has the constraint positive CHECK \(id > 0\), against which the rows are not held; drop it",
        ),
    ):
        before = sorted(path.name for path in table.rglob("*.parquet"))
        with pytest.raises(tables.WrongTable, match=why):
            opened = tables.open_table(str(table))
            assert opened is not None
            tables.check_appendable(opened)
        assert sorted(path.name for path in table.rglob("*.parquet")) == before
    tables.check_appendable(DeltaTable(rows))


def deletion_vector(*rows: int) -> dict[str, Any]:
    """As Delta's protocol has them inline: a 64-bit Roaring bitmap of one array container, in Z85."""
    roaring = struct.pack(f"<IIHHI{len(rows)}H", 12346, 1, 0, len(rows) - 1, 16, *rows)
    data = struct.pack("<IQI", 1681511377, 1, 0) + roaring
    ours = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    text = base64.b85encode(data).decode().translate(str.maketrans(ours, z85))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(rows)}


def test_a_table_with_deleted_rows_is_appended_to_but_neither_verified_nor_widened(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(30), pa.int32())})
    run(options(tmp_path), rows)
    features = ["deletionVectors"]
    rewritten(
        tmp_path, minReaderVersion=3, minWriterVersion=7, readerFeatures=features, writerFeatures=features
    )
    assert not tables.has_deleted_rows(DeltaTable(tmp_path))
    log = tmp_path / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["deletionVector"] = deletion_vector(3, 4, 7, 11, 18, 29)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))

    run(options(tmp_path), rows, batch_id=1)

    assert (
        pa.table(
            QueryBuilder().register("t", DeltaTable(tmp_path)).execute("SELECT id FROM t").read_all()
        ).num_rows
        == 54
    )
    with pytest.raises(CannotVerify, match="has deletion vectors: rows of it were deleted"):
        verify(str(tmp_path), "127.0.0.1:1")
    wider = task(options(tmp_path), pa.table({"id": [2**40]}), 2)
    with pytest.raises(
        tables.WrongTable, match="has deletion vectors, so its files cannot be rewritten with wider"
    ):
        tables.commit(
            str(tmp_path),
            app_id="app",
            batch_id=2,
            files=wider.files,
            parts=(),
            schema=pa.schema([("id", pa.int64())]),
            evolve=Evolve.of("widen"),
        )
    assert DeltaTable(tmp_path).version() == 1
