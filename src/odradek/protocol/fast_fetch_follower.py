"""Fetch (key 1) by hand, as a follower uses it, versions 12-17: requests out, responses in.

The tuples are those of `fast_fetch`. Records come back as slices of the response, ready to be appended.
"""

from collections.abc import Sequence
from struct import Struct, pack
from struct import error as struct_error
from typing import NamedTuple

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fast_fetch import (
    FIRST_FLEXIBLE,
    FIRST_WITH_TOPIC_IDS,
    FetchedPartition,
    NodeEndpoint,
    TopicKey,
    WantedPartition,
    topic_key,
)
from odradek.protocol.primitives import (
    Buffer,
    check_count,
    compact_string,
    read_compact_count,
    read_compact_nullable_string,
    read_compact_string,
    read_tag,
    read_tag_count,
    read_uvarint,
    skip_tagged_fields,
    too_long,
    uvarint,
    wrong_tag_size,
)
from odradek.protocol.schema import NO_UUID

_HEAD_V12 = Struct(">iiiibii").pack
_HEAD_V15 = Struct(">iiibii").pack
_PARTITION = Struct(">iiqiqix").pack
_PARTITION_WITH_DIRECTORY = Struct(">iiqiqiBBB16s").pack
_REPLICA_STATE = Struct(">BBiqB").pack


def encode_request(
    version: int,
    *,
    replica_id: int,
    replica_epoch: int = -1,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    session_id: int,
    session_epoch: int,
    topics: Sequence[tuple[TopicKey, Sequence[WantedPartition]]],
    forgotten: Sequence[tuple[TopicKey, Sequence[int]]] = (),
    isolation_level: int = 0,
    rack_id: str = "",
) -> bytes:
    assert version >= FIRST_FLEXIBLE, f"followers speak Fetch from {FIRST_FLEXIBLE} on, asked for {version}"
    if version >= 15:
        out = bytearray(
            _HEAD_V15(max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch)
        )
    else:
        out = bytearray(
            _HEAD_V12(
                replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch
            )
        )
    out += uvarint(len(topics) + 1)
    for topic, partitions in topics:
        out += topic_key(version, topic)
        out += uvarint(len(partitions) + 1)
        for p, epoch, at, last_epoch, start, most, directory in partitions:
            if directory == NO_UUID or version < 17:
                out += _PARTITION(p, epoch, at, last_epoch, start, most)
            else:
                out += _PARTITION_WITH_DIRECTORY(p, epoch, at, last_epoch, start, most, 1, 0, 16, directory)
        out += b"\0"
    out += uvarint(len(forgotten) + 1)
    for topic, indexes in forgotten:
        out += topic_key(version, topic)
        out += uvarint(len(indexes) + 1)
        out += pack(f">{len(indexes)}i", *indexes)
        out += b"\0"
    out += compact_string(rack_id)
    if version >= 15 and (replica_id != -1 or replica_epoch != -1):
        # One tag, number 1, 13 bytes: replica id, broker epoch, no tags.
        out += b"\1" + _REPLICA_STATE(1, 13, replica_id, replica_epoch, 0)
    else:
        out += b"\0"
    return bytes(out)


class FetchAnswer(NamedTuple):
    throttle_time_ms: int
    error_code: int
    session_id: int
    topics: list[tuple[TopicKey, list[FetchedPartition]]]
    node_endpoints: list[NodeEndpoint]


_RESPONSE_HEAD = Struct(">ihi").unpack_from
_PARTITION_HEAD = Struct(">ihqqqB").unpack_from
_INT = Struct(">i").unpack_from
_INT_AND_BYTE = Struct(">iB").unpack_from
_ABORTED = Struct(">qqB").unpack_from
_EPOCH_AND_OFFSET = Struct(">iq").unpack_from
_OFFSET_AND_EPOCH = Struct(">qi").unpack_from
_TWO_INTS = Struct(">ii").unpack_from
_TAGS = {0: _EPOCH_AND_OFFSET, 1: _TWO_INTS, 2: _OFFSET_AND_EPOCH}
_TAG_SIZES = {0: 12, 1: 8, 2: 12}


def decode_response(version: int, buffer: Buffer, offset: int = 0) -> FetchAnswer:
    assert version >= FIRST_FLEXIBLE, f"followers speak Fetch from {FIRST_FLEXIBLE} on, asked for {version}"
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    try:
        return _decode(version, view, offset)
    except (struct_error, IndexError):
        raise MalformedMessage(
            f"FetchResponse version {version}: ends too early, after {len(view) - offset} bytes"
        ) from None
    except UnicodeDecodeError:
        raise MalformedMessage(f"FetchResponse version {version}: a string is not UTF-8") from None


