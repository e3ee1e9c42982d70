"""Offsets that were committed together, read by columns: a coordinator loads a million of them.

A commit of many partitions is a batch whose records differ in the partition, in the numbers of the value and in the offset
delta, and as long as that takes the same number of bytes they are equally long. Such a run of records is one table of
bytes: what must be equal in all is compared, and what differs taken out, by calls whose loops are not in Python. Nothing is
judged here: a batch that is not of this form gives None, and is read record by record (`records.plain_offset`).
"""

from functools import lru_cache
from itertools import repeat
from struct import Struct, error
from typing import Any, NamedTuple

from odradek.coordinator.records import (
    NEVER_EXPIRES,
    OFFSET_VALUE_VERSION,
    CommittedOffset,
    names_of_offset_key,
)
from odradek.protocol.primitives import varint as written_varint
from odradek.records.batch import BatchHeader
from odradek.records.errors import InvalidRecord
from odradek.records.reader import varint

# The records of a batch whose offset deltas, as zigzag varints, take one, two, three bytes.
DELTAS_OF_WIDTH = {1: range(64), 2: range(64, 8192), 3: range(8192, 1 << 20)}
# Records of a run: about a millisecond, in which no other thread has the interpreter.
MOST_IN_A_RUN = 2_000
_PARTITION_SIZE = 4
_VALUE_HEAD = Struct(">hqih")  # version, offset, leader epoch, length of the metadata
_VERSION_SIZE, _TIME_SIZE = 2, 8
_new: Any = tuple.__new__


class Run(NamedTuple):
    """Of one group and topic; `positions` are the records' offsets in the log."""

    group: str
    topic: str
    partitions: tuple[int, ...]
    values: tuple[CommittedOffset, ...]
    positions: range


class _Shape(NamedTuple):
    """What the records of a run have in common: the bytes of each that are equal, and how many the others are."""

    size: int  # of one record
    begin: bytes  # length, attributes, timestamp delta
    width: int  # of the offset delta
    key: bytes  # its length, and all of it but the partition
    names: tuple[str, str]
    value: bytes  # its length and version
    metadata_size: int


def committed_together(header: BatchHeader, data: bytes) -> list[Run] | None:
    """The offsets of a batch without a transaction; `data` is what stands behind the header, decompressed. None: it is of
    another form, or not in order."""
    runs: list[Run] = []
    position, index = 0, 0
    try:
        while index < header.record_count:
            shape = _shape(data, position)
            deltas = DELTAS_OF_WIDTH[shape.width]
            if index not in deltas:
                return None
            count = min(header.record_count, deltas.stop, index + MOST_IN_A_RUN) - index
            table = data[position : position + count * shape.size]
            run = _run(table, shape, count, header.base_offset, index)
            if run is None:
                return None
            runs.append(run)
            position += count * shape.size
            index += count
    except (IndexError, KeyError, InvalidRecord, error, UnicodeDecodeError, ValueError):
        return None
    return runs if position == len(data) else None


def _shape(data: bytes, begin: int) -> _Shape:
    """Of the record at `begin`. ValueError, or what comes of reading behind the end: it is no offset as they are written."""
    size, at = varint(data, begin)
    end = at + size
    _, delta_at = varint(data, at + 1)
    _, key_at = varint(data, delta_at)
    key_size, name_at = varint(data, key_at)
    partition_at = name_at + key_size - _PARTITION_SIZE
    if not name_at < partition_at < end:
        raise ValueError
    value_size, value_at = varint(data, partition_at + _PARTITION_SIZE)
    version, _, _, metadata_size = _VALUE_HEAD.unpack_from(data, value_at)
    is_as_written = (
        version == OFFSET_VALUE_VERSION
        and 0 <= metadata_size == value_size - _VALUE_HEAD.size - _TIME_SIZE
        and value_at + value_size + 1 == end  # one byte says that there are no headers
    )
    if not is_as_written:
        raise ValueError
    return _Shape(
        end - begin,
        data[begin:delta_at],
        key_at - delta_at,
        data[key_at:partition_at],
        names_of_offset_key(data[name_at:partition_at]),
        data[partition_at + _PARTITION_SIZE : value_at + _VERSION_SIZE],
        metadata_size,
    )


def _run(table: bytes, shape: _Shape, count: int, base_offset: int, index: int) -> Run | None:
    """`table`: so many records one behind the other, the first of them that of this index."""
    if len(table) != count * shape.size:
        return None
    layout = layout_of(len(shape.begin), shape.width, len(shape.key), len(shape.value), shape.metadata_size)
    begins, deltas, keys, partitions, versions, offsets, epochs, sizes, texts, times, headers = zip(
        *layout.iter_unpack(table), strict=True
    )
    are_equal = (
        begins.count(shape.begin) == count
        and keys.count(shape.key) == count
        and versions.count(shape.value) == count
        and sizes.count(shape.metadata_size) == count
        and headers.count(0) == count
    )
    if not are_equal or deltas != deltas_of(index, count):
        return None
    metadata = map(bytes.decode, texts) if shape.metadata_size else repeat("")
    # `tuple.__new__` is what the constructor of a named tuple calls, through a frame more each.
    values = map(
        _new,
        repeat(CommittedOffset),
        zip(offsets, epochs, metadata, times, repeat(NEVER_EXPIRES), strict=False),
    )
    group, topic = shape.names
    first = base_offset + index
    return Run(group, topic, partitions, tuple(values), range(first, first + count))


@lru_cache(maxsize=64)
def layout_of(begin: int, width: int, key: int, value: int, metadata: int) -> Struct:
    """Begin, delta, key, partition; value's length and version, offset, leader epoch, size of the metadata, metadata, time; count
    of headers, which is 0 in one byte."""
    return Struct(f">{begin}s{width}s{key}si{value}sqih{metadata}sqb")


@lru_cache(maxsize=16)
def deltas_of(first: int, count: int) -> tuple[bytes, ...]:
    """As they stand in the records. Clients commit the same number of partitions again and again."""
    return tuple(map(written_varint, range(first, first + count)))
