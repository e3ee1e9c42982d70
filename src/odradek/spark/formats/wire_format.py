"""Confluent's wire format: what stands before a value whose schema is in a registry.

    0            the magic byte
    1..4         the id of the schema, big-endian
    5..          Avro: the value. Protobuf: which message of the schema it is, then the value

Which message: a list of indexes, one a level of nesting, as zigzag varints behind their count; the count 0 stands for
[0], the first message. (docs.confluent.io, "Schema Registry serializers and deserializers", section "Wire format".)
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odradek.spark.formats.decoded import SCHEMA, Bad, Rows

FRAME = 5
_LONGEST_PATH = 64  # levels of nesting; protoc itself gives up earlier


class Framed(NamedTuple):
    """The rows of a block by the id of their schema; the value of each begins behind `FRAME` bytes."""

    by_id: dict[int, Rows]
    nulls: Rows
    bad: dict[int, Bad]


def unframed(values: pa.Array) -> Framed:
    """Reads the frames of a block of values."""
    is_there = values.is_valid().to_numpy(zero_copy_only=False)
    heads = pc.binary_slice(values, 0, FRAME)
    is_framed = (
        pc.and_(pc.equal(pc.binary_length(heads), FRAME), pc.starts_with(heads, b"\x00"))
        .fill_null(False)
        .to_numpy(zero_copy_only=False)
    )
    rows = np.flatnonzero(is_framed)
    whole = b"".join(heads.take(pa.array(rows)).to_pylist())
    frames = np.frombuffer(whole, np.uint8).reshape(-1, FRAME)
    ids = np.ascontiguousarray(frames[:, 1:]).view(">u4").ravel().astype(np.int64)
    order = np.argsort(ids, kind="stable")
    found, firsts = np.unique(ids[order], return_index=True)
    by_id = dict(zip(found.tolist(), np.split(rows[order], firsts[1:]), strict=True)) if len(ids) else {}
    bad = {
        row: Bad(
            "no schema id before the value (expected a zero byte and four of an id): it was not written by a serializer of a registry",
            SCHEMA,
        )
        for row in np.flatnonzero(is_there & ~is_framed).tolist()
    }
    return Framed(by_id, np.flatnonzero(~is_there), bad)


def message_path(value: bytes) -> tuple[tuple[int, ...], int]:
    """Which message of its schema a Protobuf value is, and where it begins. ValueError if it does not say so."""
    count, at = _zigzag(value, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= _LONGEST_PATH:
        raise ValueError(f"{count} message indexes before the value")
    path = []
    for _ in range(count):
        index, at = _zigzag(value, at)
        if index < 0:
            raise ValueError(f"the message index {index} before the value")
        path.append(index)
    return tuple(path), at


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(value) or shift > 28:
            raise ValueError("no message indexes before the value")
        byte = value[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at
