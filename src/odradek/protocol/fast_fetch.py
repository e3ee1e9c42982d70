"""Fetch (key 1) by hand: requests 4-17 in and responses 4-17 out for the broker.

`fast_fetch_follower` has the other two directions. Records are never touched: a response is a list of
buffers in which the caller's own slices of segment files stand between the bytes made here. Held equal to
the tables by tests/protocol/test_fast_fetch.py; what the fields mean stands in messages/fetch.py.
"""

from collections.abc import Sequence
from struct import Struct, unpack_from
from struct import error as struct_error
from typing import Any, NamedTuple

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import (
    ELEMENT_BUDGET,
    OBJECT_COST,
    Buffer,
    bad_null,
    check_count,
    compact_nullable_string,
    compact_string,
    over_budget,
    read_compact_count,
    read_compact_nullable_string,
    read_compact_string,
    read_tag,
    read_tag_count,
    skip_tagged_fields,
    too_long,
    uvarint,
    wrong_tag_size,
)
from odradek.protocol.schema import NO_UUID

FIRST_FLEXIBLE = 12
FIRST_WITH_TOPIC_IDS = 13

# A topic is named by `str` up to version 12, by its id (16 bytes) from 13 on.
TopicKey = str | bytes

# (partition, leader epoch of the reader or -1, fetch offset, epoch of the last fetched record or -1,
#  log start offset of the follower or -1, max bytes, directory id)
WantedPartition = tuple[int, int, int, int, int, int, bytes]
WantedTopic = tuple[TopicKey, list[WantedPartition]]
ForgottenTopic = tuple[TopicKey, list[int]]

# (partition, error code, high watermark, last stable offset, log start offset,
#  [(producer id, first offset)] of aborted transactions or None, preferred read replica or -1,
#  records: bytes, memoryview, or anything with `size_bytes`, or a list of such, or None,
#  diverging (epoch, end offset) or None, current (leader, epoch) or None, snapshot (end offset, epoch) or None)
FetchedPartition = tuple[
    int,
    int,
    int,
    int,
    int,
    Sequence[tuple[int, int]] | None,
    int,
    Any,
    tuple[int, int] | None,
    tuple[int, int] | None,
    tuple[int, int] | None,
]
# (node id, host, port, rack)
NodeEndpoint = tuple[int, str, int, str | None]


class FetchBody(NamedTuple):
    replica_id: int  # -1 a consumer
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[WantedTopic]
    forgotten: list[ForgottenTopic]
    rack_id: str
    cluster_id: str | None


# A named tuple made without the Python function that usually makes it: three times as quick.
_NEW = tuple.__new__

_SHORT = Struct(">h").unpack_from
_INT = Struct(">i").unpack_from
_HEAD_V4 = Struct(">iiiib").unpack_from  # replica, max wait, min bytes, max bytes, isolation level
_HEAD_V7 = Struct(">iiiibii").unpack_from  # and session id, session epoch
_HEAD_V15 = Struct(">iiibii").unpack_from  # replica in a tag
_PARTITION_V4 = Struct(">iqi")
_PARTITION_V5 = Struct(">iqqi")
_PARTITION_V9 = Struct(">iiqqi")
_PARTITION_V12 = Struct(">iiqiqiB").unpack_from
_REPLICA_STATE = Struct(">iq").unpack_from


def decode_request(
    version: int, buffer: Buffer, offset: int = 0, *, budget: int = ELEMENT_BUDGET
) -> FetchBody:
    # Fetch requests are small and have no records: bytes are quicker to read than a memoryview.
    data = buffer if type(buffer) is bytes else bytes(buffer)
    try:
        if version >= FIRST_FLEXIBLE:
            return _decode_flexible(version, data, offset, budget)
        return _decode_classic(version, data, offset, budget)
    except (struct_error, IndexError):
        raise MalformedMessage(
            f"FetchRequest version {version}: ends too early, after {len(data) - offset} bytes"
        ) from None
    except UnicodeDecodeError:
        raise MalformedMessage(f"FetchRequest version {version}: a string is not UTF-8") from None


