"""Values that are JSON objects become columns, each row where it belongs, and a bad one spoils no other."""

import json
import time
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.model.errors import ConfigurationError
from odradek.spark import json_values
from odradek.spark.ddl import schema_of, text_of
from odradek.spark.json_values import decoded, fields_of, inferred

SCHEMA = schema_of("id BIGINT, name STRING, tags ARRAY<STRING>, place STRUCT<x: DOUBLE, y: DOUBLE>")


def rows(
    *values: bytes | None, schema: pa.Schema = SCHEMA
) -> tuple[list[tuple[int, dict[str, object]]], dict[int, str]]:
    found = decoded(pa.array(values, pa.binary()), schema)
    return list(zip(found.good.tolist(), found.columns.to_pylist(), strict=True)), found.bad


def test_fields_become_columns_by_name() -> None:
    good, bad = rows(
        b'{"name":"a","id":1,"tags":["x",null],"place":{"y":2.5,"z":1},"unknown":{"deep":[1,"2"]}}',
        b"  {\n}\t",
        None,
        '{"name":"\\u00e9 é","id":null}'.encode(),
    )
    none = {"id": None, "name": None, "tags": None, "place": None}
    assert not bad
    assert good == [
        (0, {"id": 1, "name": "a", "tags": ["x", None], "place": {"x": None, "y": 2.5}}),
        (1, none),
        (2, none),
        (3, {**none, "name": "é é"}),
    ]


def test_a_mark_of_the_order_of_bytes_is_passed_over_as_where_columns_are_learnt() -> None:
    """As .NET writes it before a text in UTF-8."""
    values = [b'\xef\xbb\xbf {"id":1}', b'{"id":2}', b"\xef\xbb\xbf"]

    assert inferred(values) == (schema_of("id BIGINT"), 1)
    assert rows(*values, schema=schema_of("id BIGINT")) == (
        [(0, {"id": 1}), (1, {"id": 2})],
        {2: "no JSON object"},
    )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "no JSON object"),
        (b"   ", "no JSON object"),
        (b"17", "no JSON object"),
        (b"[]", "no JSON object"),
        (b'{"id":1', "no JSON object"),
        (b'{"id":1}}', "something stands behind"),
        (b'{"id":"one"}', "field (id) changed from number to string"),
        (b'{"id":1.5}', "convert JSON to int64"),
        (b'{"id":99999999999999999999}', "convert JSON to int64"),
        (b'{"place":{"x":"far"}}', "field (place/x) changed"),
        (b'{"id":1,"id":2}', "field (id) was specified twice"),
        (b'{"name":"\xff"}', "no UTF-8"),
        (b'{"name":"ab","id":}', "Invalid value"),
        (b'{"name":"a\nb"}', "Invalid encoding in string"),
        (b'{"id":1}{"id":2}', "something stands behind"),
        (b'{"id":1}, "z":{"id":2}', "something stands behind"),
        (b'{"id":1},{"id":2}', "something stands behind"),
        (b'{"id":1}]],"z":[[{"id":2}', "something stands behind"),
        (b'{"id":1} ] ] , "z":{}', "something stands behind"),
        (b'{"id":1},"n":7}\n{"n":8,"v":{"id":2}', "something stands behind"),
        (b'{"id":1}]]}\n{"n":4,"v":[[{"id":2}', "something stands behind"),
        (b'{"id":1}]],"v":[[{"id":2}', "something stands behind"),
        (b'{"id":1}],[{"id":2}', "something stands behind"),
        (b'{"id":1,"x":Inf}]],"z":[[{}', "something stands behind"),
        (
            b'{"id":1,"s":"\\"]","x":' + b"[" * 5000 + b"]" * 5000 + b'}]],"z":[[{}',
            "something stands behind",
        ),
    ],
)
def test_a_value_that_cannot_be_read_says_why_and_moves_no_other(value: bytes, why: str) -> None:
    around = [b'{"id":%d}' % n for n in range(7)]

    good, bad = rows(*around[:3], value, *around[3:])

    assert [(row, fields["id"]) for row, fields in good] == [
        (0, 0),
        (1, 1),
        (2, 2),
        (4, 3),
        (5, 4),
        (6, 5),
        (7, 6),
    ]
    assert list(bad) == [3] and why in bad[3]


