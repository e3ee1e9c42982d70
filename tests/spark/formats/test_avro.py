"""Avro values become columns, by a registry or by a file; what cannot be read is told apart, with the id of its schema."""

import datetime as dt
import json
from collections.abc import Sequence
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from odradek.model.errors import ConfigurationError
from odradek.spark.ddl import schema_of, text_of
from odradek.spark.formats import declared, rows
from odradek.spark.formats.avro import Avro, avro_of
from odradek.spark.formats.declared import Format, decoder, learnt
from odradek.spark.formats.decoded import Bad, Decoded, RefusedSchema
from odradek.spark.formats.kinds import misfit
from odradek.spark.formats.registry import Schema
from tests.spark.formats.registry_server import RegistryServer, framed

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "PAID"]}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]},
            },
        },
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "first", "type": ["null", "Line"]},
        {"name": "either", "type": ["string", "Line"]},
    ],
}
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=dt.UTC)
ROW = {
    "id": 1,
    "name": None,
    "price": Decimal("12.50"),
    "at": AT,
    "day": dt.date(1969, 12, 31),
    "kind": "PAID",
    "lines": [{"sku": "a"}, {"sku": "b"}],
    "tags": {"x": 1},
    "first": {"sku": "a"},
    "either": "this",
}
SIMPLE = {
    "type": "record",
    "name": "S",
    "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": "string"}],
}


def written(schema: Any, row: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), row)
    return stream.getvalue()


def file_of(tmp_path: Path, schema: Any) -> Format:
    file = tmp_path / "schema.avsc"
    file.write_text(json.dumps(schema))
    return Format("avro", schema_file=str(file))


def decoded(form: Format, columns: str | pa.Schema, *values: bytes | None) -> Decoded:
    wanted = schema_of(columns) if isinstance(columns, str) else columns
    return decoder(form, wanted).decoded(pa.array(values, pa.binary()))


def test_every_kind_of_field_is_a_column(tmp_path: Path) -> None:
    form = file_of(tmp_path, ORDER)
    found = learnt(form, "", lambda: pa.array([]))

    assert text_of(found.columns) == (
        "id BIGINT, name STRING, price DECIMAL(9, 2), at TIMESTAMP, day DATE, kind STRING, "
        "lines ARRAY<STRUCT<sku: STRING>>, tags MAP<STRING, INT>, first STRUCT<sku: STRING>"
    )
    assert schema_of(text_of(found.columns)) == found.columns
    assert found.left_out == ("either",), "a union of a string and a record is in no column"
    done = decoded(form, found.columns, None, written(ORDER, ROW))
    assert not done.bad and done.good.tolist() == [0, 1]
    none, row = done.columns.to_pylist()
    assert none == dict.fromkeys(found.columns.names)
    assert row == {k: v for k, v in ROW.items() if k != "either"} | {"tags": [("x", 1)]}


