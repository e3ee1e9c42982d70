"""A table's columns become more and wider in the very commit that has the rows: each row once, whoever dies, whoever else writes."""

import errno
import json
import os
import pickle
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from odradek.model.errors import ConfigurationError
from odradek.spark import delta_log, growth, tables
from odradek.spark.evolution import (
    FIXED,
    MOST_COLUMNS,
    Change,
    Evolve,
    addable_type,
    change_of,
    is_addable,
    wider,
)
from odradek.spark.fingerprint import EMPTY
from odradek.spark.growth import Growth
from odradek.spark.parquet import FileWriter, TableFile, file_name
from odradek.spark.partitioning import UNDIVIDED, Spec
from odradek.spark.recast import Recasts
from odradek.spark.required import field_as_nullable, paths_of
from odradek.spark.shape import COLUMNS, BadValue, Shape
from odradek.spark.sink import FusedReader
from odradek.spark.source import StreamReader, stream_options
from odradek.spark.table_rows import files_of, rows_of
from odradek.spark.verify import _of_all_rows
from odradek.spark.writing import Disagreement, TableOptions, Written, together, write_rows
from tests.spark.power_cuts import PowerCuts, data_of

ALL = Evolve.of("add,widen,relax")
FIRST = pa.table({"id": pa.array([1, 2], pa.int32()), "price": pa.array([0.1, 2.5], pa.float32())})
WIDER = pa.table({"id": pa.array([2**40]), "price": [0.2], "name": ["ink"]})


def written(table: Path, batch_id: int, rows: pa.Table, app_id: str = "app") -> Written:
    options = TableOptions(str(table), app_id)
    return write_rows(rows.to_batches(), from_arrow_schema(rows.schema), options, batch_id=batch_id)


def commit(table: Path, batch_id: int, *tasks: pa.Table, evolve: Evolve = FIXED, app_id: str = "app") -> bool:
    done = [written(table, batch_id, rows, app_id) for rows in tasks]
    return committed(table, batch_id, done, evolve, app_id)


def committed(
    table: Path,
    batch_id: int,
    done: list[Written],
    evolve: Evolve = FIXED,
    app_id: str = "app",
    spec: Spec = UNDIVIDED,
) -> bool:
    whole = together(done, done[0].schema)
    return tables.commit(
        str(table),
        app_id=app_id,
        batch_id=batch_id,
        files=whole.files,
        parts=(),
        schema=to_arrow_schema(whole.schema, timezone="UTC"),
        rows=whole.rows,
        evolve=evolve,
        spec=spec,
    )


def rows_in(table: Path) -> list[dict[str, Any]]:
    return sorted(DeltaTable(table).to_pyarrow_table().to_pylist(), key=lambda row: row["id"])


def kinds_in(table: Path) -> dict[str, str]:
    return {field.name: str(field.type.type) for field in DeltaTable(table).schema().fields}


def is_proved(table: Path) -> bool:
    opened = DeltaTable(table)
    noted = (batch.rows or EMPTY for batch in tables.committed_batches(opened))
    return _of_all_rows(opened) == sum(noted, EMPTY)


def unnamed(table: Path) -> set[str]:
    named = {uri.rsplit("/", 1)[-1] for uri in DeltaTable(table).file_uris()}
    log = "".join(file.read_text() for file in (table / "_delta_log").glob("*.json"))
    files = {file.name for file in table.rglob("*.parquet") if "_odradek" not in file.parts}
    return {name for name in files - named if name not in log}


def test_a_commit_that_changes_columns_has_the_rows_that_asked_for_it(tmp_path: Path) -> None:
    commit(tmp_path, 0, FIRST)

    assert commit(tmp_path, 1, WIDER, evolve=ALL)

    assert kinds_in(tmp_path) == {"id": "long", "price": "double", "name": "string"}
    assert [(row["id"], row["name"]) for row in rows_in(tmp_path)] == [(1, None), (2, None), (2**40, "ink")]
    opened = DeltaTable(tmp_path)
    assert opened.version() == 1, "one commit"
    assert opened.transaction_version("app") == 1
    assert tables.notes(opened)[1]["schema"] == "adds name STRING; makes id BIGINT; makes price DOUBLE"
    assert DeltaTable(tmp_path, version=0).to_pyarrow_table().num_rows == 2
    assert is_proved(tmp_path) and unnamed(tmp_path) == set()
    assert not commit(tmp_path, 1, WIDER, evolve=ALL), "comes again"
    opened.optimize.compact()
    assert is_proved(tmp_path), "whoever writes the files anew"
    commit(tmp_path, 2, FIRST.slice(0, 1), evolve=ALL)
    assert is_proved(tmp_path) and kinds_in(tmp_path)["id"] == "long"
    assert [row["id"] for row in rows_in(tmp_path)] == [1, 1, 2, 2**40]


def test_what_others_have_said_of_a_table_stays_when_its_columns_change(tmp_path: Path) -> None:
    """How long its log and its files are kept, say, and what it is called."""

    def said() -> list[Any]:
        known = DeltaTable(tmp_path).metadata()
        return [known.id, known.name, known.description, known.configuration, known.created_time]

    commit(tmp_path, 0, FIRST)
    opened = DeltaTable(tmp_path)
    opened.alter.set_table_properties({"delta.logRetentionDuration": "interval 90 days"})
    opened.alter.set_table_name("orders")
    opened.alter.set_table_description("of the shop")
    before = said()

    commit(tmp_path, 1, WIDER, evolve=ALL)

    assert said() == before and len(set(map(str, before))) == 5