def test_what_only_pyarrow_reads_may_have_the_signs_that_close_it() -> None:
    value = b'{"id":1,"x":Inf,"s":"]}]]","deep":' + b"[" * 5000 + b'{"a":[[{}]]}' + b"]" * 5000 + b"}"

    assert rows(value, schema=schema_of("id BIGINT")) == ([(0, {"id": 1})], {})


def test_two_values_that_make_up_for_each_other_shift_nothing() -> None:
    """One with two objects and one with none: the number of rows alone would be right."""
    good, bad = rows(b'{"id":0}', b'{"id":1}]]}\n{"n":2,"v":[[{"id":9}', b'{"id":', b'{"id":3}')

    assert [(row, fields["id"]) for row, fields in good] == [(0, 0), (3, 3)]
    assert sorted(bad) == [1, 2]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.binary(max_size=12)
        | st.sampled_from([b'{"id":5}', b"{}", b'{"id":"x"}', b'{"id":1}{', b"}", b'"', b"\\"])
        | st.lists(st.sampled_from([b'{"id":5}', b"{}", b"]", b"[", b",", b'"z":']), max_size=9).map(
            b"".join
        ),
        max_size=20,
    )
)
def test_what_is_read_is_what_the_standard_library_reads(values: list[bytes]) -> None:
    schema = schema_of("id BIGINT")
    good, bad = rows(*values, schema=schema)

    assert sorted([row for row, _ in good] + list(bad)) == list(range(len(values)))
    for row, fields in good:
        assert json.loads(values[row]).get("id") == fields["id"]


@pytest.mark.parametrize("value", [b'{"x":1e39}', b'{"many":[0,-1e39]}', b'{"at":{"x":3.5e38}}'])
def test_a_number_beyond_float_is_no_infinity(value: bytes) -> None:
    schema = schema_of("x FLOAT, many ARRAY<FLOAT>, at STRUCT<x: FLOAT>")
    good, bad = rows(b'{"x":3.4e38}', value, b'{"x":Infinity}', schema=schema)
    assert bad == {1: "a number is beyond FLOAT"}
    assert [fields["x"] for _, fields in good] == [pytest.approx(3.4e38), float("inf")]


@pytest.mark.parametrize(
    "value",
    [
        b'{"x":1000}',
        b'{"x":"-99999"}',
        b'{"many":[1,99999]}',
        b'{"at":{"x":12345}}',
        b'{"whole":100000000000000000000000000000000000000}',
    ],
)
def test_a_number_beyond_decimal_is_no_other_number(value: bytes) -> None:
    """pyarrow counts the digits that are written, and not those behind the point that the column adds."""
    schema = schema_of(
        "x DECIMAL(5, 2), many ARRAY<DECIMAL(5, 2)>, at STRUCT<x: DECIMAL(5, 2)>, whole DECIMAL(38, 37)"
    )
    good, bad = rows(b'{"x":999.99}', value, b'{"x":-999.99,"at":{}}', schema=schema)
    assert (list(bad), [row for row, _ in good]) == ([1], [0, 2])
    assert "precision" in bad[1] or bad[1] == "a number is beyond DECIMAL"


def test_an_infinity_costs_the_values_beside_it_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []
    beyond = json_values._beyond

    def noting(text: str, kind: pa.DataType) -> str:
        looked_at.append(text)
        return beyond(text, kind)

    monkeypatch.setattr(json_values, "_beyond", noting)
    schema = schema_of("x DOUBLE, y FLOAT")
    digits = b"9" * 30

    good, bad = rows(
        b'{"x":1.5}',
        b'{"x":-Infinity}',
        b'{"y":Infinity,"x":1e9}',
        b'{"y":2e20}',
        b'{"y":%b}' % digits,
        schema=schema,
    )

    assert ([row for row, _ in good], bad) == ([0, 1, 2, 3, 4], {})
    assert looked_at == ['{"y":2e20}', f'{{"y":{digits.decode()}}}']
    for number in (b"1e39", b"1E+039", b"%be9" % digits, b"9%be8" % digits, b"9" * 39, b"0.1e040"):
        _, bad = rows(b'{"y":%b}' % number, b'{"y":Infinity}', schema=schema)
        assert bad == {0: "a number is beyond FLOAT"}, number


