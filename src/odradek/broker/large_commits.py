"""OffsetCommit and TxnOffsetCommit of more bytes than any batch takes: refused for each partition, as Apache Kafka does.

Most of such a request is metadata, up to 32 kB a partition. It is skipped: to make strings of 90 MB takes a turn of its own, for a client
that is told no more than that it is too much.
"""

from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.answers import Reply
from odradek.coordinator.refusals import refuse
from odradek.model.error_codes import ErrorCode
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from odradek.protocol.primitives import OBJECT_COST, read_tag, read_tag_count, read_uvarint

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

Commit = type[OffsetCommitRequest] | type[TxnOffsetCommitRequest]
_SHORT = Struct(">h").unpack_from
_INT = Struct(">i").unpack_from
# A unit of UTF-16, of which `offset.metadata.max.bytes` are accepted, has so many bytes of UTF-8 at most.
BYTES_OF_A_UNIT = 3


def refusal_of_large(broker: "Broker", request: "Request", commit: Commit) -> Reply | None:
    """None: it is to be read. MalformedMessage: nor is there a reason for its bytes without metadata."""
    limits, version = broker.row_limits, request.api_version
    if not limits.is_large(request):
        return None
    kept, sizes = without_metadata(commit, version, request.body, request.budget // OBJECT_COST)
    limits.check_bytes(sum(map(len, kept)))  # before any of it is copied
    asked = commit.decode(version, memoryview(b"".join(kept)), budget=request.budget)
    response = refuse(asked, version, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
    most = BYTES_OF_A_UNIT * broker.settings.offset_metadata_max_bytes
    rows = (row for topic in response.topics for row in topic.partitions)  # type: ignore[attr-defined]
    for row, size_bytes in zip(rows, sizes, strict=True):
        if size_bytes > most:
            row.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
    return Reply([response.encode(version)])


def without_metadata(
    commit: Commit, version: int, body: memoryview, most_rows: int
) -> tuple[list[bytes | memoryview], list[int]]:
    """The body with null for each metadata, in pieces, and how many bytes each had. `most_rows`: topics, partitions and tagged fields."""
    try:
        return _without_metadata(_layout(commit, version), body, most_rows)
    except (struct_error, IndexError) as error:
        raise MalformedMessage(f"a commit of {len(body)} bytes ends too early: {error}") from error


class _Layout(NamedTuple):
    is_flexible: bool
    head: tuple[int, ...]  # bytes of numbers, and 0 for a string
    row_bytes: int  # of numbers before the metadata


def _layout(commit: Commit, version: int) -> _Layout:
    if commit is TxnOffsetCommitRequest:
        member = (4, 0, 0) if version >= 3 else ()
        return _Layout(version >= 3, (0, 0, 8 + 2, *member), 4 + 8 + (4 if version >= 2 else 0))
    instance = (0,) if version >= 7 else ()
    retention = (8,) if version <= 4 else ()
    return _Layout(version >= 8, (0, 4, 0, *instance, *retention), 4 + 8 + (4 if version >= 6 else 0))


def _without_metadata(
    layout: _Layout, body: memoryview, most_rows: int
) -> tuple[list[bytes | memoryview], list[int]]:
    is_flexible, head, row_bytes = layout
    null = b"\0" if is_flexible else b"\xff\xff"
    kept: list[bytes | memoryview] = []
    sizes: list[int] = []
    position = begin = rows = 0
    for number_bytes in head:
        position = position + number_bytes if number_bytes else sum(_string(body, position, is_flexible))
    topics, position = _count(body, position, is_flexible)
    for _ in range(topics):
        position = sum(_string(body, position, is_flexible))
        partitions, position = _count(body, position, is_flexible)
        rows += 1
        for _ in range(partitions):
            position += row_bytes
            kept += (body[begin:position], null)
            begin, size_bytes = _string(body, position, is_flexible)
            sizes.append(size_bytes)
            position = begin = begin + size_bytes
            rows += 1
            if is_flexible:
                tags, position = _tags(body, position)
                rows += tags
            if rows > most_rows:
                raise MalformedMessage(f"more elements than {most_rows} in a commit")
        if is_flexible:
            tags, position = _tags(body, position)
            rows += tags
        if rows > most_rows:
            raise MalformedMessage(f"more elements than {most_rows} in a commit")
    if position > len(body):
        raise IndexError("metadata")
    kept.append(body[begin:])
    return kept, sizes


def _string(body: memoryview, position: int, is_flexible: bool) -> tuple[int, int]:
    """Where its bytes begin, and how many they are; null has none."""
    if is_flexible:
        length, position = read_uvarint(body, position)
        return position, max(length - 1, 0)
    (length,) = _SHORT(body, position)
    return position + 2, max(length, 0)


def _count(body: memoryview, position: int, is_flexible: bool) -> tuple[int, int]:
    if is_flexible:
        count, position = read_uvarint(body, position)
        return count - 1, position
    (count,) = _INT(body, position)
    return count, position + 4


def _tags(body: memoryview, position: int) -> tuple[int, int]:
    tags, position = read_tag_count(body, position)
    for _ in range(tags):
        _, _, position = read_tag(body, position)
    return tags, position