def test_every_file_has_the_types_of_the_table_whatever_its_task_had_seen(tmp_path: Path) -> None:
    """Who reads the files as they are (`read_table`, an engine without schemas of Delta) meets one type a column."""

    def types() -> set[tuple[str, ...]]:
        wanted = ("id", "price")
        found = [pq.read_schema(tmp_path / placed.name) for placed in files_of(DeltaTable(tmp_path))]
        return {tuple(str(one.field(name).type) for name in wanted if name in one.names) for one in found}

    commit(tmp_path, 0, WIDER.select(["id"]), FIRST.select(["id"]))
    assert types() == {("int64",)}, "of a new table, too"

    commit(tmp_path, 1, FIRST, WIDER, evolve=ALL)
    assert types() == {("int64",), ("int64", "double")}

    commit(tmp_path, 2, FIRST, evolve=ALL)
    assert types() == {("int64",), ("int64", "double")}
    assert is_proved(tmp_path)


def test_files_that_are_written_anew_are_no_change_of_data(tmp_path: Path) -> None:
    """Who reads what is new of a table (Delta's streaming source) gets a row once, and is not ended by one that was taken away."""
    before_ms = int(time.time() * 1000)
    commit(tmp_path, 0, FIRST)
    commit(tmp_path, 1, WIDER, evolve=ALL)
    after_ms = int(time.time() * 1000)

    def actions(version: int, kind: str) -> list[dict[str, Any]]:
        lines = (tmp_path / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
        return [action[kind] for action in map(json.loads, lines) if kind in action]

    (first,) = actions(0, "add")
    (removed,) = actions(1, "remove")
    assert removed["path"] == first["path"]
    assert removed["dataChange"] is False
    assert removed["extendedFileMetadata"] is True  # with which these are asked for
    assert (removed["partitionValues"], removed["size"]) == ({}, first["size"])
    (info,), (transaction,) = actions(1, "commitInfo"), actions(1, "txn")
    times_ms = [removed["deletionTimestamp"], info["timestamp"], transaction["lastUpdated"]]
    times_ms += [one["modificationTime"] for one in actions(1, "add")]
    assert before_ms <= min(times_ms) and max(times_ms) <= after_ms
    assert (info["readVersion"], info["isBlindAppend"]) == (0, False), (
        "others' commits of then conflict with it"
    )
    added = [(json.loads(one["stats"])["numRecords"], one["dataChange"]) for one in actions(1, "add")]
    assert sorted(added) == [(WIDER.num_rows, True), (FIRST.num_rows, False)]
    assert all(one["size"] == (tmp_path / one["path"]).stat().st_size for one in actions(1, "add"))


def test_tasks_of_a_batch_need_not_have_seen_the_same_columns(tmp_path: Path) -> None:
    commit(tmp_path, 0, FIRST)

    commit(tmp_path, 1, WIDER, FIRST, FIRST.select(["id"]), evolve=ALL)

    assert len(rows_in(tmp_path)) == 7 and is_proved(tmp_path) and unnamed(tmp_path) == set()
    texts = pa.table({"id": [1], "name": pa.array([7])})
    with pytest.raises(Disagreement, match="column name is STRING in rows of one task and BIGINT in those"):
        commit(tmp_path, 2, WIDER, texts, evolve=ALL)


@pytest.mark.parametrize(
    ("rows", "evolve", "why"),
    [
        (WIDER.select(["id"]), "none", "has column id as INT; the rows have BIGINT; --evolve widen"),
        (WIDER.select(["id"]), "add,relax", "has column id as INT; the rows have BIGINT; --evolve widen"),
        (
            WIDER.select(["name"]),
            "widen",
            "has column name not at all; .* --evolve add .option evolve. adds it",
        ),
        (pa.table({"id": ["text"]}), "add,widen,relax", "has column id as INT; the rows have STRING$"),
        (pa.table({"ID": [1]}), "add,widen,relax", "has column ID by another case; the rows have BIGINT$"),
    ],
)
def test_what_is_not_allowed_is_a_sentence_and_nothing_is_written(
    tmp_path: Path, rows: pa.Table, evolve: str, why: str
) -> None:
    commit(tmp_path, 0, FIRST)
    done = written(tmp_path, 1, rows)

    with pytest.raises(tables.WrongTable, match=why):
        committed(tmp_path, 1, [done], Evolve.of(evolve))
    tables.abort(str(tmp_path), app_id="app", batch_id=1, files=done.files)

    assert DeltaTable(tmp_path).version() == 0 and unnamed(tmp_path) == set()


def test_a_column_that_is_not_null_is_kept_so_or_relaxed(tmp_path: Path) -> None:
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string(), nullable=False)]
    )
    write_deltalake(tmp_path, pa.table({"id": [1], "name": ["ink"]}, schema=schema))
    without = pa.table({"id": [2]})

    with pytest.raises(
        tables.WrongTable, match="has column name as NOT NULL, and rows of batch 0 have none; --evolve relax"
    ):
        commit(tmp_path, 0, without, evolve=Evolve.of("add,widen"))
    commit(tmp_path, 0, pa.table({"id": [3], "name": ["pen"]}))
    with pytest.raises(tables.WrongTable, match="has column id as NOT NULL"):
        commit(tmp_path, 1, pa.table({"id": pa.array([None], pa.int64()), "name": ["x"]}))
    commit(tmp_path, 1, without, evolve=Evolve.of("relax"))

    fields = {field.name: field.nullable for field in DeltaTable(tmp_path).schema().fields}
    assert fields == {"id": False, "name": True}
    assert [(row["id"], row["name"]) for row in rows_in(tmp_path)] == [(1, "ink"), (2, None), (3, "pen")]


