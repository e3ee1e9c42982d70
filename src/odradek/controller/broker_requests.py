"""What a controller asks of a broker: LeaderAndIsr, UpdateMetadata, StopReplica, and what a survivor holds.

One object for each broker; what is the same for many is the same tuple, and encoded once.
"""

from typing import NamedTuple

from odradek.model.cluster import BrokerRegistration
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
)
from odradek.model.values import dataclass


class LeaderAndIsrPartition(NamedTuple):
    """One partition of LeaderAndIsr. `is_new` only for a replica in NewReplica: else a broker with a dead
    disk would make an empty copy."""

    topic_partition: TopicPartition
    topic_id: TopicId
    controller_epoch: ControllerEpoch
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    partition_epoch: int
    replicas: tuple[BrokerId, ...]
    adding_replicas: tuple[BrokerId, ...]
    removing_replicas: tuple[BrokerId, ...]
    is_new: bool
    leader_recovery_state: int
    elr: tuple[BrokerId, ...] = ()  # while there are any the leader commits nothing (decisions/0011)


class UpdateMetadataPartition(NamedTuple):
    """One partition of UpdateMetadata; leader -2 takes a deleted topic out of every cache (row 154)."""

    topic_partition: TopicPartition
    topic_id: TopicId
    controller_epoch: ControllerEpoch
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    partition_epoch: int
    replicas: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...]


class StopReplicaPartition(NamedTuple):
    """`leader_epoch` is -2 while the topic is being deleted, -1 if unknown (KIP-570)."""

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    delete: bool


@dataclass(frozen=True, slots=True)
class LeaderAndIsrRequest:
    """`live_leaders` are the registrations of the brokers named as leaders."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    partitions: tuple[LeaderAndIsrPartition, ...]
    live_leaders: tuple[BrokerRegistration, ...]


@dataclass(frozen=True, slots=True)
class UpdateMetadataRequest:
    """`live_brokers` replaces the receiver's list: always all live and shutting-down brokers. `is_whole`: so do `partitions`.

    Both tuples are the same objects for every broker that gets the same: encode them once.
    """

    broker: BrokerId
    broker_epoch: BrokerEpoch
    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    partitions: tuple[UpdateMetadataPartition, ...]
    live_brokers: tuple[BrokerRegistration, ...]
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class StopReplicaRequest:
    """`number` is not on the wire: the answer brings it back, so that it is not taken for another's (`stop_answers`)."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    partitions: tuple[StopReplicaPartition, ...]
    number: int = 0


@dataclass(frozen=True, slots=True)
class AskEndOffsets:
    """Ask what a survivor holds before an unclean election; answered by `EndOffsetsAnswered`. `number` is not on the wire: the
    answer brings it back, so that it is not taken for that to another question."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    partitions: tuple[tuple[TopicPartition, LeaderEpoch], ...]
    number: int | None = None


# Order for one broker and one event, as tests/golden/controller shows it:
# LeaderAndIsr, UpdateMetadata, StopReplica (row 171).
BrokerRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest | AskEndOffsets
