"""ProduceRequest (key 0) as tuples, decoded 3-12.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/produce.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable, Sequence
from struct import Struct, unpack_from
from struct import error as struct_error

from odradek.protocol.errors import MalformedMessage, UnsupportedVersion
from odradek.protocol.primitives import ELEMENT_BUDGET, Buffer, bad_null, left_over, over_budget, read_uvarint, skip_tagged_fields, too_long, too_many


# index, records
PartitionProduceData = tuple[int, memoryview | None]
# name, partition_data
TopicProduceData = tuple[str, Sequence[PartitionProduceData]]
# transactional_id, acks, timeout_ms, topic_data
ProduceRequest = tuple[str | None, int, int, Sequence[TopicProduceData]]


_unpack_h = Struct(">h").unpack_from
_unpack_hiB = Struct(">hiB").unpack_from
_unpack_hii = Struct(">hii").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_iB = Struct(">iB").unpack_from
_unpack_ii = Struct(">ii").unpack_from


def decode(version: int, buffer: Buffer, offset: int = 0, *, budget: int = ELEMENT_BUDGET) -> ProduceRequest:
    whole = buffer if type(buffer) is memoryview else memoryview(buffer)
    try:
        return _DECODERS[version](whole, offset, budget)
    except (struct_error, IndexError):
        raise MalformedMessage(f"ProduceRequest version {version}: ends too early, after {len(whole) - offset} bytes") from None
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"ProduceRequest version {version}: a string is not UTF-8 ({error.reason})") from None
    except MalformedMessage as error:
        raise MalformedMessage(f"ProduceRequest version {version}: {error.message}") from None
    except KeyError:
        raise UnsupportedVersion(f"ProduceRequest version {version} is not read here") from None


def _decode_3_to_8(buffer: memoryview, position: int, budget: int) -> ProduceRequest:
    end = len(buffer)
    m_transactional_id: str | None
    n1, = _unpack_h(buffer, position)
    position += 2
    if n1 >= 0:
        stop = position + n1
        if stop > end:
            raise too_long('transactionalId', n1, end - position)
        m_transactional_id = str(buffer[position:stop], 'utf-8')
        position = stop
    elif n1 == -1:
        m_transactional_id = None
    else:
        raise bad_null('transactionalId', n1)
    m_topic_data: list[TopicProduceData]
    m_acks, m_timeout_ms, n2 = _unpack_hii(buffer, position)
    position += 10
    if n2 >= 0:
        if n2 * 6 > end - position:
            raise too_many('topicData', n2, 6, end - position)
        budget -= n2 * 4
        if budget < 0:
            raise over_budget('topicData')
        m_topic_data = []
        for _ in range(n2):
            n4, = _unpack_h(buffer, position)
            position += 2
            if n4 >= 0:
                stop = position + n4
                if stop > end:
                    raise too_long('name', n4, end - position)
                o3_name = str(buffer[position:stop], 'utf-8')
                position = stop
            else:
                raise bad_null('name', n4)
            o3_partition_data: list[PartitionProduceData]
            n5, = _unpack_i(buffer, position)
            position += 4
            if n5 >= 0:
                if n5 * 8 > end - position:
                    raise too_many('partitionData', n5, 8, end - position)
                budget -= n5 * 4
                if budget < 0:
                    raise over_budget('partitionData')
                o3_partition_data = []
                for _ in range(n5):
                    o6_records: memoryview | None
                    o6_index, n7 = _unpack_ii(buffer, position)
                    position += 8
                    if n7 >= 0:
                        stop = position + n7
                        if stop > end:
                            raise too_long('records', n7, end - position)
                        o6_records = buffer[position:stop]
                        position = stop
                    elif n7 == -1:
                        o6_records = None
                    else:
                        raise bad_null('records', n7)
                    o3_partition_data.append((o6_index, o6_records))
            else:
                raise bad_null('partitionData', n5)
            m_topic_data.append((o3_name, o3_partition_data))
    else:
        raise bad_null('topicData', n2)
    if position != end:
        raise left_over(end - position)
    return (m_transactional_id, m_acks, m_timeout_ms, m_topic_data)


def _decode_9_to_12(buffer: memoryview, position: int, budget: int) -> ProduceRequest:
    end = len(buffer)
    m_transactional_id: str | None
    n1 = buffer[position]
    position += 1
    if n1 > 127:
        n1, position = read_uvarint(buffer, position - 1)
    n1 -= 1
    if n1 >= 0:
        stop = position + n1
        if stop > end or n1 > 32767:
            raise too_long('transactionalId', n1, end - position)
        m_transactional_id = str(buffer[position:stop], 'utf-8')
        position = stop
    elif n1 == -1:
        m_transactional_id = None
    else:
        raise bad_null('transactionalId', n1)
    m_topic_data: list[TopicProduceData]
    m_acks, m_timeout_ms, n2 = _unpack_hiB(buffer, position)
    position += 7
    if n2 > 127:
        n2, position = read_uvarint(buffer, position - 1)
    n2 -= 1
    if n2 >= 0:
        if n2 * 3 > end - position:
            raise too_many('topicData', n2, 3, end - position)
        budget -= n2 * 4
        if budget < 0:
            raise over_budget('topicData')
        m_topic_data = []
        for _ in range(n2):
            n4 = buffer[position]
            position += 1
            if n4 > 127:
                n4, position = read_uvarint(buffer, position - 1)
            n4 -= 1
            if n4 >= 0:
                stop = position + n4
                if stop > end or n4 > 32767:
                    raise too_long('name', n4, end - position)
                o3_name = str(buffer[position:stop], 'utf-8')
                position = stop
            else:
                raise bad_null('name', n4)
            o3_partition_data: list[PartitionProduceData]
            n5 = buffer[position]
            position += 1
            if n5 > 127:
                n5, position = read_uvarint(buffer, position - 1)
            n5 -= 1
            if n5 >= 0:
                if n5 * 6 > end - position:
                    raise too_many('partitionData', n5, 6, end - position)
                budget -= n5 * 4
                if budget < 0:
                    raise over_budget('partitionData')
                o3_partition_data = []
                for _ in range(n5):
                    o6_records: memoryview | None
                    o6_index, n7 = _unpack_iB(buffer, position)
                    position += 5
                    if n7 > 127:
                        n7, position = read_uvarint(buffer, position - 1)
                    n7 -= 1
                    if n7 >= 0:
                        stop = position + n7
                        if stop > end:
                            raise too_long('records', n7, end - position)
                        o6_records = buffer[position:stop]
                        position = stop
                    elif n7 == -1:
                        o6_records = None
                    else:
                        raise bad_null('records', n7)
                    n8 = buffer[position]
                    position += 1
                    if n8:
                        budget -= n8 * 4
                        if budget < 0:
                            raise over_budget('tagged fields')
                        position = skip_tagged_fields(buffer, position - 1)
                    o3_partition_data.append((o6_index, o6_records))
            else:
                raise bad_null('partitionData', n5)
            n9 = buffer[position]
            position += 1
            if n9:
                budget -= n9 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            m_topic_data.append((o3_name, o3_partition_data))
    else:
        raise bad_null('topicData', n2)
    n10 = buffer[position]
    position += 1
    if n10:
        budget -= n10 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        position = skip_tagged_fields(buffer, position - 1)
    if position != end:
        raise left_over(end - position)
    return (m_transactional_id, m_acks, m_timeout_ms, m_topic_data)


_DECODERS: dict[int, Callable[[memoryview, int, int], ProduceRequest]] = {
    3: _decode_3_to_8,
    4: _decode_3_to_8,
    5: _decode_3_to_8,
    6: _decode_3_to_8,
    7: _decode_3_to_8,
    8: _decode_3_to_8,
    9: _decode_9_to_12,
    10: _decode_9_to_12,
    11: _decode_9_to_12,
    12: _decode_9_to_12,
}