def test_rows_without_a_column_that_is_not_null_are_not_merged(tmp_path: Path) -> None:
    """Of what is merged no file tells how many values are null."""
    fields = [pa.field("id", pa.int64()), pa.field("name", pa.string(), nullable=False)]
    write_deltalake(tmp_path, pa.table({"id": [1], "name": ["ink"]}, schema=pa.schema(fields)))
    table = DeltaTable(tmp_path)

    assert not tables.change_for(table, pa.schema(fields), ALL)
    with pytest.raises(tables.WrongTable, match="has column name as NOT NULL"):
        tables.change_for(table, pa.schema(fields[:1]), Evolve.of("add,widen"))


def test_a_struct_that_is_not_null_is_kept_so_or_relaxed(tmp_path: Path) -> None:
    kind = pa.struct([("street", pa.string())])
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("at", kind, nullable=False)])
    write_deltalake(tmp_path, pa.table({"id": [1], "at": [{"street": "x"}]}, schema=schema))
    there = pa.table({"id": [2], "at": pa.array([{"street": None}], kind)})
    null = pa.table({"id": [3], "at": pa.array([None], kind)})
    relaxed = Evolve.of("relax")

    commit(tmp_path, 0, there)
    for tasks in ((null,), (there, null), (there, null.select(["id"]))):
        with pytest.raises(
            tables.WrongTable, match="has column at as NOT NULL, and rows of batch 1 have none"
        ):
            commit(tmp_path, 1, *tasks)
    commit(tmp_path, 1, null, evolve=relaxed)

    assert [row["at"] for row in rows_in(tmp_path)] == [{"street": "x"}, {"street": None}, None]


WITHIN = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("at", pa.struct([pa.field("street", pa.string(), nullable=False)])),
        pa.field("tags", pa.list_(pa.field("element", pa.int32(), nullable=False))),
    ]
)


@pytest.mark.parametrize("evolve", [FIXED, Evolve.of("add,widen")])
def test_a_field_within_a_column_that_is_not_null_is_kept_so(tmp_path: Path, evolve: Evolve) -> None:
    whole = {"id": 1, "at": {"street": "x"}, "tags": [1]}
    write_deltalake(tmp_path, pa.Table.from_pylist([whole], WITHIN))
    kinds = pa.schema([field_as_nullable(field) for field in WITHIN])
    good = pa.Table.from_pylist([{"id": 2, "at": None, "tags": None}, {"id": 3, "tags": []}], kinds)

    commit(tmp_path, 0, good, evolve=evolve)
    for name, row in (
        ("at.street", {"id": 4, "at": {"street": None}}),
        ("tags.element", {"id": 4, "tags": [None]}),
    ):
        with pytest.raises(
            tables.WrongTable,
            match=f"has field {name} as NOT NULL, and rows of batch 1 have none; --evolve relax",
        ):
            commit(tmp_path, 1, good, pa.Table.from_pylist([row], kinds), evolve=evolve)

    found = [row for rows in rows_of(DeltaTable(tmp_path), pa.schema([])) for row in rows.to_pylist()]
    assert sorted((row["id"], row["at"], row["tags"] or []) for row in found) == [
        (1, {"street": "x"}, [1]),
        (2, None, []),
        (3, None, []),
    ]


DEEP = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("at", pa.struct([pa.field("street", pa.string(), nullable=False), ("door", pa.int32())])),
        pa.field("tags", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field(
            "lines", pa.list_(pa.struct([pa.field("sku", pa.string(), nullable=False), ("n", pa.int32())]))
        ),
        pa.field("by", pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False))),
    ]
)
WHOLE = {"id": 1, "at": {"street": "x"}, "tags": [1], "lines": [{"sku": "a"}], "by": [("k", 1)]}


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("at.street", {"at": {"door": 7}}),
        ("tags.element", {"tags": [None, 2]}),
        ("lines.element.sku", {"lines": [{"sku": "b"}, {"n": 1}]}),
        ("by.value", {"by": [("k", None)]}),
    ],
)
def test_a_field_within_a_column_is_relaxed_and_the_others_are_not(
    tmp_path: Path, path: str, change: dict[str, Any]
) -> None:
    write_deltalake(tmp_path, pa.Table.from_pylist([WHOLE], DEEP))
    kinds = pa.schema([field_as_nullable(field) for field in DEEP])
    row = {**WHOLE, "id": 2, **change}

    commit(tmp_path, 0, pa.Table.from_pylist([row], kinds), evolve=Evolve.of("relax"))

    table = DeltaTable(tmp_path)
    left = {".".join(one) for one in paths_of(tables.arrow_schema(table))}
    assert left == {"at.street", "tags.element", "lines.element.sku", "by.value"} - {path}
    assert tables.notes(table)[0]["schema"] == f"lets {path} be null"
    found = [one for rows in rows_of(table, pa.schema([])) for one in rows.to_pylist()]
    expected = pa.Table.from_pylist([WHOLE, row], kinds).to_pylist()
    assert sorted(found, key=lambda one: one["id"]) == expected
    by_others = table.to_pyarrow_table(columns=["id", path.split(".")[0]]).sort_by("id")
    assert by_others.to_pylist() == [{name: one[name] for name in by_others.column_names} for one in expected]