def test_zeros_behind_the_point_take_no_digit_of_a_decimal() -> None:
    """As in Spark's own from_json: Java and Python write as many of them as a number was computed with."""
    schema = schema_of("x DECIMAL(3, 1), many ARRAY<DECIMAL(5, 4)>, at STRUCT<x: DECIMAL(38, 18)>")
    twenty = "99999999999999999999." + "9" * 18
    fits = [
        (b'{"x":10.000}', "x", Decimal("10.0")),
        (b'{"x":"-99.90000"}', "x", Decimal("-99.9")),
        (b'{"x":0.0000000}', "x", Decimal("0.0")),
        (b'{"many":[1.0000000,null]}', "many", [Decimal("1.0000"), None]),
        (b'{"at":{"x":%b0000}}' % twenty.encode(), "at", {"x": Decimal(twenty)}),
    ]
    beyond = [b'{"x":100.00}', b'{"x":10.0004}', b'{"x":1e2}', b'{"many":[10.0000]}']

    good, bad = rows(*(value for value, *_ in fits), *beyond, schema=schema)

    assert [(row, found[fits[row][1]]) for row, found in good] == [
        (row, number) for row, (*_, number) in enumerate(fits)
    ]
    assert list(bad) == [5, 6, 7, 8]
    assert bad[6] == "Failed to convert JSON to DECIMAL of scale 1: 10.0004 requires scale 4"


@pytest.mark.parametrize("number", ["350000000000000000000", "3.5e20", "-350000000000000000000"])
def test_a_number_far_beyond_decimal_is_no_number_that_fits(number: str) -> None:
    """Times 10**18 it does not fit into 128 bits, and what pyarrow leaves of it there may have 38 digits again."""
    schema = schema_of("x DECIMAL(38, 18), many ARRAY<DECIMAL(38, 18)>, d DATE")
    most = "99999999999999999999.999999999999999999"

    good, bad = rows(
        b'{"x":%b}' % number.encode(),
        b'{"x":"%b"}' % number.encode(),
        b'{"many":[1,%b],"d":"2024-02-29"}' % number.encode(),
        b'{"x":%b,"many":[-%b,null,1e-18],"d":19782}' % (most.encode(), most.encode()),
        schema=schema,
    )

    day, least = date(2024, 2, 29), Decimal("0.000000000000000001")
    assert good == [(3, {"x": Decimal(most), "many": [Decimal(most).copy_negate(), None, least], "d": day})]
    assert bad == dict.fromkeys(range(3), "a number is beyond DECIMAL")


@pytest.mark.parametrize(
    "number",
    [
        *(b"1e-41", b'"1e-41"', b"-1E-0041", b"0." + b"0" * 60 + b"1", b'"1.0e-1000"'),
        # These ended the process that read them.
        *(b"1e-999999999", b'"-1e-999999999"', b"0e-2147483647", b'1e-999999999,"y":Inf'),
        *(b'"1e\\u002d999999999"', b'"1\\u0065-999999999"', b"0." + b"0" * 91 + b"1e-9"),
        b'1e-999999999,"deep":' + b"[" * 5000 + b"]" * 5000,
    ],
)
@pytest.mark.parametrize("column", ["DECIMAL(10, 2)", "DECIMAL(38, 18)", "DECIMAL(38, 0)"])
def test_a_number_of_too_many_digits_behind_the_point_is_bad_and_harms_no_other(
    number: bytes, column: str
) -> None:
    schema = schema_of(f"x {column}, d DOUBLE, s STRING, l ARRAY<STRUCT<x: {column}>>")

    good, bad = rows(
        b'{"x":3,"d":1e-300,"s":"1e-999999999"}',
        b'{"x":%b}' % number,
        b'{"l":[null,{"x":2},{"x":%b}]}' % number,
        b'{"x":"400e-2","other":1e-999999999}',
        schema=schema,
    )

    assert [(row, found["x"], found["d"]) for row, found in good] == [(0, 3, 1e-300), (3, 4, None)]
    assert list(bad) == [1, 2]
    assert all(
        "too many digits behind the point" in why or "requires scale 41" in why for why in bad.values()
    )