@pytest.mark.parametrize(
    ("unit", "value"),
    [
        ("millis", -62_135_596_800_001),  # before the year 1
        ("millis", 253_402_300_800_000),  # after 9999
        ("micros", -1),
        ("nanos", 1_767_323_045_678_000_999),
    ],
)
def test_times_of_any_unit_and_year(tmp_path: Path, unit: str, value: int) -> None:
    field = {"name": "at", "type": {"type": "long", "logicalType": f"timestamp-{unit}"}}
    plain = {"type": "record", "name": "T", "fields": [{"name": "at", "type": "long"}]}
    form = file_of(tmp_path, {"type": "record", "name": "T", "fields": [field]})

    done = decoded(form, "at TIMESTAMP", written(plain, {"at": value}))

    micros = {"millis": value * 1000, "micros": value, "nanos": value // 1000}[unit]
    assert done.columns.column(0).cast(pa.int64()).to_pylist() == [micros]


def test_a_schema_file_is_read_again_when_it_says_something_else(tmp_path: Path) -> None:
    """A session and its Python workers outlive a query: the next one may have another schema in the same file."""
    plain = {"type": "record", "name": "T", "fields": [{"name": "at", "type": "long"}]}

    def read() -> Any:
        found = decoded(form, "at TIMESTAMP", written(plain, {"at": -1}))
        return found.columns.column(0).cast(pa.int64()).to_pylist()

    for unit, micros in (("millis", -1000), ("micros", -1)):
        field = {"name": "at", "type": {"type": "long", "logicalType": f"timestamp-{unit}"}}
        form = file_of(tmp_path, {"type": "record", "name": "T", "fields": [field]})
        assert read() == [micros]
    Path(form.schema_file).unlink()
    assert read() == [-1], "a file that has gone ends no query that has read it"


def test_what_is_wrong_with_one_value_spoils_no_other(tmp_path: Path) -> None:
    form = file_of(tmp_path, SIMPLE)
    good = [written(SIMPLE, {"id": n, "n": f"n{n}"}) for n in range(9)]
    far = written(
        {**SIMPLE, "fields": [{"name": "id", "type": "bytes"}, SIMPLE["fields"][1]]}, {"id": b"", "n": ""}
    )

    done = decoded(
        form,
        "id BIGINT, n STRING",
        *good[:4],
        good[4][:-1],
        *good[5:8],
        good[8] + b"x",
        b"",
        b"\x02\x03\xff",
        far,
    )

    assert done.good.tolist() == [0, 1, 2, 3, 5, 6, 7, 11]
    assert [row["id"] for row in done.columns.to_pylist()] == [0, 1, 2, 3, 5, 6, 7, 0]
    assert {row: why.stage for row, why in done.bad.items()} == dict.fromkeys((4, 8, 9, 10), "value")
    assert done.bad[4].error == "the value ends before its last field"
    assert done.bad[8].error == "1 bytes stand behind the value"


def test_a_value_cut_anywhere_is_never_a_row(tmp_path: Path) -> None:
    form = file_of(tmp_path, ORDER)
    columns = learnt(form, "", lambda: pa.array([])).columns
    whole = written(ORDER, ROW)

    done = decoded(form, columns, *(whole[:end] for end in range(len(whole))))

    assert not len(done.good) and len(done.bad) == len(whole)


def long(number: int) -> bytes:
    """As Avro writes it."""
    number, found = number << 1, bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def test_decimals_are_read_up_to_38_digits_and_long_ones_cost_nothing(tmp_path: Path) -> None:
    kinds = [
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3},
        {"type": "fixed", "name": "F", "size": 3, "logicalType": "decimal", "precision": 5, "scale": 2},
        {"type": "fixed", "name": "G", "size": 2, "logicalType": "decimal", "precision": 99},
    ]
    schema = {
        "type": "record",
        "name": "D",
        "fields": [{"name": n, "type": k} for n, k in zip("abc", kinds, strict=True)],
    }
    form = file_of(tmp_path, schema)
    columns = learnt(form, "", lambda: pa.array([])).columns
    assert text_of(columns) == "a DECIMAL(38, 3), b DECIMAL(5, 2), c BINARY"
    most = -(10**38) + 1
    of_most = most.to_bytes(17, "big", signed=True)

    done = decoded(
        form,
        columns,
        long(17) + of_most + b"\xff\xff\xfe" + b"xy",
        long(900_000) + b"\x11" * 900_000 + b"\0\0\0" + b"xy",
        long(1) + b"\1" + b"\x7f\xff\xff" + b"xy",
    )

    assert done.columns.to_pylist() == [
        {"a": Decimal("-" + "9" * 35 + ".999"), "b": Decimal("-0.02"), "c": b"xy"}
    ]
    assert done.bad[1].error == "a decimal of 900,000 bytes"
    assert done.good.tolist() == [0], "8388607 has more than five digits"


def test_a_decimal_may_have_more_bytes_than_its_digits_take(tmp_path: Path) -> None:
    """A fixed one has as many as its schema says; those in front repeat the sign."""
    kinds = [
        {"type": "fixed", "name": "F", "size": 32, "logicalType": "decimal", "precision": 38, "scale": 2},
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
    ]
    schema = {
        "type": "record",
        "name": "D",
        "fields": [{"name": n, "type": k} for n, k in zip("ab", kinds, strict=True)],
    }
    form = file_of(tmp_path, schema)
    wide = [number.to_bytes(32, "big", signed=True) for number in (-150, 150, 2**200)]

    columns = learnt(form, "", lambda: pa.array([])).columns
    done = decoded(form, columns, *(data + long(32) + data for data in wide))

    found = [{name: Decimal(number) for name in "ab"} for number in ("-1.50", "1.50")]
    assert (done.columns.to_pylist(), list(done.bad)) == (found, [2])


