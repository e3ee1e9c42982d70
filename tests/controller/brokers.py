"""Brokers that do what they are told, as far as a controller can see: the other half of a closed loop.

A leader asks by AlterPartition for every live replica it was told of to join its ISR; a broker told to delete
answers that it has; an answer or a request goes to whoever is controller. A controller that dies in the middle
is replaced by the next live broker. `until_quiet` runs the loop until nobody wants anything.

A replica in `lost` is on a disk that has failed: its broker does not use it, and says so to whoever asks.
"""

from dataclasses import dataclass, field

from odradek.controller.broker_requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from odradek.controller.core import ControllerCore
from odradek.controller.effects import Effects
from odradek.controller.events import Event, LeaderAndIsrAnswered, Requested, StopReplicaAnswered
from odradek.model.controller_requests import AlterPartitionAsked, AlterPartitionItem, IsrMember
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerEpoch, BrokerId, PartitionEpoch, TopicPartition
from tests.controller.world import ControllerDied, World

PATIENCE = 200  # events; a story that needs more goes round in circles


@dataclass
class Brokers:
    world: World
    told: dict[int, dict[TopicPartition, LeaderAndIsrPartition]] = field(default_factory=dict)
    holds: dict[int, set[TopicPartition]] = field(default_factory=dict)
    inbox: list[Event] = field(default_factory=list)
    # By broker; one that never lost a disk has no entry, and no word of it answers LeaderAndIsr.
    lost: dict[int, set[TopicPartition]] = field(default_factory=dict)
    deaths: int = 0
    seen: list[tuple[tuple[int, ...], int, tuple[int, ...]]] = field(
        default_factory=list
    )  # replicas, leader, ISR

    def do(self, event: Event) -> None:
        """Hand an event to the controller; if it dies of it, the next one takes over and the event is lost."""
        try:
            self.hear(self.world.step(event))
        except ControllerDied:
            self.deaths += 1
            self.take_over()

    def take_over(self) -> None:
        self.inbox.clear()  # answers to the dead controller are lost with it
        self.world.dies_after_write = 0
        self.world.core = ControllerCore(self.world.settings)
        live = sorted(self.world.registrations)
        heir = live[self.world.controller_epoch % len(live)]
        self.hear(self.world.elect(heir))

    def hear(self, effects: Effects) -> None:
        for request in effects.requests:
            if isinstance(request, UpdateMetadataRequest):
                continue
            own = self.world.registrations.get(request.broker)
            if own is None or own.epoch != request.broker_epoch:
                continue  # it is dead, or another incarnation
            if isinstance(request, LeaderAndIsrRequest):
                lost = self.lost.get(request.broker)
                for partition in request.partitions:
                    if not lost or partition.topic_partition not in lost:
                        self.lead_or_follow(request.broker, partition)
                if lost is not None:
                    self.inbox.append(leader_and_isr_answered(request, lost))
            elif isinstance(request, StopReplicaRequest):
                self.stop(request)

    def lead_or_follow(self, broker: BrokerId, partition: LeaderAndIsrPartition) -> None:
        where = partition.topic_partition
        before = self.told.setdefault(broker, {}).get(where)
        if before is not None and before.leader_epoch >= partition.leader_epoch:
            return  # row 147: acknowledged, and nothing changed
        self.told[broker][where] = partition
        self.holds.setdefault(broker, set()).add(where)

    def stop(self, request: StopReplicaRequest) -> None:
        deleted = frozenset(p.topic_partition for p in request.partitions if p.delete)
        lost = self.lost.get(request.broker, set())
        for partition in request.partitions:
            if partition.topic_partition in lost:
                continue
            self.told.setdefault(request.broker, {}).pop(partition.topic_partition, None)
            if partition.delete:
                self.holds.setdefault(request.broker, set()).discard(partition.topic_partition)
        errors = {
            p.topic_partition: ErrorCode.KAFKA_STORAGE_ERROR if p.topic_partition in lost else ErrorCode.NONE
            for p in request.partitions
        }
        self.inbox.append(
            StopReplicaAnswered(
                request.broker, request.broker_epoch, ErrorCode.NONE, errors, deleted, request.number
            )
        )

    def wishes(self) -> list[Event]:
        """AlterPartition of every leader whose ISR lacks a live replica."""
        asked: list[Event] = []
        for broker in sorted(self.told):
            if broker not in self.world.registrations:
                continue
            for where, partition in sorted(self.told[broker].items()):
                stored = self.world.states.get(where)
                if stored is None or stored.leader_and_isr.leader != broker or partition.leader != broker:
                    continue
                value = stored.leader_and_isr
                if value.leader_epoch != partition.leader_epoch:
                    continue
                joining = [
                    b
                    for b in partition.replicas
                    if b not in value.isr and where in self.told.get(b, {}) and b in self.world.registrations
                ]
                if not joining:
                    continue
                isr = tuple(IsrMember(b, BrokerEpoch(-1)) for b in (*value.isr, joining[0]))
                item = AlterPartitionItem(
                    None,
                    partition.topic_id,
                    where.partition,
                    value.leader_epoch,
                    PartitionEpoch(value.partition_epoch),
                    isr,
                )
                epoch = self.world.registrations[broker].epoch
                asked.append(Requested(0, AlterPartitionAsked(3, BrokerId(broker), epoch, (item,))))
        return asked

    def until_quiet(self) -> None:
        for _ in range(PATIENCE):
            if self.inbox:
                self.do(self.inbox.pop(0))
                continue
            wishes = self.wishes()
            if not wishes:
                return
            self.do(wishes[0])
        raise AssertionError(f"not quiet after {PATIENCE} events")


def leader_and_isr_answered(request: LeaderAndIsrRequest, lost: set[TopicPartition]) -> LeaderAndIsrAnswered:
    told = [partition.topic_partition for partition in request.partitions]
    errors = {where: ErrorCode.KAFKA_STORAGE_ERROR for where in told if where in lost}
    return LeaderAndIsrAnswered(
        request.broker, request.broker_epoch, ErrorCode.NONE, errors, request.partitions
    )