@pytest.mark.parametrize("number", [b"1.8e308", b"-9e308", b"1" + b"0" * 309])
def test_a_number_beyond_double_is_no_infinity(number: bytes) -> None:
    schema = schema_of("x DOUBLE, many ARRAY<DOUBLE>")
    most = b"1.7976931348623157e308"

    good, bad = rows(
        b'{"x":%b}' % number,
        b'{"x":-Infinity,"many":[Inf,%b]}' % most,
        b'{"many":[Infinity,%b]}' % number,
        schema=schema,
    )

    infinity = float("inf")
    assert good == [(1, {"x": -infinity, "many": [infinity, float(most)]})]
    assert bad == dict.fromkeys((0, 2), "a number is beyond DOUBLE")


@pytest.mark.parametrize(
    ("column", "fits", "beyond", "offered"),
    [
        ("int8", "-128", "128", pa.int64()),
        ("int16", "32767", "-32769", pa.int64()),
        ("int32", "2147483647", "2147483648", pa.int64()),
        ("int16", "1", "1.5", pa.float64()),
        ("float", "3.4e38", "-3.5e38", pa.float64()),
    ],
)
def test_a_number_that_its_column_does_not_hold_asks_for_a_wider_one(
    column: str, fits: str, beyond: str, offered: pa.DataType
) -> None:
    kind = pa.struct([("n", pa.type_for_alias(column))])

    assert fields_of([f'{{"n":{fits}}}', '{"n":true}'], kind) == {}
    assert fields_of([f'{{"n":{beyond}}}'], kind) == {"n": offered}


def test_blocks_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_values, "BLOCK_VALUES", 3)
    values = [b'{"id":%d}' % n if n % 4 else b"bad" for n in range(20)]

    good, bad = rows(*values)

    assert [(row, fields["id"]) for row, fields in good] == [(n, n) for n in range(20) if n % 4]
    assert sorted(bad) == [0, 4, 8, 12, 16]


def test_columns_are_learnt_from_values() -> None:
    schema, refused = inferred(
        [
            b'{"id":1,"x":1,"n":null,"deep":{"a":[]},"list":[{"b":1}]}',
            b"none",
            b"[1]",
            None,
            b'{"x":1.5,"s":"2026-01-31","deep":{"a":["t"],"c":true},"list":[{"b":null,"d":"e"}]}',
        ]
    )

    assert refused == 2
    assert schema == schema_of(
        "id BIGINT, x DOUBLE, deep STRUCT<a: ARRAY<STRING>, c: BOOLEAN>, list ARRAY<STRUCT<b: BIGINT, d: STRING>>, s STRING"
    )
    with pytest.raises(
        ConfigurationError, match=r"field a\.b is a number in one value and a string in another; .* --schema"
    ):
        inferred([b'{"a":{"b":1}}', b'{"a":{"b":"x"}}'])


@pytest.mark.parametrize("value", [b'{"\\ud800":1}', b'{"a":{"\\udfff":1}}', b'{"l":[{"x\\ud83d":1}]}'])
def test_a_name_of_half_a_letter_teaches_nothing_and_its_value_is_a_letter(value: bytes) -> None:
    """JSON may escape half of a surrogate pair, which is in no text."""
    assert inferred([b'{"id":2}', value])[0] == schema_of("id BIGINT")
    assert fields_of([value.decode()], pa.struct([("id", pa.int64())])) == {}

    found = decoded(pa.array([value, b'{"id":2}'], pa.binary()), schema_of("id BIGINT"), lambda _: False)

    assert found is not None and found.columns.to_pylist() == [{"id": 2}]
    assert list(found.bad) == [0]