def test_lists_of_many_small_things_are_read_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = {"type": "record", "name": "I", "fields": [{"name": "b", "type": "boolean"}]}
    for kind, most in (
        ({"type": "array", "items": item}, rows.LARGEST_OF_NESTED_LISTS),
        ({"type": "map", "values": "int"}, rows.LARGEST_OF_NESTED_LISTS),
        ({"type": "array", "items": "int"}, rows.LARGEST_OF_LISTS),
        (
            {
                "type": "record",
                "name": "R",
                "fields": [{"name": "c", "type": {"type": "array", "items": item}}],
            },
            1 << 20,
        ),
        ("string", rows.LARGEST),
    ):
        columns = avro_of(
            json.dumps({"type": "record", "name": "B", "fields": [{"name": "a", "type": kind}]})
        ).columns
        assert rows.largest_of(columns) == most
    assert rows.largest_of(columns, ("left", "out")) == rows.LARGEST_OF_NESTED_LISTS

    form = file_of(
        tmp_path,
        {"type": "record", "name": "B", "fields": [{"name": "a", "type": {"type": "array", "items": item}}]},
    )
    columns = learnt(form, "", lambda: pa.array([])).columns
    held: list[int] = []
    built = rows._built
    monkeypatch.setattr(
        rows,
        "_built",
        lambda found, *more: held.append(sum(len(r["a"]) for r in found)) or built(found, *more),
    )
    values = [long(n) + bytes(n) + b"\0" for n in (1000,) * 600 + ((1 << 20) - 4, 1 << 20)]
    done = decoded(form, columns, *values)

    assert len(done.good) == 601
    assert done.bad == {
        601: Bad("a value of 1,048,581 bytes; 1,048,576 is the most that is read of this schema", "size")
    }
    assert max(held[:-1]) <= rows.BLOCK_BYTES and len(held) == 4


def test_schemas_of_a_registry_each_by_its_id(server: RegistryServer) -> None:
    newer = {**SIMPLE, "fields": [*SIMPLE["fields"][:1], {"name": "extra", "type": "int"}]}
    narrow = {**SIMPLE, "fields": [{"name": "id", "type": "int"}, SIMPLE["fields"][1]]}
    other = {**SIMPLE, "fields": [{"name": "id", "type": "string"}]}
    for schema_id, schema in ((7, SIMPLE), (8, newer), (9, narrow), (10, other)):
        server.has(schema_id, schema)
    form = Format("avro", registry=server.url)

    done = decoded(
        form,
        "id BIGINT, n STRING",
        framed(8, written(newer, {"id": 1, "extra": 5})),
        framed(7, written(SIMPLE, {"id": 2, "n": "b"})),
        framed(99, b"\x02\x02x"),
        b'{"id": 3}',
        framed(7, written(SIMPLE, {"id": 4, "n": "abc"})[:-1]),
        None,
        framed(9, written(narrow, {"id": 6, "n": "f"})),
        framed(10, written(other, {"id": "x"})),
    )

    assert done.good.tolist() == [0, 1, 5, 6]
    assert [(row["id"], row["n"]) for row in done.columns.to_pylist()] == [
        (1, None),
        (2, "b"),
        (None, None),
        (6, "f"),
    ]
    assert done.bad[2] == Bad(f"schema id 99 is not in {server.url}", "schema", 99)
    assert done.bad[3].stage == "schema" and done.bad[3].schema_id is None
    assert done.bad[4] == Bad("the value ends before its last field", "value", 7)
    assert done.bad[7] == Bad("field id is STRING by the schema; the column is BIGINT", "schema", 10)


