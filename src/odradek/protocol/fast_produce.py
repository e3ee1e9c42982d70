"""Produce (key 0) by hand, versions 3-11: the request into tuples, the response out of tuples.

The hottest message of all, so no object is made per partition that nobody asked for. Held equal to the tables
by tests/protocol/test_fast_produce.py; what the fields mean stands in messages/produce.py.
"""

from collections.abc import Sequence
from struct import Struct
from struct import error as struct_error

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import (
    ELEMENT_BUDGET,
    MAX_STRING_BYTES,
    OBJECT_COST,
    Buffer,
    bad_null,
    check_count,
    compact_message,
    compact_nullable_string,
    compact_string,
    cut_message,
    over_budget,
    read_compact_nullable_string,
    read_uvarint,
    skip_tagged_fields,
    too_long,
    uvarint,
)

FIRST_FLEXIBLE = 9

# (partition, records); the records are a slice of the request, None if the client sent null.
PartitionRecords = tuple[int, memoryview | None]
TopicRecords = tuple[str, list[PartitionRecords]]
# (transactional id, acks, timeout, topics)
ProduceBody = tuple[str | None, int, int, list[TopicRecords]]

# (partition, error code, base offset, log append time, log start offset,
#  [(batch index, message)] of refused records (v8), error message (v8), (leader, leader epoch) or None (v10))
PartitionAnswer = tuple[
    int, int, int, int, int, Sequence[tuple[int, str | None]], str | None, tuple[int, int] | None
]
# (node id, host, port, rack)
NodeEndpoint = tuple[int, str, int, str | None]

_SHORT = Struct(">h").unpack_from
_INT = Struct(">i").unpack_from
_TWO_INTS = Struct(">ii").unpack_from
_ACKS_TIMEOUT_COUNT = Struct(">hii").unpack_from
# Length of the transactional id, and what follows if it is null, as it mostly is.
_FLEXIBLE_START = Struct(">BhiB").unpack_from
_ACKS_TIMEOUT_BYTE = Struct(">hiB").unpack_from
_FLEXIBLE_PARTITION = Struct(">iB").unpack_from