def test_values_without_such_a_field_are_dead_letters_and_columns_that_are_null_are_none(
    tmp_path: Path,
) -> None:
    write_deltalake(tmp_path, pa.Table.from_pylist([], WITHIN))
    shape = Shape(ID).of_columns(tables.row_schema(DeltaTable(tmp_path)))
    values = [
        *(b'{"id":1,"at":{"street":"x"},"tags":[1]}', b'{"id":2,"at":null,"tags":null}', b'{"id":3}'),
        *(b'{"id":4,"at":{}}', b'{"id":5,"tags":[1,null]}'),
    ]

    assert shape.relaxed().applied(records(*values)).rows.num_rows == 5
    for one in (shape, Shape.from_text(shape.to_text())):
        done = one.applied(records(*values))
        assert done.rows.column("id").to_pylist() == [1, 2, 3]
        assert done.letters.column("error").to_pylist() == [
            "field at.street is NOT NULL in the table, and the value has none",
            "field tags.element is NOT NULL in the table, and the value has none",
        ]
        commit(tmp_path, 0, pa.Table.from_batches([done.rows]).select(WITHIN.names))
    growing = Growth(str(tmp_path), "app", 1, shape, ALL, UNDIVIDED, growth.columns_of(str(tmp_path)))
    assert shape.applied(records(*values), growing).rows.num_rows == 3


def test_a_field_of_a_struct_and_a_column_with_a_dot_in_its_name_are_two(tmp_path: Path) -> None:
    within = pa.field("a", pa.struct([pa.field("b", pa.int32())]))
    schema = pa.schema([within, pa.field("a.b", pa.int32(), nullable=False)])
    DeltaTable.create(str(tmp_path), Schema.from_arrow(schema))
    rows = pa.table({"a": pa.array([{"b": 1}], within.type), "a.b": pa.array([None], pa.int32())})

    with pytest.raises(
        tables.WrongTable, match=r"has column a\.b as NOT NULL, and rows of batch 0 have none"
    ):
        commit(tmp_path, 0, rows)


def test_a_power_cut_takes_nothing_of_files_that_a_wider_column_has_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(tmp_path, 0, FIRST)
    cuts, lands = PowerCuts(monkeypatch), delta_log.commit
    taken: list[str] = []

    def landed(*args: Any, **more: Any) -> None:
        new = [file for file in data_of(tmp_path) if "-0000000001-" in file.name]
        assert len(new) == 2
        taken.extend(cuts.would_take(new))
        lands(*args, **more)

    monkeypatch.setattr(delta_log, "commit", landed)
    commit(tmp_path, 1, WIDER, evolve=ALL)

    log = tmp_path / "_delta_log"
    assert taken == [] and cuts.would_take([log, log / "00000000000000000001.json"]) == []