def _decode_classic(version: int, data: bytes, position: int, budget: int) -> FetchBody:
    end = len(data)
    session_id, session_epoch = 0, -1
    if version >= 7:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = _HEAD_V7(
            data, position
        )
        position += 25
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = _HEAD_V4(data, position)
        position += 17
    shape = _PARTITION_V9 if version >= 9 else _PARTITION_V5 if version >= 5 else _PARTITION_V4
    topics: list[WantedTopic] = []
    count = _INT(data, position)[0]
    position += 4
    _check_array("topics", count, 6, end - position)
    budget -= count * OBJECT_COST
    if budget < 0:
        raise over_budget("topics")
    for _ in range(count):
        topic, position = _read_string(data, position, "topic")
        partition_count = _INT(data, position)[0]
        position += 4
        _check_array("partitions", partition_count, shape.size, end - position)
        budget -= partition_count * OBJECT_COST
        if budget < 0:
            raise over_budget("partitions")
        stop = position + partition_count * shape.size
        rows = shape.iter_unpack(data[position:stop])
        position = stop
        wanted: list[WantedPartition]
        if version >= 9:
            wanted = [(p, epoch, at, -1, start, most, NO_UUID) for p, epoch, at, start, most in rows]
        elif version >= 5:
            wanted = [(p, -1, at, -1, start, most, NO_UUID) for p, at, start, most in rows]
        else:
            wanted = [(p, -1, at, -1, -1, most, NO_UUID) for p, at, most in rows]
        topics.append((topic, wanted))
    forgotten: list[ForgottenTopic] = []
    if version >= 7:
        count = _INT(data, position)[0]
        position += 4
        _check_array("forgottenTopicsData", count, 6, end - position)
        budget -= count * OBJECT_COST
        if budget < 0:
            raise over_budget("forgottenTopicsData")
        for _ in range(count):
            topic, position = _read_string(data, position, "topic")
            partition_count = _INT(data, position)[0]
            position += 4
            _check_array("partitions", partition_count, 4, end - position)
            budget -= partition_count
            if budget < 0:
                raise over_budget("partitions")
            forgotten.append((topic, list(unpack_from(f">{partition_count}i", data, position))))
            position += 4 * partition_count
    rack_id = ""
    if version >= 11:
        rack_id, position = _read_string(data, position, "rackId")
    if position != end:
        raise MalformedMessage(f"FetchRequest version {version}: {end - position} bytes left over")
    # fmt: off
    return _NEW(FetchBody, (
        replica_id, -1, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch,
        topics, forgotten, rack_id, None,
    ))
    # fmt: on


def _decode_flexible(version: int, data: bytes, position: int, budget: int) -> FetchBody:
    end = len(data)
    replica_id = replica_epoch = -1
    cluster_id = None
    if version >= 15:
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = _HEAD_V15(
            data, position
        )
        position += 21
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = _HEAD_V7(
            data, position
        )
        position += 25
    by_id = version >= FIRST_WITH_TOPIC_IDS
    smallest_topic = 18 if by_id else 3
    topics: list[WantedTopic] = []
    count, position = read_compact_count(data, position, smallest_topic, "topics")
    budget -= count * OBJECT_COST
    if budget < 0:
        raise over_budget("topics")
    for _ in range(count):
        topic, position = _read_topic_key(data, position, by_id)
        partition_count, position = read_compact_count(data, position, 33, "partitions")
        budget -= partition_count * OBJECT_COST
        if budget < 0:
            raise over_budget("partitions")
        wanted: list[WantedPartition] = []
        for _ in range(partition_count):
            p, epoch, at, last_epoch, start, most, tags = _PARTITION_V12(data, position)
            position += 33
            if tags:
                budget -= tags * OBJECT_COST
                if budget < 0:
                    raise over_budget("tagged fields")
                directory, position = _partition_tags(version, data, position - 1)
                wanted.append((p, epoch, at, last_epoch, start, most, directory))
            else:
                wanted.append((p, epoch, at, last_epoch, start, most, NO_UUID))
        topics.append((topic, wanted))
        if data[position]:
            budget -= data[position] * OBJECT_COST
            if budget < 0:
                raise over_budget("tagged fields")
            position = skip_tagged_fields(data, position)
        else:
            position += 1
    forgotten: list[ForgottenTopic] = []
    count, position = read_compact_count(data, position, smallest_topic, "forgottenTopicsData")
    budget -= count * OBJECT_COST
    if budget < 0:
        raise over_budget("forgottenTopicsData")
    for _ in range(count):
        topic, position = _read_topic_key(data, position, by_id)
        partition_count, position = read_compact_count(data, position, 4, "partitions")
        budget -= partition_count
        if budget < 0:
            raise over_budget("partitions")
        forgotten.append((topic, list(unpack_from(f">{partition_count}i", data, position))))
        position += 4 * partition_count
        if data[position]:
            budget -= data[position] * OBJECT_COST
            if budget < 0:
                raise over_budget("tagged fields")
            position = skip_tagged_fields(data, position)
        else:
            position += 1
    if data[position] == 1:  # no rack, as most say
        rack_id = ""
        position += 1
    else:
        rack_id, position = read_compact_string(data, position, "rackId")
    if data[position]:
        count, position = read_tag_count(data, position)
        for _ in range(count):
            tag, content, stop = read_tag(data, position)
            position = stop
            if tag == 0:
                cluster_id, position = read_compact_nullable_string(data, content, "clusterId")
            elif tag == 1 and version >= 15:
                replica_id, replica_epoch = _REPLICA_STATE(data, content)
                position = skip_tagged_fields(data, content + 12)
            if position != stop:
                raise wrong_tag_size(str(tag))
    else:
        position += 1
    if position != end:
        raise MalformedMessage(f"FetchRequest version {version}: {end - position} bytes left over")
    # fmt: off
    return _NEW(FetchBody, (
        replica_id, replica_epoch, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch,
        topics, forgotten, rack_id, cluster_id,
    ))
    # fmt: on


