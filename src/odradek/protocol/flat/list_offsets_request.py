"""ListOffsetsRequest (key 2) as tuples, decoded 1-9.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/list_offsets.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable, Sequence
from struct import Struct, unpack_from
from struct import error as struct_error
from typing import NamedTuple

from odradek.protocol.errors import MalformedMessage, UnsupportedVersion
from odradek.protocol.primitives import ELEMENT_BUDGET, Buffer, bad_null, left_over, over_budget, read_uvarint, skip_tagged_fields, too_long, too_many


# partition_index, current_leader_epoch, timestamp
ListOffsetsPartition = tuple[int, int, int]
# name, partitions
ListOffsetsTopic = tuple[str, Sequence[ListOffsetsPartition]]


class ListOffsetsRequest(NamedTuple):
    replica_id: int
    isolation_level: int
    topics: Sequence[ListOffsetsTopic]


_new = tuple.__new__
_rows_iiq = Struct(">iiq").iter_unpack
_rows_iq = Struct(">iq").iter_unpack
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_ibB = Struct(">ibB").unpack_from
_unpack_ibi = Struct(">ibi").unpack_from
_unpack_ii = Struct(">ii").unpack_from
_unpack_iiqB = Struct(">iiqB").unpack_from


def decode(version: int, buffer: Buffer, offset: int = 0, *, budget: int = ELEMENT_BUDGET) -> ListOffsetsRequest:
    whole = buffer if type(buffer) is bytes else bytes(buffer)
    try:
        return _DECODERS[version](whole, offset, budget)
    except (struct_error, IndexError):
        raise MalformedMessage(f"ListOffsetsRequest version {version}: ends too early, after {len(whole) - offset} bytes") from None
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"ListOffsetsRequest version {version}: a string is not UTF-8 ({error.reason})") from None
    except MalformedMessage as error:
        raise MalformedMessage(f"ListOffsetsRequest version {version}: {error.message}") from None
    except KeyError:
        raise UnsupportedVersion(f"ListOffsetsRequest version {version} is not read here") from None


def _decode_1(buffer: bytes, position: int, budget: int) -> ListOffsetsRequest:
    end = len(buffer)
    m_topics: list[ListOffsetsTopic]
    m_replica_id, n1 = _unpack_ii(buffer, position)
    position += 8
    if n1 >= 0:
        if n1 * 6 > end - position:
            raise too_many('topics', n1, 6, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('topics')
        m_topics = []
        for _ in range(n1):
            n3, = _unpack_h(buffer, position)
            position += 2
            if n3 >= 0:
                stop = position + n3
                if stop > end:
                    raise too_long('name', n3, end - position)
                o2_name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n3)
            o2_partitions: list[ListOffsetsPartition]
            n4, = _unpack_i(buffer, position)
            position += 4
            if n4 >= 0:
                if n4 * 12 > end - position:
                    raise too_many('partitions', n4, 12, end - position)
                budget -= n4 * 4
                if budget < 0:
                    raise over_budget('partitions')
                s6 = position + n4 * 12
                o2_partitions = [(o5_partition_index, -1, o5_timestamp) for o5_partition_index, o5_timestamp in _rows_iq(buffer[position:s6])]
                position = s6
            else:
                raise bad_null('partitions', n4)
            m_topics.append((o2_name, o2_partitions))
    else:
        raise bad_null('topics', n1)
    if position != end:
        raise left_over(end - position)
    return _new(ListOffsetsRequest, (m_replica_id, 0, m_topics))


def _decode_2_to_3(buffer: bytes, position: int, budget: int) -> ListOffsetsRequest:
    end = len(buffer)
    m_topics: list[ListOffsetsTopic]
    m_replica_id, m_isolation_level, n1 = _unpack_ibi(buffer, position)
    position += 9
    if n1 >= 0:
        if n1 * 6 > end - position:
            raise too_many('topics', n1, 6, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('topics')
        m_topics = []
        for _ in range(n1):
            n3, = _unpack_h(buffer, position)
            position += 2
            if n3 >= 0:
                stop = position + n3
                if stop > end:
                    raise too_long('name', n3, end - position)
                o2_name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n3)
            o2_partitions: list[ListOffsetsPartition]
            n4, = _unpack_i(buffer, position)
            position += 4
            if n4 >= 0:
                if n4 * 12 > end - position:
                    raise too_many('partitions', n4, 12, end - position)
                budget -= n4 * 4
                if budget < 0:
                    raise over_budget('partitions')
                s6 = position + n4 * 12
                o2_partitions = [(o5_partition_index, -1, o5_timestamp) for o5_partition_index, o5_timestamp in _rows_iq(buffer[position:s6])]
                position = s6
            else:
                raise bad_null('partitions', n4)
            m_topics.append((o2_name, o2_partitions))
    else:
        raise bad_null('topics', n1)
    if position != end:
        raise left_over(end - position)
    return _new(ListOffsetsRequest, (m_replica_id, m_isolation_level, m_topics))


def _decode_4_to_5(buffer: bytes, position: int, budget: int) -> ListOffsetsRequest:
    end = len(buffer)
    m_topics: list[ListOffsetsTopic]
    m_replica_id, m_isolation_level, n1 = _unpack_ibi(buffer, position)
    position += 9
    if n1 >= 0:
        if n1 * 6 > end - position:
            raise too_many('topics', n1, 6, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('topics')
        m_topics = []
        for _ in range(n1):
            n3, = _unpack_h(buffer, position)
            position += 2
            if n3 >= 0:
                stop = position + n3
                if stop > end:
                    raise too_long('name', n3, end - position)
                o2_name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n3)
            o2_partitions: list[ListOffsetsPartition]
            n4, = _unpack_i(buffer, position)
            position += 4
            if n4 >= 0:
                if n4 * 16 > end - position:
                    raise too_many('partitions', n4, 16, end - position)
                budget -= n4 * 4
                if budget < 0:
                    raise over_budget('partitions')
                s6 = position + n4 * 16
                o2_partitions = list(_rows_iiq(buffer[position:s6]))
                position = s6
            else:
                raise bad_null('partitions', n4)
            m_topics.append((o2_name, o2_partitions))
    else:
        raise bad_null('topics', n1)
    if position != end:
        raise left_over(end - position)
    return _new(ListOffsetsRequest, (m_replica_id, m_isolation_level, m_topics))


def _decode_6_to_9(buffer: bytes, position: int, budget: int) -> ListOffsetsRequest:
    end = len(buffer)
    m_topics: list[ListOffsetsTopic]
    m_replica_id, m_isolation_level, n1 = _unpack_ibB(buffer, position)
    position += 6
    if n1 > 127:
        n1, position = read_uvarint(buffer, position - 1)
    n1 -= 1
    if n1 >= 0:
        if n1 * 3 > end - position:
            raise too_many('topics', n1, 3, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('topics')
        m_topics = []
        for _ in range(n1):
            n3 = buffer[position]
            position += 1
            if n3 > 127:
                n3, position = read_uvarint(buffer, position - 1)
            n3 -= 1
            if n3 >= 0:
                stop = position + n3
                if stop > end or n3 > 32767:
                    raise too_long('name', n3, end - position)
                o2_name = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('name', n3)
            o2_partitions: list[ListOffsetsPartition]
            n4 = buffer[position]
            position += 1
            if n4 > 127:
                n4, position = read_uvarint(buffer, position - 1)
            n4 -= 1
            if n4 >= 0:
                if n4 * 17 > end - position:
                    raise too_many('partitions', n4, 17, end - position)
                budget -= n4 * 4
                if budget < 0:
                    raise over_budget('partitions')
                o2_partitions = []
                for _ in range(n4):
                    o5_partition_index, o5_current_leader_epoch, o5_timestamp, n6 = _unpack_iiqB(buffer, position)
                    position += 17
                    if n6:
                        budget -= n6 * 4
                        if budget < 0:
                            raise over_budget('tagged fields')
                        position = skip_tagged_fields(buffer, position - 1)
                    o2_partitions.append((o5_partition_index, o5_current_leader_epoch, o5_timestamp))
            else:
                raise bad_null('partitions', n4)
            n7 = buffer[position]
            position += 1
            if n7:
                budget -= n7 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            m_topics.append((o2_name, o2_partitions))
    else:
        raise bad_null('topics', n1)
    n8 = buffer[position]
    position += 1
    if n8:
        budget -= n8 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        position = skip_tagged_fields(buffer, position - 1)
    if position != end:
        raise left_over(end - position)
    return _new(ListOffsetsRequest, (m_replica_id, m_isolation_level, m_topics))


_DECODERS: dict[int, Callable[[bytes, int, int], ListOffsetsRequest]] = {
    1: _decode_1,
    2: _decode_2_to_3,
    3: _decode_2_to_3,
    4: _decode_4_to_5,
    5: _decode_4_to_5,
    6: _decode_6_to_9,
    7: _decode_6_to_9,
    8: _decode_6_to_9,
    9: _decode_6_to_9,
}
