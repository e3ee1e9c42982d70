"""How much of a Produce are names of topics: known before they are made to strings.

Ninety megabytes of names are read in 60 to 70 ms, and nobody has a reason for them. What has a reason, records, is skipped here, a
step for each partition, as the decoder does.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as struct_error

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import read_tag, read_tag_count, read_uvarint

FIRST_FLEXIBLE = 9
_SHORT = Struct(">h").unpack_from
_INT = Struct(">i").unpack_from
_ACKS_AND_TIMEOUT_BYTES = 6
_INDEX_BYTES = 4


def bytes_of_names(version: int, body: memoryview, most_rows: int) -> int:
    """Of the first `most_rows` topics, partitions and tagged fields: the decoder reads no more. Of what cannot be read, those before
    it: the decoder says what is wrong."""
    steps = _flexible_steps(body) if version >= FIRST_FLEXIBLE else _steps(body)
    named = 0
    try:
        for _, size_bytes in zip(range(most_rows), steps, strict=False):
            named += size_bytes
    except (struct_error, IndexError, MalformedMessage):
        return named
    return named


def _steps(body: memoryview) -> Iterator[int]:
    """Bytes of each topic's name, and 0 for whatever else takes a step."""
    (size,) = _SHORT(body, 0)
    position = 2 + max(size, 0) + _ACKS_AND_TIMEOUT_BYTES
    (topics,) = _INT(body, position)
    position += 4
    for _ in range(topics):
        (size,) = _SHORT(body, position)
        yield max(size, 0)  # one below zero is no name: the decoder stops there
        position += 2 + max(size, 0)
        (partitions,) = _INT(body, position)
        position += 4
        for _ in range(partitions):
            (size,) = _INT(body, position + _INDEX_BYTES)
            position += _INDEX_BYTES + 4 + max(size, 0)
            yield 0


def _flexible_steps(body: memoryview) -> Iterator[int]:
    """A compact length is one more than what it says; 0 is null."""
    size, position = read_uvarint(body, 0)
    topics, position = read_uvarint(body, position + max(size - 1, 0) + _ACKS_AND_TIMEOUT_BYTES)
    for _ in range(topics - 1):
        size, position = read_uvarint(body, position)
        yield max(size - 1, 0)
        partitions, position = read_uvarint(body, position + max(size - 1, 0))
        for _ in range(partitions - 1):
            size, position = read_uvarint(body, position + _INDEX_BYTES)
            yield 0
            tags, position = read_tag_count(body, position + max(size - 1, 0))
            for _ in range(tags):
                _, _, position = read_tag(body, position)
                yield 0
        tags, position = read_tag_count(body, position)
        for _ in range(tags):
            _, _, position = read_tag(body, position)
            yield 0