def test_a_commit_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut in between would leave a version that nobody can read, and with it no table."""
    commit(tmp_path, 0, FIRST)
    cuts, link = PowerCuts(monkeypatch), os.link
    taken: dict[str, list[str]] = {}

    def linked(source: Path, target: Path) -> None:
        taken[target.name] = cuts.would_take([source])
        link(source, target)

    monkeypatch.setattr(os, "link", linked)
    commit(tmp_path, 1, WIDER, evolve=ALL)

    assert taken == {"00000000000000000001.json": []}


class Died(Exception):
    pass


class Steps:
    """Counts what a commit does to the disk, and dies before one of these."""

    def __init__(self, patch: pytest.MonkeyPatch, dies_at: int) -> None:
        self.count, self._dies_at = 0, dies_at
        for module, name in (
            (os, "link"),
            (os, "fsync"),
            (Path, "unlink"),
            (os, "replace"),
            (Recasts, "_written"),
        ):
            self._watch(patch, module, name)

    def _watch(self, patch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        plain = getattr(module, name)

        def step(*args: Any, **more: Any) -> Any:
            if self.count == self._dies_at:
                raise Died
            self.count += 1
            return plain(*args, **more)

        patch.setattr(module, name, step)


def test_wherever_a_driver_dies_that_changes_columns_rows_and_columns_are_there_together_and_once(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    before = tmp_path_factory.mktemp("before")
    commit(before, 0, FIRST)
    commit(before, 1, FIRST)
    done = [written(before, 2, WIDER), written(before, 2, FIRST)]
    dies_at = 0
    while True:
        table = tmp_path_factory.mktemp("table")
        shutil.copytree(before, table, dirs_exist_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            steps = Steps(patch, dies_at)
            try:
                committed(table, 2, done, ALL)
                is_dead = False
            except Died:
                is_dead = True
        # What a reader sees meanwhile is all of it or nothing.
        seen = (len(rows_in(table)), kinds_in(table)["id"], "name" in kinds_in(table))
        assert seen in ((4, "integer", False), (7, "long", True)), steps.count

        commit(table, 2, WIDER, FIRST, evolve=ALL)

        assert (len(rows_in(table)), kinds_in(table)["id"]) == (7, "long")
        assert is_proved(table) and unnamed(table) == set()
        assert [batch.batch_id for batch in tables.committed_batches(DeltaTable(table))] == [0, 1, 2]
        if not is_dead:
            break
        dies_at += 1
    commit(table, 3, FIRST, evolve=ALL)
    assert not list((table / "_odradek" / "commits").iterdir()), "what the dead left"
    assert dies_at >= 10


def test_what_a_driver_left_that_died_before_its_commit_goes_with_the_next_change(tmp_path: Path) -> None:
    commit(tmp_path, 0, FIRST)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Died):
        patch.setattr(Path, "unlink", lambda *_, **__: (_ for _ in ()).throw(Died()))
        commit(tmp_path, 1, WIDER, evolve=ALL)
    assert len(list((tmp_path / "_odradek" / "commits").iterdir())) == 1

    commit(tmp_path, 1, WIDER, evolve=ALL)
    commit(tmp_path, 2, pa.table({"id": [5], "other": ["x"]}), evolve=ALL)

    assert not list((tmp_path / "_odradek" / "commits").iterdir())
    assert len(rows_in(tmp_path)) == 4


def test_a_timestamp_without_a_zone_is_added_only_where_the_table_has_the_feature_for_it(
    tmp_path: Path,
) -> None:
    """Else nobody opens the table any more."""
    at = pa.array([1], pa.timestamp("us"))
    within = pa.array([[{"at": 1}]], pa.list_(pa.struct([("at", pa.timestamp("us"))])))
    plain, local = tmp_path / "plain", tmp_path / "local"
    commit(plain, 0, FIRST)
    for column in (at, within):
        with pytest.raises(
            tables.WrongTable, match=r"plain/ does not have the feature timestampNtz .* column later"
        ):
            commit(plain, 1, pa.table({"id": [5], "later": column}), evolve=ALL)
    assert len(rows_in(plain)) == FIRST.num_rows

    commit(local, 0, pa.table({"id": [5], "at": at}))
    commit(local, 1, pa.table({"id": [6], "at": at, "later": at}), evolve=ALL)
    assert len(rows_in(local)) == 2


def test_what_another_driver_is_about_to_commit_is_not_taken_away(tmp_path: Path) -> None:
    """Of this batch or of a later one. Numbers of batch writes may have more than ten digits."""
    commit(tmp_path, 20_261_129_173_500, FIRST)
    commits = tmp_path / "_odradek" / "commits"
    staged = [commits / file_name("app", 20_261_129_173_500 + n) for n in (1, 2)]
    commits.mkdir()
    for file in staged:
        file.write_bytes(b"")

    commit(tmp_path, 20_261_129_173_501, WIDER, evolve=ALL)

    assert sorted(commits.iterdir()) == sorted(staged)


def meanwhile(monkeypatch: pytest.MonkeyPatch, table: Path, act: Any) -> None:
    """Something happens between the first look at the table and the commit."""
    plain = tables.open_table
    looked = [0]

    def look(path: str) -> DeltaTable | None:
        found = plain(path)
        looked[0] += 1
        if looked[0] == 1:
            monkeypatch.setattr(tables, "open_table", plain)
            act()
        return found

    monkeypatch.setattr(tables, "open_table", look)


def test_of_two_drivers_of_one_batch_that_changes_columns_one_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(tmp_path, 0, FIRST)
    mine, other = [written(tmp_path, 1, WIDER)], [written(tmp_path, 1, WIDER)]
    meanwhile(monkeypatch, tmp_path, lambda: committed(tmp_path, 1, other, ALL))

    assert not committed(tmp_path, 1, mine, ALL)

    assert [row["id"] for row in rows_in(tmp_path)] == [1, 2, 2**40]
    assert is_proved(tmp_path) and unnamed(tmp_path) == set()


@pytest.mark.parametrize("other_first", [True, False])
def test_another_application_that_appends_or_changes_columns_meanwhile_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, other_first: bool
) -> None:
    commit(tmp_path, 0, FIRST)
    more = pa.table({"id": pa.array([9], pa.int32()), "colour": ["red"]})
    first, second = (more, WIDER) if other_first else (WIDER, more)
    meanwhile(monkeypatch, tmp_path, lambda: commit(tmp_path, 0, first, evolve=ALL, app_id="other"))

    assert commit(tmp_path, 1, second, evolve=ALL)

    assert kinds_in(tmp_path).keys() == {"id", "price", "name", "colour"}
    assert [row["id"] for row in rows_in(tmp_path)] == [1, 2, 9, 2**40]
    assert is_proved(tmp_path)
    files = [pq.read_schema(tmp_path / placed.name) for placed in files_of(DeltaTable(tmp_path))]
    assert {one.field("id").type for one in files} == {pa.int64()}, "also of what was looked at before"


def test_an_append_that_meets_a_change_of_columns_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What delta-rs commits meanwhile, and what it makes of ours."""
    commit(tmp_path, 0, FIRST)
    meanwhile(monkeypatch, tmp_path, lambda: commit(tmp_path, 0, WIDER, evolve=ALL, app_id="other"))

    with pytest.raises(tables.WrongTable, match="as BIGINT; the rows have INT; --evolve widen"):
        commit(tmp_path, 1, FIRST)
    assert commit(tmp_path, 1, FIRST, evolve=ALL)
    monkeypatch.undo()

    assert [row["id"] for row in rows_in(tmp_path)] == [1, 1, 2, 2, 2**40] and is_proved(tmp_path)


def test_optimize_and_vacuum_of_others_while_columns_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch_id in range(3):
        commit(tmp_path, batch_id, FIRST)

    def others() -> None:
        opened = DeltaTable(tmp_path)
        opened.optimize.compact()
        opened.vacuum(0, dry_run=False, enforce_retention_duration=False)

    meanwhile(monkeypatch, tmp_path, others)
    commit(tmp_path, 3, WIDER, evolve=ALL)
    others()

    assert len(rows_in(tmp_path)) == 7 and is_proved(tmp_path)


