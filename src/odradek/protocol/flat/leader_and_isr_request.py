"""LeaderAndIsrRequest (key 4) as tuples, encoded 7-7.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/leader_and_isr.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable, Iterable, Sequence
from struct import Struct, pack
from typing import Any

from odradek.protocol.primitives import UVARINTS, RowShapes, unencodable, uvarint


# partition_index, controller_epoch, leader, leader_epoch, isr, partition_epoch, replicas, adding_replicas, removing_replicas, is_new, leader_recovery_state, eligible_leader_replicas
LeaderAndIsrPartitionState = tuple[int, int, int, int, Sequence[int], int, Sequence[int], Sequence[int], Sequence[int], bool, int, Sequence[int]]
# topic_name, topic_id, partition_states
LeaderAndIsrTopicState = tuple[str, bytes, Sequence[bytes]]
# broker_id, host_name, port
LeaderAndIsrLiveLeader = tuple[int, str, int]


_pack_16s = Struct(">16s").pack
_pack_16sB = Struct(">16sB").pack
_pack_i = Struct(">i").pack
_pack_iB = Struct(">iB").pack
_pack_iiii = Struct(">iiii").pack
_pack_iiiiB = Struct(">iiiiB").pack
_pack_ioiqb = Struct(">i?iqb").pack
_pack_ioiqbB = Struct(">i?iqbB").pack
_pack_ix = Struct(">ix").pack
_pack_ob = Struct(">?b").pack
_pack_obx = Struct(">?bx").pack
_shapes_iiii_i___obx = RowShapes(('iiii', 'i', '', '', '?bx'), is_flexible=True)


def encode(
    version: int,
    controller_id: int = 0,
    is_k_raft_controller: bool = False,
    controller_epoch: int = 0,
    broker_epoch: int = -1,
    type: int = 0,
    topic_states: Sequence[bytes] = (),
    live_leaders: Sequence[LeaderAndIsrLiveLeader] = (),
) -> bytes:
    return _ENCODERS[version](controller_id, is_k_raft_controller, controller_epoch, broker_epoch, type, topic_states, live_leaders)


def _encode_7(controller_id: int, is_k_raft_controller: bool, controller_epoch: int, broker_epoch: int, type: int, topic_states: Sequence[bytes], live_leaders: Sequence[LeaderAndIsrLiveLeader]) -> bytes:
    parts: list[Any] = []
    a1 = topic_states
    n2 = len(a1)
    n2 += 1
    if n2 < 128:
        parts.append(_pack_ioiqbB(controller_id, is_k_raft_controller, controller_epoch, broker_epoch, type, n2))
    else:
        parts.append(_pack_ioiqb(controller_id, is_k_raft_controller, controller_epoch, broker_epoch, type))
        parts.append(uvarint(n2))
    parts += a1
    a3 = live_leaders
    n4 = len(a3)
    n4 += 1
    parts.append(UVARINTS[n4] if n4 < 128 else uvarint(n4))
    for o5_broker_id, o5_host_name, o5_port in a3:
        b7 = o5_host_name.encode()
        n6 = len(b7)
        if n6 > 32767:
            raise unencodable('hostName', n6)
        n6 += 1
        if n6 < 128:
            parts.append(_pack_iB(o5_broker_id, n6))
        else:
            parts.append(_pack_i(o5_broker_id))
            parts.append(uvarint(n6))
        parts.append(b7)
        parts.append(_pack_ix(o5_port))
    parts.append(b'\x00')
    return b''.join(parts)


_ENCODERS: dict[int, Callable[..., bytes]] = {
    7: _encode_7,
}


def encode_leader_and_isr_topic_states(version: int, rows: Iterable[LeaderAndIsrTopicState]) -> list[bytes]:
    """The bytes of each, for a message of this version."""
    return _LEADER_AND_ISR_TOPIC_STATES[version](rows)


def _encode_leader_and_isr_topic_states_7(rows: Iterable[LeaderAndIsrTopicState]) -> list[bytes]:
    parts: list[bytes] = []
    for o1_topic_name, o1_topic_id, o1_partition_states in rows:
        p2: list[Any] = []
        b4 = o1_topic_name.encode()
        n3 = len(b4)
        if n3 > 32767:
            raise unencodable('topicName', n3)
        n3 += 1
        p2.append(UVARINTS[n3] if n3 < 128 else uvarint(n3))
        p2.append(b4)
        a5 = o1_partition_states
        n6 = len(a5)
        n6 += 1
        if n6 < 128:
            p2.append(_pack_16sB(o1_topic_id, n6))
        else:
            p2.append(_pack_16s(o1_topic_id))
            p2.append(uvarint(n6))
        p2 += a5
        p2.append(b'\x00')
        parts.append(b''.join(p2))
    return parts


_LEADER_AND_ISR_TOPIC_STATES: dict[int, Callable[[Iterable[LeaderAndIsrTopicState]], list[bytes]]] = {
    7: _encode_leader_and_isr_topic_states_7,
}


def encode_leader_and_isr_partition_states(version: int, rows: Iterable[LeaderAndIsrPartitionState]) -> list[bytes]:
    """The bytes of each, for a message of this version."""
    return _LEADER_AND_ISR_PARTITION_STATES[version](rows)


def _encode_leader_and_isr_partition_states_7(rows: Iterable[LeaderAndIsrPartitionState]) -> list[bytes]:
    parts: list[bytes] = []
    for o1_partition_index, o1_controller_epoch, o1_leader, o1_leader_epoch, o1_isr, o1_partition_epoch, o1_replicas, o1_adding_replicas, o1_removing_replicas, o1_is_new, o1_leader_recovery_state, o1_eligible_leader_replicas in rows:
        if not (o1_eligible_leader_replicas):
            sizes3 = (len(o1_isr), len(o1_replicas), len(o1_adding_replicas), len(o1_removing_replicas))
            pack2, o1_b0, o1_b1, o1_b2, o1_b3 = _shapes_iiii_i___obx.get(sizes3) or _shapes_iiii_i___obx.make(sizes3)
            parts.append(pack2(o1_partition_index, o1_controller_epoch, o1_leader, o1_leader_epoch, o1_b0, *o1_isr, o1_partition_epoch, o1_b1, *o1_replicas, o1_b2, *o1_adding_replicas, o1_b3, *o1_removing_replicas, o1_is_new, o1_leader_recovery_state))
        else:
            p4: list[Any] = []
            a5 = o1_isr
            n6 = len(a5)
            n6 += 1
            if n6 < 128:
                p4.append(_pack_iiiiB(o1_partition_index, o1_controller_epoch, o1_leader, o1_leader_epoch, n6))
            else:
                p4.append(_pack_iiii(o1_partition_index, o1_controller_epoch, o1_leader, o1_leader_epoch))
                p4.append(uvarint(n6))
            if a5:
                p4.append(pack(f'>{len(a5)}i', *a5))
            a7 = o1_replicas
            n8 = len(a7)
            n8 += 1
            if n8 < 128:
                p4.append(_pack_iB(o1_partition_epoch, n8))
            else:
                p4.append(_pack_i(o1_partition_epoch))
                p4.append(uvarint(n8))
            if a7:
                p4.append(pack(f'>{len(a7)}i', *a7))
            a9 = o1_adding_replicas
            n10 = len(a9)
            n10 += 1
            p4.append(UVARINTS[n10] if n10 < 128 else uvarint(n10))
            if a9:
                p4.append(pack(f'>{len(a9)}i', *a9))
            a11 = o1_removing_replicas
            n12 = len(a11)
            n12 += 1
            p4.append(UVARINTS[n12] if n12 < 128 else uvarint(n12))
            if a11:
                p4.append(pack(f'>{len(a11)}i', *a11))
            if o1_eligible_leader_replicas:
                p4.append(_pack_ob(o1_is_new, o1_leader_recovery_state))
                n13 = 0
                p14: list[Any] = []
                if o1_eligible_leader_replicas:
                    n13 += 1
                    p15: list[Any] = []
                    a17 = o1_eligible_leader_replicas
                    n18 = len(a17)
                    n18 += 1
                    p15.append(UVARINTS[n18] if n18 < 128 else uvarint(n18))
                    if a17:
                        p15.append(pack(f'>{len(a17)}i', *a17))
                    b16 = b''.join(p15)
                    p14 += (uvarint(10000), uvarint(len(b16)), b16)
                p4.append(uvarint(n13))
                p4.append(b''.join(p14))
            else:
                p4.append(_pack_obx(o1_is_new, o1_leader_recovery_state))
            parts.append(b''.join(p4))
    return parts


_LEADER_AND_ISR_PARTITION_STATES: dict[int, Callable[[Iterable[LeaderAndIsrPartitionState]], list[bytes]]] = {
    7: _encode_leader_and_isr_partition_states_7,
}
