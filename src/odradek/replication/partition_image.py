"""What a partition holds beside its log, as values: for whoever stores it, compares it, or goes on from there."""

from typing import NamedTuple

from odradek.model.cluster import ReplicaAssignment
from odradek.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch
from odradek.replication.isr import IsrState


class FollowerImage(NamedTuple):
    """One of `FollowerState`. `proposed_epoch`: its broker epoch as the open AlterPartition names it; -1: none is open."""

    broker: BrokerId
    broker_epoch: BrokerEpoch
    log_end_offset: int
    last_fetch_time_ms: int
    last_caught_up_time_ms: int
    proposed_epoch: int


class PartitionImage(NamedTuple):
    """Not in it: who waits. An image is of a moment between two requests, and a new object has nobody waiting."""

    assignment: ReplicaAssignment
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    is_leader: bool
    leader_epoch_start_offset: int
    high_watermark: int
    state: IsrState
    followers: tuple[FollowerImage, ...]
    has_eligible: bool = False  # the controller calls a replica outside the ISR eligible