def test_schemas_are_compiled_once_and_of_very_many_the_last_are_kept(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []

    def counted(text: str, references: Sequence[Schema] = ()) -> Avro:
        compiled.append(text)
        return avro_of(text, references)

    monkeypatch.setattr(declared, "avro_of", counted)
    monkeypatch.setattr(declared, "MOST_READERS", 2)
    for schema_id in range(3):
        server.has(schema_id, {**SIMPLE, "doc": str(schema_id)})
    form = Format("avro", registry=server.url)
    value = written(SIMPLE, {"id": 1, "n": "a"})

    for schema_id in (0, 1, 0, 1, 2, 2, 0):
        assert decoded(form, "id BIGINT, n STRING", framed(schema_id, value)).good.tolist() == [0]

    assert [json.loads(text)["doc"] for text in compiled] == ["0", "1", "2", "0"]


def test_of_columns_that_become_more_and_more_the_last_are_kept(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker outlives the queries; of each set of columns it would keep all schemas compiled."""
    compiled = []

    def counted(text: str, references: Sequence[Schema] = ()) -> Avro:
        compiled.append(text)
        return avro_of(text, references)

    monkeypatch.setattr(declared, "avro_of", counted)
    monkeypatch.setattr(declared, "_decoders", {})
    monkeypatch.setattr(declared, "MOST_DECODERS", 2, raising=False)
    server.has(7, SIMPLE)
    form = Format("avro", registry=server.url)
    value = framed(7, written(SIMPLE, {"id": 1, "n": "a"}))
    sets = ["id BIGINT", "id BIGINT, n STRING", "id BIGINT, n STRING, more STRING"]

    for columns in (0, 1, 0, 2, 0, 1, 2):
        assert decoded(form, sets[columns], value).good.tolist() == [0]

    assert len(compiled) == 5, "the third takes the place of the second, which nobody has asked for since"


def test_a_silent_registry_is_told_apart_from_a_bad_value(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("odradek.spark.formats.registry.PAUSE_S", 0.0)
    server.answers["/schemas/ids/7"] = (500, b"<html>")

    done = decoded(Format("avro", registry=server.url), "id BIGINT", framed(7, b"\x02"))

    assert (done.bad[0].stage, done.bad[0].schema_id) == ("registry", 7)


def test_columns_are_of_the_newest_schema_of_the_subject_or_of_what_values_name(
    server: RegistryServer,
) -> None:
    form = Format("avro", registry=server.url)
    server.has(7, SIMPLE)

    def sample() -> pa.Array:
        return pa.array([framed(7, b""), framed(3, b""), framed(99, b""), b"x"], pa.binary())

    found = learnt(form, "orders-value", sample)
    assert (text_of(found.columns), found.where) == (
        "id BIGINT, n STRING",
        "of schema id 7, which values name (there is no subject orders-value)",
    )
    server.has(8, {"type": "long"}, subject="orders-value")
    found = learnt(form, "orders-value", sample)
    assert (text_of(found.columns), found.is_plain, found.where) == (
        "value BIGINT",
        True,
        "of subject orders-value, schema id 8",
    )
    with pytest.raises(
        ConfigurationError,
        match=r"has no subject other-value, and no value names a schema that it has; .*--subject",
    ):
        learnt(form, "other-value", lambda: pa.array([b"x"], pa.binary()))


def test_null_may_be_spelt_as_an_object(tmp_path: Path) -> None:
    union = [{"type": "null"}, {"type": "string"}]
    record = {"type": "record", "name": "R", "fields": [{"name": "n", "type": union}]}
    form = file_of(tmp_path, record)

    assert text_of(learnt(form, "", lambda: pa.array([])).columns) == "n STRING"
    values = [written(record, {"n": "a"}), written(record, {"n": None})]
    assert decoded(form, "n STRING", *values).columns.to_pylist() == [{"n": "a"}, {"n": None}]


@pytest.mark.parametrize("index", [-1, -2, 2])
def test_a_symbol_that_an_enum_does_not_have_is_no_value(tmp_path: Path, index: int) -> None:
    """Python takes the last ones for those below zero."""
    number, enum = written("int", index), {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    bad = {0: Bad("the value names a symbol or a branch that its schema does not have")}
    for kind, of_column, value in (
        (enum, "n STRING", number),
        (["null", enum], "n STRING", b"\x02" + number),
        ({"type": "array", "items": enum}, "n ARRAY<STRING>", b"\x02" + number + b"\x00"),
        ({"type": "map", "values": enum}, "n MAP<STRING, STRING>", b"\x02\x02k" + number + b"\x00"),
    ):
        record = {"type": "record", "name": "R", "fields": [{"name": "n", "type": kind}]}
        assert decoded(file_of(tmp_path, record), of_column, value).bad == bad, kind
    assert decoded(file_of(tmp_path, enum), "value STRING", number).bad == bad


def test_an_enum_is_read_wherever_it_is_named(tmp_path: Path) -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    fields = [
        {"name": "a", "type": enum},
        {"name": "b", "type": ["null", "E", "int"]},
        {"name": "c", "type": "E"},
    ]
    record = {"type": "record", "name": "R", "fields": fields}
    value = written(record, {"a": "B", "b": "A", "c": "B"})

    done = decoded(file_of(tmp_path, record), "a STRING, c STRING", value)

    assert done.columns.to_pylist() == [{"a": "B", "c": "B"}]


def test_a_schema_that_refers_to_others(server: RegistryServer) -> None:
    line = {
        "type": "record",
        "name": "Line",
        "namespace": "shop",
        "fields": [{"name": "unit", "type": "shop.Unit"}],
    }
    unit = {"type": "enum", "name": "Unit", "namespace": "shop", "symbols": ["KG", "L"]}
    order = {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "first", "type": "Line"}, {"name": "last", "type": "shop.Line"}],
    }
    server.has(1, unit, subject="unit")
    server.has(2, line, subject="line", references=[{"name": "shop.Unit", "subject": "unit", "version": 1}])
    server.has(
        3, order, subject="orders-value", references=[{"name": "shop.Line", "subject": "line", "version": 1}]
    )
    form = Format("avro", registry=server.url)
    columns = learnt(form, "orders-value", lambda: pa.array([])).columns
    whole = {**line, "fields": [{"name": "unit", "type": unit}]}
    inlined = {**order, "fields": [{"name": "first", "type": whole}, order["fields"][1]]}
    row = {"first": {"unit": "KG"}, "last": {"unit": "L"}}

    assert decoded(form, columns, framed(3, written(inlined, row))).columns.to_pylist() == [row]


def test_a_long_in_a_column_of_doubles_is_the_double_next_to_it(tmp_path: Path) -> None:
    """As in Avro's own resolution. pyarrow takes none above 2**53, exact or not."""
    inner = {"type": "record", "name": "P", "fields": [{"name": "x", "type": ["long", "null"]}]}
    of_list, of_map = {"type": "array", "items": "long"}, {"type": "map", "values": "P"}
    fields = {"x": "long", "p": inner, "l": of_list, "m": of_map, "b": "boolean", "s": "string"}
    schema = {"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    rest: dict[str, Any] = {
        "p": {"x": 2**60 + 1},
        "l": [-(2**63), 3],
        "m": {"a": {"x": None}},
        "b": True,
        "s": "",
    }
    values = [written(schema, {"x": 2**number, **rest}) for number in (1, 53, 62)]
    columns = "x DOUBLE, p STRUCT<x: DOUBLE>, l ARRAY<DOUBLE>, m MAP<STRING, STRUCT<x: DOUBLE>>, b BOOLEAN"

    done = decoded(file_of(tmp_path, schema), columns, *values)

    row = {"p": {"x": 2.0**60}, "l": [-(2.0**63), 3.0], "m": [("a", {"x": None})], "b": True}
    assert done.columns.to_pylist() == [{"x": 2.0**number, **row} for number in (1, 53, 62)]


def test_a_schema_may_name_what_stands_within_those_it_refers_to() -> None:
    """A parser of Avro's that has read one knows all its types, wherever they are met first."""
    unit = {"type": "enum", "name": "Unit", "symbols": ["KG", "L"]}
    amount = {"type": "record", "name": "Amount", "fields": [{"name": "n", "type": "int"}]}
    line = {
        "type": "record",
        "name": "Line",
        "namespace": "shop",
        "fields": [{"name": "unit", "type": ["null", unit]}, {"name": "amount", "type": amount}],
    }
    names = {"unit": "shop.Unit", "amount": "shop.Amount", "line": "shop.Line", "again": "shop.Amount"}
    order = {"type": "record", "name": "Order", "fields": [{"name": n, "type": t} for n, t in names.items()]}
    inlined = {
        **order,
        "fields": [
            {"name": "unit", "type": {**unit, "namespace": "shop"}},
            {"name": "amount", "type": {**amount, "namespace": "shop"}},
            {
                "name": "line",
                "type": {
                    **line,
                    "fields": [
                        {"name": "unit", "type": ["null", "Unit"]},
                        {"name": "amount", "type": "Amount"},
                    ],
                },
            },
            {"name": "again", "type": "shop.Amount"},
        ],
    }
    row = {"unit": "L", "amount": {"n": 1}, "line": {"unit": "KG", "amount": {"n": 2}}, "again": {"n": 3}}

    found = avro_of(json.dumps(order), [Schema("AVRO", json.dumps(line))])

    assert found.read(written(inlined, row)) == row


def test_types_that_stand_in_others_at_more_places_than_can_be_counted_are_refused() -> None:
    """Thirty records, each twice in the next, are a thousand million columns."""
    schema: Any = {"type": "record", "name": "R0", "fields": [{"name": "n", "type": "int"}]}
    for number in range(1, 30):
        twice = [{"name": "a", "type": schema}, {"name": "b", "type": ["null", f"R{number - 1}"]}]
        schema = {"type": "record", "name": f"R{number}", "fields": twice}

    with pytest.raises(
        RefusedSchema, match=r"the record R13 has more than 20,000 fields, with those nested in it"
    ):
        avro_of(json.dumps(schema))


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (
            {"type": "record", "name": "Tree", "fields": [{"name": "left", "type": ["null", "Tree"]}]},
            "the type Tree holds itself",
        ),
        (
            {
                "type": "record",
                "name": "A",
                "fields": [{"name": "n", "type": {"type": "array", "items": "null"}}],
            },
            "an array of values that take no byte",
        ),
        (
            {"type": "record", "name": "A", "fields": [{"name": "n", "type": "Elsewhere"}]},
            "there is no type Elsewhere",
        ),
        ({"type": "record", "name": "A"}, "this is no Avro schema: KeyError"),
        ({"type": "record", "name": "A", "fields": []}, "no column holds the values"),
        ([], "no column holds the values"),
        (17, "this is no Avro schema"),
    ],
)
def test_a_schema_whose_values_are_not_read(schema: Any, why: str) -> None:
    with pytest.raises(RefusedSchema, match=why):
        avro_of(json.dumps(schema))


