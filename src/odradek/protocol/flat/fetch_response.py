"""FetchResponse (key 1) as tuples, decoded 12-17 and encoded 4-17.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/fetch.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable, Sequence
from struct import Struct, pack, unpack_from
from struct import error as struct_error
from typing import Any, NamedTuple

from odradek.protocol.errors import MalformedMessage, UnsupportedVersion
from odradek.protocol.primitives import ELEMENT_BUDGET, UVARINTS, Buffer, bad_null, left_over, over_budget, read_tag, read_tag_count, read_uvarint, size_of, skip_tagged_fields, too_long, too_many, unencodable, uvarint, wrong_tag_size


# producer_id, first_offset
AbortedTransaction = tuple[int, int]
# epoch, end_offset
EpochEndOffset = tuple[int, int]
# leader_id, leader_epoch
LeaderIdAndEpoch = tuple[int, int]
# end_offset, epoch
SnapshotId = tuple[int, int]
# partition_index, error_code, high_watermark, last_stable_offset, log_start_offset, aborted_transactions, preferred_read_replica, records, diverging_epoch, current_leader, snapshot_id
PartitionData = tuple[int, int, int, int, int, Sequence[AbortedTransaction] | None, int, Any, EpochEndOffset | None, LeaderIdAndEpoch | None, SnapshotId | None]
# topic_or_topic_id, partitions
FetchableTopicResponse = tuple[str | bytes, Sequence[PartitionData]]
# node_id, host, port, rack
NodeEndpoint = tuple[int, str, int, str | None]


class FetchResponse(NamedTuple):
    throttle_time_ms: int
    error_code: int
    session_id: int
    responses: Sequence[FetchableTopicResponse]
    node_endpoints: Sequence[NodeEndpoint]


_new = tuple.__new__
_pack_16s = Struct(">16s").pack
_pack_16sB = Struct(">16sB").pack
_pack_16sBx = Struct(">16sBx").pack
_pack_h = Struct(">h").pack
_pack_i = Struct(">i").pack
_pack_iB = Struct(">iB").pack
_pack_iBB = Struct(">iBB").pack
_pack_ihi = Struct(">ihi").pack
_pack_ihiB = Struct(">ihiB").pack
_pack_ihii = Struct(">ihii").pack
_pack_ihqqi = Struct(">ihqqi").pack
_pack_ihqqii = Struct(">ihqqii").pack
_pack_ihqqq = Struct(">ihqqq").pack
_pack_ihqqqB = Struct(">ihqqqB").pack
_pack_ihqqqBi = Struct(">ihqqqBi").pack
_pack_ihqqqBiB = Struct(">ihqqqBiB").pack
_pack_ihqqqBiBB = Struct(">ihqqqBiBB").pack
_pack_ihqqqi = Struct(">ihqqqi").pack
_pack_ihqqqii = Struct(">ihqqqii").pack
_pack_ihqqqiii = Struct(">ihqqqiii").pack
_pack_ii = Struct(">ii").pack
_pack_iix = Struct(">iix").pack
_pack_iqx = Struct(">iqx").pack
_pack_qix = Struct(">qix").pack
_pack_qq = Struct(">qq").pack
_pack_qqx = Struct(">qqx").pack
_unpack_16sB = Struct(">16sB").unpack_from
_unpack_iB = Struct(">iB").unpack_from
_unpack_ihiB = Struct(">ihiB").unpack_from
_unpack_ihqqqB = Struct(">ihqqqB").unpack_from
_unpack_iiB = Struct(">iiB").unpack_from
_unpack_iqB = Struct(">iqB").unpack_from
_unpack_qiB = Struct(">qiB").unpack_from
_unpack_qqB = Struct(">qqB").unpack_from


def decode(version: int, buffer: Buffer, offset: int = 0, *, budget: int = ELEMENT_BUDGET) -> FetchResponse:
    whole = buffer if type(buffer) is memoryview else memoryview(buffer)
    try:
        return _DECODERS[version](whole, offset, budget)
    except (struct_error, IndexError):
        raise MalformedMessage(f"FetchResponse version {version}: ends too early, after {len(whole) - offset} bytes") from None
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"FetchResponse version {version}: a string is not UTF-8 ({error.reason})") from None
    except MalformedMessage as error:
        raise MalformedMessage(f"FetchResponse version {version}: {error.message}") from None
    except KeyError:
        raise UnsupportedVersion(f"FetchResponse version {version} is not read here") from None


def _decode_12(buffer: memoryview, position: int, budget: int) -> FetchResponse:
    end = len(buffer)
    m_responses: list[FetchableTopicResponse]
    m_throttle_time_ms, m_error_code, m_session_id, n1 = _unpack_ihiB(buffer, position)
    position += 11
    if n1 > 127:
        n1, position = read_uvarint(buffer, position - 1)
    n1 -= 1
    if n1 >= 0:
        if n1 * 3 > end - position:
            raise too_many('responses', n1, 3, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('responses')
        m_responses = []
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
                o2_topic = str(buffer[position:stop], 'utf-8')
                position = stop
            else:
                raise bad_null('topic', n3)
            o2_partitions: list[PartitionData]
            n4 = buffer[position]
            position += 1
            if n4 > 127:
                n4, position = read_uvarint(buffer, position - 1)
            n4 -= 1
            if n4 >= 0:
                if n4 * 37 > end - position:
                    raise too_many('partitions', n4, 37, end - position)
                budget -= n4 * 4
                if budget < 0:
                    raise over_budget('partitions')
                o2_partitions = []
                for _ in range(n4):
                    o5_diverging_epoch: EpochEndOffset | None = None
                    o5_current_leader: LeaderIdAndEpoch | None = None
                    o5_snapshot_id: SnapshotId | None = None
                    o5_aborted_transactions: list[AbortedTransaction] | None
                    o5_partition_index, o5_error_code, o5_high_watermark, o5_last_stable_offset, o5_log_start_offset, n6 = _unpack_ihqqqB(buffer, position)
                    position += 31
                    if n6 > 127:
                        n6, position = read_uvarint(buffer, position - 1)
                    n6 -= 1
                    if n6 >= 0:
                        if n6 * 17 > end - position:
                            raise too_many('abortedTransactions', n6, 17, end - position)
                        budget -= n6 * 4
                        if budget < 0:
                            raise over_budget('abortedTransactions')
                        o5_aborted_transactions = []
                        for _ in range(n6):
                            o7_producer_id, o7_first_offset, n8 = _unpack_qqB(buffer, position)
                            position += 17
                            if n8:
                                budget -= n8 * 4
                                if budget < 0:
                                    raise over_budget('tagged fields')
                                position = skip_tagged_fields(buffer, position - 1)
                            o5_aborted_transactions.append((o7_producer_id, o7_first_offset))
                    elif n6 == -1:
                        o5_aborted_transactions = None
                    else:
                        raise bad_null('abortedTransactions', n6)
                    o5_records: Any
                    o5_preferred_read_replica, n9 = _unpack_iB(buffer, position)
                    position += 5
                    if n9 > 127:
                        n9, position = read_uvarint(buffer, position - 1)
                    n9 -= 1
                    if n9 >= 0:
                        stop = position + n9
                        if stop > end:
                            raise too_long('records', n9, end - position)
                        o5_records = buffer[position:stop]
                        position = stop
                    elif n9 == -1:
                        o5_records = None
                    else:
                        raise bad_null('records', n9)
                    n10 = buffer[position]
                    position += 1
                    if n10:
                        budget -= n10 * 4
                        if budget < 0:
                            raise over_budget('tagged fields')
                        n10, position = read_tag_count(buffer, position - 1)
                        for _ in range(n10):
                            t11, position, s12 = read_tag(buffer, position)
                            if t11 == 0:
                                o13_epoch, o13_end_offset, n14 = _unpack_iqB(buffer, position)
                                position += 13
                                if n14:
                                    budget -= n14 * 4
                                    if budget < 0:
                                        raise over_budget('tagged fields')
                                    position = skip_tagged_fields(buffer, position - 1)
                                o5_diverging_epoch = (o13_epoch, o13_end_offset)
                                if position != s12:
                                    raise wrong_tag_size('divergingEpoch')
                            elif t11 == 1:
                                o15_leader_id, o15_leader_epoch, n16 = _unpack_iiB(buffer, position)
                                position += 9
                                if n16:
                                    budget -= n16 * 4
                                    if budget < 0:
                                        raise over_budget('tagged fields')
                                    position = skip_tagged_fields(buffer, position - 1)
                                o5_current_leader = (o15_leader_id, o15_leader_epoch)
                                if position != s12:
                                    raise wrong_tag_size('currentLeader')
                            elif t11 == 2:
                                o17_end_offset, o17_epoch, n18 = _unpack_qiB(buffer, position)
                                position += 13
                                if n18:
                                    budget -= n18 * 4
                                    if budget < 0:
                                        raise over_budget('tagged fields')
                                    position = skip_tagged_fields(buffer, position - 1)
                                o5_snapshot_id = (o17_end_offset, o17_epoch)
                                if position != s12:
                                    raise wrong_tag_size('snapshotId')
                            else:
                                position = s12
                    o2_partitions.append((o5_partition_index, o5_error_code, o5_high_watermark, o5_last_stable_offset, o5_log_start_offset, o5_aborted_transactions, o5_preferred_read_replica, o5_records, o5_diverging_epoch, o5_current_leader, o5_snapshot_id))
            else:
                raise bad_null('partitions', n4)
            n19 = buffer[position]
            position += 1
            if n19:
                budget -= n19 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            m_responses.append((o2_topic, o2_partitions))
    else:
        raise bad_null('responses', n1)
    n20 = buffer[position]
    position += 1
    if n20:
        budget -= n20 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        position = skip_tagged_fields(buffer, position - 1)
    if position != end:
        raise left_over(end - position)
    return _new(FetchResponse, (m_throttle_time_ms, m_error_code, m_session_id, m_responses, []))


def _decode_13_to_15(buffer: memoryview, position: int, budget: int) -> FetchResponse:
    end = len(buffer)
    m_responses: list[FetchableTopicResponse]
    m_throttle_time_ms, m_error_code, m_session_id, n1 = _unpack_ihiB(buffer, position)
    position += 11
    if n1 > 127:
        n1, position = read_uvarint(buffer, position - 1)
    n1 -= 1
    if n1 >= 0:
        if n1 * 18 > end - position:
            raise too_many('responses', n1, 18, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('responses')
        m_responses = []
        for _ in range(n1):
            o2_partitions: list[PartitionData]
            o2_topic_id, n3 = _unpack_16sB(buffer, position)
            position += 17
            if n3 > 127:
                n3, position = read_uvarint(buffer, position - 1)
            n3 -= 1
            if n3 >= 0:
                if n3 * 37 > end - position:
                    raise too_many('partitions', n3, 37, end - position)
                budget -= n3 * 4
                if budget < 0:
                    raise over_budget('partitions')
                o2_partitions = []
                for _ in range(n3):
                    o4_diverging_epoch: EpochEndOffset | None = None
                    o4_current_leader: LeaderIdAndEpoch | None = None
                    o4_snapshot_id: SnapshotId | None = None
                    o4_aborted_transactions: list[AbortedTransaction] | None
                    o4_partition_index, o4_error_code, o4_high_watermark, o4_last_stable_offset, o4_log_start_offset, n5 = _unpack_ihqqqB(buffer, position)
                    position += 31
                    if n5 > 127:
                        n5, position = read_uvarint(buffer, position - 1)
                    n5 -= 1
                    if n5 >= 0:
                        if n5 * 17 > end - position:
                            raise too_many('abortedTransactions', n5, 17, end - position)
                        budget -= n5 * 4
                        if budget < 0:
                            raise over_budget('abortedTransactions')
                        o4_aborted_transactions = []
                        for _ in range(n5):
                            o6_producer_id, o6_first_offset, n7 = _unpack_qqB(buffer, position)
                            position += 17
                            if n7:
                                budget -= n7 * 4
                                if budget < 0:
                                    raise over_budget('tagged fields')
                                position = skip_tagged_fields(buffer, position - 1)
                            o4_aborted_transactions.append((o6_producer_id, o6_first_offset))
                    elif n5 == -1:
                        o4_aborted_transactions = None
                    else:
                        raise bad_null('abortedTransactions', n5)
                    o4_records: Any
                    o4_preferred_read_replica, n8 = _unpack_iB(buffer, position)
                    position += 5
                    if n8 > 127:
                        n8, position = read_uvarint(buffer, position - 1)
                    n8 -= 1
                    if n8 >= 0:
                        stop = position + n8
                        if stop > end:
                            raise too_long('records', n8, end - position)
                        o4_records = buffer[position:stop]
                        position = stop
                    elif n8 == -1:
                        o4_records = None
                    else:
                        raise bad_null('records', n8)
                    n9 = buffer[position]
                    position += 1
                    if n9:
                        budget -= n9 * 4
                        if budget < 0:
                            raise over_budget('tagged fields')
                        n9, position = read_tag_count(buffer, position - 1)
                        for _ in range(n9):
                            t10, position, s11 = read_tag(buffer, position)
                            if t10 == 0:
                                o12_epoch, o12_end_offset, n13 = _unpack_iqB(buffer, position)
                                position += 13
                                if n13:
                                    budget -= n13 * 4
                                    if budget < 0:
                                        raise over_budget('tagged fields')
                                    position = skip_tagged_fields(buffer, position - 1)
                                o4_diverging_epoch = (o12_epoch, o12_end_offset)
                                if position != s11:
                                    raise wrong_tag_size('divergingEpoch')
                            elif t10 == 1:
                                o14_leader_id, o14_leader_epoch, n15 = _unpack_iiB(buffer, position)
                                position += 9
                                if n15:
                                    budget -= n15 * 4
                                    if budget < 0:
                                        raise over_budget('tagged fields')
                                    position = skip_tagged_fields(buffer, position - 1)
                                o4_current_leader = (o14_leader_id, o14_leader_epoch)
                                if position != s11:
                                    raise wrong_tag_size('currentLeader')
                            elif t10 == 2:
                                o16_end_offset, o16_epoch, n17 = _unpack_qiB(buffer, position)
                                position += 13
                                if n17:
                                    budget -= n17 * 4
                                    if budget < 0:
                                        raise over_budget('tagged fields')
                                    position = skip_tagged_fields(buffer, position - 1)
                                o4_snapshot_id = (o16_end_offset, o16_epoch)
                                if position != s11:
                                    raise wrong_tag_size('snapshotId')
                            else:
                                position = s11
                    o2_partitions.append((o4_partition_index, o4_error_code, o4_high_watermark, o4_last_stable_offset, o4_log_start_offset, o4_aborted_transactions, o4_preferred_read_replica, o4_records, o4_diverging_epoch, o4_current_leader, o4_snapshot_id))
            else:
                raise bad_null('partitions', n3)
            n18 = buffer[position]
            position += 1
            if n18:
                budget -= n18 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            m_responses.append((o2_topic_id, o2_partitions))
    else:
        raise bad_null('responses', n1)
    n19 = buffer[position]
    position += 1
    if n19:
        budget -= n19 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        position = skip_tagged_fields(buffer, position - 1)
    if position != end:
        raise left_over(end - position)
    return _new(FetchResponse, (m_throttle_time_ms, m_error_code, m_session_id, m_responses, []))


def _decode_16_to_17(buffer: memoryview, position: int, budget: int) -> FetchResponse:
    end = len(buffer)
    m_node_endpoints: Sequence[NodeEndpoint] = []
    m_responses: list[FetchableTopicResponse]
    m_throttle_time_ms, m_error_code, m_session_id, n1 = _unpack_ihiB(buffer, position)
    position += 11
    if n1 > 127:
        n1, position = read_uvarint(buffer, position - 1)
    n1 -= 1
    if n1 >= 0:
        if n1 * 18 > end - position:
            raise too_many('responses', n1, 18, end - position)
        budget -= n1 * 4
        if budget < 0:
            raise over_budget('responses')
        m_responses = []
        for _ in range(n1):
            o2_partitions: list[PartitionData]
            o2_topic_id, n3 = _unpack_16sB(buffer, position)
            position += 17
            if n3 > 127:
                n3, position = read_uvarint(buffer, position - 1)
            n3 -= 1
            if n3 >= 0:
                if n3 * 37 > end - position:
                    raise too_many('partitions', n3, 37, end - position)
                budget -= n3 * 4
                if budget < 0:
                    raise over_budget('partitions')
                o2_partitions = []
                for _ in range(n3):
                    o4_diverging_epoch: EpochEndOffset | None = None
                    o4_current_leader: LeaderIdAndEpoch | None = None
                    o4_snapshot_id: SnapshotId | None = None
                    o4_aborted_transactions: list[AbortedTransaction] | None
                    o4_partition_index, o4_error_code, o4_high_watermark, o4_last_stable_offset, o4_log_start_offset, n5 = _unpack_ihqqqB(buffer, position)
                    position += 31
                    if n5 > 127:
                        n5, position = read_uvarint(buffer, position - 1)
                    n5 -= 1
                    if n5 >= 0:
                        if n5 * 17 > end - position:
                            raise too_many('abortedTransactions', n5, 17, end - position)
                        budget -= n5 * 4
                        if budget < 0:
                            raise over_budget('abortedTransactions')
                        o4_aborted_transactions = []
                        for _ in range(n5):
                            o6_producer_id, o6_first_offset, n7 = _unpack_qqB(buffer, position)
                            position += 17
                            if n7:
                                budget -= n7 * 4
                                if budget < 0:
                                    raise over_budget('tagged fields')
                                position = skip_tagged_fields(buffer, position - 1)
                            o4_aborted_transactions.append((o6_producer_id, o6_first_offset))
                    elif n5 == -1:
                        o4_aborted_transactions = None
                    else:
                        raise bad_null('abortedTransactions', n5)
                    o4_records: Any
                    o4_preferred_read_replica, n8 = _unpack_iB(buffer, position)
                    position += 5
                    if n8 > 127:
                        n8, position = read_uvarint(buffer, position - 1)
                    n8 -= 1
                    if n8 >= 0:
                        stop = position + n8
                        if stop > end:
                            raise too_long('records', n8, end - position)
                        o4_records = buffer[position:stop]
                        position = stop
                    elif n8 == -1:
                        o4_records = None
                    else:
                        raise bad_null('records', n8)
                    n9 = buffer[position]
                    position += 1
                    if n9:
                        budget -= n9 * 4
                        if budget < 0:
                            raise over_budget('tagged fields')
                        n9, position = read_tag_count(buffer, position - 1)
                        for _ in range(n9):
                            t10, position, s11 = read_tag(buffer, position)
                            if t10 == 0:
                                o12_epoch, o12_end_offset, n13 = _unpack_iqB(buffer, position)
                                position += 13
                                if n13:
                                    budget -= n13 * 4
                                    if budget < 0:
                                        raise over_budget('tagged fields')
                                    position = skip_tagged_fields(buffer, position - 1)
                                o4_diverging_epoch = (o12_epoch, o12_end_offset)
                                if position != s11:
                                    raise wrong_tag_size('divergingEpoch')
                            elif t10 == 1:
                                o14_leader_id, o14_leader_epoch, n15 = _unpack_iiB(buffer, position)
                                position += 9
                                if n15:
                                    budget -= n15 * 4
                                    if budget < 0:
                                        raise over_budget('tagged fields')
                                    position = skip_tagged_fields(buffer, position - 1)
                                o4_current_leader = (o14_leader_id, o14_leader_epoch)
                                if position != s11:
                                    raise wrong_tag_size('currentLeader')
                            elif t10 == 2:
                                o16_end_offset, o16_epoch, n17 = _unpack_qiB(buffer, position)
                                position += 13
                                if n17:
                                    budget -= n17 * 4
                                    if budget < 0:
                                        raise over_budget('tagged fields')
                                    position = skip_tagged_fields(buffer, position - 1)
                                o4_snapshot_id = (o16_end_offset, o16_epoch)
                                if position != s11:
                                    raise wrong_tag_size('snapshotId')
                            else:
                                position = s11
                    o2_partitions.append((o4_partition_index, o4_error_code, o4_high_watermark, o4_last_stable_offset, o4_log_start_offset, o4_aborted_transactions, o4_preferred_read_replica, o4_records, o4_diverging_epoch, o4_current_leader, o4_snapshot_id))
            else:
                raise bad_null('partitions', n3)
            n18 = buffer[position]
            position += 1
            if n18:
                budget -= n18 * 4
                if budget < 0:
                    raise over_budget('tagged fields')
                position = skip_tagged_fields(buffer, position - 1)
            m_responses.append((o2_topic_id, o2_partitions))
    else:
        raise bad_null('responses', n1)
    n19 = buffer[position]
    position += 1
    if n19:
        budget -= n19 * 4
        if budget < 0:
            raise over_budget('tagged fields')
        n19, position = read_tag_count(buffer, position - 1)
        for _ in range(n19):
            t20, position, s21 = read_tag(buffer, position)
            if t20 == 0:
                n22 = buffer[position]
                position += 1
                if n22 > 127:
                    n22, position = read_uvarint(buffer, position - 1)
                n22 -= 1
                if n22 >= 0:
                    if n22 * 11 > end - position:
                        raise too_many('nodeEndpoints', n22, 11, end - position)
                    budget -= n22 * 4
                    if budget < 0:
                        raise over_budget('nodeEndpoints')
                    m_node_endpoints = []
                    for _ in range(n22):
                        o23_node_id, n24 = _unpack_iB(buffer, position)
                        position += 5
                        if n24 > 127:
                            n24, position = read_uvarint(buffer, position - 1)
                        n24 -= 1
                        if n24 >= 0:
                            stop = position + n24
                            if stop > end or n24 > 32767:
                                raise too_long('host', n24, end - position)
                            o23_host = str(buffer[position:stop], 'utf-8')
                            position = stop
                        else:
                            raise bad_null('host', n24)
                        o23_rack: str | None
                        o23_port, n25 = _unpack_iB(buffer, position)
                        position += 5
                        if n25 > 127:
                            n25, position = read_uvarint(buffer, position - 1)
                        n25 -= 1
                        if n25 >= 0:
                            stop = position + n25
                            if stop > end or n25 > 32767:
                                raise too_long('rack', n25, end - position)
                            o23_rack = str(buffer[position:stop], 'utf-8')
                            position = stop
                        elif n25 == -1:
                            o23_rack = None
                        else:
                            raise bad_null('rack', n25)
                        n26 = buffer[position]
                        position += 1
                        if n26:
                            budget -= n26 * 4
                            if budget < 0:
                                raise over_budget('tagged fields')
                            position = skip_tagged_fields(buffer, position - 1)
                        m_node_endpoints.append((o23_node_id, o23_host, o23_port, o23_rack))
                else:
                    raise bad_null('nodeEndpoints', n22)
                if position != s21:
                    raise wrong_tag_size('nodeEndpoints')
            else:
                position = s21
    if position != end:
        raise left_over(end - position)
    return _new(FetchResponse, (m_throttle_time_ms, m_error_code, m_session_id, m_responses, m_node_endpoints))


_DECODERS: dict[int, Callable[[memoryview, int, int], FetchResponse]] = {
    12: _decode_12,
    13: _decode_13_to_15,
    14: _decode_13_to_15,
    15: _decode_13_to_15,
    16: _decode_16_to_17,
    17: _decode_16_to_17,
}


def encode(
    version: int,
    throttle_time_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
    responses: Sequence[FetchableTopicResponse] = (),
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Any]:
    return _ENCODERS[version](throttle_time_ms, error_code, session_id, responses, node_endpoints)


def _encode_4(throttle_time_ms: int, error_code: int, session_id: int, responses: Sequence[FetchableTopicResponse], node_endpoints: Sequence[NodeEndpoint]) -> list[Any]:
    head = bytearray()
    buffers: list[Any] = []
    a1 = responses
    n2 = len(a1)
    head += _pack_ii(throttle_time_ms, n2)
    for o3_topic, o3_partitions in a1:
        assert isinstance(o3_topic, str), 'a topic is str'
        b5 = o3_topic.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('topic', n4)
        head += _pack_h(n4)
        head += b5
        a6 = o3_partitions
        n7 = len(a6)
        head += _pack_i(n7)
        for o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset, o8_aborted_transactions, o8_preferred_read_replica, o8_records, o8_diverging_epoch, o8_current_leader, o8_snapshot_id in a6:
            if not o8_aborted_transactions:
                z9 = 0 if o8_records is None else size_of(o8_records)
                head += _pack_ihqqii(o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, -1 if o8_aborted_transactions is None else 0, -1 if o8_records is None else z9)
                if z9:
                    buffers.append(head)
                    if isinstance(o8_records, list | tuple):
                        buffers += o8_records
                    else:
                        buffers.append(o8_records)
                    head = bytearray()
            else:
                a11 = o8_aborted_transactions or ()
                n12 = -1 if o8_aborted_transactions is None else len(a11)
                head += _pack_ihqqi(o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, n12)
                for o13_producer_id, o13_first_offset in a11:
                    head += _pack_qq(o13_producer_id, o13_first_offset)
                z14 = 0 if o8_records is None else size_of(o8_records)
                head += _pack_i(-1 if o8_records is None else z14)
                if z14:
                    buffers.append(head)
                    if isinstance(o8_records, list | tuple):
                        buffers += o8_records
                    else:
                        buffers.append(o8_records)
                    head = bytearray()
    buffers.append(head)
    return buffers


def _encode_5_to_6(throttle_time_ms: int, error_code: int, session_id: int, responses: Sequence[FetchableTopicResponse], node_endpoints: Sequence[NodeEndpoint]) -> list[Any]:
    head = bytearray()
    buffers: list[Any] = []
    a1 = responses
    n2 = len(a1)
    head += _pack_ii(throttle_time_ms, n2)
    for o3_topic, o3_partitions in a1:
        assert isinstance(o3_topic, str), 'a topic is str'
        b5 = o3_topic.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('topic', n4)
        head += _pack_h(n4)
        head += b5
        a6 = o3_partitions
        n7 = len(a6)
        head += _pack_i(n7)
        for o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset, o8_aborted_transactions, o8_preferred_read_replica, o8_records, o8_diverging_epoch, o8_current_leader, o8_snapshot_id in a6:
            if not o8_aborted_transactions:
                z9 = 0 if o8_records is None else size_of(o8_records)
                head += _pack_ihqqqii(o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset, -1 if o8_aborted_transactions is None else 0, -1 if o8_records is None else z9)
                if z9:
                    buffers.append(head)
                    if isinstance(o8_records, list | tuple):
                        buffers += o8_records
                    else:
                        buffers.append(o8_records)
                    head = bytearray()
            else:
                a11 = o8_aborted_transactions or ()
                n12 = -1 if o8_aborted_transactions is None else len(a11)
                head += _pack_ihqqqi(o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset, n12)
                for o13_producer_id, o13_first_offset in a11:
                    head += _pack_qq(o13_producer_id, o13_first_offset)
                z14 = 0 if o8_records is None else size_of(o8_records)
                head += _pack_i(-1 if o8_records is None else z14)
                if z14:
                    buffers.append(head)
                    if isinstance(o8_records, list | tuple):
                        buffers += o8_records
                    else:
                        buffers.append(o8_records)
                    head = bytearray()
    buffers.append(head)
    return buffers


def _encode_7_to_10(throttle_time_ms: int, error_code: int, session_id: int, responses: Sequence[FetchableTopicResponse], node_endpoints: Sequence[NodeEndpoint]) -> list[Any]:
    head = bytearray()
    buffers: list[Any] = []
    a1 = responses
    n2 = len(a1)
    head += _pack_ihii(throttle_time_ms, error_code, session_id, n2)
    for o3_topic, o3_partitions in a1:
        assert isinstance(o3_topic, str), 'a topic is str'
        b5 = o3_topic.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('topic', n4)
        head += _pack_h(n4)
        head += b5
        a6 = o3_partitions
        n7 = len(a6)
        head += _pack_i(n7)
        for o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset, o8_aborted_transactions, o8_preferred_read_replica, o8_records, o8_diverging_epoch, o8_current_leader, o8_snapshot_id in a6:
            if not o8_aborted_transactions:
                z9 = 0 if o8_records is None else size_of(o8_records)
                head += _pack_ihqqqii(o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset, -1 if o8_aborted_transactions is None else 0, -1 if o8_records is None else z9)
                if z9:
                    buffers.append(head)
                    if isinstance(o8_records, list | tuple):
                        buffers += o8_records
                    else:
                        buffers.append(o8_records)
                    head = bytearray()
            else:
                a11 = o8_aborted_transactions or ()
                n12 = -1 if o8_aborted_transactions is None else len(a11)
                head += _pack_ihqqqi(o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset, n12)
                for o13_producer_id, o13_first_offset in a11:
                    head += _pack_qq(o13_producer_id, o13_first_offset)
                z14 = 0 if o8_records is None else size_of(o8_records)
                head += _pack_i(-1 if o8_records is None else z14)
                if z14:
                    buffers.append(head)
                    if isinstance(o8_records, list | tuple):
                        buffers += o8_records
                    else:
                        buffers.append(o8_records)
                    head = bytearray()
    buffers.append(head)
    return buffers


def _encode_11(throttle_time_ms: int, error_code: int, session_id: int, responses: Sequence[FetchableTopicResponse], node_endpoints: Sequence[NodeEndpoint]) -> list[Any]:
    head = bytearray()
    buffers: list[Any] = []
    a1 = responses
    n2 = len(a1)
    head += _pack_ihii(throttle_time_ms, error_code, session_id, n2)
    for o3_topic, o3_partitions in a1:
        assert isinstance(o3_topic, str), 'a topic is str'
        b5 = o3_topic.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('topic', n4)
        head += _pack_h(n4)
        head += b5
        a6 = o3_partitions
        n7 = len(a6)
        head += _pack_i(n7)
        for o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset, o8_aborted_transactions, o8_preferred_read_replica, o8_records, o8_diverging_epoch, o8_current_leader, o8_snapshot_id in a6:
            if not o8_aborted_transactions:
                z9 = 0 if o8_records is None else size_of(o8_records)
                head += _pack_ihqqqiii(o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset, -1 if o8_aborted_transactions is None else 0, o8_preferred_read_replica, -1 if o8_records is None else z9)
                if z9:
                    buffers.append(head)
                    if isinstance(o8_records, list | tuple):
                        buffers += o8_records
                    else:
                        buffers.append(o8_records)
                    head = bytearray()
            else:
                a11 = o8_aborted_transactions or ()
                n12 = -1 if o8_aborted_transactions is None else len(a11)
                head += _pack_ihqqqi(o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset, n12)
                for o13_producer_id, o13_first_offset in a11:
                    head += _pack_qq(o13_producer_id, o13_first_offset)
                z14 = 0 if o8_records is None else size_of(o8_records)
                head += _pack_ii(o8_preferred_read_replica, -1 if o8_records is None else z14)
                if z14:
                    buffers.append(head)
                    if isinstance(o8_records, list | tuple):
                        buffers += o8_records
                    else:
                        buffers.append(o8_records)
                    head = bytearray()
    buffers.append(head)
    return buffers


def _encode_12(throttle_time_ms: int, error_code: int, session_id: int, responses: Sequence[FetchableTopicResponse], node_endpoints: Sequence[NodeEndpoint]) -> list[Any]:
    head = bytearray()
    buffers: list[Any] = []
    a1 = responses
    n2 = len(a1)
    n2 += 1
    if n2 < 128:
        head += _pack_ihiB(throttle_time_ms, error_code, session_id, n2)
    else:
        head += _pack_ihi(throttle_time_ms, error_code, session_id)
        head += uvarint(n2)
    for o3_topic, o3_partitions in a1:
        assert isinstance(o3_topic, str), 'a topic is str'
        b5 = o3_topic.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('topic', n4)
        n4 += 1
        head += UVARINTS[n4] if n4 < 128 else uvarint(n4)
        head += b5
        a6 = o3_partitions
        n7 = len(a6)
        n7 += 1
        head += UVARINTS[n7] if n7 < 128 else uvarint(n7)
        for o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset, o8_aborted_transactions, o8_preferred_read_replica, o8_records, o8_diverging_epoch, o8_current_leader, o8_snapshot_id in a6:
            if not o8_aborted_transactions and not ((o8_diverging_epoch is not None and o8_diverging_epoch != (-1, -1))) and not ((o8_current_leader is not None and o8_current_leader != (-1, -1))) and not ((o8_snapshot_id is not None and o8_snapshot_id != (-1, -1))):
                z9 = 0 if o8_records is None else size_of(o8_records)
                n10 = 0 if o8_records is None else z9 + 1
                if n10 < 128:
                    head += _pack_ihqqqBiB(o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset, 0 if o8_aborted_transactions is None else 1, o8_preferred_read_replica, n10)
                elif n10 < 16384:
                    head += _pack_ihqqqBiBB(o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset, 0 if o8_aborted_transactions is None else 1, o8_preferred_read_replica, n10 & 127 | 128, n10 >> 7)
                else:
                    head += _pack_ihqqqBi(o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset, 0 if o8_aborted_transactions is None else 1, o8_preferred_read_replica)
                    head += uvarint(n10)
                if z9:
                    buffers.append(head)
                    if isinstance(o8_records, list | tuple):
                        buffers += o8_records
                    else:
                        buffers.append(o8_records)
                    head = bytearray()
                head += b'\x00'
            else:
                a11 = o8_aborted_transactions or ()
                n12 = -1 if o8_aborted_transactions is None else len(a11)
                n12 += 1
                if n12 < 128:
                    head += _pack_ihqqqB(o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset, n12)
                else:
                    head += _pack_ihqqq(o8_partition_index, o8_error_code, o8_high_watermark, o8_last_stable_offset, o8_log_start_offset)
                    head += uvarint(n12)
                for o13_producer_id, o13_first_offset in a11:
                    head += _pack_qqx(o13_producer_id, o13_first_offset)
                z14 = 0 if o8_records is None else size_of(o8_records)
                n15 = 0 if o8_records is None else z14 + 1
                if n15 < 128:
                    head += _pack_iB(o8_preferred_read_replica, n15)
                elif n15 < 16384:
                    head += _pack_iBB(o8_preferred_read_replica, n15 & 127 | 128, n15 >> 7)
                else:
                    head += _pack_i(o8_preferred_read_replica)
                    head += uvarint(n15)
                if z14:
                    buffers.append(head)
                    if isinstance(o8_records, list | tuple):
                        buffers += o8_records
                    else:
                        buffers.append(o8_records)
                    head = bytearray()
                if (o8_diverging_epoch is not None and o8_diverging_epoch != (-1, -1)) or (o8_current_leader is not None and o8_current_leader != (-1, -1)) or (o8_snapshot_id is not None and o8_snapshot_id != (-1, -1)):
                    n16 = 0
                    p17: list[Any] = []
                    if (o8_diverging_epoch is not None and o8_diverging_epoch != (-1, -1)):
                        n16 += 1
                        p18: list[Any] = []
                        o20_epoch, o20_end_offset = o8_diverging_epoch
                        p18.append(_pack_iqx(o20_epoch, o20_end_offset))
                        b19 = b''.join(p18)
                        p17 += (uvarint(0), uvarint(len(b19)), b19)
                    if (o8_current_leader is not None and o8_current_leader != (-1, -1)):
                        n16 += 1
                        p21: list[Any] = []
                        o23_leader_id, o23_leader_epoch = o8_current_leader
                        p21.append(_pack_iix(o23_leader_id, o23_leader_epoch))
                        b22 = b''.join(p21)
                        p17 += (uvarint(1), uvarint(len(b22)), b22)
                    if (o8_snapshot_id is not None and o8_snapshot_id != (-1, -1)):
                        n16 += 1
                        p24: list[Any] = []
                        o26_end_offset, o26_epoch = o8_snapshot_id
                        p24.append(_pack_qix(o26_end_offset, o26_epoch))
                        b25 = b''.join(p24)
                        p17 += (uvarint(2), uvarint(len(b25)), b25)
                    head += uvarint(n16)
                    head += b''.join(p17)
                else:
                    head += b'\x00'
        head += b'\x00'
    head += b'\x00'
    buffers.append(head)
    return buffers


def _encode_13_to_15(throttle_time_ms: int, error_code: int, session_id: int, responses: Sequence[FetchableTopicResponse], node_endpoints: Sequence[NodeEndpoint]) -> list[Any]:
    head = bytearray()
    buffers: list[Any] = []
    a1 = responses
    n2 = len(a1)
    n2 += 1
    if n2 < 128:
        head += _pack_ihiB(throttle_time_ms, error_code, session_id, n2)
    else:
        head += _pack_ihi(throttle_time_ms, error_code, session_id)
        head += uvarint(n2)
    for o3_topic, o3_partitions in a1:
        if not o3_partitions:
            assert isinstance(o3_topic, bytes), 'a topic_id is bytes'
            head += _pack_16sBx(o3_topic, 1)
        else:
            assert isinstance(o3_topic, bytes), 'a topic_id is bytes'
            a4 = o3_partitions
            n5 = len(a4)
            n5 += 1
            if n5 < 128:
                head += _pack_16sB(o3_topic, n5)
            else:
                head += _pack_16s(o3_topic)
                head += uvarint(n5)
            for o6_partition_index, o6_error_code, o6_high_watermark, o6_last_stable_offset, o6_log_start_offset, o6_aborted_transactions, o6_preferred_read_replica, o6_records, o6_diverging_epoch, o6_current_leader, o6_snapshot_id in a4:
                if not o6_aborted_transactions and not ((o6_diverging_epoch is not None and o6_diverging_epoch != (-1, -1))) and not ((o6_current_leader is not None and o6_current_leader != (-1, -1))) and not ((o6_snapshot_id is not None and o6_snapshot_id != (-1, -1))):
                    z7 = 0 if o6_records is None else size_of(o6_records)
                    n8 = 0 if o6_records is None else z7 + 1
                    if n8 < 128:
                        head += _pack_ihqqqBiB(o6_partition_index, o6_error_code, o6_high_watermark, o6_last_stable_offset, o6_log_start_offset, 0 if o6_aborted_transactions is None else 1, o6_preferred_read_replica, n8)
                    elif n8 < 16384:
                        head += _pack_ihqqqBiBB(o6_partition_index, o6_error_code, o6_high_watermark, o6_last_stable_offset, o6_log_start_offset, 0 if o6_aborted_transactions is None else 1, o6_preferred_read_replica, n8 & 127 | 128, n8 >> 7)
                    else:
                        head += _pack_ihqqqBi(o6_partition_index, o6_error_code, o6_high_watermark, o6_last_stable_offset, o6_log_start_offset, 0 if o6_aborted_transactions is None else 1, o6_preferred_read_replica)
                        head += uvarint(n8)
                    if z7:
                        buffers.append(head)
                        if isinstance(o6_records, list | tuple):
                            buffers += o6_records
                        else:
                            buffers.append(o6_records)
                        head = bytearray()
                    head += b'\x00'
                else:
                    a9 = o6_aborted_transactions or ()
                    n10 = -1 if o6_aborted_transactions is None else len(a9)
                    n10 += 1
                    if n10 < 128:
                        head += _pack_ihqqqB(o6_partition_index, o6_error_code, o6_high_watermark, o6_last_stable_offset, o6_log_start_offset, n10)
                    else:
                        head += _pack_ihqqq(o6_partition_index, o6_error_code, o6_high_watermark, o6_last_stable_offset, o6_log_start_offset)
                        head += uvarint(n10)
                    for o11_producer_id, o11_first_offset in a9:
                        head += _pack_qqx(o11_producer_id, o11_first_offset)
                    z12 = 0 if o6_records is None else size_of(o6_records)
                    n13 = 0 if o6_records is None else z12 + 1
                    if n13 < 128:
                        head += _pack_iB(o6_preferred_read_replica, n13)
                    elif n13 < 16384:
                        head += _pack_iBB(o6_preferred_read_replica, n13 & 127 | 128, n13 >> 7)
                    else:
                        head += _pack_i(o6_preferred_read_replica)
                        head += uvarint(n13)
                    if z12:
                        buffers.append(head)
                        if isinstance(o6_records, list | tuple):
                            buffers += o6_records
                        else:
                            buffers.append(o6_records)
                        head = bytearray()
                    if (o6_diverging_epoch is not None and o6_diverging_epoch != (-1, -1)) or (o6_current_leader is not None and o6_current_leader != (-1, -1)) or (o6_snapshot_id is not None and o6_snapshot_id != (-1, -1)):
                        n14 = 0
                        p15: list[Any] = []
                        if (o6_diverging_epoch is not None and o6_diverging_epoch != (-1, -1)):
                            n14 += 1
                            p16: list[Any] = []
                            o18_epoch, o18_end_offset = o6_diverging_epoch
                            p16.append(_pack_iqx(o18_epoch, o18_end_offset))
                            b17 = b''.join(p16)
                            p15 += (uvarint(0), uvarint(len(b17)), b17)
                        if (o6_current_leader is not None and o6_current_leader != (-1, -1)):
                            n14 += 1
                            p19: list[Any] = []
                            o21_leader_id, o21_leader_epoch = o6_current_leader
                            p19.append(_pack_iix(o21_leader_id, o21_leader_epoch))
                            b20 = b''.join(p19)
                            p15 += (uvarint(1), uvarint(len(b20)), b20)
                        if (o6_snapshot_id is not None and o6_snapshot_id != (-1, -1)):
                            n14 += 1
                            p22: list[Any] = []
                            o24_end_offset, o24_epoch = o6_snapshot_id
                            p22.append(_pack_qix(o24_end_offset, o24_epoch))
                            b23 = b''.join(p22)
                            p15 += (uvarint(2), uvarint(len(b23)), b23)
                        head += uvarint(n14)
                        head += b''.join(p15)
                    else:
                        head += b'\x00'
            head += b'\x00'
    head += b'\x00'
    buffers.append(head)
    return buffers


def _encode_16_to_17(throttle_time_ms: int, error_code: int, session_id: int, responses: Sequence[FetchableTopicResponse], node_endpoints: Sequence[NodeEndpoint]) -> list[Any]:
    head = bytearray()
    buffers: list[Any] = []
    a1 = responses
    n2 = len(a1)
    n2 += 1
    if n2 < 128:
        head += _pack_ihiB(throttle_time_ms, error_code, session_id, n2)
    else:
        head += _pack_ihi(throttle_time_ms, error_code, session_id)
        head += uvarint(n2)
    for o3_topic, o3_partitions in a1:
        if not o3_partitions:
            assert isinstance(o3_topic, bytes), 'a topic_id is bytes'
            head += _pack_16sBx(o3_topic, 1)
        else:
            assert isinstance(o3_topic, bytes), 'a topic_id is bytes'
            a4 = o3_partitions
            n5 = len(a4)
            n5 += 1
            if n5 < 128:
                head += _pack_16sB(o3_topic, n5)
            else:
                head += _pack_16s(o3_topic)
                head += uvarint(n5)
            for o6_partition_index, o6_error_code, o6_high_watermark, o6_last_stable_offset, o6_log_start_offset, o6_aborted_transactions, o6_preferred_read_replica, o6_records, o6_diverging_epoch, o6_current_leader, o6_snapshot_id in a4:
                if not o6_aborted_transactions and not ((o6_diverging_epoch is not None and o6_diverging_epoch != (-1, -1))) and not ((o6_current_leader is not None and o6_current_leader != (-1, -1))) and not ((o6_snapshot_id is not None and o6_snapshot_id != (-1, -1))):
                    z7 = 0 if o6_records is None else size_of(o6_records)
                    n8 = 0 if o6_records is None else z7 + 1
                    if n8 < 128:
                        head += _pack_ihqqqBiB(o6_partition_index, o6_error_code, o6_high_watermark, o6_last_stable_offset, o6_log_start_offset, 0 if o6_aborted_transactions is None else 1, o6_preferred_read_replica, n8)
                    elif n8 < 16384:
                        head += _pack_ihqqqBiBB(o6_partition_index, o6_error_code, o6_high_watermark, o6_last_stable_offset, o6_log_start_offset, 0 if o6_aborted_transactions is None else 1, o6_preferred_read_replica, n8 & 127 | 128, n8 >> 7)
                    else:
                        head += _pack_ihqqqBi(o6_partition_index, o6_error_code, o6_high_watermark, o6_last_stable_offset, o6_log_start_offset, 0 if o6_aborted_transactions is None else 1, o6_preferred_read_replica)
                        head += uvarint(n8)
                    if z7:
                        buffers.append(head)
                        if isinstance(o6_records, list | tuple):
                            buffers += o6_records
                        else:
                            buffers.append(o6_records)
                        head = bytearray()
                    head += b'\x00'
                else:
                    a9 = o6_aborted_transactions or ()
                    n10 = -1 if o6_aborted_transactions is None else len(a9)
                    n10 += 1
                    if n10 < 128:
                        head += _pack_ihqqqB(o6_partition_index, o6_error_code, o6_high_watermark, o6_last_stable_offset, o6_log_start_offset, n10)
                    else:
                        head += _pack_ihqqq(o6_partition_index, o6_error_code, o6_high_watermark, o6_last_stable_offset, o6_log_start_offset)
                        head += uvarint(n10)
                    for o11_producer_id, o11_first_offset in a9:
                        head += _pack_qqx(o11_producer_id, o11_first_offset)
                    z12 = 0 if o6_records is None else size_of(o6_records)
                    n13 = 0 if o6_records is None else z12 + 1
                    if n13 < 128:
                        head += _pack_iB(o6_preferred_read_replica, n13)
                    elif n13 < 16384:
                        head += _pack_iBB(o6_preferred_read_replica, n13 & 127 | 128, n13 >> 7)
                    else:
                        head += _pack_i(o6_preferred_read_replica)
                        head += uvarint(n13)
                    if z12:
                        buffers.append(head)
                        if isinstance(o6_records, list | tuple):
                            buffers += o6_records
                        else:
                            buffers.append(o6_records)
                        head = bytearray()
                    if (o6_diverging_epoch is not None and o6_diverging_epoch != (-1, -1)) or (o6_current_leader is not None and o6_current_leader != (-1, -1)) or (o6_snapshot_id is not None and o6_snapshot_id != (-1, -1)):
                        n14 = 0
                        p15: list[Any] = []
                        if (o6_diverging_epoch is not None and o6_diverging_epoch != (-1, -1)):
                            n14 += 1
                            p16: list[Any] = []
                            o18_epoch, o18_end_offset = o6_diverging_epoch
                            p16.append(_pack_iqx(o18_epoch, o18_end_offset))
                            b17 = b''.join(p16)
                            p15 += (uvarint(0), uvarint(len(b17)), b17)
                        if (o6_current_leader is not None and o6_current_leader != (-1, -1)):
                            n14 += 1
                            p19: list[Any] = []
                            o21_leader_id, o21_leader_epoch = o6_current_leader
                            p19.append(_pack_iix(o21_leader_id, o21_leader_epoch))
                            b20 = b''.join(p19)
                            p15 += (uvarint(1), uvarint(len(b20)), b20)
                        if (o6_snapshot_id is not None and o6_snapshot_id != (-1, -1)):
                            n14 += 1
                            p22: list[Any] = []
                            o24_end_offset, o24_epoch = o6_snapshot_id
                            p22.append(_pack_qix(o24_end_offset, o24_epoch))
                            b23 = b''.join(p22)
                            p15 += (uvarint(2), uvarint(len(b23)), b23)
                        head += uvarint(n14)
                        head += b''.join(p15)
                    else:
                        head += b'\x00'
            head += b'\x00'
    if node_endpoints:
        n25 = 0
        p26: list[Any] = []
        if node_endpoints:
            n25 += 1
            p27: list[Any] = []
            a29 = node_endpoints
            n30 = len(a29)
            n30 += 1
            p27.append(UVARINTS[n30] if n30 < 128 else uvarint(n30))
            for o31_node_id, o31_host, o31_port, o31_rack in a29:
                b33 = o31_host.encode()
                n32 = len(b33)
                if n32 > 32767:
                    raise unencodable('host', n32)
                n32 += 1
                if n32 < 128:
                    p27.append(_pack_iB(o31_node_id, n32))
                else:
                    p27.append(_pack_i(o31_node_id))
                    p27.append(uvarint(n32))
                p27.append(b33)
                if o31_rack is None:
                    b35 = b''
                    n34 = -1
                else:
                    b35 = o31_rack.encode()
                    n34 = len(b35)
                if n34 > 32767:
                    raise unencodable('rack', n34)
                n34 += 1
                if n34 < 128:
                    p27.append(_pack_iB(o31_port, n34))
                else:
                    p27.append(_pack_i(o31_port))
                    p27.append(uvarint(n34))
                p27.append(b35)
                p27.append(b'\x00')
            b28 = b''.join(p27)
            p26 += (uvarint(0), uvarint(len(b28)), b28)
        head += uvarint(n25)
        head += b''.join(p26)
    else:
        head += b'\x00'
    buffers.append(head)
    return buffers


_ENCODERS: dict[int, Callable[..., list[Any]]] = {
    4: _encode_4,
    5: _encode_5_to_6,
    6: _encode_5_to_6,
    7: _encode_7_to_10,
    8: _encode_7_to_10,
    9: _encode_7_to_10,
    10: _encode_7_to_10,
    11: _encode_11,
    12: _encode_12,
    13: _encode_13_to_15,
    14: _encode_13_to_15,
    15: _encode_13_to_15,
    16: _encode_16_to_17,
    17: _encode_16_to_17,
}