def _partition_tags(version: int, data: bytes, position: int) -> tuple[bytes, int]:
    directory = NO_UUID
    count, position = read_tag_count(data, position)
    for _ in range(count):
        tag, content, stop = read_tag(data, position)
        if tag == 0 and version >= 17:
            if stop - content != 16:
                raise wrong_tag_size(str(tag))
            directory = data[content:stop]
        position = stop
    return directory, position


def _check_array(name: str, count: int, smallest: int, left: int) -> None:
    if count < 0:
        raise bad_null(name, count)
    check_count(name, count, smallest, left)


def _read_topic_key(data: bytes, position: int, by_id: bool) -> tuple[TopicKey, int]:
    if not by_id:
        return read_compact_string(data, position, "topic")
    stop = position + 16
    if stop > len(data):
        raise too_long("topicId", 16, len(data) - position)
    return data[position:stop], stop


def _read_string(data: bytes, position: int, name: str) -> tuple[str, int]:
    length: int = _SHORT(data, position)[0]
    if length < 0:
        raise bad_null(name, length)
    position += 2
    stop = position + length
    if stop > len(data):
        raise too_long(name, length, len(data) - position)
    return data[position:stop].decode(), stop


_PACK_INT = Struct(">i").pack
_PACK_SHORT = Struct(">h").pack
_PACK_TWO_LONGS = Struct(">qq").pack
_PACK_RESPONSE_V7 = Struct(">ihii").pack  # throttle time, error, session id, number of topics
_PACK_RESPONSE_V4 = Struct(">ii").pack
_PACK_RESPONSE_V12 = Struct(">ihi").pack
# partition, error, high watermark, last stable offset, (log start offset,) number of aborted transactions
_PACK_PARTITION_V4 = Struct(">ihqqi").pack
_PACK_PARTITION_V5 = Struct(">ihqqqi").pack
_PACK_PARTITION_V12 = Struct(">ihqqq").pack
# the same with one byte for the number of aborted transactions, the preferred read replica, and perhaps the
# length of the records in one byte or two
_PLAIN = Struct(">ihqqqBi").pack
_PLAIN_1 = Struct(">ihqqqBiB").pack
_PLAIN_2 = Struct(">ihqqqBiBB").pack
_PACK_EPOCH_AND_OFFSET = Struct(">iq").pack
_PACK_OFFSET_AND_EPOCH = Struct(">qi").pack
_PACK_TWO_INTS = Struct(">ii").pack


def encode_response(
    version: int,
    topics: Sequence[tuple[TopicKey, Sequence[FetchedPartition]]],
    *,
    throttle_time_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Any]:
    """The body as buffers to be written one after the other; the records among them are the caller's."""
    if version >= FIRST_FLEXIBLE:
        return _encode_flexible(version, topics, throttle_time_ms, error_code, session_id, node_endpoints)
    if version >= 7:
        head = bytearray(_PACK_RESPONSE_V7(throttle_time_ms, error_code, session_id, len(topics)))
    else:
        head = bytearray(_PACK_RESPONSE_V4(throttle_time_ms, len(topics)))
    buffers: list[Any] = []
    for topic, partitions in topics:
        assert isinstance(topic, str), "topics have names up to version 12"
        name = topic.encode()
        head += _PACK_SHORT(len(name)) + name
        head += _PACK_INT(len(partitions))
        for fetched in partitions:
            index, error, high_watermark, stable, start, aborted, preferred, records, _, _, _ = fetched
            aborted_count = -1 if aborted is None else len(aborted)
            if version >= 5:
                head += _PACK_PARTITION_V5(index, error, high_watermark, stable, start, aborted_count)
            else:
                head += _PACK_PARTITION_V4(index, error, high_watermark, stable, aborted_count)
            if aborted:
                for transaction in aborted:
                    head += _PACK_TWO_LONGS(*transaction)
            if version >= 11:
                head += _PACK_INT(preferred)
            if records is None:
                head += b"\xff\xff\xff\xff"
                continue
            size = size_of(records)
            head += _PACK_INT(size)
            if size:
                buffers.append(head)
                if isinstance(records, list | tuple):
                    buffers += records
                else:
                    buffers.append(records)
                head = bytearray()
    if head:
        buffers.append(head)
    return buffers


