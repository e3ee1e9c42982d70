"""FetchRequest (key 1) as tuples, decoded 4-17 and encoded 12-17.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/fetch.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable, Sequence
from struct import Struct, pack, unpack_from
from struct import error as struct_error
from typing import Any, NamedTuple

from odradek.protocol.errors import MalformedMessage, UnsupportedVersion
from odradek.protocol.primitives import ELEMENT_BUDGET, UNPACK_INTS, UVARINTS, Buffer, RowShapes, bad_null, left_over, over_budget, read_tag, read_tag_count, read_uvarint, skip_tagged_fields, too_long, too_many, unencodable, uvarint, wrong_tag_size
from odradek.protocol.fields import NO_UUID


# partition, current_leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset, partition_max_bytes, replica_directory_id
FetchPartition = tuple[int, int, int, int, int, int, bytes]
# topic_or_topic_id, partitions
FetchTopic = tuple[str | bytes, Sequence[FetchPartition]]
# topic_or_topic_id, partitions
ForgottenTopic = tuple[str | bytes, Sequence[int]]
# replica_id, replica_epoch
ReplicaState = tuple[int, int]


class FetchRequest(NamedTuple):
    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: Sequence[FetchTopic]
    forgotten_topics_data: Sequence[ForgottenTopic]
    rack_id: str
    cluster_id: str | None
    replica_state: ReplicaState | None


_new = tuple.__new__
_pack_16s = Struct(">16s").pack
_pack_16sB = Struct(">16sB").pack
_pack_16sBx = Struct(">16sBx").pack
_pack_iiibii = Struct(">iiibii").pack
_pack_iiibiiB = Struct(">iiibiiB").pack
_pack_iiiibii = Struct(">iiiibii").pack
_pack_iiiibiiB = Struct(">iiiibiiB").pack
_pack_iiqiqi = Struct(">iiqiqi").pack
_pack_iiqiqix = Struct(">iiqiqix").pack
_pack_iqx = Struct(">iqx").pack
_rows_iiqqi = Struct(">iiqqi").iter_unpack
_rows_iqi = Struct(">iqi").iter_unpack
_rows_iqqi = Struct(">iqqi").iter_unpack
_shapes_16s_x = RowShapes(('16s', 'x'), is_flexible=True)
_unpack_16s = Struct(">16s").unpack_from
_unpack_16sB = Struct(">16sB").unpack_from
_unpack_h = Struct(">h").unpack_from
_unpack_i = Struct(">i").unpack_from
_unpack_iiibiiB = Struct(">iiibiiB").unpack_from
_unpack_iiiibi = Struct(">iiiibi").unpack_from
_unpack_iiiibiiB = Struct(">iiiibiiB").unpack_from
_unpack_iiiibiii = Struct(">iiiibiii").unpack_from
_unpack_iiqiqiB = Struct(">iiqiqiB").unpack_from
_unpack_iqB = Struct(">iqB").unpack_from


def decode(version: int, buffer: Buffer, offset: int = 0, *, budget: int = ELEMENT_BUDGET) -> FetchRequest:
    whole = buffer if type(buffer) is bytes else bytes(buffer)
    try:
        return _DECODERS[version](whole, offset, budget)
    except (struct_error, IndexError):
        raise MalformedMessage(f"FetchRequest version {version}: ends too early, after {len(whole) - offset} bytes") from None
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"FetchRequest version {version}: a string is not UTF-8 ({error.reason})") from None
    except MalformedMessage as error:
        raise MalformedMessage(f"FetchRequest version {version}: {error.message}") from None
    except KeyError:
        raise UnsupportedVersion(f"FetchRequest version {version} is not read here") from None


def _decode_4(buffer: bytes, position: int, budget: int) -> FetchRequest:
    end = len(buffer)
    m_topics: list[FetchTopic]
    m_replica_id, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, n1 = _unpack_iiiibi(buffer, position)
    position += 21
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
                    raise too_long('topic', n3, end - position)
                o2_topic = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('topic', n3)
            o2_partitions: list[FetchPartition]
            n4, = _unpack_i(buffer, position)
            position += 4
            if n4 >= 0:
                if n4 * 16 > end - position:
                    raise too_many('partitions', n4, 16, end - position)
                budget -= n4 * 4
                if budget < 0:
                    raise over_budget('partitions')
                s6 = position + n4 * 16
                o2_partitions = [(o5_partition, -1, o5_fetch_offset, -1, -1, o5_partition_max_bytes, NO_UUID) for o5_partition, o5_fetch_offset, o5_partition_max_bytes in _rows_iqi(buffer[position:s6])]
                position = s6
            else:
                raise bad_null('partitions', n4)
            m_topics.append((o2_topic, o2_partitions))
    else:
        raise bad_null('topics', n1)
    if position != end:
        raise left_over(end - position)
    return _new(FetchRequest, (m_replica_id, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, 0, -1, m_topics, [], '', None, None))


def _decode_5_to_6(buffer: bytes, position: int, budget: int) -> FetchRequest:
    end = len(buffer)
    m_topics: list[FetchTopic]
    m_replica_id, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, n1 = _unpack_iiiibi(buffer, position)
    position += 21
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
                    raise too_long('topic', n3, end - position)
                o2_topic = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('topic', n3)
            o2_partitions: list[FetchPartition]
            n4, = _unpack_i(buffer, position)
            position += 4
            if n4 >= 0:
                if n4 * 24 > end - position:
                    raise too_many('partitions', n4, 24, end - position)
                budget -= n4 * 4
                if budget < 0:
                    raise over_budget('partitions')
                s6 = position + n4 * 24
                o2_partitions = [(o5_partition, -1, o5_fetch_offset, -1, o5_log_start_offset, o5_partition_max_bytes, NO_UUID) for o5_partition, o5_fetch_offset, o5_log_start_offset, o5_partition_max_bytes in _rows_iqqi(buffer[position:s6])]
                position = s6
            else:
                raise bad_null('partitions', n4)
            m_topics.append((o2_topic, o2_partitions))
    else:
        raise bad_null('topics', n1)
    if position != end:
        raise left_over(end - position)
    return _new(FetchRequest, (m_replica_id, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, 0, -1, m_topics, [], '', None, None))


def _decode_7_to_8(buffer: bytes, position: int, budget: int) -> FetchRequest:
    end = len(buffer)
    m_topics: list[FetchTopic]
    m_replica_id, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, m_session_id, m_session_epoch, n1 = _unpack_iiiibiii(buffer, position)
    position += 29
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
                    raise too_long('topic', n3, end - position)
                o2_topic = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('topic', n3)
            o2_partitions: list[FetchPartition]
            n4, = _unpack_i(buffer, position)
            position += 4
            if n4 >= 0:
                if n4 * 24 > end - position:
                    raise too_many('partitions', n4, 24, end - position)
                budget -= n4 * 4
                if budget < 0:
                    raise over_budget('partitions')
                s6 = position + n4 * 24
                o2_partitions = [(o5_partition, -1, o5_fetch_offset, -1, o5_log_start_offset, o5_partition_max_bytes, NO_UUID) for o5_partition, o5_fetch_offset, o5_log_start_offset, o5_partition_max_bytes in _rows_iqqi(buffer[position:s6])]
                position = s6
            else:
                raise bad_null('partitions', n4)
            m_topics.append((o2_topic, o2_partitions))
    else:
        raise bad_null('topics', n1)
    m_forgotten_topics_data: list[ForgottenTopic]
    n7, = _unpack_i(buffer, position)
    position += 4
    if n7 >= 0:
        if n7 * 6 > end - position:
            raise too_many('forgottenTopicsData', n7, 6, end - position)
        budget -= n7 * 4
        if budget < 0:
            raise over_budget('forgottenTopicsData')
        m_forgotten_topics_data = []
        for _ in range(n7):
            n9, = _unpack_h(buffer, position)
            position += 2
            if n9 >= 0:
                stop = position + n9
                if stop > end:
                    raise too_long('topic', n9, end - position)
                o8_topic = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('topic', n9)
            o8_partitions: list[int]
            n10, = _unpack_i(buffer, position)
            position += 4
            if n10 >= 0:
                if n10 * 4 > end - position:
                    raise too_many('partitions', n10, 4, end - position)
                budget -= n10
                if budget < 0:
                    raise over_budget('partitions')
                if n10 < 16:
                    o8_partitions = list(UNPACK_INTS[n10](buffer, position))
                else:
                    o8_partitions = list(unpack_from(f'>{n10}i', buffer, position))
                position += n10 * 4
            else:
                raise bad_null('partitions', n10)
            m_forgotten_topics_data.append((o8_topic, o8_partitions))
    else:
        raise bad_null('forgottenTopicsData', n7)
    if position != end:
        raise left_over(end - position)
    return _new(FetchRequest, (m_replica_id, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, m_session_id, m_session_epoch, m_topics, m_forgotten_topics_data, '', None, None))


def _decode_9_to_10(buffer: bytes, position: int, budget: int) -> FetchRequest:
    end = len(buffer)
    m_topics: list[FetchTopic]
    m_replica_id, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, m_session_id, m_session_epoch, n1 = _unpack_iiiibiii(buffer, position)
    position += 29
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
                    raise too_long('topic', n3, end - position)
                o2_topic = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('topic', n3)
            o2_partitions: list[FetchPartition]
            n4, = _unpack_i(buffer, position)
            position += 4
            if n4 >= 0:
                if n4 * 28 > end - position:
                    raise too_many('partitions', n4, 28, end - position)
                budget -= n4 * 4
                if budget < 0:
                    raise over_budget('partitions')
                s6 = position + n4 * 28
                o2_partitions = [(o5_partition, o5_current_leader_epoch, o5_fetch_offset, -1, o5_log_start_offset, o5_partition_max_bytes, NO_UUID) for o5_partition, o5_current_leader_epoch, o5_fetch_offset, o5_log_start_offset, o5_partition_max_bytes in _rows_iiqqi(buffer[position:s6])]
                position = s6
            else:
                raise bad_null('partitions', n4)
            m_topics.append((o2_topic, o2_partitions))
    else:
        raise bad_null('topics', n1)
    m_forgotten_topics_data: list[ForgottenTopic]
    n7, = _unpack_i(buffer, position)
    position += 4
    if n7 >= 0:
        if n7 * 6 > end - position:
            raise too_many('forgottenTopicsData', n7, 6, end - position)
        budget -= n7 * 4
        if budget < 0:
            raise over_budget('forgottenTopicsData')
        m_forgotten_topics_data = []
        for _ in range(n7):
            n9, = _unpack_h(buffer, position)
            position += 2
            if n9 >= 0:
                stop = position + n9
                if stop > end:
                    raise too_long('topic', n9, end - position)
                o8_topic = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('topic', n9)
            o8_partitions: list[int]
            n10, = _unpack_i(buffer, position)
            position += 4
            if n10 >= 0:
                if n10 * 4 > end - position:
                    raise too_many('partitions', n10, 4, end - position)
                budget -= n10
                if budget < 0:
                    raise over_budget('partitions')
                if n10 < 16:
                    o8_partitions = list(UNPACK_INTS[n10](buffer, position))
                else:
                    o8_partitions = list(unpack_from(f'>{n10}i', buffer, position))
                position += n10 * 4
            else:
                raise bad_null('partitions', n10)
            m_forgotten_topics_data.append((o8_topic, o8_partitions))
    else:
        raise bad_null('forgottenTopicsData', n7)
    if position != end:
        raise left_over(end - position)
    return _new(FetchRequest, (m_replica_id, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, m_session_id, m_session_epoch, m_topics, m_forgotten_topics_data, '', None, None))


def _decode_11(buffer: bytes, position: int, budget: int) -> FetchRequest:
    end = len(buffer)
    m_topics: list[FetchTopic]
    m_replica_id, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, m_session_id, m_session_epoch, n1 = _unpack_iiiibiii(buffer, position)
    position += 29
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
                    raise too_long('topic', n3, end - position)
                o2_topic = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('topic', n3)
            o2_partitions: list[FetchPartition]
            n4, = _unpack_i(buffer, position)
            position += 4
            if n4 >= 0:
                if n4 * 28 > end - position:
                    raise too_many('partitions', n4, 28, end - position)
                budget -= n4 * 4
                if budget < 0:
                    raise over_budget('partitions')
                s6 = position + n4 * 28
                o2_partitions = [(o5_partition, o5_current_leader_epoch, o5_fetch_offset, -1, o5_log_start_offset, o5_partition_max_bytes, NO_UUID) for o5_partition, o5_current_leader_epoch, o5_fetch_offset, o5_log_start_offset, o5_partition_max_bytes in _rows_iiqqi(buffer[position:s6])]
                position = s6
            else:
                raise bad_null('partitions', n4)
            m_topics.append((o2_topic, o2_partitions))
    else:
        raise bad_null('topics', n1)
    m_forgotten_topics_data: list[ForgottenTopic]
    n7, = _unpack_i(buffer, position)
    position += 4
    if n7 >= 0:
        if n7 * 6 > end - position:
            raise too_many('forgottenTopicsData', n7, 6, end - position)
        budget -= n7 * 4
        if budget < 0:
            raise over_budget('forgottenTopicsData')
        m_forgotten_topics_data = []
        for _ in range(n7):
            n9, = _unpack_h(buffer, position)
            position += 2
            if n9 >= 0:
                stop = position + n9
                if stop > end:
                    raise too_long('topic', n9, end - position)
                o8_topic = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('topic', n9)
            o8_partitions: list[int]
            n10, = _unpack_i(buffer, position)
            position += 4
            if n10 >= 0:
                if n10 * 4 > end - position:
                    raise too_many('partitions', n10, 4, end - position)
                budget -= n10
                if budget < 0:
                    raise over_budget('partitions')
                if n10 < 16:
                    o8_partitions = list(UNPACK_INTS[n10](buffer, position))
                else:
                    o8_partitions = list(unpack_from(f'>{n10}i', buffer, position))
                position += n10 * 4
            else:
                raise bad_null('partitions', n10)
            m_forgotten_topics_data.append((o8_topic, o8_partitions))
    else:
        raise bad_null('forgottenTopicsData', n7)
    n11, = _unpack_h(buffer, position)
    position += 2
    if n11 >= 0:
        stop = position + n11
        if stop > end:
            raise too_long('rackId', n11, end - position)
        m_rack_id = buffer[position:stop].decode()
        position = stop
    else:
        raise bad_null('rackId', n11)
    if position != end:
        raise left_over(end - position)
    return _new(FetchRequest, (m_replica_id, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, m_session_id, m_session_epoch, m_topics, m_forgotten_topics_data, m_rack_id, None, None))


def _decode_12(buffer: bytes, position: int, budget: int) -> FetchRequest:
    end = len(buffer)
    m_cluster_id: str | None = None
    m_topics: list[FetchTopic]
    m_replica_id, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, m_session_id, m_session_epoch, n1 = _unpack_iiiibiiB(buffer, position)
    position += 26
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
                    raise too_long('topic', n3, end - position)
                o2_topic = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('topic', n3)
            o2_partitions: list[FetchPartition]
            n4 = buffer[position]
            position += 1
            if n4 > 127:
                n4, position = read_uvarint(buffer, position - 1)
            n4 -= 1
            if n4 >= 0:
                if n4 * 33 > end - position:
                    raise too_many('partitions', n4, 33, end - position)
                budget -= n4 * 4
                if budget < 0:
                    raise over_budget('partitions')
                o2_partitions = []
                for _ in range(n4):
                    o5_partition, o5_current_leader_epoch, o5_fetch_offset, o5_last_fetched_epoch, o5_log_start_offset, o5_partition_max_bytes, n6 = _unpack_iiqiqiB(buffer, position)
                    position += 33
                    if n6:
                        budget -= n6 * 4
                        if budget < 0:
                            raise over_budget('tagged fields')
                        position = skip_tagged_fields(buffer, position - 1)
                    o2_partitions.append((o5_partition, o5_current_leader_epoch, o5_fetch_offset, o5_last_fetched_epoch, o5_log_start_offset, o5_partition_max_bytes, NO_UUID))
            else:
                raise bad_null('partitions', n4)
            n7 = buffer[position]
            position += 1
            if n7:
                budget -= n7 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            m_topics.append((o2_topic, o2_partitions))
    else:
        raise bad_null('topics', n1)
    m_forgotten_topics_data: list[ForgottenTopic]
    n8 = buffer[position]
    position += 1
    if n8 > 127:
        n8, position = read_uvarint(buffer, position - 1)
    n8 -= 1
    if n8 >= 0:
        if n8 * 3 > end - position:
            raise too_many('forgottenTopicsData', n8, 3, end - position)
        budget -= n8 * 4
        if budget < 0:
            raise over_budget('forgottenTopicsData')
        m_forgotten_topics_data = []
        for _ in range(n8):
            n10 = buffer[position]
            position += 1
            if n10 > 127:
                n10, position = read_uvarint(buffer, position - 1)
            n10 -= 1
            if n10 >= 0:
                stop = position + n10
                if stop > end or n10 > 32767:
                    raise too_long('topic', n10, end - position)
                o9_topic = buffer[position:stop].decode()
                position = stop
            else:
                raise bad_null('topic', n10)
            o9_partitions: list[int]
            n11 = buffer[position]
            position += 1
            if n11 > 127:
                n11, position = read_uvarint(buffer, position - 1)
            n11 -= 1
            if n11 >= 0:
                if n11 * 4 > end - position:
                    raise too_many('partitions', n11, 4, end - position)
                budget -= n11
                if budget < 0:
                    raise over_budget('partitions')
                if n11 < 16:
                    o9_partitions = list(UNPACK_INTS[n11](buffer, position))
                else:
                    o9_partitions = list(unpack_from(f'>{n11}i', buffer, position))
                position += n11 * 4
            else:
                raise bad_null('partitions', n11)
            n12 = buffer[position]
            position += 1
            if n12:
                budget -= n12 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            m_forgotten_topics_data.append((o9_topic, o9_partitions))
    else:
        raise bad_null('forgottenTopicsData', n8)
    n13 = buffer[position]
    position += 1
    if n13 > 127:
        n13, position = read_uvarint(buffer, position - 1)
    n13 -= 1
    if n13 >= 0:
        stop = position + n13
        if stop > end or n13 > 32767:
            raise too_long('rackId', n13, end - position)
        m_rack_id = buffer[position:stop].decode()
        position = stop
    else:
        raise bad_null('rackId', n13)
    n14 = buffer[position]
    position += 1
    if n14:
        budget -= n14 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        n14, position = read_tag_count(buffer, position - 1)
        for _ in range(n14):
            t15, position, s16 = read_tag(buffer, position)
            if t15 == 0:
                n17 = buffer[position]
                position += 1
                if n17 > 127:
                    n17, position = read_uvarint(buffer, position - 1)
                n17 -= 1
                if n17 >= 0:
                    stop = position + n17
                    if stop > end or n17 > 32767:
                        raise too_long('clusterId', n17, end - position)
                    m_cluster_id = buffer[position:stop].decode()
                    position = stop
                elif n17 == -1:
                    m_cluster_id = None
                else:
                    raise bad_null('clusterId', n17)
                if position != s16:
                    raise wrong_tag_size('clusterId')
            else:
                position = s16
    if position != end:
        raise left_over(end - position)
    return _new(FetchRequest, (m_replica_id, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, m_session_id, m_session_epoch, m_topics, m_forgotten_topics_data, m_rack_id, m_cluster_id, None))


def _decode_13_to_14(buffer: bytes, position: int, budget: int) -> FetchRequest:
    end = len(buffer)
    m_cluster_id: str | None = None
    m_topics: list[FetchTopic]
    m_replica_id, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, m_session_id, m_session_epoch, n1 = _unpack_iiiibiiB(buffer, position)
    position += 26
    if n1 > 127:
        n1, position = read_uvarint(buffer, position - 1)
    n1 -= 1
    if n1 >= 0:
        if n1 * 18 > end - position:
            raise too_many('topics', n1, 18, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('topics')
        m_topics = []
        for _ in range(n1):
            o2_partitions: list[FetchPartition]
            o2_topic_id, n3 = _unpack_16sB(buffer, position)
            position += 17
            if n3 > 127:
                n3, position = read_uvarint(buffer, position - 1)
            n3 -= 1
            if n3 >= 0:
                if n3 * 33 > end - position:
                    raise too_many('partitions', n3, 33, end - position)
                budget -= n3 * 4
                if budget < 0:
                    raise over_budget('partitions')
                o2_partitions = []
                for _ in range(n3):
                    o4_partition, o4_current_leader_epoch, o4_fetch_offset, o4_last_fetched_epoch, o4_log_start_offset, o4_partition_max_bytes, n5 = _unpack_iiqiqiB(buffer, position)
                    position += 33
                    if n5:
                        budget -= n5 * 4
                        if budget < 0:
                            raise over_budget('tagged fields')
                        position = skip_tagged_fields(buffer, position - 1)
                    o2_partitions.append((o4_partition, o4_current_leader_epoch, o4_fetch_offset, o4_last_fetched_epoch, o4_log_start_offset, o4_partition_max_bytes, NO_UUID))
            else:
                raise bad_null('partitions', n3)
            n6 = buffer[position]
            position += 1
            if n6:
                budget -= n6 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            m_topics.append((o2_topic_id, o2_partitions))
    else:
        raise bad_null('topics', n1)
    m_forgotten_topics_data: list[ForgottenTopic]
    n7 = buffer[position]
    position += 1
    if n7 > 127:
        n7, position = read_uvarint(buffer, position - 1)
    n7 -= 1
    if n7 >= 0:
        if n7 * 18 > end - position:
            raise too_many('forgottenTopicsData', n7, 18, end - position)
        budget -= n7 * 4
        if budget < 0:
            raise over_budget('forgottenTopicsData')
        m_forgotten_topics_data = []
        for _ in range(n7):
            o8_partitions: list[int]
            o8_topic_id, n9 = _unpack_16sB(buffer, position)
            position += 17
            if n9 > 127:
                n9, position = read_uvarint(buffer, position - 1)
            n9 -= 1
            if n9 >= 0:
                if n9 * 4 > end - position:
                    raise too_many('partitions', n9, 4, end - position)
                budget -= n9
                if budget < 0:
                    raise over_budget('partitions')
                if n9 < 16:
                    o8_partitions = list(UNPACK_INTS[n9](buffer, position))
                else:
                    o8_partitions = list(unpack_from(f'>{n9}i', buffer, position))
                position += n9 * 4
            else:
                raise bad_null('partitions', n9)
            n10 = buffer[position]
            position += 1
            if n10:
                budget -= n10 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            m_forgotten_topics_data.append((o8_topic_id, o8_partitions))
    else:
        raise bad_null('forgottenTopicsData', n7)
    n11 = buffer[position]
    position += 1
    if n11 > 127:
        n11, position = read_uvarint(buffer, position - 1)
    n11 -= 1
    if n11 >= 0:
        stop = position + n11
        if stop > end or n11 > 32767:
            raise too_long('rackId', n11, end - position)
        m_rack_id = buffer[position:stop].decode()
        position = stop
    else:
        raise bad_null('rackId', n11)
    n12 = buffer[position]
    position += 1
    if n12:
        budget -= n12 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        n12, position = read_tag_count(buffer, position - 1)
        for _ in range(n12):
            t13, position, s14 = read_tag(buffer, position)
            if t13 == 0:
                n15 = buffer[position]
                position += 1
                if n15 > 127:
                    n15, position = read_uvarint(buffer, position - 1)
                n15 -= 1
                if n15 >= 0:
                    stop = position + n15
                    if stop > end or n15 > 32767:
                        raise too_long('clusterId', n15, end - position)
                    m_cluster_id = buffer[position:stop].decode()
                    position = stop
                elif n15 == -1:
                    m_cluster_id = None
                else:
                    raise bad_null('clusterId', n15)
                if position != s14:
                    raise wrong_tag_size('clusterId')
            else:
                position = s14
    if position != end:
        raise left_over(end - position)
    return _new(FetchRequest, (m_replica_id, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, m_session_id, m_session_epoch, m_topics, m_forgotten_topics_data, m_rack_id, m_cluster_id, None))


def _decode_15_to_16(buffer: bytes, position: int, budget: int) -> FetchRequest:
    end = len(buffer)
    m_cluster_id: str | None = None
    m_replica_state: ReplicaState | None = None
    m_topics: list[FetchTopic]
    m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, m_session_id, m_session_epoch, n1 = _unpack_iiibiiB(buffer, position)
    position += 22
    if n1 > 127:
        n1, position = read_uvarint(buffer, position - 1)
    n1 -= 1
    if n1 >= 0:
        if n1 * 18 > end - position:
            raise too_many('topics', n1, 18, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('topics')
        m_topics = []
        for _ in range(n1):
            o2_partitions: list[FetchPartition]
            o2_topic_id, n3 = _unpack_16sB(buffer, position)
            position += 17
            if n3 > 127:
                n3, position = read_uvarint(buffer, position - 1)
            n3 -= 1
            if n3 >= 0:
                if n3 * 33 > end - position:
                    raise too_many('partitions', n3, 33, end - position)
                budget -= n3 * 4
                if budget < 0:
                    raise over_budget('partitions')
                o2_partitions = []
                for _ in range(n3):
                    o4_partition, o4_current_leader_epoch, o4_fetch_offset, o4_last_fetched_epoch, o4_log_start_offset, o4_partition_max_bytes, n5 = _unpack_iiqiqiB(buffer, position)
                    position += 33
                    if n5:
                        budget -= n5 * 4
                        if budget < 0:
                            raise over_budget('tagged fields')
                        position = skip_tagged_fields(buffer, position - 1)
                    o2_partitions.append((o4_partition, o4_current_leader_epoch, o4_fetch_offset, o4_last_fetched_epoch, o4_log_start_offset, o4_partition_max_bytes, NO_UUID))
            else:
                raise bad_null('partitions', n3)
            n6 = buffer[position]
            position += 1
            if n6:
                budget -= n6 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            m_topics.append((o2_topic_id, o2_partitions))
    else:
        raise bad_null('topics', n1)
    m_forgotten_topics_data: list[ForgottenTopic]
    n7 = buffer[position]
    position += 1
    if n7 > 127:
        n7, position = read_uvarint(buffer, position - 1)
    n7 -= 1
    if n7 >= 0:
        if n7 * 18 > end - position:
            raise too_many('forgottenTopicsData', n7, 18, end - position)
        budget -= n7 * 4
        if budget < 0:
            raise over_budget('forgottenTopicsData')
        m_forgotten_topics_data = []
        for _ in range(n7):
            o8_partitions: list[int]
            o8_topic_id, n9 = _unpack_16sB(buffer, position)
            position += 17
            if n9 > 127:
                n9, position = read_uvarint(buffer, position - 1)
            n9 -= 1
            if n9 >= 0:
                if n9 * 4 > end - position:
                    raise too_many('partitions', n9, 4, end - position)
                budget -= n9
                if budget < 0:
                    raise over_budget('partitions')
                if n9 < 16:
                    o8_partitions = list(UNPACK_INTS[n9](buffer, position))
                else:
                    o8_partitions = list(unpack_from(f'>{n9}i', buffer, position))
                position += n9 * 4
            else:
                raise bad_null('partitions', n9)
            n10 = buffer[position]
            position += 1
            if n10:
                budget -= n10 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            m_forgotten_topics_data.append((o8_topic_id, o8_partitions))
    else:
        raise bad_null('forgottenTopicsData', n7)
    n11 = buffer[position]
    position += 1
    if n11 > 127:
        n11, position = read_uvarint(buffer, position - 1)
    n11 -= 1
    if n11 >= 0:
        stop = position + n11
        if stop > end or n11 > 32767:
            raise too_long('rackId', n11, end - position)
        m_rack_id = buffer[position:stop].decode()
        position = stop
    else:
        raise bad_null('rackId', n11)
    n12 = buffer[position]
    position += 1
    if n12:
        budget -= n12 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        n12, position = read_tag_count(buffer, position - 1)
        for _ in range(n12):
            t13, position, s14 = read_tag(buffer, position)
            if t13 == 0:
                n15 = buffer[position]
                position += 1
                if n15 > 127:
                    n15, position = read_uvarint(buffer, position - 1)
                n15 -= 1
                if n15 >= 0:
                    stop = position + n15
                    if stop > end or n15 > 32767:
                        raise too_long('clusterId', n15, end - position)
                    m_cluster_id = buffer[position:stop].decode()
                    position = stop
                elif n15 == -1:
                    m_cluster_id = None
                else:
                    raise bad_null('clusterId', n15)
                if position != s14:
                    raise wrong_tag_size('clusterId')
            elif t13 == 1:
                o16_replica_id, o16_replica_epoch, n17 = _unpack_iqB(buffer, position)
                position += 13
                if n17:
                    budget -= n17 * 4
                    if budget < 0:
                        raise over_budget('tagged fields')
                    position = skip_tagged_fields(buffer, position - 1)
                m_replica_state = (o16_replica_id, o16_replica_epoch)
                if position != s14:
                    raise wrong_tag_size('replicaState')
            else:
                position = s14
    if position != end:
        raise left_over(end - position)
    return _new(FetchRequest, (-1, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, m_session_id, m_session_epoch, m_topics, m_forgotten_topics_data, m_rack_id, m_cluster_id, m_replica_state))


def _decode_17(buffer: bytes, position: int, budget: int) -> FetchRequest:
    end = len(buffer)
    m_cluster_id: str | None = None
    m_replica_state: ReplicaState | None = None
    m_topics: list[FetchTopic]
    m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, m_session_id, m_session_epoch, n1 = _unpack_iiibiiB(buffer, position)
    position += 22
    if n1 > 127:
        n1, position = read_uvarint(buffer, position - 1)
    n1 -= 1
    if n1 >= 0:
        if n1 * 18 > end - position:
            raise too_many('topics', n1, 18, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('topics')
        m_topics = []
        for _ in range(n1):
            o2_partitions: list[FetchPartition]
            o2_topic_id, n3 = _unpack_16sB(buffer, position)
            position += 17
            if n3 > 127:
                n3, position = read_uvarint(buffer, position - 1)
            n3 -= 1
            if n3 >= 0:
                if n3 * 33 > end - position:
                    raise too_many('partitions', n3, 33, end - position)
                budget -= n3 * 4
                if budget < 0:
                    raise over_budget('partitions')
                o2_partitions = []
                for _ in range(n3):
                    o4_replica_directory_id: bytes = NO_UUID
                    o4_partition, o4_current_leader_epoch, o4_fetch_offset, o4_last_fetched_epoch, o4_log_start_offset, o4_partition_max_bytes, n5 = _unpack_iiqiqiB(buffer, position)
                    position += 33
                    if n5:
                        budget -= n5 * 4
                        if budget < 0:
                            raise over_budget('tagged fields')
                        n5, position = read_tag_count(buffer, position - 1)
                        for _ in range(n5):
                            t6, position, s7 = read_tag(buffer, position)
                            if t6 == 0:
                                o4_replica_directory_id, = _unpack_16s(buffer, position)
                                position += 16
                                if position != s7:
                                    raise wrong_tag_size('replicaDirectoryId')
                            else:
                                position = s7
                    o2_partitions.append((o4_partition, o4_current_leader_epoch, o4_fetch_offset, o4_last_fetched_epoch, o4_log_start_offset, o4_partition_max_bytes, o4_replica_directory_id))
            else:
                raise bad_null('partitions', n3)
            n8 = buffer[position]
            position += 1
            if n8:
                budget -= n8 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            m_topics.append((o2_topic_id, o2_partitions))
    else:
        raise bad_null('topics', n1)
    m_forgotten_topics_data: list[ForgottenTopic]
    n9 = buffer[position]
    position += 1
    if n9 > 127:
        n9, position = read_uvarint(buffer, position - 1)
    n9 -= 1
    if n9 >= 0:
        if n9 * 18 > end - position:
            raise too_many('forgottenTopicsData', n9, 18, end - position)
        budget -= n9 * 4
        if budget < 0:
            raise over_budget('forgottenTopicsData')
        m_forgotten_topics_data = []
        for _ in range(n9):
            o10_partitions: list[int]
            o10_topic_id, n11 = _unpack_16sB(buffer, position)
            position += 17
            if n11 > 127:
                n11, position = read_uvarint(buffer, position - 1)
            n11 -= 1
            if n11 >= 0:
                if n11 * 4 > end - position:
                    raise too_many('partitions', n11, 4, end - position)
                budget -= n11
                if budget < 0:
                    raise over_budget('partitions')
                if n11 < 16:
                    o10_partitions = list(UNPACK_INTS[n11](buffer, position))
                else:
                    o10_partitions = list(unpack_from(f'>{n11}i', buffer, position))
                position += n11 * 4
            else:
                raise bad_null('partitions', n11)
            n12 = buffer[position]
            position += 1
            if n12:
                budget -= n12 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            m_forgotten_topics_data.append((o10_topic_id, o10_partitions))
    else:
        raise bad_null('forgottenTopicsData', n9)
    n13 = buffer[position]
    position += 1
    if n13 > 127:
        n13, position = read_uvarint(buffer, position - 1)
    n13 -= 1
    if n13 >= 0:
        stop = position + n13
        if stop > end or n13 > 32767:
            raise too_long('rackId', n13, end - position)
        m_rack_id = buffer[position:stop].decode()
        position = stop
    else:
        raise bad_null('rackId', n13)
    n14 = buffer[position]
    position += 1
    if n14:
        budget -= n14 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        n14, position = read_tag_count(buffer, position - 1)
        for _ in range(n14):
            t15, position, s16 = read_tag(buffer, position)
            if t15 == 0:
                n17 = buffer[position]
                position += 1
                if n17 > 127:
                    n17, position = read_uvarint(buffer, position - 1)
                n17 -= 1
                if n17 >= 0:
                    stop = position + n17
                    if stop > end or n17 > 32767:
                        raise too_long('clusterId', n17, end - position)
                    m_cluster_id = buffer[position:stop].decode()
                    position = stop
                elif n17 == -1:
                    m_cluster_id = None
                else:
                    raise bad_null('clusterId', n17)
                if position != s16:
                    raise wrong_tag_size('clusterId')
            elif t15 == 1:
                o18_replica_id, o18_replica_epoch, n19 = _unpack_iqB(buffer, position)
                position += 13
                if n19:
                    budget -= n19 * 4
                    if budget < 0:
                        raise over_budget('tagged fields')
                    position = skip_tagged_fields(buffer, position - 1)
                m_replica_state = (o18_replica_id, o18_replica_epoch)
                if position != s16:
                    raise wrong_tag_size('replicaState')
            else:
                position = s16
    if position != end:
        raise left_over(end - position)
    return _new(FetchRequest, (-1, m_max_wait_ms, m_min_bytes, m_max_bytes, m_isolation_level, m_session_id, m_session_epoch, m_topics, m_forgotten_topics_data, m_rack_id, m_cluster_id, m_replica_state))


_DECODERS: dict[int, Callable[[bytes, int, int], FetchRequest]] = {
    4: _decode_4,
    5: _decode_5_to_6,
    6: _decode_5_to_6,
    7: _decode_7_to_8,
    8: _decode_7_to_8,
    9: _decode_9_to_10,
    10: _decode_9_to_10,
    11: _decode_11,
    12: _decode_12,
    13: _decode_13_to_14,
    14: _decode_13_to_14,
    15: _decode_15_to_16,
    16: _decode_15_to_16,
    17: _decode_17,
}


def encode(
    version: int,
    replica_id: int = -1,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    max_bytes: int = 2147483647,
    isolation_level: int = 0,
    session_id: int = 0,
    session_epoch: int = -1,
    topics: Sequence[FetchTopic] = (),
    forgotten_topics_data: Sequence[ForgottenTopic] = (),
    rack_id: str = '',
    cluster_id: str | None = None,
    replica_state: ReplicaState | None = None,
) -> bytes:
    return _ENCODERS[version](replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topics, forgotten_topics_data, rack_id, cluster_id, replica_state)


def _encode_12(replica_id: int, max_wait_ms: int, min_bytes: int, max_bytes: int, isolation_level: int, session_id: int, session_epoch: int, topics: Sequence[FetchTopic], forgotten_topics_data: Sequence[ForgottenTopic], rack_id: str, cluster_id: str | None, replica_state: ReplicaState | None) -> bytes:
    parts: list[Any] = []
    a1 = topics
    n2 = len(a1)
    n2 += 1
    if n2 < 128:
        parts.append(_pack_iiiibiiB(replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, n2))
    else:
        parts.append(_pack_iiiibii(replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch))
        parts.append(uvarint(n2))
    for o3_topic, o3_partitions in a1:
        assert isinstance(o3_topic, str), 'a topic is str'
        b5 = o3_topic.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('topic', n4)
        n4 += 1
        parts.append(UVARINTS[n4] if n4 < 128 else uvarint(n4))
        parts.append(b5)
        a6 = o3_partitions
        n7 = len(a6)
        n7 += 1
        parts.append(UVARINTS[n7] if n7 < 128 else uvarint(n7))
        for o8_partition, o8_current_leader_epoch, o8_fetch_offset, o8_last_fetched_epoch, o8_log_start_offset, o8_partition_max_bytes, o8_replica_directory_id in a6:
            parts.append(_pack_iiqiqix(o8_partition, o8_current_leader_epoch, o8_fetch_offset, o8_last_fetched_epoch, o8_log_start_offset, o8_partition_max_bytes))
        parts.append(b'\x00')
    a9 = forgotten_topics_data
    n10 = len(a9)
    n10 += 1
    parts.append(UVARINTS[n10] if n10 < 128 else uvarint(n10))
    for o11_topic, o11_partitions in a9:
        assert isinstance(o11_topic, str), 'a topic is str'
        b13 = o11_topic.encode()
        n12 = len(b13)
        if n12 > 32767:
            raise unencodable('topic', n12)
        n12 += 1
        parts.append(UVARINTS[n12] if n12 < 128 else uvarint(n12))
        parts.append(b13)
        a14 = o11_partitions
        n15 = len(a14)
        n15 += 1
        parts.append(UVARINTS[n15] if n15 < 128 else uvarint(n15))
        if a14:
            parts.append(pack(f'>{len(a14)}i', *a14))
        parts.append(b'\x00')
    b17 = rack_id.encode()
    n16 = len(b17)
    if n16 > 32767:
        raise unencodable('rackId', n16)
    n16 += 1
    parts.append(UVARINTS[n16] if n16 < 128 else uvarint(n16))
    parts.append(b17)
    if cluster_id is not None:
        n18 = 0
        p19: list[Any] = []
        if cluster_id is not None:
            n18 += 1
            p20: list[Any] = []
            if cluster_id is None:
                b23 = b''
                n22 = -1
            else:
                b23 = cluster_id.encode()
                n22 = len(b23)
            if n22 > 32767:
                raise unencodable('clusterId', n22)
            n22 += 1
            p20.append(UVARINTS[n22] if n22 < 128 else uvarint(n22))
            p20.append(b23)
            b21 = b''.join(p20)
            p19 += (uvarint(0), uvarint(len(b21)), b21)
        parts.append(uvarint(n18))
        parts.append(b''.join(p19))
    else:
        parts.append(b'\x00')
    return b''.join(parts)


def _encode_13_to_14(replica_id: int, max_wait_ms: int, min_bytes: int, max_bytes: int, isolation_level: int, session_id: int, session_epoch: int, topics: Sequence[FetchTopic], forgotten_topics_data: Sequence[ForgottenTopic], rack_id: str, cluster_id: str | None, replica_state: ReplicaState | None) -> bytes:
    parts: list[Any] = []
    a1 = topics
    n2 = len(a1)
    n2 += 1
    if n2 < 128:
        parts.append(_pack_iiiibiiB(replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, n2))
    else:
        parts.append(_pack_iiiibii(replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch))
        parts.append(uvarint(n2))
    for o3_topic, o3_partitions in a1:
        if not o3_partitions:
            assert isinstance(o3_topic, bytes), 'a topic_id is bytes'
            parts.append(_pack_16sBx(o3_topic, 1))
        else:
            assert isinstance(o3_topic, bytes), 'a topic_id is bytes'
            a4 = o3_partitions
            n5 = len(a4)
            n5 += 1
            if n5 < 128:
                parts.append(_pack_16sB(o3_topic, n5))
            else:
                parts.append(_pack_16s(o3_topic))
                parts.append(uvarint(n5))
            for o6_partition, o6_current_leader_epoch, o6_fetch_offset, o6_last_fetched_epoch, o6_log_start_offset, o6_partition_max_bytes, o6_replica_directory_id in a4:
                parts.append(_pack_iiqiqix(o6_partition, o6_current_leader_epoch, o6_fetch_offset, o6_last_fetched_epoch, o6_log_start_offset, o6_partition_max_bytes))
            parts.append(b'\x00')
    a7 = forgotten_topics_data
    n8 = len(a7)
    n8 += 1
    parts.append(UVARINTS[n8] if n8 < 128 else uvarint(n8))
    for o9_topic, o9_partitions in a7:
        sizes11 = (len(o9_partitions),)
        pack10, o9_b0 = _shapes_16s_x.get(sizes11) or _shapes_16s_x.make(sizes11)
        parts.append(pack10(o9_topic, o9_b0, *o9_partitions))
    b13 = rack_id.encode()
    n12 = len(b13)
    if n12 > 32767:
        raise unencodable('rackId', n12)
    n12 += 1
    parts.append(UVARINTS[n12] if n12 < 128 else uvarint(n12))
    parts.append(b13)
    if cluster_id is not None:
        n14 = 0
        p15: list[Any] = []
        if cluster_id is not None:
            n14 += 1
            p16: list[Any] = []
            if cluster_id is None:
                b19 = b''
                n18 = -1
            else:
                b19 = cluster_id.encode()
                n18 = len(b19)
            if n18 > 32767:
                raise unencodable('clusterId', n18)
            n18 += 1
            p16.append(UVARINTS[n18] if n18 < 128 else uvarint(n18))
            p16.append(b19)
            b17 = b''.join(p16)
            p15 += (uvarint(0), uvarint(len(b17)), b17)
        parts.append(uvarint(n14))
        parts.append(b''.join(p15))
    else:
        parts.append(b'\x00')
    return b''.join(parts)


def _encode_15_to_16(replica_id: int, max_wait_ms: int, min_bytes: int, max_bytes: int, isolation_level: int, session_id: int, session_epoch: int, topics: Sequence[FetchTopic], forgotten_topics_data: Sequence[ForgottenTopic], rack_id: str, cluster_id: str | None, replica_state: ReplicaState | None) -> bytes:
    parts: list[Any] = []
    a1 = topics
    n2 = len(a1)
    n2 += 1
    if n2 < 128:
        parts.append(_pack_iiibiiB(max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, n2))
    else:
        parts.append(_pack_iiibii(max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch))
        parts.append(uvarint(n2))
    for o3_topic, o3_partitions in a1:
        if not o3_partitions:
            assert isinstance(o3_topic, bytes), 'a topic_id is bytes'
            parts.append(_pack_16sBx(o3_topic, 1))
        else:
            assert isinstance(o3_topic, bytes), 'a topic_id is bytes'
            a4 = o3_partitions
            n5 = len(a4)
            n5 += 1
            if n5 < 128:
                parts.append(_pack_16sB(o3_topic, n5))
            else:
                parts.append(_pack_16s(o3_topic))
                parts.append(uvarint(n5))
            for o6_partition, o6_current_leader_epoch, o6_fetch_offset, o6_last_fetched_epoch, o6_log_start_offset, o6_partition_max_bytes, o6_replica_directory_id in a4:
                parts.append(_pack_iiqiqix(o6_partition, o6_current_leader_epoch, o6_fetch_offset, o6_last_fetched_epoch, o6_log_start_offset, o6_partition_max_bytes))
            parts.append(b'\x00')
    a7 = forgotten_topics_data
    n8 = len(a7)
    n8 += 1
    parts.append(UVARINTS[n8] if n8 < 128 else uvarint(n8))
    for o9_topic, o9_partitions in a7:
        sizes11 = (len(o9_partitions),)
        pack10, o9_b0 = _shapes_16s_x.get(sizes11) or _shapes_16s_x.make(sizes11)
        parts.append(pack10(o9_topic, o9_b0, *o9_partitions))
    b13 = rack_id.encode()
    n12 = len(b13)
    if n12 > 32767:
        raise unencodable('rackId', n12)
    n12 += 1
    parts.append(UVARINTS[n12] if n12 < 128 else uvarint(n12))
    parts.append(b13)
    if cluster_id is not None or (replica_state is not None and replica_state != (-1, -1)):
        n14 = 0
        p15: list[Any] = []
        if cluster_id is not None:
            n14 += 1
            p16: list[Any] = []
            if cluster_id is None:
                b19 = b''
                n18 = -1
            else:
                b19 = cluster_id.encode()
                n18 = len(b19)
            if n18 > 32767:
                raise unencodable('clusterId', n18)
            n18 += 1
            p16.append(UVARINTS[n18] if n18 < 128 else uvarint(n18))
            p16.append(b19)
            b17 = b''.join(p16)
            p15 += (uvarint(0), uvarint(len(b17)), b17)
        if (replica_state is not None and replica_state != (-1, -1)):
            n14 += 1
            p20: list[Any] = []
            o22_replica_id, o22_replica_epoch = replica_state
            p20.append(_pack_iqx(o22_replica_id, o22_replica_epoch))
            b21 = b''.join(p20)
            p15 += (uvarint(1), uvarint(len(b21)), b21)
        parts.append(uvarint(n14))
        parts.append(b''.join(p15))
    else:
        parts.append(b'\x00')
    return b''.join(parts)


def _encode_17(replica_id: int, max_wait_ms: int, min_bytes: int, max_bytes: int, isolation_level: int, session_id: int, session_epoch: int, topics: Sequence[FetchTopic], forgotten_topics_data: Sequence[ForgottenTopic], rack_id: str, cluster_id: str | None, replica_state: ReplicaState | None) -> bytes:
    parts: list[Any] = []
    a1 = topics
    n2 = len(a1)
    n2 += 1
    if n2 < 128:
        parts.append(_pack_iiibiiB(max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, n2))
    else:
        parts.append(_pack_iiibii(max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch))
        parts.append(uvarint(n2))
    for o3_topic, o3_partitions in a1:
        if not o3_partitions:
            assert isinstance(o3_topic, bytes), 'a topic_id is bytes'
            parts.append(_pack_16sBx(o3_topic, 1))
        else:
            assert isinstance(o3_topic, bytes), 'a topic_id is bytes'
            a4 = o3_partitions
            n5 = len(a4)
            n5 += 1
            if n5 < 128:
                parts.append(_pack_16sB(o3_topic, n5))
            else:
                parts.append(_pack_16s(o3_topic))
                parts.append(uvarint(n5))
            for o6_partition, o6_current_leader_epoch, o6_fetch_offset, o6_last_fetched_epoch, o6_log_start_offset, o6_partition_max_bytes, o6_replica_directory_id in a4:
                if not (o6_replica_directory_id != b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00'):
                    parts.append(_pack_iiqiqix(o6_partition, o6_current_leader_epoch, o6_fetch_offset, o6_last_fetched_epoch, o6_log_start_offset, o6_partition_max_bytes))
                else:
                    if o6_replica_directory_id != b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00':
                        parts.append(_pack_iiqiqi(o6_partition, o6_current_leader_epoch, o6_fetch_offset, o6_last_fetched_epoch, o6_log_start_offset, o6_partition_max_bytes))
                        n7 = 0
                        p8: list[Any] = []
                        if o6_replica_directory_id != b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00':
                            n7 += 1
                            p9: list[Any] = []
                            p9.append(_pack_16s(o6_replica_directory_id))
                            b10 = b''.join(p9)
                            p8 += (uvarint(0), uvarint(len(b10)), b10)
                        parts.append(uvarint(n7))
                        parts.append(b''.join(p8))
                    else:
                        parts.append(_pack_iiqiqix(o6_partition, o6_current_leader_epoch, o6_fetch_offset, o6_last_fetched_epoch, o6_log_start_offset, o6_partition_max_bytes))
            parts.append(b'\x00')
    a11 = forgotten_topics_data
    n12 = len(a11)
    n12 += 1
    parts.append(UVARINTS[n12] if n12 < 128 else uvarint(n12))
    for o13_topic, o13_partitions in a11:
        sizes15 = (len(o13_partitions),)
        pack14, o13_b0 = _shapes_16s_x.get(sizes15) or _shapes_16s_x.make(sizes15)
        parts.append(pack14(o13_topic, o13_b0, *o13_partitions))
    b17 = rack_id.encode()
    n16 = len(b17)
    if n16 > 32767:
        raise unencodable('rackId', n16)
    n16 += 1
    parts.append(UVARINTS[n16] if n16 < 128 else uvarint(n16))
    parts.append(b17)
    if cluster_id is not None or (replica_state is not None and replica_state != (-1, -1)):
        n18 = 0
        p19: list[Any] = []
        if cluster_id is not None:
            n18 += 1
            p20: list[Any] = []
            if cluster_id is None:
                b23 = b''
                n22 = -1
            else:
                b23 = cluster_id.encode()
                n22 = len(b23)
            if n22 > 32767:
                raise unencodable('clusterId', n22)
            n22 += 1
            p20.append(UVARINTS[n22] if n22 < 128 else uvarint(n22))
            p20.append(b23)
            b21 = b''.join(p20)
            p19 += (uvarint(0), uvarint(len(b21)), b21)
        if (replica_state is not None and replica_state != (-1, -1)):
            n18 += 1
            p24: list[Any] = []
            o26_replica_id, o26_replica_epoch = replica_state
            p24.append(_pack_iqx(o26_replica_id, o26_replica_epoch))
            b25 = b''.join(p24)
            p19 += (uvarint(1), uvarint(len(b25)), b25)
        parts.append(uvarint(n18))
        parts.append(b''.join(p19))
    else:
        parts.append(b'\x00')
    return b''.join(parts)


_ENCODERS: dict[int, Callable[..., bytes]] = {
    12: _encode_12,
    13: _encode_13_to_14,
    14: _encode_13_to_14,
    15: _encode_15_to_16,
    16: _encode_15_to_16,
    17: _encode_17,
}
