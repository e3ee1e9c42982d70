"""The body of a Produce request as pieces that are sent one behind the other: records are not copied into it.

`ProduceRequest.encode` is the definition; a test holds the two equal.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import BinaryIO, NamedTuple, Protocol

from odradek.model.ids import TopicPartition
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.primitives import Buffer, size_of, uvarint

_ACKS_AND_TIMEOUT = Struct(">hi")
_INT16, _INT32 = Struct(">h"), Struct(">i")


class Openable(Protocol):
    def opened(self) -> BinaryIO:
        """The file, there until another one is opened. An OdradekError says why it cannot be."""


class FileSlice(NamedTuple):
    """Bytes that lie in a file, and go from there to the socket."""

    file: Openable
    offset: int
    size_bytes: int


Piece = Buffer | FileSlice


def produce_pieces(
    request: ProduceRequest, version: int, records: Mapping[TopicPartition, Sequence[Piece]]
) -> list[Piece]:
    """Version 3 or later. Each partition of the request gets its `records` from there, not from its row."""
    assert version >= 3, "there is a transactional id"
    is_flexible = request.is_flexible(version)
    no_tags = b"\0" if is_flexible else b""

    def count(number: int) -> bytes:
        return uvarint(number + 1) if is_flexible else _INT32.pack(number)

    def text(value: str | None) -> bytes:
        content = b"" if value is None else value.encode()
        if is_flexible:
            return uvarint(0 if value is None else len(content) + 1) + content
        return _INT16.pack(-1 if value is None else len(content)) + content

    pieces: list[Piece] = []
    head = bytearray(text(request.transactional_id))
    head += _ACKS_AND_TIMEOUT.pack(request.acks, request.timeout_ms) + count(len(request.topic_data))
    for topic in request.topic_data:
        head += text(topic.name) + count(len(topic.partition_data))
        for row in topic.partition_data:
            of_one = records[TopicPartition(topic.name, row.index)]
            head += _INT32.pack(row.index) + count(size_of(list(of_one)))
            pieces += [bytes(head), *of_one]
            head = bytearray(no_tags)
        head += no_tags
    head += no_tags
    return [*pieces, head]
