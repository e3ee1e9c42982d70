"""What numba compiles gives what numpy gives, refuses what numpy refuses, and is loaded where it pays."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.records.errors import CorruptBatch
from odradek.spark import compiled, fingerprint
from odradek.spark.record_positions import varints

numba = pytest.importorskip("numba")


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_kernels", "_left"):
        monkeypatch.setattr(compiled, name, getattr(compiled, name))
    compiled.load()


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=14))
@example(b"\xff" * 9 + b"\x01")
@example(b"\xff" * 9 + b"\x02")
@example(b"\xff" * 10)
@example(b"\x80" * 9 + b"\x00")
def test_a_varint_is_the_same_or_there_is_none(data: bytes) -> None:
    found = compiled.kernels().short_varint(np.frombuffer(data, np.uint8), 0, len(data))
    try:
        (value,), (after,) = varints(np.frombuffer(data or b"\x80", np.uint8), np.array([0]))
    except CorruptBatch:
        assert found[1] == -1
        return
    assert found == ((value, after) if after <= len(data) else (0, -1))


def test_nothing_is_read_beyond_the_data() -> None:
    """Compiled code would read whatever lies there."""
    kernels = compiled.kernels()
    data, starts = np.zeros(10, np.uint8), np.zeros(1, np.int64)
    fields = np.empty((8, 1), np.int64)
    for begin, end in ((-1, 5), (0, 11), (8, 1 << 40)):
        border = np.array([begin]), np.array([end])
        assert not kernels.record_starts(data, *border, np.array([1]), starts)
        assert not kernels.record_fields(data, *border, fields)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100, 8 * (1 << 15), 8 * (1 << 15) + 1])
def test_texts_of_every_length_hash_as_without(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of more words than have multipliers at a time is left to numpy."""
    values = pa.array([os.urandom(size), None, b"", os.urandom(size // 2)], pa.binary())
    found = [fingerprint.of_arrow(values, values.slice(0)) for _ in range(2)]
    monkeypatch.setattr(compiled, "_kernels", None)
    assert found == [fingerprint.of_arrow(values, values)] * 2


def test_a_null_that_has_bytes_counts_as_null() -> None:
    borders = pa.py_buffer(np.array([0, 5, 10], np.int32))
    whole = pa.Array.from_buffers(
        pa.binary(), 2, [pa.py_buffer(b"\x01"), borders, pa.py_buffer(b"valuenulls")]
    )
    assert whole.to_pylist() == [b"value", None]

    key = pa.nulls(2, pa.binary())
    assert fingerprint.of_arrow(key, whole) == fingerprint.of_records([(None, b"value"), (None, None)])


def test_it_is_loaded_by_whoever_decodes_enough_to_gain_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_kernels", None)
    monkeypatch.setattr(compiled, "_left", compiled.WORTH_RECORDS)

    assert compiled.kernels(compiled.WORTH_RECORDS - 1) is None
    assert compiled.kernels() is None
    assert compiled.kernels(1) is not None


def test_without_numba_nothing_is_compiled_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "odradek.spark.kernels")
    monkeypatch.delattr("odradek.spark.kernels")
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(compiled, "_kernels", None)
    monkeypatch.setattr(compiled, "_left", 1)

    assert compiled.kernels(1) is None
    assert compiled.kernels(1) is None


def test_a_new_process_does_not_compile() -> None:
    """What was compiled is on disk."""
    code = (
        "from odradek.spark import compiled\ncompiled.load()\n"
        "k = compiled.kernels()\n"
        "print([sum(f.stats.cache_misses.values()) for f in (k.record_starts, k.record_fields, k.hashed_words)])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[0, 0, 0]\n"
    )


@pytest.mark.parametrize(
    "error", [pickle.UnpicklingError("pickle data was truncated"), OSError(28, "No space")]
)
def test_a_cache_that_is_torn_or_a_full_disk_costs_no_records(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class Torn:
        def find_spec(self, name: str, path: object = None, target: object = None) -> None:
            if name == "odradek.spark.kernels":
                raise error

    monkeypatch.delitem(sys.modules, "odradek.spark.kernels")
    monkeypatch.delattr("odradek.spark.kernels")
    monkeypatch.setattr(sys, "meta_path", [Torn(), *sys.meta_path])
    monkeypatch.setattr(compiled, "_kernels", None)

    compiled.load()

    assert compiled.kernels() is None