def decode_request(
    version: int, buffer: Buffer, offset: int = 0, *, budget: int = ELEMENT_BUDGET
) -> ProduceBody:
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    try:
        if version >= FIRST_FLEXIBLE:
            return _decode_flexible(view, offset, budget // OBJECT_COST)
        return _decode_classic(view, offset, budget // OBJECT_COST)
    except (struct_error, IndexError):
        raise MalformedMessage(
            f"ProduceRequest version {version}: ends too early, after {len(view) - offset} bytes"
        ) from None
    except UnicodeDecodeError:
        raise MalformedMessage(f"ProduceRequest version {version}: a string is not UTF-8") from None


def _decode_classic(view: memoryview, position: int, most: int) -> ProduceBody:
    end = len(view)
    transactional_id = None
    name_length = _SHORT(view, position)[0]
    position += 2
    if name_length >= 0:
        stop = position + name_length
        if stop > end:
            raise too_long("transactionalId", name_length, end - position)
        transactional_id = str(view[position:stop], "utf-8")
        position = stop
    elif name_length != -1:
        raise bad_null("transactionalId", name_length)
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT(view, position)
    position += 10
    if topic_count < 0:
        raise bad_null("topicData", topic_count)
    if topic_count * 6 > end - position:
        check_count("topicData", topic_count, 6, end - position)
    budget = most - topic_count
    if budget < 0:
        raise over_budget("topicData")
    topics: list[TopicRecords] = []
    for _ in range(topic_count):
        name_length = _SHORT(view, position)[0]
        position += 2
        stop = position + name_length
        if name_length < 0:
            raise bad_null("name", name_length)
        if stop > end:
            raise too_long("name", name_length, end - position)
        topic = str(view[position:stop], "utf-8")
        partition_count = _INT(view, stop)[0]
        position = stop + 4
        if partition_count < 0:
            raise bad_null("partitionData", partition_count)
        if partition_count * 8 > end - position:
            check_count("partitionData", partition_count, 8, end - position)
        budget -= partition_count
        if budget < 0:
            raise over_budget("partitionData")
        partitions: list[PartitionRecords] = []
        for _ in range(partition_count):
            partition, size = _TWO_INTS(view, position)
            position += 8
            if size >= 0:
                stop = position + size
                if stop > end:
                    raise too_long("records", size, end - position)
                partitions.append((partition, view[position:stop]))
                position = stop
            elif size == -1:
                partitions.append((partition, None))
            else:
                raise bad_null("records", size)
        topics.append((topic, partitions))
    if position != end:
        raise MalformedMessage(f"ProduceRequest: {end - position} bytes left over")
    return transactional_id, acks, timeout_ms, topics


def _decode_flexible(view: memoryview, position: int, most: int) -> ProduceBody:
    end = len(view)
    length, acks, timeout_ms, topic_count = _FLEXIBLE_START(view, position)
    position += 8
    transactional_id = None
    if length:  # what was read behind it was the id itself
        transactional_id, position = read_compact_nullable_string(view, position - 8, "transactionalId")
        acks, timeout_ms, topic_count = _ACKS_TIMEOUT_BYTE(view, position)
        position += 7
    if topic_count > 127:
        topic_count, position = read_uvarint(view, position - 1)
    topic_count -= 1
    if topic_count < 0:
        raise bad_null("topicData", topic_count)
    if topic_count * 3 > end - position:
        check_count("topicData", topic_count, 3, end - position)
    budget = most - topic_count
    if budget < 0:
        raise over_budget("topicData")
    topics: list[TopicRecords] = []
    for _ in range(topic_count):
        length = view[position]
        position += 1
        if length > 127:
            length, position = read_uvarint(view, position - 1)
        stop = position + length - 1
        if not length:
            raise bad_null("name", -1)
        if stop > end or length > MAX_STRING_BYTES + 1:
            raise too_long("name", length - 1, end - position)
        topic = str(view[position:stop], "utf-8")
        partition_count = view[stop]
        position = stop + 1
        if partition_count > 127:
            partition_count, position = read_uvarint(view, stop)
        partition_count -= 1
        if partition_count < 0:
            raise bad_null("partitionData", partition_count)
        if partition_count * 6 > end - position:
            check_count("partitionData", partition_count, 6, end - position)
        budget -= partition_count
        if budget < 0:
            raise over_budget("partitionData")
        partitions: list[PartitionRecords] = []
        for _ in range(partition_count):
            partition, size = _FLEXIBLE_PARTITION(view, position)
            position += 5
            if size > 127:
                size, position = read_uvarint(view, position - 1)
            if size:
                stop = position + size - 1
                if stop > end:
                    raise too_long("records", size - 1, end - position)
                partitions.append((partition, view[position:stop]))
                position = stop
            else:
                partitions.append((partition, None))
            if view[position]:
                budget -= view[position]
                if budget < 0:
                    raise over_budget("tagged fields")
                position = skip_tagged_fields(view, position)
            else:
                position += 1
        topics.append((topic, partitions))
        if view[position]:
            budget -= view[position]
            if budget < 0:
                raise over_budget("tagged fields")
            position = skip_tagged_fields(view, position)
        else:
            position += 1
    if view[position]:
        position = skip_tagged_fields(view, position)
    else:
        position += 1
    if position != end:
        raise MalformedMessage(f"ProduceRequest: {end - position} bytes left over")
    return transactional_id, acks, timeout_ms, topics


_PACK_SHORT = Struct(">h").pack
_PACK_INT = Struct(">i").pack
_PACK_TWO_INTS = Struct(">ii").pack
_PACK_THROTTLE_AND_TAGS = Struct(">ix").pack
_PACK_V3 = Struct(">ihqq").pack
_PACK_V5 = Struct(">ihqqq").pack
# v8 on: number of record errors and error message follow; here 0 of them and null.
_PACK_V8_PLAIN = Struct(">ihqqqih").pack
# v9 on: the same, and no tagged fields.
_PACK_V9_PLAIN = Struct(">ihqqqBBB").pack


def encode_response(
    version: int,
    topics: Sequence[tuple[str, Sequence[PartitionAnswer]]],
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    if version >= FIRST_FLEXIBLE:
        return _encode_flexible(version, topics, throttle_time_ms, node_endpoints)
    parts = [_PACK_INT(len(topics))]
    for topic, partitions in topics:
        name = topic.encode()
        parts += (_PACK_SHORT(len(name)), name, _PACK_INT(len(partitions)))
        for answer in partitions:
            index, error, base_offset, append_time_ms, start_offset, record_errors, message, _ = answer
            if version >= 8:
                if record_errors or message is not None:
                    parts.append(_PACK_V5(index, error, base_offset, append_time_ms, start_offset))
                    parts.append(_PACK_INT(len(record_errors)))
                    for batch_index, text in record_errors:
                        parts += (_PACK_INT(batch_index), _message(text))
                    parts.append(_message(message))
                else:
                    parts.append(
                        _PACK_V8_PLAIN(index, error, base_offset, append_time_ms, start_offset, 0, -1)
                    )
            elif version >= 5:
                parts.append(_PACK_V5(index, error, base_offset, append_time_ms, start_offset))
            else:
                parts.append(_PACK_V3(index, error, base_offset, append_time_ms))
    parts.append(_PACK_INT(throttle_time_ms))
    return b"".join(parts)


def _encode_flexible(
    version: int,
    topics: Sequence[tuple[str, Sequence[PartitionAnswer]]],
    throttle_time_ms: int,
    node_endpoints: Sequence[NodeEndpoint],
) -> bytes:
    parts = [uvarint(len(topics) + 1)]
    for topic, partitions in topics:
        parts += (compact_string(topic), uvarint(len(partitions) + 1))
        for answer in partitions:
            index, error, base_offset, append_time_ms, start_offset, record_errors, message, leader = answer
            if not record_errors and message is None and (leader is None or version < 10):
                parts.append(_PACK_V9_PLAIN(index, error, base_offset, append_time_ms, start_offset, 1, 0, 0))
                continue
            parts.append(_PACK_V5(index, error, base_offset, append_time_ms, start_offset))
            parts.append(uvarint(len(record_errors) + 1))
            for batch_index, text in record_errors:
                parts += (_PACK_INT(batch_index), compact_message(text), b"\0")
            parts.append(compact_message(message))
            if leader is None or leader == (-1, -1) or version < 10:
                parts.append(b"\0")
            else:
                # One tag, number 0, nine bytes: leader, leader epoch, no tags.
                parts += (b"\1\0\x09", _PACK_TWO_INTS(*leader), b"\0")
        parts.append(b"\0")
    if not node_endpoints or version < 10:
        parts.append(_PACK_THROTTLE_AND_TAGS(throttle_time_ms))
        return b"".join(parts)
    content = [uvarint(len(node_endpoints) + 1)]
    for node_id, host, port, rack in node_endpoints:
        content += (_PACK_INT(node_id), compact_string(host), _PACK_INT(port))
        content += (compact_nullable_string(rack), b"\0")
    endpoints = b"".join(content)
    parts += (_PACK_INT(throttle_time_ms), b"\1\0", uvarint(len(endpoints)), endpoints)
    return b"".join(parts)


def _message(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    content = cut_message(text.encode())
    return _PACK_SHORT(len(content)) + content
