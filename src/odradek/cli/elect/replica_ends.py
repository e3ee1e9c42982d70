"""What each replica of a partition holds, asked of the replicas themselves.

ListOffsets with replica id -2 is answered by a follower too, and by a replica of a partition without a leader: the
log end offset. OffsetForLeaderEpoch (replica id -2 as well) tells the epoch of its last record. Together they are what
an unclean election must weigh.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient
    from odradek.model.ids import TopicPartition

DEBUGGING_REPLICA = -2
ASK_TIMEOUT_S = 5.0


class ReplicaEnd(NamedTuple):
    """`log_end_offset` None: it did not say, and `problem` is why. `last_epoch` -1: not known."""

    broker: int
    log_end_offset: int | None
    last_epoch: int = -1
    size_bytes: int | None = None
    problem: str = ""


def replica_ends(
    client: "SyncClient",
    partition: "TopicPartition",
    replicas: Iterable[int],
    *,
    leader_epoch: int | None = None,
    with_sizes: bool = False,
) -> list[ReplicaEnd]:
    """One entry a replica, in the order given. With `leader_epoch` the epoch of its last record too. Who asks of several partitions
    does so within `SyncClient.waiting_once`."""
    from odradek.client.sync_log_sizes import log_sizes
    from odradek.model.errors import OdradekError

    alive = client.cluster([]).brokers
    ends = []
    for broker in replicas:
        if broker not in alive:
            ends.append(ReplicaEnd(broker, None, problem="it is not alive"))
            continue
        try:
            offset = _log_end_offset(client, broker, partition)
            epoch = -1 if leader_epoch is None else _last_epoch(client, broker, partition, leader_epoch)
            size = log_sizes(client, broker, [partition]).get(partition) if with_sizes else None
        except OdradekError as error:
            ends.append(ReplicaEnd(broker, None, problem=str(error)))
            continue
        ends.append(ReplicaEnd(broker, offset, epoch, size))
    return ends


def _log_end_offset(client: "SyncClient", broker: int, partition: "TopicPartition") -> int:
    from odradek.client.sync import LATEST, answered
    from odradek.model.error_codes import ErrorCode
    from odradek.protocol.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsTopic,
    )

    wanted = ListOffsetsPartition(
        partition_index=partition.partition, current_leader_epoch=-1, timestamp=LATEST
    )
    request = ListOffsetsRequest(
        replica_id=DEBUGGING_REPLICA,
        isolation_level=0,
        topics=[ListOffsetsTopic(name=partition.topic, partitions=[wanted])],
    )
    (topic,) = client.call(broker, request).topics
    (answer,) = topic.partitions
    if answer.error_code != ErrorCode.NONE:
        raise answered(answer.error_code, f"broker {broker}, {partition}")
    return int(answer.offset)


def _last_epoch(client: "SyncClient", broker: int, partition: "TopicPartition", leader_epoch: int) -> int:
    """The epoch of the last record at or below `leader_epoch`; -1 where the broker will not say."""
    from odradek.model.error_codes import ErrorCode
    from odradek.protocol.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
        OffsetForLeaderTopic,
    )

    wanted = OffsetForLeaderPartition(
        partition=partition.partition, current_leader_epoch=-1, leader_epoch=leader_epoch
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=DEBUGGING_REPLICA,
        topics=[OffsetForLeaderTopic(topic=partition.topic, partitions=[wanted])],
    )
    (topic,) = client.call(broker, request).topics
    (answer,) = topic.partitions
    return int(answer.leader_epoch) if answer.error_code == ErrorCode.NONE else -1