def test_a_file_is_written_anew_once_however_often_the_commit_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table may have many of them, and others may commit all the time."""
    for batch_id in range(3):
        commit(tmp_path, batch_id, FIRST)
    anew: list[str] = []
    plain = Recasts._written

    def counted(self: Recasts, file: Any, *how: Any) -> Any:
        anew.append(file.name)
        return plain(self, file, *how)

    meanwhile(monkeypatch, tmp_path, lambda: commit(tmp_path, 0, FIRST, app_id="other"))
    monkeypatch.setattr(Recasts, "_written", counted)
    commit(tmp_path, 3, WIDER, evolve=ALL)

    assert len(rows_in(tmp_path)) == 9 and is_proved(tmp_path)
    assert len(anew) == len(set(anew)) == 5, (
        "those of before, that of the batch, and the one that came meanwhile"
    )


def test_a_file_that_cannot_be_written_anew_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full, say: the batch would leave one more each time that it comes again."""
    commit(tmp_path, 0, FIRST)
    done = [written(tmp_path, 1, WIDER)]
    before = unnamed(tmp_path)

    def full(_self: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(FileWriter, "close", full)
    with pytest.raises(OSError, match="No space left"):
        committed(tmp_path, 1, done, ALL)

    assert unnamed(tmp_path) == before


def test_a_version_is_made_by_one_alone(tmp_path: Path) -> None:
    commit(tmp_path, 0, FIRST)
    opened = DeltaTable(tmp_path)
    who: dict[str, Any] = {"app_id": "app", "batch_id": 1, "metadata": {}}
    delta_log.commit(str(tmp_path), opened, [], **who)

    with pytest.raises(CommitFailedError, match="version 1 was made by another writer"):
        delta_log.commit(str(tmp_path), opened, [], **who)

    assert DeltaTable(tmp_path).transaction_version("app") == 1


SHAPES = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from([pa.int32(), pa.int64()]),
            "x": st.sampled_from([None, pa.int32(), pa.float64()]),
        }
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=25, deadline=None)
@given(shapes=SHAPES)
def test_whatever_comes_after_what_every_row_is_there_once_and_proved(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[dict[str, Any]]
) -> None:
    table = tmp_path_factory.mktemp("table")
    for batch_id, kinds in enumerate(shapes):
        columns = {n: pa.array([batch_id], kind) for n, kind in kinds.items() if kind is not None}
        commit(table, batch_id, pa.table(columns), evolve=ALL)

    rows = rows_in(table)
    assert [row["id"] for row in rows] == list(range(len(shapes)))
    seen = [row.get("x") for row in rows]
    assert seen == [None if kinds["x"] is None else number for number, kinds in enumerate(shapes)]
    assert is_proved(table) and unnamed(table) == set()


def test_types_become_wider_as_delta_allows_and_no_others() -> None:
    allowed = [
        (pa.int8(), pa.int16(), pa.int16()),
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int64(), pa.int32(), pa.int64()),
        (pa.int32(), pa.float32(), pa.float64()),
        (pa.int32(), pa.float64(), pa.float64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(6, 3), pa.decimal128(6, 3)),
        (pa.decimal128(5, 2), pa.decimal128(4, 3), pa.decimal128(6, 3)),
        (pa.string(), pa.string(), pa.string()),
    ]
    for there, found, kind in allowed:
        assert wider(there, found) == kind
    for there, found in (
        (pa.int64(), pa.float64()),
        (pa.string(), pa.int32()),
        (pa.decimal128(38, 0), pa.decimal128(38, 2)),
        (pa.date32(), pa.timestamp("us", "UTC")),
        (pa.bool_(), pa.int8()),
    ):
        assert wider(there, found) is None