def _decode(version: int, view: memoryview, position: int) -> FetchAnswer:
    end = len(view)
    throttle_time_ms, error_code, session_id = _RESPONSE_HEAD(view, position)
    by_id = version >= FIRST_WITH_TOPIC_IDS
    topics: list[tuple[TopicKey, list[FetchedPartition]]] = []
    count, position = read_compact_count(view, position + 10, 18 if by_id else 3, "responses")
    for _ in range(count):
        topic: TopicKey
        if by_id:
            topic = bytes(view[position : position + 16])
            position += 16
        else:
            topic, position = read_compact_string(view, position, "topic")
        partition_count, position = read_compact_count(view, position, 37, "partitions")
        partitions: list[FetchedPartition] = []
        for _ in range(partition_count):
            fetched, position = _partition(view, position, end)
            partitions.append(fetched)
        topics.append((topic, partitions))
        if view[position]:
            position = skip_tagged_fields(view, position)
        else:
            position += 1
    node_endpoints: list[NodeEndpoint] = []
    if view[position]:
        node_endpoints, position = _response_tags(version, view, position)
    else:
        position += 1
    if position != end:
        raise MalformedMessage(f"FetchResponse version {version}: {end - position} bytes left over")
    return FetchAnswer(throttle_time_ms, error_code, session_id, topics, node_endpoints)


def _partition(view: memoryview, position: int, end: int) -> tuple[FetchedPartition, int]:
    index, error, high_watermark, stable, start, count = _PARTITION_HEAD(view, position)
    position += 31
    if count > 127:
        count, position = read_uvarint(view, position - 1)
    aborted: list[tuple[int, int]] | None = None
    if count:
        aborted = []
        count -= 1
        check_count("abortedTransactions", count, 17, end - position)
        for _ in range(count):
            producer_id, first_offset, tags = _ABORTED(view, position)
            aborted.append((producer_id, first_offset))
            position += 17
            if tags:
                position = skip_tagged_fields(view, position - 1)
    preferred, size = _INT_AND_BYTE(view, position)
    position += 5
    if size > 127:
        size, position = read_uvarint(view, position - 1)
    records = None
    if size:
        stop = position + size - 1
        if stop > end:
            raise too_long("records", size - 1, end - position)
        records = view[position:stop]
        position = stop
    if not view[position]:
        plain = (index, error, high_watermark, stable, start, aborted, preferred, records, None, None, None)
        return plain, position + 1
    found, position = _partition_tags(view, position)
    diverging, leader, snapshot = found.get(0), found.get(1), found.get(2)
    return (
        (
            index,
            error,
            high_watermark,
            stable,
            start,
            aborted,
            preferred,
            records,
            diverging,
            leader,
            snapshot,
        ),
        position,
    )


def _partition_tags(view: memoryview, position: int) -> tuple[dict[int, tuple[int, int]], int]:
    found: dict[int, tuple[int, int]] = {}
    count, position = read_tag_count(view, position)
    for _ in range(count):
        tag, position, stop = read_tag(view, position)
        if tag in _TAGS:
            first, second = _TAGS[tag](view, position)
            found[tag] = (first, second)
            if skip_tagged_fields(view, position + _TAG_SIZES[tag]) != stop:
                raise wrong_tag_size(str(tag))
        position = stop
    return found, position


def _response_tags(version: int, view: memoryview, position: int) -> tuple[list[NodeEndpoint], int]:
    endpoints: list[NodeEndpoint] = []
    count, position = read_tag_count(view, position)
    for _ in range(count):
        tag, position, stop = read_tag(view, position)
        if tag == 0 and version >= 16:
            endpoints, position = _endpoints(view, position)
            if position != stop:
                raise wrong_tag_size("nodeEndpoints")
        position = stop
    return endpoints, position


def _endpoints(view: memoryview, position: int) -> tuple[list[NodeEndpoint], int]:
    endpoints: list[NodeEndpoint] = []
    count, position = read_compact_count(view, position, 11, "nodeEndpoints")
    for _ in range(count):
        node_id = _INT(view, position)[0]
        host, position = read_compact_string(view, position + 4, "host")
        port = _INT(view, position)[0]
        rack, position = read_compact_nullable_string(view, position + 4, "rack")
        position = skip_tagged_fields(view, position)
        endpoints.append((node_id, host, port, rack))
    return endpoints, position
