"""Confluent's framing: taken off whole blocks, and what has none is told apart."""

from time import process_time

import pyarrow as pa
import pytest

from odradek.spark.formats.wire_format import message_path, unframed
from tests.spark.formats.registry_server import framed


def test_rows_are_found_by_the_id_of_their_schema() -> None:
    values = [
        framed(7, b"a"),
        None,
        framed(2**32 - 1, b""),
        b"",
        b"\x00\x00\x00\x07",
        b"{}1234",
        framed(7, b"bc"),
    ]

    found = unframed(pa.array([b"before", *values], pa.binary()).slice(1))

    assert {schema_id: rows.tolist() for schema_id, rows in found.by_id.items()} == {
        7: [0, 6],
        2**32 - 1: [2],
    }
    assert found.nulls.tolist() == [1] and sorted(found.bad) == [3, 4, 5]
    assert found.bad[3].stage == "schema" and "no schema id before the value" in found.bad[3].error


def test_as_many_ids_as_values_are_no_work_of_all_with_all() -> None:
    """Bytes of anybody's that begin with a zero, as numbers of eight bytes do, are taken for ids."""
    values = pa.array([framed(number // 2, b"") for number in range(200_000)], pa.binary())

    began = process_time()
    found = unframed(values)
    assert process_time() - began < 1.5, "all with all takes ten seconds"

    assert len(found.by_id) == 100_000
    assert [rows.tolist() for rows in list(found.by_id.values())[:2]] == [[0, 1], [2, 3]]


def test_a_block_without_values_has_none() -> None:
    found = unframed(pa.array([], pa.binary()))

    assert (found.by_id, found.bad) == ({}, {})


@pytest.mark.parametrize(
    ("value", "path", "at"),
    [
        (b"\x00rest", (0,), 1),
        (b"\x02\x00", (0,), 2),
        (b"\x04\x02\x04rest", (1, 2), 3),
        (b"\x02\x80\x02", (128,), 3),
    ],
)
def test_which_message_it_is(value: bytes, path: tuple[int, ...], at: int) -> None:
    assert message_path(value) == (path, at)


@pytest.mark.parametrize("value", [b"", b"\x02", b"\x01", b"\x02\x01", b"\xfe\xff\xff\xff\x0f", b"\x80" * 50])
def test_which_message_it_is_not(value: bytes) -> None:
    with pytest.raises(ValueError, match="before the value"):
        message_path(value)