def _encode_flexible(
    version: int,
    topics: Sequence[tuple[TopicKey, Sequence[FetchedPartition]]],
    throttle_time_ms: int,
    error_code: int,
    session_id: int,
    node_endpoints: Sequence[NodeEndpoint],
) -> list[Any]:
    head = bytearray(_PACK_RESPONSE_V12(throttle_time_ms, error_code, session_id))
    head += uvarint(len(topics) + 1)
    buffers: list[Any] = []
    for topic, partitions in topics:
        head += topic_key(version, topic)
        head += uvarint(len(partitions) + 1)
        for fetched in partitions:
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
            ) = fetched
            length = 0 if records is None else size_of(records) + 1
            if aborted:
                head += _PACK_PARTITION_V12(index, error, high_watermark, stable, start)
                head += uvarint(len(aborted) + 1)
                for transaction in aborted:
                    head += _PACK_TWO_LONGS(*transaction) + b"\0"
                head += _PACK_INT(preferred) + uvarint(length)
            else:
                count = 0 if aborted is None else 1
                if length < 128:
                    head += _PLAIN_1(index, error, high_watermark, stable, start, count, preferred, length)
                elif length < 16384:
                    low, high = length & 127 | 128, length >> 7
                    head += _PLAIN_2(index, error, high_watermark, stable, start, count, preferred, low, high)
                else:
                    head += _PLAIN(index, error, high_watermark, stable, start, count, preferred)
                    head += uvarint(length)
            if length > 1:
                buffers.append(head)
                if isinstance(records, list | tuple):
                    buffers += records
                else:
                    buffers.append(records)
                head = bytearray()
            if diverging is leader is snapshot is None:
                head += b"\0"
            else:
                head += _answer_tags(diverging, leader, snapshot)
        head += b"\0"
    if node_endpoints and version >= 16:
        head += _endpoint_tag(node_endpoints)
    else:
        head += b"\0"
    buffers.append(head)
    return buffers


def size_of(records: Any) -> int:
    """The size in bytes of what the caller wants sent as records."""
    kind = type(records)
    if kind is bytes or kind is memoryview or kind is bytearray:
        return len(records)
    if kind is list or kind is tuple:
        return sum(map(size_of, records))
    size: int = records.size_bytes
    return size


def topic_key(version: int, topic: TopicKey) -> bytes:
    if version >= FIRST_WITH_TOPIC_IDS:
        assert isinstance(topic, bytes) and len(topic) == 16, "topics have ids from version 13 on"
        return topic
    assert isinstance(topic, str), "topics have names up to version 12"
    return compact_string(topic)


def _answer_tags(
    diverging: tuple[int, int] | None, leader: tuple[int, int] | None, snapshot: tuple[int, int] | None
) -> bytes:
    """Tags 0 diverging epoch, 1 current leader, 2 snapshot id; (-1, -1) is the default and not written."""
    tags = []
    if diverging is not None and diverging != (-1, -1):
        tags.append(b"\0\x0d" + _PACK_EPOCH_AND_OFFSET(*diverging) + b"\0")
    if leader is not None and leader != (-1, -1):
        tags.append(b"\1\x09" + _PACK_TWO_INTS(*leader) + b"\0")
    if snapshot is not None and snapshot != (-1, -1):
        tags.append(b"\2\x0d" + _PACK_OFFSET_AND_EPOCH(*snapshot) + b"\0")
    return uvarint(len(tags)) + b"".join(tags)


def _endpoint_tag(node_endpoints: Sequence[NodeEndpoint]) -> bytes:
    content = [uvarint(len(node_endpoints) + 1)]
    for node_id, host, port, rack in node_endpoints:
        content += (_PACK_INT(node_id), compact_string(host), _PACK_INT(port))
        content += (compact_nullable_string(rack), b"\0")
    endpoints = b"".join(content)
    return b"\1\0" + uvarint(len(endpoints)) + endpoints