def test_what_does_not_go_together_is_said_at_once(tmp_path: Path) -> None:
    for form, why in (
        (Format("avro"), "expected either --registry or --schema-file"),
        (
            Format("avro", registry="http://h:1", schema_file="f"),
            "expected either --registry or --schema-file",
        ),
        (Format("avro", registry="h:1"), "is no address of a registry"),
        (Format("json", registry="http://h:1"), "json has no schema of a registry or a file"),
        (Format("avro", schema_file="f", message="M"), "--message is for a --schema-file of Protobuf"),
        (Format("xml"), "--format xml: there are string, json, avro, protobuf"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            form.check()
    with pytest.raises(ConfigurationError, match=r"--schema-file .*nothing: No such file"):
        learnt(Format("avro", schema_file=str(tmp_path / "nothing")), "", lambda: pa.array([]))
    file = tmp_path / "bad.avsc"
    file.write_text("{")
    with pytest.raises(ConfigurationError, match=r"--schema-file .*bad.avsc: this is no Avro schema"):
        learnt(Format("avro", schema_file=str(file)), "", lambda: pa.array([]))
    assert declared.FORMATS == ("string", "json", "avro", "protobuf")


def test_text_is_a_column_and_what_is_no_utf8_is_not() -> None:
    done = decoded(Format("string"), declared.PLAIN, b"a", None, b"\xff", "é".encode())

    assert done.good.tolist() == [0, 1, 3] and done.columns.column(0).to_pylist() == ["a", None, "é"]
    assert "can't decode byte 0xff" in done.bad[2].error


@pytest.mark.parametrize(
    ("found", "wanted", "fits"),
    [
        ("INT", "BIGINT", True),
        ("INT", "DOUBLE", True),
        ("BIGINT", "INT", False),
        ("FLOAT", "DOUBLE", True),
        ("DOUBLE", "FLOAT", False),
        ("STRING", "BINARY", False),
        ("DECIMAL(9, 2)", "DECIMAL(12, 3)", True),
        ("DECIMAL(9, 2)", "DECIMAL(9, 3)", False),
        ("DECIMAL(9, 2)", "DECIMAL(12, 1)", False),
        ("DECIMAL(9, 2)", "DOUBLE", False),
        ("ARRAY<INT>", "ARRAY<BIGINT>", True),
        ("ARRAY<INT>", "ARRAY<STRING>", False),
        ("MAP<STRING, INT>", "MAP<STRING, BIGINT>", True),
        ("MAP<STRING, STRING>", "MAP<STRING, INT>", False),
        ("STRUCT<a: INT, b: INT>", "STRUCT<a: BIGINT, c: STRING>", True),
        ("STRUCT<a: INT>", "STRUCT<a: STRING>", False),
        ("STRUCT<a: INT>", "INT", False),
    ],
)
def test_which_types_a_column_holds(found: str, wanted: str, fits: bool) -> None:
    kinds = [schema_of(f"x {text}").field("x").type for text in (found, wanted)]

    assert (misfit(*kinds) is None) == fits