@pytest.mark.parametrize(
    ("text", "why"), [("grow", "there are add, widen, relax"), ("add;widen", "with commas")]
)
def test_what_may_become_of_columns_is_said_in_words(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        Evolve.of(text)
    assert str(Evolve.of("relax, add")) == "add,relax" and str(Evolve.of("none")) == "none"


# Values that grow


def records(*values: bytes | None) -> pa.RecordBatch:
    rows = [
        {
            "key": b"k",
            "value": value,
            "topic": "orders",
            "partition": 0,
            "offset": offset,
            "timestamp": 1_700_000_000_000_000 + offset,
            "leaderEpoch": 0,
        }
        for offset, value in enumerate(values)
    ]
    from odradek.spark.arrow_schema import rows_schema

    return pa.RecordBatch.from_pylist(rows, rows_schema(COLUMNS))


ID = pa.schema([("id", pa.int32())])


def grown(table: Path, *, evolve: str = "add,widen", columns: pa.Schema = ID, batch_id: int = 0) -> Growth:
    there = growth.columns_of(str(table))
    return Growth(str(table), "app", batch_id, Shape(columns), Evolve.of(evolve), UNDIVIDED, there)


def test_fields_become_columns_as_they_come_and_what_does_not_fit_is_a_letter(tmp_path: Path) -> None:
    growing = grown(tmp_path)
    shape = Shape(ID)

    done = shape.applied(
        records(
            b'{"id":1}', b'{"id":2,"a":1,"b":{"c":[1.5]}}', b'{"id":3000000000,"a":null,"e":[]}', b"no", None
        ),
        growing,
    )
    again = shape.applied(records(b'{"a":"text"}', b'{"a":2}', b'{"id":"x"}'), growing)

    assert growing.columns == pa.schema(
        [("id", pa.int64()), ("a", pa.int64()), ("b", pa.struct([("c", pa.list_(pa.float64()))]))]
    )
    rows = done.rows.select(["id", "a", "b"]).to_pylist()
    assert rows == [
        {"id": 1, "a": None, "b": None},
        {"id": 2, "a": 1, "b": {"c": [1.5]}},
        {"id": 3_000_000_000, "a": None, "b": None},
        {"id": None, "a": None, "b": None},
    ]
    assert done.letters.column("offset").to_pylist() == [3]
    assert again.rows.column("a").to_pylist() == [2]
    assert again.letters.column("offset").to_pylist() == [0, 2]


def test_without_leave_columns_stay_as_they_are(tmp_path: Path) -> None:
    shape = Shape(ID)
    for evolve, left in (("add", [1]), ("widen", [])):
        growing = grown(tmp_path / evolve, evolve=evolve)
        done = shape.applied(records(b'{"id":1,"a":2}', b'{"id":3000000000}'), growing)
        assert ("a" in growing.columns.names) == (evolve == "add")
        assert done.letters.column("offset").to_pylist() == left


def test_the_task_that_finds_a_field_first_decides_its_type_for_all(tmp_path: Path) -> None:
    shape = Shape(ID)
    one, other, later = grown(tmp_path), grown(tmp_path), grown(tmp_path, batch_id=1)

    shape.applied(records(b'{"a":1}'), one)
    done = shape.applied(records(b'{"a":"text"}', b'{"a":7}', b'{"A":7}'), other)
    shape.applied(records(b'{"a":"text"}'), later)

    assert other.columns == one.columns
    assert done.letters.column("offset").to_pylist() == [0]
    assert done.rows.column("a").to_pylist() == [7, None], "Delta does not tell a from A"
    assert later.columns.field("a").type == pa.string(), "another batch decides anew"
    growth.forget(str(tmp_path), "app", 0)
    assert len(list((tmp_path / "_odradek" / "columns").iterdir())) == 1


def test_the_task_that_makes_a_column_wider_first_decides_how_wide_for_all(tmp_path: Path) -> None:
    """No type holds both a BIGINT and a DOUBLE: with one of each no commit would take the batch, however often it comes."""
    shape = Shape(ID)
    one, other = grown(tmp_path), grown(tmp_path)

    shape.applied(records(b'{"id":3000000000}'), one)
    done = shape.applied(records(b'{"id":1.5}', b'{"id":7}'), other)

    assert other.columns == one.columns == pa.schema([("id", pa.int64())])
    assert done.letters.column("offset").to_pylist() == [0]


def test_a_power_cut_leaves_no_decision_that_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could read it: the batch would come again and again."""
    cuts = PowerCuts(monkeypatch)

    Shape(ID).applied(records(b'{"a":1}'), grown(tmp_path))

    (decision,) = (file for file in (tmp_path / "_odradek" / "columns").rglob("*") if file.is_file())
    assert cuts.would_take([decision]) == []


def test_a_task_begins_with_the_columns_that_the_table_has_by_now(tmp_path: Path) -> None:
    commit(tmp_path, 0, pa.table({"id": pa.array([1]), "name": ["ink"], "__topic": ["orders"]}))

    growing = grown(tmp_path, columns=pa.schema([("id", pa.int32()), ("own", pa.int32())]))

    assert growing.columns == pa.schema([("id", pa.int64()), ("name", pa.string()), ("own", pa.int32())])
    asked = grown(tmp_path, columns=pa.schema([("name", pa.string())]), evolve="widen")
    assert asked.columns.names == ["id", "name"]


def test_fields_that_cannot_be_columns_are_left_out(tmp_path: Path) -> None:
    growing = grown(tmp_path)
    deep = b'{"deep":' + b'{"a":' * 40 + b"1" + b"}" * 41
    values = [
        b'{"a b":1}',
        b'{"":1}',
        b'{"__offset":5}',
        b'{"__batch":5}',  # behind our columns it would be taken for the number of the batch
        b'{"n":null,"o":{},"l":[]}',
        deep,
        b'{"m":{"x y":1,"z":2}}',
    ]

    done = Shape(ID).applied(records(*values), growing)

    assert growing.columns == ID.append(pa.field("m", pa.struct([("z", pa.int64())])))
    assert done.letters.num_rows == 0 and done.rows.num_rows == len(values)


def test_a_stream_of_ever_new_fields_makes_no_more_columns_than_a_table_may_have(tmp_path: Path) -> None:
    growing = grown(tmp_path)
    many = [json.dumps({f"f{m}": 1 for m in range(n, n + 300)}).encode() for n in range(0, 1500, 300)]

    done = Shape(ID, has_meta=False).applied(records(*many), growing)

    assert len(growing.columns) <= MOST_COLUMNS and done.rows.num_rows == 5
    assert not is_addable("one_more", {f"f{n}" for n in range(MOST_COLUMNS)})


def test_columns_of_a_wide_table_are_each_looked_at_once() -> None:
    """By every attempt of every commit."""
    wide = pa.schema([(f"f{n}", pa.int64()) for n in range(8_000)])
    begun = time.process_time()

    change, unfit = change_of(wide, pa.schema([*wide, pa.field("new", pa.int64())]), set())

    assert (change, unfit) == (Change(added=(pa.field("new", pa.int64()),)), [])
    assert time.process_time() - begun < 2  # 0.1 s; where each name is held against all others 6 s


def test_columns_that_a_task_begins_with_are_each_looked_at_once_and_so_is_what_it_finds(
    tmp_path: Path,
) -> None:
    """In each piece of a batch: of a table that is full no field becomes a column, and all are found again."""
    wide = pa.schema([(f"f{n}", pa.int64()) for n in range(8_000)])
    found = {f"more{n}": pa.int64() for n in range(2_000)}
    begun = time.process_time()

    grown = Growth(str(tmp_path), "app", 0, Shape(wide), Evolve(adds=True), UNDIVIDED, wide)

    assert not grown.offer(found) and grown.columns == wide
    assert time.process_time() - begun < 2  # 0.04 s; where each name is held against all others 14 s


def test_an_object_with_ever_so_many_names_is_looked_at_once() -> None:
    """A value may have a million of them, and a batch that waits for it comes again and again."""
    wide = pa.struct([(f"f{n}", pa.int64()) for n in range(20_000)])
    begun = time.process_time()

    found = addable_type(pa.struct([("wide", wide), ("Wide", pa.int64())]))

    assert found == pa.struct([("wide", pa.struct(list(wide)[:MOST_COLUMNS]))])
    assert time.process_time() - begun < 0.5  # 0.014 s; where each name is held against all others 1.6 s


@pytest.mark.parametrize(
    "around",
    [
        pa.list_,
        lambda kind: pa.struct([("a", kind)]),
        lambda kind: pa.map_(pa.string(), kind),
    ],
)
def test_a_field_is_nested_in_up_to_32_levels(around: Any) -> None:
    kind: pa.DataType = pa.int64()
    for _ in range(32):
        kind = around(kind)

    assert addable_type(kind) == kind
    assert addable_type(around(kind)) is None


def test_a_row_without_what_the_table_wants_is_a_letter(tmp_path: Path) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    shape = Shape(columns).of_columns(columns)
    assert Shape.from_text(shape.to_text()) == shape

    done = shape.applied(records(b'{"id":1}', b'{"name":"x"}', None))

    assert done.rows.column("id").to_pylist() == [1]
    assert set(done.letters.column("error").to_pylist()) == {
        "column id is NOT NULL in the table, and the value has none"
    }
    with pytest.raises(BadValue, match="orders-0, offset 1: column id is NOT NULL"):
        shape._replace(on_error="pause").applied(records(b'{"id":1}', b'{"name":"x"}'))


def test_wider_types_are_proved_in_a_divided_table_too(tmp_path: Path) -> None:
    spec = Spec.of("country,bucket(4, id)")
    options = TableOptions(str(tmp_path), "app")
    options = options._replace(layout=options.layout._replace(spec=spec))

    def run(batch_id: int, rows: Mapping[str, Any]) -> None:
        table = pa.table(rows)
        done = write_rows(table.to_batches(), from_arrow_schema(table.schema), options, batch_id=batch_id)
        tables.commit(
            str(tmp_path),
            app_id="app",
            batch_id=batch_id,
            files=done.files,
            parts=(),
            schema=table.schema,
            rows=done.rows,
            evolve=ALL,
            spec=spec,
        )

    run(0, {"id": pa.array([1, 2, 3], pa.int32()), "country": ["DE", "a/b c", ""]})
    run(1, {"id": pa.array([2**40]), "country": ["DE"]})

    assert is_proved(tmp_path) and kinds_in(tmp_path)["id"] == "long"
    found = [(row["id"], row["country"]) for row in rows_in(tmp_path)]
    assert found == [(1, "DE"), (2, "a/b c"), (3, None), (2**40, "DE")]
    opened = DeltaTable(tmp_path)
    assert sum(rows.num_rows for rows in rows_of(opened, tables.dividing_columns(opened))) == 4
    assert unnamed(tmp_path) == set()
    for file in files_of(opened):
        assert [part.partition("=")[0] for part in file.name.split("/")[:-1]] == ["country", "id_bucket"], (
            "others find them by directory, too"
        )


@pytest.mark.parametrize("by", ["id", "bucket(4, id)"])
def test_a_column_that_divides_a_table_becomes_no_double(tmp_path: Path, by: str) -> None:
    """1.0 is another text than 1: rows would be found in another partition, and the proof of those that are there be lost."""
    spec = Spec.of(by)
    options = TableOptions(str(tmp_path), "app")
    options = options._replace(layout=options.layout._replace(spec=spec))

    def run(batch_id: int, ids: pa.Array) -> None:
        rows = pa.table({"id": ids, "name": ["ink"] * len(ids)})
        done = write_rows(rows.to_batches(), from_arrow_schema(rows.schema), options, batch_id=batch_id)
        committed(tmp_path, batch_id, [done], ALL, spec=spec)

    run(0, pa.array([1, 2], pa.int32()))
    with pytest.raises(
        tables.WrongTable, match="has column id as INT; the rows have DOUBLE; the table is div"
    ):
        run(1, pa.array([1.5]))
    run(1, pa.array([2**40]))
    growing = Growth(str(tmp_path), "app", 2, Shape(ID), ALL, spec, growth.columns_of(str(tmp_path)))
    done = Shape(ID).applied(records(b'{"id":1.5}', b'{"id":3}'), growing)

    assert kinds_in(tmp_path)["id"] == "long" and is_proved(tmp_path)
    assert growing.columns.field("id").type == pa.int64()
    assert done.letters.column("offset").to_pylist() == [0]


def test_the_table_is_opened_where_a_batch_is_planned_and_in_none_of_its_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opens it reads the names of all its files."""
    commit(tmp_path, 0, FIRST)
    options = TableOptions(str(tmp_path), "app", shape=Shape(ID), evolve=ALL)
    reader = FusedReader(stream_options({"kafka.bootstrap.servers": "a:1", "subscribe": "orders"}), options)
    planned = [InputPartition(n) for n in range(3)]
    monkeypatch.setattr(StreamReader, "partitions", lambda *_: planned)
    opened: list[str] = []

    def open_table(path: str) -> DeltaTable:
        opened.append(path)
        return DeltaTable(path)

    monkeypatch.setattr(tables, "open_table", open_table)

    tasks = reader.partitions({}, {})
    growing = [
        Growth(str(tmp_path), "app", 1, Shape(ID), ALL, UNDIVIDED, pickle.loads(pickle.dumps(task)).there)
        for task in tasks
    ]

    assert [(task.value, one.columns.names) for task, one in zip(tasks, growing, strict=True)] == [
        (n, ["id", "price"]) for n in range(3)
    ]
    assert opened == [str(tmp_path)]


def test_what_a_task_tells_of_its_files_survives_the_journey() -> None:
    file = TableFile(
        "country=DE/x.parquet", 5, 1, '{"nullCount":{}}', (("country", "DE"), ("day", None)), (("at", 1),)
    )
    done = Written(from_arrow_schema(ID), [file], [])

    assert Written.from_text(done.to_text()).files == (file,)
