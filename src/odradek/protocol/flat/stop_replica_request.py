"""StopReplicaRequest (key 5) as tuples, encoded 4-4.

Written by `python docs/generate.py` (protocol/flattening.py) from messages/stop_replica.py: change those.
"""

# fmt: off
# ruff: noqa

from collections.abc import Callable, Sequence
from struct import Struct, pack
from typing import Any

from odradek.protocol.primitives import UVARINTS, unencodable, uvarint


# partition_index, leader_epoch, delete_partition
StopReplicaPartitionState = tuple[int, int, bool]
# topic_name, partition_states
StopReplicaTopicState = tuple[str, Sequence[StopReplicaPartitionState]]


_pack_iiox = Struct(">ii?x").pack
_pack_ioiq = Struct(">i?iq").pack
_pack_ioiqB = Struct(">i?iqB").pack


def encode(
    version: int,
    controller_id: int = 0,
    is_k_raft_controller: bool = False,
    controller_epoch: int = 0,
    broker_epoch: int = -1,
    topic_states: Sequence[StopReplicaTopicState] = (),
) -> bytes:
    return _ENCODERS[version](controller_id, is_k_raft_controller, controller_epoch, broker_epoch, topic_states)


def _encode_4(controller_id: int, is_k_raft_controller: bool, controller_epoch: int, broker_epoch: int, topic_states: Sequence[StopReplicaTopicState]) -> bytes:
    parts: list[Any] = []
    a1 = topic_states
    n2 = len(a1)
    n2 += 1
    if n2 < 128:
        parts.append(_pack_ioiqB(controller_id, is_k_raft_controller, controller_epoch, broker_epoch, n2))
    else:
        parts.append(_pack_ioiq(controller_id, is_k_raft_controller, controller_epoch, broker_epoch))
        parts.append(uvarint(n2))
    for o3_topic_name, o3_partition_states in a1:
        b5 = o3_topic_name.encode()
        n4 = len(b5)
        if n4 > 32767:
            raise unencodable('topicName', n4)
        n4 += 1
        parts.append(UVARINTS[n4] if n4 < 128 else uvarint(n4))
        parts.append(b5)
        a6 = o3_partition_states
        n7 = len(a6)
        n7 += 1
        parts.append(UVARINTS[n7] if n7 < 128 else uvarint(n7))
        for o8_partition_index, o8_leader_epoch, o8_delete_partition in a6:
            parts.append(_pack_iiox(o8_partition_index, o8_leader_epoch, o8_delete_partition))
        parts.append(b'\x00')
    parts.append(b'\x00')
    return b''.join(parts)


_ENCODERS: dict[int, Callable[..., bytes]] = {
    4: _encode_4,
}