@pytest.mark.parametrize("number", [b"1e39", b"4" + b"0" * 38])
def test_a_number_beyond_float_is_no_infinity_though_the_word_stands_beside_it(number: bytes) -> None:
    values = [b'{"f":%b,"s":"Infinity"}' % number, b'{"f":-Infinity,"s":"Infinity"}']

    found = decoded(pa.array(values, pa.binary()), schema_of("f FLOAT, s STRING"))

    assert found is not None and found.columns.column("f").to_pylist() == [float("-inf")]
    assert found.bad == {0: "a number is beyond FLOAT"}


def test_a_number_that_is_beyond_float_elsewhere_says_nothing_of_the_word_in_one() -> None:
    value = b'{"f":Infinity,"l":[{"f":-Infinity}],"d":1e300,"other":{"f":1e39}}'

    found = decoded(pa.array([value], pa.binary()), schema_of("f FLOAT, l ARRAY<STRUCT<f: FLOAT>>, d DOUBLE"))

    assert found is not None and found.bad == {}
    (row,) = found.columns.to_pylist()
    assert row == {"f": float("inf"), "l": [{"f": float("-inf")}], "d": 1e300}


@pytest.mark.parametrize("levels", [300, 100_000])
def test_a_value_that_is_nested_deeper_than_columns_can_be_teaches_none(levels: int) -> None:
    value = b'{"id":1,"deep":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"

    schema, refused = inferred([b'{"id":2}', value, b'{"deep":null,"s":"x"}'])

    assert (schema, refused) == (schema_of("id BIGINT, s STRING"), int(levels == 100_000))
    assert fields_of([value.decode()], pa.struct([("id", pa.int64())])) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected a name"),
        ("id", "expected a name"),
        ("id BIGINT name STRING", "expected a comma or the end"),
        ("id NUMBER", "no type number; there are string"),
        ("id BIGINT, ID STRING", "column id comes twice"),
        ("x STRUCT<a: INT, l: ARRAY<STRUCT<b: INT, B: INT>>>", "field b comes twice"),
        ("a ARRAY<INT", "expected >"),
        ("a DECIMAL(10)", "expected ,"),
        ("a DECIMAL(ten, 2)", "expected decimal"),
        ("a DECIMAL(39, 2)", "expected decimal.* of up to 38 digits"),
        ("a DECIMAL(2, 3)", "s of them behind the point"),
        ("a " + "ARRAY<" * 5_000 + "INT" + ">" * 5_000, "types within types go 100 levels deep"),
        ("a " + "STRUCT<a: " * 5_000 + "INT" + ">" * 5_000, "types within types go 100 levels deep"),
        ("a " + "MAP<STRING, " * 5_000 + "INT" + ">" * 5_000, "types within types go 100 levels deep"),
    ],
)
def test_columns_that_are_none_are_refused_with_the_place(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        schema_of(text)


def test_each_name_of_many_columns_is_looked_at_once() -> None:
    begun = time.process_time()

    found = schema_of(", ".join(f"f{n} INT" for n in range(8_000)))

    assert len(found) == 8_000
    assert time.process_time() - begun < 2  # 0.05 s; where each name is held against all others 5 s


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("", ""),
        ("id", "id"),
        ("id BIGINT name STRING", "id BIGINT"),
        ("id BIGINT, id_of_customer NUMBER", " id_of_customer NUMBER"[-20:]),
        ("a ARRAY<INT, b INT", "a ARRAY<INT"),
        ("id BIGINT, s STRUCT<a: INT; b: INT>", "BIGINT, s STRUCT<a: INT"[-20:]),
    ],
)
def test_the_place_is_told_by_the_twenty_signs_before_it(text: str, near: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        schema_of(text)

    assert str(caught.value).startswith(f"schema {text!r}, behind {near!r}: ")


def test_a_date_is_text_or_a_number_of_days() -> None:
    """In one column all values of a block are of one kind; in a block of both each is read by itself."""
    schema = schema_of("d DATE, many ARRAY<DATE>, at STRUCT<d: DATE, n: INT>")
    text = b'{"d":"2024-02-29","many":["1969-12-31",null],"at":{"d":"0001-01-01","n":1}}'
    days = b'{"d":19782,"many":[-1,null],"at":{"d":-719162,"n":1}}'

    good, bad = rows(text, days, None, text, b'{"d":"2024-02-30"}', b'{"d":true}', schema=schema)

    read = {
        "d": date(2024, 2, 29),
        "many": [date(1969, 12, 31), None],
        "at": {"d": date(1, 1, 1), "n": 1},
    }
    none = {"d": None, "many": None, "at": None}
    assert good == [(0, read), (1, read), (2, none), (3, read)]
    assert "2024-02-30" in bad[4] and "field (d) changed from string to boolean" in bad[5]


def test_one_column_of_dates_may_be_text_and_another_one_days() -> None:
    schema = schema_of("d DATE, e DATE, at STRUCT<d: DATE, many: ARRAY<DATE>>")
    one = b'{"d":"2024-02-29","e":19782,"at":{"d":null,"many":[null,19782]}}'
    other = b'{"d":19782,"e":"2024-02-29","at":{"d":"2024-02-29","many":[]}}'

    good, bad = rows(one, other, one, b'{"d":"2024-02-29","e":3000000000}', schema=schema)

    day = date(2024, 2, 29)
    of_one = {"d": day, "e": day, "at": {"d": None, "many": [None, day]}}
    of_other = {"d": day, "e": day, "at": {"d": day, "many": []}}
    assert good == [(0, of_one), (1, of_other), (2, of_one)]
    assert list(bad) == [3] and "couldn't parse:3000000000" in bad[3]


def test_a_timestamp_may_have_more_digits_than_a_column_keeps() -> None:
    schema = schema_of("at TIMESTAMP, s STRUCT<many: ARRAY<TIMESTAMP>>, d DATE")
    last = "9999-12-31T23:59:59.999999Z"  # has no place in nanoseconds
    fine = "2024-02-29T12:00:00.1234567+02:00"

    good, bad = rows(
        b'{"at":"%s","d":19782}' % fine.encode(),
        b'{"at":"%s","s":{"many":["2024-02-29T12:00:00.123456789Z",null]}}' % last.encode(),
        b'{"at":"2024-02-29T12:00:00.1234567890Z"}',
        b'{"at":"2024-02-29T25:00:00.1234567Z"}',
        b'{"at":"2024-02-29","d":"2024-02-29"}',
        b'{"at":"9999-12-31T23:59:59.9999999Z"}',  # as .NET has it of its last moment
        b'{"at":"1969-12-31T23:59:59.9999999Z"}',
        b'{"at":"2024-02-29T12:00:00.1234567Z\\u0022"}',
        schema=schema,
    )

    assert {row: (found["at"], found["d"]) for row, found in good} == {
        0: (datetime(2024, 2, 29, 10, 0, 0, 123456, UTC), date(2024, 2, 29)),
        1: (datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), None),
        2: (datetime(2024, 2, 29, 12, 0, 0, 123456, UTC), None),
        4: (datetime(2024, 2, 29, tzinfo=UTC), date(2024, 2, 29)),
        5: (datetime(9999, 12, 31, 23, 59, 59, 999999, UTC), None),
        6: (datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), None),
    }
    assert good[1][1]["s"] == {"many": [datetime(2024, 2, 29, 12, 0, 0, 123456, UTC), None]}
    assert set(bad) == {3, 7} and all("couldn't parse:2024-02-29" in why for why in bad.values())


def test_every_type_is_read() -> None:
    schema = schema_of("`a b` TIMESTAMP, c decimal(10, 2), d STRUCT<e INT, f: ARRAY<BOOLEAN>>")
    good, bad = rows(b'{"a b":"2026-01-31T10:00:00+02:00","c":"12.50","d":{"e":3,"f":[true]}}', schema=schema)

    assert schema_of(text_of(schema)) == schema
    assert text_of(schema) == "`a b` TIMESTAMP, c DECIMAL(10, 2), d STRUCT<e: INT, f: ARRAY<BOOLEAN>>"
    assert not bad and good[0][1]["d"] == {"e": 3, "f": [True]}
    assert str(good[0][1]["c"]) == "12.50"
